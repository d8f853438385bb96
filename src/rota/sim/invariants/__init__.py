"""What must hold in every run (protocol §10), judged from facts as they happen.

S1 to S10 are judged after every step, L1 to L5 when the faults have stopped and the network has come to rest.
"""

from __future__ import annotations

from typing import Protocol

from rota.sim.invariants.acceptance import OneCoordinatorAtATime
from rota.sim.invariants.bounds import QueuesAreBounded
from rota.sim.invariants.contents import SignersHoldContents
from rota.sim.invariants.deployments import ContractsAreMadeOnce, ContractsReachTheirNodes, ProposalsAreKept
from rota.sim.invariants.endings import (
    EverybodyAgrees,
    EveryIntentEnds,
    OneCoordinatorIsActive,
    RotationIsFair,
    StatesReachTheirParties,
)
from rota.sim.invariants.finality import ReceiptsAreTrueAfterFailover, ReceiptsAreTrueOrMarked
from rota.sim.invariants.judge import Count, Invariant, Judge, Terms, Violation
from rota.sim.invariants.ledger import (
    DispatchedWithPermissionAndEndorsements,
    NoncesAreGapless,
    NoStateIsSpentTwice,
    OneEffectAndOneOutcome,
)
from rota.sim.invariants.outcomes import (
    DependenciesComeFirst,
    OutcomesHaveCauses,
    PreparedDoNotConflict,
    UsersAreAnswered,
)
from rota.sim.invariants.privacy import StatesStayWithTheirParties
from rota.sim.invariants.promises import AcknowledgedIntentsSurvive, OnePermissionPerNumber, RestartContradictsNothing
from rota.sim.invariants.rest import NetworkComesToRest, WorkIsBounded
from rota.sim.invariants.trust import (
    ConfirmedStatesAreTrue,
    IdsBelongToTheirParties,
    OutcomesAreTrue,
    PlansAreKept,
    ValidIntentsHappen,
)
from rota.sim.invariants.workloads import WorkloadHolds


class Judged(Protocol):
    """A world with its judge."""

    judge: Judge


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
    DependenciesComeFirst,
    PreparedDoNotConflict,
)
LIVENESS: tuple[type[Invariant], ...] = (
    EveryIntentEnds,
    OneCoordinatorIsActive,
    RotationIsFair,
    StatesReachTheirParties,
    EverybodyAgrees,
    ContractsReachTheirNodes,
    OutcomesHaveCauses,
    UsersAreAnswered,
    NetworkComesToRest,
    WorkIsBounded,
)
EVERY: tuple[type[Invariant], ...] = (*SAFETY, *LIVENESS)
# Only a world with a factory plays deployments.
OF_DEPLOYMENTS: tuple[type[Invariant], ...] = (ContractsAreMadeOnce, ProposalsAreKept, ContractsReachTheirNodes)
# Where more blocks are lost than `confirmations` cover, a receipt may be false until its node hears of it: F1 in place
# of S1, and nothing is promised of causes, order and what expires.
NOT_AFTER_LOST_BLOCKS: tuple[type[Invariant], ...] = (
    OneEffectAndOneOutcome,
    OutcomesHaveCauses,
    DependenciesComeFirst,
    PreparedDoNotConflict,
)
AFTER_LOST_BLOCKS: tuple[type[Invariant], ...] = (
    ReceiptsAreTrueOrMarked,
    *(each for each in EVERY if each not in NOT_AFTER_LOST_BLOCKS),
)
# Where a database loses acknowledged commits, its node may have forgotten what it said; what the chain did stays
# true: nothing happens twice, and no receipt that a node has in the end is false.
AFTER_FAILOVER: tuple[type[Invariant], ...] = (
    ReceiptsAreTrueAfterFailover,
    NoStateIsSpentTwice,
    StatesStayWithTheirParties,
    QueuesAreBounded,
)
# Where nodes lie, honest ones are judged. Who leads is then no longer a matter of rank alone (L2, L3), and outcomes
# are judged by what their parties signed (T1 in place of S1, T3 in place of O1).
TRUST: tuple[type[Invariant], ...] = (
    OutcomesAreTrue,
    ConfirmedStatesAreTrue,
    IdsBelongToTheirParties,
    PlansAreKept,
    ValidIntentsHappen,
    SignersHoldContents,
)
NOT_AMONG_LIARS: tuple[type[Invariant], ...] = (
    OneEffectAndOneOutcome,
    OneCoordinatorIsActive,
    RotationIsFair,
    OutcomesHaveCauses,
    NetworkComesToRest,
)
AMONG_LIARS: tuple[type[Invariant], ...] = (*TRUST, *(each for each in EVERY if each not in NOT_AMONG_LIARS))

__all__ = [
    "AFTER_FAILOVER",
    "AFTER_LOST_BLOCKS",
    "AMONG_LIARS",
    "EVERY",
    "LIVENESS",
    "OF_DEPLOYMENTS",
    "SAFETY",
    "TRUST",
    "AcknowledgedIntentsSurvive",
    "ConfirmedStatesAreTrue",
    "ContractsAreMadeOnce",
    "ContractsReachTheirNodes",
    "Count",
    "DependenciesComeFirst",
    "DispatchedWithPermissionAndEndorsements",
    "EveryIntentEnds",
    "EverybodyAgrees",
    "IdsBelongToTheirParties",
    "Invariant",
    "Judge",
    "NetworkComesToRest",
    "NoStateIsSpentTwice",
    "NoncesAreGapless",
    "OneCoordinatorAtATime",
    "OneCoordinatorIsActive",
    "OneEffectAndOneOutcome",
    "OnePermissionPerNumber",
    "OutcomesAreTrue",
    "OutcomesHaveCauses",
    "PreparedDoNotConflict",
    "ProposalsAreKept",
    "QueuesAreBounded",
    "ReceiptsAreTrueAfterFailover",
    "ReceiptsAreTrueOrMarked",
    "RestartContradictsNothing",
    "RotationIsFair",
    "SignersHoldContents",
    "StatesReachTheirParties",
    "StatesStayWithTheirParties",
    "Terms",
    "UsersAreAnswered",
    "ValidIntentsHappen",
    "Violation",
    "WorkIsBounded",
    "WorkloadHolds",
    "judged_in",
    "violations",
]


def judged_in(candidates: tuple[type[Invariant], ...], has_factory: bool) -> tuple[type[Invariant], ...]:
    """The checkers that have something to judge in a world with or without a factory."""
    return tuple(each for each in candidates if has_factory or each not in OF_DEPLOYMENTS)


def violations(world: Judged) -> list[str]:
    """What a world's judge has found so far, as text."""
    return [str(violation) for violation in world.judge.found]
