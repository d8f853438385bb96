"""The context of a step: node, contract, time and height, timers, and the outbox of effects and records."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field

from rota.machine.effects import Effect, Persist, Record, SendMessage
from rota.machine.tables import Event, Handler
from rota.machine.timers import Timers
from rota.model.config import Config
from rota.model.digests import domain_separator
from rota.model.types import Contract, NodeName, RequestId
from rota.wire.messages import Envelope, Message, Reply

BACKOFF_STEPS_MAX = 32
VALIDITY_MARGIN_S = 60


class Ids:
    """The ids of one run of a node: a later one, of any contract and also after a restart, is greater."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self._counter = 0

    def next(self) -> RequestId:
        """Return a fresh id."""
        self._counter += 1
        return RequestId(self.incarnation, self._counter)


@dataclass(slots=True)
class StepContext:
    """The time and place of a step, and its outbox. Only the sequencer advances it."""

    node: NodeName
    ids: Ids
    contract: Contract
    config: Config
    now_ms: int = 0
    height: int = 0
    chain_time_s: int = 0
    has_ledger: bool = True
    effects: list[Effect] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    posted: deque[tuple[Handler, Event]] = field(default_factory=deque)
    timers: Timers = field(default_factory=Timers)
    separator: bytes = field(init=False)
    insiders: frozenset[NodeName] | None = field(init=False)
    speaks_to_itself: bool = False

    def __post_init__(self) -> None:
        contract = self.contract
        self.separator = domain_separator(contract.chain_id, contract.address)
        self.insiders = contract.insiders

    @property
    def incarnation(self) -> int:
        """The number of this node's present run."""
        return self.ids.incarnation

    @property
    def block_range(self) -> int:
        """The range that this node's index is in."""
        return self.contract.range_at(self.height)

    @property
    def has_part(self) -> bool:
        """Whether this node coordinates or endorses here; other nodes have at most intents here."""
        return self.node in self.contract.committee or self.node in self.contract.endorsers

    def latest_valid_until_s(self, is_prepared: bool) -> int:
        """Return until when another node's transition may be valid; its index may be a little ahead (ledger)."""
        validity_s = self.config.prepared_validity_s if is_prepared else self.config.validity_s
        return self.chain_time_s + validity_s + VALIDITY_MARGIN_S

    def next_id(self) -> RequestId:
        """A fresh id; a later one, or one after a restart, is greater."""
        return self.ids.next()

    def send(self, peer: NodeName, message: Message) -> None:
        """Send a message to a node, with the author's data that every message carries (protocol §4, §6)."""
        ids = self.ids
        envelope = Envelope(
            self.contract.address,
            ids.next(),
            ids.incarnation,
            self.height,
            message,
            not self.has_ledger,
            message.in_reply_to if isinstance(message, Reply) else None,
        )
        self.effects.append(SendMessage(peer, envelope))
        if peer == self.node:
            self.speaks_to_itself = True

    def post(self, machine: Handler, event: Event) -> None:
        """Give a machine an event after the present one."""
        self.posted.append((machine, event))

    def persist(self, record: Record) -> None:
        """Have a record written: no other effect of this step or of a later one leaves before it is durable."""
        self.records.append(record)

    def after(self, delay_ms: int) -> int:
        """Return the time after this delay."""
        return self.now_ms + delay_ms

    def next_beat_ms(self) -> int:
        """Return the next beat of this node's clock, common to its contracts, so that a peer gets one frame (§6)."""
        return (self.now_ms // self.config.heartbeat_ms + 1) * self.config.heartbeat_ms

    def backoff_ms(self, attempt: int, first_ms: int, most_ms: int, growth: float = 2.0) -> int:
        """A growing delay with up to a quarter of jitter, the same for the same seed."""
        delay_ms = min(first_ms * growth ** min(attempt, BACKOFF_STEPS_MAX), most_ms)
        seed = f"{self.node}/{self.ids.next()}".encode()
        fraction = hashlib.sha256(seed).digest()[0] / 1024
        return int(delay_ms * (1 - fraction))

    def retry_delay_ms(self, attempt: int) -> int:
        """The delay before a failed attempt is repeated, the first being 0."""
        return self.backoff_ms(attempt, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)

    def take_effects(self) -> list[Effect]:
        """The effects of this step, its records first."""
        effects, self.effects = self.effects, []
        self.speaks_to_itself = False
        if self.records:
            effects.insert(0, Persist(self.contract.address, tuple(self.records)))
            self.records = []
        return effects
