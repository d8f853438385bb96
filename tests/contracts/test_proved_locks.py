"""Coins that are locked for a delegate: their records, the powers of delegates, and of owners after the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from rota.calldata import FullLeaf, Malformed, decode_round_log, encode_payload
from rota.domains.zeto.reserve import withdrawal_call
from rota.ledger.proofs import coins_in
from rota.model.digests import core_of, keyless_intent, leaf_of
from rota.model.types import (
    NO_DELEGATE,
    NO_LOCK_ID,
    Call,
    ContractAddress,
    LockChange,
    LockKind,
    Preparation,
    StateId,
    Transition,
)
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import ALICE, BOB, TIME_S, Answer, Reverted, artifact, call_data, keccak, signature_of
from tests.contracts.kit import ISSUER, VALID_UNTIL_S, ProvedLedger, ids, key_of, proved_as, states_of

CAROL = ContractAddress("0x" + "ca" * 20)
EXPIRES_AT_S = TIME_S + 300
NO_CONDITION = bytes(32)
EVENTS = {
    keccak(signature_of(each).encode()): each["name"] for each in artifact("ProvedLocks").abi if each["type"] == "event"
}


class LocksLedger(ProvedLedger):
    """A `ProvedLocks` contract. A release, and what the ledger itself commits, is proved for the ledger as delegate."""

    name = "ProvedLocks"

    def public_inputs(self, transition: Transition) -> list[int]:
        words = super().public_inputs(transition)
        if transition.lock is not None and transition.lock.kind is LockKind.RELEASE:
            words[-2] = int(self.address, 16)
        return words

    def coins(self, states: Iterable[StateId]) -> list[int]:
        return [int.from_bytes(self._coin_of(state), "big") for state in states]

    def hold(
        self, number: int, inputs: tuple[StateId, ...], delegate: ContractAddress = BOB, **what: object
    ) -> Transition:
        expires_at_s = what.pop("expires_at_s", EXPIRES_AT_S)
        lock = LockChange(
            kind=LockKind.HOLD,
            lock=NO_LOCK_ID,
            delegate=delegate,
            expires_at_s=expires_at_s,  # type: ignore[arg-type]
        )
        return self.write(number, inputs=inputs, lock=lock, **{"outputs": 2, **what})  # type: ignore[arg-type]

    def release(self, number: int, state: StateId, **what: object) -> Transition:
        lock = LockChange(kind=LockKind.RELEASE, lock=self.coins((state,))[0].to_bytes(32, "big"))
        return self.write(number, lock=lock, **{"inputs": (state,), "outputs": 1, **what})  # type: ignore[arg-type]

    def spending(
        self,
        number: int,
        inputs: tuple[StateId, ...],
        outputs: int = 1,
        committer: ContractAddress | None = None,
        condition: bytes = NO_CONDITION,
        valid_until_s: int = VALID_UNTIL_S,
        calls: tuple[Call, ...] = (),
    ) -> Transition:
        """What a delegate commits: its id belongs to the first coin."""
        nonce = number.to_bytes(16, "big")
        coin = self.coins(inputs[:1])[0].to_bytes(32, "big") if inputs else bytes(32)
        intent = keyless_intent(nonce, coin)
        written = self.write(number, inputs=inputs, outputs=outputs, salt=b"spending")
        commitments = tuple(state.commitment for state in written.outputs)
        core = core_of(self.separator, intent, inputs=inputs, outputs=commitments, info=written.info, calls=calls)
        preparation = Preparation(committer or self.address, condition)
        leaf = leaf_of(core, preparation)
        made = replace(
            written,
            intent=intent,
            leaf=leaf,
            outputs=states_of(leaf, commitments),
            preparation=preparation,
            valid_until_s=valid_until_s,
            calls=calls,
        )
        made = replace(made, signature=nonce + bytes(48) + self.proof(made))
        self.makers[leaf] = made
        return made

    def transfer(
        self,
        *entries: Transition,
        sender: ContractAddress = BOB,
        inputs: list[int] | None = None,
        outputs: list[int] | None = None,
        auth: bytes | None = None,
        payload: bytes | None = None,
    ) -> Answer:
        first = entries[0]
        call = call_data(
            "ProvedLocks",
            "transferLocked",
            self.coins(first.inputs) if inputs is None else inputs,
            [int.from_bytes(each, "big") for each in first.info] if outputs is None else outputs,
            self.auth(*entries) if auth is None else auth,
            encode_payload(entries, VALID_UNTIL_S) if payload is None else payload,
        )
        return self.chain.send(self.address, call, sender)

    def delegate(self, states: Iterable[StateId], new: ContractAddress, sender: ContractAddress = BOB) -> Answer:
        call = call_data("ProvedLocks", "delegateLock", self.coins(states), new, b"why")
        return self.chain.send(self.address, call, sender)

    def record(self, state: StateId) -> tuple[bool, ContractAddress, int]:
        found: tuple[bool, ContractAddress, int] = self.chain.call(
            self.name, self.address, "locked", self.coins((state,))[0]
        )
        return found


class Locked:
    """A ledger with a coin that is locked for Bob, and one that is free."""

    def __init__(self, outputs: int = 2) -> None:
        self.ledger = LocksLedger()
        self.mint = self.ledger.write(0, outputs=6)
        self.ledger.commit(self.mint)
        self.holding = self.ledger.hold(1, ids(self.mint)[:1], outputs=outputs)
        assert self.ledger.commit(self.holding).mask == 1
        self.coin, *self.free = ids(self.holding)

    @property
    def number(self) -> int:
        return self.ledger.coins((self.coin,))[0]


@pytest.fixture
def locked() -> Locked:
    return Locked()


def names(answer: Answer) -> list[str]:
    return [EVENTS[event.topics[0]] for event in answer.events]


def error_of(act: Callable[[], object]) -> str:
    with pytest.raises(Reverted) as reverted:
        act()
    return str(reverted.value)


# Records.


def test_hold_writes_a_record_of_the_first_output_alone(locked: Locked) -> None:
    ledger = locked.ledger
    assert ledger.record(locked.coin) == (True, BOB, EXPIRES_AT_S)
    assert ledger.record(locked.free[0]) == (False, NO_DELEGATE, 0)


def test_round_log_of_a_hold_and_of_a_release_is_read_back(locked: Locked) -> None:
    ledger = locked.ledger
    ledger.chain.time_s = EXPIRES_AT_S + 1
    for made in (ledger.hold(2, ids(locked.mint)[1:2]), ledger.release(3, locked.coin)):
        found = ledger.commit(made).round
        assert found.payload is not None
        [entry] = found.payload.entries
        assert isinstance(entry, FullLeaf)
        assert (entry.leaf, entry.lock) == (made.leaf, made.lock)


def test_coin_that_is_locked_already_is_not_locked_again(locked: Locked) -> None:
    """The issuer could make a coin with the commitment of another party's, and give its record another delegate."""
    ledger = locked.ledger
    lock = LockChange(kind=LockKind.HOLD, lock=NO_LOCK_ID, delegate=CAROL, expires_at_s=EXPIRES_AT_S)
    info = locked.holding.info[:1]
    written = ledger.write(9, outputs=1)
    core = core_of(ledger.separator, written.intent, outputs=(keccak(b"copy"),), info=info, lock=lock)
    copied = ledger.take(
        replace(written, leaf=leaf_of(core), outputs=states_of(leaf_of(core), (keccak(b"copy"),)), info=info, lock=lock)
    )
    found = ledger.commit(copied)
    assert found.mask == 0
    assert [skip.reason for skip in found.skipped] == [SkipReason.LOCK_CHANGED]
    assert found.skipped[0].state.leaf == info[0]
    assert ledger.record(locked.coin)[1] == BOB


