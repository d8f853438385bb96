"""Audits a network: receipts compared with the chain's own logs, and all nodes at the chain's head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from rota.client import ClientError, TransactionReceipt
from rota.localnet.chain_book import ChainBook
from rota.localnet.local import LocalNetwork
from rota.localnet.workload import Promise
from rota.model.types import IntentId, intent_text

PROBLEMS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings. `rounds` counts base-ledger transactions, `problems` are sentences."""

    height: int
    rounds: int
    confirmed: int
    problems: tuple[str, ...]


def promise_problems(
    promises: Mapping[IntentId, Promise],
    receipts: Mapping[IntentId, TransactionReceipt],
    committed: Counter[IntentId],
    others: Collection[IntentId] = (),
) -> list[str]:
    """Every accepted intent is on the chain once, as in its receipt, and no other intent is but those in `others`."""
    strangers = [intent for intent in committed if intent not in promises and intent not in others]
    problems = [f"{intent_text(intent)} is on the chain, and nobody asked for it" for intent in strangers]
    for intent, promise in promises.items():
        receipt, times = receipts.get(intent), committed[intent]
        named = f"{intent_text(intent)} of {promise.node}"
        if receipt is None:
            problems.append(f"{named} has not ended")
        elif not receipt.success:
            problems.append(f"{named} has failed: {receipt.failure_message}")
        elif times != 1:
            problems.append(f"{named} is confirmed, and {times} times on the chain")
    problems += [
        f"{intent_text(each)} is {committed[each]} times on the chain" for each in others if committed[each] != 1
    ]
    return problems


async def height_problems(network: LocalNetwork, book: ChainBook) -> list[str]:
    """Every node has as many blocks of every contract as the chain has."""
    problems = []
    for name, node in network.nodes.items():
        for contract in book.contracts:
            try:
                status = await node.client.status(contract)
            except ClientError as error:
                problems.append(f"{name} does not say where it stands: {error}")
                break
            if status is None:
                problems.append(f"{name} does not have the contract {contract}")
            elif status.height < book.height:
                problems.append(f"{name} stands at height {status.height}, the chain at {book.height}")
                break
    return problems
