"""Lies of a node that coordinates, or claims that it does."""

from __future__ import annotations

from dataclasses import replace

from rota.chain.effects import RoundDispatch
from rota.model.digests import approval_digest, refusal_digest, round_digest
from rota.model.types import (
    NO_ATTESTERS,
    Attesters,
    Digest,
    Fees,
    FlushPoint,
    HeartbeatNumber,
    IntentId,
    Leaf,
    NodeName,
    State,
    StateId,
    Transition,
)
from rota.sim.liars.liar import Liar, Strategy, with_body
from rota.sim.liars.making import made_transition, with_false_contents
from rota.sim.liars.notebook import Delegated
from rota.sim.services import sign
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyResult,
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationRequest,
    DispatchItem,
    EndorsementRequest,
    EndorserSignature,
    Envelope,
    HandedOver,
    HandedRound,
    Handover,
    IntentAnswer,
    ListedIntent,
    PreparedTransaction,
    Rejection,
    Snapshot,
    StateDistribution,
    SubmittedIntent,
    SubmitterHeartbeat,
    TransactionDispatched,
    TransactionReverted,
)

FAR = 2**62
HELD_BACK = 0.9
PLANTED_TIMES = 3
FALSE_CONTENT = b"shared/planted"


class NeverAssembles(Strategy):
    """Accepts and lists intents, and never has one assembled."""

    name = "never-assembles"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop requests to assemble."""
        return None if isinstance(envelope.body, AssembleRequest) else envelope


class NeverAsksPermission(Strategy):
    """Has intents assembled and endorsed, and never asks for permission."""

    name = "never-asks-permission"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop requests for permission."""
        return None if isinstance(envelope.body, DispatchConfirmationRequest) else envelope


class NeverSubmits(Strategy):
    """Gets permission, reports a dispatch, and sends nothing to the chain."""

    name = "never-submits"

    def submits(self, dispatch: RoundDispatch) -> bool:
        """Drop every transaction."""
        return False


class SubmitsLate(Strategy):
    """Gets permission, and sends the round to the chain just before or after it expires."""

    name = "submits-late"

    def submits(self, dispatch: RoundDispatch) -> bool:
        """Drop the transaction; the round is committed later, from the notebook."""
        return False

    def acts(self) -> None:
        """Commit rounds that expire in 2, 10 or 30 s, or have expired."""
        for known, signatures in self.liar.book.complete():
            if known.valid_until_s - self.liar.time_s < self.random.choice((2, 10, 30)):
                self.liar.account.commit(known, signatures)


