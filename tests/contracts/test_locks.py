"""Locks with a public side: their record on the ledger, and the powers of delegates and of other accounts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from eth_abi.abi import decode

from rota.automation.shipped import CANCEL_GAS
from rota.calldata import (
    PERMITTED_UNTIL_S,
    decode_round_log,
    encode_cancel_lock,
    encode_commit,
    encode_delegate_lock,
    encode_payload,
    encode_spend_lock,
    permitted_payload,
)
from rota.model.digests import round_digest
from rota.model.types import (
    LOCK_EXPIRY_MAX,
    NO_DELEGATE,
    NO_LEAF,
    Call,
    ContractAddress,
    Leaf,
    LockChange,
    LockKind,
    Preparation,
    StateId,
    Transition,
)
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import ALICE, BOB, TIME_S, Answer, Reverted, artifact, call_data, keccak, signature_of
from tests.contracts.kit import VALID_UNTIL_S, EndorsedLedger, ProvedLedger, ids

LOCK = keccak(b"lock")
EXPIRES_AT_S = TIME_S + 3_600
CAROL = ContractAddress("0x" + "ca" * 20)
NO_OWNER = NO_DELEGATE
EVENTS = {
    keccak(signature_of(each).encode()): each["name"] for each in artifact("Lockable").abi if each["type"] == "event"
}


class Locked:
    """A ledger with a coin that is locked: Bob may have it given to its receivers, or back to its owner."""

    def __init__(self, delegate: ContractAddress = BOB, expires_at_s: int = EXPIRES_AT_S) -> None:
        self.ledger = EndorsedLedger(code="Lockable")
        coin = self.ledger.write(0, outputs=1)
        self.spending = self.ledger.write(1, outputs=2, info=1)
        self.cancelling = self.ledger.write(1, outputs=1, salt=b"back")
        self.setting = self.ledger.write(2, inputs=ids(coin), outputs=1, lock=self.record(delegate, expires_at_s))
        assert self.ledger.commit(coin).mask == 1
        self.created = self.ledger.chain.send(self.ledger.address, self.ledger.call(self.setting))

    def record(
        self,
        delegate: ContractAddress,
        expires_at_s: int = EXPIRES_AT_S,
        presumed: ContractAddress = NO_DELEGATE,
        lock: bytes = LOCK,
    ) -> LockChange:
        return LockChange(
            kind=LockKind.SET,
            lock=lock,
            presumed=presumed,
            delegate=delegate,
            expires_at_s=expires_at_s,
            spends=self.spending.leaf,
            cancels=self.cancelling.leaf,
        )

    def send(self, data: bytes, sender: ContractAddress = BOB) -> Answer:
        return self.ledger.chain.send(self.ledger.address, data, sender)

    def spend(self, sender: ContractAddress = BOB, transition: Transition | None = None) -> Answer:
        return self.send(encode_spend_lock(LOCK, permitted_payload(transition or self.spending), b"why"), sender)

    def cancel(self, sender: ContractAddress = BOB, transition: Transition | None = None) -> Answer:
        return self.send(encode_cancel_lock(LOCK, permitted_payload(transition or self.cancelling), b"why"), sender)

    def delegate(self, new: ContractAddress, sender: ContractAddress = BOB) -> Answer:
        return self.send(encode_delegate_lock(LOCK, new, b"why"), sender)

    def info(self) -> tuple[object, ...]:
        found: tuple[object, ...] = self.ledger.chain.call("Lockable", self.ledger.address, "getLock", LOCK)
        return found

    def is_active(self) -> bool:
        return bool(self.ledger.chain.call("Lockable", self.ledger.address, "isLockActive", LOCK))

    def change(self, number: int, **what: object) -> Transition:
        return self.ledger.write(number, lock=LockChange(lock=LOCK, **what))  # type: ignore[arg-type]


@pytest.fixture
def locked() -> Locked:
    return Locked()


def names(answer: Answer) -> list[str]:
    return [EVENTS[event.topics[0]] for event in answer.events]


def address_in(topic: bytes) -> str:
    return "0x" + topic[-20:].hex()


def reverts(act: object) -> Reverted:
    with pytest.raises(Reverted) as reverted:
        act()  # type: ignore[operator]
    return reverted.value


# Records.


def test_set_writes_a_record_that_shows_its_delegate_and_no_owner(locked: Locked) -> None:
    assert locked.info() == (NO_OWNER, BOB, locked.spending.leaf, locked.cancelling.leaf, EXPIRES_AT_S)
    assert locked.is_active()
    assert names(locked.created) == ["LockCreated", "Round"]
    created = locked.created.events[0]
    assert created.topics[1] == LOCK
    assert [address_in(topic) for topic in created.topics[2:]] == [NO_OWNER, BOB]
    told = decode(["bytes32", "bytes32", "bytes"], created.content)
    assert told == (locked.spending.leaf, locked.cancelling.leaf, b"")


def test_round_log_of_a_transition_with_a_lock_is_read_back(locked: Locked) -> None:
    log = locked.created.events[1]
    found = decode_round_log(log.topics, log.content, locked.ledger.separator)
    [entry] = found.payload.entries  # type: ignore[union-attr]
    assert entry.leaf == locked.setting.leaf
    assert entry.lock == locked.setting.lock  # type: ignore[union-attr]


def test_lock_without_a_record_is_not_active(locked: Locked) -> None:
    other = keccak(b"another lock")
    ledger = locked.ledger
    assert not ledger.chain.call("Lockable", ledger.address, "isLockActive", other)
    args = permitted_payload(locked.spending)
    looks = (
        lambda: ledger.chain.call("Lockable", ledger.address, "getLock", other),
        lambda: locked.send(encode_spend_lock(other, args)),
        lambda: locked.send(encode_cancel_lock(other, args)),
        lambda: locked.send(encode_delegate_lock(other, CAROL)),
    )
    for look in looks:
        assert str(reverts(look)) == str(Reverted("LockNotActive", (other,)))


# Delegates.


def test_delegate_spends_without_a_signature(locked: Locked) -> None:
    answer = locked.spend()
    assert names(answer) == ["LockSpent", "Round"]
    spent, log = answer.events
    assert (spent.topics[1], address_in(spent.topics[2])) == (LOCK, BOB)
    assert decode(["bytes"], spent.content) == (b"why",)
    found = decode_round_log(log.topics, log.content, locked.ledger.separator)
    assert found.digest == round_digest(locked.ledger.separator, (locked.spending.leaf,), PERMITTED_UNTIL_S)  # type: ignore[union-attr]
    assert [(each.leaf, each.is_committed) for each in found.committals] == [(locked.spending.leaf, True)]  # type: ignore[union-attr]
    assert locked.ledger.unspent(locked.spending.leaf) == 0b11
    assert locked.ledger.is_used(locked.spending.intent)
    assert not locked.is_active()


def test_delegate_cancels_before_the_lock_expires(locked: Locked) -> None:
    assert names(locked.cancel()) == ["LockCancelled", "Round"]
    assert locked.ledger.unspent(locked.cancelling.leaf) == 1
    assert locked.ledger.unspent(locked.spending.leaf) == 0
    assert not locked.is_active()


def test_body_may_be_given_as_its_hash(locked: Locked) -> None:
    locked.send(encode_spend_lock(LOCK, encode_payload((locked.spending,), PERMITTED_UNTIL_S, is_body_hashed=True)))
    assert locked.ledger.unspent(locked.spending.leaf) == 0b11


def test_delegate_gives_the_lock_to_another_one(locked: Locked) -> None:
    answer = locked.delegate(CAROL)
    assert names(answer) == ["LockDelegated"]
    assert [address_in(topic) for topic in answer.events[0].topics[2:]] == [BOB, CAROL]
    assert locked.info() == (NO_OWNER, CAROL, locked.spending.leaf, locked.cancelling.leaf, EXPIRES_AT_S)
    for act in (locked.spend, locked.cancel, lambda: locked.delegate(BOB)):
        assert str(reverts(act)) == str(Reverted("LockUnauthorized", (LOCK, CAROL, BOB)))
    locked.spend(CAROL)
    assert locked.ledger.unspent(locked.spending.leaf) == 0b11


def test_contract_that_came_later_may_be_the_delegate(locked: Locked) -> None:
    call = encode_spend_lock(LOCK, permitted_payload(locked.spending))
    contract = locked.ledger.chain.deploy("Target")
    locked.delegate(contract)
    locked.ledger.chain.send(contract, call_data("Target", "forward", locked.ledger.address, call), CAROL)
    assert locked.ledger.unspent(locked.spending.leaf) == 0b11


@pytest.mark.parametrize("caller", [ALICE, CAROL])
def test_only_the_delegate_acts_before_the_lock_expires(locked: Locked, caller: ContractAddress) -> None:
    for act in (lambda: locked.spend(caller), lambda: locked.cancel(caller), lambda: locked.delegate(caller, caller)):
        assert str(reverts(act)) == str(Reverted("LockUnauthorized", (LOCK, BOB, caller)))
    assert locked.info()[1] == BOB


def test_lock_without_a_delegate_cannot_be_spent() -> None:
    locked = Locked(NO_DELEGATE)
    for act in (locked.spend, locked.cancel, lambda: locked.delegate(BOB)):
        assert str(reverts(act)) == str(Reverted("LockUnauthorized", (LOCK, NO_DELEGATE, BOB)))


# The committed leaf.


def test_only_the_permitted_leaf_is_committed(locked: Locked) -> None:
    other = locked.ledger.write(1, outputs=15)
    for act in (
        lambda: locked.spend(transition=other),
        lambda: locked.spend(transition=locked.cancelling),
        lambda: locked.cancel(transition=locked.spending),
        lambda: locked.cancel(transition=other),
    ):
        assert reverts(act).name == "TooFewSignatures"
    assert locked.is_active()
    assert not locked.ledger.is_used(locked.spending.intent)


@pytest.mark.parametrize("valid_until_s", [0, VALID_UNTIL_S, PERMITTED_UNTIL_S - 1])
def test_payload_of_a_permitted_leaf_has_no_end(locked: Locked, valid_until_s: int) -> None:
    args = encode_payload((locked.spending,), valid_until_s)
    assert reverts(lambda: locked.send(encode_spend_lock(LOCK, args))).name in ("Expired", "TooFewSignatures")


def test_nothing_rides_along_with_a_permitted_leaf(locked: Locked) -> None:
    stranger = locked.ledger.write(9, outputs=1)
    bare = encode_payload((locked.spending.leaf,), PERMITTED_UNTIL_S)
    payloads = {
        encode_payload((locked.spending, stranger), PERMITTED_UNTIL_S): "TooFewSignatures",
        encode_payload((stranger, locked.spending), PERMITTED_UNTIL_S): "TooFewSignatures",
        encode_payload((locked.spending, locked.spending), PERMITTED_UNTIL_S): "TooFewSignatures",
        bare: "NotCommitted",
        permitted_payload(locked.spending) + b"\0": "Malformed",
        permitted_payload(locked.spending)[:-1]: "Malformed",
        b"": "Malformed",
    }
    for args, error in payloads.items():
        assert reverts(lambda args=args: locked.send(encode_spend_lock(LOCK, args))).name == error
    assert locked.is_active()


def test_permission_is_worth_nothing_outside_of_the_lock(locked: Locked) -> None:
    """Neither to a stranger or the delegate who commits the leaf, nor later in the transaction that used it."""
    call = encode_commit(permitted_payload(locked.spending), b"")
    for caller in (ALICE, BOB):
        assert reverts(lambda caller=caller: locked.send(call, caller)).name == "TooFewSignatures"


def test_leaf_that_cannot_be_committed_reverts_and_leaves_the_lock(locked: Locked) -> None:
    used = locked.ledger.write(1)
    locked.ledger.commit(used)
    for act in (locked.spend, locked.cancel):
        reverted = reverts(act)
        assert (reverted.name, reverted.arguments) == ("NotCommitted", (SkipReason.INTENT_USED, bytes(32), 0))
    assert locked.is_active()


def test_lack_of_an_input_is_named() -> None:
    locked = Locked()
    gone = StateId(Leaf(keccak(b"gone")), 3)
    spending = locked.ledger.write(5, inputs=(gone,))
    change = replace(locked.record(BOB, presumed=BOB), spends=spending.leaf)
    locked.ledger.commit(locked.ledger.write(6, lock=change))
    reverted = reverts(lambda: locked.spend(transition=spending))
    assert (reverted.name, reverted.arguments) == ("NotCommitted", (SkipReason.INPUT_UNAVAILABLE, gone.leaf, 3))


def test_permitted_transition_may_call_and_fails_with_its_call() -> None:
    locked = Locked()
    ledger = locked.ledger
    target = ledger.chain.deploy("Target")
    spending = ledger.write(5, outputs=1, calls=(Call(target, 60_000, call_data("Target", "touch")),))
    change = replace(locked.record(BOB, presumed=BOB), spends=spending.leaf)
    ledger.commit(ledger.write(6, lock=change))
    ledger.chain.call("Target", target, "setBroken", True)
    reverted = reverts(lambda: locked.spend(transition=spending))
    assert (reverted.name, reverted.arguments) == ("NotCommitted", (SkipReason.CALL_FAILED, bytes(32), 0))
    ledger.chain.call("Target", target, "setBroken", False)
    locked.spend(transition=spending)
    assert ledger.chain.call("Target", target, "count") == 1


def test_lock_ends_once(locked: Locked) -> None:
    locked.spend()
    for act in (locked.spend, locked.cancel, lambda: locked.delegate(CAROL)):
        assert str(reverts(act)) == str(Reverted("LockNotActive", (LOCK,)))
    assert locked.ledger.unspent(locked.cancelling.leaf) == 0


def test_record_that_returns_does_not_commit_its_leaf_again(locked: Locked) -> None:
    locked.spend()
    locked.ledger.commit(locked.ledger.write(7, lock=locked.record(BOB)))
    for act in (locked.spend, locked.cancel):
        assert reverts(act).arguments == (SkipReason.INTENT_USED, bytes(32), 0)


def test_permission_of_one_contract_is_worth_nothing_in_another(locked: Locked) -> None:
    other = EndorsedLedger(chain=locked.ledger.chain, code="Lockable")
    copied = other.write(2, lock=locked.record(BOB))
    assert other.commit(copied).mask == 1
    call = encode_spend_lock(LOCK, permitted_payload(locked.spending))
    assert reverts(lambda: other.chain.send(other.address, call, BOB)).name == "TooFewSignatures"
    # The signatures of the transition that set the lock are not worth anything there either.
    stolen = locked.ledger.call(locked.setting)
    third = EndorsedLedger(chain=locked.ledger.chain, code="Lockable")
    assert reverts(lambda: third.chain.send(third.address, stolen)).name == "NotEndorsed"


# Expiry.


def test_expired_lock_is_cancelled_by_any_account_and_spent_by_none(locked: Locked) -> None:
    chain = locked.ledger.chain
    chain.time_s = EXPIRES_AT_S
    assert reverts(lambda: locked.cancel(CAROL)).name == "LockUnauthorized"
    chain.time_s = EXPIRES_AT_S + 1
    for act in (locked.spend, lambda: locked.delegate(CAROL)):
        assert str(reverts(act)) == str(Reverted("LockExpired", (LOCK, EXPIRES_AT_S, EXPIRES_AT_S + 1)))
    assert reverts(lambda: locked.cancel(CAROL, locked.spending)).name == "TooFewSignatures"
    answer = locked.cancel(CAROL)
    assert names(answer) == ["LockCancelled", "Round"]
    assert address_in(answer.events[0].topics[2]) == CAROL
    assert locked.ledger.unspent(locked.cancelling.leaf) == 1


def test_gas_of_cancelling_is_bounded() -> None:
    """Nodes cancel with this limit, whatever a lock gives back."""
    locked = Locked()
    largest = locked.ledger.write(9, outputs=15, salt=b"back")
    change = replace(locked.record(BOB, presumed=BOB), cancels=largest.leaf)
    locked.ledger.commit(locked.ledger.write(10, lock=change))
    answer = locked.cancel(transition=largest)
    assert answer.gas < CANCEL_GAS - 60_000, "slots are warm here, and the base cost is not counted"


def test_delegate_spends_in_the_last_second(locked: Locked) -> None:
    locked.ledger.chain.time_s = EXPIRES_AT_S
    locked.spend()
    assert locked.ledger.unspent(locked.spending.leaf) == 0b11


def test_lock_may_never_expire() -> None:
    locked = Locked(expires_at_s=LOCK_EXPIRY_MAX)
    locked.ledger.chain.time_s = 2**62
    assert reverts(lambda: locked.cancel(CAROL)).name == "LockUnauthorized"
    locked.spend()
    assert not locked.is_active()


# Transitions that change a lock.


@pytest.mark.parametrize(
    ("kind", "event"),
    [(LockKind.SPENT, "LockSpent"), (LockKind.CANCELLED, "LockCancelled")],
    ids=["spent", "cancelled"],
)
def test_endorsed_transition_ends_a_lock(locked: Locked, kind: LockKind, event: str) -> None:
    ending = locked.change(3, kind=kind, presumed=BOB)
    answer = locked.send(locked.ledger.call(ending), ALICE)
    assert names(answer) == [event, "Round"]
    assert not locked.is_active()
    assert str(reverts(locked.spend)) == str(Reverted("LockNotActive", (LOCK,)))


def test_endorsed_transition_delegates_and_keeps_the_rest(locked: Locked) -> None:
    answer = locked.send(locked.ledger.call(locked.change(3, kind=LockKind.DELEGATE, presumed=BOB, delegate=CAROL)))
    assert names(answer) == ["LockDelegated", "Round"]
    assert locked.info() == (NO_OWNER, CAROL, locked.spending.leaf, locked.cancelling.leaf, EXPIRES_AT_S)


@pytest.mark.parametrize(
    ("delegate", "events"),
    [(BOB, ["LockUpdated", "Round"]), (CAROL, ["LockUpdated", "LockDelegated", "Round"])],
    ids=["same delegate", "another delegate"],
)
def test_endorsed_transition_replaces_a_record(locked: Locked, delegate: ContractAddress, events: list[str]) -> None:
    spending = locked.ledger.write(5, outputs=1)
    change = replace(locked.record(delegate, EXPIRES_AT_S + 5, BOB), spends=spending.leaf)
    answer = locked.send(locked.ledger.call(locked.ledger.write(3, lock=change)))
    assert names(answer) == events
    assert locked.info() == (NO_OWNER, delegate, spending.leaf, locked.cancelling.leaf, EXPIRES_AT_S + 5)
    assert reverts(lambda: locked.spend(delegate)).name == "TooFewSignatures"
    locked.spend(delegate, spending)


def test_transition_that_presumes_another_delegate_is_skipped_and_changes_nothing(locked: Locked) -> None:
    ledger = locked.ledger
    coin = ledger.write(10, outputs=1)
    ledger.commit(coin)
    before = locked.info()
    kinds: tuple[dict[str, object], ...] = (
        {"kind": LockKind.DELEGATE, "delegate": CAROL},
        {"kind": LockKind.SPENT},
        {"kind": LockKind.CANCELLED},
        {"kind": LockKind.SET, "spends": Leaf(bytes(32)), "cancels": Leaf(bytes(32))},
    )
    for number, what in enumerate(kinds):
        for presumed in (NO_DELEGATE, ALICE, CAROL):
            change = LockChange(lock=LOCK, presumed=presumed, **what)  # type: ignore[arg-type]
            found = ledger.commit(ledger.write(20 + number, inputs=ids(coin), outputs=1, lock=change))
            [skip] = found.skipped
            assert (found.mask, skip.reason, skip.state) == (0, SkipReason.LOCK_CHANGED, StateId(Leaf(LOCK), 0))
    assert locked.info() == before
    assert ledger.unspent(coin.leaf) == 1
    assert not ledger.is_used(ledger.write(20).intent)


@pytest.mark.parametrize("kind", [LockKind.DELEGATE, LockKind.SPENT, LockKind.CANCELLED])
def test_what_changes_a_lock_needs_one(kind: LockKind) -> None:
    ledger = EndorsedLedger(code="Lockable")
    [skip] = ledger.commit(ledger.write(0, lock=LockChange(kind=kind, lock=LOCK))).skipped
    assert skip.reason == SkipReason.LOCK_CHANGED


def test_set_that_presumes_a_delegate_makes_no_new_record() -> None:
    locked = Locked()
    change = locked.record(BOB, presumed=CAROL, lock=keccak(b"new"))
    [skip] = locked.ledger.commit(locked.ledger.write(3, lock=change)).skipped
    assert skip.reason == SkipReason.LOCK_CHANGED


@pytest.mark.parametrize("is_public_first", [True, False])
def test_endorsed_unlock_and_public_delegation_cannot_both_win(locked: Locked, is_public_first: bool) -> None:
    """The owner has an unlock signed; the delegate gives the lock to Carol, who relies on it."""
    unlock = locked.change(3, kind=LockKind.SPENT, presumed=BOB)
    if is_public_first:
        locked.delegate(CAROL)
        [skip] = locked.ledger.commit(unlock).skipped
        assert skip.reason == SkipReason.LOCK_CHANGED
        locked.spend(CAROL)
        assert locked.ledger.unspent(locked.spending.leaf) == 0b11
    else:
        assert locked.ledger.commit(unlock).mask == 1
        assert reverts(lambda: locked.delegate(CAROL)).name == "LockNotActive"


def test_transitions_of_one_round_see_what_those_before_did_to_a_lock() -> None:
    locked = Locked()
    changes = (
        locked.change(3, kind=LockKind.DELEGATE, presumed=BOB, delegate=CAROL),
        locked.change(4, kind=LockKind.SPENT, presumed=BOB),
        locked.change(5, kind=LockKind.CANCELLED, presumed=CAROL),
        locked.ledger.write(6, lock=locked.record(ALICE)),
    )
    found = locked.ledger.commit(*changes)
    assert found.mask == 0b1101
    assert locked.info()[1] == ALICE


def test_lock_is_not_changed_when_a_call_fails(locked: Locked) -> None:
    ledger = locked.ledger
    target = ledger.chain.deploy("Target")
    change = LockChange(kind=LockKind.SPENT, lock=LOCK, presumed=BOB)
    fails, touches = (Call(target, 60_000, call_data("Target", name)) for name in ("fail", "touch"))
    [skip] = ledger.commit(ledger.write(3, calls=(touches, fails), lock=change)).skipped
    assert (skip.reason, skip.state.output) == (SkipReason.CALL_FAILED, 1)
    assert locked.is_active()
    assert ledger.chain.call("Target", target, "count") == 0
    assert ledger.commit(ledger.write(3, calls=(touches,), lock=change)).mask == 1
    assert not locked.is_active()
    assert ledger.chain.call("Target", target, "count") == 1


def test_call_is_not_made_when_the_lock_has_changed(locked: Locked) -> None:
    ledger = locked.ledger
    target = ledger.chain.deploy("Target")
    touch = Call(target, 60_000, call_data("Target", "touch"))
    change = LockChange(kind=LockKind.SPENT, lock=LOCK, presumed=CAROL)
    ledger.commit(ledger.write(3, calls=(touch,), lock=change))
    assert ledger.chain.call("Target", target, "count") == 0


def test_target_cannot_use_or_look_at_a_lock_while_it_is_called() -> None:
    locked = Locked()
    ledger = locked.ledger
    target = ledger.chain.deploy("Target")
    ledger.commit(locked.change(3, kind=LockKind.DELEGATE, presumed=BOB, delegate=target))
    args = permitted_payload(locked.spending)
    ways = (
        encode_spend_lock(LOCK, args),
        encode_cancel_lock(LOCK, permitted_payload(locked.cancelling)),
        encode_delegate_lock(LOCK, BOB),
        call_data("Lockable", "getLock", LOCK),
        call_data("Lockable", "isLockActive", LOCK),
    )
    for number, way in enumerate(ways):
        call = Call(target, 400_000, call_data("Target", "forward", ledger.address, way))
        [skip] = ledger.commit(ledger.write(10 + number, calls=(call,))).skipped
        assert skip.reason == SkipReason.CALL_FAILED
    assert locked.info()[1] == target


def test_prepared_transition_may_change_a_lock(locked: Locked) -> None:
    condition = keccak(b"condition")
    change = LockChange(kind=LockKind.SPENT, lock=LOCK, presumed=BOB)
    ending = locked.ledger.write(3, lock=change, preparation=Preparation(CAROL, condition))
    assert reverts(lambda: locked.ledger.commit(ending, condition=condition)).name == "WrongCommitter"
    assert locked.ledger.commit(ending, condition=condition, sender=CAROL).mask == 1
    assert not locked.is_active()


# Fields that the leaf binds.


def test_every_field_of_a_lock_is_bound() -> None:
    """Signatures of one change serve no other."""
    ledger = EndorsedLedger(code="Lockable")
    change = LockChange(
        kind=LockKind.SET, lock=LOCK, delegate=BOB, expires_at_s=9, spends=Leaf(bytes(32)), cancels=Leaf(b"c" * 32)
    )
    good = ledger.write(0, lock=change)
    others = (
        replace(change, lock=keccak(b"other")),
        replace(change, presumed=ALICE),
        replace(change, delegate=ALICE),
        replace(change, expires_at_s=10),
        replace(change, spends=Leaf(b"s" * 32)),
        replace(change, cancels=Leaf(bytes(32))),
        LockChange(kind=LockKind.DELEGATE, lock=LOCK, delegate=BOB),
        LockChange(kind=LockKind.SPENT, lock=LOCK),
        LockChange(kind=LockKind.CANCELLED, lock=LOCK),
        None,
    )
    for other in others:
        payload = encode_payload((replace(good, lock=other),), VALID_UNTIL_S)
        assert reverts(lambda payload=payload: ledger.commit_bytes(payload, (good.leaf,))).name == "NotEndorsed"
    assert ledger.commit(good).mask == 1


@pytest.mark.parametrize("kind", [0, 5, 255])
def test_unknown_kind_of_change_is_refused(kind: int) -> None:
    ledger = EndorsedLedger(code="Lockable")
    written = ledger.write(0, lock=LockChange(kind=LockKind.SPENT, lock=LOCK))
    payload = bytearray(encode_payload((written,), VALID_UNTIL_S))
    payload[-53] = kind
    reverted = reverts(lambda: ledger.commit_bytes(bytes(payload), (written.leaf,)))
    assert (reverted.name, reverted.arguments) == ("Malformed", (0, "lock"))


@pytest.mark.parametrize("kind", [LockKind.HOLD, LockKind.RELEASE])
def test_kind_of_a_ledger_with_locked_coins_is_refused(kind: LockKind) -> None:
    ledger = EndorsedLedger(code="Lockable")
    written = ledger.write(0, outputs=1, lock=LockChange(kind=kind, lock=LOCK))
    reverted = reverts(lambda: ledger.commit(written))
    assert (reverted.name, reverted.arguments) == ("Malformed", (0, "lock"))


@pytest.mark.parametrize("kind", [LockKind.SET, LockKind.DELEGATE, LockKind.SPENT, LockKind.CANCELLED])
def test_change_that_is_cut_short_is_refused(kind: LockKind) -> None:
    ledger = EndorsedLedger(code="Lockable")
    leaf = Leaf(bytes(32)) if kind is LockKind.SET else NO_LEAF
    written = ledger.write(0, lock=LockChange(kind=kind, lock=LOCK, spends=leaf, cancels=leaf))
    payload = encode_payload((written,), VALID_UNTIL_S)
    reverted = reverts(lambda: ledger.commit_bytes(payload[:-1], (written.leaf,)))
    assert (reverted.name, reverted.arguments) == ("Malformed", (0, "length"))
    reverted = reverts(lambda: ledger.commit_bytes(payload + b"\0", (written.leaf,)))
    assert (reverted.name, reverted.arguments) == ("Malformed", (1, "length"))


def test_ledger_that_proves_knows_no_locks() -> None:
    ledger = ProvedLedger()
    written = ledger.write(0, lock=LockChange(kind=LockKind.SPENT, lock=LOCK))
    reverted = reverts(lambda: ledger.commit(written))
    assert (reverted.name, reverted.arguments) == ("Malformed", (0, "flags"))


def test_largest_transition_with_a_lock_is_hashed_as_in_the_model() -> None:
    """A preimage has room for 30 references, and calls and lock together for one word."""
    ledger = EndorsedLedger(code="Lockable")
    target = ledger.chain.deploy("Target")
    made = ledger.write(0, outputs=15)
    read = ledger.write(1, outputs=15)
    ledger.commit(made, read)
    largest = ledger.write(
        2,
        inputs=ids(made),
        reads=ids(read),
        outputs=15,
        info=15,
        calls=(Call(target, 60_000, call_data("Target", "touch")),),
        lock=LockChange(kind=LockKind.SET, lock=LOCK, spends=Leaf(b"s" * 32), cancels=Leaf(b"c" * 32)),
    )
    found = ledger.commit(largest)
    assert found.mask == 1
    assert ledger.unspent(largest.leaf) == 0x7FFF


def test_removing_a_record_gives_gas_back(locked: Locked) -> None:
    """What the delegate pays: about as much as a transfer of its own."""
    assert locked.spend().gas < 130_000
