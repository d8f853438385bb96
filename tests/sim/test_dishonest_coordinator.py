"""A coordinator that lies all the time is left within the documented bound (protocol §4.3, security).

The node that lies runs the real core; what leaves it is changed on its way. Outcomes are judged at honest nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.model.types import HeartbeatNumber, NodeName, Outcome, RequestId, Tried
from rota.sim.script import Run, Script
from rota.sim.transcript import show
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationRequest,
    EndorsementRequest,
    EndorsementResponse,
    Envelope,
    Handover,
    HandoverReason,
    HandoverRequest,
    IntentAnswer,
    Message,
    Rejection,
)

TIMEOUT_MS = 5_000
HUGE = 2**62
LIAR = NodeName("C")
Lie = Callable[["Liar", NodeName, Message], Message | None]


class Liar:
    """What leaves one node is changed, or does not leave it."""

    def __init__(self, run: Run, name: NodeName, lie: Lie, height: int | None = None) -> None:
        self.run, self.name, self.lie, self.height = run, name, lie, height
        self.count = 0
        self.transmit = run.world.wires.transmit
        run.world.wires.transmit = self.told  # type: ignore[method-assign]

    def told(self, source: NodeName, target: NodeName, envelope: Envelope) -> None:
        """A message leaves a node."""
        if source == self.name:
            body = self.lie(self, target, envelope.body)
            if body is None:
                return
            height = envelope.height if self.height is None else self.height
            envelope = replace(envelope, body=body, height=height)
        elif target == self.name and isinstance(envelope.body, HandoverRequest):
            return  # It does not yield.
        self.transmit(source, target, envelope)

    def say(self, target: NodeName, body: Message) -> None:
        """Something that its machine never said."""
        self.count += 1
        message_id = RequestId(1, 10**9 + self.count)
        height = self.height or 0
        self.transmit(self.name, target, Envelope(self.run.contract.address, message_id, 1, height, body))


def run_of(lie: Lie, nodes: str = "A B C", threshold: int = 2, height: int | None = None, more: str = "") -> Run:
    """A network that the liar leads."""
    network = f"nodes {nodes}, leaders {LIAR}, threshold {threshold}, set progress_timeout_ms={TIMEOUT_MS}{more}"
    run = Run(Script.parse(f"network: {network}\nexpect: A-1 confirmed\n> run 1 s\n"))
    Liar(run, LIAR, lie, height)
    for name in run.world.nodes:
        run.world.start(name)
    return run


def ends_within(run: Run, limit_ms: int, *names: str) -> bool:
    """Honest nodes report these as confirmed in time."""
    until_ms = run.world.now_ms + limit_ms
    return run.world.run_until(until_ms, lambda: all(run.is_reported(name, Outcome.CONFIRMED.value) for name in names))


def says_nothing_but_heartbeats(_liar: Liar, _target: NodeName, body: Message) -> Message | None:
    return body if isinstance(body, CoordinatorHeartbeat | DelegationAccepted) else None


def never_asks_for_permission(_liar: Liar, _target: NodeName, body: Message) -> Message | None:
    return None if isinstance(body, DispatchConfirmationRequest | Handover) else body


def rejects_by_height(liar: Liar, target: NodeName, body: Message) -> Message | None:
    if isinstance(body, DelegationAccepted | DelegationRejected):
        return DelegationRejected(body.command_id, Rejection.MISMATCHED_BLOCK_HEIGHT, 0, HUGE)
    return says_nothing_but_heartbeats(liar, target, body)


def rejects_for_ever(liar: Liar, target: NodeName, body: Message) -> Message | None:
    if isinstance(body, DelegationAccepted | DelegationRejected):
        return DelegationRejected(body.command_id, Rejection.NOT_PREFERRED_COORDINATOR, 0, 0)
    return says_nothing_but_heartbeats(liar, target, body)


def sends_to_another(liar: Liar, target: NodeName, body: Message) -> Message | None:
    if isinstance(body, DelegationAccepted | DelegationRejected):
        liar.count += 1
        number = HeartbeatNumber(HUGE, liar.count)
        other = NodeName("B") if target == NodeName("A") else NodeName("A")
        return DelegationRejected(body.command_id, Rejection.NOT_PREFERRED_COORDINATOR, 0, 0, other, 1, number)
    return says_nothing_but_heartbeats(liar, target, body)


def is_always_full(liar: Liar, target: NodeName, body: Message) -> Message | None:
    if isinstance(body, DelegationAccepted):
        return replace(body, answers=tuple(IntentAnswer(each.intent, Answer.FULL) for each in body.answers))
    return says_nothing_but_heartbeats(liar, target, body)


def answers_dispatched(liar: Liar, target: NodeName, body: Message) -> Message | None:
    if isinstance(body, DelegationAccepted):
        return replace(body, answers=tuple(IntentAnswer(each.intent, Answer.DISPATCHED) for each in body.answers))
    return says_nothing_but_heartbeats(liar, target, body)


def comes_and_goes(liar: Liar, target: NodeName, body: Message) -> Message | None:
    if isinstance(body, CoordinatorHeartbeat) and liar.run.world.now_ms // 500 % 2:
        other = NodeName("B") if target == NodeName("A") else NodeName("A")
        return replace(body, state=CoordinatorState.CLOSING, successor=other)
    return says_nothing_but_heartbeats(liar, target, body)


STRATEGIES = [
    says_nothing_but_heartbeats,
    never_asks_for_permission,
    rejects_by_height,
    rejects_for_ever,
    sends_to_another,
    is_always_full,
    answers_dispatched,
    comes_and_goes,
]


@pytest.mark.parametrize("height", [None, HUGE])
@pytest.mark.parametrize("lie", STRATEGIES)
def test_leader_that_does_nothing_is_left_by_both_others_within_the_bound(lie: Lie, height: int | None) -> None:
    run = run_of(lie, height=height)
    run.do("submit A-1 at A")
    run.do("submit B-1 at B")
    # The leader, and one more turn in the ranking should the two disagree at first.
    assert ends_within(run, 3 * TIMEOUT_MS, "A-1", "B-1")
    run.do("submit A-2 at A")
    run.do("submit B-2 at B")
    assert ends_within(run, TIMEOUT_MS, "A-2", "B-2")


@pytest.mark.parametrize("lie", STRATEGIES)
def test_endorsers_without_intents_of_their_own_follow_the_sender_that_left(lie: Lie) -> None:
    run = run_of(lie, nodes="A B C D", threshold=3, height=HUGE)
    run.do("submit A-1 at A")
    assert ends_within(run, 3 * TIMEOUT_MS, "A-1")


def test_signs_of_life_do_not_end_a_demotion_and_the_next_one_lasts_longer() -> None:
    run = run_of(says_nothing_but_heartbeats, more=" demotion_ms=20000")
    run.do("submit A-1 at A")
    assert ends_within(run, 3 * TIMEOUT_MS, "A-1")
    for number in range(2, 12):
        run.do(f"submit A-{number} at A")
        assert ends_within(run, 2 * TIMEOUT_MS, f"A-{number}")
        run.do("run 5 s")


def never_dispatches(run: Run) -> None:
    """What the liar submits does not reach the chain; its heartbeats list it all the same."""
    submit = run.world.chain.submit
    run.world.chain.submit = (  # type: ignore[method-assign]
        lambda node, dispatch: None if node.name == LIAR else submit(node, dispatch)
    )


def is_honest(_liar: Liar, _target: NodeName, body: Message) -> Message | None:
    return None if isinstance(body, Handover) else body


def test_leader_that_takes_permissions_and_never_dispatches_is_left_although_it_lists_them() -> None:
    run = run_of(is_honest)
    never_dispatches(run)
    run.do("submit A-1 at A")
    run.do("submit B-1 at B")
    # While a permission is out it may be the chain's turn: four times the time-out.
    assert ends_within(run, 6 * TIMEOUT_MS, "A-1", "B-1")
    run.do("submit A-2 at A")
    assert ends_within(run, TIMEOUT_MS, "A-2")


def test_leader_that_asks_for_one_intent_after_the_other_and_ends_none_is_left() -> None:
    """Each intent that it asks to assemble renews the patience, but only until none has ended for four time-outs."""

    def drips(liar: Liar, _target: NodeName, body: Message) -> Message | None:
        if isinstance(body, AssembleRequest):
            liar.count += 1
            at_ms = liar.run.world.now_ms // (TIMEOUT_MS // 2)
            return replace(body, intents=body.intents[at_ms % len(body.intents) :][:1])
        return None if isinstance(body, Handover | DispatchConfirmationRequest) else body

    run = run_of(drips)
    names = [f"A-{number}" for number in range(1, 40)]
    for name in names:
        run.do(f"submit {name} at A")
    assert ends_within(run, 6 * TIMEOUT_MS, *names)


def test_leader_that_serves_one_sender_and_starves_another_is_left() -> None:
    """B's word makes A leave the liar, although A is served: else B would find no second signature."""

    def starves_b(_liar: Liar, target: NodeName, body: Message) -> Message | None:
        is_starved = target == NodeName("B") and isinstance(body, AssembleRequest | DispatchConfirmationRequest)
        return None if is_starved or isinstance(body, Handover) else body

    run = run_of(starves_b)
    run.do("submit B-1 at B")
    names = []
    for number in range(1, 13):
        run.do(f"submit A-{number} at A")
        names.append(f"A-{number}")
        run.do("run 1 s")
    assert ends_within(run, 3 * TIMEOUT_MS, "B-1", *names)


