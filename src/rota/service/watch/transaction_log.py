"""The flow of each transaction in the log, at level debug.

A node has a `TransactionLog` only if its log lets debug lines through, so that the flow costs nothing otherwise.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from rota.logs import catalogue
from rota.machine.effects import Effect
from rota.machine.tables import Event
from rota.model.types import NO_CONTRACT, ContractAddress, IntentId, NodeName
from rota.service.watch.milestones import Milestone, Milestones, Sighting, is_telling_effect, is_telling_event

OPEN_MAX: Final = 10_000


@dataclass(slots=True)
class _Open:
    contract: ContractAddress
    is_delegated: bool = False


class TransactionLog:
    """Logs the milestones of one node's transactions; sees events and effects as a `Watcher`."""

    def __init__(self, node: NodeName) -> None:
        self._milestones: Final = Milestones(node)
        # The open transactions of local users: a receipt does not name its contract, and an assembly follows each
        # delegation.
        self._open: Final[OrderedDict[IntentId, _Open]] = OrderedDict()

    def saw_event(self, event: Event) -> None:
        """Log the milestones of an event of the core."""
        if is_telling_event(event):
            for sighting in self._milestones.of_event(event):
                self._log_all(sighting)

    def saw_effect(self, effect: Effect) -> None:
        """Log the milestones of an effect of the core."""
        if is_telling_effect(effect):
            for sighting in self._milestones.of_effect(effect):
                self._log_all(sighting)

    def _log_all(self, sighting: Sighting) -> None:
        for intent in sighting.intents:
            opened = self._open.get(intent)
            if sighting.milestone is Milestone.ACCEPTED:
                self._open[intent] = _Open(sighting.contract)
                if len(self._open) > OPEN_MAX:
                    self._open.popitem(last=False)
            elif sighting.milestone is Milestone.REPORTED:
                self._open.pop(intent, None)
            elif sighting.milestone is Milestone.DELEGATED and opened is not None:
                if opened.is_delegated and sighting.peer is None:
                    continue
                opened.is_delegated = True
            contract = sighting.contract or (opened.contract if opened is not None else None)
            _log(sighting, intent, None if contract == NO_CONTRACT else contract)


def transaction_log(node: NodeName) -> TransactionLog | None:
    """Return a log of transactions if level debug is on."""
    return TransactionLog(node) if catalogue.TRANSACTION_SUBMITTED.is_enabled else None


def _log(sighting: Sighting, intent: IntentId, contract: ContractAddress | None) -> None:
    peer, detail = sighting.peer, sighting.detail
    match sighting.milestone:
        case Milestone.ACCEPTED:
            catalogue.TRANSACTION_SUBMITTED.log(contract=contract, intent=intent)
        case Milestone.DELEGATED:
            catalogue.TRANSACTION_DELEGATED.log(contract=contract, intent=intent, peer=peer)
        case Milestone.ASSEMBLED:
            catalogue.TRANSACTION_ASSEMBLED.log(contract=contract, intent=intent, peer=peer)
        case Milestone.ENDORSED:
            catalogue.TRANSACTION_ENDORSED.log(contract=contract, intent=intent, peer=peer)
        case Milestone.PERMITTED:
            catalogue.TRANSACTION_PERMITTED.log(contract=contract, intent=intent, peer=peer)
        case Milestone.DISPATCHED:
            catalogue.TRANSACTION_DISPATCHED.log(contract=contract, intent=intent, peer=peer, detail=detail)
        case Milestone.CONFIRMED:
            catalogue.TRANSACTION_CONFIRMED.log(contract=contract, intent=intent, detail=detail)
        case Milestone.SKIPPED:
            catalogue.TRANSACTION_SKIPPED.log(contract=contract, intent=intent, detail=detail)
        case Milestone.REPORTED if sighting.has_failed:
            # The reason may quote private contents: it is in the receipt and not in the log.
            catalogue.TRANSACTION_REVERTED.log(contract=contract, intent=intent)
        case Milestone.REPORTED:
            catalogue.TRANSACTION_COMPLETED.log(contract=contract, intent=intent)
