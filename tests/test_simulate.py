"""`rota simulate` as a person and as a program uses it."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.chain.submitter import Submitter
from rota.cli.simulate import KIT, command
from rota.model.types import Rotation
from rota.sim.breaking import broken
from rota.sim.canaries import CANARIES
from rota.sim.coverage import Place
from rota.sim.invariants import Count
from rota.sim.liars.throughput import Throughput
from rota.sim.plan import DEPLOYMENTS, Settings, draw_domain
from rota.sim.swarm import Report
from rota.testing.workloads.canaries import workload_canaries

NONCE_CANARY = next(canary for canary in CANARIES if canary.name == "reuses a nonce")


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_clean_seeds_exit_0_and_say_so() -> None:
    result = simulate("--seeds", "0..2", "--minutes", "0.1", "--liars", "0")
    assert result.exit_code == 0
    assert "2 seeds:" in result.stdout
    assert "no invariant was violated" in result.stdout


def test_json_is_one_object_of_the_named_shape() -> None:
    summary = json.loads(simulate("--seed", "3", "--minutes", "0.1", "--liars", "0", "--json").stdout)
    counts = ["seeds", "events", "simulated_seconds", "faults", "faults_by_kind", "intents", "domains", "liars", "lies"]
    assert list(summary) == [*counts, "mutated_fields", "invariants", "without_chances", "work", "violations"]
    assert summary["seeds"] == 1
    assert summary["intents"] > 0
    assert summary["violations"] == []


@pytest.mark.slow
def test_report_counts_how_often_each_invariant_was_judged_and_could_have_failed() -> None:
    arguments = ("--seeds", "3..5", "--minutes", "0.1", "--liars", "0")
    counts = json.loads(simulate(*arguments, "--json").stdout)["invariants"]
    assert counts["L1"]["judged"] == counts["L1"]["chances"] > 0
    assert counts["S8"]["judged"] > counts["S8"]["chances"]
    assert sum(counts["S8"]["by"].values()) == counts["S8"]["chances"]
    assert f"{counts['L1']['judged']:>11}" in simulate(*arguments).stdout


def test_report_tells_what_a_commit_costs() -> None:
    arguments = ("--seed", "3", "--minutes", "0.1", "--liars", "0")
    work = json.loads(simulate(*arguments, "--json").stdout)["work"]
    assert work["assemblies"] >= work["commits"] > 0
    assert {"dispatches", "resends", "rounds", "transactions"} <= set(work)
    assert f"for each of {work['commits']} commits: " in simulate(*arguments).stdout


def test_default_campaign_in_which_an_invariant_has_no_chance_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(seed: int, **_: object) -> tuple[Report, Counter[Place]]:
        return Report(
            seed, nodes=1, simulated_ms=1, invariants={"S8": Count(5, 0, {}), "L1": Count(5, 5, {})}
        ), Counter()

    monkeypatch.setattr("rota.cli.simulate._play", play)
    result = simulate("--seeds", "0..200")
    assert (result.exit_code, "S8 had no chance to fail" in result.stdout) == (1, True)
    assert json.loads(simulate("--seeds", "0..200", "--json").stdout)["without_chances"] == ["S8"]
    assert simulate("--seeds", "0..199").exit_code == 0
    assert simulate("--seeds", "0..200", "--faults", "none").exit_code == 0


@pytest.mark.slow
def test_liar_that_mutates_is_reported_with_how_many_fields_it_changed() -> None:
    arguments = ("--seed", "0", "--minutes", "0.1", "--liars", "1", "--strategies", "mutates")
    mutated = json.loads(simulate(*arguments, "--json").stdout)["mutated_fields"]
    assert mutated["reached"] + len(mutated["missed"]) == mutated["all"] > mutated["reached"] > 0
    assert (
        f"{mutated['reached']} of {mutated['all']} fields that peers send were changed" in simulate(*arguments).stdout
    )


@pytest.mark.parametrize(("confirmed", "exit_code", "word"), [(53, 1, "TOO LOW 0.53"), (54, 0, "enough  0.54")])
def test_throughput_that_is_too_low_exits_1(
    monkeypatch: pytest.MonkeyPatch, confirmed: int, exit_code: int, word: str
) -> None:
    """Two of three members are honest: less a fifth, 0.533 is enough."""

    def measured(strategy: str, rotation: Rotation) -> Throughput:
        return Throughput(strategy, rotation, confirmed, 100, 41_000, 2 / 3)

    monkeypatch.setattr("rota.cli.simulate.measure", measured)
    arguments = ("--throughput", "--strategies", "never-assembles")
    result = simulate(*arguments, "--rotation", "strict")
    assert result.exit_code == exit_code
    assert f"{word} of 100 (0.53 is enough), 41 s without any: never-assembles, strict" in result.stdout
    told = json.loads(simulate(*arguments, "--json").stdout)["throughput"]
    assert [(each["rotation"], each["is_enough"]) for each in told] == [
        ("sticky", not exit_code),
        ("strict", not exit_code),
    ]


def test_trace_tells_what_happened_and_the_diagram_draws_it(tmp_path: Path) -> None:
    drawing = tmp_path / "seed.mmd"
    result = simulate("--seed", "3", "--minutes", "0.1", "--trace", "--diagram", str(drawing))
    assert "EndorsementRequest" in result.stdout
    assert "sequenceDiagram" in drawing.read_text()


def test_core_that_reuses_a_nonce_exits_1_with_the_command_that_replays_it_made_smaller() -> None:
    with broken(NONCE_CANARY):
        result = simulate("--seed", "3", "--minutes", "0.1", "--faults", "none", "--nodes", "3")
        assert result.exit_code == 1
        assert "seed 3: S7:" in result.stdout
        (line,) = [line for line in result.stdout.splitlines() if "replay: " in line]
        replay = line.partition("replay: rota simulate ")[2].split()
        assert "--only-faults none --intents" in line
        again = simulate(*replay)
        assert (again.exit_code, "seed 3: S7:" in again.stdout) == (1, True)
    assert simulate(*replay).exit_code == 0


def test_json_names_the_invariant_and_the_replay_of_each_failing_seed() -> None:
    with broken(NONCE_CANARY):
        result = simulate("--seeds", "3..4", "--minutes", "0.1", "--faults", "none", "--no-shrink", "--json")
    assert result.exit_code == 1
    replay = "rota simulate --seed 3 --minutes 0.1 --domain synthetic --faults none --no-shrink --trace"
    assert json.loads(result.stdout)["violations"] == [{"seed": 3, "invariant": "S7", "replay": replay}]


def test_seed_whose_rounds_had_one_sender_each_without_probation_is_clean() -> None:
    """S10 took as bound that of shared rounds alone; transitions had waited until half of their validity was over."""
    faults = ("--only-faults", "2,3,13,20", "--intents", "44")
    result = simulate("--seed", "202676", "--minutes", "0.5", "--domain", "pente", *faults, "--no-shrink")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("domain", ["deployments", "noto", "pente", "zeto"])
def test_domain_is_played_and_reported(domain: str) -> None:
    result = simulate("--seed", "3", "--minutes", "0.1", "--faults", "none", "--domain", domain, "--json")
    summary = json.loads(result.stdout)
    assert (result.exit_code, summary["domains"][domain], summary["violations"]) == (0, 1, [])
    name = "D1" if domain == "deployments" else "W1"
    assert summary["invariants"][name]["chances"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("number", "shrinks"), [(0, "--shrink"), (1, "--no-shrink"), (2, "--no-shrink")])
def test_broken_domain_exits_1_with_the_command_that_replays_it(number: int, shrinks: str) -> None:
    canary = workload_canaries(KIT)[number]
    domain = str(canary.settings.domain)
    with broken(canary):
        result = simulate("--seed", "0", "--minutes", "0.1", "--faults", "none", "--domain", domain, shrinks)
        assert (result.exit_code, "seed 0: W1:" in result.stdout) == (1, True)
        (line,) = [line for line in result.stdout.splitlines() if "replay: " in line]
        smaller = " --only-faults none --intents " if shrinks == "--shrink" else " --no-shrink"
        assert f"--domain {domain} --faults none{smaller}" in line
        replay = line.partition("replay: rota simulate ")[2].split()
        again = simulate(*replay)
        assert (again.exit_code, "seed 0: W1:" in again.stdout) == (1, True)
    assert simulate(*replay).exit_code == 0


def test_seed_that_draws_another_domain_is_replayed_with_that_domain() -> None:
    anything = Settings(domain=None)
    seed = next(seed for seed in range(100) if draw_domain(seed, anything) == DEPLOYMENTS)
    arguments = ("--seed", str(seed), "--minutes", "0.05", "--no-shrink", "--json")
    with broken(NONCE_CANARY):
        (violation,) = json.loads(simulate(*arguments).stdout)["violations"]
    assert violation["replay"].startswith(f"rota simulate --seed {seed} --minutes 0.05 --domain deployments")


def test_coverage_lists_the_rows_that_no_seed_took() -> None:
    result = simulate("--seeds", "3..4", "--minutes", "0.05", "--faults", "none", "--coverage")
    assert result.exit_code == 0
    assert "rows were taken; these were not:" in result.stdout
    assert "Coordinator: Standby, HeartbeatInterval when active_one_is_silent_for_long" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("seeds_max", "exit_code"), [(1, 0), (0, 1)])
def test_canaries_are_told_one_by_one_and_one_that_is_missed_exits_1(
    monkeypatch: pytest.MonkeyPatch, seeds_max: int, exit_code: int
) -> None:
    monkeypatch.setattr("rota.cli.simulate.CANARIES", (NONCE_CANARY,))
    monkeypatch.setattr("rota.cli.simulate.SEEDS_MAX", seeds_max)
    result = simulate("--canaries", "--json")
    assert result.exit_code == exit_code
    told = {"name": "reuses a nonce", "invariant": "S7", "caught": exit_code == 0, "seeds": seeds_max}
    assert json.loads(result.stdout) == {"canaries": [told]}
    assert ("caught" if exit_code == 0 else "MISSED") in simulate("--canaries").stdout


def test_invariant_without_a_canary_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.cli.simulate.CANARIES", ())
    monkeypatch.setattr("rota.cli.simulate.unguarded", lambda: ("S6",))
    result = simulate("--canaries")
    assert result.exit_code == 1
    assert "S6 has no canary" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--seeds", "5..5"), "holds no seed"),
        (("--seeds", "many"), "neither a number nor a range"),
        (("--faults", "fire"), "there is no fault fire; there are crash"),
        (("--seed", "1", "--seeds", "0..2"), "exclude each other"),
        (("--trace",), "go with --seed"),
        (("--nodes", "0"), "1<=x<=500"),
        (("--only-faults", "two"), "not a list of numbers"),
        (("--committee", "4"), "--committee: 4 members need --nodes of at least 4"),
        (("--canaries", "--seed", "1"), "--canaries has seeds of its own"),
        (("--coverage", "--json"), "exclude each other"),
        (("--domain", "noto", "--liars", "1"), "--liars and --strategies go with --domain synthetic"),
        (("--domain", "deployments", "--faults", "failover"), "go with --domain synthetic"),
        (("--domain", "zeto", "--mode", "ring"), "cannot be chosen with --domain zeto"),
    ],
)
def test_wrong_use_exits_2_and_says_what_would_be_right(arguments: tuple[str, ...], complaint: str) -> None:
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_core_that_crashes_is_told_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(*_: object) -> None:
        raise AssertionError("a signature that nobody asked for")

    monkeypatch.setattr(Submitter, "take_signed", trip)
    result = simulate("--seeds", "3..4", "--minutes", "0.1", "--faults", "none", "--json")
    assert result.exit_code == 1
    (violation,) = json.loads(result.stdout)["violations"]
    assert violation["invariant"] == "assertion"
    assert violation["replay"].startswith("rota simulate --seed 3")


def test_campaign_that_is_stopped_reports_its_seeds_and_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(seed: int, **_: object) -> tuple[Report, Counter[Place]]:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return Report(seed, nodes=1, simulated_ms=1), Counter()

    monkeypatch.setattr("rota.cli.simulate._play", play)
    result = simulate("--seeds", "0..500")
    assert (result.exit_code, "2 seeds: " in result.stdout) == (130, True)
    assert "stopped after 2 of 500 seeds" in result.stderr
    result = simulate("--seeds", "0..500", "--json")
    assert (result.exit_code, json.loads(result.stdout)["seeds"]) == (130, 2)
