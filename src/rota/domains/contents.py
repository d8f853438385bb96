"""The bytes of a private state: its record, infos, readers and a salt.

    [["NotoCoin", ["bob@node2", "100"]], [], ["notary@node1", "bob@node2"], "0x<salt>"]

The commitment on the ledger is the hash of these bytes. The salt makes the commitment hiding: amounts and names can be
guessed, 32 random bytes cannot. The readers are part of the bytes, so that the commitment binds them and an endorser
can check the distribution list against them.

An info informs the readers of a transaction and is nothing that could be spent. It is carried by a state that has the
same readers, in the second place, numbered among the infos of its transition. Without such a state it has an output of
its own, with null for a record: that costs a word on the chain which is never cleared.

Reading is a pure function of the bytes, and a node reads the same ones many times: while a transaction is under way
its states are in every slot's snapshot. So the contents of short ones are cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

import msgspec

from rota.domains.records import Bytes32, Field, Record, Rejected, Schema, fields_of, packed, shown, unpacked
from rota.model.frozen import dataclass
from rota.model.json_text import NotJson, read_json
from rota.model.types import Contract, ContractAddress, Mode, NodeName, Party, StateId, node_of

SALT_BYTES: Final = 32
READERS_MAX: Final = 64
INFOS_MAX: Final = 64
CONTENT_BYTES_MAX: Final = 1_048_576
REMEMBERED_MAX: Final = 4_096
REMEMBERED_BYTES_MAX: Final = 1_024

_NO_STATE: Final = b"[null,"

R = TypeVar("R", bound=Record)


class Role(Enum):
    """How the ledger treats it."""

    STATE = "state"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class NewState:
    """A state that a transition makes, and the parties that may see it, besides coordinators and endorsers."""

    record: Record
    readers: tuple[Party, ...]
    role: Role = Role.STATE


@dataclass(frozen=True, slots=True)
class Recipient:
    """A reader of the bytes of a state. Another reader cannot use bytes that are encrypted for this one."""

    party: Party
    contract: ContractAddress
    state: StateId


class Told(NamedTuple):
    """An info, and its number among those of its transition."""

    number: int
    record: Record


@dataclass(frozen=True, slots=True)
class Content:
    """The content of an output's bytes; without a record it only carries infos."""

    record: Record | None
    infos: tuple[Told, ...]
    readers: tuple[Party, ...]
    salt: bytes

    def shown(self) -> dict[str, object]:
        """The record as the API shows it, with its salt."""
        record = {} if self.record is None else shown(self.record)
        return {"salt": "0x" + self.salt.hex(), **record}


@dataclass(frozen=True, slots=True)
class _Salted(Record):
    salt: Bytes32


_SALT: Final[tuple[Field, ...]] = fields_of(_Salted)


class _Written(msgspec.Struct, array_like=True, frozen=True):
    """The canonical form, by position."""

    state: tuple[str, list[object]] | None
    infos: tuple[tuple[int, str, list[object]], ...]
    readers: tuple[str, ...]
    salt: str


class Schemas(dict[str, type[Record]]):
    """The record classes of a domain by the names of their schemas; one object for each domain, hashed by identity."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@lru_cache(maxsize=256)
def schemas_of(record_types: tuple[type[Record], ...]) -> Schemas:
    """The schemas of these classes."""
    return Schemas({name_of(record_type): record_type for record_type in record_types})


def name_of(record_type: type[Record]) -> str:
    """The name of a schema: `schema_name`, or else the name of the class."""
    return record_type.schema_name or record_type.__name__


def schema_of(record_type: type[Record]) -> Schema:
    """The schema of states with such records; the salt comes first."""
    return Schema(name_of(record_type), _SALT + fields_of(record_type), record_type.labels)


def seal(content: Content) -> bytes:
    """The bytes that are hashed, stored and sent."""
    assert len(content.salt) == SALT_BYTES, f"a salt is {SALT_BYTES} bytes, not {len(content.salt)}"
    record = content.record
    written = _Written(
        None if record is None else (name_of(type(record)), packed(record)),
        tuple((told.number, name_of(type(told.record)), packed(told.record)) for told in content.infos),
        content.readers,
        "0x" + content.salt.hex(),
    )
    return msgspec.json.encode(written)


def unseal(known: Mapping[str, type[Record]], sealed: bytes) -> Content:
    """The content of the bytes, given the record classes by the names of their schemas. `Rejected` when malformed."""
    if isinstance(known, Schemas) and len(sealed) <= REMEMBERED_BYTES_MAX:
        return _unseal_once(known, sealed)
    return _unseal(known, sealed)


@lru_cache(maxsize=REMEMBERED_MAX)
def _unseal_once(known: Schemas, sealed: bytes) -> Content:
    return _unseal(known, sealed)


def _unseal(known: Mapping[str, type[Record]], sealed: bytes) -> Content:
    if len(sealed) > CONTENT_BYTES_MAX:
        raise Rejected("state", f"must be at most {CONTENT_BYTES_MAX} bytes")
    try:
        written = read_json(sealed, _Written)
    except NotJson as error:
        raise Rejected("state", f"is not a record: {error}") from None
    if len(written.readers) > READERS_MAX or len(written.infos) > INFOS_MAX:
        raise Rejected("state", f"must have at most {READERS_MAX} readers and {INFOS_MAX} infos")
    content = Content(
        None if written.state is None else _record(known, *written.state),
        tuple(Told(number, _record(known, name, values)) for number, name, values in written.infos),
        tuple(Party(reader) for reader in written.readers),
        _salt_of(written.salt),
    )
    if seal(content) != sealed:
        raise Rejected("state", "is not in its canonical form")
    return content


def told_in(sealed: bytes, record_type: type[R]) -> tuple[R, ...]:
    """The infos of one class that a state's bytes carry, in any domain; none where the bytes cannot be read."""
    name = name_of(record_type)
    if name.encode() not in sealed:
        return ()
    try:
        written = read_json(sealed, _Written)
        return tuple(unpacked(record_type, values, name) for _, kind, values in written.infos if kind == name)
    except (NotJson, Rejected):
        return ()


def is_info(sealed: bytes) -> bool:
    """Whether the bytes are no state that could be spent: a list of available states can leave them out."""
    return sealed.startswith(_NO_STATE)


def distribution_of(contract: Contract, sender: Party, readers: tuple[Party, ...]) -> tuple[NodeName, ...]:
    """The nodes that get a state's bytes: the coordinators and endorsers, the sender's node, and the readers' nodes.

    In `sender` mode only the sender coordinates; without a threshold there are no endorsers.
    """
    committee = () if contract.mode is Mode.SENDER else contract.committee
    endorsers = contract.endorsers if contract.threshold else ()
    nodes = (*committee, *endorsers, node_of(sender), *(node_of(reader) for reader in readers))
    return tuple(dict.fromkeys(nodes))


def _record(known: Mapping[str, type[Record]], name: str, values: list[object]) -> Record:
    record_type = known.get(name)
    if record_type is None:
        raise Rejected("state", f"is not one that this domain knows: {name}")
    return unpacked(record_type, values, name)


def _salt_of(text: str) -> bytes:
    try:
        salt = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        salt = b""
    if len(salt) != SALT_BYTES:
        raise Rejected("salt", f"must be {SALT_BYTES} bytes")
    return salt
