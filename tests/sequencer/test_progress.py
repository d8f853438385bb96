"""A delegate that does nothing for us is left, whatever it says; a slow one is not (protocol §4.3).

A sends, and at height 400 B leads, C follows, and A itself comes last.
"""

from __future__ import annotations

import pytest

from rota.machine.context import Ids
from rota.machine.events import CancelRequested, ConnectionLost
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import (
    Contract,
    DelegationNumber,
    HeartbeatNumber,
    KeptStates,
    Mode,
    NodeName,
    RequestId,
    Rotation,
    StateId,
    SubmitMode,
    Transition,
    Tried,
)
from rota.sequencer.context import Context
from rota.sequencer.demotion import Experience
from rota.sequencer.events import AssemblyFailed, AssemblyFinished, LedgerBack, LedgerLost, OutcomesFinal
from rota.sequencer.pace import Measured
from rota.sequencer.progress import GROWTH_MAX, Progress
from rota.sequencer.sender_transaction import State as TransactionState
from rota.sequencer.sent_intent import Permission
from rota.sequencer.turns import longest_rest_s
from rota.sequencer.versions import VERSIONS_MAX
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    AssemblyOutcome,
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationRequest,
    DispatchItem,
    EndorsementRequest,
    IntentAnswer,
    ListedIntent,
    Rejection,
    Snapshot,
    SubmittedIntent,
    SubmitterHeartbeat,
    TransactionReverted,
)
from tests.sequencer.kit import (
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    digest_of,
    intent_id,
    nonce_of,
    prepared_transition,
    sender_of,
    transition,
    void_transition,
)
from tests.sequencer.test_assembly import assemble, sign

HEIGHT = 400
TIMEOUT_MS = 8_000
CONFIG = Config(progress_timeout_ms=TIMEOUT_MS)
TWO_OF_THREE = contract(threshold=2)
NEVER = HeartbeatNumber(0, 0)


