"""The guards and actions of a deployment, in the order of its table (directory/deployment.py)."""

from __future__ import annotations

from rota.directory.deployment_base import DeploymentBase as Deployment
from rota.directory.deployment_events import (
    AllAgreed,
    AnswerReceived,
    CallDue,
    CancelAsked,
    DependencyEnded,
    DeploymentFinal,
    DeploymentSeen,
    FactoryCalled,
    FactoryRefused,
    InvitationsEnded,
    PeerBack,
    PeerGone,
    RepeatDue,
    SpreadEnded,
    TakenInReceived,
)
from rota.directory.effects import CallFactory, DeploymentAgreed, JudgeProposal
from rota.machine.effects import IntentFinalised, ReplyToUser, ReportReceipt
from rota.machine.tables import Event
from rota.model.awaited import dependency_text
from rota.model.types import NodeName, Outcome
from rota.wire.messages import DeploymentProposal, DeploymentWithdrawn, Verdict

# A proposal is kept for `proposal_ttl_s`; nodes that have it are reminded of it this many times in that period.
REMINDERS = 24
# A node reports its operator's decision on its own; it is asked again only in case that was lost.
OPERATOR_REPEAT_MS = 60_000


# Guards.


def is_agreed(deployment: Deployment, event: Event) -> bool:
    """The factory may have been called in an earlier run."""
    return bool(deployment.signers)


def a_dependency_failed(deployment: Deployment, event: Event) -> bool:
    """A dependency was reverted before it began."""
    return deployment.failed_dependency is not None


def waits_for_nothing(deployment: Deployment, event: Event) -> bool:
    """All its dependencies are confirmed."""
    return not deployment.unmet


def dependency_failed(deployment: Deployment, event: DependencyEnded) -> bool:
    """The dependency was reverted."""
    return event.outcome is Outcome.REVERTED


def was_last_dependency(deployment: Deployment, event: DependencyEnded) -> bool:
    """All its other dependencies are confirmed."""
    return tuple(deployment.unmet) == (event.dependency,)


def is_awaited(deployment: Deployment, event: AnswerReceived) -> bool:
    """It answers the present question, for the first time, and an endorser that accepts names its address."""
    is_current = event.request_id == deployment.request_id and event.peer in deployment.missing
    is_whole = event.endorser is not None or event.peer not in deployment.genesis.endorsers
    return is_current and (is_whole or event.verdict is not Verdict.ACCEPTED)


def is_refusal(deployment: Deployment, event: AnswerReceived) -> bool:
    """A node that the contract requires refuses it."""
    return is_awaited(deployment, event) and event.verdict is Verdict.REFUSED and event.peer in deployment.nodes


def is_last_answer(deployment: Deployment, event: AnswerReceived) -> bool:
    """No other answer is missing, and this one is definite."""
    is_last = deployment.missing == (event.peer,)
    return is_last and event.verdict is not Verdict.BUSY and is_awaited(deployment, event)


def only_guests_are_missing(deployment: Deployment, event: InvitationsEnded) -> bool:
    """All required nodes have answered, and an invited one has not."""
    missing = deployment.missing
    return bool(missing) and all(node in deployment.guests for node in missing)


def was_last_guest_missing(deployment: Deployment, event: PeerGone) -> bool:
    """Only that node, which was just invited, has not answered."""
    return event.peer in deployment.guests and deployment.missing == (event.peer,)


def has_spread(deployment: Deployment, event: Event) -> bool:
    """All reachable nodes have reported that they have the contract."""
    return not deployment.without_it


def is_ours(deployment: Deployment, event: DeploymentSeen | DeploymentFinal) -> bool:
    """Genesis, signers and threshold are those that were agreed on."""
    return deployment.is_own(event.deployed)


def was_last_taker(deployment: Deployment, event: TakenInReceived) -> bool:
    """All other reachable nodes have it."""
    return deployment.without_it in ((), (event.peer,))


# Actions.


def revert_with_dependency(deployment: Deployment, event: Event) -> None:
    """A dependency reverted, so this deployment reverts."""
    failed = event if isinstance(event, DependencyEnded) else deployment.failed_dependency
    assert failed is not None, "a dependency has failed"
    name = dependency_text(failed.dependency)
    deployment.end_with(Outcome.REVERTED, f"{name}, which it depends on, {failed.reason}")


def note_dependency(deployment: Deployment, event: DependencyEnded) -> None:
    """Remove the confirmed dependency."""
    deployment.unmet.pop(event.dependency, None)


def revert_with_refusal(deployment: Deployment, event: AnswerReceived) -> None:
    """Revert with the node's reason."""
    deployment.end_with(Outcome.REVERTED, f"{event.peer} does not take the contract: {event.reason or 'no reason'}")


