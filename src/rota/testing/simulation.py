"""Runs a domain in the simulator: real cores on one virtual clock, while nodes, disks, network and ledger are hurt.

A workload says how a contract is deployed and what its users do; the rest is drawn from a seed: latencies, limits,
faults, and when who asks for what. The invariants of the protocol are judged after every step, and when everything is
mended and every intent has ended, the workload's own `must_hold` says what is wrong with what came of it (W1). The same
seed plays the same run, so that a finding can be looked at again.

    def calls(scene):
        while True:
            yield UserCall(Party(f"alice@{scene.random.choice(scene.nodes)}"), "mint", {"amount": 1})

    workload = Workload(deployer=Party("notary@A"), arguments={"name": "Token"}, calls=calls)
    reports = simulate(MyToken(), workload, seeds=range(20))
    assert not findings(reports)

The nodes are called A, B, C and so on. What `yield` gives back is the id of the intent that the call became, or nothing
when the domain refused it.

Where transitions are proved, no proof is made: `prove` is given what there would be one of, and may say that it is not
true. Only contracts whose transitions name the states that they spend can be played.
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
    """What users know when they make up their calls: chance, the nodes' names, and the contract."""

    random: Random
    nodes: tuple[NodeName, ...]
    hosted: Hosted


Calls = Callable[[Scene], Generator[UserCall, IntentId | None, None]]


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a run, for a workload to judge: what was asked, what the ledger did, and what is there now.

    A receipt is told once, so that a node that dies at the wrong moment may not have told it: what was `committed`
    the ledger says.
    """

    hosted: Hosted
    calls: Mapping[IntentId, UserCall]
    receipts: Mapping[IntentId, Receipt]
    committed: tuple[IntentId, ...]
    unspent: tuple[Known[DomainRecord], ...]
    held: Mapping[NodeName, tuple[StateId, ...]]
    # What each node has on its disk: a workload may have its domain read it.
    holdings: Mapping[NodeName, Holdings] = field(default_factory=dict)


def _nothing_more(_: Ended) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Workload:
    """How a contract is deployed, what its users do, and what must hold in the end: `must_hold` tells what does not."""

    deployer: Party
    arguments: object
    calls: Calls
    must_hold: Callable[[Ended], Iterable[str]] = _nothing_more
    node_count: int = 3


@dataclass(frozen=True, slots=True)
class SeedReport:
    """What one seed did, and what it found."""

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
    """Play each seed: so many minutes of trouble, then calm until every intent has ended.

    `faults` names those to draw from (`rota.sim.plan.FAULTS`); the seed chooses when not given. A recorder hears of
    everything that happens, and `prove` of what a prover would be given; what it raises ends the run.
    """
    return tuple(_play(domain, workload, seed, minutes, faults, recorder(), prove) for seed in seeds)


def findings(reports: Iterable[SeedReport]) -> list[str]:
    """All that the seeds have found, with their numbers."""
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
    """The swarm of a seed in which one contract of this domain is used; its network is the workload's to say."""
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
    """One seed, with a hosted domain in the place of the simulator's own, and with its own users."""

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
        """Start every node, and let the calls come."""
        super().open()
        for number, at_ms in enumerate(self._calls_ms, 1):
            self.world.at(at_ms, partial(self._ask_next, number))

    @property
    def planned_count(self) -> int:
        """How many calls there are while the trouble lasts."""
        return len(self._calls_ms)

    def _ask_next(self, number: int) -> None:
        """The next call of the workload, if there is one."""
        call = self._next_call()
        if call is None:
            return
        self.report.intents += 1
        self._last = self._ask_for(call, number)

    def _next_call(self) -> UserCall | None:
        """Tells the users what became of the last call, and hears the next one."""
        try:
            return self._calls.send(self._last) if self.report.intents else next(self._calls)
        except StopIteration:
            return None

    def _ask_for(self, call: UserCall, number: int) -> IntentId | None:
        """Have a node take it, unless the domain refuses it first."""
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
        """Probes of the calm are calls of the workload too."""
        self._ask_next(submission.number)

    def _let_end(self) -> None:
        """Users have what is prepared committed first: who needs a state that is kept for them would wait for that."""
        self._commits_all = True
        self._commit_what_is_kept()
        super()._let_end()
        self._commits_all = False

    def _commit_what_is_kept(self) -> None:
        """Again and again: the ledger skips one that stands on what is not there yet."""
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

    # What came of it.

    def _conclude(self) -> None:
        """The workload judges too, unless something else is wrong already."""
        super()._conclude()
        if not self.found:
            ended = self.ended()
            flaws = tuple(self.workload.must_hold(ended))
            self.world.judge.tell(WorkloadEnded(self.hosted.domain.name, len(ended.committed), flaws))

    def receipts(self) -> dict[IntentId, Receipt]:
        """The outcome of each call that has one."""
        return {intent: told[0] for intent, told in self.world.receipts.items()}

    def ended(self) -> Ended:
        """What the workload judges; its users hear of the last call too, and what they ask for then is not heard."""
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
    """When users call; those of a shorter time are the first ones of a longer."""
    random = Random(f"{seed}/call times")
    gaps_ms = random.choice(GAPS_MS)
    at_ms = 0
    while (at_ms := at_ms + random.choice(gaps_ms)) < trouble_ms:
        yield at_ms


