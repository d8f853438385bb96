"""The same client without `await`: for scripts, notebooks, and programs that have no event loop of their own.

    with SyncClient("http://127.0.0.1:31548", sender="alice") as client:
        token = client.tokens.deploy(name="Coin", symbol="C", notary="alice@node1")
        receipt = token.mint("bob@node2", 5).confirmed()
        for receipt in client.receipts("accounting"):
            ...

Theory of operation. There is one implementation, the asynchronous one. A client of this face has an event loop in a
thread of its own; each of its objects stands before one of the other face, and each method runs that one's method in
the loop while its caller waits. So signatures are not written a second time: a method here is declared by naming the
one that it runs, and has its parameters. `await transaction` there is `confirmed()` here. Any thread may use
it, several at a time too; Ctrl-C ends the call that waits.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, wraps
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from rota.client.answers import DraftRecord, FullReceipt, GroupMessage, GroupRecord, TransactionReceipt
from rota.client.client import Client
from rota.client.commands import Commands
from rota.client.errors import Closed
from rota.client.feeds import Feed
from rota.client.groups import Group, GroupContract, Groups
from rota.client.jsonrpc import ClientLimits, Payees
from rota.client.ledger import Ledger, PublicContract
from rota.client.positions import SHARED, Positions
from rota.client.settlements import Draft, Settlements
from rota.client.tokens import Token, Tokens
from rota.client.transactions import Transaction
from rota.client.triggers import Triggers
from rota.model.types import IntentId

STOP_TIMEOUT_S: Final = 10.0

Item = TypeVar("Item")
Result = TypeVar("Result")
Shown = TypeVar("Shown")
Behind = TypeVar("Behind", covariant=True)
Given = TypeVar("Given")
Parameters = ParamSpec("Parameters")


class Portal:
    """An event loop in a thread of its own, and the way to have something done in it."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, name="rota client", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Something can be done in it."""
        return not self._loop.is_closed()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run it and wait for it. A caller that stops waiting, as by Ctrl-C, stops it."""
        if not self.is_open:
            work.close()
            raise Closed("this client was closed")
        assert threading.current_thread() is not self._thread, "a call in the loop's own thread never ends"
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result()
        except BaseException:
            doing.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)
        self._loop.close()


class Facing(Generic[Behind]):
    """Stands before an object of the asynchronous face."""

    def __init__(self, portal: Portal, behind: Behind) -> None:
        self._portal: Final = portal
        self._behind: Final = behind

    def __repr__(self) -> str:
        return f"Sync{self._behind!r}"


def blocking(
    method: Callable[Concatenate[Given, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Facing[Given], Parameters], Result]:
    """The same method; its caller waits for what it answers."""

    @wraps(method)
    def run(self: Facing[Given], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return self._portal.run(method(self._behind, *args, **kwargs))

    return run


def blocking_to(
    face: Callable[[Portal, Result], Shown],
    method: Callable[Concatenate[Given, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Facing[Given], Parameters], Shown]:
    """The same method; what it answers is given a face of its own."""

    @wraps(method)
    def run(self: Facing[Given], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Shown:
        return face(self._portal, self._portal.run(method(self._behind, *args, **kwargs)))

    return run


def at_once_to(
    face: Callable[[Portal, Result], Shown], method: Callable[Concatenate[Given, Parameters], Result]
) -> Callable[Concatenate[Facing[Given], Parameters], Shown]:
    """The same method, which waits for nothing on the other face either."""

    @wraps(method)
    def run(self: Facing[Given], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Shown:
        return face(self._portal, method(self._behind, *args, **kwargs))

    return run


def at_once(
    method: Callable[Concatenate[Given, Parameters], Result],
) -> Callable[Concatenate[Facing[Given], Parameters], Result]:
    """The same method, which waits for nothing and whose answer needs no other face."""

    @wraps(method)
    def run(self: Facing[Given], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return method(self._behind, *args, **kwargs)

    return run


class SyncTransaction(Facing[Transaction]):
    """A transaction that a node accepted."""

    def detach(self) -> None:
        """The program tracks its outcome elsewhere: the client does not log a failure."""
        self._behind.detach()

    confirmed = blocking(Transaction.confirmed)
    ended = blocking(Transaction.ended)
    receipt = blocking(Transaction.receipt)
    full_receipt = blocking(Transaction.full_receipt)
    explain = blocking(Transaction.explain)
    cancel = blocking(Transaction.cancel)
    resume = blocking(Transaction.resume)
    prepared = blocking(Transaction.prepared)
    leg = blocking(Transaction.leg)

    @property
    def id(self) -> str:
        """Under which the node knows it."""
        return self._behind.id

    @property
    def intent(self) -> IntentId:
        """Its id as the protocol has it: 16 bytes."""
        return self._behind.intent


def _transactions(portal: Portal, found: tuple[Transaction, ...]) -> tuple[SyncTransaction, ...]:
    return tuple(SyncTransaction(portal, each) for each in found)


class SyncToken(Facing[Token]):
    """One token, as this node's users use it."""

    mint = blocking_to(SyncTransaction, Token.mint)
    transfer = blocking_to(SyncTransaction, Token.transfer)
    transfer_from = blocking_to(SyncTransaction, Token.transfer_from)
    burn = blocking_to(SyncTransaction, Token.burn)
    burn_from = blocking_to(SyncTransaction, Token.burn_from)
    lock = blocking_to(SyncTransaction, Token.lock)
    create_transfer_lock = blocking_to(SyncTransaction, Token.create_transfer_lock)
    create_burn_lock = blocking_to(SyncTransaction, Token.create_burn_lock)
    create_mint_lock = blocking_to(SyncTransaction, Token.create_mint_lock)
    prepare_unlock = blocking_to(SyncTransaction, Token.prepare_unlock)
    prepare_burn_unlock = blocking_to(SyncTransaction, Token.prepare_burn_unlock)
    prepare_mint_unlock = blocking_to(SyncTransaction, Token.prepare_mint_unlock)
    unlock = blocking_to(SyncTransaction, Token.unlock)
    delegate_lock = blocking_to(SyncTransaction, Token.delegate_lock)
    spend_lock = blocking_to(SyncTransaction, Token.spend_lock)
    cancel_lock = blocking_to(SyncTransaction, Token.cancel_lock)
    lock_info = blocking(Token.lock_info)
    lock_id = blocking(Token.lock_id)
    balance_of = blocking(Token.balance_of)
    name = blocking(Token.name)
    symbol = blocking(Token.symbol)
    decimals = blocking(Token.decimals)
    units = blocking(Token.units)

    @property
    def address(self) -> str:
        """Its contract on the base ledger."""
        return self._behind.address