class CommitsUnpermitted(Strategy):
    """Has intents endorsed, asks for no permission, and commits them some time later."""

    name = "commits-unpermitted"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.due_ms: dict[Digest, int] = {}

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop requests for permission."""
        return None if isinstance(envelope.body, DispatchConfirmationRequest) and self.strikes() else envelope

    def acts(self) -> None:
        """Commit each round with enough signatures after a delay of 0.5 to 60 s."""
        now_ms = self.liar.world.now_ms
        for known, signatures in self.liar.book.complete():
            due_ms = self.due_ms.setdefault(known.digest, now_ms + self.random.choice((500, 5_000, 20_000, 60_000)))
            if now_ms >= due_ms:
                self.liar.account.commit(known, signatures)


class AsksTwice(Strategy):
    """Has intents assembled again and again, and has every version endorsed."""

    name = "asks-twice"

    def acts(self) -> None:
        """Ask again for the assembly of intents delegated to liars, and for signatures of known transitions."""
        liar = self.liar
        delegated = list(liar.book.delegated.values())[-8:]
        for each in delegated:
            if self.strikes() and liar.core is not None:
                request = AssembleRequest(liar.next_id(), (each.intent.id,), Snapshot())
                liar.send(each.peer, each.contract, request)
        for known in list(liar.book.transitions.values())[-4:]:
            contract = liar.contract(known.contract)
            if contract is not None and self.strikes():
                until_s = known.transition.valid_until_s
                liar.ask_to_endorse(contract, (known.transition,), (known.sender,), until_s)


class SaysReverted(Strategy):
    """Reports to senders that it gave their intents up."""

    name = "says-reverted"

    def acts(self) -> None:
        """Report intents delegated to liars as reverted, in half of the cases with forged refusals of all endorsers."""
        known = list(self.liar.book.delegated.values())[-20:]
        made = {each.transition.intent: each.transition for each in self.liar.book.transitions.values()}
        for delegated in known:
            if self.strikes():
                transition = made.get(delegated.intent.id, Transition(delegated.intent.id, Leaf(bytes(32))))
                refusals = signed_refusals(self.liar, delegated, transition) if self.random.random() < 0.5 else ()
                body = TransactionReverted(delegated.intent.id, delegated.number, transition.leaf, "gave up", refusals)
                self.liar.send(delegated.peer, delegated.contract, body)


class ForgesRefusals(Strategy):
    """Has intents assembled on their senders' own states, and gives them up with refusals that are forged or too few.

    A refusal of a transition that was assembled on another snapshot ends no intent, even if its signature is valid.
    """

    name = "forges-refusals"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Send empty snapshots."""
        body = envelope.body
        if not isinstance(body, AssembleRequest):
            return envelope
        return with_body(envelope, replace(body, snapshot=Snapshot()))

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Give an assembled intent up at once; the core does not receive the result."""
        body = envelope.body
        if not isinstance(body, AssembleResponse) or not self.strikes():
            return True
        for result in body.results:
            delegated = self.liar.book.delegated.get(result.intent)
            if delegated is None or result.transition is None:
                return True
            forged = signed_refusals(self.liar, delegated, result.transition)
            own = tuple(each for each in forged if each.endorser in self.liar.book.liars)
            refusals = self.random.choice((forged, own))
            reverted = TransactionReverted(
                result.intent, result.number, result.transition.leaf, "against the rules", refusals
            )
            self.liar.send(peer, envelope.contract, reverted)
        return False


def signed_refusals(liar: Liar, delegated: Delegated, transition: Transition) -> tuple[EndorserSignature, ...]:
    """Refusals of all endorsers; those of liars have valid signatures, the others do not."""
    digest = refusal_digest(liar.separator(delegated.contract), delegated.intent.sender, transition)
    return tuple(
        EndorserSignature(name, sign(name if name in liar.book.liars else liar.name, digest))
        for name in liar.world.by_address[delegated.contract].endorsers
    )


class RejectsIntents(Strategy):
    """Answers delegations with a rejection of each intent, or reports them as confirmed or dispatched."""

    name = "rejects-intents"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the answer to each intent."""
        body = envelope.body
        if not isinstance(body, DelegationAccepted) or not self.strikes():
            return envelope
        answer = self.random.choice(
            (Answer.REJECTED, Answer.REJECTED, Answer.CONFIRMED, Answer.DISPATCHED, Answer.FULL)
        )
        answers = tuple(IntentAnswer(each.intent, answer, "not here") for each in body.answers)
        return with_body(envelope, replace(body, answers=answers))


class LocksCoins(Strategy):
    """Has intents assembled on snapshots that lock every state of the contract."""

    name = "locks-coins"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Lock all unspent states in the snapshot, 200 at most."""
        body = envelope.body
        if not isinstance(body, AssembleRequest) or not self.strikes():
            return envelope
        state = self.liar.world.ledger.states.get(envelope.contract)
        locks = tuple(state.unspent)[-200:] if state is not None else ()
        return with_body(envelope, replace(body, snapshot=Snapshot(locks, ())))


class InventsStates(Strategy):
    """Has intents assembled on snapshots with invented states."""

    name = "invents-states"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the states of the snapshot with an invented one for each purse of the domain."""
        body = envelope.body
        if not isinstance(body, AssembleRequest) or not self.strikes():
            return envelope
        purses = (b"shared", b"shared 1", b"shared 2", b"coin of " + peer.encode())
        made = tuple(self._invented(purse, peer) for purse in purses)
        return with_body(envelope, replace(body, snapshot=replace(body.snapshot, states=made)))

    def _invented(self, purse: bytes, peer: NodeName) -> State:
        content = purse + b"/invented"
        leaf = Leaf(self.random.randbytes(32))
        return State(StateId(leaf, 0), self.random.randbytes(32), (peer, self.liar.name), content)


