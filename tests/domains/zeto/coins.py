"""Owners, coins and statements that tests of circuits and proofs begin with."""

from __future__ import annotations

from dataclasses import replace

from rota.domains.zeto.babyjubjub import key_of
from rota.domains.zeto.circuits import Kind, Spent, Statement
from rota.domains.zeto.coins import Coin
from rota.domains.zeto.identities import Identities, identity_of
from rota.domains.zeto.poseidon import poseidon
from rota.domains.zeto.tree import Tree

ALICE = 1_234_567_890_123_456_789
BOB = (1 << 249) + 77
DELEGATE = int("c0ffee" * 6 + "c0ff", 16)
BINDING = 987_654_321


def coin(value: int, scalar: int, number: int = 0, delegate: int = 0) -> Coin:
    """A coin whose salt depends on all of it, so that every test has other ones and each run the same."""
    return Coin(value, poseidon(value, scalar, number, delegate), key_of(scalar), delegate)


def transfer(kind: Kind, values: tuple[int, ...] = (50, 25), made: tuple[int, ...] = (70, 5)) -> Statement:
    """Alice pays Bob out of coins of these values, and has the rest back."""
    coins = [coin(value, ALICE, number) for number, value in enumerate(values)]
    outputs = tuple(coin(value, (BOB, ALICE)[number], 10 + number) for number, value in enumerate(made))
    statement = Statement(kind, ALICE, tuple(Spent(one) for one in coins), outputs, BINDING)
    return placed(statement)


def placed(statement: Statement) -> Statement:
    """The same with its coins in a tree, and its owners registered, where its kind wants that."""
    if statement.kind.has_nullifiers:
        statement = in_tree(statement)
    return registered(statement) if statement.kind.has_identities else statement


def registered(statement: Statement, strangers: int = 5) -> Statement:
    """The same with its owners registered behind strangers, so far from one another that each has a path of its own."""
    owner = [key_of(statement.scalar)] if statement.inputs else []
    others = [2_000 + number for number in range(strangers)]
    roster = Identities()
    for key in dict.fromkeys((*owner, *(each.owner for each in statement.outputs))):
        roster.extend([number.to_bytes(32, "big") for number in (*others, identity_of(key))])
        others = [3_000 + len(roster) + number for number in range(4)]
    return replace(
        statement,
        identities=roster.root_number,
        owner_path=roster.path_of(owner[0]) or () if owner else (),
        output_paths=tuple(roster.path_of(each.owner) or () for each in statement.outputs),
    )


def in_tree(statement: Statement, strangers: int = 21) -> Statement:
    """The same with its coins in a tree, behind those of others and with some of others between them."""
    leaves = [1_000 + number for number in range(strangers)]
    places = []
    for spent in statement.inputs:
        places.append(len(leaves))
        leaves += [spent.coin.commitment, 5_000 + len(leaves)]
    tree = Tree(leaves)
    paths = [tree.path(place) for place in places]
    inputs = tuple(replace(spent, path=path) for spent, path in zip(statement.inputs, paths, strict=True))
    return replace(statement, inputs=inputs, root=tree.root if inputs else 0)
