"""Rules of a round on the real contract: leaves, states, intents, skips, expiry, parts."""

from __future__ import annotations

import pytest

from rota.calldata import Committal, encode_commit, encode_payload
from rota.model.digests import round_digest
from rota.model.types import Leaf, Preparation, StateId, Transition
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import ALICE, BOB, Chain, Reverted, call_data, keccak
from tests.contracts.kit import VALID_UNTIL_S, EndorsedLedger, ids, write


@pytest.fixture
def ledger() -> EndorsedLedger:
    return EndorsedLedger()


def test_contract_and_python_agree_on_domain_leaves_and_digest(ledger: EndorsedLedger) -> None:
    assert ledger.chain.call("Endorsed", ledger.address, "domainSeparator") == ledger.separator
    first = ledger.write(0, outputs=2, info=1)
    second = ledger.write(1, reads=ids(first)[:1], inputs=ids(first)[1:], outputs=15, info=15)
    found = ledger.commit(first, second)
    assert found.mask == 0b11
    assert found.round.digest == ledger.digest((first, second))
    assert found.round.payload.leaves == (first.leaf, second.leaf)
    assert found.round.payload.valid_until_s == VALID_UNTIL_S
    assert found.round.committals == tuple(Committal(t.intent, t.leaf, True) for t in (first, second))
    assert found.skipped == ()


def test_what_is_made_and_spent_in_one_call_never_reaches_storage(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=2)
    second = ledger.write(1, inputs=ids(first), outputs=1)
    third = ledger.write(2, inputs=ids(second), outputs=3)
    ledger.commit(first, second, third)
    assert [ledger.unspent(t.leaf) for t in (first, second, third)] == [0, 0, 0b111]


def test_word_loses_a_bit_with_each_spent_output_and_is_zero_after_the_last(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=3)
    ledger.commit(first)
    for number, left in ((1, 0b101), (0, 0b100), (2, 0)):
        ledger.commit(ledger.write(10 + number, inputs=(ids(first)[number],)))
        assert ledger.unspent(first.leaf) == left


def test_empty_transition_uses_its_intent_up(ledger: EndorsedLedger) -> None:
    empty, wanted = ledger.write(0), ledger.write(0, outputs=1)
    assert not ledger.is_used(empty.intent)
    ledger.commit(empty)
    assert ledger.is_used(empty.intent)
    found = ledger.commit(wanted)
    assert found.mask == 0
    (skip,) = found.skipped
    assert (skip.intent, skip.leaf, skip.reason) == (wanted.intent, wanted.leaf, SkipReason.INTENT_USED)
    assert skip.state == StateId(Leaf(bytes(32)), 0)
    assert ledger.unspent(wanted.leaf) == 0


def test_intent_commits_once_even_within_one_call(ledger: EndorsedLedger) -> None:
    one, other = ledger.write(0, outputs=1), ledger.write(0, outputs=1, salt=b"other")
    found = ledger.commit(one, other)
    assert found.mask == 0b01
    assert [skip.reason for skip in found.skipped] == [SkipReason.INTENT_USED]


def test_intents_of_all_pages_and_counters_are_told_apart(ledger: EndorsedLedger) -> None:
    round_ = tuple(ledger.write(number, page=page) for number in (0, 1, 255) for page in (b"a", b"b"))
    assert ledger.commit(*round_).mask == 0b111111
    assert all(ledger.is_used(each.intent) for each in round_)
    assert not ledger.is_used(ledger.write(2, page=b"a").intent)
    assert ledger.commit(*round_).mask == 0


def test_same_round_again_skips_everything_and_changes_nothing(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=1)
    second = ledger.write(1, inputs=ids(first), outputs=1)
    assert ledger.commit(first, second).mask == 0b11
    found = ledger.commit(first, second)
    assert found.mask == 0
    assert [skip.reason for skip in found.skipped] == [SkipReason.INTENT_USED] * 2
    assert (ledger.unspent(first.leaf), ledger.unspent(second.leaf)) == (0, 1)


