"""Values of a running core that the world reports as facts: the state restored at a start, and queue lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import NamedTuple

from rota.chain.submitter import Submission
from rota.directory.proposals import JUDGING_MAX
from rota.exchange.distribution import RECEIVED_KEPT_MAX
from rota.model.types import IntentId
from rota.node.acquaintance import ASKED_MAX, PEERS_KEPT_MAX, REFUSED_KEPT_MAX
from rota.node.node import Node
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.coordinator_base import REFUSED_INTENTS_MAX
from rota.sequencer.effects import EndingDecided
from rota.sequencer.endorser import ANSWERS_KEPT_MAX, CHECKS_BYTES_MAX, CHECKS_OPEN_MAX
from rota.sequencer.parties import VERIFIERS_WANTED_MAX
from rota.sequencer.recent_outcomes import OUTCOMES_KEPT_MAX
from rota.sequencer.round import STUCK_ROUNDS_MAX
from rota.sequencer.sequencer import Sequencer
from rota.sim.facts import Queue, Remembered, RememberedIntent


def remembered_by(core: Node) -> Remembered:
    """The state that a newly built node restored from its disk, without decisions that it made since."""
    loaded = core.sequencers.loaded.values()
    decided = {record.intent for each in loaded for record in each.context.records if isinstance(record, EndingDecided)}
    intents = {
        intent: RememberedIntent(
            transaction.permission.leaf if transaction.permission is not None else None,
            transaction.parked_reason is not None,
            transaction.is_ending_recorded and intent not in decided,
            transaction.issued.transition.leaf if transaction.issued is not None else None,
        )
        for sequencer in loaded
        for intent, transaction in sequencer.sender.transactions.items()
    }
    intents |= {intent: RememberedIntent(None, False, False) for intent in core.deployments.own}
    owed = frozenset(core.distribution.owed)
    unacknowledged = frozenset(leaf for sequencer in loaded for leaf in sequencer.coordinator.issuing.open)
    signed_away = frozenset(leaf for sequencer in loaded for leaf in sequencer.kept.signed)
    proposals = frozenset(core.deployments.proposals.kept)
    return Remembered(
        core.incarnation, core.submitters.next_nonces(), intents, owed, unacknowledged, signed_away, proposals
    )


class Surroundings(NamedTuple):
    """The inputs of a node's bounds besides its configuration."""

    node_count: int
    contract_count: int
    owed_count: int
    taken_back_count: int
    reported: Container[IntentId]
    over: Container[IntentId]
    # Liars name nodes that do not exist.
    peers_max: int
    # Rounds have waited for the endorsers that a plan names.
    has_plans: bool


def queues_of(core: Node, around: Surroundings) -> Iterator[Queue]:
    """Every queue of a node, with its bound by configuration or by a constant of its module.

    Rounds of removed blocks are under way again, beside those opened since: for each block as many as may be ahead of
    the chain. Reported intents are over, and so are those that a start did not restore because the index had their
    outcomes; a later run whose index has gone back holds these again until the chain has their outcomes again.
    """
    config = core.config
    rounds_max = config.dispatch_ahead_max * around.contract_count
    loaded = core.sequencers.loaded.values()
    rounds_max += sum(_apart_max(sequencer.coordinator, around.has_plans) for sequencer in loaded)
    yield ("rounds to be written", sum(len(each.waiting) for each in core.submitters.by_account.values()), rounds_max)
    unmined = sum(_is_ahead(core, submission) for submission in core.submitters.submissions())
    yield ("rounds not mined", unmined, rounds_max * (1 + around.taken_back_count))
    yield ("states known as received", len(core.distribution.received), RECEIVED_KEPT_MAX)
    yield ("deliveries", core.distribution.open_count, around.owed_count)
    yield ("bytes of deliveries", core.distribution.size, config.deliveries_bytes_max)
    intents = sum(
        intent not in around.reported and intent not in around.over
        for sequencer in core.sequencers.loaded.values()
        for intent in sequencer.sender.transactions
    )
    yield ("intents of users", intents, config.intents_open_max)
    yield ("proposals", len(core.deployments.proposals.kept), config.proposals_max)
    yield ("proposals being judged", len(core.deployments.proposals.judging), JUDGING_MAX)
    yield ("contracts asked for", len(core.acquaintance.asked), ASKED_MAX)
    yield ("contracts refused", len(core.acquaintance.refused), REFUSED_KEPT_MAX)
    yield ("peers asked for contracts", len(core.acquaintance.peers), PEERS_KEPT_MAX)
    for sequencer in core.sequencers.loaded.values():
        yield from _queues_of_contract(core, sequencer, around)


