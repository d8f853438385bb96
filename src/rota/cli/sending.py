"""Commands that send a transaction: its sender, its key, whether to wait for its end, and the output.

A transaction that was accepted continues when the command ends. A user who stops waiting, because the time is
over, the node is away or Ctrl-C was pressed, gets its id, so that `rota tx watch` can take over.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final, TypeVar

import click
import msgspec
from rich.console import Console
from rich.markup import escape

from rota.cli.asking import EXIT_FAILED, LIMITS, Function, NodeAt, NotKnown, asks_node, printable
from rota.cli.parameters import json_option
from rota.client import Client, ClientError, ClientLimits, Payees, Pending, Transaction, TransactionReceipt, Unreachable
from rota.model.types import RANGE_SIZE_MAX, Mode, Rotation

WITHIN_S: Final = 120.0
EXPLAIN_S: Final = 2.0
WITHIN_S_MAX: Final = 86_400.0
MILLISECONDS_PER_S: Final = 1_000

Made = TypeVar("Made")
Looks = Callable[[Client, str], Awaitable[Mapping[str, str]]]

_sender_option = click.option(
    "--from", "sender", required=True, metavar="PARTY", help="The sender: a party of the node, such as alice."
)
_key_option = click.option(
    "--key", default="", help="An idempotency key: a request that is sent again under the same key happens once."
)
new_party_option = click.option(
    "--new-party", is_flag=True, help="Pay also a party that no node has used yet: check its name first."
)
_no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait for its end: print its id.")
within_option = click.option(
    "--within",
    "within_s",
    type=click.FloatRange(0.001, WITHIN_S_MAX),
    default=WITHIN_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for its end; the transaction goes on after that.",
)


_mode_option = click.option(
    "--mode",
    type=click.Choice([each.value for each in Mode]),
    help="Who may coordinate the new contract; the domain decides which modes there are.  [default: the domain's]",
)
_rotation_option = click.option(
    "--rotation",
    type=click.Choice([each.value for each in Rotation]),
    help="Whether a coordinator stays until it fails, or leaves with its range of blocks.  [default: the node's]",
)
_range_size_option = click.option(
    "--range-size",
    type=click.IntRange(1, RANGE_SIZE_MAX),
    help="How many blocks a range has; the ranking of coordinators changes with it.  [default: the node's]",
)


def chooses_sequencing(function: Function) -> Function:
    """Options for the terms of a new contract, as `sequencing`: what `ptx_sendTransaction` takes under that name."""

    @_mode_option
    @_rotation_option
    @_range_size_option
    @wraps(function)
    def run(*, mode: str | None, rotation: str | None, range_size: int | None, **given: Any) -> None:  # noqa: ANN401
        terms = {"mode": mode, "rotation": rotation, "rangeSize": range_size}
        function(**given, sequencing={name: value for name, value in terms.items() if value is not None})

    return run


def sequencing_text(terms: Mapping[str, Any]) -> str:
    """Terms in words."""
    return f"mode {terms['mode']}, rotation {terms['rotation']}, ranges of {terms['rangeSize']} blocks"


@dataclass(frozen=True, slots=True)
class Sending:
    """One node, one sender, and the form of the output."""

    node: NodeAt
    sender: str
    key: str
    within_s: float
    as_json: bool
    waits: bool = True
    new_party: bool = False

    @property
    def limits(self) -> ClientLimits:
        """A client's, with our patience."""
        return replace(LIMITS, wait_ms=int(self.within_s * MILLISECONDS_PER_S))

    @property
    def payees(self) -> Payees:
        """Whom it may name."""
        return "any" if self.new_party else "known"

    def send(self, sent: Callable[[Client], Awaitable[Transaction]], made: Looks | None = None) -> None:
        """Have a transaction accepted, wait for its end, and print the outcome.

        `made` looks for what else came of one that is confirmed, by name.
        """

        async def run(client: Client) -> tuple[str, TransactionReceipt | None, Mapping[str, str]]:
            transaction = await sent(client)
            if not self.waits:
                transaction.detach()
                return transaction.id, None, {}
            with waiting(f"Waiting for {transaction.id}", self.as_json) as say:
                follow = f"Follow it with: rota tx watch {transaction.id}"
                try:
                    receipt = await _showing(transaction, say)
                except (Pending, Unreachable) as error:
                    raise NotKnown(f"{error}. {follow}") from None
                except asyncio.CancelledError:
                    click.echo(f"{transaction.id} goes on. {follow}", err=True)
                    raise
                more = await made(client, transaction.id) if made is not None and receipt.success else {}
            return transaction.id, receipt, more

        transaction_id, receipt, more = self.ask(run)
        if receipt is None:
            click.echo(json.dumps({"id": transaction_id}) if self.as_json else transaction_id)
        else:
            tell_end(receipt, self.as_json, more)

    def make(self, made: Callable[[Client], Awaitable[Made]], what: str) -> Made:
        """The result of a transaction that succeeded."""

        async def run(client: Client) -> Made:
            with waiting(f"Waiting for {what}", self.as_json):
                return await made(client)

        return self.ask(run)

    def ask(self, question: Callable[[Client], Awaitable[Made]]) -> Made:
        """Without an answer it is unknown whether a transaction was accepted."""
        return self.node.ask(question, sender=self.sender, limits=self.limits, unreachable=NotKnown, payees=self.payees)


