"""A liar's own chain account: it commits any round with enough signatures, and its transactions are mined first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol

from rota.chain.effects import RoundDispatch
from rota.machine.effects import DispatchRound
from rota.model.types import Digest, NodeName, Transition
from rota.sim.chain import Chain
from rota.sim.liars.notebook import KnownRound
from rota.sim.recorder import OwningWorld
from rota.sim.wires import Wires

# The pool is mined in the order of signer names: this one sorts before all letters.
SIGNER = " "


class WorldOfLiars(OwningWorld, Protocol):
    """What liars use of their world."""

    chain: Chain
    wires: Wires


class Account:
    """Sends transactions under its own nonces."""

    def __init__(self, world: WorldOfLiars, name: NodeName) -> None:
        self.world = world
        self.signer = f"{SIGNER}{name}"
        self.count = 0
        self.sent: set[tuple[Digest, tuple[bytes, ...]]] = set()

    def commit(
        self, known: KnownRound, signatures: Mapping[NodeName, bytes], transitions: tuple[Transition, ...] | None = None
    ) -> bool:
        """Send a round, or only the given transitions of it, unless sent before; returns whether it was sent."""
        chosen = known.transitions if transitions is None else transitions
        key = (known.digest, tuple(transition.leaf for transition in chosen))
        if not chosen or key in self.sent:
            return False
        self.sent.add(key)
        order = DispatchRound(
            known.contract, known.digest, known.leaves, chosen, (), tuple(signatures.items()), known.valid_until_s
        )
        ledger = self.world.ledger
        pooled = sum(signer == self.signer for signer, _ in ledger.pool)
        nonce = ledger.next_nonce.get(self.signer, 0) + pooled
        digest = hashlib.sha256(f"{self.signer}/{nonce}".encode() + known.digest).digest()
        self.count += 1
        self.world.chain.send(RoundDispatch(order, self.signer, nonce, hash=digest))
        return True
