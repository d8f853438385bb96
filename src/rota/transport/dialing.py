"""The side that dials: a gRPC channel for one connection, which trusts one certificate and is then thrown away.

gRPC would keep a channel and connect it again by its own clock. The node decides when to dial, and the certificate of
the next attempt may be another.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import grpc
import grpc.aio

from rota.ports import Unavailable
from rota.transport.certificates import Certificate, Identity
from rota.transport.serving import METHOD, stream_options
from rota.transport.settings import TransportSettings

CLOSE_TIMEOUT_S: Final = 0.25
DETAIL_CHARACTERS_MAX: Final = 300


class DialedStream:
    """A stream on a channel of its own."""

    def __init__(
        self, endpoint: str, certificate: Certificate, identity: Identity, settings: TransportSettings
    ) -> None:
        credentials = grpc.ssl_channel_credentials(certificate.pem, identity.key_pem, identity.certificate_pem)
        options = [
            *stream_options(settings),
            ("grpc.ssl_target_name_override", certificate.name),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),
        ]
        self._channel: Final[Any] = grpc.aio.secure_channel(endpoint, credentials, options=options)
        self._call: Final[Any] = self._channel.stream_stream(f"/{METHOD}")()

    async def connect(self) -> None:
        """Return when the TLS handshake has succeeded on both sides."""
        try:
            await self._call.wait_for_connection()
        except grpc.aio.AioRpcError as error:
            raise Unavailable(_why(error)) from error
        except asyncio.CancelledError:
            self._raise_if_cut_off()
            raise

    async def read(self) -> bytes | None:
        """The next part; `None` at the end."""
        try:
            part = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise Unavailable(_why(error)) from error
        except (grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            raise Unavailable("the connection is over") from error
        except asyncio.CancelledError:
            self._raise_if_cut_off()
            raise
        return None if part is grpc.aio.EOF else bytes(part)

    async def write(self, part: bytes) -> None:
        """Return when there is room for another part."""
        try:
            await self._call.write(part)
        except grpc.aio.AioRpcError as error:
            raise Unavailable(_why(error)) from error
        except (grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            raise Unavailable("the connection is over") from error
        except asyncio.CancelledError:
            self._raise_if_cut_off()
            raise

    async def close(self) -> None:
        """Give the peer a moment to end the stream, as it does at a goodbye."""
        with suppress(grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._call.done_writing()
                await self._call.code()
        await self._channel.close()

    def _raise_if_cut_off(self) -> None:
        """gRPC reports a broken call as a cancellation; a cancellation of our own task is none."""
        task = asyncio.current_task()
        if self._call.done() and (task is None or not task.cancelling()):
            raise Unavailable("the connection was cut")


def _why(error: Any) -> str:  # noqa: ANN401
    detail = str(error.details() or error.code().name)[:DETAIL_CHARACTERS_MAX]
    # A TLS 1.3 server that does not take our certificate closes without an error that gRPC would pass on.
    return f"{detail} (it may not know our certificate yet)" if "Socket closed" in detail else detail
