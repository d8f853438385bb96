"""The troubleshooting page has an entry for every code that a user can meet."""

from __future__ import annotations

import re
from pathlib import Path

from rota.commands import errors
from rota.domains.base import NOT_ACTIVE
from rota.logs.catalogue import ALL
from rota.logs.declaration import Level
from rota.model.types import FINALITY_BROKEN, INTENT_ID_USED
from rota.rpc.errors import ErrorCode

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"\bPD\d{6}\b")
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def entries(section: str) -> dict[str, list[str]]:
    """The rows of the table below a heading, by the first cell."""
    text = PAGE.split(f"\n### {section}\n")[1].split("\n#")[0]
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {row[0].strip("`"): row[1:] for row in rows[2:]}


def test_every_json_rpc_code_has_an_entry_with_its_name() -> None:
    named = {code: cells[0].strip("`") for code, cells in entries("JSON-RPC").items()}
    assert named == {f"\N{MINUS SIGN}{-code.value}": code.name for code in ErrorCode}


def test_every_error_id_of_commands_has_an_entry() -> None:
    known = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)}
    assert len(known) > 10
    assert set(entries("Commands")) == known


def test_every_failure_code_of_receipts_has_an_entry() -> None:
    assert set(entries("Receipts")) == {INTENT_ID_USED, FINALITY_BROKEN, NOT_ACTIVE}


def test_every_code_that_begins_a_text_has_an_entry() -> None:
    sources = (ROOT / "src" / "rota").rglob("*.py")
    used = {code for path in sources for code in CODE.findall(path.read_text(encoding="utf-8"))}
    assert {code for cell in entries("Codes in texts") for code in CODE.findall(cell)} == used


def test_every_log_event_that_needs_attention_has_an_entry_with_an_action() -> None:
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    listed = {line.split("|")[1].strip(" `"): line for line in page.splitlines() if line.startswith("| `")}
    assert {event.code for event in ALL} <= set(listed)
    serious = [event for event in ALL if event.level in (Level.ERROR, Level.WARNING)]
    assert len(serious) > 50
    assert [event.code for event in serious if not event.action] == []


def test_every_entry_has_a_cause_and_an_action() -> None:
    for section in ("JSON-RPC", "Codes in texts", "Receipts", "Commands"):
        for code, cells in entries(section).items():
            assert all(re.search(r"\w", cell) for cell in cells), f"{section}: {code}"
