"""Privacy groups. Members deploy and call Solidity contracts; their nodes run them, invisible to all others.

A transaction spends the latest state of each account that it changes and makes the next one, and reads the latest state
of each account that it only looks at. Its info shows the members the message. An endorser runs the same and signs only
if its result is exactly the same: spends, reads, makes, logs and calls. Since a transaction is the effect of its
message among the accounts that it lists (`worlds.py`), endorsers agree about it whatever other accounts they know.

Every member's node coordinates and endorses, so all of them get all states, and only they.

The environment of a contract: no ether and no fees; `msg.sender` is the verifier of the `from` party; and no clock,
since members would have to agree on the time. `block.number` is the number of the called contract's state, which grows
by one with each transaction that changes it, and so is `block.timestamp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, TypeAlias

import msgspec

from rota.abi.codec import (
    SELECTOR_BYTES,
    Entry,
    decode_output,
    encode_input,
    explain_revert,
    read_entry,
    read_errors,
    read_hex,
)
from rota.abi.decoding import decode
from rota.domains.base import (
    Assembled,
    Assembly,
    AttestationPlan,
    Deployment,
    Domain,
    History,
    Known,
    NewState,
    Outcome,
    Proposal,
    Question,
    Refused,
    Rejected,
    Request,
    Reverted,
    Settled,
    party_of,
)
from rota.domains.contents import Role
from rota.domains.pente.accounts import Accounts
from rota.domains.pente.addresses import deployment_nonce
from rota.domains.pente.changes import pack_predecessor, pack_slots
from rota.domains.pente.evm import Address, Ending, EvmVersion, Execution, Log, MakeEvm, Message
from rota.domains.pente.records import (
    NO_COMMITTER,
    NOTHING,
    AccountState,
    Deploy,
    Group,
    Invoke,
    NewGroup,
    PrivateLog,
    PrivateTransaction,
)
from rota.domains.pente.worlds import Latest, Ran, World
from rota.domains.records import LIST_MAX, OCTETS_MAX, Json, Record
from rota.model.digests import keccak
from rota.model.json_text import NotJson, read_json
from rota.model.types import (
    CALL_BYTES_MAX,
    Call,
    Contract,
    ContractAddress,
    Mode,
    Party,
    Preparation,
    SubmitMode,
    address_bytes,
    node_of,
)

MEMBERS_MAX: Final = 64
# As many signatures as the ledger contract takes.
NODES_MAX: Final = 32
GAS_MAX: Final = 30_000_000
# Limits for a group's setting of the gas for a call on the public ledger.
EXTERNAL_CALL_GAS_LEAST: Final = 25_000
EXTERNAL_CALL_GAS_MAX: Final = 5_000_000
EXTERNAL_CALLS_MAX: Final = 4
# Added to an estimate: the state may change until the call is made.
SPARE_PERCENT: Final = 25
SPARE_GAS: Final = 10_000
# The size limit of the states and the info of one transaction; they are written in hex, and one carries the info.
WRITTEN_BYTES_MAX: Final = 400_000
ENDORSEMENT_TYPES: Final = ("group_scoped_identities",)
# The call that carries out a transition of another private contract begins with the deciding contract of this group.
CARRY_SELECTOR: Final = keccak(b"carry(address,bytes,bytes,bytes32)")[:SELECTOR_BYTES]
DECIDER_END: Final = SELECTOR_BYTES + 32
NOTHING_PREPARED: Final = "this group forbids prepared transactions"

# A private contract emits this event to have a public one called (client API).
EXTERNAL_CALL_TOPIC: Final = keccak(b"PenteExternalCall(address,bytes)")

Work: TypeAlias = Assembly[Group]


@dataclass(frozen=True, slots=True)
class Pente(Domain[Group]):
    """See the module. `make_evm` makes the machines; each contract at each node has its own."""

    make_evm: MakeEvm

    name: ClassVar[str] = "pente"
    constructor: ClassVar[type[Record]] = NewGroup
    configuration: ClassVar[type[Record]] = Group
    functions: ClassVar[Mapping[str, type[Record]]] = {"deploy": Deploy, "invoke": Invoke}
    views: ClassVar[Mapping[str, type[Record]]] = {"call": Invoke}
    states: ClassVar[tuple[type[Record], ...]] = (AccountState, PrivateTransaction)
    calls_gas_max: ClassVar[int] = EXTERNAL_CALL_GAS_MAX * EXTERNAL_CALLS_MAX
    estimates_calls: ClassVar[bool] = True
    runs_code: ClassVar[bool] = True

    # Groups.

    def deploy(self, arguments: Record, sender: Party) -> Deployment[Group]:
        """A group of these members, whose nodes coordinate in turn and endorse."""
        assert isinstance(arguments, NewGroup), "the constructor's record"
        options = arguments.configuration
        members = tuple(
            party_of(f"members[{n}]", member, node_of(sender)) for n, member in enumerate(arguments.members)
        )
        nodes = dict.fromkeys(node_of(member) for member in members)
        if not 0 < len(members) <= MEMBERS_MAX or len(set(members)) < len(members):
            raise Rejected("members", f"must be 1 to {MEMBERS_MAX} parties, each of them once")
        if len(nodes) > NODES_MAX:
            raise Rejected("members", f"must be of at most {NODES_MAX} nodes, not {len(nodes)}")
        if options.endorsement_type not in ENDORSEMENT_TYPES:
            raise Rejected("configuration.endorsementType", f"must be {' or '.join(ENDORSEMENT_TYPES)}")
        if options.endorsement_threshold > len(nodes):
            raise Rejected("configuration.endorsementThreshold", f"must be at most {len(nodes)}, the members' nodes")
        version = _version("configuration.evmVersion", options.evm_version)
        _require_call_gas("configuration.externalCallGasMax", options.external_call_gas_max)
        group = Group(
            members,
            arguments.name,
            arguments.salt,
            version.value,
            options.external_calls_enabled,
            _properties(arguments.properties),
            options.prepared_transactions_enabled,
            options.external_call_gas_max,
        )
        plan = AttestationPlan.some_of(members, options.endorsement_threshold or None)
        return Deployment(plan, group, members)

    def configure(self, configuration: Group, contract: Contract) -> None:
        """Check that exactly the members' nodes coordinate and endorse: then all states go to all of them."""
        version = _version("evmVersion", configuration.evm_version).value
        if configuration.evm_version != version:
            raise Rejected("evmVersion", f"must be written as {version}")
        _require_call_gas("externalCallGasMax", configuration.external_call_gas_max)
        for number, member in enumerate(configuration.members):
            party_of(f"members[{number}]", member, node_of(member))
        nodes = tuple(dict.fromkeys(node_of(member) for member in configuration.members))
        if contract.mode is not Mode.RING or contract.committee != nodes or contract.endorsers != nodes:
            raise Rejected("members", "must be those whose nodes coordinate in turn and endorse")
        if contract.threshold < 1:
            raise Rejected("threshold", "must be at least 1")

    def memory(self, configuration: Group, contract: Contract) -> Accounts:
        """The folded accounts, with machines of their own."""
        return Accounts(partial(self.make_evm, EvmVersion(configuration.evm_version), contract.chain_id))

    def learn(self, memory: object, state: Known[Record]) -> None:
        """Add a state to the folded accounts."""
        assert isinstance(memory, Accounts), "what `memory` made"
        memory.learn(state)

    # Assembling.

    def init(self, request: Request[Group]) -> tuple[Party, ...]:
        """Check that a member sends it and that it can be encoded. The sender's address is needed."""
        _require_member(request.configuration, request.sender)
        if request.submit_mode is SubmitMode.EXTERNAL and not request.configuration.prepared_transactions_enabled:
            raise Rejected("submitMode", f"must be auto: {NOTHING_PREPARED}")
        _input_of(request.arguments)
        _errors_of(request.arguments)
        return (request.sender,)

    def assemble(self, work: Work) -> Outcome:
        """Run the message on the latest states."""
        _require_member(work.configuration, work.sender)
        latest = Latest(lambda: work.states, has_been=_accounts(work.memory).has_seen)
        message = _message(work, latest)
        ran = _world(work.memory, latest, work.history).run(message)
        if ran.execution.ending is not Ending.DONE:
            return Reverted(_reason(message, ran.execution, _errors_of(work.arguments)))
        return _with_gas(_transition_of(message, ran, latest, work.configuration), work)

    def prepare(self, work: Work) -> Preparation | None:
        """The one account that may commit it, if its user names one; else None."""
        arguments = work.arguments
        assert isinstance(arguments, Deploy | Invoke), "the functions' records"
        if not work.configuration.prepared_transactions_enabled:
            raise Rejected("submitMode", f"must be auto: {NOTHING_PREPARED}")
        if arguments.committer == NO_COMMITTER:
            return None
        return Preparation(arguments.committer, arguments.condition)

    # Endorsing.

    def may_act(self, configuration: Group, party: Party) -> bool:
        """Whether the party is a member, whatever other parties its node has."""
        return party in configuration.members

    def endorse(self, proposal: Proposal[Group]) -> None:
        """Run the same message among the listed accounts. `Refused` unless the result is the same."""
        _require_member(proposal.configuration, proposal.sender)
        if proposal.preparation is not None and not proposal.configuration.prepared_transactions_enabled:
            raise Refused(NOTHING_PREPARED)
        told = proposal.told(PrivateTransaction)
        if told.from_ != _address_of(proposal.verifiers, proposal.sender):
            raise Refused("it was not run as the party that sends it")
        spent, read = _listed(proposal.spends), _listed(proposal.reads)
        listed = spent | read
        if len(listed) != len(proposal.spends) + len(proposal.reads):
            raise Refused("an account is listed twice")
        # The latest states as known here, except for the listed accounts.
        latest = Latest(proposal.available, listed)
        message = _message_of(told, proposal, listed)
        world = _world(proposal.memory, latest, proposal.history)
        execution = world.run_among(message, tuple(listed))
        if execution.ending is not Ending.DONE:
            raise Refused(f"it does not succeed here: {_reason(message, execution, ())}")
        for address in world.missed(execution, tuple(listed)):
            raise Refused(f"it looks at account 0x{address.hex()}, which it does not list")
        _require_same(proposal, _transition_of(message, Ran(execution, tuple(listed)), latest, proposal.configuration))
        if not world.is_enough(message, execution, tuple(listed)):
            raise Refused("it depends on accounts that it does not list")

    # Answering.

    def call(self, question: Question[Group]) -> object:
        """A contract's answer now, decoded by the function's outputs; without a function, as hex."""
        _require_member(question.configuration, question.asker)
        arguments = question.arguments
        assert isinstance(arguments, Invoke), "the view's record"
        latest = Latest(lambda: question.states, has_been=_accounts(question.memory).has_seen)
        to = address_bytes(arguments.to)
        called = latest.get(to)
        if called is None:
            raise Rejected("to", f"must be a contract of this group, and {arguments.to} is none")
        sender = address_bytes(_address_of(question.verifiers, question.asker))
        number = called.record.number
        message = Message(sender, to, _input_of(arguments), _gas_of(arguments), number, number)
        ran = _world(question.memory, latest, question.history).run(message)
        if ran.execution.ending is not Ending.DONE:
            raise Rejected("", _reason(message, ran.execution, _errors_of(arguments)))
        entry = read_entry(arguments.function, "function") if arguments.function else None
        output = ran.execution.output
        return decode_output(entry.outputs, output, "output") if entry is not None else "0x" + output.hex()

    def explain(self, arguments: Record, revert: bytes) -> str | None:
        """Explain it by the errors that came with the request, which may include the public contract's."""
        errors = _errors_of(arguments)
        is_known = revert[:SELECTOR_BYTES] in [error.selector for error in errors]
        return explain_revert(revert, errors) if is_known else None

    def receipt(self, settled: Settled[Group]) -> dict[str, object]:
        """The transaction that was run, the contract that it made, and the logs."""
        found = [known.record for known in settled.told if isinstance(known.record, PrivateTransaction)]
        if len(found) != 1:
            return {}
        (ran,) = found
        to = None if ran.is_deployment else ran.to
        logs = [
            {
                "address": log.address,
                "topics": ["0x" + topic.hex() for topic in log.topics],
                "data": "0x" + log.data.hex(),
            }
            for log in ran.logs
        ]
        receipt: dict[str, object] = {"from": ran.from_, "to": to, "logs": logs}
        if ran.is_deployment:
            receipt["contractAddress"] = ran.to
        transaction = {"from": ran.from_, "to": to, "gas": hex(ran.gas), "value": "0x0", "data": "0x" + ran.input.hex()}
        return {"transaction": transaction, "receipt": receipt}


