from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBMIT_MODE_UNSPECIFIED: _ClassVar[SubmitMode]
    SUBMIT_MODE_AUTO: _ClassVar[SubmitMode]
    SUBMIT_MODE_EXTERNAL: _ClassVar[SubmitMode]
    SUBMIT_MODE_CARRIED: _ClassVar[SubmitMode]

class Answer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANSWER_UNSPECIFIED: _ClassVar[Answer]
    ANSWER_ACCEPTED: _ClassVar[Answer]
    ANSWER_HELD: _ClassVar[Answer]
    ANSWER_FULL: _ClassVar[Answer]
    ANSWER_DISPATCHED: _ClassVar[Answer]
    ANSWER_CONFIRMED: _ClassVar[Answer]
    ANSWER_REJECTED: _ClassVar[Answer]

class Rejection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REJECTION_UNSPECIFIED: _ClassVar[Rejection]
    REJECTION_MISMATCHED_BLOCK_HEIGHT: _ClassVar[Rejection]
    REJECTION_NOT_PREFERRED_COORDINATOR: _ClassVar[Rejection]
    REJECTION_NO_LEDGER: _ClassVar[Rejection]
    REJECTION_NOT_ALLOWED: _ClassVar[Rejection]
    REJECTION_MISSING_STATES: _ClassVar[Rejection]
    REJECTION_UNAVAILABLE: _ClassVar[Rejection]

class AssemblyOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ASSEMBLY_OUTCOME_UNSPECIFIED: _ClassVar[AssemblyOutcome]
    ASSEMBLY_OUTCOME_ASSEMBLED: _ClassVar[AssemblyOutcome]
    ASSEMBLY_OUTCOME_REVERTED: _ClassVar[AssemblyOutcome]
    ASSEMBLY_OUTCOME_PARKED: _ClassVar[AssemblyOutcome]

class ErrorCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_CODE_UNSPECIFIED: _ClassVar[ErrorCode]
    ERROR_CODE_NOT_CURRENT_DELEGATE: _ClassVar[ErrorCode]
    ERROR_CODE_UNKNOWN_INTENT: _ClassVar[ErrorCode]
    ERROR_CODE_FINAL_INTENT: _ClassVar[ErrorCode]
    ERROR_CODE_CANCELLED: _ClassVar[ErrorCode]
    ERROR_CODE_FAILED: _ClassVar[ErrorCode]
    ERROR_CODE_STALE_DELEGATION: _ClassVar[ErrorCode]
    ERROR_CODE_STATES_MISSING: _ClassVar[ErrorCode]
    ERROR_CODE_WRONG_LEAF: _ClassVar[ErrorCode]
    ERROR_CODE_CONTENTION: _ClassVar[ErrorCode]

class CoordinatorState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COORDINATOR_STATE_UNSPECIFIED: _ClassVar[CoordinatorState]
    COORDINATOR_STATE_IDLE: _ClassVar[CoordinatorState]
    COORDINATOR_STATE_OBSERVING: _ClassVar[CoordinatorState]
    COORDINATOR_STATE_STANDBY: _ClassVar[CoordinatorState]
    COORDINATOR_STATE_ELECT: _ClassVar[CoordinatorState]
    COORDINATOR_STATE_PREPARED: _ClassVar[CoordinatorState]
    COORDINATOR_STATE_ACTIVE: _ClassVar[CoordinatorState]
    COORDINATOR_STATE_FLUSH: _ClassVar[CoordinatorState]
    COORDINATOR_STATE_CLOSING: _ClassVar[CoordinatorState]

class HandoverReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HANDOVER_REASON_UNSPECIFIED: _ClassVar[HandoverReason]
    HANDOVER_REASON_OUTRANKS: _ClassVar[HandoverReason]
    HANDOVER_REASON_TRIED: _ClassVar[HandoverReason]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_ACCEPTED: _ClassVar[Verdict]
    VERDICT_REFUSED: _ClassVar[Verdict]
    VERDICT_BUSY: _ClassVar[Verdict]
SUBMIT_MODE_UNSPECIFIED: SubmitMode
SUBMIT_MODE_AUTO: SubmitMode
SUBMIT_MODE_EXTERNAL: SubmitMode
SUBMIT_MODE_CARRIED: SubmitMode
ANSWER_UNSPECIFIED: Answer
ANSWER_ACCEPTED: Answer
ANSWER_HELD: Answer
ANSWER_FULL: Answer
ANSWER_DISPATCHED: Answer
ANSWER_CONFIRMED: Answer
ANSWER_REJECTED: Answer
REJECTION_UNSPECIFIED: Rejection
REJECTION_MISMATCHED_BLOCK_HEIGHT: Rejection
REJECTION_NOT_PREFERRED_COORDINATOR: Rejection
REJECTION_NO_LEDGER: Rejection
REJECTION_NOT_ALLOWED: Rejection
REJECTION_MISSING_STATES: Rejection
REJECTION_UNAVAILABLE: Rejection
ASSEMBLY_OUTCOME_UNSPECIFIED: AssemblyOutcome
ASSEMBLY_OUTCOME_ASSEMBLED: AssemblyOutcome
ASSEMBLY_OUTCOME_REVERTED: AssemblyOutcome
ASSEMBLY_OUTCOME_PARKED: AssemblyOutcome
ERROR_CODE_UNSPECIFIED: ErrorCode
ERROR_CODE_NOT_CURRENT_DELEGATE: ErrorCode
ERROR_CODE_UNKNOWN_INTENT: ErrorCode
ERROR_CODE_FINAL_INTENT: ErrorCode
ERROR_CODE_CANCELLED: ErrorCode
ERROR_CODE_FAILED: ErrorCode
ERROR_CODE_STALE_DELEGATION: ErrorCode
ERROR_CODE_STATES_MISSING: ErrorCode
ERROR_CODE_WRONG_LEAF: ErrorCode
ERROR_CODE_CONTENTION: ErrorCode
COORDINATOR_STATE_UNSPECIFIED: CoordinatorState
COORDINATOR_STATE_IDLE: CoordinatorState
COORDINATOR_STATE_OBSERVING: CoordinatorState
COORDINATOR_STATE_STANDBY: CoordinatorState
COORDINATOR_STATE_ELECT: CoordinatorState
COORDINATOR_STATE_PREPARED: CoordinatorState
COORDINATOR_STATE_ACTIVE: CoordinatorState
COORDINATOR_STATE_FLUSH: CoordinatorState
COORDINATOR_STATE_CLOSING: CoordinatorState
HANDOVER_REASON_UNSPECIFIED: HandoverReason
HANDOVER_REASON_OUTRANKS: HandoverReason
HANDOVER_REASON_TRIED: HandoverReason
VERDICT_UNSPECIFIED: Verdict
VERDICT_ACCEPTED: Verdict
VERDICT_REFUSED: Verdict
VERDICT_BUSY: Verdict

