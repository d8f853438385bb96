"""The circuits: what they let pass, what each rule forbids, and that no rule can be left out.

A statement that breaks one rule only is refused by the constraints of that rule and by no others: so a circuit without
them would let it pass.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.domains.zeto import circuits
from rota.domains.zeto.babyjubjub import BASE_ORDER, ZERO, Point, key_of
from rota.domains.zeto.circuits import CIRCUITS, INPUTS_MAX, Circuit, Kind, Spent, Statement, structure, trace
from rota.domains.zeto.coins import VALUE_MAX, Coin, net_of
from rota.domains.zeto.constraints import Trace
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.identities import IDENTITY_LEVELS, IDENTITY_MARK, Identities, identity_of
from rota.domains.zeto.tree import EMPTY, node_of
from tests.domains.zeto.circuits import EACH_CIRCUIT
from tests.domains.zeto.coins import ALICE, BINDING, BOB, DELEGATE, coin, in_tree, placed, registered, transfer

BOTH = pytest.mark.parametrize("kind", Kind)
REGISTERED = pytest.mark.parametrize("kind", [kind for kind in Kind if kind.has_identities])
RULES = {
    Kind.ANON: {"binding", "ownership", "opening", "switching", "range", "conservation"},
    Kind.ANON_NULLIFIER: {
        "binding", "ownership", "opening", "nullifying", "membership", "switching", "range", "conservation",
    },
}  # fmt: skip
RULES[Kind.ANON_KYC] = RULES[Kind.ANON] | {"registration"}
RULES[Kind.ANON_NULLIFIER_KYC] = RULES[Kind.ANON_NULLIFIER] | {"registration"}


def broken(statement: Statement, shown: tuple[int, ...] | None = None) -> set[str]:
    return set(trace(statement, shown).broken)


# What passes.


@BOTH
def test_a_transfer_keeps_all_rules(kind: Kind) -> None:
    assert broken(transfer(kind)) == set()


@pytest.mark.parametrize(
    ("kind", "count"), [(kind, count) for kind in Kind for count in (1, 2, 3, 5) if count <= INPUTS_MAX[kind]]
)
def test_slots_may_be_empty_and_a_larger_shape_takes_more(kind: Kind, count: int) -> None:
    statement = transfer(kind, (10,) * count, (10 * count,))
    assert statement.circuit.input_count == (2 if count <= 2 else statement.circuit.input_count)
    assert broken(statement) == set()


@BOTH
def test_mint_deposit_and_withdrawal_are_transfers_with_a_net(kind: Kind) -> None:
    deposit = placed(Statement(kind, 0, (), (coin(40, ALICE),), BINDING, net=net_of(40, 0)))
    assert broken(deposit) == set()
    part = replace(transfer(kind, (50,), (0, 20)), net=net_of(0, 30))
    assert broken(part) == set()
    whole = replace(transfer(kind, (50,), ()), net=net_of(0, 50))
    assert broken(whole) == set()


@BOTH
def test_a_lock_is_made_by_a_transfer_and_spent_with_its_delegate_shown(kind: Kind) -> None:
    lock = placed(replace(transfer(kind), outputs=(coin(75, ALICE, delegate=DELEGATE),)))
    assert broken(lock) == set()
    assert DELEGATE not in lock.public_inputs
    spent = _locked(kind)
    assert broken(spent) == set()
    assert spent.public_inputs[_delegate_place(kind)] == DELEGATE


@BOTH
@pytest.mark.parametrize("value", [0, 1, VALUE_MAX])
def test_values_at_the_edge_pass(kind: Kind, value: int) -> None:
    assert broken(transfer(kind, (value,), (value,))) == set()


def test_change_is_spent_before_it_is_in_the_tree() -> None:
    change = coin(25, ALICE, 3)
    first = transfer(Kind.ANON_NULLIFIER, (50,))
    statement = replace(first, inputs=(*first.inputs, Spent(change)), pending=change.commitment)
    assert broken(statement) == set()
    alone = replace(first, inputs=(Spent(change),), outputs=(coin(25, BOB),), root=EMPTY, pending=change.commitment)
    assert broken(alone) == set()


@pytest.mark.parametrize("strangers", [0, 1, 3, 4, 200])
def test_a_coin_is_found_in_a_tree_of_any_depth(strangers: int) -> None:
    assert broken(in_tree(transfer(Kind.ANON_NULLIFIER), strangers)) == set()


@pytest.mark.slow
@settings(max_examples=20)
@given(
    kind=st.sampled_from(Kind),
    values=st.lists(st.integers(0, VALUE_MAX // 8), min_size=1, max_size=2),
    share=st.integers(0, 1000),
)
def test_whatever_is_conserved_passes_and_nothing_else(kind: Kind, values: list[int], share: int) -> None:
    paid = sum(values) * share // 1000
    statement = transfer(kind, tuple(values), (paid, sum(values) - paid))
    assert broken(statement) == set()
    assert broken(replace(statement, net=1)) == {"conservation"}


# What each rule forbids, and that nothing else would have.


@BOTH
def test_more_comes_out_than_went_in(kind: Kind) -> None:
    assert broken(transfer(kind, (50, 25), (70, 6))) == {"conservation"}
    assert broken(replace(transfer(kind), net=net_of(0, 1))) == {"conservation"}


@BOTH
@pytest.mark.parametrize("value", [VALUE_MAX + 1, ORDER - 25, ORDER - 1])
def test_an_output_is_too_large_or_negative(kind: Kind, value: int) -> None:
    rest = (75 - value) % ORDER
    assert broken(transfer(kind, (50, 25), (value, rest))) == {"range"}


@BOTH
def test_an_empty_slot_has_a_value(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that is switched off shows nothing, so that its value would come from nowhere."""
    statement = transfer(kind, (50,), (70, 5))
    assert broken(statement) == {"conservation"}
    monkeypatch.setattr(circuits, "NO_COIN", coin(25, ALICE, 9))
    assert broken(statement) == {"switching"}


