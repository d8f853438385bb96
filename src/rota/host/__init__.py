"""Hosts domains: translates between the core's orders and events and a domain's questions and answers.

Every function here is pure. The states that a node holds come as `held`: those that are confirmed and unspent in its
own index and whose bytes it has. States that are not yet on the chain come with the order: in the snapshot of an
assembly, or as the makers of a round. Within a slot or a round each transition builds on the preceding ones.

`engine.services` verifies the signature of the `from` party and signs the digest; this package judges whether the
transition is well-formed and whether the domain agrees.

`contracts.py` has the common part of all questions, `checking.py` the endorser's side, and this module the rest: it
opens contracts, validates and answers users' requests, and has intents assembled.

An info is carried by a state with the same readers, or has an output of its own (`contents`); a store may leave outputs
with `contents.is_info` out of `held`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from rota.domains.available import Available, known_in
from rota.domains.base import (
    Assembled,
    Assembly,
    Behind,
    Deployment,
    Domain,
    Failure,
    History,
    Lacking,
    Parked,
    Question,
    Rejected,
    Request,
    Reverted,
)
from rota.domains.contents import distribution_of, seal, unseal
from rota.domains.records import Record, accept, packed, unpacked
from rota.host.checking import STATES_A_STEP, Checked, check, checking, finished
from rota.host.contracts import (
    NO_BACKGROUND,
    SALT_KEY_BYTES,
    AnyDomain,
    Background,
    Held,
    Hosted,
    SecretOf,
    bounded,
    flaw_of_calls,
    history_of,
    shelf_of,
    shelved,
    told_of,
)
from rota.host.encryption import OVERHEAD_BYTES_MAX
from rota.host.geneses import SEQUENCING, ContractDefaults, genesis_of
from rota.host.locking import contents_of, with_lock
from rota.host.planning import attesters_of, has_plans, proposal_of
from rota.host.settled import carrying_of, receipt
from rota.model.digests import STATES_MAX, Core, core_of, domain_separator, leaf_of, state_commitment
from rota.model.frozen import dataclass
from rota.model.genesis import Genesis
from rota.model.json_text import NotJson, read_json
from rota.model.types import (
    NO_ATTESTERS,
    Contract,
    ContractAddress,
    Intent,
    Mode,
    NodeName,
    Party,
    Preparation,
    RequestId,
    State,
    StateId,
    SubmitMode,
    Transition,
)
from rota.sequencer.effects import AssembleIntents, JudgeFailure
from rota.sequencer.events import AssemblyFailed, AssemblyFinished, FailureJudged
from rota.wire.messages import AssemblyOutcome

__all__ = [
    "NO_BACKGROUND",
    "PAYLOAD_BYTES_MAX",
    "SALT_KEY_BYTES",
    "SEQUENCING",
    "TRANSITION_BYTES_MAX",
    "AnyDomain",
    "Background",
    "Binding",
    "Checked",
    "ContractDefaults",
    "Held",
    "Hosted",
    "Initialised",
    "SecretOf",
    "UserCall",
    "assemble",
    "assembling",
    "bound",
    "call",
    "carrying_of",
    "check",
    "checking",
    "deploy",
    "explain",
    "genesis_of",
    "init",
    "judge_failure",
    "learn",
    "load_domains",
    "open_genesis",
    "read_configuration",
    "receipt",
    "revert_in",
    "shelf_of",
    "shelved",
]

ENTRY_POINTS: Final = "rota.domains"
FOR_TESTS: Final = "for_tests"
PAYLOAD_BYTES_MAX: Final = 1_048_576
# It has to fit into a frame, with other messages.
TRANSITION_BYTES_MAX: Final = 1_048_576

_RAW_REVERT: Final = re.compile("reverted with 0x((?:[0-9a-f]{2})+)$")


@dataclass(frozen=True, slots=True)
class UserCall:
    """A user's call of a contract: a function by its name, and arguments as JSON."""

    sender: Party
    function: str
    arguments: object = None
    submit_mode: SubmitMode = SubmitMode.AUTO


@dataclass(frozen=True, slots=True)
class Binding:
    """The core that a drafted intent must have, and the condition that must hold when it is committed."""

    core: Core
    condition: bytes


