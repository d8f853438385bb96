"""States of contracts whose domain has them encrypted, as they leave this node and as they come to it.

What cannot be encrypted to anybody is withheld. What cannot be decrypted, or comes in the clear, is refused with all
that comes with it, as the core refuses what is not what it claims to be: nothing is acknowledged, so that who sent it
sends it again, and who lacks it asks for it again (protocol §6).
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
    """Of one node. `secret_of` gives the secrets of its parties, `entropy` so many random bytes of the system."""

    def __init__(
        self, contracts: KnownContracts, secret_of: Callable[[Party], bytes], entropy: Callable[[int], bytes]
    ) -> None:
        self._contracts: Final = contracts
        self._secret_of: Final = secret_of
        self._entropy: Final = entropy
        self._rarely: Final = PeerLines()

    def hosted(self, contract: ContractAddress) -> Hosted | None:
        """The contract with its domain, which says whether its states are encrypted; nothing where that is not here."""
        assert self._contracts.is_complete, "a node neither speaks nor listens before it knows its contracts"
        return self._contracts.hosted(contract)

    async def encrypted(
        self, hosted: Hosted, peer: NodeName, transitions: Iterable[Transition]
    ) -> tuple[Transition, ...]:
        """Transitions as they leave for a peer; they have no bytes that it could not read."""
        return await in_slices(self.encrypting(hosted, peer, transitions))

    def encrypting(
        self, hosted: Hosted, peer: NodeName, transitions: Iterable[Transition]
    ) -> Generator[None, None, tuple[Transition, ...]]:
        """The same in steps, one for each state that has bytes."""

        def encrypt(state: State) -> State:
            try:
                return encrypted_for(hosted, state, peer, self._entropy(ENTROPY_BYTES))
            except Rejected as flaw:
                if self._rarely.is_due(peer):
                    catalogue.STATE_WITHHELD.log(peer=peer, leaf=state.id.leaf, reason=str(flaw))
                return replace(state, content=None, unknown=b"")

        return _changing(transitions, encrypt)

    async def decrypted(self, hosted: Hosted, transitions: Iterable[Transition]) -> tuple[Transition, ...]:
        """Transitions that came to us, with bytes that were encrypted for parties of this node, or `Rejected`."""
        return await in_slices(self.decrypting(hosted, transitions))

    def decrypting(
        self, hosted: Hosted, transitions: Iterable[Transition]
    ) -> Generator[None, None, tuple[Transition, ...]]:
        """The same in steps, one for each state that has bytes."""

        def decrypt(state: State) -> State:
            try:
                plain = decrypted(hosted, state, self._secret_of)
            except (UnknownKey, ValueError) as error:
                raise Rejected("state", str(error)) from None
            # The store asks for it when it writes the state, among many others at once. It is remembered.
            self._contracts.nullifier_of(hosted.contract.address, plain)
            return plain

        return _changing(transitions, decrypt)


def _changing(
    transitions: Iterable[Transition], change: Callable[[State], State]
) -> Generator[None, None, tuple[Transition, ...]]:
    """Those states that have bytes, changed. Each takes milliseconds, and there may be thousands: a step for each."""
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
