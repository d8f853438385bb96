"""Reports facts about running nodes to the judge: their messages, assemblies and answers, and queue lengths."""

from __future__ import annotations

from collections.abc import Iterable

from rota.chain.effects import BlocksIndexed, RoundDispatch
from rota.exchange.distribution import deliveries_of, order_of
from rota.machine.effects import Effect, Persist, ReplyToUser, SendMessage, TransitionPrepared
from rota.machine.events import (
    CancelRequested,
    ConnectionLost,
    ConnectionMade,
    IntentSubmitted,
    MessageReceived,
    ResumeRequested,
)
from rota.machine.tables import Event
from rota.model.types import ContractAddress, NodeName, Transition
from rota.node.events import ForContract
from rota.node.node import Node
from rota.sequencer.effects import AssembleIntents, CheckRound, SignTransition
from rota.sequencer.events import AssemblyFinished, RoundChecked
from rota.sequencer.observer import PEERS_KEPT_MAX
from rota.sim.facts import (
    Answered,
    Approved,
    Asked,
    Assembled,
    ConnectionChanged,
    Cosigned,
    Declined,
    Endorsed,
    HeartbeatSeen,
    HeightReached,
    Measured,
    PassedOver,
    Promised,
    Received,
    Request,
    SteppedAside,
)
from rota.sim.observation import Surroundings, has_plans, queues_of
from rota.sim.recorder import OwningWorld
from rota.sim.sim_node import SimNode
from rota.wire.messages import (
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationCommand,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    Envelope,
    Rejection,
)

# Rejections of an endorser for which the requester is not the reason.
OF_OWN_INDEX = (Rejection.NO_LEDGER, Rejection.MISMATCHED_BLOCK_HEIGHT)
LEAVING = (CoordinatorState.FLUSH, CoordinatorState.CLOSING)
# The queues of a node are measured once in this many of its steps.
STEPS_BETWEEN_MEASUREMENTS = 64

REQUESTS: dict[type[Event], Request] = {
    IntentSubmitted: Request.SUBMIT,
    CancelRequested: Request.CANCEL,
    ResumeRequested: Request.RESUME,
}


