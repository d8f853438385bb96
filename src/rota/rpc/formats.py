"""The formats of values in JSON, as clients know them: ids as UUIDs, bytes as 0x hex, times as text.

A format is a `str` in one canonical form. `read` accepts the forms that clients are known to send, and its error says
what is valid; the functions below make the values that we send.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import ClassVar, Final, TypeVar
from uuid import UUID

import msgspec

from rota.model.types import ContractAddress, IntentId, Mode, Rotation

WORD_BYTES: Final = 32
MICROSECONDS_PER_MS: Final = 1_000
# The greatest number that both databases hold.
NUMBER_MAX: Final = 2**63 - 1
QUANTITY_MAX: Final = 2**256 - 1

_HEX: Final = re.compile("(?:0x)?([0-9a-fA-F]*)")
_DECIMAL: Final = re.compile("[0-9]{1,78}")
# The folders of an absolute path: not the path of a URL, which stands behind its host.
_FOLDERS: Final = re.compile(r"(?<![\w.:/~\])-])/(?:[^\s/:'\"]+/)+")
_SHOWN_CHARACTERS_MAX: Final = 80


class Format(str):
    """A text in canonical form. `right` completes the sentence "must be ...", for errors and for the document."""

    __slots__ = ()
    right: ClassVar[str]
    pattern: ClassVar[str] = ""

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """The canonical form of a value; `None` when it is not of this format."""
        raise NotImplementedError

    @classmethod
    def schema(cls) -> dict[str, object]:
        """Its JSON schema."""
        shape: dict[str, object] = {"type": "string", "title": cls.__name__, "description": cls.right}
        if cls.pattern:
            shape["pattern"] = f"^{cls.pattern}$"
        return shape


FormatType = TypeVar("FormatType", bound=Format)


def read(format_type: type[FormatType], given: object) -> FormatType:
    """Read a value of a client. `ValueError` says what is valid."""
    canonical = format_type.canonical(given)
    if canonical is None:
        raise ValueError(f"must be {format_type.right}, not {shown(given)}")
    return format_type(canonical)


def shown(given: object) -> str:
    """The given value, short enough for an error."""
    text = repr(given)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"


def without_folders(text: str) -> str:
    """The text with names of files but without their folders."""
    return _FOLDERS.sub("", text)


def encode(value: object) -> bytes:
    """A value as JSON; the formats are text."""
    return msgspec.json.encode(value, enc_hook=str)


class Uuid(Format):
    """The id of a transaction."""

    __slots__ = ()
    right = "a UUID"
    pattern = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """Upper case is accepted."""
        if isinstance(given, str) and re.fullmatch(cls.pattern, given.lower()):
            return given.lower()
        return None

    @property
    def intent(self) -> IntentId:
        """The id as in the core."""
        return IntentId(UUID(self).bytes)


def uuid_of(intent: IntentId) -> Uuid:
    """An intent's id in the form of clients."""
    text = intent.hex()
    return Uuid(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


class HexText(Format):
    """Bytes as 0x and lower-case digits."""

    __slots__ = ()
    right = "hex digits in pairs, with or without 0x"
    pattern = "0x([0-9a-f]{2})*"
    size: ClassVar[int | None] = None

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """With or without 0x, in any case."""
        match = _HEX.fullmatch(given) if isinstance(given, str) else None
        if match is None or len(match[1]) % 2 or (cls.size is not None and len(match[1]) != 2 * cls.size):
            return None
        return f"0x{match[1].lower()}"

    @property
    def content(self) -> bytes:
        """The bytes."""
        return bytes.fromhex(self[2:])


class Address(HexText):
    """An address on the base ledger."""

    __slots__ = ()
    right = "an address of 40 hex digits"
    pattern = "0x[0-9a-f]{40}"
    size = 20

    @property
    def contract(self) -> ContractAddress:
        """The address as in the core."""
        return ContractAddress(str(self))


class Word(HexText):
    """32 bytes: a hash, or the id of something."""

    __slots__ = ()
    right = "32 bytes as 64 hex digits"
    pattern = "0x[0-9a-f]{64}"
    size = WORD_BYTES


def hex_of(content: bytes) -> HexText:
    """Bytes in the form of clients."""
    return HexText(f"0x{content.hex()}")


def word_of(content: bytes) -> Word:
    """32 bytes in the form of clients."""
    return Word(f"0x{content.hex()}")


class Quantity(Format):
    """A whole number of up to 256 bits."""

    __slots__ = ()
    right = "a whole number of at most 256 bits: a JSON number, decimal text or 0x hex"
    pattern = "0x(0|[1-9a-f][0-9a-f]*)"

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """Numbers come in all three writings; a fraction that is whole, as 1e18, is one too."""
        number = _whole(given)
        return hex(number) if number is not None and 0 <= number <= QUANTITY_MAX else None

    @property
    def number(self) -> int:
        """The number."""
        return int(self, 16)


def quantity_of(number: int) -> Quantity:
    """A number in the form of clients."""
    return Quantity(hex(number))


def _whole(given: object) -> int | None:
    match given:
        case bool():
            return None
        case int():
            return given
        case float():
            return int(given) if given.is_integer() else None
        case str() if _DECIMAL.fullmatch(given):
            return int(given)
        case str() if given[:2] == "0x" and (match := _HEX.fullmatch(given)) and 0 < len(match[1]) <= 2 * WORD_BYTES:
            return int(match[1], 16)
        case _:
            return None


class BlockName(Format):
    """A block of the base ledger: a number, or a word."""

    __slots__ = ()
    right = "a block's number, or latest, earliest, pending, safe or finalized"
    words: ClassVar[tuple[str, ...]] = ("latest", "earliest", "pending", "safe", "finalized")

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """A number in any writing, or one of the words."""
        if isinstance(given, str) and given.lower() in cls.words:
            return given.lower()
        number = _whole(given)
        return hex(number) if number is not None and 0 <= number < 2**63 else None

    @property
    def at(self) -> str | int:
        """In the form of the chain's API."""
        return str(self) if self in self.words else int(self, 16)


# The end of the year 9999.
LATEST_MS: Final = 253_402_300_799_999


class Timestamp(Format):
    """A time as RFC 3339, in UTC, with milliseconds."""

    __slots__ = ()
    right = "a time such as 2026-01-31T23:59:59.000Z"
    pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """Only the one writing."""
        return given if isinstance(given, str) and re.fullmatch(cls.pattern, given) else None


@lru_cache(maxsize=1_024)
def timestamp_of(unix_ms: int) -> Timestamp:
    """A time in the form of clients. A time after the last one of the calendar becomes the last one."""
    unix_ms = min(unix_ms, LATEST_MS)
    whole = datetime.fromtimestamp(unix_ms // 1_000, UTC)
    return Timestamp(f"{whole:%Y-%m-%dT%H:%M:%S}.{unix_ms % 1_000:03d}Z")


class PreciseTimestamp(Timestamp):
    """A time in protobuf's JSON form: with milliseconds, or with microseconds if it has some."""

    __slots__ = ()
    right = "a time such as 2026-01-31T23:59:59.000Z, with 3 or 6 decimals"
    pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(\d{3})?Z"


def precise_timestamp_of(unix_us: int) -> PreciseTimestamp:
    """A time in microseconds in the form of clients: with 3 or 6 digits, as in protobuf's JSON."""
    unix_ms, rest_us = divmod(min(unix_us, LATEST_MS * MICROSECONDS_PER_MS), MICROSECONDS_PER_MS)
    text = timestamp_of(unix_ms)
    return PreciseTimestamp(f"{text.removesuffix('Z')}{rest_us:03d}Z" if rest_us else text)


class Choice(Format):
    """One of a few words."""

    __slots__ = ()
    options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def canonical(cls, given: object) -> str | None:
        """Exactly one of them."""
        return given if isinstance(given, str) and given in cls.options else None

    @classmethod
    def schema(cls) -> dict[str, object]:
        """Its JSON schema."""
        return {"type": "string", "title": cls.__name__, "description": cls.right, "enum": list(cls.options)}


class TransactionKind(Choice):
    """The kind of a transaction."""

    __slots__ = ()
    right = "'private' or 'public'"
    options = ("private", "public")


class PayeesName(Choice):
    """The parties that a transaction may name: `known` ones, or `any`."""

    __slots__ = ()
    options = ("known", "any")
    right = "known or any"


class ModeName(Choice):
    """Which nodes may coordinate a contract."""

    __slots__ = ()
    options = tuple(mode.value for mode in Mode)
    right = "ring, static or sender"


class RotationName(Choice):
    """Whether a coordinator stays until it fails, or leaves with its range of blocks."""

    __slots__ = ()
    options = tuple(rotation.value for rotation in Rotation)
    right = "sticky or strict"


class SubmitModeName(Choice):
    """How a transaction reaches the ledger."""

    __slots__ = ()
    right = "'auto' or 'external'"
    options = ("auto", "external")
