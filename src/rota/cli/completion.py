"""`rota completion`: the script with which a shell completes commands, and what it asks at every press of the key.

Theory of operation. The shell runs `rota` with a variable set and takes what it prints. Commands are loaded only when
they are run, and some bring a database or an EVM with them: too much for a key. So the completions of all of
them are in a file of the package, written by `rota docs` from the commands themselves and checked with the
documents; from it a tree of empty commands is made, and Click completes that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from rota.cli.main import COMPLETING

PROGRAMME: Final = "rota"
COMPLETIONS: Final = "completions.json"
SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that completes commands and their options in a shell.

    Keep it in a file where the shell looks for such scripts, or load it in every new shell.

    \b
    Example:
      rota completion bash > ~/.local/share/bash-completion/completions/rota
      rota completion zsh > ~/.zfunc/_rota
      rota completion fish > ~/.config/fish/completions/rota.fish

    Exit 0: printed. 2: wrong use.
    """
    kind = get_completion_class(shell)
    assert kind is not None, f"Click knows {shell}"
    completing = kind(empty_tree(), {}, PROGRAMME, COMPLETING)
    # `source` of Bash also runs Bash, to warn of old ones; where it is not installed it may still be written for.
    click.echo(completing.source_template % completing.source_vars())


def empty_tree() -> click.Group:
    """Commands that do nothing, with the names, options and values of the real ones."""
    root = click.Group(PROGRAMME)
    groups = {PROGRAMME: root}
    for path, told in json.loads(files(__package__).joinpath(COMPLETIONS).read_text(encoding="utf-8")).items():
        above, _, name = path.rpartition(" ")
        made = _command(name, told)
        groups[above].add_command(made)
        if isinstance(made, click.Group):
            groups[path] = made
    return root


def _command(name: str, told: Mapping[str, Any]) -> click.Command:
    arguments = [_argument(place, each) for place, each in enumerate(told["arguments"])]
    parameters = [*map(_option, told["options"]), *arguments]
    kind = click.Group if told["is_group"] else click.Command
    return kind(name, params=parameters, help=told["help"])


def _option(told: Mapping[str, Any]) -> click.Parameter:
    # Nothing is required while the user is still typing.
    is_flag = told["is_flag"]
    kind = None if is_flag else _kind(told)
    return click.Option(told["names"], is_flag=is_flag, multiple=told["is_multiple"], type=kind, help=told["help"])


def _argument(place: int, told: Mapping[str, Any]) -> click.Parameter:
    return click.Argument([f"argument{place}"], nargs=told["nargs"], type=_kind(told), required=False)


def _kind(told: Mapping[str, Any]) -> click.ParamType[Any]:
    if "choices" in told:
        return click.Choice(told["choices"])
    if "path" in told:
        return click.Path(file_okay=told["path"] == "file")
    return _Anything()


class _Anything(click.ParamType[str]):
    """A name, a number, JSON: nothing that a shell could know, and no file either."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Nothing."""
        return []
