"""A node keeps its promises across restarts: intents accepted, permissions granted, states acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.chain.effects import BlocksIndexed, DispatchRepriced, FinalityBroken, RoundDispatch
from rota.directory.effects import ContractTaken, DeploymentAgreed, DeploymentProposed, ProposalForgotten
from rota.exchange.distribution import FOUND_PARTS_FROM
from rota.exchange.effects import StatesAcknowledged, StatesReceived
from rota.machine.effects import IntentAccepted, IntentFinalised, TransitionPrepared
from rota.model.types import (
    ContractAddress,
    DelegationNumber,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    RequestId,
    StateId,
)
from rota.node.effects import NodeStarted
from rota.sequencer.effects import (
    EndingDecided,
    IntentParked,
    IntentResumed,
    LeavesSigned,
    PermissionGranted,
    PreparedAcknowledged,
    PreparedEndorsed,
    TransitionIssued,
)
from rota.sim.facts import Committed, Promised, Recorded, Remembered, Reported, Request, Sent, Started
from rota.sim.invariants.judge import Handler, Invariant
from rota.wire.messages import (
    AssembleResponse,
    DelegationCommand,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    ErrorCode,
    PreparedTransaction,
    StateDistribution,
    StateDistributionAcknowledgement,
    SubmitterHeartbeat,
    TransactionDispatched,
)


class AcknowledgedIntentsSurvive(Invariant):
    """S3: an acknowledged intent survives any crash."""

    name = "S3"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for durable records, acknowledgements to users, ledger outcomes and starts."""
        self.durable: dict[NodeName, set[IntentId]] = {}
        self.open: dict[NodeName, dict[IntentId, None]] = {}
        self.ended: set[IntentId] = set()
        return {Recorded: self._recorded, Promised: self._promised, Committed: self._committed, Started: self._started}

    def _recorded(self, fact: Recorded) -> None:
        if isinstance(fact.record, IntentAccepted):
            self.durable.setdefault(fact.node, set()).add(fact.record.intent.id)
        elif isinstance(fact.record, IntentFinalised):
            self.ended.add(fact.record.receipt.intent)

    def _committed(self, fact: Committed) -> None:
        self.ended.add(fact.transition.intent)

    def _promised(self, fact: Promised) -> None:
        self.judged += 1
        self.chances += 1
        if fact.intent not in self.durable.get(fact.node, ()):
            self.accuse(f"{self.show(fact.intent)} was acknowledged by {fact.node} and is not on its disk")
        self.open.setdefault(fact.node, {})[fact.intent] = None

    def _started(self, fact: Started) -> None:
        promised = self.open.get(fact.node, {})
        for intent in [intent for intent in promised if intent in self.ended]:
            del promised[intent]
        self.judged += len(promised)
        self.chances += len(promised)
        for intent in promised:
            if intent not in fact.remembered.intents:
                self.accuse(f"{fact.node} started without {self.show(intent)}, which it had acknowledged")


