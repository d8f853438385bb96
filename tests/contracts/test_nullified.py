"""A ledger of nullifiers: spends that nobody can link to coins, a tree of all coins, and a window of its roots.

A verifier for tests stands for the real one: a proof is the hash of all public inputs. The tree's hash is the real one.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rota.bench.gas import address_of
from rota.calldata import NO_CONDITION, Entry, encode_commit, encode_payload
from rota.domains.zeto.tree import EMPTY, Tree
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.proofs import binding_of
from rota.model.digests import core_of, domain_separator, leaf_of
from rota.model.types import Call, ContractAddress, Leaf, State, StateId, Transition
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import Chain, Reverted, keccak
from tests.contracts.kit import (
    FIELD,
    INTENT_KEYS,
    VALID_UNTIL_S,
    Committed,
    net_in,
    one_time_id,
    proof_for_tests,
    proved_as,
    read_answer,
    signature_for,
    signed_by_intent,
)

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

    def __init__(self, unbacked_mints: bool = False) -> None:
        self.chain = Chain()
        self.address = self.deployed(unbacked_mints)
        self.separator = domain_separator(self.chain.chain_id, self.address)
        self.tree = Tree()
        self.makers: dict[Leaf, Transition] = {}
        self.roots: dict[Leaf, int] = {}

    # What differs where owners are registered.

    def deployed(self, unbacked_mints: bool) -> ContractAddress:
        verifiers = [self.chain.deploy("TestVerifier", size) for size in (9, 18)]
        hasher = self.chain.deploy("PoseidonTree")
        return self.chain.deploy("Nullified", address_of(ISSUER), *verifiers, hasher, unbacked_mints)

    def roster(self) -> tuple[int, ...]:
        """The public inputs before the binding."""
        return ()

    def proof_of(self, transition: Transition) -> bytes:
        """What a transition shows behind the signature of its intent's key and the coins of a read."""
        return transition.signature[64:]

    # Transitions.

    def mint(self, number: int, *coins: int) -> Transition:
        made = self._written(number, (), (), coins, ())
        signature = signed_by_intent(made) + ISSUER.sign_compact(binding_of(made.leaf, VALID_UNTIL_S))
        return self._keep(replace(made, signature=signature))

    def empty(self, number: int) -> Transition:
        """What only uses the intent up."""
        made = self._written(number, (), (), (), ())
        return self._keep(replace(made, signature=signed_by_intent(made)))

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
        public = (*spent, root, shown, *outputs, net_in(calls), 0, *self.roster(), binding)
        self.roots[made.leaf] = root
        proof = proof_for_tests(b"".join(map(word, public)))
        shown_first = signed_by_intent(made) + signature_for(made, depositor)
        return self._keep(replace(made, signature=shown_first + proof))

    def _written(
        self,
        number: int,
        reads: tuple[StateId, ...],
        inputs: tuple[StateId, ...],
        coins: tuple[int, ...],
        calls: tuple[Call, ...],
    ) -> Transition:
        intent, info = one_time_id(number), tuple(map(word, coins))
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
                part = VALID_UNTIL_S.to_bytes(8, "big") + each.signature[:64] + root + shown + self.proof_of(each)
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
        ledger.chain.height += 1
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
        ledger.chain.height += 1
        ledger.commit(ledger.mint(number, coin(f"{number}")))
    spend = ledger.spend(2_000, (nullifier("a"),), (coin("b"),), root)
    assert ledger.is_recent(root)
    ledger.chain.height += 1
    ledger.commit(ledger.mint(1_024, coin("the last")))
    assert not ledger.is_recent(root)
    assert [skip.reason for skip in ledger.commit(spend).skipped] == [SkipReason.READ_UNAVAILABLE]


@pytest.mark.slow
def test_window_of_roots_is_not_turned_over_by_many_rounds_in_one_block(ledger: NullifiedLedger) -> None:
    """All rounds of a block together make the window move by one, whatever its author pays."""
    ledger.commit(ledger.mint(0, coin("a")))
    root = ledger.tree.root
    ledger.chain.height += 1
    for number in range(1, 1_100):
        ledger.commit(ledger.mint(number, coin(f"{number}")))
    assert ledger.chain.call("Nullified", ledger.address, "size") == (1_100, 2)
    assert ledger.commit(ledger.spend(2_000, (nullifier("a"),), (coin("b"),), root)).mask == 1


