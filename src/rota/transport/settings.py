"""Every timer and limit of the transport, with its default and its unit."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from rota.model.config import Config
from rota.wire.limits import DEFAULT_LIMITS, MEBIBYTE, Limits
from rota.wire.structure import FIELD_BYTES_MIN

# A part is a frame and a few bytes around it.
PART_OVERHEAD_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """All are positive; a wrong one is refused by name.

    heartbeat_ms, heartbeat_grace   as in `Config`: a ping each, and how many may stay unanswered
    connect_timeout_ms      for each step of making a connection: a look at the certificate, TLS, the hello
    backoff_ms, .._max_ms   the pause before dialing again, which doubles; the real one is half of it or more, at random
    misuse_pause_ms         for how long a peer that misbehaved is ignored
    registry_look_ms        how often the registry is read
    certificate_look_max_ms the longest pause between two looks for a certificate that is announced and not shown yet
    queue_...               limits of the messages that wait for one peer; older ones are dropped, as they were repeated
    frame_bytes_wanted      a frame is closed at this size; one message alone may be bigger
    frames_per_s_max, ...   limits of one peer, on average; a burst may have the allowance of `burst_s` at once
    reading_ms_per_s_max    processor time for reading messages of one peer; all together have half as much again
    peers_max               nodes that are connected at a time; those with messages come first
    hellos_max              connections of one peer without a hello yet
    stop_timeout_ms         for sending the queues when we stop; after that as long again for parting
    """

    heartbeat_ms: int = 500
    heartbeat_grace: int = 2
    connect_timeout_ms: int = 2_000
    backoff_ms: int = 100
    backoff_max_ms: int = 2_000
    misuse_pause_ms: int = 10_000
    registry_look_ms: int = 250
    certificate_look_max_ms: int = 10_000
    queue_messages_max: int = 16_384
    queue_bytes_max: int = 32 * MEBIBYTE
    queue_age_max_ms: int = 2_000
    frame_bytes_wanted: int = 256 * 1_024
    frames_per_s_max: int = 4_000
    envelopes_per_s_max: int = 5_000
    items_per_s_max: int = 98_304
    reading_ms_per_s_max: int = 400
    bytes_per_s_max: int = 32 * MEBIBYTE
    burst_s: int = 2
    peers_max: int = 256
    hellos_max: int = 4
    stop_timeout_ms: int = 1_000
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "limits" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{field.name}: must be a whole number of at least 1, not {value!r}")
        if self.backoff_max_ms < self.backoff_ms:
            raise ValueError(f"backoff_max_ms: must be at least backoff_ms, which is {self.backoff_ms}")
        # A shorter frame cannot have too many fields, so that only a single big message needs to be looked through.
        wanted_max = min(self.limits.frame_bytes_max, FIELD_BYTES_MIN * self.limits.frame_fields_max)
        if self.frame_bytes_wanted > wanted_max:
            raise ValueError(f"frame_bytes_wanted: must be at most {wanted_max}, so that no frame has too many fields")
        if self.queue_bytes_max < self.limits.frame_bytes_max:
            raise ValueError(f"queue_bytes_max: must hold one frame, which is {self.limits.frame_bytes_max}")
        if self.bytes_per_s_max * self.burst_s < self.limits.frame_bytes_max:
            raise ValueError(f"bytes_per_s_max: must let one frame pass, which is {self.limits.frame_bytes_max}")

        if self.items_per_s_max * self.burst_s < self.limits.frame_items_max:
            raise ValueError(f"items_per_s_max: must let one frame pass, which has up to {self.limits.frame_items_max}")

    @classmethod
    def of(cls, config: Config) -> TransportSettings:
        """The defaults, with the node's own heartbeat."""
        return cls(heartbeat_ms=config.heartbeat_ms, heartbeat_grace=config.heartbeat_grace)

    @property
    def silence_ms(self) -> int:
        """How long a connection may carry no answer before it is closed, as in `Config`."""
        return (self.heartbeat_grace + 1) * self.heartbeat_ms

    @property
    def part_bytes_max(self) -> int:
        """The longest piece of a stream."""
        return self.limits.frame_bytes_max + PART_OVERHEAD_BYTES
