"""The data that a node's store returns at a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from rota.chain.effects import RoundDispatch
from rota.chain.submitters import StoredAccount
from rota.directory.deployment_states import StoredDeployments
from rota.exchange.unconfirmed import SentTransition
from rota.model.blocks import ChainBlock
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, FlushPoint, NodeName
from rota.sequencer.handover import dispatched_rounds
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import HandedOver


@dataclass(frozen=True, slots=True)
class StoredNode:
    """The stored facts about a node, for a restart."""

    incarnation: int = 0
    contracts: Mapping[ContractAddress, StoredContract] = field(default_factory=dict)
    dispatches: tuple[RoundDispatch, ...] = ()
    owed: tuple[NodeName, ...] = ()
    accounts: Mapping[ContractAddress, StoredAccount] = field(default_factory=dict)
    blocks: tuple[ChainBlock, ...] = ()
    deployments: StoredDeployments = StoredDeployments()
    final_height: int | None = None
    # Transitions that peers sent and no block has yet.
    sent: tuple[SentTransition, ...] = ()


def with_dispatches(
    stored: StoredContract, dispatches: tuple[RoundDispatch, ...], address: ContractAddress
) -> StoredContract:
    """Return a contract's stored data with the node's own dispatches of it that have no outcome."""
    rounds = [dispatch.round for dispatch in dispatches if dispatch.round.contract == address]
    dispatched = tuple(
        HandedOver(FlushPoint(each.digest, transition.intent), transition)
        for each in rounds
        for transition in each.transitions
    )
    return replace(stored, dispatched=dispatched, rounds=dispatched_rounds(rounds))
