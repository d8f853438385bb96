"""What users wait for: the reply to a request, the receipt of an intent. The core never waits for users."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from rota.logs import catalogue
from rota.machine.effects import ReplyToUser
from rota.model.types import INTENT_ID_USED, IntentId, Outcome, Receipt
from rota.node.effects import ReportFinalityBroken
from rota.sequencer.effects import ReportPrepared

RECEIPTS_KEPT_MAX: Final = 4_096
PREPARED_KEPT_MAX: Final = 10_000


class Users:
    """Pairs the core's replies and receipts with the callers that wait for them."""

    def __init__(self) -> None:
        self._requests = 0
        self._replies: Final[dict[str, asyncio.Future[ReplyToUser]]] = {}
        self._receipts: Final[dict[IntentId, list[asyncio.Future[Receipt]]]] = {}
        self._recent: Final[OrderedDict[IntentId, Receipt]] = OrderedDict()
        self._prepared: Final[OrderedDict[IntentId, ReportPrepared]] = OrderedDict()
        self.accepted = 0
        self.confirmed = 0
        self.reverted = 0
        self.ids_used = 0
        self.finality_broken = 0

    def expect_reply(self) -> tuple[str, asyncio.Future[ReplyToUser]]:
        """Return a name for a request, and a future for its reply."""
        self._requests += 1
        reply_to = str(self._requests)
        reply = self._replies[reply_to] = asyncio.get_running_loop().create_future()
        return reply_to, reply

    def take_reply(self, reply: ReplyToUser) -> None:
        """Pass on a reply of the core, if its caller still waits."""
        self.accepted += not reply.error
        waiting = self._replies.pop(reply.reply_to, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def expect_receipt(self, intent: IntentId) -> asyncio.Future[Receipt]:
        """Return a future for the receipt of an intent, resolved at once if it is among the latest."""
        receipt = asyncio.get_running_loop().create_future()
        known = self._recent.get(intent)
        if known is not None:
            receipt.set_result(known)
        else:
            waiting = self._receipts.setdefault(intent, [])
            waiting.append(receipt)
            receipt.add_done_callback(lambda _: self._forget(intent, receipt))
        return receipt

    def take_receipt(self, receipt: Receipt) -> None:
        """Take the receipt of an intent of this node: count it, cache it and pass it on."""
        self.confirmed += receipt.outcome is Outcome.CONFIRMED
        self.reverted += receipt.outcome is Outcome.REVERTED
        if receipt.code == INTENT_ID_USED:
            self.ids_used += 1
            catalogue.TRANSACTION_ID_USED.log(intent=receipt.intent, leaf=receipt.leaf)
        self._prepared.pop(receipt.intent, None)
        self._recent[receipt.intent] = receipt
        if len(self._recent) > RECEIPTS_KEPT_MAX:
            self._recent.popitem(last=False)
        for waiting in self._receipts.pop(receipt.intent, []):
            if not waiting.done():
                waiting.set_result(receipt)

    def take_broken(self, report: ReportFinalityBroken) -> None:
        """Drop cached receipts that no longer hold after a reorganisation; the store has the current ones."""
        self.finality_broken += 1
        catalogue.CHAIN_FINALITY_BROKEN.log(
            parted_at=report.parted_at, final_height=report.final_height, transactions=len(report.intents)
        )
        for intent in report.intents:
            self._recent.pop(intent, None)

    def take_prepared(self, report: ReportPrepared) -> None:
        """Keep an external intent that is ready to be committed; reported again after a restart."""
        self._prepared[report.prepared.transition.intent] = report
        if len(self._prepared) > PREPARED_KEPT_MAX:
            self._prepared.popitem(last=False)

    def prepared(self, intent: IntentId) -> ReportPrepared | None:
        """Return what the user of an external intent passes to its committer, or None once it has an outcome."""
        return self._prepared.get(intent)

    def recent_receipt(self, intent: IntentId) -> Receipt | None:
        """Return a receipt if it is among the latest, without a query of the store."""
        return self._recent.get(intent)

    def close(self) -> None:
        """Cancel everything that callers wait for."""
        for reply in self._replies.values():
            reply.cancel()
        for waiting in self._receipts.values():
            for receipt in waiting:
                receipt.cancel()

    def _forget(self, intent: IntentId, receipt: asyncio.Future[Receipt]) -> None:
        waiting = self._receipts.get(intent)
        if waiting is not None and receipt in waiting:
            waiting.remove(receipt)
            if not waiting:
                del self._receipts[intent]