# Accounts.


Listed: TypeAlias = dict[Address, Known[AccountState]]


def _listed(states: tuple[Known[Record], ...]) -> Listed:
    listed: Listed = {}
    for known in states:
        record = known.record
        if not isinstance(record, AccountState):
            raise Refused("only states of accounts are spent and read")
        listed[address_bytes(record.address)] = Known(known.id, record, known.salt, known.readers)
    return listed


def _accounts(memory: object) -> Accounts:
    assert isinstance(memory, Accounts), "what `memory` made"
    return memory


def _world(memory: object, latest: Latest, history: History) -> World:
    return World(_accounts(memory), latest, history)


# Messages.


def _message(work: Work, latest: Latest) -> Message:
    """The message to run, at the sender's node."""
    arguments = work.arguments
    sender = address_bytes(_address_of(work.verifiers, work.sender))
    if isinstance(arguments, Deploy):
        nonce = deployment_nonce(work.separator, work.intent)
        return Message(sender, None, _input_of(arguments), _gas_of(arguments), nonce=nonce)
    assert isinstance(arguments, Invoke), "the functions' records"
    called = latest.get(address_bytes(arguments.to))
    if called is None:
        raise Rejected("to", f"must be a contract of this group, and {arguments.to} is none")
    number = called.record.number + 1
    return Message(sender, address_bytes(arguments.to), _input_of(arguments), _gas_of(arguments), number, number)


