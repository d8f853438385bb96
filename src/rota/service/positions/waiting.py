"""Reads that wait until this node has seen as much as their caller: `Positions` on the node's own index.

Theory of operation. A position is a block with its hash and, if it is a private transaction's, the leaf that was
committed and the nodes that hold states of it. It is reached when the index has the block with that hash, the store
from which the caller reads has all records ordered by then and, if this node is named, the store has all states of the
leaf that are for this node. The position of a caller is not trusted: the wait for one that does not exist lasts as long
as any other, `READ_WAIT_S`, and a bounded number of reads wait at a time, of which one caller has half. Missing states
are asked for once in that time, if the index has the leaf as committed there: states that this node asks for do not
count against the quotas of the peers that send them.

A block below those that the index keeps is compared with the chain's own, once.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from rota.chain.index import ChainIndex
from rota.ledger.looking_up import LookingUp
from rota.machine.tables import Event
from rota.model.blocks import LedgerStatus
from rota.model.types import BlockHash, ContractAddress, Leaf, NodeName
from rota.node.events import StatesWanted
from rota.ports import Store, Unavailable
from rota.rpc import errors
from rota.rpc.credentials import CALLER, share_of
from rota.service.interface import PositionView
from rota.service.receipts.holdings import is_held
from rota.service.run import RunningNode

READ_WAIT_S: Final = 2.0
WAITING_MAX: Final = 256
LOOK_S: Final = 0.005
LOOK_MAX_S: Final = 0.1
SEEN_MAX: Final = 4_096

HashAt = Callable[[int], BlockHash | None]
Header = Callable[[int], Awaitable[BlockHash | None]]
IsCommitted = Callable[[int, ContractAddress, Leaf], bool]
AfterWrites = Callable[[Callable[[], None]], None]


class ReadPositions:
    """The waiting reads of one node. `hash_at` and `height` are those of its index, `header` reads the chain.

    `chain` is the hash of the chain's block 0, if it is known. `ask` asks peers for states. `is_committed`: whether a
    block that the index keeps has a leaf. `after_writes` calls back when all that the core has ordered is durable.
    """

    def __init__(
        self,
        node: NodeName,
        store: Store,
        chain: Callable[[], BlockHash | None],
        height: Callable[[], int],
        hash_at: HashAt,
        header: Header,
        ask: Callable[[Event], None],
        is_committed: IsCommitted,
        after_writes: AfterWrites,
    ) -> None:
        self._node: Final = node
        self._store: Final = store
        self._chain: Final = chain
        self._height: Final = height
        self._hash_at: Final = hash_at
        self._header: Final = header
        self._ask: Final = ask
        self._is_committed: Final = is_committed
        self._after_writes: Final = after_writes
        self._waiting: Final[Counter[str]] = Counter()
        # Old blocks confirmed by the chain, and leaves whose states are here: neither changes.
        self._seen: Final[OrderedDict[tuple[object, bytes], None]] = OrderedDict()

    async def reach(self, positions: tuple[PositionView, ...]) -> None:
        """Return when this node has seen all of them."""
        for position in positions:
            chain = self._chain()
            if position.chain is not None and chain is not None and position.chain != chain:
                raise errors.invalid("chain", f"must be this node's chain, whose block 0 is 0x{chain.hex()}")
        caller = CALLER.get()
        if self._waiting.total() >= WAITING_MAX or self._waiting[caller.name] >= share_of(caller, WAITING_MAX):
            raise Unavailable(f"{self._waiting.total()} reads wait for this node to reach their positions")
        self._waiting[caller.name] += 1
        lacks = ""
        try:
            async with asyncio.timeout(READ_WAIT_S):
                for position in positions:
                    lacks = f"block {position.block_number}"
                    await self._reach_block(position)
                    lacks = f"the private states that block {position.block_number} committed"
                    await self._reach_states(position)
        except TimeoutError:
            raise errors.NotReached(self._node, self._height(), lacks, READ_WAIT_S) from None
        finally:
            self._leave(caller.name)

    def _leave(self, caller: str) -> None:
        self._waiting[caller] -= 1
        if not self._waiting[caller]:
            del self._waiting[caller]

    async def _reach_block(self, position: PositionView) -> None:
        pause_s = LOOK_S
        while self._height() < position.block_number:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_MAX_S)
        await self._reach_store()
        found = self._hash_at(position.block_number)
        if found is None:
            found = await self._old_block(position)
        if found != position.block_hash:
            here = f"0x{found.hex()}" if found is not None else "missing"
            text = f"must be that of block {position.block_number} on this node's chain, which is {here}"
            raise errors.invalid("blockHash", text)

    async def _reach_store(self) -> None:
        """Wait until the store has the writes ordered so far: the index advances while its blocks are written."""
        written = asyncio.Event()
        self._after_writes(written.set)
        await written.wait()

    async def _old_block(self, position: PositionView) -> BlockHash | None:
        key = (position.block_number, position.block_hash)
        if key in self._seen:
            return position.block_hash
        found = await self._header(position.block_number)
        if found == position.block_hash:
            self._note(key)
        return found

    async def _reach_states(self, position: PositionView) -> None:
        contract, leaf = position.contract, position.leaf
        if contract is None or leaf is None or self._node not in position.nodes:
            return
        has_asked, pause_s = False, LOOK_S
        while not await self._holds(contract, leaf):
            if not has_asked and self._is_committed(position.block_number, contract, leaf):
                self._ask(StatesWanted(contract, (leaf,)))
            has_asked = True
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_MAX_S)

    async def _holds(self, contract: ContractAddress, leaf: Leaf) -> bool:
        key = (contract, leaf)
        if key in self._seen:
            return True
        if not is_held(self._node, leaf, await self._store.transitions_of(contract, (leaf,))):
            return False
        self._note(key)
        return True

    def _note(self, key: tuple[object, bytes]) -> None:
        self._seen[key] = None
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)


def read_positions(running: RunningNode, looking_up: LookingUp) -> ReadPositions:
    """Return the positions of a running node."""

    def index() -> ChainIndex:
        return running.engine.core.index

    def is_committed(height: int, contract: ContractAddress, leaf: Leaf) -> bool:
        return any(
            (where, outcome.leaf, outcome.status) == (contract, leaf, LedgerStatus.COMMITTED)
            for block in index().above(height - 1)[:1]
            if block.height == height
            for where, outcome in block.outcomes
        )

    async def header(number: int) -> BlockHash | None:
        found = await looking_up.header(number)
        return found.hash if found is not None else None

    return ReadPositions(
        running.name,
        running.adapters.store,
        lambda: running.genesis,
        lambda: index().height if running.started.is_set() else -1,
        lambda height: index().hash_at(height),
        header,
        running.ask_for_states,
        is_committed,
        lambda call: running.engine.outbox.after_writes(call),
    )