def test_spent_input_skips_that_transition_and_what_depends_on_it_alone(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=2)
    ledger.commit(first, ledger.write(1, inputs=ids(first)[:1]))
    late = ledger.write(2, inputs=ids(first)[:1], outputs=1)
    dependent = ledger.write(3, inputs=ids(late), outputs=1)
    other = ledger.write(4, inputs=ids(first)[1:], outputs=1)
    found = ledger.commit(late, dependent, other)
    assert found.mask == 0b100
    assert [(s.reason, s.state) for s in found.skipped] == [
        (SkipReason.INPUT_UNAVAILABLE, ids(first)[0]),
        (SkipReason.INPUT_UNAVAILABLE, ids(late)[0]),
    ]
    assert [c.is_committed for c in found.round.committals] == [False, False, True]


def test_skip_gives_back_the_inputs_that_were_there(ledger: EndorsedLedger) -> None:
    stored = ledger.write(0, outputs=2)
    ledger.commit(stored)
    made = ledger.write(1, outputs=2)
    gone = StateId(Leaf(keccak(b"nowhere")), 0)
    skipped = ledger.write(2, inputs=(*ids(stored), *ids(made), gone), outputs=1)
    spending = ledger.write(3, inputs=(*ids(stored), *ids(made)), outputs=1)
    found = ledger.commit(made, skipped)
    assert (found.mask, ledger.unspent(stored.leaf), ledger.unspent(made.leaf)) == (0b01, 0b11, 0b11)
    assert ledger.commit(skipped, spending).mask == 0b10


def test_input_that_is_listed_twice_is_unavailable_the_second_time(ledger: EndorsedLedger) -> None:
    stored = ledger.write(0, outputs=1)
    ledger.commit(stored)
    made = ledger.write(1, outputs=1)
    for first in (stored, made):
        twice = ledger.write(2, inputs=(*ids(first), *ids(first)), outputs=1)
        found = ledger.commit(made, twice) if first is made else ledger.commit(twice)
        assert [(s.reason, s.state) for s in found.skipped] == [(SkipReason.INPUT_UNAVAILABLE, ids(first)[0])]
        assert ledger.unspent(first.leaf) == 1


def test_state_spent_twice_in_one_call_goes_to_the_first(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=1)
    one, other = ledger.write(1, inputs=ids(first), outputs=1), ledger.write(2, inputs=ids(first), outputs=1)
    assert ledger.commit(first, one, other).mask == 0b011


def test_reads_are_checked_before_inputs_are_spent(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=1)
    both = ledger.write(1, reads=ids(first), inputs=ids(first), outputs=1)
    assert ledger.commit(first, both).mask == 0b11


def test_reading_spends_nothing_and_a_spent_state_cannot_be_read(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=1)
    readers = tuple(ledger.write(number, reads=ids(first)) for number in (1, 2))
    spender = ledger.write(3, inputs=ids(first))
    late = ledger.write(4, reads=ids(first))
    found = ledger.commit(first, *readers, spender, late)
    assert found.mask == 0b01111
    assert [(s.reason, s.state) for s in found.skipped] == [(SkipReason.READ_UNAVAILABLE, ids(first)[0])]


@pytest.mark.parametrize("output", [1, 14, 15, 16, 200, 255])
def test_output_that_its_maker_does_not_have_is_not_available(ledger: EndorsedLedger, output: int) -> None:
    first = ledger.write(0, outputs=1)
    missing = StateId(first.leaf, output)
    transitions = ledger.write(1, inputs=(missing,)), ledger.write(2, reads=(missing,))
    assert ledger.commit(first, *transitions).mask == 0b001
    assert ledger.commit(*transitions).mask == 0


def test_version_that_was_endorsed_on_another_version_never_commits_on_it(ledger: EndorsedLedger) -> None:
    one, other = ledger.write(0, outputs=1), ledger.write(0, outputs=1, salt=b"other")
    on_other = ledger.write(1, inputs=ids(other), outputs=1)
    assert ledger.commit(one).mask == 1
    assert ledger.commit(other, on_other).mask == 0


