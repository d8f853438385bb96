"""The queue of messages for one peer, bounded in number and bytes.

A message is encoded when it is put in: its size is then known, and a frame is the header and the records of its
messages one after the other, the same bytes that the codec writes for all of them together.

When there is no room, the oldest message that its own author repeats goes first: a heartbeat, of which a newer one
follows, or a command or request, which is sent again until it is answered. An answer comes again only if the peer
asks again, which costs it a whole timeout, and some notices are sent once; they go only when nothing else is left.
Messages older than `queue_age_max_ms` are dropped: if they still hold they have been repeated since, and a peer that
comes back should not get messages that were true before it left.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, NamedTuple

from rota.transport.settings import TransportSettings
from rota.wire.codec import encode_frame
from rota.wire.messages import (
    AssembleRequest,
    ContractsRequest,
    CoordinatorHeartbeat,
    DelegationCommand,
    DeploymentProposal,
    DispatchConfirmationRequest,
    EndorsementRequest,
    Envelope,
    GenesisRequest,
    GroupMessage,
    HandoverRequest,
    HoldingsRequest,
    ListingRequest,
    Message,
    PreparedTransaction,
    Startup,
    StateDistribution,
    StateRequest,
    SubmitterHeartbeat,
    VerifierRequest,
)
from rota.wire.structure import FIELD_BYTES_MIN, structural_flaw

REPEATABLE: Final[tuple[type[Message], ...]] = (
    CoordinatorHeartbeat,
    SubmitterHeartbeat,
    DelegationCommand,
    AssembleRequest,
    EndorsementRequest,
    DispatchConfirmationRequest,
    HandoverRequest,
    ListingRequest,
    VerifierRequest,
    Startup,
    StateDistribution,
    StateRequest,
    PreparedTransaction,
    DeploymentProposal,
    ContractsRequest,
    GenesisRequest,
    GroupMessage,
    HoldingsRequest,
)

_HEADER: Final = encode_frame(())


class _Waiting(NamedTuple):
    record: bytes
    put_at_ms: int


class Outbox:
    """First in, first out, apart from dropped messages."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings: Final = settings
        self._waiting: Final[OrderedDict[int, _Waiting]] = OrderedDict()
        # Those of them that are repeatable, in the same order.
        self._repeatable: Final[deque[int]] = deque()
        self._number = 0
        self._bytes = 0
        self.dropped_full = 0
        self.dropped_stale = 0
        self.dropped_too_large = 0
        self.sent_messages = 0
        self.sent_bytes = 0
        self.sent_at_ms: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def size_bytes(self) -> int:
        """Of all waiting messages."""
        return self._bytes

    def put(self, now_ms: int, envelope: Envelope) -> str:
        """Add a message; returns why no frame can hold it, or an empty text."""
        record = encode_frame((envelope,))[len(_HEADER) :]
        if flaw := self._flaw(record):
            self.dropped_too_large += 1
            return flaw
        self._drop_stale(now_ms)
        self._number += 1
        self._waiting[self._number] = _Waiting(record, now_ms)
        self._bytes += len(record)
        if isinstance(envelope.body, REPEATABLE):
            self._repeatable.append(self._number)
        while len(self._waiting) > self._settings.queue_messages_max or self._bytes > self._settings.queue_bytes_max:
            self._drop_one()
        return ""

    def take_frame(self, now_ms: int) -> bytes | None:
        """All waiting messages that fit into one frame; `None` when there are none."""
        self._drop_stale(now_ms)
        records = [_HEADER]
        size = len(_HEADER)
        while self._waiting and len(records) <= self._settings.limits.frame_envelopes_max:
            number = next(iter(self._waiting))
            record = self._waiting[number].record
            if len(records) > 1 and size + len(record) > self._settings.frame_bytes_wanted:
                break
            self._remove(number)
            records.append(record)
            size += len(record)
        if len(records) == 1:
            return None
        self.sent_messages += len(records) - 1
        self.sent_bytes += size
        self.sent_at_ms = now_ms
        return b"".join(records)

    def _flaw(self, record: bytes) -> str:
        """Why no peer would take it. A short one cannot have too many fields."""
        limits = self._settings.limits
        size = len(_HEADER) + len(record)
        if size > limits.frame_bytes_max:
            return f"has {size} bytes, and a frame at most {limits.frame_bytes_max}"
        if size > FIELD_BYTES_MIN * limits.frame_fields_max:
            return structural_flaw(_HEADER + record, limits.frame_fields_max) or ""
        return ""

    def _drop_one(self) -> None:
        self._remove(self._repeatable[0] if self._repeatable else next(iter(self._waiting)))
        self.dropped_full += 1

    def _drop_stale(self, now_ms: int) -> None:
        while self._waiting:
            number = next(iter(self._waiting))
            if now_ms - self._waiting[number].put_at_ms <= self._settings.queue_age_max_ms:
                return
            self._remove(number)
            self.dropped_stale += 1

    def _remove(self, number: int) -> None:
        """A message that is taken or stale is the oldest of all, a dropped one the oldest of its kind."""
        self._bytes -= len(self._waiting.pop(number).record)
        if self._repeatable and self._repeatable[0] == number:
            self._repeatable.popleft()
