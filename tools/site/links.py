"""Judges a built site: every link leads somewhere, and no page fetches anything from elsewhere.

Links to other sites are listed and not followed: a build must not depend on who is up today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, by element and attribute. A link of kind `canonical` and the like is not fetched.
FETCHED: Final = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
FETCHED_LINKS: Final = {"stylesheet", "icon", "preload", "modulepreload", "manifest"}
IN_STYLES: Final = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])([^"')\s]+)""")


@dataclass(slots=True)
class Page:
    """What one page names: its own anchors, where it leads, and what it fetches."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, each as a sentence, and the addresses of other sites by who leads there."""

    faults: tuple[str, ...]
    elsewhere: dict[str, list[str]]


def judge(site: Path) -> Verdict:
    """Look at every page and style sheet of a built site."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    faults: list[str] = [] if pages else [f"{site} has no pages"]
    elsewhere: dict[str, list[str]] = {}
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        faults += [f"{name} fetches {each} from elsewhere" for each in page.fetched if _is_elsewhere(each)]
        for link in (*page.links, *page.fetched):
            if _is_elsewhere(link):
                elsewhere.setdefault(link, []).append(name)
            else:
                faults += _follow(link, path, pages, site)
    for sheet in sorted(site.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        found = IN_STYLES.findall(text)
        faults += [f"{sheet.relative_to(site)} fetches {each} from elsewhere" for each in found if _is_elsewhere(each)]
    return Verdict(tuple(dict.fromkeys(faults)), elsewhere)


def _follow(link: str, path: Path, pages: dict[Path, Page], site: Path) -> Iterator[str]:
    parts = urlsplit(link)
    if parts.scheme:
        return
    name = path.relative_to(site).as_posix()
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if not target.is_file():
        yield f"{name} leads to {link}, which is not there"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        yield f"{name} leads to {link}, and there is no such place on that page"


def _is_elsewhere(link: str) -> bool:
    return urlsplit(link).scheme in ("http", "https") or link.startswith("//")


def _read(path: Path) -> Page:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    return reader.page


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page: Final = Page(anchors={"", "top"})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value for name, value in attrs if value is not None}
        self.page.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.page.links.append(attributes["href"])
        if tag == "link" and FETCHED_LINKS & set(attributes.get("rel", "").split()):
            self.page.fetched.append(attributes["href"])
        self.page.fetched += [attributes[name] for name in attributes if (tag, name) in FETCHED]
