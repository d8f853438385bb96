"""What the parts of a coordinator use of it (`coordinator_base.py`): what it holds, and what it does for several."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from rota.model.types import IntentId, KeptStates, Leaf, NodeName
from rota.sequencer.attestation import Unapproved
from rota.sequencer.context import Context
from rota.sequencer.gas_allowances import GasAllowances
from rota.sequencer.graph import Graph
from rota.sequencer.held_intent import HeldIntent
from rota.sequencer.kept import Kept
from rota.sequencer.observer import Observer
from rota.sequencer.probation import Probation
from rota.sequencer.quotas import Quotas
from rota.sequencer.recent_outcomes import RecentOutcomes
from rota.sequencer.turns import Turns
from rota.sequencer.voids import Voids
from rota.wire.messages import HandedOver


class OwningCoordinator(Protocol):
    """The coordinator that a part belongs to."""

    context: Context
    observer: Observer
    transactions: dict[IntentId, HeldIntent]
    graph: Graph
    outcomes: RecentOutcomes
    quotas: Quotas
    gas: GasAllowances
    probation: Probation
    unapproved: Unapproved
    kept: Kept
    turns: Turns
    voids: Voids
    restored: dict[Leaf, HandedOver]
    following_others: dict[NodeName, NodeName]

    @property
    def has_room_for_a_slot(self) -> bool:
        """All transitions under way fit the snapshot that a slot is assembled on."""
        ...

    def something_changed(self) -> None:
        """Check once, at the end of the present event, which steps are possible now."""
        ...

    def isolate(self, sender: NodeName, withholds: bool = False) -> None:
        """Put a sender on probation."""
        ...

    def giving_way_to(self, sender: NodeName, leaves: Iterable[Leaf]) -> frozenset[Leaf]:
        """Of these, the transitions that lock nothing for this sender."""
        ...

    def tell_asked_again(self, intents: Iterable[IntentId]) -> None:
        """A request that these intents wait on has been repeated."""
        ...

    def give_up_foreign(self, intents: Collection[IntentId]) -> None:
        """Build nothing on versions of these intents that were handed over."""
        ...

    def reset_users_of(self, leaf: Leaf, coming_back: frozenset[IntentId]) -> None:
        """Reset all that stands on a leaf."""
        ...

    def may_be_kept(self, kept: KeptStates) -> bool:
        """Whether these states can be kept for a prepared transition."""
        ...

    def respect(self, kept: KeptStates) -> None:
        """Keep these states, and reset what spends them."""
        ...

    def endorser_follows(self, peer: NodeName, accepted: NodeName | None) -> None:
        """An endorser did not accept us."""
        ...