class Frame(_message.Message):
    __slots__ = ("version_major", "version_minor", "envelopes")
    VERSION_MAJOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_MINOR_FIELD_NUMBER: _ClassVar[int]
    ENVELOPES_FIELD_NUMBER: _ClassVar[int]
    version_major: int
    version_minor: int
    envelopes: _containers.RepeatedCompositeFieldContainer[Envelope]
    def __init__(self, version_major: _Optional[int] = ..., version_minor: _Optional[int] = ..., envelopes: _Optional[_Iterable[_Union[Envelope, _Mapping]]] = ...) -> None: ...

class FrameVersion(_message.Message):
    __slots__ = ("version_major", "version_minor")
    VERSION_MAJOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_MINOR_FIELD_NUMBER: _ClassVar[int]
    version_major: int
    version_minor: int
    def __init__(self, version_major: _Optional[int] = ..., version_minor: _Optional[int] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("contract", "message_id", "correlation_id", "incarnation", "height", "no_ledger", "delegation_command", "delegation_accepted", "delegation_rejected", "assemble_request", "assemble_response", "assemble_error", "endorsement_request", "endorsement_response", "endorsement_error", "dispatch_confirmation_request", "dispatch_confirmation_response", "dispatch_confirmation_error", "coordinator_heartbeat", "submitter_heartbeat", "startup", "startup_acknowledgement", "handover_request", "handover", "transaction_dispatched", "transaction_reverted", "state_distribution", "state_distribution_acknowledgement", "state_request", "prepared_transaction", "prepared_transaction_acknowledgement", "verifier_request", "verifier_response", "listing_request", "deployment_proposal", "deployment_answer", "contract_taken_in", "deployment_withdrawn", "contracts_request", "contracts_response", "genesis_request", "genesis_response", "group_message", "group_message_acknowledgement", "holdings_request", "holdings_response")
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    NO_LEDGER_FIELD_NUMBER: _ClassVar[int]
    DELEGATION_COMMAND_FIELD_NUMBER: _ClassVar[int]
    DELEGATION_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    DELEGATION_REJECTED_FIELD_NUMBER: _ClassVar[int]
    ASSEMBLE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    ASSEMBLE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ASSEMBLE_ERROR_FIELD_NUMBER: _ClassVar[int]
    ENDORSEMENT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    ENDORSEMENT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ENDORSEMENT_ERROR_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_CONFIRMATION_REQUEST_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_CONFIRMATION_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_CONFIRMATION_ERROR_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SUBMITTER_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    STARTUP_FIELD_NUMBER: _ClassVar[int]
    STARTUP_ACKNOWLEDGEMENT_FIELD_NUMBER: _ClassVar[int]
    HANDOVER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    HANDOVER_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_DISPATCHED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_REVERTED_FIELD_NUMBER: _ClassVar[int]
    STATE_DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    STATE_DISTRIBUTION_ACKNOWLEDGEMENT_FIELD_NUMBER: _ClassVar[int]
    STATE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    PREPARED_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    PREPARED_TRANSACTION_ACKNOWLEDGEMENT_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LISTING_REQUEST_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_ANSWER_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_TAKEN_IN_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    CONTRACTS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CONTRACTS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    GENESIS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    GENESIS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    GROUP_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    GROUP_MESSAGE_ACKNOWLEDGEMENT_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    contract: bytes
    message_id: RequestId
    correlation_id: RequestId
    incarnation: int
    height: int
    no_ledger: bool
    delegation_command: DelegationCommand
    delegation_accepted: DelegationAccepted
    delegation_rejected: DelegationRejected
    assemble_request: AssembleRequest
    assemble_response: AssembleResponse
    assemble_error: AssembleError
    endorsement_request: EndorsementRequest
    endorsement_response: EndorsementResponse
    endorsement_error: EndorsementError
    dispatch_confirmation_request: DispatchConfirmationRequest
    dispatch_confirmation_response: DispatchConfirmationResponse
    dispatch_confirmation_error: DispatchConfirmationError
    coordinator_heartbeat: CoordinatorHeartbeat
    submitter_heartbeat: SubmitterHeartbeat
    startup: Startup
    startup_acknowledgement: StartupAcknowledgement
    handover_request: HandoverRequest
    handover: Handover
    transaction_dispatched: TransactionDispatched
    transaction_reverted: TransactionReverted
    state_distribution: StateDistribution
    state_distribution_acknowledgement: StateDistributionAcknowledgement
    state_request: StateRequest
    prepared_transaction: PreparedTransaction
    prepared_transaction_acknowledgement: PreparedTransactionAcknowledgement
    verifier_request: VerifierRequest
    verifier_response: VerifierResponse
    listing_request: ListingRequest
    deployment_proposal: DeploymentProposal
    deployment_answer: DeploymentAnswer
    contract_taken_in: ContractTakenIn
    deployment_withdrawn: DeploymentWithdrawn
    contracts_request: ContractsRequest
    contracts_response: ContractsResponse
    genesis_request: GenesisRequest
    genesis_response: GenesisResponse
    group_message: GroupMessage
    group_message_acknowledgement: GroupMessageAcknowledgement
    holdings_request: HoldingsRequest
    holdings_response: HoldingsResponse
    def __init__(self, contract: _Optional[bytes] = ..., message_id: _Optional[_Union[RequestId, _Mapping]] = ..., correlation_id: _Optional[_Union[RequestId, _Mapping]] = ..., incarnation: _Optional[int] = ..., height: _Optional[int] = ..., no_ledger: _Optional[bool] = ..., delegation_command: _Optional[_Union[DelegationCommand, _Mapping]] = ..., delegation_accepted: _Optional[_Union[DelegationAccepted, _Mapping]] = ..., delegation_rejected: _Optional[_Union[DelegationRejected, _Mapping]] = ..., assemble_request: _Optional[_Union[AssembleRequest, _Mapping]] = ..., assemble_response: _Optional[_Union[AssembleResponse, _Mapping]] = ..., assemble_error: _Optional[_Union[AssembleError, _Mapping]] = ..., endorsement_request: _Optional[_Union[EndorsementRequest, _Mapping]] = ..., endorsement_response: _Optional[_Union[EndorsementResponse, _Mapping]] = ..., endorsement_error: _Optional[_Union[EndorsementError, _Mapping]] = ..., dispatch_confirmation_request: _Optional[_Union[DispatchConfirmationRequest, _Mapping]] = ..., dispatch_confirmation_response: _Optional[_Union[DispatchConfirmationResponse, _Mapping]] = ..., dispatch_confirmation_error: _Optional[_Union[DispatchConfirmationError, _Mapping]] = ..., coordinator_heartbeat: _Optional[_Union[CoordinatorHeartbeat, _Mapping]] = ..., submitter_heartbeat: _Optional[_Union[SubmitterHeartbeat, _Mapping]] = ..., startup: _Optional[_Union[Startup, _Mapping]] = ..., startup_acknowledgement: _Optional[_Union[StartupAcknowledgement, _Mapping]] = ..., handover_request: _Optional[_Union[HandoverRequest, _Mapping]] = ..., handover: _Optional[_Union[Handover, _Mapping]] = ..., transaction_dispatched: _Optional[_Union[TransactionDispatched, _Mapping]] = ..., transaction_reverted: _Optional[_Union[TransactionReverted, _Mapping]] = ..., state_distribution: _Optional[_Union[StateDistribution, _Mapping]] = ..., state_distribution_acknowledgement: _Optional[_Union[StateDistributionAcknowledgement, _Mapping]] = ..., state_request: _Optional[_Union[StateRequest, _Mapping]] = ..., prepared_transaction: _Optional[_Union[PreparedTransaction, _Mapping]] = ..., prepared_transaction_acknowledgement: _Optional[_Union[PreparedTransactionAcknowledgement, _Mapping]] = ..., verifier_request: _Optional[_Union[VerifierRequest, _Mapping]] = ..., verifier_response: _Optional[_Union[VerifierResponse, _Mapping]] = ..., listing_request: _Optional[_Union[ListingRequest, _Mapping]] = ..., deployment_proposal: _Optional[_Union[DeploymentProposal, _Mapping]] = ..., deployment_answer: _Optional[_Union[DeploymentAnswer, _Mapping]] = ..., contract_taken_in: _Optional[_Union[ContractTakenIn, _Mapping]] = ..., deployment_withdrawn: _Optional[_Union[DeploymentWithdrawn, _Mapping]] = ..., contracts_request: _Optional[_Union[ContractsRequest, _Mapping]] = ..., contracts_response: _Optional[_Union[ContractsResponse, _Mapping]] = ..., genesis_request: _Optional[_Union[GenesisRequest, _Mapping]] = ..., genesis_response: _Optional[_Union[GenesisResponse, _Mapping]] = ..., group_message: _Optional[_Union[GroupMessage, _Mapping]] = ..., group_message_acknowledgement: _Optional[_Union[GroupMessageAcknowledgement, _Mapping]] = ..., holdings_request: _Optional[_Union[HoldingsRequest, _Mapping]] = ..., holdings_response: _Optional[_Union[HoldingsResponse, _Mapping]] = ...) -> None: ...

class RequestId(_message.Message):
    __slots__ = ("incarnation", "counter")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    counter: int
    def __init__(self, incarnation: _Optional[int] = ..., counter: _Optional[int] = ...) -> None: ...

class HeartbeatNumber(_message.Message):
    __slots__ = ("incarnation", "sequence")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    sequence: int
    def __init__(self, incarnation: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class DelegationNumber(_message.Message):
    __slots__ = ("incarnation", "counter")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    counter: int
    def __init__(self, incarnation: _Optional[int] = ..., counter: _Optional[int] = ...) -> None: ...

class Tried(_message.Message):
    __slots__ = ("node", "number", "is_demoted")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    IS_DEMOTED_FIELD_NUMBER: _ClassVar[int]
    node: str
    number: HeartbeatNumber
    is_demoted: bool
    def __init__(self, node: _Optional[str] = ..., number: _Optional[_Union[HeartbeatNumber, _Mapping]] = ..., is_demoted: _Optional[bool] = ...) -> None: ...

class AwaitedLeaf(_message.Message):
    __slots__ = ("contract", "intent", "leaf", "valid_until_s")
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    INTENT_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    contract: bytes
    intent: bytes
    leaf: bytes
    valid_until_s: int
    def __init__(self, contract: _Optional[bytes] = ..., intent: _Optional[bytes] = ..., leaf: _Optional[bytes] = ..., valid_until_s: _Optional[int] = ...) -> None: ...

class Intent(_message.Message):
    __slots__ = ("id", "sender", "payload", "depends_on", "parties", "idempotency_key", "submit_mode", "nonce", "awaits")
    ID_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    PARTIES_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_MODE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    AWAITS_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    sender: str
    payload: bytes
    depends_on: _containers.RepeatedScalarFieldContainer[bytes]
    parties: _containers.RepeatedScalarFieldContainer[str]
    idempotency_key: str
    submit_mode: SubmitMode
    nonce: bytes
    awaits: _containers.RepeatedCompositeFieldContainer[AwaitedLeaf]
    def __init__(self, id: _Optional[bytes] = ..., sender: _Optional[str] = ..., payload: _Optional[bytes] = ..., depends_on: _Optional[_Iterable[bytes]] = ..., parties: _Optional[_Iterable[str]] = ..., idempotency_key: _Optional[str] = ..., submit_mode: _Optional[_Union[SubmitMode, str]] = ..., nonce: _Optional[bytes] = ..., awaits: _Optional[_Iterable[_Union[AwaitedLeaf, _Mapping]]] = ...) -> None: ...

class StateId(_message.Message):
    __slots__ = ("leaf", "output")
    LEAF_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    leaf: bytes
    output: int
    def __init__(self, leaf: _Optional[bytes] = ..., output: _Optional[int] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("id", "commitment", "distribution", "content")
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    id: StateId
    commitment: bytes
    distribution: _containers.RepeatedScalarFieldContainer[str]
    content: bytes
    def __init__(self, id: _Optional[_Union[StateId, _Mapping]] = ..., commitment: _Optional[bytes] = ..., distribution: _Optional[_Iterable[str]] = ..., content: _Optional[bytes] = ...) -> None: ...

class Transition(_message.Message):
    __slots__ = ("intent", "leaf", "inputs", "reads", "outputs", "info", "valid_until_s", "signature", "calls", "preparation", "lock")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PREPARATION_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    leaf: bytes
    inputs: _containers.RepeatedCompositeFieldContainer[StateId]
    reads: _containers.RepeatedCompositeFieldContainer[StateId]
    outputs: _containers.RepeatedCompositeFieldContainer[State]
    info: _containers.RepeatedScalarFieldContainer[bytes]
    valid_until_s: int
    signature: bytes
    calls: _containers.RepeatedCompositeFieldContainer[Call]
    preparation: Preparation
    lock: LockChange
    def __init__(self, intent: _Optional[bytes] = ..., leaf: _Optional[bytes] = ..., inputs: _Optional[_Iterable[_Union[StateId, _Mapping]]] = ..., reads: _Optional[_Iterable[_Union[StateId, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[State, _Mapping]]] = ..., info: _Optional[_Iterable[bytes]] = ..., valid_until_s: _Optional[int] = ..., signature: _Optional[bytes] = ..., calls: _Optional[_Iterable[_Union[Call, _Mapping]]] = ..., preparation: _Optional[_Union[Preparation, _Mapping]] = ..., lock: _Optional[_Union[LockChange, _Mapping]] = ...) -> None: ...

class PartySignature(_message.Message):
    __slots__ = ("party", "signature")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    party: str
    signature: bytes
    def __init__(self, party: _Optional[str] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Attesters(_message.Message):
    __slots__ = ("signers", "endorsers")
    SIGNERS_FIELD_NUMBER: _ClassVar[int]
    ENDORSERS_FIELD_NUMBER: _ClassVar[int]
    signers: _containers.RepeatedCompositeFieldContainer[PartySignature]
    endorsers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, signers: _Optional[_Iterable[_Union[PartySignature, _Mapping]]] = ..., endorsers: _Optional[_Iterable[str]] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("to", "gas", "data")
    TO_FIELD_NUMBER: _ClassVar[int]
    GAS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    to: bytes
    gas: int
    data: bytes
    def __init__(self, to: _Optional[bytes] = ..., gas: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Preparation(_message.Message):
    __slots__ = ("committer", "condition")
    COMMITTER_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    committer: bytes
    condition: bytes
    def __init__(self, committer: _Optional[bytes] = ..., condition: _Optional[bytes] = ...) -> None: ...

class LockChange(_message.Message):
    __slots__ = ("kind", "lock", "presumed", "delegate", "expires_at_s", "spends", "cancels")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    PRESUMED_FIELD_NUMBER: _ClassVar[int]
    DELEGATE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_S_FIELD_NUMBER: _ClassVar[int]
    SPENDS_FIELD_NUMBER: _ClassVar[int]
    CANCELS_FIELD_NUMBER: _ClassVar[int]
    kind: int
    lock: bytes
    presumed: bytes
    delegate: bytes
    expires_at_s: int
    spends: bytes
    cancels: bytes
    def __init__(self, kind: _Optional[int] = ..., lock: _Optional[bytes] = ..., presumed: _Optional[bytes] = ..., delegate: _Optional[bytes] = ..., expires_at_s: _Optional[int] = ..., spends: _Optional[bytes] = ..., cancels: _Optional[bytes] = ...) -> None: ...

class Delegation(_message.Message):
    __slots__ = ("intent", "number", "revert_count", "is_voiding")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REVERT_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_VOIDING_FIELD_NUMBER: _ClassVar[int]
    intent: Intent
    number: DelegationNumber
    revert_count: int
    is_voiding: bool
    def __init__(self, intent: _Optional[_Union[Intent, _Mapping]] = ..., number: _Optional[_Union[DelegationNumber, _Mapping]] = ..., revert_count: _Optional[int] = ..., is_voiding: _Optional[bool] = ...) -> None: ...

class DelegationCommand(_message.Message):
    __slots__ = ("command_id", "delegations", "tried")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    DELEGATIONS_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    command_id: RequestId
    delegations: _containers.RepeatedCompositeFieldContainer[Delegation]
    tried: _containers.RepeatedCompositeFieldContainer[Tried]
    def __init__(self, command_id: _Optional[_Union[RequestId, _Mapping]] = ..., delegations: _Optional[_Iterable[_Union[Delegation, _Mapping]]] = ..., tried: _Optional[_Iterable[_Union[Tried, _Mapping]]] = ...) -> None: ...

class IntentAnswer(_message.Message):
    __slots__ = ("intent", "answer", "reason")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    answer: Answer
    reason: str
    def __init__(self, intent: _Optional[bytes] = ..., answer: _Optional[_Union[Answer, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class DelegationAccepted(_message.Message):
    __slots__ = ("command_id", "answers", "heartbeat")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    command_id: RequestId
    answers: _containers.RepeatedCompositeFieldContainer[IntentAnswer]
    heartbeat: HeartbeatNumber
    def __init__(self, command_id: _Optional[_Union[RequestId, _Mapping]] = ..., answers: _Optional[_Iterable[_Union[IntentAnswer, _Mapping]]] = ..., heartbeat: _Optional[_Union[HeartbeatNumber, _Mapping]] = ...) -> None: ...

class DelegationRejected(_message.Message):
    __slots__ = ("command_id", "rejection", "provided_height", "observed_height", "active", "active_age_ms", "active_number")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    REJECTION_FIELD_NUMBER: _ClassVar[int]
    PROVIDED_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    command_id: RequestId
    rejection: Rejection
    provided_height: int
    observed_height: int
    active: str
    active_age_ms: int
    active_number: HeartbeatNumber
    def __init__(self, command_id: _Optional[_Union[RequestId, _Mapping]] = ..., rejection: _Optional[_Union[Rejection, str]] = ..., provided_height: _Optional[int] = ..., observed_height: _Optional[int] = ..., active: _Optional[str] = ..., active_age_ms: _Optional[int] = ..., active_number: _Optional[_Union[HeartbeatNumber, _Mapping]] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("locks", "states")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[StateId]
    states: _containers.RepeatedCompositeFieldContainer[State]
    def __init__(self, locks: _Optional[_Iterable[_Union[StateId, _Mapping]]] = ..., states: _Optional[_Iterable[_Union[State, _Mapping]]] = ...) -> None: ...

class AssembleRequest(_message.Message):
    __slots__ = ("request_id", "intents", "snapshot")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INTENTS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    intents: _containers.RepeatedScalarFieldContainer[bytes]
    snapshot: Snapshot
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., intents: _Optional[_Iterable[bytes]] = ..., snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class AssemblyResult(_message.Message):
    __slots__ = ("intent", "outcome", "number", "transition", "reason", "attesters")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ATTESTERS_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    outcome: AssemblyOutcome
    number: DelegationNumber
    transition: Transition
    reason: str
    attesters: Attesters
    def __init__(self, intent: _Optional[bytes] = ..., outcome: _Optional[_Union[AssemblyOutcome, str]] = ..., number: _Optional[_Union[DelegationNumber, _Mapping]] = ..., transition: _Optional[_Union[Transition, _Mapping]] = ..., reason: _Optional[str] = ..., attesters: _Optional[_Union[Attesters, _Mapping]] = ...) -> None: ...

class AssembleResponse(_message.Message):
    __slots__ = ("request_id", "results", "took_ms")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TOOK_MS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    results: _containers.RepeatedCompositeFieldContainer[AssemblyResult]
    took_ms: int
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., results: _Optional[_Iterable[_Union[AssemblyResult, _Mapping]]] = ..., took_ms: _Optional[int] = ...) -> None: ...

class IntentError(_message.Message):
    __slots__ = ("intent", "code", "text")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    code: ErrorCode
    text: str
    def __init__(self, intent: _Optional[bytes] = ..., code: _Optional[_Union[ErrorCode, str]] = ..., text: _Optional[str] = ...) -> None: ...

class AssembleError(_message.Message):
    __slots__ = ("request_id", "errors")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    errors: _containers.RepeatedCompositeFieldContainer[IntentError]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., errors: _Optional[_Iterable[_Union[IntentError, _Mapping]]] = ...) -> None: ...

class RoundMember(_message.Message):
    __slots__ = ("transition", "sender", "nonce", "attesters")
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    ATTESTERS_FIELD_NUMBER: _ClassVar[int]
    transition: Transition
    sender: str
    nonce: bytes
    attesters: Attesters
    def __init__(self, transition: _Optional[_Union[Transition, _Mapping]] = ..., sender: _Optional[str] = ..., nonce: _Optional[bytes] = ..., attesters: _Optional[_Union[Attesters, _Mapping]] = ...) -> None: ...

class EndorsementRequest(_message.Message):
    __slots__ = ("request_id", "digest", "members", "valid_until_s", "tried", "makers", "approvals", "asks_approval")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    MAKERS_FIELD_NUMBER: _ClassVar[int]
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    ASKS_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    digest: bytes
    members: _containers.RepeatedCompositeFieldContainer[RoundMember]
    valid_until_s: int
    tried: _containers.RepeatedCompositeFieldContainer[Tried]
    makers: _containers.RepeatedCompositeFieldContainer[Transition]
    approvals: _containers.RepeatedCompositeFieldContainer[EndorserSignature]
    asks_approval: bool
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., digest: _Optional[bytes] = ..., members: _Optional[_Iterable[_Union[RoundMember, _Mapping]]] = ..., valid_until_s: _Optional[int] = ..., tried: _Optional[_Iterable[_Union[Tried, _Mapping]]] = ..., makers: _Optional[_Iterable[_Union[Transition, _Mapping]]] = ..., approvals: _Optional[_Iterable[_Union[EndorserSignature, _Mapping]]] = ..., asks_approval: _Optional[bool] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("intent", "reason", "kept", "leaf", "signature")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    reason: str
    kept: _containers.RepeatedCompositeFieldContainer[KeptStates]
    leaf: bytes
    signature: bytes
    def __init__(self, intent: _Optional[bytes] = ..., reason: _Optional[str] = ..., kept: _Optional[_Iterable[_Union[KeptStates, _Mapping]]] = ..., leaf: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class EndorsementResponse(_message.Message):
    __slots__ = ("request_id", "digest", "signature", "refusals")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    digest: bytes
    signature: bytes
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., digest: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class EndorsementError(_message.Message):
    __slots__ = ("request_id", "rejection", "accepted", "accepted_number", "missing", "unjudged")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REJECTION_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_NUMBER_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    UNJUDGED_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    rejection: Rejection
    accepted: str
    accepted_number: HeartbeatNumber
    missing: _containers.RepeatedScalarFieldContainer[bytes]
    unjudged: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., rejection: _Optional[_Union[Rejection, str]] = ..., accepted: _Optional[str] = ..., accepted_number: _Optional[_Union[HeartbeatNumber, _Mapping]] = ..., missing: _Optional[_Iterable[bytes]] = ..., unjudged: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DispatchItem(_message.Message):
    __slots__ = ("intent", "number", "leaf", "signature", "valid_until_s", "transition")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    number: DelegationNumber
    leaf: bytes
    signature: bytes
    valid_until_s: int
    transition: Transition
    def __init__(self, intent: _Optional[bytes] = ..., number: _Optional[_Union[DelegationNumber, _Mapping]] = ..., leaf: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., valid_until_s: _Optional[int] = ..., transition: _Optional[_Union[Transition, _Mapping]] = ...) -> None: ...

class DispatchConfirmationRequest(_message.Message):
    __slots__ = ("request_id", "digest", "items")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    digest: bytes
    items: _containers.RepeatedCompositeFieldContainer[DispatchItem]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., digest: _Optional[bytes] = ..., items: _Optional[_Iterable[_Union[DispatchItem, _Mapping]]] = ...) -> None: ...

class DispatchConfirmationResponse(_message.Message):
    __slots__ = ("request_id", "intents")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INTENTS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    intents: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., intents: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DispatchConfirmationError(_message.Message):
    __slots__ = ("request_id", "errors")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    errors: _containers.RepeatedCompositeFieldContainer[IntentError]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., errors: _Optional[_Iterable[_Union[IntentError, _Mapping]]] = ...) -> None: ...

class ListedIntent(_message.Message):
    __slots__ = ("intent", "state")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    state: str
    def __init__(self, intent: _Optional[bytes] = ..., state: _Optional[str] = ...) -> None: ...

class CoordinatorHeartbeat(_message.Message):
    __slots__ = ("number", "state", "intents", "successor", "refused", "is_whole", "gone", "count", "digest", "missing")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INTENTS_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    IS_WHOLE_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    number: HeartbeatNumber
    state: CoordinatorState
    intents: _containers.RepeatedCompositeFieldContainer[ListedIntent]
    successor: str
    refused: str
    is_whole: bool
    gone: _containers.RepeatedScalarFieldContainer[bytes]
    count: int
    digest: int
    missing: _containers.RepeatedCompositeFieldContainer[MissingEndorser]
    def __init__(self, number: _Optional[_Union[HeartbeatNumber, _Mapping]] = ..., state: _Optional[_Union[CoordinatorState, str]] = ..., intents: _Optional[_Iterable[_Union[ListedIntent, _Mapping]]] = ..., successor: _Optional[str] = ..., refused: _Optional[str] = ..., is_whole: _Optional[bool] = ..., gone: _Optional[_Iterable[bytes]] = ..., count: _Optional[int] = ..., digest: _Optional[int] = ..., missing: _Optional[_Iterable[_Union[MissingEndorser, _Mapping]]] = ...) -> None: ...

class MissingEndorser(_message.Message):
    __slots__ = ("endorser", "age_ms", "said")
    ENDORSER_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    SAID_FIELD_NUMBER: _ClassVar[int]
    endorser: str
    age_ms: int
    said: str
    def __init__(self, endorser: _Optional[str] = ..., age_ms: _Optional[int] = ..., said: _Optional[str] = ...) -> None: ...

class ListingRequest(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: HeartbeatNumber
    def __init__(self, number: _Optional[_Union[HeartbeatNumber, _Mapping]] = ...) -> None: ...

class SubmittedIntent(_message.Message):
    __slots__ = ("intent", "leaf", "signer", "nonce", "submission_count", "submitted_age_ms", "activity", "hash", "most_wei", "tip_wei")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    MOST_WEI_FIELD_NUMBER: _ClassVar[int]
    TIP_WEI_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    leaf: bytes
    signer: str
    nonce: int
    submission_count: int
    submitted_age_ms: int
    activity: str
    hash: bytes
    most_wei: int
    tip_wei: int
    def __init__(self, intent: _Optional[bytes] = ..., leaf: _Optional[bytes] = ..., signer: _Optional[str] = ..., nonce: _Optional[int] = ..., submission_count: _Optional[int] = ..., submitted_age_ms: _Optional[int] = ..., activity: _Optional[str] = ..., hash: _Optional[bytes] = ..., most_wei: _Optional[int] = ..., tip_wei: _Optional[int] = ...) -> None: ...

class SubmitterHeartbeat(_message.Message):
    __slots__ = ("number", "intents")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    INTENTS_FIELD_NUMBER: _ClassVar[int]
    number: HeartbeatNumber
    intents: _containers.RepeatedCompositeFieldContainer[SubmittedIntent]
    def __init__(self, number: _Optional[_Union[HeartbeatNumber, _Mapping]] = ..., intents: _Optional[_Iterable[_Union[SubmittedIntent, _Mapping]]] = ...) -> None: ...

class Startup(_message.Message):
    __slots__ = ("startup_id",)
    STARTUP_ID_FIELD_NUMBER: _ClassVar[int]
    startup_id: RequestId
    def __init__(self, startup_id: _Optional[_Union[RequestId, _Mapping]] = ...) -> None: ...

class StartupAcknowledgement(_message.Message):
    __slots__ = ("startup_id",)
    STARTUP_ID_FIELD_NUMBER: _ClassVar[int]
    startup_id: RequestId
    def __init__(self, startup_id: _Optional[_Union[RequestId, _Mapping]] = ...) -> None: ...

class HandoverRequest(_message.Message):
    __slots__ = ("request_id", "reason")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    reason: HandoverReason
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., reason: _Optional[_Union[HandoverReason, str]] = ...) -> None: ...

class FlushPoint(_message.Message):
    __slots__ = ("digest", "intent")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    INTENT_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    intent: bytes
    def __init__(self, digest: _Optional[bytes] = ..., intent: _Optional[bytes] = ...) -> None: ...

class HandedOver(_message.Message):
    __slots__ = ("point", "transition")
    POINT_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    point: FlushPoint
    transition: Transition
    def __init__(self, point: _Optional[_Union[FlushPoint, _Mapping]] = ..., transition: _Optional[_Union[Transition, _Mapping]] = ...) -> None: ...

class HandedRound(_message.Message):
    __slots__ = ("leaves", "valid_until_s", "signatures")
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    leaves: _containers.RepeatedScalarFieldContainer[bytes]
    valid_until_s: int
    signatures: _containers.RepeatedCompositeFieldContainer[EndorserSignature]
    def __init__(self, leaves: _Optional[_Iterable[bytes]] = ..., valid_until_s: _Optional[int] = ..., signatures: _Optional[_Iterable[_Union[EndorserSignature, _Mapping]]] = ...) -> None: ...

class Handover(_message.Message):
    __slots__ = ("request_id", "points", "rounds")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    points: _containers.RepeatedCompositeFieldContainer[HandedOver]
    rounds: _containers.RepeatedCompositeFieldContainer[HandedRound]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., points: _Optional[_Iterable[_Union[HandedOver, _Mapping]]] = ..., rounds: _Optional[_Iterable[_Union[HandedRound, _Mapping]]] = ...) -> None: ...

class KeptStates(_message.Message):
    __slots__ = ("intent", "leaf", "inputs", "valid_until_s")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    leaf: bytes
    inputs: _containers.RepeatedCompositeFieldContainer[StateId]
    valid_until_s: int
    def __init__(self, intent: _Optional[bytes] = ..., leaf: _Optional[bytes] = ..., inputs: _Optional[_Iterable[_Union[StateId, _Mapping]]] = ..., valid_until_s: _Optional[int] = ...) -> None: ...

class TransactionDispatched(_message.Message):
    __slots__ = ("digest", "intents")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    INTENTS_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    intents: _containers.RepeatedCompositeFieldContainer[SubmittedIntent]
    def __init__(self, digest: _Optional[bytes] = ..., intents: _Optional[_Iterable[_Union[SubmittedIntent, _Mapping]]] = ...) -> None: ...

class TransactionReverted(_message.Message):
    __slots__ = ("intent", "number", "leaf", "reason", "refusals")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    number: DelegationNumber
    leaf: bytes
    reason: str
    refusals: _containers.RepeatedCompositeFieldContainer[EndorserSignature]
    def __init__(self, intent: _Optional[bytes] = ..., number: _Optional[_Union[DelegationNumber, _Mapping]] = ..., leaf: _Optional[bytes] = ..., reason: _Optional[str] = ..., refusals: _Optional[_Iterable[_Union[EndorserSignature, _Mapping]]] = ...) -> None: ...

class StateDistribution(_message.Message):
    __slots__ = ("digest", "transitions", "part")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TRANSITIONS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    transitions: _containers.RepeatedCompositeFieldContainer[Transition]
    part: int
    def __init__(self, digest: _Optional[bytes] = ..., transitions: _Optional[_Iterable[_Union[Transition, _Mapping]]] = ..., part: _Optional[int] = ...) -> None: ...

class StateDistributionAcknowledgement(_message.Message):
    __slots__ = ("digest", "part")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    part: int
    def __init__(self, digest: _Optional[bytes] = ..., part: _Optional[int] = ...) -> None: ...

class StateRequest(_message.Message):
    __slots__ = ("leaves",)
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    leaves: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, leaves: _Optional[_Iterable[bytes]] = ...) -> None: ...

class EndorserSignature(_message.Message):
    __slots__ = ("endorser", "signature")
    ENDORSER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    endorser: str
    signature: bytes
    def __init__(self, endorser: _Optional[str] = ..., signature: _Optional[bytes] = ...) -> None: ...

class PreparedTransaction(_message.Message):
    __slots__ = ("digest", "leaves", "valid_until_s", "signatures", "transition")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    leaves: _containers.RepeatedScalarFieldContainer[bytes]
    valid_until_s: int
    signatures: _containers.RepeatedCompositeFieldContainer[EndorserSignature]
    transition: Transition
    def __init__(self, digest: _Optional[bytes] = ..., leaves: _Optional[_Iterable[bytes]] = ..., valid_until_s: _Optional[int] = ..., signatures: _Optional[_Iterable[_Union[EndorserSignature, _Mapping]]] = ..., transition: _Optional[_Union[Transition, _Mapping]] = ...) -> None: ...

class PreparedTransactionAcknowledgement(_message.Message):
    __slots__ = ("intent", "leaf")
    INTENT_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    intent: bytes
    leaf: bytes
    def __init__(self, intent: _Optional[bytes] = ..., leaf: _Optional[bytes] = ...) -> None: ...

class VerifierRequest(_message.Message):
    __slots__ = ("request_id", "party", "asks_announced")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PARTY_FIELD_NUMBER: _ClassVar[int]
    ASKS_ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    party: str
    asks_announced: bool
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., party: _Optional[str] = ..., asks_announced: _Optional[bool] = ...) -> None: ...

class VerifierResponse(_message.Message):
    __slots__ = ("request_id", "party", "verifier", "announced")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PARTY_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    party: str
    verifier: str
    announced: bool
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., party: _Optional[str] = ..., verifier: _Optional[str] = ..., announced: _Optional[bool] = ...) -> None: ...

class DeploymentProposal(_message.Message):
    __slots__ = ("request_id", "deployment", "genesis", "factory", "signers")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    GENESIS_FIELD_NUMBER: _ClassVar[int]
    FACTORY_FIELD_NUMBER: _ClassVar[int]
    SIGNERS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    deployment: bytes
    genesis: bytes
    factory: bytes
    signers: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., deployment: _Optional[bytes] = ..., genesis: _Optional[bytes] = ..., factory: _Optional[bytes] = ..., signers: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DeploymentAnswer(_message.Message):
    __slots__ = ("request_id", "deployment", "verdict", "endorser", "reason", "asked_since_s")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    ENDORSER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ASKED_SINCE_S_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    deployment: bytes
    verdict: Verdict
    endorser: bytes
    reason: str
    asked_since_s: int
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., deployment: _Optional[bytes] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., endorser: _Optional[bytes] = ..., reason: _Optional[str] = ..., asked_since_s: _Optional[int] = ...) -> None: ...

class ContractTakenIn(_message.Message):
    __slots__ = ("deployment",)
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    deployment: bytes
    def __init__(self, deployment: _Optional[bytes] = ...) -> None: ...

class DeploymentWithdrawn(_message.Message):
    __slots__ = ("deployment",)
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    deployment: bytes
    def __init__(self, deployment: _Optional[bytes] = ...) -> None: ...

class ContractsRequest(_message.Message):
    __slots__ = ("request_id", "after")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    after: bytes
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., after: _Optional[bytes] = ...) -> None: ...

class ContractsResponse(_message.Message):
    __slots__ = ("request_id", "contracts")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONTRACTS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    contracts: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., contracts: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GenesisRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ...) -> None: ...

