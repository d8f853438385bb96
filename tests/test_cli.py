"""The `rota` command as a person meets it: help, version, wrong use, Ctrl-C."""

import sys
from importlib.metadata import version
from types import ModuleType

import click
import pytest
from click.testing import CliRunner, Result

from rota.cli.main import COMMANDS, LazyCommand, LazyGroup, main


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> LazyGroup:
    """A group with commands of a module that exists in this test alone."""
    module = ModuleType("commands_of_this_test")

    @click.command()
    @click.option("--times", type=int, default=1)
    def greet(times: int) -> None:
        """Say hello."""
        click.echo("hello " * times)

    @click.command()
    def wait() -> None:
        """Wait for a Ctrl-C, which comes at once."""
        raise KeyboardInterrupt

    module.__dict__.update(greet=greet, wait=wait, not_a_command=object())
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return LazyGroup(
        name="rota",
        registry={
            "greet": LazyCommand("commands_of_this_test:greet", "Say hello."),
            "wait": LazyCommand("commands_of_this_test:wait", "Wait."),
            "wrong": LazyCommand("commands_of_this_test:not_a_command", "Is no command."),
            "absent": LazyCommand("no_such_module_anywhere:command", "Was forgotten."),
        },
    )


def run(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, prog_name="rota")


def test_help_says_what_rota_is_and_lists_every_command() -> None:
    result = run(main, "--help")
    assert result.exit_code == 0
    assert "Rota puts private transactions in order on an Ethereum ledger." in result.output
    for name, entry in COMMANDS.items():
        assert f"  {name}" in result.output
        assert entry.short_help in result.output


def test_help_imports_no_command(group: LazyGroup) -> None:
    result = run(group, "--help")
    assert result.exit_code == 0
    assert "Was forgotten." in result.output


def test_version_is_that_of_the_installed_package() -> None:
    result = run(main, "--version")
    assert (result.exit_code, result.output) == (0, f"rota {version('rota')}\n")


def test_every_registered_command_stands_in_a_module_of_its_own_name() -> None:
    assert {name: entry.target for name, entry in COMMANDS.items()} == {
        name: f"rota.cli.{name}:command" for name in COMMANDS
    }


def test_commands_are_listed_in_the_order_of_the_registry(group: LazyGroup) -> None:
    assert group.list_commands(click.Context(group)) == ["greet", "wait", "wrong", "absent"]


def test_command_runs_with_its_options(group: LazyGroup) -> None:
    result = run(group, "greet", "--times", "2")
    assert (result.exit_code, result.output) == (0, "hello hello \n")


def test_help_of_a_command_is_its_own(group: LazyGroup) -> None:
    result = run(group, "greet", "--help")
    assert result.exit_code == 0
    assert "Usage: rota greet [OPTIONS]" in result.output


@pytest.mark.parametrize(
    "arguments",
    [(), ("no-such-command",), ("--no-such-option",), ("greet", "--no-such-option"), ("greet", "--times", "many")],
)
def test_wrong_use_exits_with_2(group: LazyGroup, arguments: tuple[str, ...]) -> None:
    result = run(group, *arguments)
    assert result.exit_code == 2
    assert "Usage: rota" in result.stderr
    assert result.stdout == ""


def test_interrupt_exits_with_130_and_one_line(group: LazyGroup) -> None:
    result = run(group, "wait")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "Interrupted: stopped by Ctrl-C.\n"


def test_missing_module_is_a_programming_error(group: LazyGroup) -> None:
    assert isinstance(run(group, "absent").exception, ModuleNotFoundError)


def test_registered_object_that_is_no_command_is_a_programming_error(group: LazyGroup) -> None:
    assert isinstance(run(group, "wrong").exception, AssertionError)
