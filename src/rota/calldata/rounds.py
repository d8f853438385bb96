"""A round in the contract's form: encoding and decoding `payload` and `auth` (ledger).

A payload is as short as possible, because every byte is paid for twice: as call data and in the log.

    payload   = validUntil u64 | n u8 | n leaves
    bare      = 00 | leaf 32
    full      = flags (80 | 1 page | 2 prepared | 4 calls | 8 body | 10 lock) | counter u8 | inputs:outputs | reads:info
                | [page 15] | [committer 20, condition 32] | references (reads, then inputs)
                | outputs 32*, info 32* (or their body hash 32) | [calls: n u8, (to 20, gas u32, length u16, data)*]
                | [lock: kind u8, id 32, presumed 20 | set: delegate 20, expiresAt u64, leaves 32, 32 | delegate: 20
                   | hold: delegate 20, expiresAt u64]
    reference = position u8, output u8 (a leaf that stands earlier in this payload) | FF, output u8, leaf 32
    auth      = signer mask u32 | per endorser in set order: signature 64 or address 20

An intent's first 15 bytes are its page, and a page that the full leaf before it has is left out. None of this affects a
leaf: references are expanded, and the flags that a leaf does not bind are masked (digests). So any holder of a round
may encode it in any of these ways, and in parts, with the other leaves bare.

Encoded values are our own, so a wrong size is asserted. Decoded bytes are foreign: bytes that are no payload give a
`Malformed` value with the reason, and never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rota.model.digests import (
    CALLS_MAX,
    INTENT_BYTES,
    ROUND_LEAVES_MAX,
    STATES_MAX,
    WORD_BYTES,
    Core,
    keccak,
    leaf_of,
    packed_more,
)
from rota.model.frozen import dataclass
from rota.model.types import (
    NAMING_DELEGATE,
    Call,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    LockChange,
    LockKind,
    Preparation,
    StateId,
    Transition,
    address_bytes,
)

PAYLOAD_BYTES_MAX: Final = 120 * 1024
ENDORSERS_MAX: Final = 32
SIGNATURE_BYTES: Final = 64
ADDRESS_BYTES: Final = 20
NO_CONDITION: Final = bytes(WORD_BYTES)

ROUND_TOPIC: Final[bytes] = keccak(b"Round(bytes32,uint256,bytes)")
SKIPPED_TOPIC: Final[bytes] = keccak(b"Skipped(bytes16,bytes32,uint8,bytes32,uint8)")

_COMMIT_SELECTOR: Final[bytes] = keccak(b"commit(bytes,bytes32,bytes)")[:4]

_FULL: Final = 0x80
_PAGE: Final = 0x01
_PREPARED: Final = 0x02
_CALLS: Final = 0x04
_BODY: Final = 0x08
_LOCK: Final = 0x10
_BOUND_FLAGS: Final = _FULL | _CALLS | _LOCK
_UNKNOWN_FLAGS: Final = 0x60

_LOCK_KINDS: Final = frozenset(LockKind)
PAGE_BYTES: Final = INTENT_BYTES - 1
_NOT_HERE: Final = 0xFF

Entry = Transition | Leaf


@dataclass(frozen=True, slots=True)
class Malformed:
    """Bytes in a wrong form, and the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class FullLeaf:
    """A transition as the chain shows it. In body form only the hash of outputs and info is known."""

    intent: IntentId
    leaf: Leaf
    core: Core
    reads: tuple[StateId, ...]
    inputs: tuple[StateId, ...]
    output_count: int
    info_count: int
    body_hash: bytes
    outputs: tuple[bytes, ...] | None
    info: tuple[bytes, ...] | None
    calls: tuple[Call, ...] = ()
    preparation: Preparation | None = None
    lock: LockChange | None = None