@dataclass(frozen=True, slots=True)
class Initialised:
    """An intent's payload, and the parties whose verifiers are needed before it is delegated."""

    payload: bytes
    parties: tuple[Party, ...]


# Deploying and opening contracts.


def load_domains(settings: Mapping[str, Mapping[str, object]] | None = None) -> dict[str, AnyDomain]:
    """The domains that are installed, by name. A package offers one as an entry point of the group `rota.domains`.

    Each gets its own part of the settings; `Rejected` names the fault there, as `NAME.key`. A domain for tests is left
    out unless its settings have `for_tests`, or there are no settings at all, in which case the caller is not a node.
    """
    domains: dict[str, AnyDomain] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        domain = entry.load()()
        if not isinstance(domain, Domain) or domain.name != entry.name:
            raise TypeError(f"{entry.name}: {entry.value} must make a Domain of that name")
        given = dict((settings or {}).get(entry.name, {}))
        if domain.is_for_tests and given.pop(FOR_TESTS, settings is None) is not True:
            continue
        try:
            domain.set_up(given)
        except Rejected as flaw:
            raise Rejected(f"{entry.name}.{flaw.field}", flaw.message) from None
        domains[entry.name] = domain
    return domains


def deploy(domain: AnyDomain, arguments: object, sender: Party) -> Deployment[Any]:
    """The contract that a constructor's arguments ask for. `Rejected` when it is not possible."""
    return domain.deploy(accept(domain.constructor, arguments), sender)


def open_genesis(
    domains: Mapping[str, AnyDomain],
    genesis: Genesis,
    address: ContractAddress,
    salt_key: bytes,
    secret_of: SecretOf = lambda _: None,
) -> Hosted:
    """A contract with its domain. `Rejected` when the domain is not installed or does not accept its configuration."""
    domain = domains.get(genesis.domain)
    if domain is None:
        raise Rejected("domain", f"must be one of {', '.join(sorted(domains))}, not {genesis.domain!r}")
    contract = genesis.contract(address)
    configuration = read_configuration(domain, genesis.configuration)
    try:
        domain.configure(configuration, contract)
        _require_notary(domain, configuration, contract)
        memory = domain.memory(configuration, contract)
        _ask_what_follows_from(domain, configuration)
    except Rejected:
        raise
    except Exception as error:
        # A domain is foreign code, and any peer may propose a genesis.
        raise Rejected("configuration", bounded(f"the domain failed: {told_of(error)}")) from None
    separator = domain_separator(contract.chain_id, address)
    return Hosted(contract, domain, configuration, separator, salt_key, memory, secret_of)


def _ask_what_follows_from(domain: AnyDomain, configuration: Record) -> None:
    """Ask all questions about a configuration alone once, so that none of them fails later."""
    domain.ledger_of(configuration)
    domain.tree_of(configuration)
    domain.roster_of(configuration)
    domain.circuits(configuration)
    domain.carrier(configuration)


def _require_notary(domain: AnyDomain, configuration: Record, contract: Contract) -> None:
    """Require of a contract with a carrier that it has one endorser, whose node coordinates: it asks the carrier."""
    is_notarised = contract.mode is Mode.STATIC and contract.committee == contract.endorsers
    if domain.carrier(configuration) is not None and not (is_notarised and contract.threshold == 1):
        raise Rejected("configuration", "must be of one endorser, whose node coordinates, where it names a carrier")


def read_configuration(domain: AnyDomain, written: bytes) -> Record:
    """The configuration in a genesis. `Rejected` when it is none of this domain."""
    try:
        values = read_json(written)
    except NotJson:
        raise Rejected("configuration", "must be JSON") from None
    return unpacked(domain.configuration, values, "configuration")


def learn(hosted: Hosted, states: Iterable[State], node: NodeName) -> None:
    """Pass states of this node to the domain's memory, spent or not, each before its successors.

    A domain raises `Lacking` later for a state that it was not given; after a restart the caller passes all at once.
    """
    for state in states:
        read = known_in(hosted.known, state.as_seen_by(node))
        if read is not None:
            hosted.learn(read)


# Users.


