"""The coordinator's table, row by row (protocol §4.1): whose turn it is, what it says, and what it hands over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from rota.config import Config
from rota.core.coordinator import Coordinator
from rota.core.coordinator_transaction import CoordinatorTransaction
from rota.core.effects import DispatchRound, SendMessage
from rota.core.events import (
    BlocksRemoved,
    ConnectionLost,
    ConnectionMade,
    LedgerBack,
    LedgerLost,
    LedgerOutcome,
    LedgerStatus,
    MessageReceived,
    RoundDispatched,
    RoundDispatchFailed,
    StopRequested,
)
from rota.core.events.coordinator import HeartbeatInterval, TransactionDispatchConfirmed
from rota.core.sequencer import StoredContract
from rota.core.states.coordinator_transaction import State as TransactionState
from rota.messages import (
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorHeartbeat,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    Envelope,
    HandedOver,
    Handover,
    HandoverReason,
    HandoverRequest,
    IntentAnswer,
    Refusal,
    Rejection,
    TransactionDispatched,
)
from rota.messages import CoordinatorState as State
from rota.types import (
    NEVER_HEARD,
    Contract,
    DelegationNumber,
    FlushPoint,
    HeartbeatNumber,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    RequestId,
    Rotation,
    StateId,
    Transition,
    Tried,
)
from tests.core.kit import ADDRESS, A, B, Bench, C, D, MessageType, contract, digest_of, intent, intent_id, transition

# Who ranks where with the committee and the address of the kit, by range: 0 and 6 A B C · 1 C B A · 2 and 3 A C B
# · 4 B C A · 5 B A C; with D too: 0 D A B C · 1 C B D A.
AGREED = HandoverReason.OUTRANKS
STALE = RequestId(1, 999_999)
SIGNER = "0xsigner"


def name_of(intent: IntentId) -> str:
    """The name that an intent's id reads as."""
    return intent.rstrip(b"\x00").decode()


def endorsed_by_others(**options: object) -> Contract:
    """A contract of A, B and C that B and C endorse, so that every request to an endorser leaves the bench."""
    return contract(A, B, C, **{"endorsers": (B, C), **options})  # type: ignore[arg-type]


@dataclass
class CoordinatorBench(Bench):
    """A bench whose node coordinates: others delegate to it, and its requests are answered from here."""

    of: Contract = field(default_factory=endorsed_by_others)
    nonce: int = 0
    beats: dict[NodeName, int] = field(default_factory=dict)

    @property
    def coordinator(self) -> Coordinator:
        return self.sequencer.coordinator

    def state(self) -> State:
        """What our coordinator is now."""
        return State(self.coordinator.state.value)

    def transaction(self, name: str) -> CoordinatorTransaction:
        return self.coordinator.transactions[intent_id(name)]

    def state_of(self, name: str) -> TransactionState | None:
        """Where an intent is, or nothing when it is not held."""
        held = self.coordinator.transactions.get(intent_id(name))
        return None if held is None else TransactionState(held.state.value)

    def asked(self, kind: type[MessageType], to: NodeName | None = None) -> list[tuple[NodeName, MessageType]]:
        """The messages of a kind so far, each with its receiver; they are then forgotten."""
        found: list[tuple[NodeName, MessageType]] = []
        kept = []
        for effect in self.effects:
            is_send = isinstance(effect, SendMessage) and to in (None, effect.peer)
            if is_send and isinstance(effect.envelope.body, kind):  # type: ignore[attr-defined]
                found.append((effect.peer, effect.envelope.body))  # type: ignore[attr-defined]
            else:
                kept.append(effect)
        self.effects = kept
        return found

    # What others say.

    def delegate(
        self,
        *names: str,
        peer: NodeName | None = None,
        tried: tuple[Tried, ...] = (),
        height: int | None = None,
        number: int = 1,
        revert_count: int = 0,
    ) -> None:
        """A sender hands these intents over; it is the node that their names begin with."""
        author = peer or NodeName(names[0].partition("-")[0])
        delegations = tuple(Delegation(intent(name), DelegationNumber(1, number), revert_count) for name in names)
        command = DelegationCommand(RequestId(1, 1), delegations, tried)
        self.hear(author, command, height=self.sequencer.context.height if height is None else height)

    def beat(
        self,
        peer: NodeName,
        state: State = State.ACTIVE,
        *,
        height: int | None = None,
        refused: NodeName | None = None,
        no_ledger: bool = False,
    ) -> HeartbeatNumber:
        """A heartbeat of another coordinator; its number."""
        self.beats[peer] = self.beats.get(peer, 0) + 1
        number = HeartbeatNumber(1, self.beats[peer])
        seen = self.sequencer.context.height if height is None else height
        self.hear(peer, CoordinatorHeartbeat(number, state, refused=refused), height=seen, no_ledger=no_ledger)
        return number

    def ask_to_yield(self, peer: NodeName, reason: HandoverReason = AGREED, number: int = 7) -> None:
        """Another node asks for a hand-over."""
        self.hear(peer, HandoverRequest(RequestId(1, number), reason), height=self.sequencer.context.height)

    # What is answered to us.

    def assemble(self, *made: Transition) -> AssembleRequest:
        """The slot's sender answers its request: with these transitions, else with one that spends nothing."""
        [(peer, request)] = self.asked(AssembleRequest)
        by_intent = {transition.intent: transition for transition in made}
        results = tuple(
            AssemblyResult(
                asked,
                AssemblyOutcome.ASSEMBLED,
                DelegationNumber(1, 1),
                by_intent.get(asked, transition(name_of(asked))),
            )
            for asked in request.intents
        )
        self.hear(peer, AssembleResponse(request.request_id, results))
        return request

    def sign(self, *endorsers: NodeName) -> None:
        """These endorsers, or all that are asked, sign every round that they were asked about."""
        for peer, request in self.asked(EndorsementRequest):
            if not endorsers or peer in endorsers:
                self.hear(peer, EndorsementResponse(request.request_id, request.digest, f"by {peer}".encode()))

    def refuse(self, endorser: NodeName, *names: str) -> None:
        """An endorser refuses these intents of the round that it was asked about."""
        [(_, request)] = self.asked(EndorsementRequest, endorser)
        refusals = tuple(Refusal(intent_id(name), f"{endorser} refuses {name}") for name in names)
        self.hear(endorser, EndorsementResponse(request.request_id, request.digest, b"", refusals))

    def permit(self, *names: str) -> None:
        """The senders permit what they are asked for: all of it, or these intents."""
        for peer, request in self.asked(DispatchConfirmationRequest):
            intents = tuple(item.intent for item in request.items if not names or name_of(item.intent) in names)
            self.hear(peer, DispatchConfirmationResponse(request.request_id, intents))

    def write_rounds(self) -> list[DispatchRound]:
        """The submitter makes every dispatch durable."""
        found = self.take(DispatchRound)
        for dispatch in found:
            self.nonce += 1
            self.tell(RoundDispatched(dispatch.digest, SIGNER, self.nonce))
        return found

    def outcome(self, made: Transition, status: LedgerStatus = LedgerStatus.COMMITTED, **more: object) -> LedgerOutcome:
        """What the ledger says of a transition in the round that it is in now."""
        opened = self.transaction(name_of(made.intent)).round
        assert opened is not None
        return LedgerOutcome(made.intent, made.leaf, opened.digest, status, **more)  # type: ignore[arg-type]

    # Several of these in a row.

    def bring(self, to: TransactionState, *made: Transition) -> None:
        """Delegate intents of one sender and bring these transitions of them, in one round, to a state."""
        self.delegate(*(name_of(each.intent) for each in made))
        steps: dict[TransactionState, Callable[[], object]] = {
            TransactionState.ENDORSEMENT_GATHERING: lambda: self.assemble(*made),
            TransactionState.CONFIRMING_DISPATCH: self.sign,
            TransactionState.READY_FOR_DISPATCH: self.permit,
            TransactionState.DISPATCHED: self.write_rounds,
        }
        for state, step in steps.items():
            step()
            if state is to:
                return


def active(**options: object) -> CoordinatorBench:
    """A leads range 0 and is Active, with nothing in memory."""
    bench = CoordinatorBench(A, **options)  # type: ignore[arg-type]
    bench.delegate("B-0", peer=B)
    bench.hear(B, AssembleResponse(bench.asked(AssembleRequest)[0][1].request_id, (parked("B-0"),)))
    bench.forget()
    assert bench.state() is State.ACTIVE
    assert not bench.coordinator.transactions
    return bench


