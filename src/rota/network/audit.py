"""Whether a network has kept its promises: receipts held against the chain's own logs, and all nodes at its head."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from rota.client import ClientError
from rota.core.events import LedgerStatus
from rota.ledger.bindings import outcomes_of
from rota.ledger.hexadecimal import quantity, read_quantity
from rota.ledger.reading import Log, read_logs
from rota.network.chains import CHAIN_ID
from rota.network.workload import Workload
from rota.types import IntentId

BLOCKS_TOGETHER_MAX: Final = 1_000
PROBLEMS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found. `rounds` counts base-ledger transactions, `problems` says what is wrong."""

    height: int
    rounds: int
    confirmed: int
    problems: tuple[str, ...]


async def audit(workload: Workload) -> Audit:
    """Every promised intent is on the chain once, as its receipt says, nothing else is, and all nodes know."""
    ledger = workload.network.ledger
    height = read_quantity(await ledger.call("eth_blockNumber"))
    logs = await _logs(workload, height)
    committed: Counter[IntentId] = Counter()
    for log_height in sorted({log.height for log in logs}):
        told = outcomes_of([log for log in logs if log.height == log_height], CHAIN_ID)
        committed.update(each.intent for _, each in told.outcomes if each.status is LedgerStatus.COMMITTED)
    problems = _problems(workload, committed)
    for name, node in workload.network.nodes.items():
        try:
            status = await node.client.status(workload.contract)
        except ClientError as error:
            problems.append(f"{name} does not say where it stands: {error}")
            continue
        if status is None or status.height < height:
            problems.append(f"{name} stands at height {status.height if status else 'unknown'}, the chain at {height}")
    rounds = len({log.transaction_hash for log in logs})
    return Audit(height, rounds, sum(committed.values()), tuple(problems[:PROBLEMS_MAX]))


def _problems(workload: Workload, committed: Counter[IntentId]) -> list[str]:
    strangers = [intent for intent in committed if intent not in workload.promises]
    problems = [f"{intent.hex()} is on the chain, and nobody asked for it" for intent in strangers]
    for intent, promise in workload.promises.items():
        receipt, times = workload.receipts.get(intent), committed[intent]
        if receipt is None:
            problems.append(f"{intent.hex()} of {promise.node} has not ended")
        elif not receipt.success:
            problems.append(f"{intent.hex()} of {promise.node} has failed: {receipt.failure_message}")
        elif times != 1:
            problems.append(f"{intent.hex()} of {promise.node} is confirmed, and {times} times on the chain")
    return problems


async def _logs(workload: Workload, height: int) -> list[Log]:
    logs: list[Log] = []
    for first in range(0, height + 1, BLOCKS_TOGETHER_MAX):
        last = min(first + BLOCKS_TOGETHER_MAX - 1, height)
        wanted = {"address": workload.contract, "fromBlock": quantity(first), "toBlock": quantity(last)}
        logs += read_logs(await workload.network.ledger.call("eth_getLogs", wanted))
    return logs
