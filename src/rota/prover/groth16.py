"""Groth16: a set-up for a circuit, proofs of it, and their verification (Jens Groth, 2016).

A set-up draws five secrets and gives two keys, one to prove with and one to verify with. A party that knows the secrets
can prove false statements, so they exist only in the memory of `set_up`, while it runs.

A circuit of n constraints a * b = c becomes polynomials over a domain of roots of unity, one root for each constraint:
A, B and C have the three sides as their values there, so that A * B - C is a multiple of Z, which is zero in the
domain. A proof shows the quotient H at a point that no party knows.

After the constraints each public input has a row of its own, x * 0 = 0, and so has the one wire. So their polynomials
are linearly independent, whatever the circuit does with them, and no proof for some public inputs is one for others.

A proof has A in the first group, B in the second and C in the first, each of them blinded: two proofs of one statement
have nothing in common.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from rota.domains.zeto.constraints import Constraint, Structure, Trace
from rota.domains.zeto.field import ORDER, inverse
from rota.prover.curve import (
    G1,
    G2,
    are_pairings_equal,
    multiples_of_first,
    multiples_of_second,
    root_of_unity,
    sum_in_first,
    sum_in_second,
    transform,
    transform_back,
    values_of_lagrange,
)

WORD_BYTES: Final = 32
PROOF_BYTES: Final = 8 * WORD_BYTES


class Unprovable(Exception):
    """The statement is false; names the rules that it breaks."""

    def __init__(self, broken: Sequence[str]) -> None:
        super().__init__(tuple(broken))
        self.broken = tuple(broken)

    def __str__(self) -> str:
        return f"the statement breaks the rules of {', '.join(self.broken)}"


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """The key that verifies proofs of one circuit; `inputs` has a point for the one wire and for each public input."""

    alpha: G1
    beta: G2
    gamma: G2
    delta: G2
    inputs: tuple[G1, ...]


@dataclass(frozen=True, slots=True)
class ProvingKey:
    """The key that makes proofs of one circuit.

    Wires that do not occur on a side have no point there; `left_wires` and `right_wires` list those that do. `rest` has
    a point for each wire that is not public, `quotient` one for each coefficient of H.
    """

    verifying: VerifyingKey
    beta: G1
    delta: G1
    domain_size: int
    left_wires: tuple[int, ...]
    left: tuple[G1, ...]
    right_wires: tuple[int, ...]
    right: tuple[G1, ...]
    right_second: tuple[G2, ...]
    rest: tuple[G1, ...]
    quotient: tuple[G1, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """The three points of a proof."""

    a: G1
    b: G2
    c: G1

    def to_bytes(self) -> bytes:
        """Encode it for the chain's precompiles: in the second group the imaginary part comes first (EIP-197)."""
        numbers = (self.a.x, self.a.y, *reversed(self.b.x), *reversed(self.b.y), self.c.x, self.c.y)
        return b"".join(number.to_bytes(WORD_BYTES, "big") for number in numbers)


def set_up(circuit: Structure) -> ProvingKey:
    """Return keys for a circuit, from random secrets that are then discarded."""
    tau, alpha, beta, gamma, delta = (1 + secrets.randbelow(ORDER - 1) for _ in range(5))
    size = domain_size(len(circuit.constraints), circuit.public_count)
    left, right, result = _columns(circuit, values_of_lagrange(size, tau))
    joined = [(beta * a + alpha * b + c) % ORDER for a, b, c in zip(left, right, result, strict=True)]
    shown, hidden = joined[: circuit.public_count + 1], joined[circuit.public_count + 1 :]
    left_wires = tuple(wire for wire, value in enumerate(left) if value)
    right_wires = tuple(wire for wire, value in enumerate(right) if value)
    vanishing = (pow(tau, size, ORDER) - 1) * inverse(delta) % ORDER

    alpha_point, beta_point, delta_point = multiples_of_first((alpha, beta, delta))
    beta_second, gamma_second, delta_second = multiples_of_second((beta, gamma, delta))
    verifying = VerifyingKey(
        alpha_point,
        beta_second,
        gamma_second,
        delta_second,
        tuple(multiples_of_first([value * inverse(gamma) % ORDER for value in shown])),
    )
    return ProvingKey(
        verifying,
        beta_point,
        delta_point,
        size,
        left_wires,
        tuple(multiples_of_first([left[wire] for wire in left_wires])),
        right_wires,
        tuple(multiples_of_first([right[wire] for wire in right_wires])),
        tuple(multiples_of_second([right[wire] for wire in right_wires])),
        tuple(multiples_of_first([value * inverse(delta) % ORDER for value in hidden])),
        tuple(multiples_of_first([vanishing * power % ORDER for power in _powers(tau, size - 1)])),
    )


