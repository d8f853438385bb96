"""Runs a domain in the simulator: real cores on one virtual clock, with faults of nodes, disks, network and ledger.

A workload defines how a contract is deployed and what its users submit; the rest is drawn from a seed: latencies,
limits, faults, and the times of submissions. The invariants of the protocol are judged after every step. When all
faults have ended and every intent has, the workload's own `must_hold` lists what is wrong with the result (W1). The
same seed plays the same run, so that a finding can be investigated.

    def calls(scene):
        while True:
            yield UserCall(Party(f"alice@{scene.random.choice(scene.nodes)}"), "mint", {"amount": 1})

    workload = Workload(deployer=Party("notary@A"), arguments={"name": "Token"}, calls=calls)
    reports = simulate(MyToken(), workload, seeds=range(20))
    assert not findings(reports)

The nodes are called A, B, C and so on. `yield` returns the id of the intent that the call became, or None if the domain
refused it.

Where transitions are proved, no proof is made: `prove` receives the statement that would be proved, and may raise an
error if it is false. Only contracts whose transitions name the states that they spend can be played.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from random import Random
from typing import Final

from rota.chain.effects import RoundDispatch
from rota.domains.available import Known, known_in
from rota.domains.base import Claim
from rota.domains.records import Record as DomainRecord
from rota.domains.records import Rejected
from rota.exchange.effects import StatesReceived
from rota.host import (
    AnyDomain,
    Background,
    ContractDefaults,
    Hosted,
    UserCall,
    assemble,
    check,
    deploy,
    genesis_of,
    init,
    judge_failure,
    learn,
    open_genesis,
)
from rota.host.proving import Revealed, reveal
from rota.machine.effects import Effect, Record, TransitionPrepared
from rota.machine.events import IntentSubmitted
from rota.machine.tables import Event
from rota.model.digests import void_leaf
from rota.model.types import (
    ContractAddress,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Party,
    Receipt,
    State,
    StateId,
    SubmitMode,
    Transition,
    node_of,
)
from rota.node.events import ForContract
from rota.sequencer.effects import (
    AssembleIntents,
    CheckRound,
    JudgeFailure,
    LeavesSigned,
    SignTransition,
    TransitionIssued,
)
from rota.sequencer.events import AssemblyFinished, RoundChecked
from rota.sequencer.sender_transaction import State as TransactionState
from rota.sim.contents import Contents
from rota.sim.disk import Disk
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.facts import Cause, DomainSaid, Wanted, WorkloadEnded
from rota.sim.invariants import WorkloadHolds
from rota.sim.plan import Plan, Settings, draw_plan
from rota.sim.services import Services, Unspent, digest_to_sign, sign, signed, unapproved, unsigned
from rota.sim.submissions import Submission
from rota.sim.swarm import Swarm
from rota.sim.world import Recorder, World

RANGE_SIZES: Final = (4, 20, 100)
# Most users have their prepared transitions committed; the others let them expire.
COMMITTED: Final = 0.7
COMMITTED_AFTER_MS: Final = (1, 1_000, 5_000, 20_000)
COMMITTED_EVERY_MS: Final = 5_000
GAPS_MS: Final = ((1, 20, 100, 300, 700), (1, 1, 1, 5, 1_100), (230,), (50, 400))


@dataclass(frozen=True, slots=True)
class Scene:
    """The input of a workload's calls: a source of randomness, the nodes' names, and the contract."""

    random: Random
    nodes: tuple[NodeName, ...]
    hosted: Hosted


Calls = Callable[[Scene], Generator[UserCall, IntentId | None, None]]


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a run, for a workload to judge: the calls, the ledger's outcomes, and the final states.

    A node reports a receipt once, so a crash at the wrong moment may lose the report; `committed` comes from the
    ledger.
    """

    hosted: Hosted
    calls: Mapping[IntentId, UserCall]
    receipts: Mapping[IntentId, Receipt]
    committed: tuple[IntentId, ...]
    unspent: tuple[Known[DomainRecord], ...]
    held: Mapping[NodeName, tuple[StateId, ...]]
    # The states on each node's disk: a workload may have its domain read them.
    holdings: Mapping[NodeName, Holdings] = field(default_factory=dict)


