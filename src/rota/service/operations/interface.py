"""What operators and the machines that watch for them ask."""

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
    """A node's figures at one moment. What ends in `_total` only grows within one life of the process.

    None means that the node does not know, as the ledger's height while the ledger is away: then no figure is shown.
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
    """What operators and the machines that watch for them ask. Answered from memory, at once, beside what is done."""

    async def acknowledge_finality(self) -> int:
        """An operator knows of the receipts that no longer hold: how many these are. They stay marked."""
        ...

    def readiness(self) -> tuple[str, ...]:
        """What is missing before this node can serve, each as a sentence that says how to mend it; empty when ready."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """What does not keep this node from serving now and will, each as a sentence that says how to mend it."""
        ...

    def measurements(self) -> Measurements:
        """The figures of this moment."""
        ...
