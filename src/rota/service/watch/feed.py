"""The live feed: the changes at this node, for dashboards and other observers.

Theory of operation. While a caller follows, and only then, all events and effects of the core pass through here. A
milestone of a transaction, a round, or a change of a contract is noted for each follower, by its id: of several changes
of one thing the latest counts. After an interval each follower receives the noted changes, with the states of that
moment. A slow follower gets more at once and not more often, and nothing is held for it beyond the bounds below.
Changes without room are counted, and the update reports a gap: then the next begins with a snapshot again.

The cost must not grow with the load. All milestones are counted, and transactions are listed one by one within an
interval's budget (`journeys`); of changed contracts those that waited longest come first, and the others with the next
update. The first snapshot begins with past rounds and transactions from the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from rota.chain.effects import BlocksIndexed, RoundDispatch
from rota.machine.effects import Effect, Persist
from rota.machine.events import MessageReceived
from rota.machine.tables import Event
from rota.model.types import FINALITY_BROKEN, NO_CONTRACT, ContractAddress, IntentId, NodeName
from rota.node.events import ForContract
from rota.rpc.credentials import CALLER, share_of
from rota.rpc.errors import ErrorCode, Rejected
from rota.service.interface import (
    ContractSummary,
    FeedUpdate,
    Heartbeats,
    MilestoneCount,
    PeerMeasurements,
    RoundChange,
    Step,
    TransactionChange,
)
from rota.service.watch.journeys import NOWHERE, Journey, Journeys, budget_of
from rota.service.watch.milestones import Milestone, Milestones, Sighting, is_telling_effect, is_telling_event
from rota.wire.messages import CoordinatorHeartbeat

FOLLOWERS_MAX: Final = 32
OPEN_TRANSACTIONS_MAX: Final = 200
PAST_TRANSACTIONS_MAX: Final = 50
PAST_ROUNDS_MAX: Final = 50
ROUNDS_MAX: Final = 1_000
CONTRACTS_MAX: Final = 1_000
TOUCHED_MAX: Final = 10_000
HEARTBEATS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Past:
    """The past in the store: rounds that were sent and transactions that have ended, the oldest first."""

    rounds: tuple[RoundChange, ...] = ()
    transactions: tuple[TransactionChange, ...] = ()


NO_PAST: Final = Past()


@dataclass(frozen=True, slots=True)
class Looks:
    """The feed's reads of the node for its updates."""

    now_ms: Callable[[], int]
    height: Callable[[], int]
    contracts: Callable[[], Iterable[ContractAddress]]
    summary_of: Callable[[ContractAddress], ContractSummary | None]
    state_of: Callable[[ContractAddress, IntentId], str]
    open_transactions: Callable[[int], tuple[TransactionChange, ...]]
    peers: Callable[[], tuple[PeerMeasurements, ...]]
    past: Callable[[int, int], Awaitable[Past]]


@dataclass(slots=True)
class _Follower:
    """A follower, with the changes that it has not received yet."""

    caller: str
    contracts_max: int
    journeys: Journeys
    contracts: dict[ContractAddress, None] = field(default_factory=dict)
    rounds: dict[tuple[ContractAddress | None, int, str], RoundChange] = field(default_factory=dict)
    heartbeats: Counter[tuple[ContractAddress, NodeName]] = field(default_factory=Counter)
    has_gap: bool = False
    has_news: asyncio.Event = field(default_factory=asyncio.Event)
    shown_contracts: dict[ContractAddress, ContractSummary] = field(default_factory=dict)
    shown_peers: tuple[PeerMeasurements, ...] = ()

    def saw(self, sighting: Sighting, at_ms: int) -> None:
        """Note transactions at a milestone."""
        self.journeys.saw(sighting, at_ms)
        if sighting.contract and sighting.contract not in self.contracts:
            self.touch(sighting.contract)

    def touch(self, contract: ContractAddress) -> None:
        """Note that the contract may have changed."""
        if contract in self.contracts or len(self.contracts) < TOUCHED_MAX:
            self.contracts[contract] = None
        else:
            self.has_gap = True
        self.has_news.set()

    def heard(self, contract: ContractAddress, node: NodeName) -> None:
        """Count a heartbeat. It causes no update by itself, and is sent with the next."""
        if (contract, node) in self.heartbeats or len(self.heartbeats) < HEARTBEATS_MAX:
            self.heartbeats[contract, node] += 1

    def saw_round(self, change: RoundChange) -> None:
        """Note a round that is under way or mined."""
        if len(self.rounds) < ROUNDS_MAX:
            self.rounds[change.account, change.nonce, change.state] = change
        else:
            self.has_gap = True
        self.has_news.set()


