"""The committed code is what the schema says, and `make check` would tell if it were not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import generate_wire

pytest.importorskip("grpc_tools")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the schema and of the code that is generated from it."""
    shutil.copytree(generate_wire.ROOT / generate_wire.SCHEMA_FOLDER, tmp_path / generate_wire.SCHEMA_FOLDER)
    for folder in (generate_wire.TARGET_FOLDER, generate_wire.API_TARGET_FOLDER):
        (tmp_path / folder).mkdir(parents=True)
        for generated in (generate_wire.ROOT / folder).glob("*_pb2.py*"):
            shutil.copy(generated, tmp_path / folder)
    return tmp_path


def test_the_committed_code_is_up_to_date() -> None:
    assert generate_wire.main(["--check"]) == 0


def test_a_changed_schema_makes_the_code_stale_until_it_is_generated(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = checkout / generate_wire.SCHEMA_FOLDER / generate_wire.SCHEMA
    schema.write_text(schema.read_text() + "message Another {}\n")
    assert generate_wire.main(["--check"], checkout) == 1
    assert "src/rota/wire/peer_pb2.py is not what proto/rota/v1/peer.proto says" in capsys.readouterr().out
    assert generate_wire.main([], checkout) == 0
    assert generate_wire.main(["--check"], checkout) == 0


@pytest.mark.parametrize("name", ["peer_pb2.pyi", "transport_pb2.py", "commands_pb2.py"])
def test_code_that_is_missing_is_stale(name: str, checkout: Path) -> None:
    assert generate_wire.main(["--check"], checkout) == 0
    (checkout / generate_wire.target_of(name)).unlink()
    assert generate_wire.main(["--check"], checkout) == 1


def test_a_schema_that_does_not_compile_is_told(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    schema = checkout / generate_wire.SCHEMA_FOLDER / generate_wire.SCHEMA
    schema.write_text("nonsense")
    assert generate_wire.main(["--check"], checkout) == 1
    assert "peer.proto" in capfd.readouterr().err


@pytest.mark.parametrize(("forbidden", "code"), [("1", 1), ("", 0)])
def test_without_a_compiler_the_check_says_that_it_looked_at_nothing(
    forbidden: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_wire, "find_spec", lambda _: None)
    monkeypatch.setenv("ROTA_FORBID_SKIPS", forbidden)
    assert generate_wire.main(["--check"]) == code
    assert "is not looked at" in capsys.readouterr().err
    assert generate_wire.main([]) == 1