def parked(name: str) -> AssemblyResult:
    """The sender's domain parked it: it leaves the coordinator at once."""
    return AssemblyResult(intent_id(name), AssemblyOutcome.PARKED, DelegationNumber(1, 1))


def observing(
    node: NodeName, other: NodeName, *, height: int, rotation: Rotation = Rotation.STICKY
) -> CoordinatorBench:
    """A node that observes another one, which is Active, at a height where both are."""
    bench = CoordinatorBench(node, of=endorsed_by_others(rotation=rotation), height=height)
    bench.beat(other)
    bench.forget()
    assert bench.state() is State.OBSERVING
    return bench


def elect(node: NodeName = B, other: NodeName = A, *, height: int = 400) -> CoordinatorBench:
    """A node that outranks the active one at that height and has asked it to yield, for an intent of C or B."""
    bench = observing(node, other, height=height)
    bench.delegate("C-1" if node == B else "B-1")
    assert bench.state() is State.ELECT
    return bench


def standby() -> CoordinatorBench:
    """B, behind the active A in range 0, holds an intent of D for range 1, where C leads, which was tried, then B."""
    bench = CoordinatorBench(B, of=contract(A, B, C, D, endorsers=(A, C)))
    bench.beat(A)
    bench.delegate("D-1", height=100, tried=(Tried(C, HeartbeatNumber(9, 9)),))
    assert bench.state() is State.STANDBY
    return bench


def handed(name: str, *locks: StateId) -> HandedOver:
    """A flush point of another coordinator, which spends these states and makes one."""
    made = transition(name, *locks)
    return HandedOver(FlushPoint(digest_of(made.leaf), made.intent), made.leaf, locks, made.outputs)


def settled(point: HandedOver, status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    """The outcome of a flush point."""
    return LedgerOutcome(point.point.intent, point.leaf, point.point.digest, status)


def prepared(*points: HandedOver) -> CoordinatorBench:
    """B has asked A, and waits for these flush points."""
    bench = elect()
    hand_over(bench, *points)
    assert bench.state() is State.PREPARED
    return bench


def hand_over(bench: CoordinatorBench, *points: HandedOver, peer: NodeName = A) -> None:
    """The one that was asked answers."""
    request = bench.said(HandoverRequest, peer)[-1]
    bench.hear(peer, Handover(request.request_id, points), height=bench.sequencer.context.height)


def answers(bench: Bench, to: NodeName) -> list[Answer]:
    """What the last acceptance said of each intent."""
    return [answer.answer for answer in bench.said(DelegationAccepted, to)[-1].answers]


def states_said(bench: Bench, to: NodeName) -> list[State]:
    """The states that our heartbeats to a node named."""
    return [heartbeat.state for heartbeat in bench.said(CoordinatorHeartbeat, to)]


# Idle.


def test_idle_leader_accepts_a_delegation_and_is_active() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("B-1", "B-2")
    assert bench.state() is State.ACTIVE
    accepted = bench.said(DelegationAccepted, B)[0]
    assert accepted.command_id == RequestId(1, 1)
    assert accepted.answers == (
        IntentAnswer(intent_id("B-1"), Answer.ACCEPTED),
        IntentAnswer(intent_id("B-2"), Answer.ACCEPTED),
    )
    assert states_said(bench, C) == [State.ACTIVE]


def test_answer_to_a_delegation_names_the_message_that_it_answers() -> None:
    bench = CoordinatorBench(A)
    command = DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1"), DelegationNumber(1, 1)),))
    bench.tell(MessageReceived(B, Envelope(ADDRESS, RequestId(1, 77), 1, 0, command)))
    [sent] = [e for e in bench.take(SendMessage) if isinstance(e.envelope.body, DelegationAccepted)]
    assert sent.envelope.correlation_id == RequestId(1, 77)


def test_idle_node_that_is_outranked_names_the_leader() -> None:
    bench = CoordinatorBench(B)
    bench.delegate("C-1")
    assert bench.state() is State.IDLE
    [rejected] = bench.said(DelegationRejected, C)
    assert (rejected.rejection, rejected.active) == (Rejection.NOT_PREFERRED_COORDINATOR, A)
    assert not bench.coordinator.transactions


def test_idle_node_names_the_next_that_the_sender_has_not_tried() -> None:
    bench = CoordinatorBench(C)
    bench.delegate("B-1", tried=(Tried(A, NEVER_HEARD),))
    [rejected] = bench.said(DelegationRejected, B)
    assert rejected.active == B


def test_idle_node_in_another_range_answers_both_heights() -> None:
    bench = CoordinatorBench(A, height=50)
    bench.delegate("B-1", height=120)
    [rejected] = bench.said(DelegationRejected, B)
    assert rejected.rejection is Rejection.MISMATCHED_BLOCK_HEIGHT
    assert (rejected.provided_height, rejected.observed_height, rejected.active) == (120, 50, None)


def test_idle_node_accepts_when_all_that_outrank_it_were_tried() -> None:
    bench = CoordinatorBench(B)
    bench.delegate("C-1", tried=(Tried(A, NEVER_HEARD),))
    assert bench.state() is State.ACTIVE
    assert answers(bench, C) == [Answer.ACCEPTED]


def test_idle_node_accepts_when_all_that_outrank_it_are_silent_here() -> None:
    bench = CoordinatorBench(B)
    bench.tell(ConnectionLost(A))
    bench.delegate("C-1")
    assert bench.state() is State.ACTIVE


@pytest.mark.parametrize("state", [State.ELECT, State.PREPARED, State.ACTIVE, State.FLUSH])
def test_idle_node_observes_whoever_is_live_or_flushes(state: State) -> None:
    bench = CoordinatorBench(B)
    bench.beat(C, state)
    assert bench.state() is State.OBSERVING
    assert bench.coordinator.active == C


@pytest.mark.parametrize("state", [State.IDLE, State.OBSERVING, State.STANDBY, State.CLOSING])
def test_idle_node_does_not_observe_who_is_neither_live_nor_flushes(state: State) -> None:
    bench = CoordinatorBench(B)
    bench.beat(C, state)
    assert bench.state() is State.IDLE


def test_idle_node_that_hears_a_flush_goes_on_following_the_live_one() -> None:
    bench = CoordinatorBench(B)
    bench.coordinator.observer.accept(A)
    bench.beat(C, State.FLUSH)
    assert bench.state() is State.OBSERVING
    assert bench.coordinator.active == A


def test_idle_node_says_nothing() -> None:
    bench = CoordinatorBench(A)
    bench.wait(60_000)
    assert bench.effects == []
    assert bench.sequencer.next_deadline_ms() is None


def test_heartbeat_interval_means_nothing_to_an_idle_node() -> None:
    bench = CoordinatorBench(A)
    assert bench.coordinator.handle(HeartbeatInterval()) is None
    assert bench.coordinator.handle(TransactionDispatchConfirmed()) is None


@pytest.mark.parametrize("observes", [False, True])
def test_idle_or_observing_node_answers_a_handover_request_with_nothing_to_flush(observes: bool) -> None:
    bench = CoordinatorBench(B)
    if observes:
        bench.beat(A)
    bench.ask_to_yield(C, number=5)
    assert bench.said(Handover, C) == [Handover(RequestId(1, 5))]
    assert bench.state() is (State.OBSERVING if observes else State.IDLE)


# Whose delegation is allowed at all (§5.3).


def test_delegation_of_a_stranger_is_not_allowed() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("D-1")
    assert [r.rejection for r in bench.said(DelegationRejected, D)] == [Rejection.NOT_ALLOWED]
    assert bench.state() is State.IDLE


def test_delegation_of_another_nodes_intent_is_not_allowed() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("C-1", peer=B)
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.NOT_ALLOWED]
    assert bench.state() is State.IDLE


def test_static_coordinator_accepts_any_registered_node_at_any_height() -> None:
    bench = CoordinatorBench(A, of=contract(A, mode=Mode.STATIC, endorsers=(B,)))
    bench.delegate("D-1", height=5_000)
    assert bench.state() is State.ACTIVE


def test_node_that_the_ranking_does_not_hold_accepts_nothing_though_all_were_tried() -> None:
    bench = CoordinatorBench(B, of=contract(A, mode=Mode.STATIC, endorsers=(C,)))
    bench.delegate("C-1", tried=(Tried(A, NEVER_HEARD),))
    assert bench.state() is State.IDLE
    assert [r.rejection for r in bench.said(DelegationRejected, C)] == [Rejection.NOT_PREFERRED_COORDINATOR]


