"""Who holds what a transaction made: what receipts wait for, what a peer is answered, and what a liar achieves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf

from rota.engine.contracts import KnownContracts
from rota.evm.groups import pente
from rota.machine.effects import SendMessage
from rota.machine.events import MessageReceived, Tick
from rota.model.digests import holding_proof, state_commitment
from rota.model.types import BlockHash, ContractAddress, Digest, Leaf, NodeName, RequestId, State, StateId, Transition
from rota.ports import DueReceipt, Unavailable
from rota.service.receipts.holdings import OPEN_OF_PEER_MAX, OWED_MAX, READ_BYTES_MAX, WAIT_S, Holdings, Patience
from rota.wire.messages import HOLDINGS_ASKED_MAX, Envelope, Holding, HoldingsRequest, HoldingsResponse, Message
from rota.wire.sizes import transition_bytes
from tests.service.test_mail import CHAIN_ID, CONTRACT, NODE2, NODE3, STRANGER, group_contract
from tests.store.kit import NODE, a_transition, in_loop, intent_id

HEAD = BlockHash(b"\5" * 32)
HEIGHT = 9


def made(number: int, *readers: NodeName) -> Transition:
    """A transition with one state, which these nodes may see."""
    bare = a_transition(number)
    content = bytes([number]) * 40
    state = State(StateId(bare.leaf, 0), state_commitment(content), readers, content)
    return replace(bare, outputs=(state,))


@dataclass
class Stored:
    """What a node has of each leaf."""

    transitions: list[Transition] = field(default_factory=list)
    is_away: bool = False
    looks: int = 0
    given_bytes: int = 0

    async def transitions_of(
        self, contract: ContractAddress, leaves: Sequence[Leaf], bytes_max: int | None = None
    ) -> tuple[Transition, ...]:
        assert contract == CONTRACT
        self.looks += 1
        if self.is_away:
            raise Unavailable("the store is away")
        found = tuple(each for each in self.transitions if each.leaf in leaves)
        read_bytes = [0, *accumulate(map(transition_bytes, found))]
        found = tuple(each for each, before in zip(found, read_bytes, strict=False) if before < (bytes_max or inf))
        self.given_bytes += sum(len(state.content or b"") for each in found for state in each.outputs)
        return found


class Place:
    """A node's holdings, what it has said, and a clock that its test moves."""

    def __init__(self, node: NodeName = NODE) -> None:
        self.said: list[SendMessage] = []
        self.store = Stored()
        self.connected: dict[NodeName, None] = {NODE2: None, NODE3: None}
        self.block: BlockHash | None = HEAD
        self.released = 0
        self.own = True
        self.now_s = 0.0
        self.sleeps: list[tuple[float, asyncio.Future[None]]] = []
        contracts = KnownContracts(node, CHAIN_ID, {"pente": pente()}, bytes(32))
        contracts.add(group_contract())
        self.holdings = Holdings(
            node,
            contracts,
            self.store,  # type: ignore[arg-type]
            self.said.append,
            lambda: (7, 1),
            lambda: self.connected,
            lambda height: self.block if height == HEIGHT else None,
            lambda: HEIGHT,
            lambda _: self.own,
            self._release,
            self._sleep,
            lambda: self.now_s,
        )

    def _release(self) -> None:
        self.released += 1

    async def _sleep(self, seconds: float) -> None:
        ended = asyncio.get_running_loop().create_future()
        self.sleeps.append((seconds, ended))
        await ended

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_time(self) -> None:
        """All that sleeps wakes up."""
        await self.settle()
        for _, ended in self.sleeps:
            if not ended.done():
                ended.set_result(None)
        await self.settle()

    def bodies(self, peer: NodeName, kind: type[Message]) -> list[Message]:
        return [each.envelope.body for each in self.said if each.peer == peer and isinstance(each.envelope.body, kind)]

    def hear(self, peer: NodeName, body: Message) -> bool:
        return self.holdings.take(MessageReceived(peer, Envelope(CONTRACT, RequestId(1, 1), 1, 1, body)))

    async def acknowledge(self, peer: NodeName) -> None:
        """The peer answers the last request that it was sent, whole."""
        await self.settle()
        request = self.bodies(peer, HoldingsRequest)[-1]
        assert isinstance(request, HoldingsRequest)
        self.hear(peer, HoldingsResponse(request.request_id, tuple(each.leaf for each in request.holdings)))