def sends(function: Function) -> Function:
    """Add the options of a command that sends a transaction; the function gets `sending`."""

    @_sender_option
    @_key_option
    @_no_wait_option
    @within_option
    @asks_node
    @json_option
    @wraps(function)
    def with_sending(
        *arguments: object,
        node: NodeAt,
        sender: str,
        key: str,
        no_wait: bool,
        within_s: float,
        as_json: bool,
        **named: object,
    ) -> object:
        return function(*arguments, sending=Sending(node, sender, key, within_s, as_json, not no_wait), **named)

    return with_sending


def pays(function: Function) -> Function:
    """The same for a command with a payee: a known party, unless the user allows others."""

    @new_party_option
    @sends
    @wraps(function)
    def with_payees(*arguments: object, sending: Sending, new_party: bool, **named: object) -> object:
        return function(*arguments, sending=replace(sending, new_party=new_party), **named)

    return with_payees


def makes(function: Function) -> Function:
    """The same for a command that creates something with an address; the function gets `sending`."""

    @_sender_option
    @_key_option
    @within_option
    @asks_node
    @json_option
    @wraps(function)
    def with_sending(
        *arguments: object, node: NodeAt, sender: str, key: str, within_s: float, as_json: bool, **named: object
    ) -> object:
        return function(*arguments, sending=Sending(node, sender, key, within_s, as_json), **named)

    return with_sending


async def _showing(transaction: Transaction, say: Callable[[str], None]) -> TransactionReceipt:
    """Wait for its end; meanwhile print what it waits for, whenever that changes."""

    async def show() -> None:
        said = ""
        while True:
            await asyncio.sleep(EXPLAIN_S)
            with suppress(ClientError):
                explanation = await transaction.explain()
                text = explanation.text if explanation is not None else ""
                if text and text != said:
                    said = text
                    say(f"Waiting for {transaction.id}: {text}")

    showing = asyncio.create_task(show())
    try:
        return await transaction.ended()
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


@contextmanager
def waiting(text: str, as_json: bool) -> Iterator[Callable[[str], None]]:
    """Progress at a terminal. Messages are shown there, and elsewhere written to standard error."""
    if as_json:
        yield lambda _: None
    elif not sys.stderr.isatty():
        yield lambda said: click.echo(printable(said), err=True)
    else:
        with Console(stderr=True).status(text) as status:
            yield lambda said: status.update(escape(printable(said)))


def tell_end(receipt: TransactionReceipt, as_json: bool, more: Mapping[str, str] | None = None) -> None:
    """How a transaction ended; one that did not happen ends the command with 1."""
    if as_json:
        click.echo(json.dumps({**without_nothing(msgspec.to_builtins(receipt)), **(more or {})}))
    elif receipt.success:
        further = "".join(f", {name} {value}" for name, value in (more or {}).items())
        if receipt.late_updates:
            further += "; its update came too late, and what was asked for before it was done"
        click.echo(f"{click.style('confirmed', fg='green')}: {receipt.id}{_place(receipt)}{further}")
    else:
        reason = printable(str(receipt.failure_message))
        click.echo(f"{click.style('failed', fg='red')}: {receipt.id}: {reason}", err=True)
    if not receipt.success:
        click.get_current_context().exit(EXIT_FAILED)


def without_nothing(told: dict[str, Any]) -> dict[str, Any]:
    """Empty fields are left out, as the node does; `success` is always there."""
    return {name: value for name, value in told.items() if value not in (None, "")}


def _place(receipt: TransactionReceipt) -> str:
    block = f", block {receipt.block_number:,}" if receipt.block_number is not None else ""
    contract = f", contract {receipt.contract_address}" if receipt.contract_address else ""
    return block + contract
