"""A ledger of nullifiers: spends that nobody can link to coins, a tree of all coins, and a window of its roots.

A verifier for tests stands for the real one: a proof is the hash of all public inputs. The tree's hash is the real one.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rota.bench.gas import address_of
from rota.digests import core_of, domain_separator, leaf_of
from rota.domains.zeto.tree import EMPTY, Tree
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.proofs import binding_of
from rota.payload import NO_CONDITION, Entry, encode_commit, encode_payload
from rota.sim.state_ledger import SkipReason
from rota.types import Call, Leaf, State, StateId, Transition
from tests.contracts.evm import Chain, Reverted, keccak
from tests.contracts.kit import FIELD, VALID_UNTIL_S, Committed, intent_id, net_in, read_answer, signature_for

ISSUER = PrivateKey(keccak(b"issuer"))
NULLIFIER = 0xFF


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def coin(text: str) -> int:
    return int.from_bytes(keccak(text.encode()), "big") % FIELD


def nullifier(text: str) -> StateId:
    return StateId(Leaf(word(coin(text))), NULLIFIER)


class NullifiedLedger:
    """The contract, a tree that follows it, and the prover that goes with the verifier for tests."""

    def __init__(self) -> None:
        self.chain = Chain()
        verifiers = [self.chain.deploy("TestVerifier", size) for size in (9, 18)]
        hasher = self.chain.deploy("PoseidonTree")
        self.address = self.chain.deploy("Nullified", address_of(ISSUER), *verifiers, hasher)
        self.separator = domain_separator(self.chain.chain_id, self.address)
        self.tree = Tree()
        self.makers: dict[Leaf, Transition] = {}
        self.roots: dict[Leaf, int] = {}

    def mint(self, number: int, *coins: int) -> Transition:
        made = self._written(number, (), (), coins, ())
        return self._keep(replace(made, signature=ISSUER.sign_compact(binding_of(made.leaf, VALID_UNTIL_S))))

    def spend(
        self,
        number: int,
        nullifiers: tuple[StateId, ...],
        coins: tuple[int, ...] = (),
        root: int | None = None,
        pending: StateId | None = None,
        calls: tuple[Call, ...] = (),
        depositor: PrivateKey | None = None,
    ) -> Transition:
        """With the root of now, unless another is said."""
        made = self._written(number, (pending,) if pending is not None else (), nullifiers, coins, calls)
        root = self.tree.root if root is None else root
        shown = 0
        if pending is not None:
            shown = int.from_bytes(self.makers[pending.leaf].info[pending.output], "big")
        is_small = len(nullifiers) <= 2 and len(coins) <= 2
        spent = [int.from_bytes(each.leaf, "big") for each in nullifiers]
        spent += [0] * ((2 if is_small else 5) - len(spent))
        outputs = [*coins, *[0] * ((2 if is_small else 8) - len(coins))]
        binding = int.from_bytes(binding_of(made.leaf, VALID_UNTIL_S), "big") % FIELD
        public = (*spent, root, shown, *outputs, net_in(calls), 0, binding)
        self.roots[made.leaf] = root
        proof = keccak(b"".join(map(word, public))) + bytes(224)
        return self._keep(replace(made, signature=signature_for(made, depositor) + proof))

    def _written(
        self,
        number: int,
        reads: tuple[StateId, ...],
        inputs: tuple[StateId, ...],
        coins: tuple[int, ...],
        calls: tuple[Call, ...],
    ) -> Transition:
        intent, info = intent_id(number), tuple(map(word, coins))
        outputs = tuple(keccak(b"content" + each) for each in info)
        core = core_of(self.separator, intent, reads=reads, inputs=inputs, outputs=outputs, info=info, calls=calls)
        leaf = leaf_of(core)
        states = tuple(State(StateId(leaf, n), each, ()) for n, each in enumerate(outputs))
        return Transition(intent, leaf, inputs, reads, states, info, VALID_UNTIL_S, calls=calls)

    def _keep(self, made: Transition) -> Transition:
        self.makers[made.leaf] = made
        return made

    def auth(self, *entries: Entry) -> bytes:
        parts = []
        for each in entries:
            if isinstance(each, Transition):
                root = word(self.roots[each.leaf]) if each.leaf in self.roots else b""
                read = [self.makers[state.leaf].info for state in each.reads]
                shown = b"".join(bytes([len(info)]) + b"".join(info) for info in read)
                part = VALID_UNTIL_S.to_bytes(8, "big") + root + shown + each.signature
                parts.append(len(part).to_bytes(2, "big") + part)
        return b"".join(parts)

    def commit(self, *entries: Entry, auth: bytes | None = None) -> Committed:
        """Commit, and let the tree follow."""
        payload = encode_payload(entries, VALID_UNTIL_S)
        call = encode_commit(payload, self.auth(*entries) if auth is None else auth, NO_CONDITION)
        found = read_answer(self.chain.send(self.address, call), self.separator, self.address)
        for place, each in enumerate(entries):
            if isinstance(each, Transition) and found.mask >> place & 1:
                self.tree.extend([int.from_bytes(info, "big") for info in each.info])
        return found

    def is_recent(self, root: int) -> bool:
        return bool(self.chain.call("Nullified", self.address, "isRecent", root))

    def refused(self, *entries: Entry, auth: bytes | None = None) -> str:
        with pytest.raises(Reverted) as reverted:
            self.commit(*entries, auth=auth)
        return str(reverted.value)


@pytest.fixture
def ledger() -> NullifiedLedger:
    return NullifiedLedger()


def test_tree_of_the_contract_is_that_of_the_circuits_however_coins_come() -> None:
    """One by one and in rounds of many, over several levels: after each the root is the tree's."""
    chance = random.Random(1)
    ledger = NullifiedLedger()
    number = 0
    for count in (1, 1, 1, 1, 1, 3, 8, 4, 15, 2, 30, 1, 1, 16):
        mints = []
        while count:
            some = min(count, chance.randint(1, 15))
            mints.append(ledger.mint(number, *(coin(f"{number} {n}") for n in range(some))))
            number += 1
            count -= some
        ledger.commit(*mints)
        assert ledger.is_recent(ledger.tree.root), len(ledger.tree)
    coins, roots = ledger.chain.call("Nullified", ledger.address, "size")
    assert (coins, roots) == (len(ledger.tree), 14)