class PlantsStates(Strategy):
    """Shows senders and parties transitions with the right leaf and signature and with other contents.

    A sender that restarted has lost the transitions that it assembled. So the liar mostly does not ask for permission;
    when a sender restarts and delegates again, the liar asks it to permit the transition that it signed before, and
    commits it.
    """

    name = "plants-states"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.made: dict[IntentId, AssemblyResult] = {}
        self.lost: dict[IntentId, int] = {}

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Note assembled transitions, and those whose sender delegates them again as a later incarnation."""
        body = envelope.body
        if isinstance(body, AssembleResponse):
            self.made.update({result.intent: result for result in body.results if result.transition is not None})
        if isinstance(body, DelegationCommand):
            for delegation in body.delegations:
                made = self.made.get(delegation.intent.id)
                if made is not None and made.number.incarnation < delegation.number.incarnation:
                    self.lost.setdefault(delegation.intent.id, 0)
        return True

    def acts(self) -> None:
        """Show the senders the lost transitions with other contents, and commit these rounds."""
        liar = self.liar
        for intent in [each for each, count in self.lost.items() if count < PLANTED_TIMES]:
            made, delegated = self.made[intent], liar.book.delegated.get(intent)
            if delegated is None:
                continue  # The liar's node has restarted since.
            self.lost[intent] += 1
            assert made.transition is not None, "only these are remembered"
            planted = with_false_contents(made.transition, FALSE_CONTENT)
            item = DispatchItem(
                intent, made.number, planted.leaf, planted.signature, planted.valid_until_s, transition=planted
            )
            request = DispatchConfirmationRequest(liar.next_id(), Digest(self.random.randbytes(32)), (item,))
            liar.send(delegated.peer, delegated.contract, request)
        leaves = {made.transition.leaf for intent in self.lost if (made := self.made[intent]).transition is not None}
        for known, signatures in liar.book.complete():
            if not leaves.isdisjoint(known.leaves):
                liar.account.commit(known, signatures)

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop requests to assemble lost intents at first; put false contents into prepared and distributed states."""
        body = envelope.body
        if isinstance(body, AssembleRequest) and any(
            self.lost.get(intent, PLANTED_TIMES) < PLANTED_TIMES for intent in body.intents
        ):
            return None
        if isinstance(body, DispatchConfirmationRequest):
            return None if self.random.random() < HELD_BACK else envelope
        if isinstance(body, PreparedTransaction) and self.strikes():
            planted = with_false_contents(body.transition, FALSE_CONTENT)
            return with_body(envelope, replace(body, transition=planted))
        if isinstance(body, StateDistribution) and self.strikes():
            planted_all = tuple(with_false_contents(each, FALSE_CONTENT) for each in body.transitions)
            return with_body(envelope, replace(body, transitions=planted_all))
        return envelope


class DistributesFalsely(Strategy):
    """Sends false contents for states of other nodes, ahead of the true ones."""

    name = "distributes-falsely"

    def acts(self) -> None:
        """Send the last three transitions that liars know, with false contents, to every honest node."""
        for known in tuple(self.liar.book.transitions.values())[-3:]:
            if not self.strikes():
                continue
            planted = with_false_contents(known.transition, FALSE_CONTENT)
            digest = Digest(self.random.randbytes(32))
            for peer in self.liar.victims:
                seen = replace(
                    planted,
                    outputs=tuple(replace(each, distribution=(*each.distribution, peer)) for each in planted.outputs),
                )
                self.liar.send(peer, known.contract, StateDistribution(digest, (seen,)))


