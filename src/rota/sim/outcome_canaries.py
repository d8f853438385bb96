"""Cores that are safe and finish everything, and give users what they did not ask for, too late, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rota.core.consistency import Consistent
from rota.core.effects import CheckRound, Effect, ReplyToUser
from rota.core.kept import Kept
from rota.core.node import Node
from rota.core.private_states import PrivateStates
from rota.core.sender import Sender
from rota.core.sender_transaction import SenderTransaction
from rota.messages import DispatchConfirmationRequest, ErrorCode, Refusal, StateDistribution
from rota.sim import domain
from rota.sim.breaking import Canary, both, replacing, under
from rota.types import ContractAddress, IntentId, KeptStates, NodeName, StateId, Transition

# A sender that permits so seldom costs its coordinators as many assemblies.
PERMITS_ONE_IN = 7


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


def _waits_for_parties_alone(transaction: SenderTransaction) -> bool:
    return not transaction.unresolved


def _nothing_signed_away(_kept: Kept, _transition: Transition) -> tuple[KeptStates, ...]:
    return ()


def _nothing_taken(_kept: Kept, _transition: Transition) -> bool:
    return False


def _no_locks(_kept: Kept, _intents: Iterable[IntentId]) -> tuple[StateId, ...]:
    return ()


def _acknowledge_what_is_new(
    states: PrivateStates, peer: NodeName, contract: ContractAddress, body: StateDistribution
) -> None:
    """An acknowledgement that is lost is not repeated."""
    if not states.distribution.is_received(contract, tuple(map(Consistent, body.transitions))):
        _take_states(states, peer, contract, body)


def _seldom_permit(sender: Sender, peer: NodeName, request: DispatchConfirmationRequest) -> None:
    """One request in many is answered, and the others make the coordinator begin again."""
    if request.request_id.counter % PERMITS_ONE_IN == 0:
        _take_permission_request(sender, peer, request)
        return
    for item in request.items:
        sender.refuse_dispatch(peer, request.request_id, item.intent, ErrorCode.WRONG_LEAF)


_check = domain.check
_take_states = PrivateStates.take_states
_take_permission_request = Sender.take_permission_request
_take_effects = Node._take_effects

OUTCOME_CANARIES: tuple[Canary, ...] = (
    Canary(
        "endorsers refuse every transition that reads",
        "O1",
        replacing(domain, "check", _check_and_refuse_reads),
        under(),
    ),
    Canary("answers no user", "O2", replacing(Node, "_take_effects", _take_effects_without_answers), under()),
    Canary(
        "ignores dependsOn", "O3", replacing(SenderTransaction, "_may_go", property(_waits_for_parties_alone)), under()
    ),
    Canary(
        "endorses conflicting prepared transitions",
        "O4",
        both(
            replacing(Kept, "signed_away", _nothing_signed_away),
            replacing(Kept, "is_taken", _nothing_taken),
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
        "has intents assembled again and again",
        "L7",
        replacing(Sender, "take_permission_request", _seldom_permit),
        under(),
    ),
)
