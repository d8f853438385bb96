"""Transfers of a zero-knowledge token by one owner, through a real node: submitted, proved, committed and receipted.

One node in a process of its own on an embedded chain, with its own prover: one process on one core. The owner has one
coin and pays with it repeatedly, so that each transfer spends the change of the previous one before that is confirmed.
All are submitted at once. The clock runs from the first request to the last receipt. One transfer runs before, so that
keys have been read.

A proof takes longer than all the rest, and proved transitions go to the chain at once, in rounds of one or two. Where
only one round may be under way (`dispatch_ahead_max`), transitions proved meanwhile wait and go together; with a block
every two seconds that is `gathered`.

per_s        transfers a second, by the clock: a lower bound on a machine that does other work too
processor_s  seconds of one core that a transfer takes at the node and its prover, whatever else runs
rounds       base-ledger transactions of the transfers
gas          of a transfer, all rounds together
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rota.bench.processes import processor_s
from rota.client.transactions import Transaction
from rota.domains.zeto.domain import ANON, ANON_NULLIFIER
from rota.localnet.chain_book import ChainBook
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.model.types import ContractAddress, NodeName
from rota.prover.curve import require_curve

NODE: Final = NodeName("node1")
ISSUER, OWNER, RECEIVER = "issuer", "alice", "bob"
TRANSFERS_DEFAULT: Final = 60
BLOCK_S: Final = 2
# A first proof reads a key in 22 seconds, and a slow machine makes one proof in ten.
TIMEOUT_MS: Final = 1_200_000


@dataclass(frozen=True, slots=True)
class TransferFigures:
    """The figures of one kind of token."""

    token: str
    gathered: bool
    transfers: int
    seconds: float
    per_s: float
    processor_s: float
    rounds: int
    gas: float


def measure_transfers(
    transfers: int = TRANSFERS_DEFAULT, progress: Callable[[str], None] = lambda _: None
) -> tuple[TransferFigures, ...]:
    """Measure each kind. `CurveMissing` without the extra."""
    require_curve()
    found: list[TransferFigures] = []
    for gathered in (False, True):
        with TemporaryDirectory(prefix="rota-zeto-") as folder:
            found += asyncio.run(_measured(Path(folder) / "network", transfers, gathered, progress))
    return tuple(sorted(found, key=lambda each: each.token))


async def _measured(
    home: Path, transfers: int, gathered: bool, progress: Callable[[str], None]
) -> list[TransferFigures]:
    figures = []
    settings = {"sequencer.dispatch_ahead_max": 1} if gathered else {}
    async with LocalNetwork(Plan(home=home, names=(NODE,), settings=settings)) as network:
        await network.start(NODE)
        for token in (ANON, ANON_NULLIFIER):
            progress(f"{transfers} transfers of {token} by one owner{', gathered' if gathered else ''}")
            figures.append(await _of_kind(network, token, transfers, gathered))
    return figures


async def _of_kind(network: LocalNetwork, token: str, transfers: int, gathered: bool) -> TransferFigures:
    node = network.nodes[NODE]
    deployed = await (await node.client.deploy("zeto", {"tokenName": token}, sender=ISSUER)).confirmed(TIMEOUT_MS)
    assert deployed.contract_address is not None, "what was deployed has an address"
    contract = ContractAddress(deployed.contract_address)
    minted = {"mints": [_payment(OWNER, transfers + 1)]}
    await (await node.client.send(contract, "mint", minted, sender=ISSUER)).confirmed(TIMEOUT_MS)
    await _paid(node, contract, 1)
    book = ChainBook(network.ledger, network.chain_id, (contract,))
    await book.read_on()
    earlier = set(book.transactions)
    if gathered:
        await network.ledger.call("evm_setAutomine", False)
        await network.ledger.call("evm_setIntervalMining", BLOCK_S)
    began_s, used_s = time.monotonic(), processor_s(node.child.pid)
    await _paid(node, contract, transfers)
    seconds, used_s = time.monotonic() - began_s, processor_s(node.child.pid) - used_s
    if gathered:
        await network.ledger.call("evm_setIntervalMining", 0)
        await network.ledger.call("evm_setAutomine", True)
    await book.read_on()
    await book.read_gas()
    rounds = set(book.transactions) - earlier
    gas = sum(book.gas[found] for found, _ in rounds)
    rates = (seconds, transfers / seconds, used_s / transfers)
    return TransferFigures(token, gathered, transfers, *rates, len(rounds), gas / transfers)


async def _paid(node: LocalNode, contract: ContractAddress, count: int) -> None:
    """Submit transfers at once; returns when all are confirmed."""
    calls = [("transfer", {"transfers": [_payment(RECEIVER, 1)]})] * count
    sent: tuple[Transaction, ...] = await node.client.send_all(contract, calls, sender=OWNER)
    for each in sent:
        await each.confirmed(TIMEOUT_MS)


def _payment(party: str, amount: int) -> dict[str, object]:
    return {"to": f"{party}@{NODE}", "amount": amount, "data": "0x"}
