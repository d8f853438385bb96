"""Clusters of three and five processes under every fault, on both chains and both databases.

Four kinds of cluster have every pair of node count, chain and database, and each meets every fault that it can have: so
every pair of properties is covered. `make chaos` runs all eight kinds, with the faults in random order, several times.
"""

from __future__ import annotations

import asyncio
import random
import sys
from itertools import product
from pathlib import Path

import pytest

from rota.network.chains import ChainKind
from tests.cluster.kit import Cluster, Kind, cluster, require

PAIRWISE = (
    Kind(3, ChainKind.EMBEDDED, "sqlite"),
    Kind(3, ChainKind.ANVIL, "postgres"),
    Kind(5, ChainKind.EMBEDDED, "postgres"),
    Kind(5, ChainKind.ANVIL, "sqlite"),
)
EVERY = tuple(Kind(*each) for each in product((3, 5), ChainKind, ("sqlite", "postgres")))
ROUNDS = 3


def play(home: Path, kind: Kind, order: list[str] | None = None) -> None:
    """Every fault once, or those that are named, and then the judgement."""
    require(kind)

    async def story() -> None:
        async with cluster(home, kind) as running:
            await running.until_confirmed(*kind.names)
            for fault in order if order is not None else list(running.faults):
                if fault in running.faults:
                    await suffer(running, fault)
            await running.judge()

    asyncio.run(story())


async def suffer(running: Cluster, fault: str) -> None:
    print(f"{running.kind}: {fault}; {len(running.workload.promises)} promised", file=sys.stderr)
    try:
        await running.faults[fault]()
    except TimeoutError:
        print(await running.described(), file=sys.stderr)
        raise


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", PAIRWISE, ids=str)
def test_every_acknowledged_intent_ends_once_and_all_agree_with_the_chain(tmp_path: Path, kind: Kind) -> None:
    play(tmp_path, kind)


@pytest.mark.chaos
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", EVERY, ids=str)
def test_every_combination_survives_every_fault_in_any_order(tmp_path: Path, kind: Kind) -> None:
    chance = random.Random(str(kind))
    names = ["kill", "hang", "cut", "cut outward", "cut inward", "restart the ledger", "restart the database"]
    names += ["fill the disk", "kill again", "lose a database"]
    play(tmp_path, kind, [name for _ in range(ROUNDS) for name in chance.sample(names, len(names))])
