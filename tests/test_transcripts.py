"""Every walk-through plays as it is written down.

`make transcripts` records them anew; it rewrites what happened, never the head with its expectations.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.sim.network import ScriptError
from rota.sim.script import Run, Script

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_walk_through_happens_as_written_down(path: Path) -> None:
    text = path.read_text()
    run = Run(Script.parse(text))
    run.play()
    assert run.text() == text, f"{path.name} is not what happens now; read the difference, then `make transcripts`"


def test_recording_keeps_the_head() -> None:
    text = TRANSCRIPTS[0].read_text()
    script = Script.parse(text)
    run = Run(script)
    run.play()
    head = text.split("\n> ")[0].rstrip().splitlines()
    assert run.text().splitlines()[: len(head)] == head


def test_unmet_expectation_fails_the_run() -> None:
    text = "network: nodes A B C, leaders B\nexpect: A-1 reverted\n> submit A-1 at A\n> until A-1 confirmed\n"
    with pytest.raises(ScriptError, match="expected 'A-1 reverted', but A-1 is"):
        Run(Script.parse(text)).play()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("expect: A-1 confirmed\n> run 1 s\n", "a script has a network"),
        ("network: nodes A\nexpect: A-1 confirmed\n> run 1 s\nexpect: late\n", "line 4: the head ends"),
        ("network: nodes A\nwhatever\n", "line 2: neither"),
    ],
)
def test_script_that_cannot_be_read_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        Script.parse(text)


@pytest.mark.parametrize("command", ["jump", "crash Z", "until A-1 confirmed"])
def test_command_that_cannot_be_done_is_an_error(command: str) -> None:
    text = f"network: nodes A, leaders A\nexpect: A-1 confirmed\n> {command}\n"
    with pytest.raises(ScriptError):
        Run(Script.parse(text)).play()
