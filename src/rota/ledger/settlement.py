"""Prepared transitions as they are committed: alone by their committer, or several by the settlement contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rota.calldata import Entry, encode_auth, encode_commit, encode_payload, shown_states
from rota.ledger.bindings import encode_call, separator_of
from rota.ledger.proofs import coins_in, encode_proofs
from rota.model.digests import Core, leaf_of_transition
from rota.model.types import ContractAddress, Leaf, Transition
from rota.ports import Policy
from rota.wire.messages import PreparedTransaction

NO_CONDITION: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class Leg:
    """The data that commits one prepared transition: its ledger, its core, its round and the signatures.

    The other transitions of the round are bare leaves. `committer` is the only account that may commit it, None if any
    may; `condition` must be passed with it.
    """

    ledger: ContractAddress
    core: Core
    payload: bytes
    auth: bytes
    valid_until_s: int
    committer: ContractAddress | None = None
    condition: bytes = NO_CONDITION

    @property
    def commit(self) -> bytes:
        """The call of its ledger that commits it alone, where its committer is no settlement."""
        return encode_commit(self.payload, self.auth, self.condition)


def makers_of(prepared: PreparedTransaction) -> tuple[Leaf, ...]:
    """Return the leaves that made the states that a prepared transition names."""
    return tuple(dict.fromkeys(state.leaf for state in shown_states(prepared.transition)))


def leg_of(
    prepared: PreparedTransaction,
    ledger: ContractAddress,
    policy: Policy,
    chain_id: int,
    makers: Sequence[Transition] = (),
) -> Leg:
    """Return a prepared transition in the form for its committer. A proved one names the outputs of `makers`."""
    transition, preparation = prepared.transition, prepared.transition.preparation
    entries: tuple[Entry, ...] = tuple(transition if leaf == transition.leaf else leaf for leaf in prepared.leaves)
    return Leg(
        ledger,
        Core(leaf_of_transition(separator_of(chain_id, ledger), replace(transition, preparation=None))),
        encode_payload(entries, prepared.valid_until_s),
        _auth_of(prepared, entries, policy, makers),
        prepared.valid_until_s,
        preparation.committer if preparation is not None else None,
        preparation.condition if preparation is not None else NO_CONDITION,
    )


def _auth_of(
    prepared: PreparedTransaction, entries: tuple[Entry, ...], policy: Policy, makers: Sequence[Transition]
) -> bytes:
    if policy.threshold == 0:
        coins = {maker.leaf: coins_in(maker) for maker in makers}
        return encode_proofs(entries, coins.__getitem__)
    addresses = dict(policy.endorsers)
    signatures = {addresses[node]: signature for node, signature in prepared.signatures if node in addresses}
    return encode_auth(tuple(addresses.values()), signatures, policy.threshold)


def settle_call(legs: Sequence[Leg]) -> bytes:
    """Return the settlement contract's call that commits all legs or none; in the order that was bound."""
    written = [(leg.ledger, [leg.core], leg.payload, leg.auth) for leg in legs]
    return encode_call("Settlement", "settle", written)
