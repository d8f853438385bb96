"""Addresses of parties, for clients that know parties by them.

A party's own node reports its address (decision 81), so that an address is missing while that node does not answer. A
receipt waits for it for a bounded time; a node that did not answer in time is not awaited for a while. Where the
address is not known, clients see the party's name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from rota.model.types import NodeName, Party, Rejected, node_of
from rota.ports import Unavailable

WAIT_S: Final = 4.0
SILENT_S: Final = 30.0
# The number of addresses that one receipt or query asks other nodes for, and the number that are cached.
ASKED_MAX: Final = 64
KEPT_MAX: Final = 100_000


class PartyAddresses:
    """The addresses that one node knows."""

    def __init__(
        self,
        ask: Callable[[Party], Awaitable[str]],
        known: Callable[[Party], str | None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask` returns a party's address, empty for an unknown party; `known` the same without asking another node."""
        self._address_of: Final = ask
        self._known: Final = known
        self._now_s: Final = now_s
        self._kept: Final[dict[Party, str]] = {}
        self._silent_until_s: Final[dict[NodeName, float]] = {}

    async def of(self, parties: Iterable[Party]) -> dict[Party, str]:
        """Return the addresses of these parties that are known, or reported in time."""
        wanted = dict.fromkeys(parties)
        for party in wanted:
            # An answer that came after the wait is known now.
            if party not in self._kept and (address := self._known(party)):
                self._keep(party, address)
        unknown = [party for party in wanted if party not in self._kept and not self._is_silent(node_of(party))]
        if unknown:
            await asyncio.gather(*(self._ask(party) for party in unknown[:ASKED_MAX]))
        return {party: self._kept[party] for party in wanted if party in self._kept}

    def _is_silent(self, node: NodeName) -> bool:
        return self._now_s() < self._silent_until_s.get(node, 0.0)

    async def _ask(self, party: Party) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                address = await self._address_of(party)
        except (TimeoutError, Unavailable):
            if len(self._silent_until_s) >= KEPT_MAX:
                self._silent_until_s.clear()
            self._silent_until_s[node_of(party)] = self._now_s() + SILENT_S
        except Rejected:
            pass  # A name that has no key here; it is shown as it is.
        else:
            if address:
                self._keep(party, address)

    def _keep(self, party: Party, address: str) -> None:
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[party] = address
