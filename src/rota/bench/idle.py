"""The cost of idle contracts for a node: memory, and work per tick, block and connection.

A child process builds the node, so that its memory is its own; its memory before the contracts is subtracted.
"""

from __future__ import annotations

import gc
import multiprocessing
import tracemalloc
from dataclasses import dataclass
from time import perf_counter_ns

from rota.chain.events import BlocksFetched, HeadSeen
from rota.machine.events import ConnectionLost, ConnectionMade, Tick
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock
from rota.model.config import Config
from rota.model.types import BlockHash, Contract, ContractAddress, NodeName
from rota.node.node import Node
from rota.node.stored import StoredNode
from rota.sim.ledger import GENESIS

CONTRACTS_DEFAULT = 10_000
MEMBERS = tuple(NodeName(f"node{number}") for number in range(1, 6))
TIMES = 200
BYTES_PER_MIB = 1_048_576
NS_PER_US = 1_000


@dataclass(frozen=True, slots=True)
class IdleFigures:
    """The cost for one node with this many contracts, all of them idle."""

    contracts: int
    mib: float
    tick_us: float
    block_us: float
    connection_us: float


def measure_idle(contracts: int = CONTRACTS_DEFAULT) -> IdleFigures:
    """Measure in a child process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measure, (contracts,))


def _measure(count: int) -> IdleFigures:
    contracts = tuple(
        Contract(ContractAddress(f"0x{number:040x}"), MEMBERS, MEMBERS, len(MEMBERS)) for number in range(count)
    )
    gc.collect()
    tracemalloc.start()
    node = Node(MEMBERS[0], contracts, Config(), 0, StoredNode(blocks=(GENESIS,)))
    node.start()
    node.step(0, HeadSeen(GENESIS.height, GENESIS.hash))
    gc.collect()
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    head = GENESIS
    block_ns = 0
    for number in range(1, TIMES + 1):
        block = ChainBlock(number, BlockHash(number.to_bytes(32, "big")), head.hash, head.time_s + 1)
        block_ns += _time(node, number, HeadSeen(number, block.hash))
        block_ns += _time(node, number, BlocksFetched((head, block)))
        head = block
    ticks_ns = sum(_time(node, TIMES + number, Tick()) for number in range(TIMES))
    both = (ConnectionLost(MEMBERS[1]), ConnectionMade(MEMBERS[1]))
    connection_ns = sum(_time(node, 2 * TIMES, event) for _ in range(TIMES) for event in both)
    return IdleFigures(
        count,
        size_bytes / BYTES_PER_MIB,
        ticks_ns / TIMES / NS_PER_US,
        block_ns / TIMES / NS_PER_US,
        connection_ns / TIMES / 2 / NS_PER_US,
    )


def _time(node: Node, now_ms: int, event: Event) -> int:
    started_ns = perf_counter_ns()
    node.step(now_ms, event)
    return perf_counter_ns() - started_ns
