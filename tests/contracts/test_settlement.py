"""Prepared transitions, and their settlement over several ledgers: all or none, and no leg alone."""

from __future__ import annotations

import pytest

from rota.calldata import NO_CONDITION, encode_payload, prepared_hash, settlement_condition
from rota.model.types import ContractAddress, Preparation, Transition
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import ALICE, BOB, Answer, Chain, Reverted, call_data, keccak
from tests.contracts.kit import VALID_UNTIL_S, EndorsedLedger, core_of_transition, ids

CONDITION = keccak(b"condition")


def test_only_its_committer_commits_a_prepared_transition() -> None:
    ledger = EndorsedLedger()
    prepared = ledger.write(0, outputs=1, preparation=Preparation(BOB, CONDITION))
    with pytest.raises(Reverted) as reverted:
        ledger.commit(ledger.write(1), prepared, sender=ALICE, condition=CONDITION)
    assert (reverted.value.name, reverted.value.arguments) == ("WrongCommitter", (1, BOB))
    found = ledger.commit(prepared, sender=BOB, condition=CONDITION)
    assert found.mask == 1
    assert found.prepared_hash == prepared_hash((core_of_transition(ledger.separator, prepared),))
    assert ledger.unspent(prepared.leaf) == 1


def test_prepared_transition_wants_its_condition() -> None:
    ledger = EndorsedLedger()
    prepared = ledger.write(0, outputs=1, preparation=Preparation(BOB, CONDITION))
    for condition in (NO_CONDITION, keccak(b"another")):
        with pytest.raises(Reverted) as reverted:
            ledger.commit(prepared, sender=BOB, condition=condition)
        assert (reverted.value.name, reverted.value.arguments) == ("WrongCondition", (0, CONDITION))


def test_prepared_transition_may_be_left_out_by_anybody() -> None:
    ledger = EndorsedLedger()
    prepared = ledger.write(0, outputs=1, preparation=Preparation(BOB, CONDITION))
    plain = ledger.write(1, outputs=1)
    found = ledger.commit(prepared.leaf, plain)
    assert (found.mask, found.prepared_hash) == (0b10, bytes(32))


def test_unprepared_twin_of_a_prepared_transition_is_another_leaf() -> None:
    ledger = EndorsedLedger()
    prepared = ledger.write(0, outputs=1, preparation=Preparation(BOB, CONDITION))
    twin = ledger.write(0, outputs=1)
    assert bytes(twin.leaf) == core_of_transition(ledger.separator, prepared)
    assert twin.leaf != prepared.leaf
    auth = ledger.auth(ledger.digest((prepared,)))
    with pytest.raises(Reverted, match="NotEndorsed"):
        ledger.commit_bytes(encode_payload((twin,), VALID_UNTIL_S), (twin.leaf,), auth)


def test_hash_is_zero_when_a_prepared_transition_was_skipped() -> None:
    ledger = EndorsedLedger()
    one, other = (ledger.write(number, outputs=1, preparation=Preparation(BOB, CONDITION)) for number in (0, 1))
    ledger.commit(ledger.write(1))
    found = ledger.commit(one, other, sender=BOB, condition=CONDITION)
    assert (found.mask, found.prepared_hash) == (0b01, bytes(32))
    assert [skip.reason for skip in found.skipped] == [SkipReason.INTENT_USED]


