"""What users pass to a zero-knowledge token, what it is configured with, and what its states hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.domains.records import Bytes32, Record, Uint256
from rota.model.types import ContractAddress, Party

NO_ADDRESS: Final = ContractAddress("0x" + "00" * 20)


@dataclass(frozen=True, slots=True)
class Constructor(Record):
    """A new token, of a kind that clients know by name. Who deploys it issues its coins.

    The issuer either mints coins or sets an ERC-20 that they are made of; with `unbacked_mints` it may do both.
    """

    token_name: str
    unbacked_mints: bool = False


@dataclass(frozen=True, slots=True)
class Configuration(Record):
    """What a token is."""

    token_name: str
    issuer: Party
    unbacked_mints: bool = False


# Functions.


@dataclass(frozen=True, slots=True)
class Payment(Record):
    """Who gets how much."""

    to: Party
    amount: Uint256
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Mint(Record):
    """New coins."""

    mints: tuple[Payment, ...]


@dataclass(frozen=True, slots=True)
class Transfer(Record):
    """Pays with the sender's coins."""

    transfers: tuple[Payment, ...]


@dataclass(frozen=True, slots=True)
class Lock(Record):
    """Makes a coin of the sender's that only the delegate can bring to be spent."""

    amount: Uint256
    delegate: ContractAddress


@dataclass(frozen=True, slots=True)
class TransferLocked(Record):
    """Pays with locked coins, which are named by their commitments. Their delegate is to commit it."""

    locked_inputs: tuple[Uint256, ...]
    delegate: str
    transfers: tuple[Payment, ...]


@dataclass(frozen=True, slots=True)
class Deposit(Record):
    """Makes a coin of the sender's public tokens."""

    amount: Uint256


@dataclass(frozen=True, slots=True)
class Withdraw(Record):
    """Turns coins of the sender's into public tokens."""

    amount: Uint256


@dataclass(frozen=True, slots=True)
class Account(Record):
    """Of `balanceOf`."""

    account: str


# States.


@dataclass(frozen=True, slots=True)
class ZetoCoin(Record):
    """A coin. `owner_key` is what the chain's proofs know the owner by; the delegate is zero unless it is locked."""

    labels = ("owner",)

    amount: Uint256
    owner: Party
    owner_key: Bytes32
    delegate: ContractAddress = NO_ADDRESS

    def derived(self) -> dict[str, object]:
        """Clients look for locked coins by this."""
        return {"locked": self.delegate != NO_ADDRESS}


@dataclass(frozen=True, slots=True)
class ZetoMemo(Record):
    """What who pays tells who is paid."""

    data: bytes
