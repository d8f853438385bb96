from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_STOPPING: _ClassVar[Reason]
    REASON_CROSSED: _ClassVar[Reason]
    REASON_REPLACED: _ClassVar[Reason]
    REASON_NO_PONG: _ClassVar[Reason]
    REASON_STRANGER: _ClassVar[Reason]
    REASON_EXPIRED: _ClassVar[Reason]
    REASON_SWAPPED_NAME: _ClassVar[Reason]
    REASON_VERSION: _ClassVar[Reason]
    REASON_MALFORMED: _ClassVar[Reason]
    REASON_FLOOD: _ClassVar[Reason]
    REASON_BUSY: _ClassVar[Reason]
REASON_UNSPECIFIED: Reason
REASON_STOPPING: Reason
REASON_CROSSED: Reason
REASON_REPLACED: Reason
REASON_NO_PONG: Reason
REASON_STRANGER: Reason
REASON_EXPIRED: Reason
REASON_SWAPPED_NAME: Reason
REASON_VERSION: Reason
REASON_MALFORMED: Reason
REASON_FLOOD: Reason
REASON_BUSY: Reason

class Part(_message.Message):
    __slots__ = ("hello", "frame", "ping", "pong", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    frame: bytes
    ping: int
    pong: int
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., frame: _Optional[bytes] = ..., ping: _Optional[int] = ..., pong: _Optional[int] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version_major", "version_minor", "node", "peer", "life", "is_renewal", "shown_fingerprint", "automation_account", "ranked_triggers")
    VERSION_MAJOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_MINOR_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    LIFE_FIELD_NUMBER: _ClassVar[int]
    IS_RENEWAL_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    AUTOMATION_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    RANKED_TRIGGERS_FIELD_NUMBER: _ClassVar[int]
    version_major: int
    version_minor: int
    node: str
    peer: str
    life: bytes
    is_renewal: bool
    shown_fingerprint: bytes
    automation_account: bytes
    ranked_triggers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version_major: _Optional[int] = ..., version_minor: _Optional[int] = ..., node: _Optional[str] = ..., peer: _Optional[str] = ..., life: _Optional[bytes] = ..., is_renewal: _Optional[bool] = ..., shown_fingerprint: _Optional[bytes] = ..., automation_account: _Optional[bytes] = ..., ranked_triggers: _Optional[_Iterable[str]] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason", "text")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    text: str
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., text: _Optional[str] = ...) -> None: ...
