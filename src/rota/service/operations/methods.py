"""A node's state beyond its transactions, for operators: queues, problems, settings."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import CALLER, Role
from rota.rpc.formats import Timestamp, timestamp_of, without_folders
from rota.rpc.methods import method
from rota.service.interface import Node, PeerMeasurements, StateCount
from rota.service.operations.self_view import HasItself


class CallerShown(msgspec.Struct, frozen=True):
    """The caller and its roles."""

    name: str
    roles: list[str]


class PeerQueue(msgspec.Struct, frozen=True):
    """The connection to another node."""

    node: str
    connected: bool
    queued: int
    dropped: int


class DatabaseShown(msgspec.Struct, frozen=True, rename="camel"):
    """The node's database."""

    kind: str
    place: str
    size_bytes: int | None
    trouble: str


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a node. An unknown figure is null. `missing` is what keeps it from serving."""

    name: str
    version: str
    started_at: Timestamp
    caller: CallerShown
    missing: list[str]
    warnings: list[str]
    memory_bytes: int
    database: DatabaseShown
    figures: dict[str, int | None]
    sending: dict[str, int]
    coordinating: dict[str, int]
    peers: list[PeerQueue]


class Setting(msgspec.Struct, frozen=True, rename="camel"):
    """One setting."""

    path: str
    value: str
    unit: str
    is_default: bool


FIGURES: Final = {
    "indexHeight": "index_height",
    "ledgerHeight": "ledger_height",
    "contracts": "contracts",
    "contractsLoaded": "contracts_loaded",
    "coordinatorsActive": "coordinators_active",
    "intentsOpen": "intents_open",
    "intentsAccepted": "intents_accepted_total",
    "receiptsConfirmed": "receipts_confirmed_total",
    "receiptsReverted": "receipts_reverted_total",
    "intentIdsUsed": "intent_ids_used_total",
    "finalityBroken": "finality_broken_total",
    "receiptsUndone": "receipts_undone",
    "publicSetAside": "public_set_aside",
    "consentsPending": "consents_pending",
    "accountsShort": "accounts_short",
    "roundsUnconfirmed": "rounds_unconfirmed",
    "writesOpen": "writes_open",
    "writesFailed": "writes_failed_total",
    "deliveriesOpen": "deliveries_open",
    "coreSteps": "steps_total",
    "commandsInFlight": "commands_in_flight",
    "commandsAccepted": "commands_accepted_total",
    "commandsRejected": "commands_rejected_total",
    "commandsDuplicate": "commands_duplicate_total",
    "completionsEnd": "completions_end",
    "certificateValidUntilS": "certificate_valid_until_s",
}


@method("node_status", role=Role.READ, answers="status")
async def status(node: Node) -> Annotated[NodeStatus, Meta(description="How it stands now")]:
    """Return the status of this node: version, database, problems, queues, figures, and the caller's roles."""
    caller, measured, itself = CALLER.get(), node.measurements(), node.itself
    database = itself.database()
    # File paths are for operators.
    shown = str if Role.OPERATE in caller.roles else without_folders
    return NodeStatus(
        name=node.name,
        version=itself.version,
        started_at=timestamp_of(itself.started_at_ms),
        caller=CallerShown(caller.name, sorted(role.value for role in caller.roles)),
        missing=list(map(shown, node.readiness())),
        warnings=list(map(shown, node.warnings())),
        memory_bytes=itself.memory_bytes(),
        database=DatabaseShown(database.kind, shown(database.place), database.size_bytes, shown(database.trouble)),
        figures={name: getattr(measured, field) for name, field in FIGURES.items()},
        sending=_counts(measured.sending),
        coordinating=_counts(measured.coordinating),
        peers=[_queue(each) for each in measured.peers],
    )


@method("node_configuration", role=Role.OPERATE, answers="settings")
async def configuration(node: HasItself) -> Annotated[list[Setting], Meta(description="In the order of the file")]:
    """Return the settings of this node, without passwords and without the parts of addresses that may contain one."""
    return [Setting(each.path, each.value, each.unit, each.is_default) for each in node.itself.settings()]


@method("node_acknowledgeFinality", role=Role.OPERATE, answers="count")
async def acknowledge_finality(node: Node) -> Annotated[int, Meta(description="How many these are")]:
    """Let this node serve again after the chain took back final blocks, which made receipts invalid.

    They stay marked with the failure code `FINALITY_BROKEN` until the chain has their transactions again.
    """
    return await node.acknowledge_finality()


def _counts(counts: tuple[StateCount, ...]) -> dict[str, int]:
    return {each.state: each.count for each in counts}


def _queue(peer: PeerMeasurements) -> PeerQueue:
    return PeerQueue(peer.node, peer.is_connected, peer.queued_messages, peer.dropped_messages_total)


METHODS: Final = (status, configuration, acknowledge_finality)
