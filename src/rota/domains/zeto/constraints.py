"""Constraint systems: what a circuit is written on, once, and what is made of it.

A circuit is a list of constraints a * b = c. Each of a, b, c is a sum of wires times constants; wire 0 is always one,
the public inputs follow, then what only the prover knows. A circuit is a function that is given a system and asks it
for wires and constraints. There are two systems:

    Structure   writes the constraints down; wires have no values. What a set-up is made from
    Trace       computes values and writes nothing down but the three sides of each constraint. What is proved

So a prover never touches the matrices, which are large: it has the sides of each constraint from the computation
itself. That both mean the same is a test, as is that every rule is needed: constraints are told apart by the rule that
they serve.

A Trace does not stop at a constraint that does not hold: it tells which rules were broken. That is what a test of
a rule wants to know, and whoever proves asks it first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, Generic, Protocol, Self, TypeVar

from rota.domains.zeto.field import ORDER, inverse

ONE_WIRE: Final = 0


class Summable(Protocol):
    """What a circuit counts with: sums of wires when it is written down, plain numbers when it is traced."""

    def __add__(self, other: Self, /) -> Self: ...

    def __sub__(self, other: Self, /) -> Self: ...

    def __mul__(self, factor: int, /) -> Self: ...


W = TypeVar("W", bound=Summable)


class Linear:
    """A sum of wires times constants. Immutable: a circuit may keep one and use it again."""

    __slots__ = ("terms",)

    def __init__(self, terms: dict[int, int]) -> None:
        self.terms: Final = terms

    def __add__(self, other: Linear) -> Linear:
        short, long = sorted((self.terms, other.terms), key=len)
        total = dict(long)
        for wire, factor in short.items():
            total[wire] = (total.get(wire, 0) + factor) % ORDER
        return Linear(total)

    def __sub__(self, other: Linear) -> Linear:
        return self + other * -1

    def __mul__(self, factor: int) -> Linear:
        return Linear({wire: own * factor % ORDER for wire, own in self.terms.items()})


@dataclass(frozen=True, slots=True)
class Constraint:
    """left * right = result, and the rule that it serves."""

    left: dict[int, int]
    right: dict[int, int]
    result: dict[int, int]
    rule: str


class System(ABC, Generic[W]):
    """What a circuit may ask for. `rule` names what the constraints that follow are for."""

    rule: str = "wiring"

    @abstractmethod
    def constant(self, value: int) -> W:
        """A number that is the same in every proof."""

    @abstractmethod
    def public(self, value: int) -> W:
        """A wire that the verifier is told. All of these come before any other."""

    @abstractmethod
    def secret(self, value: int) -> W:
        """A wire that the prover chooses."""

    @abstractmethod
    def unbound(self, sum_: W) -> W:
        """A wire that the prover gives the value of a sum; nothing holds it to that yet."""

    @abstractmethod
    def require(self, left: W, right: W, result: W) -> None:
        """A constraint."""

    @abstractmethod
    def product(self, left: W, right: W) -> W:
        """A wire that is the product of two sums."""

    @abstractmethod
    def quotient(self, numerator: W, denominator: W) -> W:
        """A wire that gives the numerator when it is multiplied by the denominator, which is never zero."""

    @abstractmethod
    def reduced(self, sum_: W) -> W:
        """The same sum, in the fewest digits. It costs no constraint; without it long sums of sums grow."""

    def require_equal(self, left: W, right: W) -> None:
        self.require(left, self.constant(1), right)

    def switch(self, value: int) -> W:
        """A wire that is 0 or 1."""
        wire = self.secret(value)
        self.require(wire, wire, wire)
        return wire

    def bits(self, value: int, count: int) -> list[W]:
        """Wires that are 0 or 1, the lowest first; those of a number that needs no more than `count` of them.

        What is too large stays in the highest, which is then neither 0 nor 1.
        """
        last = count - 1
        return [self.switch(value >> place & 1) for place in range(last)] + [self.switch(value >> last)]


class Structure(System[Linear]):
    """The constraints of a circuit, written down."""

    def __init__(self) -> None:
        self.public_count = 0
        self.wire_count = 1
        self.constraints: list[Constraint] = []

    def constant(self, value: int) -> Linear:
        return Linear({ONE_WIRE: value % ORDER})

    def public(self, value: int) -> Linear:
        assert self.wire_count == self.public_count + 1, "public wires come first"
        self.public_count += 1
        return self.secret(value)

    def secret(self, value: int) -> Linear:
        wire = self.wire_count
        self.wire_count += 1
        return Linear({wire: 1})

    def unbound(self, sum_: Linear) -> Linear:
        return self.secret(0)

    def require(self, left: Linear, right: Linear, result: Linear) -> None:
        self.constraints.append(Constraint(left.terms, right.terms, result.terms, self.rule))

    def product(self, left: Linear, right: Linear) -> Linear:
        result = self.secret(0)
        self.require(left, right, result)
        return result

    def quotient(self, numerator: Linear, denominator: Linear) -> Linear:
        result = self.secret(0)
        self.require(result, denominator, numerator)
        return result

    def reduced(self, sum_: Linear) -> Linear:
        return sum_


class Trace(System[int]):
    """One computation of a circuit: the values of all wires, and of the three sides of each constraint."""

    def __init__(self) -> None:
        self.public_count = 0
        self.wires = [1]
        self.lefts: list[int] = []
        self.rights: list[int] = []
        self.results: list[int] = []
        self.broken: dict[str, int] = {}

    @property
    def public_inputs(self) -> list[int]:
        return self.wires[1 : self.public_count + 1]

    def constant(self, value: int) -> int:
        return value % ORDER

    def public(self, value: int) -> int:
        assert len(self.wires) == self.public_count + 1, "public wires come first"
        self.public_count += 1
        return self.secret(value)

    def secret(self, value: int) -> int:
        self.wires.append(value % ORDER)
        return self.wires[-1]

    def unbound(self, sum_: int) -> int:
        return self.secret(sum_)

    def require(self, left: int, right: int, result: int) -> None:
        self._write(left % ORDER, right % ORDER, result % ORDER)

    def product(self, left: int, right: int) -> int:
        left, right = left % ORDER, right % ORDER
        result = self.secret(left * right)
        self._write(left, right, result)
        return result

    def quotient(self, numerator: int, denominator: int) -> int:
        denominator %= ORDER
        # Only points that are not on the curve have a denominator of zero: then no wire is right, and any is wrong.
        result = self.secret(numerator * inverse(denominator) if denominator else 0)
        self._write(result, denominator, numerator % ORDER)
        return result

    def reduced(self, sum_: int) -> int:
        return sum_ % ORDER

    def _write(self, left: int, right: int, result: int) -> None:
        if left * right % ORDER != result:
            self.broken[self.rule] = self.broken.get(self.rule, 0) + 1
        self.lefts.append(left)
        self.rights.append(right)
        self.results.append(result)
