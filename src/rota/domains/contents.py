"""The bytes of a private state: its record, a salt, and who may see it.

    ["state", "NotoCoin", "0x<salt>", ["notary@node1", "bob@node2"], ["bob@node2", "100"]]

The commitment on the ledger is the hash of these bytes. The salt makes it hide what it commits to: amounts and names
can be guessed, 32 random bytes cannot. The readers stand inside, so that who may see a state is bound with it and an
endorser can hold the distribution list against it. A state may be spent or read later; an `info` tells the parties of
one transaction about it and nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from rota.domains.records import Bytes32, Field, Record, Rejected, Schema, fields_of, packed, shown, unpacked
from rota.types import Contract, Mode, NodeName, Party, node_of

SALT_BYTES: Final = 32
READERS_MAX: Final = 64
CONTENT_BYTES_MAX: Final = 1_048_576

_INFO_PREFIX: Final = b'["info",'


class Role(Enum):
    """What the ledger does with it."""

    STATE = "state"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Content:
    """What the bytes of a state say."""

    role: Role
    record: Record
    salt: bytes
    readers: tuple[Party, ...]

    def shown(self) -> dict[str, object]:
        """The record as the API shows it, with its salt."""
        return {"salt": "0x" + self.salt.hex(), **shown(self.record)}


@dataclass(frozen=True, slots=True)
class _Salted(Record):
    salt: Bytes32


_SALT: Final[tuple[Field, ...]] = fields_of(_Salted)


def name_of(record_type: type[Record]) -> str:
    """The name of a schema: the class's own, or what it says as `schema_name`."""
    return record_type.schema_name or record_type.__name__


def schema_of(record_type: type[Record]) -> Schema:
    """The schema of states that hold such records; the salt stands first."""
    return Schema(name_of(record_type), _SALT + fields_of(record_type), record_type.labels)


def seal(content: Content) -> bytes:
    """The bytes that are hashed, stored and sent."""
    assert len(content.salt) == SALT_BYTES, f"a salt is {SALT_BYTES} bytes, not {len(content.salt)}"
    assert len(content.readers) <= READERS_MAX, f"a state has at most {READERS_MAX} readers"
    name = name_of(type(content.record))
    written = [content.role.value, name, "0x" + content.salt.hex(), list(content.readers), packed(content.record)]
    return msgspec.json.encode(written)


def unseal(known: Mapping[str, type[Record]], sealed: bytes) -> Content:
    """What the bytes say, given the record classes by the names of their schemas. `Rejected` when it is nonsense."""
    if len(sealed) > CONTENT_BYTES_MAX:
        raise Rejected("state", f"must be at most {CONTENT_BYTES_MAX} bytes")
    try:
        read = msgspec.json.decode(sealed, type=tuple[str, str, str, tuple[str, ...], list[object]])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Rejected("state", f"is not a record: {error}") from None
    role, name, salt, readers, values = read
    record_type = known.get(name)
    if record_type is None or role not in ("state", "info") or len(readers) > READERS_MAX:
        raise Rejected("state", f"is not a {role} that this domain knows: {name}")
    record = unpacked(record_type, values, name)
    content = Content(Role(role), record, _salt_of(salt), tuple(Party(reader) for reader in readers))
    if seal(content) != sealed:
        raise Rejected("state", "is not in its canonical form")
    return content


def is_info(sealed: bytes) -> bool:
    """It is no state that could be spent: whoever keeps what is available need not keep it."""
    return sealed.startswith(_INFO_PREFIX)


def distribution_of(contract: Contract, sender: Party, readers: tuple[Party, ...]) -> tuple[NodeName, ...]:
    """The nodes that get a state's bytes: who orders and checks it, who made it, and those of its readers.

    In `sender` mode nobody but the sender coordinates.
    """
    committee = () if contract.mode is Mode.SENDER else contract.committee
    nodes = (*committee, *contract.endorsers, node_of(sender), *(node_of(reader) for reader in readers))
    return tuple(dict.fromkeys(nodes))


def _salt_of(text: str) -> bytes:
    try:
        salt = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        salt = b""
    if len(salt) != SALT_BYTES:
        raise Rejected("salt", f"must be {SALT_BYTES} bytes")
    return salt
