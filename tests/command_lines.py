"""Command lines as documents and files show them, held against the real command tree without running anything."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import click

from rota.cli.main import main

ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*")
SEPARATORS: Final = frozenset(";&|()")
REDIRECTIONS: Final = frozenset("<>")
# What may stand before a command and run it.
PREFIXES: Final = frozenset({"exec", "nohup", "sudo"})
# A reader puts something of his own in its place, so that it has no type; or it names a file, which is not there.
PLACEHOLDER: Final = re.compile(r"…|\.\.\.|\$|^[A-Z_]+$|^@")


def simple_commands(text: str) -> Iterator[list[str]]:
    """Every simple command of a piece of shell, as its words; without comments, assignments and what is redirected."""
    words: list[str] = []
    is_redirected = False
    for token in _tokens(text.replace("\\\n", " ")):
        if is_redirected or set(token) <= REDIRECTIONS:
            is_redirected = not is_redirected
        elif not set(token) <= SEPARATORS:
            words.append(token)
        elif words:
            yield _bare(words)
            words = []


def rota_commands(text: str) -> list[list[str]]:
    """The arguments of every call of `rota` in a piece of shell."""
    return [words[1:] for words in simple_commands(text) if words and words[0].rpartition("/")[2] == "rota"]


def flaws_of(arguments: Sequence[str]) -> list[str]:
    """What `rota` would refuse of these arguments before it did anything, except that a file is not there."""
    command: click.Command = main
    context = click.Context(main, info_name="rota")
    rest = list(arguments)
    while isinstance(command, click.Group):
        if rest in (["--version"], ["--help"]):
            return []
        found = command.get_command(context, rest[0]) if rest else None
        if found is None:
            if command.invoke_without_command:
                break
            return [f"{context.command_path} has no command {rest[0] if rest else '(none)'}"]
        context, command, rest = click.Context(found, parent=context, info_name=rest[0]), found, rest[1:]
    if "--help" in rest:
        return []
    try:
        values, surplus, _ = command.make_parser(context).parse_args(args=rest)
    except click.UsageError as error:
        return [f"{context.command_path}: {error.format_message()}"]
    flaws = [f"{context.command_path}: nothing takes {word}" for word in surplus]
    return flaws + [flaw for parameter in command.params for flaw in _flaws_of_value(parameter, values, context)]


def _flaws_of_value(parameter: click.Parameter, values: dict[str, object], context: click.Context) -> Iterator[str]:
    value = values.get(parameter.name or "")
    # What was left out is None, an empty list or a mark of click's own.
    if not isinstance(value, str | bool | int | list | tuple) or value in ((), []):
        if parameter.required:
            yield f"{context.command_path}: {parameter.human_readable_name} is missing"
        return
    if isinstance(parameter.type, click.Path | click.File) or any(map(_is_placeholder, _words(value))):
        return
    try:
        parameter.type_cast_value(context, value)
    except click.UsageError as error:
        yield f"{context.command_path}: {error.format_message()}"


def _tokens(text: str) -> Iterator[str]:
    """Words and separators; a line ends a command unless a quotation goes on in the next."""
    begun = ""
    for line in text.splitlines():
        begun = f"{begun}\n{line}" if begun else line
        lexer = shlex.shlex(begun, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:  # no closing quotation yet
            continue
        yield from (*tokens, ";")
        begun = ""
    assert not begun, f"a quotation is never closed: {begun}"


def _words(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]


def _is_placeholder(word: str) -> bool:
    return PLACEHOLDER.search(word) is not None


def _bare(words: list[str]) -> list[str]:
    """Without what stands before the command itself."""
    rest = list(words)
    while rest and (ASSIGNMENT.fullmatch(rest[0]) or rest[0] in PREFIXES):
        is_as_somebody = rest[0] == "sudo" and rest[1:2] == ["-u"]
        rest = rest[3 if is_as_somebody else 1 :]
    return rest
