"""The circuits of `zeto`: which rules a transition keeps, written as constraints (decision 130).

One circuit for a kind of token and a shape, so many inputs and outputs; mint, deposit, transfer, withdrawal, lock and
what becomes of a lock are all the same one. Public inputs, in this order:

    anon             in 0 ... (commitments)                  out 0 ...   net   delegate   binding
    anon_nullifier   nf 0 ... (nullifiers)   root  pending   out 0 ...   net   delegate   binding

The kinds with `_kyc` have one more before the binding: `identities`, the root of the tree of registered owners
(`identities.py`). The owner of the inputs and the owner of every output are in that tree.

A slot that is not used shows zero and holds a coin that is worth nothing. The rules, by the names that their
constraints have: *ownership*, *conservation*, *range*, *opening*, *nullifying*, *membership*, *registration*,
*switching*, *binding*. The rule of the delegate is one of opening: the coins that are spent are opened with the
delegate that is shown.

Values of inputs have no range of their own: every coin was an output once, of this same circuit, or its issuer has
signed for it, who may make any amount.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Final

from rota.domains.zeto import gadgets
from rota.domains.zeto.babyjubjub import SCALAR_BITS
from rota.domains.zeto.coins import NO_COIN, NO_DELEGATE, VALUE_BITS, Coin
from rota.domains.zeto.constraints import Structure, System, Trace, W
from rota.domains.zeto.field import is_element
from rota.domains.zeto.identities import IDENTITY_LEVELS, IDENTITY_MARK
from rota.domains.zeto.tree import CHILDREN, EMPTY, LEVELS_MAX, NODE_CAPACITY, Path


class Kind(Enum):
    """What the chain sees of the coins that are spent: which ones, or only that they were not spent before."""

    ANON = "anon"
    ANON_NULLIFIER = "anon_nullifier"
    ANON_KYC = "anon_kyc"
    ANON_NULLIFIER_KYC = "anon_nullifier_kyc"

    @property
    def has_nullifiers(self) -> bool:
        """Whether coins are spent by nullifiers, and are proved to be in the tree of all coins."""
        return self in (Kind.ANON_NULLIFIER, Kind.ANON_NULLIFIER_KYC)

    @property
    def has_identities(self) -> bool:
        """Whether only registered owners spend and get coins."""
        return self in (Kind.ANON_KYC, Kind.ANON_NULLIFIER_KYC)


@dataclass(frozen=True, slots=True)
class Circuit:
    """A kind of token, and how many coins a transition spends and makes at most."""

    kind: Kind
    input_count: int
    output_count: int

    @property
    def name(self) -> str:
        return f"{self.kind.value}_{self.input_count}_{self.output_count}"

    @property
    def public_count(self) -> int:
        """How many public inputs a proof has."""
        trees = (2 if self.kind.has_nullifiers else 0) + (1 if self.kind.has_identities else 0)
        return self.input_count + trees + self.output_count + 3


CIRCUITS: Final = (
    Circuit(Kind.ANON, 2, 2),
    Circuit(Kind.ANON, 10, 8),
    Circuit(Kind.ANON_NULLIFIER, 2, 2),
    Circuit(Kind.ANON_NULLIFIER, 5, 8),
    Circuit(Kind.ANON_KYC, 2, 2),
    Circuit(Kind.ANON_NULLIFIER_KYC, 2, 2),
)
INPUTS_MAX: Final = {kind: max(one.input_count for one in CIRCUITS if one.kind is kind) for kind in Kind}
OUTPUTS_MAX: Final = {kind: max(one.output_count for one in CIRCUITS if one.kind is kind) for kind in Kind}


@dataclass(frozen=True, slots=True)
class Spent:
    """A coin that is spent; of `anon_nullifier` with its path to the root, or with none when it is the pending one."""

    coin: Coin
    path: Path = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """All that a proof is made of: what is shown, and what only the prover knows.

    `scalar` is the owner's, 0 where nothing is spent; it does not show. `pending` is the commitment of a coin that the
    transition reads by name, 0 if none. `identities` is the root of the tree of registered owners; `owner_path` leads
    there from the owner of the inputs, and each of `output_paths` from the owner of an output.
    """

    kind: Kind
    scalar: int = field(repr=False)
    inputs: tuple[Spent, ...]
    outputs: tuple[Coin, ...]
    binding: int
    net: int = 0
    delegate: int = NO_DELEGATE
    root: int = EMPTY
    pending: int = EMPTY
    identities: int = EMPTY
    owner_path: Path = ()
    output_paths: tuple[Path, ...] = ()

    @property
    def circuit(self) -> Circuit:
        """The smallest that it fits. A `ValueError` when it has too many coins."""
        for circuit in CIRCUITS:
            is_large_enough = len(self.inputs) <= circuit.input_count and len(self.outputs) <= circuit.output_count
            if circuit.kind is self.kind and is_large_enough:
                return circuit
        largest = [one for one in CIRCUITS if one.kind is self.kind][-1]
        raise ValueError(
            f"a transition spends at most {largest.input_count} coins and makes at most {largest.output_count}, "
            f"not {len(self.inputs)} and {len(self.outputs)}"
        )

    @property
    def public_inputs(self) -> tuple[int, ...]:
        """What the verifier is told, in order."""
        circuit = self.circuit
        if self.kind.has_nullifiers:
            spent = [one.coin.nullifier(self.scalar) for one in self.inputs]
        else:
            spent = [one.coin.commitment for one in self.inputs]
        made = [coin.commitment for coin in self.outputs]
        trees = (self.root, self.pending) if self.kind.has_nullifiers else ()
        return (
            *_padded(spent, circuit.input_count),
            *trees,
            *_padded(made, circuit.output_count),
            self.net,
            self.delegate,
            *((self.identities,) if self.kind.has_identities else ()),
            self.binding,
        )


def trace(statement: Statement, shown: tuple[int, ...] | None = None) -> Trace:
    """The computation that a proof is made of. It tells by `broken` which rules the statement does not keep.

    Whoever lies shows other public inputs than the statement has; a test does.
    """
    public = statement.public_inputs if shown is None else shown
    assert all(is_element(value) for value in public), "a public input has one form, below the field's order"
    computation = Trace()
    _synthesise(computation, statement.circuit, statement, public)
    return computation


@cache
def structure(circuit: Circuit) -> Structure:
    """The constraints of a circuit."""
    written = Structure()
    _synthesise(written, circuit, Statement(circuit.kind, 0, (), (), 0), (0,) * circuit.public_count)
    return written


def _synthesise(system: System[W], circuit: Circuit, statement: Statement, shown: tuple[int, ...]) -> None:
    """Every constraint of the circuit, in one order; the statement tells values alone, never what is asked for."""
    wires = [system.public(value) for value in shown]
    inputs, rest = wires[: circuit.input_count], wires[circuit.input_count :]
    trees, rest = (rest[:2], rest[2:]) if circuit.kind.has_nullifiers else ([], rest)
    outputs, (net, delegate, *identities, binding) = rest[: circuit.output_count], rest[circuit.output_count :]

    system.rule = "binding"
    system.product(binding, binding)

    system.rule = "ownership"
    bits = system.bits(statement.scalar, SCALAR_BITS)
    owner = gadgets.multiple_of_base(system, bits)
    scalar = _number(system, bits)
    registered = [_identities_of(system, owner, statement.owner_path) for _ in identities]

    total = net
    for number, public in enumerate(inputs):
        is_used = number < len(statement.inputs)
        spent = statement.inputs[number] if is_used else Spent(NO_COIN)
        value, salt = system.secret(spent.coin.value), system.secret(spent.coin.salt)
        system.rule = "opening"
        commitment = gadgets.poseidon(system, (value, salt, *owner, delegate))
        switch = _switch(system, is_used, value)
        if circuit.kind.has_nullifiers:
            system.rule = "nullifying"
            system.require(switch, gadgets.poseidon(system, (value, salt, scalar)), public)
            _require_member(system, switch, commitment, spent, trees)
        else:
            system.rule = "opening"
            system.require(switch, commitment, public)
        _require_same(system, switch, registered, identities)
        total = total + value

    for number, public in enumerate(outputs):
        is_used = number < len(statement.outputs)
        coin = statement.outputs[number] if is_used else NO_COIN
        system.rule = "range"
        value = _number(system, system.bits(coin.value, VALUE_BITS))
        hidden = [system.secret(one) for one in (coin.salt, coin.owner.x, coin.owner.y, coin.delegate)]
        switch = _switch(system, is_used, value)
        system.rule = "opening"
        system.require(switch, gadgets.poseidon(system, (value, *hidden)), public)
        path = statement.output_paths[number] if number < len(statement.output_paths) else ()
        found = [_identities_of(system, (hidden[1], hidden[2]), path) for _ in identities]
        _require_same(system, switch, found, identities)
        total = total - value

    system.rule = "conservation"
    system.require_equal(total, system.constant(0))


def _switch(system: System[W], is_used: bool, value: W) -> W:
    """Whether a slot is used; one that is not holds nothing."""
    system.rule = "switching"
    switch = system.switch(int(is_used))
    system.require(switch, value, value)
    return switch


def _require_member(system: System[W], switch: W, commitment: W, spent: Spent, trees: list[W]) -> None:
    """A coin that is spent is where its path leads from: to the root, or to the pending one.

    A level that is switched off leaves the way as it is, so that a path may be shorter than the tree may be deep.
    """
    system.rule = "membership"
    current = commitment
    for level in range(LEVELS_MAX):
        is_used = level < len(spent.path)
        children = [
            system.secret(spent.path[level][place]) if is_used else system.unbound(current) for place in range(CHILDREN)
        ]
        gadgets.require_one_of(system, current, children)
        node = gadgets.poseidon(system, children, NODE_CAPACITY)
        current = gadgets.chosen(system, system.switch(int(is_used)), node, current)
    root, pending = trees
    difference = system.product(current - root, current - pending)
    system.require(switch, difference, system.constant(0))


def _identities_of(system: System[W], owner: tuple[W, W], path: Path) -> W:
    """The root that a path leads to from the identity of an owner.

    All paths have as many levels as the tree: a node of it is on no level of identities, and passes for none.
    """
    system.rule = "registration"
    mark = (system.constant(0), system.constant(IDENTITY_MARK))
    current = gadgets.poseidon(system, (*owner, *mark), NODE_CAPACITY)
    for level in range(IDENTITY_LEVELS):
        is_used = level < len(path)
        children = [
            system.secret(path[level][place]) if is_used else system.unbound(current) for place in range(CHILDREN)
        ]
        gadgets.require_one_of(system, current, children)
        current = gadgets.poseidon(system, children, NODE_CAPACITY)
    return current


def _require_same(system: System[W], switch: W, found: list[W], identities: list[W]) -> None:
    """The owner of a slot that is used is in the tree of the identities that are shown, where the kind has one."""
    system.rule = "registration"
    for own, shown in zip(found, identities, strict=True):
        system.require(switch, own - shown, system.constant(0))


def _number(system: System[W], bits: list[W]) -> W:
    total = system.constant(0)
    for place, bit in enumerate(bits):
        total = total + bit * (1 << place)
    return total


def _padded(values: list[int], count: int) -> list[int]:
    return values + [0] * (count - len(values))