def test_skipped_hold_leaves_no_record_and_its_input(locked: Locked) -> None:
    ledger = locked.ledger
    gone = ledger.hold(2, (StateId(ledger.write(77, outputs=1).leaf, 0),))
    assert ledger.commit(gone).mask == 0
    assert ledger.record(ids(gone)[0])[0] is False


def test_section_of_another_form_is_malformed(locked: Locked) -> None:
    ledger = locked.ledger
    spare = ids(locked.mint)[1:3]
    token = ContractAddress("0x" + "77" * 20)
    held = LockChange(kind=LockKind.HOLD, lock=NO_LOCK_ID, delegate=BOB)
    released = LockChange(kind=LockKind.RELEASE, lock=locked.number.to_bytes(32, "big"))
    ledger.chain.time_s = EXPIRES_AT_S + 1
    wrong = {
        "hold names an id": ledger.write(2, inputs=spare, outputs=1, lock=replace(held, lock=keccak(b"id"))),
        "hold presumes a delegate": ledger.write(3, inputs=spare, outputs=1, lock=replace(held, presumed=BOB)),
        "hold has no output": ledger.write(4, inputs=spare, outputs=0, lock=held),
        "empty hold": ledger.write(5, lock=held),
        "hold with a call": ledger.write(
            6, inputs=spare[:1], outputs=1, lock=held, calls=(withdrawal_call(token, NO_DELEGATE, 1),)
        ),
        "prepared hold": ledger.write(
            7, inputs=spare, outputs=1, lock=held, preparation=Preparation(ALICE, NO_CONDITION)
        ),
        "release of two": ledger.write(8, inputs=(locked.coin, spare[0]), outputs=1, lock=released),
        "release without an input": ledger.write(9, outputs=1, lock=released),
        "release of another coin": ledger.write(10, inputs=spare[:1], outputs=1, lock=released),
        "release presumes a delegate": ledger.write(
            11, inputs=(locked.coin,), outputs=1, lock=replace(released, presumed=BOB)
        ),
        "prepared release": ledger.write(
            12, inputs=(locked.coin,), outputs=1, lock=released, preparation=Preparation(ALICE, NO_CONDITION)
        ),
        "kind of another ledger": ledger.write(
            13, inputs=spare, outputs=1, lock=LockChange(kind=LockKind.SPENT, lock=NO_LOCK_ID)
        ),
    }
    for what, made in wrong.items():
        assert error_of(lambda made=made: ledger.commit(made)) == "Malformed(0, 'lock')", what  # type: ignore[misc]
    assert ledger.record(locked.coin)[0]