class Delegate:
    """B, which answers, sends heartbeats and lists; what it does beyond that is for the test to say."""

    def __init__(self, *names: str, of: Contract = TWO_OF_THREE, config: Config = CONFIG) -> None:
        self.bench = Bench(of=of, config=config, height=HEIGHT)
        self.names = names
        self.beats = 0
        self.requests = 0
        self.answer: Answer | None = Answer.ACCEPTED
        self.beat()
        for name in names:
            self.bench.submit(name)
            self.answer_commands()

    def beat(self) -> None:
        """It is there, and lists all that is ours."""
        self.beats += 1
        listed = tuple(ListedIntent(intent_id(name), "Pooled") for name in self.names)
        number = HeartbeatNumber(1, self.beats)
        self.bench.hear(B, CoordinatorHeartbeat(number, CoordinatorState.ACTIVE, listed, is_whole=True), height=HEIGHT)

    def answer_commands(self) -> None:
        """It answers the open command as it always does."""
        sender = self.bench.sequencer.sender
        if sender.command is None or sender.delegate != B:
            return
        command_id = sender.command.command_id
        if self.answer is not None:
            answers = tuple(IntentAnswer(one, self.answer) for one in sender.command.intents)
            self.bench.hear(B, DelegationAccepted(command_id, answers, HeartbeatNumber(1, self.beats)), height=HEIGHT)

    def live(self, for_ms: int, with_submitter: str = "") -> None:
        """Time passes, and it gives signs of life."""
        for _ in range(for_ms // 500):
            self.bench.wait(500)
            self.beat()
            self.answer_commands()
            if with_submitter:
                leaf = transition(with_submitter).leaf
                listed = SubmittedIntent(intent_id(with_submitter), leaf, "signer", 1, 1)
                self.bench.hear(B, SubmitterHeartbeat(HeartbeatNumber(1, self.beats), (listed,)), height=HEIGHT)

    def ask_to_assemble(self, name: str) -> None:
        """It asks to assemble, and we do."""
        self.requests += 1
        request = AssembleRequest(RequestId(1, self.requests), (intent_id(name),), Snapshot())
        self.bench.hear(B, request, height=HEIGHT)
        assemble(self.bench, self.requests, name)
        sign(self.bench, self.requests, name)

    def ask_for_permission(self, name: str) -> None:
        """It asks for permission, and gets it."""
        made = transition(name)
        item = DispatchItem(intent_id(name), DelegationNumber(1, 1), made.leaf, made.signature, made.valid_until_s)
        request = DispatchConfirmationRequest(RequestId(1, 100), digest_of(made.leaf), (item,))
        self.bench.hear(B, request, height=HEIGHT)

    def is_left(self) -> bool:
        """We have turned to another."""
        return self.bench.sequencer.sender.delegate != B

    def state_of(self, name: str) -> TransactionState:
        state = self.bench.sequencer.sender.transactions[intent_id(name)].state
        assert isinstance(state, TransactionState)
        return state


def commands(bench: Bench, to: NodeName) -> list[DelegationCommand]:
    return bench.said(DelegationCommand, to)


# Leaving.


def test_delegate_that_lists_and_does_nothing_is_left_after_the_timeout() -> None:
    delegate = Delegate("A-1")
    delegate.live(TIMEOUT_MS - 500)
    assert not delegate.is_left()
    delegate.live(500)
    assert delegate.is_left()
    command = commands(delegate.bench, C)[0]
    assert command.tried == (Tried(B, HeartbeatNumber(1, delegate.beats - 1), is_demoted=True),)


def test_signs_of_life_do_not_bring_us_back() -> None:
    delegate = Delegate("A-1")
    delegate.live(TIMEOUT_MS)
    delegate.live(10_000)
    assert delegate.is_left()
    assert delegate.bench.sequencer.observer.is_demoted(B)
    assert not delegate.bench.sequencer.observer.is_silent(B)


@pytest.mark.parametrize("answer", [Answer.FULL, Answer.HELD, Answer.DISPATCHED, Answer.CONFIRMED])
def test_no_answer_renews_our_patience(answer: Answer) -> None:
    delegate = Delegate("A-1")
    delegate.answer = answer
    delegate.live(TIMEOUT_MS)
    assert delegate.is_left()


def test_delegate_that_takes_an_intent_and_gives_it_up_again_and_again_is_left() -> None:
    """The waiting that it causes is its own, although nothing is with it meanwhile."""
    delegate = Delegate("A-1")
    number = DelegationNumber(1, 1)
    for _ in range(2 * TIMEOUT_MS // 500):
        delegate.bench.hear(
            B, TransactionReverted(intent_id("A-1"), number, transition("A-1").leaf, "no"), height=HEIGHT
        )
        delegate.live(500)
    assert delegate.is_left()


def test_delegate_on_whose_snapshots_nothing_can_be_assembled_is_left() -> None:
    delegate = Delegate("A-1")
    locked = Snapshot(locks=(StateId(transition("X-1").leaf, 0),))
    for counter in range(1, 3 * TIMEOUT_MS // 500):
        request_id = RequestId(1, counter)
        delegate.bench.hear(B, AssembleRequest(request_id, (intent_id("A-1"),), locked), height=HEIGHT)
        for outcome, made in (
            (AssemblyOutcome.REVERTED, None),
            (AssemblyOutcome.ASSEMBLED, transition("A-1", signature=b"")),
        ):
            delegate.bench.tell(AssemblyFinished(request_id, intent_id("A-1"), outcome, made, "no funds"))
        delegate.live(500)
    assert delegate.is_left()


def test_delegate_is_not_left_because_our_own_domain_fails() -> None:
    delegate = Delegate("A-1")
    for counter in range(1, 4 * TIMEOUT_MS // 500):
        request_id = RequestId(1, counter)
        delegate.bench.hear(B, AssembleRequest(request_id, (intent_id("A-1"),), Snapshot()), height=HEIGHT)
        delegate.bench.tell(AssemblyFailed(request_id, intent_id("A-1"), "the domain is down"))
        delegate.live(500)
    assert not delegate.is_left()


def test_intent_that_is_asked_for_again_and_again_renews_our_patience_once() -> None:
    delegate = Delegate("A-1")
    delegate.live(TIMEOUT_MS - 1_000)
    delegate.ask_to_assemble("A-1")
    for _ in range((TIMEOUT_MS - 500) // 500):
        delegate.live(500)
        delegate.ask_to_assemble("A-1")
    assert not delegate.is_left()
    delegate.live(500)
    assert delegate.is_left()


def test_long_queue_is_no_reason_to_leave_while_others_of_ours_come_further() -> None:
    names = [f"A-{number}" for number in range(1, 6)]
    delegate = Delegate(*names)
    for name in names[:3]:
        delegate.live(TIMEOUT_MS - 500)
        delegate.ask_to_assemble(name)
    assert not delegate.is_left()


def test_delegate_that_brings_intents_further_one_by_one_and_ends_none_is_left() -> None:
    names = [f"A-{number}" for number in range(1, 30)]
    delegate = Delegate(*names)
    for name in names:
        if delegate.is_left():
            break
        delegate.live(TIMEOUT_MS // 4)
        delegate.ask_to_assemble(name)
    assert delegate.is_left()
    assert delegate.bench.now_ms <= 4 * TIMEOUT_MS + 500


def test_permission_gives_the_chain_four_times_as_long_but_listing_gives_nothing() -> None:
    delegate = Delegate("A-1")
    delegate.ask_to_assemble("A-1")
    delegate.ask_for_permission("A-1")
    assert delegate.state_of("A-1") is TransactionState.PREPARED
    delegate.live(4 * TIMEOUT_MS - 500, with_submitter="A-1")
    assert delegate.state_of("A-1") is TransactionState.SUBMITTED
    delegate.live(500, with_submitter="A-1")
    assert delegate.is_left()
    assert delegate.state_of("A-1") is not TransactionState.SUBMITTED
    delegate.live(1_000, with_submitter="A-1")
    assert delegate.state_of("A-1") is not TransactionState.SUBMITTED, "who was left holds nothing by listing it"


def test_who_got_our_permission_in_its_turn_is_left_in_the_turn_of_another() -> None:
    """Strict turns: whoever got a permission and submitted nothing kept the intent for as long as it was valid."""
    strict = contract(threshold=2, rotation=Rotation.STRICT)
    delegate = Delegate("A-1", of=strict)
    delegate.ask_to_assemble("A-1")
    delegate.ask_for_permission("A-1")
    sender = delegate.bench.sequencer.sender
    height = next(each for each in range(HEIGHT, 10_000, 100) if sender.context.ranking(each // 100)[0] == C)
    delegate.bench.block(height)
    delegate.live(1_000, with_submitter="A-1")
    assert sender.delegate == C
    delegate.live(4 * TIMEOUT_MS - 2_000, with_submitter="A-1")
    assert not sender.observer.is_demoted(B)
    delegate.live(4_000, with_submitter="A-1")
    assert sender.observer.is_demoted(B)
    assert commands(delegate.bench, C)


def test_what_was_permitted_is_held_by_no_listing_when_its_validity_has_passed_in_final_time() -> None:
    delegate = Delegate("A-1", config=Config())
    delegate.ask_to_assemble("A-1")
    delegate.ask_for_permission("A-1")
    delegate.live(1_000, with_submitter="A-1")
    delegate.bench.tell(OutcomesFinal(GENESIS_S + 600, ()))
    assert delegate.state_of("A-1") is TransactionState.SUBMITTED
    delegate.bench.tell(OutcomesFinal(GENESIS_S + 601, ()))
    assert delegate.state_of("A-1") is TransactionState.PENDING
    delegate.live(1_000, with_submitter="A-1")
    assert delegate.state_of("A-1") is not TransactionState.SUBMITTED


def test_turns_are_added_up_so_that_nobody_escapes_by_sending_us_away() -> None:
    """B names C as the coordinator, C names B, and so on."""
    bench = Bench(of=TWO_OF_THREE, config=CONFIG, height=HEIGHT)
    bench.submit("A-1")
    number = 0
    while bench.sequencer.sender.delegate in (B, C) and bench.now_ms < 10 * TIMEOUT_MS:
        delegate, command = bench.sequencer.sender.delegate, bench.sequencer.sender.command
        if command is not None and delegate is not None:
            number += 1
            other = C if delegate == B else B
            rejected = DelegationRejected(
                command.command_id,
                Rejection.NOT_PREFERRED_COORDINATOR,
                HEIGHT,
                HEIGHT,
                other,
                1,
                HeartbeatNumber(2**62, number),
            )
            bench.hear(delegate, rejected, height=HEIGHT)
        bench.wait(100)
    assert bench.sequencer.sender.delegate == A
    assert bench.now_ms <= 2 * TIMEOUT_MS + 1_000


def test_number_that_a_redirect_told_us_is_repeated_to_nobody_else() -> None:
    bench = Bench(of=contract(A, B, C, threshold=2), config=CONFIG, height=HEIGHT)
    bench.submit("A-1")
    command = bench.sequencer.sender.command
    assert command is not None
    huge = HeartbeatNumber(2**62, 2**62)
    rejected = DelegationRejected(command.command_id, Rejection.NOT_PREFERRED_COORDINATOR, HEIGHT, HEIGHT, C, 1, huge)
    bench.hear(B, rejected, height=HEIGHT)
    bench.tell(ConnectionLost(C))
    assert bench.sequencer.sender.known_number_of(C, B) == huge
    assert bench.sequencer.sender.known_number_of(C, A) == NEVER


# Nobody is to blame.


def test_slow_delegate_is_not_left_while_our_intents_end() -> None:
    names = [f"A-{number}" for number in range(1, 8)]
    delegate = Delegate(*names)
    # Another member was as slow.
    pace = delegate.bench.sequencer.sender.progress.pace
    pace.measured[C] = Measured(10 * TIMEOUT_MS * len(names), 10, 10 * TIMEOUT_MS, delegate.bench.now_ms)
    for height, name in enumerate(names[:6], HEIGHT + 1):
        delegate.live(TIMEOUT_MS - 500)
        outcome = LedgerOutcome(
            intent_id(name), transition(name).leaf, digest_of(transition(name).leaf), LedgerStatus.COMMITTED
        )
        delegate.bench.block(height, outcome)
    assert not delegate.is_left()


def test_without_a_ledger_of_our_own_we_blame_nobody() -> None:
    delegate = Delegate("A-1")
    delegate.bench.tell(LedgerLost())
    delegate.live(3 * TIMEOUT_MS)
    delegate.bench.tell(LedgerBack())
    delegate.live(TIMEOUT_MS - 1_500)
    assert not delegate.is_left()


def test_while_too_few_endorsers_are_there_nobody_could_do_better() -> None:
    delegate = Delegate("A-1", of=contract())
    delegate.bench.tell(ConnectionLost(C))
    delegate.live(3 * TIMEOUT_MS)
    assert not delegate.is_left()


def test_jump_of_our_own_clock_is_nobodys_fault() -> None:
    delegate = Delegate("A-1")
    delegate.live(1_000)
    delegate.bench.wait(60_000)
    delegate.beat()
    delegate.live(1_000)
    assert not delegate.bench.sequencer.observer.is_demoted(B)


@pytest.mark.parametrize(
    "of", [contract(B, mode=Mode.STATIC, endorsers=(A, B)), contract(B, endorsers=(A, B), threshold=1)]
)
def test_only_coordinator_that_there_is_is_never_left(of: Contract) -> None:
    delegate = Delegate("A-1", of=of)
    delegate.live(3 * TIMEOUT_MS)
    assert not delegate.is_left()
    assert not delegate.bench.sequencer.observer.is_demoted(B)


def test_walk_in_which_nothing_ended_pardons_all_and_doubles_the_timeout() -> None:
    bench = Bench(of=TWO_OF_THREE, config=CONFIG, height=HEIGHT)
    bench.submit("A-1")
    observer, progress = bench.sequencer.observer, bench.sequencer.sender.progress
    for node in (B, C, A):
        observer.demote(node)
    bench.wait(5_000)
    assert progress.timeout_ms == 2 * TIMEOUT_MS
    assert not any(observer.is_demoted(node) for node in (A, B, C))


# The clocks.


def progress_at(timeout_ms: int = TIMEOUT_MS) -> Progress:
    context = Context(A, Ids(1), TWO_OF_THREE, Config(progress_timeout_ms=timeout_ms))
    return Progress(context)


def test_timeout_doubles_up_to_a_limit_and_halves_down_to_the_configured_one() -> None:
    progress = progress_at()
    for _ in range(10):
        progress.walked()
    assert progress.timeout_ms == GROWTH_MAX * TIMEOUT_MS
    for _ in range(10):
        progress.ended(None)
    assert progress.timeout_ms == TIMEOUT_MS


def test_clock_stands_until_something_waits() -> None:
    progress = progress_at()
    assert progress.left_ms(is_on_its_way=False) == TIMEOUT_MS
    progress.turn_to(B)
    progress.context.now_ms = 1_000
    assert progress.left_ms(is_on_its_way=False) == TIMEOUT_MS
    progress.begin()
    progress.context.now_ms = 2_000
    assert progress.left_ms(is_on_its_way=False) == TIMEOUT_MS - 1_000
    assert progress.left_ms(is_on_its_way=True) == 4 * TIMEOUT_MS - 1_000
    progress.stop()
    assert progress.left_ms(is_on_its_way=False) == TIMEOUT_MS


def test_progress_at_another_node_is_none_of_the_delegate() -> None:
    progress = progress_at()
    progress.turn_to(B)
    progress.begin()
    progress.context.now_ms = 1_000
    progress.came_further(C)
    assert progress.left_ms(is_on_its_way=False) == TIMEOUT_MS - 1_000


def test_end_that_another_brought_about_is_none_of_the_delegate() -> None:
    """Strict turns of 20 s: whoever did nothing in its own was cleared by the ends of the next one, for ever."""
    progress = progress_at()
    progress.begin()
    for turn in range(2):
        progress.turn_to(B)
        progress.context.now_ms += 1_000
        progress.turn_to(C)
        progress.context.now_ms += 500
        progress.ended(C)
        progress.turn_to(B)
        assert progress.left_ms(is_on_its_way=False) == TIMEOUT_MS - 1_000 * (turn + 1)
    progress.turn_to(C)
    assert progress.left_ms(is_on_its_way=False) == TIMEOUT_MS


def test_end_counts_for_who_had_our_permission_and_not_for_who_coordinates_then() -> None:
    delegate = Delegate("A-1", "A-2")
    sender = delegate.bench.sequencer.sender
    delegate.live(TIMEOUT_MS // 2)
    transaction, leaf = sender.transactions[intent_id("A-1")], transition("A-1").leaf
    transaction.permission = Permission(transaction.number, C, leaf, GENESIS_S + 600)
    sender.observer.demotions.own[B], sender.observer.demotions.own[C] = Experience(0, 3), Experience(0, 2)
    outcome = LedgerOutcome(intent_id("A-1"), leaf, digest_of(leaf), LedgerStatus.COMMITTED)
    delegate.bench.block(HEIGHT + 1, outcome)
    assert sender.progress.left_ms(is_on_its_way=False) <= TIMEOUT_MS // 2
    assert sender.observer.demotions.own == {B: Experience(0, 3)}


def test_delegate_that_was_left_begins_anew() -> None:
    progress = progress_at()
    progress.turn_to(B)
    progress.begin()
    progress.context.now_ms = 1_000
    progress.forget(B)
    assert progress.left_ms(is_on_its_way=False) == TIMEOUT_MS


# Heights.


def test_rejection_with_a_height_beyond_all_bounds_does_not_halt_the_sender() -> None:
    bench = Bench(height=HEIGHT)
    bench.submit("A-1")
    command = bench.sequencer.sender.command
    assert command is not None
    rejected = DelegationRejected(command.command_id, Rejection.MISMATCHED_BLOCK_HEIGHT, HEIGHT, 2**62)
    bench.hear(B, rejected, height=2**62)
    assert bench.sequencer.sender.awaited_range == 5
    bench.wait(4_999)
    assert commands(bench, C) == []
    bench.wait(1)
    assert [entry.node for entry in commands(bench, C)[0].tried] == [B]


def test_delegate_whose_height_did_not_come_is_not_waited_for_again_in_this_range() -> None:
    bench = Bench(of=contract(B, rotation=Rotation.STRICT), height=HEIGHT)
    bench.submit("A-1")
    for _ in range(2):
        while bench.sequencer.sender.command is None:
            bench.wait(100)
        command = bench.sequencer.sender.command
        rejected = DelegationRejected(command.command_id, Rejection.MISMATCHED_BLOCK_HEIGHT, HEIGHT, 2**62)
        bench.hear(B, rejected, height=2**62)
        bench.wait(5_000)
    assert bench.sequencer.sender.awaited_range is None


@pytest.mark.parametrize("height", [HEIGHT + 1, 2**62])
def test_early_assemble_request_is_forgotten_when_its_coordinator_has_given_it_up(height: int) -> None:
    delegate = Delegate("A-1")
    request = AssembleRequest(RequestId(1, 1), (intent_id("A-1"),), Snapshot())
    delegate.bench.hear(B, request, height=height)
    assert delegate.state_of("A-1") is TransactionState.DELEGATED
    delegate.live(2_000)
    delegate.bench.block(HEIGHT + 1)
    assert delegate.bench.sequencer.sender.assembly.early == {}
    assert delegate.state_of("A-1") is TransactionState.DELEGATED


def test_coordinator_whose_request_names_a_height_that_does_not_come_is_not_waited_for_again() -> None:
    delegate = Delegate("A-1", "A-2")
    for number, name in enumerate(("A-1", "A-2"), 1):
        request = AssembleRequest(RequestId(1, number), (intent_id(name),), Snapshot())
        delegate.bench.hear(B, request, height=HEIGHT + 50)
        if number == 1:
            assert delegate.state_of(name) is TransactionState.DELEGATED
            delegate.live(2_000)
    assert delegate.state_of("A-2") is TransactionState.ASSEMBLING


def test_coordinator_whose_height_comes_in_time_is_not_doubted() -> None:
    delegate = Delegate("A-1")
    request = AssembleRequest(RequestId(1, 1), (intent_id("A-1"),), Snapshot())
    delegate.bench.hear(B, request, height=HEIGHT + 1)
    delegate.bench.block(HEIGHT + 1)
    assert delegate.state_of("A-1") is TransactionState.ASSEMBLING
    assert delegate.bench.sequencer.observer.height_bound(B, HEIGHT + 9) == HEIGHT + 9


def test_stranger_cannot_take_the_place_of_an_early_request() -> None:
    delegate = Delegate("A-1")
    request = AssembleRequest(RequestId(1, 1), (intent_id("A-1"),), Snapshot())
    delegate.bench.hear(B, request, height=HEIGHT + 1)
    delegate.bench.hear(C, AssembleRequest(RequestId(1, 7), (intent_id("A-1"),), Snapshot()), height=HEIGHT + 50)
    delegate.bench.block(HEIGHT + 1)
    assert delegate.state_of("A-1") is TransactionState.ASSEMBLING


def test_delegate_is_not_left_for_what_waits_for_a_prepared_transition() -> None:
    """The sender's own node keeps the state, so that no coordinator could get the intent endorsed."""
    delegate = Delegate("A-1")
    kept = kept_away(delegate)
    delegate.live(10 * TIMEOUT_MS)
    assert not delegate.bench.sequencer.observer.is_demoted(B)
    delegate.bench.sequencer.kept.forget(kept.leaf)
    delegate.live(2 * TIMEOUT_MS)
    assert delegate.bench.sequencer.observer.is_demoted(B), "now it could do something"


def test_delegate_is_left_for_what_does_not_wait_for_a_prepared_transition() -> None:
    delegate = Delegate("A-1", "A-2")
    kept_away(delegate)
    delegate.live(2 * TIMEOUT_MS)
    assert delegate.bench.sequencer.observer.is_demoted(B)


@pytest.mark.parametrize("is_resting", [False, True])
def test_delegate_has_the_leave_bound_for_an_intent_of_which_we_sign_no_other_version_yet(is_resting: bool) -> None:
    """`rota simulate --seed 70022 --minutes 0.5 --liars 0`: C left B because C itself spaced its versions."""
    delegate = Delegate("A-1")
    transaction = delegate.bench.sequencer.sender.transactions[intent_id("A-1")]
    for number in range(VERSIONS_MAX // 2 - (not is_resting)):
        transaction.note_version(transition("A-1", version=number).leaf, GENESIS_S + delegate.bench.config.validity_s)
    delegate.live(2 * TIMEOUT_MS)
    assert delegate.bench.sequencer.observer.is_demoted(B) is not is_resting
    delegate.live(3 * TIMEOUT_MS if is_resting else 0)
    assert delegate.bench.sequencer.observer.is_demoted(B), "a liar that asks for many versions is left, too"


def kept_away(delegate: Delegate) -> KeptStates:
    """A-1 cannot be assembled but on a state that is kept for a prepared transition."""
    sequencer = delegate.bench.sequencer
    state = StateId(transition("X-2").leaf, 0)
    made = prepared_transition("X-9", state)
    kept = KeptStates(made.intent, made.leaf, made.inputs, made.valid_until_s)
    sequencer.kept.sign(kept)
    sequencer.sender.transactions[intent_id("A-1")].kept_from = transition("A-1", state)
    return kept


class ExternalDelegate(Delegate):
    """B, which has an external intent of ours assembled and then cannot get it endorsed."""

    def __init__(self) -> None:
        super().__init__(config=Config(progress_timeout_ms=TIMEOUT_MS, validity_s=20, prepared_validity_s=20))
        self.submit("A-1", SubmitMode.EXTERNAL)
        self.ask_to_assemble("A-1")

    def submit(self, name: str, submit_mode: SubmitMode) -> None:
        """One more intent, which B accepts."""
        self.names = (*self.names, name)
        self.bench.submit(name, submit_mode=submit_mode)
        self.answer_commands()


def test_delegate_is_left_for_an_external_intent_of_a_sender_that_left_nothing_unused() -> None:
    delegate = ExternalDelegate()
    delegate.live(2 * TIMEOUT_MS)
    assert delegate.bench.sequencer.observer.is_demoted(B)


def test_delegate_has_the_leave_bound_for_an_external_intent_that_may_wait_for_its_turn() -> None:
    """`rota simulate --seed 109 --minutes 1 --liars 0`: the honest coordinator of the range was demoted too early.

    `--seed 0 --liars 1 --strategies plants-states --mode ring --faults none --minutes 0.5`: a liar was never left.
    """
    delegate = ExternalDelegate()
    delegate.bench.tell(OutcomesFinal(GENESIS_S + 601, ()))
    delegate.ask_to_assemble("A-1")
    assert 1_000 * longest_rest_s(delegate.bench.sequencer.context.config) > 5 * TIMEOUT_MS
    delegate.live(3 * TIMEOUT_MS)
    assert not delegate.bench.sequencer.observer.is_demoted(B)
    delegate.live(2 * TIMEOUT_MS)
    assert delegate.bench.sequencer.observer.is_demoted(B)


@pytest.mark.parametrize("made", [transition("A-1"), void_transition("A-1")])
def test_delegate_is_left_unless_the_external_intent_that_ended_before_was_voided(made: Transition) -> None:
    delegate = ExternalDelegate()
    outcome = LedgerOutcome(intent_id("A-1"), made.leaf, digest_of(made.leaf), LedgerStatus.COMMITTED)
    delegate.bench.block(HEIGHT + 1, outcome)
    delegate.submit("A-2", SubmitMode.EXTERNAL)
    delegate.live(2 * TIMEOUT_MS)
    assert delegate.bench.sequencer.observer.is_demoted(B) is not made.is_empty


def test_delegate_is_not_left_for_an_external_intent_after_an_earlier_one_expired_unused() -> None:
    delegate = ExternalDelegate()
    sender = delegate.bench.sequencer.sender
    delegate.bench.tell(CancelRequested("cancel", intent_id("A-1")))
    delegate.bench.tell(OutcomesFinal(GENESIS_S + 601, ()))
    assert intent_id("A-1") not in sender.transactions
    delegate.submit("A-2", SubmitMode.EXTERNAL)
    delegate.live(2 * TIMEOUT_MS)
    assert not delegate.bench.sequencer.observer.is_demoted(B)


def test_delegate_is_left_for_an_ordinary_intent_while_an_external_one_waits_for_its_turn() -> None:
    delegate = ExternalDelegate()
    delegate.bench.tell(OutcomesFinal(GENESIS_S + 601, ()))
    delegate.ask_to_assemble("A-1")
    delegate.submit("A-2", SubmitMode.AUTO)
    delegate.live(2 * TIMEOUT_MS)
    assert delegate.bench.sequencer.observer.is_demoted(B)


def lie(delegate: Delegate, number: int) -> None:
    """An endorsement request of the delegate's own, which says that C and D are out of reach."""
    made = transition("B-1", version=number)
    tried = (Tried(C, HeartbeatNumber(2**40, 1)), Tried(D, HeartbeatNumber(2**40, 1)))
    request = EndorsementRequest(
        RequestId(1, 10_000 + number),
        digest_of(made.leaf),
        (made,),
        (sender_of("B-1"),),
        made.valid_until_s,
        tried,
        nonces=(nonce_of("B-1"),),
    )
    delegate.bench.hear(B, request, height=HEIGHT)


def test_coordinator_that_says_that_all_others_are_out_of_reach_is_left() -> None:
    delegate = Delegate("A-1", of=contract(A, B, C, D, threshold=3))
    for second in range(2 * TIMEOUT_MS // 1_000):
        lie(delegate, second)
        delegate.live(1_000)
    assert delegate.is_left()
