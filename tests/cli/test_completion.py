"""`rota completion`, and what a shell is answered: without loading the command that it asks about."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rota.cli.completion import SHELLS
from tests import bounds
from tests.cli.kit import rota

# What takes long to import, and everything of ours but the commands' names.
HEAVY = ("aiohttp", "asyncio", "asyncpg", "coincurve", "cryptography", "grpc", "msgspec", "pyrevm", "rich")
OURS = {"rota", "rota.cli", "rota.__main__", "rota.extras", "rota.cli.main", "rota.cli.completion"}
ASK = """
import atexit, sys
atexit.register(lambda: print("\\n".join(sys.modules), file=sys.stderr))
from rota.cli.main import main
main()
"""


def completed(*words: str) -> tuple[list[str], set[str]]:
    """What Bash is told when the key is pressed behind these words, and which modules were loaded for it."""
    environment = {
        **os.environ,
        "_ROTA_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("rota", *words)),
        "COMP_CWORD": str(len(words)),
    }
    run = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, timeout=bounds.WAIT_S, check=True
    )
    return [line.partition(",")[2] for line in run.stdout.splitlines() if line], set(run.stderr.splitlines())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("do",), ["docs", "doctor"]),
        (("tx", "s"), ["send", "show"]),
        (("node", "--pa"), ["--password-file"]),
        (("token", "mint", "--no"), ["--no-wait", "--node"]),
        (("completion", ""), list(SHELLS)),
        (("contract", "create", "--rotation", "st"), ["sticky", "strict"]),
        (("tx", "show", "01"), []),
        (("ledger", "f"), ["fund"]),
    ],
)
def test_commands_options_and_words_complete_without_loading_anything(words: tuple[str, ...], found: list[str]) -> None:
    told, loaded = completed(*words)
    assert told == found
    assert {name for name in loaded if name.split(".")[0] == "rota"} <= OURS
    assert [name for name in HEAVY if name in loaded] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_that_its_shell_takes(shell: str, tmp_path: Path) -> None:
    result = rota("completion", shell)
    assert result.exit_code == 0
    assert f"_ROTA_COMPLETE={shell}_complete" in result.stdout
    programme = shutil.which(shell)
    if programme is not None:
        script = tmp_path / "script"
        script.write_text(result.stdout)
        subprocess.run([programme, "-n", str(script)], check=True, timeout=bounds.WAIT_S)


def test_a_shell_that_is_not_known_is_wrong_use() -> None:
    result = rota("completion", "tcsh")
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed here")
def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    """As a person at a terminal: the script is loaded, the key pressed, and the words are there."""
    programme = tmp_path / "rota"
    programme.write_text(f"#!{sys.executable}\nfrom rota.cli.main import main\nmain()\n")
    programme.chmod(0o755)
    press = 'source script; COMP_WORDS=(rota tx e); COMP_CWORD=2; _rota_completion rota; echo "${COMPREPLY[@]}"'
    (tmp_path / "script").write_text(rota("completion", "bash").stdout)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-c", press],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=bounds.WAIT_S,
        check=True,
    )
    assert run.stdout == "explain\n"
