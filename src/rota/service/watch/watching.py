"""The live feed of a running node: its reads of the node's present state and of the past."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from rota.model.types import FINALITY_BROKEN, NO_CONTRACT, ContractAddress, IntentId, Outcome
from rota.ports import DueReceipt, LatestRound, NumberedReceipt, Unavailable, undone_leaf
from rota.service.interface import ContractSummary, PeerMeasurements, RoundChange, TransactionChange
from rota.service.run import RunningNode
from rota.service.watch.feed import LiveFeed, Looks, Past
from rota.service.watch.journeys import NOWHERE
from rota.service.watch.milestones import Milestone

DISPATCHED: Final = "dispatched"


def feed_of(
    running: RunningNode,
    at: Callable[[int], int],
    now_ms: Callable[[], int],
    summary_of: Callable[[ContractAddress], ContractSummary],
    peers: Callable[[], tuple[PeerMeasurements, ...]],
) -> LiveFeed:
    """Return the feed of this node, connected to its events. `at` converts the core's clock to Unix time."""
    feed = LiveFeed(
        running.name,
        Looks(
            now_ms,
            lambda: running.engine.core.height if running.started.is_set() else 0,
            running.contracts.addresses,
            lambda address: summary_of(address) if running.contracts.known(address) is not None else None,
            lambda contract, intent: _state_of(running, contract, intent),
            lambda limit: tuple(islice(_open(running, at), limit)),
            peers,
            lambda transactions, rounds: _past(running, transactions, rounds),
        ),
    )
    running.feed = feed
    running.receipts.when_changed(lambda changed: feed.saw_undone(_undone(changed)))
    return feed


def _undone(changed: Sequence[DueReceipt]) -> Iterator[tuple[ContractAddress, IntentId]]:
    """Return the transactions that the chain took back; one that returns to the chain is seen there."""
    return ((each.contract, each.intent) for each in changed if each.leaf == undone_leaf(each.intent))


def _state_of(running: RunningNode, contract: ContractAddress, intent: IntentId) -> str:
    """Return its state at its sender, or else at its coordinator; empty when this node is neither."""
    sequencer = running.engine.core.sequencers.loaded.get(contract)
    if sequencer is None:
        deployment = running.engine.core.deployments.own.get(intent)
        return str(deployment.state.value) if deployment is not None else ""
    held = sequencer.sender.transactions.get(intent) or sequencer.coordinator.transactions.get(intent)
    return str(held.state.value) if held is not None else ""


def _open(running: RunningNode, at: Callable[[int], int]) -> Iterator[TransactionChange]:
    """Yield the local users' open transactions, then those coordinated for others, with the time of their state."""
    if not running.started.is_set():
        return
    core = running.engine.core
    for intent, deployment in core.deployments.own.items():
        yield TransactionChange(intent, at(deployment.since_ms), state=str(deployment.state.value))
    for contract, sequencer in core.sequencers.loaded.items():
        for intent, sending in sequencer.sender.transactions.items():
            yield TransactionChange(intent, at(sending.since_ms), contract, state=str(sending.state.value))
        for intent, held in sequencer.coordinator.transactions.items():
            if intent not in sequencer.sender.transactions:
                yield TransactionChange(intent, at(held.since_ms), contract, state=str(held.state.value))


async def _past(running: RunningNode, transactions_max: int, rounds_max: int) -> Past:
    """Return the last ended transactions and rounds; empty while the store is away, since the present can be shown."""
    if not running.started.is_set():
        return Past()
    store = running.adapters.store
    try:
        ended = await store.listening.latest_receipts(transactions_max)
        outcomes = await store.public.outcomes([each.intent for each in ended])
        rounds = await store.traces.latest_rounds(rounds_max)
    except Unavailable:
        return Past()
    return Past(
        tuple(_round(each) for each in rounds),
        tuple(_ended(each, outcomes.get(each.intent, Outcome.CONFIRMED)) for each in ended),
    )


def _ended(receipt: NumberedReceipt, outcome: Outcome) -> TransactionChange:
    """Return the change for a receipt. Receipts kept of other nodes' transactions are confirmed, and reported there."""
    has_failed = outcome is Outcome.REVERTED or receipt.is_undone
    failure = FINALITY_BROKEN if receipt.is_undone else outcome.value
    return TransactionChange(
        receipt.intent,
        receipt.numbered_at_ms,
        receipt.contract if receipt.contract not in (NOWHERE, NO_CONTRACT) else None,
        (Milestone.REPORTED if has_failed else Milestone.CONFIRMED).value,
        detail=failure if has_failed else "",
        has_failed=has_failed,
    )


def _round(found: LatestRound) -> RoundChange:
    return RoundChange(
        found.nonce,
        found.status.value if found.status is not None else DISPATCHED,
        found.contract,
        found.digest,
        found.transition_count,
        found.height,
        at_ms=1_000 * found.block_time_s if found.block_time_s is not None else 0,
        account=found.account or None,
    )
