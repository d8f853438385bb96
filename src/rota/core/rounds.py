"""Assembly slots and rounds: what is asked of whom, and when (protocol §7).

Theory of operation. Three things are asked of other nodes, each repeated until it is answered, and only
the answer to the current request counts:

- *Assembly*, of one sender at a time: a slot holds several of its intents, assembled one after the other
  on one snapshot. Senders take turns; one that does not answer loses its turn and comes back later.
- *Endorsement*, of all endorsers of a round: a round takes what is assembled when it opens and is signed
  once as a whole. Nothing waits artificially: rounds grow by themselves when there is load. Each endorser is shown what
  made the states that a round stands on, unless it was asked about that too; one that has forgotten says so.
- *Permission*, of each sender of an endorsed round, for all its intents in it at once.

A round is dispatched when every member that is left in it is permitted and all that they stand on is
dispatched. Members that leave an endorsed round are given to the ledger as bare leaves: the signatures
stay valid for the rest. A round stays here until each of its members has its outcome. What is external shares
no round with what is to be dispatched, and leaves its round when it is prepared (`issuing.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from rota.core.coordinator_transaction import CoordinatorTransaction
from rota.core.effects import DispatchRound, VerifyEndorsement
from rota.core.events import EndorsementVerified, RoundDispatched, RoundDispatchFailed, RoundSubmitted
from rota.core.events.coordinator_transaction import (
    Collected,
    DispatchConfirmationRejected,
    DispatchConfirmed,
    Endorsed,
    EndorsedRejected,
    NonceAllocated,
    Submitted,
    ValidityEnded,
)
from rota.core.events.rounds import DispatchRetryDue, PermissionRepeatDue, RoundRepeatDue
from rota.core.machine import Event
from rota.core.makers import Showing, makers_of
from rota.core.states.coordinator_transaction import ON_THE_WAY, State
from rota.digests import round_digest
from rota.messages import (
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    DispatchItem,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    Refusal,
    Rejection,
    SubmittedIntent,
    TransactionDispatched,
)
from rota.payload import AuthCost, fitting
from rota.types import Digest, FlushPoint, IntentId, KeptStates, Leaf, NodeName, RequestId
from rota.wire.sizes import fitting as fitting_a_message

if TYPE_CHECKING:
    from rota.core.coordinator import Coordinator


class Phase(Enum):
    """How far a round is."""

    ENDORSING = "endorsing"
    ENDORSED = "endorsed"
    DISPATCHING = "dispatching"
    DISPATCHED = "dispatched"


@dataclass(slots=True)
class Permission:
    """One permission request under way: of whom, for which round and intents."""

    request_id: RequestId
    sender: NodeName
    round: Round
    intents: dict[IntentId, None]


@dataclass(slots=True)
class Round:
    """Transitions that are endorsed together, and what they stand on; each endorser is shown what it has not seen."""

    number: int
    digest: Digest
    leaves: tuple[Leaf, ...]
    valid_until_s: int
    members: dict[IntentId, CoordinatorTransaction]
    opened_at_ms: int
    showing: Showing
    phase: Phase = Phase.ENDORSING
    requests: dict[NodeName, RequestId] = field(default_factory=dict)
    signatures: dict[NodeName, bytes] = field(default_factory=dict)
    refusals: dict[NodeName, dict[IntentId, Refusal]] = field(default_factory=dict)
    rejections: dict[NodeName, str] = field(default_factory=dict)
    ask_count: int = 0
    dispatch_attempts: int = 0

    @property
    def size_bytes(self) -> int:
        """How much of a message its members take."""
        return sum(member.size_bytes for member in self.members.values())

    def missing(self) -> tuple[NodeName, ...]:
        """The endorsers that have neither signed nor refused."""
        return tuple(node for node in self.requests if node not in self.signatures and node not in self.refusals)


class Rounds:
    """The requests of one coordinator. Selecting and opening happen only while it is Active."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.context = coordinator.context
        self.unrounded: list[CoordinatorTransaction] = []
        self.rounds: dict[Digest, Round] = {}
        self.round_by_request: dict[RequestId, Round] = {}
        self.to_confirm: list[CoordinatorTransaction] = []
        self.permissions: dict[RequestId, Permission] = {}
        self.opened_count = 0

    def handle(self, event: Event) -> None:
        """A timer of ours has run out."""
        match event:
            case RoundRepeatDue(digest):
                self._ask_missing(self.rounds[digest])
            case PermissionRepeatDue(request_id):
                self._send_permission(self.permissions[request_id], again=True)
            case _:
                assert isinstance(event, DispatchRetryDue), "the rounds know their timers"
                self.rounds[event.digest].phase = Phase.ENDORSED
        self.coordinator.something_changed()

    def confirm_and_dispatch(self) -> None:
        """Ask for permissions and dispatch what is ready; a coordinator in Flush does this much."""
        if self.to_confirm:
            self._ask_permissions()
        for opened in tuple(self.rounds.values()):
            self._dispatch_if_ready(opened)

    # Endorsement.

    def expire(self) -> None:
        """What is valid no longer in chain time, and not on its way to the disk, is assembled anew."""
        dispatching = (Phase.DISPATCHING, Phase.DISPATCHED)
        for transaction in tuple(self.coordinator.transactions.values()):
            transition, opened = transaction.transition, transaction.round
            if transition is None or (opened is not None and opened.phase in dispatching):
                continue
            valid_until_s = opened.valid_until_s if opened is not None else transition.valid_until_s
            if valid_until_s < self.context.chain_time_s:
                transaction.handle(ValidityEnded())

    def await_round(self, transaction: CoordinatorTransaction) -> None:
        """Assembled: it goes with the next round that opens."""
        self.unrounded.append(transaction)

    def leave(self, transaction: CoordinatorTransaction) -> None:
        """Given up: it goes from its round, and nothing may be built on its states."""
        self.coordinator.slots.refuse_states_of(transaction.leaf)
        self.settle(transaction)

    def settle(self, transaction: CoordinatorTransaction) -> None:
        """It has its outcome, or was given up: its round no longer waits for it."""
        if transaction in self.to_confirm:
            self.to_confirm.remove(transaction)
        opened, transaction.round = transaction.round, None
        if opened is None:
            if transaction in self.unrounded:
                self.unrounded.remove(transaction)
            return
        del opened.members[transaction.intent.id]
        for permission in tuple(self.permissions.values()):
            if permission.round is opened and transaction.intent.id in permission.intents:
                self._close_permission(permission, transaction.intent.id)
        if not opened.members:
            self._close_round(opened)
        elif opened.phase is Phase.ENDORSING:
            self._ask_anew(opened)
        self.coordinator.something_changed()

    def dependencies_ready(self, transaction: CoordinatorTransaction) -> bool:
        """All that it stands on is in its own round, or ready for dispatch, or another coordinator's dispatch."""
        for placed in self.coordinator.graph.dependencies(transaction.leaf):
            maker = self.coordinator.transactions.get(placed.intent)
            if placed.point is not None or maker is None or maker.round is transaction.round:
                continue
            if maker.state not in ON_THE_WAY:
                return False
        return True

    def dependencies_dispatched(self, transaction: CoordinatorTransaction) -> bool:
        """All that it stands on is on the chain, or on its way there by a dispatch that is durable."""
        makers = (
            self.coordinator.transactions.get(placed.intent)
            for placed in self.coordinator.graph.dependencies(transaction.leaf)
            if placed.point is None
        )
        return all(maker is None or maker.state in (State.DISPATCHED, State.SUBMITTED) for maker in makers)

    def is_undispatched(self, transaction: CoordinatorTransaction) -> bool:
        """Its round has not been given to the submitter."""
        return transaction.round is not None and transaction.round.phase is Phase.ENDORSED

    def take_endorsement(self, peer: NodeName, response: EndorsementResponse) -> None:
        """A signature over the whole round, or what an endorser refuses of it."""
        opened = self._round_asked(peer, response.request_id)
        if opened is None or response.digest != opened.digest:
            return
        if response.signature and not response.refusals:
            if peer == self.context.node:
                self._take_signature(opened, peer, response.signature)
            else:
                address = self.context.contract.address
                order = VerifyEndorsement(address, peer, opened.digest, response.signature)
                self.context.effects.append(order)
            return
        refused = {refusal.intent: refusal for refusal in response.refusals if refusal.intent in opened.members}
        if refused:
            opened.showing.note_unseen(peer, opened.members.values())
            opened.refusals[peer] = refused
            self._weigh_refusals(opened)
            self.coordinator.something_changed()

    def take_verified(self, event: EndorsementVerified) -> None:
        """A signature counts when it is the endorser's own; another is as good as none, and is asked for again."""
        opened = self.rounds.get(event.digest)
        if opened is None or opened.phase is not Phase.ENDORSING or event.peer not in opened.missing():
            return
        if event.is_valid:
            self._take_signature(opened, event.peer, event.signature)
        else:
            opened.rejections[event.peer] = "with a signature that is not its own"
            self._renew_request(opened, event.peer)

    def _take_signature(self, opened: Round, peer: NodeName, signature: bytes) -> None:
        opened.signatures[peer] = signature
        if len(opened.signatures) == self.context.contract.threshold:
            self._endorse(opened)

    def take_endorsement_error(self, peer: NodeName, error: EndorsementError) -> None:
        """By §5 the endorser cannot accept us now, or it lacks states: no refusal. It is asked again, by a new id."""
        opened = self._round_asked(peer, error.request_id)
        if opened is None:
            return
        opened.rejections[peer] = error.rejection.value
        self._renew_request(opened, peer)
        if error.rejection is Rejection.MISSING_STATES:
            # The rest it asks others for, and is asked again in a while.
            if opened.showing.take_missing(peer, error.missing):
                self._request_endorsement(opened, peer)
        else:
            opened.showing.note_unseen(peer, opened.members.values())
            self.coordinator.endorser_follows(error.accepted)

    def _renew_request(self, opened: Round, peer: NodeName) -> None:
        """A retry after an error has a new request id (protocol §4.2)."""
        del self.round_by_request[opened.requests[peer]]
        opened.requests[peer] = self.context.next_id()
        self.round_by_request[opened.requests[peer]] = opened

    def open_rounds(self) -> None:
        """Everything that is assembled goes, up to `round_max`, while not too many are under way."""
        config = self.context.config
        while (
            self.unrounded
            and self._endorsing_count() < config.rounds_open_max
            and self._ahead_count() < config.dispatch_ahead_max
        ):
            taken = self._members_of_next_round()
            intents = {transaction.intent.id for transaction in taken}
            self.unrounded = [waiting for waiting in self.unrounded if waiting.intent.id not in intents]
            self._open_round(taken)

    def _ahead_count(self) -> int:
        """Rounds between their opening and their confirmation, those of before our restart among them (protocol §7)."""
        restored = {handed.point.digest for handed in self.coordinator.restored.values()}
        return len(self.rounds) + len(restored)

    def _members_of_next_round(self) -> list[CoordinatorTransaction]:
        """One whose endorsers could not agree on a round goes alone; the others go together with their kind.

        A round is no larger than what one base-ledger transaction holds (ledger), and one message.
        """
        first = self.unrounded[0]
        if first.goes_alone:
            return [first]
        together = takewhile(lambda transaction: not transaction.goes_alone, self.unrounded)
        alike = (transaction for transaction in together if _kind_of(transaction) == _kind_of(first))
        config = self.context.config
        some = islice(alike, config.round_max)
        taken = fitting_a_message(some, lambda transaction: transaction.size_bytes, config.round_bytes_max)
        contract = self.context.contract
        auth = AuthCost.of(contract)
        return taken[: fitting((transaction.made for transaction in taken), auth)]

    def _endorsing_count(self) -> int:
        """One that waits for a missing endorser longer than `state_timeout` does not count (protocol §7)."""
        since_ms = self.context.now_ms - self.context.config.state_timeout_ms
        return sum(
            opened.phase is Phase.ENDORSING and opened.opened_at_ms > since_ms for opened in self.rounds.values()
        )

    def _open_round(self, taken: list[CoordinatorTransaction]) -> None:
        leaves = tuple(transaction.leaf for transaction in taken)
        config = self.context.config
        validity_s = config.prepared_validity_s if _kind_of(taken[0]).is_prepared else config.validity_s
        valid_until_s = min(
            self.context.chain_time_s + validity_s, *(transaction.made.valid_until_s for transaction in taken)
        )
        digest = round_digest(self.context.separator, leaves, valid_until_s)
        self.opened_count += 1
        members = {transaction.intent.id: transaction for transaction in taken}
        showing = Showing(makers_of(self.coordinator, taken))
        opened = Round(self.opened_count, digest, leaves, valid_until_s, members, self.context.now_ms, showing)
        self.rounds[digest] = opened
        for transaction in taken:
            transaction.round, transaction.digest = opened, digest
        for endorser in self.context.contract.endorsers:
            opened.requests[endorser] = self.context.next_id()
            self.round_by_request[opened.requests[endorser]] = opened
        if self.context.contract.threshold == 0:
            self._endorse(opened)
        else:
            self._ask_missing(opened)

    def _ask_missing(self, opened: Round) -> None:
        """Ask those that have not answered; less often after `state_timeout`, but never not at all."""
        for endorser in opened.missing():
            self._request_endorsement(opened, endorser)
        if opened.ask_count:
            self.coordinator.tell_asked_again(opened.members)
        opened.ask_count += 1
        config = self.context.config
        delay_ms = config.request_timeout_ms
        late = opened.ask_count - config.state_timeout_ms // config.request_timeout_ms
        if late > 0:
            delay_ms = self.context.backoff_ms(late, config.request_timeout_ms, config.retry_backoff_max_ms)
        due_ms = self.context.after(delay_ms)
        self.context.timers.set(self, f"round {opened.number}", due_ms, RoundRepeatDue(opened.digest))

    def _request_endorsement(self, opened: Round, endorser: NodeName) -> None:
        transitions = tuple(member.made.as_seen_by(endorser) for member in opened.members.values())
        senders = tuple(member.intent.sender for member in opened.members.values())
        request = EndorsementRequest(
            opened.requests[endorser],
            opened.digest,
            transitions,
            senders,
            opened.valid_until_s,
            self.coordinator.observer.tried(),
            opened.showing.choose(endorser, self.context.config.message_bytes_max - opened.size_bytes),
            tuple(member.intent.nonce for member in opened.members.values()),
        )
        self.context.send(endorser, request)
        if self.coordinator.observer.is_reachable(endorser):
            opened.showing.note_seen(endorser, opened.members.values())

    def _round_asked(self, peer: NodeName, request_id: RequestId) -> Round | None:
        """The round that this answer is for, if the request is the current one for that endorser."""
        opened = self.round_by_request.get(request_id)
        if opened is None or opened.phase is not Phase.ENDORSING or opened.requests.get(peer) != request_id:
            return None
        return opened if peer in opened.missing() else None

    def _endorse(self, opened: Round) -> None:
        opened.phase = Phase.ENDORSED
        self.context.timers.cancel(self, f"round {opened.number}")
        for transaction in tuple(opened.members.values()):
            transaction.handle(Endorsed())
        self.coordinator.something_changed()

    def _weigh_refusals(self, opened: Round) -> None:
        """Leave the endorser out, or let the refused leave and ask the rest again (protocol §4.2)."""
        contract = self.context.contract
        spare = len(contract.endorsers) - contract.threshold
        by_intent: dict[IntentId, list[Refusal]] = {}
        for refusals in opened.refusals.values():
            for intent, refusal in refusals.items():
                by_intent.setdefault(intent, []).append(refusal)
        refused = {intent: found for intent, found in by_intent.items() if len(found) > spare}
        if not refused and len(opened.refusals) <= spare:
            return
        rejected = [(opened.members[intent], found) for intent, found in refused.items()]
        if not rejected:
            for intent in by_intent:
                opened.members[intent].goes_alone = True
            self._ask_anew(opened)
        for transaction, found in rejected:
            self._reject(transaction, found, spare)

    def _reject(self, transaction: CoordinatorTransaction, refusals: list[Refusal], spare: int) -> None:
        """It leaves. Where states are kept for others nothing is wrong with it: those states are locked from now on."""
        if transaction.transition is None:
            return  # What it stood on was refused too, and has taken it along.
        kept = [self._in_the_way(transaction, refusal) for refusal in refusals]
        is_counted = sum(not found for found in kept) > spare
        transaction.handle(EndorsedRejected(refusals[0].reason, is_counted))
        for each in chain.from_iterable(kept if not is_counted else ()):
            self.coordinator.respect(each)

    def _in_the_way(self, transaction: CoordinatorTransaction, refusal: Refusal) -> tuple[KeptStates, ...]:
        """What is kept, by an endorser's word, of the states that it spends or reads; it must be possible."""
        transition = transaction.made
        references = frozenset((*transition.inputs, *transition.reads))
        return tuple(
            kept
            for kept in refusal.kept
            if kept.intent != transition.intent
            and not references.isdisjoint(kept.inputs)
            and self.coordinator.may_be_kept(kept)
        )

    def _ask_anew(self, opened: Round) -> None:
        """The endorsers cannot sign this round as it is: what is left of it goes into new ones."""
        members = list(opened.members.values())
        for transaction in members:
            transaction.round = None
        self._close_round(opened)
        self.unrounded = sorted(
            (*members, *self.unrounded), key=lambda waiting: self.coordinator.graph.placed[waiting.leaf].order
        )

    def _close_round(self, opened: Round) -> None:
        del self.rounds[opened.digest]
        for request_id in opened.requests.values():
            del self.round_by_request[request_id]
        self.context.timers.cancel(self, f"round {opened.number}")
        self.context.timers.cancel(self, f"dispatch {opened.number}")

    # Permission.

    def await_permission(self, transaction: CoordinatorTransaction) -> None:
        """Endorsed, and nothing that it stands on is in the way."""
        self.to_confirm.append(transaction)

    def ask_permission_with_states(self, transaction: CoordinatorTransaction) -> None:
        """Its sender lost the states in a restart: the next request carries them."""
        transaction.sends_states = True
        self.to_confirm.append(transaction)
        self.coordinator.something_changed()

    def take_permission(self, peer: NodeName, response: DispatchConfirmationResponse) -> None:
        """Permission for the leaves that were asked for in the current request."""
        permission = self._permission_asked(peer, response.request_id)
        for intent in response.intents:
            if permission is not None and intent in permission.intents:
                self._close_permission(permission, intent)
                permission.round.members[intent].handle(DispatchConfirmed())

    def take_permission_error(self, peer: NodeName, error: DispatchConfirmationError) -> None:
        """No permission: those leave, with what stands on them."""
        permission = self._permission_asked(peer, error.request_id)
        for failed in error.errors:
            if permission is not None and failed.intent in permission.intents:
                self._close_permission(permission, failed.intent)
                permission.round.members[failed.intent].handle(DispatchConfirmationRejected(failed.code))

    def _ask_permissions(self) -> None:
        """One request for all intents of one sender in one round."""
        groups: dict[tuple[int, NodeName], Permission] = {}
        for transaction in self.to_confirm:
            assert transaction.round is not None, "what is confirmed has a round"
            key = (transaction.round.number, transaction.sender)
            if key not in groups:
                request_id = self.context.next_id()
                groups[key] = Permission(request_id, transaction.sender, transaction.round, {})
            groups[key].intents[transaction.intent.id] = None
        self.to_confirm.clear()
        for permission in groups.values():
            self.permissions[permission.request_id] = permission
            self._send_permission(permission)

    def _send_permission(self, permission: Permission, again: bool = False) -> None:
        members = [permission.round.members[intent] for intent in permission.intents]
        items = tuple(_dispatch_item(member) for member in members)
        request = DispatchConfirmationRequest(permission.request_id, permission.round.digest, items)
        self.context.send(permission.sender, request)
        if again:
            self.coordinator.tell_asked_again(permission.intents)
        due_ms = self.context.after(self.context.config.request_timeout_ms)
        request_id = permission.request_id
        self.context.timers.set(self, f"permission {request_id}", due_ms, PermissionRepeatDue(request_id))

    def _permission_asked(self, peer: NodeName, request_id: RequestId) -> Permission | None:
        permission = self.permissions.get(request_id)
        return permission if permission is not None and permission.sender == peer else None

    def _close_permission(self, permission: Permission, intent: IntentId) -> None:
        del permission.intents[intent]
        if not permission.intents:
            del self.permissions[permission.request_id]
            self.context.timers.cancel(self, f"permission {permission.request_id}")

    # Dispatch.

    def take_dispatched(self, event: RoundDispatched) -> None:
        """The dispatch is durable: tell the senders."""
        opened = self.rounds.get(event.digest)
        if opened is None:
            return
        opened.phase = Phase.DISPATCHED
        told: dict[NodeName, list[SubmittedIntent]] = {}
        for transaction in tuple(opened.members.values()):
            transaction.handle(Collected())
            transaction.handle(NonceAllocated(event.signer, event.nonce))
            submitted = SubmittedIntent(transaction.intent.id, transaction.leaf, event.signer, event.nonce, 0)
            told.setdefault(transaction.sender, []).append(submitted)
        for sender, intents in told.items():
            self.context.send(sender, TransactionDispatched(event.digest, tuple(intents)))

    def take_dispatch_failure(self, event: RoundDispatchFailed) -> None:
        """The write failed: try again with backoff; nobody else is touched."""
        opened = self.rounds.get(event.digest)
        if opened is None:
            return
        config = self.context.config
        delay_ms = self.context.backoff_ms(
            opened.dispatch_attempts, config.retry_backoff_ms, config.retry_backoff_max_ms
        )
        opened.dispatch_attempts += 1
        due_ms = self.context.after(delay_ms)
        self.context.timers.set(self, f"dispatch {opened.number}", due_ms, DispatchRetryDue(event.digest))

    def take_submitted(self, event: RoundSubmitted) -> None:
        """The round's base-ledger transaction was sent to the chain."""
        opened = self.rounds.get(event.digest)
        for transaction in tuple(opened.members.values()) if opened is not None else ():
            transaction.handle(Submitted(event.submission_count))

    def flush_points(self) -> tuple[CoordinatorTransaction, ...]:
        """All that is past the point of no return and has no outcome."""
        return tuple(t for t in self.coordinator.transactions.values() if t.is_flush_point)

    def has_unwritten_dispatch(self) -> bool:
        """Something is ready for dispatch but not yet durable."""
        return any(transaction.state is State.READY_FOR_DISPATCH for transaction in self.flush_points())

    def _dispatch_if_ready(self, opened: Round) -> None:
        members = opened.members.values()
        if opened.phase is not Phase.ENDORSED or any(m.state is not State.READY_FOR_DISPATCH for m in members):
            return
        if not all(self._makers_are_dispatched(member, opened) for member in members):
            return
        opened.phase = Phase.DISPATCHING
        self.context.effects.append(
            DispatchRound(
                self.context.contract.address,
                opened.digest,
                opened.leaves,
                tuple(member.made for member in members),
                tuple(member.sender for member in members),
                tuple(opened.signatures.items()),
                opened.valid_until_s,
            )
        )

    def _makers_are_dispatched(self, member: CoordinatorTransaction, opened: Round) -> bool:
        for placed in self.coordinator.graph.dependencies(member.leaf):
            maker = self.coordinator.transactions.get(placed.intent)
            makers_round = maker.round if maker is not None else None
            if makers_round not in (None, opened) and makers_round.phase is not Phase.DISPATCHED:
                return False
        return True


class Kind(NamedTuple):
    """What the members of one round have in common: who is to commit them, and how long they may be valid."""

    is_external: bool
    is_prepared: bool


def _kind_of(transaction: CoordinatorTransaction) -> Kind:
    return Kind(transaction.is_external, transaction.made.preparation is not None)


def flush_point_of(transaction: CoordinatorTransaction) -> FlushPoint:
    """A flush point is (round digest, intent id): a skip of an older version does not count."""
    assert transaction.digest is not None, "a flush point was endorsed in a round"
    return FlushPoint(transaction.digest, transaction.intent.id)


def _dispatch_item(member: CoordinatorTransaction) -> DispatchItem:
    transition = member.made
    return DispatchItem(
        member.intent.id,
        member.number,
        transition.leaf,
        transition.signature,
        transition.valid_until_s,
        transition if member.sends_states else None,
    )
