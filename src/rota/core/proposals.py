"""The contracts that others want this node to have: one per node.

Theory of operation. A peer proposes a contract before it is on the chain. Whether we have it is for the domain to say;
what we will have is made durable, and then the answer leaves. Every copy of a question is answered. From then on the
chain is asked for a deployment under that id, and one whose genesis, signers and threshold are the proposal's is the
contract: it is taken in with the very block that has it, so that no round of it is missed.

A proposal is kept under its proposer and its id, so that nobody can take another's. What one peer may have kept here
is bounded, and so is what all may. It is forgotten when the contract is there, when it is withdrawn, or when its
proposer has not spoken of it for `proposal_ttl_s` of chain time.
"""

from __future__ import annotations

from rota.core.context import Context
from rota.core.deployment import is_as_agreed, known_from
from rota.core.effects import DeploymentProposed, JudgeProposal, Proposal, ProposalForgotten
from rota.core.events.chain import FactoryDeployment
from rota.core.events.deployment import ProposalDurable, ProposalJudged, ProposalNotForgotten, ProposalNotWritten
from rota.core.machine import Event
from rota.genesis import decode_genesis, genesis_hash
from rota.messages import ContractTakenIn, DeploymentAnswer, DeploymentProposal, Verdict
from rota.types import IntentId, KnownContract, NodeName

# One peer has at most one part in so many of all the room there is.
PEER_SHARE = 4
# How old a proposal may be, in parts of its life, before a reminder makes it new.
RENEWAL_SHARE = 48
JUDGING_MAX = 64

Key = tuple[NodeName, IntentId]