# What a delegate does.


def test_delegate_spends_what_the_owner_has_proved_without_a_signature(locked: Locked) -> None:
    ledger = locked.ledger
    spending = ledger.spending(2, (locked.coin,), outputs=2)
    answer = ledger.transfer(spending)
    assert names(answer) == ["LockSpent", "Round"]
    assert answer.events[0].topics[1] == locked.number.to_bytes(32, "big")
    log = decode_round_log(answer.events[1].topics, answer.events[1].content, ledger.separator)
    assert not isinstance(log, Malformed)
    assert [(each.leaf, each.is_committed) for each in log.committals] == [(spending.leaf, True)]
    assert ledger.unspent(spending.leaf) == 0b11
    assert ledger.unspent(locked.holding.leaf) == 0b10
    assert ledger.record(locked.coin)[0] is False


def test_delegate_spends_several_locks_at_once_and_only_if_all_are_its_own(locked: Locked) -> None:
    ledger = locked.ledger
    second = ledger.hold(2, ids(locked.mint)[1:2])
    third = ledger.hold(3, ids(locked.mint)[2:3], CAROL)
    ledger.commit(second, third)
    mixed = ledger.spending(4, (locked.coin, ids(third)[0]))
    assert error_of(lambda: ledger.transfer(mixed)).startswith("LockUnauthorized")
    assert ledger.record(locked.coin)[0]
    both = ledger.spending(5, (locked.coin, ids(second)[0]))
    ledger.transfer(both)
    assert ledger.unspent(both.leaf) == 1
    assert ledger.record(ids(second)[0])[0] is False


