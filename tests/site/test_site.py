"""The tools that build the site: diagrams are drawn, pages are laid out, and a dead link is seen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rota.server.table import TABLE
from tests.command_lines import flaws_of, rota_commands
from tools.site.diagrams import draw, read_diagram
from tools.site.links import judge
from tools.site.markdown import anchors_of, blocks_of, links_of, slug
from tools.site.search import search_faults
from tools.site.sequences import HEAD, draw_sequence, read_sequence
from tools.site.staging import method_pages, pages_of, stage

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
GATE = """
stateDiagram-v2
    direction LR
    [*] --> Open
    Open --> Shut: Pushed<br/>Pulled
    Shut --> Open: Pushed
    Shut --> Gone: Burnt
    Gone --> [*]
"""


def machine_pages() -> list[Path]:
    return [page for page in (ROOT / "docs" / "machines").glob("*.md") if page.name != "README.md"]


# Diagrams.


def test_a_diagram_has_its_states_in_order_and_every_way_between_them() -> None:
    diagram = read_diagram(GATE)
    assert diagram.states == ("Open", "Shut", "Gone")
    assert diagram.arrows == {
        ("Open", "Shut"): ("Pushed", "Pulled"),
        ("Shut", "Open"): ("Pushed",),
        ("Shut", "Gone"): ("Burnt",),
    }
    assert (diagram.initial, diagram.ends) == ("Open", frozenset({"Gone"}))


def test_superstates_and_junctions_stand_in_the_column_with_their_states_indented() -> None:
    diagram = read_diagram(
        """stateDiagram-v2
        [*] --> Open
        Open
        state Closed {
            any_Closed: any
            Shut
            Locked
        }
        state Weighs <<choice>>
        any_Closed --> Locked: Pushed
        Closed --> Weighs: Pulled
        Weighs --> Open: else"""
    )
    assert diagram.states == ("Open", "Closed", "Shut", "Locked", "Weighs")
    assert [diagram.depths[state] for state in diagram.states] == [0, 0, 1, 1, 0]
    assert diagram.arrows["Closed", "Locked"] == ("Pushed",)
    picture = ElementTree.fromstring(draw(diagram))
    kinds = [box.get("class") for box in picture.findall(f"{SVG}rect")]
    assert kinds == ["state initial", "state group", "state", "state", "state junction"]


def test_every_way_is_drawn_as_a_dot_that_tells_its_events() -> None:
    picture = ElementTree.fromstring(draw(read_diagram(GATE)))
    told = [title.text for title in picture.findall(f".//{SVG}circle/{SVG}title")]
    assert sorted(filter(None, told)) == ["Open → Shut: Pushed, Pulled", "Shut → Gone: Burnt", "Shut → Open: Pushed"]
    assert [text.text for text in picture.findall(f"{SVG}text")] == ["Open", "Shut", "Gone"]
    assert len(picture.findall(f".//{SVG}path[@class='head']")) == 3


@pytest.mark.parametrize("text", ["graph LR\n  a --> b", "stateDiagram-v2\n  a ==> b"])
def test_another_kind_of_diagram_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="diagram"):
        read_diagram(text)


def test_the_diagrams_of_all_machines_can_be_drawn() -> None:
    pages = machine_pages()
    assert len(pages) >= 5
    for page in pages:
        (block,) = (block for block in blocks_of(page) if block.language == "mermaid")
        diagram = read_diagram(block.text)
        picture = ElementTree.fromstring(draw(diagram))
        assert len(picture.findall(f".//{SVG}circle")) == len(diagram.arrows) > 2


# Sequences.

CALL = """
sequenceDiagram
    participant user as User
    participant node as Node<br/>of the user
    user->>node: submit
    node-->>user: the id
    node-xuser: lost & gone
    Note over user,node: both wait