def test_coin_is_spent_once_by_its_nullifier_which_stays_marked(ledger: NullifiedLedger) -> None:
    ledger.commit(ledger.mint(0, coin("a"), coin("b")))
    one = ledger.spend(1, (nullifier("a"), nullifier("b")), (coin("c"),))
    again = ledger.spend(2, (nullifier("a"),), (coin("d"),))
    found = ledger.commit(one, again)
    assert found.mask == 0b01
    assert [(skip.reason, skip.state) for skip in found.skipped] == [(SkipReason.INPUT_UNAVAILABLE, nullifier("a"))]
    assert ledger.commit(replace(again)).mask == 0
    assert ledger.chain.call("Nullified", ledger.address, "isNullified", nullifier("b").leaf)


def test_nullifier_listed_twice_skips_and_leaves_no_mark(ledger: NullifiedLedger) -> None:
    ledger.commit(ledger.mint(0, coin("a")))
    assert ledger.commit(ledger.spend(1, (nullifier("a"), nullifier("a")), (coin("b"),))).mask == 0
    assert ledger.commit(ledger.spend(2, (nullifier("a"),), (coin("b"),))).mask == 1


def test_spends_of_one_root_do_not_invalidate_one_another(ledger: NullifiedLedger) -> None:
    ledger.commit(ledger.mint(0, coin("a"), coin("b"), coin("c")))
    root = ledger.tree.root
    for number, text in enumerate("abc", 1):
        assert ledger.commit(ledger.spend(number, (nullifier(text),), (coin(f"{text} paid"),), root)).mask == 1


def test_root_that_never_was_is_skipped_and_one_of_another_proof_is_wrong(ledger: NullifiedLedger) -> None:
    ledger.commit(ledger.mint(0, coin("a")))
    old = ledger.tree.root
    ledger.commit(ledger.mint(1, coin("b")))
    unknown = ledger.spend(2, (nullifier("a"),), (coin("c"),), root=coin("no root"))
    found = ledger.commit(unknown)
    assert [(skip.reason, skip.state.leaf) for skip in found.skipped] == [
        (SkipReason.READ_UNAVAILABLE, word(coin("no root")))
    ]
    mixed = ledger.spend(3, (nullifier("a"),), (coin("c"),))
    ledger.roots[mixed.leaf] = old
    assert ledger.refused(mixed) == "WrongProof(0,)"
    ledger.roots[mixed.leaf] = EMPTY
    assert ledger.refused(mixed) == "WrongProof(0,)"
    ledger.roots[mixed.leaf] = ledger.tree.root
    assert ledger.commit(mixed).mask == 1


