"""Mutation testing of the pure packages: do the tests or the simulator notice a small mistake?

    python -m tools.mutate --sample 300 --seed 1 --jobs 2
    python -m tools.mutate --sample 300 --seed 1 --stage seeds --seeds 20
    python -m tools.mutate --only sequencer/pace.py machine/pacing.py:Pacing

Each mutant is one small semantic change (`operators.py`). The test stage runs the tests that cover its line, those of
its module and the most specific ones first, until one fails. The simulator stage plays seeds until the first alarm.
Both work in copies of one process that has imported everything (`pool.py`, `swap.py`), so that a mutant costs little
more than the tests that it needs. Results are kept in a file, one JSON object a line: a run that is interrupted goes on
where it stopped, as long as the function that is mutated stays the same. Operators take turns in the sample.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable
from pathlib import Path

from tools.mutate.by_tests import Killed, TestStage, kill_all
from tools.mutate.operators import OPERATORS, Site, sites_of
from tools.mutate.report import Result, Results, print_table, read_equivalents, summary_of
from tools.mutate.tracing import TestMap, read_map

PACKAGES = tuple(f"src/rota/{each}" for each in ("machine", "sequencer", "chain", "exchange", "directory", "node"))
TESTS = (
    *(f"tests/{each}" for each in ("machine", "sequencer", "chain", "exchange", "directory", "node", "wire")),
    "tests/test_transcripts.py",
)
EQUIVALENTS = Path("tests/equivalent_mutants.txt")
CACHE = Path(".mutate_cache")


def main(arguments: list[str] | None = None) -> int:
    """0 when the sample is complete, 3 when the time was over before."""
    options = _options(arguments)
    root = Path.cwd()
    end_s = time.monotonic() + 60 * options.minutes
    sample = _chosen(draw(root, options.package, options.sample, options.seed), options)
    results = Results(options.cache / "results.jsonl")
    covering = read_map(root, tuple(options.package), tuple(options.tests), options.jobs, options.cache)
    is_complete = True
    if options.stage in ("tests", "both"):
        is_complete = _kill(options, root, covering, sample, results, end_s)
    if options.stage in ("seeds", "both") and is_complete:
        is_complete = _catch(options, root, covering, sample, results, end_s)
    equivalents = read_equivalents(root / options.equivalents)
    found = [results.of(site, _digest_of(root, site)) for site in sample]
    summary = summary_of([each for each in found if each is not None], equivalents)
    if options.json:
        print(json.dumps(summary))
    else:
        print_table(summary)
    return 0 if is_complete else 3


def _options(arguments: list[str] | None) -> Namespace:
    parser = ArgumentParser(
        prog="python -m tools.mutate", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=300, help="how many mutants [300]")
    parser.add_argument("--seed", type=int, default=1, help="which sample [1]")
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help="all mutants whose name has this text")
    parser.add_argument(
        "--stage", choices=("tests", "seeds", "both"), default="tests", help="tests, simulator, or both [tests]"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time [1]")
    parser.add_argument("--minutes", type=float, default=600, help="stop after so long; call again to go on [600]")
    parser.add_argument("--again", choices=("all", "survivors"), help="try mutants again that have a result")
    parser.add_argument("--test-seconds", type=float, default=120, help="processor time of tests for a mutant [120]")
    parser.add_argument("--seeds", type=int, default=200, help="seeds for a mutant at most [200]")
    parser.add_argument("--seed-minutes", type=float, default=0.5, help="minutes of faults in a seed [0.5]")
    parser.add_argument("--compared", type=int, default=6, help="seeds whose traces are compared first [6]")
    parser.add_argument("--package", nargs="+", default=PACKAGES, help=f"the packages to mutate [{' '.join(PACKAGES)}]")
    parser.add_argument("--tests", nargs="+", default=TESTS, help=f"tests that may notice [{' '.join(TESTS)}]")
    parser.add_argument(
        "--equivalents", type=Path, default=EQUIVALENTS, help=f"list of equivalent mutants [{EQUIVALENTS}]"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where results and traces are kept [{CACHE}]")
    parser.add_argument("--json", action="store_true", help="print JSON; progress goes to standard error")
    return parser.parse_args(arguments)


def draw(root: Path, packages: Iterable[str], count: int, seed: int) -> list[Site]:
    """A stratified sample: operators take turns. A change of a module leaves the rest of the sample as it is."""
    by_operator: dict[str, list[Site]] = {operator: [] for operator in OPERATORS}
    for path in sorted(path for package in packages for path in (root / package).rglob("*.py")):
        for site in sites_of(str(path.relative_to(root)), path.read_text()):
            by_operator[site.operator].append(site)
    for sites in by_operator.values():
        sites.sort(key=lambda site: hashlib.sha256(f"{seed} {site.name}".encode()).digest())
    longest = max(len(sites) for sites in by_operator.values())
    turns = [sites[turn] for turn in range(longest) for sites in by_operator.values() if turn < len(sites)]
    return turns[:count]


def _chosen(sample: list[Site], options: Namespace) -> list[Site]:
    if not options.only:
        return sample
    every = draw(Path.cwd(), options.package, sys.maxsize, options.seed)
    return [site for site in every if any(text in site.name for text in options.only)]


def _digest_of(root: Path, site: Site) -> str:
    """Of the lines of the mutated function: results hold as long as these stay the same."""
    lines = (root / site.module).read_text().splitlines()[site.first_line - 1 : site.last_line]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _kill(
    options: Namespace, root: Path, covering: TestMap, sample: list[Site], results: Results, end_s: float
) -> bool:
    """The test stage; false if the time was over."""

    def is_due(site: Site) -> bool:
        result = results.of(site, _digest_of(root, site))
        is_known = result is not None and result.is_tested
        return not is_known or options.again == "all" or (options.again == "survivors" and not _has_died(result))

    due = [site for site in sample if is_due(site)]
    progress = _Progress(len(due), end_s, options.json)

    def take(killed: Killed) -> bool:
        fields = killed.as_result()
        results.add(killed.site, _digest_of(root, killed.site), fields)
        return progress.show(killed.site, f"{killed.how or 'SURVIVED':<12} {killed.by}")

    stage = TestStage(root, tuple(options.package), tuple(options.tests), covering, options.jobs, options.test_seconds)
    kill_all(stage, due, take)
    return progress.is_complete


def _has_died(result: Result | None) -> bool:
    return result is not None and bool(result.killed_by)


def _catch(
    options: Namespace, root: Path, covering: TestMap, sample: list[Site], results: Results, end_s: float
) -> bool:
    """The simulator stage; false if the time was over."""
    # Imported here: the test stage does without.
    from tools.mutate.by_seeds import Caught, SeedSettings, SeedStage, catch_all, usual_digests

    tasks: list[tuple[Site, int]] = []
    for site in sample:
        result = results.of(site, _digest_of(root, site))
        played = result.played if result is not None and options.again is None else 0
        is_over = result is not None and played > 0 and (bool(result.simulator) or not result.differs)
        if not is_over and played < options.seeds:
            tasks.append((site, played))
    progress = _Progress(len(tasks), end_s, options.json)
    if tasks:
        compared = min(options.compared, options.seeds)
        usual = usual_digests(root, compared, options.seed_minutes, options.jobs, options.cache)

        def take(caught: Caught) -> bool:
            fields = caught.as_result()
            results.add(caught.site, _digest_of(root, caught.site), fields)
            how = caught.invariant or ("not caught" if caught.differs else "same traces")
            return progress.show(caught.site, f"{how:<12} {caught.played} seeds")

        settings = SeedSettings(options.seeds, options.seed_minutes, usual)
        catch_all(SeedStage(root, tuple(options.package), covering, options.jobs, settings), tasks, take)
    return progress.is_complete


class _Progress:
    """A line for each mutant, and whether to go on."""

    def __init__(self, count: int, end_s: float, is_aside: bool) -> None:
        self.count, self.end_s, self.done = count, end_s, 0
        self.show_on = sys.stderr if is_aside else sys.stdout
        self.began_s = time.monotonic()

    @property
    def is_complete(self) -> bool:
        """Whether every mutant that was due has a result."""
        return self.done == self.count

    def show(self, site: Site, outcome: str) -> bool:
        """Print a line; false when the time is over."""
        self.done += 1
        each_s = (time.monotonic() - self.began_s) / self.done
        place = f"{site.name}  ({site.line}: {site.text})"
        print(f"{self.done}/{self.count} {each_s:.1f} s each  {outcome}  {place}", file=self.show_on, flush=True)
        return time.monotonic() < self.end_s


if __name__ == "__main__":
    sys.exit(main())
