"""What each function of a notary token does: who may ask for it, what it spends, and what it makes.

An operation is worked out from the request alone and from what it spends. The sender's node works it out to assemble
the transition, the notary's to hold the transition against it, both with the functions below: what the notary signs is
what the rules make of the request, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from rota.domains.base import OUTPUTS_MAX, NewState, Rejected, party_of
from rota.domains.contents import Role
from rota.domains.locking import Locking
from rota.domains.noto.records import (
    Amount,
    Attached,
    BasicOptions,
    BurnFrom,
    Coin,
    Configuration,
    CreateBurnLock,
    CreateMintLock,
    CreateTransferLock,
    DelegateLock,
    EndLock,
    Lock,
    Payment,
    PrepareBurnUnlock,
    PrepareMintUnlock,
    PrepareUnlock,
    Promised,
    RecordedLock,
    Share,
    TransferFrom,
    Unlock,
)
from rota.domains.records import Record
from rota.model.digests import keccak
from rota.model.types import IntentId, Party, node_of

# Each is an output, and beside them there is room for a lock, its change, what is attached and the request.
RECIPIENTS_MAX: Final = OUTPUTS_MAX - 4


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to a token: by whom, for what. Parties are whole names."""

    configuration: Configuration
    sender: Party
    function: str
    arguments: Record

    @property
    def options(self) -> BasicOptions:
        """What holders may do by themselves."""
        return self.configuration.options

    @property
    def is_notary(self) -> bool:
        """The notary asks."""
        return self.sender == self.configuration.notary


@dataclass(frozen=True, slots=True)
class FromCoins:
    """Spends coins of one owner that cover an amount."""

    owner: Party
    amount: int


@dataclass(frozen=True, slots=True)
class FromLock:
    """Spends a lock."""

    lock_id: bytes


@dataclass(frozen=True, slots=True)
class FromNothing:
    """Spends nothing."""


Need: TypeAlias = FromCoins | FromLock | FromNothing


@dataclass(frozen=True, slots=True)
class Spent:
    """The inputs of an operation: coins with so much change, or a lock.

    `lock_id` and `permit` are those of a lock, and of a record of one, that is to be made.
    """

    lock_id: bytes
    permit: bytes
    change: int = 0
    lock: Lock | RecordedLock | None = None
    committer: str = ""


class Made(NamedTuple):
    """The states and infos that an operation makes, and its change of a lock's record on the ledger."""

    states: tuple[NewState, ...]
    infos: tuple[NewState, ...]
    lock: Locking | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A function: its arguments, what it needs, and what it makes of that. `needs` refuses who may not ask."""

    arguments: type[Record]
    needs: Callable[[Asked], Need]
    makes: Callable[[Asked, Spent], Made]


def lock_id_of(separator: bytes, intent: IntentId) -> bytes:
    """The id of the lock that an intent makes."""
    return keccak(separator + b"lock" + intent)


def parties_of(asked: Asked) -> tuple[Party, ...]:
    """All that a request speaks of, and the notary."""
    arguments = asked.arguments
    named = [getattr(arguments, name, None) for name in ("from_", "to")]
    shares = getattr(arguments, "recipients", ())
    found = (asked.configuration.notary, asked.sender, *named, *(share.to for share in shares))
    return tuple(party for party in dict.fromkeys(found) if party is not None)


def whole(arguments: Record, sender: Party) -> Record:
    """The arguments with whole names of parties: one without a node is of the sender's own."""
    home = node_of(sender)
    changes: dict[str, object] = {}
    for attribute, field in (("from_", "from"), ("to", "to")):
        name = getattr(arguments, attribute, None)
        if name is not None:
            changes[attribute] = party_of(field, name, home)
    shares = getattr(arguments, "recipients", None)
    if shares is not None:
        changes["recipients"] = tuple(
            replace(share, to=party_of(f"recipients[{n}].to", share.to, home)) for n, share in enumerate(shares)
        )
    return replace(arguments, **changes)  # type: ignore[type-var]


# Who may ask for it, and what it needs.


def _require_amount(amount: int, field: str = "amount") -> int:
    if amount <= 0:
        raise Rejected(field, f"PD200008: Parameter '{field}' must be greater than 0")
    return amount


