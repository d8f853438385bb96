"""What a node is told by its store about contracts and dispatches that it has not in memory."""

from __future__ import annotations

from rota.core.effects import RoundDispatch
from rota.core.machine import Event
from rota.core.sequencer import StoredContract
from rota.frozen import dataclass
from rota.types import Contract, ContractAddress


@dataclass(frozen=True, slots=True)
class ContractLoaded(Event):
    """The answer to `LoadContract`; also how a node learns of a new contract."""

    contract: Contract
    stored: StoredContract


@dataclass(frozen=True, slots=True)
class ContractMissing(Event):
    """There is no such contract in this node's store."""

    contract: ContractAddress


@dataclass(frozen=True, slots=True)
class DispatchesRecalled(Event):
    """The answer to `RecallDispatches`: what this node dispatched with these nonces, as far as the store has it."""

    nonces: tuple[int, ...]
    dispatches: tuple[RoundDispatch, ...]
