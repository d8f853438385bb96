"""Finds out why a call failed that a transition makes on the public ledger.

The ledger contract copies nothing that a target returns, so that no target can make it pay: its log has only the number
of the failed call (ledger). The call itself is in the round. The reason is determined afterwards: by the same call,
from the same caller, with the same gas, on the state after that block. The changes of the calls before it were
reverted, so that the answer may differ from the original. It is for display, and for the sender's own domain to judge
whether a retry is worth its gas; it is no statement about the chain's state. A call that follows others may need them:
alone it can fail although it would succeed after them, so its verdict is unknown.

A stranger can have a call fail, in a contract of its own that this node follows, and a target can use up any gas that
it gets here. So a failed call gets a little more gas than was paid for on the chain, and little time: the index waits
for the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rota.ledger.bindings import FailedCall, explain_any
from rota.ledger.call_gas import MORE_GAS, gas_of_call, transaction_gas
from rota.ledger.client import Call, RpcClient
from rota.ledger.hexadecimal import data, quantity, read_data
from rota.ledger.transports import RpcFailure
from rota.model.types import CallVerdict
from rota.ports import Unavailable

# Any account can submit rounds again and have calls fail, as often as it pays; more than these are not examined.
REASONS_A_RANGE_MAX: Final = 16
# How long the index waits for all of them. A node that does not index for `ledger_grace` gives up its roles.
REASONS_S: Final = 2.0
REVERT_BYTES_MAX: Final = 1_024
# The error code of Ethereum nodes for `eth_call` when the contract reverts.
REVERTED_CODE: Final = 3
# The answers of an ERC-20 that mean success.
NOTHING: Final = "0x"
TRUE: Final = data((1).to_bytes(32, "big"))


@dataclass(frozen=True, slots=True)
class Asked:
    """A failed call, and the block in which it failed.

    A ledger of proofs makes calls that move tokens, and checks that they do: one that succeeds may still have failed
    there.
    """

    failed: FailedCall
    height: int
    is_move: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call failed: as text, which is empty when the chain cannot answer, and for the domain."""

    text: str
    verdict: CallVerdict
    revert: bytes = b""


_UNKNOWN: Final = Reason("", CallVerdict.UNKNOWN)


async def reasons_of(client: RpcClient, some: Sequence[Asked]) -> list[Reason]:
    """Return the reasons, unknown for those not found in time. Only for the first one the needed gas is estimated."""
    if not some:
        return []
    tasks = [asyncio.create_task(reason_of(client, each, estimates=each is some[0])) for each in some]
    await asyncio.wait(tasks, timeout=REASONS_S)
    late = [task for task in tasks if not task.done()]
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return [_UNKNOWN if task.cancelled() else task.result() for task in tasks]


async def reason_of(client: RpcClient, asked: Asked, estimates: bool = True) -> Reason:
    """Return the reason of one call."""
    reason = await _reason_alone(client, asked, estimates)
    is_first = asked.failed.number == 0
    return (
        reason if is_first or reason.verdict is CallVerdict.SUCCEEDS else replace(reason, verdict=CallVerdict.UNKNOWN)
    )


async def _reason_alone(client: RpcClient, asked: Asked, estimates: bool) -> Reason:
    call, block = asked.failed.call, quantity(asked.height)
    free = {"from": asked.failed.contract, "to": call.to, "data": data(call.data)}
    # A contract's call has all of its gas for itself; a transaction pays for its data first.
    gas = call.gas + transaction_gas(call.data)
    wanted, more = {**free, "gas": quantity(gas)}, {**free, "gas": quantity(gas + MORE_GAS)}
    questions = (
        Call("eth_getCode", (call.to, block)),
        Call("eth_call", (wanted, block)),
        Call("eth_call", (more, block)),
    )
    try:
        # One attempt only: the reason is optional.
        code, answer, with_more = (await client.call_together(*questions, attempts_max=1)).answers
    except Unavailable:
        return _UNKNOWN
    if code == "0x":
        return Reason("there is no contract", CallVerdict.NO_CONTRACT)
    if isinstance(answer, RpcFailure):
        if isinstance(with_more, RpcFailure):
            return _refusal(with_more)
        needed = None
        if estimates:
            needed = await gas_of_call(client, asked.failed.contract, call.to, call.data, call.gas)
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