def _require_shares(shares: tuple[Share, ...]) -> int:
    if not shares:
        raise Rejected("recipients", "PD200007: Parameter 'recipients' is required")
    if len(shares) > RECIPIENTS_MAX:
        raise Rejected("recipients", f"must be at most {RECIPIENTS_MAX}, not {len(shares)}")
    return sum(_require_amount(share.amount, f"recipients[{n}].amount") for n, share in enumerate(shares))


def _require_owner(asked: Asked, owner: Party) -> Party:
    """Whose coins these are, or the notary, may ask."""
    if not asked.is_notary and asked.sender != owner:
        raise Rejected("from", f"must be the sender unless the notary asks: expected={asked.sender} actual={owner}")
    return owner


def require_minter(asked: Asked) -> None:
    if asked.options.restrict_mint and not asked.is_notary:
        expected = asked.configuration.notary
        text = f"PD200009: Mint can only be initiated by notary: expected={expected} actual={asked.sender}"
        raise Rejected("from", text)


def _require_burn(asked: Asked) -> None:
    if not asked.options.allow_burn:
        raise Rejected("function", "PD200025: Burn is not enabled")


def _require_lock(asked: Asked) -> None:
    if not asked.options.allow_lock:
        raise Rejected("function", "PD200030: Lock is not enabled")


def _require_expiry(asked: Asked) -> None:
    if getattr(asked.arguments, "expires_at", 0) and not asked.configuration.public_locks:
        raise Rejected("expiresAt", "must be left out: locks of this token are private states, which never expire")


def _needs_mint(asked: Asked) -> Need:
    arguments = asked.arguments
    assert isinstance(arguments, Payment)
    require_minter(asked)
    _require_amount(arguments.amount)
    return FromNothing()


def _needs_transfer(asked: Asked) -> Need:
    match asked.arguments:
        case Payment(_, amount):
            return FromCoins(asked.sender, _require_amount(amount))
        case TransferFrom(owner, _, amount):
            return FromCoins(_require_owner(asked, owner), _require_amount(amount))
        case _:
            raise AssertionError(asked.function)


def _needs_burn(asked: Asked) -> Need:
    _require_burn(asked)
    match asked.arguments:
        case Amount(amount):
            return FromCoins(asked.sender, _require_amount(amount))
        case BurnFrom(owner, amount):
            return FromCoins(_require_owner(asked, owner), _require_amount(amount))
        case _:
            raise AssertionError(asked.function)


def needs_new_lock(asked: Asked) -> Need:
    """Coins that cover the lock."""
    _require_lock(asked)
    _require_expiry(asked)
    match asked.arguments:
        case Amount(amount):
            return FromCoins(asked.sender, _require_amount(amount))
        case CreateTransferLock(owner, shares):
            return FromCoins(_require_owner(asked, owner), _require_shares(shares))
        case CreateBurnLock(owner, amount):
            _require_burn(asked)
            return FromCoins(_require_owner(asked, owner), _require_amount(amount))
        case CreateMintLock(shares):
            require_minter(asked)
            _require_shares(shares)
            return FromNothing()
        case _:
            raise AssertionError(asked.function)


def needs_lock(asked: Asked) -> Need:
    """What a lock allows is known when it is found."""
    _require_lock(asked)
    _require_expiry(asked)
    match asked.arguments:
        case PrepareUnlock(lock_id, _, shares) | Unlock(lock_id, _, shares) | PrepareMintUnlock(lock_id, shares):
            _require_shares(shares)
            return FromLock(lock_id)
        case PrepareBurnUnlock(lock_id, _, amount):
            _require_burn(asked)
            _require_amount(amount)
            return FromLock(lock_id)
        case DelegateLock(lock_id) | EndLock(lock_id):
            return FromLock(lock_id)
        case _:
            raise AssertionError(asked.function)


# What it makes.


def coin(asked: Asked, payer: Party, owner: Party, amount: int) -> NewState:
    """A coin, which its owner and who paid it may see."""
    return NewState(Coin(owner, amount), readers_of(asked, payer, owner))


def readers_of(asked: Asked, *parties: Party) -> tuple[Party, ...]:
    return tuple(dict.fromkeys((asked.configuration.notary, *parties)))


def coins_for(asked: Asked, payer: Party, shares: tuple[Share, ...]) -> tuple[NewState, ...]:
    return tuple(coin(asked, payer, share.to, share.amount) for share in shares)


def change_for(asked: Asked, payer: Party, amount: int) -> tuple[NewState, ...]:
    return (coin(asked, payer, payer, amount),) if amount else ()