def _nothing_more(_: Ended) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Workload:
    """A contract's deployment, its users' calls, and its final conditions: `must_hold` yields the unmet ones."""

    deployer: Party
    arguments: object
    calls: Calls
    must_hold: Callable[[Ended], Iterable[str]] = _nothing_more
    node_count: int = 3


@dataclass(frozen=True, slots=True)
class SeedReport:
    """The results and findings of one seed."""

    seed: int
    intents: int
    refused: int
    confirmed: int
    reverted: int
    faults: int
    events: int
    violations: tuple[str, ...]


def simulate(
    domain: AnyDomain,
    workload: Workload,
    seeds: Iterable[int],
    minutes: float = 0.5,
    faults: tuple[str, ...] | None = None,
    recorder: Callable[[], Recorder] = Recorder,
    prove: Callable[[object], None] = lambda _: None,
) -> tuple[SeedReport, ...]:
    """Play each seed: `minutes` with faults, then calm until every intent has ended.

    `faults` names the kinds to draw from (`rota.sim.plan.FAULTS`); by default the seed chooses them. A recorder
    receives everything that happens, and `prove` every statement for a prover; an error that `prove` raises ends the
    run.
    """
    return tuple(_play(domain, workload, seed, minutes, faults, recorder(), prove) for seed in seeds)


def findings(reports: Iterable[SeedReport]) -> list[str]:
    """The findings of all seeds, with their seed numbers."""
    return [f"seed {report.seed}: {violation}" for report in reports for violation in report.violations]


def _play(
    domain: AnyDomain,
    workload: Workload,
    seed: int,
    minutes: float,
    faults: tuple[str, ...] | None,
    recorder: Recorder,
    prove: Callable[[object], None],
) -> SeedReport:
    settings = Settings(minutes=minutes, faults=faults, domain=domain.name)
    swarm = hosted_swarm(domain, workload, seed, settings, recorder, prove)
    played = swarm.play()
    receipts = swarm.receipts()
    confirmed = sum(receipt.outcome.value == "confirmed" for receipt in receipts.values())
    return SeedReport(
        seed,
        played.intents,
        swarm.refused,
        confirmed,
        len(receipts) - confirmed,
        played.faults,
        played.events,
        tuple(str(violation) for violation in played.violations),
    )


def hosted_swarm(
    domain: AnyDomain,
    workload: Workload,
    seed: int,
    settings: Settings,
    recorder: Recorder | None = None,
    prove: Callable[[object], None] = lambda _: None,
) -> HostedSwarm:
    """The swarm of a seed with one contract of this domain; the workload determines its network."""
    network = replace(settings, nodes=workload.node_count, contracts=1, intents=0, liars=0, domain=domain.name)
    hosted = _deployed(domain, workload, seed)
    plan = replace(draw_plan(seed, network), contracts=(hosted.contract,))
    return HostedSwarm(seed, settings, plan, hosted, workload, recorder, prove)


def _deployed(domain: AnyDomain, workload: Workload, seed: int) -> Hosted:
    random = Random(f"{seed}/contract")
    defaults = ContractDefaults(chain_id=1337, range_size=random.choice(RANGE_SIZES))
    deployment = deploy(domain, workload.arguments, workload.deployer)
    genesis = genesis_of(domain, deployment, defaults, random.randbytes(32))
    address = ContractAddress("0x" + hashlib.sha256(f"{seed}/{domain.name}".encode()).hexdigest()[:40])
    return open_genesis({domain.name: domain}, genesis, address, random.randbytes(32))


