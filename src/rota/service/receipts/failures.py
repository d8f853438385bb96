"""Why a private transaction failed, as its user reads it.

Every node can tell the bytes that a contract reverted with. Its words are known where its ABI is: that came with the
request, which only the sender's node has, or was stored there.
"""

from __future__ import annotations

from rota import host
from rota.abi.codec import SELECTOR_BYTES, explain_revert
from rota.model.types import Intent, Outcome, Receipt
from rota.service.run import RunningNode


async def failure_of(running: RunningNode, intent: Intent, receipt: Receipt) -> tuple[str, bytes]:
    """The message and what a contract reverted with; nothing of what succeeded."""
    if receipt.outcome is Outcome.CONFIRMED:
        return "", b""
    reverted = host.revert_in(receipt.reason)
    if reverted is None:
        return receipt.reason or "no reason was given", b""
    before, revert = reverted
    hosted = running.contracts.hosted(intent.contract)
    told = host.explain(hosted, intent, revert) if hosted is not None else None
    if told is None:
        known = await running.adapters.store.abis.entries("error", revert[:SELECTOR_BYTES])
        told = explain_revert(revert, known)
    return before + told, revert
