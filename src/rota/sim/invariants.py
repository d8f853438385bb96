"""What must hold in every run (protocol §10), judged from what the world has seen."""

from __future__ import annotations

from rota.core.effects import PermissionGranted, RoundDispatch, StatesReceived, TransitionIssued, TransitionPrepared
from rota.sim.world import World
from rota.types import DelegationNumber, IntentId, Leaf, NodeName, Outcome


def violations(world: World) -> list[str]:
    """Every invariant that does not hold, with what shows it."""
    return [
        *_one_effect_and_one_outcome(world),
        *_no_state_spent_twice(world),
        *_acknowledged_intents_survive(world),
        *_one_permission_per_number(world),
        *_dispatched_with_permission_and_endorsements(world),
        *_nonces_are_gapless(world),
    ]


def undelivered_states(world: World) -> list[str]:
    """L4: every node holds every state that is on the ledger and meant for it; its own it has made itself."""
    held: dict[NodeName, set[Leaf]] = {name: set() for name in world.nodes}
    for name, node in world.nodes.items():
        for _, record in node.disk.records:
            if isinstance(record, StatesReceived):
                held[name].update(transition.leaf for transition in record.transitions)
            elif isinstance(record, RoundDispatch):
                held[name].update(transition.leaf for transition in record.round.transitions)
            elif isinstance(record, PermissionGranted):
                held[name].add(record.transition.leaf)
            elif isinstance(record, TransitionPrepared | TransitionIssued):
                held[name].add(record.prepared.transition.leaf)
    return [
        f"L4: {name} has not got the states of {world.show(intent)}"
        for _, intent, leaf in world.ledger.commits
        for state in world.transitions[leaf].outputs
        for name in state.distribution
        if name in held and leaf not in held[name]
    ]


def _one_effect_and_one_outcome(world: World) -> list[str]:
    """S1: at most one effect on the ledger, and a reported outcome never changes; an empty transition has no effect."""
    found: list[str] = []
    committed = [intent for _, intent, leaf in world.ledger.commits if not world.transitions[leaf].is_empty]
    for intent in dict.fromkeys(committed):
        if committed.count(intent) > 1:
            found.append(f"S1: {world.show(intent)} is on the ledger {committed.count(intent)} times")
    for intent, receipts in world.receipts.items():
        outcomes = dict.fromkeys(receipt.outcome for receipt in receipts)
        is_on_chain = intent in committed
        if len(outcomes) > 1 or (is_on_chain and Outcome.REVERTED in outcomes):
            found.append(f"S1: {world.show(intent)} was reported {[outcome.value for outcome in outcomes]}")
    return found


def _no_state_spent_twice(world: World) -> list[str]:
    """S2: no state is spent twice, none before it was created."""
    found: list[str] = []
    made: dict[object, None] = {}
    spent: dict[object, Leaf] = {}
    for _, intent, leaf in world.ledger.commits:
        transition = world.transitions[leaf]
        for state in transition.inputs:
            if state in spent or state not in made:
                found.append(f"S2: {world.show(intent)} spends {state} wrongly")
            spent[state] = leaf
        made.update(dict.fromkeys(state.id for state in transition.outputs))
    return found


def _acknowledged_intents_survive(world: World) -> list[str]:
    """S3: an acknowledged intent is on its sender's disk."""
    on_disk = {
        record.intent.id
        for node in world.nodes.values()
        for _, record in node.disk.records
        if hasattr(record, "intent") and hasattr(record.intent, "id")
    }
    return [
        f"S3: {world.show(reply.intent)} was acknowledged and is on no disk"
        for replies in world.replies.values()
        for reply in replies
        if not reply.error and reply.intent not in on_disk
    ]


def _one_permission_per_number(world: World) -> list[str]:
    """S4: at most one permission per (intent, delegation number)."""
    granted: dict[tuple[IntentId, DelegationNumber], tuple[NodeName, Leaf]] = {}
    found: list[str] = []
    for record in world.permissions:
        given = (record.delegate, record.transition.leaf)
        if granted.setdefault((record.intent, record.number), given) != given:
            found.append(f"S4: {world.show(record.intent)} was permitted twice under {record.number}")
    return found


def _dispatched_with_permission_and_endorsements(world: World) -> list[str]:
    """S5: no leaf is dispatched without permission for it and enough endorsements of its round."""
    permitted = {(record.intent, record.transition.leaf) for record in world.permissions}
    thresholds = {contract.address: contract.threshold for contract in world.contracts}
    found: list[str] = []
    for dispatch in world.dispatches:
        if len(dispatch.round.signatures) < thresholds[dispatch.round.contract]:
            found.append("S5: a round was dispatched without enough endorsements")
        for transition in dispatch.round.transitions:
            if (transition.intent, transition.leaf) not in permitted:
                found.append(f"S5: {world.show(transition.intent)} was dispatched without permission")
    return found


def _nonces_are_gapless(world: World) -> list[str]:
    """S7: the nonces of a signer are gapless and each has one payload."""
    by_signer: dict[str, list[RoundDispatch]] = {}
    for dispatch in world.dispatches:
        by_signer.setdefault(dispatch.signer, []).append(dispatch)
    return [
        f"S7: {signer} used the nonces {[dispatch.nonce for dispatch in dispatches]}"
        for signer, dispatches in by_signer.items()
        if [dispatch.nonce for dispatch in dispatches] != list(range(len(dispatches)))
    ]