def test_lock_is_given_away_until_a_contract_has_it(locked: Locked) -> None:
    ledger = locked.ledger
    spending = ledger.spending(2, (locked.coin,))
    assert names(ledger.delegate((locked.coin,), CAROL)) == ["LockDelegated"]
    assert error_of(lambda: ledger.transfer(spending)) == f"LockUnauthorized({locked.number}, '{CAROL}', '{BOB}')"
    target = ledger.chain.deploy("Target")
    ledger.delegate((locked.coin,), target, CAROL)
    assert ledger.record(locked.coin) == (True, target, EXPIRES_AT_S)
    coins = [int.from_bytes(each, "big") for each in spending.info]
    payload = encode_payload((spending,), VALID_UNTIL_S)
    call = call_data("ProvedLocks", "transferLocked", [locked.number], coins, ledger.auth(spending), payload)
    ledger.chain.send(target, call_data("Target", "forward", ledger.address, call), CAROL)
    assert ledger.unspent(spending.leaf) == 1


@pytest.mark.parametrize("caller", [ALICE, CAROL])
def test_only_the_delegate_acts_before_the_lock_expires(locked: Locked, caller: ContractAddress) -> None:
    ledger = locked.ledger
    spending = ledger.spending(2, (locked.coin,))
    expected = f"LockUnauthorized({locked.number}, '{BOB}', '{caller}')"
    assert error_of(lambda: ledger.transfer(spending, sender=caller)) == expected
    assert error_of(lambda: ledger.delegate((locked.coin,), caller, caller)) == expected
    found = ledger.commit(ledger.release(3, locked.coin))
    assert [skip.reason for skip in found.skipped] == [SkipReason.LOCK_CHANGED]
    assert ledger.record(locked.coin) == (True, BOB, EXPIRES_AT_S)


def test_lock_without_a_delegate_is_used_by_no_account(locked: Locked) -> None:
    ledger = locked.ledger
    ledger.delegate((locked.coin,), NO_DELEGATE)
    spending = ledger.spending(2, (locked.coin,))
    assert error_of(lambda: ledger.transfer(spending)).startswith("LockUnauthorized")
    assert error_of(lambda: ledger.delegate((locked.coin,), BOB)).startswith("LockUnauthorized")


def test_free_coin_has_no_active_lock(locked: Locked) -> None:
    ledger = locked.ledger
    free = ledger.coins(locked.free)[0]
    spending = ledger.spending(2, tuple(locked.free))
    assert error_of(lambda: ledger.transfer(spending)) == f"LockNotActive({free},)"
    assert error_of(lambda: ledger.delegate(locked.free, CAROL)) == f"LockNotActive({free},)"
    named_twice = ledger.spending(3, (locked.coin,))
    twice = [locked.number, locked.number]
    assert error_of(lambda: ledger.transfer(named_twice, inputs=twice)) == f"LockNotActive({locked.number},)"


def test_lock_is_spent_once(locked: Locked) -> None:
    ledger = locked.ledger
    one, other = (ledger.spending(number, (locked.coin,)) for number in (2, 3))
    ledger.transfer(one)
    assert error_of(lambda: ledger.transfer(other)) == f"LockNotActive({locked.number},)"


# What only a record can stand for.


