"""Locks with a record on the ledger (`Lockable.sol`): what the functions of such a token do to locks.

A prepared lock has a record of two transitions. Its delegate may commit either the one that spends it or the other.
The record itself stands for the locked amount, because both have no inputs. A `RecordedLock` tells owner and
notary of it, and every private change of the record spends that state. It has no value of its own: its spender also
changes the record, and the ledger skips the transition unless the record has no delegate.

    lock, createLock                coins -> a lock that is the owner's alone, without a record
    create...Lock, prepare...       coins, or such a lock -> a record without a delegate
    delegateLock                    the record gets its first delegate; from then on the delegate alone acts, in public
    spendLock, cancelLock           the owner ends a record that has no delegate
    unlock                          pays from a lock without a record

An owner without a delegate can end a lock by the notary at any time. A delegate can spend it until it expires. After
that, every account can cancel it. One that has no end can be cancelled by its delegate alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rota.domains.base import NewState, Rejected
from rota.domains.contents import Role
from rota.domains.locking import Locking, Permit
from rota.domains.noto.operations import (
    RULES,
    Asked,
    Made,
    Rule,
    Spent,
    attached_to,
    change_for,
    coins_for,
    makes_cancelled,
    makes_unlocked,
    needs_lock,
    needs_new_lock,
    own_lock,
    promises_of,
    readers_of,
    require_covered,
    require_lock_of,
)
from rota.domains.noto.records import (
    NO_CONDITION,
    Attached,
    CreateBurnLock,
    CreateMintLock,
    CreateTransferLock,
    DelegateLock,
    EndLock,
    Lock,
    PrepareBurnUnlock,
    PrepareMintUnlock,
    PrepareUnlock,
    RecordedLock,
    Released,
    Unlock,
)
from rota.domains.records import Record
from rota.model.types import LOCK_EXPIRY_MAX, NO_DELEGATE, LockKind, Party


def _makes_new(asked: Asked, spent: Spent) -> Made:
    """The coins become a record at once."""
    match asked.arguments:
        case CreateTransferLock(owner, shares, unlock_data, data, expires_at):
            total, burned, is_mint = sum(share.amount for share in shares), 0, False
        case CreateBurnLock(owner, total, unlock_data, data, expires_at):
            shares, burned, is_mint = (), total, False
        case CreateMintLock(shares, unlock_data, data, expires_at):
            owner, total, burned, is_mint = asked.sender, 0, 0, True
        case _:
            raise AssertionError(asked.function)
    end = expires_at or LOCK_EXPIRY_MAX
    lock = RecordedLock(
        lock_id=spent.lock_id,
        owner=owner,
        amount=total,
        spender=owner,
        permit=spent.permit,
        expires_at=end,
        is_mint=is_mint,
        burned=burned,
        recipients=shares,
        unlock_data=unlock_data,
    )
    return _recorded(asked, lock, data, change_for(asked, owner, spent.change))


def _makes_prepared(asked: Asked, spent: Spent) -> Made:
    """A lock that is its owner's alone becomes a record."""
    old = _unrecorded(asked, spent)
    require_lock_of(old, getattr(asked.arguments, "from_", old.owner), is_mint=False)
    match asked.arguments:
        case PrepareUnlock(_, _, shares, unlock_data, data, expires_at):
            require_covered(old, sum(share.amount for share in shares))
            burned = 0
        case PrepareBurnUnlock(_, _, burned, unlock_data, data, expires_at):
            require_covered(old, burned)
            shares = ()
        case PrepareMintUnlock():
            raise Rejected(
                "lockId", "must be of a mint lock, and a mint lock of this token is prepared when it is made"
            )
        case _:
            raise AssertionError(asked.function)
    end = expires_at or LOCK_EXPIRY_MAX
    lock = RecordedLock(
        lock_id=old.lock_id,
        owner=old.owner,
        amount=old.amount,
        spender=old.owner,
        permit=spent.permit,
        expires_at=end,
        burned=burned,
        recipients=shares,
        unlock_data=unlock_data,
    )
    return _recorded(asked, lock, data)


def _recorded(asked: Asked, lock: RecordedLock, data: bytes, change: tuple[NewState, ...] = ()) -> Made:
    """The state that stands for the record comes first."""
    locking = Locking(
        kind=LockKind.SET,
        lock=lock.lock_id,
        expires_at_s=lock.expires_at,
        spends=Permit((*_spending(asked, lock), *_released(asked, lock, is_cancelled=False))),
        cancels=Permit((*change_for(asked, lock.owner, lock.amount), *_released(asked, lock, is_cancelled=True))),
    )
    infos = (*promises_of(asked, lock), *attached_to(asked, lock.owner, (), data))
    return Made((*_kept(asked, lock), *change), infos, locking)


def _makes_delegated(asked: Asked, spent: Spent) -> Made:
    """From now on the delegate alone acts, in public."""
    lock = _own_record(asked, spent)
    arguments = asked.arguments
    assert isinstance(arguments, DelegateLock)
    if arguments.delegate == NO_DELEGATE:
        raise Rejected("delegate", "must be an address that can send transactions or make calls, not zero")
    given = replace(lock, spender=str(arguments.delegate))
    locking = Locking(kind=LockKind.DELEGATE, lock=lock.lock_id, delegate=arguments.delegate)
    return Made(_kept(asked, given), attached_to(asked, lock.owner, (), arguments.data), locking)


