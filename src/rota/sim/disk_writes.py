"""Writes of simulated nodes to their disks: one transaction at a time, retried until it succeeds.

The times are those of the engine and the store of a real node.
"""

from __future__ import annotations

from functools import partial

from rota.chain.effects import BlocksIndexed, RoundDispatch
from rota.machine.effects import Persist
from rota.sequencer.effects import PermissionGranted
from rota.sim.disk import Fate
from rota.sim.facts import Hung, Recorded
from rota.sim.recorder import OwningWorld
from rota.sim.sim_node import SimNode

STALL_MS = 1_000
RETRY_MS = 250


class DiskWrites:
    """The writes of all nodes of a world."""

    def __init__(self, world: OwningWorld) -> None:
        self.world = world

    def begin(self, node: SimNode) -> None:
        """Begin a transaction of all pending writes."""
        node.writing_count, node.ordered_count = node.ordered_count, 0
        node.writing_since_ms = self.world.now_ms
        self.world.at(
            self.world.now_ms + self.world.disk_ms + (node.disk_delay_ms or 0), partial(self._write, node, node.life)
        )

    def _write(self, node: SimNode, life: int) -> None:
        """Try to commit; if the disk fails, or commits without an answer, try again later."""
        if node.life != life:
            return
        fate = node.disk.fate
        takes_writes = fate is not Fate.FAILS and node.disk_delay_ms is not None
        if takes_writes and not node.is_committed and not self._commit(node):
            return
        if not node.is_committed or fate is not Fate.WORKS or node.disk_delay_ms is None:
            self._wait_for_disk(node)
            return
        node.durable_count += node.writing_count
        node.writing_count, node.is_committed = 0, False
        if node.is_stalled:
            node.is_stalled = False
            self.world.go_on(node)
        else:
            self.world.flush(node)
        self.world.schedule_tick(node)

    def _commit(self, node: SimNode) -> bool:
        """Store the pending writes; False if the node dies meanwhile, perhaps with a prefix of them stored."""
        writes = [each for each in node.outbox if isinstance(each, Persist)]
        for write in writes[node.durable_count : node.durable_count + node.writing_count]:
            if self.world.dies_now(node):
                return False
            self.world.recorder.wrote(self.world, node, write)
            self._store(node, write)
        node.is_committed = True
        return True

    def _wait_for_disk(self, node: SimNode) -> None:
        """Schedule a retry; after `STALL_MS` the node takes no step."""
        if self.world.now_ms - node.writing_since_ms >= STALL_MS and not node.is_stalled:
            node.is_stalled = True
            self.world.judge.tell(Hung(node.name))
        self.world.at(self.world.now_ms + RETRY_MS, partial(self._write, node, node.life))

    def _store(self, node: SimNode, write: Persist) -> None:
        node.disk.write(write.contract, write.records)
        node.untold.append(write)
        for record in write.records:
            if isinstance(record, PermissionGranted):
                self.world.permissions.append(record)
            elif isinstance(record, RoundDispatch):
                self.world.dispatches.append(record)
                for transition in record.round.transitions:
                    self.world.learn(record.round.contract, transition)
            elif isinstance(record, BlocksIndexed):
                node.disk.follow(record, self.world.transitions)

    def tell_recorded(self, node: SimNode, write: Persist) -> None:
        """Report a stored write to the judge, in the order in which the node issued writes and messages."""
        told = node.untold.popleft()
        assert told is write, "writes are stored in order"
        for record in write.records:
            self.world.judge.tell(Recorded(node.name, write.contract, record))
