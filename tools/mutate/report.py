"""Results of mutants on disk, and the table that sums them up."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tools.mutate.operators import OPERATORS, Site

TRANSCRIPTS = "test_transcripts.py"


@dataclass(frozen=True)
class Result:
    """All results of a mutant: the test stage's fields, the simulator stage's, or both."""

    mutant: str
    operator: str
    line: int
    text: str
    is_tested: bool = False
    killed_by: str = ""
    how: str = ""
    simulator: str = ""
    seed: int | None = None
    played: int = 0
    differs: bool = False


class Results:
    """A file to which results are appended, one JSON object a line; later lines add to earlier ones of the mutant."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[tuple[str, str], dict[str, object]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                fields = json.loads(line)
                self._known.setdefault((fields["mutant"], fields["function_digest"]), {}).update(fields)

    def of(self, site: Site, function_digest: str) -> Result | None:
        """The results of a mutant for the present code of its function."""
        fields = self._known.get((site.name, function_digest))
        if fields is None:
            return None
        return Result(
            site.name,
            site.operator,
            site.line,
            site.text,
            is_tested="killed_by" in fields,
            killed_by=str(fields.get("killed_by", "")),
            how=str(fields.get("how", "")),
            simulator=str(fields.get("simulator", "")),
            seed=None if fields.get("seed") is None else int(str(fields["seed"])),
            played=int(str(fields.get("played", 0))),
            differs=bool(fields.get("differs", False)),
        )

    def add(self, site: Site, function_digest: str, fields: dict[str, object]) -> None:
        """Append what a stage found."""
        whole = {"mutant": site.name, "function_digest": function_digest, "text": site.text, **fields}
        self._known.setdefault((site.name, function_digest), {}).update(whole)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(whole) + "\n")


class Score(TypedDict):
    """Counts for one operator, or for all."""

    mutants: int
    tested: int
    killed: int
    equivalent: int
    played: int
    differ: int
    caught: int


class Survivor(TypedDict):
    """A mutant that no test notices."""

    mutant: str
    line: int
    text: str
    simulator: str


class Summary(TypedDict):
    """What `--json` prints."""

    by_operator: dict[str, Score]
    killed_by: dict[str, int]
    caught_by: dict[str, int]
    seeds_played_at_most: int
    survivors: list[Survivor]
    equivalent: dict[str, str]
    killed_although_equivalent: list[str]


def read_equivalents(path: Path) -> dict[str, str]:
    """Mutants that change nothing that can be observed, each with its reason."""
    if not path.exists():
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            mutant, _, reason = line.partition(" | ")
            if not reason.strip():
                raise SystemExit(f"{path}:{number}: `{line}` gives no reason; write MUTANT | REASON")
            found[mutant.strip()] = reason.strip()
    return found


def summary_of(results: list[Result], equivalents: dict[str, str]) -> Summary:
    """Sum up a sample."""
    survivors = [each for each in results if each.is_tested and not each.killed_by]
    return {
        "by_operator": {
            operator: _score([each for each in results if operator in (each.operator, "all")], equivalents)
            for operator in (*OPERATORS, "all")
        },
        "killed_by": dict(Counter(_kind_of(each) for each in results if each.killed_by).most_common()),
        "caught_by": dict(Counter(each.simulator for each in results if each.simulator).most_common()),
        "seeds_played_at_most": max((each.played for each in results), default=0),
        "survivors": [
            {"mutant": each.mutant, "line": each.line, "text": each.text, "simulator": each.simulator}
            for each in survivors
            if each.mutant not in equivalents
        ],
        "equivalent": {each.mutant: equivalents[each.mutant] for each in survivors if each.mutant in equivalents},
        "killed_although_equivalent": [
            each.mutant for each in results if each.killed_by and each.mutant in equivalents
        ],
    }


def _kind_of(result: Result) -> str:
    """Who killed it: a transcript, a test, or the end of its time."""
    if result.how == "out of time":
        return "time"
    return "transcript" if TRANSCRIPTS in result.killed_by else "test"


def _score(results: list[Result], equivalents: dict[str, str]) -> Score:
    return {
        "mutants": len(results),
        "tested": sum(each.is_tested for each in results),
        "killed": sum(bool(each.killed_by) for each in results),
        "equivalent": sum(not each.killed_by and each.mutant in equivalents for each in results),
        "played": sum(each.played > 0 for each in results),
        "differ": sum(each.differs for each in results),
        "caught": sum(bool(each.simulator) for each in results),
    }


def print_table(summary: Summary) -> None:
    """The summary for people."""
    for each in summary["survivors"]:
        print(f"survived the tests: {each['mutant']}  ({each['line']}: {each['text']})")
    for mutant in summary["killed_although_equivalent"]:
        print(f"listed as equivalent, but a test kills it: {mutant}")
    print(
        f"\n{'operator':<16} {'tested':>7} {'killed':>7} {'equivalent':>11} {'played':>7} {'differ':>7} {'caught':>7}"
    )
    for operator, score in summary["by_operator"].items():
        print(
            f"{operator:<16} {score['tested']:>7} {score['killed']:>7} {score['equivalent']:>11}"
            f" {score['played']:>7} {score['differ']:>7} {score['caught']:>7}"
        )
    print(f"\nkilled by {summary['killed_by']}")
    print(f"caught by {summary['caught_by']}, with at most {summary['seeds_played_at_most']} seeds for a mutant")