class HostedSwarm(Swarm):
    """One seed, with a hosted domain and its own users in place of the simulator's."""

    def __init__(
        self,
        seed: int,
        settings: Settings,
        plan: Plan,
        hosted: Hosted,
        workload: Workload,
        recorder: Recorder | None,
        prove: Callable[[object], None],
    ) -> None:
        super().__init__(seed, settings, recorder, plan, also_judged=(WorkloadHolds,))
        self.hosted = hosted
        self.workload = workload
        self.refused = 0
        self.calls: dict[IntentId, UserCall] = {}
        self.services = HostedServices(self.world, hosted, prove)
        self.world.services = self.services
        self._random = Random(f"{seed}/calls")
        self._calls = workload.calls(Scene(self._random, plan.names, hosted))
        self._last: IntentId | None = None
        self._commits_all = False
        self._calls_ms = tuple(_draw_times(seed, plan.trouble_ms))[: settings.intents]

    def open(self) -> None:
        """Start every node, and schedule the calls."""
        super().open()
        for number, at_ms in enumerate(self._calls_ms, 1):
            self.world.at(at_ms, partial(self._ask_next, number))

    @property
    def planned_count(self) -> int:
        """The number of calls planned before the faults end."""
        return len(self._calls_ms)

    def _ask_next(self, number: int) -> None:
        """Submit the next call of the workload, if there is one."""
        call = self._next_call()
        if call is None:
            return
        self.report.intents += 1
        self._last = self._ask_for(call, number)

    def _next_call(self) -> UserCall | None:
        """Pass the id of the last intent to the workload, and return its next call."""
        try:
            return self._calls.send(self._last) if self.report.intents else next(self._calls)
        except StopIteration:
            return None

    def _ask_for(self, call: UserCall, number: int) -> IntentId | None:
        """Submit a call to its sender's node; returns None if the domain refuses it."""
        name = f"{node_of(call.sender)}-{number}"
        try:
            started = init(self.hosted, call)
        except Rejected:
            self.refused += 1
            return None
        contract = self.hosted.contract.address
        intent = Intent(
            drawn_id(name, call.sender, contract),
            contract,
            call.sender,
            started.payload,
            parties=started.parties,
            submit_mode=call.submit_mode,
            nonce=nonce_of(name),
        )
        self.calls[intent.id], self.intents[number] = call, intent
        self.world.judge.tell(Wanted(node_of(call.sender), intent, _causes_of(intent)))
        if call.submit_mode is SubmitMode.EXTERNAL and self._random.random() < COMMITTED:
            self.commits[intent.id] = self._random.choice(COMMITTED_AFTER_MS)
        self.world.submit(node_of(call.sender), contract, IntentSubmitted(name, intent))
        return intent.id

    def _submit(self, submission: Submission) -> None:
        """Submissions of the calm phase are calls of the workload too."""
        self._ask_next(submission.number)

    def _let_end(self) -> None:
        """Commit all prepared transitions first, because intents may wait for states that these reserve."""
        self._commits_all = True
        self._commit_what_is_kept()
        super()._let_end()
        self._commits_all = False

    def _commit_what_is_kept(self) -> None:
        """Commit repeatedly, because the ledger skips a transition whose inputs do not exist yet."""
        if not self._commits_all:
            return
        for transaction in self._open_transactions():
            intent = transaction.intent.id
            if transaction.state is TransactionState.ISSUED and intent in self.world.prepared:
                self.world.chain.commit_prepared(intent)
        self._later(COMMITTED_EVERY_MS, self._commit_what_is_kept)

    def _commit_later(self, intent: IntentId) -> None:
        if self._commits_all:
            self.commits.setdefault(intent, min(COMMITTED_AFTER_MS))
        super()._commit_later(intent)

    # Results.

    def _conclude(self) -> None:
        """Let the workload judge too, unless an invariant is violated already."""
        super()._conclude()
        if not self.found:
            ended = self.ended()
            flaws = tuple(self.workload.must_hold(ended))
            self.world.judge.tell(WorkloadEnded(self.hosted.domain.name, len(ended.committed), flaws))

    def receipts(self) -> dict[IntentId, Receipt]:
        """The outcome of each call that has one."""
        return {intent: told[0] for intent, told in self.world.receipts.items()}

    def ended(self) -> Ended:
        """The result for the workload.

        The workload gets the id of its last call; calls that it yields then are dropped.
        """
        self._next_call()
        address = self.hosted.contract.address
        ledger = self.world.ledger.states[address]
        separator = self.hosted.separator
        committed = tuple(intent for intent, leaf in ledger.used.items() if leaf != void_leaf(separator, intent))
        held = {name: tuple(sorted(holdings.held(address))) for name, holdings in self.services.holdings.items()}
        unspent = tuple(self._known(ledger.unspent.values()))
        return Ended(
            self.hosted, self.calls, self.receipts(), committed, unspent, held, holdings=self.services.holdings
        )

    def _known(self, states: Iterable[State]) -> Iterator[Known[DomainRecord]]:
        for state in states:
            read = known_in(self.hosted.known, self.world.transitions[state.id.leaf].outputs[state.id.output])
            if read is not None:
                yield read


