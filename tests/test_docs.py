"""`rota docs`: writes the machines' pages from their tables, and knows a stale one.

Theory of operation. This docstring is also that of the page of the machine below.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.cli.docs import command
from rota.cli.machine_pages import UndocumentedError, arrows_of, render_pages, rows_of
from rota.cli.metric_pages import render_metrics
from rota.machine.tables import Event, Ignored, Junction, Machine, Row, Table, in_states, superstate
from rota.sequencer.sender import Sender
from rota.server.configuration import render_reference
from rota.server.metrics import COUNTERS, GAUGES
from rota.server.table import TABLE

PAGES = (
    "README.md",
    "sender.md",
    "sender-transaction.md",
    "external-issue.md",
    "voiding.md",
    "id-inquiry.md",
    "coordinator.md",
    "coordinator-transaction.md",
    "deployment.md",
)
# These, six references, the completions, and the pages of all methods and of their types.
COUNT = len(PAGES) + 6 + len(TABLE) + 1


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, prog_name="rota docs")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `rota docs` takes for a checkout; the current directory is deep inside it."""
    (tmp_path / "src" / "rota" / "sequencer").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "src" / "rota" / "sequencer")
    return tmp_path


# Writing.


def test_docs_writes_a_page_for_each_machine_an_index_and_the_configuration(checkout: Path) -> None:
    result = run()
    assert result.exit_code == 0, result.output
    assert (checkout / "docs" / "configuration.md").read_text(encoding="utf-8") == render_reference()
    assert sorted(path.name for path in (checkout / "docs" / "machines").iterdir()) == sorted(PAGES)


def test_docs_writes_to_another_folder_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--out", "elsewhere").exit_code == 0
    assert (tmp_path / "elsewhere" / "machines" / "sender.md").is_file()


@pytest.mark.usefixtures("checkout")
def test_docs_says_how_many_pages_it_wrote() -> None:
    assert f"{COUNT} pages, of which {COUNT} were stale" in run().stdout
    assert f"{COUNT} pages, of which 0 were stale" in run().stdout


def test_programmes_are_told_what_was_stale(checkout: Path) -> None:
    run()
    stale = checkout / "docs" / "cli.md"
    stale.unlink()
    told = run("--check", "--json")
    assert (told.exit_code, json.loads(told.stdout)) == (1, {"pages": COUNT, "stale": [str(stale)]})
    assert json.loads(run("--json").stdout)["stale"] == [str(stale)]
    assert run("--check").exit_code == 0


def test_pages_come_out_the_same_each_time() -> None:
    assert dict(render_pages()) == dict(render_pages())


def test_every_figure_of_a_node_is_on_the_page_of_metrics() -> None:
    page = render_metrics()
    assert [figure.name for figure in GAUGES if f"| `{figure.name}` | gauge |" not in page] == []
    assert [figure.name for figure in COUNTERS if f"| `{figure.name}_total` | counter |" not in page] == []
    assert "| `rota_rpc_call_seconds` | histogram | `method` |" in page
    assert "| `rota_trigger_attempted_total` | counter | `trigger`, `outcome`, `contention` |" in page


# Checking.


@pytest.mark.usefixtures("checkout")
def test_fresh_pages_pass_the_check() -> None:
    run()
    result = run("--check")
    assert (result.exit_code, result.output) == (0, "")


def test_changed_page_fails_the_check_with_its_name(checkout: Path) -> None:
    run()
    changed = checkout / "docs" / "machines" / "coordinator.md"
    changed.write_text(changed.read_text(encoding="utf-8") + "and more\n", encoding="utf-8")
    result = run("--check")
    assert result.exit_code == 1
    assert f"{changed} is stale" in result.stderr
    assert "sender.md" not in result.stderr
    assert "make docs" in result.stderr
    assert changed.read_text(encoding="utf-8").endswith("and more\n")


def test_missing_page_fails_the_check_with_its_name(checkout: Path) -> None:
    run()
    (checkout / "docs" / "machines" / "sender.md").unlink()
    result = run("--check")
    assert result.exit_code == 1
    assert "sender.md is stale" in result.stderr
    assert not (checkout / "docs" / "machines" / "sender.md").exists()


def test_missing_folder_fails_the_check_and_is_not_made(checkout: Path) -> None:
    result = run("--check")
    assert result.exit_code == 1
    for name in (*PAGES, "configuration.md"):
        assert f"{name} is stale" in result.stderr
    assert not (checkout / "docs").exists()


# Wrong use.


@pytest.mark.parametrize("arguments", [("--no-such-option",), ("surplus",), ("--out",)])
def test_wrong_use_exits_with_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert result.stdout == ""


