"""The subscriptions of one connection: new heads, logs, pending transactions.

A reorganisation is notified as on any chain: the logs of removed blocks are sent again with `removed: true`, the latest
first, and then the heads and logs of the new blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from rota.ledger.embedded.chain import BlockAdded, BlockRemoved, EmbeddedChain, Happening, TransactionPooled
from rota.ledger.embedded.errors import rejected
from rota.ledger.embedded.history import LogFilter, logs_of
from rota.ledger.embedded.jsonrpc import ConnectionMethod
from rota.ledger.embedded.parameters import Parameters, invalid, read_boolean, read_logs_wanted
from rota.ledger.embedded.shown import shown_header, shown_log, shown_waiting
from rota.ledger.hexadecimal import data

SUBSCRIPTIONS_MAX: Final = 128

_SUBSCRIPTION_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class NewHeads:
    pass


@dataclass(frozen=True, slots=True)
class NewLogs:
    wanted: LogFilter


@dataclass(frozen=True, slots=True)
class NewPending:
    full: bool


Topic = NewHeads | NewLogs | NewPending


class Subscriptions:
    """The subscriptions of one connection; `send` gets each notification."""

    def __init__(self, chain: EmbeddedChain, send: Callable[[dict[str, Any]], None]) -> None:
        self._chain: Final = chain
        self._send: Final = send
        self._topics: Final[dict[str, Topic]] = {}
        self._made = 0
        self._stop_listening: Final = chain.listen(self._on_happening)

    def methods(self) -> dict[str, ConnectionMethod]:
        """Return the methods that this adds to its connection."""
        return {"eth_subscribe": self._subscribe, "eth_unsubscribe": self._unsubscribe}

    def close(self) -> None:
        self._stop_listening()

    def _subscribe(self, parameters: Parameters) -> object:
        if len(self._topics) >= SUBSCRIPTIONS_MAX:
            raise rejected(f"too many subscriptions: a connection has at most {SUBSCRIPTIONS_MAX}")
        topic = _read_topic(parameters)
        self._made += 1
        subscription_id = "0x" + self._made.to_bytes(_SUBSCRIPTION_ID_BYTES, "big").hex()
        self._topics[subscription_id] = topic
        return subscription_id

    def _unsubscribe(self, parameters: Parameters) -> object:
        subscription_id = parameters.read(0, "subscription", _read_text)
        if self._topics.pop(subscription_id, None) is None:
            raise rejected("subscription not found")
        return True

    def _on_happening(self, happening: Happening) -> None:
        for subscription_id, topic in tuple(self._topics.items()):
            for result in self._results(topic, happening):
                self._send(
                    {
                        "jsonrpc": "2.0",
                        "method": "eth_subscription",
                        "params": {"subscription": subscription_id, "result": result},
                    }
                )

    def _results(self, topic: Topic, happening: Happening) -> Iterator[object]:
        match topic, happening:
            case NewHeads(), BlockAdded(block):
                yield shown_header(block)
            case NewLogs(wanted), BlockAdded(block) if wanted.may_match(block.header.bloom):
                yield from (shown_log(placed) for placed in logs_of(block, wanted))
            case NewLogs(wanted), BlockRemoved(block) if wanted.may_match(block.header.bloom):
                yield from (shown_log(placed, removed=True) for placed in reversed(list(logs_of(block, wanted))))
            case NewPending(full), TransactionPooled(waiting):
                if full:
                    yield shown_waiting(waiting, self._chain.next_base_fee_wei)
                else:
                    yield data(waiting.signed.hash)
            case _:
                return  # Nothing that this subscription is about.


def _read_topic(parameters: Parameters) -> Topic:
    name = parameters.read(0, "subscription", _read_text)
    if name == "newHeads":
        return NewHeads()
    if name == "logs":
        if not parameters.has(1):
            return NewLogs(LogFilter())
        return NewLogs(parameters.read(1, "filter", read_logs_wanted).filter)
    if name == "newPendingTransactions":
        return NewPending(parameters.read_or(1, "full", read_boolean, False))
    raise invalid("subscription", f"there is no {name[:64]!r}; there are newHeads, logs and newPendingTransactions")


def _read_text(written: object) -> str:
    if not isinstance(written, str):
        raise ValueError("expected a string")
    return written
