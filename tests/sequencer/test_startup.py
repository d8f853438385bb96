"""Startup: the first activity that a node notices makes it tell the others that it is here (protocol §4.4)."""

from __future__ import annotations

import pytest

from rota.machine.events import CancelRequested, ConnectionLost, ConnectionMade
from rota.model.blocks import LedgerOutcome
from rota.model.blocks import LedgerStatus as Status
from rota.model.types import DelegationNumber, Digest, HeartbeatNumber, Mode, NodeName, Party, RequestId
from rota.sequencer.events import BlockIndexed, LedgerBack, LedgerLost
from rota.wire.messages import (
    CoordinatorHeartbeat,
    CoordinatorState,
    Delegation,
    DelegationCommand,
    EndorsementRequest,
    HandoverReason,
    HandoverRequest,
    Message,
    Startup,
    StartupAcknowledgement,
    VerifierRequest,
)
from tests.sequencer.kit import GENESIS_S, A, B, Bench, C, contract, digest_of, intent, transition

HEARTBEAT = CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.CLOSING)
DELEGATION = DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1"), DelegationNumber(1, 1)),))
ENDORSEMENT = EndorsementRequest(
    RequestId(1, 1), digest_of(transition("B-1").leaf), (transition("B-1"),), (Party("a@B"),), GENESIS_S + 600
)
OUTCOME = LedgerOutcome(intent("B-1").id, transition("B-1").leaf, Digest(b"\x01" * 32), Status.COMMITTED)


def told(bench: Bench, node: NodeName) -> list[Startup]:
    return bench.said(Startup, node)


def acknowledge(bench: Bench, *peers: NodeName) -> None:
    for peer in peers:
        bench.hear(peer, StartupAcknowledgement(told(bench, peer)[-1].startup_id))


def at_rest(**options: object) -> Bench:
    """A bench whose first Startup every other member has acknowledged."""
    bench = Bench(**options)  # type: ignore[arg-type]
    bench.hear(B, HEARTBEAT)
    acknowledge(bench, B, C)
    bench.forget()
    return bench


def test_node_that_starts_says_nothing_by_itself() -> None:
    bench = Bench()
    bench.wait(60_000)
    bench.block(1)
    assert bench.said(Startup) == []


@pytest.mark.parametrize(
    "activity", [HEARTBEAT, DELEGATION, ENDORSEMENT], ids=["heartbeat", "delegation", "endorsement"]
)
def test_first_activity_that_is_heard_makes_it_tell_every_other_member(activity: Message) -> None:
    bench = Bench()
    bench.hear(B, activity)
    assert len(told(bench, B)) == len(told(bench, C)) == 1
    assert told(bench, B) == told(bench, C)
    assert told(bench, A) == []


def test_transaction_of_the_contract_on_the_chain_is_activity() -> None:
    bench = Bench()
    bench.tell(BlockIndexed(1, GENESIS_S, (OUTCOME,)))
    assert len(told(bench, B)) == len(told(bench, C)) == 1


def test_intent_of_our_own_user_is_activity_by_its_delegation() -> None:
    bench = Bench()
    bench.submit("A-1")
    assert len(told(bench, B)) == 1


@pytest.mark.parametrize(
    "message",
    [
        StartupAcknowledgement(RequestId(1, 1)),
        Startup(RequestId(1, 1)),
        VerifierRequest(RequestId(1, 1), Party("a@A")),
        HandoverRequest(RequestId(1, 1), HandoverReason.TRIED),
    ],
    ids=lambda message: type(message).__name__,
)
def test_other_messages_are_no_activity(message: Message) -> None:
    bench = Bench()
    bench.hear(B, message)
    assert bench.said(Startup) == []


def test_only_the_first_activity_is_answered() -> None:
    bench = at_rest()
    bench.hear(C, HEARTBEAT)
    bench.hear(B, ENDORSEMENT)
    bench.block(1, OUTCOME)
    assert bench.said(Startup) == []


def test_notice_is_repeated_with_the_same_id_until_each_has_acknowledged() -> None:
    bench = Bench()
    bench.hear(B, HEARTBEAT)
    bench.wait(bench.config.request_timeout_ms - 1)
    assert len(told(bench, B)) == 1
    bench.wait(1)
    assert len(told(bench, B)) == len(told(bench, C)) == 2
    acknowledge(bench, B)
    bench.wait(2 * bench.config.request_timeout_ms)
    assert len(told(bench, B)) == 2
    assert len(told(bench, C)) == 4
    assert len(set(told(bench, C))) == 1
    acknowledge(bench, C)
    bench.wait(10 * bench.config.request_timeout_ms)
    assert len(told(bench, C)) == 4


def test_acknowledgement_of_another_notice_changes_nothing() -> None:
    bench = Bench()
    bench.hear(B, HEARTBEAT)
    bench.hear(B, StartupAcknowledgement(RequestId(1, 999)))
    bench.wait(bench.config.request_timeout_ms)
    assert len(told(bench, B)) == 2


def test_acknowledgement_that_nobody_waits_for_changes_nothing() -> None:
    bench = at_rest()
    bench.hear(NodeName("D"), StartupAcknowledgement(RequestId(1, 1)))
    bench.wait(10 * bench.config.request_timeout_ms)
    assert bench.said(Startup) == []


def test_nobody_is_told_over_a_connection_that_is_down() -> None:
    bench = Bench()
    bench.tell(ConnectionLost(C))
    bench.hear(B, HEARTBEAT)
    bench.wait(3 * bench.config.request_timeout_ms)
    assert len(told(bench, B)) == 4
    assert told(bench, C) == []


