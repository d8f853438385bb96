"""The sequencer's work and its reasons for waiting: leaders, open transactions, and the nodes that block them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container
from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.model.types import IntentId
from rota.rpc.credentials import Role, held_parties
from rota.rpc.formats import Address, HexText, Timestamp, Uuid, hex_of, timestamp_of, uuid_of
from rota.rpc.methods import method
from rota.rpc.subscriptions import Subscriber, Subscription
from rota.service.explain.ring import LeaderChange, RingRange, RingView
from rota.service.interface import (
    ContractStatus,
    ContractSummary,
    Explanation,
    FeedUpdate,
    Heartbeats,
    ReceiverLeft,
    RoundChange,
    Sequencing,
    StateCount,
    Step,
    TransactionChange,
    Watching,
)

CONTRACTS_DEFAULT: Final = 100
CONTRACTS_MAX: Final = 1_000
LEADERS_DEFAULT: Final = 100
LEADERS_MAX: Final = 2_000
INTERVAL_MS: Final = 500
INTERVAL_MIN_MS: Final = 100
INTERVAL_MAX_MS: Final = 60_000
OPENED_MAX: Final = 16
PUSH: Final = "seq_subscription"


class HistoryLine(msgspec.Struct, frozen=True):
    """An event in the history of a transaction, and its time."""

    at: Timestamp
    text: str


class OperatorAsked(msgspec.Struct, frozen=True):
    """A node whose operator was asked to agree to a contract, and has not answered."""

    node: str
    since: Timestamp


class EndorserMissing(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An endorser that has not signed. `said` is its last answer, if any, as reported by `toldBy`."""

    node: str
    since: Timestamp
    told_by: str
    said: str = ""


