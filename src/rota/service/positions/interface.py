"""Positions on the base ledger: receipts carry them, so that a read at another node sees at least as much.

    receipt = ptx_getTransactionReceipt(id)                       # at node1
    pgroup_call({..., "atLeast": receipt["position"]})            # at node2: the new value, or an error

A read with `atLeast` is answered when the node has indexed that block and holds the states of that transaction which
are for this node. It waits for `READ_WAIT_S` at most, then the answer is error -32006, never an older value. A block
with another hash is an error at once: the node follows another fork.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from rota.model.types import BlockHash, ContractAddress, Leaf, NodeName
from rota.rpc.errors import Rejected, invalid
from rota.rpc.formats import Address, Word, word_of

POSITIONS_MAX: Final = 16
NODES_MAX: Final = 1_024
HEIGHT_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PositionView:
    """A place on the base ledger. `nodes` hold private states of the leaf that was committed there."""

    block_number: int
    block_hash: BlockHash
    log_index: int = 0
    chain: BlockHash | None = None
    contract: ContractAddress | None = None
    leaf: Leaf | None = None
    nodes: tuple[NodeName, ...] = ()


class LedgerPosition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A place on the base ledger, as receipts carry it: a block, its hash, and a log in it.

    `chain` is the hash of the chain's block 0. `contract` and `leaf` name the transition that was committed there, and
    `nodes` hold private states of it: a node that is not named does not wait for any.
    """

    block_number: Annotated[int, Meta(ge=0, le=HEIGHT_MAX)]
    block_hash: Word
    log_index: Annotated[int, Meta(ge=0, le=HEIGHT_MAX)] | None = None
    chain: Word | None = None
    contract: Address | None = None
    leaf: Word | None = None
    nodes: Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(max_length=NODES_MAX)] = []  # msgspec copies it


AtLeast = Annotated[
    LedgerPosition | list[LedgerPosition] | None,
    Meta(description="Positions of receipts: wait for at most 2 s until this node has seen them, else an error"),
]


class Positions(Protocol):
    """The part of the ledger, and of the states committed there, that this node has seen."""

    async def reach(self, positions: tuple[PositionView, ...]) -> None:
        """Return when this node has seen all of them.

        `errors.NotReached` when that takes too long. `Rejected` names `chain` or `blockHash` when they lie on another
        chain or fork.
        """
        ...


class HasPositions(Protocol):
    """A node whose reads can wait for a position."""

    @property
    def positions(self) -> Positions:
        """Its progress on the ledger."""
        ...


async def reach(node: HasPositions, at_least: AtLeast, place: str) -> None:
    """Wait until the node has seen what its caller has; `place` is what an error calls the parameter."""
    if at_least is None:
        return
    given = at_least if isinstance(at_least, list) else [at_least]
    if len(given) > POSITIONS_MAX:
        raise invalid(place, f"must be at most {POSITIONS_MAX} positions, not {len(given)}")
    try:
        await node.positions.reach(tuple(_view(each) for each in given))
    except Rejected as error:
        raise error.within(place) from None


def _view(given: LedgerPosition) -> PositionView:
    return PositionView(
        given.block_number,
        BlockHash(given.block_hash.content),
        given.log_index or 0,
        BlockHash(given.chain.content) if given.chain is not None else None,
        given.contract.contract if given.contract is not None else None,
        Leaf(given.leaf.content) if given.leaf is not None else None,
        tuple(NodeName(each) for each in given.nodes),
    )


def shown_position(view: PositionView) -> LedgerPosition:
    """Return a position as clients read it."""
    return LedgerPosition(
        view.block_number,
        word_of(view.block_hash),
        view.log_index,
        word_of(view.chain) if view.chain is not None else None,
        Address(view.contract) if view.contract is not None else None,
        word_of(view.leaf) if view.leaf is not None else None,
        [*view.nodes],
    )