def test_holder_commits_any_part_in_any_order_and_in_several_calls(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=2)
    second = ledger.write(1, inputs=ids(first)[:1], outputs=1)
    third = ledger.write(2, inputs=ids(first)[1:] + ids(second), outputs=1)
    alone = ledger.write(3, outputs=1)
    whole = (first, second, third, alone)
    digest = ledger.digest(whole)
    parts = (
        ((first.leaf, second.leaf, third.leaf, alone), 0b1000),
        ((first, second.leaf, third.leaf, alone.leaf), 0b0001),
        ((first.leaf, second, third, alone.leaf), 0b0110),
    )
    for entries, mask in parts:
        found = ledger.commit(*entries)
        assert (found.mask, found.round.digest) == (mask, digest)
    assert [ledger.unspent(t.leaf) for t in whole] == [0, 0, 1, 1]


def test_reference_to_a_bare_leaf_looks_in_storage(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=1)
    second = ledger.write(1, inputs=ids(first), outputs=1)
    assert ledger.commit(first.leaf, second).mask == 0
    assert ledger.commit(first, second.leaf).mask == 0b01
    assert ledger.commit(first.leaf, second).mask == 0b10


def test_reference_to_a_leaf_committed_earlier_looks_in_storage(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=1)
    second = ledger.write(1, inputs=ids(first), outputs=1)
    ledger.commit(first, second.leaf)
    found = ledger.commit(first, second)
    assert found.mask == 0b10
    assert [skip.reason for skip in found.skipped] == [SkipReason.INTENT_USED]


def test_state_made_by_this_call_cannot_be_spent_twice_by_naming_it_in_two_ways(ledger: EndorsedLedger) -> None:
    """A reference that spells the leaf out looks in storage alone, where the state is not yet."""
    first = ledger.write(0, outputs=1)
    one, other = ledger.write(1, inputs=ids(first), outputs=1), ledger.write(2, inputs=ids(first), outputs=1)
    whole = encode_payload((first, one, other), VALID_UNTIL_S)
    assert whole.count(bytes((0, 0)) + one.outputs[0].commitment) == 1
    spelled = bytes((0xFF, 0)) + first.leaf
    payload = whole.replace(bytes((0, 0)) + one.outputs[0].commitment, spelled + one.outputs[0].commitment)
    found = ledger.commit_bytes(payload, (first.leaf, one.leaf, other.leaf))
    assert found.mask == 0b101
    assert ledger.unspent(first.leaf) == 0


def test_body_hash_in_place_of_the_body_gives_the_same_leaf(ledger: EndorsedLedger) -> None:
    first = ledger.write(0, outputs=2, info=1)
    second = ledger.write(1, inputs=ids(first), outputs=1)
    found = ledger.commit(first, second, body=True)
    assert (found.mask, found.round.payload.leaves) == (0b11, (first.leaf, second.leaf))
    assert ledger.unspent(second.leaf) == 1


def test_round_is_valid_until_its_last_second(ledger: EndorsedLedger) -> None:
    ledger.chain.time_s = VALID_UNTIL_S
    assert ledger.commit(ledger.write(0, outputs=1)).mask == 1
    ledger.chain.time_s += 1
    with pytest.raises(Reverted) as reverted:
        ledger.commit(ledger.write(1, outputs=1))
    assert (reverted.value.name, reverted.value.arguments) == ("Expired", (VALID_UNTIL_S, VALID_UNTIL_S + 1))


def test_signatures_for_one_validity_do_not_serve_another(ledger: EndorsedLedger) -> None:
    one = ledger.write(0, outputs=1)
    payload = encode_payload((one,), VALID_UNTIL_S + 1)
    with pytest.raises(Reverted, match="NotEndorsed"):
        ledger.chain.send(ledger.address, encode_commit(payload, ledger.auth(ledger.digest((one,)))))


