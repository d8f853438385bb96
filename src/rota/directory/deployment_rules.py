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

# A proposal is kept for `proposal_ttl_s`; who has it is reminded of it this many times in that while.
REMINDERS = 24
# A node says by itself what its operator decided; it is asked again only in case that was lost.
OPERATOR_REPEAT_MS = 60_000


# Guards.


def is_agreed(deployment: Deployment, event: Event) -> bool:
    """The factory may have been called in an earlier life."""
    return bool(deployment.signers)


def a_dependency_failed(deployment: Deployment, event: Event) -> bool:
    """What it depends on was reverted before it began."""
    return deployment.failed_dependency is not None


def waits_for_nothing(deployment: Deployment, event: Event) -> bool:
    """All that it depends on is confirmed."""
    return not deployment.unmet


def dependency_failed(deployment: Deployment, event: DependencyEnded) -> bool:
    """What it depends on was reverted."""
    return event.outcome is Outcome.REVERTED


def was_last_dependency(deployment: Deployment, event: DependencyEnded) -> bool:
    """All else that it depends on is confirmed."""
    return tuple(deployment.unmet) == (event.dependency,)


def is_awaited(deployment: Deployment, event: AnswerReceived) -> bool:
    """It answers the present question, for the first time, and an endorser that accepts names its address."""
    is_current = event.request_id == deployment.request_id and event.peer in deployment.missing
    is_whole = event.endorser is not None or event.peer not in deployment.genesis.endorsers
    return is_current and (is_whole or event.verdict is not Verdict.ACCEPTED)


def is_refusal(deployment: Deployment, event: AnswerReceived) -> bool:
    """A node without which there is no contract will not have it."""
    return is_awaited(deployment, event) and event.verdict is Verdict.REFUSED and event.peer in deployment.nodes


def is_last_answer(deployment: Deployment, event: AnswerReceived) -> bool:
    """Nobody else's answer is missing, and this one says what it will stay with."""
    is_last = deployment.missing == (event.peer,)
    return is_last and event.verdict is not Verdict.BUSY and is_awaited(deployment, event)


def only_guests_are_missing(deployment: Deployment, event: InvitationsEnded) -> bool:
    """All that must have it have answered, and somebody else has not."""
    missing = deployment.missing
    return bool(missing) and all(node in deployment.guests for node in missing)


def was_last_guest_missing(deployment: Deployment, event: PeerGone) -> bool:
    """Only that node, which was no more than invited, has not answered."""
    return event.peer in deployment.guests and deployment.missing == (event.peer,)


def has_spread(deployment: Deployment, event: Event) -> bool:
    """All nodes that can be reached have said that they have the contract."""
    return not deployment.without_it


def is_ours(deployment: Deployment, event: DeploymentSeen | DeploymentFinal) -> bool:
    """Genesis, signers and threshold are those that were agreed on."""
    return deployment.is_own(event.deployed)


def was_last_taker(deployment: Deployment, event: TakenInReceived) -> bool:
    """All others that can be reached have it."""
    return deployment.without_it in ((), (event.peer,))


# Actions.


def revert_with_dependency(deployment: Deployment, event: Event) -> None:
    """It ends with what it depends on."""
    failed = event if isinstance(event, DependencyEnded) else deployment.failed_dependency
    assert failed is not None, "a dependency has failed"
    name = dependency_text(failed.dependency)
    deployment.end_with(Outcome.REVERTED, f"{name}, which it depends on, {failed.reason}")


def note_dependency(deployment: Deployment, event: DependencyEnded) -> None:
    """That one is confirmed."""
    deployment.unmet.pop(event.dependency, None)


def revert_with_refusal(deployment: Deployment, event: AnswerReceived) -> None:
    """It ends with the reason that was given."""
    deployment.end_with(Outcome.REVERTED, f"{event.peer} does not take the contract: {event.reason or 'no reason'}")


def note_answer(deployment: Deployment, event: AnswerReceived) -> None:
    """Who accepts is not asked again; of who is busy, why is kept; a guest that refuses is none."""
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
    """Since when an operator has been asked: by the node's word, and not later than our own chain's time."""
    return min(event.asked_since_s, deployment.context.chain_time_s)


def agree(deployment: Deployment, event: Event) -> None:
    """All know who signs: that is recorded, and after it nothing is taken back."""
    deployment.context.persist(DeploymentAgreed(deployment.intent.id, deployment.signers))


def agree_with_last(deployment: Deployment, event: AnswerReceived) -> None:
    """The last answer: all know who signs."""
    note_answer(deployment, event)
    agree(deployment, event)