"""


def test_a_sequence_is_drawn_with_every_participant_message_and_note() -> None:
    picture = ElementTree.fromstring(draw_sequence(read_sequence(CALL)))
    texts = [text.text for text in picture.findall(f".//{SVG}text")]
    assert texts == ["User", "Node", "of the user", "submit", "the id", "lost & gone", "both wait"]
    assert [len(picture.findall(f".//{SVG}path[@class='{kind}']")) for kind in ("head", "lost")] == [2, 1]


@pytest.mark.parametrize(
    ("line", "flaw"), [("user ~> node", "not user ~> node"), ("user->>nobody: x", "nobody must be a participant")]
)
def test_a_line_of_a_sequence_that_cannot_be_drawn_is_refused(line: str, flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw):
        read_sequence(f"{CALL}\n{line}")


def test_the_sequences_of_all_pages_can_be_drawn() -> None:
    blocks = [block for page in pages_of(ROOT) for block in blocks_of(page) if block.language == "mermaid"]
    sequences = [block.text for block in blocks if block.text.startswith(HEAD)]
    assert len(sequences) >= 2
    for text in sequences:
        ElementTree.fromstring(draw_sequence(read_sequence(text)))


# Laying out.


def test_pages_are_laid_out_with_their_files_and_without_links_to_folders(tmp_path: Path) -> None:
    stage(ROOT, tmp_path)
    assert len(list(tmp_path.rglob("*.md"))) == len(pages_of(ROOT))
    assert "```{toctree}" in (tmp_path / "index.md").read_text(encoding="utf-8")
    staged = [link for page in tmp_path.rglob("*.md") for link in links_of(page) if "://" not in link.target]
    targets = [link.page.parent / link.target.partition("#")[0] for link in staged if link.target[0] != "#"]
    assert len(targets) > 100
    assert [target for target in targets if not target.is_file()] == []
    assert "```mermaid" not in (tmp_path / "docs" / "machines" / "sender.md").read_text(encoding="utf-8")


# Reading pages.


def test_headings_are_named_as_forges_name_them(tmp_path: Path) -> None:
    assert slug("`rota init DIRECTORY --node NAME`") == "rota-init-directory---node-name"
    assert slug("[node]") == "node"
    page = tmp_path / "page.md"
    page.write_text("# One\n\n```sh\n# not one\n```\n\n## Two, and *more*\n\n## One\n", encoding="utf-8")
    assert anchors_of(page) == {"one", "two-and-more", "one-1"}


def test_links_in_code_are_none(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a `[x](y)`\n\n```text\n[x](y)\n```\n[`b`](c.md) and\n![d](e.png)\n", encoding="utf-8")
    assert [(link.line, link.target) for link in links_of(page)] == [(6, "c.md"), (7, "e.png")]


def test_a_block_knows_its_line_its_language_and_the_comment_above(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: no -->\n```python\nx = 1\n```\n\n- y\n  ```sh\n  make\n  ```\n", encoding="utf-8")
    first, second = blocks_of(page)
    assert (first.line, first.language, first.text, first.comment) == (2, "python", "x = 1\n", "not run: no")
    assert (second.line, second.language, second.text, second.comment) == (7, "sh", "make\n", "")


# Judging a site.


def built(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    return folder


def test_a_site_whose_links_hold_has_no_fault_and_lists_what_is_elsewhere(tmp_path: Path) -> None:
    site = built(
        tmp_path,
        a='<a href="b.html#x">b</a><a href="#top">t</a><a href="https://example.org/">e</a>',
        b='<p id="x"></p>',
    )
    verdict = judge(site)
    assert verdict.faults == ()
    assert verdict.elsewhere == {"https://example.org/": ["a.html"]}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="c.html">', "a.html leads to c.html, which is not there"),
        ('<a href="a.html#y">', "a.html leads to a.html#y, and there is no such place on that page"),
        ('<a href="#y">', "a.html leads to #y, and there is no such place on that page"),
        ('<img src="c.png">', "a.html leads to c.png, which is not there"),
        ('<script src="https://example.org/x.js">', "a.html fetches https://example.org/x.js from elsewhere"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "a.html fetches //example.org/x.css from elsewhere"),
    ],
)
def test_what_leads_nowhere_or_comes_from_elsewhere_is_told(tmp_path: Path, body: str, fault: str) -> None:
    assert judge(built(tmp_path, a=body)).faults == (fault,)


def test_a_style_sheet_that_fetches_from_elsewhere_is_told(tmp_path: Path) -> None:
    built(tmp_path, a="")
    (tmp_path / "x.css").write_text("@font-face { src: url('https://example.org/f.woff2') }", encoding="utf-8")
    assert judge(tmp_path).faults == ("x.css fetches https://example.org/f.woff2 from elsewhere",)


def test_a_folder_without_pages_is_no_site(tmp_path: Path) -> None:
    assert re.search("has no pages", judge(tmp_path).faults[0])


# The search.


def indexed(folder: Path, **titles: str) -> Path:
    """A site with an index of these pages of methods; the title of a section has a page of another title."""
    index = {
        "docnames": [f"docs/methods/{name}" for name in titles],
        "titles": list(titles.values()),
        "alltitles": {title: [[page, None]] for page, title in enumerate(titles.values())},
    }
    (folder / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})", encoding="utf-8")
    return folder


def test_the_page_of_a_method_is_found_first_by_its_name(tmp_path: Path) -> None:
    pages = [ROOT / "docs" / "methods" / f"{name}.md" for name in ("ptx_send", "ptx_sends")]
    site = indexed(tmp_path, ptx_send="ptx_send", ptx_sends="ptx_sends")
    assert search_faults(site, pages, ROOT) == []


def test_a_page_that_the_search_does_not_list_first_is_a_fault(tmp_path: Path) -> None:
    page = ROOT / "docs" / "methods" / "ptx_send.md"
    site = indexed(tmp_path, ptx_send="How to send", ptx_sends="ptx_sends")
    (fault,) = search_faults(site, [page], ROOT)
    assert fault == "the search for ptx_send lists no page first, and not docs/methods/ptx_send"


def test_every_method_has_a_page_whose_title_is_its_name() -> None:
    pages = method_pages(ROOT)
    assert {page.stem for page in pages} == set(TABLE)
    assert [page.stem for page in pages if not page.read_text(encoding="utf-8").startswith(f"# {page.stem}\n")] == []


# Command lines.


@pytest.mark.parametrize(
    ("line", "flaw"),
    [
        ("rota ledger fund node1 # comment", None),
        ("sudo -u rota A=b /opt/rota/bin/rota node ./node1 --json &", None),
        ("rota simulate --seed 7 \\\n  --trace | less", None),
        ("rota ledger --port …", None),
        ("rota nod", "rota has no command nod"),
        ("rota node ./node1 --jsn", "rota node: No such option '--jsn'"),
        ("rota node", "rota node: DIRECTORY is missing"),
        ("rota node a b", "rota node: nothing takes b"),
        (
            "rota simulate --seed seven",
            "rota simulate: Invalid value for '--seed': 'seven' is not a valid integer range.",
        ),
    ],
)
def test_a_command_line_is_held_against_the_command_tree(line: str, flaw: str | None) -> None:
    (arguments,) = rota_commands(line)
    flaws = flaws_of(arguments)
    assert (flaw is None and not flaws) or (len(flaws) == 1 and flaws[0].startswith(str(flaw)))
