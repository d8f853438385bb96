"""One deployment of a private contract, at the node whose user requested it.

Theory of operation. A deployment is an intent: it is recorded before its user has the id. The contract is then brought
to its nodes before it is on the chain, so that all of them look for it there. They are asked twice. The first
time each answers whether it will have the contract, and an endorser with which address it signs. The second time each
gets the addresses of all, so that no node mistakes a contract that a stranger deployed with other signers for this one.
A refusal of one node ends the deployment; an absent one is waited for, and the user may cancel meanwhile. Where any
registered node may act in a contract, the connected ones are invited, and not waited for as long.

When all have agreed, that is recorded, and from then on the deployment cannot be cancelled: the factory is called
with these addresses and no others, repeatedly, until this node's own index has a deployment under the id.
The chain uses an id once, so nothing is deployed twice, whichever node crashes. A deployment in the index is ours if
genesis, signers and threshold are; if it is a stranger's, this one ends as soon as that is final. A reorganisation
takes it back, and the factory is called again.

In a final block it is confirmed. The user gets the result when all reachable nodes report that they have the
contract, or have had time for it: a user of another node then finds it there.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from rota.directory import deployment_rules as rules
from rota.directory.deployment_base import DeploymentBase
from rota.directory.deployment_events import (
    AllAgreed,
    AnswerReceived,
    Begun,
    CallDue,
    CancelAsked,
    DependencyEnded,
    DeploymentFinal,
    DeploymentSeen,
    DeploymentUndone,
    FactoryCalled,
    FactoryRefused,
    InvitationsEnded,
    PeerBack,
    PeerGone,
    RepeatDue,
    SpreadEnded,
    TakenInReceived,
)
from rota.directory.deployment_states import ASKING, UNAGREED, State
from rota.machine.tables import Ignored, Row, Table, in_states
from rota.model.blocks import FactoryDeployment
from rota.model.genesis import decode_genesis
from rota.model.types import KnownContract, NodeName

TABLE = Table(
    name="Deployment",
    initial=State.WAITING,
    written=(
        Row(State.WAITING, Begun, when=rules.is_agreed, then=State.CALLING),
        Row(State.WAITING, Begun, when=rules.a_dependency_failed, then=State.FINAL, do=rules.revert_with_dependency),
        Row(State.WAITING, Begun, when=rules.waits_for_nothing, then=State.PROPOSING),
        Row(
            State.WAITING,
            DependencyEnded,
            when=rules.dependency_failed,
            then=State.FINAL,
            do=rules.revert_with_dependency,
        ),
        Row(
            State.WAITING,
            DependencyEnded,
            when=rules.was_last_dependency,
            then=State.PROPOSING,
            do=rules.note_dependency,
        ),
        Row(State.WAITING, DependencyEnded, do=rules.note_dependency),
        *in_states(ASKING, AnswerReceived, when=rules.is_refusal, then=State.FINAL, do=rules.revert_with_refusal),
        Row(State.PROPOSING, AnswerReceived, when=rules.is_last_answer, then=State.AGREEING, do=rules.note_answer),
        Row(State.AGREEING, AnswerReceived, when=rules.is_last_answer, then=State.CALLING, do=rules.agree_with_last),
        *in_states(ASKING, AnswerReceived, when=rules.is_awaited, do=rules.note_answer),
        Row(
            State.PROPOSING,
            InvitationsEnded,
            when=rules.only_guests_are_missing,
            then=State.AGREEING,
            do=rules.end_invitations,
        ),
        Row(
            State.AGREEING,
            InvitationsEnded,
            when=rules.only_guests_are_missing,
            then=State.CALLING,
            do=rules.agree_without_guests,
        ),
        *in_states(ASKING, InvitationsEnded, do=rules.end_invitations),
        *in_states(ASKING, RepeatDue, do=rules.ask_again),
        Row(State.CALLING, RepeatDue, do=rules.remind_all),
        *in_states(ASKING, PeerBack, do=rules.ask_peer),
        Row(State.PROPOSING, PeerGone, when=rules.was_last_guest_missing, then=State.AGREEING, do=rules.drop_guest),
        Row(
            State.AGREEING,
            PeerGone,
            when=rules.was_last_guest_missing,
            then=State.CALLING,
            do=rules.agree_without_guest,
        ),
        *in_states(ASKING, PeerGone, do=rules.drop_guest),
        Row(State.SPREADING, PeerGone, when=rules.has_spread, then=State.FINAL),
        Row(State.AGREEING, AllAgreed, then=State.CALLING, do=rules.agree),
        Row(State.CALLING, FactoryRefused, then=State.FINAL, do=rules.revert_with_factory),
        Row(State.CALLING, FactoryCalled, do=rules.call_later),
        Row(State.CALLING, CallDue, do=rules.call_factory),
        Row(State.CALLING, DeploymentSeen, when=rules.is_ours, then=State.DEPLOYED, do=rules.note_seen),
        *in_states((*UNAGREED, State.CALLING), DeploymentSeen, do=rules.note_stranger),
        *in_states((*UNAGREED, State.CALLING), DeploymentUndone, do=rules.forget_seen),
        Row(State.DEPLOYED, DeploymentUndone, then=State.CALLING, do=rules.forget_seen),
        Row(State.SPREADING, DeploymentUndone, then=State.CALLING, do=rules.take_back),
        Row(State.DEPLOYED, DeploymentFinal, when=rules.has_spread, then=State.FINAL, do=rules.confirm),
        Row(State.DEPLOYED, DeploymentFinal, then=State.SPREADING, do=rules.confirm),
        Row(State.CALLING, DeploymentFinal, when=rules.is_ours, then=State.FINAL, do=rules.confirm),
        *in_states((*UNAGREED, State.CALLING), DeploymentFinal, then=State.FINAL, do=rules.revert_with_stranger),
        Row(State.SPREADING, TakenInReceived, when=rules.was_last_taker, then=State.FINAL, do=rules.note_taker),
        *in_states((State.CALLING, State.DEPLOYED, State.SPREADING), TakenInReceived, do=rules.note_taker),
        Row(State.SPREADING, SpreadEnded, then=State.FINAL),
        *in_states(UNAGREED, CancelAsked, then=State.FINAL, do=rules.cancel),
        *in_states((State.CALLING, State.DEPLOYED, State.SPREADING, State.FINAL), CancelAsked, do=rules.refuse_cancel),
    ),
    ignored=(
        Ignored(Begun, tuple(State)[1:], "it begins once"),
        Ignored(DependencyEnded, tuple(State)[1:], "it awaits no dependency"),
        Ignored(
            AnswerReceived,
            (State.WAITING, State.CALLING, State.DEPLOYED, State.SPREADING, State.FINAL),
            "no answer is awaited",
        ),
        Ignored(RepeatDue, (State.WAITING, State.DEPLOYED, State.SPREADING, State.FINAL), "no node is asked any more"),
        Ignored(
            InvitationsEnded,
            (State.WAITING, State.CALLING, State.DEPLOYED, State.SPREADING, State.FINAL),
            "no node is invited any more",
        ),
        Ignored(
            PeerBack, (State.WAITING, State.CALLING, State.DEPLOYED, State.SPREADING, State.FINAL), "no node is asked"
        ),
        Ignored(PeerGone, (State.WAITING, State.CALLING, State.DEPLOYED, State.FINAL), "no node is waited for"),
        Ignored(AllAgreed, tuple(state for state in State if state is not State.AGREEING), "it has ended meanwhile"),
        Ignored(
            FactoryCalled,
            tuple(state for state in State if state is not State.CALLING),
            "the index was faster, or it is the result of an earlier call",
        ),
        Ignored(FactoryRefused, tuple(state for state in State if state is not State.CALLING), "the index decides"),
        Ignored(CallDue, tuple(state for state in State if state is not State.CALLING), "nothing is called"),
        Ignored(
            DeploymentSeen, (State.DEPLOYED, State.SPREADING, State.FINAL), "an id is used once, and this is known"
        ),
        Ignored(DeploymentUndone, (State.FINAL,), "its receipt is marked, if it has one"),
        Ignored(DeploymentFinal, (State.SPREADING, State.FINAL), "its outcome is known"),
        Ignored(TakenInReceived, (*UNAGREED, State.FINAL), "it is too early, or of no use"),
        Ignored(
            SpreadEnded, tuple(state for state in State if state is not State.SPREADING), "it does not wait for others"
        ),
    ),
    entry={
        State.PROPOSING: rules.propose,
        State.AGREEING: rules.tell_signers,
        State.CALLING: rules.begin_calling,
        State.SPREADING: rules.give_time,
        State.FINAL: rules.end,
    },
)


class Deployment(DeploymentBase):
    """The machine of one deployment of this node's own."""

    table: ClassVar[Table] = TABLE

    def changed(self, previous: Enum) -> None:
        """Update the history that `explain` shows, and end the timers of the last state."""
        self.since_ms = self.context.now_ms
        self.context.timers.cancel_all(self)
        self.history.append((self.context.now_ms, self.state))
        del self.history[: -self.context.config.history_max]


def known_from(
    deployed: FactoryDeployment, genesis: bytes, height: int, source: NodeName | None = None
) -> KnownContract:
    """Return the contract that this peer proposed, as deployed in a block at this height."""
    contract = decode_genesis(genesis).contract(deployed.contract)
    known = KnownContract(contract, deployed.intent, deployed.endorsers, genesis, height, height)
    return known if source is None else known.told_by(source)
