"""The state of an intent, what it waits for and because of which node, in words for its user."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from rota.chain.public_transaction import State as PublicState
from rota.directory.deployment import Deployment
from rota.directory.deployment_states import State as DeploymentState
from rota.model.awaited import dependency_name
from rota.model.frozen import dataclass
from rota.model.sharing import holders_of
from rota.model.types import IntentId, NodeName, Outcome, SubmitMode, intent_text, node_of
from rota.sequencer.held_intent import HeldIntent
from rota.sequencer.held_intent import State as CoordinatorSide
from rota.sequencer.sender_transaction import SenderTransaction
from rota.sequencer.sender_transaction import State as SenderSide
from rota.sequencer.sequencer import Sequencer

# The meaning of each state and each outcome, for users who do not know the machines.
MEANINGS: Final[dict[Enum, str]] = {
    SenderSide.INITIAL: "it has just been accepted",
    SenderSide.PENDING: "it is accepted and has no coordinator yet",
    SenderSide.DELEGATED: "its coordinator has it and has not yet asked for its assembly",
    SenderSide.ASSEMBLING: "its domain works out what it does",
    SenderSide.SIGNING: "its sender signs what it does",
    SenderSide.ENDORSEMENT_GATHERING: "its coordinator asks the endorsers to sign it",
    SenderSide.PREPARED: "it is endorsed, and its sender has permitted its dispatch",
    SenderSide.DISPATCHED: "it is on its way to the base ledger",
    SenderSide.SEQUENCED: "it has its place in line for the base ledger",
    SenderSide.SUBMITTED: "the base ledger was sent it",
    SenderSide.ISSUED: "it is prepared, and whoever it was made for may commit it",
    SenderSide.ENDING: "it is being ended, and ends when no version of it can happen any more",
    SenderSide.PARKED: "it waits for its user to resume or cancel it",
    SenderSide.CONFIRMED: "the base ledger has it",
    SenderSide.ID_USED: "the base ledger has another transition under its id; members are asked whose that is",
    SenderSide.REVERTED: "it has ended without effect",
    CoordinatorSide.INITIAL: "it has just been delegated",
    CoordinatorSide.POOLED: "it waits in its coordinator's pool for its turn",
    CoordinatorSide.PREASSEMBLY_BLOCKED: "what came before it must be assembled first",
    CoordinatorSide.ASSEMBLING: "its sender works out what it does",
    CoordinatorSide.ENDORSEMENT_GATHERING: "the endorsers are asked to sign it",
    CoordinatorSide.BLOCKED: "it is endorsed and stands on others that are not on their way yet",
    CoordinatorSide.CONFIRMING_DISPATCH: "its sender is asked whether it may be dispatched",
    CoordinatorSide.PREPARED: "it is endorsed and goes to its sender, who has it committed",
    CoordinatorSide.READY_FOR_DISPATCH: "everybody agrees, and it waits to be made a base-ledger transaction",
    CoordinatorSide.DISPATCHED: "it is a base-ledger transaction that is to be sent",
    CoordinatorSide.SUBMITTED: "the base ledger was sent it",
    CoordinatorSide.CONFIRMED: "the base ledger has it",
    CoordinatorSide.REVERTED: "it has ended without effect",
    CoordinatorSide.FINAL: "it has ended and is being forgotten",
    DeploymentState.WAITING: "it is accepted and waits for what it depends on",
    DeploymentState.PROPOSING: "the nodes of the contract are asked whether they will have it",
    DeploymentState.AGREEING: "the nodes are told who signs in it",
    DeploymentState.CALLING: "the factory is called to deploy it",
    DeploymentState.DEPLOYED: "the base ledger has the contract",
    DeploymentState.SPREADING: "the contract is final, and the nodes take it in",
    DeploymentState.FINAL: "it has ended",
    PublicState.WAITING: "it is accepted and not yet signed",
    PublicState.SIGNED: "it is signed and is to be sent to the chain",
    PublicState.SENT: "the chain has it, and no block yet",
    PublicState.MINED: "a block has it that could still be taken back",
    PublicState.ENDED: "it has ended",
    PublicState.SET_ASIDE: "its database was wound back: an operator decides whether it goes on",
    Outcome.CONFIRMED: "it has ended: the base ledger has it for good",
    Outcome.REVERTED: "it has ended without effect",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """An endorser that has not signed since then, its last answer, and the node that reports it."""

    endorser: NodeName
    since_ms: int
    said: str
    told_by: NodeName


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "where is my transaction?".

    `operators` has the nodes whose operators have not answered, with the chain time at which each was asked. `missing`
    has the endorsers that have not signed, with the last answer of each and the node that reports it.
    """

    state: str
    waits_for: str = ""
    who: tuple[NodeName, ...] = ()
    since_ms: int = 0
    history: tuple[tuple[int, str], ...] = ()
    detail: str = ""
    meaning: str = ""
    operators: tuple[tuple[NodeName, int], ...] = ()
    missing: tuple[Missing, ...] = ()


