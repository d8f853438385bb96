"""Dependencies of this node's intents, and their outcomes (`dependsOn`); one per node.

Theory of operation. An id names a transaction of this node, private or public, in any contract; a leaf names a
private transaction of any node (`model/awaited.py`). Only open dependencies are noted. A dependency may
end while the contract of the intent is loaded: the node looks for that when the intent is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rota.machine.events import Tick
from rota.model.awaited import REVERTED, AwaitedLeaves, Ended
from rota.model.blocks import ChainBlock
from rota.model.types import NO_CONTRACT, AwaitedLeaf, ContractAddress, Dependency, Intent, IntentId, Outcome
from rota.node.events import IntentsLookedUp
from rota.node.owner import Owner


class Dependencies:
    """The dependencies of one node's intents, with the contracts of the dependents."""

    def __init__(self, node: Owner) -> None:
        self.node = node
        self.dependents: dict[Dependency, dict[ContractAddress, None]] = {}
        self.awaited = AwaitedLeaves()
        self._asked: dict[int, tuple[AwaitedLeaf, ...]] = {}

    def note(self, contract: ContractAddress, intent: IntentId, others: Iterable[Dependency]) -> None:
        """Note the open dependencies of an intent; an entry is removed when its dependency ends."""
        leaves: list[AwaitedLeaf] = []
        for other in others:
            self.dependents.setdefault(other, {})[contract] = None
            if isinstance(other, AwaitedLeaf):
                leaves.append(other)
        if leaves:
            self.awaited.note(intent, tuple(leaves))

    def note_accepted(self, intent: Intent) -> None:
        """Note the open dependencies of a new intent."""
        others = self._open_of(intent)
        self.note(intent.contract, intent.id, others)
        for other in others:
            if not isinstance(other, AwaitedLeaf) and other in self.node.intake.outcomes:
                self._tell(other, self.node.intake.outcomes[other])

    def note_outcome(self, intent: IntentId, outcome: Outcome) -> None:
        """A transaction of this node has ended: its dependents, in any contract, continue or end."""
        self.node.intake.note_outcome(intent, outcome)
        for leaf in self.awaited.dependent_ended(intent):
            self.dependents.pop(leaf, None)
        self._tell(intent, outcome)

    def block_final(self, block: ChainBlock) -> None:
        """Handle leaves that have ended by a block at final depth."""
        self._end(self.awaited.block_final(block.time_s, block.outcomes))

    def ask_for_leaves(self) -> None:
        """Ask the store about the blocks that were final before a leaf was noted."""
        question = self.node.intake.ask(())
        leaves = self._asked[question.token] = self.awaited.ask(question.token)
        self.node.effects.append(replace(question, leaves=leaves))

    def take_looked_up(self, event: IntentsLookedUp) -> bool:
        """Take the store's answer about leaves; return False for any other answer."""
        asked = self._asked.pop(event.token, None)
        if asked is not None:
            self._end(self.awaited.answered(event.token, asked, event.leaves))
        return asked is not None

    def _end(self, ended: list[Ended]) -> None:
        for leaf, outcome, reason in ended:
            self._tell(leaf, outcome, reason)

    def _tell(self, dependency: Dependency, outcome: Outcome, reason: str = REVERTED) -> None:
        node = self.node
        for contract in self.dependents.pop(dependency, {}):
            if contract == NO_CONTRACT:
                node.perform(NO_CONTRACT, node.deployments.dependency_ended(dependency, outcome, reason))
            sequencer = node.sequencers.loaded.get(contract)
            if sequencer is not None:
                sequencer.sender.dependency_ended(dependency, outcome, reason)
                node.tell(contract, Tick())

    def _open_of(self, intent: Intent) -> tuple[Dependency, ...]:
        if intent.contract == NO_CONTRACT:
            deployment = self.node.deployments.own.get(intent.id)
            return tuple(deployment.unmet) if deployment is not None else ()
        transaction = self.node.sequencers.loaded[intent.contract].sender.transactions.get(intent.id)
        return transaction.open_dependencies if transaction is not None else ()