class Witness:
    """The reporter of a world; one per world."""

    def __init__(self, world: OwningWorld) -> None:
        self.world = world
        self.requests: dict[str, Request] = {}
        self.coordinator_changes = 0
        self.has_plans = False
        self._active: dict[ContractAddress, NodeName] = {}
        self._successors: dict[tuple[NodeName, ContractAddress], NodeName | None] = {}

    def asks(self, node: SimNode, event: IntentSubmitted | CancelRequested | ResumeRequested) -> None:
        """Report a user's request to a node, if the node runs."""
        self.requests[event.reply_to] = REQUESTS[type(event)]
        if isinstance(event, IntentSubmitted) and event.intent.nonce:
            self.world.names[event.intent.id] = event.intent.nonce.rstrip(b"\x00").decode(errors="replace")
        if node.core is not None:
            self.world.judge.tell(Asked(node.name, event.reply_to, self.world.now_ms))

    def stepped(self, core: Node, node: SimNode, effects: Iterable[Effect]) -> None:
        """Report the lengths of a node's queues, every `STEPS_BETWEEN_MEASUREMENTS` steps."""
        if node.step_count % STEPS_BETWEEN_MEASUREMENTS:
            return
        world, disk = self.world, node.disk
        self.has_plans = self.has_plans or has_plans(core)
        peers_max = PEERS_KEPT_MAX if world.liars else len(world.nodes)
        around = Surroundings(
            len(world.nodes),
            len(world.contracts_of[node.name]),
            disk.owed_count(node.name) + _owed_by(node.name, (*node.outbox, *effects)),
            disk.taken_back_count + _taken_back_by(node, effects),
            world.receipts,
            disk.over,
            peers_max,
            self.has_plans,
        )
        world.judge.tell(Measured(node.name, tuple(queues_of(core, around))))

    def assembled(self, node: SimNode, contract: ContractAddress, transition: Transition) -> None:
        """Report a transition that a domain assembled."""
        self.world.transitions[transition.leaf] = transition
        self.world.judge.tell(Assembled(node.name, contract, transition))

    def computed(self, node: SimNode, effect: Effect, event: Event) -> None:
        """Report an answer of a service: an assembled transition, signatures of a plan's parties, or an approval."""
        answer = event.event if isinstance(event, ForContract) else None
        if isinstance(answer, AssemblyFinished) and isinstance(effect, AssembleIntents):
            if answer.transition is not None:
                self.assembled(node, effect.contract, answer.transition)
        elif isinstance(effect, SignTransition) and effect.cosigners:
            self.world.judge.tell(Cosigned(node.name, effect.contract, effect.leaf, effect.cosigners))
        elif isinstance(answer, RoundChecked) and isinstance(effect, CheckRound) and effect.asks_approval:
            leaves = tuple(made.leaf for made in effect.transitions)
            if answer.signature:
                self.world.judge.tell(Approved(node.name, effect.contract, leaves))

    def beats(self, node: SimNode, envelope: Envelope, body: CoordinatorHeartbeat) -> None:
        """Report a coordinator's heartbeat, once for all its recipients."""
        if node.heartbeats_seen.get(envelope.contract) == body.number:
            return
        node.heartbeats_seen[envelope.contract] = body.number
        if body.state is CoordinatorState.ACTIVE:
            self.coordinator_changes += self._active.get(envelope.contract, node.name) != node.name
            self._active[envelope.contract] = node.name
        seen = HeartbeatSeen(node.name, envelope.contract, body.state, envelope.height, self.world.now_ms)
        self.world.judge.tell(seen)

    def decides(self, node: SimNode, effect: SendMessage) -> None:
        """Report a message when it is decided: the node's input may have changed when the message is sent."""
        envelope = effect.envelope
        body = envelope.body
        if isinstance(body, CoordinatorHeartbeat):
            self._leaves(node, envelope.contract, body)
        elif isinstance(body, DelegationCommand | EndorsementRequest):
            if body.tried:
                self.world.judge.tell(PassedOver(node.name, envelope.contract, body.tried))
        elif isinstance(body, EndorsementResponse) and body.signature:
            local_ms = node.clock.read(self.world.now_ms)
            fact = Endorsed(node.name, envelope.contract, effect.peer, body.request_id, body.digest, local_ms)
            self.world.judge.tell(fact)
        elif isinstance(body, EndorsementError) and body.rejection in OF_OWN_INDEX:
            self.world.judge.tell(Declined(node.name, envelope.contract, effect.peer))

    def indexes(self, node: SimNode, write: Persist) -> None:
        """Report the new height of a node's index, on which the node acts from now on."""
        for record in write.records:
            if isinstance(record, BlocksIndexed):
                self.world.judge.tell(HeightReached(node.name, record.height))

    def _leaves(self, node: SimNode, contract: ContractAddress, heartbeat: CoordinatorHeartbeat) -> None:
        """Report the first heartbeat in which a coordinator names this successor."""
        successor = heartbeat.successor if heartbeat.state in LEAVING else None
        if successor != self._successors.get((node.name, contract)):
            self._successors[node.name, contract] = successor
            if successor is not None:
                self.world.judge.tell(SteppedAside(node.name, contract, successor))

    def hears(self, node: SimNode, event: Event) -> None:
        """Report a message or a change of connection that a node receives."""
        if isinstance(event, MessageReceived):
            if event.peer != node.name:
                local_ms = node.clock.read(self.world.now_ms)
                self.world.judge.tell(Received(node.name, event.peer, event.envelope, local_ms))
        elif isinstance(event, ConnectionLost | ConnectionMade):
            is_up = isinstance(event, ConnectionMade)
            local_ms = node.clock.read(self.world.now_ms)
            self.world.judge.tell(ConnectionChanged(node.name, event.peer, is_up, local_ms))

    def replies(self, node: SimNode, reply: ReplyToUser) -> None:
        """Report an answer to a user."""
        world = self.world
        world.judge.tell(Answered(node.name, reply.reply_to, world.now_ms))
        if not reply.error:
            world.judge.tell(Promised(node.name, self.requests[reply.reply_to], reply.intent))


def _taken_back_by(node: SimNode, effects: Iterable[Effect]) -> int:
    """The number of blocks that pending writes remove."""
    writes = [each for each in (*node.outbox, *effects) if isinstance(each, Persist)][node.durable_count :]
    height, taken_back = node.disk.height, 0
    for record in (record for write in writes for record in write.records if isinstance(record, BlocksIndexed)):
        taken_back += max(0, height - record.parted_at)
        height = record.height
    return taken_back


def _owed_by(node: NodeName, effects: Iterable[Effect]) -> int:
    """The number of deliveries that follow from pending writes."""
    records = ((each.contract, record) for each in effects if isinstance(each, Persist) for record in each.records)
    orders = (
        record.round if isinstance(record, RoundDispatch) else order_of(contract, record)
        for contract, record in records
        if isinstance(record, RoundDispatch | TransitionPrepared)
    )
    return sum(len(deliveries_of(order, node)) for order in orders)