def explain_at_sender(sequencer: Sequencer, intent: IntentId) -> Explanation | None:
    """Return the sender's explanation of an intent; None when it is not under way here."""
    transaction = sequencer.sender.transactions.get(intent)
    if transaction is None:
        return None
    waits_for, who = _sender_waits(sequencer, transaction)
    detail = _joined(_ending(transaction), _place_in_line(transaction))
    return Explanation(
        str(transaction.state.value),
        waits_for,
        who,
        transaction.since_ms,
        _told(transaction.history),
        detail,
        MEANINGS[transaction.state],
        missing=_missing_at_sender(sequencer, transaction),
    )


def explain_at_coordinator(sequencer: Sequencer, intent: IntentId) -> Explanation | None:
    """Return the coordinator's explanation of an intent; None when it is not held here."""
    transaction = sequencer.coordinator.transactions.get(intent)
    if transaction is None:
        return None
    waits_for, who = _coordinator_waits(sequencer, transaction)
    own = sequencer.sender.transactions.get(intent)
    detail = _joined(_ending(own) if own is not None else "", _what_was_tried(transaction))
    return Explanation(
        str(transaction.state.value),
        waits_for,
        who,
        transaction.since_ms,
        _told(transaction.history),
        detail,
        MEANINGS[transaction.state],
        missing=_missing_at_coordinator(sequencer, transaction),
    )


def explain_deployment(deployment: Deployment) -> Explanation:
    """Return the progress of a deployment of this node."""
    waits_for, who = _deployment_waits(deployment)
    said = tuple(f"{node} says: {reason}" for node, reason in deployment.excuses.items())
    return Explanation(
        str(deployment.state.value),
        waits_for,
        who,
        deployment.since_ms,
        _told(deployment.history),
        _joined(*said, deployment.trouble),
        MEANINGS[deployment.state],
        tuple((node, since_s) for node, (since_s, _) in deployment.operators.items()),
    )


def _told(history: Iterable[tuple[int, Enum]]) -> tuple[tuple[int, str], ...]:
    """Return when it entered each state."""
    return tuple((at_ms, str(state.value)) for at_ms, state in history)


def _deployment_waits(deployment: Deployment) -> tuple[str, tuple[NodeName, ...]]:
    ourselves = (deployment.context.node,)
    match deployment.state:
        case DeploymentState.WAITING:
            names = ", ".join(map(dependency_name, deployment.unmet))
            return f"what it depends on to be confirmed: {names}", ()
        case DeploymentState.PROPOSING if deployment.operators:
            return "operators to agree that their nodes take part in the contract", deployment.missing
        case DeploymentState.PROPOSING:
            return "answers whether they will have the contract, and who signs", deployment.missing
        case DeploymentState.AGREEING:
            return "answers that they know who signs", deployment.missing
        case DeploymentState.CALLING:
            return "the factory to deploy it", ourselves
        case DeploymentState.DEPLOYED:
            return "its block to become final", ()
        case DeploymentState.SPREADING:
            return "those that can be reached to have it", deployment.without_it
        case _:
            return "nothing", ()


