"""The parties that may own states of contracts that have a roster of them, as the chain has it now.

A roster only grows, apart from reorganisations. Each request reads the words behind those that are cached from the
contract, in one answer with the root and the count of all, which belong to one state of the chain. When the root of all
words differs, the chain was reorganised, and the roster is read again from its first word. It is also read from the
first word after a restart, and by a node that joins late.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from rota.domains.base import Roster
from rota.host import Hosted
from rota.model.types import ContractAddress
from rota.ports import RosterPage, Unavailable

ROSTERS_KEPT_MAX: Final = 64
WORDS_A_STEP: Final = 16
# Reorganisations while a roster is read.
ATTEMPTS_MAX: Final = 3


# The words of a contract after the first ones, as many as an answer has. `Unavailable` when the chain cannot answer.
ReadRoster = Callable[[ContractAddress, int], Awaitable[RosterPage]]


@dataclass(slots=True)
class _Kept:
    hosted: Hosted
    roster: Roster
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Rosters:
    """The rosters of one node. The least recently requested contracts are evicted."""

    def __init__(self, read: ReadRoster) -> None:
        self._read: Final = read
        self._kept: Final[OrderedDict[ContractAddress, _Kept]] = OrderedDict()

    async def of(self, hosted: Hosted) -> Roster | None:
        """Return the contract's current roster, or None if it has none. It may grow later.

        `Unavailable` when the chain does not answer.
        """
        contract = hosted.contract.address
        kept = self._kept.get(contract)
        if kept is None or kept.hosted is not hosted:
            roster = hosted.domain.roster_of(hosted.configuration)
            if roster is None:
                return None
            kept = self._kept[contract] = _Kept(hosted, roster)
        self._kept.move_to_end(contract)
        if len(self._kept) > ROSTERS_KEPT_MAX:
            self._kept.popitem(last=False)
        async with kept.turn:
            for _ in range(ATTEMPTS_MAX):
                if await self._is_up_to_date(contract, kept.roster):
                    return kept.roster
                fresh = hosted.domain.roster_of(hosted.configuration)
                assert fresh is not None, "the same contract has a roster again"
                kept.roster = fresh
        raise Unavailable(
            f"who may own states of {contract}: the answers of the chain do not have the root that they name"
        )

    async def _is_up_to_date(self, contract: ContractAddress, roster: Roster) -> bool:
        """Extend the roster to the chain's length; return whether its root is then the chain's."""
        while True:
            page = await self._read(contract, len(roster))
            if len(roster) + len(page.words) > page.count:
                return False
            for start in range(0, len(page.words), WORDS_A_STEP):
                # A node of a tree takes a third of a millisecond: many words must not block the event loop.
                roster.extend(page.words[start : start + WORDS_A_STEP])
                await asyncio.sleep(0)
            if len(roster) == page.count or not page.words:
                return len(roster) == page.count and roster.root == page.root
