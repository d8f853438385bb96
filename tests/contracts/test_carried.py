"""A ledger whose transitions another contract carries out: both commit or neither, and no account goes past it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rota.bench.gas import address_of
from rota.calldata import Entry, encode_auth, encode_payload, encode_spend_lock, permitted_payload
from rota.calldata.locks import PERMITTED_UNTIL_S
from rota.ledger.bindings import encode_call
from rota.model.digests import Core, domain_separator, round_digest, void_leaf
from rota.model.types import Call, ContractAddress, Leaf, LockChange, LockKind, Preparation, Transition
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import ALICE, BOB, TIME_S, Reverted, call_data, keccak
from tests.contracts.kit import (
    VALID_UNTIL_S,
    Committed,
    EndorsedLedger,
    core_of_transition,
    ids,
    intent_id,
    key_of,
    read_answer,
    write,
)

NOTARY = key_of(9)
CAROL = ContractAddress("0x" + "ca" * 20)
DECIDER = ContractAddress("0x" + "de" * 20)
CARRY_GAS = 300_000
LOCK = keccak(b"lock")


class Pair:
    """A token whose carrier is another endorsed ledger, and a coin that is made when both are committed."""

    def __init__(self, carrier: ContractAddress | None = None) -> None:
        self.group = EndorsedLedger()
        self.chain = self.group.chain
        self.carrier = carrier or self.group.address
        self.token = self.chain.deploy("Carried", address_of(NOTARY), self.carrier, DECIDER)
        self.separator = domain_separator(self.chain.chain_id, self.token)

    def write(self, number: int, committer: ContractAddress | None = None, **what: object) -> Transition:
        preparation = Preparation(committer or self.token, bytes(32))
        return write(self.separator, number, preparation=preparation, **what)  # type: ignore[arg-type]

    def signed(self, *entries: Entry, valid_until_s: int = VALID_UNTIL_S) -> tuple[bytes, bytes]:
        leaves = tuple(each.leaf if isinstance(each, Transition) else each for each in entries)
        digest = round_digest(self.separator, leaves, valid_until_s)
        address = address_of(NOTARY)
        auth = encode_auth((address,), {address: NOTARY.sign_compact(digest)}, 1)
        return encode_payload(entries, valid_until_s), auth

    def carry(self, *entries: Entry, named: tuple[Transition, ...] | None = None, **what: object) -> bytes:
        payload, auth = self.signed(*entries)
        full = tuple(each for each in entries if isinstance(each, Transition))
        cores = _chain(core_of_transition(self.separator, each) for each in (full if named is None else named))
        given = {"decider": DECIDER, "payload": payload, "auth": auth, "cores": cores, **what}
        return encode_call("Carried", "carry", *given.values())

    def outer(self, number: int, *calls: bytes, gas: int = CARRY_GAS) -> Committed:
        """A transition of the carrier that makes these calls."""
        made = self.group.write(
            number, outputs=1, calls=tuple(Call(self.token, gas, call) for call in calls), salt=b"outer"
        )
        return self.group.commit(made)

    def is_there(self, transition: Transition) -> bool:
        return bool(self.chain.call("Carried", self.token, "unspentOf", transition.leaf))

    def is_used(self, transition: Transition) -> bool:
        return bool(self.chain.call("Carried", self.token, "isUsed", transition.intent))

    def as_carrier(self, data: bytes) -> None:
        """The call as the carrier makes it that is no contract here, so that its error is seen."""
        self.chain.send(self.token, data, self.carrier)


def _chain(cores: Iterable[Core]) -> bytes:
    hashed = bytes(32)
    for core in cores:
        hashed = keccak(hashed + core)
    return hashed


def test_carrier_commits_both() -> None:
    pair = Pair()
    inner = pair.write(0, outputs=1)
    assert pair.outer(1, pair.carry(inner)).mask == 1
    assert pair.is_there(inner)


def test_immutables_are_public() -> None:
    pair = Pair()
    assert pair.chain.call("Carried", pair.token, "carrier") == pair.group.address
    assert pair.chain.call("Carried", pair.token, "decider") == DECIDER


def test_notary_cannot_commit_past_the_carrier() -> None:
    """Whatever it signs: a plain transition, one for itself, one for the carrier, one for the ledger."""
    pair = Pair(CAROL)
    address = address_of(NOTARY)
    plain = write(pair.separator, 0, outputs=1)
    info = write(pair.separator, 1, info=1)
    for made in (plain, info):
        payload, auth = pair.signed(made)
        with pytest.raises(Reverted, match="NotCarried"):
            pair.chain.send(pair.token, call_data("Carried", "commit", payload, bytes(32), auth), address)
    for committer in (address, CAROL):
        made = pair.write(2, committer, outputs=1)
        payload, auth = pair.signed(made)
        with pytest.raises(Reverted, match=r"NotCarried|WrongCommitter"):
            pair.chain.send(pair.token, call_data("Carried", "commit", payload, bytes(32), auth), committer)
        with pytest.raises(Reverted, match="WrongCommitter"):
            pair.as_carrier(pair.carry(made))
    inner = pair.write(3, outputs=1)
    payload, auth = pair.signed(inner)
    with pytest.raises(Reverted, match="WrongCommitter"):
        pair.chain.send(pair.token, call_data("Carried", "commit", payload, bytes(32), auth), address)
    for sender in (address, ALICE, BOB, pair.token):
        if sender != pair.token:
            with pytest.raises(Reverted, match="NotCarrier"):
                pair.chain.send(pair.token, pair.carry(inner), sender)
    assert not pair.is_used(inner)


def test_plain_transition_of_a_carried_round_is_refused() -> None:
    """Only transitions prepared for the ledger count among the cores, so that no other is among those named."""
    pair = Pair(CAROL)
    plain = write(pair.separator, 0, outputs=1)
    with pytest.raises(Reverted, match="OtherCores"):
        pair.as_carrier(pair.carry(plain, named=()))
    assert not pair.is_used(plain)


def test_other_contract_of_the_carrier_cannot_pass() -> None:
    pair = Pair(CAROL)
    inner = pair.write(0, outputs=1)
    with pytest.raises(Reverted, match="NotDecider"):
        pair.as_carrier(pair.carry(inner, decider=BOB))


def test_any_account_voids_with_what_the_notary_signed() -> None:
    pair = Pair()
    inner = pair.write(0, outputs=1)
    void = Transition(inner.intent, void_leaf(pair.separator, inner.intent))
    payload, auth = pair.signed(void)
    answer = pair.chain.send(pair.token, call_data("Carried", "commit", payload, bytes(32), auth), BOB)
    assert read_answer(answer, pair.separator, pair.token).mask == 1
    assert pair.is_used(inner)
    outer = pair.outer(1, pair.carry(inner))
    assert outer.mask == 0
    assert outer.skipped[0].reason == SkipReason.CALL_FAILED


def test_second_carry_reverts_and_takes_its_outer_with_it() -> None:
    pair = Pair()
    inner = pair.write(0, outputs=1)
    assert pair.outer(1, pair.carry(inner)).mask == 1
    assert pair.outer(2, pair.carry(inner)).mask == 0


@pytest.mark.parametrize("reason", ["input", "read"])
def test_skipped_inner_reverts(reason: str) -> None:
    pair, alone = Pair(), Pair(CAROL)
    for each in (pair, alone):
        missing = ids(each.write(7, outputs=1))
        inner = (
            each.write(0, outputs=1, inputs=missing) if reason == "input" else each.write(0, outputs=1, reads=missing)
        )
        if each is pair:
            assert pair.outer(1, pair.carry(inner)).mask == 0
        else:
            with pytest.raises(Reverted, match="NotCommitted"):
                alone.as_carrier(alone.carry(inner))
        assert not each.is_used(inner)


def test_one_of_two_that_is_skipped_takes_the_other_with_it() -> None:
    pair = Pair(CAROL)
    good = pair.write(0, outputs=1)
    bad = pair.write(1, inputs=ids(pair.write(7, outputs=1)))
    with pytest.raises(Reverted, match="NotCommitted"):
        pair.as_carrier(pair.carry(good, bad))
    assert not pair.is_used(good)


def test_leaf_without_its_transition_is_not_carried() -> None:
    """A payload with the leaf alone commits nothing and skips nothing: it does not pass for one that did."""
    pair = Pair(CAROL)
    inner = pair.write(0, outputs=1)
    for cores in (_chain((core_of_transition(pair.separator, inner),)), bytes(32)):
        with pytest.raises(Reverted, match="OtherCores"):
            pair.as_carrier(pair.carry(inner.leaf, cores=cores))


def test_one_of_a_round_is_carried_without_the_others() -> None:
    pair = Pair()
    first, second = pair.write(0, outputs=1), pair.write(1, outputs=1)
    assert pair.outer(2, pair.carry(first, second.leaf)).mask == 1
    assert pair.is_there(first)
    assert not pair.is_used(second)
    assert pair.outer(3, pair.carry(first.leaf, second)).mask == 1
    assert pair.is_there(second)


def test_inner_that_has_expired_skips_the_outer() -> None:
    pair = Pair()
    inner = pair.write(0, outputs=1)
    payload, auth = pair.signed(inner, valid_until_s=TIME_S - 1)
    assert pair.outer(1, pair.carry(inner, payload=payload, auth=auth)).mask == 0
    assert not pair.is_used(inner)


def test_outer_that_fails_takes_the_inner_back() -> None:
    """A later call of the same transition fails: the carried one never happened."""
    pair = Pair()
    inner = pair.write(0, outputs=1)
    assert pair.outer(1, pair.carry(inner), pair.carry(inner)).mask == 0
    assert not pair.is_used(inner)


def test_void_in_a_carried_payload_is_no_core() -> None:
    pair = Pair(CAROL)
    inner = pair.write(0, outputs=1)
    void = Transition(intent_id(1), void_leaf(pair.separator, intent_id(1)))
    with pytest.raises(Reverted, match="OtherCores"):
        pair.as_carrier(pair.carry(void, named=()))
    pair.as_carrier(pair.carry(inner, void, named=(inner,)))
    assert pair.is_used(inner)
    assert pair.is_used(void)


def locking(pair: Pair, number: int) -> tuple[Transition, Transition]:
    """A transition that locks a coin for Bob, and the one with which he spends the lock."""
    coin = pair.write(number, outputs=1)
    assert pair.outer(100 + number, pair.carry(coin)).mask == 1
    spending = write(pair.separator, number + 1, outputs=2)
    record = LockChange(
        kind=LockKind.SET,
        lock=LOCK,
        delegate=BOB,
        expires_at_s=TIME_S + 3_600,
        spends=spending.leaf,
        cancels=write(pair.separator, number + 1, outputs=1, salt=b"back").leaf,
    )
    return pair.write(number + 2, inputs=ids(coin), outputs=1, lock=record), spending


def test_lock_is_set_by_the_carrier_and_spent_by_its_delegate() -> None:
    pair = Pair()
    setting, spending = locking(pair, 0)
    assert pair.outer(200, pair.carry(setting)).mask == 1
    with pytest.raises(Reverted, match="LockUnauthorized"):
        pair.chain.send(pair.token, encode_spend_lock(LOCK, permitted_payload(spending)), ALICE)
    pair.chain.send(pair.token, encode_spend_lock(LOCK, permitted_payload(spending)), BOB)
    assert pair.is_there(spending)


def test_notary_cannot_change_a_lock_past_the_carrier() -> None:
    """A change of a lock alone has neither inputs nor outputs, and is not empty all the same."""
    pair = Pair()
    setting, _ = locking(pair, 0)
    assert pair.outer(200, pair.carry(setting)).mask == 1
    address = address_of(NOTARY)
    given = LockChange(kind=LockKind.DELEGATE, lock=LOCK, presumed=BOB, delegate=address)
    for number, change in ((10, given), (11, LockChange(kind=LockKind.CANCELLED, lock=LOCK, presumed=BOB))):
        payload, auth = pair.signed(write(pair.separator, number, lock=change))
        with pytest.raises(Reverted, match="NotCarried"):
            pair.chain.send(pair.token, call_data("Carried", "commit", payload, bytes(32), auth), address)
    changed = pair.write(13, lock=LockChange(kind=LockKind.DELEGATE, lock=LOCK, presumed=BOB, delegate=CAROL))
    assert pair.outer(201, pair.carry(changed)).mask == 1


def test_lock_that_has_changed_takes_the_carrier_back() -> None:
    pair = Pair()
    setting, _ = locking(pair, 0)
    assert pair.outer(200, pair.carry(setting)).mask == 1
    late = pair.write(13, lock=LockChange(kind=LockKind.DELEGATE, lock=LOCK, presumed=CAROL, delegate=ALICE))
    assert pair.outer(201, pair.carry(late)).mask == 0
    assert not pair.is_used(late)


def test_gas_of_a_carried_transfer_is_bounded() -> None:
    """Recorded, so that the default bound of a call from a group is known to suffice with all inputs and outputs."""
    pair = Pair()
    makers = [pair.write(number, outputs=1) for number in range(15)]
    for maker in makers:
        assert pair.outer(100 + int.from_bytes(maker.intent[-1:], "big"), pair.carry(maker)).mask == 1
    spending = pair.write(50, inputs=tuple(state for maker in makers for state in ids(maker)), outputs=15)
    assert pair.outer(200, pair.carry(spending), gas=250_000).mask == 1


def test_gas_of_a_carried_lock_is_bounded() -> None:
    """As above: all inputs become a record, which takes three words, and change."""
    pair = Pair()
    makers = [pair.write(number, outputs=1) for number in range(15)]
    for maker in makers:
        assert pair.outer(100 + int.from_bytes(maker.intent[-1:], "big"), pair.carry(maker)).mask == 1
    record = LockChange(
        kind=LockKind.SET,
        lock=LOCK,
        delegate=BOB,
        expires_at_s=TIME_S + 3_600,
        spends=Leaf(keccak(b"1")),
        cancels=Leaf(keccak(b"2")),
    )
    inputs = tuple(state for maker in makers for state in ids(maker))
    setting = pair.write(50, inputs=inputs, outputs=15, lock=record)
    assert pair.outer(200, pair.carry(setting), gas=250_000).mask == 1


def test_notary_can_void_what_a_lock_permits_and_no_account_gets_anything_then() -> None:
    """The empty transition of that intent id passes no carrier. It is the notary's power to refuse: nothing is made."""
    pair = Pair()
    setting, spending = locking(pair, 0)
    assert pair.outer(200, pair.carry(setting)).mask == 1
    void = Transition(spending.intent, void_leaf(pair.separator, spending.intent))
    payload, auth = pair.signed(void)
    with pytest.raises(Reverted):
        pair.chain.send(pair.token, call_data("Carried", "commit", payload, bytes(32), b""), BOB)
    pair.chain.send(pair.token, call_data("Carried", "commit", payload, bytes(32), auth), ALICE)
    with pytest.raises(Reverted, match="NotCommitted"):
        pair.chain.send(pair.token, encode_spend_lock(LOCK, permitted_payload(spending)), BOB)
    assert not pair.is_there(spending)
    assert pair.chain.call("Carried", pair.token, "isLockActive", LOCK)


