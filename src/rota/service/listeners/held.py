"""Listeners of a credential that is held to parties: its own ones only (`service.interface.Listeners`).

Theory of operation. Such a listener is stored under `CREDENTIAL/NAME`, which no other credential can name, and which a
caller without such limits sees and can delete. Its definition has the parties that the credential was held to when it
was created. So the data that it gets never grows: not after a restart, and not when the credential is changed or
another one gets its name. A credential that is no longer held to all of these parties can no longer use the listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from rota.ports import covers
from rota.rpc.errors import ErrorCode, Rejected, invalid
from rota.service.interface import Batch, Listener, Receiver

SEPARATOR: Final = "/"
# The maximum of such listeners of one kind per node.
LISTENERS_HELD_MAX: Final = 64

T = TypeVar("T")


class Narrowed(Protocol):
    """A definition that may be held to parties."""

    @property
    def parties(self) -> tuple[str, ...] | None:
        """Parties of this node; None stands for no limit."""
        ...


N = TypeVar("N", bound=Narrowed)


class Unlimited(Protocol[N, T]):
    """All listeners of one kind, by the names under which they are stored."""

    async def create(
        self, name: str, definition: N, is_started: bool, require_room: Callable[[tuple[Listener[N], ...]], None]
    ) -> None: ...
    async def listener(self, name: str) -> Listener[N] | None: ...
    async def listeners(self) -> tuple[Listener[N], ...]: ...
    def chosen(self, query: Mapping[str, Any], listeners: tuple[Listener[N], ...]) -> tuple[Listener[N], ...]: ...
    async def start(self, name: str) -> None: ...
    async def stop(self, name: str) -> None: ...
    async def delete(self, name: str) -> None: ...
    async def attach(self, name: str, receiver: Receiver[Batch[T]]) -> Callable[[], None]: ...


class HeldListeners(Generic[N, T]):
    """The listeners of one credential, under the names that it gave them."""

    def __init__(self, every: Unlimited[N, T], credential: str, parties: tuple[str, ...]) -> None:
        self._every: Final = every
        self._prefix: Final = f"{credential}{SEPARATOR}"
        self._parties: Final = parties

    def held_by(self, credential: str, parties: tuple[str, ...]) -> HeldListeners[N, T]:
        """Return the listeners of a credential."""
        return HeldListeners(self._every, credential, parties)

    def stored_name(self, name: str) -> str:
        """Return the name under which a listener is stored."""
        return self._prefix + name

    async def create(self, name: str, definition: N, is_started: bool) -> None:
        """Create a listener that is held to the credential's parties."""
        if getattr(definition, "sequence_above", None) is not None:
            text = "must be left out: listeners of credentials that are held to parties have numbers of their own"
            raise invalid("listener.filters.sequenceAbove", text)
        narrowed: Any = replace(definition, parties=self._parties)  # type: ignore[type-var]  # it is a dataclass
        await self._every.create(self.stored_name(name), narrowed, is_started, partial(self._require_room, name))

    def _require_room(self, name: str, listeners: tuple[Listener[N], ...]) -> None:
        own = [each for each in listeners if self._is_own(each)]
        if any(each.name == self.stored_name(name) for each in own):
            raise invalid("listener.name", f"must be new: there is a listener {name!r} already")
        if len(own) >= LISTENERS_HELD_MAX:
            text = f"a credential that is held to parties has at most {LISTENERS_HELD_MAX} listeners of a kind"
            raise Rejected(ErrorCode.INVALID_REQUEST, "", text)

    async def listener(self, name: str) -> Listener[N] | None:
        """Return the listener of this name."""
        found = await self._every.listener(self.stored_name(name))
        return self._shown(found) if found is not None and self._may_use(found) else None

    async def find(self, query: Mapping[str, Any]) -> tuple[Listener[N], ...]:
        """Return the listeners that a query matches."""
        found = tuple(self._shown(each) for each in await self._every.listeners() if self._may_use(each))
        return self._every.chosen(query, found)

    async def start(self, name: str) -> None:
        """Start delivering batches to its receivers."""
        await self._every.start(await self._known(name))

    async def stop(self, name: str) -> None:
        """Deliver no further batch."""
        await self._every.stop(await self._known(name))

    async def delete(self, name: str) -> None:
        """Delete a listener."""
        await self._every.delete(await self._known(name))

    async def attach(self, name: str, receiver: Receiver[Batch[T]]) -> Callable[[], None]:
        """Deliver its batches to this receiver, in turn with others."""
        return await self._every.attach(await self._known(name), receiver)

    async def _known(self, name: str) -> str:
        if await self.listener(name) is None:
            raise invalid("listenerName", f"there is no listener {name!r}")
        return self.stored_name(name)

    def _is_own(self, listener: Listener[N]) -> bool:
        return listener.name.startswith(self._prefix) and SEPARATOR not in listener.name[len(self._prefix) :]

    def _may_use(self, listener: Listener[N]) -> bool:
        held_to = listener.definition.parties
        return self._is_own(listener) and held_to is not None and covers(self._parties, held_to)

    def _shown(self, listener: Listener[N]) -> Listener[N]:
        return replace(listener, name=listener.name[len(self._prefix) :])