def test_in_sender_mode_a_node_coordinates_for_itself_alone_and_heartbeats_to_nobody_else() -> None:
    bench = CoordinatorBench(A, of=contract(A, B, C, mode=Mode.SENDER, endorsers=(B, C)))
    bench.delegate("B-1")
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.NOT_ALLOWED]
    bench.submit("A-1")
    assert bench.state() is State.ACTIVE
    bench.wait(2_000)
    assert bench.said(CoordinatorHeartbeat) == []


# Observing.


def test_observing_node_stays_so_while_heartbeats_come() -> None:
    bench = observing(B, A, height=0)
    for _ in range(10):
        bench.wait(1_000)
        bench.beat(A)
    assert bench.state() is State.OBSERVING


def test_observing_node_redirects_to_a_preferred_active_one_with_age_and_number_of_its_heartbeat() -> None:
    bench = observing(B, A, height=0)
    number = bench.beat(A)
    bench.wait(300)
    bench.delegate("C-1")
    [rejected] = bench.said(DelegationRejected, C)
    assert rejected.rejection is Rejection.NOT_PREFERRED_COORDINATOR
    assert (rejected.active, rejected.active_age_ms, rejected.active_number) == (A, 300, number)
    assert bench.state() is State.OBSERVING
    assert not bench.coordinator.transactions


def test_rank_is_compared_at_the_latest_of_the_active_ones_our_and_the_senders_range() -> None:
    bench = observing(B, C, height=0)
    bench.delegate("A-1", peer=A, height=100)
    [rejected] = bench.said(DelegationRejected, A)
    assert rejected.rejection is Rejection.NOT_PREFERRED_COORDINATOR
    assert rejected.active == C


def test_first_mention_as_tried_does_not_undo_a_redirect_that_was_never_made() -> None:
    bench = observing(B, A, height=0)
    bench.delegate("C-1", tried=(Tried(A, HeartbeatNumber(9, 9)),))
    assert [r.active for r in bench.said(DelegationRejected, C)] == [A]
    assert bench.state() is State.OBSERVING


def test_sender_that_tried_the_active_one_after_our_redirect_is_accepted() -> None:
    bench = observing(B, A, height=0)
    bench.delegate("C-1")
    told = bench.said(DelegationRejected, C)[0].active_number
    bench.delegate("C-1", tried=(Tried(A, told),))
    assert bench.state() is State.ELECT
    assert [request.reason for request in bench.said(HandoverRequest, A)] == [HandoverReason.TRIED]


def test_sender_that_tried_the_active_one_before_our_redirect_is_redirected_again() -> None:
    bench = observing(B, A, height=0)
    bench.beat(A)
    bench.delegate("C-1")
    told = bench.said(DelegationRejected, C)[0].active_number
    bench.delegate("C-1", tried=(Tried(A, HeartbeatNumber(told.incarnation, told.sequence - 1)),))
    assert bench.state() is State.OBSERVING


def test_a_redirect_is_remembered_per_sender() -> None:
    bench = observing(C, A, height=0)
    bench.delegate("C-1", peer=C)
    number = bench.beat(A)
    bench.delegate("B-1", tried=(Tried(A, number),))
    assert bench.state() is State.OBSERVING
    assert len(bench.said(DelegationRejected, B)) == 1


def test_observing_node_that_leads_in_the_senders_later_range_holds_in_standby() -> None:
    bench = observing(B, A, height=300)
    bench.delegate("C-1", height=400)
    assert bench.state() is State.STANDBY
    assert answers(bench, C) == [Answer.ACCEPTED]
    assert states_said(bench, C) == [State.STANDBY]
    assert bench.said(HandoverRequest) == []


def test_observing_node_does_not_hold_for_a_later_range_in_which_another_leads() -> None:
    bench = observing(C, A, height=300)
    bench.delegate("B-1", height=400)
    assert bench.state() is State.OBSERVING
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.MISMATCHED_BLOCK_HEIGHT]


def test_observing_node_rejects_a_sender_that_is_in_an_earlier_range() -> None:
    bench = observing(B, A, height=400)
    bench.delegate("C-1", height=300)
    [rejected] = bench.said(DelegationRejected, C)
    assert rejected.rejection is Rejection.MISMATCHED_BLOCK_HEIGHT
    assert (rejected.provided_height, rejected.observed_height) == (300, 400)


def test_observing_node_is_active_at_once_when_the_active_one_is_silent_here_too() -> None:
    bench = observing(B, A, height=0)
    bench.tell(ConnectionLost(A))
    bench.delegate("C-1")
    assert bench.state() is State.ACTIVE
    assert bench.said(HandoverRequest) == []


def test_observing_node_asks_the_active_one_that_it_outranks_to_yield() -> None:
    bench = observing(B, A, height=400)
    bench.delegate("C-1")
    assert bench.state() is State.ELECT
    assert [request.reason for request in bench.said(HandoverRequest, A)] == [HandoverReason.OUTRANKS]
    assert answers(bench, C) == [Answer.ACCEPTED]


@pytest.mark.parametrize("leaving", [State.FLUSH, State.CLOSING])
def test_observing_node_asks_one_that_leaves_although_it_is_outranked(leaving: State) -> None:
    bench = observing(B, A, height=0)
    bench.beat(A, leaving)
    bench.delegate("C-1")
    assert bench.state() is State.ELECT
    assert len(bench.said(HandoverRequest, A)) == 1


def test_observing_node_that_follows_one_who_is_not_yet_live_redirects_to_it() -> None:
    bench = observing(B, C, height=0)
    bench.coordinator.observer.accept(A)
    bench.delegate("C-1")
    assert [r.active for r in bench.said(DelegationRejected, C)] == [A]
    assert bench.state() is State.OBSERVING


def test_observing_node_in_strict_rejects_what_the_ranking_does_not_give_it() -> None:
    bench = observing(C, A, height=400, rotation=Rotation.STRICT)
    bench.delegate("B-1")
    assert bench.state() is State.OBSERVING
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.NOT_PREFERRED_COORDINATOR]


def test_observing_node_in_strict_accepts_what_the_ranking_gives_it() -> None:
    bench = observing(B, A, height=400, rotation=Rotation.STRICT)
    bench.delegate("C-1")
    assert bench.state() is State.ELECT


def test_observing_node_is_idle_when_the_active_one_is_silent() -> None:
    bench = observing(B, A, height=0)
    bench.tell(ConnectionLost(A))
    bench.wait(500)
    assert bench.state() is State.IDLE
    assert bench.coordinator.observer.accepted is None


def test_observing_node_is_idle_when_the_heartbeats_end_although_other_messages_come() -> None:
    bench = observing(B, A, height=0)
    for _ in range(4):
        bench.wait(400)
        bench.hear(A, Handover(STALE))
    assert not bench.coordinator.observer.is_silent(A)
    assert bench.state() is State.IDLE


# Standby.


def test_standby_asks_the_active_one_when_its_range_is_reached() -> None:
    bench = standby()
    bench.block(99)
    assert bench.state() is State.STANDBY
    bench.block(100)
    assert bench.state() is State.ELECT
    assert [request.reason for request in bench.said(HandoverRequest, A)] == [HandoverReason.OUTRANKS]


def test_standby_whose_range_is_reached_is_active_when_nobody_is_to_be_asked() -> None:
    bench = standby()
    bench.tell(ConnectionLost(A))
    bench.block(100)
    assert bench.state() is State.ACTIVE
    assert bench.said(HandoverRequest) == []
    assert len(bench.said(AssembleRequest, D)) == 1


def test_standby_is_active_when_the_active_one_was_silent_for_the_handover_timeout() -> None:
    bench = standby()
    bench.tell(ConnectionLost(A))
    bench.wait(500 + 2_999)
    assert bench.state() is State.STANDBY
    bench.wait(1)
    assert bench.state() is State.ACTIVE


def test_standby_with_nobody_to_wait_for_counts_from_its_own_beginning() -> None:
    bench = standby()
    bench.coordinator.observer.accepted = None
    bench.wait(2_500)
    assert bench.state() is State.STANDBY
    bench.wait(500)
    assert bench.state() is State.ACTIVE


def test_standby_that_hears_the_active_one_waits_for_its_range() -> None:
    bench = standby()
    for _ in range(10):
        bench.wait(500)
        bench.beat(A)
    assert bench.state() is State.STANDBY
    assert bench.asked(AssembleRequest) == []


def test_standby_in_strict_accepts_only_at_the_range_that_it_waits_for() -> None:
    bench = observing(B, A, height=300, rotation=Rotation.STRICT)
    bench.delegate("C-1", height=400)
    assert bench.state() is State.STANDBY
    bench.forget()
    bench.delegate("C-2", height=400)
    assert answers(bench, C) == [Answer.ACCEPTED]
    bench.delegate("A-3", peer=A, height=300)
    assert bench.state_of("A-3") is None
    assert [r.rejection for r in bench.said(DelegationRejected, A)] == [Rejection.NOT_PREFERRED_COORDINATOR]


