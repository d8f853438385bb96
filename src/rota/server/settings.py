"""The entrance's addresses, credentials and limits, in one frozen value.

Without credentials every caller that reaches the port may do everything, so that is allowed on loopback addresses
alone: otherwise `Settings` cannot be created, and the node does not start.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields
from typing import Final

from rota.rpc.credentials import Credential
from rota.server.tls import TlsFiles

HTTP_PORT: Final = 31_548
WEBSOCKET_PORT: Final = 31_549
# An answer up to this size is sent even where a longer one would be refused.
SHORT_ANSWER_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True)
class Bind:
    """An address to listen at; port 0 lets the kernel choose."""

    host: str = "127.0.0.1"
    port: int = 0

    def __post_init__(self) -> None:
        if not self.host:
            raise ValueError("host: must be an address or a name, such as 127.0.0.1")
        if not 0 <= self.port <= 65_535:
            raise ValueError(f"port: must be from 0 to 65535, not {self.port}")

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach it; false for any name other than localhost."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests beyond these limits are refused or ended, so that no client takes the memory or time of others.

    Connections are counted per listener, calls over all of them. `bodies_bytes_max` is for all requests that are being
    read or answered at a time; a WebSocket's messages are counted once they are complete. A body is read only after its
    caller is admitted; it has room for an intent of the greatest size in hex, and 1 MiB besides. `answers_bytes_max` is
    for all answers that clients have not received yet. A token is a text, a comma or a bracket of the JSON.

    A WebSocket with `websocket_messages_max` of them unanswered is not read from. It has at most
    `websocket_subscriptions_max` subscriptions, each with one batch that is not acknowledged.
    """

    body_bytes_max: int = 3 * 1024 * 1024
    bodies_bytes_max: int = 64 * 1024 * 1024
    answer_bytes_max: int = 8 * 1024 * 1024
    answers_bytes_max: int = 64 * 1024 * 1024
    batch_entries_max: int = 1_000
    json_depth_max: int = 64
    json_tokens_max: int = 100_000
    call_tokens_max: int = 60_000
    connections_max: int = 1_024
    websockets_max: int = 256
    websocket_message_bytes_max: int = 3 * 1024 * 1024
    websocket_messages_max: int = 64
    websocket_subscriptions_max: int = 64
    calls_max: int = 1_024
    call_timeout_ms: int = 30_000
    receive_timeout_ms: int = 10_000
    send_timeout_ms: int = 10_000
    idle_timeout_ms: int = 75_000
    stop_timeout_ms: int = 2_000
    predicted_wait_max_ms: int = 30_000
    failed_attempts_max: int = 10
    failed_attempts_window_ms: int = 60_000
    failed_addresses_max: int = 4_096
    failed_delay_max_ms: int = 5_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{field.name}: must be a whole number of at least 1, not {value!r}")
        for all_of, one in (("bodies_bytes_max", "body_bytes_max"), ("answers_bytes_max", "answer_bytes_max")):
            if getattr(self, all_of) < getattr(self, one):
                raise ValueError(f"{all_of}: must be at least {one}, which is {getattr(self, one)}")


@dataclass(frozen=True, slots=True)
class Settings:
    """One node's entrance. Without `operations`, operators use the HTTP port; without `commands`, there is no gRPC.

    `origins` are the web pages that may call from a browser, such as `https://app.example`; a browser's request for any
    other page is refused, because it could be a foreign page in an operator's browser. `proxies` are addresses and
    networks of reverse proxies: for their requests the client address is the one that they name in `X-Forwarded-For`.
    With `tls` all of them are served over TLS alone. `has_splice_metrics` adds the names that CIP 64 has for metrics of
    automation.
    """

    http: Bind = Bind(port=HTTP_PORT)
    websocket: Bind | None = Bind(port=WEBSOCKET_PORT)
    operations: Bind | None = None
    commands: Bind | None = None
    credentials: tuple[Credential, ...] = ()
    origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    tls: TlsFiles | None = None
    limits: Limits = Limits()
    has_splice_metrics: bool = True

    def __post_init__(self) -> None:
        for each in self.proxies:
            try:
                ipaddress.ip_network(each)
            except ValueError:
                raise ValueError(f"proxies: must be addresses or networks, such as 10.0.0.0/8, not {each!r}") from None
        names = [credential.name for credential in self.credentials]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"credentials: names must be distinct, and {name!r} is there twice")
        if self.credentials:
            return
        for field in ("http", "websocket", "operations", "commands"):
            bind = getattr(self, field)
            if bind is not None and not bind.is_loopback:
                raise ValueError(
                    f"{field}: {bind.host} is reached from other machines, so credentials must be given; "
                    "without them listen on 127.0.0.1"
                )