def init(hosted: Hosted, call: UserCall) -> Initialised:
    """Validate a user's request before it gets an id. `Rejected` names the field."""
    arguments = accept(_function(hosted.domain, call.function), call.arguments)
    request = Request(hosted.contract, hosted.configuration, call.sender, call.function, arguments, call.submit_mode)
    parties = hosted.domain.init(request)
    payload = msgspec.json.encode([call.function, packed(arguments)])
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise Rejected("", f"a request must be at most {PAYLOAD_BYTES_MAX} bytes, not {len(payload)}")
    return Initialised(payload, tuple(dict.fromkeys(parties)))


def bound(intent: Intent, binding: Binding) -> Intent:
    """The same intent, to be committed only under a condition and only with the drafted core (`drafting`)."""
    function, values = msgspec.json.decode(intent.payload, type=tuple[str, list[object]])
    written = [binding.core.hex(), binding.condition.hex()]
    return replace(intent, payload=msgspec.json.encode([function, values, written]))


def binding_of(intent: Intent) -> Binding | None:
    """The binding of an intent of this node, if it has one."""
    match msgspec.json.decode(intent.payload):
        case [_, _, [str(core), str(condition)]]:
            return Binding(Core(bytes.fromhex(core)), bytes.fromhex(condition))
        case _:
            return None


def call(hosted: Hosted, asked: UserCall, held: Held, node: NodeName, background: Background = NO_BACKGROUND) -> object:
    """Answer a question from the states that this node holds, as JSON. `Rejected` names the field.

    `Lacking` when the domain needs a state that this node does not have, or that `recall` does not return.
    """
    arguments = accept(_view(hosted.domain, asked.function), asked.arguments)
    question = Question(
        hosted.contract,
        hosted.configuration,
        asked.sender,
        asked.function,
        arguments,
        Available(shelf_of(hosted, held, node)),
        history_of(hosted, node, held.get, background.recall),
        background.verifiers,
        hosted.memory,
    )
    return hosted.domain.call(question)


def revert_in(reason: str) -> tuple[str, bytes] | None:
    """The words before a contract's own error in a reason, and the bytes of that error; None when there is none."""
    raw = _RAW_REVERT.search(reason)
    return (reason[: raw.start()], bytes.fromhex(raw[1])) if raw is not None else None


def explain(hosted: Hosted, intent: Intent, revert: bytes) -> str | None:
    """The error that a contract reverted with, by the ABI that came with the request; None when there is none.

    Only the sender's node has the request.
    """
    try:
        return hosted.domain.explain(_payload_of(hosted.domain, intent.payload).arguments, revert)
    except Exception:
        return None  # Any account chooses the errors of its contracts.


def judge_failure(hosted: Hosted, order: JudgeFailure) -> FailureJudged:
    """Whether the domain considers another attempt worthwhile. An exception is the domain's own failure."""
    asked, intent = _payload_of(hosted.domain, order.intent.payload), order.intent
    failure = Failure(
        hosted.contract, hosted.configuration, intent.sender, asked.function, asked.arguments, order.failure
    )
    return FailureJudged(intent.id, order.leaf, bool(hosted.domain.is_worth_retrying(failure)))


# Assembling.


def movers_in(hosted: Hosted, intents: Iterable[Intent]) -> tuple[Party, ...]:
    """The parties whose public tokens must be known before these intents are assembled."""
    if not hosted.domain.moving:
        return ()
    return tuple(dict.fromkeys(intent.sender for intent in intents if _moves(hosted.domain, intent)))


def _moves(domain: AnyDomain, intent: Intent) -> bool:
    try:
        return _payload_of(domain, intent.payload).function in domain.moving
    except Rejected:
        return False  # Assembling reports the fault.


def assemble(
    hosted: Hosted, order: AssembleIntents, held: Held, node: NodeName, background: Background = NO_BACKGROUND
) -> list[AssemblyFinished | AssemblyFailed]:
    """Assemble a slot's intents in order, each on the states that the preceding ones have made."""
    return finished(assembling(hosted, order, held, node, background))


