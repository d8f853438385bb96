"""Every command teaches: what it does, an example that is right, its exit codes, and JSON for programmes."""

from __future__ import annotations

import inspect

import click
import pytest
from click.testing import CliRunner

from rota.cli.command_pages import render_commands
from rota.cli.command_tree import commands, options_of
from rota.cli.main import COMMANDS, main
from tests.command_lines import flaws_of, rota_commands

# It prints a script for a shell, and nothing that a programme would read.
WITHOUT_JSON = {"rota completion"}


def leaves() -> list[tuple[str, click.Command]]:
    """All that can be run: commands, and groups that do something by themselves."""
    return [
        (context.command_path, command)
        for context, command in commands()
        if not isinstance(command, click.Group) or command.invoke_without_command
    ]


LEAVES = [pytest.param(path, command, id=path) for path, command in leaves()]


def example_of(command: click.Command) -> str:
    """The shell of its example."""
    help_text = inspect.cleandoc(command.help or "")
    assert help_text.count("\b\nExample:\n") == 1, "its help has one block of examples"
    return help_text.partition("\b\nExample:\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize(("path", "command"), LEAVES)
def test_every_command_has_an_example_of_itself_that_is_right(path: str, command: click.Command) -> None:
    calls = rota_commands(example_of(command))
    assert any(["rota", *call][: len(path.split())] == path.split() for call in calls)
    assert [flaw for call in calls for flaw in flaws_of(call)] == []


@pytest.mark.parametrize(("path", "command"), LEAVES)
def test_every_command_lists_its_exit_codes(path: str, command: click.Command) -> None:
    told = inspect.cleandoc(command.help or "").split("\n\n")[-1]
    assert told.startswith("Exit 0: "), path
    assert "2: wrong use" in " ".join(told.split()) or not command.params


@pytest.mark.parametrize(("path", "command"), LEAVES)
def test_every_command_has_json_for_programmes(path: str, command: click.Command) -> None:
    assert any("--json" in option.opts for option in options_of(command)) is (path not in WITHOUT_JSON)


@pytest.mark.parametrize(("path", "command"), LEAVES)
def test_every_option_says_what_it_is_for(path: str, command: click.Command) -> None:
    silent = [option.opts[0] for option in options_of(command) if not option.help]
    assert silent == [], path


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_shows_the_example_as_it_is_typed(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"], terminal_width=120)
    assert result.exit_code == 0
    assert f"\n    rota {name}" in result.output


def test_groups_have_examples_too() -> None:
    for context, command in commands():
        if isinstance(command, click.Group):
            assert [flaw for call in rota_commands(example_of(command)) for flaw in flaws_of(call)] == [], context


def test_the_page_has_every_command_with_its_example_and_options() -> None:
    page = render_commands()
    for path, command in leaves():
        assert f"# {path}\n" in page
        assert example_of(command).splitlines()[0].strip() in page
    assert "| `--node URL` | The JSON-RPC of the node. By default `http://127.0.0.1:31548`. Or the variable" in page