@BOTH
def test_somebody_elses_coin_is_spent(kind: Kind) -> None:
    theirs = Spent(coin(25, BOB))
    statement = replace(transfer(kind, (50,)), inputs=(*transfer(kind, (50,)).inputs, theirs))
    if kind.has_nullifiers:
        statement = in_tree(statement)
    assert broken(statement) == {"membership" if kind.has_nullifiers else "opening"}


@BOTH
def test_a_scalar_is_one_of_many_for_its_key(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key, and so the same coins, with another nullifier: with two bits more it would be spent twice."""
    second = ALICE + BASE_ORDER
    honest = transfer(kind)
    cheat = replace(honest, scalar=second)
    assert "ownership" in broken(cheat)
    monkeypatch.setattr(circuits, "SCALAR_BITS", 252)
    assert broken(cheat) == set()
    if kind.has_nullifiers:
        assert cheat.public_inputs[:2] != honest.public_inputs[:2]


@BOTH
def test_a_locked_coin_is_spent_without_its_delegate(kind: Kind) -> None:
    for delegate in (0, DELEGATE + 1):
        cheat = replace(_locked(kind), delegate=delegate)
        assert broken(cheat, _shown(_locked(kind), _delegate_place(kind), delegate)) == {
            "membership" if kind.has_nullifiers else "opening"
        }


@pytest.mark.slow
@BOTH
def test_a_public_input_is_another_one(kind: Kind) -> None:
    """Each public input but the binding is looked at by a rule; the binding is bound by its own."""
    statement = transfer(kind, (50,), (45, 5))
    names: dict[Kind, list[str | None]] = {
        Kind.ANON: ["opening", "opening", "opening", "opening", "conservation", "opening"],
        Kind.ANON_NULLIFIER: [
            "nullifying", "nullifying", "membership", None, "opening", "opening", "conservation", "membership",
        ],
    }  # fmt: skip
    names[Kind.ANON_KYC] = [*names[Kind.ANON], "registration"]
    names[Kind.ANON_NULLIFIER_KYC] = [*names[Kind.ANON_NULLIFIER], "registration"]
    for place, rule in enumerate(names[kind]):
        shown = _shown(statement, place, statement.public_inputs[place] + 1)
        assert broken(statement, shown) == ({rule} if rule else set()), f"public input {place}"


def test_a_coin_is_not_in_the_tree() -> None:
    statement = transfer(Kind.ANON_NULLIFIER)
    missing = replace(statement, inputs=(statement.inputs[0], Spent(coin(25, ALICE, 99), statement.inputs[1].path)))
    assert broken(missing) == {"membership"}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_path_is_wrong_in_one_place(level: int) -> None:
    statement = transfer(Kind.ANON_NULLIFIER)
    first, *others = statement.inputs
    for place in range(4):
        path = [list(children) for children in first.path]
        path[level][place] += 1
        wrong = replace(first, path=tuple((a, b, c, d) for a, b, c, d in path))
        assert broken(replace(statement, inputs=(wrong, *others))) == {"membership"}


def test_a_node_is_not_a_coin() -> None:
    """Four leaves are no value, salt and key: nodes are hashed apart from coins."""
    key = key_of(BOB)
    forged = Coin(10, 20, key)
    assert forged.commitment != node_of((10, 20, key.x, key.y))


def test_nobody_finds_a_coin_of_root_zero() -> None:
    """A root or pending commitment that is not used is zero: no path leads there."""
    statement = replace(transfer(Kind.ANON_NULLIFIER), root=EMPTY)
    assert broken(statement) == {"membership"}


# Registered owners.


@REGISTERED
@pytest.mark.parametrize("strangers", [0, 1, 3, 4, 70])
def test_owners_are_found_wherever_they_were_registered(kind: Kind, strangers: int) -> None:
    assert broken(registered(transfer(kind), strangers)) == set()


@pytest.mark.slow
@REGISTERED
def test_an_owner_of_inputs_or_of_any_output_is_not_registered(kind: Kind) -> None:
    """Each of them alone: the path of another one, which is registered, does not help."""
    statement = transfer(kind)
    bobs, own = statement.output_paths
    assert broken(replace(statement, owner_path=())) == {"registration"}
    assert broken(replace(statement, owner_path=bobs)) == {"registration"}
    assert broken(replace(statement, output_paths=((), own))) == {"registration"}
    assert broken(replace(statement, output_paths=(own, own))) == {"registration"}
    assert broken(replace(statement, output_paths=(bobs, ()))) == {"registration"}
    assert broken(replace(statement, output_paths=(bobs, bobs))) == {"registration"}


@REGISTERED
def test_the_owner_of_a_deposit_or_of_a_withdrawal_is_not_registered(kind: Kind) -> None:
    deposit = placed(Statement(kind, 0, (), (coin(40, ALICE),), BINDING, net=net_of(40, 0)))
    assert broken(replace(deposit, output_paths=())) == {"registration"}
    withdrawal = placed(replace(transfer(kind, (50,), ()), net=net_of(0, 50)))
    assert broken(withdrawal) == set()
    assert broken(replace(withdrawal, owner_path=())) == {"registration"}


@REGISTERED
def test_a_slot_that_is_not_used_has_no_owner_to_be_registered(kind: Kind) -> None:
    assert broken(transfer(kind, (50,), (50,))) == set()


@pytest.mark.slow
@REGISTERED
@pytest.mark.parametrize("level", [0, 1, IDENTITY_LEVELS - 1])
@pytest.mark.parametrize("whose", ["owner", "output"])
def test_a_path_to_an_identity_is_wrong_in_one_place(kind: Kind, level: int, whose: str) -> None:
    statement = transfer(kind)
    for place in range(4):
        path = [
            list(children) for children in (statement.owner_path if whose == "owner" else statement.output_paths[0])
        ]
        path[level][place] += 1
        wrong = tuple((a, b, c, d) for a, b, c, d in path)
        changed = {"owner_path": wrong} if whose == "owner" else {"output_paths": (wrong, statement.output_paths[1])}
        assert broken(replace(statement, **changed)) == {"registration"}


@REGISTERED
def test_a_node_passes_for_no_identity_on_any_level(kind: Kind) -> None:
    """A key whose numbers are identities would be registered by the node above them, were its path shorter."""
    roster = Identities()
    owners = [key_of(ALICE), key_of(BOB)]
    roster.extend([identity_of(key).to_bytes(32, "big") for key in owners])
    alices, bobs = (roster.path_of(key) or () for key in owners)
    forged = Coin(70, 1, Point(identity_of(owners[0]), identity_of(owners[1])))
    statement = transfer(kind)
    cheat = replace(
        statement,
        outputs=(forged, statement.outputs[1]),
        identities=roster.root_number,
        owner_path=alices,
        output_paths=(alices[1:], alices),
    )
    assert broken(cheat) == {"registration"}
    assert broken(replace(cheat, output_paths=(alices, alices))) == {"registration"}
    honest = replace(cheat, outputs=statement.outputs, output_paths=(bobs, alices))
    assert broken(honest) == set()


@REGISTERED
def test_an_identity_below_a_registered_key_is_none(kind: Kind) -> None:
    """A key is registered whose x is the identity of a stranger: one level more would lead from there to the root."""
    stranger, roster = key_of(BOB), Identities()
    trojan = (identity_of(stranger), 7, 0, IDENTITY_MARK)
    roster.extend([identity_of(key_of(ALICE)).to_bytes(32, "big"), node_of(trojan).to_bytes(32, "big")])
    alices = roster.path_of(key_of(ALICE)) or ()
    statement = replace(transfer(kind), identities=roster.root_number, owner_path=alices)
    for path in ((trojan, *alices), (trojan, *alices[:-1])):
        assert broken(replace(statement, output_paths=(path, alices))) == {"registration"}


@REGISTERED
def test_a_root_of_fewer_owners_is_as_good_and_one_without_them_is_not(kind: Kind) -> None:
    statement = transfer(kind)
    later = registered(statement, 9)
    assert later.identities != statement.identities
    assert broken(replace(statement, identities=later.identities)) == {"registration"}
    assert broken(replace(statement, identities=EMPTY)) == {"registration"}


@REGISTERED
def test_the_owner_of_scalar_zero_is_not_registered(kind: Kind) -> None:
    """Its key is the zero of the curve, whose secret is public: the contract does not register it."""
    public = replace(coin(75, ALICE), owner=ZERO)
    statement = replace(transfer(kind), scalar=0, inputs=(Spent(public),), outputs=(coin(75, BOB),))
    alone = in_tree(statement) if kind.has_nullifiers else statement
    roster = Identities()
    roster.extend([identity_of(key_of(BOB)).to_bytes(32, "big")])
    paths = (roster.path_of(key_of(BOB)) or (),)
    cheat = replace(alone, identities=roster.root_number, owner_path=paths[0], output_paths=paths)
    assert broken(cheat) == {"registration"}


@pytest.mark.slow
@BOTH
def test_every_rule_has_constraints_and_every_constraint_a_rule(kind: Kind) -> None:
    for circuit in CIRCUITS:
        if circuit.kind is kind:
            assert {constraint.rule for constraint in structure(circuit).constraints} == RULES[kind]


# That what is written down and what is traced are the same.


@pytest.mark.parametrize("circuit", EACH_CIRCUIT)
def test_the_trace_has_the_sides_that_the_structure_says(circuit: Circuit) -> None:
    statement = transfer(circuit.kind, (10,) * circuit.input_count, (3, 10 * circuit.input_count - 3))
    computed, written = trace(statement), structure(circuit)
    assert statement.circuit == circuit
    assert written.public_count == computed.public_count == circuit.public_count
    assert written.wire_count == len(computed.wires)
    assert tuple(computed.public_inputs) == statement.public_inputs
    for constraint, left, right, result in zip(
        written.constraints, computed.lefts, computed.rights, computed.results, strict=True
    ):
        assert _value(constraint.left, computed) == left
        assert _value(constraint.right, computed) == right
        assert _value(constraint.result, computed) == result
        assert left * right % ORDER == result


@pytest.mark.slow
@BOTH
def test_nothing_that_the_prover_chose_can_be_changed_alone(kind: Kind) -> None:
    """Another number on one wire breaks a constraint: none hangs loose."""
    statement = transfer(kind)
    computed, written = trace(statement), structure(statement.circuit)
    touched = dict.fromkeys(range(written.public_count + 1, written.wire_count), False)
    for constraint, left, right in zip(written.constraints, computed.lefts, computed.rights, strict=True):
        for wire in {*constraint.left, *constraint.right, *constraint.result} & touched.keys():
            a, b, c = (side.get(wire, 0) for side in (constraint.left, constraint.right, constraint.result))
            # By one more on this wire the two sides of the constraint drift apart by this.
            drift = a * right + left * b + a * b - c
            touched[wire] = touched[wire] or drift % ORDER != 0
    assert [wire for wire, is_touched in touched.items() if not is_touched] == []


def test_the_owners_scalar_does_not_show() -> None:
    assert str(ALICE) not in repr(transfer(Kind.ANON))


def test_a_statement_that_no_circuit_takes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at most 10 coins and makes at most 8, not 11 and 2"):
        _ = transfer(Kind.ANON, (1,) * 11, (5, 6)).circuit


def _delegate_place(kind: Kind) -> int:
    return -3 if kind.has_identities else -2


def _locked(kind: Kind) -> Statement:
    statement = Statement(
        kind, ALICE, (Spent(coin(25, ALICE, delegate=DELEGATE)),), (coin(25, BOB),), BINDING, delegate=DELEGATE
    )
    return placed(statement)


def _shown(statement: Statement, place: int, value: int) -> tuple[int, ...]:
    shown = list(statement.public_inputs)
    shown[place] = value % ORDER
    return tuple(shown)


def _value(terms: dict[int, int], computed: Trace) -> int:
    return sum(factor * computed.wires[wire] for wire, factor in terms.items()) % ORDER
