"""Contracts that other nodes propose to this one: one per node.

Theory of operation. A peer proposes a contract before it is on the chain. The domain judges whether this node may have
it; an accepted proposal is recorded before the answer leaves. Every copy of a request is answered. From then on the
chain is asked for a deployment under that id, and one whose genesis, signers and threshold are the proposal's is the
contract: it is taken in with the very block that has it, so that no round of it is missed.

A contract in which this node endorses or coordinates needs its operator's consent (`consent.py`). Where the policy
requires a decision, the proposal is stored as a question, the peer gets "busy" and since when the operator is
asked, and nothing else happens for the contract: no address is given, the chain is not searched for it, and a contract
that is on the chain already is not taken in. The operator's decision is recorded. Questions
have a room of their own, shared fairly between peers, and expire `proposal_ttl_s` after the operator was asked.

A proposal is kept under its proposer and its id, so that no peer can take another's. The proposals kept for one peer
are bounded, and so are those for all. One is forgotten when the contract is there, when it is withdrawn, or when its
proposer has not repeated it for `proposal_ttl_s` of chain time.
"""

from __future__ import annotations

from dataclasses import replace

from rota.directory.acquaintance_events import AcquisitionEnded
from rota.directory.consent import OPEN, Consent, ConsentMode, Decision, NoRoom, displaced_by
from rota.directory.deployment import known_from
from rota.directory.deployment_base import is_as_agreed
from rota.directory.deployment_events import ProposalDecided, ProposalJudged
from rota.directory.effects import ContractWanted, DeploymentProposed, JudgeProposal, Proposal, ProposalForgotten
from rota.machine.context import StepContext
from rota.machine.effects import ReplyToUser
from rota.machine.pacing import Pacing
from rota.model.blocks import FactoryDeployment
from rota.model.genesis import MalformedGenesis, decode_genesis, genesis_hash
from rota.model.types import IntentId, KnownContract, NodeName, RequestId
from rota.wire.messages import ContractTakenIn, DeploymentAnswer, DeploymentProposal, Verdict

# One peer may use at most this fraction of all the room.
PEER_SHARE = 4
# The age, as a fraction of its lifetime, from which a reminder renews a proposal.
RENEWAL_SHARE = 48
# Questions to the operator may use at most this fraction of the room for all proposals.
QUESTIONS_SHARE = 4
JUDGING_MAX = 64
# Judging one takes a quarter of a millisecond, and of a large one twenty. In an interval each peer always has the
# least number, and up to the most as long as all together stay within theirs.
LARGE_BYTES = 65_536
JUDGED_LEAST = 8
JUDGED_OF_PEER_MAX = 64
JUDGED_MAX = 128
LARGE_JUDGED_MAX = 2

Key = tuple[NodeName, IntentId]