def _causes_of(intent: Intent) -> frozenset[Cause]:
    """What may stand against a call; whether its domain allows it is the domain's to say."""
    causes = {
        Cause.DOMAIN: True,
        Cause.MAY_EXPIRE: intent.submit_mode is SubmitMode.EXTERNAL,
        Cause.UNKNOWN_PARTY: any(party.startswith("nobody") for party in intent.parties),
    }
    return frozenset(cause for cause, is_there in causes.items() if is_there)


class HostedServices(Services):
    """Asks a hosted domain what the simulator's own would be asked."""

    def __init__(self, world: World, hosted: Hosted, prove: Callable[[object], None]) -> None:
        super().__init__({hosted.contract.address: hosted.contract}, {})
        self.world = world
        self.hosted = hosted
        self.prove = prove
        self.verifiers = Verifiers(hosted.domain)
        self.holdings = {name: Holdings(node.disk) for name, node in world.nodes.items()}
        self._lives: dict[NodeName, _Life] = {}

    def answer(self, node: NodeName, effect: Effect, unspent: Unspent, life: int, contents: Contents) -> list[Event]:
        """Assembly and judgement are the domain's; signatures and keys are the world's."""
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
        """What a prover would be given; of an empty transition, which the core makes by itself, nothing is proved."""
        if revealed is None:
            return
        spends, makes, preparation = revealed.spends, revealed.makes, revealed.preparation
        claim = Claim(self.hosted.configuration, party, secret_of(party), leaf, spends, makes, preparation)
        statement = self.hosted.domain.statement(claim)
        if statement is not None:
            self.prove(statement)

    def _life(self, node: NodeName, life: int) -> _Life:
        """What a node has in memory: a new life has nothing, and learns what is on its disk."""
        current = self._lives.get(node)
        if current is None or current.number != life:
            current = self._lives[node] = _Life(life, self.hosted.at_another_node())
        holdings, contract = self.holdings[node], self.hosted.contract.address
        written = holdings.written()
        current.unlearned.update(islice(written.items(), current.read_count, None))
        current.read_count = len(written)
        on_chain = [reference for reference in current.unlearned if holdings.is_on_chain(contract, reference)]
        # As `engine.held_states` does: what was written and never committed is nothing that the chain has.
        learn(current.hosted, [current.unlearned.pop(reference) for reference in on_chain], node)
        return current

    def _background(self, node: NodeName) -> Background:
        return Background(self.holdings[node].written().get, self.verifiers)


@dataclass(slots=True)
class _Life:
    """One life of a node's process: its domain's memory, how much of the disk that has learned, what may be proved."""

    number: int
    hosted: Hosted
    read_count: int = 0
    unlearned: dict[StateId, State] = field(default_factory=dict)
    revealed: dict[Leaf, Revealed] = field(default_factory=dict)


def secret_of(party: Party) -> bytes:
    """By what a party owns what is its own where transitions are proved."""
    return hashlib.sha384(party.encode()).digest()


class Verifiers(Mapping[Party, str]):
    """Every party has an address, or a key, that follows from its name; a nobody has none."""

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
    """The states whose bytes a node has written, confirmed or not. A disk only grows: each look reads on."""

    disk: Disk
    position: int = 0
    states: dict[StateId, State] = field(default_factory=dict)

    def written(self) -> Mapping[StateId, State]:
        """All of them."""
        for _, record in self.disk.records[self.position :]:
            for transition in _transitions_in(record):
                self.states.update({state.id: state for state in transition.outputs if state.content is not None})
        self.position = len(self.disk.records)
        return self.states

    def is_on_chain(self, contract: ContractAddress, state: StateId) -> bool:
        """The node's own index has it, spent or not."""
        return state in self.disk.unspent.get(contract, {}) or state in self.disk.contents.spent

    def held(self, contract: ContractAddress) -> dict[StateId, State]:
        """Those that are unspent in the node's own index."""
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
