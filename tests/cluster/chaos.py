"""`make chaos`: all kinds of clusters, through all faults in random order, several times; and a table of what happened.

One cluster after the other, each with its own processes and folder. A fault that fails ends its cluster, and the next
one has its turn; the folder of one that failed is kept, with the logs of its nodes. The order of faults is drawn from
the seed and the kind: `--seed` plays another. `--only hostile` is another play (`hostile.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from rota.localnet.chains import ChainKind
from rota.model.types import Rotation
from tests.cluster import hostile
from tests.cluster.kit import Cluster, Kind, cluster, require

EVERY: Final = tuple(Kind(*each) for each in product((3, 5), ChainKind, ("sqlite", "postgres")))
FAULTS: Final = (
    "kill",
    "hang",
    "cut",
    "cut outward",
    "cut inward",
    "restart the ledger",
    "restart the database",
    "fill the disk",
    "kill again",
    "lose a database",
)
JUDGEMENT: Final = "the judgement"
ROUNDS: Final = 3
HOSTILE: Final = "hostile"
COLUMNS: Final = ("combination", "fault", "intents", "seconds", "result")


@dataclass(frozen=True, slots=True)
class Row:
    """One fault of one cluster, or its judgement: how many intents were promised, how long it took, what came of it."""

    combination: str
    fault: str
    intents: int
    seconds: float
    result: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As they stand in the table."""
        return self.combination, self.fault, str(self.intents), f"{self.seconds:.1f}", self.result


class Log:
    """What was played so far, told as it happens."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Keep it, and say it."""
        self.rows.append(row)
        print("  ".join(row.cells), flush=True)

    @property
    def has_failures(self) -> bool:
        """Something did not end as it must."""
        return any(row.result.startswith("FAILED") for row in self.rows)

    def table(self) -> str:
        """All of it, in columns."""
        lines = [COLUMNS, *(row.cells for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        )


async def suffer(running: Cluster, fault: str, log: Log) -> None:
    """One fault, or the judgement; what fails is told with where everything stands, and raised."""
    since_s, play = time.monotonic(), running.judge if fault == JUDGEMENT else running.faults[fault]
    try:
        await play()
    except BaseException as error:
        promised, took_s = len(running.workload.promises), time.monotonic() - since_s
        log.add(Row(str(running.kind), fault, promised, took_s, f"FAILED: {type(error).__name__}"))
        if isinstance(error, TimeoutError):
            print(await running.described(), file=sys.stderr)
        raise
    log.add(Row(str(running.kind), fault, len(running.workload.promises), time.monotonic() - since_s, "held"))


async def play(home: Path, kind: Kind, order: Sequence[str], log: Log) -> None:
    """A cluster from its start to the judgement."""
    async with cluster(home, kind) as running:
        await running.until_confirmed(*kind.names)
        for fault in order:
            if fault in running.faults:
                await suffer(running, fault, log)
        await suffer(running, JUDGEMENT, log)


def run_one(kind: Kind, order: Sequence[str], log: Log) -> None:
    """In a folder of its own, which is kept when it fails."""
    home = Path(tempfile.mkdtemp(prefix=f"rota-chaos-{kind}-"))
    try:
        require(kind)
        asyncio.run(play(home, kind, order, log))
    except pytest.skip.Exception as skipped:
        log.add(Row(str(kind), "", 0, 0, f"skipped: {skipped}"))
    except (Exception, pytest.fail.Exception):
        traceback.print_exc()
        print(f"{kind}: its folder is {home}", file=sys.stderr)
        return
    shutil.rmtree(home, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything held."""
    parser = argparse.ArgumentParser(description="Clusters of processes under all faults.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each cluster goes through all faults")
    parser.add_argument("--only", default="", help="combinations with this in their name, such as 3-anvil or postgres")
    parser.add_argument("--faults", default="", help="these faults alone, with commas between them")
    parser.add_argument("--seed", type=int, default=0, help="for another order of the faults")
    parser.add_argument("--minutes", type=float, default=hostile.MINUTES, help="for how long a stranger attacks")
    parser.add_argument(
        "--rotation", choices=[each.value for each in Rotation], default="sticky", help="when the coordinator changes"
    )
    chosen = parser.parse_args(arguments)
    if chosen.only == HOSTILE:
        return hostile.main(["--minutes", str(chosen.minutes)])
    faults = [each.strip() for each in chosen.faults.split(",") if each.strip()] or list(FAULTS)
    unknown = [each for each in faults if each not in FAULTS]
    if unknown:
        parser.error(f"--faults: must be of {', '.join(FAULTS)}, not {unknown[0]}")
    kinds = [replace(kind, rotation=Rotation(chosen.rotation)) for kind in EVERY if chosen.only in str(kind)]
    if not kinds:
        parser.error(f"--only: must be in one of {', '.join(map(str, EVERY))}")
    log = Log()
    for number, kind in enumerate(kinds, 1):
        print(f"{kind}: {number} of {len(kinds)}, {chosen.rounds} rounds", flush=True)
        chance = random.Random(f"{kind}/{chosen.seed}")
        run_one(kind, [each for _ in range(chosen.rounds) for each in chance.sample(faults, len(faults))], log)
    print(f"\n{log.table()}")
    return 1 if log.has_failures else 0


if __name__ == "__main__":
    sys.exit(main())
