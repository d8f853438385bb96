"""Notary tokens with hooks: a private contract decides about each operation, and carries it out (client API).

For every operation the notary's node calls the function of the hook that belongs to it. The hook emits
`PenteExternalCall` with exactly the call that it is given, or reverts with a reason. Only the hook's contract can have
the token's ledger commit (`contracts/Carried.sol`). The hook decides who may mint, pay, burn and lock.

A lock of such a token has a record on the ledger (`locks`). What the record permits is decided when it is set: the hook
gets the recipients then. When its owner ends a lock by a private transaction, the hook decides about that too. When its
delegate has ended it by a public call, the hook is called afterwards (`notice_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from rota.domains.base import Carrier, Carrying, CarryingCall, Known, NewState, Rejected, party_of
from rota.domains.contents import Role
from rota.domains.noto.hook_records import NO_ADDRESS, NO_HOOKS, HookOptions, HookRequested, Hooks
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
    PrepareUnlock,
    RecordedLock,
    Released,
    Requested,
    Share,
    TransferFrom,
    Unlock,
)
from rota.domains.records import Record, unpacked
from rota.model.json_text import NotJson, read_json
from rota.model.types import ContractAddress, Party, node_of

# The hook decides who may mint. Tokens of earlier versions have no locks.
HOOKED_OPTIONS: Final = BasicOptions(restrict_mint=False, allow_burn=True, allow_lock=True)
HOOKED_OPTIONS_WITHOUT_LOCKS: Final = BasicOptions(restrict_mint=False, allow_burn=True, allow_lock=False)

_PREPARED: Final = {
    "name": "prepared",
    "type": "tuple",
    "components": [{"name": "contractAddress", "type": "address"}, {"name": "encodedCall", "type": "bytes"}],
}
_RECIPIENTS: Final = [{"name": "to", "type": "address"}, {"name": "amount", "type": "uint256"}]


@dataclass(frozen=True, slots=True)
class _Operation:
    """A request of a token with hooks: who asked, its arguments, and the lock that it makes or is about."""

    sender: Party
    arguments: Record
    lock_id: bytes
    lock: Lock | RecordedLock | None


# Name, type, and value: a party where an address is wanted, a word for `bytes32`, shares for recipients.
_Value: TypeAlias = Party | ContractAddress | int | bytes | tuple[Share, ...]
_Arguments: TypeAlias = tuple[tuple[str, str, _Value], ...]
_R = TypeVar("_R", bound=Record)


def hooks_in(options: HookOptions, notary: Party) -> Hooks:
    """What a constructor asks for. `Rejected` names the field."""
    for field, address in (("publicAddress", options.public_address), ("privateAddress", options.private_address)):
        if address == NO_ADDRESS:
            raise Rejected(f"options.hooks.{field}", "must be given with notaryMode hooks")
    members = [
        party_of(f"options.hooks.privateGroup.members[{n}]", member, node_of(notary))
        for n, member in enumerate(options.private_group.members)
    ]
    if members and notary not in members:
        text = f"must have the notary {notary}, as which the hook is called"
        raise Rejected("options.hooks.privateGroup.members", text)
    return Hooks(options.public_address, options.private_address)


def carrier_of(configuration: Configuration) -> Carrier | None:
    """The hook's group, which carries the operations of this token out."""
    hooks = configuration.hooks
    return Carrier(hooks.public_address, hooks.private_address) if hooks != NO_HOOKS else None


def require_hooked(configuration: Configuration, function: str) -> None:
    """A hook knows of this function. `Rejected` names what to use instead."""
    known = [name for name, hook in _HOOKS.items() if configuration.public_locks or hook.is_without_locks]
    if function not in known:
        missing = "" if configuration.public_locks else "; a token with hooks of an earlier version has no locks"
        raise Rejected("function", f"must be one of {', '.join(known)} in a token with hooks{missing}")


def asked_by(configuration: Configuration, sender: Party, readers: tuple[Party, ...]) -> tuple[NewState, ...]:
    """The sender, for the readers of the request; only in a token with hooks."""
    return (NewState(HookRequested(sender), readers, Role.INFO),) if configuration.hooks != NO_HOOKS else ()


def parties_in(work: Carrying[Configuration]) -> tuple[Party, ...]:
    """All that a hook is given the addresses of."""
    _, arguments = _call_of(work)
    return _parties(arguments)


def call_of(work: Carrying[Configuration]) -> CarryingCall:
    """The notary's call of the hook, which is given the token's call."""
    hook, arguments = _call_of(work)
    prepared = {"contractAddress": str(work.contract.address), "encodedCall": "0x" + work.call.hex()}
    return _invocation(work.configuration, hook, arguments, work.addresses, ((_PREPARED, prepared),))


def ended_lock_of(work: Carrying[Configuration]) -> bytes | None:
    """The lock that a transition ended which a record of the ledger permitted: no other names one so (`locks`)."""
    ended = [known.record for known in work.told if isinstance(known.record, Released)]
    return ended[0].lock_id if ended else None


