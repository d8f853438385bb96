"""What a seed draws: whole, in order, and the same whatever is left out of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.types import Mode, Rotation
from rota.sim.clock import LocalClock
from rota.sim.plan import (
    DEPLOYMENTS,
    DOMAINS,
    DRAWN_IN_PERCENT,
    FAULTS,
    FEW_KINDS_MAX,
    NEWEST,
    OUTAGES_MS,
    REORGANISATION_DEPTH_MAX,
    SLOW_SERVICE_MS,
    SYNTHETIC,
    Settings,
    draw_domain,
    draw_plan,
)
from rota.sim.submissions import holders_of, senders_of

ALL = Settings(minutes=1, faults=FAULTS)


def test_plan_of_a_shorter_time_is_the_beginning_of_that_of_a_longer_one() -> None:
    shorter, longer = draw_plan(5, Settings(minutes=1, faults=FAULTS)), draw_plan(5, Settings(minutes=2, faults=FAULTS))
    assert longer.faults[: len(shorter.faults)] == shorter.faults
    assert longer.submissions[: len(shorter.submissions)] == shorter.submissions


def test_faults_and_intents_that_are_left_out_change_nothing_else() -> None:
    whole = draw_plan(5, ALL)
    part = draw_plan(5, Settings(minutes=1, faults=FAULTS, only_faults=(3, 7), intents=10))
    assert part.faults == tuple(fault for fault in whole.faults if fault.number in (3, 7))
    assert part.submissions == whole.submissions[:10]
    assert (part.contracts, part.config, part.names) == (whole.contracts, whole.config, whole.names)


def test_every_fault_is_drawn_when_all_are_asked_for() -> None:
    drawn = {fault.kind for seed in range(5) for fault in draw_plan(seed, ALL).faults}
    assert drawn == set(FAULTS)


@pytest.mark.slow
def test_good_part_of_the_seeds_has_few_kinds_of_faults_and_every_kind_is_drawn() -> None:
    settings = Settings(has_newest_faults=True)
    kinds = [{fault.kind for fault in draw_plan(seed, settings).faults} for seed in range(200)]
    few = [each for each in kinds if 1 <= len(each) <= FEW_KINDS_MAX]
    assert 50 <= len(few) <= 110
    assert set().union(*few) == set(FAULTS)


@pytest.mark.slow
def test_newest_kinds_are_drawn_where_asked_for_and_leave_the_other_faults_as_they_are() -> None:
    changed = 0
    for seed in range(100):
        before = draw_plan(seed, Settings())
        after = draw_plan(seed, Settings(has_newest_faults=True))
        new = {fault.kind for fault in after.faults} & set(NEWEST)
        assert not {fault.kind for fault in before.faults} & set(NEWEST)
        if not new:
            assert after == before
            continue
        changed += 1
        assert after.submissions == before.submissions
        kinds = {fault.kind for fault in before.faults}
        if len(kinds) > FEW_KINDS_MAX:
            assert kinds | new == {fault.kind for fault in after.faults}
    assert 10 <= changed <= 40


def test_outages_last_longer_than_the_timers() -> None:
    drawn = draw_plan(3, Settings(minutes=5, faults=("outage",))).faults
    assert drawn
    assert all(OUTAGES_MS[0] <= fault.for_ms <= OUTAGES_MS[1] for fault in drawn)


def test_network_that_is_reorganised_waits_for_enough_confirmations() -> None:
    assert {draw_plan(seed, ALL).config.confirmations for seed in range(20)} == {REORGANISATION_DEPTH_MAX}


def test_only_members_send_in_a_ring_and_every_holder_elsewhere() -> None:
    for seed in range(30):
        plan = draw_plan(seed, ALL)
        for contract in plan.contracts:
            allowed = contract.committee if contract.mode is Mode.RING else plan.names
            assert senders_of(contract, plan.names) == allowed


def test_large_network_knows_a_contract_where_it_has_members_and_nowhere_else() -> None:
    plan = draw_plan(0, Settings(nodes=60, contracts=5, committee=7, mode=Mode.RING))
    assert [len(holders_of(contract, plan.names)) for contract in plan.contracts] == [7] * 5
    assert len(set(plan.names)) == 60


def test_clock_runs_at_its_rate_jumps_and_never_runs_backwards() -> None:
    clock = LocalClock()
    assert clock.read(1_000) == 1_000
    clock.change(1_000, 1_250, 500)
    assert (clock.read(1_000), clock.read(1_400)) == (1_500, 2_000)
    assert clock.when(2_000) == 1_400
    clock.change(1_400, 1_000, -700)
    assert (clock.read(1_400), clock.read(2_000), clock.read(2_200)) == (2_000, 2_000, 2_100)


def test_moment_of_a_local_time_is_not_before_the_clock_says_so() -> None:
    clock = LocalClock()
    clock.change(0, 799)
    assert all(clock.read(clock.when(local_ms)) >= local_ms for local_ms in range(1, 2_000))


def test_every_tenth_seed_has_a_codec_unless_told_otherwise() -> None:
    assert [seed for seed in range(25) if draw_plan(seed, Settings()).has_codec] == [0, 10, 20]
    assert draw_plan(1, Settings(codec=True)).has_codec
    assert not draw_plan(10, Settings(codec=False)).has_codec


def test_slow_services_are_not_drawn_for_coordinators_with_short_turns() -> None:
    plans = [draw_plan(seed, Settings(minutes=1, rotation=Rotation.STRICT)) for seed in range(60)]
    short = [plan for plan in plans if any(contract.range_size == 4 for contract in plan.contracts)]
    assert max(plan.service_ms for plan in short) <= 40
    assert max(plan.service_ms for plan in plans) == SLOW_SERVICE_MS


def test_number_of_sequencers_in_memory_can_be_set() -> None:
    assert draw_plan(5, Settings(sequencers_max=1)).config.sequencers_max == 1


def test_part_of_the_seeds_plays_other_domains_and_the_plans_of_all_others_stay_as_they_are() -> None:
    anything = Settings(minutes=1 / 10, liars=None, domain=None)
    drawn = [draw_domain(seed, anything) for seed in range(2_000)]
    assert {drawn.count(each) // 20 for each in DOMAINS if each != SYNTHETIC} <= {3, 4, 5, 6, 10, 11, 12, 13, 14}
    assert sum(each != SYNTHETIC for each in drawn) / 20 == pytest.approx(sum(DRAWN_IN_PERCENT.values()), abs=3)
    for seed in [seed for seed in range(40) if drawn[seed] == SYNTHETIC]:
        assert draw_plan(seed, anything) == draw_plan(seed, Settings(minutes=1 / 10, liars=None))


@pytest.mark.parametrize(
    "settings",
    [Settings(domain=None, liars=1), Settings(domain=None, nodes=3), Settings(domain=None, faults=("failover",))],
)
def test_network_that_is_asked_for_plays_the_simulators_own_domain(settings: Settings) -> None:
    assert {draw_domain(seed, settings) for seed in range(100)} == {SYNTHETIC}


def test_deployments_are_the_first_ones_of_a_longer_time_and_are_cut_with_the_intents() -> None:
    shorter = draw_plan(5, Settings(minutes=0.2, domain=DEPLOYMENTS))
    longer = draw_plan(5, Settings(minutes=0.5, domain=DEPLOYMENTS))
    assert longer.deployments[: len(shorter.deployments)] == shorter.deployments
    assert not longer.liars
    half = draw_plan(5, Settings(minutes=0.5, domain=DEPLOYMENTS, intents=60))
    assert len(half.submissions) + len(half.deployments) == 60
    assert longer.deployments[: len(half.deployments)] == half.deployments
    next_ms = longer.submissions[len(half.submissions)].at_ms
    assert all(each.at_ms <= next_ms for each in half.deployments)


def test_plans_of_transactions_are_drawn_where_asked_for_and_leave_the_rest_as_it_is() -> None:
    planned = 0
    for seed in range(60):
        before, after = (draw_plan(seed, Settings(minutes=1, liars=None, has_plans=has)) for has in (False, True))
        assert not any(each.payload.startswith("seal") for each in before.submissions)
        assert replace(after, submissions=before.submissions) == before
        endorsers = {each.address: each.endorsers for each in after.contracts}
        liars = {liar.name for liar in after.liars}
        for old, new in zip(before.submissions, after.submissions, strict=True):
            if new == old:
                continue
            planned += 1
            verb, _, names = new.payload.partition(":")
            assert verb == "seal"
            assert replace(new, payload=old.payload) == old
            assert all(name in endorsers[new.contract] and name not in liars for name in names.split("+") if name)
    assert planned > 100


def test_seeds_with_builds_from_before_plans_have_none() -> None:
    settings = Settings(has_plans=True, faults=("older",))
    payloads = {each.payload for seed in range(20) for each in draw_plan(seed, settings).submissions}
    assert not any(payload.startswith("seal") for payload in payloads)
