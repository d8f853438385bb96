"""The page of all commands, generated from the commands: the text of `--help` as a page."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

import click

from rota.cli.command_tree import commands, options_of

HEAD: Final = """# All commands

Generated from the code by `rota docs`; `--help` after any command prints the same. `rota completion` has a shell
complete them. Results go to standard output, errors to standard error. With `--json` there is one JSON
object on one line, or where things are followed one a line.

| exit code | |
|---|---|
| 0 | it is as asked for |
| 1 | not done; the text has the reason: it failed, was refused, or a node could not be reached |
| 2 | the command was used wrongly; nothing was done |
| 3 | the outcome is unknown: of commands that send transactions |
| 130 | ended by Ctrl-C |

Commands that ask a node find it at `--node`, or at `ROTA_NODE`, and send it the token of `--token-file`,
`--token` or `ROTA_TOKEN`.
"""

EXAMPLE: Final = "Example:"
BLOCK: Final = "\b"


def render_commands() -> str:
    """Every command behind its group."""
    parts = [HEAD]
    for context, command in commands():
        parts.append("\n".join(_section(context, command)))
    return "\n".join(parts)


def _section(context: click.Context, command: click.Command) -> Iterator[str]:
    depth = context.command_path.count(" ") + 1
    yield f"{'#' * depth} {context.command_path}"
    yield ""
    # The usage of a group adds nothing to that of its commands, unless the group also runs by itself.
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}"
        yield ""
    yield from _prose(command)
    rows = [_row(context, option) for option in options_of(command)]
    if rows:
        yield from ("| option | |", "|---|---|", *rows, "")


def _prose(command: click.Command) -> Iterator[str]:
    """The paragraphs of its help; examples as the shell takes them."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = paragraph.removeprefix(f"{BLOCK}\n").splitlines()
        if lines[0] == EXAMPLE:
            yield from ("```sh", *(line.removeprefix("  ") for line in lines[1:]), "```", "")
        else:
            yield from (*lines, "")


def _row(context: click.Context, option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if not option.is_flag:
        longest = max(option.opts, key=len)
        names = names.replace(f"`{longest}`", f"`{longest} {option.make_metavar(context)}`")
    notes = [option.help or ""]
    if option.required:
        notes.append("Needed.")
    if option.show_default and not option.is_flag:
        notes.append(f"By default `{option.get_default(context)}`.")
    if isinstance(option.envvar, str):
        notes.append(f"Or the variable `{option.envvar}`.")
    cells = (names, " ".join(note for note in notes if note))
    return "| {} | {} |".format(*(cell.replace("|", "\\|") for cell in cells))