def note_answer(deployment: Deployment, event: AnswerReceived) -> None:
    """Note an acceptance, a busy node's reason, or a guest's refusal, which removes the guest."""
    deployment.operators.pop(event.peer, None)
    if event.verdict is Verdict.ACCEPTED:
        deployment.answered[event.peer] = None
        deployment.excuses.pop(event.peer, None)
        if event.endorser is not None:
            deployment.endorsers[event.peer] = event.endorser
    elif event.verdict is Verdict.REFUSED:
        deployment.guests.pop(event.peer)
    elif event.asked_since_s:
        deployment.excuses.pop(event.peer, None)
        deployment.operators[event.peer] = (asked_since_s(deployment, event), deployment.context.now_ms)
    else:
        deployment.excuses[event.peer] = event.reason


def asked_since_s(deployment: Deployment, event: AnswerReceived) -> int:
    """Return since when an operator has been asked: by the node's claim, at most our own chain's time."""
    return min(event.asked_since_s, deployment.context.chain_time_s)


def agree(deployment: Deployment, event: Event) -> None:
    """All have the signers: record that; from now on the deployment cannot be cancelled."""
    deployment.context.persist(DeploymentAgreed(deployment.intent.id, deployment.signers))


def agree_with_last(deployment: Deployment, event: AnswerReceived) -> None:
    """The last answer: all have the signers."""
    note_answer(deployment, event)
    agree(deployment, event)


def end_invitations(deployment: Deployment, event: InvitationsEnded) -> None:
    """Stop waiting for guests that have not answered."""
    for node in deployment.missing:
        deployment.guests.pop(node, None)


def agree_without_guests(deployment: Deployment, event: InvitationsEnded) -> None:
    """Stop waiting for guests that have not answered: all others have the signers."""
    end_invitations(deployment, event)
    agree(deployment, event)


def ask_again(deployment: Deployment, event: RepeatDue) -> None:
    """Ask nodes that have not answered, and now and then all, so that their proposals do not expire."""
    context = deployment.context
    deployment.attempt += 1
    if context.now_ms - deployment.reminded_ms >= reminder_ms(deployment):
        remind_all(deployment, event)
    else:
        for node in deployment.missing:
            _, heard_ms = deployment.operators.get(node, (0, None))
            if heard_ms is None or context.now_ms - heard_ms >= OPERATOR_REPEAT_MS:
                _ask(deployment, node)
    _repeat_later(deployment)


def remind_all(deployment: Deployment, event: RepeatDue) -> None:
    """Ask all nodes, so that none forgets a proposal that takes long."""
    deployment.reminded_ms = deployment.context.now_ms
    for node in deployment.asked:
        _ask(deployment, node)
    _remind_later(deployment)


def ask_peer(deployment: Deployment, event: PeerBack) -> None:
    """Ask a reconnected node at once."""
    if event.peer in deployment.missing:
        _ask(deployment, event.peer)


def drop_guest(deployment: Deployment, event: PeerGone) -> None:
    """Stop waiting for a guest that disconnected."""
    if event.peer not in deployment.answered:
        deployment.guests.pop(event.peer, None)


def agree_without_guest(deployment: Deployment, event: PeerGone) -> None:
    """Stop waiting for a guest that disconnected: all others have the signers."""
    drop_guest(deployment, event)
    agree(deployment, event)


def revert_with_factory(deployment: Deployment, event: FactoryRefused) -> None:
    """Revert with the factory's reason."""
    deployment.end_with(Outcome.REVERTED, f"the factory does not deploy it: {event.reason}")


def call_later(deployment: Deployment, event: FactoryCalled) -> None:
    """Give a mined call time to be indexed; repeat a failed one with a growing backoff."""
    context = deployment.context
    deployment.trouble = event.trouble
    deployment.attempt = deployment.attempt + 1 if event.trouble else 0
    delay_ms = context.config.resubmit_ms
    if event.trouble:
        delay_ms = context.backoff_ms(
            deployment.attempt, context.config.retry_backoff_ms, context.config.retry_backoff_max_ms
        )
    context.timers.set(deployment, "call", context.after(delay_ms), CallDue())


def call_factory(deployment: Deployment, event: CallDue) -> None:
    """Call the factory again; the chain uses an id once."""
    _call(deployment)


def note_seen(deployment: Deployment, event: DeploymentSeen) -> None:
    """Note that it is on the chain, in a block that is not final."""
    deployment.seen = event.deployed
    deployment.trouble = ""


def note_stranger(deployment: Deployment, event: DeploymentSeen) -> None:
    """Note that its id was used for another contract; it ends if that becomes final."""
    deployment.trouble = "another contract was deployed under its id"


def forget_seen(deployment: Deployment, event: Event) -> None:
    """That block is gone."""
    deployment.seen = None
    deployment.trouble = ""


def take_back(deployment: Deployment, event: Event) -> None:
    """That block was final and is gone; the user has no result yet."""
    forget_seen(deployment, event)
    deployment.receipt = None


def confirm(deployment: Deployment, event: DeploymentFinal) -> None:
    """It is on the chain in a final block."""
    deployment.seen = event.deployed
    deployment.end_with(Outcome.CONFIRMED)


def revert_with_stranger(deployment: Deployment, event: DeploymentFinal) -> None:
    """Its id was used for another contract: a user who tries again gets another id."""
    used_by = event.deployed.contract
    deployment.end_with(Outcome.REVERTED, f"somebody else has deployed {used_by} under its id; deploy it again")


