"""How long a contract is unavailable when its coordinator is killed, hangs or is cut off, in simulated time.

Five nodes, three of whose endorsements are needed, 100 ms round trips, default timers, and a chain that mines at once.
Users of the other nodes submit an intent every 50 ms; measured is the time from the fault to the first confirmation of
an intent submitted after it. Each run has its fault at another moment between two heartbeats.
"""

from __future__ import annotations

from itertools import count

from rota.bench.failover import Fault, FaultFigures, figures_of
from rota.bench.network import numbered_intent
from rota.machine.events import IntentSubmitted
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, IntentId, NodeName, Outcome, Party
from rota.sim.world import World
from rota.wire.messages import CoordinatorState

NODES = tuple(NodeName(name) for name in "ABCDE")
THRESHOLD = 3
LATENCY_MS = 50
BLOCK_MS = 1
ASKING_MS = 50
WARM_UP_MS = 3_000
FAULT_STEP_MS = 37
PATIENCE_MS = 60_000
RUNS_DEFAULT = 40
ADDRESS = ContractAddress("0x" + "fa" * 20)


def measure_failover(runs: int = RUNS_DEFAULT, faults: tuple[Fault, ...] = tuple(Fault)) -> dict[str, FaultFigures]:
    """Measure each fault, at `runs` different moments."""
    return {fault.value: figures_of([stand_still_ms(fault, run) for run in range(runs)]) for fault in faults}


def stand_still_ms(fault: Fault, run: int) -> int:
    """The time from the fault to the first confirmation of an intent submitted after it."""
    contract = Contract(ADDRESS, NODES, NODES, THRESHOLD)
    world = World(NODES, (contract,), Config(), latency_ms=LATENCY_MS, block_ms=BLOCK_MS)
    for node in NODES:
        world.start(node)
    asked: dict[IntentId, int] = {}
    numbers = count()
    hit: list[NodeName] = []

    def ask() -> None:
        node = NODES[next(numbers) % len(NODES)]
        if node not in hit:
            request = numbered_intent(Party(f"a@{node}"), ADDRESS, b"mint", len(asked))
            asked[request.id] = world.now_ms
            world.submit(node, ADDRESS, IntentSubmitted(str(len(asked)), request))
        world.at(world.now_ms + ASKING_MS, ask)

    ask()
    fault_ms = WARM_UP_MS + run * FAULT_STEP_MS
    world.run_until(fault_ms)
    hit.append(_active_in(world))
    _hurt(world, fault, hit[0])

    def is_over() -> bool:
        return any(
            asked[intent] >= fault_ms and receipts[0].outcome is Outcome.CONFIRMED
            for intent, receipts in world.receipts.items()
        )

    assert world.run_until(fault_ms + PATIENCE_MS, is_over), f"{fault.value}: nothing was confirmed again"
    return world.now_ms - fault_ms


def _active_in(world: World) -> NodeName:
    for node in world.nodes.values():
        sequencer = node.core.sequencers.loaded[ADDRESS] if node.core is not None else None
        if sequencer is not None and sequencer.coordinator.state is CoordinatorState.ACTIVE:
            return node.name
    raise AssertionError("nobody coordinates")


def _hurt(world: World, fault: Fault, node: NodeName) -> None:
    match fault:
        case Fault.KILL:
            world.crash(node)
        case Fault.HANG:
            world.hang(node, is_hung=True)
        case Fault.CUT:
            for other in NODES:
                if other != node:
                    world.wires.cut_way(node, other)
                    world.wires.cut_way(other, node)