class GenesisResponse(_message.Message):
    __slots__ = ("request_id", "deployment", "genesis")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    GENESIS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    deployment: bytes
    genesis: bytes
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., deployment: _Optional[bytes] = ..., genesis: _Optional[bytes] = ...) -> None: ...

class GroupMessage(_message.Message):
    __slots__ = ("id", "sent_at_ms", "correlation_id", "topic", "content")
    ID_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    sent_at_ms: int
    correlation_id: bytes
    topic: str
    content: bytes
    def __init__(self, id: _Optional[bytes] = ..., sent_at_ms: _Optional[int] = ..., correlation_id: _Optional[bytes] = ..., topic: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class GroupMessageAcknowledgement(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    def __init__(self, id: _Optional[bytes] = ...) -> None: ...

class HoldingsRequest(_message.Message):
    __slots__ = ("request_id", "height", "block_hash", "holdings")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_HASH_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    height: int
    block_hash: bytes
    holdings: _containers.RepeatedCompositeFieldContainer[Holding]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., height: _Optional[int] = ..., block_hash: _Optional[bytes] = ..., holdings: _Optional[_Iterable[_Union[Holding, _Mapping]]] = ...) -> None: ...

class Holding(_message.Message):
    __slots__ = ("leaf", "proof")
    LEAF_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    leaf: bytes
    proof: bytes
    def __init__(self, leaf: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class HoldingsResponse(_message.Message):
    __slots__ = ("request_id", "leaves")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    request_id: RequestId
    leaves: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, request_id: _Optional[_Union[RequestId, _Mapping]] = ..., leaves: _Optional[_Iterable[bytes]] = ...) -> None: ...
