"""The checks of a round by the ledger's contract, for worlds in which submitted values may be false."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rota.machine.effects import DispatchRound
from rota.model.digests import domain_separator, leaf_of_transition, round_digest, state_commitment
from rota.model.types import Contract, ContractAddress, State, StateId, Transition
from rota.sim.services import verify


class RoundRules:
    """Checks the signatures, the digest and the leaves of a round."""

    def __init__(self, contracts: Mapping[ContractAddress, Contract]) -> None:
        self.contracts = contracts

    def flaw_of(self, order: DispatchRound) -> str:
        """Why the contract rejects a round; an empty text if it accepts it."""
        contract = self.contracts[order.contract]
        separator = domain_separator(contract.chain_id, order.contract)
        if round_digest(separator, order.leaves, order.valid_until_s) != order.digest:
            return "bad digest"
        signatures = dict(order.signatures)
        valid = sum(name in signatures and verify(name, order.digest, signatures[name]) for name in contract.endorsers)
        if valid < contract.threshold:
            return "bad signatures"
        leaves = [transition.leaf for transition in order.transitions]
        if len(set(leaves)) < len(leaves) or not set(leaves) <= set(order.leaves):
            return "a leaf is not in the round"
        if any(leaf_of_transition(separator, each) != each.leaf for each in order.transitions):
            return "a leaf is not that of its transition"
        return ""


def bound_part(transition: Transition) -> Transition:
    """A transition without contents that do not match their commitments; state ids are the leaf and the position."""
    outputs = tuple(_bound(transition, number) for number in range(len(transition.outputs)))
    return replace(transition, outputs=outputs)


def _bound(transition: Transition, number: int) -> State:
    state = transition.outputs[number]
    is_bound = state.content is not None and state_commitment(state.content) == state.commitment
    return replace(state, id=StateId(transition.leaf, number), content=state.content if is_bound else None)
