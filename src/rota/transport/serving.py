"""The side that is dialed: a gRPC server whose certificate and trust can be changed while it runs.

gRPC asks before every handshake whether they have changed. When they have, it frees the objects of earlier handshakes,
without regard for one that begins in another of its threads at that moment and then uses freed memory. So a change is
passed on exactly once, and only after a pause in which gRPC lets no other handshake ask and those that have asked
before end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

from rota.ports import Unavailable
from rota.transport.certificates import Identity
from rota.transport.settings import TransportSettings

SERVICE: Final = "rota.v1.Peer"
METHOD: Final = f"{SERVICE}/Connect"
STREAMS_PER_CONNECTION_MAX: Final = 1
METADATA_BYTES_MAX: Final = 8_192
CHANGE_PAUSE_S: Final = 0.02

Accept: TypeAlias = Callable[["AcceptedStream", bytes], Awaitable[None]]


def stream_options(settings: TransportSettings) -> list[tuple[str, int]]:
    """Options of both sides: a part that is too long is refused before memory is allocated for it."""
    return [
        ("grpc.max_receive_message_length", settings.part_bytes_max),
        ("grpc.max_send_message_length", settings.part_bytes_max),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
    ]


class AcceptedStream:
    """A stream that a peer opened; it lasts until the handler of the call returns."""

    def __init__(self, context: Any) -> None:  # noqa: ANN401
        self._context: Final = context

    async def read(self) -> bytes | None:
        """The next part; `None` at the end, which gRPC also reports for a part that is too long."""
        try:
            part = await self._context.read()
        except (grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            raise Unavailable("the connection was cut") from error
        return None if part is grpc.aio.EOF else bytes(part)

    async def write(self, part: bytes) -> None:
        """Return when there is room for another part."""
        try:
            await self._context.write(part)
        except (grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            raise Unavailable("the connection was cut") from error

    async def close(self) -> None:
        """The handler returns next."""


class Server:
    """Listens, and hands each stream to `accept`, with the certificate that the peer showed."""

    def __init__(
        self, listen: str, settings: TransportSettings, identity: Identity, accept: Accept, knocked: Callable[[], None]
    ) -> None:
        self._listen: Final = listen
        self._settings: Final = settings
        self._accept: Final = accept
        self._knocked: Final = knocked
        self._initial: Final = _configuration(identity, b"")
        self._lock: Final = threading.Lock()
        self._changed: Any = None
        self._server: Any = None
        self.port = 0

    def trust(self, identity: Identity, others_pem: bytes) -> None:
        """From the next handshake on, show this certificate and trust these."""
        changed = _configuration(identity, others_pem)
        with self._lock:
            self._changed = changed

    async def start(self) -> None:
        """Listen; `Unavailable` when that is not possible."""
        options = [
            *stream_options(self._settings),
            ("grpc.so_reuseport", 0),
            ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
            ("grpc.server_handshake_timeout_ms", self._settings.connect_timeout_ms),
        ]
        self._server = grpc.aio.server(options=options)
        handler = grpc.stream_stream_rpc_method_handler(self._connect)
        handlers = grpc.method_handlers_generic_handler(SERVICE, {METHOD.rpartition("/")[2]: handler})
        self._server.add_generic_rpc_handlers((handlers,))
        credentials = grpc.dynamic_ssl_server_credentials(
            self._initial, self._configure, require_client_authentication=True
        )
        try:
            self.port = self._server.add_secure_port(self._listen, credentials)
        except RuntimeError as error:
            raise Unavailable(f"listen: cannot listen at {self._listen}: it is taken, or not an address") from error
        await self._server.start()

    async def stop(self, grace_ms: int) -> None:
        """Accept no more streams, and cut those that have not ended by then."""
        if self._server is not None:
            await self._server.stop(grace_ms / 1_000)

    def _configure(self) -> Any:  # noqa: ANN401
        """Called by gRPC, in its own thread and one at a time, for every handshake; `None` when nothing has changed."""
        self._knocked()
        with self._lock:
            changed, self._changed = self._changed, None
        if changed is not None:
            time.sleep(CHANGE_PAUSE_S)
        return changed

    async def _connect(self, _parts: object, context: Any) -> None:  # noqa: ANN401
        shown: list[bytes] = list(context.auth_context().get("x509_pem_cert", []))
        await self._accept(AcceptedStream(context), shown[0] if shown else b"")


def _configuration(identity: Identity, others_pem: bytes) -> Any:  # noqa: ANN401
    """One's own certificate is trusted too, because gRPC needs one; a peer that shows it is refused."""
    pairs = [(identity.key_pem, identity.certificate_pem)]
    return grpc.ssl_server_certificate_configuration(pairs, root_certificates=identity.certificate_pem + others_pem)
