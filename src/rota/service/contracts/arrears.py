"""Backfill of a contract that a node got late: rounds that its index passed by, and the states that they made.

A contract may come to a node late: another member was faster, or the node has lost its database and was given the
contract again. Then two things are missing, in this order.

Rounds. The index has blocks in which it did not look for the contract. When all of them are final, the chain is read
for the rounds of this contract in them, some blocks at a time, and those missing in the index are written. The index
itself does not move back, whatever it has of other contracts: any registered node can tell another one of a contract,
so that this must not cost more than the contract's own rounds. Until they are there, no transaction may depend on a
leaf of the contract (`is_behind`): one that is committed in them would seem not to be.

States. States distributed before the node had the contract did not reach it, and their holders have them still. The
node asks its peers for the states of every leaf that was committed until then, and they send those that this node may
see. It cannot know which those are, so it asks until nothing new has come a few times with all possible holders
connected, and then assumes that the rest is for others.

Both begin when all endorsers have confirmed the contract (`confirming.py`), which some never do: until then nothing of
its genesis is in memory. Of the contracts of one peer, one is read on the chain at a time, in turns of some blocks.
Rounds are backfilled once; states are asked for again after each start.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from rota.logs import catalogue
from rota.logs.trouble import Trouble
from rota.model.blocks import ChainBlock
from rota.model.types import ContractAddress, KnownContract, Leaf, NodeName
from rota.node.events import RoundsMadeUp, StatesWanted
from rota.ports import Background, Store, Tell, Unavailable

LOOK_S: Final = 0.1
RETRY_S: Final = 2.0
RETRY_MAX_S: Final = 60.0
PAGE_S: Final = 0.2
SETTLED_WITHIN_S: Final = 10.0
IN_VAIN_MAX: Final = 4
LEAVES_MAX: Final = 2_048
BLOCKS_A_QUESTION: Final = 500

Answer = TypeVar("Answer")
RoundsOf = Callable[[ContractAddress, int, int], Awaitable[tuple[ChainBlock, ...]]]


class Arrears:
    """Backfill contracts one by one."""

    def __init__(
        self,
        store: Store,
        rounds_of: RoundsOf,
        final_height: Callable[[], int],
        tell: Tell,
        are_holders_there: Callable[[ContractAddress], bool],
        confirmed: Callable[[ContractAddress], Awaitable[None]],
        note_rounds: Callable[[ContractAddress], Awaitable[None]],
    ) -> None:
        self._store: Final = store
        self._rounds_of: Final = rounds_of
        self._final_height: Final = final_height
        self._tell: Final = tell
        self._are_holders_there: Final = are_holders_there
        self._confirmed: Final = confirmed
        self._note_rounds: Final = note_rounds
        self._behind: Final[set[ContractAddress]] = set()
        self._tasks: Final = Background("arrears")
        self._turns: Final[defaultdict[NodeName | None, asyncio.Lock]] = defaultdict(asyncio.Lock)

    def make_up_for(self, known: KnownContract) -> None:
        """Begin the backfill; a contract that was here from its deployment on needs none."""
        has_missed = known.taken_in_at > known.deployed_at
        if has_missed and not known.has_rounds:
            self._behind.add(known.contract.address)
        else:
            self._behind.discard(known.contract.address)
        if has_missed:
            self._tasks.begin(self._make_up_for(replace(known, genesis=b"")))

    def expect(self, contract: ContractAddress) -> None:
        """Mark a contract that is about to be added as behind; its missing rounds are determined later."""
        self._behind.add(contract)

    def is_behind(self, contract: ContractAddress) -> bool:
        """Whether the store lacks rounds of the contract, or may lack some."""
        return contract in self._behind

    @property
    def open_count(self) -> int:
        """The number of contracts that are being backfilled."""
        return len(self._tasks)

    async def close(self) -> None:
        """Cancel open work; the next run continues it."""
        await self._tasks.close()

    async def _make_up_for(self, known: KnownContract) -> None:
        await self._confirmed(known.contract.address)
        if not known.has_rounds:
            await self._make_up_all_rounds(known)
        await self._ask_for_states(known)

    async def _make_up_all_rounds(self, known: KnownContract) -> None:
        while self._final_height() < known.taken_in_at:
            await asyncio.sleep(LOOK_S)
        for first in range(known.deployed_at, known.taken_in_at + 1, BLOCKS_A_QUESTION):
            last = min(known.taken_in_at, first + BLOCKS_A_QUESTION - 1)
            async with self._turns[known.source]:
                await self._until_done(known.contract.address, partial(self._make_up_rounds, known, first, last))
        await self._note_rounds(known.contract.address)
        self._behind.discard(known.contract.address)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until this holds, for a bounded time: states missed now are asked for later."""
        for _ in range(int(SETTLED_WITHIN_S / LOOK_S)):
            if holds():
                return
            await asyncio.sleep(LOOK_S)

    async def _make_up_rounds(self, known: KnownContract, first: int, last: int) -> None:
        """Write the rounds of these blocks that the index lacks; when repeated, it finds those already written."""
        address = known.contract.address
        blocks = await self._rounds_of(address, first, last)
        indexed = await self._store.heights_with_outcomes(address, first, last)
        missed = [block for block in blocks if block.outcomes and block.height not in indexed]
        if missed:
            catalogue.CONTRACT_BACKFILL_STARTED.log(contract=address, blocks=len(missed))
            try:
                await self._store.make_up(missed)
            finally:
                # Also when it is unknown whether the write succeeded: the chain has the rounds.
                self._tell(RoundsMadeUp(address, tuple(each for block in missed for _, each in block.outcomes)))

    async def _ask_for_states(self, known: KnownContract) -> None:
        await self._until(lambda: self._are_holders_there(known.contract.address))
        lacking, in_vain, pause_s = -1, 0, RETRY_S
        while in_vain < IN_VAIN_MAX:
            before, lacking = lacking, await self._ask_for_all(known)
            if not lacking:
                return
            if lacking != before:
                catalogue.CONTRACT_STATES_REQUESTED.log(contract=known.contract.address, leaves=lacking)
                in_vain, pause_s = 0, RETRY_S
            elif self._are_holders_there(known.contract.address):
                in_vain += 1
            else:
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            await asyncio.sleep(pause_s)

    async def _ask_for_all(self, known: KnownContract) -> int:
        """Ask for every leaf of which this node has no state, page by page; returns their number."""
        address, count = known.contract.address, 0
        while leaves := await self._leaves(known, count):
            count += len(leaves)
            self._tell(StatesWanted(address, leaves))
            if len(leaves) < LEAVES_MAX:
                break
            await asyncio.sleep(PAGE_S)
        return count

    async def _leaves(self, known: KnownContract, skip: int) -> tuple[Leaf, ...]:
        address, last = known.contract.address, known.taken_in_at
        return await self._until_done(
            address, lambda: self._store.leaves_without_states(address, last, LEAVES_MAX, skip)
        )

    async def _until_done(self, contract: ContractAddress, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        pause_s, repeated = RETRY_S, Trouble()
        while True:
            try:
                return await ask()
            except Unavailable as trouble:
                if repeated.is_new(str(trouble)):
                    catalogue.CONTRACT_BACKFILL_POSTPONED.log(contract=contract, reason=str(trouble))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
