"""gRPC calls in progress, by caller, and the services that need no credentials: health and reflection.

Theory of operation. The server bounds the total of calls in progress. So that no caller takes all of them, a caller
with credentials has a share, and anonymous callers together have a few: when these are taken, a new anonymous call ends
the oldest one. So health is answered at any time. Calls end when the credentials of their caller are removed or
changed.

Health has its own implementation here: that of grpc_health holds a lock while it sends, so that one client that does
not read blocks the health checks of all.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

CALLS_MAX: Final = 2_048
CALLER_CALLS_MAX: Final = CALLS_MAX // 2
STRANGERS_CALLS_MAX: Final = 128
HEALTH_LOOK_S: Final = 1.0

M = TypeVar("M", bound=Message)


class Ended(Exception):
    """The call ends before it is answered: another one took its place, or its caller is no longer admitted."""


class TooManyCalls(Exception):
    """The caller has as many calls in progress as it may have."""


class OpenCalls:
    """The calls in progress, by the name of their caller."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        # In the order in which they began. A call is ended by setting its timeout to now.
        self._open: Final[defaultdict[str, dict[asyncio.Timeout, None]]] = defaultdict(dict)

    def count(self, name: str) -> int:
        """Return how many calls a caller has in progress."""
        return len(self._open[name]) if name in self._open else 0

    @asynccontextmanager
    async def of(self, name: str, ends_oldest: bool = False) -> AsyncIterator[None]:
        """Hold a place during a call.

        `TooManyCalls` when none is free and `ends_oldest` is false; `Ended` when ended.
        """
        if self.count(name) >= self._most:
            if not ends_oldest:
                raise TooManyCalls
            self._end(name, next(iter(self._open[name])))
        place = asyncio.timeout(None)
        try:
            async with place:
                self._open[name][place] = None
                try:
                    yield
                finally:
                    self._forget(name, place)
        except TimeoutError:
            if not place.expired():
                raise
            raise Ended from None

    def end(self, names: Collection[str]) -> None:
        """End all calls of these callers."""
        for name in names:
            for place in tuple(self._open.get(name, ())):
                self._end(name, place)

    def _end(self, name: str, place: asyncio.Timeout) -> None:
        self._forget(name, place)
        place.reschedule(asyncio.get_running_loop().time())

    def _forget(self, name: str, place: asyncio.Timeout) -> None:
        if name in self._open:
            self._open[name].pop(place, None)
            if not self._open[name]:
                del self._open[name]


class OpenServices:
    """Health and reflection, for anonymous callers."""

    def __init__(self, services: Collection[str], is_ready: Callable[[], bool]) -> None:
        self._services: Final = frozenset(("", *services))
        self._is_ready: Final = is_ready
        self._calls: Final = OpenCalls(STRANGERS_CALLS_MAX)
        names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        self._reflection: Final = reflection.aio.ReflectionServicer(names)

    def handlers(self) -> tuple[Any, ...]:
        """Return the handlers.

        All requests are read as streams, so that a message that never arrives holds a place too.
        """
        answered = health_pb2.HealthCheckResponse.SerializeToString
        reflected = reflection_pb2.ServerReflectionResponse.SerializeToString
        stream, unary = grpc.stream_stream_rpc_method_handler, grpc.stream_unary_rpc_method_handler
        checks = {
            "Check": unary(self._check, response_serializer=answered),
            "Watch": stream(self._watch, response_serializer=answered),
        }
        reflects = {"ServerReflectionInfo": stream(self._reflect, response_serializer=reflected)}
        return (
            grpc.method_handlers_generic_handler(health.SERVICE_NAME, checks),
            grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, reflects),
        )

    async def _check(self, given: AsyncIterator[bytes], context: Any) -> health_pb2.HealthCheckResponse:  # noqa: ANN401
        async with self._place(context):
            async for request in _read(health_pb2.HealthCheckRequest, given, context):
                if request.service not in self._services:
                    await context.abort(grpc.StatusCode.NOT_FOUND)
                return self._status_of(request.service)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request is missing")
        raise AssertionError("an aborted call is over")

    async def _watch(self, given: AsyncIterator[bytes], context: Any) -> None:  # noqa: ANN401
        async with self._place(context):
            async for request in _read(health_pb2.HealthCheckRequest, given, context):
                sent = None
                while True:
                    status = self._status_of(request.service)
                    if status != sent:
                        await context.write(status)
                        sent = status
                    await asyncio.sleep(HEALTH_LOOK_S)

    async def _reflect(self, given: AsyncIterator[bytes], context: Any) -> None:  # noqa: ANN401
        async with self._place(context):
            requests = _read(reflection_pb2.ServerReflectionRequest, given, context)
            async for answer in self._reflection.ServerReflectionInfo(requests, context):
                await context.write(answer)

    def _status_of(self, service: str) -> health_pb2.HealthCheckResponse:
        """Return SERVING when the node is ready."""
        status = health_pb2.HealthCheckResponse
        if service not in self._services:
            return status(status=status.SERVICE_UNKNOWN)
        return status(status=status.SERVING if self._is_ready() else status.NOT_SERVING)

    @asynccontextmanager
    async def _place(self, context: Any) -> AsyncIterator[None]:  # noqa: ANN401
        try:
            async with self._calls.of("", ends_oldest=True):
                yield
        except Ended:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls without credentials; try again")


async def _read(kind: type[M], messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[M]:  # noqa: ANN401
    async for message in messages:
        try:
            yield kind.FromString(message)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"must be a {kind.DESCRIPTOR.full_name}")