def test_standby_compares_with_a_live_one_at_the_delegations_range() -> None:
    bench = standby()
    bench.beat(A)
    assert bench.state() is State.STANDBY
    bench.beat(C, height=0)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == C


def test_standby_compares_with_a_requester_at_the_delegations_range() -> None:
    bench = standby()
    bench.ask_to_yield(A)
    assert bench.state() is State.STANDBY
    bench.ask_to_yield(C)
    assert bench.state() is State.CLOSING
    assert bench.said(Handover, C) == [Handover(RequestId(1, 7))]


# Standby, Elect, Prepared alike.


@pytest.mark.parametrize("begin", [standby, elect, lambda: prepared(handed("A-9"))])
def test_who_awaits_the_role_holds_what_is_delegated(begin: Callable[[], CoordinatorBench]) -> None:
    bench = begin()
    before = bench.state()
    bench.forget()
    bench.delegate("B-2", peer=B)
    assert bench.state() is before
    if bench.node != B:
        assert answers(bench, B) == [Answer.ACCEPTED]
    assert bench.state_of("B-2") is not None
    assert bench.said(AssembleRequest) == []


@pytest.mark.parametrize("is_prepared", [False, True])
def test_elect_or_prepared_abandons_for_a_live_one_that_outranks_it(is_prepared: bool) -> None:
    bench = elect(C)
    if is_prepared:
        hand_over(bench, handed("A-9"))
    bench.forget()
    bench.beat(B)
    assert bench.state() is State.CLOSING
    assert not bench.coordinator.transactions
    said = bench.said(CoordinatorHeartbeat, A)
    assert [(heartbeat.state, heartbeat.successor) for heartbeat in said] == [(State.CLOSING, B)]


@pytest.mark.parametrize("is_prepared", [False, True])
def test_elect_or_prepared_does_not_abandon_for_one_that_it_outranks(is_prepared: bool) -> None:
    bench = elect(B, A)
    if is_prepared:
        hand_over(bench, handed("A-9"))
    before = bench.state()
    bench.beat(C)
    bench.ask_to_yield(C)
    assert bench.state() is before


@pytest.mark.parametrize("state", [State.STANDBY, State.CLOSING, State.FLUSH])
def test_elect_does_not_abandon_for_one_that_is_not_live(state: State) -> None:
    bench = elect(C)
    bench.beat(B, state)
    assert bench.state() is State.ELECT


@pytest.mark.parametrize("is_prepared", [False, True])
def test_elect_or_prepared_yields_to_a_requester_that_outranks_it_and_answers(is_prepared: bool) -> None:
    bench = elect(C)
    if is_prepared:
        hand_over(bench, handed("A-9"))
    bench.ask_to_yield(B, number=5)
    assert bench.state() is State.CLOSING
    assert bench.said(Handover, B) == [Handover(RequestId(1, 5))]


def tried_elect() -> CoordinatorBench:
    """B is outranked by the active A, but C has tried that in vain: B asks it to yield for that reason."""
    bench = observing(B, A, height=0)
    bench.delegate("C-1")
    number = bench.said(DelegationRejected, C)[0].active_number
    bench.delegate("C-1", tried=(Tried(A, number),))
    assert bench.state() is State.ELECT
    return bench


def test_who_asks_because_the_active_one_was_tried_stays_though_that_one_is_live_and_better() -> None:
    bench = tried_elect()
    bench.beat(A)
    bench.ask_to_yield(A)
    assert bench.state() is State.ELECT


def test_who_asks_because_the_active_one_was_tried_still_yields_to_a_third_that_is_better() -> None:
    bench = observing(C, A, height=0)
    bench.delegate("B-1")
    number = bench.said(DelegationRejected, B)[0].active_number
    bench.delegate("B-1", tried=(Tried(A, number),))
    assert bench.state() is State.ELECT
    bench.beat(B)
    assert bench.state() is State.CLOSING


# Elect.


def test_elect_repeats_its_request_every_request_timeout_with_the_same_id() -> None:
    bench = elect()
    for _ in range(2):
        bench.wait(999)
        bench.beat(A)
        bench.wait(1)
    requests = bench.said(HandoverRequest, A)
    assert len(requests) == 3
    assert len(set(requests)) == 1


def test_elect_is_active_when_the_handover_has_no_flush_points() -> None:
    bench = elect()
    hand_over(bench)
    assert bench.state() is State.ACTIVE
    assert len(bench.said(AssembleRequest, C)) == 1


def test_elect_is_prepared_when_the_handover_has_flush_points() -> None:
    bench = elect()
    hand_over(bench, handed("A-9"))
    assert bench.state() is State.PREPARED
    assert bench.said(AssembleRequest) == []


def test_elect_does_not_wait_for_flush_points_that_its_own_index_has_seen() -> None:
    bench = elect()
    done = handed("A-9")
    bench.block(401, settled(done, LedgerStatus.SKIPPED))
    hand_over(bench, done)
    assert bench.state() is State.ACTIVE
    assert bench.said(AssembleRequest, C)[0].snapshot.locks == ()


def test_elect_takes_only_the_answer_to_its_current_request_from_the_one_that_it_asked() -> None:
    bench = elect()
    request = bench.said(HandoverRequest, A)[0]
    bench.hear(A, Handover(STALE), height=400)
    bench.hear(C, Handover(request.request_id), height=400)
    assert bench.state() is State.ELECT


def test_elect_is_active_when_nobody_answers_for_the_handover_timeout() -> None:
    bench = elect()
    for _ in range(5):
        bench.wait(500)
        bench.beat(A)
    bench.wait(499)
    assert bench.state() is State.ELECT
    bench.wait(1)
    assert bench.state() is State.ACTIVE


def test_elect_is_active_at_once_when_the_old_ones_connection_is_lost() -> None:
    bench = elect()
    bench.tell(ConnectionLost(C))
    assert bench.state() is State.ELECT
    bench.tell(ConnectionLost(A))
    assert bench.state() is State.ACTIVE


def test_elect_is_active_when_the_old_ones_heartbeats_are_missing() -> None:
    bench = elect()
    bench.wait(1_499)
    assert bench.state() is State.ELECT
    bench.wait(1)
    assert bench.state() is State.ACTIVE


def test_elect_does_not_take_one_that_was_only_tried_to_be_gone() -> None:
    bench = tried_elect()
    assert bench.coordinator.observer.is_silent(A)
    bench.wait(500)
    assert bench.state() is State.ELECT


def test_elect_that_is_refused_abandons_and_names_the_one_that_refused() -> None:
    bench = elect()
    bench.forget()
    bench.beat(A, refused=B)
    assert bench.state() is State.CLOSING
    assert not bench.coordinator.transactions
    assert bench.said(CoordinatorHeartbeat, C)[0].successor == A


@pytest.mark.parametrize(
    ("peer", "refused", "state"), [(A, C, State.ACTIVE), (C, B, State.ACTIVE), (A, B, State.CLOSING)]
)
def test_elect_heeds_only_a_live_refusal_of_the_one_that_it_asked(
    peer: NodeName, refused: NodeName, state: State
) -> None:
    bench = elect()
    bench.beat(peer, state, refused=refused)
    assert bench.state() is State.ELECT


# Prepared.


def test_prepared_is_active_when_every_flush_point_has_an_outcome_skipped_included() -> None:
    one, other = handed("A-8"), handed("A-9")
    bench = prepared(one, other)
    bench.block(401, settled(one))
    assert bench.state() is State.PREPARED
    bench.block(402, settled(other, LedgerStatus.SKIPPED))
    assert bench.state() is State.ACTIVE


def test_prepared_does_not_count_a_skip_of_another_version() -> None:
    point = handed("A-9")
    bench = prepared(point)
    older = LedgerOutcome(
        point.point.intent, Leaf(b"older".ljust(32)), digest_of(Leaf(b"o" * 32)), LedgerStatus.SKIPPED
    )
    bench.block(401, older)
    assert bench.state() is State.PREPARED


def test_prepared_counts_another_version_of_the_intent_that_was_committed() -> None:
    point = handed("A-9")
    bench = prepared(point)
    other = LedgerOutcome(point.point.intent, Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.COMMITTED)
    bench.block(401, other)
    assert bench.state() is State.ACTIVE


