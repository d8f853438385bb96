"""Transitions that another private contract decides about and carries out (chained transactions).

The transition of such a contract is endorsed, and then prepared for its own ledger, which commits it only when the
carrier's ledger calls it (`contracts/Carried.sol`). The endorser's node has the carrier run a transaction that makes
this call: both are committed, or neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Generic, TypeVar

from rota.domains.available import Known
from rota.domains.records import Record
from rota.model.frozen import dataclass
from rota.model.types import Contract, ContractAddress, IntentId, Party

C = TypeVar("C", bound=Record)


@dataclass(frozen=True, slots=True)
class Carrier:
    """The ledger of the private contract that carries transitions out, and the contract there that decides."""

    ledger: ContractAddress
    decider: ContractAddress


@dataclass(frozen=True, slots=True)
class Carrying(Generic[C]):
    """An endorsed transition that is to be carried out: its states, and the call of its ledger that commits it.

    `addresses` has those of `parties_to_carry`.
    """

    contract: Contract
    configuration: C
    intent: IntentId
    spent: tuple[Known[Record], ...]
    made: tuple[Known[Record], ...]
    told: tuple[Known[Record], ...]
    call: bytes
    addresses: Mapping[Party, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CarryingCall:
    """A request to the carrier's ledger: its sender and function, with arguments as JSON."""

    sender: Party
    function: str
    arguments: Mapping[str, object]
