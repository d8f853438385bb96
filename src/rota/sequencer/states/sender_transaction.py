"""Where an intent can be at its sender, and what it holds there (protocol §4.3)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from rota.machine.tables import superstate
from rota.model.frozen import dataclass
from rota.model.types import DelegationNumber, Intent, Leaf, NodeName, RequestId, SignedLeaf
from rota.wire.messages import DispatchItem, PreparedTransaction, TransactionReverted


class State(Enum):
    """Where an intent is at its sender (seed 2, and Issued, Ending and IdUsed)."""

    INITIAL = "Initial"
    PENDING = "Pending"
    DELEGATED = "Delegated"
    ASSEMBLING = "Assembling"
    SIGNING = "Signing"
    ENDORSEMENT_GATHERING = "EndorsementGathering"
    PREPARED = "Prepared"
    DISPATCHED = "Dispatched"
    SEQUENCED = "Sequenced"
    SUBMITTED = "Submitted"
    ISSUED = "Issued"
    ENDING = "Ending"
    PARKED = "Parked"
    CONFIRMED = "Confirmed"
    ID_USED = "IdUsed"
    REVERTED = "Reverted"

    # One of each: its address tells it apart at once, where Enum would hash its name at every look into a table.
    __hash__ = object.__hash__


BEING_ASSEMBLED = superstate("BeingAssembled", State.ASSEMBLING, State.SIGNING)
DELEGATED = superstate("WithDelegate", State.DELEGATED, BEING_ASSEMBLED, State.ENDORSEMENT_GATHERING)
UNPERMITTED = superstate("Unpermitted", State.PENDING, DELEGATED)
NUMBERED = superstate("Numbered", State.SEQUENCED, State.SUBMITTED)
PERMITTED = superstate("Permitted", State.PREPARED, State.DISPATCHED, NUMBERED)
UNDER_WAY = superstate("UnderWay", UNPERMITTED, PERMITTED)
# Nobody is to coordinate it: its user, the chain or time decides.
WAITING = (State.ISSUED, State.ENDING, State.PARKED)
OPEN = superstate("Open", UNDER_WAY, *WAITING)
# The chain has a transition under its id: its party's own, or one that its party is not known to have signed.
SETTLED = superstate("Settled", State.CONFIRMED, State.ID_USED)
ENDED = superstate("Ended", SETTLED, State.REVERTED)
KNOWN = superstate("Known", OPEN, ENDED)
# The version that it was assembled as last may be under way at its delegate, without permission.
REFUSABLE = (State.PENDING, State.DELEGATED, State.ENDORSEMENT_GATHERING)


# How far an intent came with one delegate: what a sender counts as progress (protocol §4.3).
ASKED_TO_ASSEMBLE = 1
ASKED_FOR_PERMISSION = 2


class Permission(NamedTuple):
    """What we permitted: one leaf, to one delegate, under one delegation number."""

    number: DelegationNumber
    delegate: NodeName
    leaf: Leaf
    valid_until_s: int


class HeldRequest(NamedTuple):
    """A permission request that waits until our delegation is accepted, or its signature is verified.

    A verdict is matched by an id of our own: two requests may have one id, which the coordinator chose.
    """

    peer: NodeName
    request_id: RequestId
    item: DispatchItem
    verified_as: RequestId | None = None


class HeldRefusals(NamedTuple):
    """What a delegate gave up with, while the refusals of these endorsers are verified."""

    peer: NodeName
    request_id: RequestId
    reverted: TransactionReverted
    endorsers: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """What the store remembers of an intent across a restart of its sender."""

    intent: Intent
    parked_reason: str | None = None
    permission: Permission | None = None
    ending_reason: str | None = None
    was_voided: bool = False
    issued: PreparedTransaction | None = None
    void_after_s: int = 0
    versions: tuple[SignedLeaf, ...] = ()
    used_leaf: Leaf | None = None
    ending_code: str = ""