class Proposals:
    """The proposals of other nodes to this one."""

    def __init__(self, context: StepContext, stored: tuple[Proposal, ...], consent: Consent = OPEN) -> None:
        self.context = context
        self.consent = consent
        self.kept: dict[Key, Proposal] = {(each.peer, each.deployment): each for each in stored}
        self.judging: dict[Key, DeploymentProposal] = {}
        self.withdrawn: dict[Key, None] = {}
        self.pacing = Pacing(context)

    @property
    def questions(self) -> tuple[Proposal, ...]:
        """The proposals that await the operator's decision, the oldest first."""
        return tuple(each for each in self.kept.values() if each.decision is Decision.ASKED)

    def awaited(self) -> tuple[IntentId, ...]:
        """Return the ids under which the chain may have a contract for us."""
        return tuple(dict.fromkeys(each.deployment for each in self._agreed_to()))

    # Peers.

    def take(self, peer: NodeName, body: DeploymentProposal) -> None:
        """Answer at once if it is known, or there is no room; otherwise have it judged first."""
        key = (peer, body.deployment)
        kept = self.kept.get(key)
        if kept is not None and kept.genesis != body.genesis:
            self._answer(peer, body, Verdict.REFUSED, "another genesis was proposed under this id")
        elif kept is not None and self._is_no_news(kept, body):
            self._tell_decision(kept, body.request_id)
        elif key in self.judging:
            return
        elif flaw := self._flaw_of(peer, kept, body):
            self._answer(peer, body, Verdict.BUSY, flaw)
        else:
            self.judging[key] = body
            order = JudgeProposal(peer, body.request_id, body.deployment, body.genesis, body.factory, body.signers)
            self.context.effects.append(order)

    def take_judged(self, event: ProposalJudged) -> None:
        """Take a judgement: refuse, or record the proposal, or ask the operator."""
        key = (event.peer, event.deployment)
        body = self.judging.get(key)
        if body is None or body.request_id != event.request_id:
            return
        if key in self.withdrawn:
            del self.judging[key], self.withdrawn[key]
            return
        if event.verdict is not Verdict.ACCEPTED:
            del self.judging[key]
            self._answer(event.peer, body, event.verdict, event.reason)
            return
        now_s = self.context.chain_time_s
        proposal = Proposal(
            event.peer, event.deployment, body.genesis, body.request_id, now_s, event.endorser, body.signers
        )
        kept = self.kept.get(key)
        has_agreed = kept is not None and kept.decision is Decision.GIVEN
        decision = Decision.GIVEN if has_agreed else self._policy_for(event.peer, body.genesis)
        if decision is Decision.REFUSED:
            del self.judging[key]
            if self.kept.pop(key, None) is not None:
                self._forget(key)
            node = self.context.node
            reason = f"{node} takes such contracts from nodes on its operator's list, and {event.peer} is not on it"
            self._answer(event.peer, body, Verdict.REFUSED, reason)
        elif decision is Decision.GIVEN:
            self._write(proposal)
        elif flaw := self._ask_operator(proposal):
            del self.judging[key]
            self._answer(event.peer, body, Verdict.BUSY, flaw)

    def take_withdrawn(self, peer: NodeName, deployment: IntentId) -> None:
        """Forget a withdrawn proposal; one that is being judged is forgotten after that.

        Until then the peer's next proposal under this id waits: a judgement must not count for another genesis. A peer
        cannot withdraw a contract that is on the chain.
        """
        key = (peer, deployment)
        kept = self.kept.get(key)
        if kept is not None and kept.contract is not None:
            return
        if key in self.judging:
            self.withdrawn[key] = None
        if self.kept.pop(key, None) is not None:
            self._forget(key)

    # The operator.

    def decide(self, event: ProposalDecided) -> None:
        """Take our operator's decision; the peer gets it in answer to its latest request."""
        key = (event.peer, event.deployment)
        kept = self.kept.get(key)
        if kept is None or kept.decision is not Decision.ASKED:
            self._reply(event, "deployment: this node's operator is not asked about it")
            return
        if key in self.judging:
            self._reply(event, "the operator's policy is being applied to it; try again", is_temporary=True)
            return
        decision = Decision.GIVEN if event.is_given else Decision.REFUSED
        now_s = self.context.chain_time_s
        decided = self.kept[key] = replace(kept, decision=decision, reason=event.reason, received_at_s=now_s)
        self.context.persist(DeploymentProposed(decided))
        self._reply(event)
        if decided.contract is None:
            self._tell_decision(decided, decided.request_id)
        elif event.is_given:
            self.context.effects.append(ContractWanted(decided.contract, decided.peer))

    def _reply(self, event: ProposalDecided, error: str = "", is_temporary: bool = False) -> None:
        self.context.effects.append(ReplyToUser(event.reply_to, event.deployment, error, is_temporary))

    def _policy_for(self, peer: NodeName, genesis: bytes) -> Decision:
        """Return the policy's decision; a contract that requires nothing of this node needs no consent."""
        if not decode_genesis(genesis).has_part_for(self.context.node):
            return Decision.GIVEN
        return self.consent.to_proposal_of(peer)

    def _ask_operator(self, proposal: Proposal) -> str:
        """Store it as a question; return why there is no room for it, or ""."""
        config = self.context.config
        asked = {(each.peer, each.deployment): len(each.genesis) for each in self.questions}
        try:
            room = config.proposals_bytes_max // QUESTIONS_SHARE
            displaced = displaced_by(asked, proposal.peer, len(proposal.genesis), room)
        except NoRoom as flaw:
            return f"too many proposals {flaw} wait for the operator of {self.context.node}"
        for key in displaced:
            del self.kept[key]
            self._forget(key)
        self._write(replace(proposal, decision=Decision.ASKED, asked_at_s=max(1, self.context.chain_time_s)))
        return ""

    # Contracts that are on the chain already, as peers reported (`node/acquaintance.py`).

    def may_acquire(self, deployment: IntentId, genesis: bytes) -> bool:
        """Whether this node may have it: it has no part in it, or our operator has agreed to this very contract.

        The peer that reports it is not its author, so a list of nodes does not help.
        """
        try:
            has_part = decode_genesis(genesis).has_part_for(self.context.node)
        except MalformedGenesis:
            return False
        if self.consent.mode is ConsentMode.OPEN or not has_part:
            return True
        return any(each.decision is Decision.GIVEN for each in self._same(deployment, genesis))

    def take_acquisition(self, event: AcquisitionEnded) -> None:
        """Ask the operator about a contract on the chain that needs consent; drop an accepted one's questions."""
        if event.verdict is Verdict.ACCEPTED:
            for key in [key for key, each in self.kept.items() if each.contract == event.contract]:
                del self.kept[key]
                self._forget(key)
        elif event.deployment is not None:
            key = (event.peer, event.deployment)
            is_known = key in self.kept or key in self.judging
            if not is_known and not self._same(event.deployment, event.genesis):
                now_s = self.context.chain_time_s
                no_request = RequestId(0, 0)
                self._ask_operator(Proposal(*key, event.genesis, no_request, now_s, contract=event.contract))

    def _same(self, deployment: IntentId, genesis: bytes) -> list[Proposal]:
        return [each for each in self.kept.values() if (each.deployment, each.genesis) == (deployment, genesis)]

    # The chain.

    def known_in(self, deployed: FactoryDeployment, height: int) -> KnownContract | None:
        """Return the contract if it was proposed to us, else None."""
        for proposal in self._under(deployed.intent):
            genesis = decode_genesis(proposal.genesis)
            if is_as_agreed(deployed, genesis_hash(proposal.genesis), proposal.signers, genesis):
                return known_from(deployed, proposal.genesis, height, proposal.peer)
        return None

    def taken_in(self, known: KnownContract) -> None:
        """Note that the contract is there: notify its proposers, and delete the proposals."""
        for proposal in self._under(known.deployment):
            if (proposal.genesis, proposal.signers) == (known.genesis, known.signers):
                del self.kept[proposal.peer, proposal.deployment]
                self.context.send(proposal.peer, ContractTakenIn(known.deployment))

    def time_is_final(self, chain_time_s: int) -> None:
        """Forget proposals that were not repeated for long."""
        ttl_s = self.context.config.proposal_ttl_s
        for key in [key for key, kept in self.kept.items() if chain_time_s - kept.received_at_s > ttl_s]:
            forgotten = self.kept.pop(key)
            self._forget(key)
            if forgotten.decision is Decision.ASKED and forgotten.contract is None:
                reason = f"the operator of {self.context.node} has not answered for {ttl_s} s"
                self._send(forgotten, forgotten.request_id, Verdict.REFUSED, reason)

    def _agreed_to(self) -> list[Proposal]:
        """Return the agreed proposals that the chain may have."""
        return [each for each in self.kept.values() if each.signers and each.decision is Decision.GIVEN]

    def _under(self, deployment: IntentId) -> list[Proposal]:
        return [each for each in self._agreed_to() if each.deployment == deployment]

    # Room.

    def _flaw_of(self, peer: NodeName, kept: Proposal | None, body: DeploymentProposal) -> str:
        """Return why there is no room for it, or ""; one that replaces a proposal takes no more room."""
        if len(self.judging) >= JUDGING_MAX or not self._may_be_judged(peer, body):
            return "it judges as many contracts as it can at a time"
        if kept is not None:
            return ""
        config = self.context.config
        held = tuple(self.kept.values())
        of_peer = tuple(each for each in held if each.peer == peer)
        for share, whose, some in ((PEER_SHARE, "of yours", of_peer), (1, "of all", held)):
            if len(some) >= max(1, config.proposals_max // share):
                return f"{len(some)} proposals {whose} wait to be deployed"
            if sum(len(each.genesis) for each in some) + len(body.genesis) > config.proposals_bytes_max // share:
                return f"the proposals {whose} that wait to be deployed are too large together"
        return ""

    def _may_be_judged(self, peer: NodeName, body: DeploymentProposal) -> bool:
        """Whether the peer's rate allows another judgement: a refused proposal takes no room, so room is no limit."""
        interval_ms, is_due = self.context.config.request_timeout_ms, self.pacing.is_due
        if len(body.genesis) > LARGE_BYTES and not is_due(("large", peer), interval_ms, LARGE_JUDGED_MAX):
            return False
        if is_due(("least", peer), interval_ms, JUDGED_LEAST):
            return True
        is_in_share = is_due(("most", peer), interval_ms, JUDGED_OF_PEER_MAX - JUDGED_LEAST)
        return is_in_share and is_due("all", interval_ms, JUDGED_MAX)

    def _is_no_news(self, kept: Proposal, body: DeploymentProposal) -> bool:
        """Whether it is a copy of an earlier, possibly late request, or repeats a recent proposal.

        After the operator refused, or while the operator is asked, nothing is new unless the policy has changed
        with a restart.
        """
        if body.request_id < kept.request_id or kept.decision is Decision.REFUSED:
            return True
        if kept.decision is Decision.ASKED:
            return kept.contract is not None or self.consent.to_proposal_of(kept.peer) is Decision.ASKED
        age_s = self.context.chain_time_s - kept.received_at_s
        is_old = age_s > self.context.config.proposal_ttl_s // RENEWAL_SHARE
        return body.signers == kept.signers and not is_old

    # Answers.

    def _answer(self, peer: NodeName, body: DeploymentProposal, verdict: Verdict, reason: str = "") -> None:
        self.context.send(peer, DeploymentAnswer(body.request_id, body.deployment, verdict, None, reason))

    def _tell_decision(self, kept: Proposal, request_id: RequestId) -> None:
        """Answer by the decision; while the operator is asked, note the peer's latest request to answer it later."""
        if kept.decision is Decision.GIVEN:
            self._send(kept, request_id, Verdict.ACCEPTED)
        elif kept.decision is Decision.REFUSED:
            self._send(kept, request_id, Verdict.REFUSED, f"its operator refuses: {kept.reason or 'no reason given'}")
        elif kept.contract is None:
            self.kept[kept.peer, kept.deployment] = replace(kept, request_id=max(request_id, kept.request_id))
            self._send(kept, request_id, Verdict.BUSY, "its operator has to agree to it")

    def _send(self, kept: Proposal, request_id: RequestId, verdict: Verdict, reason: str = "") -> None:
        endorser = kept.endorser if verdict is Verdict.ACCEPTED else None
        since_s = kept.asked_at_s if verdict is Verdict.BUSY else 0
        self.context.send(kept.peer, DeploymentAnswer(request_id, kept.deployment, verdict, endorser, reason, since_s))

    def _write(self, proposal: Proposal) -> None:
        key = (proposal.peer, proposal.deployment)
        self.context.persist(DeploymentProposed(proposal))
        self.judging.pop(key, None)
        self.kept[key] = proposal
        self._tell_decision(proposal, proposal.request_id)

    def _forget(self, key: Key) -> None:
        self.context.persist(ProposalForgotten(*key))
