"""Who led when: changes as they are seen, fail-overs told from hand-overs, and never more than there is room for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rota.machine.context import Ids
from rota.machine.events import ConnectionLost, MessageReceived, Tick
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, HeartbeatNumber, NodeName, RequestId
from rota.sequencer.events import LedgerLost
from rota.sequencer.sequencer import Sequencer
from rota.service.explain import leaders as module
from rota.service.explain.leaders import Leaders, Sights
from rota.service.explain.leading import loss_by
from rota.service.explain.ring import Loss
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, Envelope, Message, Startup

ONE, OTHER = ContractAddress("0x" + "01" * 20), ContractAddress("0x" + "02" * 20)
NODE, PEER, THIRD = NodeName("node1"), NodeName("node2"), NodeName("node3")


class World:
    """What is looked at."""

    def __init__(self) -> None:
        self.active: dict[ContractAddress, NodeName | None] = {}
        self.lost: dict[NodeName, Loss] = {}
        self.now_ms = 0
        self.soon: list[Callable[[], None]] = []
        self.leaders = Leaders(
            Sights(
                lambda: self.active,
                self.active.get,
                lambda _, node: self.lost.get(node),
                lambda: self.now_ms,
                self.soon.append,
            )
        )

    def see(self, contract: ContractAddress, leader: NodeName | None) -> None:
        self.active[contract] = leader
        self.now_ms += 1_000
        self.leaders.look()

    def told(self, contract: ContractAddress) -> list[tuple[int, NodeName | None, NodeName, Loss | None]]:
        found = self.leaders.of(contract)
        return [(each.at_ms, each.former, each.leader, each.loss) for each in found]


def test_a_change_is_told_once_and_a_pause_is_none() -> None:
    world = World()
    for leader in (None, PEER, PEER, None, PEER, NODE):
        world.see(ONE, leader)
    world.see(OTHER, THIRD)
    assert world.told(ONE) == [(2_000, None, PEER, None), (6_000, PEER, NODE, None)]
    assert world.told(OTHER) == [(7_000, None, THIRD, None)]


def test_a_former_leader_that_is_lost_has_failed_and_one_that_is_not_has_handed_over() -> None:
    world = World()
    world.see(ONE, PEER)
    world.lost = {PEER: Loss.HEARTBEATS}
    world.see(ONE, NODE)
    world.see(ONE, THIRD)
    assert [loss for *_, loss in world.told(ONE)] == [None, Loss.HEARTBEATS, None]


def a_sequencer() -> Sequencer:
    contract = Contract(ONE, (NODE, PEER, THIRD), (NODE, PEER, THIRD), threshold=2)
    return Sequencer(NODE, Ids(0), contract, Config(), 0, 0)


def test_one_that_hangs_keeps_its_connection_and_is_known_by_its_missing_heartbeats() -> None:
    sequencer = a_sequencer()
    assert loss_by(sequencer, PEER) is None
    beat = CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.ACTIVE)
    sequencer.step(1, MessageReceived(PEER, envelope(beat)))
    assert loss_by(sequencer, PEER) is None
    sequencer.step(1 + Config().silence_ms, Tick())
    assert loss_by(sequencer, PEER) is Loss.HEARTBEATS
    sequencer.step(2 + Config().silence_ms, ConnectionLost(PEER))
    assert loss_by(sequencer, PEER) is Loss.CONNECTION


def test_we_ourselves_are_lost_with_our_ledger_alone() -> None:
    sequencer = a_sequencer()
    assert loss_by(sequencer, NODE) is None
    sequencer.step(1, LedgerLost())
    assert loss_by(sequencer, NODE) is Loss.LEDGER
    assert loss_by(None, PEER) is None


def test_a_reign_that_is_shorter_than_a_second_is_seen_by_its_heartbeat() -> None:
    world = World()
    world.see(ONE, PEER)
    world.leaders.heard(envelope(Startup(RequestId(1, 1))))
    assert not world.soon
    world.active[ONE] = THIRD
    for _ in range(3):
        world.leaders.heard(envelope(CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.ACTIVE)))
    (look,) = world.soon
    look()
    world.see(ONE, PEER)
    assert [leader for _, _, leader, _ in world.told(ONE)] == [PEER, THIRD, PEER]


def envelope(body: Message) -> Envelope:
    return Envelope(ONE, RequestId(1, 2), 1, 9, body)


def test_what_is_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONTRACTS_MAX", 1)
    world = World()
    world.see(ONE, PEER)
    del world.active[ONE]
    world.see(OTHER, PEER)
    del world.active[OTHER]
    world.see(ONE, THIRD)
    # Who led it before has been forgotten meanwhile.
    assert world.told(ONE)[-1] == (3_000, None, THIRD, None)
    for turn in range(module.CHANGES_MAX + 1):
        world.see(ONE, (PEER, NODE)[turn % 2])
    assert len(world.told(ONE)) == module.CHANGES_MAX


def test_coordinator_that_was_left_for_its_pace_has_handed_over_and_one_that_is_not_reached_has_failed() -> None:
    sequencer = a_sequencer()
    beat = CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.ACTIVE)
    sequencer.step(1, MessageReceived(PEER, envelope(beat)))
    # A member lists it as one that it tried.
    sequencer.observer.peer(PEER).tried_as = HeartbeatNumber(1, 1)
    assert loss_by(sequencer, PEER) is Loss.UNREACHED
    sequencer.observer.demote(PEER)
    assert loss_by(sequencer, PEER) is None
