"""A ledger of proofs: nullifiers in place of inputs, reads as a crowd, a proof for each transition."""

from __future__ import annotations

import pytest

from rota.payload import Entry, decode_payload, encode_payload
from rota.sim.state_ledger import SkipReason
from rota.types import Call, ContractAddress, StateId
from tests.contracts.evm import Chain, Reverted, call_data
from tests.contracts.kit import PROOF_VALID_UNTIL_S, VALID_UNTIL_S, ProvedLedger, ids, nullifier


def refused(ledger: ProvedLedger, *entries: Entry, auth: bytes | None = None, body: bool = False) -> str:
    with pytest.raises(Reverted) as reverted:
        ledger.commit(*entries, auth=auth, body=body)
    return str(reverted.value)


@pytest.fixture
def ledger() -> ProvedLedger:
    return ProvedLedger()


def test_proved_transitions_spend_by_nullifier_and_reads_stay(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=3, info=1)
    assert ledger.commit(mint).mask == 1
    spend = ledger.write(1, reads=ids(mint), inputs=(nullifier("one"), nullifier("two")), outputs=2)
    chained = ledger.write(2, reads=ids(spend) + ids(mint)[:1], inputs=(nullifier("three"),), outputs=1)
    assert ledger.commit(spend, chained).mask == 0b11
    assert all(ledger.is_nullified(nullifier(text)) for text in ("one", "two", "three"))
    assert not ledger.is_nullified(nullifier("four"))
    words = [ledger.chain.call("Proved", ledger.address, "unspentOf", each.leaf) for each in (mint, spend, chained)]
    assert words == [0b111, 0b11, 0b1]


