"""The parts of a coordinator that its components use (`coordinator_base.py`)."""

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
    """The coordinator that a component belongs to."""

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
        """Whether all transitions under way fit the snapshot that a slot is assembled on."""
        ...

    def something_changed(self) -> None:
        """Check once, at the end of the present event, which steps are possible now."""
        ...

    def isolate(self, sender: NodeName, withholds: bool = False) -> None:
        """Put a sender on probation."""
        ...

    def giving_way_to(self, sender: NodeName, leaves: Iterable[Leaf]) -> frozenset[Leaf]:
        """Return the leaves that lock nothing for this sender."""
        ...

    def tell_asked_again(self, intents: Iterable[IntentId]) -> None:
        """Report to these intents that the request they wait for was repeated."""
        ...

    def give_up_foreign(self, intents: Collection[IntentId]) -> None:
        """Build nothing on versions of these intents that were handed over."""
        ...

    def reset_users_of(self, leaf: Leaf, coming_back: frozenset[IntentId]) -> None:
        """Reset all dependents of a leaf."""
        ...

    def may_be_kept(self, kept: KeptStates) -> bool:
        """Whether these states can be reserved for a prepared transition."""
        ...

    def respect(self, kept: KeptStates) -> None:
        """Reserve these states, and reset the transitions that spend them."""
        ...

    def endorser_follows(self, peer: NodeName, accepted: NodeName | None) -> None:
        """Note that an endorser does not accept this coordinator."""
        ...