def test_prepared_is_active_after_the_flush_timeout() -> None:
    bench = prepared(handed("A-9"))
    for _ in range(59):
        bench.wait(500)
        bench.beat(A, State.FLUSH)
    assert bench.state() is State.PREPARED
    bench.wait(500)
    assert bench.state() is State.ACTIVE


def test_prepared_is_active_when_the_old_one_is_silent_and_nothing_is_indexed_for_the_request_timeout() -> None:
    one, other = handed("A-8"), handed("A-9")
    bench = prepared(one, other)
    bench.tell(ConnectionLost(A))
    bench.wait(900)
    bench.block(401, settled(one))
    bench.wait(999)
    assert bench.state() is State.PREPARED
    bench.wait(500)
    assert bench.state() is State.ACTIVE


def test_prepared_waits_while_the_old_one_is_heard() -> None:
    bench = prepared(handed("A-9"))
    for _ in range(10):
        bench.wait(500)
        bench.beat(A, State.FLUSH)
    assert bench.state() is State.PREPARED


def test_imported_locks_and_states_are_what_the_next_slot_is_assembled_on() -> None:
    spent = transition("X-1").outputs[0].id
    point = handed("A-9", spent)
    bench = prepared(point)
    for _ in range(60):
        bench.wait(500)
        bench.beat(A, State.FLUSH)
    snapshot = bench.said(AssembleRequest, C)[0].snapshot
    assert snapshot.locks == (spent,)
    assert snapshot.states == point.states


def test_handover_is_answered_with_the_bytes_of_a_state_only_to_nodes_on_its_list() -> None:
    bench = active()
    made = transition("B-1")
    secret = replace(made, outputs=(replace(made.outputs[0], distribution=(A, B)),))
    bench.bring(TransactionState.DISPATCHED, secret)
    bench.block(400)
    bench.ask_to_yield(B)
    bench.ask_to_yield(C)
    [to_b], [to_c] = bench.said(Handover, B), bench.said(Handover, C)
    assert to_b.points[0].states[0].content is not None
    assert to_c.points[0].states[0].content is None
    assert to_b.points[0].states[0].id == to_c.points[0].states[0].id


# Active: delegations.


def test_active_says_so_at_once_and_every_heartbeat() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("B-1")
    bench.wait(1_500)
    beats = bench.said(CoordinatorHeartbeat, C)
    assert [beat.state for beat in beats] == [State.ACTIVE] * 4
    assert [beat.number.sequence for beat in beats] == sorted({beat.number.sequence for beat in beats})


def test_active_lists_to_each_sender_its_own_intents_and_their_states() -> None:
    bench = CoordinatorBench(A)
    bench.delegate("B-1")
    bench.delegate("C-1")
    bench.forget()
    bench.wait(500)
    [to_b], [to_c] = bench.said(CoordinatorHeartbeat, B), bench.said(CoordinatorHeartbeat, C)
    assert [(name_of(listed.intent), listed.state) for listed in to_b.intents] == [("B-1", "Assembling")]
    assert [(name_of(listed.intent), listed.state) for listed in to_c.intents] == [("C-1", "Pooled")]


def test_sticky_active_accepts_at_any_height() -> None:
    bench = active()
    bench.delegate("B-1", height=5_000)
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_strict_active_rejects_another_range_and_accepts_its_own() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.delegate("B-1", height=120)
    assert [r.rejection for r in bench.said(DelegationRejected, B)] == [Rejection.MISMATCHED_BLOCK_HEIGHT]
    bench.delegate("B-2", height=20)
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_strict_active_that_is_outranked_rejects_with_the_leader() -> None:
    bench = CoordinatorBench(B, of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.tell(ConnectionLost(A))
    bench.delegate("C-1")
    bench.tell(ConnectionMade(A))
    bench.delegate("C-2")
    assert [(r.rejection, r.active) for r in bench.said(DelegationRejected, C)] == [
        (Rejection.NOT_PREFERRED_COORDINATOR, A)
    ]


def test_delegation_over_the_limit_is_accepted_in_part_and_the_rest_when_there_is_room() -> None:
    bench = active(config=Config(in_flight_max=2))
    bench.delegate("B-1", "B-2", "B-3")
    assert answers(bench, B) == [Answer.ACCEPTED, Answer.ACCEPTED, Answer.FULL]
    [(peer, request)] = bench.asked(AssembleRequest)
    bench.hear(peer, AssembleResponse(request.request_id, (parked("B-1"),)))
    bench.delegate("B-3")
    assert answers(bench, B) == [Answer.ACCEPTED]
    assert bench.state_of("B-2") is TransactionState.ASSEMBLING


def test_intent_that_is_delegated_again_is_held_where_it_was() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.assemble()
    bench.forget()
    bench.delegate("B-1", number=2)
    assert answers(bench, B) == [Answer.HELD]
    assert bench.state_of("B-1") is TransactionState.ENDORSEMENT_GATHERING
    assert bench.said(AssembleRequest) == []


@pytest.mark.parametrize("state", [TransactionState.READY_FOR_DISPATCH, TransactionState.DISPATCHED])
def test_intent_past_the_point_of_no_return_is_answered_as_dispatched(state: TransactionState) -> None:
    bench = active()
    bench.bring(state, transition("B-1"))
    bench.forget()
    bench.delegate("B-1", number=2)
    assert answers(bench, B) == [Answer.DISPATCHED]
    assert bench.said(DispatchConfirmationRequest) == []


def test_intent_that_is_on_the_chain_is_answered_as_confirmed_whoever_dispatched_it() -> None:
    bench = active()
    bench.block(1, settled(handed("B-1")))
    bench.delegate("B-1")
    assert answers(bench, B) == [Answer.CONFIRMED]
    assert bench.state_of("B-1") is None


def test_intent_that_reverted_here_is_rejected_with_the_reason_until_the_next_heartbeat() -> None:
    bench = active()
    bench.delegate("B-1")
    [(peer, request)] = bench.asked(AssembleRequest)
    reverted = AssemblyResult(intent_id("B-1"), AssemblyOutcome.REVERTED, DelegationNumber(1, 1), reason="no money")
    bench.hear(peer, AssembleResponse(request.request_id, (reverted,)))
    bench.delegate("B-1", number=2)
    answer = bench.said(DelegationAccepted, B)[-1].answers[0]
    assert (answer.answer, answer.reason) == (Answer.REJECTED, "no money")
    bench.wait(500)
    bench.delegate("B-1", number=3)
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_acceptance_carries_the_number_of_our_latest_heartbeat() -> None:
    bench = active()
    bench.wait(1_000)
    bench.delegate("B-1")
    latest = bench.said(CoordinatorHeartbeat, B)[-1].number
    assert bench.said(DelegationAccepted, B)[-1].heartbeat == latest


def test_accepted_delegation_makes_those_that_it_lists_as_tried_silent() -> None:
    bench = active()
    bench.beat(C, State.STANDBY)
    bench.delegate("B-1", tried=(Tried(C, HeartbeatNumber(1, 1)),))
    assert bench.coordinator.observer.is_silent(C)


# Active: hand-over.


def test_active_with_nothing_to_flush_yields_to_a_requester_that_outranks_it_and_closes() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.block(400)
    bench.forget()
    bench.ask_to_yield(B, number=5)
    assert bench.state() is State.CLOSING
    assert bench.said(Handover, B) == [Handover(RequestId(1, 5))]
    assert bench.state_of("C-1") is None
    said = bench.said(CoordinatorHeartbeat, C)[0]
    assert (said.state, said.successor, said.intents) == (State.CLOSING, B, ())


def test_active_with_a_dispatch_yields_by_flushing_and_tells_its_flush_points() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    made = transition("B-1", spent)
    bench.bring(TransactionState.DISPATCHED, made)
    bench.delegate("C-1")
    bench.block(400)
    opened = bench.transaction("B-1").round
    assert opened is not None
    bench.ask_to_yield(B, number=5)
    assert bench.state() is State.FLUSH
    point = HandedOver(FlushPoint(opened.digest, made.intent), made.leaf, (spent,), made.outputs)
    assert bench.said(Handover, B) == [Handover(RequestId(1, 5), (point,))]
    assert bench.state_of("C-1") is None
    assert bench.state_of("B-1") is TransactionState.DISPATCHED


def test_active_that_yields_dispatches_what_is_ready_and_answers_only_when_that_is_written() -> None:
    bench = active()
    one, other = transition("B-1"), transition("B-2")
    bench.bring(TransactionState.CONFIRMING_DISPATCH, one, other)
    bench.permit("B-1")
    bench.block(400)
    assert bench.take(DispatchRound) == []
    bench.ask_to_yield(B, number=5)
    assert bench.state_of("B-2") is None
    assert bench.said(Handover) == []
    [dispatch] = bench.write_rounds()
    assert dispatch.transitions == (one,)
    assert dispatch.leaves == (one.leaf, other.leaf)
    [answer] = bench.said(Handover, B)
    assert [point.point.intent for point in answer.points] == [one.intent]


def test_handover_waits_for_a_dispatch_write_that_fails_at_first() -> None:
    bench = active()
    bench.bring(TransactionState.READY_FOR_DISPATCH, transition("B-1"))
    bench.block(400)
    bench.ask_to_yield(B)
    [dispatch] = bench.take(DispatchRound)
    bench.tell(RoundDispatchFailed(dispatch.digest, "disk full"))
    assert bench.said(Handover) == []
    bench.wait(250)
    assert len(bench.write_rounds()) == 1
    assert len(bench.said(Handover, B)) == 1


def test_sticky_active_yields_to_one_it_outranks_whose_sender_tried_in_vain() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B


def test_strict_active_does_not_yield_because_it_was_tried() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.ask_to_yield(B, HandoverReason.TRIED)
    assert bench.state() is State.ACTIVE
    assert [beat.refused for beat in bench.said(CoordinatorHeartbeat, B)] == [B]


def test_active_refuses_one_that_it_outranks_with_a_heartbeat_at_once() -> None:
    bench = active()
    before = bench.coordinator.number
    bench.ask_to_yield(C)
    assert bench.state() is State.ACTIVE
    [said] = bench.said(CoordinatorHeartbeat, C)
    assert (said.state, said.refused) == (State.ACTIVE, C)
    assert said.number > before
    assert bench.said(Handover) == []


def test_one_that_yielded_to_a_tried_successor_redirects_to_it_while_that_is_live_in_this_range() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    bench.beat(B)
    bench.delegate("C-1")
    assert [r.active for r in bench.said(DelegationRejected, C)] == [B]


def test_one_that_yielded_to_a_tried_successor_is_free_of_it_in_another_range() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    bench.beat(B)
    bench.block(200)
    bench.delegate("C-1")
    assert bench.state() is State.ELECT


# Active: healed partitions.


def test_active_yields_to_a_live_one_that_outranks_it() -> None:
    bench = active()
    bench.block(400)
    bench.beat(B)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B
    assert bench.said(Handover) == []


def test_active_with_a_dispatch_yields_to_a_live_one_by_flushing() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.block(400)
    bench.beat(B)
    assert bench.state() is State.FLUSH


@pytest.mark.parametrize("state", [State.STANDBY, State.FLUSH, State.CLOSING])
def test_active_does_not_yield_to_one_that_is_not_live(state: State) -> None:
    bench = active()
    bench.block(400)
    bench.beat(B, state)
    assert bench.state() is State.ACTIVE
    assert bench.said(HandoverRequest) == []


def test_active_does_not_yield_to_the_one_whose_tried_successor_it_is() -> None:
    bench = tried_elect()
    hand_over(bench)
    assert bench.state() is State.ACTIVE
    bench.beat(A)
    assert bench.state() is State.ACTIVE


def test_one_that_took_over_by_rank_yields_when_the_old_one_outranks_it_again() -> None:
    bench = elect()
    hand_over(bench)
    assert bench.state() is State.ACTIVE
    bench.block(600)
    bench.beat(A)
    assert bench.state() is State.CLOSING


def test_active_asks_a_live_one_that_it_outranks_to_yield_with_one_id() -> None:
    bench = active()
    bench.beat(B)
    bench.beat(B)
    requests = bench.said(HandoverRequest, B)
    assert [request.reason for request in requests] == [HandoverReason.OUTRANKS] * 2
    assert len({request.request_id for request in requests}) == 1
    assert bench.state() is State.ACTIVE


def test_active_that_asks_another_uses_a_new_id() -> None:
    bench = active()
    bench.beat(B)
    bench.beat(C)
    [one], [other] = bench.said(HandoverRequest, B), bench.said(HandoverRequest, C)
    assert one.request_id != other.request_id


def test_handover_to_an_active_resets_its_undispatched_transitions_that_conflict() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    mine = transition("B-1", spent)
    on_top, beside = transition("B-2", mine.outputs[0].id), transition("B-3")
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, mine, on_top, beside)
    bench.beat(C)
    bench.forget()
    bench.hear(C, Handover(bench.coordinator.asked_id or STALE, (handed("C-9", spent),)))
    assert bench.state_of("B-3") is TransactionState.ENDORSEMENT_GATHERING
    [(_, request)] = bench.asked(AssembleRequest)
    assert request.intents == (intent_id("B-1"), intent_id("B-2"))
    assert request.snapshot.locks == (spent,)
    assert mine.outputs[0] not in request.snapshot.states