def prove(key: ProvingKey, trace: Trace) -> Proof:
    """Return a proof of a computation. `Unprovable` when it breaks a rule: such a proof would be refused anyway."""
    if trace.broken:
        raise Unprovable(sorted(trace.broken))
    wires = trace.wires
    blind_a, blind_b = secrets.randbelow(ORDER), secrets.randbelow(ORDER)
    left = [wires[wire] for wire in key.left_wires]
    right = [wires[wire] for wire in key.right_wires]
    verifying = key.verifying
    a = sum_in_first((*key.left, verifying.alpha, key.delta), (*left, 1, blind_a))
    b = sum_in_second((*key.right_second, verifying.beta, verifying.delta), (*right, 1, blind_b))
    b_in_first = sum_in_first((*key.right, key.beta, key.delta), (*right, 1, blind_b))
    hidden = wires[trace.public_count + 1 :]
    c = sum_in_first(
        (*key.rest, *key.quotient, a, b_in_first, key.delta),
        (*hidden, *_quotient(key.domain_size, trace), blind_b, blind_a, -blind_a * blind_b % ORDER),
    )
    return Proof(a, b, c)


def verify(key: VerifyingKey, public_inputs: Sequence[int], proof: Proof) -> bool:
    """Return whether this is a proof for these public inputs, by the contract's own equation."""
    shown = sum_in_first(key.inputs, (1, *public_inputs))
    return are_pairings_equal((proof.a, proof.b), ((key.alpha, key.beta), (shown, key.gamma), (proof.c, key.delta)))


def domain_size(constraint_count: int, public_count: int) -> int:
    """Return a power of two with room for each constraint and for each public input's own row."""
    return 1 << (constraint_count + public_count).bit_length()


def _columns(circuit: Structure, lagrange: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Return the value of each wire's three polynomials at the secret point."""
    left, right, result = ([0] * circuit.wire_count for _ in range(3))
    for constraint, value in zip(circuit.constraints, lagrange, strict=False):
        for column, terms in zip((left, right, result), _sides(constraint), strict=True):
            for wire, factor in terms.items():
                column[wire] = (column[wire] + factor * value) % ORDER
    for wire in range(circuit.public_count + 1):
        left[wire] = (left[wire] + lagrange[len(circuit.constraints) + wire]) % ORDER
    return left, right, result


def _sides(constraint: Constraint) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    return constraint.left, constraint.right, constraint.result


def _quotient(size: int, trace: Trace) -> list[int]:
    """Return the coefficients of H = (A * B - C) / Z.

    In the domain itself both sides are zero, so the division is done beside it: at the domain's points times a number
    whose power `size` is -1. There Z is -2 everywhere.
    """
    own_rows = trace.wires[: trace.public_count + 1]
    shift, shift_back = _shifts(size)
    beside = []
    for values in ((*trace.lefts, *own_rows), trace.rights, trace.results):
        coefficients = transform_back((*values, *[0] * (size - len(values))), size)
        beside.append(transform([a * b % ORDER for a, b in zip(coefficients, shift, strict=True)], size))
    by_z = inverse(-2)
    values = [(a * b - c) * by_z % ORDER for a, b, c in zip(*beside, strict=True)]
    shifted = transform_back(values, size)
    quotient = [a * b % ORDER for a, b in zip(shifted, shift_back, strict=True)]
    assert quotient[-1] == 0, "the quotient has a lower degree than the domain has points"
    return quotient[:-1]


@cache
def _shifts(size: int) -> tuple[list[int], list[int]]:
    step = root_of_unity(2 * size)
    return _powers(step, size), _powers(inverse(step), size)


def _powers(base: int, count: int) -> list[int]:
    powers, power = [], 1
    for _ in range(count):
        powers.append(power)
        power = power * base % ORDER
    return powers
