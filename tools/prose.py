"""The prose ratchet: phrases that plain technical English does without, counted per file; the counts may only fall.

It reads docstrings, comments and texts in `src`, `tools` and `examples`; docstrings, comments and names of tests; and
documents written by hand (generated ones repeat the sources). It ignores the names of variables.

Usage: python -m tools.prose [check | record [--accept-rises] | show FILE...]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.ratchet import Item, Ratchet

ROOT: Final = Path(__file__).parent.parent
MEASURE: Final = "prose"
# Documents that `rota docs` generates from the sources, generated code, and the word list with its tests.
LEFT_OUT: Final = (
    "docs/machines/",
    "docs/configuration.md",
    "docs/methods.md",
    "docs/methods/",
    "docs/metrics.md",
    "docs/events.md",
    "docs/cli.md",
    "_pb2.py",
    "tools/prose.py",
    "tests/tools/test_prose.py",
)


class Phrase(NamedTuple):
    """A phrase to avoid, and what to write."""

    pattern: str
    instead: str


_VERBS: Final = (
    "is|was|are|were|has|had|have|can|cannot|could|may|might|must|will|would|does|did|do|needs|comes|came|goes|went|"
    "stands|stood|waits|waited|makes|made|follows|followed|happens|happened|remains|belongs|leaves|left|says|said|"
    "asks|asked|hears|heard|wants|wanted|knows|knew|gets|got|holds|held|keeps|kept|sends|sent|reads|writes|wrote|"
    "uses|used|counts|lies|lied|fails|failed|ends|ended"
)
PHRASES: Final = (
    Phrase(rf"what(?:ever)? (?:{_VERBS})", "a noun: name the thing that is kept, written, sent"),
    Phrase(r"whoever|whomever", "the actor: node, peer, coordinator, user, operator"),
    Phrase(r"(?<=[.:;] )who (?:\w+s|is|was|has|had)|^who (?:\w+s|is|was|has|had)|who asks|who hears", "name the actor"),
    Phrase(
        r"(?:is|are|was|were|be|been|being|gets|get) told|told (?:of|about|so|as|by|once)", "receive, notify, report"
    ),
    Phrase(r"tells? (?:it|them|us|him|whether|how|when|which|of|about)", "return, report, show"),
    Phrase(r"hears?|heard", "receive, learn"),
    Phrase(r"says?|said", "report, state, specify, return"),
    Phrase(r"mend(?:s|ed|ing)?", "fix, repair"),
    Phrase(r"of before|(?:the|a) (?:life|run|one) before", "previous"),
    Phrase(r"(?:some|no|every|any)body(?:'s)?", "the role: a peer, no node, every member, any caller"),
    Phrase(r"life|lives of (?:a|the) (?:node|process)", "run"),
    Phrase(r"anew|once more|for ever", "again; for good: permanently"),
    Phrase(r"of its own accord|by (?:its|our|their) own (?:word|fault)", "say who does it, and why"),
)
_ANY: Final = re.compile(r"\b(?:" + "|".join(f"(?:{phrase.pattern})" for phrase in PHRASES) + r")\b", re.IGNORECASE)
# Strings and comments of Python, in the order in which they come: a quote in a comment opens no string.
_LEXEMES: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*',
    re.DOTALL,
)
_FENCE: Final = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_TEST_NAME: Final = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


class Found(NamedTuple):
    """One phrase in a file."""

    line: int
    text: str


def phrases_in(path: str, text: str) -> Iterator[Found]:
    """Every phrase of the list in a file."""
    for start, part in _prose_of(path, text):
        for found in _ANY.finditer(part):
            yield Found(text.count("\n", 0, start) + part.count("\n", 0, found.start()) + 1, found[0])


def _prose_of(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The parts of a file that are prose, with their places. Line breaks stay, as white space."""
    if path.endswith(".md"):
        yield 0, _on_one_line(_FENCE.sub(lambda code: "\n" * code[0].count("\n"), text))
        return
    is_test = path.startswith("tests/")
    for found in _LEXEMES.finditer(text):
        lexeme = found[0]
        if not is_test or lexeme.startswith(('"""', "'''", "#")):
            yield found.start(), _on_one_line(lexeme.lstrip("\"'# "))
    if is_test:
        for found in _TEST_NAME.finditer(text):
            yield found.start(1), found[1].replace("_", " ")


def _on_one_line(text: str) -> str:
    """A phrase may be divided by the end of a line: white space around it becomes that one character."""
    return re.sub(r"[ \t]*\n[ \t]*(?=\S)", "\n", text).replace("\n\n", "\n.\n")


def count(path: str, text: str) -> int:
    """How many phrases of the list a file has."""
    return sum(sum(1 for _ in _ANY.finditer(part)) for _, part in _prose_of(path, text))


def measure(root: Path = ROOT) -> dict[Item, int]:
    """The counts of all files; those that have none are left out."""
    counts = {path: count(path, (root / path).read_text(encoding="utf-8")) for path in _files(root)}
    return {Item(path, MEASURE): number for path, number in counts.items() if number}


def _files(root: Path) -> Iterator[str]:
    paths = [path for folder in ("src", "tools", "tests", "examples") for path in (root / folder).rglob("*.py")]
    paths += [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    for path in sorted(paths):
        relative = path.relative_to(root).as_posix()
        if not any(part in relative for part in LEFT_OUT):
            yield relative


def advice(item: Item) -> str:
    """What to do about a count that has risen."""
    return f"Use plain technical English: python -m tools.prose show {item.where} lists the phrases."


def show(paths: list[str]) -> None:
    """Prints every phrase in these files, with what to write instead."""
    for path in paths:
        relative = Path(path).resolve().relative_to(ROOT).as_posix()
        for line, text in phrases_in(relative, (ROOT / relative).read_text(encoding="utf-8")):
            instead = next(each.instead for each in PHRASES if re.fullmatch(each.pattern, text, re.IGNORECASE))
            print(f"{relative}:{line}: {' '.join(text.split())}: {instead}")


RATCHET: Final = Ratchet(ROOT / "tests/prose.txt", "python -m tools.prose", advice)

if __name__ == "__main__":
    if sys.argv[1:2] == ["show"]:
        show(sys.argv[2:])
    else:
        sys.exit(RATCHET.main(measure(), sys.argv[1:]))
