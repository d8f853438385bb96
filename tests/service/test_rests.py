"""A sender's node that voids operations while hooks are at work has to wait, for longer each time."""

from __future__ import annotations

import pytest

from rota.model.types import NodeName
from rota.service.carrying import rests as module
from rota.service.carrying.rests import CARRIED_PER_EXCUSED, EXCUSED, REST_S, Rests

NODE, OTHER = NodeName("node2"), NodeName("node3")


def voided(times: int, now_s: float = 0.0) -> Rests:
    rests = Rests()
    for _ in range(times):
        rests.note_voided(NODE, now_s)
    return rests


def test_a_few_voided_operations_are_excused() -> None:
    assert not voided(EXCUSED).has(NODE, 0.0)


def test_node_that_voids_more_operations_rests_and_others_do_not() -> None:
    rests = voided(EXCUSED + 1)
    assert rests.has(NODE, REST_S - 1)
    assert not rests.has(NODE, REST_S)
    assert not rests.has(OTHER, 0.0)


def test_rest_that_follows_another_is_twice_as_long_and_one_after_a_clean_time_is_not() -> None:
    rests = voided(EXCUSED + 1)
    rests.note_voided(NODE, REST_S)
    assert rests.has(NODE, REST_S + 2 * REST_S - 1)
    clean_s = REST_S + 2 * REST_S + 2 * REST_S
    rests.note_voided(NODE, clean_s)
    assert not rests.has(NODE, clean_s + REST_S)


def test_operations_that_are_carried_out_excuse_voided_ones() -> None:
    rests = voided(EXCUSED)
    for _ in range(CARRIED_PER_EXCUSED):
        rests.note_carried(NODE)
    rests.note_voided(NODE, 0.0)
    assert not rests.has(NODE, 0.0)
    rests.note_voided(NODE, 0.0)
    assert rests.has(NODE, 0.0)


def test_accounts_are_bounded_and_end_with_enough_that_is_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CARRIED_MAX", 1)
    rests = voided(EXCUSED + 1)
    rests.note_carried(NODE)
    assert not rests.has(NODE, 0.0)
    monkeypatch.setattr(module, "SENDERS_MAX", 1)
    rests = voided(EXCUSED + 1)
    rests.note_voided(OTHER, 0.0)
    assert not rests.has(NODE, 0.0)
