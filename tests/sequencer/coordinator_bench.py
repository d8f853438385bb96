"""A coordinator on a test bench: bring it to a state, tell it things, read what it asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rota.machine.effects import DispatchRound, SendMessage
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import (
    NO_LEAF,
    Contract,
    DelegationNumber,
    FlushPoint,
    HeartbeatNumber,
    NodeName,
    RequestId,
    Rotation,
    StateId,
    SubmitMode,
    Transition,
    Tried,
)
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.events import RoundDispatched
from rota.sequencer.held_intent import HeldIntent
from rota.sequencer.held_intent import State as TransactionState
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
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
    EndorserSignature,
    HandedOver,
    HandedRound,
    Handover,
    HandoverReason,
    HandoverRequest,
    Refusal,
    Rejection,
)
from rota.wire.messages import CoordinatorState as State
from tests.sequencer.kit import (
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    D,
    MessageType,
    contract,
    digest_of,
    intent,
    intent_id,
    transition,
)
from tests.sequencer.kit import name_of as name_of

# Who ranks where with the committee and the address of the kit, by range: 0 and 6 A B C · 1 C B A · 2 and 3 A C B
# · 4 B C A · 5 B A C; with D too: 0 D A B C · 1 C B D A.
AGREED = HandoverReason.OUTRANKS
STALE = RequestId(1, 999_999)
SIGNER = "0xsigner"


def refusal_by(endorser: NodeName) -> bytes:
    """How an endorser signs a refusal."""
    return f"refused by {endorser}".encode()


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

    def transaction(self, name: str) -> HeldIntent:
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
        is_voiding: bool = False,
        submit_mode: SubmitMode = SubmitMode.AUTO,
    ) -> None:
        """A sender hands these intents over; it is the node that their names begin with."""
        author = peer or NodeName(names[0].partition("-")[0])
        delegations = tuple(
            Delegation(intent(name, submit_mode=submit_mode), DelegationNumber(1, number), revert_count, is_voiding)
            for name in names
        )
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

    def refuse(self, endorser: NodeName, *names: str, signature: bytes | None = None) -> None:
        """An endorser refuses these intents of the round that it was asked about, and signs that."""
        [(_, request)] = self.asked(EndorsementRequest, endorser)
        leaves = {made.intent: made.leaf for made in request.transitions}
        signature = refusal_by(endorser) if signature is None else signature
        refusals = tuple(
            Refusal(intent_id(name), f"{endorser} refuses {name}", (), leaves.get(intent_id(name), NO_LEAF), signature)
            for name in names
        )
        self.hear(endorser, EndorsementResponse(request.request_id, request.digest, b"", refusals))

    def fail_on(self, endorser: NodeName, *names: str) -> None:
        """An endorser's domain fails on these intents of the round that it was asked about."""
        [(_, request)] = self.asked(EndorsementRequest, endorser)
        leaves = tuple(made.leaf for made in request.transitions if name_of(made.intent) in names)
        self.hear(endorser, EndorsementError(request.request_id, Rejection.UNAVAILABLE, unjudged=leaves))

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
    return handed_of(transition(name, *locks))


def handed_of(made: Transition) -> HandedOver:
    """The same of a transition, which was in a round of its own."""
    return HandedOver(FlushPoint(digest_of(made.leaf), made.intent), made)


def round_of(handed: HandedOver, *endorsers: NodeName) -> HandedRound:
    """The round of such a flush point, signed by these endorsers."""
    signatures = tuple(EndorserSignature(endorser, f"by {endorser}".encode()) for endorser in endorsers)
    return HandedRound((handed.transition.leaf,), GENESIS_S + 600, signatures)


def settled(point: HandedOver, status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    """The outcome of a flush point."""
    return LedgerOutcome(point.point.intent, point.transition.leaf, point.point.digest, status)


def prepared(*points: HandedOver) -> CoordinatorBench:
    """B has asked A, and waits for these flush points."""
    bench = elect()
    hand_over(bench, *points)
    assert bench.state() is State.PREPARED
    return bench


def hand_over(bench: CoordinatorBench, *points: HandedOver, peer: NodeName = A) -> None:
    """The one that was asked answers."""
    request = bench.said(HandoverRequest, peer)[-1]
    rounds = tuple(round_of(point, *bench.of.endorsers) for point in points)
    bench.hear(peer, Handover(request.request_id, points, rounds), height=bench.sequencer.context.height)


def answers(bench: Bench, to: NodeName) -> list[Answer]:
    """What the last acceptance said of each intent."""
    return [answer.answer for answer in bench.said(DelegationAccepted, to)[-1].answers]


def states_said(bench: Bench, to: NodeName) -> list[State]:
    """The states that our heartbeats to a node named."""
    return [heartbeat.state for heartbeat in bench.said(CoordinatorHeartbeat, to)]


def tried_elect() -> CoordinatorBench:
    """B is outranked by the active A, but C has tried that in vain: B asks it to yield for that reason."""
    bench = observing(B, A, height=0)
    bench.delegate("C-1")
    number = bench.said(DelegationRejected, C)[0].active_number
    bench.delegate("C-1", tried=(Tried(A, number),))
    assert bench.state() is State.ELECT
    return bench


def restarted(*points: HandedOver, node: NodeName = A, config: Config | None = None) -> CoordinatorBench:
    """A node that was restarted with these dispatches without an outcome in its store."""
    stored = StoredContract(dispatched=points, rounds=tuple(round_of(point, B, C) for point in points))
    return CoordinatorBench(node, incarnation=2, stored=stored, config=config or Config())