class LiveFeed:
    """The feed of one node."""

    def __init__(self, node: NodeName, looks: Looks) -> None:
        self._looks: Final = looks
        self._milestones: Final = Milestones(node)
        self._followers: Final[list[_Follower]] = []

    @property
    def is_watched(self) -> bool:
        """Whether anyone follows; otherwise events and effects need not be passed to the feed."""
        return bool(self._followers)

    # Events and effects.

    def saw_event(self, event: Event) -> None:
        """Note an event given to the core."""
        if is_telling_event(event):
            self._note(self._milestones.of_event(event))
        match event:
            case MessageReceived(peer, envelope):
                if isinstance(envelope.body, CoordinatorHeartbeat):
                    for follower in self._followers:
                        follower.heard(envelope.contract, peer)
                self._touch(envelope.contract)
            case ForContract(contract):
                self._touch(contract)
            case _:
                return

    def saw_effect(self, effect: Effect) -> None:
        """Note an effect of the core."""
        if is_telling_effect(effect):
            self._note(self._milestones.of_effect(effect))
        if isinstance(effect, Persist):
            for record in effect.records:
                if isinstance(record, RoundDispatch):
                    order = record.round
                    count = len(order.transitions)
                    self._note_round(
                        RoundChange(
                            record.nonce,
                            "dispatched",
                            order.contract,
                            order.digest,
                            count,
                            at_ms=self._looks.now_ms(),
                            account=record.account or None,
                        )
                    )
                elif isinstance(record, BlocksIndexed):
                    for block in record.blocks:
                        for mined in block.mined:
                            self._note_round(
                                RoundChange(
                                    mined.nonce,
                                    mined.status.value,
                                    height=block.height,
                                    gas_used=mined.gas_used,
                                    at_ms=self._looks.now_ms(),
                                    account=mined.account or None,
                                )
                            )

    def saw_undone(self, receipts: Iterable[tuple[ContractAddress, IntentId]]) -> None:
        """Note receipts that no longer hold, because the chain took back the final blocks of their transactions."""
        self._note(
            Sighting(Milestone.REPORTED, (intent,), contract, detail=FINALITY_BROKEN, has_failed=True)
            for contract, intent in receipts
        )

    def _note(self, sightings: Iterable[Sighting]) -> None:
        at_ms = 0
        for sighting in sightings:
            at_ms = at_ms or self._looks.now_ms()
            for follower in self._followers:
                follower.saw(sighting, at_ms)
        if at_ms:
            for follower in self._followers:
                follower.has_news.set()

    def _note_round(self, change: RoundChange) -> None:
        for follower in self._followers:
            follower.saw_round(change)

    def _touch(self, contract: ContractAddress) -> None:
        for follower in self._followers:
            if contract not in follower.contracts:
                follower.touch(contract)

    # Following.

    async def watch(self, interval_ms: int, opened: Container[IntentId] = ()) -> AsyncIterator[FeedUpdate]:
        """Yield a snapshot, then changes, at most once per interval. `Rejected` when too many callers follow.

        Changes of transactions that are `opened` are always included; the caller may change this set meanwhile.
        """
        caller = CALLER.get()
        share = share_of(caller, FOLLOWERS_MAX)
        is_shared_out = sum(each.caller == caller.name for each in self._followers) >= share
        if len(self._followers) >= FOLLOWERS_MAX or is_shared_out:
            text = f"at most {FOLLOWERS_MAX} may follow a node at a time, and {share} of one caller"
            raise Rejected(ErrorCode.INVALID_REQUEST, "", text)
        budget = budget_of(interval_ms)
        follower = _Follower(caller.name, budget.contracts, Journeys(budget, opened))
        self._followers.append(follower)
        number = 1
        try:
            past = await self._looks.past(PAST_TRANSACTIONS_MAX, PAST_ROUNDS_MAX)
            yield self._snapshot(follower, number, past=past)
            while True:
                await asyncio.sleep(interval_ms / 1_000)
                await self._news(follower, interval_ms)
                number += 1
                if follower.has_gap:
                    yield self._snapshot(follower, number, has_gap=True)
                else:
                    yield self._changes(follower, number)
        finally:
            self._followers.remove(follower)

    async def _news(self, follower: _Follower, interval_ms: int) -> None:
        """Wait until something has changed. Peers cause no event, so they are checked in every interval."""
        while not follower.has_news.is_set() and self._looks.peers() == follower.shown_peers:
            try:
                async with asyncio.timeout(interval_ms / 1_000):
                    await follower.has_news.wait()
            except TimeoutError:
                continue

    def _snapshot(self, follower: _Follower, number: int, has_gap: bool = False, past: Past = NO_PAST) -> FeedUpdate:
        """Return all contracts and open transactions, as far as there is room; clears the changes noted so far."""
        addresses = list(self._looks.contracts())
        under_way = self._looks.open_transactions(OPEN_TRANSACTIONS_MAX)
        follower.journeys.follow((each.id, each.contract or NOWHERE) for each in under_way)
        follower.contracts.clear()
        follower.rounds.clear()
        follower.heartbeats.clear()
        follower.has_gap = False
        follower.has_news.clear()
        shown = {each.contract: each for each in self._summaries(addresses[:CONTRACTS_MAX])}
        follower.shown_contracts = shown
        follower.shown_peers = self._looks.peers()
        return FeedUpdate(
            number,
            self._looks.now_ms(),
            self._looks.height(),
            is_snapshot=True,
            has_gap=has_gap,
            contracts=tuple(shown.values()),
            contracts_omitted=max(0, len(addresses) - CONTRACTS_MAX),
            transactions=(*past.transactions, *under_way),
            rounds=past.rounds,
            peers=follower.shown_peers,
        )

    def _changes(self, follower: _Follower, number: int) -> FeedUpdate:
        journeys = follower.journeys
        told = journeys.take()
        counts, journeys.counts = journeys.counts, Counter()
        omitted, journeys.omitted = journeys.omitted, 0
        rounds, follower.rounds = follower.rounds, {}
        heartbeats, follower.heartbeats = follower.heartbeats, Counter()
        changed = self._changed_contracts(follower)
        peers = self._looks.peers()
        are_peers_changed = peers != follower.shown_peers
        follower.shown_peers = peers
        if not journeys.has_news and not follower.contracts:
            follower.has_news.clear()
        return FeedUpdate(
            number,
            self._looks.now_ms(),
            self._looks.height(),
            contracts=changed,
            transactions=tuple(self._change(each) for each in told),
            transactions_omitted=omitted,
            rounds=tuple(rounds.values()),
            peers=peers if are_peers_changed else (),
            counts=tuple(MilestoneCount(name.value, count) for name, count in counts.items()),
            heartbeats=tuple(Heartbeats(*of, count) for of, count in heartbeats.items()),
        )

    def _changed_contracts(self, follower: _Follower) -> tuple[ContractSummary, ...]:
        """Return the contracts that were touched first; the others wait for the next update."""
        touched = list(islice(follower.contracts, follower.contracts_max))
        for address in touched:
            del follower.contracts[address]
        shown = follower.shown_contracts
        changed = tuple(each for each in self._summaries(touched) if shown.get(each.contract) != each)
        for each in changed:
            if each.contract in shown or len(shown) < CONTRACTS_MAX:
                shown[each.contract] = each
        return changed

    def _summaries(self, addresses: Iterable[ContractAddress]) -> Iterable[ContractSummary]:
        for address in addresses:
            summary = self._looks.summary_of(address)
            if summary is not None:
                yield summary

    def _change(self, journey: Journey) -> TransactionChange:
        contract = journey.contract
        state = self._looks.state_of(contract, journey.intent)
        shown = contract if contract not in (NOWHERE, NO_CONTRACT) else None
        if not journey.steps:
            return TransactionChange(
                journey.intent, self._looks.now_ms(), shown, state=state, is_given_up=journey.is_given_up
            )
        (_, _, _, peer, detail, has_failed), at_ms = latest = journey.steps[-1]
        return TransactionChange(
            journey.intent,
            at_ms,
            shown,
            latest.sighting.milestone.value,
            state,
            peer,
            detail,
            has_failed,
            tuple(Step(each.milestone.value, when_ms, each.peer, each.detail) for each, when_ms in journey.steps),
            journey.is_given_up,
        )
