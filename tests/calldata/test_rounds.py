"""A round written down and read back; hostile bytes; the parts of a round that is too large."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.calldata import (
    COMMIT_GAS_MAX,
    NO_CONDITION,
    PAYLOAD_BYTES_MAX,
    ROUND_TOPIC,
    SKIPPED_TOPIC,
    AuthCost,
    BareLeaf,
    Committal,
    Entry,
    FullLeaf,
    Malformed,
    Payload,
    RoundLog,
    SkippedLog,
    TooLarge,
    decode_payload,
    decode_round_log,
    decode_skipped_log,
    encode_auth,
    encode_commit,
    encode_payload,
    gas_bound,
    split_round,
)
from rota.model.digests import domain_separator, leaf_of_transition
from rota.model.types import (
    LOCK_EXPIRY_MAX,
    NO_DELEGATE,
    Call,
    ContractAddress,
    IntentId,
    Leaf,
    LockChange,
    LockKind,
    NodeName,
    Preparation,
    State,
    StateId,
    Transition,
)

A, B, C = (ContractAddress(f"0x{n:040x}") for n in (0xA, 0xB, 0xC))
SEPARATOR = domain_separator(1337, A)
VALID_UNTIL_S = 1_000_600
AUTH = AuthCost.of_signatures(3, 2)
EXAMPLES = settings(max_examples=40)

words = st.binary(min_size=32, max_size=32)
references = st.builds(StateId, words.map(Leaf), st.integers(0, 255))
calls = st.builds(Call, st.sampled_from([A, B]), st.integers(0, 2**32 - 1), st.binary(max_size=70))
preparations = st.none() | st.builds(Preparation, st.sampled_from([A, B]), words)
delegates = st.sampled_from([A, B, NO_DELEGATE])
locks = st.none() | st.one_of(
    st.builds(
        LockChange,
        kind=st.just(LockKind.SET),
        lock=words,
        presumed=delegates,
        delegate=delegates,
        expires_at_s=st.integers(0, LOCK_EXPIRY_MAX),
        spends=words.map(Leaf),
        cancels=words.map(Leaf),
    ),
    st.builds(LockChange, kind=st.just(LockKind.DELEGATE), lock=words, presumed=delegates, delegate=delegates),
    st.builds(
        LockChange,
        kind=st.just(LockKind.HOLD),
        lock=words,
        presumed=delegates,
        delegate=delegates,
        expires_at_s=st.integers(0, LOCK_EXPIRY_MAX),
    ),
    st.builds(
        LockChange,
        kind=st.sampled_from([LockKind.SPENT, LockKind.CANCELLED, LockKind.RELEASE]),
        lock=words,
        presumed=delegates,
    ),
)


def sealed(
    intent: bytes,
    inputs: tuple[StateId, ...] = (),
    reads: tuple[StateId, ...] = (),
    outputs: tuple[bytes, ...] = (),
    info: tuple[bytes, ...] = (),
    calls: tuple[Call, ...] = (),
    preparation: Preparation | None = None,
    lock: LockChange | None = None,
) -> Transition:
    """A transition with its own leaf."""

    def with_leaf(leaf: Leaf) -> Transition:
        states = tuple(State(StateId(leaf, n), word, (NodeName("node1"),)) for n, word in enumerate(outputs))
        made = Transition(IntentId(intent), leaf, inputs, reads, states, info, calls=calls, preparation=preparation)
        return replace(made, lock=lock)

    return with_leaf(leaf_of_transition(SEPARATOR, with_leaf(Leaf(bytes(32)))))


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Entry, ...]:
    """Rounds in which some refer to earlier leaves, share pages, and are bare."""
    entries: list[Entry] = []
    for _ in range(draw(st.integers(1, 6))):
        earlier = [entry.leaf if isinstance(entry, Transition) else entry for entry in entries]
        near = st.builds(StateId, st.sampled_from(earlier), st.integers(0, 15)) if earlier else references
        states = st.lists(near | references, max_size=4).map(tuple)
        page = draw(st.sampled_from([b"a" * 15, b"b" * 15]))
        made = sealed(
            page + bytes((draw(st.integers(0, 255)),)),
            draw(states),
            draw(states),
            draw(st.lists(words, max_size=3).map(tuple)),
            draw(st.lists(words, max_size=2).map(tuple)),
            draw(st.lists(calls, max_size=2).map(tuple)),
            draw(preparations),
            draw(locks),
        )
        entries.append(made if draw(st.booleans()) else made.leaf)
    return tuple(entries)


@EXAMPLES
@given(rounds(), st.booleans())
def test_what_is_written_is_read_back(entries: tuple[Entry, ...], is_body_hashed: bool) -> None:
    payload = encode_payload(entries, VALID_UNTIL_S, is_body_hashed)
    decoded = decode_payload(payload, SEPARATOR)
    assert isinstance(decoded, Payload)
    assert decoded.valid_until_s == VALID_UNTIL_S
    for entry, found in zip(entries, decoded.entries, strict=True):
        if isinstance(entry, Transition):
            assert isinstance(found, FullLeaf)
            assert (found.intent, found.leaf) == (entry.intent, entry.leaf)
            assert (found.inputs, found.reads) == (entry.inputs, entry.reads)
            assert (found.calls, found.preparation, found.lock) == (entry.calls, entry.preparation, entry.lock)
            assert (found.output_count, found.info_count) == (len(entry.outputs), len(entry.info))
            commitments = tuple(state.commitment for state in entry.outputs)
            assert found.outputs == (None if is_body_hashed else commitments)
            assert found.info == (None if is_body_hashed else entry.info)
        else:
            assert found == BareLeaf(entry)


@EXAMPLES
@given(rounds())
def test_compression_never_changes_a_leaf(entries: tuple[Entry, ...]) -> None:
    found = [decode_payload(encode_payload(entries, VALID_UNTIL_S, form), SEPARATOR) for form in (False, True)]
    assert isinstance(found[0], Payload)
    assert isinstance(found[1], Payload)
    assert found[0].leaves == found[1].leaves


@EXAMPLES
@given(rounds(), st.data())
def test_any_cut_is_malformed(entries: tuple[Entry, ...], data: st.DataObject) -> None:
    payload = encode_payload(entries, VALID_UNTIL_S)
    cut = data.draw(st.integers(0, len(payload) - 1))
    assert isinstance(decode_payload(payload[:cut], SEPARATOR), Malformed)
    assert isinstance(decode_payload(payload + b"\0", SEPARATOR), Malformed)


@given(st.binary(max_size=400))
def test_hostile_bytes_are_an_error_value_and_never_an_exception(content: bytes) -> None:
    decode_payload(content, SEPARATOR)
    decode_payload(bytes(8) + content, SEPARATOR)
    assert isinstance(decode_round_log((ROUND_TOPIC, bytes(32)), content, SEPARATOR), Malformed)
    decode_round_log((), content, SEPARATOR)
    decode_skipped_log((SKIPPED_TOPIC, bytes(32), bytes(32)), content)
    decode_skipped_log((content,), content)


def test_reason_names_leaf_and_field() -> None:
    head = VALID_UNTIL_S.to_bytes(8, "big")
    page = bytes(15)
    reasons = {
        b"": "validUntil: ends after 0 bytes, needs 8",
        head + b"\0": "leaves: must be 1 to 255, not 0",
        head + b"\1\xa0": "leaf 0: flags: must be 00, or 80 with 1, 2, 4, 8 and 10, not a0",
        head + b"\1\x91\0\0\0" + page + b"\7": "leaf 0: lock: must be 1 to 6, not 7",
        head + b"\1\x91\0\0\0" + page + b"\3" + bytes(51): "leaf 0: lock: ends after 80 bytes, needs 81",
        head + b"\1\x80\0\0\0": "leaf 0: page: must be given, as no full leaf stands before it",
        head + b"\1\x81\0\x10\0" + page + b"\0\0": "leaf 0: reference: must be to an earlier leaf, not to 0",
        head + b"\1\x85\0\0\0" + page + b"\0": "leaf 0: calls: must be 1 to 255, not 0",
        head + b"\1\0" + bytes(33): "length: 1 bytes too many",
    }
    for payload, reason in reasons.items():
        assert decode_payload(payload, SEPARATOR) == Malformed(reason)


def abi(committed: int, payload: bytes, offset: int = 64) -> bytes:
    padding = bytes(-len(payload) % 32)
    return b"".join(n.to_bytes(32, "big") for n in (committed, offset, len(payload))) + payload + padding


def test_round_log_tells_each_intent_whether_it_was_committed() -> None:
    first = sealed(b"a" * 15 + b"\0", outputs=(bytes(32),))
    second = sealed(b"a" * 15 + b"\1", inputs=(StateId(first.leaf, 0),))
    entries = (first, Leaf(b"l" * 32), second)
    payload = encode_payload(entries, VALID_UNTIL_S)
    log = decode_round_log((ROUND_TOPIC, b"d" * 32), abi(0b100, payload), SEPARATOR)
    assert isinstance(log, RoundLog)
    assert log.digest == b"d" * 32
    assert log.committals == (Committal(first.intent, first.leaf, False), Committal(second.intent, second.leaf, True))


def test_round_log_that_no_ledger_writes_is_malformed() -> None:
    payload = encode_payload((Leaf(b"l" * 32), sealed(b"a" * 16)), VALID_UNTIL_S)
    good = abi(0b10, payload)
    topics = (ROUND_TOPIC, bytes(32))
    assert isinstance(decode_round_log(topics, good, SEPARATOR), RoundLog)
    assert decode_round_log(topics[:1], good, SEPARATOR) == Malformed("topics: not those of a Round")
    bare = "committed: names a leaf that is not given in full"
    assert decode_round_log(topics, abi(0b01, payload), SEPARATOR) == Malformed(bare)
    assert decode_round_log(topics, abi(0b100, payload), SEPARATOR) == Malformed(bare)
    assert decode_round_log(topics, abi(2, payload, 96), SEPARATOR) == Malformed("payload: must begin at 64, not 96")
    padded = Malformed("payload: must be padded with zeros")
    assert decode_round_log(topics, good[:-1] + b"\1", SEPARATOR) == padded


def test_skipped_log_tells_intent_leaf_reason_and_state() -> None:
    topics = (SKIPPED_TOPIC, b"i" * 16 + bytes(16), b"l" * 32)
    content = (3).to_bytes(32, "big") + b"s" * 32 + (7).to_bytes(32, "big")
    found = decode_skipped_log(topics, content)
    assert found == SkippedLog(IntentId(b"i" * 16), Leaf(b"l" * 32), 3, StateId(Leaf(b"s" * 32), 7))
    assert isinstance(decode_skipped_log(topics, content[:-1]), Malformed)
    assert isinstance(decode_skipped_log(topics, b"\1" + content[1:]), Malformed)
    assert isinstance(decode_skipped_log(topics[:2], content), Malformed)


def test_reference_prefers_the_copy_that_is_made_here() -> None:
    made = sealed(b"a" * 16, outputs=(bytes(32),))
    spending = sealed(b"b" * 16, inputs=(StateId(made.leaf, 0),))
    payload = encode_payload((made.leaf, made, made.leaf, spending), VALID_UNTIL_S)
    assert payload.endswith(bytes((1, 0)))


def test_auth_has_the_first_signers_in_set_order_and_the_others_addresses() -> None:
    signatures = {C: b"c" * 64, A: b"a" * 64}
    auth = encode_auth((A, B, C), signatures, 2)
    assert auth == bytes((0, 0, 0, 0b101)) + b"a" * 64 + bytes.fromhex(B[2:]) + b"c" * 64
    one = encode_auth((A, B, C), signatures, 1)
    assert one == bytes((0, 0, 0, 1)) + b"a" * 64 + bytes.fromhex(B[2:]) + bytes.fromhex(C[2:])
    assert len(auth) == AuthCost.of_signatures(3, 2).size_bytes


def test_auth_without_enough_signatures_is_our_own_error() -> None:
    with pytest.raises(AssertionError, match="2 signatures are needed, not 1"):
        encode_auth((A, B), {A: bytes(64)}, 2)
    with pytest.raises(AssertionError, match="a signature is 64 bytes"):
        encode_auth((A,), {A: bytes(65)}, 1)


def test_wrong_sizes_are_our_own_errors() -> None:
    with pytest.raises(AssertionError, match="a round has 1 to 255 leaves, not 0"):
        encode_payload((), VALID_UNTIL_S)
    with pytest.raises(AssertionError, match="a leaf is 32 bytes, not 1"):
        encode_payload((Leaf(b"x"),), VALID_UNTIL_S)
    with pytest.raises(AssertionError, match="a condition is 32 bytes, not 1"):
        encode_commit(b"", b"", b"x")


def test_commit_call_is_plain_abi() -> None:
    call = encode_commit(b"payload", b"auth", NO_CONDITION)
    assert len(call) == 4 + 3 * 32 + 2 * 64
    assert call[4 + 96 + 32 :].startswith(b"payload" + bytes(25))


def chain_of(count: int, call_gas: int = 0, call_bytes: int = 0) -> tuple[Transition, ...]:
    made: list[Transition] = []
    for number in range(count):
        inputs = (StateId(made[-1].leaf, 0),) if made else ()
        calls = (Call(B, call_gas, bytes(call_bytes)),) if call_gas or call_bytes else ()
        made.append(sealed(b"p" * 15 + bytes((number,)), inputs, outputs=(bytes(32),), calls=calls))
    return tuple(made)


def test_round_that_fits_is_one_part() -> None:
    entries = chain_of(64)
    assert split_round(entries, VALID_UNTIL_S, AUTH) == (entries,)
    assert gas_bound(entries, VALID_UNTIL_S, AUTH) < COMMIT_GAS_MAX


@pytest.mark.parametrize(("call_gas", "call_bytes"), [(3_000_000, 0), (1_000, 30_000), (900_000, 9_000)])
def test_round_that_is_too_large_goes_in_parts_with_the_others_bare(call_gas: int, call_bytes: int) -> None:
    entries: tuple[Entry, ...] = (Leaf(b"l" * 32), *chain_of(20, call_gas, call_bytes))
    parts = split_round(entries, VALID_UNTIL_S, AUTH)
    assert not isinstance(parts, TooLarge)
    assert len(parts) > 1
    given: list[Transition] = []
    for part in parts:
        assert gas_bound(part, VALID_UNTIL_S, AUTH) <= COMMIT_GAS_MAX
        assert len(encode_payload(part, VALID_UNTIL_S)) <= PAYLOAD_BYTES_MAX
        assert [e.leaf if isinstance(e, Transition) else e for e in part] == [
            e.leaf if isinstance(e, Transition) else e for e in entries
        ]
        given += [entry for entry in part if isinstance(entry, Transition)]
    assert tuple(given) == entries[1:]


def test_transition_that_fits_nowhere_is_told() -> None:
    entries = (*chain_of(2), sealed(b"x" * 16, calls=(Call(B, 16_000_000),)))
    found = split_round(entries, VALID_UNTIL_S, AUTH)
    assert isinstance(found, TooLarge)
    assert found.intent == b"x" * 16
    assert found.gas > COMMIT_GAS_MAX


def test_round_of_bare_leaves_alone_has_nothing_to_commit() -> None:
    assert split_round((Leaf(b"l" * 32),), VALID_UNTIL_S, AUTH) == ()


@EXAMPLES
@given(rounds())
def test_more_in_a_round_never_costs_less(entries: tuple[Entry, ...]) -> None:
    """The search for the largest part rests on it."""
    bare = tuple(entry.leaf if isinstance(entry, Transition) else entry for entry in entries)
    bounds = [gas_bound(entries[:n] + bare[n:], VALID_UNTIL_S, AUTH) for n in range(len(entries) + 1)]
    assert bounds == sorted(bounds)
