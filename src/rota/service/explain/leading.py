"""The history of coordinators at a running node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from rota.model.types import ContractAddress, NodeName
from rota.sequencer.sequencer import Sequencer
from rota.service.explain.leaders import Leaders, Sights
from rota.service.explain.ring import Loss
from rota.service.interface import PeerMeasurements
from rota.service.run import RunningNode
from rota.wire.messages import CoordinatorState

LOOK_S: Final = 0.05


def leaders_of(
    running: RunningNode, now_ms: Callable[[], int], read_peers: Callable[[], tuple[PeerMeasurements, ...]]
) -> Leaders:
    """Return the history of this node, which gets the node's messages from now on."""

    def loaded() -> tuple[ContractAddress, ...]:
        return tuple(running.engine.core.sequencers.loaded) if running.started.is_set() else ()

    def sequencer_of(contract: ContractAddress) -> Sequencer | None:
        return running.engine.core.sequencers.loaded.get(contract)

    def leader_of(contract: ContractAddress) -> NodeName | None:
        sequencer = sequencer_of(contract)
        if sequencer is None:
            return None
        is_ours = sequencer.coordinator.state is CoordinatorState.ACTIVE
        return running.name if is_ours else sequencer.observer.active

    def loss_of(contract: ContractAddress, node: NodeName) -> Loss | None:
        is_reached = node == running.name or any(each.node == node and each.is_connected for each in read_peers())
        return loss_by(sequencer_of(contract), node) if is_reached else Loss.CONNECTION

    leaders = Leaders(Sights(loaded, leader_of, loss_of, now_ms, _soon))
    running.leaders = leaders
    return leaders


def loss_by(sequencer: Sequencer | None, node: NodeName) -> Loss | None:
    """Return why the core expects nothing of a node that is connected; None when it does, or does not know it."""
    if sequencer is None:
        return None
    if node == sequencer.context.node:
        return None if sequencer.context.has_ledger else Loss.LEDGER
    peer = sequencer.observer.peers.get(node)
    if peer is None or not sequencer.observer.is_silent(node):
        return None
    if not peer.connected:
        return Loss.CONNECTION
    if not peer.has_ledger:
        return Loss.LEDGER
    if sequencer.observer.is_gone(node):
        return Loss.HEARTBEATS
    # A member that demoted it for its pace lists it as one that it cannot reach.
    return None if sequencer.observer.is_demoted(node) else Loss.UNREACHED


def _soon(look: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(LOOK_S, look)