class Proposals:
    """What others have proposed to this node."""

    def __init__(self, context: Context, stored: tuple[Proposal, ...]) -> None:
        self.context = context
        self.kept: dict[Key, Proposal] = {(each.peer, each.deployment): each for each in stored}
        self.judging: dict[Key, DeploymentProposal] = {}
        self.writing: dict[Key, Proposal] = {}
        self.withdrawn: dict[Key, None] = {}

    def awaited(self) -> tuple[IntentId, ...]:
        """The ids under which the chain may have a contract for us."""
        return tuple(dict.fromkeys(each.deployment for each in self.kept.values() if each.signers))

    # Peers.

    def take(self, peer: NodeName, body: DeploymentProposal) -> None:
        """Answered at once if we have it, or no room for it; else it is judged first."""
        key = (peer, body.deployment)
        kept = self.kept.get(key)
        if kept is not None and kept.genesis != body.genesis:
            self._answer(peer, body, Verdict.REFUSED, "another genesis was proposed under this id")
        elif kept is not None and self._is_no_news(kept, body):
            self._answer(peer, body, Verdict.ACCEPTED, kept=kept)
        elif key in self.judging or key in self.writing:
            return
        elif flaw := self._flaw_of(peer, kept, body):
            self._answer(peer, body, Verdict.BUSY, flaw)
        else:
            self.judging[key] = body
            order = JudgeProposal(peer, body.request_id, body.deployment, body.genesis, body.factory, body.signers)
            self.context.effects.append(order)

    def take_judged(self, event: ProposalJudged) -> None:
        """Refused: the peer is told. Accepted: durable first."""
        key = (event.peer, event.deployment)
        body = self.judging.get(key)
        if body is None or body.request_id != event.request_id:
            return
        if event.verdict is not Verdict.ACCEPTED:
            del self.judging[key]
            self._answer(event.peer, body, event.verdict, event.reason)
            return
        proposal = Proposal(
            event.peer,
            event.deployment,
            body.genesis,
            body.request_id,
            self.context.chain_time_s,
            event.endorser,
            body.signers,
        )
        self.writing[key] = proposal
        self.context.persist(DeploymentProposed(proposal), self, ProposalDurable(*key), ProposalNotWritten(*key))

    def take_withdrawn(self, peer: NodeName, deployment: IntentId) -> None:
        """It is not awaited any more; one that is being written is forgotten when it is there."""
        key = (peer, deployment)
        if key in self.writing:
            self.withdrawn[key] = None
        else:
            self.judging.pop(key, None)
        if self.kept.pop(key, None) is not None:
            self._forget(key)

    def handle(self, event: Event) -> None:
        """What became of a write."""
        match event:
            case ProposalDurable(peer, deployment):
                key = (peer, deployment)
                body, proposal = self.judging.pop(key), self.writing.pop(key)
                if key in self.withdrawn:
                    del self.withdrawn[key]
                    self._forget(key)
                else:
                    self.kept[key] = proposal
                    self._answer(peer, body, Verdict.ACCEPTED, kept=proposal)
            case ProposalNotWritten(peer, deployment):
                key = (peer, deployment)
                del self.writing[key], self.judging[key]
                self.withdrawn.pop(key, None)
            case _:
                assert isinstance(event, ProposalNotForgotten), f"proposals do not know {type(event).__name__}"

    # The chain.

    def known_in(self, deployed: FactoryDeployment, height: int) -> KnownContract | None:
        """The contract that was proposed to us, if this is it."""
        for proposal in self._under(deployed.intent):
            genesis = decode_genesis(proposal.genesis)
            if is_as_agreed(deployed, genesis_hash(proposal.genesis), proposal.signers, genesis):
                return known_from(deployed, proposal.genesis, height, proposal.peer)
        return None

    def taken_in(self, known: KnownContract) -> None:
        """The contract is there: who proposed it hears of it, and it is proposed no longer."""
        for proposal in self._under(known.deployment):
            if (proposal.genesis, proposal.signers) == (known.genesis, known.signers):
                del self.kept[proposal.peer, proposal.deployment]
                self.context.send(proposal.peer, ContractTakenIn(known.deployment))

    def time_is_final(self, chain_time_s: int) -> None:
        """What nobody has spoken of for long is forgotten."""
        ttl_s = self.context.config.proposal_ttl_s
        for key in [key for key, kept in self.kept.items() if chain_time_s - kept.received_at_s > ttl_s]:
            del self.kept[key]
            self._forget(key)

    def _under(self, deployment: IntentId) -> list[Proposal]:
        return [each for each in self.kept.values() if each.deployment == deployment and each.signers]

    # Room.

    def _flaw_of(self, peer: NodeName, kept: Proposal | None, body: DeploymentProposal) -> str:
        """Why there is no room for it; what replaces a proposal takes no more room."""
        if len(self.judging) >= JUDGING_MAX:
            return "it judges as many contracts as it can at a time"
        if kept is not None:
            return ""
        config = self.context.config
        held = (*self.kept.values(), *self.writing.values())
        of_peer = tuple(each for each in held if each.peer == peer)
        for share, whose, some in ((PEER_SHARE, "of yours", of_peer), (1, "of all", held)):
            if len(some) >= max(1, config.proposals_max // share):
                return f"{len(some)} proposals {whose} wait to be deployed"
            if sum(len(each.genesis) for each in some) + len(body.genesis) > config.proposals_bytes_max // share:
                return f"the proposals {whose} that wait to be deployed are too large together"
        return ""

    def _is_no_news(self, kept: Proposal, body: DeploymentProposal) -> bool:
        """A copy of an earlier question, late as it is, or one that says the same of what is still new."""
        if body.request_id < kept.request_id:
            return True
        age_s = self.context.chain_time_s - kept.received_at_s
        is_old = age_s > self.context.config.proposal_ttl_s // RENEWAL_SHARE
        return body.signers == kept.signers and not is_old

    # Saying.

    def _answer(
        self, peer: NodeName, body: DeploymentProposal, verdict: Verdict, reason: str = "", kept: Proposal | None = None
    ) -> None:
        endorser = kept.endorser if kept is not None else None
        self.context.send(peer, DeploymentAnswer(body.request_id, body.deployment, verdict, endorser, reason))

    def _forget(self, key: Key) -> None:
        self.context.persist(ProposalForgotten(*key), self, None, ProposalNotForgotten(*key))
