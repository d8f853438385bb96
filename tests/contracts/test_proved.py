"""A ledger of proofs whose inputs are states: each transition shows what it spends, and has a proof.

A verifier for tests stands for the real one: a proof is the hash of all public inputs, so that any change of one shows.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.calldata import Entry, decode_payload, encode_payload
from rota.ledger.proofs import binding_of
from rota.model.digests import core_of, domain_separator, intent_of, leaf_of
from rota.model.types import Call, ContractAddress, Preparation, State, StateId, Transition
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import ALICE, BOB, TIME_S, Chain, Reverted, keccak
from tests.contracts.kit import (
    FIELD,
    HALF_ORDER,
    INTENT_KEYS,
    ORDER,
    PROOF_VALID_UNTIL_S,
    VALID_UNTIL_S,
    ProvedLedger,
    ids,
    one_time_id,
    proved_as,
    signed_by_intent,
    write,
)

CONDITION = bytes(range(32))


def refused(ledger: ProvedLedger, *entries: Entry, auth: bytes | None = None, body: bool = False) -> str:
    with pytest.raises(Reverted) as reverted:
        ledger.commit(*entries, auth=auth, body=body)
    return str(reverted.value)


def flipped(transition: Transition, place: int) -> Transition:
    proof = bytearray(transition.signature)
    proof[place] ^= 1
    return replace(transition, signature=bytes(proof))


@pytest.fixture
def ledger() -> ProvedLedger:
    return ProvedLedger()


def test_coins_are_minted_spent_and_their_places_given_back(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=3)
    assert ledger.commit(mint).mask == 1
    spend = ledger.write(1, inputs=ids(mint)[:2], outputs=2)
    assert ledger.commit(spend).mask == 1
    assert (ledger.unspent(mint.leaf), ledger.unspent(spend.leaf)) == (0b100, 0b11)
    rest = ledger.write(2, inputs=(*ids(mint)[2:], *ids(spend)), outputs=1)
    assert ledger.commit(rest).mask == 1
    assert [ledger.unspent(each.leaf) for each in (mint, spend, rest)] == [0, 0, 1]


def test_change_is_spent_in_the_round_that_makes_it(ledger: ProvedLedger) -> None:
    chain = [ledger.write(0, outputs=1)]
    for number in range(1, 6):
        chain.append(ledger.write(number, inputs=(ids(chain[-1])[-1],), outputs=2))
    assert ledger.commit(*chain).mask == 0b111111
    assert [ledger.unspent(each.leaf) for each in chain] == [0, 1, 1, 1, 1, 0b11]


def test_both_shapes_go_in_one_round_in_any_order(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=15)
    large = ledger.write(1, inputs=ids(mint)[:10], outputs=2)
    small = ledger.write(2, inputs=ids(mint)[10:12], outputs=1)
    three = ledger.write(3, inputs=ids(mint)[12:14], outputs=8)
    last = ledger.write(4, inputs=ids(mint)[14:], outputs=2)
    assert ledger.commit(mint, large, small, three, last).mask == 0b11111


def test_coin_is_spent_once(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    one, other = (ledger.write(n, inputs=ids(mint), outputs=1) for n in (1, 2))
    found = ledger.commit(mint, one, other)
    assert found.mask == 0b011
    assert [(s.reason, s.state) for s in found.skipped] == [(SkipReason.INPUT_UNAVAILABLE, ids(mint)[0])]
    assert ledger.commit(other).mask == 0
    assert ledger.commit(ledger.write(3, inputs=ids(mint), outputs=1)).mask == 0


def test_skip_for_the_second_input_gives_the_first_back(ledger: ProvedLedger) -> None:
    mint, unmade = ledger.write(0, outputs=1), ledger.write(1, outputs=1)
    ledger.commit(mint)
    both = ledger.write(2, inputs=(*ids(mint), *ids(unmade)), outputs=1)
    assert ledger.commit(both).mask == 0
    twice = ledger.write(3, inputs=ids(mint) * 2, outputs=1)
    assert ledger.commit(twice).mask == 0
    assert ledger.commit(ledger.write(4, inputs=ids(mint), outputs=1)).mask == 1


@pytest.mark.parametrize("output", [1, 15, 16, 20, 100, 255])
def test_number_that_is_no_output_is_not_found_though_a_hash_stands_there(ledger: ProvedLedger, output: int) -> None:
    mint = ledger.write(0, outputs=1)
    stranger = ledger.write(1, inputs=(StateId(mint.leaf, output),), outputs=1)
    assert ledger.commit(mint, stranger).mask == 0b01
    assert ledger.commit(stranger).mask == 0


def test_skipped_transition_needs_no_proof(ledger: ProvedLedger) -> None:
    unmade = ledger.write(0, outputs=1)
    found = ledger.commit(ledger.write(1, inputs=ids(unmade), outputs=1), auth=b"\0\0")
    assert [skip.reason for skip in found.skipped] == [SkipReason.INPUT_UNAVAILABLE]


def test_every_public_input_is_bound(ledger: ProvedLedger) -> None:
    """Another input, output, delegate, leaf or validity than the one that was proved."""
    mint = ledger.write(0, outputs=4)
    ledger.commit(mint)
    spend = ledger.write(1, inputs=ids(mint)[:2], outputs=2)
    others = [
        ledger.write(1, inputs=(ids(mint)[2], ids(mint)[1]), outputs=2),
        ledger.write(1, inputs=(ids(mint)[0], ids(mint)[3]), outputs=2),
        ledger.write(1, inputs=ids(mint)[:1], outputs=2),
        ledger.write(1, inputs=ids(mint)[:2], outputs=2, salt=b"others"),
        ledger.write(1, inputs=ids(mint)[:2], outputs=1),
        ledger.write(2, inputs=ids(mint)[:2], outputs=2),
        replace(spend, valid_until_s=PROOF_VALID_UNTIL_S - 1),
    ]
    for other in others:
        assert refused(ledger, proved_as(other, spend)) == "WrongProof(0,)"
    assert ledger.commit(spend).mask == 1


def test_each_element_of_a_proof_counts_and_the_leaf_is_named(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=3)
    ledger.commit(mint)
    good, bad, last = (ledger.write(n + 1, inputs=ids(mint)[n : n + 1], outputs=1) for n in range(3))
    for place in range(64, 64 + 256, 32):
        assert refused(ledger, good, flipped(bad, place), last) == "WrongProof(1,)"
    assert ledger.commit(good, bad, last).mask == 0b111


def test_proof_serves_no_other_contract_and_no_other_chain(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    ledger.commit(mint)
    spend = ledger.write(1, inputs=ids(mint), outputs=1)
    for separator in (domain_separator(1338, ledger.address), domain_separator(1337, BOB)):
        foreign = ledger.take(
            replace(
                write(separator, 1, inputs=ids(mint), outputs=1, info=1, is_proved=True), valid_until_s=VALID_UNTIL_S
            )
        )
        assert refused(ledger, proved_as(spend, foreign)) == "WrongProof(0,)"


def test_proof_is_valid_until_its_time(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, valid_until_s=TIME_S + 5, outputs=1)
    ledger.chain.time_s = TIME_S + 6
    assert refused(ledger, mint) == f"ProofExpired(0, {TIME_S + 5}, {TIME_S + 6})"
    ledger.chain.time_s = TIME_S + 5
    assert ledger.commit(mint).mask == 1


def test_only_the_issuer_makes_coins_of_nothing(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=2)
    assert refused(ledger, flipped(mint, 64 + 40)) == "NotIssued(0,)"
    assert refused(ledger, proved_as(replace(mint, valid_until_s=PROOF_VALID_UNTIL_S - 1), mint)) == "NotIssued(0,)"
    other = ledger.write(0, outputs=2, salt=b"more")
    assert refused(ledger, proved_as(other, mint)) == "NotIssued(0,)"
    assert refused(ledger, replace(mint, signature=mint.signature[:64] + bytes(256))) == "MalformedAuth(0,)"
    assert (
        refused(ledger, replace(mint, signature=mint.signature[:64] + malleated(mint.signature[64:])))
        == "NotIssued(0,)"
    )
    assert ledger.commit(mint).mask == 1


def malleated(signature: bytes) -> bytes:
    """The other signature of the same key for the same hash, with the higher s."""
    high = ORDER - (int.from_bytes(signature[32:], "big") & (1 << 255) - 1)
    assert high > HALF_ORDER
    return signature[:32] + (high | (1 - (signature[32] >> 7)) << 255).to_bytes(32, "big")


# Whose an id is.


def kinds_of_transitions(ledger: ProvedLedger) -> dict[str, Transition]:
    """One of every kind that this ledger commits without an ERC-20."""
    mint = ledger.write(100, outputs=6)
    assert ledger.commit(mint).mask == 1
    coins = ids(mint)
    return {
        "payment": ledger.write(0, inputs=coins[:1], outputs=2),
        "payment of many": ledger.write(1, inputs=coins[1:4], outputs=3),
        "mint": ledger.write(2, outputs=1),
        "prepared": ledger.write(3, inputs=coins[4:5], outputs=1, preparation=Preparation(BOB, CONDITION)),
        "empty": ledger.write(4),
        "prepared and empty": ledger.write(5, preparation=Preparation(BOB, CONDITION)),
    }


def test_every_kind_of_transition_needs_the_signature_of_its_intents_key(ledger: ProvedLedger) -> None:
    for kind, good in kinds_of_transitions(ledger).items():
        stranger = one_time_id(999)
        squatted = INTENT_KEYS[stranger].sign_compact(binding_of(good.leaf, good.valid_until_s))
        wrong = {
            "signature of another key": squatted + good.signature[64:],
            "signature of another validity": signed_by_intent(replace(good, valid_until_s=1)) + good.signature[64:],
            "no signature at all": bytes(64) + good.signature[64:],
            "the other half's s": malleated(good.signature[:64]) + good.signature[64:],
            "another key's id": flipped(good, 40).signature,
        }
        for attack, signature in wrong.items():
            with pytest.raises(Reverted) as reverted:
                ledger.commit(replace(good, signature=signature), condition=CONDITION, sender=BOB)
            assert str(reverted.value) == "NotIntentKey(0,)", f"{kind}: {attack}"
        assert ledger.commit(good, condition=CONDITION, sender=BOB).mask == 1, kind


def test_front_runner_cannot_use_up_an_id_that_it_copies_from_the_mempool(ledger: ProvedLedger) -> None:
    """It has the whole pending transaction: id, proof and signature. It may only commit what was signed."""
    mint = ledger.write(0, outputs=1)
    ledger.commit(mint)
    pending = ledger.write(1, inputs=ids(mint), outputs=1)
    empty = replace(write(ledger.separator, 1, is_proved=True), valid_until_s=pending.valid_until_s)
    assert empty.intent == pending.intent
    attacker = INTENT_KEYS[one_time_id(666)].sign_compact(binding_of(empty.leaf, empty.valid_until_s))
    for signature in (attacker, pending.signature[:64], pending.signature, b"", bytes(64)):
        assert refused(ledger, replace(empty, signature=signature)) in ("NotIntentKey(0,)", "MalformedAuth(0,)")
    own_coin = ledger.write(50, outputs=1)
    ledger.commit(own_coin)
    payment = write(ledger.separator, 1, inputs=ids(own_coin), outputs=1, info=1, is_proved=True)
    paid = ledger.take(replace(payment, valid_until_s=pending.valid_until_s))
    assert refused(ledger, replace(paid, signature=pending.signature[:64] + paid.signature[64:])) == "NotIntentKey(0,)"
    assert ledger.commit(pending).mask == 1


def test_id_of_the_address_zero_belongs_to_nobody(ledger: ProvedLedger) -> None:
    """A signature that recovers no key gives the address zero, whose id anybody could name."""
    intent = intent_of(bytes(20))
    leaf = leaf_of(core_of(ledger.separator, intent))
    for signature in (bytes(64), b"\xff" * 64, bytes(63) + b"\1"):
        nobody = Transition(intent, leaf, valid_until_s=VALID_UNTIL_S, signature=signature)
        assert refused(ledger, nobody) == "NotIntentKey(0,)"


def test_position_of_the_leaf_with_a_wrong_signature_is_named_and_nothing_is_committed(ledger: ProvedLedger) -> None:
    good, bad = ledger.write(0, outputs=1), ledger.write(1, outputs=1)
    assert refused(ledger, good, flipped(bad, 3)) == "NotIntentKey(1,)"
    assert ledger.unspent(good.leaf) == 0


def test_empty_transition_needs_no_proof(ledger: ProvedLedger) -> None:
    empty = ledger.write(0)
    assert len(empty.signature) == 64
    assert refused(ledger, replace(empty, signature=empty.signature + bytes(256))) == "MalformedAuth(0,)"
    assert ledger.commit(empty).mask == 1
    assert ledger.commit(ledger.write(0, outputs=1)).skipped[0].reason == SkipReason.INTENT_USED


def test_what_only_reads_is_not_empty(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    ledger.commit(mint)
    reading = ledger.write(1, reads=ids(mint))
    assert refused(ledger, replace(reading, signature=reading.signature[:64])) == "MalformedAuth(0,)"
    assert ledger.commit(reading).mask == 1


# What is no coin.


def test_commitment_zero_is_refused_and_its_leaf_is_named(ledger: ProvedLedger) -> None:
    """It is the slot of a circuit that is not used: a coin that anybody could spend as nothing."""
    mint = ledger.write(0, outputs=2)
    ledger.commit(mint)
    for word in (bytes(32), FIELD.to_bytes(32, "big")):
        for number, inputs in ((1, ()), (2, ids(mint)[:1])):
            good = ledger.write(10 + number, inputs=ids(mint)[1:], outputs=1)
            intent, outputs = one_time_id(number), (keccak(b"content"),)
            core = core_of(ledger.separator, intent, inputs=inputs, outputs=outputs, info=(word,))
            leaf = leaf_of(core)
            states = (State(StateId(leaf, 0), outputs[0], ()),)
            bad = ledger.take(Transition(intent, leaf, inputs, (), states, (word,), VALID_UNTIL_S))
            assert refused(ledger, good, bad) == "Malformed(1, 'coin')"


def test_coins_of_another_maker_are_refused(ledger: ProvedLedger) -> None:
    mint, other = ledger.write(0, outputs=2), ledger.write(1, outputs=2)
    ledger.commit(mint, other)
    spend = ledger.write(2, inputs=(ids(other)[0], ids(mint)[0]))
    ledger.makers[mint.leaf] = other
    assert refused(ledger, spend) == "WrongMaker(0, 1)"


def test_what_is_prepared_is_proved_with_its_committer_as_delegate(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    ledger.commit(mint)
    locked = ledger.write(1, inputs=ids(mint), outputs=1, preparation=Preparation(BOB, CONDITION))
    assert ledger.public_inputs(locked)[5] == int(BOB, 16)
    with pytest.raises(Reverted, match="WrongCommitter"):
        ledger.commit(locked, condition=CONDITION, sender=ALICE)
    free = ledger.write(1, inputs=ids(mint), outputs=1)
    with pytest.raises(Reverted, match="WrongProof"):
        ledger.commit(proved_as(locked, free), condition=CONDITION, sender=BOB)
    assert ledger.commit(locked, condition=CONDITION, sender=BOB).mask == 1


def test_what_no_circuit_has_is_malformed(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=15)
    ledger.commit(mint)
    call = Call(ContractAddress("0x" + "77" * 20), 50_000, b"")
    wrong = {
        "inputs": ledger.write(1, inputs=ids(mint)[:11], outputs=1),
        "outputs": ledger.write(2, inputs=ids(mint)[:1], outputs=9),
        "info": ledger.write(3, inputs=ids(mint)[:1], outputs=2, info=1),
        "calls": ledger.write(4, inputs=ids(mint)[:1], outputs=1, calls=(call,)),
    }
    for field, transition in wrong.items():
        assert refused(ledger, transition) == f"Malformed(0, '{field}')"
    assert refused(ledger, ledger.write(5, outputs=1, info=2)) == "Malformed(0, 'info')"
    assert refused(ledger, ledger.write(6, inputs=ids(mint)[:1], outputs=1), body=True) == "Malformed(0, 'body')"


def test_auth_must_hold_the_proofs_and_nothing_else(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    ledger.commit(mint)
    spend = ledger.write(1, inputs=ids(mint), outputs=1)
    good = ledger.auth(spend)
    wrong = {
        b"": "MalformedAuth(0,)",
        good[:1]: "MalformedAuth(0,)",
        good[:-1]: "MalformedAuth(0,)",
        good + b"\0": "MalformedAuth(1,)",
        b"\0\x07" + good[2:9]: "MalformedAuth(0,)",
        b"\0\x47" + good[2:73]: "MalformedAuth(0,)",
        b"\0\x48" + good[2:74]: "MalformedAuth(0,)",
        b"\0\x49" + good[2:74] + b"\1": "MalformedAuth(0,)",
        (len(good) - 2 + 32).to_bytes(2, "big") + good[2:] + bytes(32): "MalformedAuth(0,)",
    }
    for auth, text in wrong.items():
        assert refused(ledger, spend, auth=auth) == text
    assert ledger.commit(spend).mask == 1


def test_bare_leaves_need_no_proof(ledger: ProvedLedger) -> None:
    one, other = ledger.write(0, outputs=1), ledger.write(1, outputs=1)
    assert ledger.commit(one.leaf, other).mask == 0b10


def test_payload_of_a_proved_ledger_is_decoded_like_any_other(ledger: ProvedLedger) -> None:
    mint = ledger.write(0, outputs=1)
    decoded = decode_payload(encode_payload((mint,), VALID_UNTIL_S), ledger.separator)
    assert getattr(decoded, "leaves", None) == (mint.leaf,)


def test_verifiers_must_have_code_and_there_must_be_an_issuer() -> None:
    chain = Chain()
    nobody, verifier = ContractAddress("0x" + "77" * 20), chain.deploy("TestVerifier", 7)
    for arguments, error in (
        ((BOB, nobody, verifier), "NoVerifier"),
        ((BOB, verifier, nobody), "NoVerifier"),
        ((ContractAddress("0x" + "00" * 20), verifier, verifier), "NoIssuer"),
    ):
        with pytest.raises(Reverted, match=error):
            chain.deploy("Proved", *arguments, False)
