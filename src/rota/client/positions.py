"""What the clients of this process have seen of each contract, so that no read of theirs gives an older value.

A receipt carries a position on the base ledger. The latest ones of each contract go with every question to that
contract (`atLeast`), at whichever node it is asked: the node waits for them for up to two seconds, and then answers an
error and never the value from before. All clients of a process share one `Positions`, unless they are given another. A
node is not told which other nodes hold states of a transaction (`seen_by`).

A process may use several chains, and a contract may have the same address on two of them. A node refuses the position
of another chain, and the client asks it again without.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Final

CONTRACTS_MAX: Final = 1_024
POSITIONS_MAX: Final = 16

Position = dict[str, Any]


class Positions:
    """The latest positions of each contract; for several threads."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._of: Final[OrderedDict[str, list[Position]]] = OrderedDict()

    def note(self, contract: str, position: Position) -> None:
        """A receipt of this contract was read, which carries this position."""
        key = contract.lower()
        with self._lock:
            known = self._of.setdefault(key, [])
            self._of.move_to_end(key)
            if position not in known:
                known.append(position)
                known.sort(key=lambda each: (each.get("blockNumber", 0), each.get("logIndex", 0)))
                del known[:-POSITIONS_MAX]
            if len(self._of) > CONTRACTS_MAX:
                self._of.popitem(last=False)

    def of(self, contract: str) -> tuple[Position, ...]:
        """What a read of this contract must have seen."""
        with self._lock:
            return tuple(self._of.get(contract.lower(), ()))

    def forget(self, contract: str, positions: tuple[Position, ...]) -> None:
        """These are of another chain than the contract that is read."""
        with self._lock:
            known = self._of.get(contract.lower(), [])
            known[:] = [each for each in known if each not in positions]


def seen_by(node: str, position: Position) -> Position:
    """The position as this node receives it; it learns no others."""
    if node in position.get("nodes", ()):
        return {**position, "nodes": [node]}
    return {name: value for name, value in position.items() if name not in ("contract", "leaf", "nodes")}


SHARED: Final = Positions()