def attached_to(asked: Asked, payer: Party, shares: tuple[Share, ...], data: bytes) -> tuple[NewState, ...]:
    """What is attached is for everybody who gets or pays something."""
    if not data:
        return ()
    readers = readers_of(asked, payer, *(share.to for share in shares))
    return (NewState(Attached(data), readers, Role.INFO),)


def _locked(asked: Asked, lock: Lock) -> tuple[NewState, ...]:
    """A lock, which its owner may see."""
    return (NewState(lock, readers_of(asked, lock.owner)),)


def promises_of(asked: Asked, lock: Lock | RecordedLock) -> tuple[NewState, ...]:
    """Each recipient is told what it will get, and nothing of the others."""
    return tuple(
        NewState(Promised(lock.lock_id, share.to, share.amount), readers_of(asked, lock.owner, share.to), Role.INFO)
        for share in lock.recipients
    )


def _makes_coins(asked: Asked, spent: Spent) -> Made:
    """Mint, transfer and burn: recipients get theirs, and the payer the change."""
    arguments = asked.arguments
    payer = getattr(arguments, "from_", asked.sender)
    to, amount = getattr(arguments, "to", None), getattr(arguments, "amount", 0)
    shares = (Share(to, amount),) if to is not None else ()
    states = (*coins_for(asked, payer, shares), *change_for(asked, payer, spent.change))
    return Made(states, attached_to(asked, payer, shares, getattr(arguments, "data", b"")))


def _makes_new_lock(asked: Asked, spent: Spent) -> Made:
    match asked.arguments:
        case Amount(amount, data):
            lock = Lock(spent.lock_id, asked.sender, amount, asked.sender)
        case CreateTransferLock(owner, shares, unlock_data, data):
            total = sum(share.amount for share in shares)
            lock = Lock(spent.lock_id, owner, total, owner, False, True, 0, shares, unlock_data)
        case CreateBurnLock(owner, amount, unlock_data, data):
            lock = Lock(spent.lock_id, owner, amount, owner, False, True, amount, (), unlock_data)
        case CreateMintLock(shares, unlock_data, data):
            lock = Lock(spent.lock_id, asked.sender, 0, asked.sender, True, True, 0, shares, unlock_data)
        case _:
            raise AssertionError(asked.function)
    states = (*_locked(asked, lock), *change_for(asked, lock.owner, spent.change))
    return Made(states, (*promises_of(asked, lock), *attached_to(asked, lock.owner, (), data)))


def _makes_prepared(asked: Asked, spent: Spent) -> Made:
    """It is settled, or settled anew, what becomes of a lock that is still its owner's."""
    old = own_lock(asked, spent)
    match asked.arguments:
        case PrepareUnlock(_, owner, shares, unlock_data, data):
            require_lock_of(old, owner, is_mint=False)
            require_covered(old, sum(share.amount for share in shares))
            burned = 0
        case PrepareBurnUnlock(_, owner, burned, unlock_data, data):
            require_lock_of(old, owner, is_mint=False)
            require_covered(old, burned)
            shares = ()
        case PrepareMintUnlock(_, shares, unlock_data, data):
            require_minter(asked)
            require_lock_of(old, old.owner, is_mint=True)
            burned = 0
        case _:
            raise AssertionError(asked.function)
    lock = replace(old, is_prepared=True, burned=burned, recipients=shares, unlock_data=unlock_data)
    return Made(_locked(asked, lock), (*promises_of(asked, lock), *attached_to(asked, lock.owner, (), data)))


def _makes_delegated(asked: Asked, spent: Spent) -> Made:
    arguments = asked.arguments
    assert isinstance(arguments, DelegateLock)
    lock = replace(own_lock(asked, spent), spender=str(arguments.delegate))
    return Made(_locked(asked, lock), attached_to(asked, lock.owner, (), arguments.data))


def makes_unlocked(asked: Asked, spent: Spent) -> Made:
    """Recipients get theirs, and what is left stays locked."""
    arguments = asked.arguments
    assert isinstance(arguments, Unlock)
    old = own_lock(asked, spent)
    require_lock_of(old, arguments.from_, is_mint=False)
    rest = require_covered(old, sum(share.amount for share in arguments.recipients))
    # What it was prepared for may no longer be there.
    left = _locked(asked, Lock(old.lock_id, old.owner, rest, old.spender)) if rest else ()
    states = (*coins_for(asked, old.owner, arguments.recipients), *left)
    return Made(states, attached_to(asked, old.owner, arguments.recipients, arguments.data))


