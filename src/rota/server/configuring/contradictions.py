"""Settings that contradict one another.

Each rule gets the values and yields the key to change, with the error. A rule that needs a value with an error of its
own yields nothing, because that error is reported already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final, TypeAlias

from rota.server.configuring.kinds import CHAIN, SqliteFile, is_loopback
from rota.wire.limits import DEFAULT_LIMITS, MEBIBYTE

Contradiction: TypeAlias = tuple[str, str]
WILDCARDS: Final = ("0.0.0.0", "::", "[::]")
# The first of each pair must not be smaller than the second.
PAIRS: Final = (
    ("ledger.fee_max_wei", "ledger.tip_wei"),
    ("ledger.backoff_max_ms", "ledger.backoff_ms"),
    ("sequencer.retry_backoff_max_ms", "sequencer.retry_backoff_ms"),
    ("sequencer.delegation_backoff_max_ms", "sequencer.delegation_repeat_ms"),
)

_ITEMS: Final = "as many items as a message may have of a kind"
# With greater values no peer could read the messages.
READABLE: Final = (
    ("sequencer.in_flight_max", DEFAULT_LIMITS.field_items_max, _ITEMS),
    ("sequencer.delegation_batch_max", DEFAULT_LIMITS.field_items_max, _ITEMS),
    ("sequencer.assembly_slot_max", DEFAULT_LIMITS.field_items_max, _ITEMS),
    ("sequencer.intent_bytes_max", DEFAULT_LIMITS.payload_bytes_max, "the payload that a message may have"),
    ("sequencer.transition_bytes_max", DEFAULT_LIMITS.content_bytes_max, "the content that a state may have"),
    (
        "sequencer.message_bytes_max",
        DEFAULT_LIMITS.frame_bytes_max - MEBIBYTE,
        "a frame without the room for ids, locks and the envelope",
    ),
)


class NotRead(Exception):
    """A value that a rule needs has an error of its own."""


class Values:
    """The valid values, by path."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values: Final = values

    def __getitem__(self, path: str) -> Any:  # noqa: ANN401  # Each key has a type of its own.
        if path not in self._values:
            raise NotRead(path)
        return self._values[path]


def contradictions_of(values: Mapping[str, object]) -> Iterator[Contradiction]:
    """Yield all contradictions of these values."""
    for rule in RULES:
        try:
            yield from tuple(rule(Values(values)))
        except NotRead:
            continue


def _registry_is_known(values: Values) -> Iterator[Contradiction]:
    if values["transport.registry"] == CHAIN and values["ledger.registry"] is None:
        yield "ledger.registry", f'is missing: transport.registry is "{CHAIN}", so that the Registry has to be known'


def _strangers_show_who_they_are(values: Values) -> Iterator[Contradiction]:
    for path in ("rpc.host", "operations.host", "commands.host"):
        host = values[path]
        if host is not None and not is_loopback(host) and values["rpc.credentials_file"] is None:
            yield "rpc.credentials_file", f"is missing: {path} is {host}, and without it everybody may do everything"


def _passwords_are_of_use(values: Values) -> Iterator[Contradiction]:
    for path in ("store.password_file", "store.password"):
        if isinstance(values["store.url"], SqliteFile) and values[path] is not None:
            yield path, "must be left out, as store.url is a SQLite file, which has no password"


def _tls_is_whole(values: Values) -> Iterator[Contradiction]:
    has_certificate, has_key = values["rpc.certificate_file"] is not None, values["rpc.key_file"] is not None
    if has_certificate is not has_key:
        missing, given = ("key", "certificate") if has_certificate else ("certificate", "key")
        yield f"rpc.{missing}_file", f"is missing: rpc.{given}_file is given, and TLS needs both"
    if values["rpc.client_ca_file"] is not None and not has_certificate:
        yield "rpc.client_ca_file", "must be left out, as there is no TLS without rpc.certificate_file"


def _doors_are_apart(values: Values) -> Iterator[Contradiction]:
    """Check that no two servers share a port, except metrics and RPC; port 0, which the system chooses, is exempt."""
    listen_host, _, listen_port = values["transport.listen"].rpartition(":")
    doors = [
        ("rpc.port", values["rpc.host"], values["rpc.port"]),
        ("rpc.websocket_port", values["rpc.host"], values["rpc.websocket_port"]),
        ("transport.listen", listen_host, int(listen_port)),
    ]
    host = values["operations.host"] or values["rpc.host"]
    port = values["rpc.port"] if values["operations.port"] is None else values["operations.port"]
    if (host, port) != (values["rpc.host"], values["rpc.port"]):
        doors.append(("operations.port", host, port))
    if values["commands.port"] is not None:
        doors.append(("commands.port", values["commands.host"] or values["rpc.host"], values["commands.port"]))
    for (path, host, port), (other_path, other_host, other_port) in combinations(doors, 2):
        if port and port == other_port and (host == other_host or {host, other_host} & set(WILDCARDS)):
            yield other_path, f"must be another port than {path}, which is {port} too"


def _peers_can_read_what_is_said(values: Values) -> Iterator[Contradiction]:
    """Check limits of the wire, beyond which peers reject messages as malformed (docs/wire.md)."""
    for path, most, of in READABLE:
        try:
            value = values[path]
        except NotRead:
            continue
        if value > most:
            yield path, f"must be at most {most}, {of}, not {value}"


def _bounds_are_in_order(values: Values) -> Iterator[Contradiction]:
    for greater, lesser in PAIRS:
        try:
            most, least = values[greater], values[lesser]
        except NotRead:
            continue
        if most < least:
            yield greater, f"must be at least {lesser}, which is {least}, not {most}"


RULES: Final[tuple[Callable[[Values], Iterator[Contradiction]], ...]] = (
    _registry_is_known,
    _strangers_show_who_they_are,
    _passwords_are_of_use,
    _tls_is_whole,
    _doors_are_apart,
    _bounds_are_in_order,
    _peers_can_read_what_is_said,
)
