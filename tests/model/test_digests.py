"""What is signed, checked from outside: published vectors, a generic EIP-712 encoder, and a reader that works
out the leaves of a payload as the contract does, from nothing but its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest
import sha3
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.digests import (
    Core,
    approval_digest,
    core_of,
    domain_separator,
    leaf_of,
    refusal_digest,
    round_digest,
    state_commitment,
)
from rota.model.types import (
    LOCK_EXPIRY_MAX,
    Attesters,
    Call,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    LockChange,
    LockKind,
    NodeName,
    Party,
    PartySignature,
    Preparation,
    StateId,
    Transition,
)

Item = TypeVar("Item")

CHAIN_ID = 1337
LEDGER = ContractAddress("0x5fbdb2315678afecb367f032d93f642f64180aa3")
SETTLEMENT = ContractAddress("0xe7f1725e7734ce288f8367e1bb143e90bb3f0512")
TARGET = ContractAddress("0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0")
SEPARATOR = domain_separator(CHAIN_ID, LEDGER)
INTENT = IntentId(bytes(range(16)))

deterministic = settings(derandomize=True, deadline=None, max_examples=100)


def keccak(content: bytes) -> bytes:
    digest: bytes = sha3.keccak_256(content).digest()
    return digest


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def state(number: int, output: int = 0) -> StateId:
    return StateId(Leaf(word(number)), output)


# The hash.


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
        (
            b"The quick brown fox jumps over the lazy dog",
            "4d741b6f1eb29cb2a9b9911c82f56fa8d73b04959d3d9d222895df6c0b28aa15",
        ),
        # Longer than one block of the sponge.
        (b"\xa3" * 200, "3a57666b048777f2c953dc4456f45a2588e1cb6f2da760122d530ac2ce607d4a"),
    ],
)
def test_state_commitment_is_the_published_keccak_of_the_content(content: bytes, expected: str) -> None:
    assert state_commitment(content).hex() == expected


# EIP-712, by an encoder that knows types and nothing of Rota.

Types = Mapping[str, Mapping[str, str]]

DOMAIN_FIELDS = {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address"}


def typed_digest(types: Types, primary: str, domain: Mapping[str, object], value: Mapping[str, object]) -> bytes:
    all_types = {"EIP712Domain": DOMAIN_FIELDS, **types}
    separator = hash_struct(all_types, "EIP712Domain", domain)
    return keccak(b"\x19\x01" + separator + hash_struct(all_types, primary, value))


def hash_struct(types: Types, name: str, value: Mapping[str, object]) -> bytes:
    head = keccak(encode_type(types, name).encode())
    return keccak(head + b"".join(encode_field(types, kind, value[field]) for field, kind in types[name].items()))


def encode_type(types: Types, name: str) -> str:
    others = sorted(structs_within(types, name) - {name})
    return "".join(
        f"{struct}({','.join(f'{kind} {field}' for field, kind in types[struct].items())})"
        for struct in [name, *others]
    )


def structs_within(types: Types, kind: str) -> set[str]:
    name = kind.partition("[")[0]
    if name not in types:
        return set()
    return {name}.union(*(structs_within(types, inner) for inner in types[name].values()))


def encode_field(types: Types, kind: str, value: object) -> bytes:
    match value:
        case list() if kind.endswith("[]"):
            return keccak(b"".join(encode_field(types, kind.removesuffix("[]"), item) for item in value))
        case dict() if kind in types:
            return hash_struct(types, kind, value)
        case str() if kind == "string":
            return keccak(value.encode())
        case str() if kind == "address":
            return bytes(12) + bytes.fromhex(value.removeprefix("0x"))
        case int() if kind.startswith("uint"):
            return word(value)
        case bytes() if kind == "bytes32":
            return value
        case bytes() if kind == "bytes":
            return keccak(value)
    raise AssertionError(f"{kind}: {value!r}")


def rota_domain(chain_id: int, contract: str) -> dict[str, object]:
    return {"name": "Rota", "version": "1", "chainId": chain_id, "verifyingContract": contract}


def test_generic_encoder_gives_the_digest_that_eip_712_publishes() -> None:
    """The example of the standard itself: it vouches for the encoder that vouches for the product."""
    types = {
        "Person": {"name": "string", "wallet": "address"},
        "Mail": {"from": "Person", "to": "Person", "contents": "string"},
    }
    domain = {**rota_domain(1, "0x" + "cc" * 20), "name": "Ether Mail"}
    mail = {
        "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
        "to": {"name": "Bob", "wallet": "0x" + "bb" * 20},
        "contents": "Hello, Bob!",
    }
    digest = typed_digest(types, "Mail", domain, mail)
    assert digest.hex() == "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2"


addresses = st.binary(min_size=20, max_size=20).map(lambda raw: ContractAddress("0x" + raw.hex()))
words = st.binary(min_size=32, max_size=32)
leaves = words.map(Leaf)


@deterministic
@given(st.integers(0, 2**256 - 1), addresses)
def test_domain_separator_is_the_eip_712_domain_hash(chain_id: int, contract: ContractAddress) -> None:
    expected = hash_struct({"EIP712Domain": DOMAIN_FIELDS}, "EIP712Domain", rota_domain(chain_id, contract))
    assert domain_separator(chain_id, contract) == expected


@deterministic
@given(st.integers(0, 2**64), addresses, st.lists(leaves, min_size=1, max_size=5), st.integers(0, 2**64 - 1))
def test_round_digest_is_the_eip_712_digest_of_its_leaves_and_validity(
    chain_id: int, contract: ContractAddress, some_leaves: list[Leaf], valid_until_s: int
) -> None:
    types = {"Round": {"leaves": "bytes32[]", "validUntil": "uint64"}}
    value = {"leaves": some_leaves, "validUntil": valid_until_s}
    expected = typed_digest(types, "Round", rota_domain(chain_id, contract), value)
    separator = domain_separator(chain_id, contract)
    assert round_digest(separator, tuple(some_leaves), valid_until_s) == expected


def refused(leaf: Leaf, valid_until_s: int = 600, signature: bytes = b"signed") -> Transition:
    return Transition(IntentId(bytes(16)), leaf, valid_until_s=valid_until_s, signature=signature)


@deterministic
@given(
    st.integers(0, 2**64), addresses, leaves, st.text(max_size=20), st.integers(0, 2**64 - 1), st.binary(max_size=65)
)
def test_refusal_digest_is_the_eip_712_digest_of_leaf_party_and_signature(
    chain_id: int, contract: ContractAddress, leaf: Leaf, party: str, valid_until_s: int, signature: bytes
) -> None:
    types = {"Refusal": {"leaf": "bytes32", "validUntil": "uint64", "party": "string", "signature": "bytes"}}
    value = {"leaf": leaf, "validUntil": valid_until_s, "party": party, "signature": signature}
    expected = typed_digest(types, "Refusal", rota_domain(chain_id, contract), value)
    separator = domain_separator(chain_id, contract)
    assert refusal_digest(separator, Party(party), refused(leaf, valid_until_s, signature)) == expected


def test_refusal_digest_of_an_example() -> None:
    digest = refusal_digest(SEPARATOR, Party("alice@node1"), refused(Leaf(word(1))))
    assert digest.hex() == "934483fa28f028f9df2d80e1bb6baea97f9bb40bdd734482590bd425fde85693"


def test_refusal_is_no_round_and_of_one_leaf_party_signature_and_contract() -> None:
    one, two, alice = Leaf(word(1)), Leaf(word(2)), Party("alice@node1")
    digests = [
        round_digest(SEPARATOR, (one,), 600),
        refusal_digest(SEPARATOR, alice, refused(one)),
        refusal_digest(SEPARATOR, alice, refused(two)),
        refusal_digest(SEPARATOR, alice, refused(one, 601)),
        refusal_digest(SEPARATOR, alice, refused(one, 600, b"forged")),
        refusal_digest(SEPARATOR, Party("bob@node1"), refused(one)),
        refusal_digest(domain_separator(CHAIN_ID + 1, LEDGER), alice, refused(one)),
    ]
    assert len(set(digests)) == len(digests)


@deterministic
@given(addresses, words)
def test_approval_digest_is_the_eip_712_digest_of_its_round(contract: ContractAddress, digest: bytes) -> None:
    expected = typed_digest({"Approval": {"round": "bytes32"}}, "Approval", rota_domain(7, contract), {"round": digest})
    assert approval_digest(domain_separator(7, contract), Digest(digest)) == expected


@deterministic
@given(
    st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=8)), max_size=3),
    st.lists(st.text(max_size=8), min_size=1, max_size=3),
)
def test_refusal_of_a_planned_transition_binds_whom_the_plan_adds(
    signers: list[tuple[str, bytes]], endorsers: list[str]
) -> None:
    fields = {"leaf": "bytes32", "validUntil": "uint64", "party": "string", "signature": "bytes"}
    added = {"signers": "string[]", "signatures": "bytes[]", "endorsers": "string[]"}
    value = {"leaf": word(1), "validUntil": 600, "party": "alice@node1", "signature": b"signed"}
    named = {"signers": [name for name, _ in signers], "signatures": [each for _, each in signers]}
    value |= {**named, "endorsers": endorsers}
    expected = typed_digest({"PlannedRefusal": fields | added}, "PlannedRefusal", rota_domain(CHAIN_ID, LEDGER), value)
    pairs = tuple(PartySignature(Party(name), signature) for name, signature in signers)
    attesters = Attesters(pairs, tuple(map(NodeName, endorsers)))
    assert refusal_digest(SEPARATOR, Party("alice@node1"), refused(Leaf(word(1))), attesters) == expected


def test_round_digest_tells_every_difference_between_rounds() -> None:
    one, two = Leaf(word(1)), Leaf(word(2))
    elsewhere = domain_separator(CHAIN_ID + 1, LEDGER)
    digests = [
        round_digest(SEPARATOR, (one,), 600),
        round_digest(SEPARATOR, (two,), 600),
        round_digest(SEPARATOR, (one, two), 600),
        round_digest(SEPARATOR, (two, one), 600),
        round_digest(SEPARATOR, (one, one), 600),
        round_digest(SEPARATOR, (one,), 601),
        round_digest(elsewhere, (one,), 600),
    ]
    assert len(set(digests)) == len(digests)


# Leaves: whatever differs in a transition differs in its leaf.


@dataclass(frozen=True)
class Content:
    """A transition as an endorser has it before it: everything that its leaf has to bind."""

    intent: IntentId = INTENT
    reads: tuple[StateId, ...] = ()
    inputs: tuple[StateId, ...] = ()
    outputs: tuple[bytes, ...] = ()
    info: tuple[bytes, ...] = ()
    calls: tuple[Call, ...] = ()
    preparation: Preparation | None = None
    lock: LockChange | None = None
    separator: bytes = SEPARATOR

    @property
    def core(self) -> Core:
        return core_of(
            self.separator,
            self.intent,
            reads=self.reads,
            inputs=self.inputs,
            outputs=self.outputs,
            info=self.info,
            calls=self.calls,
            lock=self.lock,
        )

    @property
    def leaf(self) -> Leaf:
        return leaf_of(self.core, self.preparation)


EMPTY = Content()
FULL = Content(
    reads=(state(1), state(2, 3)),
    inputs=(state(3, 14), state(4, 255)),
    outputs=(word(5), word(6)),
    info=(word(7), word(8)),
    calls=(Call(TARGET, 100_000, b"\x01\x02"), Call(SETTLEMENT, 1)),
    preparation=Preparation(SETTLEMENT, word(9)),
)
LOCKED = replace(
    FULL,
    lock=LockChange(
        kind=LockKind.SET,
        lock=word(10),
        presumed=TARGET,
        delegate=SETTLEMENT,
        expires_at_s=11,
        spends=Leaf(word(12)),
        cancels=Leaf(word(13)),
    ),
)

some_intents = st.binary(min_size=16, max_size=16).map(IntentId)
some_states = st.builds(StateId, leaves, st.integers(0, 255))
some_calls = st.builds(Call, addresses, st.integers(0, 2**32 - 1), st.binary(max_size=40))
contents = st.builds(
    Content,
    intent=some_intents,
    reads=st.lists(some_states, max_size=3).map(tuple),
    inputs=st.lists(some_states, max_size=3).map(tuple),
    outputs=st.lists(words, max_size=3).map(tuple),
    info=st.lists(words, max_size=3).map(tuple),
    calls=st.lists(some_calls, max_size=2).map(tuple),
    preparation=st.none() | st.builds(Preparation, addresses, words),
    lock=st.none()
    | st.builds(LockChange, kind=st.just(LockKind.SPENT), lock=words, presumed=addresses)
    | st.builds(LockChange, kind=st.just(LockKind.DELEGATE), lock=words, presumed=addresses, delegate=addresses)
    | st.builds(
        LockChange,
        kind=st.just(LockKind.HOLD),
        lock=words,
        presumed=addresses,
        delegate=addresses,
        expires_at_s=st.integers(0, LOCK_EXPIRY_MAX),
    )
    | st.builds(
        LockChange,
        kind=st.just(LockKind.SET),
        lock=words,
        presumed=addresses,
        delegate=addresses,
        expires_at_s=st.integers(0, 2**64 - 1),
        spends=leaves,
        cancels=leaves,
    ),
)


def with_a_bit_flipped(raw: bytes, bit: int) -> bytes:
    place = bit % (8 * len(raw))
    return (int.from_bytes(raw, "big") ^ 1 << place).to_bytes(len(raw), "big")


def address_flipped(address: ContractAddress, bit: int) -> ContractAddress:
    return ContractAddress("0x" + with_a_bit_flipped(bytes.fromhex(address[2:]), bit).hex())


def each_changed(items: tuple[Item, ...], change: Callable[[Item], Item]) -> Iterator[tuple[Item, ...]]:
    for index, item in enumerate(items):
        yield (*items[:index], change(item), *items[index + 1 :])


def with_one_field_changed(content: Content, bit: int) -> Iterator[Content]:
    """Every field of a transition in turn, down to the parts of its references and calls, one bit changed."""

    def flip(raw: bytes) -> bytes:
        return with_a_bit_flipped(raw, bit)

    yield replace(content, separator=flip(content.separator))
    yield replace(content, intent=IntentId(flip(content.intent)))
    for change in (
        lambda state: StateId(Leaf(flip(state.leaf)), state.output),
        lambda state: StateId(state.leaf, state.output ^ 1 << bit % 8),
    ):
        yield from (replace(content, reads=reads) for reads in each_changed(content.reads, change))
        yield from (replace(content, inputs=inputs) for inputs in each_changed(content.inputs, change))
    yield from (replace(content, outputs=outputs) for outputs in each_changed(content.outputs, flip))
    yield from (replace(content, info=info) for info in each_changed(content.info, flip))
    for alter in (
        lambda call: replace(call, to=address_flipped(call.to, bit)),
        lambda call: replace(call, gas=call.gas ^ 1 << bit % 32),
        lambda call: replace(call, data=flip(b"\0" + call.data)),
    ):
        yield from (replace(content, calls=calls) for calls in each_changed(content.calls, alter))
    if content.preparation is None:
        yield replace(content, preparation=Preparation(SETTLEMENT, word(bit)))
    else:
        committer, condition = content.preparation.committer, content.preparation.condition
        yield replace(content, preparation=None)
        yield replace(content, preparation=Preparation(address_flipped(committer, bit), condition))
        yield replace(content, preparation=Preparation(committer, flip(condition)))
    lock = content.lock
    if lock is None:
        yield replace(content, lock=LockChange(kind=LockKind.SPENT, lock=word(bit)))
        return
    yield replace(content, lock=None)
    changes: dict[str, object] = {"lock": flip(lock.lock), "presumed": address_flipped(lock.presumed, bit)}
    if lock.kind is LockKind.SPENT:
        changes["kind"] = LockKind.CANCELLED
    if lock.kind is not LockKind.SPENT:
        changes["delegate"] = address_flipped(lock.delegate, bit)
    if lock.kind is LockKind.HOLD:
        changes["expires_at_s"] = lock.expires_at_s ^ 1 << bit % 64
    if lock.kind is LockKind.SET:
        changes |= {"expires_at_s": lock.expires_at_s ^ 1 << bit % 64, "spends": flip(lock.spends)}
        changes["cancels"] = flip(lock.cancels)
    for name, value in changes.items():
        yield replace(content, lock=replace(lock, **{name: value}))  # type: ignore[arg-type]


@deterministic
@given(contents, st.integers(0, 255))
def test_changing_any_field_changes_the_leaf(content: Content, bit: int) -> None:
    for changed in with_one_field_changed(content, bit):
        assert changed.leaf != content.leaf, changed


def splits(items: tuple[Item, ...]) -> Iterator[tuple[tuple[Item, ...], tuple[Item, ...]]]:
    for place in range(len(items) + 1):
        yield items[:place], items[place:]


@deterministic
@given(contents)
def test_same_bytes_split_otherwise_over_the_fields_make_another_leaf(content: Content) -> None:
    """A state moved from the inputs to the reads, or a word from the outputs to the info, is told apart."""
    split_otherwise = [
        replace(content, reads=reads, inputs=inputs, outputs=outputs, info=info).leaf
        for reads, inputs in splits(content.reads + content.inputs)
        for outputs, info in splits(content.outputs + content.info)
    ]
    assert len(set(split_otherwise)) == len(split_otherwise)


def test_same_bytes_split_otherwise_over_the_calls_make_another_leaf() -> None:
    packed_call = bytes.fromhex(TARGET[2:]) + (7).to_bytes(4, "big") + (0).to_bytes(2, "big")
    apart = (Call(TARGET, 7, b""), Call(TARGET, 7, b""))
    nested = (Call(TARGET, 7, packed_call),)
    assert replace(EMPTY, calls=apart).leaf != replace(EMPTY, calls=nested).leaf


def test_order_of_every_field_is_bound() -> None:
    reversed_ones = [
        replace(FULL, reads=FULL.reads[::-1]),
        replace(FULL, inputs=FULL.inputs[::-1]),
        replace(FULL, outputs=FULL.outputs[::-1]),
        replace(FULL, info=FULL.info[::-1]),
        replace(FULL, calls=FULL.calls[::-1]),
    ]
    assert len({FULL.leaf, *(content.leaf for content in reversed_ones)}) == 6


@deterministic
@given(contents, contents)
def test_two_transitions_share_a_leaf_only_if_they_are_the_same(first: Content, second: Content) -> None:
    assert (first.leaf == second.leaf) == (first == second)


def test_core_is_the_leaf_that_a_prepared_transition_would_have_otherwise() -> None:
    unprepared = replace(FULL, preparation=None)
    assert unprepared.leaf == leaf_of(FULL.core)
    assert unprepared.leaf == bytes(FULL.core)
    assert unprepared.leaf != FULL.leaf


# Payloads: the contract sees no transition, only bytes, and must come to the same leaves.

PAGE, PREPARED, CALLS, BODY, LOCK = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Writing:
    """How a transition is written down: each of these is for whoever submits to choose."""

    bare: bool
    page: bool
    body: bool
    positions: bool


def payload_of(round_: list[tuple[Content, Writing]]) -> bytes:
    written = bytearray((600).to_bytes(8, "big") + bytes([len(round_)]))
    position_of: dict[Leaf, int] = {}
    page = b""
    for content, writing in round_:
        if writing.bare:
            written += b"\0" + content.leaf
        else:
            written += full_entry(content, writing, page, position_of)
            page = content.intent[:15]
        position_of.setdefault(content.leaf, len(position_of))
    return bytes(written)


def full_entry(content: Content, writing: Writing, page: bytes, position_of: Mapping[Leaf, int]) -> bytes:
    with_page = writing.page or content.intent[:15] != page
    flags = 0x80 | PAGE * with_page | BODY * writing.body
    flags |= PREPARED * (content.preparation is not None) | CALLS * bool(content.calls)
    flags |= LOCK * (content.lock is not None)
    counts = [len(content.inputs) * 16 + len(content.outputs), len(content.reads) * 16 + len(content.info)]
    entry = bytes([flags, content.intent[15], *counts])
    if with_page:
        entry += content.intent[:15]
    if content.preparation is not None:
        entry += bytes.fromhex(content.preparation.committer[2:]) + content.preparation.condition
    for leaf, output in content.reads + content.inputs:
        if writing.positions and leaf in position_of:
            entry += bytes([position_of[leaf], output])
        else:
            entry += b"\xff" + bytes([output]) + leaf
    body = b"".join(content.outputs + content.info)
    entry += keccak(body) if writing.body else body
    if content.calls:
        entry += bytes([len(content.calls)])
    for call in content.calls:
        entry += bytes.fromhex(call.to[2:]) + call.gas.to_bytes(4, "big")
        entry += len(call.data).to_bytes(2, "big") + call.data
    return entry + (lock_section(content.lock) if content.lock is not None else b"")


def lock_section(lock: LockChange) -> bytes:
    section = bytes([lock.kind]) + lock.lock + bytes.fromhex(lock.presumed[2:])
    if lock.kind in (LockKind.SET, LockKind.DELEGATE, LockKind.HOLD):
        section += bytes.fromhex(lock.delegate[2:])
    if lock.kind in (LockKind.SET, LockKind.HOLD):
        section += lock.expires_at_s.to_bytes(8, "big")
    if lock.kind is LockKind.SET:
        section += lock.spends + lock.cancels
    return section


class Reader:
    """Works out the leaves of a payload the way the contract does: from front to back, slice by slice."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.at = 0
        self.page = b""
        self.leaves: list[bytes] = []

    def take(self, size: int) -> bytes:
        taken = self.payload[self.at : self.at + size]
        assert len(taken) == size
        self.at += size
        return taken

    def read(self) -> list[bytes]:
        self.take(8)
        for _ in range(self.take(1)[0]):
            flags = self.take(1)[0]
            self.leaves.append(self.full_leaf(flags) if flags else self.take(32))
        assert self.at == len(self.payload)
        return self.leaves

    def full_leaf(self, flags: int) -> bytes:
        counter, counts = self.take(1), self.take(2)
        input_count, output_count, read_count, info_count = (int(digit, 16) for digit in counts.hex())
        if flags & PAGE:
            self.page = self.take(15)
        preparation = self.take(52) if flags & PREPARED else b""
        references = b"".join(self.reference() for _ in range(read_count + input_count))
        body = self.take(32) if flags & BODY else keccak(self.take(32 * (output_count + info_count)))
        start = self.at
        if flags & CALLS:
            self.packed_calls()
        if flags & LOCK:
            self.take({1: 144, 2: 72, 3: 52, 4: 52, 5: 80, 6: 52}[self.take(1)[0]])
        more = keccak(self.payload[start : self.at]) if flags & (CALLS | LOCK) else b""
        head = SEPARATOR + self.page + counter + bytes([flags & 0x94])
        core = keccak(head + counts + references + body + more)
        return keccak(core + preparation) if preparation else core

    def reference(self) -> bytes:
        position, output = self.take(2)
        return (self.take(32) if position == 0xFF else self.leaves[position]) + bytes([output])

    def packed_calls(self) -> bytes:
        start = self.at
        for _ in range(self.take(1)[0]):
            self.take(24)
            self.take(int.from_bytes(self.take(2), "big"))
        return self.payload[start : self.at]