def _message_of(told: PrivateTransaction, proposal: Proposal[Group], listed: Listed) -> Message:
    """The message to run, at an endorser's node."""
    if told.gas > GAS_MAX:
        raise Refused(f"it takes {told.gas} gas, and {GAS_MAX} are the most")
    sender, to = address_bytes(told.from_), address_bytes(told.to)
    if told.is_deployment:
        return Message(sender, None, told.input, told.gas, nonce=deployment_nonce(proposal.separator, proposal.intent))
    if to not in listed:
        raise Refused("the contract that it calls is not listed")
    number = listed[to].record.number + 1
    return Message(sender, to, told.input, told.gas, number, number)


def _input_of(arguments: Record) -> bytes:
    """Call data, or a constructor's code with its arguments."""
    assert isinstance(arguments, Deploy | Invoke), "the functions' records"
    if arguments.value:
        raise Rejected("value", "must be 0: there is no ether in a privacy group")
    if arguments.gas > GAS_MAX:
        raise Rejected("gas", f"must be at most {GAS_MAX}")
    entry = read_entry(arguments.function, "function") if arguments.function else None
    content = (
        read_hex(arguments.input, "input") if entry is None else encode_input(entry.inputs, arguments.input, "input")
    )
    if isinstance(arguments, Deploy):
        if not arguments.bytecode:
            raise Rejected("bytecode", "is missing")
        content = arguments.bytecode + content
    elif entry is not None:
        content = entry.selector + content
    if len(content) > OCTETS_MAX:
        raise Rejected("input", f"must be at most {OCTETS_MAX} bytes, encoded, not {len(content)}")
    return content