def test_file_in_place_of_the_folder_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run("--out", str(tmp_path / "file")).exit_code == 2


@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_outside_a_checkout_it_says_so_and_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "is not inside a checkout of Rota" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_missing_docstring_is_told_by_name_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sender.table.rows[0].do, "__doc__", None)
    result = run("--out", str(tmp_path / "docs"))
    assert result.exit_code == 1
    assert "rota.sequencer.sender.answer_permission has no docstring" in result.stderr
    assert not (tmp_path / "docs").exists()


# A page, of a small machine.


class Gate(Enum):
    OPEN = "Open"
    SHUT = "Shut"
    LOCKED = "Locked"
    GONE = "Gone"
    LOST = "Lost"


@dataclass(frozen=True, slots=True)
class Pushed(Event):
    """Raised by a hand | a foot. Not by the wind."""


@dataclass(frozen=True, slots=True)
class Pulled(Event):
    """Raised by a hand,
    as a rule."""


@dataclass(frozen=True, slots=True)
class Forgotten(Event):  # a dataclass without a docstring has one all the same
    times: int = 0


def is_heavy(*_: object) -> bool:
    """heavy | rusty

    and this line is not quoted
    """
    return True


def shut(*_: object) -> None:
    """Let it fall (see v1.2). Then walk on."""


def creak(*_: object) -> None:
    """Creak."""


def undocumented_guard(*_: object) -> bool:
    return True


def undocumented_action(*_: object) -> None: ...


def undocumented_entry(*_: object) -> None: ...


IGNORED = (Ignored(Pulled, (Gate.SHUT, Gate.LOCKED, Gate.GONE, Gate.LOST), "shut | locked"),)
HEAVY = Junction("Weighs", ((is_heavy, Gate.SHUT), (None, Gate.LOST)))
ROWS = (
    Row(Gate.OPEN, Pushed, when=is_heavy),
    Row(Gate.OPEN, Pushed, then=Gate.SHUT, do=shut),
    *in_states((Gate.LOCKED, Gate.SHUT), Pushed, then=Gate.LOCKED),
    *in_states((Gate.GONE, Gate.LOST), Pushed),
    Row(Gate.OPEN, Pulled, then=Gate.SHUT),
)


def page_of(table: Table) -> str:
    class Gated(Machine):
        """The machine of this page."""

    Gated.table = table
    return render_pages([Gated])["test-docs.md"]


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(Table("Gate", Gate.OPEN, ROWS, IGNORED, {Gate.SHUT: creak}))


def test_page_says_that_it_is_generated_and_by_what(page: str) -> None:
    assert page.startswith("# Gate\n\nThis file is generated from the code by `make docs`;")


def test_page_has_the_theory_of_operation(page: str) -> None:
    assert "## Theory of operation\n\nThis docstring is also that of the page of the machine below.\n" in page


def test_diagram_has_an_arrow_for_each_change_of_state_with_its_events_merged(page: str) -> None:
    diagram = page.partition("```mermaid\n")[2].partition("```")[0]
    assert diagram.splitlines() == [
        "stateDiagram-v2",
        "    direction LR",
        "    [*] --> Open",
        "    Open",
        "    Shut",
        "    Locked",
        "    Gone",
        "    Lost",
        "    Open --> Shut: Pushed<br/>Pulled",
        "    Shut --> Locked: Pushed",
        "    Locked --> [*]",
        "    Gone --> [*]",
        "    Lost --> [*]",
    ]


def test_diagram_draws_one_arrow_from_a_superstate_and_shares_a_junction() -> None:
    fallen = superstate("Fallen", Gate.GONE, Gate.LOST)
    closed = superstate("Closed", Gate.SHUT, Gate.LOCKED, fallen)
    table = Table(
        "Gate",
        Gate.OPEN,
        (
            Row(Gate.OPEN, Pushed, then=HEAVY),
            Row(fallen, Pushed, then=Gate.OPEN),
            Row(closed, Pushed, then=Gate.LOCKED, do=shut),
            Row(closed, Pulled, then=HEAVY),
        ),
        (Ignored(Pulled, (Gate.OPEN,), "open"),),
    )
    page = page_of(table)
    assert page.partition("```mermaid\n")[2].partition("```")[0].splitlines() == [
        "stateDiagram-v2",
        "    direction LR",
        "    [*] --> Open",
        "    Open",
        "    state Closed {",
        "        any_Closed: any",
        "        Shut",
        "        Locked",
        "        state Fallen {",
        "            Gone",
        "            Lost",
        "        }",
        "    }",
        "    state Weighs <<choice>>",
        "    Open --> Weighs: Pushed",
        "    any_Closed --> Locked: Pushed",
        "    Closed --> Weighs: Pulled",
        "    Fallen --> Open: Pushed",
        "    Weighs --> Shut: is heavy",
        "    Weighs --> Lost: else",
    ]
    assert "| Closed | `Pushed` | | Locked | Let it fall (see v1.2). |" in page
    assert "| Closed | `Pulled` | | Weighs | |" in page
    assert "| Closed | Shut, Locked, Gone, Lost |\n| Fallen | Gone, Lost |" in page
    assert "| Weighs | heavy \\| rusty | Shut |\n| Weighs | else | Lost |" in page
    assert (rows_of(table), arrows_of(table)) == (6, 7)


