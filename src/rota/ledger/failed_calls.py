"""Why a call failed that a transition makes on the public ledger.

The ledger contract copies nothing that a target returns, so that no target can make it pay: its log says which call
failed, and nothing more (ledger). What was called stands in the round. Why it failed is asked of the chain afterwards:
the same call, from the same caller, with the same gas, on the state after that block. What the calls before it had
changed was taken back, so that the answer may be another one than at the time; it is for people, and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.ledger.bindings import FailedCall, explain_any
from rota.ledger.client import Call, RpcClient
from rota.ledger.hexadecimal import data, quantity, read_data
from rota.ledger.transports import RpcFailure
from rota.ports import Unavailable

# Whoever submits rounds again can have calls fail as often as he pays for it; more than these are not asked about.
REASONS_A_RANGE_MAX: Final = 16
REVERT_BYTES_MAX: Final = 1_024
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


async def reason_of(client: RpcClient, asked: Asked) -> str:
    """What the target says; empty when the chain cannot tell."""
    call, block = asked.failed.call, quantity(asked.height)
    wanted = {"from": asked.failed.contract, "to": call.to, "gas": quantity(call.gas), "data": data(call.data)}
    questions = Call("eth_getCode", (call.to, block)), Call("eth_call", (wanted, block))
    try:
        # Nobody waits for it: what is not told at once is not told.
        code, answer = (await client.call_together(*questions, attempts_max=1)).answers
    except Unavailable:
        return ""
    if code == "0x":
        return "there is no contract"
    if isinstance(answer, RpcFailure):
        return _refusal(answer)
    if asked.is_move and answer not in (NOTHING, TRUE):
        return "it answers that it is not done"
    told = f"it would succeed after block {asked.height}"
    return f"{told}, but must move exactly what is said, and be the contract's own ERC-20" if asked.is_move else told


def _refusal(failure: RpcFailure) -> str:
    try:
        output = read_data(failure.data)
    except ValueError:
        output = b""
    if not output:
        # Without data it may be anything from an empty revert to all gas used; the node has a word for it.
        return failure.message
    if len(output) > REVERT_BYTES_MAX:
        return f"reverted with {len(output)} bytes that begin with 0x{output[:REVERT_BYTES_MAX].hex()}"
    return explain_any(output)
