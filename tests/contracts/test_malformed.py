"""What cannot be read reverts everything and says which leaf and which field; so does what was not endorsed."""

from __future__ import annotations

import random

import pytest

from rota.calldata import Malformed, Payload, decode_payload, encode_auth, encode_commit, encode_payload
from rota.model.types import Call, ContractAddress, Leaf
from tests.contracts.evm import Chain, Reverted, keccak
from tests.contracts.kit import HALF_ORDER, ORDER, VALID_UNTIL_S, EndorsedLedger, ids, key_of

HEAD = VALID_UNTIL_S.to_bytes(8, "big")
PAGE = keccak(b"page")[:15]
LEAF = keccak(b"leaf")
TARGET = bytes.fromhex("7a" * 20)


def full(flags: int, counts: bytes = bytes(2), rest: bytes = b"") -> bytes:
    return bytes((flags, 0)) + counts + rest


@pytest.fixture(scope="module")
def ledger() -> EndorsedLedger:
    return EndorsedLedger()


@pytest.mark.parametrize(
    ("payload", "position", "field"),
    [
        pytest.param(b"", 0, "length", id="nothing"),
        pytest.param(HEAD, 0, "length", id="no count"),
        pytest.param(HEAD + b"\0", 0, "count", id="no leaf"),
        pytest.param(HEAD + b"\1", 0, "length", id="leaf missing"),
        pytest.param(HEAD + b"\1\0" + LEAF[:31], 0, "length", id="bare leaf cut short"),
        pytest.param(HEAD + b"\1\0" + LEAF + b"\0", 1, "length", id="a byte too many"),
        pytest.param(HEAD + b"\2\0" + LEAF, 1, "length", id="second leaf missing"),
        pytest.param(HEAD + b"\1" + full(0x01, rest=PAGE), 0, "flags", id="flag 80 missing"),
        pytest.param(HEAD + b"\1" + full(0x91, rest=PAGE), 0, "flags", id="flag 10"),
        pytest.param(HEAD + b"\1" + full(0xA1, rest=PAGE), 0, "flags", id="flag 20"),
        pytest.param(HEAD + b"\1" + full(0xC1, rest=PAGE), 0, "flags", id="flag 40"),
        pytest.param(HEAD + b"\1" + full(0x80), 0, "page", id="no page"),
        pytest.param(HEAD + b"\2\0" + LEAF + full(0x80), 1, "page", id="no page after a bare leaf"),
        pytest.param(HEAD + b"\1" + full(0x81, rest=PAGE[:14]), 0, "length", id="page cut short"),
        pytest.param(HEAD + b"\1" + full(0x81, b"\x10\0", PAGE + b"\0\0"), 0, "reference", id="itself"),
        pytest.param(HEAD + b"\1" + full(0x81, b"\0\x10", PAGE + b"\1\0"), 0, "reference", id="a later leaf"),
        pytest.param(HEAD + b"\1" + full(0x81, b"\x10\0", PAGE + b"\xff\0" + LEAF[:31]), 0, "length", id="cut leaf"),
        pytest.param(HEAD + b"\1" + full(0x81, b"\1\0", PAGE + LEAF[:31]), 0, "length", id="output cut short"),
        pytest.param(HEAD + b"\1" + full(0x81, b"\0\1", PAGE + LEAF[:31]), 0, "length", id="info cut short"),
        pytest.param(HEAD + b"\1" + full(0x89, b"\0\0", PAGE + LEAF[:31]), 0, "length", id="body hash cut short"),
        pytest.param(HEAD + b"\1" + full(0x85, rest=PAGE + b"\0"), 0, "calls", id="calls, but none"),
        pytest.param(
            HEAD + b"\1" + full(0x85, rest=PAGE + b"\1" + TARGET + bytes(4) + b"\0\1"), 0, "length", id="call cut short"
        ),
        pytest.param(
            HEAD + b"\1" + full(0x85, rest=PAGE + b"\xff" + TARGET + bytes(4) + b"\xff\xff"),
            0,
            "length",
            id="255 calls",
        ),
    ],
)
def test_malformed_payload_reverts_and_names_leaf_and_field(
    ledger: EndorsedLedger, payload: bytes, position: int, field: str
) -> None:
    with pytest.raises(Reverted) as reverted:
        ledger.chain.send(ledger.address, encode_commit(payload, bytes(4)))
    assert (reverted.value.name, reverted.value.arguments) == ("Malformed", (position, field))
    assert isinstance(decode_payload(payload, ledger.separator), Malformed)


