"""Who led when: changes as they are seen, fail-overs told from hand-overs, and never more than there is room for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rota.messages import CoordinatorHeartbeat, CoordinatorState, Envelope, Message, Startup
from rota.runtime import leaders as module
from rota.runtime.leaders import Leaders, Sights
from rota.types import ContractAddress, HeartbeatNumber, NodeName, RequestId

ONE, OTHER = ContractAddress("0x" + "01" * 20), ContractAddress("0x" + "02" * 20)
NODE, PEER, THIRD = NodeName("node1"), NodeName("node2"), NodeName("node3")


class World:
    """What is looked at."""

    def __init__(self) -> None:
        self.active: dict[ContractAddress, NodeName | None] = {}
        self.connected = {PEER, THIRD}
        self.now_ms = 0
        self.soon: list[Callable[[], None]] = []
        sights = Sights(
            lambda: self.active, self.active.get, lambda: self.connected, lambda: self.now_ms, self.soon.append
        )
        self.leaders = Leaders(NODE, sights)

    def see(self, contract: ContractAddress, leader: NodeName | None) -> None:
        self.active[contract] = leader
        self.now_ms += 1_000
        self.leaders.look()

    def told(self, contract: ContractAddress) -> list[tuple[int, NodeName | None, NodeName, bool]]:
        found = self.leaders.of(contract)
        return [(each.at_ms, each.former, each.leader, each.is_former_gone) for each in found]


def test_a_change_is_told_once_and_a_pause_is_none() -> None:
    world = World()
    for leader in (None, PEER, PEER, None, PEER, NODE):
        world.see(ONE, leader)
    world.see(OTHER, THIRD)
    assert world.told(ONE) == [(2_000, None, PEER, False), (6_000, PEER, NODE, False)]
    assert world.told(OTHER) == [(7_000, None, THIRD, False)]


def test_a_former_leader_that_cannot_be_reached_has_failed_and_we_ourselves_have_not() -> None:
    world = World()
    world.see(ONE, PEER)
    world.connected = {THIRD}
    world.see(ONE, NODE)
    world.see(ONE, THIRD)
    assert [gone for *_, gone in world.told(ONE)] == [False, True, False]


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
    assert world.told(ONE)[-1] == (3_000, None, THIRD, False)
    for turn in range(module.CHANGES_MAX + 1):
        world.see(ONE, (PEER, NODE)[turn % 2])
    assert len(world.told(ONE)) == module.CHANGES_MAX
