"""The records of privacy groups: the arguments of their functions, their configuration, and their states.

Names and parameters are those that clients of such groups already use (client API).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.domains.records import Bytes32, Json, Record, Uint64, Uint256
from rota.model.types import ContractAddress, Party

NOTHING: Final = Json("")
# The gas limit of a call on the public ledger, if a group sets no other.
EXTERNAL_CALL_GAS: Final = 500_000
NO_SALT: Final = bytes(32)
NO_CONDITION: Final = bytes(32)
NO_COMMITTER: Final = ContractAddress("0x" + "00" * 20)


# Creating a group.


@dataclass(frozen=True, slots=True)
class GroupOptions(Record):
    """The settings of a group. `endorsement_threshold` is the number of members' nodes that must agree; 0 means all.

    Without `prepared_transactions_enabled` endorsers sign no transaction that waits for its committer: such a
    transaction keeps the states that it needs from the others for minutes. `external_call_gas_max` limits the gas of
    each call on the public ledger.
    """

    evm_version: str = "cancun"
    endorsement_type: str = "group_scoped_identities"
    external_calls_enabled: bool = False
    endorsement_threshold: Uint64 = 0
    prepared_transactions_enabled: bool = True
    external_call_gas_max: Uint64 = EXTERNAL_CALL_GAS


@dataclass(frozen=True, slots=True)
class NewGroup(Record):
    """A new group. `properties` are for its members' own use: an object of texts by name."""

    members: tuple[str, ...]
    name: str = ""
    salt: Bytes32 = NO_SALT
    configuration: GroupOptions = GroupOptions()
    properties: Json = NOTHING


@dataclass(frozen=True, slots=True)
class Group(Record):
    """The configuration of a group's contract."""

    # The node draws one for each request.
    incidental = ("salt",)
    later = ("preparedTransactionsEnabled", "externalCallGasMax")

    members: tuple[Party, ...]
    name: str
    salt: Bytes32
    evm_version: str
    external_calls_enabled: bool
    properties: Json
    prepared_transactions_enabled: bool = True
    external_call_gas_max: Uint64 = EXTERNAL_CALL_GAS


# Functions. `function` is one entry of a contract's ABI and `input` its arguments. Without a function `input` is
# call data in hex. `errors` is the contract's ABI, or part of it, whose errors explain a revert.
# `committer` and `condition` apply to a transaction that is prepared and not submitted. `external_call_gas` limits the
# gas of each call on the public ledger; 0 leaves that to the group.


@dataclass(frozen=True, slots=True)
class Deploy(Record):
    """Deploy a new private contract."""

    incidental = ("gas", "errors", "externalCallGas")
    later = ("externalCallGas",)

    bytecode: bytes
    function: Json = NOTHING
    input: Json = NOTHING
    gas: Uint64 = 0
    value: Uint256 = 0
    errors: Json = NOTHING
    committer: ContractAddress = NO_COMMITTER
    condition: Bytes32 = NO_CONDITION
    external_call_gas: Uint64 = 0


@dataclass(frozen=True, slots=True)
class Invoke(Record):
    """Call a private contract; also as a view, without a transaction."""

    incidental = ("gas", "errors", "externalCallGas")
    later = ("externalCallGas",)

    to: ContractAddress
    function: Json = NOTHING
    input: Json = NOTHING
    gas: Uint64 = 0
    value: Uint256 = 0
    errors: Json = NOTHING
    committer: ContractAddress = NO_COMMITTER
    condition: Bytes32 = NO_CONDITION
    external_call_gas: Uint64 = 0


# States.


@dataclass(frozen=True, slots=True)
class AccountState(Record):
    """A private contract's account after a transaction: its predecessor, and the changes (`changes.py`).

    `number` counts the states of an account from 0. Only the first has `code`.
    """

    schema_name = "PenteAccount"
    labels = ("address",)

    address: ContractAddress
    number: Uint64
    predecessor: bytes
    nonce: Uint64
    code: bytes
    slots: bytes


@dataclass(frozen=True, slots=True)
class PrivateLog(Record):
    """A log of a private contract, for the members."""

    address: ContractAddress
    topics: tuple[Bytes32, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class PrivateTransaction(Record):
    """A transaction as its endorsers repeat it: the sender, the contract, the input; and its logs.

    For a deployment `to` is the address of the new contract.
    """

    schema_name = "PenteTransaction"

    from_: ContractAddress
    to: ContractAddress
    is_deployment: bool
    input: bytes
    gas: Uint64
    logs: tuple[PrivateLog, ...]
