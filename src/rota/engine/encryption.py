"""Encryption and decryption of states, for contracts whose domain requires it.

A state that cannot be encrypted to any reader is withheld. If a state cannot be decrypted or arrives in the clear, the
whole message is refused, as the core refuses false claims: nothing is acknowledged, so that its sender sends it again,
and a node that lacks it requests it again (protocol §6).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Final

from rota.domains.base import ENTROPY_BYTES, Rejected
from rota.engine.contracts import KnownContracts
from rota.host import Hosted
from rota.host.encryption import decrypted, encrypted_for
from rota.logs import catalogue
from rota.logs.trouble import PeerLines
from rota.model.types import ContractAddress, NodeName, Party, State, Transition
from rota.ports import UnknownKey
from rota.ports.time_slice import in_slices


class StateEncryption:
    """Encryption for one node. `secret_of` returns the secrets of its parties, `entropy` random bytes of the system."""

    def __init__(
        self, contracts: KnownContracts, secret_of: Callable[[Party], bytes], entropy: Callable[[int], bytes]
    ) -> None:
        self._contracts: Final = contracts
        self._secret_of: Final = secret_of
        self._entropy: Final = entropy
        self._rarely: Final = PeerLines()

    def hosted(self, contract: ContractAddress) -> Hosted | None:
        """Return the contract with its domain, which knows whether to encrypt; None where it is not loaded."""
        assert self._contracts.is_complete, "a node neither speaks nor listens before it knows its contracts"
        return self._contracts.hosted(contract)

    async def encrypted(
        self, hosted: Hosted, peer: NodeName, transitions: Iterable[Transition]
    ) -> tuple[Transition, ...]:
        """Return the transitions as they are sent to a peer, without bytes that it could not read."""
        return await in_slices(self.encrypting(hosted, peer, transitions))

    def encrypting(
        self, hosted: Hosted, peer: NodeName, transitions: Iterable[Transition]
    ) -> Generator[None, None, tuple[Transition, ...]]:
        """Do the same in steps, one for each state that has bytes."""

        def encrypt(state: State) -> State:
            try:
                return encrypted_for(hosted, state, peer, self._entropy(ENTROPY_BYTES))
            except Rejected as flaw:
                if self._rarely.is_due(peer):
                    catalogue.STATE_WITHHELD.log(peer=peer, leaf=state.id.leaf, reason=str(flaw))
                return replace(state, content=None, unknown=b"")

        return _changing(transitions, encrypt)

    async def decrypted(self, hosted: Hosted, transitions: Iterable[Transition]) -> tuple[Transition, ...]:
        """Return received transitions, decrypted; `Rejected` if a state was not encrypted for this node."""
        return await in_slices(self.decrypting(hosted, transitions))

    def decrypting(
        self, hosted: Hosted, transitions: Iterable[Transition]
    ) -> Generator[None, None, tuple[Transition, ...]]:
        """Do the same in steps, one for each state that has bytes."""

        def decrypt(state: State) -> State:
            try:
                plain = decrypted(hosted, state, self._secret_of)
            except (UnknownKey, ValueError) as error:
                raise Rejected("state", str(error)) from None
            # Fills the cache: the store needs the nullifier when it writes the state, among many others at once.
            self._contracts.nullifier_of(hosted.contract.address, plain)
            return plain

        return _changing(transitions, decrypt)


def _changing(
    transitions: Iterable[Transition], change: Callable[[State], State]
) -> Generator[None, None, tuple[Transition, ...]]:
    """Change the states that have bytes, a step for each: each takes milliseconds, and there may be thousands."""
    changed = []
    for transition in transitions:
        outputs = []
        for state in transition.outputs:
            if state.content is not None:
                state = change(state)
                yield
            outputs.append(state)
        changed.append(replace(transition, outputs=tuple(outputs)))
    return tuple(changed)
