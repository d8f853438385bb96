"""Which nodes may have the private states of a contract."""

from __future__ import annotations

from rota.model.types import Contract, NodeName


def holders_of(contract: Contract) -> tuple[NodeName, ...]:
    """Who may have a contract's private states, and is asked by who lacks them."""
    return tuple(dict.fromkeys((*contract.committee, *contract.endorsers)))


def may_distribute(contract: Contract, peer: NodeName) -> bool:
    """Whether a peer may have states of this contract to give. Where any node may send, any node has those it made."""
    insiders = contract.insiders
    return insiders is None or peer in insiders
