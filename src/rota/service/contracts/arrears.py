"""What a node missed of a contract before it had it: rounds that its index passed by, and the states that they made.

A contract may come to a node late: another member was faster, or the node has lost its database and was given the
contract anew. Then two things are missing, in this order.

Rounds. The index has blocks in which it did not look for the contract. The chain is asked in which blocks the contract
has rounds; when the index lacks one of them, it forgets its blocks from the deployment on, and the node begins
a new life that goes through them again. Indexing is the same thing twice, so nothing is told twice.

States. What was distributed before the node had the contract is gone with whoever received it. Its peers are asked for
the states of every leaf that was committed until then, and send what this node may see: it cannot know which
those are, so it asks until nothing new has come a few times, with all there who may have them, and then takes the rest
for somebody else's.

A new life is not begun while the node is learning of contracts: it would be one for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from rota.model.types import ContractAddress, KnownContract, Leaf
from rota.node.events import StatesWanted
from rota.ports import Background, Store, Tell, Unavailable

LOOK_S: Final = 0.1
RETRY_S: Final = 2.0
RETRY_MAX_S: Final = 60.0
PAGE_S: Final = 0.2
SETTLED_WITHIN_S: Final = 10.0
IN_VAIN_MAX: Final = 4
LEAVES_MAX: Final = 2_048

Answer = TypeVar("Answer")
HeightsOfRounds = Callable[[ContractAddress, int, int], Awaitable[frozenset[int]]]

logger = structlog.get_logger("rota.arrears")


class Arrears:
    """Makes up for what was missed, contract by contract. `begin_again` ends this life: the next indexes from there."""

    def __init__(
        self,
        store: Store,
        heights_of_rounds: HeightsOfRounds,
        index_height: Callable[[], int],
        tell: Tell,
        begin_again: Callable[[int], None],
        are_holders_there: Callable[[ContractAddress], bool],
        is_settled: Callable[[], bool],
    ) -> None:
        self._store: Final = store
        self._heights_of_rounds: Final = heights_of_rounds
        self._index_height: Final = index_height
        self._tell: Final = tell
        self._begin_again: Final = begin_again
        self._are_holders_there: Final = are_holders_there
        self._is_settled: Final = is_settled
        self._tasks: Final = Background("arrears")

    def make_up_for(self, known: KnownContract) -> None:
        """Begin; a contract that was there from its deployment on has nothing to make up for."""
        if known.taken_in_at > known.deployed_at:
            self._tasks.begin(self._make_up_for(known))

    @property
    def open_count(self) -> int:
        """For how many contracts it is at work."""
        return len(self._tasks)

    async def close(self) -> None:
        """Give up what is under way; the next life goes on with it."""
        await self._tasks.close()

    async def _make_up_for(self, known: KnownContract) -> None:
        while self._index_height() < known.taken_in_at:
            await asyncio.sleep(LOOK_S)
        if await self._lacks_rounds(known):
            logger.warning("the index lacks rounds of a contract: going through the chain again from its deployment")
            await self._until(self._is_settled)
            self._begin_again(known.deployed_at)
            return
        await self._ask_for_states(known)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Until it does, and not for long: what is missed now is made up for later."""
        for _ in range(int(SETTLED_WITHIN_S / LOOK_S)):
            if holds():
                return
            await asyncio.sleep(LOOK_S)

    async def _lacks_rounds(self, known: KnownContract) -> bool:
        address, first, last = known.contract.address, known.deployed_at, known.taken_in_at
        on_chain = await self._until_done(lambda: self._heights_of_rounds(address, first, last))
        indexed = await self._until_done(lambda: self._store.heights_with_outcomes(address, first, last))
        return bool(on_chain - indexed)

    async def _ask_for_states(self, known: KnownContract) -> None:
        await self._until(lambda: self._are_holders_there(known.contract.address))
        lacking, in_vain, pause_s = -1, 0, RETRY_S
        while in_vain < IN_VAIN_MAX:
            before, lacking = lacking, await self._ask_for_all(known)
            if not lacking:
                return
            if lacking != before:
                in_vain, pause_s = 0, RETRY_S
            elif self._are_holders_there(known.contract.address):
                in_vain += 1
            else:
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            await asyncio.sleep(pause_s)

    async def _ask_for_all(self, known: KnownContract) -> int:
        """Every leaf of which this node holds nothing, page by page; how many they are."""
        address, count = known.contract.address, 0
        while leaves := await self._leaves(known, count):
            count += len(leaves)
            logger.info("asking peers for private states", contract=address, leaves=len(leaves))
            self._tell(StatesWanted(address, leaves))
            if len(leaves) < LEAVES_MAX:
                break
            await asyncio.sleep(PAGE_S)
        return count

    async def _leaves(self, known: KnownContract, skip: int) -> tuple[Leaf, ...]:
        address, last = known.contract.address, known.taken_in_at
        return await self._until_done(lambda: self._store.leaves_without_states(address, last, LEAVES_MAX, skip))

    async def _until_done(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        while True:
            try:
                return await ask()
            except Unavailable as trouble:
                logger.warning("making up for what was missed has to wait", reason=str(trouble))
                await asyncio.sleep(RETRY_S)