def accuse_each_other(liar: Liar, target: NodeName, body: Message) -> Message | None:
    """To A it accuses B, and to B it accuses A, whatever it says else; for others it does nothing."""
    other = NodeName("B") if target == NodeName("A") else NodeName("A")
    tried = (Tried(other, HeartbeatNumber(HUGE, HUGE), True),)
    if isinstance(body, CoordinatorHeartbeat):
        liar.count += 1
        liar.say(target, DelegationCommand(RequestId(1, liar.count), (), tried))
    return says_nothing_but_heartbeats(liar, target, body)


@pytest.mark.parametrize("rotation", ["sticky", "strict"])
def test_liar_that_makes_the_others_mistrust_each_other_stops_nobody(rotation: str) -> None:
    run = run_of(accuse_each_other, more=f", rotation {rotation}, range 10")
    for number in range(1, 6):
        run.do(f"submit A-{number} at A")
        run.do(f"submit B-{number} at B")
        run.do("run 2 s")
    names = [f"{node}-{number}" for node in "AB" for number in range(1, 6)]
    assert ends_within(run, 8 * TIMEOUT_MS, *names)


@pytest.mark.parametrize("rotation", ["sticky", "strict"])
@pytest.mark.parametrize("lie", STRATEGIES)
def test_two_liars_of_five_are_left_by_a_single_sender(lie: Lie, rotation: str) -> None:
    run = run_of(lie, nodes="A B C D E", threshold=3, more=f", rotation {rotation}, range 10")
    Liar(run, NodeName("D"), lie)
    run.do("submit A-1 at A")
    assert ends_within(run, 8 * TIMEOUT_MS, "A-1")