def has_plans(core: Node) -> bool:
    """Whether a round of its coordinators has a plan, from a sender's domain or invented by a lying sender."""
    coordinators = (sequencer.coordinator for sequencer in core.sequencers.loaded.values())
    return any(opened.required for coordinator in coordinators for opened in coordinator.rounds.rounds.values())


def _apart_max(coordinator: Coordinator, has_plans: bool) -> int:
    """The bound on rounds of a single sender each; 0 unless a sender is or was on probation, or rounds have plans.

    Transactions with plans have such rounds, and some more that lack an approval. So have transitions that waited for a
    round until half of their validity had passed, and transitions that no endorser could judge, without a fault of
    their senders.
    """
    ahead_max = coordinator.context.config.dispatch_ahead_max
    restored = {handed.point.digest for handed in coordinator.restored.values()}
    are_apart = any(opened.apart is not None for opened in coordinator.rounds.rounds.values())
    may_be = are_apart or bool(coordinator.probation.standings) or len(restored) > ahead_max or has_plans
    stuck_max = STUCK_ROUNDS_MAX * coordinator.quotas.places.sender_count if has_plans else 0
    return coordinator.rounds.all_max - ahead_max + stuck_max if may_be else 0


def _is_ahead(core: Node, submission: Submission) -> bool:
    """Whether it may still commit a transition; one whose intents others have committed only waits for its nonce."""
    sequencer = core.sequencers.loaded.get(submission.dispatch.round.contract)
    if submission.is_mined or sequencer is None:
        return False
    return any(not sequencer.coordinator.outcomes.is_committed(intent) for intent in submission.unsettled)


def _queues_of_contract(core: Node, sequencer: Sequencer, around: Surroundings) -> Iterator[Queue]:
    config, node_count = core.config, around.node_count
    coordinator, sender, endorser = sequencer.coordinator, sequencer.sender, sequencer.endorser
    yield ("intents in flight", len(coordinator.transactions), config.in_flight_max)
    rounds = coordinator.rounds.rounds
    apart = Counter(opened.apart for opened in rounds.values())
    yield ("rounds under way", apart.pop(None, 0), config.dispatch_ahead_max)
    for count in apart.values():
        own_max = config.apart_rounds_max + (STUCK_ROUNDS_MAX if around.has_plans else 0)
        yield ("rounds of one sender's own", count, own_max)
    for opened in rounds.values():
        yield ("a round", len(opened.members), config.round_max)
    slot = coordinator.slots.slot
    if slot is not None:
        yield ("a slot", len(slot.request.intents), config.assembly_slot_max)
    yield ("redirects", len(coordinator.redirects), node_count)
    yield ("refusals remembered", len(coordinator.refused_before), REFUSED_INTENTS_MAX)
    yield ("unanswered requests to yield", len(coordinator.unanswered), node_count)
    yield ("recent outcomes", len(coordinator.outcomes._points), OUTCOMES_KEPT_MAX)
    if sender.command is not None:
        yield ("a delegation", len(sender.command.intents), config.delegation_batch_max)
    yield ("slots being assembled", len(sender.assembly.slots), node_count)
    yield ("peers", len(sequencer.observer.peers), around.peers_max)
    yield ("rounds being checked", len(endorser.checking), CHECKS_OPEN_MAX)
    checked_bytes = sum(check.size_bytes for check in endorser.checking.values())
    yield ("bytes of rounds being checked", checked_bytes, CHECKS_BYTES_MAX)
    yield ("verifiers wanted", sender.parties.wanted_count, VERIFIERS_WANTED_MAX)
    yield ("endorsements kept", len(endorser.answers), ANSWERS_KEPT_MAX)
