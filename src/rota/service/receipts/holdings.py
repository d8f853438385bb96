"""Acknowledgements by other nodes of a transaction's states: requested when its receipt is final, given to peers.

Theory of operation. A user who has a receipt from one node may read at another one, whose index may be a block behind.
So the receipt of a transaction of this node waits until every connected node on its states' lists has answered that it
has the block and its states, and `WAIT_S` at most. A node that exceeds this time is not awaited again until it has
answered in time, and twice as often after each further timeout (`Patience`): it cannot delay receipts repeatedly.
Receipts are held in their order; each of them waits for `WAIT_S` at most after it became due.

Which nodes hold states of a leaf is known to the leaf's parties only. The request proves that its author has a content
of the leaf that the asked node may see (`digests.holding_proof`), and names both nodes; a request without that proof
gets no answer. A peer can have a few requests open at a time, each for a bounded time and number of store lookups; the
bytes read for a peer per second are bounded too, whether the peer may see them or not.

No decision depends on an answer: a peer that lies deceives only the users who read at that peer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rota.engine.contracts import KnownContracts
from rota.machine.effects import SendMessage
from rota.machine.events import MessageReceived
from rota.machine.pacing import Debts
from rota.machine.tables import Event
from rota.model.digests import holding_proof
from rota.model.sharing import may_distribute
from rota.model.types import (
    NO_CONTRACT,
    BlockHash,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    RequestId,
    Transition,
)
from rota.ports import BASE_LEDGER, Background, DueReceipt, Store, Unavailable
from rota.wire.messages import HOLDINGS_ASKED_MAX, Envelope, Holding, HoldingsRequest, HoldingsResponse, Message, Reply
from rota.wire.sizes import transition_bytes

WAIT_S: Final = 0.2
KEPT_MAX: Final = 4_096
OWED_MAX: Final = 1_024
# How long a peer's request is open here, and the first pause between lookups for it, which doubles.
ANSWER_S: Final = 2.0
FIRST_PAUSE_S: Final = 0.01
OPEN_OF_PEER_MAX: Final = 16
OPEN_MAX: Final = 256
# The bytes read from the store for a peer per second; each leaf looked up counts as `LOOK_BYTES`.
READ_BYTES_MAX: Final = 4_194_304
LOOK_BYTES: Final = 1_024
READ_AT_ONCE_BYTES: Final = 262_144
LEAF_BYTES: Final = 32


class Patience:
    """The peers for which receipts wait. A late peer must first answer in time, more often after each timeout."""

    def __init__(self) -> None:
        self._owed: Final[dict[NodeName, int]] = {}
        self._penalty: Final[dict[NodeName, int]] = {}
        self._streak: Final[dict[NodeName, int]] = {}

    def is_awaited(self, peer: NodeName) -> bool:
        """Whether a receipt may wait for this peer."""
        return not self._owed.get(peer, 0)

    def ran_out(self, peer: NodeName) -> None:
        """Record that a receipt waited for the peer until the timeout."""
        self._penalty[peer] = self._owed[peer] = min(2 * self._penalty.get(peer, 0) or 1, OWED_MAX)
        self._streak[peer] = 0

    def answered_in_time(self, peer: NodeName) -> None:
        """Reduce the number of answers that the peer owes by one; after enough of them its penalty is reset."""
        if self._owed.get(peer, 0):
            self._owed[peer] -= 1
            return
        self._streak[peer] = self._streak.get(peer, 0) + 1
        if self._streak[peer] >= OWED_MAX:
            self._penalty.pop(peer, None)


@dataclass(slots=True)
class _Asked:
    """One transaction: the nodes whose answers its receipt waits for, and those that have answered."""

    is_held: bool = True
    awaited: set[NodeName] = field(default_factory=set)
    acknowledged: set[NodeName] = field(default_factory=set)


@dataclass(slots=True)
class _Batch:
    """Transactions of a contract that became due together: the answers that each peer still owes."""

    contract: ContractAddress
    open: dict[NodeName, set[Leaf]]
    awaited: frozenset[NodeName]
    is_over: bool = False


Key = tuple[ContractAddress, Leaf]


@dataclass(slots=True)
class _Clock:
    """`machine.pacing.Timed`."""

    now_ms: int = 0


class Holdings:
    """The holdings of one node. `connected` are its peers; `block_at` and `final_height` are those of its own index.

    `is_own` returns whether a user of this node submitted an intent. `released` is called when held receipts are
    released.
    """

    def __init__(
        self,
        node: NodeName,
        contracts: KnownContracts,
        store: Store,
        send: Callable[[SendMessage], None],
        author: Callable[[], tuple[int, int]],
        connected: Callable[[], Collection[NodeName]],
        block_at: Callable[[int], BlockHash | None],
        final_height: Callable[[], int],
        is_own: Callable[[IntentId], bool],
        released: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node: Final = node
        self._contracts: Final = contracts
        self._store: Final = store
        self._send: Final = send
        self._author: Final = author
        self._connected: Final = connected
        self._block_at: Final = block_at
        self._final_height: Final = final_height
        self._is_own: Final = is_own
        self._released: Final = released
        self._sleep: Final = sleep
        self._patience: Final = Patience()
        self._kept: Final[OrderedDict[Key, _Asked]] = OrderedDict()
        self._batches: Final[dict[RequestId, _Batch]] = {}
        self._new: Final[dict[ContractAddress, list[Leaf]]] = {}
        self._tasks: Final = Background("holdings")
        self._answers: Final = Background("holdings that peers ask for")
        self._open: Final[dict[NodeName, int]] = {}
        self._now_s: Final = now_s
        self._clock: Final = _Clock()
        self._debts: Final = Debts(self._clock, READ_BYTES_MAX, 1_000)
        self._said = 0

    async def close(self) -> None:
        """Cancel open requests and answers."""
        await self._tasks.close()
        await self._answers.close()

    # Receipts of this node's own transactions.

    def ready(self, due: Sequence[DueReceipt]) -> Sequence[DueReceipt]:
        """Return the leading receipts that wait for no peer. All new ones are requested at once when first seen."""
        held = [self._is_held(each) for each in due]
        if self._new:
            new = dict(self._new)
            self._new.clear()
            for contract, leaves in new.items():
                self._tasks.begin(self._ask(contract, leaves))
        return due[: held.index(True)] if any(held) else due

    def _is_held(self, due: DueReceipt) -> bool:
        key = (due.contract, due.leaf)
        known = self._kept.get(key)
        if known is not None:
            return known.is_held
        if due.contract in (BASE_LEDGER, NO_CONTRACT) or len(due.leaf) != LEAF_BYTES or due.is_changed:
            return False
        if not self._connected() or not self._is_own(due.intent):
            return False
        self._kept[key] = _Asked()
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        self._new.setdefault(due.contract, []).append(due.leaf)
        return True

    def acknowledged(self, contract: ContractAddress, leaf: Leaf) -> Collection[NodeName] | None:
        """Return the nodes that acknowledged the states of a recent transaction of this node; None for any other."""
        asked = self._kept.get((contract, leaf))
        return tuple(asked.acknowledged) if asked is not None else None

    async def _ask(self, contract: ContractAddress, leaves: list[Leaf]) -> None:
        try:
            made = await self._store.transitions_of(contract, leaves)
        except Unavailable:
            self._release(contract, leaves)
            return
        # The blocks of due receipts are at this height or below.
        height = self._final_height()
        block_hash = self._block_at(height)
        by_peer: dict[NodeName, list[Holding]] = {}
        connected = frozenset(self._connected()) - {self._node}
        for transition in made:
            leaf = transition.leaf
            for peer, content in _readers(transition).items():
                if peer in connected:
                    proof = holding_proof(self._node, peer, leaf, content)
                    by_peer.setdefault(peer, []).append(Holding(leaf, proof))
        if block_hash is None or not by_peer:
            self._release(contract, leaves)
            return
        awaited = frozenset(peer for peer in by_peer if self._patience.is_awaited(peer))
        batch = _Batch(contract, {peer: {each.leaf for each in asked} for peer, asked in by_peer.items()}, awaited)
        for peer, asked in by_peer.items():
            self._say_request(peer, contract, height, block_hash, asked, batch)
        free = []
        for leaf in leaves:
            waits_for = {peer for peer in awaited if leaf in batch.open[peer]}
            asked_of = self._kept.get((contract, leaf))
            if asked_of is not None and waits_for:
                asked_of.awaited |= waits_for
            else:
                free.append(leaf)
        self._release(contract, free)
        await self._sleep(WAIT_S)
        self._time_is_over(contract, leaves, batch)

    def _say_request(
        self,
        peer: NodeName,
        contract: ContractAddress,
        height: int,
        block_hash: BlockHash,
        holdings: list[Holding],
        batch: _Batch,
    ) -> None:
        for start in range(0, len(holdings), HOLDINGS_ASKED_MAX):
            number = self._number()
            self._batches[number] = batch
            part = tuple(holdings[start : start + HOLDINGS_ASKED_MAX])
            self._say(peer, contract, number, HoldingsRequest(number, height, block_hash, part))
        while len(self._batches) > KEPT_MAX:
            del self._batches[next(iter(self._batches))]

    def _time_is_over(self, contract: ContractAddress, leaves: list[Leaf], batch: _Batch) -> None:
        batch.is_over = True
        for peer, open_ in batch.open.items():
            if open_ and peer in batch.awaited:
                self._patience.ran_out(peer)
        self._release(contract, leaves)

    def _release(self, contract: ContractAddress, leaves: Iterable[Leaf]) -> None:
        was_held = False
        for leaf in leaves:
            asked = self._kept.get((contract, leaf))
            if asked is not None and asked.is_held:
                asked.is_held, was_held = False, True
        if was_held:
            self._released()

    # Messages from peers.

    def take(self, event: Event) -> bool:
        """Handle a holdings message; returns whether the event was one."""
        match event:
            case MessageReceived(peer, Envelope(contract=contract, body=HoldingsRequest() as request)):
                self._take_request(peer, contract, request)
                return True
            case MessageReceived(peer, Envelope(contract=contract, body=HoldingsResponse() as response)):
                self._take_response(peer, contract, response)
                return True
            case _:
                return False

    def _take_response(self, peer: NodeName, contract: ContractAddress, response: HoldingsResponse) -> None:
        """Record the answer. A late one does not count as in time; one about another contract is ignored."""
        batch = self._batches.get(response.request_id)
        open_ = batch.open.get(peer) if batch is not None else None
        if batch is None or not open_ or batch.contract != contract:
            return
        done = []
        for leaf in response.leaves:
            if leaf not in open_:
                continue
            open_.discard(leaf)
            asked = self._kept.get((contract, leaf))
            if asked is not None:
                asked.acknowledged.add(peer)
                asked.awaited.discard(peer)
                if not asked.awaited:
                    done.append(leaf)
        if not open_ and not batch.is_over:
            self._patience.answered_in_time(peer)
        self._release(contract, done)

    def _take_request(self, peer: NodeName, contract: ContractAddress, request: HoldingsRequest) -> None:
        known = self._contracts.known(contract)
        if known is None or not may_distribute(known.contract, peer) or len(request.holdings) > HOLDINGS_ASKED_MAX:
            return
        if self._open.get(peer, 0) >= OPEN_OF_PEER_MAX or len(self._answers) >= OPEN_MAX:
            return
        if not self._read().is_clear(peer):
            return
        self._open[peer] = self._open.get(peer, 0) + 1
        self._answers.begin(self._answer(peer, contract, request))

    async def _answer(self, peer: NodeName, contract: ContractAddress, request: HoldingsRequest) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._answer_in_time(peer, contract, request)
        except (TimeoutError, Unavailable):
            pass
        finally:
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]

    async def _answer_in_time(self, peer: NodeName, contract: ContractAddress, request: HoldingsRequest) -> None:
        """Answer for leaves that are here at once, and for the rest when they arrive; ignore a false proof."""
        missing = {each.leaf: each.proof for each in request.holdings}
        pause_s = FIRST_PAUSE_S
        while missing:
            if self._block_at(request.height) == request.block_hash:
                proved = await self._proved(peer, contract, missing)
                if proved:
                    answer = HoldingsResponse(request.request_id, proved)
                    self._say(peer, contract, self._number(), answer)
            if missing:
                await self._sleep(pause_s)
                pause_s *= 2

    async def _proved(self, peer: NodeName, contract: ContractAddress, missing: dict[Leaf, Digest]) -> tuple[Leaf, ...]:
        """Return the leaves that are here and that the peer proves to have; remove those that are here from `missing`.

        The store is read within the peer's allowance, `READ_AT_ONCE_BYTES` at a time: a transition may have a MiB.
        """
        proved: list[Leaf] = []
        leaves = tuple(missing)
        self._read().charge(peer, LOOK_BYTES * len(leaves))
        while leaves and (room_bytes := self._read().room(peer)) > 0:
            most_bytes = min(room_bytes, READ_AT_ONCE_BYTES)
            made = await self._store.transitions_of(contract, leaves, most_bytes)
            read_bytes = sum(map(transition_bytes, made))
            self._read().charge(peer, read_bytes)
            for each in made:
                if is_held(self._node, each.leaf, (each,)):
                    proof = missing.pop(each.leaf)
                    if self._is_proved(peer, each, proof):
                        proved.append(each.leaf)
            found = [leaves.index(each.leaf) for each in made]
            leaves = leaves[max(found) + 1 :] if read_bytes >= most_bytes else ()
        return tuple(proved)

    def _is_proved(self, peer: NodeName, made: Transition, proof: bytes) -> bool:
        contents = {state.content for state in made.outputs if self._node in state.distribution}
        return any(holding_proof(peer, self._node, made.leaf, each) == proof for each in contents if each is not None)

    def _read(self) -> Debts:
        """Return the bytes read for each peer, as of now."""
        self._clock.now_ms = int(self._now_s() * 1_000)
        return self._debts

    def _number(self) -> RequestId:
        self._said += 1
        return RequestId(self._author()[0], self._said)

    def _say(self, peer: NodeName, contract: ContractAddress, number: RequestId, body: Message) -> None:
        incarnation, height = self._author()
        answered = body.in_reply_to if isinstance(body, Reply) else None
        envelope = Envelope(contract, number, incarnation, height, body, correlation_id=answered)
        self._send(SendMessage(peer, envelope))


def is_held(node: NodeName, leaf: Leaf, made: Iterable[Transition]) -> bool:
    """Whether a copy of this leaf's transition has all contents that the node may see, and there are any."""
    for transition in made:
        granted = [state for state in transition.outputs if node in state.distribution]
        if transition.leaf == leaf and granted and all(state.content is not None for state in granted):
            return True
    return False


def _readers(made: Transition) -> dict[NodeName, bytes]:
    """Return the nodes that may see an output of this transition, each with a content that it may see."""
    readers: dict[NodeName, bytes] = {}
    for state in made.outputs:
        if state.content is not None:
            for peer in state.distribution:
                readers.setdefault(peer, state.content)
    return readers


def readers_of(leaf: Leaf, made: Iterable[Transition]) -> tuple[NodeName, ...]:
    """Return the nodes that may see an output of this leaf, by name."""
    found = {peer for each in made if each.leaf == leaf for state in each.outputs for peer in state.distribution}
    return tuple(sorted(found))