def end_invitations(deployment: Deployment, event: InvitationsEnded) -> None:
    """Guests that have not answered are not waited for."""
    for node in deployment.missing:
        deployment.guests.pop(node, None)


def agree_without_guests(deployment: Deployment, event: InvitationsEnded) -> None:
    """Guests that have not answered are not waited for: all others know who signs."""
    end_invitations(deployment, event)
    agree(deployment, event)


def ask_again(deployment: Deployment, event: RepeatDue) -> None:
    """Who has not answered is asked, and now and then who has: what it keeps for us must not grow too old."""
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
    """All are asked, so that nobody forgets a proposal that takes long."""
    deployment.reminded_ms = deployment.context.now_ms
    for node in deployment.asked:
        _ask(deployment, node)
    _remind_later(deployment)


def ask_peer(deployment: Deployment, event: PeerBack) -> None:
    """Who is back is asked at once."""
    if event.peer in deployment.missing:
        _ask(deployment, event.peer)


def drop_guest(deployment: Deployment, event: PeerGone) -> None:
    """A guest that is gone is not waited for."""
    if event.peer not in deployment.answered:
        deployment.guests.pop(event.peer, None)


def agree_without_guest(deployment: Deployment, event: PeerGone) -> None:
    """A guest that is gone is not waited for: all others know who signs."""
    drop_guest(deployment, event)
    agree(deployment, event)


def revert_with_factory(deployment: Deployment, event: FactoryRefused) -> None:
    """It ends with the factory's reason."""
    deployment.end_with(Outcome.REVERTED, f"the factory does not deploy it: {event.reason}")


def call_later(deployment: Deployment, event: FactoryCalled) -> None:
    """A call that is mined is given time to be indexed; one that failed is made again, later each time."""
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
    """Once more; the chain uses an id once."""
    _call(deployment)


def note_seen(deployment: Deployment, event: DeploymentSeen) -> None:
    """It is on the chain, in a block that may still go."""
    deployment.seen = event.deployed
    deployment.trouble = ""


def note_stranger(deployment: Deployment, event: DeploymentSeen) -> None:
    """Its id was used for something else; it ends if that stays."""
    deployment.trouble = "another contract was deployed under its id"


def forget_seen(deployment: Deployment, event: Event) -> None:
    """That block is gone."""
    deployment.seen = None
    deployment.trouble = ""


def take_back(deployment: Deployment, event: Event) -> None:
    """That block was final and is gone; no user was told."""
    forget_seen(deployment, event)
    deployment.receipt = None


def confirm(deployment: Deployment, event: DeploymentFinal) -> None:
    """It is on the chain, and stays."""
    deployment.seen = event.deployed
    deployment.end_with(Outcome.CONFIRMED)


def revert_with_stranger(deployment: Deployment, event: DeploymentFinal) -> None:
    """Its id was used for something else: a user who tries again gets another one."""
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
    """It can be on the chain at any time, or has ended: the user is told its state."""
    error = f"a deployment that is {deployment.state.value} cannot be given up"
    deployment.context.effects.append(ReplyToUser(event.reply_to, deployment.intent.id, error))


# Entry actions.


def propose(deployment: Deployment) -> None:
    """All nodes that have a part in it are asked, and, where any node may act, all that are there."""
    if deployment.is_open_to_all:
        deployment.guests = {node: None for node in deployment.connected if node not in deployment.nodes}
    _begin_asking(deployment)


def tell_signers(deployment: Deployment) -> None:
    """All are told the addresses of all endorsers; our own node knows them."""
    deployment.signers = tuple(deployment.endorsers[node] for node in deployment.genesis.endorsers)
    deployment.answered.clear()
    deployment.answered[deployment.context.node] = None
    _begin_asking(deployment)
    if not deployment.missing:
        deployment.context.post(deployment, AllAgreed())


def begin_calling(deployment: Deployment) -> None:
    """The factory is called; nodes are reminded of the proposal if it takes long."""
    deployment.attempt = 0
    deployment.request_id = deployment.context.next_id()
    _call(deployment)
    _remind_later(deployment)


def give_time(deployment: Deployment) -> None:
    """The others' indexes may be a little behind ours."""
    context = deployment.context
    context.timers.set(deployment, "spread", context.after(context.config.state_timeout_ms), SpreadEnded())


def end(deployment: Deployment) -> None:
    """The outcome is recorded and reported, and who was asked for nothing need not keep the proposal."""
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
    """How often those who keep a proposal are reminded of it."""
    return deployment.context.config.proposal_ttl_s * 1_000 // REMINDERS


def _begin_asking(deployment: Deployment) -> None:
    """A new question, and so an id of its own: answers to the one before do not count."""
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
    """If nothing is heard of the call, it is made again: one that is under way is not made twice."""
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
