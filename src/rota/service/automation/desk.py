"""The answers to triggers' questions: contract reads, transactions, and events on the chain.

A trigger's work is a generator of questions (`rota.automation.triggers`); `TriggerDesk.work` supplies the answers. A
revert by a contract is passed to the trigger (`Reverted`); a question that cannot be answered now ends the work with
`Unavailable`.

`LedgerWatch` reads the blocks since its last look: their time, their number of transactions, and the events that
triggers watch. It begins with the latest block: a trigger finds earlier tasks by listing them. A block that is taken
back is not reported; tasks that exist again are found by the next listing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rota.automation.triggers import Action, Ask, LedgerEvent, Question, Read, Reverted, Watch, Work
from rota.ledger.account import Account, CallReverted, TransactionRejected
from rota.ledger.client import Call as RpcCall
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import quantity, read_quantity
from rota.ledger.reading import Header, Log, read_header, read_logs
from rota.ledger.signatures import decode_log, decode_values, encode_signed_call
from rota.ledger.transports import RpcFailure
from rota.ports import Unavailable

QUESTIONS_MAX: Final = 10_000
LOOK_ATTEMPTS_MAX: Final = 2
LOOK_BLOCKS_MAX: Final = 1_000
BLOCKS_COUNTED_MAX: Final = 64
HEADERS_MAX: Final = 32

Answer = TypeVar("Answer")
Service = Callable[..., Awaitable[object]]


class TooManyQuestions(Exception):
    """A trigger has asked more questions than allowed."""


class TriggerDesk:
    """Answer the questions of all triggers of one node. `services` are the services that `Ask` may name."""

    def __init__(self, account: Account, services: Mapping[str, Service]) -> None:
        self.account: Final = account
        self.transactions_mined = 0
        self._services: Final = services

    async def work(self, asking: Work[Answer]) -> Answer:
        """Run a trigger's work and return its result."""
        answer: Any = None
        refusal: Reverted | None = None
        for _ in range(QUESTIONS_MAX):
            try:
                question = asking.send(answer) if refusal is None else asking.throw(refusal)
            except StopIteration as end:
                found: Answer = end.value
                return found
            answer = refusal = None
            try:
                answer = await self._answer(question)
            except Reverted as reverted:
                refusal = reverted
        raise TooManyQuestions(f"more than {QUESTIONS_MAX} questions for one answer")

    async def act(self, action: Action) -> tuple[Log, ...]:
        """Perform an action; returns the logs of its transaction. Raises `TransactionRejected` or `Unavailable`."""
        if isinstance(action, Ask):
            await self._ask(action)
            return ()
        call = encode_signed_call(action.function, action.arguments)
        receipt = await self.account.transact(action.contract, call, gas_limit=action.gas_limit)
        self.transactions_mined += 1
        return receipt.logs

    async def _answer(self, question: Question) -> object:
        match question:
            case Read(contract, function, arguments, returns):
                call = encode_signed_call(function, arguments)
                try:
                    told = await self.account.read(contract, call)
                except CallReverted as reverted:
                    raise Reverted(str(reverted)) from reverted
                except TransactionRejected as rejected:
                    raise Unavailable(f"{function} of {contract}: {rejected}") from rejected
                try:
                    values = decode_values(returns, told)
                except ValueError as error:
                    raise Unavailable(f"{function} of {contract}: {error}") from error
                return values[0] if len(values) == 1 else values
            case Ask():
                return await self._ask(question)

    async def _ask(self, question: Ask) -> object:
        service = self._services.get(question.service)
        if service is None:
            raise Unavailable(f"this node has no service {question.service!r}")
        return await service(*question.arguments)


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of a look: the times of new blocks, their number of transactions, and the watched events."""

    times_ms: tuple[int, ...] = ()
    transactions: int = 0
    events: tuple[LedgerEvent, ...] = ()


class LedgerWatch:
    """Watch the chain for all triggers of a node."""

    def __init__(self, client: RpcClient, watches: Sequence[Watch]) -> None:
        self._client: Final = client
        self._watches: Final = tuple(watches)
        self._height: int | None = None

    async def look(self) -> Looked:
        """Return the news since the last look; `Unavailable` when the chain does not answer."""
        try:
            return await self._look()
        except (RpcRefused, ValueError) as error:
            raise Unavailable(f"the chain's new events cannot be read: {error}") from error

    async def _look(self) -> Looked:
        head = read_header(
            await self._client.call("eth_getBlockByNumber", "latest", False, attempts_max=LOOK_ATTEMPTS_MAX)
        )
        if head is None:
            raise ValueError("it has no latest block")
        before, self._height = self._height, head.height
        if before is None or head.height <= before:
            return Looked()
        first = max(before + 1, head.height - LOOK_BLOCKS_MAX + 1)
        try:
            logs = await self._logs(first, head.height)
            times_ms = await self._times_ms(head, {log.height for log in logs})
            transactions = await self._count(first, head.height)
        except (Unavailable, RpcRefused, ValueError):
            self._height = before
            raise
        found = (events_in((log,), self._watches, times_ms[log.height]) for log in logs if log.height in times_ms)
        return Looked((times_ms[head.height],), transactions, tuple(event for events in found for event in events))

    async def _logs(self, first: int, last: int) -> tuple[Log, ...]:
        if not self._watches:
            return ()
        addresses = list(dict.fromkeys(watch.contract for watch in self._watches))
        wanted = {"address": addresses, "fromBlock": quantity(first), "toBlock": quantity(last)}
        return read_logs(await self._client.call("eth_getLogs", wanted, attempts_max=LOOK_ATTEMPTS_MAX))

    async def _times_ms(self, head: Header, heights: set[int]) -> dict[int, int]:
        """Return the times of the head and of blocks with events; the oldest of very many get the head's time."""
        times_ms = {head.height: head.time_s * 1_000}
        others = sorted(heights - times_ms.keys())
        for height in others[:-HEADERS_MAX]:
            times_ms[height] = times_ms[head.height]
        asked = others[-HEADERS_MAX:]
        if asked:
            calls = [RpcCall("eth_getBlockByNumber", (quantity(height), False)) for height in asked]
            together = await self._client.call_together(*calls, attempts_max=LOOK_ATTEMPTS_MAX)
            for height, told in zip(asked, together.answers, strict=True):
                header = None if isinstance(told, RpcFailure) else read_header(told)
                times_ms[height] = times_ms[head.height] if header is None else header.time_s * 1_000
        return times_ms

    async def _count(self, first: int, last: int) -> int:
        """Return the number of transactions in these blocks; of very many blocks only the latest are counted."""
        heights = range(max(first, last - BLOCKS_COUNTED_MAX + 1), last + 1)
        calls = [RpcCall("eth_getBlockTransactionCountByNumber", (quantity(height),)) for height in heights]
        together = await self._client.call_together(*calls, attempts_max=LOOK_ATTEMPTS_MAX)
        return sum(read_quantity(told) for told in together.answers if not isinstance(told, RpcFailure) and told)


def events_in(logs: Sequence[Log], watches: Sequence[Watch], ledger_ms: int = 0) -> tuple[LedgerEvent, ...]:
    """Return the watched events in these logs, in their order."""
    found = []
    for log in logs:
        for watch in watches:
            arguments = decode_log(watch.event, log) if watch.contract == log.address else None
            if arguments is not None:
                found.append(LedgerEvent(watch.contract, watch.event, arguments, log.height, ledger_ms))
    return tuple(found)
