"""The contract and the simulator's model on the same random rounds: the same outcome, intent by intent.

What is counted is printed, and a count of zero fails: a comparison that never met a case has not compared it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.calldata import (
    PERMITTED_UNTIL_S,
    AuthCost,
    Entry,
    FullLeaf,
    encode_cancel_lock,
    encode_commit,
    encode_delegate_lock,
    encode_payload,
    encode_spend_lock,
    gas_bound,
    permitted_payload,
)
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.digests import round_digest
from rota.model.types import NO_DELEGATE, Digest, Leaf, Transition
from rota.sim.state_ledger import SKIP_TEXTS, Commit, LockRefusal, RevertReason, SkipReason, StateLedger
from tests.contracts.evm import ALICE, BOB, Chain, Reverted
from tests.contracts.kit import VALID_UNTIL_S, Committed, EndorsedLedger, ProvedLedger, read_answer
from tests.contracts.random_rounds import LOCKS, Attempt, RandomRounds, runs_well

LEDGER_LOOKS_EVERY = 50
LOCK_USES = 2
REVERTS = {
    "Expired": RevertReason.EXPIRED,
    "TooFewSignatures": RevertReason.TOO_FEW_SIGNATURES,
    "WrongCommitter": RevertReason.WRONG_COMMITTER,
    "WrongCondition": RevertReason.WRONG_CONDITION,
}
Auth = Callable[[tuple[Entry, ...], Digest, int], bytes]


def leaves_of(entries: tuple[Entry, ...]) -> tuple[Leaf, ...]:
    return tuple(entry.leaf if isinstance(entry, Transition) else entry for entry in entries)


def outcomes_on_chain(attempt: Attempt, digest: Digest, found: Committed | Reverted) -> tuple[LedgerOutcome, ...]:
    """What the contract made of it, in the words of the model."""
    given = [entry for entry in attempt.entries if isinstance(entry, Transition)]
    if isinstance(found, Reverted):
        reason = REVERTS[found.name].value
        return tuple(LedgerOutcome(t.intent, t.leaf, digest, LedgerStatus.REVERTED, reason) for t in given)
    assert found.round.digest == digest
    skips = iter(found.skipped)
    outcomes = []
    shown = [entry for entry in found.round.payload.entries if isinstance(entry, FullLeaf)]
    for entry, committal in zip(shown, found.round.committals, strict=True):
        if committal.is_committed:
            committed = LedgerStatus.COMMITTED
            outcomes.append(LedgerOutcome(entry.intent, entry.leaf, digest, committed, inputs=entry.inputs))
            continue
        skip = next(skips)
        assert (skip.intent, skip.leaf) == (committal.intent, committal.leaf)
        reason_ = SkipReason(skip.reason)
        is_contention = reason_ is not SkipReason.CALL_FAILED
        skipped = LedgerStatus.SKIPPED
        outcomes.append(
            LedgerOutcome(skip.intent, skip.leaf, digest, skipped, SKIP_TEXTS[reason_], is_contention=is_contention)
        )
    assert next(skips, None) is None
    return tuple(outcomes)


def compare(
    ledger: EndorsedLedger | ProvedLedger,
    model: StateLedger,
    writer: RandomRounds,
    auth: Auth,
    cost: AuthCost,
    attempts: int,
) -> Counter[str]:
    """Run attempts on both and compare; the counts by outcome."""
    counts: Counter[str] = Counter()
    chain = ledger.chain
    leaves: set[Leaf] = set()
    for number in range(attempts):
        attempt = writer.attempt()
        chain.call("Target", writer.target, "setBroken", attempt.is_target_broken)
        chain.time_s = attempt.time_s
        digest = round_digest(ledger.separator, leaves_of(attempt.entries), attempt.valid_until_s)
        payload = encode_payload(attempt.entries, attempt.valid_until_s)
        call = encode_commit(payload, auth(attempt.entries, digest, attempt.signers), attempt.condition)
        limit = gas_bound(attempt.entries, attempt.valid_until_s, cost)
        found: Committed | Reverted
        try:
            found = read_answer(
                chain.send(ledger.address, call, attempt.sender, limit), ledger.separator, ledger.address
            )
        except Reverted as reverted:
            found = reverted
        order = Commit(
            digest, attempt.entries, attempt.valid_until_s, attempt.signers, attempt.sender, attempt.condition
        )
        expected = model.commit(order, attempt.time_s, lambda t: runs_well(t, attempt.is_target_broken))  # noqa: B023
        assert outcomes_on_chain(attempt, digest, found) == expected, f"attempt {number}"
        counts.update(outcome.reason or outcome.status.value for outcome in expected)
        if isinstance(ledger, EndorsedLedger) and writer.has_locks:
            counts.update(use_lock(ledger, model, writer, leaves) for _ in range(LOCK_USES))
            writer.delegates = {lock: record.delegate for lock, record in model.locks.items()}
        counts["bare leaf"] += sum(not isinstance(entry, Transition) for entry in attempt.entries)
        leaves.update(leaves_of(attempt.entries))
        writer.available = list(model.unspent)
        if number % LEDGER_LOOKS_EVERY == 0:
            assert_same_ledger(chain, ledger, model, leaves)
    assert_same_ledger(chain, ledger, model, leaves)
    return counts


def use_lock(ledger: EndorsedLedger, model: StateLedger, writer: RandomRounds, leaves: set[Leaf]) -> str:
    """Call a public function of some lock, on both; its name, or the error's."""
    chance, chain = writer.chance, ledger.chain
    lock = chance.choice(list(model.locks) if model.locks and chance.random() < 0.8 else LOCKS)
    caller = chance.choice((ALICE, BOB))
    record = model.locks.get(lock)
    named = (record.spends, record.cancels) if record is not None and chance.random() < 0.8 else ()
    pool = [each for each in writer.permitted if each.leaf in named] or writer.permitted
    way = chance.choice(("delegate", "spend", "cancel", "cancel"))
    expected: LockRefusal | LedgerOutcome | None
    if way == "delegate" or not pool:
        new = chance.choice((ALICE, BOB))
        expected = model.delegate_lock(lock, caller, new, chain.time_s)
        call = encode_delegate_lock(lock, new)
    else:
        made = chance.choice(pool)
        digest = round_digest(ledger.separator, (made.leaf,), PERMITTED_UNTIL_S)
        expected = model.end_lock(lock, caller, made, digest, chain.time_s, is_spent=way == "spend")
        encode = encode_spend_lock if way == "spend" else encode_cancel_lock
        call = encode(lock, permitted_payload(made))
        leaves.add(made.leaf)
    if isinstance(expected, LockRefusal):
        with pytest.raises(Reverted, match=rf"{expected.value}\("):
            chain.send(ledger.address, call, caller)
        return expected.value
    chain.send(ledger.address, call, caller)
    return way


