"""The failure message of a private transaction for its user.

Every node can show the bytes that a contract reverted with. Decoding them needs the contract's ABI: it came with the
request, which only the sender's node has, or was stored at this node.
"""

from __future__ import annotations

import re
from typing import Final

from rota import host
from rota.abi.codec import SELECTOR_BYTES, explain_revert
from rota.model.types import Intent, Outcome, Receipt
from rota.service.public.costs import UNKNOWN_ERROR
from rota.service.run import RunningNode

# The format of `ledger.bindings.FailedCall`.
_FAILED_CALL: Final = re.compile("call [0-9]+ failed: 0x([0-9a-f]{8}) of 0x")


async def failure_of(running: RunningNode, intent: Intent, receipt: Receipt) -> tuple[str, bytes]:
    """Return the message and the revert data of the contract; both are empty for a confirmed transaction."""
    if receipt.outcome is Outcome.CONFIRMED:
        return "", b""
    reverted = host.revert_in(receipt.reason)
    if reverted is None:
        return await _with_function(running, receipt.reason) or "no reason was given", b""
    before, revert = reverted
    before = await _with_function(running, before)
    hosted = running.contracts.hosted(intent.contract)
    told = host.explain(hosted, intent, revert) if hosted is not None else None
    if told is None:
        known = await running.adapters.store.abis.entries("error", revert[:SELECTOR_BYTES])
        told = explain_revert(revert, known)
    if told.startswith(UNKNOWN_ERROR):
        told += " (send the contract's ABI along, or store it, to read this)"
    return before + told, revert


async def _with_function(running: RunningNode, reason: str) -> str:
    """Replace the selector of a failed call by the function's signature if a stored ABI has it."""
    called = _FAILED_CALL.search(reason)
    if called is None:
        return reason
    known = await running.adapters.store.abis.entries("function", bytes.fromhex(called[1]))
    return reason[: called.start(1) - 2] + known[0].signature + reason[called.end(1) :] if known else reason
