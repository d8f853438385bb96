"""Cores without one of the defences against liars: each must be caught by a dishonest seed.

A canary of this module names, beside its invariant, the strategies of its liars; its settings contain them. Where one
defence covers another, both are removed, and the invariants that would catch the removal of the first are not judged.
"""

from __future__ import annotations

from dataclasses import replace

from rota.model.consistency import Authorised, Consistent
from rota.model.types import (
    Contract,
    ContractAddress,
    Intent,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Party,
    Transition,
    node_of,
)
from rota.node import private_states as private_states_module
from rota.sequencer import assembly as assembly_module
from rota.sequencer import coordinator as coordinator_rules
from rota.sequencer import endorser as endorser_module
from rota.sequencer import sender as sender_rules
from rota.sequencer import sender_transaction as sender_transaction_rules
from rota.sequencer import voiding
from rota.sequencer.assembly import Assembly, Slot
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.demotion import Demotions
from rota.sequencer.effects import LeavesSigned
from rota.sequencer.endorser import Endorser
from rota.sequencer.events import EndorsersVerified
from rota.sequencer.sender import Sender
from rota.sequencer.sender_transaction import TABLE as SENDER_TRANSACTION
from rota.sequencer.sender_transaction import SenderTransaction
from rota.sequencer.sender_transaction_events import AssemblePark, AssembleRevert, GivenUp
from rota.sequencer.sent_intent import HeldRefusals, HeldRequest
from rota.sim import domain, services
from rota.sim.breaking import MINUTES, Canary, both, replacing, without_guard
from rota.sim.canaries import CANARIES
from rota.sim.plan import Settings
from rota.sim.services import sign
from rota.wire.messages import EndorsementRequest, Refusal, TransactionReverted


def lying(
    *strategies: str,
    liars: int = 1,
    faults: tuple[str, ...] = (),
    mode: Mode | None = Mode.RING,
    minutes: float = MINUTES,
) -> Settings:
    """Settings of a seed with this many liars, which follow these strategies."""
    return Settings(minutes=minutes, faults=faults, mode=mode, liars=liars, strategies=strategies)


# Owners of ids, and how long signatures are valid.


def _is_of_the_peer(_coordinator: Coordinator, peer: NodeName, intent: Intent) -> bool:
    return node_of(intent.sender) == peer


def _is_anybodys(_intent: IntentId, _party: Party, _contract: ContractAddress, _nonce: bytes) -> bool:
    return True


def _sign_leaf_alone(party: Party, leaf: Leaf, _valid_until_s: int) -> bytes:
    return sign(party, leaf)


# Which contents, refusals and reports a node stores and accepts.


def _believe_contents_for(_separator: bytes, _node: NodeName, transition: Transition) -> Consistent:
    return Consistent(transition)


def _signed_without_contents(transitions: tuple[Authorised, ...]) -> LeavesSigned:
    bare = (
        replace(each, outputs=tuple(replace(state, content=None) for state in each.outputs)) for each in transitions
    )
    return LeavesSigned(tuple(Authorised(Consistent(each)) for each in bare))


def _grant_with_contents(transaction: SenderTransaction, request: HeldRequest, valid_until_s: int) -> None:
    made = transaction.result.transition if transaction.result is not None else None
    if made is not None and not made.is_empty:
        transaction.context.records.append(LeavesSigned((Authorised(Consistent(made)),)))
    _grant(transaction, request, valid_until_s)


def _flaw_but_for_bounds(
    endorser: Endorser, transition: Transition, request: EndorsementRequest, peer: NodeName, is_signed_over: bool
) -> str:
    return _flaw_of(endorser, replace(transition, valid_until_s=request.valid_until_s), request, peer, is_signed_over)


def _nothing_to_refuse(*_: object) -> tuple[Refusal, ...]:
    return ()


def _believe_refusals(
    sender: Sender, transaction: SenderTransaction, held: HeldRefusals, event: EndorsersVerified
) -> None:
    _take_refusals(sender, transaction, held, replace(event, are_valid=(True,) * len(event.are_valid)))


def _spare_nobody(_contract: Contract) -> int:
    return 0


def _believe_the_coordinator(sender: Sender, peer: NodeName, message: TransactionReverted) -> None:
    transaction = sender.transactions.get(message.intent)
    if transaction is not None and transaction.delegate == peer:
        transaction.handle(GivenUp(message.reason))