class ClaimsHeights(Strategy):
    """Rejects delegations because of a height that the chain never reaches."""

    name = "claims-heights"

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Reject a delegation because of a false height; the core does not receive it."""
        body = envelope.body
        if not isinstance(body, DelegationCommand) or not self.strikes():
            return True
        height = self.random.choice((FAR, FAR, self.liar.height + 1_000, 0))
        rejected = DelegationRejected(body.command_id, Rejection.MISMATCHED_BLOCK_HEIGHT, envelope.height, height)
        self.liar.send(peer, envelope.contract, rejected)
        return False


class Misdirects(Strategy):
    """Redirects senders to nodes that are not preferred, or do not exist."""

    name = "misdirects"

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Reject a delegation with a random node as the active one; the core does not receive it."""
        body = envelope.body
        if not isinstance(body, DelegationCommand) or not self.strikes():
            return True
        active = self.random.choice((*self.liar.world.nodes, NodeName("nowhere")))
        number = HeartbeatNumber(self.random.choice((0, 1, FAR)), self.random.choice((0, FAR)))
        reason = self.random.choice((Rejection.NOT_PREFERRED_COORDINATOR, Rejection.NO_LEDGER, Rejection.NOT_ALLOWED))
        rejected = DelegationRejected(body.command_id, reason, 0, 0, active, 0, number)
        self.liar.send(peer, envelope.contract, rejected)
        return False


class ListsAnything(Strategy):
    """Sends heartbeats as the active coordinator that list every intent it knows, and does nothing."""

    name = "lists-anything"

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Accept each delegation; the core does not receive it."""
        body = envelope.body
        if not isinstance(body, DelegationCommand):
            return True
        answers = tuple(IntentAnswer(each.intent.id, Answer.ACCEPTED) for each in body.delegations)
        self.liar.send(peer, envelope.contract, DelegationAccepted(body.command_id, answers, HeartbeatNumber(0, 0)))
        return False

    def acts(self) -> None:
        """Send one heartbeat to each honest node for each contract that the liar may coordinate."""
        core = self.liar.core
        assert core is not None, "only who runs acts"
        for contract in self.liar.contracts:
            if self.liar.name not in contract.committee:
                continue
            number = HeartbeatNumber(core.incarnation, core.ids.next().counter)
            for peer in self.liar.victims:
                listed = tuple(
                    ListedIntent(each.intent.id, "Pooled")
                    for each in self.liar.book.delegated.values()
                    if each.peer == peer and each.contract == contract.address
                )
                body = CoordinatorHeartbeat(number, CoordinatorState.ACTIVE, listed, count=len(listed))
                self.liar.send(peer, contract.address, body)


class ClaimsDispatch(Strategy):
    """Reports every intent that was delegated to it as dispatched and being submitted."""

    name = "claims-dispatch"

    def acts(self) -> None:
        """Report each intent as dispatched to its sender, with its leaf if that is known, else a random one."""
        core = self.liar.core
        assert core is not None, "only who runs acts"
        leaves = {each.transition.intent: each.transition.leaf for each in self.liar.book.transitions.values()}
        for delegated in list(self.liar.book.delegated.values())[-20:]:
            leaf = leaves.get(delegated.intent.id, Leaf(self.random.randbytes(32)))
            listed = SubmittedIntent(delegated.intent.id, leaf, self.liar.name, FAR, 1, 0, "", b"", Fees(0, 0))
            number = HeartbeatNumber(core.incarnation, core.ids.next().counter)
            heartbeat = SubmitterHeartbeat(number, (listed,))
            dispatched = TransactionDispatched(Digest(self.random.randbytes(32)), (listed,))
            self.liar.send(delegated.peer, delegated.contract, self.random.choice((heartbeat, dispatched)))


class HandsOverFalsely(Strategy):
    """Hands over flush points that never end and lock every state, in rounds that no node endorsed."""

    name = "hands-over-falsely"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the points and rounds that it hands over with invented ones."""
        body = envelope.body
        if not isinstance(body, Handover) or not self.strikes():
            return envelope
        liar = self.liar
        state = liar.world.ledger.states.get(envelope.contract)
        locks = tuple(state.unspent)[-15:] if state is not None else ()
        separator, until_s = liar.separator(envelope.contract), liar.time_s + liar.world.config.validity_s // 2
        known = tuple(liar.book.delegated)[-3:] or liar.foreknown[:3]
        made = tuple(made_transition(separator, each, (FALSE_CONTENT,), (peer,), until_s, locks) for each in known)
        if not made:
            return envelope
        leaves = tuple(transition.leaf for transition in made)
        digest = round_digest(separator, leaves, until_s)
        endorsers = liar.world.by_address[envelope.contract].endorsers
        signatures = tuple(EndorserSignature(name, sign(liar.name, digest)) for name in endorsers)
        points = tuple(HandedOver(FlushPoint(digest, transition.intent), transition) for transition in made)
        rounds = (HandedRound(leaves, until_s, signatures),)
        return with_body(envelope, replace(body, points=points, rounds=rounds))