def test_locked_coin_is_not_spent_by_commit(locked: Locked) -> None:
    """With a proof for no delegate, for the sender, or for the ledger, which cannot send."""
    ledger = locked.ledger
    right = ledger.spending(2, (locked.coin,))
    plain = ledger.write(3, inputs=(locked.coin,), outputs=1)
    assert error_of(lambda: ledger.commit(proved_as(plain, right))) == "WrongProof(0,)"
    for sender in (ALICE, BOB):
        assert error_of(lambda sender=sender: ledger.commit(right, sender=sender)).startswith("WrongCommitter")  # type: ignore[misc]
        own = ledger.write(4, inputs=(locked.coin,), outputs=1, preparation=Preparation(sender, NO_CONDITION))
        stolen = proved_as(own, right)
        assert error_of(lambda sender=sender, stolen=stolen: ledger.commit(stolen, sender=sender)) == "WrongProof(0,)"  # type: ignore[misc]


def test_free_coin_with_a_record_cannot_be_spent_by_its_delegate(locked: Locked) -> None:
    """A record does not show that its coin is locked. A free one stays its owner's, and no proof is for the ledger."""
    ledger = locked.ledger
    spending = ledger.spending(2, (locked.coin,))
    free = ledger.write(3, inputs=(locked.coin,), outputs=1)
    made = replace(spending, signature=spending.signature[:64] + free.signature[64:])
    assert error_of(lambda: ledger.transfer(made)) == "WrongProof(0,)"
    assert ledger.commit(free).mask == 1


def test_coins_that_are_named_are_those_that_are_spent_and_made(locked: Locked) -> None:
    ledger = locked.ledger
    other = ledger.hold(2, ids(locked.mint)[1:2])
    ledger.commit(other)
    spending = ledger.spending(3, (locked.coin,), outputs=2)
    made = [int.from_bytes(each, "big") for each in spending.info]
    names_of: dict[str, dict[str, list[int]]] = {
        "no input": {"inputs": []},
        "one more": {"inputs": [locked.number, *ledger.coins(ids(other)[:1])]},
        "no output": {"outputs": []},
        "one output": {"outputs": made[:1]},
        "the other order": {"outputs": made[::-1]},
        "one more output": {"outputs": [*made, 1]},
    }
    for what, named in names_of.items():
        assert error_of(lambda named=named: ledger.transfer(spending, **named)) == "OtherCoins()", what  # type: ignore[misc]
    others = ledger.coins(ids(other)[:1])
    # The id belongs to another coin than the first that is named.
    assert error_of(lambda: ledger.transfer(spending, inputs=others)) == "NotIntentKey(0,)"
    ledger.transfer(spending)


def test_nothing_else_is_committed_with_what_a_delegate_commits(locked: Locked) -> None:
    ledger = locked.ledger
    other = ledger.hold(2, ids(locked.mint)[1:2])
    ledger.commit(other)
    spending = ledger.spending(3, (locked.coin,))
    also = ledger.spending(4, ids(other)[:1])
    plain = ledger.write(5, inputs=ids(locked.mint)[2:3], outputs=1)
    mint = ledger.write(6, outputs=1)
    empty = ledger.write(7)
    made = [int.from_bytes(spending.info[0], "big")]
    for companion in (also, plain, mint, empty):
        for entries in ((spending, companion), (companion, spending)):
            act = partial(ledger.transfer, *entries, inputs=[locked.number], outputs=made)
            assert error_of(act).startswith(("MalformedAuth(", "NotIntentKey("))
    bare = encode_payload((spending.leaf,), VALID_UNTIL_S)
    assert error_of(lambda: ledger.transfer(spending, payload=bare, auth=b"")).startswith("NotCommitted(0")
    ledger.transfer(spending)


def test_unprepared_transition_is_not_committed_for_a_delegate(locked: Locked) -> None:
    """One whose proof is for no delegate: its id belongs to the coin, so that only the preparation is missing."""
    ledger = locked.ledger
    right = ledger.spending(2, (locked.coin,))
    commitments = tuple(state.commitment for state in right.outputs)
    core = core_of(ledger.separator, right.intent, inputs=right.inputs, outputs=commitments, info=right.info)
    leaf = leaf_of(core)
    plain = replace(right, leaf=leaf, outputs=states_of(leaf, commitments), preparation=None)
    plain = replace(plain, signature=right.signature[:64] + ledger.proof(plain))
    assert error_of(lambda: ledger.transfer(plain)) == "OtherCoins()"