def _given_up(_peer: NodeName, reason: str, _was_refused: bool = False) -> GivenUp:
    return GivenUp(reason)


def _believe_the_snapshot(
    _assembly: Assembly,
    _slot: Slot,
    transaction: SenderTransaction,
    told: AssembleRevert | AssemblePark,
    _needs_none: bool,
) -> None:
    transaction.handle(told)


# When a node stops following a coordinator.


def _demote_nobody(_demotions: Demotions, _node: NodeName) -> None:
    """A node that sends heartbeats is never demoted."""


_flaw_of = Endorser._flaw_of
_grant = sender_transaction_rules._grant
_take_refusals = Sender._take_refusals
_endorses_any_id = replacing(endorser_module, "is_id_of", _is_anybodys)
_coordinates_any_id = replacing(coordinator_rules, "_is_its_own", _is_of_the_peer)

CANARIES_AMONG_LIARS: tuple[Canary, ...] = (
    Canary(
        "nobody looks whose an id is",
        "R2",
        both(_coordinates_any_id, _endorses_any_id),
        replace(lying("squats-ids"), unjudged=("S5", "T3")),
    ),
    Canary("endorses any id", "R2", _endorses_any_id, lying("squats-as-coordinator")),
    Canary("coordinates any id", "L1", _coordinates_any_id, lying("squats-ids", "never-assembles")),
    Canary(
        "is confirmed by any leaf",
        "T1",
        both(
            _endorses_any_id,
            _coordinates_any_id,
            without_guard(SENDER_TRANSACTION, sender_transaction_rules.is_by_another, False),
        ),
        replace(lying("squats-as-coordinator"), unjudged=("R2", "S5", "T3")),
    ),
    Canary(
        "a signature that does not say until when",
        "T1",
        replacing(services, "sign_leaf", _sign_leaf_alone),
        lying("revives"),
    ),
    Canary(
        "stores contents that do not have their commitment",
        "T2",
        replacing(private_states_module, "consistent_for", _believe_contents_for),
        lying("plants-states"),
    ),
    Canary(
        "stores contents only with its permission",
        "R1",
        both(
            replacing(assembly_module, "LeavesSigned", _signed_without_contents),
            replacing(sender_transaction_rules, "_grant", _grant_with_contents),
        ),
        lying("commits-unpermitted"),
    ),
    Canary(
        "endorses for longer than a leaf allows",
        "T1",
        replacing(Endorser, "_flaw_of", _flaw_but_for_bounds),
        lying("revives"),
    ),
    Canary(
        "endorses whatever plan it is shown",
        "R3",
        replacing(domain, "unplanned", _nothing_to_refuse),
        replace(lying("skips-plans"), has_plans=True),
    ),
    Canary(
        "signs rounds that lack an approval",
        "R3",
        both(
            replacing(endorser_module, "refusals_of_plan", _nothing_to_refuse),
            replacing(services, "unapproved", _nothing_to_refuse),
        ),
        replace(lying("skips-plans"), has_plans=True),
    ),
    Canary(
        "reports as reverted what may still be committed",
        "T1",
        both(
            without_guard(SENDER_TRANSACTION, sender_transaction_rules.something_may_be_endorsed, False),
            without_guard(voiding.TABLE, voiding.versions_are_void, True),
        ),
        lying("commits-unpermitted"),
    ),
    Canary(
        "believes refusals that nobody signed",
        "T3",
        replacing(Sender, "_take_refusals", _believe_refusals),
        lying("forges-refusals"),
    ),
    Canary(
        "takes one refusal for all",
        "T3",
        replacing(Contract, "spare", property(_spare_nobody)),
        lying("forges-refusals"),
    ),
    Canary(
        "ends what its coordinator gave up",
        "T3",
        replacing(Sender, "take_reverted", _believe_the_coordinator),
        lying("says-reverted"),
    ),
    Canary(
        "ends what its coordinator rejects",
        "T3",
        replacing(sender_rules, "Dropped", _given_up),
        lying("rejects-intents"),
    ),
    Canary(
        "ends what a snapshot does not allow",
        "T3",
        replacing(Assembly, "_take_invalid", _believe_the_snapshot),
        lying("locks-coins"),
    ),
    Canary("demotes nobody", "L1", replacing(Demotions, "demote", _demote_nobody), lying("never-assembles")),
)
EVERY_CANARY: tuple[Canary, ...] = (*CANARIES, *CANARIES_AMONG_LIARS)