@st.composite
def chained_contents(draw: st.DrawFn) -> list[Content]:
    """Transitions of which the later ones read and spend what earlier ones make, some from one page."""
    pages = st.sampled_from([bytes(15), b"\1" * 15])
    chain: list[Content] = []
    for counter in range(draw(st.integers(1, 4))):
        content = draw(contents)
        earlier = [StateId(earlier.leaf, output) for earlier in chain for output in range(2)]
        if earlier:
            spent = draw(st.lists(st.sampled_from(earlier), max_size=2))
            content = replace(content, inputs=content.inputs + tuple(spent), reads=(earlier[0], *content.reads))
        chain.append(replace(content, intent=IntentId(draw(pages) + bytes([counter]))))
    return chain


@deterministic
@given(chained_contents(), st.data())
def test_compression_never_changes_a_leaf(chain: list[Content], data: st.DataObject) -> None:
    writings = st.builds(Writing, st.booleans(), st.booleans(), st.booleans(), st.booleans())
    payload = payload_of([(content, data.draw(writings)) for content in chain])
    assert Reader(payload).read() == [content.leaf for content in chain]


def test_leaf_is_one_hash_of_the_packed_fields() -> None:
    """The layout in full, spelled out once, field by field, as the contract has to match it."""
    references = word(1) + b"\x00" + word(2) + b"\x03" + word(3) + b"\x0e" + word(4) + b"\xff"
    body = word(5) + word(6) + word(7) + word(8)
    calls = (
        "02"
        "9fe46736679d2d9a65f0992f2272de9f3c7fa6e0 000186a0 0002 0102"
        "e7f1725e7734ce288f8367e1bb143e90bb3f0512 00000001 0000"
    )
    head = SEPARATOR + INTENT + bytes([0x84, 0x22, 0x22])
    core = keccak(head + references + keccak(body) + keccak(bytes.fromhex(calls)))
    assert FULL.core == core
    assert FULL.leaf == keccak(core + bytes.fromhex(SETTLEMENT[2:]) + word(9))
    assert EMPTY.leaf == keccak(SEPARATOR + INTENT + b"\x80\x00\x00" + keccak(b""))


