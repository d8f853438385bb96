"""Automation wired for one node: its triggers, its account, its services of the node, and its view of the
members."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from rota.automation.settings import Strategy
from rota.automation.shipped import (
    ASK_FOR_STATES,
    CANCEL_ARGUMENTS,
    EXPIRED_LOCKS,
    LACKING_STATES,
    PRUNABLE_COMPLETIONS,
    PRUNE_COMPLETIONS,
)
from rota.ledger.account import Account
from rota.ledger.client import RpcClient
from rota.model.types import ContractAddress, NodeName, address_bytes
from rota.ports import Registry, StoredAnnouncement
from rota.service.automation.automation import Automating
from rota.service.automation.desk import LedgerWatch, Service, TriggerDesk
from rota.service.automation.loading import LoadedTrigger
from rota.service.commands.prunable import PrunableCompletions
from rota.service.contracts.missing_states import MissingStates
from rota.service.contracts.standing_locks import StandingLocks
from rota.service.run import RunningNode
from rota.transport import Announcement, GrpcPeers

SEED_BYTES: Final = 32
ADDRESS_BYTES: Final = 20


def announced(triggers: Sequence[LoadedTrigger], account: Account) -> Announcement:
    """Return the announcement of automation for the node's hello."""
    ranked = tuple(each.name for each in triggers if each.settings.strategy is Strategy.RANK)
    return Announcement(address_bytes(account.address), ranked)


def automate(
    running: RunningNode,
    triggers: Sequence[LoadedTrigger],
    client: RpcClient,
    account: Account,
    registry: Registry,
    peers: GrpcPeers,
    look_ms: int,
    pruning: PrunableCompletions,
) -> Automating:
    """Return the automation, which runs as long as the node does."""
    missing = MissingStates(
        lambda: running.adapters.store, running.contracts.addresses, lambda: running.engine.core.height, running.tell
    )
    locks = StandingLocks(running.name, lambda: running.adapters.store, running.contracts)
    services: dict[str, Service] = {
        EXPIRED_LOCKS: locks.expired,
        CANCEL_ARGUMENTS: locks.cancel_arguments,
        LACKING_STATES: missing.lacking,
        ASK_FOR_STATES: missing.ask,
        PRUNABLE_COMPLETIONS: pruning.offset,
        PRUNE_COMPLETIONS: pruning.prune,
    }
    watches = [watch for loaded in triggers for watch in loaded.trigger.watches]
    automating = Automating(
        running.name,
        triggers,
        TriggerDesk(account, services),
        LedgerWatch(client, watches),
        lambda: tuple(registry.registrations()),
        lambda: _heard(peers),
        secrets.token_bytes(SEED_BYTES),
        look_ms,
    )
    running.beside.append(lambda: automating.run(running.adapters.store.triggers))
    return automating


def _heard(peers: GrpcPeers) -> Mapping[NodeName, StoredAnnouncement]:
    """Return the peers' announcements; an account that is no address is ignored."""
    return {
        node: StoredAnnouncement(
            node,
            ContractAddress(f"0x{said.account.hex()}" if len(said.account) == ADDRESS_BYTES else ""),
            said.ranked_triggers,
        )
        for node, said in peers.announcements().items()
    }
