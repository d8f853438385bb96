"""Plays the plan of a seed: faults, then calm, then judgement.

In the safety phase users submit, cancel and resume while faults affect nodes, disks, network and ledger; S1 to S10 are
judged after every step. In the liveness phase all faults end and every intent must end; further ones are submitted
then, to show which node coordinates. L1 to L5 are judged at the end. The same seed plays the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from traceback import extract_tb

from rota.machine.events import CancelRequested, IntentSubmitted, ResumeRequested
from rota.model.types import Contract, Intent, IntentId, Mode, NodeName, Outcome, Party, Rotation, SubmitMode, node_of
from rota.node.effects import LookUpIntents
from rota.node.node import Node
from rota.sequencer.sender_transaction import SenderTransaction
from rota.sequencer.sender_transaction import State as TransactionState
from rota.sim import faults
from rota.sim.deploying import Deploying
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.facts import (
    CalmPassed,
    Cause,
    Expected,
    FaultsEnded,
    Indexed,
    LedgerStood,
    NonceRead,
    Quiet,
    ReceiptRead,
    RunEnded,
    Wanted,
)
from rota.sim.faults import BadWeather
from rota.sim.invariants import (
    AFTER_FAILOVER,
    AFTER_LOST_BLOCKS,
    AMONG_LIARS,
    EVERY,
    Count,
    Invariant,
    Judge,
    Violation,
    judged_in,
)
from rota.sim.invariants.endings import LEADERS_KNOWN_AFTER_MS, SETTLED_AFTER_MS, EveryIntentEnds
from rota.sim.liars.conspiracy import Conspiracy
from rota.sim.liars.mutator import Pair
from rota.sim.plan import DEPLOYMENTS, SHIPPED, SYNTHETIC, Fault, Plan, Settings, draw_plan
from rota.sim.submissions import Submission, holders_of, senders_of
from rota.sim.world import Recorder, World

# The calm ends after this time; an intent that is not final then never will be.
CALM_MAX_MS = 400_000
# An intent that waits for nothing has ended this long after the faults.
ENDS_WITHIN_MS = 120_000
# So many versions of an intent may follow one another at once; then one in every sixteenth of their validity, which is
# 37 s, and each may be reset with another intent that endorsers refuse (protocol §4.3).
VERSIONS_AT_ONCE = 16
# When everything has ended, the last answers and heartbeats are sent in this time; then it is listened for so long.
RESTS_WITHIN_MS = 20_000
LISTENS_FOR_MS = 10_000
PROBES_FOR_MS = 12_000
PROBES_EVERY_MS = 400
# Often enough to keep a second active coordinator from becoming idle, if there is one.
SELDOM_PROBES_EVERY_MS = 1_000
# Blocks come regularly without transactions too, so that receipts become final.
CALM_BLOCK_MS = 1_000
# A range with fewer blocks ends before its coordinator can be observed, unless blocks come more slowly.
RANGE_SHOWN_MIN = 50
RANGE_SHOWN_MS = 24_000
RANGES_SHOWN = 2
# Every index reaches the last block within this time.
CATCH_UP_MS = 2_000
# More than an endorser lets a round be valid beyond `validity`.
VOID_MARGIN_S = 61
# Intents that end by themselves have ended this long after the last probe; then chain time passes in repeated jumps.
VOIDED_FIRST_MS = 5_000
VOIDED_EVERY_MS = 30_000
# No domain refuses intents of these kinds, and they do not fail on the ledger.
VALID_VERBS = ("mint", "spend", "pay", "look", "fund", "take", "seal")
# Only a user can complete these: by resuming a parked one, and by committing an issued one or letting it expire.
WAITING_FOR_USER = (TransactionState.PARKED, TransactionState.ISSUED)
DEFAULT_SETTINGS = Settings()
# The name under which a seed that judged nothing is reported.
NOTHING_JUDGED = "judge"


@dataclass(slots=True)
class Report:
    """The results of a seed."""

    seed: int
    domain: str = SYNTHETIC
    intents: int = 0
    faults: int = 0
    faults_by_kind: Counter[str] = field(default_factory=Counter)
    events: int = 0
    messages: int = 0
    nodes: int = 0
    coordinator_changes: int = 0
    simulated_ms: int = 0
    violations: list[Violation] = field(default_factory=list)
    liars: dict[NodeName, tuple[str, ...]] = field(default_factory=dict)
    lies: int = 0
    mutated: frozenset[Pair] = frozenset()
    invariants: dict[str, Count] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)


class Swarm:
    """One seed and its world."""

    def __init__(
        self,
        seed: int,
        settings: Settings = DEFAULT_SETTINGS,
        recorder: Recorder | None = None,
        plan: Plan | None = None,
        also_judged: tuple[type[Invariant], ...] = (),
    ) -> None:
        if plan is None:
            plan = draw_plan(seed, settings)
            assert plan.domain not in SHIPPED, f"{plan.domain} has a swarm of its own (rota.testing.workloads)"
        self.plan = plan
        self.report = Report(seed, plan.domain)
        has_factory = plan.domain == DEPLOYMENTS
        has_echo = any(fault.kind == "echo" for fault in plan.faults)
        self.weather = BadWeather(Random(f"{seed}/weather"), plan.names, has_echo)
        self.world = World(
            plan.names,
            plan.contracts,
            plan.config,
            recorder,
            plan.latency_ms,
            plan.block_ms,
            plan.disk_ms,
            self.weather,
            _contracts_by_node(plan),
            plan.service_ms,
            plan.has_codec,
            has_factory,
            liars=frozenset(liar.name for liar in plan.liars),
            accounts=settings.accounts,
        )
        if plan.liars:
            honest = [each for each in plan.submissions if each.node not in self.world.liars]
            foreknown = tuple(
                drawn_id(f"{each.node}-{each.number}", Party(f"user@{each.node}"), each.contract) for each in honest
            )
            self.world.conspiracy = Conspiracy(self.world, seed, plan.liars, foreknown)
        judged = judged_in(_candidates(plan), has_factory)
        self.world.judge = Judge(self.world.terms, (*judged, *also_judged))
        self.intents: dict[int, Intent] = {}
        self.commits: dict[IntentId, int] = {}
        self.world.on_prepared = self._commit_later
        self.world.judge.leave_out(settings.unjudged)
        self.found = self.world.judge.found
        self.deploying = Deploying(self.world, plan.deployments, plan.trouble_ms, self._submit)
        self.is_over = False
        self.expected: set[int] = set()
        self.held: set[IntentId] = set()
        self.calm: CalmPassed | None = None
        self.mine_every_ms = self.block_every_ms = CALM_BLOCK_MS

    def play(self) -> Report:
        """Play faults, calm and judgement. An exception in a core is a violation like any other."""
        try:
            self._play()
        except Exception as error:
            where = f" at {_place_of(error)}" if self.plan.liars else ""
            self.found.append(Violation("assertion", f"{type(error).__name__}: {error}{where}"))
        report, world = self.report, self.world
        report.invariants = world.judge.counts()
        report.work = world.judge.work()
        # After a failover, nothing about the end of intents is promised.
        ends = report.invariants.get(EveryIntentEnds.name)
        if not self.found and ends is not None and not ends.judged and world.witness.requests:
            # Users submitted, and no intent was ever accepted: invariants that hold then prove nothing.
            self.found.append(Violation(NOTHING_JUDGED, f"none of {report.intents} intents was accepted"))
        report.violations = list(self.found)
        report.events, report.messages, report.simulated_ms = world.event_count, world.wires.message_count, world.now_ms
        if world.conspiracy is not None:
            report.liars = {liar.name: liar.strategies for liar in self.plan.liars}
            report.lies = self.lie_count
            report.mutated = world.conspiracy.mutated
        report.nodes, report.coordinator_changes = len(world.nodes), world.witness.coordinator_changes
        return report

    @property
    def planned_count(self) -> int:
        """How many planned items shrinking may leave out; each deployment counts once, with its uses."""
        return len(self.plan.submissions) + len(self.plan.deployments)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The contracts of the plan, and those deployed since."""
        return (*self.plan.contracts, *self.deploying.contracts)

    @property
    def lie_count(self) -> int:
        """The number of lies of all liars so far."""
        liars = self.world.conspiracy.liars.values() if self.world.conspiracy is not None else ()
        return sum(liar.lie_count + liar.account.count for liar in liars)

    def open(self) -> None:
        """Start every node, and schedule the planned submissions, faults and deployments."""
        for name in self.world.nodes:
            self.world.start(name)
        for submission in self.plan.submissions:
            self.world.at(submission.at_ms, partial(self._submit, submission))
        for fault in self.plan.faults:
            self.world.at(fault.at_ms, partial(self._hurt, fault))
        self.deploying.open()

    def _play(self) -> None:
        self.open()
        if self.world.run_until(self.plan.trouble_ms, self._is_condemned):
            return
        self._calm()
        if not self.found and self.world.conspiracy is not None:
            self._drain(self.world.conspiracy)
            self.let_catch_up()
        if not self.found:
            self._conclude()

    def _is_condemned(self) -> bool:
        return bool(self.found)

    # Users.

    def _submit(self, submission: Submission) -> None:
        self.report.intents += 1
        name = f"{submission.node}-{submission.number}"
        depends_on = self.intents[submission.depends_on].id if submission.depends_on in self.intents else None
        party = Party(f"user@{submission.node}")
        intent = Intent(
            drawn_id(name, party, submission.contract),
            submission.contract,
            party,
            submission.payload.encode(),
            (depends_on,) if depends_on is not None else (),
            (Party(submission.party),) if submission.party else (),
            name if submission.repeat_after_ms is not None else "",
            submission.mode,
            nonce_of(name),
        )
        self.intents[submission.number] = intent
        if submission.commit_after_ms is not None:
            self.commits[intent.id] = submission.commit_after_ms
        self.world.payloads[intent.id] = intent.payload
        causes = self._causes_of(submission)
        if causes - {Cause.MAY_EXPIRE}:
            self.held.add(intent.id)
        self.world.judge.tell(Wanted(submission.node, intent, causes))
        if self.world.liars and self._is_valid(submission):
            self.expected.add(submission.number)
            self.world.judge.tell(Expected(submission.node, intent.id))
        self._ask(submission, IntentSubmitted(name, intent))
        if submission.repeat_after_ms is not None:
            repeated = IntentSubmitted(f"{name} again", intent)
            self._later(submission.repeat_after_ms, lambda: self._ask(submission, repeated))
        if submission.cancel_after_ms is not None:
            cancel = CancelRequested(f"cancel {name}", intent.id)
            self._later(submission.cancel_after_ms, lambda: self._ask(submission, cancel))
        if submission.change_after_ms is not None:
            self._later(submission.change_after_ms, lambda: self._go_on(submission, intent.id))

    def _causes_of(self, submission: Submission) -> frozenset[Cause]:
        """The causes in the plan that may end a submission without its effect."""
        contract = self.world.by_address[submission.contract]
        verb, _, names = submission.payload.partition(":")
        refusing = [each for each in contract.endorsers if not names or each in names.split("+")]
        # An intent ends when refusals leave too few endorsers to sign it.
        is_refused = verb == "refuse" and len(refusing) > len(contract.endorsers) - contract.threshold
        causes = {
            Cause.CANCELLED: submission.cancel_after_ms is not None,
            Cause.REFUSED: is_refused,
            Cause.FAILS_AT_ASSEMBLY: verb == "revert",
            Cause.FAILS_ON_LEDGER: verb in ("revert-on-chain", "revert-on-chain-for-good"),
            Cause.MAY_EXPIRE: submission.mode is SubmitMode.EXTERNAL,
            Cause.UNKNOWN_PARTY: submission.party.startswith("nobody"),
        }
        return frozenset(cause for cause, is_there in causes.items() if is_there)

    def _is_valid(self, submission: Submission) -> bool:
        """Whether only a liar could prevent the submission's effect."""
        verb = submission.payload.partition(":")[0]
        if verb == "take" and not self._has_funds(submission):
            return False
        is_plain = submission.cancel_after_ms is None and submission.mode is SubmitMode.AUTO
        is_free = submission.depends_on not in self.intents or submission.depends_on in self.expected
        # Whether a party is known is decided by its own node.
        is_known = (
            not submission.party.startswith("nobody") and node_of(Party(submission.party)) not in self.world.liars
        )
        return verb in VALID_VERBS and is_plain and is_free and is_known

    def _has_funds(self, submission: Submission) -> bool:
        """Whether a fund intent of this user was reported: from then on there are funds."""
        wanted = (b"fund", submission.contract, submission.node)
        ended = [self.intents[number] for number in self.expected if self.intents[number].id in self.world.receipts]
        return any((intent.payload, intent.contract, node_of(intent.sender)) == wanted for intent in ended)

    def _commit_later(self, intent: IntentId) -> None:
        """Commit a prepared transition for the users who commit theirs; the others' expire."""
        if intent in self.commits:
            self._later(self.commits.pop(intent), lambda: self.world.chain.commit_prepared(intent))

    def _ask(self, submission: Submission, event: IntentSubmitted | CancelRequested | ResumeRequested) -> None:
        self.world.submit(submission.node, submission.contract, event)

    def _go_on(self, submission: Submission, intent: IntentId) -> None:
        """Remove the obstacle: the domain no longer fails, and the user resumes the intent, parked or not."""
        if submission.payload in ("park", "fail"):
            self.world.payloads[intent] = b"mint"
        if submission.payload != "fail":
            self._ask(submission, ResumeRequested(f"resume {self.world.show(intent)}", intent))

    def _later(self, delay_ms: int, action: faults.Mend) -> None:
        self.world.at(self.world.now_ms + delay_ms, action)

    # Faults.

    def _hurt(self, fault: Fault) -> None:
        self.report.faults += 1
        self.report.faults_by_kind[fault.kind] += 1
        self.world.recorder.noted(
            self.world, f"fault {fault.number}: {fault.kind} {fault.node} {fault.other} for {fault.for_ms} ms"
        )
        mend = faults.apply(self.world, self.weather, fault)
        mend_ms = self.world.now_ms + fault.for_ms
        if mend_ms < self.plan.trouble_ms:
            self.world.at(mend_ms, mend)

    # Calm.

    def _calm(self) -> None:
        world = self.world
        world.recorder.noted(world, "the faults end")
        faults.mend_all(world, self.weather)
        self._mend_domain()
        world.judge.tell(FaultsEnded(world.now_ms))
        self._mine_now_and_then()
        self._let_end()
        probes_ms = self._probe()
        end_ms = world.now_ms + CALM_MAX_MS
        void_at_ms = probes_ms + VOIDED_FIRST_MS
        while world.now_ms < end_ms and not self.found:
            world.run_until(world.now_ms + CALM_BLOCK_MS, self._is_condemned)
            if world.now_ms > probes_ms and self._is_at_rest():
                break
            if world.now_ms > void_at_ms:
                # Let every endorsement expire, so that intents that end off the chain can be reported.
                void_at_ms = world.now_ms + VOIDED_EVERY_MS
                world.chain.let_time_pass(self.plan.config.prepared_validity_s + VOID_MARGIN_S)
        self.is_over = True
        if self.plan.deployments and not self.found:
            self.deploying.acquaint()
        world.run_until(world.now_ms + CATCH_UP_MS, self._is_condemned)
        if not self.found and not world.liars:
            self._listen()

    def _let_end(self) -> None:
        """Without new intents and time jumps, every intent that waits for nothing ends."""
        world = self.world
        if world.liars:
            # An idle coordinator is replaced eventually, without a bound that is checked here.
            return
        end_ms = world.now_ms + ENDS_WITHIN_MS
        while world.now_ms < end_ms and not self.found and self.waiting_for_nothing():
            world.run_until(world.now_ms + CALM_BLOCK_MS, self._is_condemned)
        # Judged at the end, because L1 reports intents that never end, too.
        self.calm = CalmPassed(ENDS_WITHIN_MS, self.waiting_for_nothing())

    def waiting_for_nothing(self) -> tuple[IntentId, ...]:
        """The open intents that wait neither for a user nor for a cause or a turn, nor depend on such.

        A turn is also that of the next version, when the faults have used up those that may follow one another at once.
        """
        held: set[IntentId] = set()
        nodes = self.world.nodes.values()
        versions = Counter(intent for node in nodes for intent, _ in node.disk.signed)
        found: list[IntentId] = []
        resting, open_ = self._resting_senders(), self._open_transactions()
        # All coins of a party may be in a prepared transition that its user has not committed.
        frozen = {
            (each.intent.contract, each.intent.sender)
            for each in open_
            if self.plan.domain in SHIPPED and each.state in WAITING_FOR_USER
        }
        for transaction in open_:
            intent = transaction.intent
            waits_for_user = transaction.state in WAITING_FOR_USER or (intent.contract, intent.sender) in frozen
            waits_for_turn = intent.submit_mode is SubmitMode.EXTERNAL and node_of(intent.sender) in resting
            waits_for_turn = waits_for_turn or versions[intent.id] >= VERSIONS_AT_ONCE
            is_held = intent.id in self.held or not held.isdisjoint(intent.depends_on)
            if waits_for_user or waits_for_turn or is_held:
                held.add(intent.id)
            else:
                found.append(intent.id)
        for deployment in self.deploying.open_deployments:
            if held.isdisjoint(deployment.intent.depends_on):
                found.append(deployment.intent.id)
        return tuple(found)

    def _resting_senders(self) -> set[NodeName]:
        """Senders whose users left prepared transitions unused: others may have their turn first (protocol §4.2)."""
        external = (intent for intent in self.intents.values() if intent.submit_mode is SubmitMode.EXTERNAL)
        told = ((intent, self.world.receipts.get(intent.id, ())) for intent in external)
        return {
            node_of(intent.sender)
            for intent, receipts in told
            if any(receipt.outcome is Outcome.REVERTED for receipt in receipts)
        }

    def _open_transactions(self) -> list[SenderTransaction]:
        """The open transactions, in the order of their submission."""
        sequencers = [
            sequencer
            for node in self.world.nodes.values()
            if node.core is not None and node.name not in self.world.liars
            for sequencer in node.core.sequencers.loaded.values()
        ]
        order = {intent.id: number for number, intent in self.intents.items()}
        found = [each for sequencer in sequencers for each in sequencer.sender.transactions.values()]
        return sorted(found, key=lambda each: order.get(each.intent.id, 0))

    def _listen(self) -> None:
        """Count the messages that are sent when nothing is left to do."""
        world = self.world
        is_at_rest, after_ms = self._is_at_rest(), world.now_ms - self.plan.trouble_ms
        world.run_until(world.now_ms + RESTS_WITHIN_MS, self._is_condemned)
        world.wires.said = Counter()
        world.run_until(world.now_ms + LISTENS_FOR_MS, self._is_condemned)
        if not self._open_transactions() and not self.deploying.open_deployments:
            world.judge.tell(Quiet(is_at_rest, after_ms, LISTENS_FOR_MS, world.wires.said))
        world.wires.said = None

    def _drain(self, conspiracy: Conspiracy) -> None:
        """At the very end liars commit every round they hold; reported outcomes must stay true."""
        if conspiracy.drain():
            for _ in range(self.plan.config.confirmations + 1):
                self.world.run_until(self.world.now_ms + self.plan.block_ms + CATCH_UP_MS, self._is_condemned)
                self.world.chain.mine()
            self.world.run_until(self.world.now_ms + CATCH_UP_MS, self._is_condemned)

    def let_catch_up(self) -> None:
        """Stop mining until every disk has the last block: liars send transactions to the ledger until the end."""
        if not self.found and not self.has_caught_up():
            self.world.chain.is_mining = False
            self.world.run_until(self.world.now_ms + CATCH_UP_MS, self._is_condemned)

    def has_caught_up(self) -> bool:
        """Every honest node has the last block in memory, and on its disk, whose unspent states are judged."""
        height = self.world.ledger.height
        honest = [node for name, node in self.world.nodes.items() if name not in self.world.liars]
        return all(node.core and node.core.height == node.disk.height == height for node in honest)

    def _mend_domain(self) -> None:
        """End permanent failures of the domain, which would keep their intents open."""
        for submission in (*self.plan.submissions, *self.deploying.used):
            if submission.payload == "fail":
                self.world.payloads[self.intents[submission.number].id] = b"mint"

    def _probe(self) -> int:
        """Schedule submissions after the faults, first seldom, then often; returns the time of the last one."""
        contracts = self.contracts
        rotating = [c for c in contracts if c.mode is Mode.RING and c.rotation is Rotation.STRICT]
        first_ms = self.world.now_ms + (LEADERS_KNOWN_AFTER_MS if rotating else SETTLED_AFTER_MS)
        number = 1_000_000
        seldom = range(self.world.now_ms, first_ms, SELDOM_PROBES_EVERY_MS)
        last_ms = first_ms + PROBES_FOR_MS
        slow: tuple[int, ...] = ()
        shortest = min((each.range_size for each in rotating), default=RANGE_SHOWN_MIN)
        if shortest < RANGE_SHOWN_MIN and not self.world.liars:
            # Slow blocks make a short range last long enough to observe its coordinator.
            self.block_every_ms = RANGE_SHOWN_MS // shortest
            self.world.at(first_ms, self._slow_down)
            last_ms = first_ms + RANGES_SHOWN * RANGE_SHOWN_MS
            slow = tuple(range(first_ms, last_ms, self.block_every_ms))
        often = slow or tuple(range(first_ms, last_ms, PROBES_EVERY_MS))
        for at_ms in (*seldom, *often):
            contract = contracts[number % len(contracts)]
            senders = senders_of(contract, self.plan.names)
            node = senders[number % len(senders)]
            probe = Submission(number, at_ms, node, contract.address, "spend:1" if number % 3 else "mint")
            self.world.at(at_ms, partial(self._submit, probe))
            number += 1
        self.world.at(last_ms, self._hurry_up)
        return last_ms

    def _slow_down(self) -> None:
        self.mine_every_ms = self.block_every_ms

    def _hurry_up(self) -> None:
        self.mine_every_ms = CALM_BLOCK_MS

    def _mine_now_and_then(self) -> None:
        if not self.is_over:
            self.world.chain.mine()
            self._later(self.mine_every_ms, self._mine_now_and_then)

    def _is_at_rest(self) -> bool:
        """Whether every intent is final or waits for its user, and every state is delivered."""
        parked: set[IntentId] = set()
        open_: list[Intent] = []
        for node in self.world.nodes.values():
            core = node.core
            if node.name in self.world.liars:
                continue
            if core is None or self._owes_states(core):
                return False
            for sequencer in core.sequencers.loaded.values():
                for transaction in sequencer.sender.transactions.values():
                    if transaction.state is TransactionState.PARKED:
                        parked.add(transaction.intent.id)
                    else:
                        open_.append(transaction.intent)
        open_ += [deployment.intent for deployment in self.deploying.open_deployments]
        for intent in open_:
            if parked.isdisjoint(intent.depends_on):
                return False
            parked.add(intent.id)
        return True

    def _owes_states(self, core: Node) -> bool:
        """Whether a delivery to an honest node is open; a liar that does not acknowledge one harms only itself."""
        if core.distribution.next_due_ms() is None:
            return False
        return not self.world.liars or any(peer not in self.world.liars for peer in core.distribution.owed)

    # Judgement.

    def _conclude(self) -> None:
        judge, ledger = self.world.judge, self.world.ledger
        judge.tell(RunEnded(self.world.now_ms))
        if self.calm is not None:
            judge.tell(self.calm)
        self.deploying.conclude()
        for contract in self.contracts:
            unspent = frozenset(ledger.states[contract.address].unspent)
            judge.tell(LedgerStood(contract.address, ledger.height, unspent))
            holders = [name for name, known in self.world.contracts_of.items() if contract in known]
            for name in holders:
                node = self.world.nodes[name]
                height = node.core.height if node.core is not None else -1
                view = frozenset(node.disk.unspent.get(contract.address, ()))
                judge.tell(Indexed(name, contract.address, height, view))
        if self.plan.loses_blocks or self.plan.loses_commits:
            self._tell_receipts_and_nonces()
        judge.conclude()

    def _tell_receipts_and_nonces(self) -> None:
        """Report the receipts and nonces that the nodes return at the end."""
        world = self.world
        for name, node in world.nodes.items():
            assert node.core is not None, "everything is mended"
            submitter = node.core.submitters.shared
            open_count = len(submitter.submissions) + len(submitter.recalling)
            on_chain = world.ledger.next_nonce.get(submitter.signer, 0)
            world.judge.tell(NonceRead(name, submitter.next_nonce, on_chain, open_count))
            question = LookUpIntents(0, "", tuple(node.disk.intents))
            answer = node.disk.look_up(question, world.contracts, node.config.confirmations)
            for intent, outcome in (*answer.outcomes, *((each, None) for each in answer.unfinished)):
                world.judge.tell(ReceiptRead(name, intent, outcome))


# Makes the swarm that plays a seed: `Swarm`, or one that also knows domains other than the simulator's own.
MakeSwarm = Callable[[int, Settings], Swarm]


def _candidates(plan: Plan) -> tuple[type[Invariant], ...]:
    """The invariants that are promised in a plan's network."""
    if plan.loses_commits:
        return AFTER_FAILOVER
    if plan.loses_blocks:
        return AFTER_LOST_BLOCKS
    return AMONG_LIARS if plan.liars else EVERY


def _place_of(error: Exception) -> str:
    """The module and line that raised an error."""
    (*_, last) = extract_tb(error.__traceback__)
    return f"{last.filename.rpartition('/rota/')[2]}:{last.lineno}"


def _contracts_by_node(plan: Plan) -> dict[NodeName, tuple[Contract, ...]]:
    known: dict[NodeName, list[Contract]] = {name: [] for name in plan.names}
    for contract in plan.contracts:
        for name in holders_of(contract, plan.names):
            known[name].append(contract)
    return {name: tuple(contracts) for name, contracts in known.items()}
