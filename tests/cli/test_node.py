"""How `rota node` ends when it cannot start: a supervisor restarts it only where that may help."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from rota.server.configuration import FILE_NAME
from tests.cli.kit import ROTA, WAIT_S, init

pytestmark = pytest.mark.slow

UNIT = Path(__file__).parents[2] / "ops" / "systemd" / "rota.service"


@pytest.mark.parametrize(
    ("section", "line", "message"),
    [
        ("rpc", 'port = "x"', "rpc.port: must be a whole number"),
        ("transport", 'registry = "missing.toml"', "transport.registry: "),
        ("rpc", 'credentials_file = "missing.toml"', "rpc: "),
        ("domains.gone", "a = 1", "domains.gone"),
    ],
)
def test_wrong_setting_exits_with_2_so_that_the_unit_does_not_restart_it(
    tmp_path: Path, section: str, line: str, message: str
) -> None:
    folder = made(tmp_path)
    rewrite(folder / FILE_NAME, section, line)
    ended = run(folder)
    assert message in ended.stderr
    assert ended.returncode == 2
    assert "RestartPreventExitStatus=2" in UNIT.read_text().splitlines()


def test_address_that_is_in_use_exits_with_1_so_that_the_unit_restarts_it(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        rewrite(folder / FILE_NAME, "rpc", f"port = {taken.getsockname()[1]}")
        ended = run(folder)
    assert "rpc: cannot listen: " in ended.stderr
    assert ended.returncode == 1


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: a node configures the logging of its process."""
    return subprocess.run([*ROTA, "node", folder], capture_output=True, text=True, timeout=WAIT_S, check=False)


def made(tmp_path: Path) -> Path:
    """The folder of a node that could start."""
    folder = tmp_path / "node1"
    init(folder)
    rewrite(folder / FILE_NAME, "ledger", f'registry = "0x{"11" * 20}"')
    return folder


def rewrite(file: Path, section: str, line: str) -> None:
    """Give a setting another value."""
    name = line.partition(" ")[0]
    kept, is_in, is_written = [], False, False
    for each in file.read_text().splitlines():
        if each.startswith("["):
            is_in = each == f"[{section}]"
        if is_in and each.lstrip("# ").startswith(f"{name} ="):
            continue
        kept.append(each)
        if each == f"[{section}]":
            kept.append(line)
            is_written = True
    if not is_written:
        kept += [f"[{section}]", line]
    file.write_text("\n".join(kept) + "\n")
