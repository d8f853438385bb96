"""`rota credentials`: who is let in is written to the file that the node reads, and no secret with it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rota.rpc.credentials import PasswordCredential, Role, TokenCredential
from rota.server.credentials_file import read_credentials
from tests.cli.kit import init, rota, told


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init(tmp_path / "node1")
    return tmp_path / "node1"


def test_a_token_is_shown_once_and_its_hash_is_kept(folder: Path) -> None:
    made = told("credentials", "add", folder, "grafana", "--role", "read", "--family", "seq", "--family", "ptx")
    assert (made["name"], made["kind"], made["roles"], made["families"]) == (
        *("grafana", "token", ["read"]),
        ["ptx", "seq"],
    )
    path = Path(made["file"])
    assert made["token"] not in path.read_text()
    (kept,) = read_credentials(path)
    assert isinstance(kept, TokenCredential)
    assert kept.sha256 == hashlib.sha256(made["token"].encode()).digest()
    assert (kept.roles, kept.families) == (frozenset({Role.READ}), frozenset({"ptx", "seq"}))


def test_a_password_comes_from_a_file_and_is_kept_as_a_hash(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse battery\n")
    secret.chmod(0o600)
    made = told("credentials", "add", folder, "anna", "--role", "read", "--role", "submit", "--password-file", secret)
    assert (made["kind"], made["token"], made["roles"]) == ("password", None, ["read", "submit"])
    (kept,) = read_credentials(Path(made["file"]))
    assert isinstance(kept, PasswordCredential)
    assert "correct horse" not in Path(made["file"]).read_text()


def test_those_who_are_let_in_are_listed_and_removed(folder: Path) -> None:
    for name in ("one", "two"):
        told("credentials", "add", folder, name, "--role", "operate")
    listed = told("credentials", "list", folder)
    assert [each["name"] for each in listed["credentials"]] == ["one", "two"]
    assert listed["is_used"] is False
    assert "one" in rota("credentials", "list", folder).output
    assert told("credentials", "remove", folder, "one") == {"removed": "one", "left": 1}
    assert [each["name"] for each in told("credentials", "list", folder)["credentials"]] == ["two"]


def test_what_cannot_be_is_told_and_changes_nothing(folder: Path) -> None:
    told("credentials", "add", folder, "one", "--role", "read")
    before = told("credentials", "list", folder)
    for arguments, exit_code, text in (
        (("add", folder, "one", "--role", "read"), 1, "already"),
        (("add", folder, "a:b", "--role", "read"), 2, "colon"),
        (("add", folder, "three"), 2, "--role"),
        (("add", folder, "three", "--role", "all"), 2, "all"),
        (("add", folder, "three", "--role", "read", "--password"), 2, "no password"),
        (("remove", folder, "nobody"), 1, "no credential"),
        (("remove", folder, "one"), 1, "last one"),
    ):
        result = rota("credentials", *arguments)
        assert (result.exit_code, text in result.output) == (exit_code, True), result.output
    assert told("credentials", "list", folder) == before


def test_a_file_that_others_may_read_is_refused(folder: Path) -> None:
    made = told("credentials", "add", folder, "one", "--role", "read")
    Path(made["file"]).chmod(0o644)
    result = rota("credentials", "list", folder)
    assert (result.exit_code, "chmod 600" in result.output) == (1, True)


def test_without_credentials_the_list_says_who_is_let_in(folder: Path) -> None:
    assert "every caller there may do everything" in rota("credentials", "list", folder).output
