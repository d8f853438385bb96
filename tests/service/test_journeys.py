"""Which transactions are told one by one: some on their whole way, the others counted."""

from __future__ import annotations

import pytest

from rota.model.types import ContractAddress, IntentId
from rota.service.watch import journeys
from rota.service.watch.journeys import Budget, Journeys, budget_of
from rota.service.watch.milestones import Milestone, Sighting
from tests.store.kit import FIRST, intent_id

ROOM = Budget(begun=2, told=10, contracts=1)


def seen(milestone: Milestone, *numbers: int, has_failed: bool = False) -> Sighting:
    contract = ContractAddress("") if milestone is Milestone.REPORTED else FIRST
    return Sighting(milestone, [intent_id(number) for number in numbers], contract, has_failed=has_failed)


def told(found: Journeys) -> list[tuple[int, list[str]]]:
    """By number, with the names of the milestones."""
    return [(each.intent[-1], [step.sighting.milestone.value for step in each.steps]) for each in found.take()]


def test_one_that_is_followed_is_told_on_its_whole_way_and_the_others_are_counted() -> None:
    found = Journeys(ROOM)
    for milestone in (Milestone.ACCEPTED, Milestone.ASSEMBLED):
        found.saw(seen(milestone, 1, 2, 3, 4, 5), 7)
    assert told(found) == [(1, ["accepted", "assembled"]), (2, ["accepted", "assembled"])]
    found.saw(seen(Milestone.ACCEPTED, 6, 7, 8), 8)
    found.saw(seen(Milestone.CONFIRMED, 1, 2, 3, 4, 5), 8)
    assert told(found) == [(6, ["accepted"]), (7, ["accepted"]), (1, ["confirmed"]), (2, ["confirmed"])]
    assert found.counts == {Milestone.ACCEPTED: 8, Milestone.ASSEMBLED: 5, Milestone.CONFIRMED: 5}
    assert found.omitted == 3


def test_those_seen_at_their_beginning_go_before_those_seen_later_on_their_way() -> None:
    found = Journeys(ROOM)
    found.saw(seen(Milestone.ENDORSED, 1, 2), 1)
    found.saw(seen(Milestone.ACCEPTED, 3), 2)
    found.saw(seen(Milestone.CONFIRMED, 1, 2), 3)
    assert told(found) == [(1, ["endorsed", "confirmed"]), (3, ["accepted"])]
    assert found.omitted == 1


def test_where_nothing_begins_those_seen_late_have_all_the_room() -> None:
    found = Journeys(ROOM)
    found.saw(seen(Milestone.CONFIRMED, 1, 2, 3), 1)
    assert told(found) == [(1, ["confirmed"]), (2, ["confirmed"])]
    assert found.omitted == 1


def test_one_that_went_by_is_not_told_of_once_more_when_it_is_reported() -> None:
    found = Journeys(ROOM)
    found.saw(seen(Milestone.CONFIRMED, 1, 2, 3), 1)
    told(found)
    found.saw(seen(Milestone.REPORTED, 3), 2)
    assert (told(found), found.omitted) == ([], 1)


def test_what_has_failed_has_room_of_its_own() -> None:
    found = Journeys(ROOM)
    found.saw(seen(Milestone.ACCEPTED, 1, 2, 3), 1)
    for number in (4, 5, 6):
        found.saw(seen(Milestone.REPORTED, number, has_failed=True), 2)
    assert [number for number, _ in told(found)] == [1, 2, 4, 5]
    assert found.omitted == 1


def test_one_that_is_on_the_ledger_is_followed_until_it_is_reported() -> None:
    found = Journeys(ROOM)
    found.saw(seen(Milestone.ACCEPTED, 1), 1)
    found.saw(seen(Milestone.CONFIRMED, 1), 2)
    told(found)
    found.saw(seen(Milestone.ACCEPTED, 2, 3), 3)
    found.saw(seen(Milestone.REPORTED, 1), 3)
    *_, last = found.take()
    assert (last.intent, last.contract, last.steps[0].sighting.milestone) == (intent_id(1), FIRST, Milestone.REPORTED)
    found.saw(seen(Milestone.ACCEPTED, 4, 5), 4)
    found.saw(seen(Milestone.REPORTED, 1), 4)
    assert [number for number, _ in told(found)] == [4, 5]


def test_what_has_no_room_in_an_update_comes_in_the_next() -> None:
    found = Journeys(Budget(begun=3, told=2, contracts=1))
    found.saw(seen(Milestone.ACCEPTED, 1, 2, 3), 1)
    assert [number for number, _ in told(found)] == [1, 2]
    assert found.has_news
    found.saw(seen(Milestone.ASSEMBLED, 3), 2)
    assert told(found) == [(3, ["accepted", "assembled"])]
    assert not found.has_news


def test_of_too_many_under_way_the_first_is_given_up_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journeys, "FOLLOWED_MAX", 2)
    found = Journeys(ROOM)
    found.follow([(intent_id(1), FIRST), (intent_id(2), FIRST)])
    found.saw(seen(Milestone.ACCEPTED, 3), 1)
    first, second = found.take()
    assert (first.intent, first.steps, first.is_given_up, first.contract) == (intent_id(1), (), True, FIRST)
    assert (second.intent, second.is_given_up) == (intent_id(3), False)
    assert not found.has_news
    found.saw(seen(Milestone.CONFIRMED, 2, 3), 2)
    assert [number for number, _ in told(found)] == [2, 3]


def test_those_that_only_wait_to_be_reported_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journeys, "ENDING_MAX", 1)
    found = Journeys(ROOM)
    found.follow([(intent_id(1), FIRST), (intent_id(2), FIRST)])
    found.saw(seen(Milestone.CONFIRMED, 1, 2), 1)
    told(found)
    found.saw(seen(Milestone.ACCEPTED, 8, 9), 2)
    found.saw(seen(Milestone.REPORTED, 1), 2)
    found.saw(seen(Milestone.REPORTED, 2), 2)
    assert [number for number, _ in told(found)] == [8, 9, 2]


def test_the_work_of_a_second_is_the_same_whatever_the_interval() -> None:
    assert budget_of(500) == (20, 100, 200)
    assert budget_of(1_000) == (40, 200, 400)
    assert budget_of(100) == budget_of(1) == (4, 20, 40)
    assert budget_of(60_000) == budget_of(5_000) == (200, 1_000, 2_000)


def test_much_that_nobody_is_told_of_is_not_held() -> None:
    found = Journeys(ROOM)
    for number in range(10_000):
        found.saw(Sighting(Milestone.ASSEMBLED, [IntentId(number.to_bytes(16, "big"))], FIRST), number)
    assert len(found.take()) == ROOM.begun
    assert not found.has_news
