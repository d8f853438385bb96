"""The ledgers whose code the factory does not have: their code, and the addresses of their verifiers.

These are the ledgers whose transitions are proved, the ledger with locks of one notary, and those whose transitions
another contract carries out.

The factory has the code of none. It deploys the code that it gets and reports its hash, so that a node can compare it
with the code that it trusts: the one that came with this Rota. The factory places verifiers, once, at addresses that
follow from their code; so all nodes of a network name the same ones.
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
    """A contract that the factory places: its code and the resulting address."""

    address: ContractAddress
    code: bytes


@dataclass(frozen=True, slots=True)
class LedgerCode:
    """A ledger's code, its constructor's arguments after the issuer, and the verifiers in them."""

    code: bytes
    arguments: bytes
    verifiers: tuple[Placed, ...]

    @property
    def hash(self) -> bytes:
        """The hash that the factory reports for it."""
        return keccak(keccak(self.code) + keccak(self.arguments))


def code_of(ledger: ProvedLedger, factory: ContractAddress) -> LedgerCode:
    """Return the code from which a factory deploys this ledger."""
    verifiers = tuple(placed_by(factory, load_artifact(name).bytecode) for name in ledger.verifiers)
    types = ["address"] * len(verifiers) + ["bool"] * len(ledger.terms)
    arguments = abi_encode(types, [*(verifier.address for verifier in verifiers), *ledger.terms])
    return LedgerCode(load_artifact(ledger.contract).bytecode, arguments, verifiers)


def code_for(domain: Domain[C], configuration: C, factory: ContractAddress) -> LedgerCode | None:
    """Return the code of a contract's ledger; None where the factory has that code itself."""
    carrier = domain.carrier(configuration)
    if carrier is not None:
        return _code_with(carrier)
    ledger = domain.ledger_of(configuration)
    return code_of(ledger, factory) if ledger is not None else None


def _code_with(carrier: Carrier) -> LedgerCode:
    """Return the code of a ledger whose transitions this carrier carries out."""
    arguments = abi_encode(["address", "address"], [carrier.ledger, carrier.decider])
    return LedgerCode(load_artifact("Carried").bytecode, arguments, ())


def placed_by(factory: ContractAddress, code: bytes) -> Placed:
    """Return the contract that the factory places with this code (EIP-1014, without a salt)."""
    digest = keccak(b"\xff" + address_bytes(factory) + bytes(WORD_BYTES) + keccak(code))
    return Placed(ContractAddress("0x" + digest[-20:].hex()), code)
