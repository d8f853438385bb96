"""`rota tx`: transactions, sent through a node and followed to their end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import click
import msgspec
from rich.table import Table
from rich.text import Text

from rota.cli.asking import NodeAt, NotDone, NotKnown, asks_node, printable, tell
from rota.cli.parameters import Address, HexText, Json, json_lines_option, json_option
from rota.cli.sending import (
    MILLISECONDS_PER_S,
    WITHIN_S_MAX,
    Sending,
    chooses_sequencing,
    pays,
    tell_end,
    without_nothing,
)
from rota.cli.tables import table_console
from rota.cli.timeline import lines_of, moment, time_of, waits
from rota.client import Client, Explanation, LeafDependency, TransactionReceipt, Unreachable
from rota.client.dependencies import as_json
from rota.model.types import ContractAddress

LIST_DEFAULT: Final = 20
LIST_MAX: Final = 1_000
LOOK_MS: Final = 250
LOOK_MS_MIN: Final = 10
LOOK_MS_MAX: Final = 60_000
LOOKS_UNANSWERED_MAX: Final = 60
SHOWN_ID_CHARACTERS: Final = 36
STYLES: Final = {"pending": "yellow", "confirmed": "green", "failed": "red"}

id_argument = click.argument("transaction_id", metavar="ID", type=click.UUID)


@click.group()
def command() -> None:
    """Send transactions through a node, and follow them to their end.

    \b
    Example:
      rota tx list --pending
      rota tx explain 01234567-89ab-cdef-0123-456789abcdef
    """


# Sending.


@command.command()
@click.option("--to", type=Address(), help="The contract; left out, a contract is deployed.")
@click.option("--function", default="", help="Its name, or its signature where several have the name.")
@click.option("--data", type=Json(), metavar="JSON", help="Its arguments, a list or an object; @FILE reads a file.")
@click.option("--domain", default="", help="What kind of private contract is deployed: noto, pente, or another.")
@click.option("--public", is_flag=True, help="On the base ledger, visible to all; otherwise it is private.")
@click.option("--abi", type=Json(), metavar="JSON", help="The ABI of a public contract; @FILE reads a file.")
@click.option("--bytecode", type=HexText(), help="Of a public contract that is deployed; @FILE reads a file.")
@click.option(
    "--depends-on", "dependencies", type=click.UUID, multiple=True, help="A transaction that must succeed first."
)
@chooses_sequencing
@click.option(
    "--depends-on-leaf",
    "leaves",
    type=(Address(), click.UUID, HexText()),
    multiple=True,
    metavar="CONTRACT ID LEAF",
    help="A private transaction of another node that must be committed first.",
)
@pays
def send(
    sending: Sending,
    to: ContractAddress | None,
    function: str,
    data: object,
    domain: str,
    public: bool,
    abi: object,
    bytecode: str | None,
    dependencies: tuple[UUID, ...],
    sequencing: Mapping[str, object],
    leaves: tuple[tuple[ContractAddress, UUID, str], ...],
) -> None:
    """Send a transaction, and wait for its end.

    --mode, --rotation and --range-size are of the deployment of a private contract.

    \b
    Example:
      rota tx send --from alice --to 0x5fbdb2315678afecb367f032d93f642f64180aa3 \\
        --function transfer --data '{"to": "bob@node2", "amount": "5", "data": "0x"}'
      rota tx send --from alice --domain noto --data @constructor.json --key "our token" --no-wait

    Exit 0: it is confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """
    if to is None and not domain and not public:
        raise click.UsageError("Name the contract with --to, or with --domain what kind is to be deployed.")
    wanted = {
        "type": "public" if public else "private",
        "from": sending.sender,
        "to": to,
        "function": function,
        "data": data,
        "domain": domain,
        "abi": abi,
        "bytecode": bytecode,
        "dependsOn": as_json(
            (*map(str, dependencies), *(LeafDependency(at, str(each), leaf) for at, each, leaf in leaves))
        ),
        "payees": "" if public else sending.payees,
        "sequencing": sequencing or None,
    }
    given = {name: value for name, value in wanted.items() if value not in (None, "", [])}
    sending.send(lambda client: client.submit("ptx_sendTransaction", given, sending.key))


@command.command()
@id_argument
@asks_node
@json_option
def cancel(transaction_id: UUID, node: NodeAt, as_json: bool) -> None:
    """Give a transaction up, as long as that is possible.

    Its receipt then shows that it was cancelled; `rota tx watch` waits for it.

    \b
    Example:
      rota tx cancel 01234567-89ab-cdef-0123-456789abcdef

    Exit 0: it will end without having happened. 1: it is too late, or the node could not be reached. 2: wrong use.
    """
    node.ask(lambda client: client.transaction(str(transaction_id)).cancel())
    tell(as_json, {"id": str(transaction_id), "cancelled": True}, lambda: f"{transaction_id} is given up.")


@command.command()
@id_argument
@asks_node
@json_option
def resume(transaction_id: UUID, node: NodeAt, as_json: bool) -> None:
    """Let a parked transaction go on.

    \b
    Example:
      rota tx resume 01234567-89ab-cdef-0123-456789abcdef

    Exit 0: it goes on. 1: it is not parked, or the node could not be reached. 2: wrong use.
    """
    node.ask(lambda client: client.transaction(str(transaction_id)).resume())
    tell(as_json, {"id": str(transaction_id), "resumed": True}, lambda: f"{transaction_id} goes on.")


# Transactions that are set aside.


@command.command()
@asks_node
@json_option
def aside(node: NodeAt, as_json: bool) -> None:
    """Show public transactions that were set aside, because the node's database was wound back.

    Each was accepted before that and may have happened since. Look for it on the chain, by its account and recipient.
    With --json as `ptx_querySetAside` answers.

    \b
    Example:
      rota tx aside

    Exit 0: shown. 1: the node did not tell, or could not be reached. 2: wrong use.
    """
    found = node.ask(lambda client: client.ask("ptx_querySetAside", is_repeatable=True))
    assert isinstance(found, list), "the method answers a list"
    tell(as_json, found, lambda: "\n".join(map(_described_aside, found)) or "Nothing is set aside.")


def _described_aside(found: Mapping[str, Any]) -> str:
    nonce = "no nonce" if found.get("nonce") is None else f"nonce {found['nonce']}"
    what = f"{found['value']} wei to {found.get('to') or 'a new contract'}"
    return f"{found['id']}  {found['from']} ({found['account']}, {nonce}): {what}\n  {found['reason']}"


@command.command()
@id_argument
@asks_node
@json_option
def release(transaction_id: UUID, node: NodeAt, as_json: bool) -> None:
    """Let a public transaction go on that was set aside.

    Only when you have made sure that it has not happened: one that has happens a second time.

    \b
    Example:
      rota tx release 01234567-89ab-cdef-0123-456789abcdef

    Exit 0: it goes on. 1: it is not set aside, or the node could not be reached. 2: wrong use.
    """
    node.ask(lambda client: client.ask("ptx_releaseSetAside", str(transaction_id)))
    tell(as_json, {"id": str(transaction_id), "released": True}, lambda: f"{transaction_id} goes on.")


@command.command()
@id_argument
@asks_node
@json_option
def drop(transaction_id: UUID, node: NodeAt, as_json: bool) -> None:
    """End a public transaction that was set aside.

    Its receipt states that it was dropped and may have happened before. Nothing is taken back.

    \b
    Example:
      rota tx drop 01234567-89ab-cdef-0123-456789abcdef

    Exit 0: it ends. 1: it is not set aside, or the node could not be reached. 2: wrong use.
    """
    node.ask(lambda client: client.ask("ptx_dropSetAside", str(transaction_id)))
    tell(as_json, {"id": str(transaction_id), "dropped": True}, lambda: f"{transaction_id} is dropped.")


# Looking.


@command.command()
@id_argument
@asks_node
@json_option
def show(transaction_id: UUID, node: NodeAt, as_json: bool) -> None:
    """Show the request of a transaction, and how it ended.

    With --json as `ptx_getTransactionFull` answers.

    \b
    Example:
      rota tx show 01234567-89ab-cdef-0123-456789abcdef

    Exit 0: shown. 1: the node does not know it, or could not be reached. 2: wrong use.
    """
    found = node.ask(lambda client: client.ask("ptx_getTransactionFull", str(transaction_id), is_repeatable=True))
    if not isinstance(found, dict):
        raise NotDone(_unknown(node, transaction_id))
    tell(as_json, found, lambda: "\n".join(_described(found)))


def _described(found: Mapping[str, Any]) -> Iterator[str]:
    receipt = found.get("receipt") or {}
    told = {
        "Transaction": found["id"],
        "Accepted": found["created"],
        "Type": f"{found['type']} {found.get('domain', '')}".strip(),
        "From": found.get("from"),
        "To": found.get("to"),
        "Function": found.get("function"),
        "Data": json.dumps(found["data"]) if found.get("data") is not None else None,
        "Key": found.get("idempotencyKey"),
        "State": _state(found),
        "Reason": receipt.get("failureMessage"),
        "Contract": receipt.get("contractAddress"),
        "Block": receipt.get("blockNumber"),
        "On ledger": receipt.get("transactionHash"),
        "Ended": receipt.get("indexed"),
    }
    for name, value in told.items():
        if value not in (None, ""):
            yield f"{name:<12} {printable(str(value))}"


def _state(found: Mapping[str, Any]) -> str:
    receipt = found.get("receipt")
    if not receipt:
        return "pending"
    return "confirmed" if receipt.get("success") else "failed"


@command.command()
@id_argument
@asks_node
@json_option
def explain(transaction_id: UUID, node: NodeAt, as_json: bool) -> None:
    """Explain where a transaction is, what it waits for, since when, and which node blocks it.

    Below that is its history, as a time line. With --json as `seq_explain` answers.

    \b
    Example:
      rota tx explain 01234567-89ab-cdef-0123-456789abcdef

    Exit 0: explained. 1: the node does not know it, or could not be reached. 2: wrong use.
    """
    found = node.ask(lambda client: client.explain(str(transaction_id)))
    if found is None:
        raise NotDone(_unknown(node, transaction_id))
    told = without_nothing(msgspec.to_builtins(found))
    tell(as_json, told, lambda: "\n".join(lines_of(found, datetime.now(UTC))))


@command.command(name="list")
@click.option("--pending", is_flag=True, help="Only those that have not ended.")
@click.option("--from", "sender", default="", help="Only those of this party, such as alice@node1.")
@click.option("--to", type=Address(), help="Only those of this contract.")
@click.option(
    "--limit", type=click.IntRange(1, LIST_MAX), default=LIST_DEFAULT, show_default=True, help="How many at most."
)
@asks_node
@json_option
def list_(pending: bool, sender: str, to: ContractAddress | None, limit: int, node: NodeAt, as_json: bool) -> None:
    """List the transactions of a node, the latest first.

    With --json as `ptx_queryTransactionsFull` answers.

    \b
    Example:
      rota tx list --from alice@node1 --limit 5
      rota tx list --pending

    Exit 0: listed. 1: the node did not tell, or could not be reached. 2: wrong use.
    """
    wanted = {"from": sender, "to": to}
    query = {"limit": limit, "eq": [{"field": name, "value": value} for name, value in wanted.items() if value]}

    async def ask(client: Client) -> list[dict[str, Any]]:
        if pending:
            found = await client.ask("ptx_queryPendingTransactions", query, True, is_repeatable=True)
        else:
            found = await client.ask("ptx_queryTransactionsFull", query, is_repeatable=True)
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    found = node.ask(ask)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print_list(found)


def _print_list(found: list[dict[str, Any]]) -> None:
    if not found:
        click.echo("There is none.")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("id", no_wrap=True, min_width=SHOWN_ID_CHARACTERS)
    # The first column is whole, also in a terminal of 80 columns.
    for name, width in (("accepted", 14), ("state", 9), ("function", 10), ("from", 12), ("to", 0)):
        table.add_column(name, overflow="ellipsis", no_wrap=True, min_width=width)
    for each in found:
        what = each.get("function") or ("deployment" if not each.get("to") else "")
        # A signature is known by its name.
        cells = (what.partition("(")[0], each.get("from", ""), each.get("to", ""))
        table.add_row(
            each["id"],
            f"{time_of(each['created']):%m-%d %H:%M:%S}",
            Text(_state(each), STYLES[_state(each)]),
            *(Text(str(cell)) for cell in cells),
        )
    table_console().print(table)


def _unknown(node: NodeAt, transaction_id: UUID) -> str:
    return f"{node.url} does not know a transaction {transaction_id}: ask the node that it was sent to"


# Watching.


@command.command()
@id_argument
@click.option(
    "--within",
    "within_s",
    type=click.FloatRange(0.001, WITHIN_S_MAX),
    metavar="SECONDS",
    help="How long to watch at most; left out, until it ends.",
)
@click.option(
    "--look-ms",
    type=click.IntRange(LOOK_MS_MIN, LOOK_MS_MAX),
    default=LOOK_MS,
    show_default=True,
    help="Between two looks.",
)
@asks_node
@json_lines_option
def watch(transaction_id: UUID, within_s: float | None, look_ms: int, node: NodeAt, as_json: bool) -> None:
    """Follow a transaction live until it ends: each step, its time, and what it waits for.

    The exit code shows how it ended. A node that is away meanwhile is asked again.

    \b
    Example:
      rota tx watch 01234567-89ab-cdef-0123-456789abcdef
      rota tx watch 01234567-89ab-cdef-0123-456789abcdef --within 60 --json

    Exit 0: it is confirmed. 1: it did not happen. 2: wrong use. 3: it is not known: it has not ended in time, or the
    node does not know it or could not be reached.
    """
    watcher = Watcher(str(transaction_id), _tell_line if as_json else click.echo, as_json)

    async def run(client: Client) -> TransactionReceipt | None:
        return await watcher.follow(client, within_s, look_ms)

    receipt = node.ask(run, unreachable=NotKnown)
    if receipt is None and not watcher.is_known:
        raise NotKnown(_unknown(node, transaction_id))
    if receipt is None:
        raise NotKnown(f"{transaction_id} has not ended within {within_s:g} s, and goes on")
    tell_end(receipt, as_json)


def _tell_line(told: object) -> None:
    click.echo(json.dumps(told))


class Watcher:
    """Prints each step of the history once, and the reason of a wait when it changes."""

    def __init__(self, transaction_id: str, told: Callable[[Any], None], as_json: bool) -> None:
        self.is_known = False
        self._id: Final = transaction_id
        self._tell: Final = told
        self._as_json: Final = as_json
        self._first: datetime | None = None
        self._latest: datetime | None = None
        self._seen: Final[set[tuple[str, str]]] = set()
        self._waits = ""

    async def follow(self, client: Client, within_s: float | None, look_ms: int) -> TransactionReceipt | None:
        """Its receipt; nothing when it has not ended in time, or is not known."""
        deadline_s = None if within_s is None else time.monotonic() + within_s
        unanswered = 0
        while deadline_s is None or time.monotonic() < deadline_s:
            try:
                explanation = await client.explain(self._id)
                receipt = await client.receipt(self._id)
                unanswered = 0
            except Unreachable as error:
                unanswered += 1
                if not self.is_known or unanswered > LOOKS_UNANSWERED_MAX:
                    raise
                explanation, receipt = None, None
                self._tell_waiting(f"the node does not answer: {error}")
            else:
                if explanation is None:
                    return None
                self.is_known = True
                self._tell_news(explanation)
            if receipt is not None:
                return receipt
            await asyncio.sleep(look_ms / MILLISECONDS_PER_S)
        return None

    def _tell_news(self, explanation: Explanation) -> None:
        """A transaction that has ended has a shorter history: steps older than the latest one were printed."""
        for line in explanation.history:
            at = time_of(line.at)
            is_old = self._latest is not None and at < self._latest
            if is_old or (line.at, line.text) in self._seen:
                continue
            self._first = self._first or at
            self._latest = at
            self._seen.add((line.at, line.text))
            self._tell({"at": line.at, "event": line.text} if self._as_json else moment(at, self._first, line.text))
        self._tell_waiting(waits(explanation))

    def _tell_waiting(self, text: str) -> None:
        if text and text != self._waits:
            at = f"{datetime.now(UTC).isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"
            self._tell({"at": at, "waiting": text} if self._as_json else f"{'':>28}{text}")
        self._waits = text
