"""What the node itself orders, and its records."""

from __future__ import annotations

from rota.machine.effects import Effect, Record
from rota.model.frozen import dataclass
from rota.model.types import AwaitedLeaf, ContractAddress, IntentId


@dataclass(frozen=True, slots=True)
class ReportFinalityBroken(Effect):
    """The chain took back blocks that were final: all above `parted_at`, up to `final_height` they had been reported.

    The receipts of these intents no longer hold, and are marked in the store.
    """

    parted_at: int
    final_height: int
    intents: tuple[IntentId, ...]


@dataclass(frozen=True, slots=True)
class LookUpIntents(Effect):
    """Ask the store: which intent has this key, if any, what became of these intents of ours, and of these leaves?"""

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
    """A new life of the node: durable before its first message."""

    incarnation: int