def _gas_of(arguments: Deploy | Invoke) -> int:
    return arguments.gas or GAS_MAX


def _errors_of(arguments: Record) -> tuple[Entry, ...]:
    assert isinstance(arguments, Deploy | Invoke), "the functions' records"
    return read_errors(arguments.errors, "errors")


# Transitions.


def _transition_of(message: Message, ran: Ran, latest: Latest, group: Group) -> Assembled:
    """The spends, reads, outputs, info and calls of a message that succeeded. `Rejected` when they are too large."""
    execution = ran.execution
    changed = [address for address in ran.listed if address in execution.changes]
    made = [_next_state(address, execution, latest) for address in execution.changes]
    told = _told(message, execution)
    written_bytes = sum(len(state.slots) + len(state.code) for state in made)
    written_bytes += len(told.input) + sum(len(log.data) for log in told.logs)
    if written_bytes > WRITTEN_BYTES_MAX:
        raise Rejected("", f"it writes {written_bytes} bytes, and {WRITTEN_BYTES_MAX} are the most")
    return Assembled(
        tuple(latest[address].id for address in sorted(changed)),
        tuple(latest[address].id for address in sorted(ran.listed) if address not in execution.changes),
        tuple(NewState(state, ()) for state in made),
        (NewState(told, (), Role.INFO),),
        _calls(execution.logs, group),
    )