def _draw_times(seed: int, trouble_ms: int) -> Iterator[int]:
    """Draw the times of calls; those of a shorter run are the first ones of a longer run."""
    random = Random(f"{seed}/call times")
    gaps_ms = random.choice(GAPS_MS)
    at_ms = 0
    while (at_ms := at_ms + random.choice(gaps_ms)) < trouble_ms:
        yield at_ms


def _causes_of(intent: Intent) -> frozenset[Cause]:
    """The causes that may end a call without its effect; the domain may refuse any call."""
    causes = {
        Cause.DOMAIN: True,
        Cause.MAY_EXPIRE: intent.submit_mode is SubmitMode.EXTERNAL,
        Cause.UNKNOWN_PARTY: any(party.startswith("nobody") for party in intent.parties),
    }
    return frozenset(cause for cause, is_there in causes.items() if is_there)


class HostedServices(Services):
    """Passes to a hosted domain the requests that the simulator's own domain would get."""

    def __init__(self, world: World, hosted: Hosted, prove: Callable[[object], None]) -> None:
        super().__init__({hosted.contract.address: hosted.contract}, {})
        self.world = world
        self.hosted = hosted
        self.prove = prove
        self.verifiers = Verifiers(hosted.domain)
        self.holdings = {name: Holdings(node.disk) for name, node in world.nodes.items()}
        self._lives: dict[NodeName, _Life] = {}

    def answer(self, node: NodeName, effect: Effect, unspent: Unspent, life: int, contents: Contents) -> list[Event]:
        """Answer assembly and judgement from the domain, signatures and keys from the world."""
        match effect:
            case AssembleIntents(contract):
                held, current = self.holdings[node].held(contract), self._life(node, life)
                results = assemble(current.hosted, effect, held, node, self._background(node))
                if current.hosted.domain.ledgers:
                    background = self._background(node)
                    current.revealed |= reveal(current.hosted, effect, results, held, node, background)
                for result in results:
                    if isinstance(result, AssemblyFinished) and result.reason:
                        self.world.judge.tell(DomainSaid(result.intent, result.reason))
                return [ForContract(contract, result) for result in results]
            case JudgeFailure(contract):
                return [ForContract(contract, judge_failure(self._life(node, life).hosted, effect))]
            case SignTransition(party=party, leaf=leaf) if self.hosted.domain.ledgers:
                self._prove(party, leaf, self._life(node, life).revealed.get(leaf))
                return super().answer(node, effect, unspent, life, contents)
            case CheckRound(contract, peer, request_id, digest):
                held, hosted = self.holdings[node].held(contract), self._life(node, life).hosted
                checked = check(hosted, effect, held, node, self._background(node))
                for refusal in checked.refusals:
                    self.world.judge.tell(DomainSaid(refusal.intent, refusal.reason))
                found, unshown = unsigned(effect), unapproved(hosted.separator, effect)
                judged = frozenset(checked.judged) | {refusal.leaf for refusal in found}
                refusals = signed(hosted.separator, node, effect, found or checked.refusals, judged) or unshown
                missing = () if refusals else checked.missing
                unjudged = () if refusals else tuple(leaf for leaf, _ in checked.failures)
                is_wrong = bool(refusals or missing or unjudged)
                signature = b"" if is_wrong else sign(node, digest_to_sign(hosted.separator, effect))
                told = RoundChecked(peer, request_id, signature, refusals, missing, unjudged, digest)
                return [ForContract(contract, told)]
            case _:
                return super().answer(node, effect, unspent, life, contents)

    def _prove(self, party: Party, leaf: Leaf, revealed: Revealed | None) -> None:
        """Pass a statement to `prove`; none for an empty transition, which the core makes itself."""
        if revealed is None:
            return
        spends, makes, preparation = revealed.spends, revealed.makes, revealed.preparation
        claim = Claim(self.hosted.configuration, party, secret_of(party), leaf, spends, makes, preparation)
        statement = self.hosted.domain.statement(claim)
        if statement is not None:
            self.prove(statement)

    def _life(self, node: NodeName, life: int) -> _Life:
        """The memory of a node's current run; a new run starts without it, and learns the states on its disk."""
        current = self._lives.get(node)
        if current is None or current.number != life:
            current = self._lives[node] = _Life(life, self.hosted.at_another_node())
        holdings, contract = self.holdings[node], self.hosted.contract.address
        written = holdings.written()
        current.unlearned.update(islice(written.items(), current.read_count, None))
        current.read_count = len(written)
        on_chain = [reference for reference in current.unlearned if holdings.is_on_chain(contract, reference)]
        # As `engine.held_states` does: states written and never committed are not on the chain.
        learn(current.hosted, [current.unlearned.pop(reference) for reference in on_chain], node)
        return current

    def _background(self, node: NodeName) -> Background:
        return Background(self.holdings[node].written().get, self.verifiers)


