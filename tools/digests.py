"""Checks the recorded digests of simulated runs, or records them again.

A refactoring must leave every digest as it is; `src/rota/sim/fingerprint.py` describes what a digest covers. A change
of behaviour changes some of them: record them again in the same commit and describe the change in its message.

Usage: python -m tools.digests check [--quick] [--jobs N]     (make digests)
       python -m tools.digests record [--jobs N]              (make record-digests)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from rota.sim.fingerprint import Fingerprint
from rota.sim.plan import Settings
from rota.sim.swarm import Swarm

RECORDED: Final = Path(__file__).parent.parent / "tests/sim/digests.txt"
MINUTES: Final = 0.5
DIGEST_CHARACTERS: Final = 32
HEADER: Final = (
    f"# Digests of simulated runs of {MINUTES:g} minutes; `make record-digests` writes them. Liars, seed, digest.\n"
)


class Run(NamedTuple):
    """One run: how many liars, and the seed."""

    liars: int
    seed: int


RUNS: Final = (*(Run(0, seed) for seed in range(200)), *(Run(1, seed) for seed in range(30)))
# The quick gate plays these: short ones, one of them over the wire's codec (180) and one with a liar.
QUICK_RUNS: Final = (*(Run(0, seed) for seed in (52, 53, 73, 74, 79, 94, 121, 145, 180)), Run(1, 29))


def digest_of(run: Run) -> str:
    """Plays a run."""
    fingerprint = Fingerprint()
    Swarm(run.seed, Settings(minutes=MINUTES, liars=run.liars), fingerprint).play()
    return fingerprint.hexdigest()[:DIGEST_CHARACTERS]


def read_recorded(path: Path = RECORDED) -> dict[Run, str]:
    """The digests on file."""
    lines = [line.split() for line in path.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return {Run(int(liars), int(seed)): digest for liars, seed, digest in lines}


def play(runs: tuple[Run, ...], jobs: int) -> Iterator[tuple[Run, str]]:
    """Plays runs, several at a time; in their order."""
    if jobs == 1:
        yield from ((run, digest_of(run)) for run in runs)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(runs, pool.map(digest_of, runs), strict=True)


def check(runs: tuple[Run, ...], jobs: int, path: Path = RECORDED) -> list[Run]:
    """The runs whose digest is not the recorded one."""
    recorded = read_recorded(path)
    return [run for run, digest in play(runs, jobs) if recorded.get(run) != digest]


def record(runs: tuple[Run, ...], jobs: int, path: Path = RECORDED) -> int:
    """Writes the file; returns how many digests differ from those that were recorded before."""
    before = read_recorded(path) if path.exists() else {}
    played = dict(play(runs, jobs))
    path.write_text(HEADER + "".join(f"{run.liars} {run.seed} {digest}\n" for run, digest in played.items()))
    return sum(before.get(run) != digest for run, digest in played.items())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.digests", description="Digests of simulated runs.")
    parser.add_argument("action", choices=["check", "record"])
    parser.add_argument("--quick", action="store_true", help="check only the runs that `make check` plays")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args(arguments)
    if options.action == "record":
        changed = record(RUNS, options.jobs)
        print(f"{len(RUNS)} digests recorded, {changed} of them changed: {RECORDED.name}")
        return 0
    runs = QUICK_RUNS if options.quick else RUNS
    changed_runs = check(runs, options.jobs)
    for run in changed_runs:
        print(f"seed {run.seed} with {run.liars} liars: the digest is not the recorded one")
    if changed_runs:
        print(f"{len(changed_runs)} of {len(runs)} runs behave differently. If that is intended: make record-digests")
        return 1
    print(f"{len(runs)} runs behave as recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
