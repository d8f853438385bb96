"""Why a call failed that a transition makes on the public ledger.

The ledger contract copies nothing that a target returns, so that no target can make it pay: its log says which call
failed, and nothing more (ledger). What was called stands in the round. Why it failed is asked of the chain afterwards:
the same call, from the same caller, with the same gas, on the state after that block. What the calls before it had
changed was taken back, so that the answer may be another one than at the time. People read it, and the sender's own
domain judges by it whether another attempt is worth its gas; it says nothing about what is on the chain. A call that
follows others may need them: alone it is refused although it would succeed behind them, so its verdict is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from rota.ledger.bindings import FailedCall, explain_any
from rota.ledger.call_gas import gas_of_call, transaction_gas
from rota.ledger.client import Call, RpcClient
from rota.ledger.hexadecimal import data, quantity, read_data
from rota.ledger.transports import RpcFailure
from rota.model.types import CallVerdict
from rota.ports import Unavailable

# Whoever submits rounds again can have calls fail as often as he pays for it; more than these are not asked about.
REASONS_A_RANGE_MAX: Final = 16
REVERT_BYTES_MAX: Final = 1_024
# What Ethereum nodes answer `eth_call` with when the contract reverts.
REVERTED_CODE: Final = 3
# What an ERC-20 may answer when it has done what it was asked for.
NOTHING: Final = "0x"
TRUE: Final = data((1).to_bytes(32, "big"))


@dataclass(frozen=True, slots=True)
class Asked:
    """A failed call, and the block in which it failed.

    A ledger of proofs makes calls that move tokens, and holds them to it: one that succeeds may yet have failed there.
    """

    failed: FailedCall
    height: int
    is_move: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call failed: in words, which are empty when the chain cannot tell, and for the domain."""

    text: str
    verdict: CallVerdict
    revert: bytes = b""


_UNKNOWN: Final = Reason("", CallVerdict.UNKNOWN)


async def reason_of(client: RpcClient, asked: Asked) -> Reason:
    """What the target says."""
    reason = await _reason_alone(client, asked)
    is_first = asked.failed.number == 0
    return (
        reason if is_first or reason.verdict is CallVerdict.SUCCEEDS else replace(reason, verdict=CallVerdict.UNKNOWN)
    )


async def _reason_alone(client: RpcClient, asked: Asked) -> Reason:
    call, block = asked.failed.call, quantity(asked.height)
    free = {"from": asked.failed.contract, "to": call.to, "data": data(call.data)}
    # A call of a contract has all of its gas for itself; a transaction pays for its data first.
    wanted = {**free, "gas": quantity(call.gas + transaction_gas(call.data))}
    questions = (
        Call("eth_getCode", (call.to, block)),
        Call("eth_call", (wanted, block)),
        Call("eth_call", (free, block)),
    )
    try:
        # Nobody waits for it: what is not told at once is not told.
        code, answer, unbounded = (await client.call_together(*questions, attempts_max=1)).answers
    except Unavailable:
        return _UNKNOWN
    if code == "0x":
        return Reason("there is no contract", CallVerdict.NO_CONTRACT)
    if isinstance(answer, RpcFailure):
        if isinstance(unbounded, RpcFailure):
            return _refusal(unbounded)
        needed = await gas_of_call(client, asked.failed.contract, call.to, call.data)
        about = f": it needs about {needed}" if needed is not None else ""
        return Reason(f"it ran out of gas, and would succeed with more{about}", CallVerdict.SUCCEEDS)
    if asked.is_move and answer not in (NOTHING, TRUE):
        return Reason("it answers that it is not done", CallVerdict.REFUSED)
    told = f"it would succeed after block {asked.height}"
    must_move = ", but must move exactly what is said, and be the contract's own ERC-20" if asked.is_move else ""
    return Reason(told + must_move, CallVerdict.SUCCEEDS)


def _refusal(failure: RpcFailure) -> Reason:
    try:
        output = read_data(failure.data)
    except ValueError:
        output = b""
    if not output:
        # Without data it may be anything from an empty revert to all gas used, or a node that cannot answer now.
        is_revert = failure.code == REVERTED_CODE or "revert" in failure.message.lower()
        text = "it reverts without a reason: the target may have no such function" if is_revert else failure.message
        return Reason(text, CallVerdict.REFUSED if is_revert else CallVerdict.UNKNOWN)
    start = output[:REVERT_BYTES_MAX]
    if len(output) > REVERT_BYTES_MAX:
        text = f"reverted with {len(output)} bytes that begin with 0x{start.hex()}"
        return Reason(text, CallVerdict.REFUSED, start)
    return Reason(explain_any(output), CallVerdict.REFUSED, start)