@pytest.mark.slow
def test_root_that_is_too_old_counts_no_longer(ledger: NullifiedLedger) -> None:
    ledger.commit(ledger.mint(0, coin("a")))
    root = ledger.tree.root
    for number in range(1, 1024):
        ledger.commit(ledger.mint(number, coin(f"{number}")))
    spend = ledger.spend(2_000, (nullifier("a"),), (coin("b"),), root)
    assert ledger.is_recent(root)
    ledger.commit(ledger.mint(1_024, coin("the last")))
    assert not ledger.is_recent(root)
    assert [skip.reason for skip in ledger.commit(spend).skipped] == [SkipReason.READ_UNAVAILABLE]


def test_change_is_spent_in_the_round_that_makes_it_and_before_it_is_in_a_root_that_is_known(
    ledger: NullifiedLedger,
) -> None:
    mint = ledger.mint(0, coin("a"))
    first = ledger.spend(1, (nullifier("a"),), (coin("b"), coin("c")), EMPTY, StateId(mint.leaf, 0))
    then = ledger.spend(2, (nullifier("c"),), (coin("d"),), EMPTY, StateId(first.leaf, 1))
    assert ledger.commit(mint, first).mask == 0b11
    assert ledger.commit(then).mask == 1
    # The state is read, not spent: its nullifier is what counts.
    again = ledger.spend(3, (nullifier("c"),), (coin("e"),), EMPTY, StateId(first.leaf, 1))
    assert ledger.commit(again).mask == 0


def test_coins_of_another_maker_are_refused_for_a_read(ledger: NullifiedLedger) -> None:
    mint, other = ledger.mint(0, coin("a")), ledger.mint(1, coin("b"))
    ledger.commit(mint, other)
    spend = ledger.spend(2, (nullifier("a"),), (coin("c"),), EMPTY, StateId(mint.leaf, 0))
    ledger.makers[mint.leaf] = other
    assert ledger.refused(spend) == "WrongMaker(0,)"


def test_every_public_input_and_each_element_of_a_proof_counts(ledger: NullifiedLedger) -> None:
    ledger.commit(ledger.mint(0, coin("a"), coin("b")))
    spend = ledger.spend(1, (nullifier("a"), nullifier("b")), (coin("c"), coin("d")))
    others = [
        ledger.spend(1, (nullifier("x"), nullifier("b")), (coin("c"), coin("d"))),
        ledger.spend(1, (nullifier("a"), nullifier("x")), (coin("c"), coin("d"))),
        ledger.spend(1, (nullifier("a"), nullifier("b")), (coin("x"), coin("d"))),
        ledger.spend(1, (nullifier("a"), nullifier("b")), (coin("c"), coin("x"))),
        ledger.spend(2, (nullifier("a"), nullifier("b")), (coin("c"), coin("d"))),
    ]
    for other in others:
        assert ledger.refused(replace(other, signature=spend.signature)) == "WrongProof(0,)"
    for place in range(0, 256, 32):
        proof = bytearray(spend.signature)
        proof[place] ^= 1
        assert ledger.refused(replace(spend, signature=bytes(proof))) == "WrongProof(0,)"
    assert ledger.commit(spend).mask == 1


def test_what_no_circuit_has_is_malformed(ledger: NullifiedLedger) -> None:
    mint = ledger.mint(0, coin("a"), coin("b"))
    ledger.commit(mint)
    state = ledger.spend(1, (StateId(mint.leaf, 0),), (coin("c"),))
    assert ledger.refused(state) == "Malformed(0, 'input')"
    many = ledger.spend(2, tuple(nullifier(f"n{n}") for n in range(6)), (coin("c"),))
    assert ledger.refused(many) == "Malformed(0, 'inputs')"
    wide = ledger.spend(3, (nullifier("a"),), tuple(coin(f"c{n}") for n in range(9)))
    assert ledger.refused(wide) == "Malformed(0, 'outputs')"
    assert ledger.refused(ledger.mint(4, FIELD)) == "Malformed(0, 'coin')"


def test_both_shapes_go_in_one_round(ledger: NullifiedLedger) -> None:
    ledger.commit(ledger.mint(0, *(coin(f"{n}") for n in range(8))))
    large = ledger.spend(1, tuple(nullifier(f"{n}") for n in range(5)), tuple(coin(f"to {n}") for n in range(8)))
    small = ledger.spend(2, (nullifier("5"),), (coin("x"),))
    assert ledger.commit(large, small, ledger.mint(3, coin("y"))).mask == 0b111
    assert ledger.is_recent(ledger.tree.root)