class SyncTokens(Facing[Tokens]):
    """The tokens that a node can use."""

    deploy = blocking_to(SyncToken, Tokens.deploy)
    at = at_once_to(SyncToken, Tokens.at)


class SyncGroupContract(Facing[GroupContract]):
    """A private contract in a group."""

    send = blocking_to(SyncTransaction, GroupContract.send)
    call = blocking(GroupContract.call)
    invocation = at_once(GroupContract.invocation)

    @property
    def address(self) -> str:
        """Where it is among the group's contracts."""
        return self._behind.address

    @property
    def abi(self) -> tuple[dict[str, Any], ...]:
        """What it can be asked."""
        return self._behind.abi


class SyncGroup(Facing[Group]):
    """One privacy group."""

    deploy = blocking_to(SyncGroupContract, Group.deploy)
    contract = at_once_to(SyncGroupContract, Group.contract)
    send_message = blocking(Group.send_message)
    messages = blocking(Group.messages)

    @property
    def record(self) -> GroupRecord:
        """Everything that its node reports about it."""
        return self._behind.record

    @property
    def id(self) -> str:
        """Under which its members know it."""
        return self._behind.id

    @property
    def address(self) -> str | None:
        """Its contract on the base ledger."""
        return self._behind.address

    @property
    def name(self) -> str:
        """What its members call it."""
        return self._behind.name

    @property
    def members(self) -> tuple[str, ...]:
        """Its members."""
        return self._behind.members


def _group_if_any(portal: Portal, found: Group | None) -> SyncGroup | None:
    return SyncGroup(portal, found) if found is not None else None


def _groups(portal: Portal, found: tuple[Group, ...]) -> tuple[SyncGroup, ...]:
    return tuple(SyncGroup(portal, each) for each in found)


class SyncGroups(Facing[Groups]):
    """The privacy groups of a node."""

    create = blocking_to(SyncGroup, Groups.create)
    get = blocking_to(_group_if_any, Groups.get)
    find = blocking_to(_groups, Groups.find)


class SyncPublicContract(Facing[PublicContract]):
    """A contract on the base ledger."""

    send = blocking_to(SyncTransaction, PublicContract.send)
    call = blocking(PublicContract.call)

    @property
    def address(self) -> str:
        """Where it is."""
        return self._behind.address

    @property
    def abi(self) -> tuple[dict[str, Any], ...]:
        """What it can be asked."""
        return self._behind.abi


class SyncLedger(Facing[Ledger]):
    """The base ledger of a node."""

    deploy = blocking_to(SyncPublicContract, Ledger.deploy)
    contract = at_once_to(SyncPublicContract, Ledger.contract)
    commit = blocking_to(SyncTransaction, Ledger.commit)