def test_handover_to_an_active_leaves_what_is_past_the_point_of_no_return() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    bench.bring(TransactionState.READY_FOR_DISPATCH, transition("B-1", spent))
    bench.beat(C)
    bench.hear(C, Handover(bench.said(HandoverRequest, C)[0].request_id, (handed("C-9", spent),)))
    assert bench.state_of("B-1") is TransactionState.READY_FOR_DISPATCH


def test_handover_that_conflicts_with_another_foreign_transition_resets_nothing_of_ours() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    bench.beat(C)
    request = bench.said(HandoverRequest, C)[0].request_id
    bench.hear(C, Handover(request, (handed("C-8", spent), handed("C-9", spent))))
    assert {placed.intent for placed in bench.coordinator.graph.foreign()} == {intent_id("C-8"), intent_id("C-9")}


def test_active_ignores_a_handover_that_it_did_not_ask_for() -> None:
    bench = active()
    bench.beat(C)
    bench.hear(C, Handover(STALE, (handed("C-9"),)))
    bench.hear(B, Handover(bench.said(HandoverRequest, C)[0].request_id, (handed("C-9"),)))
    assert bench.coordinator.graph.foreign() == ()


# Active: ranges, endorsers, the ledger, stopping, resting.


def test_strict_active_yields_at_a_range_boundary_to_the_new_leader() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.delegate("C-1")
    bench.block(400)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B
    assert bench.state_of("C-1") is None


def test_strict_active_with_a_dispatch_flushes_at_a_range_boundary() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.block(400)
    assert bench.state() is State.FLUSH


