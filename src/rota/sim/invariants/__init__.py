"""The invariants of every run (protocol §10), judged from facts as they occur.

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
# Only a world with a factory has deployments.
OF_DEPLOYMENTS: tuple[type[Invariant], ...] = (ContractsAreMadeOnce, ProposalsAreKept, ContractsReachTheirNodes)
# After a reorganisation deeper than `confirmations`, a receipt may be false until its node learns of it: F1 replaces
# S1, and causes, order and expiry are not promised.
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
# A node whose database loses acknowledged commits may contradict its earlier messages. Effects on the chain stay true:
# nothing happens twice, and no final receipt of a node is false.
AFTER_FAILOVER: tuple[type[Invariant], ...] = (
    ReceiptsAreTrueAfterFailover,
    NoStateIsSpentTwice,
    StatesStayWithTheirParties,
    QueuesAreBounded,
)
# Where nodes lie, only honest ones are judged. Leadership then depends on more than rank (no L2, L3), and outcomes
# are judged by the leaves that their parties signed (T1 in place of S1, T3 in place of O1).
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
    """The invariants of `candidates` that apply to a world with or without a factory."""
    return tuple(each for each in candidates if has_factory or each not in OF_DEPLOYMENTS)


def violations(world: Judged) -> list[str]:
    """The violations that a world's judge has found so far, as text."""
    return [str(violation) for violation in world.judge.found]