@pytest.mark.parametrize(("section", "field"), [(b"", "lock"), (b"\3" + bytes(51), "length")])
def test_malformed_lock_reverts(section: bytes, field: str) -> None:
    ledger = EndorsedLedger(code="Lockable")
    with pytest.raises(Reverted, match=rf"Malformed\(0, '?{field}"):
        ledger.commit_bytes(HEAD + b"\1" + full(0x91, rest=PAGE + section), (Leaf(LEAF),))


def test_contract_reads_exactly_what_the_decoder_reads(ledger: EndorsedLedger) -> None:
    """Payloads with random damage: one is malformed to both, or both find the same leaves in it."""
    chance = random.Random(1)
    first = ledger.write(0, outputs=2, info=1)
    second = ledger.write(300, reads=ids(first)[:1], inputs=ids(first)[1:], outputs=1)
    third = ledger.write(
        301, inputs=ids(second), outputs=1, calls=(Call(ContractAddress("0x" + "7a" * 20), 5000, b"abc"),)
    )
    whole = encode_payload((first, Leaf(LEAF), second, third), VALID_UNTIL_S)
    counts = {"malformed": 0, "read": 0}
    for _ in range(1500):
        payload = bytearray(whole)
        for _ in range(chance.randint(1, 2)):
            match chance.randrange(4):
                case 0:
                    payload[chance.randrange(8, len(payload))] = chance.choice((0, 1, 2, 0x10, 0x80, 0x84, 0xFF))
                case 1:
                    payload[chance.randrange(8, len(payload))] ^= 1 << chance.randrange(8)
                case 2:
                    del payload[chance.randrange(10, len(payload) + 1) :]
                case _:
                    start = chance.randrange(9, len(payload))
                    del payload[start : start + chance.randint(1, 33)]
                    payload += bytes(chance.randint(1, 3))
        decoded = decode_payload(bytes(payload), ledger.separator)
        is_read = _is_read_with_leaves(ledger, bytes(payload), decoded)
        assert is_read == isinstance(decoded, Payload), bytes(payload).hex()
        counts["read" if is_read else "malformed"] += 1
    print(counts)
    assert min(counts.values()) > 0


def _is_read_with_leaves(ledger: EndorsedLedger, payload: bytes, decoded: Payload | Malformed) -> bool:
    """Whether the contract reads it. It accepts the signatures only if it finds the leaves that we found."""
    auth = bytes(4 + 2 * 64 + 20)
    if isinstance(decoded, Payload):
        auth = ledger.auth(ledger.digest(tuple(decoded.leaves)))
    checkpoint = ledger.chain.evm.snapshot()
    try:
        ledger.chain.send(ledger.address, encode_commit(payload, auth))
    except Reverted as reverted:
        if reverted.name == "Malformed":
            return False
        if reverted.name == "WrongCommitter":
            return isinstance(decoded, Payload)  # The damage has prepared it: the contract did not read to the end.
        raise
    finally:
        ledger.chain.evm.revert(checkpoint)
    return True


def test_every_endorser_may_be_among_the_signers() -> None:
    ledger = EndorsedLedger(5, 2)
    for number, pair in enumerate(((0, 1), (0, 4), (3, 4), (1, 3))):
        transition = ledger.write(number)
        digest = ledger.digest((transition,))
        signatures = {ledger.endorsers[n]: key_of(n).sign_compact(digest) for n in pair}
        auth = encode_auth(ledger.endorsers, signatures, 2)
        payload = encode_payload((transition,), VALID_UNTIL_S)
        assert ledger.commit_bytes(payload, (transition.leaf,), auth).mask == 1


def test_set_of_32_endorsers_who_all_sign() -> None:
    ledger = EndorsedLedger(32, 32)
    assert ledger.commit(ledger.write(0, outputs=1)).mask == 1


def test_more_signatures_than_needed_are_welcome() -> None:
    ledger = EndorsedLedger(3, 1)
    transition = ledger.write(0)
    auth = ledger.auth(ledger.digest((transition,)), signers=3)
    payload = encode_payload((transition,), VALID_UNTIL_S)
    assert ledger.commit_bytes(payload, (transition.leaf,), auth).mask == 1


@pytest.fixture(scope="module")
def signed(ledger: EndorsedLedger) -> tuple[bytes, bytes, bytes]:
    """A payload, its digest and its good `auth`: the first two of three signed."""
    transition = ledger.write(0, outputs=1)
    digest = ledger.digest((transition,))
    return encode_payload((transition,), VALID_UNTIL_S), digest, ledger.auth(digest)


def refused(ledger: EndorsedLedger, payload: bytes, auth: bytes) -> Reverted:
    with pytest.raises(Reverted) as reverted:
        ledger.chain.send(ledger.address, encode_commit(payload, auth))
    return reverted.value