def parties_of_end(work: Carrying[Configuration]) -> tuple[Party, ...]:
    """Who got coins from a lock that its delegate ended."""
    return tuple(dict.fromkeys(share.to for share in _given_by(work)))


def notice_of(work: Carrying[Configuration], delegate: ContractAddress) -> CarryingCall:
    """The notary's call of `handleDelegateUnlock`, which has nothing to carry out."""
    attached = [known.record.data for known in work.told if isinstance(known.record, Attached)]
    arguments: _Arguments = (
        ("sender", "address", delegate),
        ("lockId", "bytes32", _only_lock(work)),
        ("recipients", "tuple[]", _given_by(work)),
        ("data", "bytes", attached[0] if attached else b""),
    )
    return _invocation(work.configuration, "handleDelegateUnlock", arguments, work.addresses)


def _only_lock(work: Carrying[Configuration]) -> bytes:
    lock = ended_lock_of(work)
    assert lock is not None, "it ended one"
    return lock


def _given_by(work: Carrying[Configuration]) -> tuple[Share, ...]:
    coins = [known.record for known in work.made if isinstance(known.record, Coin)]
    return tuple(Share(coin.owner, coin.amount) for coin in coins)


def _invocation(
    configuration: Configuration,
    hook: str,
    arguments: _Arguments,
    addresses: Mapping[Party, str],
    more: tuple[tuple[Mapping[str, object], object], ...] = (),
) -> CarryingCall:
    inputs = [_input(name, kind) for name, kind, _ in arguments]
    entry = {
        "type": "function",
        "name": hook,
        "inputs": [*inputs, *(each for each, _ in more)],
        "outputs": [],
        "stateMutability": "nonpayable",
    }
    values = [_written(value, addresses) for _, _, value in arguments]
    request = {
        "to": str(configuration.hooks.private_address),
        "function": msgspec.json.encode(entry).decode(),
        "input": msgspec.json.encode([*values, *(value for _, value in more)]).decode(),
    }
    return CarryingCall(configuration.notary, "invoke", request)


def _call_of(work: Carrying[Configuration]) -> tuple[str, _Arguments]:
    """The hook's function for a request, and its arguments before `prepared`."""
    requested, asked = _only(work.told, Requested), _only(work.told, HookRequested)
    require_hooked(work.configuration, requested.function)
    hook = _HOOKS[requested.function]
    try:
        arguments = unpacked(hook.arguments, read_json(requested.arguments), "arguments")
    except NotJson:
        raise Rejected("arguments", "cannot be read") from None
    lock = next((each for each in _records(work) if isinstance(each, Lock | RecordedLock)), None)
    lock_id = lock.lock_id if lock is not None else b""
    given = hook.given(_Operation(asked.sender, arguments, lock_id, lock))
    return hook.function, (("sender", "address", asked.sender), *given)


def _records(work: Carrying[Configuration]) -> list[Record]:
    """Spent states come first: a lock that ends or changes counts as it was before."""
    return [known.record for known in (*work.spent, *work.made)]


def _parties(arguments: _Arguments) -> tuple[Party, ...]:
    named = [value for _, kind, value in arguments if kind == "address" and isinstance(value, str) and "@" in value]
    shares = [share.to for _, _, value in arguments if isinstance(value, tuple) for share in value]
    return tuple(dict.fromkeys(Party(each) for each in (*named, *shares)))


def _only(told: tuple[Known[Record], ...], record_type: type[_R]) -> _R:
    found = [known.record for known in told if isinstance(known.record, record_type)]
    if len(found) != 1:
        raise Rejected("", f"a transaction of a token with hooks has one {record_type.__name__}, not {len(found)}")
    return found[0]


def _input(name: str, kind: str) -> dict[str, object]:
    return {"name": name, "type": kind} | ({"components": _RECIPIENTS} if kind == "tuple[]" else {})


