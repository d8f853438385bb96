"""`Peers` that encrypts the states it sends and decrypts those it receives, for contracts whose domain wants that.

Theory of operation. This layer is between the core and the network: states that the core sends are encrypted here, and
states from peers are decrypted before the core gets them. So the core handles contents and hashes as everywhere, and no
frame, queue or relay ever has the content. Messages of contracts whose domain does not encrypt pass unchanged. Where
the domain is not loaded, no message that may carry states is sent; received ones are left to the core to judge.

Encrypting takes milliseconds a state. Messages with states wait in a queue while all others pass; the core accepts
states in any order and sends them again until they are acknowledged. So a full queue drops new messages, and when a
peer disconnects its received messages are dropped.

Any peer can send thousands of states in one message, or request thousands of this node's, at no cost to itself. So each
peer has queues of its own, bounded in messages and bytes; peers take turns, one state at a time, and all together share
a rate limit of states encrypted, and another of states decrypted, per second (`Lines`). The first invalid state of a
message ends the work on it.

In such a contract a sender coordinates its own intents, and there are no endorsers: states go to their readers and
nowhere else. Any other message that could carry a state is not sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from rota.domains.base import Rejected
from rota.engine.encryption import StateEncryption
from rota.exchange.distribution import states_with_bytes
from rota.host import Hosted
from rota.logs import catalogue
from rota.logs.trouble import PeerLines
from rota.machine.effects import SendMessage
from rota.machine.events import ConnectionLost, MessageReceived
from rota.machine.tables import Event
from rota.model.types import NodeName, Transition
from rota.ports import Peers, Tell
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    DispatchConfirmationRequest,
    EndorsementRequest,
    Envelope,
    Handover,
    Message,
    PreparedTransaction,
    StateDistribution,
)
from rota.wire.sizes import transition_bytes

LEAVING_OF_A_PEER_MAX: Final = 256
COMING_OF_A_PEER_MAX: Final = 64
# Two of the largest frames.
BYTES_OF_A_PEER_MAX: Final = 8_388_608
BYTES_MAX: Final = 134_217_728
# Each takes three to eight milliseconds of the event loop.
STATES_A_SECOND_MAX: Final = 64
STATES_AT_ONCE_MAX: Final = 512

# Messages that may carry states, beside the distribution of states.
WITH_STATES: Final[tuple[type[Message], ...]] = (
    AssembleRequest,
    AssembleResponse,
    EndorsementRequest,
    DispatchConfirmationRequest,
    Handover,
    PreparedTransaction,
)


class EncryptedPeers:
    """A `Peers` around another one, made by `connect` with the callback for its events."""

    def __init__(self, connect: Callable[[Tell], Peers], encryption: StateEncryption, tell: Tell) -> None:
        self._encryption: Final = encryption
        self._tell: Final = tell
        self._leaving: Final = Lines(LEAVING_OF_A_PEER_MAX)
        self._coming: Final = Lines(COMING_OF_A_PEER_MAX)
        self._losses: Final[dict[NodeName, int]] = {}
        self._rarely: Final = PeerLines()
        self._peers: Final = connect(self._hear)

    async def run(self) -> None:
        """Keep connected, encrypt and decrypt until cancelled."""
        tasks = [asyncio.create_task(work) for work in (self._peers.run(), self._leaving.run(), self._coming.run())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def send(self, order: SendMessage) -> None:
        """Send a message to a peer, once its states are encrypted."""
        contract, body = order.envelope.contract, order.envelope.body
        if not isinstance(body, (StateDistribution, *WITH_STATES)):
            self._peers.send(order)
            return
        hosted = self._encryption.hosted(contract)
        if hosted is not None and not hosted.domain.is_encrypted:
            self._peers.send(order)
        elif hosted is not None and isinstance(body, StateDistribution):
            self._let_leave(order, body, hosted)
        else:
            catalogue.STATE_NOT_SENT.log(
                peer=order.peer,
                contract=contract,
                message_type=type(body).__name__,
                reason="the domain is not loaded" if hosted is None else "the domain encrypts states",
            )

    def troubles(self) -> Mapping[NodeName, str]:
        """Return the connection error of each node that is not connected."""
        return self._peers.troubles()

    def _hear(self, event: Event) -> None:
        match event:
            case MessageReceived(envelope=Envelope(contract=contract, body=StateDistribution())):
                hosted = self._encryption.hosted(contract)
                if hosted is not None and hosted.domain.is_encrypted:
                    self._let_come(event, hosted)
                else:
                    self._tell(event)
            case ConnectionLost(peer):
                self._losses[peer] = self._losses.get(peer, 0) + 1
                self._tell(event)
            case _:
                self._tell(event)

    def _let_leave(self, order: SendMessage, body: StateDistribution, hosted: Hosted) -> None:
        def leave(transitions: tuple[Transition, ...]) -> None:
            if states_with_bytes(transitions):
                said = replace(order.envelope, body=replace(body, transitions=transitions))
                self._peers.send(replace(order, envelope=said))

        steps = self._encryption.encrypting(hosted, order.peer, body.transitions)
        self._leaving.put(order.peer, Job(steps, _size_bytes(body), leave))

    def _let_come(self, event: MessageReceived, hosted: Hosted) -> None:
        envelope, body, losses = event.envelope, event.envelope.body, self._losses.get(event.peer, 0)
        assert isinstance(body, StateDistribution), "nothing else waits here"

        def is_lost() -> bool:
            return losses != self._losses.get(event.peer, 0)

        def come(transitions: tuple[Transition, ...]) -> None:
            told = replace(envelope, body=replace(body, transitions=transitions))
            self._tell(replace(event, envelope=told))

        def refuse(flaw: Rejected) -> None:
            if self._rarely.is_due(event.peer):
                catalogue.STATE_REFUSED.log(peer=event.peer, contract=envelope.contract, reason=str(flaw))

        steps = self._encryption.decrypting(hosted, body.transitions)
        self._coming.put(event.peer, Job(steps, _size_bytes(body), come, refuse, is_lost))


def _size_bytes(body: StateDistribution) -> int:
    return sum(map(transition_bytes, body.transitions))


def _never(_: object = None) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Job:
    """Work on the states of a message, a step for each; calls `done` or `refused`, or neither once it `is_over`."""

    steps: Generator[None, None, tuple[Transition, ...]]
    size_bytes: int
    done: Callable[[tuple[Transition, ...]], None]
    refused: Callable[[Rejected], object] = _never
    is_over: Callable[[], bool] = _never

    def step(self) -> bool:
        """Take the next step; return whether it was the last."""
        if self.is_over():
            return True
        try:
            next(self.steps)
        except StopIteration as end:
            self.done(end.value)
        except Rejected as flaw:
            self.refused(flaw)
        else:
            return False
        return True


class Lines:
    """Queues of messages, one for each peer. Peers take turns, a step each, at a total rate that is fixed."""

    def __init__(self, places_of_a_peer_max: int) -> None:
        self._places: Final = places_of_a_peer_max
        # In the order of turns; the peer that had the last turn is at the end.
        self._waiting: Final[OrderedDict[NodeName, deque[Job]]] = OrderedDict()
        self._bytes: Final[Counter[NodeName]] = Counter()
        self._has_some: Final = asyncio.Event()
        self._pace: Final = Pace(STATES_A_SECOND_MAX, STATES_AT_ONCE_MAX)

    def put(self, peer: NodeName, job: Job) -> None:
        """Append to the peer's queue if there is room; otherwise drop the job, as its message will be sent again."""
        of_peer = self._bytes[peer] + job.size_bytes
        has_place = len(self._waiting.get(peer, ())) < self._places
        is_within = of_peer <= BYTES_OF_A_PEER_MAX and self._bytes.total() + job.size_bytes <= BYTES_MAX
        if has_place and is_within:
            self._waiting.setdefault(peer, deque()).append(job)
            self._bytes[peer] = of_peer
            self._has_some.set()

    async def run(self) -> None:
        """Work through the queues until cancelled."""
        while True:
            if not self._waiting:
                self._has_some.clear()
                await self._has_some.wait()
            await asyncio.sleep(self._pace.wait_s(asyncio.get_running_loop().time()))
            peer, line = next(iter(self._waiting.items()))
            if line[0].step():
                self._bytes[peer] -= line.popleft().size_bytes
            if line:
                self._waiting.move_to_end(peer)
            else:
                del self._waiting[peer], self._bytes[peer]


class Pace:
    """A rate limit: so many a second, and a burst of so many after a pause."""

    def __init__(self, a_second_max: int, at_once_max: int) -> None:
        self._a_second: Final = a_second_max
        self._at_once: Final = at_once_max
        self._left = float(at_once_max)
        self._at_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        """Take one unit, and return the seconds to wait before using it."""
        passed_s = 0.0 if self._at_s is None else max(0.0, now_s - self._at_s)
        self._at_s = now_s
        self._left = min(self._at_once, self._left + passed_s * self._a_second) - 1
        return max(0.0, -self._left / self._a_second)
