"""Checks the search of a built site: the name of a JSON-RPC method finds the page of this method first.

The search of Sphinx gives a page whose title contains the query 15 points, times the part of the title that the query
is, and one more if it is the title of a page and not of a section. Words of titles and texts give at most 15 points. A
page with more than 15 points is therefore first, and only a title that equals the query gives more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

INDEX: Final = "searchindex.js"
HEAD, END = "Search.setIndex(", ")"
TITLE: Final = 15


def read_index(site: Path) -> dict[str, Any]:
    """The index that the search page loads."""
    text = (site / INDEX).read_text(encoding="utf-8").strip()
    index: dict[str, Any] = json.loads(text.removeprefix(HEAD).removesuffix(END))
    return index


def first_pages(index: dict[str, Any], query: str) -> set[str]:
    """The pages that stand before all that are found by a word only."""
    found = set()
    for title, places in index["alltitles"].items():
        if query.lower() not in title.lower():
            continue
        for page, _ in places:
            points = round(TITLE * len(query) / len(title)) + (index["titles"][page] == title)
            if points > TITLE:
                found.add(index["docnames"][page])
    return found


def search_faults(site: Path, pages: Iterable[Path], root: Path) -> list[str]:
    """The pages of methods that the search for their names does not list first."""
    index = read_index(site)
    faults = []
    for page in pages:
        name = page.relative_to(root).with_suffix("").as_posix()
        first = first_pages(index, page.stem)
        if first != {name}:
            shown = ", ".join(sorted(first)) or "no page"
            faults.append(f"the search for {page.stem} lists {shown} first, and not {name}")
    return faults