def assembling(
    hosted: Hosted, order: AssembleIntents, held: Held, node: NodeName, background: Background = NO_BACKGROUND
) -> Generator[None, None, list[AssemblyFinished | AssemblyFailed]]:
    """The same in steps: a coordinator chooses how many states are in its snapshot, within the limits of a frame."""
    available = Available(shelf_of(hosted, held, node), order.snapshot.locks)
    # Also states that are locked or spent by now: others may refer to them.
    new: dict[StateId, State] = {}
    for number, state in enumerate(order.snapshot.states, 1):
        if _may_be_told(state, held):
            new[state.id] = state.as_seen_by(node)
            available.add(new[state.id])
        if number % STATES_A_STEP == 0:
            yield
    history = history_of(hosted, node, held.get, new.get, background.recall)
    results: list[AssemblyFinished | AssemblyFailed] = []
    for intent in order.intents:
        result = _assemble_one(hosted, order, intent, available, history, background)
        results.append(result)
        if isinstance(result, AssemblyFinished) and result.transition is not None:
            new.update({state.id: state for state in result.transition.outputs})
            for reference in result.transition.inputs:
                available.remove(reference)
            # Only the user decides whether an external transaction ever comes, and only the endorsers in its plan
            # whether a planned one is approved: no other intent builds on these.
            is_certain = not intent.is_external and not result.attesters.endorsers
            for state in result.transition.outputs if is_certain else ():
                available.add(state)
        yield
    return results


def _may_be_told(state: State, held: Held) -> bool:
    """Whether to use a state from a coordinator: our own index lacks it, and its bytes match its commitment."""
    is_bound = state.content is None or state_commitment(state.content) == state.commitment
    return is_bound and state.id not in held


def _assemble_one(
    hosted: Hosted,
    order: AssembleIntents,
    intent: Intent,
    available: Available,
    history: History,
    background: Background,
) -> AssemblyFinished | AssemblyFailed:
    """Assemble one intent. A domain is foreign code: any exception is its failure, not the node's."""
    try:
        asked = _payload_of(hosted.domain, intent.payload)
        work = _work(hosted, intent, asked, available, history, background)
        outcome = hosted.domain.assemble(work)
        if isinstance(outcome, Assembled):
            if flaw := flaw_of_calls(hosted, outcome.calls):
                raise Rejected("", flaw)
            preparation = _preparation(hosted, work, asked.binding)
            inputs = tuple(available.reference(state) for state in outcome.spends)
            transition = _transition(hosted, order, intent, outcome, inputs, preparation, asked.binding)
            attesters = NO_ATTESTERS
            if has_plans(hosted.domain):
                attesters = attesters_of(hosted, proposal_of(hosted, intent, outcome, preparation, history))
            kind = AssemblyOutcome.ASSEMBLED
            return AssemblyFinished(order.request_id, intent.id, kind, transition, attesters=attesters)
    except Rejected as error:
        outcome = Reverted(str(error))
    except (Lacking, Behind) as error:
        return AssemblyFailed(order.request_id, intent.id, str(error), lacks_states=True)
    except Exception as error:
        return AssemblyFailed(order.request_id, intent.id, bounded(f"the domain failed: {told_of(error)}"), error)
    kind = AssemblyOutcome.PARKED if isinstance(outcome, Parked) else AssemblyOutcome.REVERTED
    code = outcome.code if isinstance(outcome, Reverted) else ""
    return AssemblyFinished(order.request_id, intent.id, kind, reason=bounded(outcome.reason), code=code)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The contents of an intent's payload."""

    function: str
    arguments: Record
    binding: Binding | None


def _work(
    hosted: Hosted, intent: Intent, asked: _Asked, available: Available, history: History, background: Background
) -> Assembly[Any]:
    return Assembly(
        hosted.contract,
        hosted.configuration,
        hosted.separator,
        intent.id,
        intent.sender,
        asked.function,
        asked.arguments,
        intent.submit_mode,
        available,
        history,
        background.verifiers,
        hosted.memory,
        background.reserves.get(intent.sender),
        background.call_gas,
        background.roster,
    )


def _preparation(hosted: Hosted, work: Assembly[Any], binding: Binding | None) -> Preparation | None:
    if work.submit_mode is SubmitMode.CARRIED:
        return hosted.carried_preparation
    preparation = hosted.domain.prepare(work) if work.submit_mode is SubmitMode.EXTERNAL else None
    if binding is None:
        return preparation
    if preparation is None:
        raise Rejected("", "it has no committer, and only who alone may commit it can be held to a condition")
    return replace(preparation, condition=binding.condition)


