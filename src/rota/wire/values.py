"""Single values of protobuf messages, each checked: numbers, ids, hashes, names, and small messages."""

from __future__ import annotations

import re
from typing import Final, NoReturn

import rota.wire.peer_pb2 as pb
from rota.model import types
from rota.model.digests import INTENT_BYTES, NONCE_BYTES, WORD_BYTES
from rota.wire.enumerations import Enumeration, Member, Number
from rota.wire.limits import Limits

ADDRESS_BYTES: Final = 20
NUMBER_MAX: Final = 2**63 - 1
OUTPUT_MAX: Final = 255
_LOCK_KINDS: Final = frozenset(types.LockKind)

# Control characters, and invisible ones that change how a line looks. The list is here, and not in
# `str.isprintable`, so that nodes on different versions of Python agree about a name.
_NOT_IN_A_NAME: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


class Refused(Exception):
    """A value that no honest peer sends."""


class UnknownValue(Refused):
    """A value that a peer of a newer minor version may send."""


def name_flaw(name: str, limits: Limits) -> str:
    """Return why no peer would read a message with this name in it, or ""."""
    if not name:
        return "a name is empty"
    if _NOT_IN_A_NAME.search(name):
        return "a name has a control character in it"
    is_short = len(name) <= limits.name_bytes_max and len(name.encode()) <= limits.name_bytes_max
    return "" if is_short else f"a name has more than {limits.name_bytes_max} bytes"


def contract_address(address: bytes) -> types.ContractAddress:
    return types.ContractAddress("0x" + sized(address, ADDRESS_BYTES, "a contract's address").hex())


def call(wire: pb.Call) -> types.Call:
    if wire.gas > types.CALL_GAS_MAX:
        refuse(f"a call's gas is at most {types.CALL_GAS_MAX}, not {wire.gas}")
    data = opaque(wire.data, types.CALL_BYTES_MAX, "a call's data")
    return types.Call(contract_address(wire.to), wire.gas, data)


def preparation(wire: pb.Preparation) -> types.Preparation:
    return types.Preparation(contract_address(wire.committer), word(wire.condition, "a condition"))


def lock_change(wire: pb.LockChange) -> types.LockChange:
    if wire.kind not in _LOCK_KINDS:
        refuse(f"a lock's kind is 1 to {max(_LOCK_KINDS)}, not {wire.kind}")
    kind = types.LockKind(wire.kind)
    is_set = kind is types.LockKind.SET
    has_end = kind in types.MAKING_RECORD
    if (not has_end and wire.expires_at_s) or (not is_set and (wire.spends or wire.cancels)):
        refuse("a change of a lock has what only a new record has")
    if kind not in types.NAMING_DELEGATE and wire.delegate:
        refuse("the end of a lock names a delegate")
    return types.LockChange(
        kind=kind,
        lock=word(wire.lock, "a lock's id"),
        presumed=contract_address(wire.presumed),
        delegate=contract_address(wire.delegate) if kind in types.NAMING_DELEGATE else types.NO_DELEGATE,
        expires_at_s=wire.expires_at_s,  # Of 64 bits, as on the ledger: 2**64 - 1 is never.
        spends=leaf(wire.spends) if is_set else types.NO_LEAF,
        cancels=leaf(wire.cancels) if is_set else types.NO_LEAF,
    )


def request_id(wire: pb.RequestId) -> types.RequestId:
    return types.RequestId(number(wire.incarnation), number(wire.counter))


def heartbeat_number(wire: pb.HeartbeatNumber) -> types.HeartbeatNumber:
    return types.HeartbeatNumber(number(wire.incarnation), number(wire.sequence))


def delegation_number(wire: pb.DelegationNumber) -> types.DelegationNumber:
    return types.DelegationNumber(number(wire.incarnation), number(wire.counter))


def state_id(wire: pb.StateId) -> types.StateId:
    output = wire.output
    if output > OUTPUT_MAX:
        refuse(f"an output's number is at most {OUTPUT_MAX}, not {output}")
    return types.StateId(leaf(wire.leaf), output)


def intent_id(content: bytes) -> types.IntentId:
    return types.IntentId(sized(content, INTENT_BYTES, "an intent's id"))


def nonce(content: bytes) -> bytes:
    return opaque(content, NONCE_BYTES, "a nonce")


def leaf(content: bytes) -> types.Leaf:
    return types.Leaf(word(content, "a leaf"))


def digest(content: bytes) -> types.Digest:
    return types.Digest(word(content, "a digest"))


def word(content: bytes, what: str) -> bytes:
    return sized(content, WORD_BYTES, what)


def sized(content: bytes, size_bytes: int, what: str) -> bytes:
    if len(content) != size_bytes:
        refuse(f"{what} has {size_bytes} bytes, not {len(content)}")
    return content


def opaque(content: bytes, bytes_max: int, what: str) -> bytes:
    if len(content) > bytes_max:
        refuse(f"{what} has at most {bytes_max} bytes, not {len(content)}")
    return content


def bounded(text: str, bytes_max: int, what: str) -> str:
    if len(text) > bytes_max or not (text.isascii() or len(text.encode()) <= bytes_max):
        refuse(f"{what} has more than {bytes_max} bytes")
    return text


def number(value: int) -> int:
    """A number that every database and every language can hold."""
    if value > NUMBER_MAX:
        refuse(f"a number is at most {NUMBER_MAX}, not {value}")
    return value


def member(enumeration: Enumeration[Member, Number], value: int) -> Member:
    found = enumeration.members.get(value)
    if found is None:
        raise UnknownValue(f"no {enumeration.name} has the number {value}")
    return found


def refuse(reason: str) -> NoReturn:
    raise Refused(reason)
