"""Reads as much of a Markdown page as the site and the tests of the documents need: fences, headings, links.

Not a parser of Markdown: the pages are our own, and a fence, a heading or a link that is written in another way than
here is not found. Sphinx, which reads all of it, judges the same pages when the site is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FENCE: Final = re.compile(r"(?P<indent> *)```(?P<language>\S*)\s*")
HEADING: Final = re.compile(r"#{1,6} (?P<text>.+?)\s*#*")
LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
COMMENT: Final = re.compile(r"<!-- (?P<text>.*?) -->")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it begins, its language, its text, and the comment that stands above it."""

    page: Path
    line: int
    language: str
    text: str
    comment: str


@dataclass(frozen=True, slots=True)
class Link:
    """Where it stands, and where it leads."""

    page: Path
    line: int
    target: str


def blocks_of(page: Path) -> Iterator[Block]:
    """All fenced blocks, in their order."""
    opening: re.Match[str] | None = None
    line_of_opening, inside, comment = 0, [""], ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.fullmatch(line)
        if opening is None and fence is not None:
            opening, line_of_opening, inside = fence, number, []
        elif opening is not None and line.strip() == "```":
            yield Block(page, line_of_opening, opening["language"], "".join(f"{each}\n" for each in inside), comment)
            opening = None
        elif opening is not None:
            inside.append(line.removeprefix(opening["indent"]))
        else:
            remark = COMMENT.fullmatch(line.strip())
            comment = remark["text"] if remark else ""
    assert opening is None, f"{page}:{line_of_opening}: this fence is never closed"


def links_of(page: Path) -> list[Link]:
    """All links outside of code."""
    found: list[Link] = []
    line_at = 1
    for is_prose, text in _parts(page.read_text(encoding="utf-8")):
        if is_prose:
            blank = CODE.sub(lambda code: re.sub(r"[^\n\[\]`]", "x", code[0]), text)
            found += [Link(page, line_at + blank.count("\n", 0, m.start()), m["target"]) for m in LINK.finditer(blank)]
        line_at += text.count("\n")
    return found


def with_links(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    """The page with every link outside of fences replaced."""
    return "".join(LINK.sub(replace, part) if is_prose else part for is_prose, part in _parts(text))


def anchors_of(page: Path) -> set[str]:
    """The names of its headings, as forges and MyST make them; the second of a name has -1."""
    names: dict[str, int] = {}
    anchors = set()
    for is_prose, text in _parts(page.read_text(encoding="utf-8")):
        for line in text.splitlines() if is_prose else ():
            heading = HEADING.fullmatch(line)
            if heading is not None:
                name = slug(heading["text"])
                anchors.add(f"{name}-{names[name]}" if name in names else name)
                names[name] = names.get(name, 0) + 1
    return anchors


def slug(heading: str) -> str:
    """The name of a heading: what is shown of it, in small letters, without punctuation, joined by hyphens."""
    shown = LINK.sub(lambda link: link["text"], heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """The page in its parts: prose, then a fenced block, and so on; each with whether it is prose."""
    part: list[str] = []
    is_prose = True
    for line in text.splitlines(keepends=True):
        if is_prose and FENCE.fullmatch(line.rstrip("\n")):
            yield True, "".join(part)
            part, is_prose = [line], False
        elif not is_prose and line.strip() == "```":
            yield False, "".join([*part, line])
            part, is_prose = [], True
        else:
            part.append(line)
    yield is_prose, "".join(part)
