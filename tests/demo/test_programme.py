"""What the demonstration asks for follows from its seed."""

from __future__ import annotations

from rota.demo.programme import AMOUNT_MAX, NODES_MAX, Asset, Programme
from rota.model.types import node_of


def test_two_programmes_of_one_seed_ask_for_the_same_and_those_of_two_do_not() -> None:
    def asked(seed: int) -> list[object]:
        programme = Programme(seed=seed)
        return [programme.transfer(number, programme.names[number % 3]) for number in range(50)]

    assert asked(1) == asked(1) != asked(2)


def test_every_node_s_user_pays_somebody_else_of_both_assets() -> None:
    programme = Programme(node_count=4)
    transfers = [programme.transfer(number, name) for number in range(60) for name in programme.names]
    assert all(node_of(each.payer) != node_of(each.payee) for each in transfers)
    assert all(1 <= each.amount <= AMOUNT_MAX for each in transfers)
    assert {each.asset for each in transfers} == set(Asset)
    assert {each.payee for each in transfers} == set(programme.members.values())


def test_most_of_the_members_endorse() -> None:
    assert [Programme(node_count=count).threshold for count in (3, 4, 5, NODES_MAX)] == [2, 3, 3, 5]
    assert len(Programme(node_count=NODES_MAX).members) == NODES_MAX


def test_a_rate_is_an_interval() -> None:
    assert [Programme(rate_per_s=rate).interval_ms for rate in (0.5, 10, 100)] == [2_000, 100, 10]
