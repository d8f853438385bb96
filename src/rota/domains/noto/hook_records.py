"""What tokens with hooks are made of beside what all notary tokens are made of (client API)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.domains.records import Bytes32, Record
from rota.model.types import ContractAddress, Party

NO_ADDRESS: Final = ContractAddress("0x" + "00" * 20)


@dataclass(frozen=True, slots=True)
class HookGroup(Record):
    """The privacy group of the hook, as clients name it. Its ledger's address alone decides which group it is."""

    salt: Bytes32 = bytes(32)
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HookOptions(Record):
    """The private contract that decides: the ledger of its group, the group, and its address there."""

    public_address: ContractAddress = NO_ADDRESS
    private_group: HookGroup = HookGroup()
    private_address: ContractAddress = NO_ADDRESS


@dataclass(frozen=True, slots=True)
class Hooks(Record):
    """The private contract that decides about each operation of a token: its group's ledger, and its address there."""

    public_address: ContractAddress
    private_address: ContractAddress


NO_HOOKS: Final = Hooks(NO_ADDRESS, NO_ADDRESS)


@dataclass(frozen=True, slots=True)
class HookRequested(Record):
    """Who asked for a transaction of a token with hooks: the hook is given that party's address."""

    schema_name = "NotoHookRequest"

    sender: Party