def due(transition: Transition) -> DueReceipt:
    return DueReceipt(transition.intent, CONTRACT, transition.leaf)


@in_loop
async def test_receipt_waits_until_every_connected_reader_has_acknowledged() -> None:
    place = Place()
    transition = made(1, NODE, NODE2, NODE3)
    place.store.transitions = [transition]
    assert place.holdings.ready([due(transition)]) == []
    await place.acknowledge(NODE2)
    assert place.holdings.ready([due(transition)]) == []
    assert place.released == 0
    await place.acknowledge(NODE3)
    assert place.released == 1
    assert place.holdings.ready([due(transition)]) == [due(transition)]
    assert sorted(place.holdings.acknowledged(CONTRACT, transition.leaf) or ()) == [NODE2, NODE3]
    request = place.bodies(NODE2, HoldingsRequest)[0]
    assert isinstance(request, HoldingsRequest)
    assert (request.height, request.block_hash) == (HEIGHT, HEAD)
    await place.holdings.close()


@in_loop
async def test_receipts_are_released_in_their_order() -> None:
    place = Place()
    first, second = made(1, NODE, NODE2), made(2, NODE, NODE)
    place.store.transitions = [first, second]
    both = [due(first), due(second)]
    assert place.holdings.ready(both) == []
    await place.settle()
    # The second has no other reader and waits for nobody, but comes behind the first.
    assert place.holdings.ready(both) == []
    await place.acknowledge(NODE2)
    assert place.holdings.ready(both) == both
    await place.holdings.close()


@in_loop
async def test_receipt_of_a_peer_that_is_silent_waits_once() -> None:
    place = Place()
    transitions = [made(number, NODE, NODE2) for number in range(1, 5)]
    place.store.transitions = list(transitions)
    first, second, third, fourth = (due(each) for each in transitions)
    assert place.holdings.ready([first]) == []
    await place.pass_time()
    assert [seconds for seconds, _ in place.sleeps] == [WAIT_S]
    assert place.holdings.ready([first]) == [first]
    assert place.holdings.acknowledged(CONTRACT, transitions[0].leaf) == ()
    # It is asked again, and not awaited.
    place.holdings.ready([second])
    await place.settle()
    assert place.holdings.ready([second]) == [second]
    assert len(place.bodies(NODE2, HoldingsRequest)) == 2
    # An answer that comes too late is noted, and earns nothing.
    await place.pass_time()
    await place.acknowledge(NODE2)
    assert place.holdings.acknowledged(CONTRACT, transitions[1].leaf) == (NODE2,)
    place.holdings.ready([third])
    await place.settle()
    assert place.holdings.ready([third]) == [third]
    # One that is in time does.
    await place.acknowledge(NODE2)
    assert place.holdings.ready([fourth]) == []
    await place.holdings.close()


def test_peer_that_is_late_again_and_again_is_awaited_ever_more_rarely() -> None:
    patience = Patience()
    delays, answers = 0, 0
    while answers < 5_000:
        # The worst that it can do: it answers in time exactly as often as it must, and is late when it is awaited.
        if patience.is_awaited(NODE2):
            patience.ran_out(NODE2)
            delays += 1
        else:
            patience.answered_in_time(NODE2)
            answers += 1
    assert delays <= 15
    for _ in range(OWED_MAX):
        patience.answered_in_time(NODE2)
    assert patience.is_awaited(NODE2)
    for _ in range(OWED_MAX):
        patience.answered_in_time(NODE2)
    patience.ran_out(NODE2)
    patience.answered_in_time(NODE2)
    assert patience.is_awaited(NODE2)


