"""Finding contracts that lack private states at this node, and asking peers for them again (`automation.shipped`).

A node cannot know which states it may see, so it may permanently lack states of others. It asks for a contract's
states again while that brings some, and a few times without success; then only when other states are missing than
before. A look covers some contracts, and the next one continues behind them: a node may have very many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.model.types import ContractAddress, Leaf
from rota.node.events import StatesWanted
from rota.ports import Store, Tell

IN_VAIN_MAX: Final = 4
LEAVES_MAX: Final = 2_048
# Younger states may still be under way by themselves.
SETTLED_BLOCKS: Final = 20
CONTRACTS_A_LOOK_MAX: Final = 64


class MissingStates:
    """The missing states of one node. `addresses` returns its contracts, `height` its index's height."""

    def __init__(
        self,
        store: Callable[[], Store],
        addresses: Callable[[], tuple[ContractAddress, ...]],
        height: Callable[[], int],
        tell: Tell,
    ) -> None:
        self._store: Final = store
        self._addresses: Final = addresses
        self._height: Final = height
        self._tell: Final = tell
        # Per contract: the leaves lacking when last asked for, the number of failed attempts, and of all attempts.
        self._asked: Final[dict[ContractAddress, tuple[tuple[Leaf, ...], int, int]]] = {}
        self._next = 0

    async def lacking(self, *wanted: ContractAddress) -> tuple[tuple[ContractAddress, int], ...]:
        """Return contracts for which asking may help, with the number of attempts; of `wanted`, or of the next ones."""
        found = []
        for address in wanted or self._some():
            leaves = await self._leaves(address)
            before, in_vain, count = self._asked.get(address, ((), 0, 0))
            if leaves and (leaves != before or in_vain < IN_VAIN_MAX):
                found.append((address, count))
        return tuple(found)

    def _some(self) -> tuple[ContractAddress, ...]:
        every = self._addresses()
        begin = self._next if self._next < len(every) else 0
        self._next = begin + CONTRACTS_A_LOOK_MAX
        return every[begin : self._next]

    async def ask(self, address: ContractAddress) -> None:
        """Ask peers for all states that it lacks; they send those that this node may see."""
        leaves = await self._leaves(address)
        before, in_vain, count = self._asked.get(address, ((), 0, 0))
        self._asked[address] = leaves, in_vain + 1 if leaves == before else 0, count + 1
        if leaves:
            self._tell(StatesWanted(address, leaves))

    async def _leaves(self, address: ContractAddress) -> tuple[Leaf, ...]:
        last = self._height() - SETTLED_BLOCKS
        return await self._store().leaves_without_states(address, last, LEAVES_MAX) if last > 0 else ()
