"""Contracts that come to this node: its users' deployments, and others' proposals; one per node.

Theory of operation. A contract that is not on the chain has no address and so no sequencer: messages about it travel
in envelopes of `NO_CONTRACT`, and come here. Each deployment of our own users is a machine (`deployment.py`), kept
until its outcome is durable; others' proposals are in `proposals.py`. Both wait for the chain under ids that
the node's index asks for. A block that has a contract for this node has it taken in with the same write, so that the
index never passes a round of a contract that it should have known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rota.directory.acquaintance_events import AcquisitionEnded
from rota.directory.consent import OPEN, Consent
from rota.directory.deployment import Deployment, known_from
from rota.directory.deployment_events import (
    AnswerReceived,
    Begun,
    CancelAsked,
    DependencyEnded,
    DeploymentFinal,
    DeploymentSeen,
    DeploymentUndone,
    FactoryCalled,
    FactoryRefused,
    PeerBack,
    PeerGone,
    ProposalDecided,
    ProposalJudged,
    TakenInReceived,
)
from rota.directory.deployment_states import StoredDeployments
from rota.directory.lookups import Lookups
from rota.directory.proposals import Proposals
from rota.machine.context import Ids, StepContext
from rota.machine.effects import Effect, IntentAccepted, ReplyToUser
from rota.machine.events import (
    CancelRequested,
    ConnectionLost,
    ConnectionMade,
    IntentSubmitted,
    MessageReceived,
    ResumeRequested,
    Tick,
    VerifierLookedUp,
    VerifierWanted,
)
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, FactoryDeployment
from rota.model.config import Config
from rota.model.types import (
    NO_CONTRACT,
    Contract,
    ContractAddress,
    Dependency,
    Intent,
    IntentId,
    KnownContract,
    NodeName,
    Outcome,
)
from rota.wire.messages import (
    ContractTakenIn,
    DeploymentAnswer,
    DeploymentProposal,
    DeploymentWithdrawn,
    Message,
    VerifierRequest,
    VerifierResponse,
)

# Beyond that number they are not looked for on the chain: an operator sees their receipts marked.
UNDONE_MAX = 256


class Deployments:
    """`step(now, event) -> effects` for contracts that are not on the chain yet. `factory` deploys contracts."""

    def __init__(
        self,
        node: NodeName,
        ids: Ids,
        config: Config,
        now_ms: int,
        standing: tuple[int, int],
        own: tuple[Intent, ...],
        outcomes: Mapping[IntentId, Outcome],
        stored: StoredDeployments,
        factory: ContractAddress = NO_CONTRACT,
        consent: Consent = OPEN,
    ) -> None:
        self.context = StepContext(node, ids, Contract(NO_CONTRACT, (node,), (), 0), config, now_ms, *standing)
        self.timers = self.context.timers
        self.factory = factory
        self.connected: dict[NodeName, None] = {}
        self.proposals = Proposals(self.context, stored.proposals, consent)
        self.lookups = Lookups(self.context)
        self.own: dict[IntentId, Deployment] = {}
        # Deployments lost with a final block after they had ended: the chain may have them again.
        self.undone: dict[IntentId, None] = {}
        agreed = dict(stored.agreed)
        for intent in own:
            self._add(intent, agreed.get(intent.id, ()), outcomes)
        self._deployed = stored.deployed
        for deployment in stored.undone:
            self.note_undone(deployment)

    def start(self) -> list[Effect]:
        """Continue the deployments of the last run, with the ones in final blocks first reported to them."""
        for deployment in tuple(self.own.values()):
            deployment.handle(Begun())
        self._tell_each(self._deployed, DeploymentFinal)
        self._deployed = ()
        return self._settled()

    def step(self, now_ms: int, event: Event) -> list[Effect]:
        """Handle one event at this time and return the effects."""
        self.context.now_ms = now_ms
        self._take(event)
        return self._settled()

    def stand_at(self, now_ms: int, height: int, chain_time_s: int, has_ledger: bool) -> None:
        """Set the time, and the height and ledger status of the node's index."""
        context = self.context
        context.now_ms, context.height, context.chain_time_s = now_ms, height, chain_time_s
        context.has_ledger = has_ledger

    def may_acquire(self, deployment: IntentId, genesis: bytes) -> bool:
        """Whether we may have a contract that the chain has: our own user's, or one that our operator agrees to."""
        own = self.own.get(deployment)
        is_own = own is not None and own.intent.payload == genesis
        return is_own or self.proposals.may_acquire(deployment, genesis)

    # The chain.

    def awaited(self) -> tuple[IntentId, ...]:
        """Return the ids under which the chain may have a contract for us."""
        return tuple(dict.fromkeys((*self.own, *self.proposals.awaited(), *self.undone)))

    def note_undone(self, deployment: IntentId) -> None:
        """Note a deployment whose receipt no longer holds, or will not when it is written."""
        self.undone[deployment] = None
        if len(self.undone) > UNDONE_MAX:
            del self.undone[next(iter(self.undone))]

    def known_in(self, blocks: Iterable[ChainBlock]) -> tuple[KnownContract, ...]:
        """Return the contracts for us in these blocks; they are taken in with the write that indexes them."""
        found = (self._known(deployed, block.height) for block in blocks for deployed in block.deployments)
        return tuple(known for known in found if known is not None)

    def taken_in(self, taken: Iterable[KnownContract]) -> list[Effect]:
        """Note that these are recorded, with the blocks that have them."""
        for known in taken:
            self.proposals.taken_in(known)
        return self._settled()

    def block_indexed(self, block: ChainBlock) -> list[Effect]:
        """Handle deployments in an indexed block."""
        self._tell_each(block.deployments, DeploymentSeen)
        return self._settled()

    def blocks_removed(self, blocks: Iterable[ChainBlock]) -> list[Effect]:
        """Handle a reorganisation. A contract stays known: its address can be no other's."""
        for block in blocks:
            self._tell_each(block.deployments, DeploymentUndone)
        return self._settled()

    def block_final(self, block: ChainBlock) -> list[Effect]:
        """Handle a final block: its deployments are not undone any more."""
        self._tell_each(block.deployments, DeploymentFinal)
        self.proposals.time_is_final(block.time_s)
        return self._settled()

    def dependency_ended(self, dependency: Dependency, outcome: Outcome, reason: str) -> list[Effect]:
        """Report to the deployments that depend on this transaction, of any contract, how it ended."""
        for deployment in tuple(self.own.values()):
            if dependency in deployment.unmet:
                deployment.handle(DependencyEnded(dependency, outcome, reason))
        return self._settled()

    def _known(self, deployed: FactoryDeployment, height: int) -> KnownContract | None:
        own = self.own.get(deployed.intent)
        if own is not None and own.is_own(deployed):
            return known_from(deployed, own.intent.payload, height)
        return self.proposals.known_in(deployed, height)

    def _tell_each(
        self,
        deployments: Iterable[FactoryDeployment],
        kind: type[DeploymentSeen] | type[DeploymentUndone] | type[DeploymentFinal],
    ) -> None:
        for deployed in deployments:
            own = self.own.get(deployed.intent)
            if own is not None:
                own.handle(kind(deployed))

    # Routing.

    def _take(self, event: Event) -> None:
        match event:
            case Tick():
                self._run_timers()
            case MessageReceived(peer, envelope):
                self._take_message(peer, envelope.body)
            case ConnectionMade(peer):
                self.connected[peer] = None
                self._tell_all(PeerBack(peer))
            case ConnectionLost(peer):
                self.connected.pop(peer, None)
                self._tell_all(PeerGone(peer))
            case IntentSubmitted():
                self._accept(event)
            case CancelRequested() | ResumeRequested():
                self._take_user(event)
            case ProposalJudged():
                self._take_judged(event)
            case ProposalDecided():
                self.proposals.decide(event)
            case AcquisitionEnded():
                self.proposals.take_acquisition(event)
            case FactoryCalled(deployment) | FactoryRefused(deployment):
                self._tell_own(deployment, event)
            case VerifierWanted(party):
                self.lookups.want(party)
            case VerifierLookedUp():
                self.lookups.answer(event)
            case _:
                raise AssertionError(f"deployments do not know {type(event).__name__}")

    def _accept(self, event: IntentSubmitted) -> None:
        """Record a new deployment and reply with its id."""
        self.context.persist(IntentAccepted(event.intent))
        self.context.effects.append(ReplyToUser(event.reply_to, event.intent.id))
        self._add(event.intent, (), dict(event.known_outcomes)).handle(Begun())

    def _take_message(self, peer: NodeName, body: Message) -> None:
        match body:
            case DeploymentProposal():
                self.proposals.take(peer, body)
            case DeploymentAnswer(request_id, deployment, verdict, endorser, reason, since_s):
                self._tell_own(deployment, AnswerReceived(peer, request_id, verdict, endorser, reason, since_s))
            case ContractTakenIn(deployment):
                self._tell_own(deployment, TakenInReceived(peer))
            case DeploymentWithdrawn(deployment):
                self.proposals.take_withdrawn(peer, deployment)
            case VerifierRequest():
                self.lookups.take_request(peer, body)
            case VerifierResponse():
                self.lookups.take_response(peer, body)
            case _:
                raise AssertionError(f"deployments do not know {type(body).__name__}")

    def _take_judged(self, event: ProposalJudged) -> None:
        """Give our own node's judgement to our own deployment; accept or refuse another node's proposal by it."""
        if event.peer != self.context.node:
            self.proposals.take_judged(event)
            return
        answer = AnswerReceived(event.peer, event.request_id, event.verdict, event.endorser, event.reason)
        self._tell_own(event.deployment, answer)

    def _take_user(self, event: CancelRequested | ResumeRequested) -> None:
        deployment = self.own.get(event.intent)
        if deployment is not None and isinstance(event, CancelRequested):
            deployment.handle(CancelAsked(event.reply_to))
            return
        error = "a deployment is never parked" if deployment is not None else "it is not under way here"
        self.context.effects.append(ReplyToUser(event.reply_to, event.intent, error, field="transactionId"))

    def _tell_own(self, deployment: IntentId, event: Event) -> None:
        own = self.own.get(deployment)
        if own is not None:
            own.handle(event)

    def _tell_all(self, event: Event) -> None:
        for deployment in tuple(self.own.values()):
            deployment.handle(event)

    def _run_timers(self) -> None:
        while (due := self.context.timers.pop_due(self.context.now_ms)) is not None:
            due.machine.handle(due.event)

    # Deployments of our own.

    def _add(
        self, intent: Intent, signers: tuple[ContractAddress, ...], outcomes: Mapping[IntentId, Outcome]
    ) -> Deployment:
        deployment = Deployment(self.context, intent, self.factory, self.connected, signers)
        for other in intent.depends_on:
            if other in outcomes:
                deployment.unmet.pop(other, None)
                if outcomes[other] is Outcome.REVERTED:
                    deployment.failed_dependency = DependencyEnded(other, Outcome.REVERTED)
        self.own[intent.id] = deployment
        return deployment

    def _settled(self) -> list[Effect]:
        """Handle posted events until none is left; remove deployments that have ended."""
        while self.context.posted:
            machine, event = self.context.posted.popleft()
            machine.handle(event)
        for intent in [intent for intent, deployment in self.own.items() if deployment.is_gone]:
            del self.own[intent]
        return self.context.take_effects()
