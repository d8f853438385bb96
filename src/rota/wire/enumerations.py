"""The numbers of our enumerations on the wire. No member has zero, which is the value of an absent field."""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, TypeVar

import rota.wire.peer_pb2 as pb
from rota.model.types import SubmitMode
from rota.wire.messages import Answer, AssemblyOutcome, CoordinatorState, ErrorCode, HandoverReason, Rejection, Verdict

Member = TypeVar("Member", bound=Enum)
Number = TypeVar("Number", bound=int)


class Enumeration(Generic[Member, Number]):
    """One enumeration: its members' numbers, and the members by number."""

    def __init__(self, name: str, numbers: dict[Member, Number]) -> None:
        self.name = name
        self.numbers = numbers
        self.members: dict[int, Member] = {number: member for member, number in numbers.items()}


ANSWERS: Final = Enumeration(
    "answer",
    {
        Answer.ACCEPTED: pb.ANSWER_ACCEPTED,
        Answer.HELD: pb.ANSWER_HELD,
        Answer.FULL: pb.ANSWER_FULL,
        Answer.DISPATCHED: pb.ANSWER_DISPATCHED,
        Answer.CONFIRMED: pb.ANSWER_CONFIRMED,
        Answer.REJECTED: pb.ANSWER_REJECTED,
    },
)
REJECTIONS: Final = Enumeration(
    "rejection",
    {
        Rejection.MISMATCHED_BLOCK_HEIGHT: pb.REJECTION_MISMATCHED_BLOCK_HEIGHT,
        Rejection.NOT_PREFERRED_COORDINATOR: pb.REJECTION_NOT_PREFERRED_COORDINATOR,
        Rejection.NO_LEDGER: pb.REJECTION_NO_LEDGER,
        Rejection.NOT_ALLOWED: pb.REJECTION_NOT_ALLOWED,
        Rejection.MISSING_STATES: pb.REJECTION_MISSING_STATES,
        Rejection.UNAVAILABLE: pb.REJECTION_UNAVAILABLE,
    },
)
ASSEMBLY_OUTCOMES: Final = Enumeration(
    "assembly outcome",
    {
        AssemblyOutcome.ASSEMBLED: pb.ASSEMBLY_OUTCOME_ASSEMBLED,
        AssemblyOutcome.REVERTED: pb.ASSEMBLY_OUTCOME_REVERTED,
        AssemblyOutcome.PARKED: pb.ASSEMBLY_OUTCOME_PARKED,
    },
)
ERROR_CODES: Final = Enumeration(
    "error code",
    {
        ErrorCode.NOT_CURRENT_DELEGATE: pb.ERROR_CODE_NOT_CURRENT_DELEGATE,
        ErrorCode.UNKNOWN_INTENT: pb.ERROR_CODE_UNKNOWN_INTENT,
        ErrorCode.FINAL_INTENT: pb.ERROR_CODE_FINAL_INTENT,
        ErrorCode.CANCELLED: pb.ERROR_CODE_CANCELLED,
        ErrorCode.FAILED: pb.ERROR_CODE_FAILED,
        ErrorCode.STALE_DELEGATION: pb.ERROR_CODE_STALE_DELEGATION,
        ErrorCode.STATES_MISSING: pb.ERROR_CODE_STATES_MISSING,
        ErrorCode.WRONG_LEAF: pb.ERROR_CODE_WRONG_LEAF,
        ErrorCode.CONTENTION: pb.ERROR_CODE_CONTENTION,
    },
)
COORDINATOR_STATES: Final = Enumeration(
    "coordinator state",
    {
        CoordinatorState.IDLE: pb.COORDINATOR_STATE_IDLE,
        CoordinatorState.OBSERVING: pb.COORDINATOR_STATE_OBSERVING,
        CoordinatorState.STANDBY: pb.COORDINATOR_STATE_STANDBY,
        CoordinatorState.ELECT: pb.COORDINATOR_STATE_ELECT,
        CoordinatorState.PREPARED: pb.COORDINATOR_STATE_PREPARED,
        CoordinatorState.ACTIVE: pb.COORDINATOR_STATE_ACTIVE,
        CoordinatorState.FLUSH: pb.COORDINATOR_STATE_FLUSH,
        CoordinatorState.CLOSING: pb.COORDINATOR_STATE_CLOSING,
    },
)
HANDOVER_REASONS: Final = Enumeration(
    "hand-over reason",
    {HandoverReason.OUTRANKS: pb.HANDOVER_REASON_OUTRANKS, HandoverReason.TRIED: pb.HANDOVER_REASON_TRIED},
)
SUBMIT_MODES: Final = Enumeration(
    "submit mode",
    {
        SubmitMode.AUTO: pb.SUBMIT_MODE_AUTO,
        SubmitMode.EXTERNAL: pb.SUBMIT_MODE_EXTERNAL,
        SubmitMode.CARRIED: pb.SUBMIT_MODE_CARRIED,
    },
)
VERDICTS: Final = Enumeration(
    "verdict",
    {Verdict.ACCEPTED: pb.VERDICT_ACCEPTED, Verdict.REFUSED: pb.VERDICT_REFUSED, Verdict.BUSY: pb.VERDICT_BUSY},
)