def test_leaf_binds_every_field(ledger: EndorsedLedger) -> None:
    """Signatures for one transition do not serve one that differs in anything."""
    stored = ledger.write(0, outputs=4)
    ledger.commit(stored)
    a, b, c, d = ids(stored)
    base: dict[str, object] = {"inputs": (a,), "reads": (b,), "outputs": 1, "info": 1}
    signed = ledger.write(1, **base)
    auth = ledger.auth(ledger.digest((signed,)))
    others = [
        ledger.write(2, **base),
        ledger.write(1, **{**base, "inputs": (c,)}),
        ledger.write(1, **{**base, "reads": (d,)}),
        ledger.write(1, **{**base, "inputs": (b,), "reads": (a,)}),
        ledger.write(1, **{**base, "outputs": 2, "info": 0}),
        ledger.write(1, **{**base, "salt": b"other"}),
        ledger.write(1, **{**base, "preparation": Preparation(ALICE, bytes(32))}),
    ]
    for other in others:
        with pytest.raises(Reverted, match="NotEndorsed"):
            ledger.chain.send(ledger.address, encode_commit(encode_payload((other,), VALID_UNTIL_S), auth))
    assert ledger.commit(signed).mask == 1


def test_same_round_is_worth_nothing_at_another_contract_or_on_another_chain() -> None:
    ledger, elsewhere = EndorsedLedger(), EndorsedLedger(chain=Chain(chain_id=99))
    second = EndorsedLedger(chain=ledger.chain)
    assert second.endorsers == ledger.endorsers
    call = ledger.call(ledger.write(0, outputs=1))
    for address, chain in ((second.address, ledger.chain), (elsewhere.address, elsewhere.chain)):
        with pytest.raises(Reverted, match="NotEndorsed"):
            chain.send(address, call)


def test_domain_follows_the_chain_id_after_a_fork() -> None:
    ledger = EndorsedLedger()
    code = ledger.chain.evm.get_code(ledger.address)
    assert code is not None
    fork = Chain(chain_id=4242)
    fork.evm.insert_account_info(ledger.address, type(ledger.chain.evm.basic(ledger.address))(code=code, nonce=1))
    with pytest.raises(Reverted, match="NotEndorsed"):
        fork.send(ledger.address, ledger.call(ledger.write(0, outputs=1)))
    ledger.chain = fork
    assert fork.call("Endorsed", ledger.address, "domainSeparator") == ledger.separator
    assert ledger.commit(ledger.write(0, outputs=1)).mask == 1


def test_two_commits_in_one_transaction_share_nothing_but_storage(ledger: EndorsedLedger) -> None:
    target = ledger.chain.deploy("Target")
    first = ledger.write(0, outputs=2)
    second = ledger.write(1, inputs=ids(first)[:1], outputs=1)
    conflicting = ledger.write(2, inputs=ids(first)[:1], outputs=1)
    third = ledger.write(3, inputs=ids(first)[1:] + ids(second), outputs=1)

    def both(*rounds: tuple[Transition, ...]) -> tuple[int, int]:
        parts: list[bytes] = []
        for each in rounds:
            parts += [encode_payload(each, VALID_UNTIL_S), ledger.auth(ledger.digest(each))]
        found: tuple[int, int] = ledger.chain.call("Target", target, "commitTwice", ledger.address, *parts)
        return found

    assert both((first, second), (conflicting, third)) == (0b11, 0b10)
    assert [ledger.unspent(t.leaf) for t in (first, second, third)] == [0, 0, 1]


def test_anybody_may_submit_through_whatever_contract(ledger: EndorsedLedger) -> None:
    target = ledger.chain.deploy("Target")
    call = ledger.call(ledger.write(0, outputs=1))
    answer = ledger.chain.send(target, call_data("Target", "forward", ledger.address, call), BOB)
    assert [event.address for event in answer.events] == [ledger.address]
    assert ledger.is_used(ledger.write(0).intent)


def test_round_of_255_leaves_is_committed_whole() -> None:
    ledger = EndorsedLedger(1, 1)
    round_: list[Transition] = []
    for number in range(255):
        round_.append(write(ledger.separator, number, inputs=ids(round_[-1]) if round_ else (), outputs=1))
    found = ledger.commit(*round_)
    assert found.mask == (1 << 255) - 1
    assert round_digest(ledger.separator, found.round.payload.leaves, VALID_UNTIL_S) == found.round.digest
    assert (ledger.unspent(round_[-2].leaf), ledger.unspent(round_[-1].leaf)) == (0, 1)
