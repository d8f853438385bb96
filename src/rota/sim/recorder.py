"""The interface of a world for its parts (`world.py`), and that of recorders: transcript and fingerprint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rota.chain.effects import RoundDispatch
from rota.machine.effects import Effect, Persist, ReplyToUser
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, IntentId, Leaf, NodeName, Receipt, Transition
from rota.sequencer.effects import PermissionGranted, ReportPrepared
from rota.sim.invariants.judge import Judge
from rota.sim.ledger import Ledger
from rota.sim.sim_node import SimNode
from rota.sim.weather import Weather
from rota.wire.messages import Envelope


class HearingLiars(Protocol):
    """The liars of a world, as its wires know them."""

    def hears(self, source: NodeName, name: NodeName, envelope: Envelope) -> bool:
        """Whether a message reaches the core of a node."""
        ...


class OwningWorld(Protocol):
    """The world that a part belongs to."""

    now_ms: int
    names: dict[IntentId, str]
    config: Config
    latency_ms: int
    disk_ms: int
    contracts: tuple[Contract, ...]
    contracts_of: dict[NodeName, tuple[Contract, ...]]
    by_address: dict[ContractAddress, Contract]
    nodes: dict[NodeName, SimNode]
    liars: frozenset[NodeName]
    ledger: Ledger
    judge: Judge
    recorder: Recorder
    receipts: dict[IntentId, list[Receipt]]
    permissions: list[PermissionGranted]
    dispatches: list[RoundDispatch]
    transitions: dict[Leaf, Transition]
    prepared: dict[IntentId, ReportPrepared]

    @property
    def weather(self) -> Weather:
        """How long messages and transactions take, and which are lost."""
        ...

    @property
    def conspiracy(self) -> HearingLiars | None:
        """All liars together."""
        ...

    def at(self, due_ms: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        ...

    def tell(self, node: SimNode, event: Event) -> None:
        """Tell a node that runs."""
        ...

    def go_on(self, node: SimNode) -> None:
        """A node that did nothing for a while performs its orders."""
        ...

    def flush(self, node: SimNode) -> None:
        """Perform the effects that wait for no write."""
        ...

    def dies_now(self, node: SimNode) -> bool:
        """It was to live for so many effects more, and this is the last."""
        ...

    def schedule_tick(self, node: SimNode) -> None:
        """Let a node step at its next deadline."""
        ...

    def add_contract(self, contract: Contract) -> None:
        """A contract that is to be deployed."""
        ...

    def take_in(self, node: SimNode, contract: Contract) -> None:
        """From now on a node has this contract."""
        ...

    def learn(self, contract: ContractAddress, transition: Transition) -> None:
        """What a leaf does."""
        ...

    def show(self, intent: IntentId) -> str:
        """An intent's name."""
        ...


class Recorder:
    """Receives everything that happens in a world; each method ignores it unless overridden."""

    def sent(self, world: OwningWorld, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """A node sent a message; its fate is `delivered`, `lost`, `held`, `twice`, or the kind of its forgery."""

    def stepped(self, world: OwningWorld, node: SimNode) -> None:
        """A node's core took a step."""

    def performed(self, world: OwningWorld, node: SimNode, effect: Effect) -> None:
        """An effect of a node is executed, unless it is a write."""

    def wrote(self, world: OwningWorld, node: SimNode, write: Persist) -> None:
        """A node's disk has completed or failed a write, by `node.disk.fate`."""

    def mined(self, world: OwningWorld, block: ChainBlock) -> None:
        """The chain has a new block."""

    def removed(self, world: OwningWorld, blocks: tuple[ChainBlock, ...]) -> None:
        """The chain removed these blocks."""

    def started(self, world: OwningWorld, node: SimNode) -> None:
        """A run of a node began."""

    def stopped(self, world: OwningWorld, node: SimNode) -> None:
        """A run of a node ended."""

    def noted(self, world: OwningWorld, text: str) -> None:
        """Something happened that readers of a transcript should see, in words."""


def shown_reply(reply: ReplyToUser) -> str:
    """A reply of the core to a user, with the field that its error refers to."""
    named = f"{reply.field}: {reply.error}" if reply.field else reply.error
    return f"refused: {named}" if reply.error else "accepted"