def _sender_waits(sequencer: Sequencer, transaction: SenderTransaction) -> tuple[str, tuple[NodeName, ...]]:
    sender = sequencer.sender
    delegate = (transaction.delegate,) if transaction.delegate is not None else ()
    ourselves = (sequencer.context.node,)
    match transaction.state:
        case SenderSide.PENDING:
            return _pending_waits(sequencer, transaction)
        case SenderSide.DELEGATED:
            return "its coordinator to ask for its assembly", delegate
        case SenderSide.ASSEMBLING:
            return "the domain to assemble it", ourselves
        case SenderSide.SIGNING:
            return f"{transaction.intent.sender} to sign it", ourselves
        case SenderSide.ENDORSEMENT_GATHERING:
            missing = tuple(each.endorser for each in _missing_at_sender(sequencer, transaction))
            names = f" (not from {', '.join(missing)} yet)" if missing else ""
            required = ", ".join(transaction.attesters.endorsers)
            wanted = f"the approval of {required}, endorsements" if required else "endorsements"
            return f"its coordinator to gather {wanted}{names} and ask for permission", missing or delegate
        case SenderSide.PREPARED:
            return "its coordinator to dispatch it", delegate
        case SenderSide.DISPATCHED | SenderSide.SEQUENCED | SenderSide.SUBMITTED:
            return "the ledger", delegate
        case SenderSide.ISSUED if transaction.intent.submit_mode is SubmitMode.CARRIED:
            asker = sender.context.contract.endorsers
            text = f"the contract that decides about it, which {', '.join(asker)} asks, to carry it out"
            return f"{text} before chain time {transaction.void_after_s}", asker
        case SenderSide.ISSUED:
            return f"somebody to commit it before chain time {transaction.void_after_s}", ()
        case SenderSide.ENDING:
            return _ending_waits(transaction), ()
        case SenderSide.PARKED:
            return f"its user to resume it ({transaction.reason})", ()
        case SenderSide.CONFIRMED:
            return "its block to become final", ()
        case SenderSide.ID_USED:
            others = tuple(node for node in holders_of(sender.context.contract) if node != sender.context.node)
            return "a member to show whose transition uses its id on the chain", others
        case _:
            return "nothing", ()


def _missing_at_sender(sequencer: Sequencer, transaction: SenderTransaction) -> tuple[Missing, ...]:
    """Return the endorsers that have not signed, by the latest heartbeat of its coordinator."""
    delegate = transaction.delegate
    peer = sequencer.observer.peers.get(delegate) if delegate is not None else None
    is_gathering = transaction.state is SenderSide.ENDORSEMENT_GATHERING
    if delegate is None or peer is None or not is_gathering:
        return ()
    return tuple(
        Missing(each.endorser, max(peer.heartbeat_at_ms - each.age_ms, transaction.since_ms), each.said, delegate)
        for each in peer.missing
    )


def _missing_at_coordinator(sequencer: Sequencer, transaction: HeldIntent) -> tuple[Missing, ...]:
    opened, node = transaction.round, sequencer.context.node
    if opened is None or transaction.state is not CoordinatorSide.ENDORSEMENT_GATHERING:
        return ()
    return tuple(
        Missing(endorser, opened.opened_at_ms, opened.rejections.get(endorser, ""), node)
        for endorser in opened.missing()
    )


def _ending_waits(transaction: SenderTransaction) -> str:
    why = (
        f" (it cannot be voided: {transaction.reason})"
        if transaction.voiding is not None and transaction.voiding.has_failed
        else ""
    )
    return f"chain time {transaction.void_after_s}, when no version of it is valid{why}"


def _ending(transaction: SenderTransaction) -> str:
    """Return the reason why it is to end."""
    return f"ending: {transaction.ending_reason}" if transaction.is_ending else ""


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _pending_waits(sequencer: Sequencer, transaction: SenderTransaction) -> tuple[str, tuple[NodeName, ...]]:
    sender = sequencer.sender
    if transaction.unmet:
        names = ", ".join(map(dependency_name, transaction.unmet))
        return f"what it depends on to be confirmed: {names}", ()
    if transaction.unresolved:
        parties = tuple(transaction.unresolved)
        return f"verifiers of {', '.join(parties)}", tuple(dict.fromkeys(node_of(party) for party in parties))
    if transaction.not_before_ms > sequencer.context.now_ms:
        return f"a pause after a failure to end ({transaction.reason})", ()
    delegate = (sender.delegate,) if sender.delegate is not None else ()
    why = f" ({sender.why_waiting})" if sender.why_waiting else ""
    return f"its delegation to be accepted{why}", delegate