def test_rows_stand_in_order_with_neighbours_of_one_rule_merged_and_bars_escaped(page: str) -> None:
    rows = page.partition("| --- | --- | --- | --- | --- |\n")[2].partition("\n\n")[0]
    assert rows.splitlines() == [
        r"| Open | `Pushed` | heavy \| rusty | | |",
        "| Open | `Pushed` | | Shut | Let it fall (see v1.2). |",
        "| Shut, Locked | `Pushed` | | Locked | |",
        "| Gone, Lost | `Pushed` | | | |",
        "| Open | `Pulled` | | Shut | |",
    ]


def test_rule_for_all_or_nearly_all_states_does_not_list_them() -> None:
    every = page_of(Table("Gate", Gate.OPEN, in_states(Gate, Pushed)))
    assert "| every state | `Pushed` |" in every
    but_one = page_of(
        Table(
            "Gate",
            Gate.OPEN,
            in_states((state for state in Gate if state is not Gate.LOST), Pushed),
            (Ignored(Pushed, (Gate.LOST,), "lost"),),
        )
    )
    assert "| every state but Lost | `Pushed` |" in but_one


def test_entry_actions_events_ignored_pairs_and_states_are_listed(page: str) -> None:
    assert "| Shut | Creak. |" in page
    assert r"| `Pushed` | Raised by a hand \| a foot. |" in page
    assert "| `Pulled` | Raised by a hand, as a rule. |" in page
    assert r"| `Pulled` | every state but Open | shut \| locked |" in page
    assert "- `OPEN`: Open (the initial one)\n- `SHUT`: Shut\n" in page


def test_machine_without_entry_actions_says_so() -> None:
    table = Table("Gate", Gate.OPEN, in_states(Gate, Pushed))
    assert "## Entry actions\n\nNone.\n" in page_of(table)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (Table("Gate", Gate.OPEN, in_states(Gate, Pushed, when=undocumented_guard)), "undocumented_guard"),
        (Table("Gate", Gate.OPEN, in_states(Gate, Pushed, do=undocumented_action)), "undocumented_action"),
        (
            Table("Gate", Gate.OPEN, in_states(Gate, Pushed), entry={Gate.OPEN: undocumented_entry}),
            "undocumented_entry",
        ),
        (Table("Gate", Gate.OPEN, in_states(Gate, Forgotten)), "Forgotten"),
    ],
    ids=["guard", "action", "entry action", "event"],
)
def test_what_has_no_docstring_is_refused_by_name(table: Table, name: str) -> None:
    with pytest.raises(UndocumentedError, match=rf"\.{name} has no docstring"):
        page_of(table)


def test_module_without_a_docstring_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Sender.__module__], "__doc__", None)
    with pytest.raises(UndocumentedError, match=r"rota\.sequencer\.sender has no docstring"):
        render_pages([Sender])


# The pages of the four machines.


def test_pages_link_to_one_another_and_to_the_protocol() -> None:
    pages = render_pages()
    assert tuple(pages) == PAGES
    for name, text in pages.items():
        assert "](../protocol.md)" in text
        for other in PAGES:
            assert (f"]({other})" in text) == (other != name)


def test_every_event_of_a_machine_stands_on_its_page() -> None:
    text = render_pages()["sender.md"]
    for event in Sender.table.events:
        assert f"| `{event.__name__}` |" in text


def test_security_page_names_tests_that_there_are() -> None:
    """Each row of what stops a liar names the test that shows it."""
    repository = Path(__file__).parents[1]
    page = (repository / "docs" / "security.md").read_text()
    sources = "\n".join(path.read_text() for path in (repository / "tests").rglob("test_*.py"))
    functions = re.findall(r"`(test_\w+)`", page)
    files = re.findall(r"`(tests/[\w/]+\.py)`", page)
    assert functions
    assert files
    assert [name for name in functions if f"def {name}(" not in sources] == []
    assert [name for name in files if not (repository / name).is_file()] == []