def test_too_few_signatures_are_refused(ledger: EndorsedLedger, signed: tuple[bytes, bytes, bytes]) -> None:
    payload, _, auth = signed
    addresses = b"".join(bytes.fromhex(address[2:]) for address in ledger.endorsers)
    one = b"\0\0\0\1" + auth[4:68] + addresses[20:]
    assert str(refused(ledger, payload, one)) == "TooFewSignatures(1, 2)"
    assert str(refused(ledger, payload, bytes(4) + addresses)) == "TooFewSignatures(0, 2)"
    assert str(refused(ledger, payload, b"")) in ("TooFewSignatures(0, 2)", "UnknownSigner(1,)")


def test_signature_is_not_counted_twice(ledger: EndorsedLedger, signed: tuple[bytes, bytes, bytes]) -> None:
    payload, _, auth = signed
    twice = auth[:4] + auth[4:68] * 2 + auth[132:]
    assert refused(ledger, payload, twice).name == "NotEndorsed"


def test_signers_in_another_order_are_refused(ledger: EndorsedLedger, signed: tuple[bytes, bytes, bytes]) -> None:
    payload, _, auth = signed
    swapped = auth[:4] + auth[68:132] + auth[4:68] + auth[132:]
    assert refused(ledger, payload, swapped).name == "NotEndorsed"


def test_stranger_is_no_endorser(ledger: EndorsedLedger, signed: tuple[bytes, bytes, bytes]) -> None:
    payload, digest, auth = signed
    strange = auth[:68] + key_of(77).sign_compact(digest) + auth[132:]
    assert refused(ledger, payload, strange).name == "NotEndorsed"
    wrong_address = auth[:132] + bytes(20)
    assert refused(ledger, payload, wrong_address).name == "NotEndorsed"


def test_signature_that_recovers_nobody_is_refused(ledger: EndorsedLedger, signed: tuple[bytes, bytes, bytes]) -> None:
    payload, _, auth = signed
    for signature in (bytes(64), bytes(32) + auth[36:68], auth[4:36] + bytes(32)):
        assert refused(ledger, payload, auth[:4] + signature + auth[68:]).name == "NotEndorsed"


def test_high_s_is_refused_so_that_nobody_makes_a_second_auth(
    ledger: EndorsedLedger, signed: tuple[bytes, bytes, bytes]
) -> None:
    payload, _, auth = signed
    tail = int.from_bytes(auth[36:68], "big")
    parity, s = tail >> 255, tail & ((1 << 255) - 1)
    assert 0 < s <= HALF_ORDER
    mirrored = (ORDER - s) | (1 - parity) << 255
    assert ORDER - s > HALF_ORDER
    twin = auth[:36] + (mirrored & (1 << 256) - 1).to_bytes(32, "big") + auth[68:]
    assert refused(ledger, payload, twin).name in ("HighSignature", "NotEndorsed")
    just_above = auth[:36] + (HALF_ORDER + 1).to_bytes(32, "big") + auth[68:]
    assert str(refused(ledger, payload, just_above)) == "HighSignature(0,)"


def test_mask_beyond_the_set_and_wrong_lengths_are_refused(
    ledger: EndorsedLedger, signed: tuple[bytes, bytes, bytes]
) -> None:
    payload, _, auth = signed
    assert str(refused(ledger, payload, b"\0\0\0\x0b" + auth[4:])) == "UnknownSigner(11,)"
    assert str(refused(ledger, payload, auth + b"\0")) == "WrongAuthLength(153, 152)"
    assert str(refused(ledger, payload, auth[:-1])) == "WrongAuthLength(151, 152)"


def test_constructor_refuses_sets_and_thresholds_that_make_no_sense() -> None:
    chain = Chain()
    a, b, zero = "0x" + "0a" * 20, "0x" + "0b" * 20, "0x" + "00" * 20
    many = [f"0x{n:040x}" for n in range(1, 34)]
    wrong: tuple[tuple[list[str], int, str], ...] = (
        ([], 1, "WrongEndorserCount(0,)"),
        (many, 1, "WrongEndorserCount(33,)"),
        ([a, b], 0, "WrongThreshold(0, 2)"),
        ([a, b], 3, "WrongThreshold(3, 2)"),
        ([a, zero], 1, "ZeroEndorser(1,)"),
        ([a, b, a], 1, "RepeatedEndorser(2,)"),
    )
    for endorsers, threshold, text in wrong:
        with pytest.raises(Reverted) as reverted:
            chain.deploy("Endorsed", endorsers, threshold)
        assert str(reverted.value) == text
    address = chain.deploy("Endorsed", [a, b], 2)
    packed = b"".join(bytes.fromhex(each[2:]).rjust(32, b"\0") for each in (a, b))
    assert chain.call("Endorsed", address, "policy") == (keccak(packed), 2, 2)
