"""Effects and records of the node itself."""

from __future__ import annotations

from rota.machine.effects import Effect, Record
from rota.model.frozen import dataclass
from rota.model.types import AwaitedLeaf, ContractAddress, IntentId


@dataclass(frozen=True, slots=True)
class ReportFinalityBroken(Effect):
    """The chain took back final blocks: all above `parted_at`; those up to `final_height` had been reported.

    The receipts of these intents no longer hold, and are marked in the store.
    """

    parted_at: int
    final_height: int
    intents: tuple[IntentId, ...]


@dataclass(frozen=True, slots=True)
class LookUpIntents(Effect):
    """Ask the store for the intent with this key, if any, the outcomes of these intents, and those of these leaves."""

    token: int
    key: str
    intents: tuple[IntentId, ...]
    leaves: tuple[AwaitedLeaf, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadContract(Effect):
    """Load a contract from the store: its configuration, unfinished intents, and dispatches without an outcome."""

    contract: ContractAddress


# Records.


@dataclass(frozen=True, slots=True)
class NodeStarted(Record):
    """A new run of the node: durable before its first message."""

    incarnation: int