class Explained(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of a transaction and its meaning. `blockedBy` are the nodes that it waits for, if any.

    `operators` are those of them whose operators have to agree to a contract that is to be deployed, `missing` the
    endorsers that have not signed.
    """

    id: Uuid
    role: str
    state: str
    waits_for: str
    blocked_by: list[str]
    history: list[HistoryLine]
    contract: Address | None = None
    since: Timestamp | None = None
    detail: str = ""
    meaning: str = ""
    operators: list[OperatorAsked] = []  # msgspec copies it
    missing: list[EndorserMissing] = []


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a contract, as this node sees it.

    `ranking` are the possible coordinators in this range, most preferred first. `sending` and `coordinating` count this
    node's transactions by state, as their sender and as their coordinator. `silent` are members of which nothing can
    be expected at present.
    """

    contract: Address
    domain: str
    mode: str
    rotation: str
    committee: list[str]
    endorsers: list[str]
    threshold: int
    height: int
    range: int
    range_size: int
    ranking: list[str]
    active_coordinator: str | None
    active_since: Timestamp | None
    coordinator_state: str
    coordinator_since: Timestamp
    sender_state: str
    sending: dict[str, int]
    coordinating: dict[str, int]
    silent: list[str]


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """One contract of this node. One that is not `loaded` into memory has no states."""

    contract: Address
    domain: str
    mode: str
    loaded: bool
    coordinator_state: str
    sender_state: str
    active_coordinator: str | None
    sending: int
    coordinating: int


@method("seq_status", role=Role.READ, answers="status")
async def status(
    node: Sequencing, contract: Annotated[Address, Meta(description="The address of a private contract")]
) -> Annotated[Status | None, Meta(description="How it stands; null when this node does not have it")]:
    """Show the coordinator of a contract, since when, in which range, and this node's open transactions."""
    found = await node.status(contract.contract)
    return _shown_status(found) if found is not None else None


@method("seq_explain", role=Role.READ, answers="explanation")
async def explain(
    node: Sequencing, transaction_id: Annotated[Uuid, Meta(description="The id of a transaction")]
) -> Annotated[Explained | None, Meta(description="Where it is; null when this node does not know it")]:
    """Explain a transaction: its state, what it waits for and since when, which node blocks it, and its history."""
    found = await node.explain(transaction_id.intent)
    return _shown_explanation(found) if found is not None else None


@method("seq_list", role=Role.READ, answers="contracts")
async def contracts(
    node: Sequencing,
    limit: Annotated[int, Meta(ge=1, le=CONTRACTS_MAX, description="How many at most")] = CONTRACTS_DEFAULT,
    after: Annotated[
        Address | None, Meta(description="Begin behind this address, the last of the answer before")
    ] = None,
) -> Annotated[list[Summary], Meta(description="Contracts of this node, by address")]:
    """List the contracts of this node with their coordinators."""
    found = await node.contracts(after.contract if after is not None else None, limit)
    return [_shown_summary(each) for each in found]


class MemberOnRing(msgspec.Struct, frozen=True):
    """A member in a range: its place nearest to the point, and the distance."""

    node: str
    place: float
    distance: float


class RangeOnRing(msgspec.Struct, frozen=True, rename="camel"):
    """A range of blocks, its point, and the committee by rank."""

    range: int
    first_height: int
    point: float
    members: list[MemberOnRing]


class Ring(msgspec.Struct, frozen=True, rename="camel"):
    """The ring of a contract. Places are fractions of the ring, from 0 to 1; some of each member are shown.

    `ranges` begin with the present one. A contract with a fixed coordinator has no ring, and both are empty.
    """

    contract: Address
    virtual_nodes: int
    places: dict[str, list[float]]
    ranges: list[RangeOnRing]


@method("seq_ring", role=Role.READ, answers="ring")
async def ring(
    node: Sequencing, contract: Annotated[Address, Meta(description="The address of a private contract")]
) -> Annotated[Ring | None, Meta(description="Its ring; null when this node does not have it")]:
    """Show the ring of a contract: its members' places, the point of this range, and the leaders of the next ranges."""
    found = await node.ring(contract.contract)
    return _shown_ring(found) if found is not None else None


class Led(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of coordinator: `seen` for the first time, `hand-over`, or `fail-over` if the former one was lost.

    `cause` is the reason why nothing could be expected of it any more.
    """

    at: Timestamp
    kind: str
    former: str | None
    leader: str
    cause: str = ""


@method("seq_leaders", role=Role.READ, answers="changes")
async def leaders(
    node: Sequencing,
    contract: Annotated[Address, Meta(description="The address of a private contract")],
    limit: Annotated[int, Meta(ge=1, le=LEADERS_MAX, description="How many at most")] = LEADERS_DEFAULT,
) -> Annotated[list[Led], Meta(description="The latest, the oldest of them first")]:
    """List the coordinators of a contract since this node started, as this node observed them."""
    return [_shown_leader(each) for each in (await node.leaders(contract.contract))[-limit:]]


def _shown_leader(change: LeaderChange) -> Led:
    kind = "seen" if change.former is None else "fail-over" if change.loss is not None else "hand-over"
    cause = change.loss.value if change.loss is not None else ""
    return Led(timestamp_of(change.at_ms), kind, change.former, change.leader, cause)


def _shown_ring(found: RingView) -> Ring:
    return Ring(
        Address(found.contract),
        found.virtual_nodes,
        {each.node: list(each.places) for each in found.places},
        [_shown_range(each) for each in found.ranges],
    )


def _shown_range(found: RingRange) -> RangeOnRing:
    members = [MemberOnRing(each.node, each.place, each.distance) for each in found.members]
    return RangeOnRing(found.number, found.first_height, found.point, members)


def _shown_explanation(found: Explanation) -> Explained:
    return Explained(
        id=uuid_of(found.id),
        role=found.role.value,
        state=found.state,
        waits_for=found.waits_for,
        blocked_by=list(found.blocked_by),
        history=[HistoryLine(timestamp_of(moment.at_ms), moment.text) for moment in found.history],
        contract=Address(found.contract) if found.contract is not None else None,
        since=_time(found.since_ms),
        detail=found.detail,
        meaning=found.meaning,
        operators=[OperatorAsked(node, timestamp_of(at_ms)) for node, at_ms in found.operators],
        missing=[
            EndorserMissing(each.node, timestamp_of(each.since_ms), each.told_by, each.said) for each in found.missing
        ],
    )


def _shown_status(found: ContractStatus) -> Status:
    return Status(
        contract=Address(found.contract),
        domain=found.domain,
        mode=found.mode.value,
        rotation=found.rotation.value,
        committee=list(found.committee),
        endorsers=list(found.endorsers),
        threshold=found.threshold,
        height=found.height,
        range=found.block_range,
        range_size=found.range_size,
        ranking=list(found.ranking),
        active_coordinator=found.active_coordinator,
        active_since=_time(found.active_since_ms),
        coordinator_state=found.coordinator_state,
        coordinator_since=timestamp_of(found.coordinator_since_ms),
        sender_state=found.sender_state,
        sending=_counts(found.sending),
        coordinating=_counts(found.coordinating),
        silent=list(found.silent),
    )


def _shown_summary(found: ContractSummary) -> Summary:
    return Summary(
        contract=Address(found.contract),
        domain=found.domain,
        mode=found.mode.value,
        loaded=found.is_loaded,
        coordinator_state=found.coordinator_state,
        sender_state=found.sender_state,
        active_coordinator=found.active_coordinator,
        sending=found.sending_count,
        coordinating=found.coordinating_count,
    )


def _time(unix_ms: int | None) -> Timestamp | None:
    return timestamp_of(unix_ms) if unix_ms is not None else None


def _counts(counts: tuple[StateCount, ...]) -> dict[str, int]:
    return {each.state: each.count for each in counts}


# The live feed.


class StepShown(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A milestone of a transaction, and the other node that caused it, if any.

    Times are plain numbers, since there are many: milliseconds since 1970.
    """

    milestone: str
    at_ms: int
    by: str | None = None
    detail: str = ""


class HeartbeatsShown(msgspec.Struct, frozen=True):
    """The number of heartbeats of a contract's coordinator that came from a node."""

    contract: Address
    node: str
    count: int


class TransactionChanged(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A transaction reached a milestone; in a snapshot, one that is under way. `state` is its present state here.

    `steps` are all milestones since the previous update, if there were several. One that is `givenUp` gets no more
    updates.
    """

    id: Uuid
    at: Timestamp
    contract: Address | None = None
    milestone: str = ""
    state: str = ""
    by: str | None = None
    detail: str = ""
    failed: bool = False
    steps: list[StepShown] = []  # msgspec copies it
    given_up: bool = False


class RoundChanged(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A round that this node submits: dispatched, or the result of its transaction on the chain.

    `account` is the contract whose own account pays for it; by default the shared account does.
    """

    nonce: int
    state: str
    contract: Address | None = None
    digest: HexText | None = None
    transactions: int = 0
    height: int | None = None
    gas_used: int | None = None
    at: Timestamp | None = None
    account: Address | None = None


class PeerShown(msgspec.Struct, frozen=True):
    """The connection to another node."""

    node: str
    connected: bool
    queued: int


class Update(msgspec.Struct, frozen=True, rename="camel"):
    """The changes since the previous update. A snapshot has everything: the first update is one, and that after a gap.

    `counts` has every milestone of every transaction. `transactions` has single ones as far as there is room: some
    are followed, each on its whole way. `transactionsOmitted` counts those that ended without having been listed. The
    first snapshot begins with the last transactions that have ended, and the last rounds.
    """

    number: int
    at: Timestamp
    height: int
    snapshot: bool
    gap: bool
    contracts: list[Summary]
    contracts_omitted: int
    transactions: list[TransactionChanged]
    transactions_omitted: int
    rounds: list[RoundChanged]
    peers: list[PeerShown]
    counts: dict[str, int]
    heartbeats: list[HeartbeatsShown]


@method("seq_subscribe", role=Role.READ, answers="subscription")
async def subscribe(
    node: Watching,
    subscriber: Subscriber,
    interval_ms: Annotated[
        int, Meta(ge=INTERVAL_MIN_MS, le=INTERVAL_MAX_MS, description="Between two updates, in milliseconds")
    ] = INTERVAL_MS,
) -> Annotated[str, Meta(description="The subscription's id: updates come as seq_subscription with it")]:
    """Subscribe to live updates over this WebSocket: contracts, transactions, rounds and peers as they change.

    First a snapshot, then changes, at most once in an interval and only the latest of each. All milestones are counted;
    where there are many transactions, only some are listed one by one. Updates are not acknowledged: a client that
    missed some gets a notice and a new snapshot.
    """

    async def begin(subscription: Subscription) -> Callable[[], None]:
        updates = node.watch(interval_ms, subscription.opened)
        if held_parties() is not None:
            updates = _narrowed(updates, subscription.opened)
        first = await anext(updates)
        return partial(_cancel, asyncio.create_task(_push(subscription, first, updates)))

    return await subscriber.follow(PUSH, begin)


@method("seq_follow", role=Role.READ, answers="success")
async def follow(
    node: Watching,  # noqa: ARG001  # every method is given the node
    subscriber: Subscriber,
    subscription: Annotated[str, Meta(description="The id that seq_subscribe answered on this connection")],
    transaction_ids: Annotated[
        list[Uuid],
        Meta(
            max_length=OPENED_MAX, description="The transactions to follow from now on, in place of the previous ones"
        ),
    ],
) -> Annotated[bool, Meta(description="True: it is done")]:
    """Receive every milestone of these transactions, also while only some transactions are listed one by one."""
    opened = subscriber.find(subscription, PUSH).opened
    opened.clear()
    opened.update(each.intent for each in transaction_ids)
    return True


@method("seq_unsubscribe", role=Role.READ, answers="success")
async def unsubscribe(
    node: Watching,  # noqa: ARG001  # every method is given the node
    subscriber: Subscriber,
    subscription: Annotated[str, Meta(description="The id that seq_subscribe answered on this connection")],
) -> Annotated[bool, Meta(description="True: it is done")]:
    """Cancel a subscription to live updates."""
    subscriber.close(subscriber.find(subscription, PUSH))
    return True


async def _narrowed(updates: AsyncIterator[FeedUpdate], opened: Container[IntentId]) -> AsyncIterator[FeedUpdate]:
    """Limit updates for callers held to parties to the transactions that they follow.

    An update without any of these is not sent, since it would reveal the activity of others.
    """
    number, has_gap = 0, False
    try:
        async for update in updates:
            has_gap = has_gap or update.has_gap
            own = tuple(each for each in update.transactions if each.id in opened)
            if own or not number:
                number += 1
                yield FeedUpdate(
                    number, update.at_ms, update.height, update.is_snapshot, has_gap and number > 1, transactions=own
                )
                has_gap = False
    finally:
        if isinstance(updates, AsyncGenerator):
            await updates.aclose()


def _cancel(pushing: asyncio.Task[None]) -> None:
    pushing.cancel()


async def _push(subscription: Subscription, first: FeedUpdate, updates: AsyncIterator[FeedUpdate]) -> None:
    try:
        await subscription.push(shown_update(first))
        async for update in updates:
            await subscription.push(shown_update(update))
    except ReceiverLeft:
        return
    finally:
        if isinstance(updates, AsyncGenerator):
            await updates.aclose()


def shown_update(update: FeedUpdate) -> Update:
    """Return an update as clients read it."""
    return Update(
        update.number,
        timestamp_of(update.at_ms),
        update.height,
        update.is_snapshot,
        update.has_gap,
        [_shown_summary(each) for each in update.contracts],
        update.contracts_omitted,
        [_shown_change(each) for each in update.transactions],
        update.transactions_omitted,
        [_shown_round(each) for each in update.rounds],
        [PeerShown(each.node, each.is_connected, each.queued_messages) for each in update.peers],
        {each.milestone: each.count for each in update.counts},
        [_shown_heartbeats(each) for each in update.heartbeats],
    )


def _shown_heartbeats(heard: Heartbeats) -> HeartbeatsShown:
    return HeartbeatsShown(Address(heard.contract), heard.node, heard.count)


def _shown_step(step: Step) -> StepShown:
    return StepShown(step.milestone, step.at_ms, step.by, step.detail)


def _shown_change(change: TransactionChange) -> TransactionChanged:
    return TransactionChanged(
        uuid_of(change.id),
        timestamp_of(change.at_ms),
        Address(change.contract) if change.contract is not None else None,
        change.milestone,
        change.state,
        change.by,
        change.detail,
        change.has_failed,
        [_shown_step(each) for each in change.steps] if len(change.steps) > 1 else [],
        change.is_given_up,
    )


def _shown_round(change: RoundChange) -> RoundChanged:
    return RoundChanged(
        change.nonce,
        change.state,
        Address(change.contract) if change.contract is not None else None,
        hex_of(change.digest) if change.digest else None,
        change.transaction_count,
        change.height,
        change.gas_used,
        timestamp_of(change.at_ms) if change.at_ms else None,
        Address(change.account) if change.account is not None else None,
    )


METHODS: Final = (status, explain, contracts, ring, leaders, subscribe, follow, unsubscribe)
