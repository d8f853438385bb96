"""The field that everything is counted in: the integers modulo the order of BN254's groups.

It is the field of the circuits, because the proofs live on BN254, which the chain can check. BabyJubJub and Poseidon
are made for it.
"""

from __future__ import annotations

from typing import Final

# The order of BN254's groups, as EIP-196 has it.
ORDER: Final = 21888242871839275222246405745257275088548364400416034343698204186575808495617


def inverse(element: int) -> int:
    """One divided by an element, which is not zero."""
    return pow(element, -1, ORDER)


def is_element(number: int) -> bool:
    """Whether a number is written as the field has it: an element has one form, or one coin would have many."""
    return 0 <= number < ORDER
