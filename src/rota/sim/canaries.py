"""Deliberately broken cores: each must be caught by the invariant that it names, or the checkers are blind.

`breaking.py` has the tools to break a core and to restore it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

from rota.chain.effects import DispatchRepriced, RoundDispatch
from rota.chain.events import DispatchSigned
from rota.chain.submitter import Submitter
from rota.exchange.distribution import Delivery, Distribution
from rota.exchange.effects import RecallDeliveries
from rota.machine.context import StepContext
from rota.machine.effects import Effect, Persist, ReplyToUser
from rota.machine.tables import Event, Row
from rota.model.blocks import ChainBlock, LedgerOutcome
from rota.model.consistency import Consistent
from rota.model.types import (
    ContractAddress,
    Digest,
    IntentId,
    KeptStates,
    Leaf,
    Mode,
    NodeName,
    RequestId,
    Rotation,
    State,
    StateId,
    Transition,
)
from rota.node.node import Node
from rota.node.private_states import PrivateStates
from rota.node.stored import StoredNode
from rota.sequencer import assembly
from rota.sequencer import coordinator as coordinator_rules
from rota.sequencer import sender as sender_rules
from rota.sequencer import sender_transaction as sender_transaction_rules
from rota.sequencer.context import Context
from rota.sequencer.coordinator import TABLE as COORDINATOR
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.coordinator_events import TransactionsDelegated
from rota.sequencer.coordinator_transaction import CoordinatorTransaction
from rota.sequencer.coordinator_transaction_events import DispatchConfirmed
from rota.sequencer.effects import CheckRound
from rota.sequencer.endorser import Endorser
from rota.sequencer.events import EndorsementVerified, RoundChecked
from rota.sequencer.graph import Graph
from rota.sequencer.held_intent import Round
from rota.sequencer.kept import Kept
from rota.sequencer.observer import Observer
from rota.sequencer.permissions import Permission, Permissions
from rota.sequencer.rounds import Rounds
from rota.sequencer.selection import ranking
from rota.sequencer.sender import TABLE as SENDER
from rota.sequencer.sender import Sender
from rota.sequencer.sender_events import DelegationAnswered, DelegationRefused, HeartbeatInterval
from rota.sequencer.sender_events import HeartbeatReceived as SenderHeartbeatReceived
from rota.sequencer.sender_transaction import PERMITTED, SenderTransaction
from rota.sequencer.sender_transaction import TABLE as SENDER_TRANSACTION
from rota.sequencer.sender_transaction import State as TransactionState
from rota.sequencer.sender_transaction_events import AssembleRequestReceived
from rota.sequencer.sequencer import Sequencer
from rota.sim import domain
from rota.sim.breaking import MINUTES, Canary, both, reading, replacing, rewriting, under, with_action, without_guard
from rota.sim.deployment_canaries import DEPLOYMENT_CANARIES
from rota.sim.invariants import EVERY
from rota.sim.ledger import Ledger
from rota.sim.ledger_canaries import LEDGER_CANARIES
from rota.sim.plan import Settings
from rota.wire.messages import (
    Answer,
    Delegation,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    ErrorCode,
    IntentAnswer,
    Refusal,
    Snapshot,
    StateDistribution,
    StateDistributionAcknowledgement,
)

# A sender that permits this seldom costs its coordinators as many assemblies.
PERMITS_ONE_IN = 7


# Safety and liveness.


def _take_effects_before_writing(context: StepContext) -> list[Effect]:
    effects, context.effects = context.effects, []
    if context.records:
        effects.append(Persist(context.contract.address, tuple(context.records)))
        context.records = []
    return effects


def _sign_without_using_the_nonce(
    submitter: Submitter, now_ms: int, event: DispatchSigned
) -> RoundDispatch | DispatchRepriced | None:
    nonce = submitter.next_nonce
    record = _take_signed(submitter, now_ms, event)
    submitter.next_nonce = nonce
    return record


def _sign_and_pass_over_a_nonce(
    submitter: Submitter, now_ms: int, event: DispatchSigned
) -> RoundDispatch | DispatchRepriced | None:
    record = _take_signed(submitter, now_ms, event)
    submitter.next_nonce += isinstance(record, RoundDispatch)
    return record


def _sign_for_anybody(endorser: Endorser, event: RoundChecked) -> None:
    check = endorser.checking.pop((event.peer, event.request_id), None)
    if check is not None:
        endorser._answer(event.peer, check.request, event.signature, event.refusals)


def _permission_of_anybody(permissions: Permissions, _peer: NodeName, request_id: RequestId) -> Permission | None:
    return permissions.open.get(request_id)


def _take_any_permission(permissions: Permissions, peer: NodeName, _response: DispatchConfirmationResponse) -> None:
    """Take any reply of a sender as the answer to the open request."""
    for permission in [each for each in permissions.open.values() if each.sender == peer]:
        for intent in tuple(permission.intents):
            permissions._close(permission, intent)
            permission.round.members[intent].handle(DispatchConfirmed())


def _round_of_any_request(rounds: Rounds, _peer: NodeName, request_id: RequestId) -> Round | None:
    return rounds.round_by_request.get(request_id)


def _believe_any_signature(rounds: Rounds, event: EndorsementVerified) -> None:
    _take_verified(rounds, replace(event, is_valid=True))


def _everybody_sees_it(seen: State, _node: NodeName) -> State:
    return seen


def _never_again(distribution: Distribution, now_ms: int) -> list[Delivery | RecallDeliveries]:
    due = _take_due(distribution, now_ms)
    for delivery in (each for each in due if isinstance(each, Delivery)):
        distribution._peers[delivery.peer].window[delivery.digest, delivery.part].order = -1
    return due


def _one_window(distribution: Distribution, now_ms: int) -> list[Delivery | RecallDeliveries]:
    return [each for each in _take_due(distribution, now_ms) if isinstance(each, Delivery)]


def _with_the_incarnation_before(stored: StoredNode) -> StoredNode:
    return replace(stored, incarnation=max(0, stored.incarnation - 1))


def _without_deliveries(stored: StoredNode) -> StoredNode:
    return replace(stored, owed=())


def _without_nonces(stored: StoredNode) -> StoredNode:
    return replace(stored, accounts={})


def _without_permissions(stored: StoredNode) -> StoredNode:
    forgetful = {
        address: replace(contract, intents=tuple(replace(known, permission=None) for known in contract.intents))
        for address, contract in stored.contracts.items()
    }
    return replace(stored, contracts=forgetful)


def _without_prepared(stored: StoredNode) -> StoredNode:
    forgetful = {
        address: replace(
            contract,
            intents=tuple(replace(known, issued=None) for known in contract.intents),
            unacknowledged=(),
            endorsed=(),
        )
        for address, contract in stored.contracts.items()
    }
    return replace(stored, contracts=forgetful)


def _begin_assembly_under_the_same_number(transaction: SenderTransaction, event: AssembleRequestReceived) -> None:
    transaction.stop_hold()
    transaction.request_id = event.request_id
    transaction.result = None
    transaction.permission = None
    transaction.lease_ms = transaction.context.now_ms


def _cancelled_although_permitted(row: Row) -> Row:
    if row.do is not sender_transaction_rules.refuse_cancel or row.state not in PERMITTED.states:
        return row
    return replace(row, then=TransactionState.REVERTED, do=sender_transaction_rules.accept_cancel)


def _commit_again(ledger: Ledger, contract: ContractAddress, digest: Digest, transition: Transition) -> LedgerOutcome:
    """A ledger that does not check whether an intent is used."""
    ledger.states[contract].used.pop(transition.intent, None)
    return _commit_one(ledger, contract, digest, transition)


def _spend_again(ledger: Ledger, contract: ContractAddress, digest: Digest, transition: Transition) -> LedgerOutcome:
    """A ledger that does not check whether a state is available."""
    unspent = ledger.states[contract].unspent
    for reference in (*transition.reads, *transition.inputs):
        if reference in ledger._made:
            unspent.setdefault(reference, ledger._made[reference])
    return _commit_one(ledger, contract, digest, transition)


def _ignore_removed(node: Node, parted_at: int, _blocks: tuple[ChainBlock, ...]) -> None:
    node.height = parted_at


def _report_at_the_head(node: Node, block: ChainBlock) -> None:
    _take_block(node, block)
    node._take_final(block)


def _skip_empty_blocks(node: Node, block: ChainBlock) -> None:
    if block.outcomes:
        _take_block(node, block)


def _never_busy(_sequencer: Sequencer) -> bool:
    return False


def _partly_accepted_is_a_failure(sender: Sender, event: DelegationAnswered) -> None:
    if any(answer.answer is Answer.FULL for answer in event.accepted.answers):
        sender_rules._close_command(sender)
        sender.is_full = True
        return
    sender_rules.take_answers(sender, event)


def _names_somebody(_sender: Sender, event: DelegationRefused) -> bool:
    """Accept the named node, whichever peer answers and whatever was asked."""
    return event.rejected.active is not None


def _wait_for_an_answer(sender: Sender, transactions: list[SenderTransaction]) -> None:
    """Send a command once, and wait for its answer without a timeout or a repeat."""
    _send_command(sender, transactions)
    sender.context.timers.cancel(sender, "timeout")
    sender.context.timers.cancel(sender, "repeat")


def _take_heartbeat_without_leases(sender: Sender, _event: SenderHeartbeatReceived) -> None:
    """Ignore the list of intents in the heartbeat."""
    sender_rules._expect_room(sender)
    sender_rules._reconsider(sender)
    sender_rules._watch_delegate(sender)


def _check_delegate_without_leases(sender: Sender, _event: HeartbeatInterval) -> None:
    sender_rules._reconsider(sender)
    if sender_rules._is_overdue(sender) and sender.command is None:
        sender_rules._send_command(sender, sender_rules._held_by_delegate(sender))
    sender_rules._watch_delegate(sender)


def _ahead_in_this_life(rounds: Rounds) -> int:
    return sum(opened.apart is None for opened in rounds.rounds.values())


def _answer_without_bound(
    coordinator: Coordinator, event: TransactionsDelegated, delegation: Delegation
) -> IntentAnswer:
    context, config = coordinator.context, coordinator.context.config
    context.config = replace(config, in_flight_max=1_000_000)
    answer = _answer(coordinator, event, delegation)
    context.config = config
    return answer


def _forget_waiters(coordinator: Coordinator, transaction: CoordinatorTransaction, _event: Event) -> None:
    """Remove the edges before dependents are notified."""
    coordinator.waiters.pop(transaction.intent.id, None)


def _follows_the_first(observer: Observer, _node: NodeName) -> bool:
    return observer.accepted is None or observer.is_silent(observer.accepted)


def _acknowledge_at_once(
    states: PrivateStates, peer: NodeName, contract: ContractAddress, body: StateDistribution
) -> None:
    states.node.send(peer, contract, StateDistributionAcknowledgement(body.digest, body.part))


def _always_the_same_ranking(context: Context, _block_range: int) -> tuple[NodeName, ...]:
    return ranking(context.contract, 0, context.node)


# Promises to users.


def _check_and_refuse_reads(
    order: CheckRound, payloads: Mapping[IntentId, bytes], node: NodeName | None = None
) -> tuple[Refusal, ...]:
    reading = tuple(
        Refusal(transition.intent, "against the rules", leaf=transition.leaf)
        for transition in order.transitions
        if transition.reads
    )
    return _check(order, payloads, node) or reading


def _take_effects_without_answers(node: Node) -> list[Effect]:
    return [effect for effect in _take_effects(node) if not isinstance(effect, ReplyToUser)]


def _reads_enough(*_version: object) -> bool:
    return True


def _nothing_signed_away(_kept: Kept, _transition: Transition) -> tuple[KeptStates, ...]:
    return ()


def _nothing_taken(_kept: Kept, _transition: Transition) -> bool:
    return False


def _no_locks(_kept: Kept, _intents: Iterable[IntentId]) -> tuple[StateId, ...]:
    return ()


def _acknowledge_what_is_new(
    states: PrivateStates, peer: NodeName, contract: ContractAddress, body: StateDistribution
) -> None:
    """Do not repeat a lost acknowledgement."""
    if not states.distribution.is_received(contract, tuple(map(Consistent, body.transitions))):
        _take_states(states, peer, contract, body)


def _remove_and_keep_locks(graph: Graph, leaf: Leaf) -> None:
    """Keep the locks of a removed transition."""
    _leaked.setdefault(graph, {}).update(dict.fromkeys(graph.placed[leaf].inputs))
    _remove(graph, leaf)


def _snapshot_with_leaked_locks(graph: Graph, *arguments: object, **options: object) -> Snapshot:
    told = _snapshot(graph, *arguments, **options)  # type: ignore[arg-type]
    return replace(told, locks=tuple(dict.fromkeys((*told.locks, *_leaked.get(graph, {})))))


def _seldom_permit(sender: Sender, peer: NodeName, request: DispatchConfirmationRequest) -> None:
    """Answer one request in many; the others make the coordinator start again."""
    if request.request_id.counter % PERMITS_ONE_IN == 0:
        _take_permission_request(sender, peer, request)
        return
    for item in request.items:
        sender.refuse_dispatch(peer, request.request_id, item.intent, ErrorCode.WRONG_LEAF)


_take_signed = Submitter.take_signed
_take_block = Node._take_block
_take_verified = Rounds.take_verified
_take_due = Distribution.take_due
_commit_one = Ledger._commit_one
_answer = coordinator_rules._answer
_send_command = sender_rules._send_command
_check = domain.check
_remove = Graph.remove
_snapshot = Graph.snapshot
_leaked: WeakKeyDictionary[Graph, dict[StateId, None]] = WeakKeyDictionary()
_take_states = PrivateStates.take_states
_take_permission_request = Sender.take_permission_request
_take_effects = Node._take_effects

CANARIES: tuple[Canary, ...] = (
    Canary(
        "sends before persisting", "S3", replacing(StepContext, "take_effects", _take_effects_before_writing), under()
    ),
    Canary("reuses a nonce", "S7", replacing(Submitter, "take_signed", _sign_without_using_the_nonce), under()),
    Canary("leaves a gap of nonces", "S7", replacing(Submitter, "take_signed", _sign_and_pass_over_a_nonce), under()),
    Canary(
        "signs for two coordinators",
        "S6",
        replacing(Endorser, "take_checked", _sign_for_anybody),
        under("cut", "loss", "hang", "disk", "stale", mode=Mode.RING),
    ),
    Canary("sends a state to a stranger", "S8", replacing(State, "as_seen_by", _everybody_sees_it), under()),
    Canary("forgets a permission on restart", "S9", reading(_without_permissions), under("crash")),
    Canary("forgets prepared transitions on restart", "S9", reading(_without_prepared), under("crash")),
    Canary("starts as the incarnation of before", "S9", reading(_with_the_incarnation_before), under("crash")),
    Canary("loses a distribution on restart", "S9", reading(_without_deliveries), under("crash", "loss", "cut")),
    Canary("forgets its nonces on restart", "S9", reading(_without_nonces), under("crash")),
    Canary(
        "acknowledges states that it has not written",
        "S9",
        replacing(PrivateStates, "take_states", _acknowledge_at_once),
        under(),
    ),
    Canary("tells states only once", "L4", replacing(Distribution, "take_due", _never_again), under("loss")),
    Canary(
        "recalls no delivery from its store", "L4", replacing(Distribution, "take_due", _one_window), under("crash")
    ),
    Canary(
        "trusts the payload's sender", "S5", replacing(Permissions, "_asked", _permission_of_anybody), under("forge")
    ),
    Canary("accepts a stale reply", "S5", replacing(Permissions, "take", _take_any_permission), under("loss", "slow")),
    Canary(
        "counts endorsers that were not asked",
        "S5",
        both(
            replacing(Rounds, "_round_asked", _round_of_any_request),
            # A signature that is not the endorser's own would be detected by itself.
            replacing(Rounds, "take_verified", _believe_any_signature),
        ),
        under("forge"),
    ),
    Canary(
        "permits twice under one number",
        "S4",
        with_action(SENDER_TRANSACTION, sender_transaction_rules.begin_assembly, _begin_assembly_under_the_same_number),
        under("loss", "crash"),
    ),
    Canary(
        "cancels what it has permitted",
        "S1",
        rewriting(SENDER_TRANSACTION, _cancelled_although_permitted),
        under("stall"),
    ),
    Canary(
        "reports before it is final",
        "S1",
        replacing(Node, "_take_block", _report_at_the_head),
        under("reorganise", "drop"),
    ),
    Canary(
        "a ledger on which an intent happens twice",
        "S1",
        replacing(Ledger, "_commit_one", _commit_again),
        under("hang", "drop", "ledger", "stall"),
    ),
    Canary(
        "a ledger on which a state is spent twice",
        "S2",
        replacing(Ledger, "_commit_one", _spend_again),
        under("hang", "cut", "crash"),
    ),
    Canary(
        "ignores reorganisations", "L1", replacing(Node, "_take_removed", _ignore_removed), under("reorganise", "drop")
    ),
    Canary("ignores empty blocks", "L5", replacing(Node, "_take_block", _skip_empty_blocks), under()),
    Canary(
        "has a queue without a bound", "S10", replacing(coordinator_rules, "_answer", _answer_without_bound), under()
    ),
    Canary(
        "forgets on restart how far it is ahead of the chain",
        "S10",
        replacing(Rounds, "_ahead_count", _ahead_in_this_life),
        under("crash", "stall"),
    ),
    Canary(
        "follows every redirect",
        "L2",
        rewriting(
            SENDER,
            lambda row: (
                replace(row, when=_names_somebody) if row.when is sender_rules.redirect_may_be_followed else row
            ),
        ),
        under("forge", mode=Mode.STATIC, rotation=Rotation.STICKY),
    ),
    Canary(
        "never repeats a delegation",
        "L1",
        replacing(sender_rules, "_send_command", _wait_for_an_answer),
        under("loss", mode=Mode.STATIC),
    ),
    Canary(
        "has no leases",
        "L1",
        both(
            with_action(SENDER, sender_rules.take_heartbeat, _take_heartbeat_without_leases),
            with_action(SENDER, sender_rules.check_delegate, _check_delegate_without_leases),
        ),
        under("crash", mode=Mode.STATIC),
    ),
    Canary(
        "keeps what a silent submitter held",
        "L1",
        without_guard(SENDER_TRANSACTION, sender_transaction_rules.index_has_caught_up, False),
        under("crash", "torn"),
    ),
    Canary(
        "does not notice that a partition has healed",
        "L2",
        both(
            without_guard(COORDINATOR, coordinator_rules.requester_may_take_over, False),
            without_guard(COORDINATOR, coordinator_rules.a_live_one_outranks_us, False),
            replacing(Observer, "_replaces_accepted", _follows_the_first),
        ),
        under("cut", "one-way", "hang", mode=Mode.RING, rotation=Rotation.STICKY),
    ),
    Canary(
        "pages out a busy sequencer",
        "L1",
        replacing(Sequencer, "is_busy", property(_never_busy)),
        Settings(minutes=MINUTES, contracts=3, faults=(), sequencers_max=1),
    ),
    Canary(
        "never rotates",
        "L3",
        replacing(Context, "ranking", _always_the_same_ranking),
        under(mode=Mode.RING, rotation=Rotation.STRICT),
    ),
    Canary(
        "drops edges before notifying dependents",
        "L1",
        replacing(Coordinator, "release_waiters", _forget_waiters),
        under("hang", "crash", "loss"),
    ),
    Canary(
        "treats a partly accepted delegation as a failure",
        "L1",
        with_action(SENDER, sender_rules.take_answers, _partly_accepted_is_a_failure),
        under("crash", mode=Mode.STATIC),
    ),
    Canary(
        "endorsers refuse every transition that reads",
        "O1",
        replacing(domain, "check", _check_and_refuse_reads),
        under(),
    ),
    Canary("answers no user", "O2", replacing(Node, "_take_effects", _take_effects_without_answers), under()),
    Canary(
        "signs a dependent that reads nothing of its dependency",
        "O3",
        replacing(assembly, "reads_all_dependencies", _reads_enough),
        under("reorganise"),
    ),
    Canary(
        "endorses conflicting prepared transitions",
        "O4",
        both(
            replacing(Kept, "signed_away", _nothing_signed_away),
            replacing(Kept, "is_blocked", _nothing_taken),
            replacing(Kept, "locks", _no_locks),
        ),
        under(),
    ),
    Canary(
        "acknowledges states only once",
        "L6",
        replacing(PrivateStates, "take_states", _acknowledge_what_is_new),
        under("loss"),
    ),
    Canary(
        "leaks locks",
        "L6",
        both(
            replacing(Graph, "remove", _remove_and_keep_locks),
            replacing(Graph, "snapshot", _snapshot_with_leaked_locks),
        ),
        under("loss", "crash", mode=Mode.STATIC),
    ),
    Canary(
        "has intents assembled again and again",
        "L7",
        replacing(Sender, "take_permission_request", _seldom_permit),
        under(),
    ),
    *LEDGER_CANARIES,
    *DEPLOYMENT_CANARIES,
)


def unguarded() -> tuple[str, ...]:
    """Checkers of `rota simulate` that no canary names."""
    named = {canary.invariant for canary in CANARIES}
    return tuple(each.name for each in EVERY if each.name not in named)
