"""Links between documents hold in the repository, where most people read them; the site is judged when it is built."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from tools.site.markdown import Link, anchors_of, links_of
from tools.site.staging import pages_of

ROOT = Path(__file__).parents[2]


def relative_links() -> list[Link]:
    return [link for page in pages_of(ROOT) for link in links_of(page) if "://" not in link.target]


def shown(link: Link) -> str:
    return f"{link.page.relative_to(ROOT)}:{link.line}: {link.target}"


def target_of(link: Link) -> Path:
    return (
        Path(os.path.normpath(link.page.parent / link.target.partition("#")[0])) if link.target[0] != "#" else link.page
    )


def test_every_link_leads_to_a_file_or_folder_of_the_repository() -> None:
    links = relative_links()
    assert len(links) > 100
    assert [shown(link) for link in links if not target_of(link).exists()] == []
    assert [shown(link) for link in links if not target_of(link).is_relative_to(ROOT)] == []


def test_every_anchor_is_a_heading_of_its_page() -> None:
    anchored = [link for link in relative_links() if "#" in link.target]
    assert anchored
    anchors = {page: anchors_of(page) for page in {target_of(link) for link in anchored}}
    lost = [link for link in anchored if link.target.partition("#")[2] not in anchors[target_of(link)]]
    assert [shown(link) for link in lost] == []


def test_architecture_lists_every_package_in_the_order_of_the_layers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    rank = {name: number for number, layer in enumerate(layers) for name in re.findall(r"\((\w+)\)", layer)}
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.partition("```text\n")[2].partition("```")[0]
    columns = [line[:29].replace("/", " ") for line in block.splitlines()]
    listed = [word for column in columns for word in column.split()]
    packages = [word for word in listed if word in rank]
    assert sorted(packages) == sorted(rank)
    assert sorted(packages, key=rank.__getitem__) == packages