@dataclass(frozen=True, slots=True)
class BareLeaf:
    """A leaf that this payload leaves out: its hash alone."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class Payload:
    """A decoded payload."""

    valid_until_s: int
    entries: tuple[FullLeaf | BareLeaf, ...]

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves from which the round's digest is computed."""
        return tuple(entry.leaf for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Committal:
    """Whether one transition of a payload was committed by it; if not, it was skipped."""

    intent: IntentId
    leaf: Leaf
    is_committed: bool


@dataclass(frozen=True, slots=True)
class RoundLog:
    """The content of a `Round` log: the round's digest, the payload that was given, and the committals."""

    digest: Digest
    payload: Payload
    committals: tuple[Committal, ...]


@dataclass(frozen=True, slots=True)
class SkippedLog:
    """The content of a `Skipped` log; `state` is the missing state, or has a failed call's number as output."""

    intent: IntentId
    leaf: Leaf
    reason: int
    state: StateId


# Encoding for the chain.


def encode_payload(entries: tuple[Entry, ...], valid_until_s: int, is_body_hashed: bool = False) -> bytes:
    """A round in which some leaves may be bare; with `is_body_hashed`, outputs and info only by their hash."""
    assert 1 <= len(entries) <= ROUND_LEAVES_MAX, f"a round has 1 to {ROUND_LEAVES_MAX} leaves, not {len(entries)}"
    positions: dict[Leaf, int] = {}
    parts = [valid_until_s.to_bytes(8, "big"), bytes((len(entries),))]
    page: bytes | None = None
    for position, entry in enumerate(entries):
        if isinstance(entry, Transition):
            parts.append(_full(entry, positions, page, is_body_hashed))
            page = entry.intent[:PAGE_BYTES]
            leaf = entry.leaf
            if not isinstance(entries[positions.get(leaf, position)], Transition):
                positions[leaf] = position  # A reference to a full leaf is better than one to a bare copy.
        else:
            assert len(entry) == WORD_BYTES, f"a leaf is {WORD_BYTES} bytes, not {len(entry)}"
            parts.append(b"\0" + entry)
            leaf = entry
        positions.setdefault(leaf, position)
    return b"".join(parts)


def encode_commit(payload: bytes, auth: bytes, condition: bytes = NO_CONDITION) -> bytes:
    """The call data of `commit(payload, condition, auth)`."""
    assert len(condition) == WORD_BYTES, f"a condition is {WORD_BYTES} bytes, not {len(condition)}"
    first, second = _abi_bytes(payload), _abi_bytes(auth)
    head_bytes = 3 * WORD_BYTES
    return (
        _COMMIT_SELECTOR + _abi_number(head_bytes) + condition + _abi_number(head_bytes + len(first)) + first + second
    )


def encode_auth(
    endorsers: tuple[ContractAddress, ...], signatures: Mapping[ContractAddress, bytes], threshold: int
) -> bytes:
    """The signatures of the first `threshold` endorsers that signed, in set order. More would only cost gas."""
    assert 1 <= len(endorsers) <= ENDORSERS_MAX, f"a set has 1 to {ENDORSERS_MAX} endorsers, not {len(endorsers)}"
    signers = [number for number, endorser in enumerate(endorsers) if endorser in signatures][:threshold]
    assert len(signers) == threshold, f"{threshold} signatures are needed, not {len(signers)}"
    mask = sum(1 << number for number in signers)
    parts = [mask.to_bytes(4, "big")]
    for number, endorser in enumerate(endorsers):
        if number in signers:
            assert len(signatures[endorser]) == SIGNATURE_BYTES, f"a signature is {SIGNATURE_BYTES} bytes"
            parts.append(signatures[endorser])
        else:
            parts.append(address_bytes(endorser))
    return b"".join(parts)


def settlement_condition(legs: tuple[tuple[ContractAddress, tuple[Core, ...]], ...]) -> bytes:
    """The condition of transitions that `Settlement` commits together: the hash of the full list."""
    return keccak(
        b"".join(address_bytes(ledger).rjust(WORD_BYTES, b"\0") + prepared_hash(cores) for ledger, cores in legs)
    )


def prepared_hash(cores: tuple[Core, ...]) -> bytes:
    """The value that `commit` returns for prepared transitions with these cores: a hash chain."""
    chain = bytes(WORD_BYTES)
    for core in cores:
        chain = keccak(chain + core)
    return chain


def _full(transition: Transition, positions: Mapping[Leaf, int], page: bytes | None, is_body_hashed: bool) -> bytes:
    own_page = transition.intent[:PAGE_BYTES]
    preparation, calls, lock = transition.preparation, transition.calls, transition.lock
    flags = (
        _FULL
        | (_PAGE if own_page != page else 0)
        | (_PREPARED if preparation is not None else 0)
        | (_CALLS if calls else 0)
        | (_BODY if is_body_hashed else 0)
        | (_LOCK if lock is not None else 0)
    )
    body = b"".join(state.commitment for state in transition.outputs) + b"".join(transition.info)
    counts = (
        _two_counts(len(transition.inputs), len(transition.outputs)),
        _two_counts(len(transition.reads), len(transition.info)),
    )
    return b"".join(
        (
            bytes((flags, transition.intent[-1], *counts)),
            own_page if own_page != page else b"",
            address_bytes(preparation.committer) + preparation.condition if preparation is not None else b"",
            *(_reference(state, positions) for state in transition.reads + transition.inputs),
            keccak(body) if is_body_hashed else body,
            packed_more(calls, lock),
        )
    )


def _reference(state: StateId, positions: Mapping[Leaf, int]) -> bytes:
    position = positions.get(state.leaf)
    if position is None:
        return bytes((_NOT_HERE, state.output)) + state.leaf
    return bytes((position, state.output))


def _two_counts(high: int, low: int) -> int:
    assert max(high, low) <= STATES_MAX, f"a count is at most {STATES_MAX}, not {max(high, low)}"
    return high << 4 | low


def _abi_bytes(content: bytes) -> bytes:
    return _abi_number(len(content)) + content + bytes(-len(content) % WORD_BYTES)


def _abi_number(number: int) -> bytes:
    return number.to_bytes(WORD_BYTES, "big")


# Decoding from the chain.


def decode_payload(payload: bytes, separator: bytes) -> Payload | Malformed:
    """Decode a payload as strictly as the contract with this domain separator does."""
    try:
        return _read_payload(_Bytes(payload), separator)
    except _MalformedError as error:
        return Malformed(str(error))


def decode_round_log(topics: tuple[bytes, ...], content: bytes, separator: bytes) -> RoundLog | Malformed:
    """Read a `Round` log: which intents were in it, at which leaves, and which of them were committed."""
    try:
        if len(topics) != 2 or topics[0] != ROUND_TOPIC:
            raise _MalformedError("topics: not those of a Round")
        committed, payload_bytes = _read_abi_number_and_bytes(_Bytes(content))
        payload = _read_payload(_Bytes(payload_bytes), separator)
        full_mask = sum(1 << n for n, entry in enumerate(payload.entries) if isinstance(entry, FullLeaf))
        if committed & ~full_mask:
            raise _MalformedError("committed: names a leaf that is not given in full")
        committals = tuple(
            Committal(entry.intent, entry.leaf, bool(committed >> number & 1))
            for number, entry in enumerate(payload.entries)
            if isinstance(entry, FullLeaf)
        )
        return RoundLog(Digest(topics[1]), payload, committals)
    except _MalformedError as error:
        return Malformed(str(error))


def decode_skipped_log(topics: tuple[bytes, ...], content: bytes) -> SkippedLog | Malformed:
    """Read a `Skipped` log. It informs, and decides nothing: any account can provoke a skip."""
    if len(topics) != 3 or topics[0] != SKIPPED_TOPIC:
        return Malformed("topics: not those of a Skipped")
    if len(content) != 3 * WORD_BYTES or any(content[:31]) or any(content[64:95]):
        return Malformed("data: must be a reason, a leaf and an output, each in one word")
    intent, leaf = IntentId(topics[1][:INTENT_BYTES]), Leaf(topics[2])
    return SkippedLog(intent, leaf, content[31], StateId(Leaf(content[32:64]), content[95]))


class _MalformedError(Exception):
    """Caught in this module."""


class _Bytes:
    """Reads foreign bytes from the front; raises `_MalformedError` when they end too early."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int, what: str) -> bytes:
        """The next `size` bytes."""
        end = self._at + size
        if end > len(self._content):
            raise _MalformedError(f"{what}: ends after {len(self._content)} bytes, needs {end}")
        taken = self._content[self._at : end]
        self._at = end
        return taken

    def number(self, size: int, what: str) -> int:
        """The next bytes as a number."""
        return int.from_bytes(self.take(size, what), "big")

    def end(self) -> None:
        """Raise `_MalformedError` if anything is left."""
        if self._at != len(self._content):
            raise _MalformedError(f"length: {len(self._content) - self._at} bytes too many")


def _read_payload(source: _Bytes, separator: bytes) -> Payload:
    valid_until_s = source.number(8, "validUntil")
    count = source.number(1, "leaves")
    if count == 0:
        raise _MalformedError("leaves: must be 1 to 255, not 0")
    entries: list[FullLeaf | BareLeaf] = []
    leaves: list[Leaf] = []
    page: bytes | None = None
    for position in range(count):
        flags = source.number(1, f"leaf {position}: flags")
        if flags == 0:
            entries.append(BareLeaf(Leaf(source.take(WORD_BYTES, f"leaf {position}: hash"))))
        else:
            full = _read_full(source, flags, separator, page, leaves)
            page = full.intent[:PAGE_BYTES]
            entries.append(full)
        leaves.append(entries[-1].leaf)
    source.end()
    return Payload(valid_until_s, tuple(entries))


def _read_full(source: _Bytes, flags: int, separator: bytes, page: bytes | None, earlier: Sequence[Leaf]) -> FullLeaf:
    where = f"leaf {len(earlier)}"
    if not flags & _FULL or flags & _UNKNOWN_FLAGS:
        raise _MalformedError(f"{where}: flags: must be 00, or 80 with 1, 2, 4, 8 and 10, not {flags:02x}")
    counter, inputs_outputs, reads_info = source.take(3, f"{where}: counts")
    own_page = source.take(PAGE_BYTES, f"{where}: page") if flags & _PAGE else page
    if own_page is None:
        raise _MalformedError(f"{where}: page: must be given, as no full leaf stands before it")
    intent = IntentId(own_page + bytes((counter,)))
    preparation = _read_preparation(source, where) if flags & _PREPARED else None
    reads = tuple(_read_reference(source, where, earlier) for _ in range(reads_info >> 4))
    inputs = tuple(_read_reference(source, where, earlier) for _ in range(inputs_outputs >> 4))
    output_count, info_count = inputs_outputs & 0xF, reads_info & 0xF
    words: tuple[bytes, ...] | None = None
    if flags & _BODY:
        body_hash = source.take(WORD_BYTES, f"{where}: body")
    else:
        words = tuple(source.take(WORD_BYTES, f"{where}: body") for _ in range(output_count + info_count))
        body_hash = keccak(b"".join(words))
    calls = _read_calls(source, where) if flags & _CALLS else ()
    lock = _read_lock(source, f"{where}: lock") if flags & _LOCK else None
    head = bytes((flags & _BOUND_FLAGS, inputs_outputs, reads_info))
    references = b"".join(state.leaf + bytes((state.output,)) for state in reads + inputs)
    more = keccak(packed_more(calls, lock)) if calls or lock is not None else b""
    core = Core(keccak(separator + intent + head + references + body_hash + more))
    return FullLeaf(
        intent,
        leaf_of(core, preparation),
        core,
        reads,
        inputs,
        output_count,
        info_count,
        body_hash,
        words[:output_count] if words is not None else None,
        words[output_count:] if words is not None else None,
        calls,
        preparation,
        lock,
    )


def _read_preparation(source: _Bytes, where: str) -> Preparation:
    committer = _read_address(source, f"{where}: committer")
    return Preparation(committer, source.take(WORD_BYTES, f"{where}: condition"))


def _read_reference(source: _Bytes, where: str, earlier: Sequence[Leaf]) -> StateId:
    position, output = source.take(2, f"{where}: reference")
    if position == _NOT_HERE:
        return StateId(Leaf(source.take(WORD_BYTES, f"{where}: reference")), output)
    if position >= len(earlier):
        raise _MalformedError(f"{where}: reference: must be to an earlier leaf, not to {position}")
    return StateId(earlier[position], output)


def _read_calls(source: _Bytes, where: str) -> tuple[Call, ...]:
    count = source.number(1, f"{where}: calls")
    if not 1 <= count <= CALLS_MAX:
        raise _MalformedError(f"{where}: calls: must be 1 to {CALLS_MAX}, not {count}")
    return tuple(_read_call(source, f"{where}: calls") for _ in range(count))


def _read_call(source: _Bytes, what: str) -> Call:
    to = _read_address(source, what)
    gas = source.number(4, what)
    return Call(to, gas, source.take(source.number(2, what), what))


def _read_lock(source: _Bytes, what: str) -> LockChange:
    number = source.number(1, what)
    if number not in _LOCK_KINDS:
        raise _MalformedError(f"{what}: must be 1 to {max(_LOCK_KINDS)}, not {number}")
    kind = LockKind(number)
    lock, presumed = source.take(WORD_BYTES, what), _read_address(source, what)
    if kind not in NAMING_DELEGATE:
        return LockChange(kind=kind, lock=lock, presumed=presumed)
    delegate = _read_address(source, what)
    if kind is LockKind.DELEGATE:
        return LockChange(kind=kind, lock=lock, presumed=presumed, delegate=delegate)
    expires_at_s = source.number(8, what)
    if kind is LockKind.HOLD:
        return LockChange(kind=kind, lock=lock, presumed=presumed, delegate=delegate, expires_at_s=expires_at_s)
    return LockChange(
        kind=kind,
        lock=lock,
        presumed=presumed,
        delegate=delegate,
        expires_at_s=expires_at_s,
        spends=Leaf(source.take(WORD_BYTES, what)),
        cancels=Leaf(source.take(WORD_BYTES, what)),
    )


def _read_address(source: _Bytes, what: str) -> ContractAddress:
    return ContractAddress("0x" + source.take(ADDRESS_BYTES, what).hex())


def _read_abi_number_and_bytes(source: _Bytes) -> tuple[int, bytes]:
    """Decode (uint256, bytes), whose ABI encoding has one strict form."""
    number = source.number(WORD_BYTES, "committed")
    offset = source.number(WORD_BYTES, "payload")
    if offset != 2 * WORD_BYTES:
        raise _MalformedError(f"payload: must begin at {2 * WORD_BYTES}, not {offset}")
    content = source.take(source.number(WORD_BYTES, "payload"), "payload")
    if any(source.take(-len(content) % WORD_BYTES, "payload")):
        raise _MalformedError("payload: must be padded with zeros")
    source.end()
    return number, content
