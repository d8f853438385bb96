"""Parameters of JSON-RPC methods, read strictly: errors have the parameter's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from rota.ledger.embedded.errors import INVALID_PARAMETERS, RpcError
from rota.ledger.embedded.history import LogFilter
from rota.ledger.hexadecimal import read_data, read_quantity
from rota.ledger.transaction import ADDRESS_BYTES, AccessEntry
from rota.model.digests import WORD_BYTES

T = TypeVar("T")

TOPICS_MAX: Final = 4
ALTERNATIVES_MAX: Final = 1_000
TAGS: Final = ("latest", "pending", "safe", "finalized", "earliest")


def invalid(name: str, flaw: str) -> RpcError:
    """Return the error of a parameter."""
    return RpcError(INVALID_PARAMETERS, f"invalid argument {name}: {flaw}")


class Parameters:
    """The parameters of one call, by position; the caller gives each the name that errors use."""

    def __init__(self, given: object, count_max: int) -> None:
        if given is None:
            given = []
        if not isinstance(given, list):
            raise RpcError(INVALID_PARAMETERS, "params is a list")
        if len(given) > count_max:
            raise RpcError(INVALID_PARAMETERS, f"too many arguments, want at most {count_max}, not {len(given)}")
        self._given: Final = given

    def has(self, place: int) -> bool:
        return place < len(self._given) and self._given[place] is not None

    def read(self, place: int, name: str, reader: Callable[[object], T]) -> T:
        """Return the parameter at this place, which must be there."""
        if not self.has(place):
            raise RpcError(INVALID_PARAMETERS, f"missing value for required argument {place}: {name}")
        return read_named(name, self._given[place], reader)

    def read_or(self, place: int, name: str, reader: Callable[[object], T], default: T) -> T:
        """Return the parameter at this place, or the default."""
        return self.read(place, name, reader) if self.has(place) else default


def read_named(name: str, written: object, reader: Callable[[object], T]) -> T:
    """Read a value; an error has its name."""
    try:
        return reader(written)
    except ValueError as error:
        raise invalid(name, str(error)) from error


def read_address(written: object) -> bytes:
    return read_data(written, ADDRESS_BYTES)


def read_hash(written: object) -> bytes:
    return read_data(written, WORD_BYTES)


def read_boolean(written: object) -> bool:
    if not isinstance(written, bool):
        raise ValueError("expected true or false")
    return written


def read_number(written: object) -> int:
    """Read a number, as a quantity or plain: the methods of test chains take both."""
    if isinstance(written, int) and not isinstance(written, bool):
        if not 0 <= written < 1 << 256:
            raise ValueError(f"expected a number of 0 or more and below 2^256, not {written}")
        return written
    return read_quantity(written)


def read_slot_number(written: object) -> int:
    """Read a slot, as a quantity or as 32 bytes; leading zeros are usual here."""
    content = written if isinstance(written, str) else ""
    if len(content) == 2 + 2 * WORD_BYTES:
        return int.from_bytes(read_hash(written), "big")
    return read_quantity(written)


@dataclass(frozen=True, slots=True)
class BlockWanted:
    """A block, selected by hash, by number, or by tag."""

    hash: bytes | None = None
    number: int | None = None
    tag: str = "latest"


def read_block_wanted(written: object) -> BlockWanted:
    """Read a number, a tag, or an object with one of both or a hash (EIP-1898)."""
    if isinstance(written, dict):
        if set(written) - {"blockHash", "blockNumber", "requireCanonical"} or len(written) == 0:
            raise ValueError("expected an object with blockHash or blockNumber")
        if "blockHash" in written and "blockNumber" in written:
            raise ValueError("expected blockHash or blockNumber, not both")
        if "blockHash" in written:
            return BlockWanted(hash=read_hash(written["blockHash"]))
        return read_block_wanted(written.get("blockNumber"))
    if isinstance(written, str) and written in TAGS:
        return BlockWanted(tag=written)
    if isinstance(written, str) and len(written) == 2 + 2 * WORD_BYTES:
        return BlockWanted(hash=read_hash(written))
    if isinstance(written, str) and not written.startswith("0x"):
        raise ValueError(f"expected a block number such as 0x1f, a block hash or one of {', '.join(TAGS)}")
    return BlockWanted(number=read_quantity(written))


@dataclass(frozen=True, slots=True)
class CallWanted:
    """A call or transaction as an object; fields not given are None."""

    sender: bytes | None
    to: bytes | None
    gas: int | None
    gas_price: int | None
    max_fee_per_gas: int | None
    max_priority_fee_per_gas: int | None
    value: int
    data: bytes
    nonce: int | None
    access_list: tuple[AccessEntry, ...] | None


_CALL_FIELDS: Final = (
    *("from", "to", "gas", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "value", "data", "input", "nonce"),
    *("chainId", "type", "accessList"),
)


def read_call(written: object) -> CallWanted:
    """Read a call object; an error names the field."""
    if not isinstance(written, dict):
        raise ValueError("expected an object such as {to, data}")
    unknown = set(written) - set(_CALL_FIELDS)
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r}; there are {', '.join(_CALL_FIELDS)}")

    def optional(name: str, reader: Callable[[object], T]) -> T | None:
        return None if written.get(name) is None else _read_field(name, written[name], reader)

    for name in ("chainId", "type"):
        optional(name, read_quantity)
    data, code = optional("data", read_data), optional("input", read_data)
    if data is not None and code is not None and data != code:
        raise ValueError("both data and input are given, and they are not equal")
    call = CallWanted(
        sender=optional("from", read_address),
        to=optional("to", read_address),
        gas=optional("gas", read_quantity),
        gas_price=optional("gasPrice", read_quantity),
        max_fee_per_gas=optional("maxFeePerGas", read_quantity),
        max_priority_fee_per_gas=optional("maxPriorityFeePerGas", read_quantity),
        value=optional("value", read_quantity) or 0,
        data=code or data or b"",
        nonce=optional("nonce", read_quantity),
        access_list=optional("accessList", read_access_list),
    )
    if call.gas_price is not None and (call.max_fee_per_gas is not None or call.max_priority_fee_per_gas is not None):
        raise ValueError("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
    return call


def read_access_list(written: object) -> tuple[AccessEntry, ...]:
    """Read a list of addresses with their slots (EIP-2930)."""
    if not isinstance(written, list):
        raise ValueError("expected a list of {address, storageKeys}")
    entries = []
    for entry in written:
        if not isinstance(entry, dict) or not isinstance(entry.get("storageKeys", []), list):
            raise ValueError("expected a list of {address, storageKeys}")
        slots = tuple(read_hash(slot) for slot in entry.get("storageKeys", []))
        entries.append(AccessEntry(read_address(entry.get("address")), slots))
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class LogsWanted:
    """A selection of logs, and their blocks."""

    filter: LogFilter
    block_hash: bytes | None
    first: BlockWanted
    last: BlockWanted


def read_logs_wanted(written: object) -> LogsWanted:
    """Read a filter object; an error names the field."""
    if not isinstance(written, dict):
        raise ValueError("expected an object such as {fromBlock, toBlock, address, topics}")
    unknown = set(written) - {"fromBlock", "toBlock", "blockHash", "address", "topics"}
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
    block_hash = written.get("blockHash")
    if block_hash is not None and (written.get("fromBlock") is not None or written.get("toBlock") is not None):
        raise ValueError("cannot specify both blockHash and fromBlock/toBlock, choose one or the other")
    return LogsWanted(
        LogFilter(
            _read_field("address", written.get("address"), _read_addresses),
            _read_field("topics", written.get("topics"), _read_topics),
        ),
        None if block_hash is None else _read_field("blockHash", block_hash, read_hash),
        _read_field("fromBlock", written.get("fromBlock", "latest"), read_block_wanted),
        _read_field("toBlock", written.get("toBlock", "latest"), read_block_wanted),
    )


def _read_field(name: str, written: object, reader: Callable[[object], T]) -> T:
    try:
        return reader(written)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _read_addresses(written: object) -> tuple[bytes, ...]:
    if written is None:
        return ()
    return _read_alternatives(written, read_address)


def _read_topics(written: object) -> tuple[tuple[bytes, ...], ...]:
    if written is None:
        return ()
    if not isinstance(written, list) or len(written) > TOPICS_MAX:
        raise ValueError(f"expected a list of at most {TOPICS_MAX} topics, each null, a topic or a list of topics")
    return tuple(() if each is None else _read_alternatives(each, read_hash) for each in written)


def _read_alternatives(written: object, reader: Callable[[object], bytes]) -> tuple[bytes, ...]:
    """Read one value, or a list of alternatives."""
    if not isinstance(written, list):
        return (reader(written),)
    if len(written) > ALTERNATIVES_MAX:
        raise ValueError(f"expected at most {ALTERNATIVES_MAX} alternatives, not {len(written)}")
    return tuple(reader(each) for each in written)