class ShowsFalseMakers(Strategy):
    """Asks endorsers with makers whose states have other contents, too many makers, or none."""

    name = "shows-false-makers"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace or drop the makers."""
        body = envelope.body
        if not isinstance(body, EndorsementRequest) or not self.strikes():
            return envelope
        known = tuple(each.transition for each in self.liar.book.transitions.values())[-8:]
        false = tuple(with_false_contents(each, FALSE_CONTENT) for each in (*body.makers, *known))
        return with_body(envelope, replace(body, makers=self.random.choice((false, ()))))


class Equivocates(Strategy):
    """Reports itself to some peers as active, to others as closing with an invented successor."""

    name = "equivocates"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace state and successor, for each peer separately."""
        body = envelope.body
        if not isinstance(body, CoordinatorHeartbeat) or not self.strikes():
            return envelope
        state = self.random.choice(tuple(CoordinatorState))
        successor = self.random.choice((None, *self.liar.world.nodes, NodeName("nowhere")))
        return with_body(envelope, replace(body, state=state, successor=successor, refused=successor))

    def acts(self) -> None:
        """Claim to be active, whatever the core's state."""
        core = self.liar.core
        assert core is not None, "only who runs acts"
        for contract in self.liar.contracts:
            number = HeartbeatNumber(core.incarnation, core.ids.next().counter)
            for peer in self.liar.victims:
                if self.strikes():
                    self.liar.send(peer, contract.address, CoordinatorHeartbeat(number, CoordinatorState.ACTIVE))


class SkipsPlans(Strategy):
    """Has planned transitions signed without the attesters that their plans add, and commits them."""

    name = "skips-plans"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop requests for approval."""
        body = envelope.body
        return None if isinstance(body, EndorsementRequest) and body.asks_approval and self.strikes() else envelope

    def acts(self) -> None:
        """Ask for signatures with no plan, with fewer attesters, or with approvals that it signed itself."""
        liar = self.liar
        for known in list(liar.book.transitions.values())[-8:]:
            contract, plan = liar.contract(known.contract), liar.book.attesters.get(known.transition.leaf)
            if contract is None or plan is None or plan == NO_ATTESTERS or not self.strikes():
                continue
            until_s = known.transition.valid_until_s
            digest = round_digest(liar.separator(contract.address), (known.transition.leaf,), until_s)
            forged = sign(liar.name, approval_digest(liar.separator(contract.address), digest))
            approvals = tuple(EndorserSignature(node, forged) for node in plan.endorsers)
            weaker = (NO_ATTESTERS, Attesters(plan.signers), Attesters((), plan.endorsers), plan)
            shown = self.random.choice(weaker)
            some = self.random.choice(((), approvals))
            attesters = (shown,) if shown != NO_ATTESTERS else ()
            liar.ask_to_endorse(
                contract, (known.transition,), (known.sender,), until_s, attesters=attesters, approvals=some
            )
        for complete, signatures in liar.book.complete():
            liar.account.commit(complete, signatures)


COORDINATORS: tuple[type[Strategy], ...] = (
    NeverAssembles,
    NeverAsksPermission,
    NeverSubmits,
    SubmitsLate,
    CommitsUnpermitted,
    AsksTwice,
    SaysReverted,
    ForgesRefusals,
    RejectsIntents,
    LocksCoins,
    InventsStates,
    PlantsStates,
    DistributesFalsely,
    ClaimsHeights,
    Misdirects,
    ListsAnything,
    ClaimsDispatch,
    HandsOverFalsely,
    ShowsFalseMakers,
    Equivocates,
)
# Not drawn: it needs seeds whose transactions have plans.
ASKED_FOR: tuple[type[Strategy], ...] = (SkipsPlans,)