def test_preparation_for_another_committer_or_condition_is_refused(locked: Locked) -> None:
    ledger = locked.ledger
    for_bob = ledger.spending(2, (locked.coin,), committer=BOB)
    assert error_of(lambda: ledger.transfer(for_bob)).startswith("WrongCommitter")
    conditional = ledger.spending(3, (locked.coin,), condition=bytes(range(32)))
    assert error_of(lambda: ledger.transfer(conditional)).startswith("WrongCondition")


def test_skip_reverts_and_leaves_the_lock(locked: Locked) -> None:
    ledger = locked.ledger
    spending = ledger.spending(2, (locked.coin,))
    broken = ledger.spending(3, (locked.coin, StateId(ledger.write(88, outputs=1).leaf, 0)))
    assert error_of(lambda: ledger.transfer(broken, inputs=[locked.number])).startswith("NotCommitted(3")
    assert ledger.record(locked.coin) == (True, BOB, EXPIRES_AT_S)
    ledger.transfer(spending)


# Whose an id is.


def test_id_of_a_locked_spend_belongs_to_its_first_coin(locked: Locked) -> None:
    ledger = locked.ledger
    spending = ledger.spending(2, (locked.coin,))
    nonces = (b"\1" * 16 + bytes(48), bytes(64), spending.signature[:16] + bytes(47) + b"\1", b"")
    for nonce in nonces:
        wrong = replace(spending, signature=nonce + spending.signature[64:])
        assert error_of(lambda wrong=wrong: ledger.transfer(wrong)) in ("NotIntentKey(0,)", "MalformedAuth(0,)")  # type: ignore[misc]
    signed = ledger.write(3, inputs=(locked.coin,), outputs=1, preparation=Preparation(ledger.address, NO_CONDITION))
    assert error_of(lambda: ledger.transfer(signed)) == "MalformedAuth(0,)"
    ledger.transfer(spending)


def test_owner_of_another_lock_cannot_use_up_the_id(locked: Locked) -> None:
    """It copies the nonce from the mempool, and has a locked coin of its own."""
    ledger = locked.ledger
    other = ledger.hold(2, ids(locked.mint)[1:2], CAROL)
    ledger.commit(other)
    spending = ledger.spending(3, (locked.coin,))
    own = ledger.spending(3, ids(other)[:1])
    assert own.intent != spending.intent
    commitments = tuple(state.commitment for state in own.outputs)
    core = core_of(ledger.separator, spending.intent, inputs=own.inputs, outputs=commitments, info=own.info)
    leaf = leaf_of(core, own.preparation)
    stolen = replace(own, intent=spending.intent, leaf=leaf, outputs=states_of(leaf, commitments))
    stolen = replace(stolen, signature=spending.signature[:64] + ledger.proof(stolen))
    assert error_of(lambda: ledger.transfer(stolen, sender=CAROL)) == "NotIntentKey(0,)"
    ledger.transfer(spending)


def test_owner_cannot_take_back_what_a_delegate_may_commit(locked: Locked) -> None:
    """No key signs for the id, so that no empty transition of it is committed."""
    ledger = locked.ledger
    spending = ledger.spending(2, (locked.coin,))
    void = Transition(spending.intent, leaf_of(core_of(ledger.separator, spending.intent)))
    for signature in (spending.signature[:64], bytes(64), ledger.write(3).signature):
        made = replace(void, valid_until_s=VALID_UNTIL_S, signature=signature)
        assert error_of(lambda made=made: ledger.commit(made)) == "NotIntentKey(0,)"  # type: ignore[misc]
    ledger.transfer(spending)