def test_nullifier_is_spent_once(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    one, other = (ledger.write(n, reads=ids(mint), inputs=(nullifier("a"),), outputs=1) for n in (1, 2))
    found = ledger.commit(mint, one, other)
    assert found.mask == 0b011
    assert [(s.reason, s.state) for s in found.skipped] == [(SkipReason.INPUT_UNAVAILABLE, nullifier("a"))]
    assert ledger.commit(other).mask == 0


def test_nullifier_listed_twice_skips_and_leaves_no_mark(ledger: ProvedLedger) -> None:
    twice = ledger.write(0, inputs=(nullifier("a"), nullifier("a")), outputs=1)
    assert ledger.commit(twice).mask == 0
    assert not ledger.is_nullified(nullifier("a"))


def test_failing_call_leaves_no_mark(ledger: ProvedLedger) -> None:
    target = ledger.chain.deploy("Target")
    failing = ledger.write(0, inputs=(nullifier("a"),), calls=(Call(target, 50_000, call_data("Target", "fail")),))
    found = ledger.commit(failing)
    assert [skip.reason for skip in found.skipped] == [SkipReason.CALL_FAILED]
    assert not ledger.is_nullified(nullifier("a"))


def test_read_that_is_not_there_skips_without_a_look_at_the_proof(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    reader = ledger.write(1, reads=ids(mint), inputs=(nullifier("a"),))
    found = ledger.commit(reader, auth=b"\0\0")
    assert [skip.reason for skip in found.skipped] == [SkipReason.READ_UNAVAILABLE]


def test_state_cannot_be_an_input(ledger: ProvedLedger) -> None:
    """Neither one of this payload nor one of storage, whatever its number: nothing is ever cleared."""
    mint = ledger.write(0, outputs=1)
    spend = ledger.write(1, inputs=ids(mint))
    posing = ledger.write(2, inputs=(StateId(mint.leaf, 255),))
    assert refused(ledger, mint, spend) == "Malformed(1, 'input')"
    assert refused(ledger, mint, posing) == "Malformed(1, 'input')"
    ledger.commit(mint)
    assert refused(ledger, spend) == "Malformed(0, 'input')"


def test_nullifier_cannot_be_read(ledger: ProvedLedger) -> None:
    ledger.commit(ledger.write(0, inputs=(nullifier("a"),)))
    found = ledger.commit(ledger.write(1, reads=(nullifier("a"),)), auth=b"\0\0")
    assert [skip.reason for skip in found.skipped] == [SkipReason.READ_UNAVAILABLE]


@pytest.mark.parametrize("output", [1, 15, 16, 100, 255])
def test_output_beyond_the_last_cannot_be_read_though_a_hash_stands_there(ledger: ProvedLedger, output: int) -> None:
    mint = ledger.write(0, outputs=1)
    ledger.commit(mint)
    assert ledger.commit(ledger.write(1, reads=(StateId(mint.leaf, output),)), auth=b"\0\0").mask == 0


def test_wrong_proof_reverts_everything_and_names_the_leaf(ledger: ProvedLedger) -> None:
    good, bad = ledger.write(0, outputs=1), ledger.write(1, outputs=1)
    forged = ledger.entry(bad)[:-1] + bytes((ledger.entry(bad)[-1] ^ 1,))
    auth = ledger.auth(good) + len(forged).to_bytes(2, "big") + forged
    assert refused(ledger, good, bad, auth=auth) == "WrongProof(1,)"


def test_proof_binds_its_leaf_and_its_validity(ledger: ProvedLedger) -> None:
    one, other = ledger.write(0, outputs=1), ledger.write(0, outputs=1, info=1)
    assert refused(ledger, other, auth=ledger.auth(one)) == "WrongProof(0,)"
    later = ledger.auth(one, forge=lambda entry: (PROOF_VALID_UNTIL_S - 1).to_bytes(8, "big") + entry[8:])
    assert refused(ledger, one, auth=later) == "WrongProof(0,)"
    ledger.chain.time_s = PROOF_VALID_UNTIL_S + 1
    assert refused(ledger, one) == f"ProofExpired(0, {PROOF_VALID_UNTIL_S}, {PROOF_VALID_UNTIL_S + 1})"


def test_body_of_another_maker_is_refused(ledger: ProvedLedger) -> None:
    mint, other = ledger.write(0, outputs=2), ledger.write(1, outputs=2)
    ledger.commit(mint, other)
    reader = ledger.write(2, reads=ids(mint)[:1], inputs=(nullifier("a"),))
    ledger.makers[mint.leaf] = other
    assert refused(ledger, reader) == "WrongMember(0, 0)"


def test_body_must_be_spelled_out(ledger: ProvedLedger) -> None:
    assert refused(ledger, ledger.write(0, outputs=1), body=True) == "Malformed(0, 'body')"


def test_auth_must_hold_the_proofs_and_nothing_else(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    ledger.commit(mint)
    reader = ledger.write(1, reads=ids(mint), inputs=(nullifier("a"),))
    good = ledger.auth(reader)
    wrong = {
        b"": "MalformedAuth(0,)",
        good[:1]: "MalformedAuth(0,)",
        good[:-1]: "MalformedAuth(0,)",
        good + b"\0": "MalformedAuth(1,)",
        b"\0\x07" + good[2:9]: "MalformedAuth(0,)",
        b"\0\x08" + good[2:10]: "MalformedAuth(0,)",
        b"\0\x0a" + good[2:10] + b"\1\0": "MalformedAuth(0,)",
    }
    for auth, text in wrong.items():
        assert refused(ledger, reader, auth=auth) == text
    assert ledger.commit(reader).mask == 1


def test_bare_leaves_need_no_proof(ledger: ProvedLedger) -> None:
    one, other = ledger.write(0, outputs=1), ledger.write(1, outputs=1)
    assert ledger.commit(one.leaf, other).mask == 0b10


def test_payload_of_a_proved_ledger_is_decoded_like_any_other(ledger: ProvedLedger) -> None:
    spend = ledger.write(0, inputs=(nullifier("a"),), outputs=1)
    decoded = decode_payload(encode_payload((spend,), VALID_UNTIL_S), ledger.separator)
    assert getattr(decoded, "leaves", None) == (spend.leaf,)


def test_verifier_must_have_code() -> None:
    with pytest.raises(Reverted, match="NoVerifier"):
        Chain().deploy("Proved", ContractAddress("0x" + "77" * 20))
