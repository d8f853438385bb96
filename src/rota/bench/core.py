"""The cost of an intent in the pure core: all machines of all nodes in one process, no network, no disk.

Each load runs several times on a fresh network, and the fastest run counts: other work of the machine can only make a
run slower. Further runs of each load, which are not timed, sample where the time goes and count the events of the
machines.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns

from rota.bench.network import Counts, Network, numbered_intent
from rota.bench.sampling import Sampler
from rota.machine.tables import Event, Machine, Row
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, Intent, NodeName, Party
from rota.sequencer.selection import ranking

INTENTS_DEFAULT = 2_000
NODES_DEFAULT = 3
REPEATS_DEFAULT = 3
ALONE_MAX = 300
IN_FLIGHT_MAX = 300
RANKED_MEMBERS = 7
RANKING_REPEATS = 20
KEPT_CALLS = 20_000
NS_PER_US = 1_000
NS_PER_S = 1_000_000_000
ADDRESS = ContractAddress("0x" + "b0" * 20)


@dataclass(frozen=True, slots=True)
class Load:
    """A pattern of submissions: the number of intents, how many are in flight, and their payload."""

    name: str
    meaning: str
    intents: int
    in_flight: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """The cost of one load. Times are of the fastest run; counts are the same in every run."""

    intents: int
    in_flight: int
    confirmed: int
    intents_per_s: float
    core_us_per_intent: float
    driver_us_per_intent: float
    slowest_to_fastest: float
    steps_per_intent: float
    machine_events_per_intent: float
    rows_per_intent: float
    messages_per_intent: float
    bytes_per_intent: float
    rounds: int
    round_size_mean: float
    blocks: int
    samples: int
    parts: dict[str, Part]


@dataclass(frozen=True, slots=True)
class Part:
    """A module's part of the time in the core."""

    share: float
    us_per_intent: float


@dataclass(frozen=True, slots=True)
class SelectionFigures:
    """The cost of a ranking: for new members, for a new range, and when it is cached."""

    members: int
    cold_us: float
    new_range_us: float
    kept_us: float


@dataclass(frozen=True, slots=True)
class CoreFigures:
    """The figures of this benchmark. `growth` is the cost of an intent in a flood relative to a steady load."""

    nodes: int
    repeats: int
    loads: dict[str, LoadFigures]
    growth: float
    selection: SelectionFigures


@dataclass(slots=True)
class Told:
    """The events of machines, and how many of them took a row."""

    events: int = 0
    rows: int = 0


def measure_core(
    intents: int = INTENTS_DEFAULT,
    nodes: int = NODES_DEFAULT,
    repeats: int = REPEATS_DEFAULT,
    progress: Callable[[str], None] = lambda _: None,
) -> CoreFigures:
    """Run everything; `progress` gets the name of each part before it starts."""
    figures: dict[str, LoadFigures] = {}
    for load in loads_of(intents):
        progress(f"{load.name}: {load.intents:,} intents, {load.in_flight:,} in flight")
        figures[load.name] = _measure_load(load, nodes, repeats)
    progress("selection")
    growth = figures["flooded"].core_us_per_intent / figures["loaded"].core_us_per_intent
    return CoreFigures(nodes, repeats, figures, growth, measure_selection())


def loads_of(intents: int) -> tuple[Load, ...]:
    """The loads; `intents` is the size of the larger ones."""
    alone, in_flight = min(intents, ALONE_MAX), min(intents, IN_FLIGHT_MAX)
    return (
        Load("alone", "one at a time, each waits for its receipt", alone, 1, b"mint"),
        Load("loaded", f"up to {in_flight:,} in flight, independent of one another", intents, in_flight, b"mint"),
        Load("flooded", "all submitted at once, independent of one another", intents, intents, b"mint"),
        Load("chained", "all submitted at once, each spends what the last one made", intents, intents, b"spend"),
    )