def _next_state(address: Address, execution: Execution, latest: Latest) -> AccountState:
    change, before = execution.changes[address], latest.get(address)
    slots = pack_slots(change.slots)
    if len(slots) > OCTETS_MAX:
        raise Rejected("", f"it changes {len(change.slots)} slots of one account, which is too much for a transaction")
    written = _written(address)
    if before is None:
        return AccountState(written, 0, b"", change.nonce, change.code or b"", slots)
    return AccountState(written, before.record.number + 1, pack_predecessor(before.id), change.nonce, b"", slots)


def _told(message: Message, execution: Execution) -> PrivateTransaction:
    to = message.to if message.to is not None else execution.created
    assert to is not None, "a deployment that succeeded has an address"
    if len(execution.logs) > LIST_MAX or any(len(log.content) > OCTETS_MAX for log in execution.logs):
        raise Rejected("", f"it logs more than {LIST_MAX} events, or one of more than {OCTETS_MAX} bytes")
    logs = tuple(PrivateLog(_written(log.address), log.topics, log.content) for log in execution.logs)
    return PrivateTransaction(
        _written(message.sender), _written(to), message.to is None, message.input, message.gas, logs
    )


def _calls(logs: tuple[Log, ...], group: Group) -> tuple[Call, ...]:
    """The calls on the public ledger that private contracts request by an event."""
    asked = [log for log in logs if log.topics[:1] == (EXTERNAL_CALL_TOPIC,)]
    if asked and not group.external_calls_enabled:
        raise Rejected("", "it calls a public contract, and external calls are not enabled in this group")
    if len(asked) > EXTERNAL_CALLS_MAX:
        raise Rejected("", f"it makes {len(asked)} external calls, and {EXTERNAL_CALLS_MAX} are the most")
    return tuple(_call(log, group.external_call_gas_max) for log in asked)


def _require_call_gas(field: str, gas: int) -> None:
    if not EXTERNAL_CALL_GAS_LEAST <= gas <= EXTERNAL_CALL_GAS_MAX:
        raise Rejected(field, f"must be from {EXTERNAL_CALL_GAS_LEAST} to {EXTERNAL_CALL_GAS_MAX}, not {gas}")