def test_all_roots_of_a_block_count_and_share_one_place_in_the_window(ledger: NullifiedLedger) -> None:
    roots = []
    for height, rounds in ((5, 3), (6, 1), (9, 4)):
        ledger.chain.height = height
        for number in range(rounds):
            ledger.commit(ledger.mint(100 * height + number, coin(f"{height} {number}")))
            roots.append(ledger.tree.root)
    assert all(map(ledger.is_recent, roots))
    assert ledger.chain.call("Nullified", ledger.address, "size") == (8, 3)


# Whose an id is, and what is no nullifier.


def test_every_kind_of_transition_needs_the_signature_of_its_intents_key(ledger: NullifiedLedger) -> None:
    mint = ledger.mint(100, coin("a"), coin("b"))
    ledger.commit(mint)
    kinds = {
        "payment": ledger.spend(0, (nullifier("a"),), (coin("c"),)),
        "payment of change": ledger.spend(1, (nullifier("b"),), (coin("d"),), EMPTY, StateId(mint.leaf, 1)),
        "mint": ledger.mint(2, coin("e")),
        "empty": ledger.empty(3),
    }
    stranger = one_time_id(999)
    for kind, good in kinds.items():
        squatted = INTENT_KEYS[stranger].sign_compact(binding_of(good.leaf, VALID_UNTIL_S))
        for signature in (squatted, bytes(64), mint.signature[:64]):
            wrong = replace(good, signature=signature + good.signature[64:])
            assert ledger.refused(wrong) == "NotIntentKey(0,)", kind
        assert ledger.commit(good).mask == 1, kind


def test_front_runner_cannot_use_up_an_id_that_it_copies_from_the_mempool(ledger: NullifiedLedger) -> None:
    ledger.commit(ledger.mint(0, coin("a")))
    pending = ledger.spend(1, (nullifier("a"),), (coin("b"),))
    empty = ledger.empty(1)
    assert empty.intent == pending.intent
    attacker = INTENT_KEYS[one_time_id(666)].sign_compact(binding_of(empty.leaf, VALID_UNTIL_S))
    for signature in (attacker, pending.signature[:64]):
        assert ledger.refused(replace(empty, signature=signature)) == "NotIntentKey(0,)"
    assert ledger.commit(pending).mask == 1
    assert [skip.reason for skip in ledger.commit(empty).skipped] == [SkipReason.INTENT_USED]


def test_empty_transition_needs_neither_root_nor_proof(ledger: NullifiedLedger) -> None:
    empty = ledger.empty(0)
    assert ledger.refused(replace(empty, signature=empty.signature + bytes(32))) == "MalformedAuth(0,)"
    assert ledger.commit(empty).mask == 1
    assert ledger.chain.call("Nullified", ledger.address, "size") == (0, 0)


def test_nullifier_zero_is_refused_and_its_leaf_is_named(ledger: NullifiedLedger) -> None:
    """It is the slot of a circuit that is not used, and nobody's coin."""
    ledger.commit(ledger.mint(0, coin("a"), coin("b")))
    good = ledger.spend(1, (nullifier("a"),), (coin("c"),))
    zero = StateId(Leaf(bytes(32)), NULLIFIER)
    for nullifiers in ((zero,), (nullifier("b"), zero), (zero, nullifier("b"))):
        assert ledger.refused(good, ledger.spend(2, nullifiers, (coin("d"),))) == "Malformed(1, 'nullifier')"


def test_commitment_zero_is_refused_and_its_leaf_is_named(ledger: NullifiedLedger) -> None:
    """In the tree it is the child that is not there."""
    ledger.commit(ledger.mint(0, coin("a"), coin("b")))
    good = ledger.spend(1, (nullifier("a"),), (coin("c"),))
    for bad in (ledger.mint(2, 0), ledger.mint(2, coin("d"), 0), ledger.spend(3, (nullifier("b"),), (0, coin("d")))):
        assert ledger.refused(good, bad) == "Malformed(1, 'coin')"


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
        assert ledger.refused(proved_as(other, spend)) == "WrongProof(0,)"
    for place in range(64, 64 + 256, 32):
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
