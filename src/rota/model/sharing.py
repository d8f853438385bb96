"""Which nodes may have the private states of a contract."""

from __future__ import annotations

from rota.model.types import Contract, NodeName


def holders_of(contract: Contract) -> tuple[NodeName, ...]:
    """Return the nodes that may have a contract's private states; a node that lacks some asks them."""
    return tuple(dict.fromkeys((*contract.committee, *contract.endorsers)))


def may_distribute(contract: Contract, peer: NodeName) -> bool:
    """Whether a peer may distribute states of this contract. Where any node may send, any node has those it made."""
    insiders = contract.insiders
    return insiders is None or peer in insiders