def measure_selection() -> SelectionFigures:
    """Measure rankings. New names and new ranges stand in for empty caches; no cache is emptied."""
    cold_ns: list[int] = []
    new_range_ns: list[int] = []
    committees = [_names("selection", RANKED_MEMBERS, series) for series in range(RANKING_REPEATS)]
    for committee in committees:
        contract = _contract(committee)
        for block_range, spent_ns in ((0, cold_ns), (1, new_range_ns)):
            started_ns = perf_counter_ns()
            ranking(contract, block_range, committee[0])
            spent_ns.append(perf_counter_ns() - started_ns)
    contract, sender = _contract(committees[0]), committees[0][0]
    started_ns = perf_counter_ns()
    for _ in range(KEPT_CALLS):
        ranking(contract, 0, sender)
    kept_us = (perf_counter_ns() - started_ns) / KEPT_CALLS / NS_PER_US
    return SelectionFigures(RANKED_MEMBERS, min(cold_ns) / NS_PER_US, min(new_range_ns) / NS_PER_US, kept_us)


def _measure_load(load: Load, nodes: int, repeats: int) -> LoadFigures:
    runs = [_run(load, nodes) for _ in range(repeats)]
    best, best_wall_ns = min(runs, key=lambda run: run[0].core_ns)
    slowest_ns = max(counts.core_ns for counts, _ in runs)
    with Sampler() as sampler:
        for _ in range(repeats):
            _run(load, nodes)
    with counting_machine_events() as told:
        counted, _ = _run(load, nodes, counts_bytes=True)
    core_us = best.core_ns / NS_PER_US / load.intents
    sample_count = sampler.samples.total()
    return LoadFigures(
        intents=load.intents,
        in_flight=load.in_flight,
        confirmed=best.confirmed,
        intents_per_s=load.intents * NS_PER_S / best.core_ns,
        core_us_per_intent=core_us,
        driver_us_per_intent=(best_wall_ns - best.core_ns) / NS_PER_US / load.intents,
        slowest_to_fastest=slowest_ns / best.core_ns,
        steps_per_intent=best.steps / load.intents,
        machine_events_per_intent=told.events / load.intents,
        rows_per_intent=told.rows / load.intents,
        messages_per_intent=best.messages / load.intents,
        bytes_per_intent=counted.size_bytes / load.intents,
        rounds=best.rounds,
        round_size_mean=best.dispatched / best.rounds,
        blocks=best.blocks,
        samples=sample_count,
        parts={
            part: Part(count / sample_count, count / sample_count * core_us)
            for part, count in sampler.samples.most_common()
        },
    )


def _run(load: Load, nodes: int, counts_bytes: bool = False) -> tuple[Counts, int]:
    """One run on a fresh network: its counts, and its duration including the driver."""
    network = Network(contract_of(nodes), Config(), counts_bytes)
    intents = intents_of(load, network)
    gc.collect()
    started_ns = perf_counter_ns()
    play(load, network, intents)
    return network.counts, perf_counter_ns() - started_ns


def contract_of(nodes: int) -> Contract:
    """A contract with this many nodes."""
    return _contract(_names("node", nodes))


def intents_of(load: Load, network: Network) -> list[Intent]:
    """The intents of a load; the nodes take turns."""
    names = network.contract.committee
    return [_intent(load, names[number % len(names)], number) for number in range(load.intents)]


def play(load: Load, network: Network, intents: Sequence[Intent]) -> None:
    """Submit the intents, and run until each has its receipt."""
    names, submitted = network.contract.committee, 0
    while len(network.receipts) < load.intents:
        while submitted < load.intents and submitted - len(network.receipts) < load.in_flight:
            network.submit(names[submitted % len(names)], intents[submitted])
            submitted += 1
        network.run_until_receipts(len(network.receipts) + 1)


@contextmanager
def counting_machine_events() -> Iterator[Told]:
    """Count the events of all machines within the context; the core has no code for it."""
    told = Told()
    handle = Machine.handle

    def counted(machine: Machine, event: Event) -> Row | None:
        row = handle(machine, event)
        told.events += 1
        told.rows += row is not None
        return row

    setattr(Machine, "handle", counted)  # noqa: B010 (mypy rejects assigning to a method)
    try:
        yield told
    finally:
        setattr(Machine, "handle", handle)  # noqa: B010


def _names(stem: str, count: int, series: int = 0) -> tuple[NodeName, ...]:
    return tuple(NodeName(f"{stem}{series * count + number + 1}") for number in range(count))


def _contract(names: tuple[NodeName, ...]) -> Contract:
    """A contract in ring mode in which every member must endorse."""
    return Contract(ADDRESS, names, names, threshold=len(names))


def _intent(load: Load, node: NodeName, number: int) -> Intent:
    return numbered_intent(Party(f"alice@{node}"), ADDRESS, load.payload, number)