def note_taker(deployment: Deployment, event: TakenInReceived) -> None:
    """That node has the contract."""
    if event.peer in deployment.asked:
        deployment.takers[event.peer] = None


def cancel(deployment: Deployment, event: CancelAsked) -> None:
    """The user gives it up."""
    deployment.end_with(Outcome.REVERTED, "cancelled")
    deployment.context.effects.append(ReplyToUser(event.reply_to, deployment.intent.id))


def refuse_cancel(deployment: Deployment, event: CancelAsked) -> None:
    """It can be on the chain at any time, or has ended: reply with its state."""
    error = f"a deployment that is {deployment.state.value} cannot be given up"
    deployment.context.effects.append(ReplyToUser(event.reply_to, deployment.intent.id, error))


# Entry actions.


def propose(deployment: Deployment) -> None:
    """Ask all nodes that have a part in it, and, where any node may act, all connected ones."""
    if deployment.is_open_to_all:
        deployment.guests = {node: None for node in deployment.connected if node not in deployment.nodes}
    _begin_asking(deployment)


def tell_signers(deployment: Deployment) -> None:
    """Send the addresses of all endorsers to all other nodes."""
    deployment.signers = tuple(deployment.endorsers[node] for node in deployment.genesis.endorsers)
    deployment.answered.clear()
    deployment.answered[deployment.context.node] = None
    _begin_asking(deployment)
    if not deployment.missing:
        deployment.context.post(deployment, AllAgreed())


def begin_calling(deployment: Deployment) -> None:
    """Call the factory; nodes are reminded of the proposal if it takes long."""
    deployment.attempt = 0
    deployment.request_id = deployment.context.next_id()
    _call(deployment)
    _remind_later(deployment)


def give_time(deployment: Deployment) -> None:
    """Wait a while, as the others' indexes may be a little behind ours."""
    context = deployment.context
    context.timers.set(deployment, "spread", context.after(context.config.state_timeout_ms), SpreadEnded())


def end(deployment: Deployment) -> None:
    """Record and report the outcome; if it is reverted, withdraw the proposal from the nodes that were asked."""
    assert deployment.receipt is not None, "what ends has an outcome"
    deployment.context.persist(IntentFinalised(deployment.receipt))
    if deployment.receipt.outcome is Outcome.REVERTED and deployment.request_id.counter:
        for node in deployment.asked:
            if node != deployment.context.node:
                deployment.context.send(node, DeploymentWithdrawn(deployment.intent.id))
    deployment.context.effects.append(ReportReceipt(deployment.receipt))
    deployment.is_gone = True


# Shared.


def reminder_ms(deployment: Deployment) -> int:
    """Return how often nodes with the proposal are reminded of it."""
    return deployment.context.config.proposal_ttl_s * 1_000 // REMINDERS


def _begin_asking(deployment: Deployment) -> None:
    """Ask a new question under a new id: answers to the last one do not count."""
    context = deployment.context
    deployment.request_id = context.next_id()
    deployment.excuses.clear()
    deployment.operators.clear()
    deployment.attempt = 0
    deployment.reminded_ms = context.now_ms
    for node in deployment.missing:
        _ask(deployment, node)
    _repeat_later(deployment)
    if deployment.guests:
        due_ms = context.after(context.config.state_timeout_ms)
        context.timers.set(deployment, "invitations", due_ms, InvitationsEnded())


def _ask(deployment: Deployment, node: NodeName) -> None:
    context = deployment.context
    deployment_id, genesis = deployment.intent.id, deployment.intent.payload
    if node != context.node:
        body = DeploymentProposal(deployment.request_id, deployment_id, genesis, deployment.factory, deployment.signers)
        context.send(node, body)
    elif node in deployment.missing:
        order = JudgeProposal(node, deployment.request_id, deployment_id, genesis, deployment.factory)
        context.effects.append(order)


def _repeat_later(deployment: Deployment) -> None:
    context = deployment.context
    delay_ms = context.backoff_ms(
        deployment.attempt, context.config.request_timeout_ms, context.config.retry_backoff_max_ms
    )
    context.timers.set(deployment, "repeat", context.after(delay_ms), RepeatDue())


def _remind_later(deployment: Deployment) -> None:
    context = deployment.context
    context.timers.set(deployment, "repeat", context.after(reminder_ms(deployment)), RepeatDue())


def _call(deployment: Deployment) -> None:
    """Call the factory, and again if no result arrives; a call under way is not made twice."""
    context = deployment.context
    genesis = deployment.genesis
    context.effects.append(
        CallFactory(
            deployment.intent.id,
            deployment.genesis_hash,
            deployment.signers,
            genesis.threshold,
            genesis.ledger,
            domain=genesis.domain if genesis.ledger else "",
            configuration=genesis.configuration if genesis.ledger else b"",
        )
    )
    context.timers.set(deployment, "call", context.after(context.config.state_timeout_ms), CallDue())
