"""Hosts domains: translates between what the core orders and tells, and what a domain is asked and answers.

Every function here is pure. What a node holds comes as `held`: the states that are confirmed and unspent in its own
index and whose bytes it has. States that are not yet on the chain come with the order: in the snapshot of an assembly,
or as the makers of a round. Within a slot or a round each transition stands on the ones before it.

The `from` party's signature is the runtime's to verify, and the digest is the runtime's to sign; what is judged here
is whether the transition is well made and whether the domain agrees.

An info rides on a state with the same readers, or has an output of its own (`contents`); a store need not give back
in `held` what `contents.is_info`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from rota.core.effects import AssembleIntents, CheckRound
from rota.core.events import AssemblyFailed, AssemblyFinished
from rota.digests import (
    STATES_MAX,
    Core,
    core_of,
    domain_separator,
    keccak,
    leaf_of,
    leaf_of_transition,
    state_commitment,
)
from rota.domains.available import Available, Known, Shelf, known_in, readable
from rota.domains.base import (
    Assembled,
    Assembly,
    Deployment,
    Domain,
    History,
    Lacking,
    NewState,
    Parked,
    Proposal,
    Question,
    Refused,
    Rejected,
    Request,
    Reverted,
    Settled,
)
from rota.domains.contents import Content, Role, Told, distribution_of, name_of, seal, unseal
from rota.domains.records import Record, accept, packed, unpacked
from rota.genesis import Genesis
from rota.messages import AssemblyOutcome, Refusal
from rota.types import (
    Contract,
    ContractAddress,
    Intent,
    NodeName,
    Party,
    Preparation,
    RequestId,
    Rotation,
    State,
    StateId,
    SubmitMode,
    Transition,
)

ENTRY_POINTS: Final = "rota.domains"
PAYLOAD_BYTES_MAX: Final = 1_048_576
# It has to fit into a frame, beside others.
TRANSITION_BYTES_MAX: Final = 1_048_576
REASON_LETTERS_MAX: Final = 1_000
SALT_KEY_BYTES: Final = 32

_RAW_REVERT: Final = re.compile("reverted with 0x((?:[0-9a-f]{2})+)$")

# A hosted domain's configuration is of the domain's own class; which one, only the domain knows.
AnyDomain = Domain[Any]
Held = Mapping[StateId, State]


def _not_here(_: StateId) -> State | None:
    return None


@dataclass(frozen=True, slots=True)
class Background:
    """What else a node knows: any state whose bytes it has, spent ones among them, and the verifiers of parties."""

    recall: Callable[[StateId], State | None] = _not_here
    verifiers: Mapping[Party, str] = field(default_factory=dict)


NO_BACKGROUND: Final = Background()


@dataclass(frozen=True, slots=True)
class Hosted:
    """A contract with its domain, ready to be asked. `salt_key` is this node's secret for the salts of its states.

    `memory` is the domain's own, of this contract at one node.
    """

    contract: Contract
    domain: AnyDomain
    configuration: Record
    separator: bytes
    salt_key: bytes
    memory: object = None

    def __post_init__(self) -> None:
        assert len(self.salt_key) == SALT_KEY_BYTES, f"a salt key is {SALT_KEY_BYTES} bytes, not {len(self.salt_key)}"

    @property
    def known(self) -> Mapping[str, type[Record]]:
        """The record classes of its states, by the names of their schemas."""
        return {name_of(record_type): record_type for record_type in self.domain.states}

    def at_another_node(self) -> Hosted:
        """The same contract where nothing of it has been seen yet."""
        return replace(self, memory=self.domain.memory(self.configuration, self.contract))


@dataclass(frozen=True, slots=True)
class UserCall:
    """What a user asks of a contract: a function by its name, and arguments as JSON."""

    sender: Party
    function: str
    arguments: object = None
    submit_mode: SubmitMode = SubmitMode.AUTO


@dataclass(frozen=True, slots=True)
class Binding:
    """What a drafted intent must turn out to be, and the condition under which alone it may be committed."""

    core: Core
    condition: bytes


@dataclass(frozen=True, slots=True)
class Initialised:
    """An intent's payload, and the parties whose verifiers have to be known before it is delegated."""

    payload: bytes
    parties: tuple[Party, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """An endorser's judgement: what is refused and why, and which states are missing to judge the others."""

    refusals: tuple[Refusal, ...] = ()
    missing: tuple[StateId, ...] = ()


@dataclass(frozen=True, slots=True)
class ContractDefaults:
    """What a node's configuration says about the contracts that it creates (protocol §2)."""

    chain_id: int
    rotation: Rotation = Rotation.STICKY
    range_size: int = 100
    virtual_nodes: int = 1024


# Deploying and opening contracts.


def load_domains(settings: Mapping[str, Mapping[str, object]] | None = None) -> dict[str, AnyDomain]:
    """The domains that are installed, by name. A package offers one as an entry point of the group `rota.domains`.

    Each is given its own part of the settings; `Rejected` names what is wrong there, as `NAME.key`.
    """
    domains: dict[str, AnyDomain] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        domain = entry.load()()
        if not isinstance(domain, Domain) or domain.name != entry.name:
            raise TypeError(f"{entry.name}: {entry.value} must make a Domain of that name")
        try:
            domain.set_up((settings or {}).get(entry.name, {}))
        except Rejected as flaw:
            raise Rejected(f"{entry.name}.{flaw.field}", flaw.message) from None
        domains[entry.name] = domain
    return domains


def deploy(domain: AnyDomain, arguments: object, sender: Party) -> Deployment[Any]:
    """What a constructor's arguments ask for. `Rejected` when they cannot be had."""
    return domain.deploy(accept(domain.constructor, arguments), sender)


def genesis_of(domain: AnyDomain, deployment: Deployment[Any], defaults: ContractDefaults, salt: bytes) -> Genesis:
    """The genesis of a contract that is to be deployed; 32 random bytes as salt."""
    plan = deployment.plan
    configuration = msgspec.json.encode(packed(deployment.configuration))
    try:
        return Genesis(
            domain.name,
            configuration,
            deployment.members,
            plan.committee,
            plan.endorser_nodes,
            plan.threshold,
            plan.mode,
            defaults.rotation,
            defaults.range_size,
            defaults.virtual_nodes,
            defaults.chain_id,
            salt,
        )
    except ValueError as error:
        field, _, message = str(error).partition(": ")
        raise Rejected(field, message) from None


def open_genesis(
    domains: Mapping[str, AnyDomain], genesis: Genesis, address: ContractAddress, salt_key: bytes
) -> Hosted:
    """A contract, ready to be asked. `Rejected` when its domain is not installed or does not take its configuration."""
    domain = domains.get(genesis.domain)
    if domain is None:
        raise Rejected("domain", f"must be one of {', '.join(sorted(domains))}, not {genesis.domain!r}")
    contract = genesis.contract(address)
    try:
        written = msgspec.json.decode(genesis.configuration)
    except (msgspec.MsgspecError, RecursionError):
        raise Rejected("configuration", "must be JSON") from None
    configuration = unpacked(domain.configuration, written, "configuration")
    domain.configure(configuration, contract)
    memory = domain.memory(configuration, contract)
    return Hosted(contract, domain, configuration, domain_separator(contract.chain_id, address), salt_key, memory)


def learn(hosted: Hosted, states: Iterable[State], node: NodeName) -> None:
    """Let the domain remember states that this node has, spent or not, each before those that stand on it.

    A domain that lacks a state says so; whoever has many of them to tell, as after a restart, tells them all at once.
    """
    for state in states:
        read = known_in(hosted.known, state.as_seen_by(node))
        if read is not None:
            hosted.domain.learn(hosted.memory, read)


# Users.


def init(hosted: Hosted, call: UserCall) -> Initialised:
    """Validate a user's request before it gets an id. `Rejected` names the field."""
    arguments = accept(_function(hosted.domain.functions, call.function), call.arguments)
    request = Request(hosted.contract, hosted.configuration, call.sender, call.function, arguments, call.submit_mode)
    parties = hosted.domain.init(request)
    payload = msgspec.json.encode([call.function, packed(arguments)])
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise Rejected("", f"a request must be at most {PAYLOAD_BYTES_MAX} bytes, not {len(payload)}")
    return Initialised(payload, tuple(dict.fromkeys(parties)))


def bound(intent: Intent, binding: Binding) -> Intent:
    """The same intent, to be committed under a condition and only as what it was drafted to be (`drafting`)."""
    function, values = msgspec.json.decode(intent.payload, type=tuple[str, list[object]])
    written = [binding.core.hex(), binding.condition.hex()]
    return replace(intent, payload=msgspec.json.encode([function, values, written]))


def call(hosted: Hosted, asked: UserCall, held: Held, node: NodeName, background: Background = NO_BACKGROUND) -> object:
    """Answer a question from what this node holds, as JSON. `Rejected` names the field.

    `Lacking` when the domain needs a state that this node does not have, or has not been asked for (`recall`).
    """
    arguments = accept(_function(hosted.domain.views, asked.function), asked.arguments)
    question = Question(
        hosted.contract,
        hosted.configuration,
        asked.sender,
        asked.function,
        arguments,
        Available(shelf_of(hosted, held, node)),
        _history(hosted, node, held.get, background.recall),
        background.verifiers,
        hosted.memory,
    )
    return hosted.domain.call(question)


def receipt(hosted: Hosted, transition: Transition, known: Held, node: NodeName) -> dict[str, object]:
    """What users of this node are told of a committed transition; `known` are states that it touches, spent or not."""
    referred = {
        reference: _known(hosted, known.get(reference), node) for reference in (*transition.inputs, *transition.reads)
    }
    seen = [(state, readable(hosted.known, state.as_seen_by(node))) for state in transition.outputs]
    settled = Settled(
        hosted.contract,
        hosted.configuration,
        transition.intent,
        tuple(state for state in map(referred.get, transition.inputs) if state is not None),
        tuple(state for state in map(referred.get, transition.reads) if state is not None),
        tuple(read for state in transition.outputs if (read := _known(hosted, state, node)) is not None),
        _infos_in([(state, content) for state, content in seen if content is not None]),
        all(content is not None for state, content in seen if node in state.distribution),
    )
    return hosted.domain.receipt(settled)


def failure_of(hosted: Hosted, intent: Intent, reason: str) -> str:
    """Why an intent failed, for its user: what a public contract reverted with is told in the words of its ABI.

    Only the sender's node has the request, and with it the ABI; all others tell the bytes.
    """
    raw = _RAW_REVERT.search(reason)
    if raw is None:
        return reason
    try:
        asked = _payload_of(hosted.domain, intent.payload)
        told = hosted.domain.explain(asked.arguments, bytes.fromhex(raw[1]))
    except Rejected:
        return reason
    return reason[: raw.start()] + told if told else reason


# Assembling.


def assemble(
    hosted: Hosted, order: AssembleIntents, held: Held, node: NodeName, background: Background = NO_BACKGROUND
) -> list[AssemblyFinished | AssemblyFailed]:
    """Assemble a slot's intents one after the other, each on what the ones before it have made."""
    under_way = (state.as_seen_by(node) for state in order.snapshot.states)
    available = Available(shelf_of(hosted, held, node), order.snapshot.locks, under_way)
    # Also what is locked or spent by now: states stand on others.
    new = {state.id: state for state in order.snapshot.states}
    history = _history(hosted, node, new.get, held.get, background.recall)
    results: list[AssemblyFinished | AssemblyFailed] = []
    for intent in order.intents:
        result = _assemble_one(hosted, order, intent, available, history, background.verifiers)
        results.append(result)
        if isinstance(result, AssemblyFinished) and result.transition is not None:
            new.update({state.id: state for state in result.transition.outputs})
            for reference in result.transition.inputs:
                available.remove(reference)
            # Whether an external one ever comes is for its user to say: nothing is built on it.
            for state in result.transition.outputs if intent.submit_mode is not SubmitMode.EXTERNAL else ():
                available.add(state)
    return results


def _assemble_one(
    hosted: Hosted,
    order: AssembleIntents,
    intent: Intent,
    available: Available,
    history: History,
    verifiers: Mapping[Party, str],
) -> AssemblyFinished | AssemblyFailed:
    """A domain is somebody else's code: whatever it raises is its failure, not the node's."""
    try:
        asked = _payload_of(hosted.domain, intent.payload)
        work = _work(hosted, intent, asked, available, history, verifiers)
        outcome = hosted.domain.assemble(work)
        if isinstance(outcome, Assembled):
            preparation = _preparation(hosted, work, asked.binding)
            transition = _transition(hosted, order, intent, outcome, preparation, asked.binding)
            return AssemblyFinished(order.request_id, intent.id, AssemblyOutcome.ASSEMBLED, transition)
    except Rejected as error:
        outcome = Reverted(str(error))
    except Lacking as error:
        return AssemblyFailed(order.request_id, intent.id, str(error))
    except Exception as error:
        return AssemblyFailed(order.request_id, intent.id, _bounded(f"the domain failed: {_told(error)}"))
    kind = AssemblyOutcome.PARKED if isinstance(outcome, Parked) else AssemblyOutcome.REVERTED
    return AssemblyFinished(order.request_id, intent.id, kind, reason=_bounded(outcome.reason))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an intent's payload says."""

    function: str
    arguments: Record
    binding: Binding | None


def _work(
    hosted: Hosted,
    intent: Intent,
    asked: _Asked,
    available: Available,
    history: History,
    verifiers: Mapping[Party, str],
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
        verifiers,
        hosted.memory,
    )


def _preparation(hosted: Hosted, work: Assembly[Any], binding: Binding | None) -> Preparation | None:
    preparation = hosted.domain.prepare(work) if work.submit_mode is SubmitMode.EXTERNAL else None
    if binding is None:
        return preparation
    if preparation is None:
        raise Rejected("", "it has no committer, and only who alone may commit it can be held to a condition")
    return replace(preparation, condition=binding.condition)


def _payload_of(domain: AnyDomain, payload: bytes) -> _Asked:
    """What `init` and `bound` have written; another node's domain may know more functions than ours."""
    try:
        match msgspec.json.decode(payload):
            case [str(function), list(values)]:
                binding = None
            case [str(function), list(values), [str(core), str(condition)]]:
                binding = Binding(Core(bytes.fromhex(core)), bytes.fromhex(condition))
            case _:
                raise ValueError
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Rejected("payload", "must be what this domain's init makes") from None
    return _Asked(function, unpacked(_function(domain.functions, function), values), binding)


def _transition(
    hosted: Hosted,
    order: AssembleIntents,
    intent: Intent,
    outcome: Assembled,
    preparation: Preparation | None,
    binding: Binding | None,
) -> Transition:
    made = _contents(hosted, order.request_id, intent, outcome)
    for count, name in ((len(outcome.spends), "inputs"), (len(outcome.reads), "reads"), (len(made), "outputs")):
        if count > STATES_MAX:
            raise Rejected("", f"a transition has at most {STATES_MAX} {name}, and this one needs {count}")
    sealed = tuple(seal(content) for content in made)
    if sum(map(len, sealed)) > TRANSITION_BYTES_MAX:
        raise Rejected("", f"the states of a transition are at most {TRANSITION_BYTES_MAX} bytes")
    for each in sealed:
        # What nobody could read would be refused by every endorser.
        unseal(hosted.known, each)
    commitments = tuple(state_commitment(each) for each in sealed)
    core = core_of(
        hosted.separator,
        intent.id,
        reads=outcome.reads,
        inputs=outcome.spends,
        outputs=commitments,
        calls=outcome.calls,
    )
    if binding is not None and core != binding.core:
        # Its partners are held to the other core: nobody could ever commit this one.
        raise Rejected("", "what it stands on has changed since it was drafted, and so has what it does; draft it anew")
    leaf = leaf_of(core, preparation)
    outputs = tuple(
        State(StateId(leaf, n), commitment, distribution_of(hosted.contract, intent.sender, content.readers), each)
        for n, (content, commitment, each) in enumerate(zip(made, commitments, sealed, strict=True))
    )
    return Transition(
        intent.id,
        leaf,
        outcome.spends,
        outcome.reads,
        outputs,
        valid_until_s=order.valid_until_s if preparation is None else order.prepared_valid_until_s,
        calls=outcome.calls,
        preparation=preparation,
    )


def _contents(hosted: Hosted, request: RequestId, intent: Intent, outcome: Assembled) -> tuple[Content, ...]:
    """The states in their order, each with the infos for its readers; then what carries the infos that are left.

    Each has a salt of its own, which nobody else can work out. The same request has the same salts; an external intent
    has them whatever the request, so that its core is known before it is asked for (`drafting`).
    """
    riders: dict[tuple[Party, ...], list[Told]] = {}
    for number, info in enumerate(outcome.info):
        riders.setdefault(info.readers, []).append(Told(number, info.record))
    # The first state of its readers takes what is for them.
    drafts = [(new.record, tuple(riders.pop(new.readers, ())), new.readers) for new in outcome.makes]
    carried = [(None, tuple(infos), readers) for readers, infos in riders.items()]
    about = (b"external/" if intent.submit_mode is SubmitMode.EXTERNAL else b"%d/%d/" % request) + intent.id
    return tuple(
        Content(record, infos, readers, keccak(hosted.salt_key + keccak(about + bytes([number & 0xFF]))))
        for number, (record, infos, readers) in enumerate((*drafts, *carried))
    )


def _infos_in(contents: Iterable[tuple[State, Content]]) -> tuple[Known[Record], ...]:
    """The infos that these states carry, in the order in which the domain gave them."""
    found = [
        (told.number, Known(state.id, told.record, content.salt, content.readers))
        for state, content in contents
        for told in content.infos
    ]
    return tuple(info for _, info in sorted(found, key=lambda each: each[0]))


# Checking.


def check(
    hosted: Hosted, order: CheckRound, held: Held, node: NodeName, background: Background = NO_BACKGROUND
) -> Checked:
    """Judge a round's transitions on top of one another. What lacks a state is not judged but named: do not sign it."""
    if node not in hosted.contract.endorsers:
        return Checked(tuple(Refusal(each.intent, f"{node} does not endorse here") for each in order.transitions))
    bench = _Bench(hosted, held, node, background)
    for maker in order.makers:
        bench.take_maker(maker)
    refusals: list[Refusal] = []
    missing: dict[StateId, None] = {}
    for transition, sender in zip(order.transitions, order.senders, strict=True):
        unknown = bench.unknown(transition)
        missing.update(dict.fromkeys(unknown))
        try:
            reason = "" if unknown else bench.flaw_of(transition, sender)
        except Lacking as error:
            missing[error.state] = None
            reason = ""
        if reason:
            refusals.append(Refusal(transition.intent, _bounded(reason)))
        bench.place(transition)
    return Checked(tuple(refusals), tuple(missing))


class _Bench:
    """What an endorser judges with: the states that it knows, and what the round has spent so far."""

    def __init__(self, hosted: Hosted, held: Held, node: NodeName, background: Background) -> None:
        self.hosted = hosted
        self.known = hosted.known
        self.held = held
        self.node = node
        self.recall = background.recall
        self.verifiers = background.verifiers
        self.speculative: dict[StateId, State] = {}
        self.spent: dict[StateId, None] = {}
        self.history = _history(hosted, node, self.speculative.get, held.get, background.recall)
        self._available: Available | None = None

    def take_maker(self, maker: Transition) -> None:
        """Believed only as far as its leaf binds it: a state of that leaf can be nothing else."""
        if leaf_of_transition(self.hosted.separator, maker) == maker.leaf:
            self.place(maker)

    def place(self, transition: Transition) -> None:
        """What it makes is there for the next ones, and what it spends is gone."""
        self.spent.update(dict.fromkeys(transition.inputs))
        made = [state for number, state in enumerate(transition.outputs) if self._is_made(transition, number, state)]
        self.speculative.update({state.id: state for state in made})
        if self._available is not None:
            for reference in transition.inputs:
                self._available.remove(reference)
            for state in made:
                self._available.add(state.as_seen_by(self.node))

    def _is_made(self, transition: Transition, number: int, state: State) -> bool:
        """Its bytes are here, and are what the leaf binds."""
        is_bound = state.content is not None and state_commitment(state.content) == state.commitment
        return is_bound and state.id == (transition.leaf, number)

    def available(self) -> Available:
        """What we take to be available on top of the transitions so far; worked out when a domain first asks."""
        if self._available is None:
            under_way = (state.as_seen_by(self.node) for state in self.speculative.values())
            self._available = Available(shelf_of(self.hosted, self.held, self.node), self.spent, under_way)
        return self._available

    def unknown(self, transition: Transition) -> tuple[StateId, ...]:
        """The states that it spends or reads and that we do not know."""
        return tuple(ref for ref in (*transition.inputs, *transition.reads) if self._state(ref) is None)

    def flaw_of(self, transition: Transition, sender: Party) -> str:
        """Why we do not sign it, or nothing."""
        # An empty one only uses up its own intent, and whose that is the signature says.
        if transition.is_empty:
            return ""
        if any(reference in self.spent for reference in (*transition.inputs, *transition.reads)):
            return "a state is spent by an earlier transition"
        if len(set(transition.inputs)) < len(transition.inputs):
            return "a state is spent twice"
        if sum(each.gas for each in transition.calls) > self.hosted.domain.calls_gas_max:
            return f"its calls must take at most {self.hosted.domain.calls_gas_max} gas"
        try:
            self.hosted.domain.endorse(self._proposal(transition, sender))
        except (Refused, Rejected) as error:
            return str(error) or "the domain refuses it"
        except Lacking:
            raise
        except Exception as error:
            return f"the domain failed: {_told(error)}"
        return ""

    def _proposal(self, transition: Transition, sender: Party) -> Proposal[Any]:
        hosted = self.hosted
        return Proposal(
            hosted.contract,
            hosted.configuration,
            hosted.separator,
            transition.intent,
            sender,
            tuple(self._read(reference) for reference in transition.inputs),
            tuple(self._read(reference) for reference in transition.reads),
            self._makes(transition, sender),
            transition.calls,
            transition.preparation,
            self.available,
            self.history,
            self.verifiers,
            hosted.memory,
        )

    def _state(self, reference: StateId) -> State | None:
        """Also one that our index does not have, or not any more: whether it is unspent is for the ledger to say."""
        for look in (self.speculative.get, self.held.get, self.recall):
            state = look(reference)
            if state is not None and state.content is not None:
                return state
        return None

    def _read(self, reference: StateId) -> Known[Record]:
        state = self._state(reference)
        assert state is not None, "what is unknown is not judged"
        read = known_in(self.known, state)
        if read is None:
            raise Refused("it spends or reads what is no state of this domain")
        return read

    def _makes(self, transition: Transition, sender: Party) -> tuple[NewState, ...]:
        """What the domain said that it makes: the states, then the infos, each in its order."""
        contents = [self._made(transition, sender, number) for number in range(len(transition.outputs))]
        states = [NewState(content.record, content.readers) for content in contents if content.record is not None]
        infos = [(told.number, told.record, content.readers) for content in contents for told in content.infos]
        infos.sort(key=lambda info: info[0])
        if [number for number, _, _ in infos] != list(range(len(infos))):
            raise Refused("an info is missing, or there twice")
        return (*states, *(NewState(record, readers, Role.INFO) for _, record, readers in infos))

    def _made(self, transition: Transition, sender: Party, number: int) -> Content:
        """An output must be whole, in its place, and go to exactly those who may see it."""
        state = transition.outputs[number]
        if state.id != (transition.leaf, number):
            raise Refused("an output is not in its place")
        if state.content is None:
            raise Refused("the bytes of an output are missing")
        content = unseal(self.known, state.content)
        if state.distribution != distribution_of(self.hosted.contract, sender, content.readers):
            raise Refused("an output's distribution list is not that of its readers")
        return content


# Shared.


def _function(known: Mapping[str, type[Record]], name: str) -> type[Record]:
    found = known.get(name)
    if found is None:
        raise Rejected("function", f"must be one of {', '.join(sorted(known))}, not {name!r}")
    return found


def shelf_of(hosted: Hosted, held: Held, node: NodeName) -> Shelf:
    """What a node holds, decoded. Whoever asks often gives a `Shelf` as `held`, and then this costs nothing."""
    if isinstance(held, Shelf):
        return held
    return Shelf(hosted.known, (state.as_seen_by(node) for state in held.values()))


def _history(hosted: Hosted, node: NodeName, *places: Callable[[StateId], State | None]) -> History:
    """What is in these places, looked for in this order."""

    def find(reference: StateId) -> Known[Record] | None:
        found = (known for look in places if (known := _known(hosted, look(reference), node)) is not None)
        return next(found, None)

    return History(find)


def _known(hosted: Hosted, state: State | None, node: NodeName) -> Known[Record] | None:
    return known_in(hosted.known, state.as_seen_by(node)) if state is not None else None


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _bounded(reason: str) -> str:
    return reason[:REASON_LETTERS_MAX] or "no reason was given"
