"""The parts of a node that its components use (`node.py`): facts to read, and ways to act."""

from __future__ import annotations

from typing import Protocol

from rota.chain.index import ChainIndex
from rota.chain.submitters import Submitters
from rota.directory.deployments import Deployments
from rota.exchange.distribution import Distribution
from rota.machine.context import Ids
from rota.machine.effects import Effect, Record
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.consistency import Consistent
from rota.model.types import ContractAddress, NodeName
from rota.node.intake import Intake
from rota.node.paging import Sequencers
from rota.wire.messages import Message


class Owner(Protocol):
    """The node that a part belongs to."""

    name: NodeName
    config: Config
    incarnation: int
    ids: Ids
    now_ms: int
    height: int
    chain_time_s: int
    has_ledger: bool
    index: ChainIndex
    sequencers: Sequencers
    deployments: Deployments
    intake: Intake
    submitters: Submitters
    distribution: Distribution
    effects: list[Effect]

    def tell(self, contract: ContractAddress, event: Event) -> None:
        """Give an event to the sequencer of a contract."""
        ...

    def perform(self, contract: ContractAddress, effects: list[Effect]) -> None:
        """Carry out a contract's effects that the node handles, and pass on the others."""
        ...

    def load(self, contract: ContractAddress) -> None:
        """Bring a contract into memory if there is room."""
        ...

    def persist(self, contract: ContractAddress, *records: Record) -> None:
        """Have records of a contract written."""
        ...

    def persist_own(self, *records: Record) -> None:
        """Have records of the node itself written."""
        ...

    def send(self, peer: NodeName, contract: ContractAddress, body: Message) -> None:
        """Send a message to a peer; one to the node itself needs no transport."""
        ...

    def show(self, peer: NodeName, contract: ContractAddress, transitions: tuple[Consistent, ...]) -> None:
        """Compare transitions that a peer sent with unknown leaves under own intents' ids."""
        ...

    def deliver_states(self) -> None:
        """Send the private states that are due."""
        ...