class OnePermissionPerNumber(Invariant):
    """S4: at most one permission per (intent, delegation number), only to the current delegate."""

    name = "S4"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for delegations, requests for permission, permissions on disk, and answers."""
        self.granted: dict[tuple[IntentId, DelegationNumber], tuple[NodeName, Leaf]] = {}
        self.latest: dict[IntentId, PermissionGranted] = {}
        self.delegated: dict[IntentId, tuple[DelegationNumber, NodeName]] = {}
        self.asked: dict[tuple[NodeName, ContractAddress, RequestId], dict[IntentId, Leaf]] = {}
        self.permitted: set[IntentId] = set()
        self.moved: set[IntentId] = set()
        return {
            Recorded: self._recorded,
            DelegationCommand: self._delegated,
            DispatchConfirmationRequest: self._asked,
            DispatchConfirmationResponse: self._answered,
        }

    def _recorded(self, fact: Recorded) -> None:
        """Counts only permissions on disk: one whose write failed was not granted, and the node tries again."""
        record = fact.record
        if not isinstance(record, PermissionGranted):
            return
        self.latest[record.intent] = record
        given = (record.delegate, record.leaf)
        self.judged += 1
        # A first permission of an intent that was delegated to one node only cannot be a second one.
        self.chances += record.intent in self.permitted or record.intent in self.moved
        self.permitted.add(record.intent)
        if self.granted.setdefault((record.intent, record.number), given) != given:
            self.accuse(f"{self.show(record.intent)} was permitted twice under {tuple(record.number)}")
        number, delegate = self.delegated.get(record.intent, (None, None))
        if number == record.number and delegate != record.delegate:
            self.accuse(f"{self.show(record.intent)} was permitted to {record.delegate} and delegated to {delegate}")

    def _delegated(self, fact: Sent) -> None:
        body = fact.envelope.body
        assert isinstance(body, DelegationCommand)
        for delegation in body.delegations:
            intent = delegation.intent.id
            if self.delegated.get(intent, (None, fact.peer))[1] != fact.peer:
                self.moved.add(intent)
            self.delegated[intent] = (delegation.number, fact.peer)

    def _asked(self, fact: Sent) -> None:
        body = fact.envelope.body
        assert isinstance(body, DispatchConfirmationRequest)
        # A repeated request may list fewer intents; an answer to an earlier copy of it may still arrive.
        asked = self.asked.setdefault((fact.node, fact.envelope.contract, body.request_id), {})
        asked.update({item.intent: item.leaf for item in body.items})

    def _answered(self, fact: Sent) -> None:
        body = fact.envelope.body
        assert isinstance(body, DispatchConfirmationResponse)
        asked = self.asked.get((fact.peer, fact.envelope.contract, body.request_id), {})
        for intent in body.intents:
            record = self.latest.get(intent)
            self.judged += 1
            self.chances += intent in self.moved
            if record is not None and record.delegate != fact.peer:
                self.accuse(f"{self.show(intent)} was permitted to {fact.peer}, and {record.delegate} has it")
            if fact.peer in self.terms.liars:
                # It may have requested several leaves under one id: only the permission on disk counts.
                continue
            if record is not None and asked.get(intent) != record.leaf:
                self.accuse(f"{self.show(intent)} was permitted for another leaf than the permission on disk")


@dataclass(slots=True)
class Said:
    """The records and messages that a node must not contradict."""

    incarnation: int = 0
    spoken: int = 0
    next_nonces: dict[ContractAddress, int] = field(default_factory=dict)
    accepted: dict[IntentId, None] = field(default_factory=dict)
    permitted: dict[IntentId, Leaf] = field(default_factory=dict)
    given: dict[IntentId, Leaf] = field(default_factory=dict)
    parked: dict[IntentId, None] = field(default_factory=dict)
    ending: dict[IntentId, None] = field(default_factory=dict)
    finalised: dict[IntentId, Outcome] = field(default_factory=dict)
    states: set[StateId] = field(default_factory=set)
    dispatches: dict[tuple[str, int], RoundDispatch] = field(default_factory=dict)
    delivered: set[tuple[Digest, NodeName]] = field(default_factory=set)
    issued: dict[IntentId, Leaf] = field(default_factory=dict)
    prepared: dict[Leaf, IntentId] = field(default_factory=dict)
    acknowledged: set[Leaf] = field(default_factory=set)
    signed_away: dict[Leaf, IntentId] = field(default_factory=dict)
    signed: set[IntentId] = field(default_factory=set)


class RestartContradictsNothing(Invariant):
    """S9: a restart from disk contradicts no message sent before.

    Everything that binds a node is durable before the node sends it, and the next run has it: incarnations, delegation
    numbers, signed leaves, permissions, parked and ending intents, nonces, acknowledged states and states that it owes
    others; and the prepared transitions that it gave to its user, has to send to their senders, or has signed as an
    endorser.
    """

    name = "S9"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for durable records, messages, and starts with the state that they restored."""
        self.said: dict[NodeName, Said] = {node: Said() for node in self.terms.nodes}
        self.numbers: dict[IntentId, tuple[DelegationNumber, NodeName]] = {}
        self.sent_states: dict[tuple[NodeName, NodeName, ContractAddress, Digest, int], tuple[StateId, ...]] = {}
        self.asked: dict[tuple[NodeName, ContractAddress, RequestId], dict[IntentId, Leaf]] = {}
        self.committed: set[IntentId] = set()
        return {
            Recorded: self._recorded,
            Committed: self._committed,
            Promised: self._promised,
            Reported: self._reported,
            Started: self._started,
            DelegationCommand: self._delegated,
            AssembleResponse: self._assembled,
            DispatchConfirmationRequest: self._asked,
            DispatchConfirmationResponse: self._permitted,
            DispatchConfirmationError: self._refused,
            TransactionDispatched: self._told_dispatched,
            SubmitterHeartbeat: self._told_dispatched,
            StateDistribution: self._distributed,
            StateDistributionAcknowledgement: self._acknowledged,
            PreparedTransaction: self._told_prepared,
        }

    # Durable records.

    def _recorded(self, fact: Recorded) -> None:
        said = self.said[fact.node]
        match fact.record:
            # The first few kinds are the most frequent.
            case StatesReceived():
                said.states.update(s.id for t in fact.record.transitions for s in t.outputs if s.content is not None)
            case StatesAcknowledged():
                said.delivered.add((fact.record.digest, fact.record.peer))
            case BlocksIndexed() | FinalityBroken():
                pass
            case NodeStarted(incarnation):
                said.incarnation = incarnation
            case IntentAccepted(intent):
                said.accepted[intent.id] = None
            case IntentParked(intent):
                said.parked[intent] = None
            case IntentResumed(intent):
                said.parked.pop(intent, None)
            case EndingDecided(intent):
                said.ending[intent] = None
            case IntentFinalised(receipt):
                said.finalised[receipt.intent] = receipt.outcome
            case PermissionGranted(intent, _, _, leaf):
                said.permitted[intent] = leaf
                said.given[intent] = leaf
            case LeavesSigned(signed):
                said.signed.update(each.intent for each in signed)
            case RoundDispatch():
                record = fact.record
                used = said.next_nonces.get(record.account, 0)
                said.next_nonces[record.account] = max(used, record.nonce + 1)
                said.dispatches[record.signer, record.nonce] = record
            case DispatchRepriced(dispatch):
                said.dispatches[dispatch.signer, dispatch.nonce] = dispatch
            case TransitionIssued(prepared):
                said.issued[prepared.transition.intent] = prepared.transition.leaf
            case TransitionPrepared(_, prepared):
                said.prepared[prepared.transition.leaf] = prepared.transition.intent
            case PreparedAcknowledged(_, leaf):
                said.acknowledged.add(leaf)
            case PreparedEndorsed(kept):
                said.signed_away.update({each.leaf: each.intent for each in kept})
            case DeploymentAgreed() | DeploymentProposed() | ProposalForgotten() | ContractTaken():
                # See `ProposalsAreKept`.
                pass
            case _:
                raise AssertionError(f"S9 does not know {type(fact.record).__name__}")

    def _committed(self, fact: Committed) -> None:
        self.committed.add(fact.transition.intent)

    # Messages.

    def _speaks(self, fact: Sent) -> Said:
        """A message carries the durable incarnation, and none below that of an earlier message."""
        said, incarnation = self.said[fact.node], fact.envelope.incarnation
        self.judged += 1
        self.chances += said.incarnation > 1
        if incarnation != said.incarnation:
            self.accuse(f"{fact.node} spoke as incarnation {incarnation}, and {said.incarnation} is on its disk")
        if incarnation < said.spoken:
            self.accuse(f"{fact.node} spoke as incarnation {incarnation} after {said.spoken}")
        said.spoken = max(said.spoken, incarnation)
        return said

    def _promised(self, fact: Promised) -> None:
        said = self.said[fact.node]
        if fact.request is Request.CANCEL and fact.intent not in said.ending and fact.intent not in said.finalised:
            self.accuse(
                f"{fact.node} confirmed that {self.show(fact.intent)} is cancelled, which its disk does not have"
            )
        if fact.request is Request.RESUME and fact.intent in said.parked:
            self.accuse(f"{fact.node} confirmed that {self.show(fact.intent)} goes on, and it is parked on its disk")

    def _reported(self, fact: Reported) -> None:
        is_durable = fact.receipt.intent in self.said[fact.node].finalised
        if fact.receipt.outcome is Outcome.REVERTED and not is_durable:
            self.accuse(f"{fact.node} reported {self.show(fact.receipt.intent)} reverted, and that is not on its disk")

    def _delegated(self, fact: Sent) -> None:
        self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, DelegationCommand)
        for delegation in body.delegations:
            intent, number = delegation.intent.id, delegation.number
            before, peer = self.numbers.get(intent, (number, fact.peer))
            if number < before or (number == before and peer != fact.peer):
                words = f"under {tuple(number)} to {fact.peer} after {tuple(before)} to {peer}"
                self.accuse(f"{fact.node} delegated {self.show(intent)} {words}")
            self.numbers[intent] = (number, fact.peer)

    def _assembled(self, fact: Sent) -> None:
        """A party's leaf is on disk before it is sent. Messages may be altered, so leaves are not compared."""
        said = self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, AssembleResponse)
        for result in body.results:
            made = result.transition
            if made is not None and not made.is_empty and made.intent not in said.signed:
                self.accuse(f"{fact.node} signed a leaf of {self.show(result.intent)}, which its disk does not have")

    def _asked(self, fact: Sent) -> None:
        self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, DispatchConfirmationRequest)
        # A repeated request may list fewer intents; an answer to an earlier copy of it may still arrive.
        asked = self.asked.setdefault((fact.node, fact.envelope.contract, body.request_id), {})
        asked.update({item.intent: item.leaf for item in body.items})

    def _permitted(self, fact: Sent) -> None:
        said = self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, DispatchConfirmationResponse)
        for intent in body.intents:
            if intent not in said.permitted:
                self.accuse(f"{fact.node} permitted {self.show(intent)}, and that is not on its disk")

    def _refused(self, fact: Sent) -> None:
        """A permission and the states of its leaf are on disk together, so the node must not report them missing."""
        said = self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, DispatchConfirmationError)
        asked = self.asked.get((fact.peer, fact.envelope.contract, body.request_id), {})
        for error in body.errors:
            leaf = asked.get(error.intent)
            if error.code is ErrorCode.STATES_MISSING and leaf == said.given.get(error.intent, b""):
                self.accuse(f"{fact.node} has lost the states of {self.show(error.intent)}, which it permitted")

    def _told_dispatched(self, fact: Sent) -> None:
        said = self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, TransactionDispatched | SubmitterHeartbeat)
        for listed in body.intents:
            dispatch = said.dispatches.get((listed.signer, listed.nonce))
            if dispatch is None or listed.leaf not in dispatch.round.leaves:
                words = f"says that {self.show(listed.intent)} has nonce {listed.nonce}"
                self.accuse(f"{fact.node} {words}, and that is not on its disk")

    def _distributed(self, fact: Sent) -> None:
        self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, StateDistribution)
        # Acknowledging requested states promises nothing: it ends no delivery, and differs from repeat to repeat.
        if body.part < FOUND_PARTS_FROM:
            states = tuple(s.id for t in body.transitions for s in t.outputs if s.content is not None)
            self.sent_states[(fact.node, fact.peer, fact.envelope.contract, body.digest, body.part)] = states

    def _acknowledged(self, fact: Sent) -> None:
        said = self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, StateDistributionAcknowledgement)
        # Only states that the author itself sent: a liar may send others under the same digest.
        for state in self.sent_states.get((fact.peer, fact.node, fact.envelope.contract, body.digest, body.part), ()):
            if state not in said.states:
                self.accuse(f"{fact.node} acknowledged a state of leaf {state.leaf.hex()[:8]} that is not on its disk")

    def _told_prepared(self, fact: Sent) -> None:
        said = self._speaks(fact)
        body = fact.envelope.body
        assert isinstance(body, PreparedTransaction)
        if body.transition.leaf not in said.prepared:
            self.accuse(f"{fact.node} issued {self.show(body.transition.intent)}, and that is not on its disk")

    # State that a start restores.

    def _started(self, fact: Started) -> None:
        said, remembered = self.said[fact.node], fact.remembered
        if remembered.incarnation <= said.incarnation:
            self.accuse(f"{fact.node} started as incarnation {remembered.incarnation} after {said.incarnation}")
        for account in said.next_nonces | dict(remembered.next_nonces):
            remembers, is_next = remembered.next_nonces.get(account, 0), said.next_nonces.get(account, 0)
            if remembers != is_next:
                self.accuse(f"{fact.node} goes on with nonce {remembers}, and {is_next} is the next")
        self.judged += 1
        self.chances += 1
        for digest, peer in _owed(fact.node, said):
            if peer not in remembered.owed:
                self.accuse(f"{fact.node} forgot that {peer} has not acknowledged the states of {digest.hex()[:8]}")
        said.given = dict(said.permitted)
        self._compare_intents(fact.node, said, remembered)
        self._compare_prepared(fact.node, said, remembered)

    def _compare_intents(self, node: NodeName, said: Said, remembered: Remembered) -> None:
        ended = [intent for intent in said.accepted if intent in said.finalised or intent in self.committed]
        for intent in ended:
            del said.accepted[intent]
        for intent in said.accepted:
            known = remembered.intents.get(intent)
            if known is None:
                continue
            if known.permitted != said.permitted.get(intent):
                self.accuse(f"{node} forgot that it had permitted {self.show(intent)}")
            if known.is_parked != (intent in said.parked):
                self.accuse(f"{node} forgot whether {self.show(intent)} is parked")
            if known.is_ending != (intent in said.ending):
                self.accuse(f"{node} forgot whether {self.show(intent)} is ending")
            if known.issued != said.issued.get(intent):
                self.accuse(f"{node} forgot that it had given its user {self.show(intent)} prepared")

    def _compare_prepared(self, node: NodeName, said: Said, remembered: Remembered) -> None:
        """An intent on the chain binds no node any more, whichever version it is."""
        for leaf, intent in said.prepared.items():
            is_settled = leaf in said.acknowledged or intent in self.committed
            if not is_settled and leaf not in remembered.unacknowledged:
                self.accuse(f"{node} forgot that it has to send {self.show(intent)} prepared to its sender")
        for leaf, intent in said.signed_away.items():
            if intent not in self.committed and leaf not in remembered.signed_away:
                self.accuse(f"{node} forgot that it has signed {self.show(intent)} prepared")


def _owed(node: NodeName, said: Said) -> Iterator[tuple[Digest, NodeName]]:
    """A dispatcher owes states to every node on their lists but itself and their senders, until acknowledged."""
    for dispatch in said.dispatches.values():
        digest = dispatch.round.digest
        for transition, sender in zip(dispatch.round.transitions, dispatch.round.senders, strict=True):
            peers = {peer: None for state in transition.outputs for peer in state.distribution}
            for peer in peers:
                if peer not in (node, sender) and (digest, peer) not in said.delivered:
                    yield digest, peer