def test_with_nobody_to_reach_nothing_is_repeated() -> None:
    bench = Bench()
    bench.tell(ConnectionLost(B))
    bench.tell(ConnectionLost(C))
    bench.block(1, OUTCOME)
    bench.wait(10 * bench.config.request_timeout_ms)
    assert bench.said(Startup) == []
    assert bench.sequencer.next_deadline_ms() is None


def test_member_whose_connection_is_back_is_told_at_once() -> None:
    bench = Bench()
    bench.tell(ConnectionLost(C))
    bench.hear(B, HEARTBEAT)
    acknowledge(bench, B)
    bench.wait(5 * bench.config.request_timeout_ms)
    bench.tell(ConnectionMade(C))
    assert len(told(bench, C)) == 1
    bench.wait(bench.config.request_timeout_ms)
    assert len(told(bench, C)) == 2


def test_member_that_has_acknowledged_is_not_told_again_when_its_connection_is_back() -> None:
    bench = at_rest()
    bench.tell(ConnectionLost(C))
    bench.tell(ConnectionMade(C))
    assert bench.said(Startup) == []


def test_first_activity_after_a_reconnection_with_nothing_in_flight_is_answered_again() -> None:
    bench = at_rest()
    bench.tell(ConnectionLost(C))
    bench.tell(ConnectionMade(C))
    bench.hear(B, ENDORSEMENT)
    assert len(told(bench, B)) == len(told(bench, C)) == 1


def test_reconnection_with_an_intent_of_our_own_in_flight_does_not_arm() -> None:
    bench = at_rest()
    bench.submit("A-1")
    bench.forget()
    bench.tell(ConnectionMade(C))
    bench.hear(B, ENDORSEMENT)
    assert bench.said(Startup) == []


def test_reconnection_while_we_coordinate_for_another_does_not_arm() -> None:
    bench = at_rest()
    bench.hear(B, DELEGATION)
    assert bench.sequencer.coordinator.transactions
    bench.tell(ConnectionMade(C))
    bench.hear(C, CoordinatorHeartbeat(HeartbeatNumber(1, 2), CoordinatorState.CLOSING))
    assert bench.said(Startup) == []


def test_node_whose_ledger_is_back_tells_everybody_without_waiting_for_activity() -> None:
    bench = at_rest()
    bench.tell(LedgerLost())
    bench.tell(LedgerBack())
    assert len(told(bench, B)) == len(told(bench, C)) == 1


def test_notice_after_the_ledger_came_back_is_the_one_to_acknowledge() -> None:
    bench = Bench()
    bench.hear(B, HEARTBEAT)
    (old,) = told(bench, B)
    bench.tell(LedgerLost())
    bench.tell(LedgerBack())
    bench.forget()
    bench.hear(B, StartupAcknowledgement(old.startup_id))
    bench.wait(bench.config.request_timeout_ms)
    assert len(told(bench, B)) == 1
    assert told(bench, B) != [old]


def test_in_sender_mode_nobody_is_told() -> None:
    bench = Bench(of=contract(mode=Mode.SENDER))
    bench.submit("A-1")
    bench.block(1, OUTCOME)
    assert bench.said(Startup) == []


def test_every_copy_of_a_notice_is_acknowledged_with_its_id() -> None:
    bench = Bench()
    for _ in range(3):
        bench.hear(B, Startup(RequestId(5, 7)))
    assert bench.said(StartupAcknowledgement, B) == [StartupAcknowledgement(RequestId(5, 7))] * 3


def test_notice_makes_its_author_available_again() -> None:
    bench = Bench(node=B)
    bench.submit("B-1")
    bench.wait(bench.config.delegation_timeout_ms)
    assert not bench.sequencer.sender.is_available(A)
    bench.hear(A, Startup(RequestId(5, 7)))
    assert bench.sequencer.sender.is_available(A)


@pytest.mark.parametrize("has_intent", [False, True])
def test_node_that_has_nothing_to_do_in_a_contract_tells_nobody(has_intent: bool) -> None:
    """Whoever deploys a contract names its members: one that does not exist would be told for ever."""
    bench = Bench(of=contract(B, mode=Mode.STATIC))
    if has_intent:
        bench.submit("A-1")
    bench.tell(BlockIndexed(1, GENESIS_S, (OUTCOME,)))
    assert bool(told(bench, B)) == has_intent


def test_node_whose_last_intent_has_ended_tells_nobody_any_more() -> None:
    bench = Bench(of=contract(B, mode=Mode.STATIC))
    bench.submit("A-1")
    bench.tell(BlockIndexed(1, GENESIS_S, (OUTCOME,)))
    bench.tell(CancelRequested("user", intent("A-1").id))
    bench.forget()
    bench.wait(60_000)
    assert told(bench, B) == []
    assert bench.sequencer.next_deadline_ms() is None, "it may leave the memory"


def test_heartbeats_in_a_contract_in_which_a_node_has_nothing_to_do_keep_nothing_awake() -> None:
    bench = Bench(of=contract(B, mode=Mode.STATIC))
    bench.hear(B, CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.ACTIVE, is_whole=True))
    assert not bench.sequencer.is_busy
    assert bench.sequencer.next_deadline_ms() is None
    assert bench.sequencer.observer.peer(B).listing is None, "and nothing that they list is remembered"
