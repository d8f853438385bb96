"""Explaining a transaction: from the node's machines while it is under way, then from the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from rota.model.types import NO_CONTRACT, ContractAddress, IntentId, NodeName, Outcome, Receipt
from rota.node.explanation import MEANINGS, explain_at_coordinator, explain_at_sender, explain_deployment
from rota.node.explanation import Explanation as Found
from rota.ports import NumberedReceipt, StoredTransaction
from rota.sequencer.sender_transaction import State
from rota.service.interface import Explanation, MissingEndorser, Moment, SequencerRole
from rota.service.public.public import Public
from rota.service.receipts.views import ReceiptViews
from rota.service.run import RunningNode

# A chain's time beyond the year 9999 is a mistake that must not become an error.
LATEST_S: Final = 253_402_300_799


class Explaining:
    """The explanations of one node. `at` converts the core's clock to Unix time."""

    def __init__(self, running: RunningNode, at: Callable[[int], int], public: Public, receipts: ReceiptViews) -> None:
        self._running: Final = running
        self._at: Final = at
        self._public: Final = public
        self._receipts: Final = receipts

    async def explain(self, intent: IntentId) -> Explanation | None:
        """Explain where it is; None when this node does not know it."""
        under_way = self._under_way(intent) or self._public.explain(intent)
        if under_way is not None:
            return under_way
        stored = await self._running.adapters.store.transaction(intent)
        if stored is None:
            ended = await self._public.explain_ended(intent)
            place = await self._receipts.place_of_another(intent) if ended is None else None
            return _explain_anothers(place) if place is not None else ended
        receipt = stored.receipt or self._running.users.recent_receipt(intent)
        return explain_stored(stored, receipt, stored.place, self._running.name)

    def _under_way(self, intent: IntentId) -> Explanation | None:
        core = self._running.engine.core
        for address, sequencer in core.sequencers.loaded.items():
            held = sequencer.coordinator.transactions.get(intent)
            found = explain_at_coordinator(sequencer, intent) if held is not None and not held.is_gone else None
            role = SequencerRole.COORDINATOR if found is not None else SequencerRole.SENDER
            own = explain_at_sender(sequencer, intent)
            found = found or own
            if found is not None:
                return self._shown(intent, role, found, address, (own or found).history)
        deployment = core.deployments.own.get(intent)
        if deployment is None:
            return None
        found = explain_deployment(deployment)
        return self._shown(intent, SequencerRole.SENDER, found, None, found.history)

    def _shown(
        self,
        intent: IntentId,
        role: SequencerRole,
        found: Found,
        contract: ContractAddress | None,
        history: tuple[tuple[int, str], ...],
    ) -> Explanation:
        return Explanation(
            intent,
            role,
            found.state,
            contract,
            self._at(found.since_ms),
            found.waits_for,
            found.who,
            ", ".join(filter(None, (found.detail, *map(_unanswered, found.operators)))),
            tuple(Moment(self._at(at_ms), text) for at_ms, text in history),
            found.meaning,
            tuple((node, since_s * 1_000) for node, since_s in found.operators),
            tuple(
                MissingEndorser(each.endorser, self._at(each.since_ms), each.said, each.told_by)
                for each in found.missing
            ),
        )


def _unanswered(operator: tuple[NodeName, int]) -> str:
    node, since_s = operator
    since = datetime.fromtimestamp(min(since_s, LATEST_S), UTC)
    return f"the operator of {node} has not answered since {since:%Y-%m-%d %H:%M:%S} UTC"


def explain_stored(
    stored: StoredTransaction, receipt: Receipt | None, place: NumberedReceipt | None, node: NodeName
) -> Explanation:
    """Explain a transaction that no machine has in memory: it has ended, or its contract is not loaded."""
    state, waits_for, who, detail = _standing(stored, receipt, place, node)
    contract = stored.intent.contract if stored.intent.contract != NO_CONTRACT else None
    if receipt is not None and receipt.contract is not None:
        contract = receipt.contract
    history = [Moment(stored.accepted_at_ms, "accepted")]
    if place is not None:
        history.append(Moment(place.numbered_at_ms, state.value))
    return Explanation(
        stored.intent.id,
        SequencerRole.SENDER,
        state.value,
        contract,
        place.numbered_at_ms if place is not None else None,
        waits_for,
        who,
        detail,
        tuple(history),
        MEANINGS[state],
    )


def _standing(
    stored: StoredTransaction, receipt: Receipt | None, place: NumberedReceipt | None, node: NodeName
) -> tuple[State | Outcome, str, tuple[NodeName, ...], str]:
    """Return state or outcome, what is awaited, the nodes that block it, and details."""
    ourselves = (node,)
    if receipt is not None:
        waits_for = "" if place is not None else "its private states to arrive here"
        return receipt.outcome, waits_for, (), receipt.reason
    if stored.height is not None:
        return State.CONFIRMED, "its block to become final", (), f"block {stored.height}"
    if stored.parked_reason is not None:
        return State.PARKED, f"its user to resume it ({stored.parked_reason})", (), ""
    if stored.ending_reason is not None:
        return State.ENDING, "its contract to be loaded", ourselves, f"ending: {stored.ending_reason}"
    if stored.issued is not None:
        return State.ISSUED, "somebody to commit it", (), ""
    return State.PENDING, "its contract to be loaded", ourselves, ""


def _explain_anothers(place: NumberedReceipt) -> Explanation:
    """Explain a transaction of another node of which this one has a receipt."""
    return Explanation(
        place.intent,
        SequencerRole.OBSERVER,
        Outcome.CONFIRMED.value,
        place.contract,
        place.numbered_at_ms,
        history=(Moment(place.numbered_at_ms, Outcome.CONFIRMED.value),),
        meaning=MEANINGS[Outcome.CONFIRMED],
    )
