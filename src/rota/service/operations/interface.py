"""Queries by operators and monitoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.model.types import NodeName
from rota.service.automation.interface import TriggerView
from rota.service.explain.interface import StateCount


@dataclass(frozen=True, slots=True)
class PeerMeasurements:
    """One connection to another node."""

    node: NodeName
    is_connected: bool
    queued_messages: int
    dropped_messages_total: int


@dataclass(frozen=True, slots=True)
class Measurements:
    """A node's figures at one moment. Fields that end in `_total` only grow within one run of the process.

    None means that the figure is unknown, as the ledger's height while the ledger is away: then it is not shown.
    """

    index_height: int | None = None
    ledger_height: int | None = None
    is_ledger_lost: bool | None = None
    contracts: int | None = None
    contracts_loaded: int | None = None
    coordinators_active: int | None = None
    intents_open: int | None = None
    sending: tuple[StateCount, ...] = ()
    coordinating: tuple[StateCount, ...] = ()
    intents_accepted_total: int | None = None
    receipts_confirmed_total: int | None = None
    receipts_reverted_total: int | None = None
    intent_ids_used_total: int | None = None
    finality_broken_total: int | None = None
    receipts_undone: int | None = None
    public_set_aside: int | None = None
    consents_pending: int | None = None
    accounts_short: int | None = None
    rounds_dispatched_total: int | None = None
    rounds_unconfirmed: int | None = None
    submissions_total: int | None = None
    deliveries_open: int | None = None
    writes_open: int | None = None
    writes_failed_total: int | None = None
    steps_total: int | None = None
    commands_in_flight: int | None = None
    commands_accepted_total: int | None = None
    commands_rejected_total: int | None = None
    commands_duplicate_total: int | None = None
    completions_end: int | None = None
    contracts_learned_total: int | None = None
    contracts_refused_total: int | None = None
    geneses_asked_total: int | None = None
    geneses_given_total: int | None = None
    states_unconfirmed: int | None = None
    states_refused_total: int | None = None
    verifier_requests_dropped_total: int | None = None
    messages_dropped_total: int | None = None
    code_over_budget_total: int | None = None
    code_processes_ended_total: int | None = None
    certificate_valid_until_s: int | None = None
    contracts_in_arrears: int | None = None
    peers: tuple[PeerMeasurements, ...] = ()
    triggers: tuple[TriggerView, ...] = ()
    automation_transactions_total: int | None = None
    ledger_transactions_total: int | None = None


class Operations(Protocol):
    """Queries by operators and monitoring. Answered from memory, at once."""

    async def acknowledge_finality(self) -> int:
        """Acknowledge the receipts that no longer hold, and return their number. They stay marked."""
        ...

    def readiness(self) -> tuple[str, ...]:
        """Return what is missing before this node can serve, each as a sentence with its fix; empty when ready."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """Return the problems that will keep this node from serving later, each as a sentence with its fix."""
        ...

    def measurements(self) -> Measurements:
        """Return the current measurements."""
        ...