@in_loop
async def test_receipt_waits_for_nobody_where_nobody_can_answer() -> None:
    place = Place()
    transition = made(1, NODE, NODE2)
    one = due(transition)
    place.own = False
    assert place.holdings.ready([one]) == [one]
    place.own, place.connected = True, {}
    assert place.holdings.ready([one]) == [one]
    place.connected = {NODE3: None}
    place.store.transitions = [transition]
    assert place.holdings.ready([one]) == []
    await place.settle()
    assert place.holdings.ready([one]) == [one]
    # Nor when the store is away, nor for what ended off the chain.
    place.store.is_away = True
    other = due(made(2, NODE, NODE2))
    assert place.holdings.ready([other]) == []
    await place.settle()
    assert place.holdings.ready([other]) == [other]
    ended = DueReceipt(intent_id(3), CONTRACT, Leaf(intent_id(3)))
    assert place.holdings.ready([ended]) == [ended]
    assert place.said == []
    assert not place.holdings.take(Tick())
    await place.holdings.close()


def asked(transition: Transition, asker: NodeName, node: NodeName = NODE) -> HoldingsRequest:
    content = transition.outputs[0].content
    assert content is not None
    proof = holding_proof(asker, node, transition.leaf, content)
    return HoldingsRequest(RequestId(3, 4), HEIGHT, HEAD, (Holding(transition.leaf, proof),))


@in_loop
async def test_peer_is_answered_when_block_and_states_are_here() -> None:
    place = Place()
    transition = made(1, NODE, NODE2)
    place.block = None
    assert place.hear(NODE2, asked(transition, NODE2))
    await place.settle()
    assert place.store.looks == 0
    place.block = HEAD
    await place.pass_time()
    assert place.said == []
    place.store.transitions = [transition]
    await place.pass_time()
    assert place.bodies(NODE2, HoldingsResponse) == [HoldingsResponse(RequestId(3, 4), (transition.leaf,))]
    assert place.said[0].envelope.correlation_id == RequestId(3, 4)
    await place.holdings.close()


@in_loop
async def test_peer_without_a_proof_does_not_learn_who_holds_a_leaf() -> None:
    place = Place()
    transition = made(1, NODE, NODE2)
    place.store.transitions = [transition]
    good = asked(transition, NODE2)
    guess = Holding(transition.leaf, Digest(bytes(32)))
    place.hear(NODE2, replace(good, holdings=(guess,)))
    # A proof is bound to both nodes: one that was overheard is worth nothing.
    place.hear(NODE3, good)
    # Where only members have states to give, nobody else is answered; nor on another fork.
    place.hear(STRANGER, asked(transition, STRANGER))
    place.hear(NODE2, replace(good, block_hash=BlockHash(bytes(32))))
    await place.pass_time()
    assert place.said == []
    await place.holdings.close()


@in_loop
async def test_requests_of_a_peer_that_wait_are_bounded() -> None:
    place = Place()
    for number in range(1, 100):
        place.hear(NODE2, asked(made(number, NODE, NODE2), NODE2))
    place.hear(NODE3, asked(made(1, NODE, NODE3), NODE3))
    await place.settle()
    assert place.store.looks == OPEN_OF_PEER_MAX + 1
    await place.holdings.close()


