"""A running node as commands ask it: its address, the token, and the errors of a request that fails.

Every command that asks a node has `--node`, `--token`, `--token-file` and `--ca`, and takes them from the environment
too. An error is one line and an exit code: 1 when the node refuses or cannot be reached; where a transaction is
at stake and its outcome is unknown, 3.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from rota.cli.interruption import interruptible
from rota.cli.parameters import NodeUrl
from rota.client import Client, ClientLimits, Failed, Payees, Pending, Refused, Unreachable, Unsettled, bearer, trusting
from rota.client.errors import KEY_USED, NOT_AUTHORISED, UNKNOWN_METHOD
from rota.keys.files import KeyFileError, read_private

URL_DEFAULT: Final = "http://127.0.0.1:31548"
URL_VARIABLE: Final = "ROTA_NODE"
TOKEN_VARIABLE: Final = "ROTA_TOKEN"
CA_VARIABLE: Final = "ROTA_CA"
EXIT_FAILED: Final = 1
EXIT_UNKNOWN: Final = 3
LIMITS: Final = ClientLimits(attempts_max=3)

Answer = TypeVar("Answer")
Function = Callable[..., Any]

_url_option = click.option(
    "--node",
    "url",
    type=NodeUrl(),
    metavar="URL",
    envvar=URL_VARIABLE,
    show_envvar=True,
    default=URL_DEFAULT,
    show_default=True,
    help="The JSON-RPC of the node.",
)
_token_option = click.option(
    "--token",
    "shown_token",  # not `token`, which is what some commands are about
    envvar=TOKEN_VARIABLE,
    show_envvar=True,
    help="The token that the node asks for. Other users of the machine see it in the list of processes.",
)
_token_file_option = click.option(
    "--token-file", type=click.Path(dir_okay=False, path_type=Path), help="A file of mode 600 with that token."
)


_ca_option = click.option(
    "--ca",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar=CA_VARIABLE,
    show_envvar=True,
    help="Trust the certificates in this PEM file, such as the node's own, instead of the system's.",
)


def printable(text: str, *, keeps_lines: bool = False) -> str:
    """Text with reasons and names of other organisations, for a terminal.

    A control sequence in a contract's reason could erase "failed" and write "confirmed" in its place.
    """
    return "".join(each if each.isprintable() or (keeps_lines and each == "\n") else "?" for each in text)


class _OneLine(click.ClickException):
    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class NotDone(_OneLine):
    """The node did not do it."""

    exit_code = EXIT_FAILED


class NotKnown(_OneLine):
    """No node can report whether it will happen."""

    exit_code = EXIT_UNKNOWN


@dataclass(frozen=True, slots=True)
class NodeAt:
    """The address of a node, and the credentials for it."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None = None

    def ask(
        self,
        question: Callable[[Client], Awaitable[Answer]],
        *,
        sender: str = "",
        limits: ClientLimits = LIMITS,
        unreachable: type[NotDone | NotKnown] = NotDone,
        payees: Payees = "known",
    ) -> Answer:
        """Return the result; `NotDone` if the node refuses, `unreachable` if it does not answer."""

        async def run() -> Answer:
            async with Client(self.url, limits, self.headers, sender=sender, tls=self.tls, payees=payees) as client:
                return await question(client)

        try:
            return asyncio.run(interruptible(lambda _: run()))
        except Refused as refused:
            raise NotDone(f"{self.url}: {refused}{_hint(refused)}") from refused
        except Failed as failed:
            raise NotDone(f"failed: {failed}") from failed
        except Pending as pending:
            raise NotKnown(str(pending)) from pending
        except Unreachable as error:
            told = str(error) if str(error).startswith(self.url) else f"{self.url}: {error}"
            if isinstance(error, Unsettled) and "transactionId" in error.details:
                told += f". See what it is with: rota tx show {error.details['transactionId']}"
            raise unreachable(told) from error


def _hint(refused: Refused) -> str:
    """What helps the user of a terminal beyond the node's own sentence."""
    if refused.code == NOT_AUTHORISED:
        return f" (see --token, --token-file and {TOKEN_VARIABLE})"
    if refused.code == UNKNOWN_METHOD:
        return " (is this the JSON-RPC of a Rota node? An Ethereum node answers like this)"
    first = refused.details.get("first")
    if refused.code == KEY_USED and first:
        return f": {json.dumps(first)}. Nothing was sent; use another --key for another transaction"
    return ""


def shows_token(function: Function) -> Function:
    """Adds the options for a token; the function gets `headers`."""

    @_token_option
    @_token_file_option
    @wraps(function)
    def with_headers(*arguments: object, shown_token: str | None, token_file: Path | None, **named: object) -> object:
        context = click.get_current_context()
        is_typed = context.get_parameter_source("shown_token") is ParameterSource.COMMANDLINE
        if token_file is not None and is_typed:
            raise click.UsageError("--token and --token-file contradict each other.")
        if token_file is not None:
            try:
                shown_token = read_private(token_file).reveal().decode(errors="replace").strip()
            except KeyFileError as error:
                raise click.ClickException(str(error)) from error
        return function(*arguments, headers=dict(bearer(shown_token)) if shown_token else {}, **named)

    return with_headers


def trusts_ca(function: Function) -> Function:
    """Adds the option for whose certificates are trusted; the function gets `tls`."""

    @_ca_option
    @wraps(function)
    def with_tls(*arguments: object, ca: Path | None, **named: object) -> object:
        try:
            tls = trusting(ca) if ca is not None else None
        except (OSError, ValueError) as error:
            raise click.ClickException(f"--ca: {ca}: {error}") from error
        return function(*arguments, tls=tls, **named)

    return with_tls


def asks_node(function: Function) -> Function:
    """Adds the options for a node and a token; the function gets `node`."""

    @_url_option
    @shows_token
    @trusts_ca
    @wraps(function)
    def with_node(
        *arguments: object, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None, **named: object
    ) -> object:
        return function(*arguments, node=NodeAt(url, headers, tls), **named)

    return with_node


def tell(as_json: bool, found: object, in_words: Callable[[], str]) -> None:
    """For a programme, or for a person."""
    click.echo(json.dumps(found) if as_json else printable(in_words(), keeps_lines=True))