def assert_same_ledger(
    chain: Chain, ledger: EndorsedLedger | ProvedLedger, model: StateLedger, leaves: set[Leaf]
) -> None:
    words = dict.fromkeys(leaves, 0)
    for state in model.unspent:
        words[state.leaf] |= 1 << state.output
    for leaf, word in words.items():
        assert chain.call("Endorsed", ledger.address, "unspentOf", leaf) == word
    assert all(chain.call("Endorsed", ledger.address, "isUsed", intent) for intent in model.used)
    for lock in LOCKS if isinstance(ledger, EndorsedLedger) and ledger.code == "Lockable" else ():
        record = model.locks.get(lock)
        assert chain.call("Lockable", ledger.address, "isLockActive", lock) is (record is not None)
        if record is not None:
            shown = (NO_DELEGATE, record.delegate, record.spends, record.cancels, record.expires_at_s)
            assert chain.call("Lockable", ledger.address, "getLock", lock) == shown


def require_all(counts: Counter[str], without: set[str] | frozenset[str] = frozenset()) -> None:
    names = {"committed", "bare leaf", *SKIP_TEXTS.values(), *(reason.value for reason in REVERTS.values())} - without
    print(dict(sorted(counts.items())))
    assert all(counts[name] > 0 for name in names), {name: counts[name] for name in sorted(names)}


