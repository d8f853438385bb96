"""The benchmark, tiny: that it runs, confirms every intent and keeps its names. No test here is timed."""

import json

import pytest
from click.testing import CliRunner, Result

from rota.bench import core, network
from rota.bench.core import counting_machine_events, measure_core
from rota.bench.load import LONE_COUNT
from rota.bench.network import Network, StalledError
from rota.cli.main import main
from rota.machine.tables import Machine
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, NodeName

LOADS = ("alone", "loaded", "flooded", "chained")
LOAD_NAMES = {
    "intents",
    "in_flight",
    "confirmed",
    "intents_per_s",
    "core_us_per_intent",
    "driver_us_per_intent",
    "slowest_to_fastest",
    "steps_per_intent",
    "machine_events_per_intent",
    "rows_per_intent",
    "messages_per_intent",
    "bytes_per_intent",
    "rounds",
    "round_size_mean",
    "blocks",
    "samples",
    "parts",
}


@pytest.fixture(autouse=True)
def _few_committees(monkeypatch: pytest.MonkeyPatch) -> None:
    """A committee that was never seen takes its time, and here nothing is measured."""
    monkeypatch.setattr(core, "RANKING_REPEATS", 1)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("bench", *arguments), prog_name="rota")


@pytest.mark.slow
def test_json_has_stable_names_and_every_intent_is_confirmed() -> None:
    result = run("core", "--intents", "20", "--repeats", "1", "--contracts", "10", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert set(found) == {"machine", "core"}
    assert set(found["machine"]) == {"python", "implementation", "system", "processors"}
    figures = found["core"]
    assert set(figures) == {"nodes", "repeats", "loads", "growth", "selection", "idle"}
    assert (figures["nodes"], figures["repeats"], figures["idle"]["contracts"]) == (3, 1, 10)
    assert set(figures["idle"]) == {"contracts", "mib", "tick_us", "block_us", "connection_us"}
    assert set(figures["selection"]) == {"members", "cold_us", "new_range_us", "kept_us"}
    assert tuple(figures["loads"]) == LOADS
    for load in figures["loads"].values():
        assert set(load) == LOAD_NAMES
        assert (load["intents"], load["confirmed"]) == (20, 20)
        assert (
            sum(part["share"] for part in load["parts"].values()) == pytest.approx(1.0, abs=0.01) or not load["parts"]
        )


@pytest.mark.slow
def test_lone_intents_go_in_rounds_of_one_and_others_together() -> None:
    figures = measure_core(intents=20, repeats=1)
    alone, flooded = figures.loads["alone"], figures.loads["flooded"]
    assert (alone.rounds, alone.round_size_mean) == (20, 1.0)
    assert flooded.round_size_mean > 1.0
    assert flooded.messages_per_intent < alone.messages_per_intent
    assert alone.machine_events_per_intent >= alone.rows_per_intent > 0


@pytest.mark.slow
def test_one_node_alone_needs_no_messages() -> None:
    figures = measure_core(intents=5, nodes=1, repeats=1)
    assert all(load.messages_per_intent == 0 and load.confirmed == 5 for load in figures.loads.values())


@pytest.mark.slow
def test_tables_say_what_each_figure_means() -> None:
    result = run("core", "--intents", "5", "--repeats", "1", "--contracts", "10")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in (*LOADS, "growth", "selection", "10 idle contracts"))
    assert "machine events: per intent: events of their machines." in result.stdout
    assert "measuring alone: 5 intents, 1 in flight ..." in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("core", "--intents", "0"),
        ("core", "--intents", "many"),
        ("core", "--nodes", "0"),
        ("core", "--repeats", "0"),
        ("core", "--no-such-option"),
        ("no-such-benchmark",),
        ("--json", "core"),
    ],
)
def test_wrong_use_exits_with_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage: rota bench" in result.stderr
    assert result.stdout == ""


def test_counting_leaves_the_machines_as_they_were() -> None:
    handle = Machine.handle
    with counting_machine_events() as told:
        assert Machine.handle is not handle
    assert Machine.handle is handle
    assert (told.events, told.rows) == (0, 0)


def test_network_in_which_nothing_happens_does_not_run_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "BLOCKS_WITHOUT_RECEIPT_MAX", 3)
    names = (NodeName("node1"),)
    idle = Network(Contract(ContractAddress("0x" + "b0" * 20), names, names, 1), Config())
    with pytest.raises(StalledError, match="0 of 1 receipts"):
        idle.run_until_receipts(1)


@pytest.mark.slow
def test_far_apart_slots_and_rounds_gain_and_messages_stay_few() -> None:
    result = run("wan", "--intents", "60", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert set(found) == {
        "tx_per_s",
        "one_at_a_time_tx_per_s",
        "ratio",
        "messages_per_tx",
        "bytes_per_tx",
        "signatures_per_tx",
    }
    assert found["ratio"] == pytest.approx(found["tx_per_s"] / found["one_at_a_time_tx_per_s"], rel=0.01)
    assert found["ratio"] >= 20
    assert found["messages_per_tx"] <= 1
    assert found["signatures_per_tx"] <= 1


@pytest.mark.slow
def test_simulated_failover_is_measured_for_a_kill_a_hang_and_a_cut() -> None:
    result = run("failover", "--simulated", "--runs", "2", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert set(found) == {"kill", "hang", "cut"}
    for figures in found.values():
        assert figures["runs"] == 2
        assert 0 < figures["p50_ms"] <= figures["p95_ms"]
    assert found["kill"]["p95_ms"] <= 1_500
    assert max(found["hang"]["p95_ms"], found["cut"]["p95_ms"]) <= 3_000


@pytest.mark.parametrize("name", ["core", "wan", "failover", "node", "load", "overload", "gas", "ledger"])
def test_every_benchmark_has_help(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout


@pytest.mark.nightly
@pytest.mark.slow
def test_overload_is_measured_between_two_measures_of_saturation() -> None:
    result = run("overload", "--seconds", "1", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert min(found[phase]["ended_per_s"] for phase in ("saturated", "overloaded", "again")) > 0
    assert found["overloaded"]["asked_per_s"] > found["saturated"]["ended_per_s"]
    assert found["ratio"] > 0


@pytest.mark.slow
def test_load_is_measured_on_real_nodes() -> None:
    phases = ("lone", "moderate", "saturated", "overloaded")
    options = [option for phase in phases for option in ("--phase", phase)]
    result = run("load", "--domain", "noto", *options, "--seconds", "1", "--rate", "10", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["domains"]["noto"]
    assert tuple(found) == phases
    assert found["lone"]["ended"] == LONE_COUNT
    assert found["lone"]["per_round"] == 1
    assert 0 < found["lone"]["p50_ms"] <= found["lone"]["p95_ms"] <= found["lone"]["p99_ms"]
    assert found["moderate"]["ended"] == 10
    assert found["saturated"]["p50_ms"] is None
    for phase in phases:
        assert min(found[phase][name] for name in ("per_s", "busiest_us", "other_us", "chain_us", "gas")) > 0


@pytest.mark.parametrize(
    ("store", "said"), [("postgresql://rota@localhost/rota", "must contain {node}"), ("sqlite:{name}.db", "{node} is")]
)
def test_load_refuses_a_store_that_nodes_would_share(store: str, said: str) -> None:
    result = run("load", "--store", store)
    assert result.exit_code == 2
    assert said in result.stderr