def _coordinator_waits(sequencer: Sequencer, transaction: HeldIntent) -> tuple[str, tuple[NodeName, ...]]:
    opened = transaction.round
    match transaction.state:
        case CoordinatorSide.POOLED if not sequencer.coordinator.has_room_for_a_slot:
            return "what is under way to have its outcome: it fills a message", ()
        case CoordinatorSide.POOLED if not sequencer.coordinator.quotas.may_assemble(transaction.sender):
            return "transitions under way to end: no more are assembled before", ()
        case CoordinatorSide.POOLED if sequencer.coordinator.probation.is_paused(transaction.sender):
            cause = f"the chain skipped or reverted what {transaction.sender} sent ({transaction.reason})"
            return f"the end of a pause: {cause}", ()
        case CoordinatorSide.POOLED if transaction.reason and transaction.not_before_ms > sequencer.context.now_ms:
            return f"the end of a pause ({transaction.reason})", ()
        case CoordinatorSide.POOLED:
            return f"the turn of {transaction.sender} in assembly, as {sequencer.coordinator.state.value}", ()
        case CoordinatorSide.PREASSEMBLY_BLOCKED:
            return f"the assembly of {', '.join(map(intent_text, transaction.waits_for))}", ()
        case CoordinatorSide.ASSEMBLING:
            return "its sender to assemble it", (transaction.sender,)
        case CoordinatorSide.ENDORSEMENT_GATHERING if opened is None:
            return "a round to open", ()
        case CoordinatorSide.ENDORSEMENT_GATHERING:
            assert opened is not None, "the case before has none"
            if opened.is_approving:
                count = len(opened.signatures)
                return f"the approval of the endorsers that its plan names, {count} so far", opened.missing()
            return f"endorsements, {len(opened.signatures)} so far", opened.missing()
        case CoordinatorSide.BLOCKED:
            return f"what it stands on to be {'dispatched' if transaction.is_external else 'ready for dispatch'}", ()
        case CoordinatorSide.CONFIRMING_DISPATCH:
            return "its sender's permission", (transaction.sender,)
        case CoordinatorSide.PREPARED:
            return "its sender to acknowledge the prepared transition", (transaction.sender,)
        case CoordinatorSide.READY_FOR_DISPATCH:
            return "its round to be dispatched", (sequencer.context.node,)
        case CoordinatorSide.DISPATCHED | CoordinatorSide.SUBMITTED:
            return "the ledger", ()
        case CoordinatorSide.CONFIRMED | CoordinatorSide.REVERTED | CoordinatorSide.FINAL:
            return "", ()
        case _:
            return "its coordinator to take it up", (sequencer.context.node,)


def _place_in_line(transaction: SenderTransaction | HeldIntent) -> str:
    """Return the base-ledger transaction that contains it, if there is one."""
    if transaction.signer_and_nonce is None:
        return ""
    signer, nonce = transaction.signer_and_nonce
    return f"nonce {nonce} of {signer}"


def _what_was_tried(transaction: HeldIntent) -> str:
    """Return its place in line; or the number of requests, and endorsers that do not accept us (protocol §5)."""
    if transaction.is_flush_point and transaction.signer_and_nonce is not None:
        return f"{_place_in_line(transaction)}, submissions: {transaction.submission_count}"
    tried = [f"repeated requests: {transaction.request_count}"] if transaction.request_count else []
    opened = transaction.round
    if opened is not None:
        missing = [node for node in opened.missing() if node in opened.rejections]
        tried.extend(f"{node} answered {opened.rejections[node]}" for node in missing)
    return ", ".join(tried)