def compared(code: str, seed: int, attempts: int) -> Counter[str]:
    """How often each outcome came about on an endorsed contract of this code, and in the model."""
    ledger = EndorsedLedger(3, 2, code=code)
    target = ledger.chain.deploy("Target")
    has_locks = code == "Lockable"
    writer = RandomRounds(random.Random(seed), ledger.separator, target, threshold=2, has_locks=has_locks)

    def auth(_: tuple[Entry, ...], digest: Digest, signers: int) -> bytes:
        return ledger.auth(digest, signers)

    return compare(ledger, StateLedger(threshold=2), writer, auth, AuthCost.of_signatures(3, 2), attempts)


@pytest.mark.parametrize(("seed", "attempts"), [(1, 100), pytest.param(2, 1_000, marks=pytest.mark.slow)])
def test_endorsed_contract_and_model_agree_on_random_rounds(seed: int, attempts: int) -> None:
    require_all(compared("Endorsed", seed, attempts), {SKIP_TEXTS[SkipReason.LOCK_CHANGED]})


@pytest.mark.parametrize(("seed", "attempts"), [(6, 150), pytest.param(3, 1_000, marks=pytest.mark.slow)])
def test_lockable_contract_and_model_agree_on_random_rounds(seed: int, attempts: int) -> None:
    counts = compared("Lockable", seed, attempts)
    require_all(counts)
    ways = {"delegate", "spend", "cancel", *(refusal.value for refusal in LockRefusal)}
    assert all(counts[way] > 0 for way in ways), {way: counts[way] for way in sorted(ways)}


@pytest.mark.parametrize(("seed", "attempts"), [(4, 100), pytest.param(5, 600, marks=pytest.mark.slow)])
def test_proved_contract_and_model_agree_on_random_rounds(seed: int, attempts: int) -> None:
    ledger = ProvedLedger()
    target = ledger.chain.deploy("Target")
    writer = RandomRounds(random.Random(seed), ledger.separator, target, threshold=0, is_proved=True)
    model = StateLedger()

    def auth(entries: tuple[Entry, ...], _digest: Digest, _signers: int) -> bytes:
        given = [entry for entry in entries if isinstance(entry, Transition)]
        for transition in given:
            ledger.makers.setdefault(transition.leaf, transition)
        proved = {each.leaf: ledger.take(replace(each, valid_until_s=VALID_UNTIL_S)) for each in given}
        return ledger.auth(*proved.values())

    counts = compare(ledger, model, writer, auth, AuthCost.of_proofs(), attempts)
    without = {SKIP_TEXTS[SkipReason.CALL_FAILED], SKIP_TEXTS[SkipReason.LOCK_CHANGED]}
    require_all(counts, {RevertReason.TOO_FEW_SIGNATURES.value} | without)


def test_model_takes_back_what_it_committed_and_commits_it_again() -> None:
    chance = random.Random(5)
    ledger = StateLedger(threshold=1)
    writer = RandomRounds(chance, bytes(32), ALICE, threshold=1, has_locks=True)
    orders = []
    snapshots = []
    for _ in range(60):
        attempt = writer.attempt()
        order = Commit(Digest(b""), attempt.entries, attempt.valid_until_s, 1, attempt.sender, attempt.condition)
        tables = (dict(ledger.used), dict(ledger.unspent), dict(ledger.spent), dict(ledger.locks))
        snapshots.append((ledger.journal_length, *tables))
        orders.append((order, ledger.commit(order, attempt.time_s), attempt.time_s))
    for depth in (1, 3, 60):
        length, *before = snapshots[-depth]
        ledger.undo_to(length)
        assert [ledger.used, ledger.unspent, ledger.spent, ledger.locks] == before
        for order, outcomes, time_s in orders[-depth:]:
            assert ledger.commit(order, time_s) == outcomes