@dataclass(slots=True)
class _Life:
    """One run of a node: its domain's memory, how much of the disk that has read, and the statements to prove."""

    number: int
    hosted: Hosted
    read_count: int = 0
    unlearned: dict[StateId, State] = field(default_factory=dict)
    revealed: dict[Leaf, Revealed] = field(default_factory=dict)


def secret_of(party: Party) -> bytes:
    """The secret by which a party owns its states where transitions are proved."""
    return hashlib.sha384(party.encode()).digest()


class Verifiers(Mapping[Party, str]):
    """An address or a key for every party, derived from its name; none for names that begin with `nobody`."""

    def __init__(self, domain: AnyDomain) -> None:
        self._domain = domain
        self._known: dict[Party, str] = {}

    def __getitem__(self, party: Party) -> str:
        if party.startswith("nobody"):
            raise KeyError(party)
        if party not in self._known:
            self._known[party] = self._verifier_of(party)
        return self._known[party]

    def _verifier_of(self, party: Party) -> str:
        if self._domain.ledgers:
            return self._domain.verifier_of(secret_of(party))
        return "0x" + hashlib.sha256(party.encode()).hexdigest()[:40]

    def __iter__(self) -> Iterator[Party]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(slots=True)
class Holdings:
    """The states whose bytes a node has written, confirmed or not. Each call reads only the records added since."""

    disk: Disk
    position: int = 0
    states: dict[StateId, State] = field(default_factory=dict)

    def written(self) -> Mapping[StateId, State]:
        """All written states."""
        for _, record in self.disk.records[self.position :]:
            for transition in _transitions_in(record):
                self.states.update({state.id: state for state in transition.outputs if state.content is not None})
        self.position = len(self.disk.records)
        return self.states

    def is_on_chain(self, contract: ContractAddress, state: StateId) -> bool:
        """Whether the node's own index has the state, spent or not."""
        return state in self.disk.unspent.get(contract, {}) or state in self.disk.contents.spent

    def held(self, contract: ContractAddress) -> dict[StateId, State]:
        """The written states that are unspent in the node's own index."""
        written = self.written()
        unspent = self.disk.unspent.get(contract, {})
        return {reference: written[reference] for reference in unspent if reference in written}


def _transitions_in(record: Record) -> tuple[Transition, ...]:
    match record:
        case RoundDispatch():
            return record.round.transitions
        case StatesReceived():
            return record.transitions
        case LeavesSigned():
            return record.transitions
        case TransitionPrepared() | TransitionIssued():
            return (record.prepared.transition,)
        case _:
            return ()
