"""A deployment of this node's own, in every state. Its rules are in `deployment.py` and `deployment_rules.py`."""

from __future__ import annotations

from enum import Enum

from rota.directory.deployment_events import DependencyEnded
from rota.directory.deployment_states import State
from rota.machine.context import StepContext
from rota.machine.tables import Machine
from rota.model.blocks import FactoryDeployment
from rota.model.genesis import Genesis, decode_genesis, genesis_hash
from rota.model.types import ContractAddress, Dependency, Intent, Mode, NodeName, Outcome, Receipt, RequestId


class DeploymentBase(Machine):
    """The known facts about one deployment of this node's own; its owner updates `connected`."""

    state: State

    def __init__(
        self,
        context: StepContext,
        intent: Intent,
        factory: ContractAddress,
        connected: dict[NodeName, None],
        signers: tuple[ContractAddress, ...] = (),
    ) -> None:
        super().__init__()
        self.context = context
        self.intent = intent
        self.genesis = decode_genesis(intent.payload)
        self.genesis_hash = genesis_hash(intent.payload)
        self.factory = factory
        self.connected = connected
        self.unmet: dict[Dependency, None] = dict.fromkeys(intent.dependencies)
        self.failed_dependency: DependencyEnded | None = None
        # The nodes that must have it, our own among them, and those that may.
        self.nodes: tuple[NodeName, ...] = tuple(dict.fromkeys((context.node, *self.genesis.nodes)))
        self.guests: dict[NodeName, None] = {}
        self.request_id = RequestId(0, 0)
        self.answered: dict[NodeName, None] = {}
        self.endorsers: dict[NodeName, ContractAddress] = {}
        self.excuses: dict[NodeName, str] = {}
        # Nodes whose operators have to answer: since when in chain time, and when the node reported it.
        self.operators: dict[NodeName, tuple[int, int]] = {}
        self.attempt = 0
        self.reminded_ms = context.now_ms
        self.signers = signers
        # The others may have reported that they have it to an earlier run, and report it once.
        self.has_missed_takers = bool(signers)
        self.trouble = ""
        self.seen: FactoryDeployment | None = None
        self.takers: dict[NodeName, None] = {}
        self.receipt: Receipt | None = None
        self.is_gone = False
        self.since_ms = context.now_ms
        self.history: list[tuple[int, Enum]] = [(context.now_ms, State.WAITING)]

    @property
    def is_open_to_all(self) -> bool:
        """Whether any registered node may act in it (protocol §5), so that all connected nodes should have it."""
        return self.genesis.mode is not Mode.RING

    @property
    def asked(self) -> tuple[NodeName, ...]:
        """All nodes that are to have it."""
        return (*self.nodes, *self.guests)

    @property
    def missing(self) -> tuple[NodeName, ...]:
        """The nodes that have not answered."""
        return tuple(node for node in self.asked if node not in self.answered)

    @property
    def without_it(self) -> tuple[NodeName, ...]:
        """The reachable nodes that have not reported that they have the contract."""
        if self.has_missed_takers:
            return ()
        return tuple(node for node in self.asked if node in self.connected and node not in self.takers)

    def is_own(self, deployed: FactoryDeployment) -> bool:
        """Whether it is as agreed, whichever account called the factory."""
        return bool(self.signers) and is_as_agreed(deployed, self.genesis_hash, self.signers, self.genesis)

    def end_with(self, outcome: Outcome, reason: str = "") -> None:
        """Set the outcome."""
        contract = self.seen.contract if self.seen is not None and outcome is Outcome.CONFIRMED else None
        self.receipt = Receipt(self.intent.id, outcome, reason, contract=contract)


def is_as_agreed(
    deployed: FactoryDeployment, hashed: bytes, signers: tuple[ContractAddress, ...], genesis: Genesis
) -> bool:
    """Whether the factory deployed the proposed contract: genesis hash, signers, threshold and ledger are equal."""
    told = (deployed.genesis, deployed.endorsers, deployed.threshold, deployed.ledger)
    return told == (hashed, signers, genesis.told_threshold, genesis.ledger)
