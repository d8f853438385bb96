"""Timers and limits: the defaults of protocol §9, what follows from them, and what is refused by name."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from rota.model.config import MAY_BE_ZERO, Config

NAMES = [field.name for field in fields(Config)]


def test_defaults_are_those_of_the_protocol() -> None:
    config = Config()
    assert (config.heartbeat_ms, config.heartbeat_grace, config.closing_heartbeats, config.idle_grace) == (500, 2, 6, 6)
    assert (config.request_timeout_ms, config.assemble_timeout_ms, config.state_timeout_ms) == (1_000, 2_000, 10_000)
    assert (config.delegation_repeat_ms, config.delegation_timeout_ms) == (250, 1_000)
    assert (config.handover_timeout_ms, config.flush_timeout_ms, config.submitter_grace_ms) == (3_000, 30_000, 4_000)
    assert (config.ledger_grace_ms, config.step_down_pause_ms, config.unavailable_ttl_ms) == (5_000, 10_000, 60_000)
    assert (config.validity_s, config.in_flight_max, config.dispatch_ahead_max) == (600, 5_000, 16)
    assert (config.assembly_slot_max, config.round_max, config.rounds_open_max) == (64, 64, 2)
    assert (config.revert_retry_max, config.endorse_retry_max) == (3, 5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [-1, 1.5, "500", None, True])
def test_wrong_value_is_refused_by_name(name: str, wrong: object) -> None:
    least = 0 if name in MAY_BE_ZERO else 1
    with pytest.raises(ValueError, match=f"^{name}: must be a whole number of at least {least}, not ") as refused:
        Config(**{name: wrong})  # type: ignore[arg-type]
    assert str(refused.value).endswith(repr(wrong))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MAY_BE_ZERO])
def test_nothing_is_refused_where_it_would_stop_the_node(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: must be a whole number of at least 1, not 0"):
        Config(**{name: 0})


@pytest.mark.parametrize("name", [name for name in NAMES if name != "message_bytes_max"])
def test_least_value_is_taken(name: str) -> None:
    least = 0 if name in MAY_BE_ZERO else 1
    assert getattr(replace(Config(), **{name: least}), name) == least


def test_index_keeps_more_blocks_than_a_reorganisation_may_take_back() -> None:
    with pytest.raises(ValueError, match=r"^index_window_max: must be greater than confirmations, which is 7"):
        Config(confirmations=7, index_window_max=7)


def test_message_holds_two_transitions_and_an_intent() -> None:
    sizes = {"transition_bytes_max": 100, "intent_bytes_max": 200}
    assert Config(message_bytes_max=200, **sizes).round_bytes_max == 100
    with pytest.raises(ValueError, match=r"^message_bytes_max: must be at least intent_bytes_max, which is 200$"):
        Config(message_bytes_max=199, **sizes)
    with pytest.raises(ValueError, match=r"^message_bytes_max: must be at least twice transition_bytes_max, .* 202$"):
        Config(message_bytes_max=200, transition_bytes_max=101, intent_bytes_max=1)


def test_silence_begins_when_more_than_the_grace_are_missing() -> None:
    assert Config(heartbeat_ms=500, heartbeat_grace=2).silence_ms == 1_500
    assert Config(heartbeat_ms=200, heartbeat_grace=4).silence_ms == 1_000


def test_heartbeat_is_overdue_after_one_and_a_half_intervals() -> None:
    assert Config(heartbeat_ms=500).overdue_ms == 750
    assert Config(heartbeat_ms=100, heartbeat_grace=9).overdue_ms == 150


def test_config_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().heartbeat_ms = 1  # type: ignore[misc]