def _makes_spent(asked: Asked, spent: Spent) -> Made:
    """What the lock was prepared for; the owner gets what is left."""
    lock = _lock_to_end(asked, spent)
    if not lock.is_prepared:
        raise Rejected("lockId", "must be of a lock that was prepared")
    given = sum(share.amount for share in lock.recipients)
    rest = 0 if lock.is_mint else lock.amount - lock.burned - given
    states = (*coins_for(asked, lock.owner, lock.recipients), *change_for(asked, lock.owner, rest))
    assert isinstance(asked.arguments, EndLock)
    data = asked.arguments.data or lock.unlock_data
    return Made(states, attached_to(asked, lock.owner, lock.recipients, data))


def makes_cancelled(asked: Asked, spent: Spent) -> Made:
    """The owner has it all back."""
    lock = _lock_to_end(asked, spent)
    assert isinstance(asked.arguments, EndLock)
    return Made(change_for(asked, lock.owner, lock.amount), attached_to(asked, lock.owner, (), asked.arguments.data))


def own_lock(asked: Asked, spent: Spent) -> Lock:
    """A lock that its owner has not delegated; the owner asks, or the notary."""
    lock = spent.lock
    assert isinstance(lock, Lock), "operations on locks get one"
    if asked.sender != lock.owner and not asked.is_notary:
        text = f"PD200031: Only the lock creator can perform unlock: expected={lock.owner} actual={asked.sender}"
        raise Rejected("lockId", text)
    if lock.spender != lock.owner:
        raise Rejected("lockId", f"must be of a lock that was not delegated; this one is {lock.spender}'s to spend")
    return lock


def _lock_to_end(asked: Asked, spent: Spent) -> Lock:
    """Its spender ends it: a party by asking for it, an address by committing what the owner asked for."""
    lock = spent.lock
    assert isinstance(lock, Lock), "operations on locks get one"
    if lock.spender == lock.owner:
        return own_lock(asked, spent)
    if asked.sender != lock.owner and not asked.is_notary:
        text = f"PD200031: Only the lock creator can perform unlock: expected={lock.owner} actual={asked.sender}"
        raise Rejected("lockId", text)
    if spent.committer != lock.spender:
        raise Rejected("lockId", f"must be prepared for {lock.spender}, to whom the lock was delegated, to commit")
    return lock


def require_lock_of(lock: Lock, owner: Party, is_mint: bool) -> None:
    if lock.owner != owner:
        raise Rejected("from", f"must be the owner of the lock: expected={lock.owner} actual={owner}")
    if lock.is_mint is not is_mint:
        raise Rejected("lockId", "must be of a mint lock" if is_mint else "must not be of a mint lock")


def require_covered(lock: Lock, amount: int) -> int:
    if amount > lock.amount:
        raise Rejected("", f"PD200005: Insufficient funds (available={lock.amount})")
    return lock.amount - amount


RULES: Final[Mapping[str, Rule]] = {
    "mint": Rule(Payment, _needs_mint, _makes_coins),
    "transfer": Rule(Payment, _needs_transfer, _makes_coins),
    "transferFrom": Rule(TransferFrom, _needs_transfer, _makes_coins),
    "burn": Rule(Amount, _needs_burn, _makes_coins),
    "burnFrom": Rule(BurnFrom, _needs_burn, _makes_coins),
    "lock": Rule(Amount, needs_new_lock, _makes_new_lock),
    "createLock": Rule(Amount, needs_new_lock, _makes_new_lock),
    "createTransferLock": Rule(CreateTransferLock, needs_new_lock, _makes_new_lock),
    "createBurnLock": Rule(CreateBurnLock, needs_new_lock, _makes_new_lock),
    "createMintLock": Rule(CreateMintLock, needs_new_lock, _makes_new_lock),
    "prepareUnlock": Rule(PrepareUnlock, needs_lock, _makes_prepared),
    "prepareBurnUnlock": Rule(PrepareBurnUnlock, needs_lock, _makes_prepared),
    "prepareMintUnlock": Rule(PrepareMintUnlock, needs_lock, _makes_prepared),
    "delegateLock": Rule(DelegateLock, needs_lock, _makes_delegated),
    "unlock": Rule(Unlock, needs_lock, makes_unlocked),
    "spendLock": Rule(EndLock, needs_lock, _makes_spent),
    "cancelLock": Rule(EndLock, needs_lock, makes_cancelled),
}