def _payload_of(domain: AnyDomain, payload: bytes) -> _Asked:
    """Decode the payload that `init` and `bound` write; another node's domain may know more functions than ours."""
    try:
        match read_json(payload):
            case [str(function), list(values)]:
                binding = None
            case [str(function), list(values), [str(core), str(condition)]]:
                binding = Binding(Core(bytes.fromhex(core)), bytes.fromhex(condition))
            case _:
                raise ValueError
    except ValueError:
        raise Rejected("payload", "must be what this domain's init makes") from None
    return _Asked(function, unpacked(_function(domain, function), values), binding)


def _transition(
    hosted: Hosted,
    order: AssembleIntents,
    intent: Intent,
    outcome: Assembled,
    inputs: tuple[StateId, ...],
    preparation: Preparation | None,
    binding: Binding | None,
) -> Transition:
    about = _about(hosted, order.request_id, intent, outcome)
    outcome, lock = with_lock(hosted, intent.id, outcome, about)
    made = contents_of(outcome.makes, outcome.info, hosted.salt_key, about)
    for count, name in ((len(inputs), "inputs"), (len(outcome.reads), "reads"), (len(made), "outputs")):
        if count > STATES_MAX:
            raise Rejected("", f"a transition has at most {STATES_MAX} {name}, and this one needs {count}")
    sealed = tuple(seal(content) for content in made)
    bytes_max = TRANSITION_BYTES_MAX - (len(sealed) * OVERHEAD_BYTES_MAX if hosted.domain.is_encrypted else 0)
    if sum(map(len, sealed)) > bytes_max:
        raise Rejected("", f"the states of a transition are at most {bytes_max} bytes")
    for each in sealed:
        # A content that cannot be decoded would be refused by every endorser.
        unseal(hosted.known, each)
    commitments = tuple(state_commitment(each) for each in sealed)
    info = hosted.domain.commitments(tuple((each.record, each.salt) for each in made if each.record is not None))
    core = core_of(
        hosted.separator,
        intent.id,
        reads=outcome.reads,
        inputs=inputs,
        outputs=commitments,
        info=info,
        calls=outcome.calls,
        lock=lock,
    )
    if binding is not None and core != binding.core:
        # Its partners are bound to the other core: this one could never be committed.
        raise Rejected("", "what it stands on has changed since it was drafted, and so has what it does; draft it anew")
    leaf = leaf_of(core, preparation)
    outputs = tuple(
        State(StateId(leaf, n), commitment, distribution_of(hosted.contract, intent.sender, content.readers), each)
        for n, (content, commitment, each) in enumerate(zip(made, commitments, sealed, strict=True))
    )
    return Transition(
        intent.id,
        leaf,
        inputs,
        outcome.reads,
        outputs,
        info,
        valid_until_s=order.valid_until_s if preparation is None else order.prepared_valid_until_s,
        calls=outcome.calls,
        preparation=preparation,
        lock=lock,
    )


def _about(hosted: Hosted, request: RequestId, intent: Intent, outcome: Assembled) -> bytes:
    """The values from which the salts of an intent's states are derived.

    The same request has the same salts; an external intent has them whatever the request, so that its core is known
    before it is requested (`drafting`). Where transitions are proved, those that spend the same states have the same
    salts, so that a proof for an earlier request stays usable.
    """
    about = b"%d/%d/" % request + intent.id
    if intent.is_external:
        about = b"external/" + intent.id
    elif hosted.domain.ledgers:
        about = b"proved/" + intent.id + b"".join(state.leaf + bytes([state.output]) for state in outcome.spends)
    return about


def _function(domain: AnyDomain, name: str) -> type[Record]:
    hint = "; ptx_call asks for it, without a transaction" if name in domain.views else ""
    return _named(domain, domain.functions, name, hint)


def _view(domain: AnyDomain, name: str) -> type[Record]:
    hint = "; ptx_sendTransaction or ptx_prepareTransaction does it" if name in domain.functions else ""
    return _named(domain, domain.views, name, hint)


def _named(domain: AnyDomain, known: Mapping[str, type[Record]], name: str, hint: str) -> type[Record]:
    found = known.get(name)
    if found is None:
        raise Rejected(
            "function", f"must be one of {', '.join(sorted(known))} of {domain.name}, not {name[:80]!r}{hint}"
        )
    return found
