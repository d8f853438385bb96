"""A round as the contract reads it: `payload`, `auth`, and what a commit may cost (ledger).

A payload is written down as short as it can be, because every byte is paid for twice: as call data and in the log.

    payload   = validUntil u64 | n u8 | n leaves
    bare      = 00 | leaf 32
    full      = flags (80 | 1 page | 2 prepared | 4 calls | 8 body) | counter u8 | inputs:outputs | reads:info
                | [page 15] | [committer 20, condition 32] | references (reads, then inputs)
                | outputs 32*, info 32* (or their body hash 32) | [calls: n u8, (to 20, gas u32, length u16, data)*]
    reference = position u8, output u8 (a leaf that stands earlier in this payload) | FF, output u8, leaf 32
    auth      = signer mask u32 | per endorser in set order: signature 64 or address 20

An intent's first 15 bytes are its page, and a page that the full leaf before it has is left out. None of this
shows in a leaf: references are expanded, and the flags that a leaf does not bind are masked (digests). So
whoever holds a round may write it down in any of these ways, and in parts, with the other leaves bare.

What is encoded is ours, so that a wrong size is asserted. What is decoded is the world's: bytes that are no
payload are a `Malformed` value that says what is wrong with them, and never an exception.

The gas of a commit is bounded from its contents and never estimated: an estimate that is made before the
predecessor is mined is too low. `gas_bound` says how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.digests import (
    CALLS_MAX,
    INTENT_BYTES,
    ROUND_LEAVES_MAX,
    STATES_MAX,
    WORD_BYTES,
    Core,
    keccak,
    leaf_of,
    packed_calls,
)
from rota.types import (
    Call,
    Contract,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    Preparation,
    StateId,
    Transition,
    address_bytes,
)

PAYLOAD_BYTES_MAX: Final = 120 * 1024
COMMIT_GAS_MAX: Final = 16_000_000
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
_BOUND_FLAGS: Final = _FULL | _CALLS
_UNKNOWN_FLAGS: Final = 0x70

_PAGE_BYTES: Final = INTENT_BYTES - 1
_NOT_HERE: Final = 0xFF

Entry = Transition | Leaf


@dataclass(frozen=True, slots=True)
class Malformed:
    """Bytes that are not what they should be, and why."""

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


@dataclass(frozen=True, slots=True)
class BareLeaf:
    """A leaf that this payload leaves out: its hash alone."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload, read."""

    valid_until_s: int
    entries: tuple[FullLeaf | BareLeaf, ...]

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """What the round's digest is made of."""
        return tuple(entry.leaf for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Committal:
    """Whether one transition of a payload was committed by it; if not, it was skipped."""

    intent: IntentId
    leaf: Leaf
    is_committed: bool


@dataclass(frozen=True, slots=True)
class RoundLog:
    """What a `Round` log tells: the round's digest, the payload that was given, and what came of it."""

    digest: Digest
    payload: Payload
    committals: tuple[Committal, ...]


@dataclass(frozen=True, slots=True)
class SkippedLog:
    """What a `Skipped` log tells; `state` is what was missing, or for a failed call its number as output."""

    intent: IntentId
    leaf: Leaf
    reason: int
    state: StateId


# What goes to the chain.


def encode_payload(entries: tuple[Entry, ...], valid_until_s: int, is_body_hashed: bool = False) -> bytes:
    """A round in which some leaves may be bare; with `is_body_hashed`, outputs and info only by their hash."""
    assert 1 <= len(entries) <= ROUND_LEAVES_MAX, f"a round has 1 to {ROUND_LEAVES_MAX} leaves, not {len(entries)}"
    positions: dict[Leaf, int] = {}
    parts = [valid_until_s.to_bytes(8, "big"), bytes((len(entries),))]
    page: bytes | None = None
    for position, entry in enumerate(entries):
        if isinstance(entry, Transition):
            parts.append(_full(entry, positions, page, is_body_hashed))
            page = entry.intent[:_PAGE_BYTES]
            leaf = entry.leaf
            if not isinstance(entries[positions.get(leaf, position)], Transition):
                positions[leaf] = position  # What is made here is better taken from here than from a bare copy.
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
    """Who signed: the first `threshold` that did, in set order. A signature more would only cost."""
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
    """What transitions are prepared with that `Settlement` shall commit together: the hash of the full list."""
    return keccak(
        b"".join(address_bytes(ledger).rjust(WORD_BYTES, b"\0") + prepared_hash(cores) for ledger, cores in legs)
    )


def prepared_hash(cores: tuple[Core, ...]) -> bytes:
    """What `commit` returns when it has committed prepared transitions with these cores: a hash chain."""
    chain = bytes(WORD_BYTES)
    for core in cores:
        chain = keccak(chain + core)
    return chain


def _full(transition: Transition, positions: Mapping[Leaf, int], page: bytes | None, is_body_hashed: bool) -> bytes:
    own_page = transition.intent[:_PAGE_BYTES]
    preparation, calls = transition.preparation, transition.calls
    flags = (
        _FULL
        | (_PAGE if own_page != page else 0)
        | (_PREPARED if preparation is not None else 0)
        | (_CALLS if calls else 0)
        | (_BODY if is_body_hashed else 0)
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
            packed_calls(calls) if calls else b"",
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


# What a commit may cost.

# Prices of the chain (EIP-2929, EIP-2200, EIP-3529, EIP-7623).
_TRANSACTION_GAS: Final = 21_000
_ZERO_BYTE_GAS: Final = 4
_BYTE_GAS: Final = 16
_FLOOR_ZERO_BYTE_GAS: Final = 10
_FLOOR_BYTE_GAS: Final = 40
_COLD_LOAD_GAS: Final = 2_100
_CHANGE_GAS: Final = 2_900
_NEW_WORD_GAS: Final = 22_100
_LOG_BYTE_GAS: Final = 8
_WORD_GAS: Final = 3
_MEMORY_SQUARE: Final = 512

# What the contract computes, measured on the compiled code and rounded up; a property test holds them to it.
_COMMIT_GAS: Final = 4_500
_SIGNATURE_GAS: Final = 3_600
_ENDORSER_GAS: Final = 200
_BARE_GAS: Final = 340
_FULL_GAS: Final = 850
_SKIP_GAS: Final = 3_100
_PREPARED_GAS: Final = 600
_REFERENCE_GAS: Final = 650
_PAGE_GAS: Final = 500
_CALLS_GAS: Final = 4_500
_CALL_GAS: Final = 4_000
_HASH_WORD_GAS: Final = 6

# Of proofs: what looking for them takes; what those of one shape that follow one another share, by the larger circuit;
# and what each takes beside.
_PROOFS_GAS: Final = 5_000
_PROOF_RUN_GAS: Final = 380_000
_PROOF_GAS: Final = 75_000
_PROOF_BYTES: Final = 2 + 8 + 256
_SMALL_STATES_MAX: Final = 2
_MAKER_BYTES: Final = 1 + STATES_MAX * WORD_BYTES
_FRAME_NUMERATOR, _FRAME_DENOMINATOR = 64, 63  # A frame gets at most 63/64 of what is left (EIP-150).


# The most that a light transition takes alone, by the same measure; held by a property test.
LIGHT_LEAVES_MAX: Final = 64
_LIGHT_WORDS_MAX: Final = 6
_LIGHT_GAS_MAX: Final = COMMIT_GAS_MAX // LIGHT_LEAVES_MAX
_LIGHT_BYTES_MAX: Final = PAYLOAD_BYTES_MAX // LIGHT_LEAVES_MAX


@dataclass(frozen=True, slots=True)
class AuthCost:
    """How long an `auth` is, and how much gas it takes to check it: of the round, and of each full leaf."""

    size_bytes: int
    gas: int
    leaf_bytes: int = 0
    leaf_gas: int = 0
    input_bytes: int = 0
    run_gas: int = 0

    @classmethod
    def of(cls, contract: Contract) -> AuthCost:
        """Of a contract's rounds. Where nobody has to sign, each transition is proved."""
        if contract.threshold == 0:
            return cls.of_proofs()
        return cls.of_signatures(len(contract.endorsers), contract.threshold)

    @classmethod
    def of_proofs(cls) -> AuthCost:
        """Of a proof for each transition, which shows for each input the coins of its maker.

        Proofs of one shape that follow one another are verified together (`Proofs.sol`).
        """
        return cls(0, _PROOFS_GAS, _PROOF_BYTES, _PROOF_GAS, _MAKER_BYTES, _PROOF_RUN_GAS)

    @classmethod
    def of_signatures(cls, endorser_count: int, threshold: int) -> AuthCost:
        """Of `threshold` signatures; the others' addresses are given."""
        size_bytes = 4 + threshold * SIGNATURE_BYTES + (endorser_count - threshold) * ADDRESS_BYTES
        return cls(size_bytes, endorser_count * _ENDORSER_GAS + threshold * _SIGNATURE_GAS)


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A transition that no transaction holds, even alone."""

    intent: IntentId
    gas: int
    size_bytes: int


def gas_bound(entries: tuple[Entry, ...], valid_until_s: int, auth: AuthCost, is_body_hashed: bool = False) -> int:
    """The most gas that committing these can take, whatever state the ledger is in by then.

    Each transition is counted as committed and as skipped, with everything it looks at cold. What is not
    counted twice is a chain. When all that one transition makes is spent by one that follows it in the payload, the
    first keeps a word only if the second does not commit, so of all that hang together in this way one
    keeps its word. In the same way one of them at most takes what it spends from storage: if two did, the one
    that comes later would have found it made by a commit that spent what the one before it takes.
    """
    payload = encode_payload(entries, valid_until_s, is_body_hashed)
    given = [entry for entry in entries if isinstance(entry, Transition)]
    inputs = sum(len(transition.inputs) for transition in given)
    auth_bytes = auth.size_bytes + auth.leaf_bytes * len(given) + auth.input_bytes * inputs
    call = encode_commit(payload, b"\xff" * auth_bytes, b"\xff" * WORD_BYTES)
    zeros = call.count(0)
    execution = (
        _COMMIT_GAS
        + auth.gas
        + auth.leaf_gas * len(given)
        + auth.run_gas * _run_count(given)
        + _memory_gas(_memory_words(len(payload), entries))
        + _LOG_BYTE_GAS * len(payload)
        + _page_gas(entries)
        + _state_gas(entries)
        + sum(_computing_gas(entry) for entry in entries)
    )
    priced = _ZERO_BYTE_GAS * zeros + _BYTE_GAS * (len(call) - zeros) + execution
    floor = _FLOOR_ZERO_BYTE_GAS * zeros + _FLOOR_BYTE_GAS * (len(call) - zeros)
    return _TRANSACTION_GAS + max(priced, floor)


def _run_count(transitions: Iterable[Transition]) -> int:
    """How often proofs are verified: one call for those of one shape that follow one another."""
    shapes = [_is_small(transition) for transition in transitions if _is_verified(transition)]
    return sum(place == 0 or shapes[place - 1] != shape for place, shape in enumerate(shapes))


def _is_verified(transition: Transition) -> bool:
    """By a proof: what makes coins of nothing is signed by their issuer."""
    return bool(transition.inputs) or not transition.outputs


def _is_small(transition: Transition) -> bool:
    return max(len(transition.inputs), len(transition.outputs)) <= _SMALL_STATES_MAX


def is_light(transition: Transition) -> bool:
    """So small that as many as `LIGHT_LEAVES_MAX` of its like fit into a transaction, whatever else they are."""
    words = len(transition.inputs) + len(transition.reads) + len(transition.outputs) + len(transition.info)
    return not transition.calls and words <= _LIGHT_WORDS_MAX


def fitting(transitions: Iterable[Transition], auth: AuthCost) -> int:
    """How many of these, from the first on, fit into one transaction together; at least one.

    What a round costs is never more than what its transitions cost alone, so that is added up; but for memory,
    which grows with the square of all that is in it.
    """
    gas = size_bytes = memory_words = count = 0
    previous: tuple[Transition, ...] = ()
    is_all_light = True
    for count, transition in enumerate(transitions):
        is_all_light = is_all_light and not auth.leaf_gas and is_light(transition)
        if is_all_light and count < LIGHT_LEAVES_MAX:
            gas += _LIGHT_GAS_MAX
            size_bytes += _LIGHT_BYTES_MAX
            memory_words += _memory_words(_LIGHT_BYTES_MAX, (transition,))
            continue
        own_bytes = len(encode_payload((transition,), 0))
        own_words = _memory_words(own_bytes, (transition,))
        alone = (transition,)
        is_new_run = _run_count((*previous, transition)) > _run_count(previous)
        gas += gas_bound(alone, 0, auth) - _memory_gas(own_words)
        gas -= auth.run_gas * (_run_count(alone) - is_new_run)
        previous = alone if _is_verified(transition) else previous
        size_bytes += own_bytes
        memory_words += own_words
        if count and (gas + _memory_gas(memory_words) > COMMIT_GAS_MAX or size_bytes > PAYLOAD_BYTES_MAX):
            return count
    return count + 1


def split_round(
    entries: tuple[Entry, ...],
    valid_until_s: int,
    auth: AuthCost,
    is_body_hashed: bool = False,
    gas_max: int = COMMIT_GAS_MAX,
    bytes_max: int = PAYLOAD_BYTES_MAX,
) -> tuple[tuple[Entry, ...], ...] | TooLarge:
    """The round in parts that each fit into a transaction; in a part, the leaves of the others are bare.

    The order of transitions is kept across the parts, so that what depends on an earlier one finds it.
    """
    bare = tuple(entry.leaf if isinstance(entry, Transition) else entry for entry in entries)
    full = [position for position, entry in enumerate(entries) if isinstance(entry, Transition)]

    def part_of(start: int, end: int) -> tuple[Entry, ...]:
        chosen = set(full[start:end])
        return tuple(entry if position in chosen else bare[position] for position, entry in enumerate(entries))

    def fits(part: tuple[Entry, ...]) -> bool:
        size_bytes = len(encode_payload(part, valid_until_s, is_body_hashed))
        return size_bytes <= bytes_max and gas_bound(part, valid_until_s, auth, is_body_hashed) <= gas_max

    parts: list[tuple[Entry, ...]] = []
    start = 0
    while start < len(full):
        # More in a part never costs less, so the most that fits is found by halving.
        low, high = start, len(full)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(part_of(start, middle)) else (low, middle - 1)
        part = part_of(start, low if low > start else start + 1)
        if low == start:
            transition = entries[full[start]]
            assert isinstance(transition, Transition), "only transitions are in `full`"
            size_bytes = len(encode_payload(part, valid_until_s, is_body_hashed))
            return TooLarge(transition.intent, gas_bound(part, valid_until_s, auth, is_body_hashed), size_bytes)
        parts.append(part)
        start = low
    return tuple(parts)


def _computing_gas(entry: Entry) -> int:
    """What is computed for a leaf, and logged if it is skipped."""
    if not isinstance(entry, Transition):
        return _BARE_GAS
    word_count = len(entry.outputs) + len(entry.info)
    gas = _FULL_GAS + _SKIP_GAS + _HASH_WORD_GAS * word_count
    gas += _REFERENCE_GAS * (len(entry.reads) + len(entry.inputs))
    gas += _PREPARED_GAS if entry.preparation is not None else 0
    if entry.calls:
        stated = sum(call.gas for call in entry.calls)
        # Copied into a frame and out of it, and hashed; no target sees more than what is stated.
        copied_words = sum(len(call.data) // WORD_BYTES + 3 for call in entry.calls)
        gas += _CALLS_GAS + len(entry.calls) * _CALL_GAS + 4 * (_HASH_WORD_GAS + _WORD_GAS) * copied_words
        gas += 2 * copied_words**2 // _MEMORY_SQUARE
        # What the last call needs in reserve lies twice over it: in the frame and in the transaction.
        gas += stated + 2 * (max(call.gas for call in entry.calls) // (_FRAME_DENOMINATOR - 1))
    return gas


def _memory_gas(words: int) -> int:
    return 2 * _WORD_GAS * words + words**2 // _MEMORY_SQUARE


def _memory_words(payload_bytes: int, entries: tuple[Entry, ...]) -> int:
    calls_bytes = sum(
        sum(len(call.data) + 4 * WORD_BYTES for call in entry.calls)
        for entry in entries
        if isinstance(entry, Transition)
    )
    return (payload_bytes + 2 * WORD_BYTES * len(entries) + 2 * calls_bytes) // WORD_BYTES + 100


def _page_gas(entries: tuple[Entry, ...]) -> int:
    """Every page is opened, and every return to one finds it warm."""
    pages = [entry.intent[:_PAGE_BYTES] for entry in entries if isinstance(entry, Transition)]
    switches = sum(1 for before, page in zip([None, *pages], pages, strict=False) if page != before)
    return len(set(pages)) * _NEW_WORD_GAS + switches * _PAGE_GAS


def _state_gas(entries: tuple[Entry, ...]) -> int:
    """What storage costs: a word for each chain, and all that is looked at cold."""
    full = [entry for entry in entries if isinstance(entry, Transition)]
    links = _links(full)
    chains: list[int] = []
    gas = 0
    for number, transition in enumerate(full):
        chains.append(chains[links[number]] if number in links else number)
        makers = {state.leaf for state in transition.inputs}
        gas += _COLD_LOAD_GAS * len(makers | {state.leaf for state in transition.reads})
        gas += _CHANGE_GAS * (len(makers) - (1 if number in links else 0))
    taking = {chains[number] for number in links}
    keeping = {chains[number] for number, transition in enumerate(full) if transition.outputs}
    return gas + _CHANGE_GAS * len(taking) + _NEW_WORD_GAS * len(keeping)


def _links(full: Sequence[Transition]) -> dict[int, int]:
    """For each transition that spends all that an earlier one makes, the number of that one."""
    number_of: dict[Leaf, int] = {}
    for number, transition in enumerate(full):
        number_of.setdefault(transition.leaf, number)
    links: dict[int, int] = {}
    linked: set[int] = set()
    for number, transition in enumerate(full):
        for leaf in dict.fromkeys(state.leaf for state in transition.inputs):
            maker = number_of.get(leaf, number)
            outputs = {state.output for state in transition.inputs if state.leaf == leaf}
            spends_all = maker < number and outputs.issuperset(range(len(full[maker].outputs)))
            if spends_all and maker not in linked and number not in links:
                links[number] = maker
                linked.add(maker)
    return links


# What comes from the chain.


def decode_payload(payload: bytes, separator: bytes) -> Payload | Malformed:
    """Read what the contract with this domain separator was given, with the same strictness."""
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
    """Read a `Skipped` log. It is information and never a verdict: anybody can provoke a skip."""
    if len(topics) != 3 or topics[0] != SKIPPED_TOPIC:
        return Malformed("topics: not those of a Skipped")
    if len(content) != 3 * WORD_BYTES or any(content[:31]) or any(content[64:95]):
        return Malformed("data: must be a reason, a leaf and an output, each in one word")
    intent, leaf = IntentId(topics[1][:INTENT_BYTES]), Leaf(topics[2])
    return SkippedLog(intent, leaf, content[31], StateId(Leaf(content[32:64]), content[95]))


class _MalformedError(Exception):
    """Never leaves this module."""


class _Bytes:
    """Bytes of others, taken from the front; what is asked for must be there."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int, what: str) -> bytes:
        """The next bytes."""
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
        """There must be nothing left."""
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
            page = full.intent[:_PAGE_BYTES]
            entries.append(full)
        leaves.append(entries[-1].leaf)
    source.end()
    return Payload(valid_until_s, tuple(entries))


def _read_full(source: _Bytes, flags: int, separator: bytes, page: bytes | None, earlier: Sequence[Leaf]) -> FullLeaf:
    where = f"leaf {len(earlier)}"
    if not flags & _FULL or flags & _UNKNOWN_FLAGS:
        raise _MalformedError(f"{where}: flags: must be 00, or 80 with 1, 2, 4 and 8, not {flags:02x}")
    counter, inputs_outputs, reads_info = source.take(3, f"{where}: counts")
    own_page = source.take(_PAGE_BYTES, f"{where}: page") if flags & _PAGE else page
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
    head = bytes((flags & _BOUND_FLAGS, inputs_outputs, reads_info))
    references = b"".join(state.leaf + bytes((state.output,)) for state in reads + inputs)
    calls_hash = keccak(packed_calls(calls)) if calls else b""
    core = Core(keccak(separator + intent + head + references + body_hash + calls_hash))
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


def _read_address(source: _Bytes, what: str) -> ContractAddress:
    return ContractAddress("0x" + source.take(ADDRESS_BYTES, what).hex())


def _read_abi_number_and_bytes(source: _Bytes) -> tuple[int, bytes]:
    """ABI encoding of (uint256, bytes), of which there is one strict form."""
    number = source.number(WORD_BYTES, "committed")
    offset = source.number(WORD_BYTES, "payload")
    if offset != 2 * WORD_BYTES:
        raise _MalformedError(f"payload: must begin at {2 * WORD_BYTES}, not {offset}")
    content = source.take(source.number(WORD_BYTES, "payload"), "payload")
    if any(source.take(-len(content) % WORD_BYTES, "payload")):
        raise _MalformedError("payload: must be padded with zeros")
    source.end()
    return number, content