def test_two_liars_that_divide_the_endorsers_stop_nobody() -> None:
    """Each honest endorser is told by one liar that A, and by the other that the third one does nothing, for ever.

    A alone has an intent, so B and C see nothing themselves; they sign for who asks while nobody else does.
    """
    run = run_of(says_nothing_but_heartbeats, nodes="A B C D E", threshold=3)
    first = Liar(run, LIAR, says_nothing_but_heartbeats)
    second = Liar(run, NodeName("D"), says_nothing_but_heartbeats)
    run.do("submit A-1 at A")
    told = {(first, "B"): "A", (first, "E"): "A", (second, "B"): "E", (second, "E"): "B"}
    for _ in range(24 * TIMEOUT_MS // 500):
        run.do("run 500 ms")
        for (liar, target), accused in told.items():
            liar.count += 1
            tried = (Tried(NodeName(accused), HeartbeatNumber(HUGE, HUGE), True),)
            liar.say(NodeName(target), DelegationCommand(RequestId(1, liar.count), (), tried))
        if run.is_reported("A-1", Outcome.CONFIRMED.value):
            break
    assert run.world.now_ms <= 8 * TIMEOUT_MS


def test_liar_that_asks_honest_ones_to_yield_all_the_time_stops_nobody() -> None:
    """It claims the rank that a range ahead gives it, is given the role, and says nothing more."""
    run = run_of(lambda *_: None)
    liar = Liar(run, LIAR, lambda *_: None, HUGE)
    names = []
    for number in range(1, 9):
        names.append(f"A-{number}")
        run.do(f"submit A-{number} at A")
        for _ in range(10):
            run.do("run 500 ms")
            for target in ("A", "B"):
                liar.say(NodeName(target), HandoverRequest(RequestId(1, number), HandoverReason.OUTRANKS))
    assert ends_within(run, 3 * TIMEOUT_MS, *names)


@pytest.mark.slow
def test_single_liar_cannot_depose_an_honest_coordinator_at_will() -> None:
    """C accuses the honest leader in every delegation and asks it to yield at every heartbeat."""

    def accuses(liar: Liar, _target: NodeName, body: Message) -> Message | None:
        if isinstance(body, CoordinatorHeartbeat | DelegationCommand | EndorsementRequest | EndorsementResponse):
            liar.count += 1
            liar.say(NodeName("B"), HandoverRequest(RequestId(1, liar.count), HandoverReason.TRIED))
        tried = (Tried(NodeName("B"), HeartbeatNumber(HUGE, HUGE), True),)
        if isinstance(body, DelegationCommand):
            return replace(body, tried=tried)
        return replace(body, tried=tried) if isinstance(body, EndorsementRequest) else body

    network = f"nodes A B C, leaders B, threshold 2, set progress_timeout_ms={TIMEOUT_MS}"
    run = Run(Script.parse(f"network: {network}\nexpect: A-1 confirmed\n> run 1 s\n"))
    Liar(run, LIAR, accuses)
    for name in run.world.nodes:
        run.world.start(name)
    for number in range(1, 30):
        run.do(f"submit A-{number} at A")
        run.do(f"submit C-{number} at C")
        assert ends_within(run, 3 * TIMEOUT_MS, f"A-{number}")
        run.do("run 1 s")
    record = [show(happening) for happening in run.transcript.happenings]
    assert sum("B  coordinator: Active →" in line for line in record) <= 2
