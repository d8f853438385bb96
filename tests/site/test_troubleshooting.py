"""The troubleshooting page has an entry for every code that a user can meet."""

from __future__ import annotations

import re
from pathlib import Path

from rota.commands import errors
from rota.domains.base import NOT_ACTIVE
from rota.model.types import FINALITY_BROKEN, INTENT_ID_USED
from rota.rpc.errors import ErrorCode

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


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


def test_every_entry_has_a_cause_and_an_action() -> None:
    for section in ("JSON-RPC", "Receipts", "Commands"):
        for code, cells in entries(section).items():
            assert all(re.search(r"\w", cell) for cell in cells), f"{section}: {code}"