@in_loop
async def test_what_is_read_for_a_peer_is_bounded_with_or_without_a_proof() -> None:
    place = Place()
    large = bytes(READ_BYTES_MAX // 10)
    bare = made(1, NODE, NODE2)
    state = replace(bare.outputs[0], content=large, commitment=state_commitment(large))
    place.store.transitions = [replace(bare, outputs=(state,))]
    guess = replace(asked(bare, NODE2), holdings=(Holding(bare.leaf, Digest(bytes(32))),))
    for _ in range(100):
        place.hear(NODE2, guess)
        await place.settle()
    assert 0 < place.store.looks <= 11
    place.hear(NODE3, guess)
    await place.settle()
    assert place.store.looks <= 12, "another peer has its own"
    before, place.now_s = place.store.looks, 1.0
    place.hear(NODE2, guess)
    await place.settle()
    assert place.store.looks == before + 1
    await place.holdings.close()


@in_loop
async def test_request_for_many_large_transitions_has_no_more_read_than_a_peer_may() -> None:
    """Each of them may have a MiB, and one request names 64."""
    place = Place()
    large = bytes(READ_BYTES_MAX // 4)
    for number in range(HOLDINGS_ASKED_MAX):
        bare = made(number, NODE, NODE2)
        state = replace(bare.outputs[0], content=large, commitment=state_commitment(large))
        place.store.transitions.append(replace(bare, outputs=(state,)))
    holdings = tuple(Holding(each.leaf, Digest(bytes(32))) for each in place.store.transitions)
    place.hear(NODE2, replace(asked(place.store.transitions[0], NODE2), holdings=holdings))
    for _ in range(10):
        await place.pass_time()
    assert 0 < place.store.given_bytes <= 2 * READ_BYTES_MAX
    await place.holdings.close()


@in_loop
async def test_store_is_asked_once_for_all_leaves_of_a_request() -> None:
    place = Place()
    place.store.transitions = [made(number, NODE, NODE2) for number in range(HOLDINGS_ASKED_MAX)]
    holdings = tuple(asked(each, NODE2).holdings[0] for each in place.store.transitions)
    place.hear(NODE2, replace(asked(place.store.transitions[0], NODE2), holdings=holdings))
    await place.settle()
    (answer,) = place.bodies(NODE2, HoldingsResponse)
    assert isinstance(answer, HoldingsResponse)
    assert (len(answer.leaves), place.store.looks) == (HOLDINGS_ASKED_MAX, 1)
    await place.holdings.close()


@in_loop
async def test_answer_about_another_contract_is_none() -> None:
    """It would delay the receipt for as long as that may wait, and count as one in time."""
    place = Place()
    transition = made(1, NODE, NODE2)
    place.store.transitions = [transition]
    place.holdings.ready([due(transition)])
    await place.settle()
    request = place.bodies(NODE2, HoldingsRequest)[0]
    assert isinstance(request, HoldingsRequest)
    body = HoldingsResponse(request.request_id, (transition.leaf,))
    elsewhere = Envelope(ContractAddress("0x" + "99" * 20), RequestId(1, 1), 1, 1, body)
    assert place.holdings.take(MessageReceived(NODE2, elsewhere))
    await place.pass_time()
    second = made(2, NODE, NODE2)
    place.store.transitions.append(second)
    place.holdings.ready([due(transition), due(second)])
    await place.settle()
    assert len(place.holdings.ready([due(transition), due(second)])) == 2, "it is not awaited any more"
    await place.holdings.close()


@in_loop
async def test_answer_counts_for_what_its_author_was_asked_alone() -> None:
    place = Place()
    transition = made(1, NODE, NODE2)
    place.store.transitions = [transition]
    place.holdings.ready([due(transition)])
    await place.settle()
    request = place.bodies(NODE2, HoldingsRequest)[0]
    assert isinstance(request, HoldingsRequest)
    place.hear(NODE3, HoldingsResponse(request.request_id, (transition.leaf,)))
    place.hear(NODE2, HoldingsResponse(RequestId(9, 9), (transition.leaf,)))
    place.hear(NODE2, HoldingsResponse(request.request_id, (Leaf(bytes(32)),)))
    assert place.holdings.ready([due(transition)]) == []
    assert place.holdings.acknowledged(CONTRACT, transition.leaf) == ()
    assert place.holdings.acknowledged(CONTRACT, Leaf(bytes(32))) is None
    await place.holdings.close()