def test_strict_active_stays_when_it_leads_the_new_range_too() -> None:
    bench = active(height=200, of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.block(300)
    assert bench.state() is State.ACTIVE


def test_strict_active_passes_over_a_silent_leader_of_the_new_range() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.tell(ConnectionLost(B))
    bench.block(500)
    assert bench.state() is State.ACTIVE


def test_strict_active_out_of_turn_stays_within_its_range() -> None:
    bench = active(of=endorsed_by_others(rotation=Rotation.STRICT))
    bench.tell(ConnectionLost(B))
    bench.block(500)
    bench.tell(ConnectionMade(B))
    bench.block(501)
    assert bench.state() is State.ACTIVE


def test_sticky_active_stays_whoever_leads_the_new_range() -> None:
    bench = active()
    bench.block(400)
    assert bench.state() is State.ACTIVE


def refusing_endorser(bench: CoordinatorBench, endorser: NodeName, accepted: NodeName | None) -> None:
    """An endorser says whom it accepts instead of us."""
    [(_, request)] = bench.asked(EndorsementRequest, endorser)
    error = EndorsementError(request.request_id, Rejection.NOT_PREFERRED_COORDINATOR, accepted)
    bench.hear(endorser, error)


def test_active_whose_endorser_follows_one_that_is_silent_here_steps_down() -> None:
    bench = active()
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.tell(ConnectionLost(C))
    refusing_endorser(bench, B, C)
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B
    assert bench.coordinator.paused_until_ms == bench.now_ms + bench.config.step_down_pause_ms


def test_active_with_a_dispatch_steps_down_by_flushing() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-2"))
    bench.tell(ConnectionLost(C))
    refusing_endorser(bench, B, C)
    assert bench.state() is State.FLUSH


@pytest.mark.parametrize("accepted", [None, A, C])
def test_active_stays_when_the_endorser_follows_nobody_or_us_or_one_that_is_heard_here(
    accepted: NodeName | None,
) -> None:
    bench = active()
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-1"))
    refusing_endorser(bench, B, accepted)
    assert bench.state() is State.ACTIVE
    assert bench.coordinator.paused_until_ms == 0


def stepped_down() -> CoordinatorBench:
    """A has stepped down and said its goodbyes; nobody else is live."""
    bench = active()
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.tell(ConnectionLost(C))
    refusing_endorser(bench, B, C)
    bench.wait(4_000)
    assert bench.state() is State.IDLE
    bench.forget()
    return bench


def test_one_that_stepped_down_does_not_choose_itself_for_a_while() -> None:
    bench = stepped_down()
    bench.submit("A-1")
    assert bench.said(DelegationCommand, B)
    assert bench.state() is State.IDLE


def test_one_that_stepped_down_chooses_itself_again_when_it_accepts_another_senders_delegation() -> None:
    bench = stepped_down()
    bench.delegate("B-2")
    assert bench.coordinator.paused_until_ms == 0
    bench.submit("A-1")
    assert bench.state_of("A-1") is not None


def test_own_senders_delegation_does_not_end_the_pause() -> None:
    bench = stepped_down()
    bench.delegate("A-1", peer=A)
    assert bench.state() is State.ACTIVE
    assert bench.coordinator.paused_until_ms > bench.now_ms


def test_active_that_loses_its_ledger_closes_in_favour_of_the_next_of_the_ranking() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.tell(LedgerLost())
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == B
    assert bench.state_of("C-1") is None


@pytest.mark.parametrize("begin", [standby, elect, lambda: prepared(handed("A-9"))])
def test_who_awaits_the_role_and_loses_its_ledger_steps_aside(begin: Callable[[], CoordinatorBench]) -> None:
    bench = begin()
    bench.tell(LedgerLost())
    assert bench.state() is State.CLOSING
    assert not bench.coordinator.transactions


def test_without_a_ledger_nothing_is_listed_as_dispatched() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.tell(LedgerLost())
    assert bench.state() is State.FLUSH
    bench.forget()
    bench.wait(500)
    assert [beat.intents for beat in bench.said(CoordinatorHeartbeat, B)] == [()]
    bench.tell(LedgerBack())
    bench.wait(500)
    assert len(bench.said(CoordinatorHeartbeat, B)[-1].intents) == 1


def every_state() -> list[CoordinatorBench]:
    """One bench in each state of the table."""
    flushing = active()
    flushing.bring(TransactionState.DISPATCHED, transition("B-1"))
    flushing.ask_to_yield(B, HandoverReason.TRIED)
    closing = active()
    closing.ask_to_yield(B, HandoverReason.TRIED)
    benches = [
        CoordinatorBench(A),
        observing(C, A, height=0),
        standby(),
        elect(C),
        prepared(handed("A-9")),
        active(),
        flushing,
        closing,
    ]
    assert {bench.state() for bench in benches} == set(State)
    return benches


def test_without_a_ledger_every_state_rejects_delegations_with_no_ledger() -> None:
    for bench in every_state():
        bench.tell(LedgerLost())
        bench.forget()
        bench.delegate("B-7", peer=B) if bench.node != B else bench.delegate("C-7", peer=C)
        assert [r.rejection for r in bench.said(DelegationRejected)] == [Rejection.NO_LEDGER]
        assert bench.said(DelegationAccepted) == []


def test_once_asked_to_stop_every_state_rejects_delegations() -> None:
    for bench in every_state():
        bench.tell(StopRequested())
        bench.forget()
        bench.delegate("B-7", peer=B) if bench.node != B else bench.delegate("C-7", peer=C)
        assert [r.rejection for r in bench.said(DelegationRejected)] == [Rejection.NO_LEDGER]


def test_who_acts_and_is_asked_to_stop_hands_over_to_the_next_that_is_not_silent() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.tell(ConnectionLost(B))
    bench.tell(StopRequested())
    assert bench.state() is State.CLOSING
    assert bench.coordinator.successor == C
    assert bench.state_of("C-1") is None


def test_active_with_a_dispatch_that_is_asked_to_stop_flushes() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.tell(StopRequested())
    assert bench.state() is State.FLUSH


@pytest.mark.parametrize("begin", [standby, elect, lambda: prepared(handed("A-9"))])
def test_who_awaits_the_role_and_is_asked_to_stop_closes(begin: Callable[[], CoordinatorBench]) -> None:
    bench = begin()
    bench.tell(StopRequested())
    assert bench.state() is State.CLOSING


def test_active_with_nothing_in_memory_rests_after_the_idle_grace_and_its_last_heartbeat_says_closing() -> None:
    bench = active()
    bench.wait(3_000)
    assert bench.state() is State.ACTIVE
    bench.wait(500)
    assert bench.state() is State.IDLE
    assert states_said(bench, B) == [State.ACTIVE] * 6 + [State.CLOSING]
    assert bench.said(CoordinatorHeartbeat, B)[-1].successor is None
    assert bench.coordinator.observer.accepted is None


def test_active_that_rests_goes_on_following_another_that_it_accepted() -> None:
    bench = active()
    bench.wait(3_000)
    bench.coordinator.observer.accept(B)
    bench.wait(500)
    assert bench.state() is State.IDLE
    assert bench.coordinator.observer.accepted == B


def test_active_that_holds_something_does_not_rest() -> None:
    bench = active()
    bench.wait(2_500)
    bench.delegate("B-1")
    bench.wait(60_000)
    assert bench.state() is State.ACTIVE


def test_active_counts_its_idle_heartbeats_from_the_last_intent() -> None:
    bench = active()
    bench.wait(2_500)
    bench.delegate("B-1")
    bench.wait(500)
    [(peer, request), *_] = bench.asked(AssembleRequest)
    bench.hear(peer, AssembleResponse(request.request_id, (parked("B-1"),)))
    bench.wait(3_000)
    assert bench.state() is State.ACTIVE
    bench.wait(500)
    assert bench.state() is State.IDLE


def test_undispatched_intents_of_a_sender_that_is_silent_for_long_are_dropped() -> None:
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.delegate("B-2")
    bench.delegate("C-1")
    bench.tell(ConnectionLost(B))
    bench.wait(500 + 59_999)
    assert bench.state_of("B-2") is not None
    bench.wait(1)
    assert bench.state_of("B-2") is None
    assert bench.state_of("B-1") is TransactionState.DISPATCHED
    assert bench.state_of("C-1") is not None


def test_a_sender_that_comes_back_in_time_loses_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.tell(ConnectionLost(B))
    bench.wait(40_000)
    bench.tell(ConnectionMade(B))
    bench.wait(500)
    bench.tell(ConnectionLost(B))
    bench.wait(40_000)
    assert bench.state_of("B-1") is not None


# Flush and Closing.


def flushing() -> CoordinatorBench:
    """A has one dispatch without an outcome, and has yielded to B in range 4."""
    bench = active()
    bench.bring(TransactionState.DISPATCHED, transition("B-1"))
    bench.block(400)
    bench.ask_to_yield(B)
    assert bench.state() is State.FLUSH
    bench.forget()
    return bench


def test_flush_names_its_successor_and_lists_what_it_flushes() -> None:
    bench = flushing()
    bench.wait(500)
    [said] = bench.said(CoordinatorHeartbeat, B)
    assert (said.state, said.successor) == (State.FLUSH, B)
    assert [listed.state for listed in said.intents] == ["Dispatched"]


def test_flush_closes_when_no_flush_point_is_open() -> None:
    bench = flushing()
    bench.block(401, settled(handed("C-9")))
    assert bench.state() is State.FLUSH
    bench.block(402, bench.outcome(transition("B-1")))
    assert bench.state() is State.CLOSING


def test_flush_that_hears_of_a_skip_does_not_retry_but_lets_the_intent_go() -> None:
    bench = flushing()
    bench.block(401, bench.outcome(transition("B-1"), LedgerStatus.SKIPPED, is_contention=True))
    assert bench.state_of("B-1") is None
    assert bench.state() is State.CLOSING


def test_flush_does_not_take_a_failure_of_an_older_version_for_its_flush_points_outcome() -> None:
    bench = flushing()
    older = LedgerOutcome(intent_id("B-1"), Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.SKIPPED)
    bench.block(401, older)
    assert bench.state() is State.FLUSH
    assert bench.state_of("B-1") is TransactionState.DISPATCHED


@pytest.mark.parametrize("peer", [B, C])
def test_flush_or_closing_answers_whoever_asks_with_what_is_open(peer: NodeName) -> None:
    bench = flushing()
    bench.ask_to_yield(peer, number=8)
    [answer] = bench.said(Handover, peer)
    assert [point.point.intent for point in answer.points] == [intent_id("B-1")]
    bench.block(402, bench.outcome(transition("B-1")))
    bench.ask_to_yield(peer, number=9)
    assert bench.said(Handover, peer)[-1] == Handover(RequestId(1, 9))


def test_closing_observes_after_its_goodbyes_when_another_is_live() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    bench.forget()
    for _ in range(6):
        bench.wait(500)
        bench.beat(B)
    assert bench.state() is State.CLOSING
    assert states_said(bench, C) == [State.CLOSING] * 6
    bench.wait(500)
    assert bench.state() is State.OBSERVING


def test_closing_is_idle_after_its_goodbyes_when_nobody_is_live() -> None:
    bench = active()
    bench.ask_to_yield(B, HandoverReason.TRIED)
    bench.wait(3_499)
    assert bench.state() is State.CLOSING
    bench.wait(1)
    assert bench.state() is State.IDLE


@pytest.mark.parametrize("is_flushing", [True, False])
def test_flush_or_closing_treats_a_delegation_as_observing_does(is_flushing: bool) -> None:
    bench = flushing()
    if not is_flushing:
        bench.block(402, bench.outcome(transition("B-1")))
    bench.beat(B)
    bench.delegate("C-1")
    assert [r.active for r in bench.said(DelegationRejected, C)] == [B]
    bench.tell(ConnectionLost(B))
    bench.delegate("C-1")
    assert bench.state() is State.ACTIVE
    assert answers(bench, C) == [Answer.ACCEPTED]


def test_one_that_flushes_and_is_active_again_still_waits_for_its_own_dispatch() -> None:
    bench = flushing()
    bench.tell(ConnectionLost(B))
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    assert request.snapshot.states == transition("B-1").outputs
    assert bench.state_of("B-1") is TransactionState.DISPATCHED


# A restart, and the memory of the store.


def restarted(*points: HandedOver, node: NodeName = A) -> CoordinatorBench:
    """A node that was restarted with these dispatches without an outcome in its store."""
    return CoordinatorBench(node, incarnation=2, stored=StoredContract(dispatched=points))


def test_active_loads_the_locks_and_states_of_its_own_unconfirmed_dispatches() -> None:
    spent = transition("X-1").outputs[0].id
    point = handed("B-1", spent)
    bench = restarted(point)
    bench.delegate("C-1")
    snapshot = bench.said(AssembleRequest, C)[0].snapshot
    assert (snapshot.locks, snapshot.states) == ((spent,), point.states)


def test_intent_that_was_dispatched_before_the_restart_is_answered_so() -> None:
    bench = restarted(handed("B-1"))
    bench.delegate("B-1", "B-2")
    assert answers(bench, B) == [Answer.DISPATCHED, Answer.ACCEPTED]


@pytest.mark.parametrize("observes", [False, True])
def test_idle_or_observing_node_answers_with_the_dispatches_of_its_store(observes: bool) -> None:
    point = handed("A-1")
    bench = restarted(point, node=B)
    if observes:
        bench.beat(A)
    bench.ask_to_yield(C)
    assert bench.said(Handover, C)[0].points == (point,)


def test_stored_dispatch_is_a_flush_point_until_it_has_its_outcome() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.delegate("C-1")
    bench.ask_to_yield(B, HandoverReason.TRIED)
    assert bench.state() is State.FLUSH
    bench.block(1, settled(point))
    assert bench.state() is State.CLOSING


def test_skip_of_another_version_leaves_a_stored_dispatch_open() -> None:
    point = handed("B-1")
    bench = restarted(point)
    other = LedgerOutcome(point.point.intent, Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.SKIPPED)
    bench.block(1, other)
    assert bench.coordinator.has_flush_points
    bench.block(2, settled(point, LedgerStatus.SKIPPED))
    assert not bench.coordinator.has_flush_points


def test_what_stands_on_a_foreign_dispatch_stays_when_that_commits() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.states[0].id))
    bench.block(1, settled(point))
    assert bench.state_of("C-1") is TransactionState.ENDORSEMENT_GATHERING
    assert bench.coordinator.graph.foreign() == ()