class SyncDraft(Facing[Draft]):
    """A transaction as it would be now; its node keeps it for a while."""

    bind = blocking_to(SyncTransaction, Draft.bind)

    @property
    def record(self) -> DraftRecord:
        """Everything that its node reports about it."""
        return self._behind.record

    @property
    def leg_name(self) -> dict[str, Any]:
        """What others are bound to."""
        return self._behind.leg_name


class SyncSettlements(Facing[Settlements]):
    """The drafts of a node, and what others show it of theirs."""

    draft = blocking_to(SyncDraft, Settlements.draft)
    examine = blocking(Settlements.examine)


class SyncTriggers(Facing[Triggers]):
    """The triggers of a node."""

    list = blocking(Triggers.list)
    pause = blocking(Triggers.pause)
    resume = blocking(Triggers.resume)
    run_once = blocking(Triggers.run_once)


class SyncCommands(Facing[Commands]):
    """The commands of one application and its parties at one node."""

    exactly_once = blocking(Commands.exactly_once)
    exactly_once_within = blocking(Commands.exactly_once_within)
    resume = blocking(Commands.resume)


class SyncFeed(Facing[Feed[Item]]):
    """An iterator over the items of a listener. It ends when it or its client is closed.

    After leaving a loop over it in the middle, close it, or use `with`.
    """

    delete = blocking(Feed.delete)
    close = blocking(Feed.aclose)

    @property
    def listener(self) -> str:
        """Under which its node keeps how far it is."""
        return self._behind.listener

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        try:
            return self._portal.run(self._behind.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class SyncClient(Facing[Client]):
    """One node. `sender` is the default sender of its calls: a party of that node, such as `alice`."""

    def __init__(
        self,
        url: str,
        limits: ClientLimits | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        sender: str = "",
        tls: ssl.SSLContext | None = None,
        positions: Positions = SHARED,
        payees: Payees = "known",
    ) -> None:
        client = Client(url, limits, headers, sender=sender, tls=tls, positions=positions, payees=payees)
        super().__init__(Portal(), client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections and of the thread, for good."""
        if self._portal.is_open:
            self._portal.run(self._behind.close())
            self._portal.close()

    # Transactions.

    send = blocking_to(SyncTransaction, Client.send)
    send_all = blocking_to(_transactions, Client.send_all)
    prepare = blocking_to(SyncTransaction, Client.prepare)
    deploy = blocking_to(SyncTransaction, Client.deploy)
    submit = blocking_to(SyncTransaction, Client.submit)
    call = blocking(Client.call)
    transaction = at_once_to(SyncTransaction, Client.transaction)
    receipt = blocking(Client.receipt)
    full_receipt = blocking(Client.full_receipt)
    explain = blocking(Client.explain)

    # What it offers, by subject.

    @cached_property
    def tokens(self) -> SyncTokens:
        """Notary tokens."""
        return SyncTokens(self._portal, self._behind.tokens)

    @cached_property
    def groups(self) -> SyncGroups:
        """Privacy groups."""
        return SyncGroups(self._portal, self._behind.groups)

    @cached_property
    def ledger(self) -> SyncLedger:
        """Public contracts on the base ledger."""
        return SyncLedger(self._portal, self._behind.ledger)

    @cached_property
    def settlements(self) -> SyncSettlements:
        """Settlements: several transactions that take effect together or not at all."""
        return SyncSettlements(self._portal, self._behind.settlements)

    @cached_property
    def triggers(self) -> SyncTriggers:
        """Automation."""
        return SyncTriggers(self._portal, self._behind.triggers)

    commands = at_once_to(SyncCommands, Client.commands)

    # Feeds.

    receipts = at_once_to(SyncFeed[TransactionReceipt], Client.receipts)
    full_receipts = at_once_to(SyncFeed[FullReceipt], Client.full_receipts)
    messages = at_once_to(SyncFeed[GroupMessage], Client.messages)

    # The node.

    status = blocking(Client.status)
    endorser_address = blocking(Client.endorser_address)
    add_contract = blocking(Client.add_contract)
    name = blocking(Client.name)
    address_of = blocking(Client.address_of)

    @property
    def positions(self) -> Positions:
        """The positions that reads must have seen at least."""
        return self._behind.positions

    @property
    def payees(self) -> Payees:
        """Whom transactions may name: known parties, or any."""
        return self._behind.payees

    ask_at_least = blocking(Client.ask_at_least)
    create_party = blocking(Client.create_party)
    ask = blocking(Client.ask)
    missing = blocking(Client.missing)

    @property
    def url(self) -> str:
        """Where the node is asked."""
        return self._behind.url

    @property
    def limits(self) -> ClientLimits:
        """How long and how often it is tried."""
        return self._behind.limits

    @property
    def sender(self) -> str:
        """The default sender of calls."""
        return self._behind.sender
