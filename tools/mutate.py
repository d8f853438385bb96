"""Mutation testing of the pure packages: who notices a small mistake, the tests or the simulator?

    python -m tools.mutate --sample 300 --seed 1 --minutes 60 --results mutants.jsonl

Each mutant is one small semantic change (`mutate_operators.py`) in a copy of the tree. The tests that cover its line
run first, then seeds of the simulator until the first alarm; both run for every mutant, so that both can be scored.
Results are appended to a file, one JSON object a line: a run that is interrupted goes on where it stopped. At the end,
or when the time is over, it prints a table. The sample is stratified: the operators take turns.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from random import Random
from typing import TypedDict

from tools.mutate_operators import OPERATORS, Site, mutated, sites_of

PURE = ("core",)
COPIED = ("src", "tests", "tools", "contracts", "docs")
TESTS_OF_CORE = "tests/core"
TEST_TIMEOUT_S = 300
SEED_TIMEOUT_S = 60
TESTS_MAX = 400


class Played(TypedDict):
    """What seeds showed of a mutant: the first alarm, and the digests of the first traces."""

    seed: int | None
    played: int
    invariant: str | None
    digests: list[str]


def main() -> int:
    """0 when the sample is complete, 3 when the time was over before."""
    options = _options()
    root = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Path(folder)
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(root / "pyproject.toml", copy)
        is_complete = _try_all(options, copy)
    _print_table(_read(options.results))
    return 0 if is_complete else 3


def _options() -> Namespace:
    parser = ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--sample", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    parser.add_argument("--minutes", type=float, default=60, help="stop after so long; call again to go on")
    parser.add_argument("--seeds", type=int, default=200, help="seeds of the simulator for each mutant at most")
    parser.add_argument("--seed-minutes", type=float, default=0.5, help="minutes of faults of each seed")
    parser.add_argument("--seed-timeout", type=float, default=SEED_TIMEOUT_S, help="seconds for all seeds of a mutant")
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"), help="where results are kept")
    return parser.parse_args()


def _try_all(options: Namespace, copy: Path) -> bool:
    end_s = time.monotonic() + 60 * options.minutes
    known = {result["mutant"] for result in _read(options.results)}
    sample = _draw(copy, options.sample, options.seed)
    covering = _tests_by_line(copy, options.results.with_suffix(".coverage.json"))
    usual = _play(copy, 2, options.seed_minutes, TEST_TIMEOUT_S)["digests"]
    for site in sample:
        if site.name in known:
            continue
        if time.monotonic() > end_s:
            return False
        result = _try(options, copy, site, covering, usual)
        with options.results.open("a") as results:
            results.write(json.dumps(result) + "\n")
        print(f"{result['tests'] or '-':>8} {result['simulator'] or '-':>10}  {site.name}  {site.text}", flush=True)
    return True


def _draw(copy: Path, count: int, seed: int) -> list[Site]:
    """The operators take turns, so that rare ones are tried as often as common ones."""
    by_operator: dict[str, list[Site]] = {operator: [] for operator in OPERATORS}
    for package in PURE:
        for path in sorted((copy / "src/rota" / package).rglob("*.py")):
            for site in sites_of(str(path.relative_to(copy)), path.read_text()):
                by_operator[site.operator].append(site)
    random = Random(seed)
    for sites in by_operator.values():
        random.shuffle(sites)
    turns = [sites[turn] for turn in range(count) for sites in by_operator.values() if turn < len(sites)]
    return turns[:count]


def _try(
    options: Namespace, copy: Path, site: Site, covering: dict[str, dict[str, list[str]]], usual: list[str]
) -> dict[str, object]:
    path = copy / site.module
    source = path.read_text()
    tests = covering.get(site.module, {}).get(str(site.line), [])
    try:
        path.write_text(mutated(source, site))
        killed_by = _first_failure(copy, tests[:TESTS_MAX])
        played = _play(copy, options.seeds, options.seed_minutes, options.seed_timeout)
    finally:
        path.write_text(source)
    digests = played["digests"]
    return {
        "mutant": site.name,
        "operator": site.operator,
        "text": site.text,
        "covering": len(tests),
        "tests": "killed" if killed_by else "",
        "killed_by": killed_by,
        "simulator": played["invariant"] or "",
        "played": played["played"],
        "differs": bool(played["invariant"]) or digests != usual[: len(digests)],
    }


def _environment(copy: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "PYTHONDONTWRITEBYTECODE": "1"}


def _first_failure(copy: Path, tests: list[str]) -> str:
    """The first test that fails, or `timeout`; nothing when all pass or none covers the line."""
    if not tests:
        return ""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--tb=no",
        *tests,
    ]
    try:
        ran = subprocess.run(
            command, cwd=copy, env=_environment(copy), capture_output=True, text=True, timeout=TEST_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    failed = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else "" if ran.returncode == 0 else "collection"


def _play(copy: Path, seeds: int, minutes: float, timeout_s: float) -> Played:
    """Seeds until the first alarm, or the time is over. A core that cannot be imported is an alarm too."""
    command = [sys.executable, "-m", "tools.mutate_seeds", str(seeds), str(minutes)]
    try:
        ran = subprocess.run(command, cwd=copy, env=_environment(copy), capture_output=True, timeout=timeout_s)
        if ran.returncode:
            return {"seed": None, "played": 0, "invariant": "crash", "digests": []}
        output = ran.stdout
    except subprocess.TimeoutExpired as error:
        # What was played until then counts.
        output = error.stdout or b""
    lines = output.decode().splitlines()
    nothing: Played = {"seed": None, "played": 0, "invariant": None, "digests": []}
    found: Played = json.loads(lines[-1]) if lines else nothing
    return found


def _tests_by_line(copy: Path, kept: Path) -> dict[str, dict[str, list[str]]]:
    """Which tests run each line of the pure packages; measured once, and kept beside the results."""
    if kept.exists():
        loaded: dict[str, dict[str, list[str]]] = json.loads(kept.read_text())
        return loaded
    data = copy / ".coverage-of-core"
    settings = copy / ".coveragerc-of-core"
    settings.write_text(f"[run]\ndata_file = {data}\nsource = {copy / 'src/rota/core'}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", TESTS_OF_CORE]
    flags = [f"--cov={copy / 'src/rota/core'}", "--cov-context=test", "--cov-report=", f"--cov-config={settings}"]
    subprocess.run([*command, *flags], cwd=copy, env=_environment(copy), check=False, stdout=subprocess.DEVNULL)
    found = _read_contexts(copy, data)
    kept.write_text(json.dumps(found))
    return found


def _read_contexts(copy: Path, data: Path) -> dict[str, dict[str, list[str]]]:
    from coverage import CoverageData

    measured = CoverageData(str(data))
    measured.read()
    found: dict[str, dict[str, list[str]]] = {}
    for file in measured.measured_files():
        lines = measured.contexts_by_lineno(file)
        found[str(Path(file).relative_to(copy))] = {
            str(line): sorted({context.partition("|")[0] for context in contexts if context})
            for line, contexts in lines.items()
        }
    return found


def _read(results: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def _print_table(results: list[dict[str, str]]) -> None:
    print(f"\n{'operator':<16} mutants  tests  traces differ  simulator")
    for operator in (*OPERATORS, "all"):
        those = [each for each in results if operator in (each["operator"], "all")]
        killed, differ = sum(bool(each["tests"]) for each in those), sum(bool(each["differs"]) for each in those)
        caught = sum(bool(each["simulator"]) for each in those)
        print(f"{operator:<16} {len(those):>7} {killed:>6} {differ:>14} {caught:>10}")
    print("\ncaught by", dict(Counter(each["simulator"] for each in results if each["simulator"]).most_common()))
    for each in results:
        if not each["tests"] and not each["simulator"]:
            print(f"survived: {each['mutant']}  {each['text']}")


if __name__ == "__main__":
    sys.exit(main())
