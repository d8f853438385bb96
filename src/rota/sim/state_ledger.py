"""One contract of the base ledger, modelled: `StateLedger` at the level of rounds of transitions (ledger).

It has the rules of contracts/StateLedger.sol and nothing of its own; a property test runs both on the same
random rounds and requires the same outcome, intent by intent.

- A round is a set of permissions. A commit contains any part of it; the omitted leaves are bare, and
  within one commit transitions run in the order given.
- A condition independent of ledger state reverts the whole commit: expiry, too few signatures, a committer or
  condition other than that of a prepared transition.
- A condition on ledger state skips that transition and nothing else, for the first of these reasons: its intent is
  used; a read is not available; an input is not available, also because it is listed for the second time; a
  lock has another delegate than presumed, or does not exist; a call failed. A skip changes nothing, so that
  dependents are skipped too.
- A lock permits its delegate to commit one of two leaves without signatures, until it expires, and every account one of
  them afterwards. A call that cannot commit its leaf reverts.

A journal has every commit, so that a reorganisation can undo the latest ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from enum import Enum, IntEnum
from typing import Final

from rota.calldata import NO_CONDITION, Entry
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.frozen import dataclass
from rota.model.types import (
    NO_DELEGATE,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    LockChange,
    LockKind,
    StateId,
    Transition,
)

NOBODY: Final = ContractAddress("0x" + "00" * 20)


class SkipReason(IntEnum):
    """Why a transition was skipped, with the numbers of `Skipped` logs."""

    INTENT_USED = 1
    READ_UNAVAILABLE = 2
    INPUT_UNAVAILABLE = 3
    CALL_FAILED = 4
    LOCK_CHANGED = 5


class RevertReason(Enum):
    """Why a whole commit was reverted."""

    EXPIRED = "expired"
    TOO_FEW_SIGNATURES = "too few signatures"
    WRONG_COMMITTER = "wrong committer"
    WRONG_CONDITION = "wrong condition"


class LockRefusal(Enum):
    """Why a public function of a lock reverted: the name of the contract's error."""

    NOT_ACTIVE = "LockNotActive"
    UNAUTHORIZED = "LockUnauthorized"
    EXPIRED = "LockExpired"
    NOT_PERMITTED = "TooFewSignatures"
    NOT_COMMITTED = "NotCommitted"


SKIP_TEXTS: Final = {
    SkipReason.INTENT_USED: "intent used",
    SkipReason.READ_UNAVAILABLE: "read not available",
    SkipReason.INPUT_UNAVAILABLE: "input not available",
    SkipReason.CALL_FAILED: "a call failed",
    SkipReason.LOCK_CHANGED: "lock changed",
}


@dataclass(frozen=True, slots=True)
class Commit:
    """One call of `commit`: a round, in which omitted leaves are bare, with its caller and condition."""

    digest: Digest
    entries: tuple[Entry, ...]
    valid_until_s: int
    signature_count: int = 0
    caller: ContractAddress = NOBODY
    condition: bytes = NO_CONDITION

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """The transitions given in full, in the order in which they run."""
        return tuple(entry for entry in self.entries if isinstance(entry, Transition))


@dataclass(frozen=True, slots=True)
class LockRecord:
    """The record of a lock in the contract."""

    delegate: ContractAddress
    expires_at_s: int
    spends: Leaf
    cancels: Leaf