# Pinned: what was signed yesterday must be what is checked tomorrow. None of these may ever change.


def test_leaf_of_a_change_of_a_lock_hashes_it_behind_the_calls() -> None:
    assert LOCKED.lock is not None
    calls = f"02 {TARGET[2:]} 000186a0 0002 0102 {SETTLEMENT[2:]} 00000001 0000"
    references = b"".join(bytes.fromhex(leaf.hex()) + bytes([n]) for leaf, n in LOCKED.reads + LOCKED.inputs)
    body = b"".join(LOCKED.outputs + LOCKED.info)
    more = keccak(bytes.fromhex(calls) + lock_section(LOCKED.lock))
    head = SEPARATOR + INTENT + bytes([0x94, 0x22, 0x22])
    assert LOCKED.core == keccak(head + references + keccak(body) + more)
    alone = keccak(SEPARATOR + INTENT + bytes([0x90, 0, 0]) + keccak(b"") + keccak(lock_section(LOCKED.lock)))
    assert replace(EMPTY, lock=LOCKED.lock).core == alone


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": LockKind.SPENT, "lock": b"short"},
        {"kind": LockKind.SPENT, "lock": word(1), "presumed": "0x00"},
        {"kind": LockKind.SPENT, "lock": word(1), "delegate": SETTLEMENT},
        {"kind": LockKind.CANCELLED, "lock": word(1), "expires_at_s": 1},
        {"kind": LockKind.DELEGATE, "lock": word(1), "spends": word(1), "cancels": word(1)},
        {"kind": LockKind.RELEASE, "lock": word(1), "expires_at_s": 1},
        {"kind": LockKind.RELEASE, "lock": word(1), "delegate": SETTLEMENT},
        {"kind": LockKind.HOLD, "lock": word(1), "expires_at_s": 1 << 64},
        {"kind": LockKind.HOLD, "lock": word(1), "spends": word(1), "cancels": word(1)},
        {"kind": LockKind.SET, "lock": word(1), "spends": word(1)},
        {"kind": LockKind.SET, "lock": word(1), "spends": word(1), "cancels": word(1), "expires_at_s": 1 << 64},
    ],
)
def test_change_of_a_lock_has_the_fields_of_its_kind(wrong: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        LockChange(**wrong)  # type: ignore[arg-type]


def test_pinned_digests_do_not_change() -> None:
    unprepared = replace(FULL, preparation=None)
    assert SEPARATOR.hex() == "279a4a566c6b8ca0d870f1ec134a2fbf0e36e2e6ddfea35eb8acd4dac1251cb1"
    assert EMPTY.leaf.hex() == "54a1baf16f2413d1a62c709f19d6bb8a47eff2fb4973a70154cc3ceae095feeb"
    assert (
        replace(unprepared, calls=()).leaf.hex() == "d8c2054d987e1e9edd01c94f6d46d9df2886ab71bab3a07b744900d28d3ddd9f"
    )
    assert unprepared.leaf.hex() == "f9fb895f86ea1f8e21d635c61f28f94aba9a9eea619c6db4a06d2d78f2ec2133"
    assert FULL.leaf.hex() == "c9858260be1ff439dca6e2777cc725fd5e5a4ed4d7461ec8d69ae83a7720370b"
    digest = round_digest(SEPARATOR, (EMPTY.leaf, FULL.leaf), 1_700_000_000)
    assert digest.hex() == "5a6834fbff4878985f14a1a9d7f332513256433b06fdc97aabb15b98995c3fa4"


# Sizes.


def test_largest_of_everything_is_accepted() -> None:
    most = (state(1, 255),) * 15
    calls = (Call(TARGET, 2**32 - 1, bytes(65_535)),) + (Call(TARGET, 0),) * 254
    largest = Content(reads=most, inputs=most, outputs=(word(1),) * 15, info=(word(2),) * 15, calls=calls)
    assert Reader(payload_of([(largest, Writing(False, True, False, False))])).read() == [largest.leaf]
    assert len(round_digest(SEPARATOR, (largest.leaf,) * 255, 2**64 - 1)) == 32
    assert len(domain_separator(2**256 - 1, LEDGER)) == 32


@pytest.mark.parametrize("size", [0, 15, 17, 32])
def test_intent_id_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(AssertionError, match="an intent id is 16 bytes"):
        core_of(SEPARATOR, IntentId(bytes(size)))


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_word_of_another_size_is_refused_wherever_it_stands(size: int) -> None:
    wrong = bytes(size)
    attempts: list[Callable[[], object]] = [
        lambda: core_of(wrong, INTENT),
        lambda: core_of(SEPARATOR, INTENT, reads=(StateId(Leaf(wrong), 0),)),
        lambda: core_of(SEPARATOR, INTENT, inputs=(StateId(Leaf(wrong), 0),)),
        lambda: core_of(SEPARATOR, INTENT, outputs=(word(1), wrong)),
        lambda: core_of(SEPARATOR, INTENT, info=(wrong, word(1))),
        lambda: leaf_of(Core(wrong)),
        lambda: leaf_of(Core(wrong), FULL.preparation),
        lambda: Preparation(SETTLEMENT, wrong),
        lambda: round_digest(wrong, (FULL.leaf,), 600),
        lambda: round_digest(SEPARATOR, (FULL.leaf, Leaf(wrong)), 600),
    ]
    for attempt in attempts:
        with pytest.raises(AssertionError, match="a word is 32 bytes"):
            attempt()


def test_two_wrong_sizes_that_add_up_to_the_right_one_are_refused() -> None:
    with pytest.raises(AssertionError, match="a word is 32 bytes"):
        core_of(SEPARATOR, INTENT, outputs=(bytes(31), bytes(33)))


def test_more_than_fifteen_of_a_kind_are_refused() -> None:
    states, some_words = (state(1),) * 16, (word(1),) * 16
    attempts: list[Callable[[], object]] = [
        lambda: core_of(SEPARATOR, INTENT, reads=states),
        lambda: core_of(SEPARATOR, INTENT, inputs=states),
        lambda: core_of(SEPARATOR, INTENT, outputs=some_words),
        lambda: core_of(SEPARATOR, INTENT, info=some_words),
    ]
    for attempt in attempts:
        with pytest.raises(AssertionError, match="a count is at most 15, not 16"):
            attempt()


@pytest.mark.parametrize("output", [-1, 256])
def test_output_number_beyond_a_byte_is_refused(output: int) -> None:
    with pytest.raises(AssertionError, match="does not fit in 1 unsigned bytes"):
        core_of(SEPARATOR, INTENT, inputs=(state(1, output),))


@pytest.mark.parametrize("gas", [-1, 2**32])
def test_gas_beyond_four_bytes_is_refused(gas: int) -> None:
    with pytest.raises(AssertionError, match="a call's gas is from 0 to 4294967295"):
        Call(TARGET, gas)


def test_call_with_too_much_data_is_refused() -> None:
    with pytest.raises(AssertionError, match="at most 65535 bytes"):
        Call(TARGET, 1, bytes(65_536))


def test_more_calls_than_a_byte_counts_are_refused() -> None:
    with pytest.raises(AssertionError, match="at most 255 calls, not 256"):
        core_of(SEPARATOR, INTENT, calls=(Call(TARGET, 1),) * 256)


@pytest.mark.parametrize("count", [0, 256])
def test_round_of_no_leaves_or_of_too_many_is_refused(count: int) -> None:
    with pytest.raises(AssertionError, match=f"a round has 1 to 255 leaves, not {count}"):
        round_digest(SEPARATOR, (FULL.leaf,) * count, 600)


@pytest.mark.parametrize("valid_until_s", [-1, 2**64])
def test_validity_beyond_eight_bytes_is_refused(valid_until_s: int) -> None:
    with pytest.raises(AssertionError, match="does not fit in 8 unsigned bytes"):
        round_digest(SEPARATOR, (FULL.leaf,), valid_until_s)


@pytest.mark.parametrize("chain_id", [-1, 2**256])
def test_chain_id_beyond_a_word_is_refused(chain_id: int) -> None:
    with pytest.raises(AssertionError, match="does not fit in 32 unsigned bytes"):
        domain_separator(chain_id, LEDGER)


@pytest.mark.parametrize(
    "address",
    ["", "0x", LEDGER[2:], LEDGER[:-1], LEDGER + "0", LEDGER + "\n", LEDGER.upper(), "0x" + LEDGER[2:].upper()],
)
def test_address_that_is_not_lower_case_hex_of_20_bytes_is_refused(address: str) -> None:
    wrong = ContractAddress(address)
    attempts: list[Callable[[], object]] = [
        lambda: domain_separator(CHAIN_ID, wrong),
        lambda: Call(wrong, 1),
        lambda: Preparation(wrong, word(1)),
    ]
    for attempt in attempts:
        with pytest.raises(AssertionError, match="an address is 0x and 40 lower-case hex digits"):
            attempt()
