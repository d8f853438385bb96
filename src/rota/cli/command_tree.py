"""The commands as a tree, walked: for the page that lists them, and for the shell, which completes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from rota.cli.main import main


def commands() -> Iterator[tuple[click.Context, click.Command]]:
    """Every command and group below `rota`, each behind its group, as `--help` lists them; all are loaded for it."""
    root = click.Context(main, info_name="rota", color=False)
    yield from _below(root)


def _below(context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    group = context.command
    assert isinstance(group, click.Group), "only a group has commands"
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None, f"{name} is one of its commands"
        inner = click.Context(found, info_name=name, parent=context)
        yield inner, found
        if isinstance(found, click.Group):
            yield from _below(inner)


def options_of(command: click.Command) -> list[click.Option]:
    """Those that a command has of its own."""
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def arguments_of(command: click.Command) -> list[click.Argument]:
    """What it takes by place."""
    return [each for each in command.params if isinstance(each, click.Argument)]


def render_completions() -> str:
    """What the shell has to know of all commands, a line each, so that it need not load any of them."""
    lines = [
        f"{json.dumps(context.command_path)}: {json.dumps(_described(command))}" for context, command in commands()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _described(command: click.Command) -> dict[str, object]:
    return {
        "help": command.get_short_help_str(),
        "is_group": isinstance(command, click.Group),
        "options": [_described_option(each) for each in options_of(command)],
        "arguments": [{"nargs": each.nargs, **_values(each.type)} for each in arguments_of(command)],
    }


def _described_option(option: click.Option) -> dict[str, object]:
    return {
        "names": [*option.opts, *option.secondary_opts],
        "help": option.help or "",
        "is_flag": option.is_flag,
        "is_multiple": option.multiple,
        **_values(option.type),
    }


def _values(kind: click.ParamType[Any]) -> dict[str, object]:
    """The completions of a value: one of a few words, or the name of a file or folder."""
    if isinstance(kind, click.Choice):
        return {"choices": [str(each) for each in kind.choices]}
    if isinstance(kind, click.Path):
        return {"path": "file" if kind.file_okay else "folder"}
    return {}