def _makes_spent(asked: Asked, spent: Spent) -> Made:
    """The owner does what the lock was prepared for, as long as there is no delegate."""
    lock = _own_record(asked, spent)
    arguments = _ending(asked)
    data = arguments.data or lock.unlock_data
    infos = attached_to(asked, lock.owner, lock.recipients, data)
    return Made(_spending(asked, lock), infos, Locking(kind=LockKind.SPENT, lock=lock.lock_id))


def _makes_cancelled(asked: Asked, spent: Spent) -> Made:
    """The owner takes it back."""
    arguments = _ending(asked)
    if isinstance(spent.lock, Lock):
        return makes_cancelled(asked, spent)
    lock = _own_record(asked, spent)
    infos = attached_to(asked, lock.owner, (), arguments.data)
    states = change_for(asked, lock.owner, lock.amount)
    return Made(states, infos, Locking(kind=LockKind.CANCELLED, lock=lock.lock_id))


def _makes_unlocked(asked: Asked, spent: Spent) -> Made:
    _unrecorded(asked, spent)
    return makes_unlocked(asked, spent)


def _spending(asked: Asked, lock: RecordedLock) -> tuple[NewState, ...]:
    """Recipients get their shares, and the owner the rest of locked coins; a mint has no rest."""
    given = sum(share.amount for share in lock.recipients)
    rest = 0 if lock.is_mint else lock.amount - lock.burned - given
    return (*coins_for(asked, lock.owner, lock.recipients), *change_for(asked, lock.owner, rest))


def _released(asked: Asked, lock: RecordedLock, *, is_cancelled: bool) -> tuple[NewState, ...]:
    """The owner and each recipient learn which lock it was; no recipient learns of another."""
    parties: tuple[Party, ...] = () if is_cancelled else tuple(share.to for share in lock.recipients)
    groups = dict.fromkeys(readers_of(asked, lock.owner, *party) for party in ((), *((each,) for each in parties)))
    told: list[Record] = [Released(lock.lock_id, lock.owner, is_cancelled)]
    if lock.unlock_data and not is_cancelled:
        told.append(Attached(lock.unlock_data))
    return tuple(NewState(record, readers, Role.INFO) for readers in groups for record in told)


def _kept(asked: Asked, lock: RecordedLock) -> tuple[NewState, ...]:
    return (NewState(lock, readers_of(asked, lock.owner)),)


def _ending(asked: Asked) -> EndLock:
    arguments = asked.arguments
    assert isinstance(arguments, EndLock)
    if arguments.condition != NO_CONDITION:
        raise Rejected("condition", "must be left out: locks of this token are ended on the ledger, by their delegates")
    return arguments


def _unrecorded(asked: Asked, spent: Spent) -> Lock:
    """A lock that is not prepared; the owner asks, or the notary."""
    if isinstance(spent.lock, RecordedLock):
        words = "must be of a lock that is not prepared. End this one by spendLock or cancelLock"
        raise Rejected("lockId", words if spent.lock.spender == spent.lock.owner else _delegated(spent.lock))
    return own_lock(asked, spent)


def _own_record(asked: Asked, spent: Spent) -> RecordedLock:
    """A record without a delegate; the owner asks, or the notary."""
    lock = spent.lock
    if not isinstance(lock, RecordedLock):
        raise Rejected("lockId", "must be of a lock that was prepared; prepare it by prepareUnlock first")
    if asked.sender != lock.owner and not asked.is_notary:
        text = f"PD200031: Only the lock creator can perform unlock: expected={lock.owner} actual={asked.sender}"
        raise Rejected("lockId", text)
    if lock.spender != lock.owner:
        raise Rejected("lockId", _delegated(lock))
    return lock


def _delegated(lock: RecordedLock) -> str:
    """What to do instead."""
    return (
        f"must be of a lock that was not delegated. This one was given to {lock.spender}, and its delegate ends it or "
        "gives it away by the public functions spendLock, cancelLock and delegateLock of the token's contract"
    )


# What differs from tokens whose locks are private states.
RULES_ON_LEDGER: Final[Mapping[str, Rule]] = {
    **RULES,
    "createTransferLock": Rule(CreateTransferLock, needs_new_lock, _makes_new),
    "createBurnLock": Rule(CreateBurnLock, needs_new_lock, _makes_new),
    "createMintLock": Rule(CreateMintLock, needs_new_lock, _makes_new),
    "prepareUnlock": Rule(PrepareUnlock, needs_lock, _makes_prepared),
    "prepareBurnUnlock": Rule(PrepareBurnUnlock, needs_lock, _makes_prepared),
    "prepareMintUnlock": Rule(PrepareMintUnlock, needs_lock, _makes_prepared),
    "delegateLock": Rule(DelegateLock, needs_lock, _makes_delegated),
    "unlock": Rule(Unlock, needs_lock, _makes_unlocked),
    "spendLock": Rule(EndLock, needs_lock, _makes_spent),
    "cancelLock": Rule(EndLock, needs_lock, _makes_cancelled),
}


def rules_of(asked: Asked) -> Mapping[str, Rule]:
    """Those of its token."""
    return RULES_ON_LEDGER if asked.configuration.public_locks else RULES
