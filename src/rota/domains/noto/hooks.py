"""Notary tokens with hooks: a private contract decides about each operation, and carries it out (client API).

For every operation the notary's node calls the function of the hook that belongs to it. The hook emits
`PenteExternalCall` with exactly the call that it is given, or reverts with a reason. Only the hook's contract can have
the token's ledger commit (`contracts/Carried.sol`). The hook decides who may mint, pay and burn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec

from rota.domains.base import Carrier, Carrying, CarryingCall, Known, NewState, Rejected, party_of
from rota.domains.contents import Role
from rota.domains.noto.hook_records import NO_ADDRESS, NO_HOOKS, HookOptions, HookRequested, Hooks
from rota.domains.noto.records import Amount, BasicOptions, BurnFrom, Configuration, Payment, Requested, TransferFrom
from rota.domains.records import Record, unpacked
from rota.model.json_text import NotJson, read_json
from rota.model.types import Party, node_of

# The hook decides who may mint. Locks are not passed to a hook yet.
HOOKED_OPTIONS: Final = BasicOptions(restrict_mint=False, allow_burn=True, allow_lock=False)

_PREPARED: Final = {
    "name": "prepared",
    "type": "tuple",
    "components": [{"name": "contractAddress", "type": "address"}, {"name": "encodedCall", "type": "bytes"}],
}
_Arguments: TypeAlias = tuple[tuple[str, Party | int | bytes], ...]
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


def require_hooked(function: str) -> None:
    """A hook knows of this function. `Rejected` names what to use instead."""
    if function not in _HOOKS:
        known = ", ".join(_HOOKS)
        raise Rejected("function", f"must be one of {known} in a token with hooks: locks are not passed to hooks")


def asked_by(configuration: Configuration, sender: Party, readers: tuple[Party, ...]) -> tuple[NewState, ...]:
    """The sender, for the readers of the request; only in a token with hooks."""
    return (NewState(HookRequested(sender), readers, Role.INFO),) if configuration.hooks != NO_HOOKS else ()


def parties_in(work: Carrying[Configuration]) -> tuple[Party, ...]:
    """All that a hook is given the addresses of."""
    _, arguments = _operation(work)
    return tuple(dict.fromkeys(value for _, value in arguments if isinstance(value, str)))


def call_of(work: Carrying[Configuration]) -> CarryingCall:
    """The notary's call of the hook, which is given the token's call."""
    hook, arguments = _operation(work)
    entry = {
        "type": "function",
        "name": hook,
        "inputs": [*({"name": name, "type": _type_of(value)} for name, value in arguments), _PREPARED],
        "outputs": [],
        "stateMutability": "nonpayable",
    }
    values = [_written(value, work.addresses) for _, value in arguments]
    prepared = {"contractAddress": str(work.contract.address), "encodedCall": "0x" + work.call.hex()}
    request = {
        "to": str(work.configuration.hooks.private_address),
        "function": msgspec.json.encode(entry).decode(),
        "input": msgspec.json.encode([*values, prepared]).decode(),
    }
    return CarryingCall(work.configuration.notary, "invoke", request)


def _operation(work: Carrying[Configuration]) -> tuple[str, _Arguments]:
    """The hook's function for a request, and its arguments before `prepared`."""
    requested, asked = _only(work.told, Requested), _only(work.told, HookRequested)
    require_hooked(requested.function)
    arguments_type, hook, arguments_of = _HOOKS[requested.function]
    try:
        arguments = unpacked(arguments_type, read_json(requested.arguments), "arguments")
    except NotJson:
        raise Rejected("arguments", "cannot be read") from None
    return hook, (("sender", asked.sender), *arguments_of(arguments, asked.sender))


def _only(told: tuple[Known[Record], ...], record_type: type[_R]) -> _R:
    found = [known.record for known in told if isinstance(known.record, record_type)]
    if len(found) != 1:
        raise Rejected("", f"a transaction of a token with hooks has one {record_type.__name__}, not {len(found)}")
    return found[0]


def _type_of(value: Party | int | bytes) -> str:
    if isinstance(value, bytes):
        return "bytes"
    return "uint256" if isinstance(value, int) else "address"


def _written(value: Party | int | bytes, addresses: Mapping[Party, str]) -> str:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, int):
        return str(value)
    address = addresses.get(value, "")
    if not address:
        raise Rejected("", f"{value} is no party of its node: a hook needs its address")
    return address


def _mint(arguments: Record, _: Party) -> _Arguments:
    assert isinstance(arguments, Payment), "of mint"
    return ("to", arguments.to), ("amount", arguments.amount), ("data", arguments.data)


def _transfer(arguments: Record, sender: Party) -> _Arguments:
    assert isinstance(arguments, Payment), "of transfer"
    return ("from", sender), *_mint(arguments, sender)


def _transfer_from(arguments: Record, _: Party) -> _Arguments:
    assert isinstance(arguments, TransferFrom), "of transferFrom"
    to, amount, data = ("to", arguments.to), ("amount", arguments.amount), ("data", arguments.data)
    return ("from", arguments.from_), to, amount, data


def _burn(arguments: Record, sender: Party) -> _Arguments:
    assert isinstance(arguments, Amount), "of burn"
    return ("from", sender), ("amount", arguments.amount), ("data", arguments.data)


def _burn_from(arguments: Record, _: Party) -> _Arguments:
    assert isinstance(arguments, BurnFrom), "of burnFrom"
    return ("from", arguments.from_), ("amount", arguments.amount), ("data", arguments.data)


_HOOKS: Final[Mapping[str, tuple[type[Record], str, Callable[[Record, Party], _Arguments]]]] = {
    "mint": (Payment, "onMint", _mint),
    "transfer": (Payment, "onTransfer", _transfer),
    "transferFrom": (TransferFrom, "onTransfer", _transfer_from),
    "burn": (Amount, "onBurn", _burn),
    "burnFrom": (BurnFrom, "onBurn", _burn_from),
}
