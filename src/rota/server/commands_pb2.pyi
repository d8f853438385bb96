import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("application_id", "command_id", "party", "act_as", "read_as", "submission_id", "deduplication_duration", "deduplication_offset", "transaction")
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    PARTY_FIELD_NUMBER: _ClassVar[int]
    ACT_AS_FIELD_NUMBER: _ClassVar[int]
    READ_AS_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_ID_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATION_DURATION_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATION_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    application_id: str
    command_id: str
    party: str
    act_as: _containers.RepeatedScalarFieldContainer[str]
    read_as: _containers.RepeatedScalarFieldContainer[str]
    submission_id: str
    deduplication_duration: _duration_pb2.Duration
    deduplication_offset: int
    transaction: Transaction
    def __init__(self, application_id: _Optional[str] = ..., command_id: _Optional[str] = ..., party: _Optional[str] = ..., act_as: _Optional[_Iterable[str]] = ..., read_as: _Optional[_Iterable[str]] = ..., submission_id: _Optional[str] = ..., deduplication_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deduplication_offset: _Optional[int] = ..., transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class Transaction(_message.Message):
    __slots__ = ("type", "domain", "to", "function", "data_json", "abi_json", "bytecode", "depends_on", "gas", "value", "abi_reference", "payees")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    ABI_JSON_FIELD_NUMBER: _ClassVar[int]
    BYTECODE_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    GAS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ABI_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PAYEES_FIELD_NUMBER: _ClassVar[int]
    type: str
    domain: str
    to: str
    function: str
    data_json: str
    abi_json: str
    bytecode: bytes
    depends_on: _containers.RepeatedScalarFieldContainer[str]
    gas: str
    value: str
    abi_reference: bytes
    payees: str
    def __init__(self, type: _Optional[str] = ..., domain: _Optional[str] = ..., to: _Optional[str] = ..., function: _Optional[str] = ..., data_json: _Optional[str] = ..., abi_json: _Optional[str] = ..., bytecode: _Optional[bytes] = ..., depends_on: _Optional[_Iterable[str]] = ..., gas: _Optional[str] = ..., value: _Optional[str] = ..., abi_reference: _Optional[bytes] = ..., payees: _Optional[str] = ..., **kwargs) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: Command
    def __init__(self, command: _Optional[_Union[Command, _Mapping]] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("submission_id", "transaction_id")
    SUBMISSION_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    submission_id: str
    transaction_id: str
    def __init__(self, submission_id: _Optional[str] = ..., transaction_id: _Optional[str] = ...) -> None: ...

class SubmitAndWaitRequest(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: Command
    def __init__(self, command: _Optional[_Union[Command, _Mapping]] = ...) -> None: ...

class SubmitAndWaitResponse(_message.Message):
    __slots__ = ("submission_id", "transaction_id", "completion_offset")
    SUBMISSION_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_OFFSET_FIELD_NUMBER: _ClassVar[int]
    submission_id: str
    transaction_id: str
    completion_offset: int
    def __init__(self, submission_id: _Optional[str] = ..., transaction_id: _Optional[str] = ..., completion_offset: _Optional[int] = ...) -> None: ...

class CompletionStreamRequest(_message.Message):
    __slots__ = ("application_id", "parties", "begin_exclusive")
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    PARTIES_FIELD_NUMBER: _ClassVar[int]
    BEGIN_EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    application_id: str
    parties: _containers.RepeatedScalarFieldContainer[str]
    begin_exclusive: int
    def __init__(self, application_id: _Optional[str] = ..., parties: _Optional[_Iterable[str]] = ..., begin_exclusive: _Optional[int] = ...) -> None: ...

class CompletionStreamResponse(_message.Message):
    __slots__ = ("completion", "checkpoint")
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    completion: Completion
    checkpoint: Checkpoint
    def __init__(self, completion: _Optional[_Union[Completion, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ("command_id", "application_id", "act_as", "submission_id", "status", "transaction_id", "offset", "published_at", "deduplication_duration", "deduplication_offset", "corrects_offset")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    ACT_AS_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATION_DURATION_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATION_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CORRECTS_OFFSET_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    application_id: str
    act_as: _containers.RepeatedScalarFieldContainer[str]
    submission_id: str
    status: _status_pb2.Status
    transaction_id: str
    offset: int
    published_at: _timestamp_pb2.Timestamp
    deduplication_duration: _duration_pb2.Duration
    deduplication_offset: int
    corrects_offset: int
    def __init__(self, command_id: _Optional[str] = ..., application_id: _Optional[str] = ..., act_as: _Optional[_Iterable[str]] = ..., submission_id: _Optional[str] = ..., status: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., transaction_id: _Optional[str] = ..., offset: _Optional[int] = ..., published_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deduplication_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deduplication_offset: _Optional[int] = ..., corrects_offset: _Optional[int] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("offset", "published_at")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    published_at: _timestamp_pb2.Timestamp
    def __init__(self, offset: _Optional[int] = ..., published_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CompletionEndRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CompletionEndResponse(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class GetConfigurationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigurationResponse(_message.Message):
    __slots__ = ("max_deduplication_duration",)
    MAX_DEDUPLICATION_DURATION_FIELD_NUMBER: _ClassVar[int]
    max_deduplication_duration: _duration_pb2.Duration
    def __init__(self, max_deduplication_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PruneRequest(_message.Message):
    __slots__ = ("prune_up_to",)
    PRUNE_UP_TO_FIELD_NUMBER: _ClassVar[int]
    prune_up_to: int
    def __init__(self, prune_up_to: _Optional[int] = ...) -> None: ...

class PruneResponse(_message.Message):
    __slots__ = ("pruned_up_to",)
    PRUNED_UP_TO_FIELD_NUMBER: _ClassVar[int]
    pruned_up_to: int
    def __init__(self, pruned_up_to: _Optional[int] = ...) -> None: ...
