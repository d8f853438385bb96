"""Why a call failed that a transition makes on the public ledger.

The ledger contract copies nothing that a target returns, so that no target can make it pay: its log says which call
failed, and nothing more (ledger). What was called stands in the round. Why it failed is asked of the chain afterwards:
the same call, from the same caller, with the same gas, on the state after that block. What the calls before it had
changed was taken back, so that the answer may be another one than at the time. People read it, and the sender's own
domain judges by it whether another attempt is worth its gas; it says nothing about what is on the chain. A call that
follows others may need them: alone it is refused although it would succeed behind them, so its verdict is unknown.

A stranger can have a call fail, in a contract of its own that this node follows, and a target can use up whatever gas
it is given here. So a call that failed gets a little more gas than was paid for on the chain, and not much time: the
index waits for the answers.
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

# Whoever submits rounds again can have calls fail as often as he pays for it; more than these are not asked about.
REASONS_A_RANGE_MAX: Final = 16
# How long the index waits for all of them. A node that does not index for `ledger_grace` gives its roles up.
REASONS_S: Final = 2.0
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


async def reasons_of(client: RpcClient, some: Sequence[Asked]) -> list[Reason]:
    """The answers that come in time. How much gas is needed, which takes many executions, is asked about the first."""
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
    """What the target says."""
    reason = await _reason_alone(client, asked, estimates)
    is_first = asked.failed.number == 0
    return (
        reason if is_first or reason.verdict is CallVerdict.SUCCEEDS else replace(reason, verdict=CallVerdict.UNKNOWN)
    )


async def _reason_alone(client: RpcClient, asked: Asked, estimates: bool) -> Reason:
    call, block = asked.failed.call, quantity(asked.height)
    free = {"from": asked.failed.contract, "to": call.to, "data": data(call.data)}
    # A call of a contract has all of its gas for itself; a transaction pays for its data first.
    gas = call.gas + transaction_gas(call.data)
    wanted, more = {**free, "gas": quantity(gas)}, {**free, "gas": quantity(gas + MORE_GAS)}
    questions = (
        Call("eth_getCode", (call.to, block)),
        Call("eth_call", (wanted, block)),
        Call("eth_call", (more, block)),
    )
    try:
        # Nobody waits for it: what is not told at once is not told.
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
