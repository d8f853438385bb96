"""Lays out what Sphinx reads: the pages of the repository, so that the links between them hold as they are written.

README.md is the first page, with the table of contents behind it; a page that the table does not have yet is put at
its end, and those of `BRANCHES` are found below their own first page. A link to a file that is no page gives the reader
that file; one to a folder is left as its text, as a site has nothing to show there. Diagrams are drawn (`diagrams`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from tools.site.diagrams import draw, read_diagram
from tools.site.markdown import with_links
from tools.site.sequences import HEAD, draw_sequence, read_sequence

FIRST: Final = "README.md"
INDEX: Final = "index.md"
PAGES: Final = (
    "*.md",
    "docs/*.md",
    "docs/decisions/*.md",
    "docs/machines/*.md",
    "docs/methods/*.md",
    "examples/*/README.md",
)
CONTENTS: Final = Path(__file__).with_name("contents.md")
# Folders with the page that lists their pages.
BRANCHES: Final = {
    "docs/decisions": "docs/decisions/README.md",
    "docs/machines": "docs/machines/README.md",
    "docs/methods": "docs/methods.md",
}
ENTRY: Final = re.compile(r"^[\w/-]+$", re.MULTILINE)
KEY: Final = (
    "*A line leaves each state to the right, below its middle. A dot on it says that the state leads to where the "
    "arrow of that lane points; hold the pointer over the dot for the events. The thick frame is the initial state, a "
    "dashed one an end.*"
)
MERMAID: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def pages_of(root: Path) -> list[Path]:
    """The pages of the site, in the repository."""
    return sorted(page for pattern in PAGES for page in root.glob(pattern))


def method_pages(root: Path) -> list[Path]:
    """The pages of single JSON-RPC methods."""
    return sorted(page for page in (root / "docs" / "methods").glob("*.md") if page.name != "types.md")


def stage(root: Path, folder: Path) -> None:
    """Lay all pages out in this folder, anew, with the files that they show or give."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = set(pages_of(root))
    for page in pages:
        text = with_links(page.read_text(encoding="utf-8"), partial(_linked, page, root, folder, pages))
        text = MERMAID.sub(lambda block: _drawn(block[1]), text)
        if page == root / FIRST:
            text += "\n" + _contents(root, pages)
        for branch, first in BRANCHES.items():
            if page == root / first:
                text += "\n" + _toctree("", _below(page, root / branch))
        place = folder / (INDEX if page == root / FIRST else page.relative_to(root))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def _contents(root: Path, pages: set[Path]) -> str:
    """The table of contents, and what it has forgotten; `ValueError` where it names a page that is not there."""
    text = CONTENTS.read_text(encoding="utf-8")
    listed = set(ENTRY.findall(text))
    branches = {each for branch in BRANCHES for each in (root / branch).glob("*.md")}
    there = {page.relative_to(root).with_suffix("").as_posix() for page in pages}
    unknown = sorted(listed - there)
    if unknown:
        raise ValueError(f"{CONTENTS.name} names pages that are not there: {', '.join(unknown)}")
    apart = {page.relative_to(root).with_suffix("").as_posix() for page in (*branches, root / FIRST)}
    forgotten = sorted(there - listed - apart)
    return text + (_toctree("More", forgotten) if forgotten else "")


def _below(page: Path, branch: Path) -> list[str]:
    """The pages of a branch, as its first page names them."""
    below = (each for each in branch.glob("*.md") if each != page)
    return sorted(each.relative_to(page.parent).with_suffix("").as_posix() for each in below)


def _toctree(caption: str, entries: Iterable[str]) -> str:
    head = [f":caption: {caption}"] if caption else []
    return "\n".join(("", "```{toctree}", ":hidden:", *head, "", *entries, "```", ""))


def _linked(page: Path, root: Path, folder: Path, pages: set[Path], link: re.Match[str]) -> str:
    target, _, anchor = link["target"].partition("#")
    if not target or ":" in target:
        return link[0]
    place = Path(os.path.normpath(page.parent / target))
    if place.is_dir() and place / FIRST in pages:
        place = place / FIRST
    if place.is_dir():
        return link["text"]
    if place == root / FIRST:
        place = root / INDEX
    elif place not in pages and place.is_file():
        copy = folder / place.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place, copy)
    written = Path(os.path.relpath(place, page.parent)).as_posix()
    return f"{link['image']}[{link['text']}]({written}{'#' + anchor if anchor else ''})"


def _drawn(mermaid: str) -> str:
    if mermaid.startswith(HEAD):
        return _raw(draw_sequence(read_sequence(mermaid)))
    return f"{_raw(draw(read_diagram(mermaid)))}\n\n{KEY}"


def _raw(svg: str) -> str:
    return f"```{{raw}} html\n{svg}\n```"