def _with_gas(made: Assembled, work: Work) -> Assembled:
    """Set the gas of the calls: the first has its estimate and a margin, and all have at most the limit.

    A later call may depend on an earlier one, so an estimate of it alone is useless. Nor is anything estimated for a
    prepared transaction: its result must be the same whenever it is assembled.
    """
    arguments, group = work.arguments, work.configuration
    assert isinstance(arguments, Deploy | Invoke), "the functions' records"
    most = min(group.external_call_gas_max, arguments.external_call_gas or group.external_call_gas_max)
    bounds = [most] * len(made.calls)
    first = made.calls[0] if made.calls and work.submit_mode is SubmitMode.AUTO else None
    needed = work.call_gas.get((first.to, first.data)) if first is not None else None
    if first is not None and needed is not None:
        if needed > most:
            called = f"0x{first.data[:SELECTOR_BYTES].hex()} of {first.to}"
            bound = "externalCallGas of the transaction" if most < group.external_call_gas_max else "externalCallGasMax"
            raise Rejected("", f"its external call {called} needs about {needed} gas, and {most} is the most: {bound}")
        bounds[0] = min(most, needed * (100 + SPARE_PERCENT) // 100 + SPARE_GAS)
    return replace(made, calls=tuple(replace(call, gas=gas) for call, gas in zip(made.calls, bounds, strict=True)))


def _call(log: Log, gas: int) -> Call:
    try:
        (content,) = decode(["bytes"], log.content)
        (_, target) = log.topics
    except ValueError:
        raise Rejected("", "it emits a PenteExternalCall that is badly encoded") from None
    decider = bytes(12) + log.address
    if content[:SELECTOR_BYTES] == CARRY_SELECTOR and content[SELECTOR_BYTES:DECIDER_END] != decider:
        # The other contract's ledger takes this call from our ledger, whichever contract here requests it.
        raise Rejected("", "it carries out a transaction about which another contract of this group decides")
    if len(content) > CALL_BYTES_MAX:
        raise Rejected("", f"an external call has at most {CALL_BYTES_MAX} bytes of data, not {len(content)}")
    return Call(_written(target[-20:]), gas, content)


def _require_same(proposal: Proposal[Group], expected: Assembled) -> None:
    """Check the proposal against our own result; it may read more than is needed."""
    if tuple(known.id for known in proposal.spends) != expected.spends:
        raise Refused("it does not spend the states of exactly the accounts that it changes")
    if proposal.makes != (*expected.makes, *expected.info):
        raise Refused("what it makes or tells is not what its message does")
    most = proposal.configuration.external_call_gas_max
    for number, call in enumerate(proposal.calls):
        if call.gas > most:
            raise Refused(f"its call {number} has {call.gas} gas, and {most} is the most in this group")
    if tuple(replace(call, gas=most) for call in proposal.calls) != expected.calls:
        raise Refused("its calls are not those that its message asks for")


def _reason(message: Message, execution: Execution, errors: tuple[Entry, ...]) -> str:
    if execution.ending is Ending.REVERTED and not execution.output:
        if message.to is None:
            return "the constructor reverted without a reason"
        called = f"0x{message.input[:SELECTOR_BYTES].hex()} of {_written(message.to)}"
        return f"{called} reverted without a reason: it may have no such function; compare address, ABI and values"
    if execution.ending is Ending.REVERTED:
        return explain_revert(execution.output, errors)
    if "OutOfGas" in execution.reason:
        return f"out of gas: it needs more than {execution.gas_used}"
    return f"the EVM refuses it: {execution.reason}"


# Parties and addresses.


def _properties(given: Json) -> Json:
    """The properties in one canonical form, whatever the user's was."""
    try:
        properties = read_json(given, dict[str, str]) if given else {}
    except NotJson:
        raise Rejected("properties", "must be an object of texts by name") from None
    return Json(msgspec.json.encode(properties, order="sorted").decode()) if properties else NOTHING


def _require_member(group: Group, party: Party) -> None:
    if party not in group.members:
        raise Rejected("from", f"must be a member of the group, and {party} is none")


def _address_of(verifiers: Mapping[Party, str], party: Party) -> ContractAddress:
    verifier = verifiers.get(party, "")
    try:
        address_bytes(ContractAddress(verifier.lower()))
    except AssertionError:
        raise Rejected("from", f"must be a party with an address, and {party} has {verifier or 'none'}") from None
    return ContractAddress(verifier.lower())


def _version(field: str, text: str) -> EvmVersion:
    try:
        return EvmVersion(text.lower())
    except ValueError:
        known = ", ".join(version.value for version in EvmVersion)
        raise Rejected(field, f"must be one of {known}, not {text!r}") from None


def _written(address: Address) -> ContractAddress:
    return ContractAddress("0x" + address.hex())