def test_delegate_commits_nothing_but_what_the_lock_permits() -> None:
    pair = Pair()
    setting, spending = locking(pair, 0)
    assert pair.outer(200, pair.carry(setting)).mask == 1
    other = write(pair.separator, 7, outputs=3)
    void = Transition(intent_id(8), void_leaf(pair.separator, intent_id(8)))
    for entries in ((other,), (spending, other), (other, spending), (void,), (spending, void)):
        payload = encode_payload(entries, PERMITTED_UNTIL_S)
        with pytest.raises(Reverted):
            pair.chain.send(pair.token, encode_spend_lock(LOCK, payload), BOB)
    assert not pair.is_used(other)
    assert not pair.is_used(void)
    pair.chain.send(pair.token, encode_spend_lock(LOCK, permitted_payload(spending)), BOB)


def test_delegates_commit_does_not_permit_the_carrier_anything() -> None:
    """What a lock permitted is no longer permitted in the same transaction, nor to `carry`, nor a second time."""
    pair = Pair(CAROL)
    coin = pair.write(0, outputs=1)
    pair.as_carrier(pair.carry(coin))
    spending = write(pair.separator, 1, outputs=2)
    record = LockChange(
        kind=LockKind.SET,
        lock=LOCK,
        delegate=BOB,
        expires_at_s=TIME_S + 3_600,
        spends=spending.leaf,
        cancels=Leaf(bytes(32)),
    )
    pair.as_carrier(pair.carry(pair.write(2, inputs=ids(coin), lock=record)))
    payload = permitted_payload(spending)
    cores = _chain((core_of_transition(pair.separator, spending),))
    carrying = encode_call("Carried", "carry", DECIDER, payload, b"", cores)
    with pytest.raises(Reverted):
        pair.as_carrier(carrying)
    pair.chain.send(pair.token, encode_spend_lock(LOCK, payload), BOB)
    for _ in range(2):
        with pytest.raises(Reverted, match="LockNotActive"):
            pair.chain.send(pair.token, encode_spend_lock(LOCK, payload), BOB)
