"""Ledgers whose coins only registered owners have: registration, the tree of identities, and which roots count.

A verifier for tests stands for the real one: a proof is the hash of all public inputs. The tree's hash is the real one.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from rota.bench.gas import address_of
from rota.calldata import AuthCost, encode_commit, encode_payload, gas_bound
from rota.calldata.rounds import NO_CONDITION
from rota.domains.zeto.babyjubjub import BASE, ZERO, Point, add, key_of, times
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.identities import IDENTITIES_MAX, IDENTITY_LEVELS, Identities, identity_of
from rota.domains.zeto.reserve import deposit_call
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.bindings import encode_call
from rota.model.digests import keccak
from rota.model.types import ContractAddress, Leaf, StateId, Transition
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import BOB, Reverted
from tests.contracts.kit import VALID_UNTIL_S
from tests.contracts.test_nullified import ISSUER, NULLIFIER, NullifiedLedger, coin, nullifier, word

KINDS = ("NullifiedKyc", "ProvedKyc")
PROOF_BYTES = 256


class KycLedger(NullifiedLedger):
    """A ledger with registered owners, and a roster that follows it."""

    def __init__(self, name: str = "NullifiedKyc") -> None:
        self.name = name
        self.identities = Identities()
        self.shown: dict[Leaf, int] = {}
        super().__init__()

    def deployed(self, unbacked_mints: bool) -> ContractAddress:
        verifier = self.chain.deploy("TestVerifier", 10)
        hasher = self.chain.deploy("PoseidonTree")
        return self.chain.deploy(self.name, address_of(ISSUER), verifier, hasher, unbacked_mints)

    def roster(self) -> tuple[int, ...]:
        return (self.identities.root_number,)

    def _keep(self, made: Transition) -> Transition:
        self.shown.setdefault(made.leaf, self.identities.root_number)
        return super()._keep(made)

    def proof_of(self, transition: Transition) -> bytes:
        behind = super().proof_of(transition)
        if len(behind) < PROOF_BYTES:
            return behind
        return behind[:-PROOF_BYTES] + word(self.shown[transition.leaf]) + behind[-PROOF_BYTES:]

    def call(self, key: Point, data: bytes = b"", by: PrivateKey = ISSUER) -> bytes:
        call = encode_call(self.name, "register", [key.x, key.y], data)
        return call + by.sign_compact(keccak(self.separator + call))

    def register(self, key: Point, data: bytes = b"") -> int:
        """The gas that it takes."""
        gas = self.chain.send(self.address, self.call(key, data)).gas
        self.identities.extend([word(identity_of(key))])
        return gas

    def refuses(self, call: bytes) -> str:
        with pytest.raises(Reverted) as reverted:
            self.chain.send(self.address, call)
        return reverted.value.name

    def asked(self, function: str, *arguments: object) -> Any:  # noqa: ANN401  # whatever the contract answers
        return self.chain.call(self.name, self.address, function, *arguments)


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest) -> KycLedger:
    return KycLedger(request.param)


@pytest.fixture
def spending() -> KycLedger:
    """One with an owner and two coins."""
    ledger = KycLedger()
    ledger.register(key_of(5))
    ledger.commit(ledger.mint(0, coin("a"), coin("b")))
    return ledger


# Registration.


def test_tree_of_the_contract_is_that_of_the_circuits_after_each_registration(ledger: KycLedger) -> None:
    assert ledger.asked("getIdentitiesRoot") == 0
    assert ledger.asked("identities", 0) == (0, 0, ())
    roots, keys = [], [key_of(1 + number) for number in range(18)]
    for key in keys:
        assert not ledger.asked("isRegistered", [key.x, key.y])
        ledger.register(key, b"file 7")
        roots.append(ledger.identities.root_number)
        assert ledger.asked("getIdentitiesRoot") == roots[-1]
        assert ledger.asked("isRegistered", [key.x, key.y])
    assert all(ledger.asked("isIdentitiesRoot", root) for root in roots), "what was ever the root counts"
    assert not ledger.asked("isIdentitiesRoot", 0)
    assert not ledger.asked("isIdentitiesRoot", roots[0] + 1)
    identities = tuple(map(identity_of, keys))
    assert ledger.asked("identities", 0) == (roots[-1], 18, identities)
    assert ledger.asked("identities", 15) == (roots[-1], 18, identities[15:])
    assert ledger.asked("identities", 18) == (roots[-1], 18, ())


@pytest.mark.slow
def test_tree_of_many_identities_is_followed_page_by_page() -> None:
    ledger = KycLedger()
    chance, point = random.Random(3), key_of(3)
    for number in range(1_030):
        ledger.register(point, chance.randbytes(number % 3))
        point = add(point, BASE)
    root, count, first = ledger.asked("identities", 0)
    _, _, rest = ledger.asked("identities", len(first))
    assert (len(first), len(first) + len(rest), count) == (1_024, 1_030, 1_030)
    followed = Identities()
    followed.extend([word(each) for each in (*first, *rest)])
    assert followed.root_number == root == ledger.identities.root_number


def test_event_tells_the_key_and_what_the_registrar_wrote(ledger: KycLedger) -> None:
    key = key_of(9)
    sent = ledger.chain.send(ledger.address, ledger.call(key, b"file 12"))
    (event,) = [each for each in sent.events if each.address == ledger.address]
    assert event.topics == (keccak(b"IdentityRegistered(uint256[2],bytes)"),)
    assert word(key.x) + word(key.y) in event.content
    assert b"file 12" in event.content


def test_only_the_issuer_registers_and_for_one_ledger_alone(ledger: KycLedger) -> None:
    key = key_of(7)
    assert ledger.refuses(ledger.call(key, by=PrivateKey(keccak(b"somebody")))) == "NotIssuer"
    unsigned = encode_call(ledger.name, "register", [key.x, key.y], b"")
    assert ledger.refuses(unsigned) == "NotIssuer"
    assert ledger.refuses(unsigned + bytes(64)) == "NotIssuer"
    signed = ledger.call(key, b"of seven")
    for place in (5, 40, 100, len(unsigned) + 3):
        changed = bytearray(signed)
        changed[place] ^= 1
        assert ledger.refuses(bytes(changed)) != "", place
    elsewhere = keccak(keccak(b"another ledger") + unsigned)
    assert ledger.refuses(unsigned + ISSUER.sign_compact(elsewhere)) == "NotIssuer"
    # Any account may send a call with the issuer's signature, and gains nothing by that.
    ledger.chain.send(ledger.address, signed, sender=BOB)
    assert ledger.asked("isRegistered", [key.x, key.y])


def test_owner_is_registered_once(ledger: KycLedger) -> None:
    ledger.register(key_of(7))
    assert ledger.refuses(ledger.call(key_of(7))) == "AlreadyRegistered"
    assert ledger.refuses(ledger.call(key_of(7), b"other data")) == "AlreadyRegistered"
    assert ledger.asked("getIdentitiesRoot") == ledger.identities.root_number


@pytest.mark.parametrize(
    "point",
    [
        ZERO,
        Point(0, ORDER - 1),
        Point(0, 0),
        Point(1, 1),
        Point(key_of(7).x + ORDER, key_of(7).y),
        Point(key_of(7).x, key_of(7).y + ORDER),
        Point(key_of(7).x, key_of(7).y + 1),
        Point(2**256 - 1, 2**256 - 1),
    ],
    ids=["zero", "order 2", "nothing", "off the curve", "x of another form", "y of another form", "near", "largest"],
)
def test_point_that_is_no_key_is_not_registered(ledger: KycLedger, point: Point) -> None:
    """Above all not the zero of the curve: its scalar is known, so that all accounts could own coins by it."""
    assert ledger.refuses(ledger.call(point)) == "NotKey"
    assert not ledger.asked("isRegistered", [point.x, point.y])


def test_tree_that_is_full_takes_no_more(ledger: KycLedger) -> None:
    slots = [place for place in range(64) if ledger.chain.evm.storage(ledger.address, place) == 1]
    before = {place: ledger.chain.evm.storage(ledger.address, place) for place in range(64)}
    ledger.register(key_of(7))
    (slot,) = [
        place
        for place in range(64)
        if ledger.chain.evm.storage(ledger.address, place) == 1 and before[place] == 0 and place not in slots
    ]
    ledger.chain.evm.insert_account_storage(ledger.address, slot, IDENTITIES_MAX)
    assert ledger.refuses(ledger.call(key_of(8))) == "IdentitiesFull"
    assert IDENTITIES_MAX == 4**IDENTITY_LEVELS


def test_gas_of_a_registration_is_bounded_whatever_the_tree_has(ledger: KycLedger) -> None:
    gas = [ledger.register(key_of(1 + number)) for number in range(18)]
    print(f"a registration takes {min(gas)} to {max(gas)} gas")
    assert max(gas) < 700_000


# Spending.


def test_proof_for_any_root_of_identities_counts_and_for_others_none(spending: KycLedger) -> None:
    old = spending.spend(1, (nullifier("a"),), (coin("c"),))
    unknown = spending.spend(2, (nullifier("b"),), (coin("d"),))
    for number in range(3):
        spending.register(key_of(100 + number))
    assert spending.commit(old).mask == 1
    spending.shown[unknown.leaf] = coin("no root")
    found = spending.commit(unknown)
    assert [(skip.reason, skip.state.leaf) for skip in found.skipped] == [
        (SkipReason.READ_UNAVAILABLE, word(coin("no root")))
    ]


def test_root_of_another_kind_or_of_another_ledger_is_none_of_identities(spending: KycLedger) -> None:
    other = KycLedger()
    other.register(key_of(6))
    spend = spending.spend(1, (nullifier("a"),), (coin("c"),))
    for root in (spending.tree.root, other.identities.root_number, identity_of(key_of(5))):
        spending.shown[spend.leaf] = root
        assert spending.commit(spend).mask == 0
    spending.shown[spend.leaf] = spending.identities.root_number + ORDER
    assert spending.commit(spend).mask == 0
    # And none of identities is one of coins.
    spending.shown[spend.leaf], spending.roots[spend.leaf] = (
        spending.identities.root_number,
        other.identities.root_number,
    )
    assert spending.commit(spend).mask == 0


def test_root_that_counts_and_is_not_the_proofs_is_wrong(spending: KycLedger) -> None:
    spend = spending.spend(1, (nullifier("a"),), (coin("c"),))
    right = spending.shown[spend.leaf]
    spending.register(key_of(6))
    spending.shown[spend.leaf] = spending.identities.root_number
    assert spending.refused(spend) == "WrongProof(0,)"
    spending.shown[spend.leaf] = 0
    assert spending.refused(spend) == "NoIdentitiesRoot(0,)"
    spending.shown[spend.leaf] = right
    assert spending.commit(spend).mask == 1


def test_transition_without_a_root_of_identities_is_malformed(spending: KycLedger) -> None:
    spend = spending.spend(1, (nullifier("a"),), (coin("c"),))
    behind = spend.signature[64:]
    auth = NullifiedLedger.auth(spending, spend)
    for size in (0, 31, 32, 32 + PROOF_BYTES, 32 + 32 + PROOF_BYTES - 1):
        head = VALID_UNTIL_S.to_bytes(8, "big") + spend.signature[:64]
        part = head + (word(spending.roots[spend.leaf]) + word(spending.shown[spend.leaf]) + behind)[:size]
        cut = len(part).to_bytes(2, "big") + part
        if len(part) < 32 + PROOF_BYTES:
            assert spending.refused(spend, auth=cut) in ("MalformedAuth(0,)", "NoIdentitiesRoot(0,)"), size
        else:
            # The word in the place of the root was never a root.
            assert spending.commit(spend, auth=cut).mask == 0, size
    assert spending.commit(spend, auth=auth).mask == 1


def test_deposit_shows_its_root_behind_the_depositors_signature(spending: KycLedger) -> None:
    """A depositor is registered too: the proof of a deposit is for a root as every other one."""
    depositor = PrivateKey(keccak(b"depositor"))
    account = ContractAddress(address_of(depositor).lower())
    call = deposit_call(ContractAddress("0x" + "70" * 20), account, spending.address, 5)
    deposit = spending.spend(1, (), (coin("c"),), 0, calls=(call,), depositor=depositor)
    # There is no such token, so that the call fails; before that the root was looked at, and the proof is not wrong.
    assert [skip.reason for skip in spending.commit(deposit).skipped] == [SkipReason.CALL_FAILED]
    spending.shown[deposit.leaf] = coin("no root")
    assert [skip.reason for skip in spending.commit(deposit).skipped] == [SkipReason.READ_UNAVAILABLE]


def test_mint_and_empty_transition_show_no_root(spending: KycLedger) -> None:
    mint, empty = spending.mint(1, coin("x")), spending.empty(2)
    assert spending.commit(mint, empty).mask == 0b11


def test_change_is_spent_by_name_beside_a_root_of_identities(spending: KycLedger) -> None:
    first = spending.spend(1, (nullifier("a"),), (coin("c"), coin("d")))
    then = spending.spend(2, (nullifier("d"),), (coin("e"),), 0, StateId(first.leaf, 1))
    assert spending.commit(first, then).mask == 0b11


def test_what_the_one_circuit_does_not_take_is_malformed(spending: KycLedger) -> None:
    wide = spending.spend(1, (nullifier("a"),), (coin("c"), coin("d"), coin("e")))
    many = spending.spend(2, tuple(nullifier(f"n{n}") for n in range(3)), (coin("c"),))
    for shape in (wide, many):
        assert spending.refused(shape) == "Malformed(0, 'shape')"
    zero = replace(spending.spend(3, (StateId(Leaf(bytes(32)), NULLIFIER),), (coin("c"),)))
    assert spending.refused(zero) == "Malformed(0, 'nullifier')"
    assert spending.refused(spending.spend(4, (nullifier("a"),), (0,))) == "Malformed(0, 'coin')"


@pytest.mark.parametrize("count", [1, 2, 12])
def test_rounds_never_need_more_gas_than_their_bound(spending: KycLedger, count: int) -> None:
    """With the verifier for tests; that of real proofs is cheaper than what the bound has for the largest circuit."""
    spends = tuple(spending.spend(n, (nullifier(f"s{n}"),), (coin(f"m{n}"), coin(f"k{n}"))) for n in range(count))
    call = encode_commit(encode_payload(spends, VALID_UNTIL_S), spending.auth(*spends), NO_CONDITION)
    bound = gas_bound(spends, VALID_UNTIL_S, AuthCost.of_proofs())
    used = spending.chain.send(spending.address, call, gas=bound).gas
    assert used <= bound


def test_point_outside_the_group_belongs_to_no_scalar() -> None:
    """The contract takes it, as telling it from a key is dear; no scalar owns coins by it (`Point.is_key`)."""
    outside = add(key_of(5), Point(0, ORDER - 1))
    assert outside.is_on_curve
    assert not outside.is_key
    assert times(2, outside) == times(2, key_of(5))
    ledger = KycLedger()
    ledger.register(outside)
    assert not ledger.asked("isRegistered", [key_of(5).x, key_of(5).y])
