"""Five nodes far apart: the gain of slots and rounds when every message takes a while (protocol §7).

The network is simulated and runs the real core: 50 ms from node to node, a block every 200 ms, one contract
whose every member endorses, and a thousand intents of each node, all submitted at once. The second run is the same with
slots and rounds of one, like a sequencer without them. Figures are counts and simulated time, so they are the same on
every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rota.bench.network import numbered_intent
from rota.machine.events import IntentSubmitted
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, NodeName, Party
from rota.sim.recorder import OwningWorld
from rota.sim.world import Recorder, World
from rota.wire.codec import encode_frame
from rota.wire.messages import Envelope

NODES = tuple(NodeName(name) for name in "ABCDE")
LATENCY_MS = 50
INTENTS_EACH_DEFAULT = 1_000
PATIENCE_MS = 3_600_000
ADDRESS = ContractAddress("0x" + "a7" * 20)


@dataclass(frozen=True, slots=True)
class WanFigures:
    """The figures of both runs; the ratio is the gain of slots and rounds."""

    tx_per_s: float
    one_at_a_time_tx_per_s: float
    ratio: float
    messages_per_tx: float
    bytes_per_tx: float
    signatures_per_tx: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its simulated time, and its counts."""

    intents: int
    took_ms: int
    messages: int
    size_bytes: int
    signatures: int

    @property
    def tx_per_s(self) -> float:
        """Confirmed intents per simulated second."""
        return self.intents * 1_000 / self.took_ms


class Meter(Recorder):
    """Counts the messages on the wire, and their encoded bytes."""

    def __init__(self) -> None:
        self.messages = 0
        self.size_bytes = 0

    def sent(self, world: OwningWorld, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        self.messages += 1
        self.size_bytes += len(encode_frame((envelope,)))


def measure_wan(intents_each: int = INTENTS_EACH_DEFAULT) -> WanFigures:
    """Measure both runs, and their ratio."""
    usual = run_wan(intents_each, Config())
    single = run_wan(intents_each, replace(Config(), assembly_slot_max=1, round_max=1))
    return WanFigures(
        tx_per_s=usual.tx_per_s,
        one_at_a_time_tx_per_s=single.tx_per_s,
        ratio=usual.tx_per_s / single.tx_per_s,
        messages_per_tx=usual.messages / usual.intents,
        bytes_per_tx=usual.size_bytes / usual.intents,
        signatures_per_tx=usual.signatures / usual.intents,
    )


def run_wan(intents_each: int, config: Config) -> Run:
    """Submit all intents at once, and run until every one is confirmed."""
    meter = Meter()
    contract = Contract(ADDRESS, NODES, NODES, len(NODES))
    world = World(NODES, (contract,), config, meter, latency_ms=LATENCY_MS)
    for node in NODES:
        world.start(node)
    count = intents_each * len(NODES)
    for number in range(intents_each):
        for node in NODES:
            intent = numbered_intent(Party(f"a@{node}"), ADDRESS, b"mint", number)
            world.submit(node, ADDRESS, IntentSubmitted(f"{node}{number}", intent))
    is_done = world.run_until(PATIENCE_MS, lambda: len(world.receipts) == count)
    assert is_done, f"{len(world.receipts)} of {count} intents ended"
    return Run(count, world.now_ms, meter.messages, meter.size_bytes, world.signature_count)
