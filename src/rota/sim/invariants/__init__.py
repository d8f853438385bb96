"""What must hold in every run (protocol §10), judged from facts as they happen.

S1 to S10 are judged after every step, L1 to L5 when the faults have stopped and the network has come to rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.sim.invariants.bounds import QueuesAreBounded
from rota.sim.invariants.contents import SignersHoldContents
from rota.sim.invariants.deployments import ContractsAreMadeOnce, ProposalsAreKept
from rota.sim.invariants.endings import (
    EverybodyAgrees,
    EveryIntentEnds,
    OneCoordinatorIsActive,
    RotationIsFair,
    StatesReachTheirParties,
)
from rota.sim.invariants.finality import ReceiptsAreTrueOrMarked
from rota.sim.invariants.judge import Invariant, Judge, Terms, Violation
from rota.sim.invariants.ledger import (
    DispatchedWithPermissionAndEndorsements,
    NoncesAreGapless,
    NoStateIsSpentTwice,
    OneEffectAndOneOutcome,
)
from rota.sim.invariants.privacy import OneCoordinatorAtATime, StatesStayWithTheirParties
from rota.sim.invariants.promises import AcknowledgedIntentsSurvive, OnePermissionPerNumber, RestartContradictsNothing
from rota.sim.invariants.trust import (
    ConfirmedStatesAreTrue,
    IdsBelongToTheirParties,
    OutcomesAreTrue,
    ValidIntentsHappen,
)

if TYPE_CHECKING:
    from rota.sim.world import World

SAFETY: tuple[type[Invariant], ...] = (
    OneEffectAndOneOutcome,
    ContractsAreMadeOnce,
    NoStateIsSpentTwice,
    AcknowledgedIntentsSurvive,
    OnePermissionPerNumber,
    DispatchedWithPermissionAndEndorsements,
    OneCoordinatorAtATime,
    NoncesAreGapless,
    StatesStayWithTheirParties,
    RestartContradictsNothing,
    ProposalsAreKept,
    QueuesAreBounded,
)
LIVENESS: tuple[type[Invariant], ...] = (
    EveryIntentEnds,
    OneCoordinatorIsActive,
    RotationIsFair,
    StatesReachTheirParties,
    EverybodyAgrees,
)
EVERY: tuple[type[Invariant], ...] = (*SAFETY, *LIVENESS)
# Where more blocks are lost than `confirmations` cover, a receipt may be false until its node hears of it: F1 in place
# of S1.
AFTER_LOST_BLOCKS: tuple[type[Invariant], ...] = (
    ReceiptsAreTrueOrMarked,
    *(each for each in EVERY if each is not OneEffectAndOneOutcome),
)
# Where nodes lie, honest ones are judged. Who leads is then no longer a matter of rank alone (L2, L3), and outcomes
# are judged by what their parties signed (T1 in place of S1).
TRUST: tuple[type[Invariant], ...] = (
    OutcomesAreTrue,
    ConfirmedStatesAreTrue,
    IdsBelongToTheirParties,
    ValidIntentsHappen,
    SignersHoldContents,
)
NOT_AMONG_LIARS: tuple[type[Invariant], ...] = (OneEffectAndOneOutcome, OneCoordinatorIsActive, RotationIsFair)
AMONG_LIARS: tuple[type[Invariant], ...] = (*TRUST, *(each for each in EVERY if each not in NOT_AMONG_LIARS))

__all__ = [
    "AFTER_LOST_BLOCKS",
    "AMONG_LIARS",
    "EVERY",
    "LIVENESS",
    "SAFETY",
    "TRUST",
    "AcknowledgedIntentsSurvive",
    "ConfirmedStatesAreTrue",
    "ContractsAreMadeOnce",
    "DispatchedWithPermissionAndEndorsements",
    "EveryIntentEnds",
    "EverybodyAgrees",
    "IdsBelongToTheirParties",
    "Invariant",
    "Judge",
    "NoStateIsSpentTwice",
    "NoncesAreGapless",
    "OneCoordinatorAtATime",
    "OneCoordinatorIsActive",
    "OneEffectAndOneOutcome",
    "OnePermissionPerNumber",
    "OutcomesAreTrue",
    "ProposalsAreKept",
    "QueuesAreBounded",
    "ReceiptsAreTrueOrMarked",
    "RestartContradictsNothing",
    "RotationIsFair",
    "SignersHoldContents",
    "StatesReachTheirParties",
    "StatesStayWithTheirParties",
    "Terms",
    "ValidIntentsHappen",
    "Violation",
    "violations",
]


def violations(world: World) -> list[str]:
    """What a world's judge has found so far, as text."""
    return [str(violation) for violation in world.judge.found]
