"""What changes at this node, as it changes: for dashboards and whoever else wants to watch.

Theory of operation. Everything that the core is told and asks for passes here while somebody watches, and only then.
What of it is a milestone of a transaction, a round or a sign of life of a contract is noted for each who follows, by
its id: of several changes of one thing the latest counts. After an interval each follower is given what was noted, with
the states that things are in then. Who takes longer gets more at once and not more often, and nothing is held for him
beyond the bounds below. A transaction has its milestones of an interval as steps too. What had no room is counted, and
the update says that there is a gap: then it begins with a snapshot again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from rota.api.errors import ErrorCode, Rejected
from rota.api.facade import (
    ContractSummary,
    FeedUpdate,
    Heartbeats,
    MilestoneCount,
    PeerMeasurements,
    RoundChange,
    Step,
    TransactionChange,
)
from rota.core.effects import BlocksIndexed, Effect, Persist, RoundDispatch
from rota.core.events import ForContract, MessageReceived
from rota.core.machine import Event
from rota.messages import CoordinatorHeartbeat
from rota.runtime.milestones import Milestone, Milestones, Sighting, is_telling_effect, is_telling_event
from rota.types import ContractAddress, IntentId, NodeName

FOLLOWERS_MAX: Final = 32
TRANSACTIONS_MAX: Final = 1_000
ROUNDS_MAX: Final = 1_000
CONTRACTS_MAX: Final = 1_000
HEARTBEATS_MAX: Final = 1_000
STEPS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Looks:
    """How the feed looks at the node when it tells of something."""

    now_ms: Callable[[], int]
    height: Callable[[], int]
    contracts: Callable[[], Iterable[ContractAddress]]
    summary_of: Callable[[ContractAddress], ContractSummary | None]
    state_of: Callable[[ContractAddress, IntentId], str]
    open_transactions: Callable[[int], tuple[TransactionChange, ...]]
    peers: Callable[[], tuple[PeerMeasurements, ...]]


@dataclass(slots=True)
class _Follower:
    """What one who follows has not been told yet."""

    transactions: dict[IntentId, list[tuple[Sighting, int]]] = field(default_factory=dict)
    contracts: dict[ContractAddress, None] = field(default_factory=dict)
    rounds: dict[tuple[int, str], RoundChange] = field(default_factory=dict)
    counts: Counter[Milestone] = field(default_factory=Counter)
    heartbeats: Counter[tuple[ContractAddress, NodeName]] = field(default_factory=Counter)
    omitted: int = 0
    has_gap: bool = False
    has_news: asyncio.Event = field(default_factory=asyncio.Event)
    shown_contracts: dict[ContractAddress, ContractSummary] = field(default_factory=dict)
    shown_peers: tuple[PeerMeasurements, ...] = ()

    def saw(self, sighting: Sighting, at_ms: int) -> None:
        """A transaction is at a milestone; where there is no room it is counted alone."""
        self.counts[sighting.milestone] += 1
        steps = self.transactions.pop(sighting.intent, None)
        if steps is not None or len(self.transactions) < TRANSACTIONS_MAX:
            steps = self.transactions[sighting.intent] = [] if steps is None else steps
            if len(steps) == STEPS_MAX:
                del steps[0]
            steps.append((sighting, at_ms))
        else:
            self.omitted += 1
        if sighting.contract and sighting.contract not in self.contracts:
            self.touch(sighting.contract)

    def touch(self, contract: ContractAddress) -> None:
        """Something of it may have changed."""
        if contract in self.contracts or len(self.contracts) < CONTRACTS_MAX:
            self.contracts[contract] = None
        else:
            self.has_gap = True
        self.has_news.set()

    def heard(self, contract: ContractAddress, node: NodeName) -> None:
        """A heartbeat came. It is no news by itself, and is told with what is."""
        if (contract, node) in self.heartbeats or len(self.heartbeats) < HEARTBEATS_MAX:
            self.heartbeats[contract, node] += 1

    def saw_round(self, change: RoundChange) -> None:
        """A round is on its way, or mined."""
        if len(self.rounds) < ROUNDS_MAX:
            self.rounds[change.nonce, change.state] = change
        else:
            self.has_gap = True
        self.has_news.set()


class LiveFeed:
    """One node's."""

    def __init__(self, node: NodeName, looks: Looks) -> None:
        self._looks: Final = looks
        self._milestones: Final = Milestones(node)
        self._followers: Final[list[_Follower]] = []

    @property
    def is_watched(self) -> bool:
        """Somebody follows; nobody, and nothing need be told."""
        return bool(self._followers)

    # What happens.

    def saw_event(self, event: Event) -> None:
        """Told to the core."""
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
        """Asked for by the core."""
        if is_telling_effect(effect):
            self._note(self._milestones.of_effect(effect))
        if isinstance(effect, Persist):
            for record in effect.records:
                if isinstance(record, RoundDispatch):
                    order = record.round
                    count = len(order.transitions)
                    self._note_round(
                        RoundChange(
                            record.nonce, "dispatched", order.contract, order.digest, count, at_ms=self._looks.now_ms()
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
                                )
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

    async def watch(self, interval_ms: int) -> AsyncIterator[FeedUpdate]:
        """A snapshot, then what changes, at most once in an interval. `Rejected` when too many follow."""
        if len(self._followers) >= FOLLOWERS_MAX:
            raise Rejected(ErrorCode.INVALID_REQUEST, "", f"at most {FOLLOWERS_MAX} may follow a node at a time")
        follower = _Follower()
        self._followers.append(follower)
        number = 1
        try:
            yield self._snapshot(follower, number)
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
        """Until there is something to tell: peers tell of nothing, so they are looked at in every interval."""
        while not follower.has_news.is_set() and self._looks.peers() == follower.shown_peers:
            try:
                async with asyncio.timeout(interval_ms / 1_000):
                    await follower.has_news.wait()
            except TimeoutError:
                continue

    def _snapshot(self, follower: _Follower, number: int, has_gap: bool = False) -> FeedUpdate:
        """All contracts and what is open, as far as there is room."""
        addresses = list(self._looks.contracts())
        fresh = _Follower(has_news=follower.has_news)
        for name in ("transactions", "contracts", "rounds", "counts", "heartbeats", "omitted", "has_gap"):
            setattr(follower, name, getattr(fresh, name))
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
            transactions=self._looks.open_transactions(TRANSACTIONS_MAX),
            peers=follower.shown_peers,
        )

    def _changes(self, follower: _Follower, number: int) -> FeedUpdate:
        transactions, follower.transactions = follower.transactions, {}
        touched, follower.contracts = follower.contracts, {}
        rounds, follower.rounds = follower.rounds, {}
        counts, follower.counts = follower.counts, Counter()
        heartbeats, follower.heartbeats = follower.heartbeats, Counter()
        omitted, follower.omitted = follower.omitted, 0
        follower.has_news.clear()
        changed = [each for each in self._summaries(touched) if follower.shown_contracts.get(each.contract) != each]
        for each in changed:
            if each.contract in follower.shown_contracts or len(follower.shown_contracts) < CONTRACTS_MAX:
                follower.shown_contracts[each.contract] = each
        peers = self._looks.peers()
        are_peers_changed = peers != follower.shown_peers
        follower.shown_peers = peers
        return FeedUpdate(
            number,
            self._looks.now_ms(),
            self._looks.height(),
            contracts=tuple(changed),
            transactions=tuple(self._change(seen) for seen in transactions.values()),
            transactions_omitted=omitted,
            rounds=tuple(rounds.values()),
            peers=peers if are_peers_changed else (),
            counts=tuple(MilestoneCount(name.value, count) for name, count in counts.items()),
            heartbeats=tuple(Heartbeats(*of, count) for of, count in heartbeats.items()),
        )

    def _summaries(self, addresses: Iterable[ContractAddress]) -> Iterable[ContractSummary]:
        for address in addresses:
            summary = self._looks.summary_of(address)
            if summary is not None:
                yield summary

    def _change(self, seen: list[tuple[Sighting, int]]) -> TransactionChange:
        sighting, at_ms = seen[-1]
        return TransactionChange(
            sighting.intent,
            at_ms,
            sighting.contract or None,
            sighting.milestone.value,
            self._looks.state_of(sighting.contract, sighting.intent),
            sighting.peer,
            sighting.detail,
            sighting.has_failed,
            tuple(Step(each.milestone.value, when_ms, each.peer, each.detail) for each, when_ms in seen),
        )
