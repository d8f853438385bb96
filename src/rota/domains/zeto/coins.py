"""Coins: what they hold, the commitment that the chain sees of one, and the nullifier that shows that it is spent.

A coin is locked when it has a delegate: then only that address may bring the transition that spends it. The commitment
hides it like all the rest; it is shown when the coin is spent, for the contract to look at who comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.domains.zeto.babyjubjub import ZERO, Point
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.poseidon import poseidon

VALUE_BITS: Final = 100
VALUE_MAX: Final = (1 << VALUE_BITS) - 1
NO_DELEGATE: Final = 0


@dataclass(frozen=True, slots=True)
class Coin:
    """Its value, a salt that keeps its commitment from being guessed, whose it is, and who alone may bring it."""

    value: int
    salt: int
    owner: Point
    delegate: int = NO_DELEGATE

    @property
    def commitment(self) -> int:
        """What the chain has of it."""
        return poseidon(self.value, self.salt, self.owner.x, self.owner.y, self.delegate)

    def nullifier(self, scalar: int) -> int:
        """What shows that it is spent; only who knows the owner's scalar can tell which coin it belongs to."""
        return nullifier_of(self.value, self.salt, scalar)


def nullifier_of(value: int, salt: int, scalar: int) -> int:
    """What shows that a coin is spent, of whatever delegate."""
    return poseidon(value, salt, scalar)


# Fills a slot of a circuit that is not used. It is worth nothing and nobody's.
NO_COIN: Final = Coin(0, 0, ZERO)


def net_of(comes_in: int, leaves: int) -> int:
    """What comes into the private set less what leaves it, as a circuit has it."""
    assert 0 <= comes_in <= VALUE_MAX, "an amount is below 2^100"
    assert 0 <= leaves <= VALUE_MAX, "an amount is below 2^100"
    return (comes_in - leaves) % ORDER