@dataclass(slots=True)
class StateLedger:
    """The contract's storage: used intents, unspent states, spent states and locks.

    Where transitions are proved the threshold is zero. Proofs are not modelled: every transition counts as proved.
    """

    threshold: int = 0
    used: dict[IntentId, Leaf] = field(default_factory=dict)
    unspent: dict[StateId, Transition] = field(default_factory=dict)
    spent: dict[StateId, Leaf] = field(default_factory=dict)
    locks: dict[bytes, LockRecord] = field(default_factory=dict)
    _journal: list[_Committed | _LockWritten] = field(default_factory=list)

    def commit(
        self, order: Commit, time_s: int, does_run: Callable[[Transition], bool] = lambda _: True
    ) -> tuple[LedgerOutcome, ...]:
        """Commit a round; `does_run` returns whether all calls of a transition succeed. One outcome per transition."""
        reverted = self._reason_to_revert(order, time_s)
        if reverted is not None:
            return tuple(
                LedgerOutcome(each.intent, each.leaf, order.digest, LedgerStatus.REVERTED, reverted.value)
                for each in order.transitions
            )
        return tuple(self._commit_one(each, order.digest, does_run) for each in order.transitions)

    def delegate_lock(
        self, lock: bytes, caller: ContractAddress, delegate: ContractAddress, time_s: int
    ) -> LockRefusal | None:
        """`delegateLock`: the delegate names another delegate."""
        refused = self._refusal_of(lock, caller, time_s)
        if refused is None:
            record = self.locks[lock]
            self._set_lock(lock, replace(record, delegate=delegate))
        return refused

    def end_lock(
        self, lock: bytes, caller: ContractAddress, transition: Transition, digest: Digest, time_s: int, is_spent: bool
    ) -> LedgerOutcome | LockRefusal:
        """`spendLock` or `cancelLock`: commit the leaf that the lock permits."""
        record = self.locks.get(lock)
        is_expired = record is not None and time_s > record.expires_at_s
        refused = None if is_expired and not is_spent else self._refusal_of(lock, caller, time_s)
        if refused is not None:
            return refused
        assert record is not None, "a missing record is refused"
        if transition.leaf != (record.spends if is_spent else record.cancels):
            return LockRefusal.NOT_PERMITTED
        self._set_lock(lock, None)
        outcome = self._commit_one(transition, digest, lambda _: True)
        if outcome.status is not LedgerStatus.COMMITTED:
            self.undo_to(self.journal_length - 1)
            return LockRefusal.NOT_COMMITTED
        return outcome

    def _refusal_of(self, lock: bytes, caller: ContractAddress, time_s: int) -> LockRefusal | None:
        record = self.locks.get(lock)
        if record is None:
            return LockRefusal.NOT_ACTIVE
        if caller != record.delegate:
            return LockRefusal.UNAUTHORIZED
        return LockRefusal.EXPIRED if time_s > record.expires_at_s else None

    def _set_lock(self, lock: bytes, record: LockRecord | None) -> None:
        self._journal.append(_LockWritten(lock, self.locks.get(lock)))
        _write(self.locks, lock, record)

    def is_available(self, state: StateId) -> bool:
        """Whether a transition may read or spend a state."""
        return state in self.unspent

    @property
    def journal_length(self) -> int:
        """The length of the journal, for `undo_to`."""
        return len(self._journal)

    def undo_to(self, length: int) -> None:
        """Undo the commits since the journal had this length, latest first, as a reorganisation does."""
        assert 0 <= length <= len(self._journal), f"the journal has {len(self._journal)} entries, not {length}"
        while len(self._journal) > length:
            entry = self._journal.pop()
            if isinstance(entry, _LockWritten):
                _write(self.locks, entry.lock, entry.before)
                continue
            transition = entry.transition
            for number in range(len(transition.outputs)):
                del self.unspent[StateId(transition.leaf, number)]
            for state, maker in entry.spent:
                del self.spent[state]
                self.unspent[state] = maker
            del self.used[transition.intent]

    def _reason_to_revert(self, order: Commit, time_s: int) -> RevertReason | None:
        if time_s > order.valid_until_s:
            return RevertReason.EXPIRED
        for transition in order.transitions:
            preparation = transition.preparation
            if preparation is not None and preparation.committer != order.caller:
                return RevertReason.WRONG_COMMITTER
            if preparation is not None and preparation.condition != order.condition:
                return RevertReason.WRONG_CONDITION
        if order.signature_count < self.threshold:
            return RevertReason.TOO_FEW_SIGNATURES
        return None

    def _commit_one(
        self, transition: Transition, digest: Digest, does_run: Callable[[Transition], bool]
    ) -> LedgerOutcome:
        reason = self._reason_to_skip(transition)
        if reason is None and transition.calls and not does_run(transition):
            reason = SkipReason.CALL_FAILED
        if reason is not None:
            return LedgerOutcome(
                transition.intent,
                transition.leaf,
                digest,
                LedgerStatus.SKIPPED,
                SKIP_TEXTS[reason],
                is_contention=reason is not SkipReason.CALL_FAILED,
            )
        spent = tuple((state, self.unspent.pop(state)) for state in transition.inputs)
        self.spent.update((state, transition.leaf) for state in transition.inputs)
        self.used[transition.intent] = transition.leaf
        self.unspent.update((StateId(transition.leaf, n), transition) for n in range(len(transition.outputs)))
        self._journal.append(_Committed(transition, spent))
        if transition.lock is not None:
            self._change_lock(transition.lock)
        committed = LedgerStatus.COMMITTED
        return LedgerOutcome(transition.intent, transition.leaf, digest, committed, inputs=transition.inputs)

    def _reason_to_skip(self, transition: Transition) -> SkipReason | None:
        if transition.intent in self.used:
            return SkipReason.INTENT_USED
        if not all(self.is_available(state) for state in transition.reads):
            return SkipReason.READ_UNAVAILABLE
        if len(set(transition.inputs)) != len(transition.inputs):
            return SkipReason.INPUT_UNAVAILABLE
        if not all(self.is_available(state) for state in transition.inputs):
            return SkipReason.INPUT_UNAVAILABLE
        if transition.lock is not None and not self._is_as_presumed(transition.lock):
            return SkipReason.LOCK_CHANGED
        return None

    def _is_as_presumed(self, change: LockChange) -> bool:
        if change.kind in (LockKind.HOLD, LockKind.RELEASE):
            return False  # Only ledgers of proved coins know them.
        record = self.locks.get(change.lock)
        if record is None:
            return change.kind is LockKind.SET and change.presumed == NO_DELEGATE
        return change.presumed == record.delegate

    def _change_lock(self, change: LockChange) -> None:
        match change.kind:
            case LockKind.SET:
                made = LockRecord(change.delegate, change.expires_at_s, change.spends, change.cancels)
                self._set_lock(change.lock, made)
            case LockKind.DELEGATE:
                self._set_lock(change.lock, replace(self.locks[change.lock], delegate=change.delegate))
            case LockKind.SPENT | LockKind.CANCELLED:
                self._set_lock(change.lock, None)
            case LockKind.HOLD | LockKind.RELEASE:
                raise AssertionError("such a change is skipped")


def _write(locks: dict[bytes, LockRecord], lock: bytes, record: LockRecord | None) -> None:
    if record is None:
        locks.pop(lock, None)
    else:
        locks[lock] = record


@dataclass(frozen=True, slots=True)
class _LockWritten:
    """A lock record that was written, and the one that it replaced."""

    lock: bytes
    before: LockRecord | None


@dataclass(frozen=True, slots=True)
class _Committed:
    """A committed transition, and the states that it spent with their makers."""

    transition: Transition
    spent: tuple[tuple[StateId, Transition], ...]