def test_what_stands_on_a_foreign_dispatch_is_reset_when_that_is_skipped() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.states[0].id))
    bench.block(1, settled(point, LedgerStatus.SKIPPED))
    assert bench.state_of("C-1") is TransactionState.ASSEMBLING
    assert bench.said(AssembleRequest, C)[-1].snapshot.states == ()


def test_what_stands_on_a_foreign_dispatch_is_reset_when_another_version_commits() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.states[0].id))
    other = LedgerOutcome(point.point.intent, Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.COMMITTED)
    bench.block(1, other)
    assert bench.state_of("C-1") is TransactionState.ASSEMBLING


def test_failure_of_another_version_leaves_what_stands_on_a_foreign_dispatch() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.states[0].id))
    other = LedgerOutcome(point.point.intent, Leaf(b"o" * 32), digest_of(Leaf(b"o" * 32)), LedgerStatus.SKIPPED)
    bench.block(1, other)
    assert bench.state_of("C-1") is TransactionState.ENDORSEMENT_GATHERING


def test_dispatched_user_of_a_lost_foreign_dispatch_stays_but_nothing_more_is_built_on_it() -> None:
    point = handed("B-1")
    bench = restarted(point)
    user = transition("C-1", point.states[0].id)
    bench.bring(TransactionState.DISPATCHED, user)
    bench.block(1, settled(point, LedgerStatus.SKIPPED))
    assert bench.state_of("C-1") is TransactionState.DISPATCHED
    bench.delegate("C-2")
    assert bench.said(AssembleRequest, C)[-1].snapshot.states == ()


def test_foreign_user_of_a_lost_foreign_dispatch_is_withdrawn_too() -> None:
    first = handed("B-1")
    second = handed("B-2", first.states[0].id)
    bench = restarted(first, second)
    bench.delegate("C-0")
    bench.block(1, settled(first, LedgerStatus.SKIPPED))
    bench.assemble()
    bench.delegate("C-1")
    assert [state.id.leaf for state in bench.said(AssembleRequest, C)[-1].snapshot.states] == [transition("C-0").leaf]


# Reorganisation.


def test_reorganisation_forgets_that_an_intent_is_on_the_chain() -> None:
    bench = active()
    outcome = settled(handed("B-1"))
    bench.block(1, outcome)
    bench.tell(BlocksRemoved(0, (outcome,)))
    bench.delegate("B-1")
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_reorganisation_resets_what_was_assembled_on_a_state_that_is_gone() -> None:
    bench = active()
    point = handed("B-1")
    bench.block(1, settled(point))
    bench.bring(TransactionState.ENDORSEMENT_GATHERING, transition("C-1", point.states[0].id), transition("C-2"))
    bench.tell(BlocksRemoved(0, (settled(point),)))
    assert bench.state_of("C-1") is TransactionState.ASSEMBLING
    assert bench.state_of("C-2") is TransactionState.ENDORSEMENT_GATHERING


def test_undone_skip_does_not_bring_a_dispatch_back() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(TransactionState.DISPATCHED, made)
    outcome = bench.outcome(made)
    bench.block(1, outcome)
    bench.tell(BlocksRemoved(0, (replace(outcome, status=LedgerStatus.SKIPPED),)))
    assert bench.state_of("B-1") is TransactionState.CONFIRMED


def test_dispatch_is_told_to_its_senders_once_it_is_durable() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(TransactionState.READY_FOR_DISPATCH, made)
    assert bench.said(TransactionDispatched) == []
    [dispatch] = bench.write_rounds()
    [told] = bench.said(TransactionDispatched, B)
    assert told.digest == dispatch.digest
    assert [(each.intent, each.leaf, each.signer, each.nonce) for each in told.intents] == [
        (made.intent, made.leaf, SIGNER, 1)
    ]


def test_heartbeats_list_what_is_confirmed_but_not_what_is_reverted() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(TransactionState.DISPATCHED, made)
    bench.block(1, bench.outcome(made))
    bench.delegate("B-2")
    [(peer, request)] = bench.asked(AssembleRequest)
    reverted = AssemblyResult(intent_id("B-2"), AssemblyOutcome.REVERTED, DelegationNumber(1, 1), reason="no")
    bench.hear(peer, AssembleResponse(request.request_id, (reverted,)))
    bench.forget()
    bench.wait(500)
    [said] = bench.said(CoordinatorHeartbeat, B)
    assert [(name_of(listed.intent), listed.state) for listed in said.intents] == [("B-1", "Confirmed")]
    assert not bench.coordinator.transactions


def test_one_that_began_alone_is_nobodys_tried_successor_whomever_it_had_asked_before() -> None:
    bench = tried_elect()
    bench.beat(A, refused=B)
    assert bench.state() is State.CLOSING
    bench.tell(ConnectionLost(A))
    bench.delegate("C-2")
    assert bench.state() is State.ACTIVE
    bench.beat(A)
    assert bench.state() is State.CLOSING