def _written(value: _Value, addresses: Mapping[Party, str]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return [{"to": _written(share.to, addresses), "amount": str(share.amount)} for share in value]
    if "@" not in value:
        return value
    address = addresses.get(Party(value), "")
    if not address:
        raise Rejected("", f"{value} is no party of its node: a hook needs its address")
    return address


# What each function of the hook is given, between `sender` and `prepared`.


def _data(arguments: Record) -> tuple[str, str, _Value]:
    data = getattr(arguments, "data", b"")
    assert isinstance(data, bytes), "of every function"
    return "data", "bytes", data


def _from(owner: Party) -> tuple[str, str, _Value]:
    return "from", "address", owner


def _amount(amount: int) -> tuple[str, str, _Value]:
    return "amount", "uint256", amount


def _lock(operation: _Operation) -> tuple[str, str, _Value]:
    return "lockId", "bytes32", operation.lock_id


def _recipients(shares: tuple[Share, ...]) -> tuple[str, str, _Value]:
    return "recipients", "tuple[]", shares


def _mint(operation: _Operation) -> _Arguments:
    arguments = operation.arguments
    assert isinstance(arguments, Payment), "of mint"
    return ("to", "address", arguments.to), _amount(arguments.amount), _data(arguments)


def _transfer(operation: _Operation) -> _Arguments:
    return _from(operation.sender), *_mint(operation)


def _transfer_from(operation: _Operation) -> _Arguments:
    arguments = operation.arguments
    assert isinstance(arguments, TransferFrom), "of transferFrom"
    to = ("to", "address", arguments.to)
    return _from(arguments.from_), to, _amount(arguments.amount), _data(arguments)


def _burn(operation: _Operation) -> _Arguments:
    arguments = operation.arguments
    assert isinstance(arguments, Amount), "of burn"
    return _from(operation.sender), _amount(arguments.amount), _data(arguments)


def _burn_from(operation: _Operation) -> _Arguments:
    arguments = operation.arguments
    assert isinstance(arguments, BurnFrom), "of burnFrom"
    return _from(arguments.from_), _amount(arguments.amount), _data(arguments)


def _new_lock(operation: _Operation) -> _Arguments:
    return _lock(operation), *_burn(operation)


def _transfer_lock(operation: _Operation) -> _Arguments:
    arguments = operation.arguments
    assert isinstance(arguments, CreateTransferLock), "of createTransferLock"
    total = sum(share.amount for share in arguments.recipients)
    shares = _recipients(arguments.recipients)
    return _lock(operation), _from(arguments.from_), _amount(total), shares, _data(arguments)


def _burn_lock(operation: _Operation) -> _Arguments:
    arguments = operation.arguments
    assert isinstance(arguments, CreateBurnLock | PrepareBurnUnlock), "of locks that are burned"
    return _lock(operation), _from(arguments.from_), _amount(arguments.amount), _data(arguments)


def _recipients_of_lock(operation: _Operation) -> _Arguments:
    arguments = operation.arguments
    assert isinstance(arguments, CreateMintLock | PrepareUnlock | Unlock), "of locks for recipients"
    return _lock(operation), _recipients(arguments.recipients), _data(arguments)


def _delegation(operation: _Operation) -> _Arguments:
    arguments = operation.arguments
    assert isinstance(arguments, DelegateLock), "of delegateLock"
    return _lock(operation), ("delegate", "address", arguments.delegate)


def _spent_lock(operation: _Operation) -> _Arguments:
    """The owner has a lock do what it was prepared for, with the data of its preparation unless there is other data."""
    lock, arguments = operation.lock, operation.arguments
    assert lock is not None, "it spends one"
    assert isinstance(arguments, EndLock), "of spendLock"
    return _lock(operation), _recipients(lock.recipients), ("data", "bytes", arguments.data or lock.unlock_data)


def _cancelled_lock(operation: _Operation) -> _Arguments:
    """`INotoHooks` has no function of its own for it: the lock is opened for its owner."""
    assert operation.lock is not None, "it spends one"
    return _lock(operation), _recipients(given_back(operation.lock)), _data(operation.arguments)


def given_back(lock: Lock | RecordedLock) -> tuple[Share, ...]:
    """What a lock gives when it is cancelled: a mint lock nothing."""
    return (Share(lock.owner, lock.amount),) if lock.amount else ()


@dataclass(frozen=True, slots=True)
class _Hook:
    """The function of a hook for one of the token, and its arguments between `sender` and `prepared`."""

    arguments: type[Record]
    function: str
    given: Callable[[_Operation], _Arguments]
    is_without_locks: bool = False


_HOOKS: Final[Mapping[str, _Hook]] = {
    "mint": _Hook(Payment, "onMint", _mint, is_without_locks=True),
    "transfer": _Hook(Payment, "onTransfer", _transfer, is_without_locks=True),
    "transferFrom": _Hook(TransferFrom, "onTransfer", _transfer_from, is_without_locks=True),
    "burn": _Hook(Amount, "onBurn", _burn, is_without_locks=True),
    "burnFrom": _Hook(BurnFrom, "onBurn", _burn_from, is_without_locks=True),
    "lock": _Hook(Amount, "onLock", _new_lock),
    "createLock": _Hook(Amount, "onLock", _new_lock),
    "createTransferLock": _Hook(CreateTransferLock, "onCreateTransferLock", _transfer_lock),
    "createBurnLock": _Hook(CreateBurnLock, "onCreateBurnLock", _burn_lock),
    "createMintLock": _Hook(CreateMintLock, "onCreateMintLock", _recipients_of_lock),
    "prepareUnlock": _Hook(PrepareUnlock, "onPrepareUnlock", _recipients_of_lock),
    "prepareBurnUnlock": _Hook(PrepareBurnUnlock, "onPrepareBurnUnlock", _burn_lock),
    "delegateLock": _Hook(DelegateLock, "onDelegateLock", _delegation),
    "unlock": _Hook(Unlock, "onUnlock", _recipients_of_lock),
    "spendLock": _Hook(EndLock, "onUnlock", _spent_lock),
    "cancelLock": _Hook(EndLock, "onUnlock", _cancelled_lock),
}