def test_proof_of_a_locked_spend_is_valid_until_its_time(locked: Locked) -> None:
    ledger = locked.ledger
    short = ledger.spending(2, (locked.coin,), valid_until_s=TIME_S + 5)
    ledger.chain.time_s = TIME_S + 6
    assert error_of(lambda: ledger.transfer(short)) == f"ProofExpired(0, {TIME_S + 5}, {TIME_S + 6})"
    ledger.chain.time_s = TIME_S + 5
    ledger.transfer(short)


# Expiry.


def test_expired_lock_is_released_by_its_owner_and_spent_by_no_delegate(locked: Locked) -> None:
    ledger = locked.ledger
    spending, release = ledger.spending(2, (locked.coin,)), ledger.release(3, locked.coin)
    ledger.chain.time_s = EXPIRES_AT_S
    assert ledger.commit(release).mask == 0
    ledger.chain.time_s = EXPIRES_AT_S + 1
    for act in (lambda: ledger.transfer(spending), lambda: ledger.delegate((locked.coin,), CAROL)):
        assert error_of(act) == f"LockExpired({locked.number}, {EXPIRES_AT_S}, {EXPIRES_AT_S + 1})"
    stranger = replace(release, signature=release.signature[:64] + bytes(len(release.signature) - 64))
    assert error_of(lambda: ledger.commit(stranger)) == "WrongProof(0,)"
    found = ledger.commit(release)
    assert found.mask == 1
    assert ledger.record(locked.coin)[0] is False
    assert ledger.unspent(release.leaf) == 1
    assert ledger.unspent(locked.holding.leaf) == 0b10


def test_delegate_spends_in_the_last_second(locked: Locked) -> None:
    locked.ledger.chain.time_s = EXPIRES_AT_S
    locked.ledger.transfer(locked.ledger.spending(2, (locked.coin,)))


def test_release_is_proved_for_the_ledger_and_no_other_transition_of_the_round_is(locked: Locked) -> None:
    ledger = locked.ledger
    ledger.chain.time_s = EXPIRES_AT_S + 1
    release = ledger.release(2, locked.coin)
    free = ledger.write(3, inputs=ids(locked.mint)[1:2], outputs=1)
    assert error_of(lambda: ledger.commit(proved_as(release, ledger.write(2, inputs=(locked.coin,), outputs=1)))) == (
        "WrongProof(0,)"
    )
    assert ledger.commit(release, free).mask == 0b11
    assert ledger.unspent(free.leaf) == 1


def test_coin_without_a_record_is_not_released(locked: Locked) -> None:
    ledger = locked.ledger
    found = ledger.commit(ledger.release(2, locked.free[0]))
    assert [skip.reason for skip in found.skipped] == [SkipReason.LOCK_CHANGED]
    assert ledger.unspent(locked.holding.leaf) == 0b11


def test_lock_that_another_transition_of_the_round_has_released_skips(locked: Locked) -> None:
    ledger = locked.ledger
    ledger.chain.time_s = EXPIRES_AT_S + 1
    one, other = ledger.release(2, locked.coin), ledger.release(3, locked.coin)
    found = ledger.commit(one, other)
    assert found.mask == 0b01
    assert [skip.reason for skip in found.skipped] == [SkipReason.INPUT_UNAVAILABLE]


def test_coin_is_locked_and_released_in_the_round_that_makes_it() -> None:
    ledger = LocksLedger()
    mint = ledger.write(0, outputs=1)
    hold = ledger.hold(1, ids(mint), expires_at_s=TIME_S - 1)
    release = ledger.release(2, ids(hold)[0])
    assert ledger.commit(mint, hold, release).mask == 0b111
    assert ledger.record(ids(hold)[0])[0] is False


# Against a model.