class Exchange:
    """Two ledgers on one chain, and a settlement of one prepared transition on each."""

    def __init__(self) -> None:
        self.chain = Chain()
        self.settlement = self.chain.deploy("Settlement")
        self.cash = EndorsedLedger(1, 1, chain=self.chain)
        self.goods = EndorsedLedger(3, 3, chain=self.chain)
        self.coin, self.token = self.cash.write(0, outputs=1), self.goods.write(0, outputs=1)
        self.cash.commit(self.coin)
        self.goods.commit(self.token)
        plain = (
            self.cash.write(1, inputs=ids(self.coin), outputs=1),
            self.goods.write(1, inputs=ids(self.token), outputs=1),
        )
        self.cores = tuple(
            core_of_transition(ledger.separator, each)
            for ledger, each in zip((self.cash, self.goods), plain, strict=True)
        )
        self.condition = settlement_condition(
            ((self.cash.address, self.cores[:1]), (self.goods.address, self.cores[1:]))
        )
        preparation = Preparation(self.settlement, self.condition)
        self.payment = self.cash.write(1, inputs=ids(self.coin), outputs=1, preparation=preparation)
        self.delivery = self.goods.write(1, inputs=ids(self.token), outputs=1, preparation=preparation)

    def leg(self, ledger: EndorsedLedger, core: bytes, *round_: Transition) -> tuple[object, ...]:
        auth = ledger.auth(ledger.digest(round_))
        return (ledger.address, (core,), encode_payload(round_, VALID_UNTIL_S), auth)

    def legs(self) -> list[tuple[object, ...]]:
        return [
            self.leg(self.cash, self.cores[0], self.payment),
            self.leg(self.goods, self.cores[1], self.cash_free_round(), self.delivery),
        ]

    def cash_free_round(self) -> Transition:
        return self.goods.write(7, outputs=1)

    def settle(self, legs: list[tuple[object, ...]], sender: ContractAddress = ALICE) -> Answer:
        return self.chain.send(self.settlement, call_data("Settlement", "settle", legs), sender)

    def is_settled(self) -> bool:
        both = self.cash.is_used(self.payment.intent), self.goods.is_used(self.delivery.intent)
        assert both[0] == both[1], "one leg went alone"
        return both[0]


def test_settlement_commits_all_legs_whoever_asks_and_once() -> None:
    exchange = Exchange()
    found = exchange.chain.call("Settlement", exchange.settlement, "conditionOf", exchange.legs())
    assert found == exchange.condition
    answer = exchange.settle(exchange.legs(), BOB)
    assert exchange.is_settled()
    assert answer.events[-1].topics == (keccak(b"Settled(bytes32)"), exchange.condition)
    assert exchange.cash.unspent(exchange.payment.leaf) == exchange.goods.unspent(exchange.delivery.leaf) == 1
    with pytest.raises(Reverted, match=r"LegNotCommitted\(0,\)"):
        exchange.settle(exchange.legs())


def test_leg_that_is_skipped_undoes_the_others() -> None:
    exchange = Exchange()
    exchange.goods.commit(exchange.goods.write(9, inputs=ids(exchange.token)))
    with pytest.raises(Reverted, match=r"LegNotCommitted\(1,\)"):
        exchange.settle(exchange.legs())
    assert not exchange.is_settled()


def test_no_leg_goes_alone() -> None:
    exchange = Exchange()
    payment, delivery = exchange.legs()
    for legs in ([payment], [delivery], [delivery, payment], [payment, delivery, payment]):
        with pytest.raises(Reverted, match="WrongCondition"):
            exchange.settle(legs)
    call = exchange.cash.call(exchange.payment, condition=exchange.condition)
    with pytest.raises(Reverted, match="WrongCommitter"):
        exchange.chain.send(exchange.cash.address, call)
    assert not exchange.is_settled()


def test_leg_cannot_be_filled_with_something_else() -> None:
    """The full list is given, but a payload leaves its prepared transition out, or brings another."""
    exchange = Exchange()
    payment, delivery = exchange.legs()
    empty = exchange.leg(exchange.goods, exchange.cores[1], exchange.cash_free_round())
    preparation = Preparation(exchange.settlement, exchange.condition)
    other = exchange.goods.write(8, outputs=1, preparation=preparation)
    more = exchange.leg(exchange.goods, exchange.cores[1], exchange.delivery, other)
    for leg in (empty, more):
        with pytest.raises(Reverted, match=r"LegNotCommitted\(1,\)"):
            exchange.settle([payment, leg])
    assert not exchange.is_settled()
    exchange.settle([payment, delivery])
    assert exchange.is_settled()


def test_settlement_without_legs_or_with_an_empty_or_too_many_is_refused() -> None:
    exchange = Exchange()
    payment, delivery = exchange.legs()
    hollow = (delivery[0], (), *delivery[2:])
    for legs, text in (
        ([], "WrongLegCount(0,)"),
        ([payment] * 33, "WrongLegCount(33,)"),
        ([payment, hollow], "EmptyLeg(1,)"),
    ):
        with pytest.raises(Reverted) as reverted:
            exchange.settle(legs)
        assert str(reverted.value) == text
