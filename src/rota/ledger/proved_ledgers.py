"""The ledgers whose code the factory does not have, as it deploys them: their code, and where their verifiers are.

These are the ledgers whose transitions are proved, the ledger with locks of one notary, and those whose transitions
another contract carries out.

The factory has the code of none. What it is given it deploys, and tells the hash of it, so that whoever is told of a
ledger knows whether that is the code which it trusts: the one that came with this Rota. Verifiers are placed by the
factory, once, at addresses that follow from their code; so all nodes of a network name the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from eth_abi.abi import encode as abi_encode

from rota.domains.base import Carrier, Domain, ProvedLedger
from rota.domains.records import Record
from rota.ledger.artifacts import load_artifact
from rota.model.digests import WORD_BYTES, keccak
from rota.model.types import ContractAddress, address_bytes

C = TypeVar("C", bound=Record)


@dataclass(frozen=True, slots=True)
class Placed:
    """A contract that the factory places: what it is made of, and where that leads."""

    address: ContractAddress
    code: bytes


@dataclass(frozen=True, slots=True)
class LedgerCode:
    """What a ledger is made of: its code, its constructor's arguments behind the issuer, and the verifiers in them."""

    code: bytes
    arguments: bytes
    verifiers: tuple[Placed, ...]

    @property
    def hash(self) -> bytes:
        """What the factory tells of it."""
        return keccak(keccak(self.code) + keccak(self.arguments))


def code_of(ledger: ProvedLedger, factory: ContractAddress) -> LedgerCode:
    """What a factory makes this ledger of."""
    verifiers = tuple(placed_by(factory, load_artifact(name).bytecode) for name in ledger.verifiers)
    types = ["address"] * len(verifiers) + ["bool"] * len(ledger.terms)
    arguments = abi_encode(types, [*(verifier.address for verifier in verifiers), *ledger.terms])
    return LedgerCode(load_artifact(ledger.contract).bytecode, arguments, verifiers)


def code_for(domain: Domain[C], configuration: C, factory: ContractAddress) -> LedgerCode | None:
    """What the factory makes the ledger of a contract of; None where it has that code itself."""
    carrier = domain.carrier(configuration)
    if carrier is not None:
        return _code_with(carrier)
    ledger = domain.ledger_of(configuration)
    return code_of(ledger, factory) if ledger is not None else None


def _code_with(carrier: Carrier) -> LedgerCode:
    """What a ledger is made of whose transitions this carrier carries out."""
    arguments = abi_encode(["address", "address"], [carrier.ledger, carrier.decider])
    return LedgerCode(load_artifact("Carried").bytecode, arguments, ())


def placed_by(factory: ContractAddress, code: bytes) -> Placed:
    """Where the factory places this code (EIP-1014, without a salt)."""
    digest = keccak(b"\xff" + address_bytes(factory) + bytes(WORD_BYTES) + keccak(code))
    return Placed(ContractAddress("0x" + digest[-20:].hex()), code)