def test_contract_and_model_agree_on_random_uses_of_locks() -> None:
    """The model has a delegate and an end for each locked coin. Ownership is for the proof to show."""
    chance = Random(7)
    ledger = LocksLedger()
    mint = ledger.write(0, outputs=15)
    ledger.commit(mint)
    free = list(ids(mint))
    held: dict[StateId, tuple[ContractAddress, int]] = {}
    seen: set[str] = set()
    for number in range(1, 161):
        ledger.chain.time_s = now_s = TIME_S + 2 * number
        caller, new = (chance.choice((ALICE, BOB)) for _ in range(2))
        act = chance.choice(("hold", "spend", "spend", "delegate", "release"))
        if act == "hold":
            made = ledger.hold(number, (free.pop(),), new, expires_at_s=now_s + chance.choice((5, 40)))
            assert ledger.commit(made).mask == 1
            held[ids(made)[0]] = (new, made.lock.expires_at_s if made.lock is not None else 0)
            free += ids(made)[1:]
        elif held:
            state = chance.choice(list(held))
            delegate, end_s = held[state]
            made = ledger.release(number, state) if act == "release" else ledger.spending(number, (state,))
            if act == "release":
                outcome = "done" if now_s > end_s else "skipped"
                assert ledger.commit(made).mask == (outcome == "done")
            else:
                outcome = "LockUnauthorized" if caller != delegate else "LockExpired" if now_s > end_s else "done"
                spends = partial(ledger.transfer, made, sender=caller)
                use = spends if act == "spend" else partial(ledger.delegate, (state,), new, caller)
                if outcome == "done":
                    use()
                else:
                    assert error_of(use).startswith(outcome)
            if outcome == "done" and act == "delegate":
                held[state] = (new, end_s)
            elif outcome == "done":
                del held[state]
                free += ids(made)
            seen.add(f"{act} {outcome}")
        for state, record in held.items():
            assert ledger.record(state) == (True, *record)
        for state in free:
            assert ledger.record(state)[0] is False
            assert ledger.unspent(state.leaf) >> state.output & 1
    refusals = ("LockUnauthorized", "LockExpired", "done")
    assert seen == {f"{act} {each}" for act in ("spend", "delegate") for each in refusals} | {
        "release done",
        "release skipped",
    }


def test_coins_of_the_maker_are_shown_as_for_every_input(locked: Locked) -> None:
    ledger = locked.ledger
    spending, number = ledger.spending(2, (locked.coin,)), locked.number
    other = ledger.write(40, outputs=2)
    ledger.makers[locked.holding.leaf] = other
    assert coins_in(other) != coins_in(locked.holding)
    auth = ledger.auth(spending)
    assert error_of(lambda: ledger.transfer(spending, inputs=[number], auth=auth)) == "WrongMaker(0, 0)"


def test_token_that_calls_back_finds_no_lock_to_change() -> None:
    """A withdrawal out of a lock runs the ERC-20 while the round is half applied."""
    ledger = LocksLedger(unbacked_mints=True)
    mint = ledger.write(0, outputs=2)
    ledger.commit(mint)
    holds = [ledger.hold(number + 1, (state,)) for number, state in enumerate(ids(mint))]
    ledger.commit(*holds)
    token = ledger.chain.deploy("TestToken")
    call = call_data("ProvedLocks", "setERC20", token)
    ledger.chain.send(ledger.address, call + key_of(ISSUER).sign_compact(keccak(ledger.separator + call)))
    ledger.chain.call("TestToken", token, "mint", ledger.address, 10)
    other = ids(holds[1])[0]
    # The token is the delegate of the other coin, so that nothing but the call under way stands in its way.
    ledger.delegate((other,), token)
    again = call_data("ProvedLocks", "delegateLock", ledger.coins((other,)), CAROL, b"")
    ledger.chain.call("TestToken", token, "callMeanwhile", ledger.address, again)
    spending = ledger.spending(5, ids(holds[0])[:1], calls=(withdrawal_call(token, CAROL, 10),))
    ledger.transfer(spending)
    answer = ledger.chain.call("TestToken", token, "answer")
    assert answer == b"\0" + keccak(b"Reentered()")[:4]
    assert ledger.record(other)[1] == token
    assert ledger.chain.call("TestToken", token, "balanceOf", CAROL) == 10
