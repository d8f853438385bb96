"""The other nodes, to whom the states of some contracts are said only encrypted.

Theory of operation. Between the core and the network stands this: what the core says of states is encrypted behind it,
and what peers say of them is decrypted before it. So the core counts with contents and hashes as everywhere, and no
frame, no queue and no relay ever has the content. Contracts whose domain encrypts nothing pass as they are. Where the
domain is not here to say so, nothing is said that may have states in it; what comes is the core's to judge.

Encrypting takes milliseconds a state. Messages with states wait in line for it, one line a direction, while all others
go on; the core says and takes states in any order, and until they are acknowledged, again and again. So a line that is
full drops what comes, and a peer that is gone takes what it said with it. No peer may fill the line of the others: each
has so many places in it. What is wrong in a message ends the work on it.

In such a contract a sender coordinates by itself, and nobody endorses: states go to their readers and nowhere else. Any
other message that could carry one is not sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import structlog

from rota.core.distribution import states_with_bytes
from rota.core.effects import SendMessage
from rota.core.events import ConnectionLost, MessageReceived
from rota.core.machine import Event
from rota.domains.base import Rejected
from rota.messages import (
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
from rota.ports import Peers, Tell
from rota.runtime.encryption import StateEncryption
from rota.types import NodeName

LINE_MAX: Final = 1_024
PLACES_OF_A_PEER_MAX: Final = 64

# What may have states in it beside their distribution.
WITH_STATES: Final[tuple[type[Message], ...]] = (
    AssembleRequest,
    AssembleResponse,
    EndorsementRequest,
    DispatchConfirmationRequest,
    Handover,
    PreparedTransaction,
)

T = TypeVar("T")

logger = structlog.get_logger("rota.encryption")


class EncryptedPeers:
    """A `Peers` around another, which `connect` makes, given who is told what its peers say."""

    def __init__(self, connect: Callable[[Tell], Peers], encryption: StateEncryption, tell: Tell) -> None:
        self._encryption: Final = encryption
        self._tell: Final = tell
        self._leaving: Final[asyncio.Queue[SendMessage]] = asyncio.Queue(LINE_MAX)
        # With each message, how often the connection to its peer had been lost when it came.
        self._coming: Final[asyncio.Queue[tuple[MessageReceived, int]]] = asyncio.Queue(LINE_MAX)
        self._losses: Final[dict[NodeName, int]] = {}
        self._places: Final[Counter[NodeName]] = Counter()
        self._peers: Final = connect(self._hear)

    async def run(self) -> None:
        """Keep connected, encrypt and decrypt until cancelled."""
        tasks = [asyncio.create_task(work) for work in (self._peers.run(), self._encrypt(), self._decrypt())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def send(self, order: SendMessage) -> None:
        """Say this to a peer, once its states are encrypted."""
        contract, body = order.envelope.contract, order.envelope.body
        if not isinstance(body, (StateDistribution, *WITH_STATES)):
            self._peers.send(order)
            return
        hosted = self._encryption.hosted(contract)
        if hosted is not None and not hosted.domain.is_encrypted:
            self._peers.send(order)
        elif hosted is not None and isinstance(body, StateDistribution):
            _line_up(self._leaving, order)
        else:
            logger.error(
                "what may have states is not said",
                peer=order.peer,
                contract=contract,
                message=type(body).__name__,
                reason="its domain is not here" if hosted is None else "its domain has states encrypted",
            )

    def troubles(self) -> Mapping[NodeName, str]:
        """What keeps us from each node that we are not connected to."""
        return self._peers.troubles()

    def _hear(self, event: Event) -> None:
        match event:
            case MessageReceived(envelope=Envelope(contract=contract, body=StateDistribution())):
                hosted = self._encryption.hosted(contract)
                if hosted is not None and hosted.domain.is_encrypted:
                    self._let_wait(event)
                else:
                    self._tell(event)
            case ConnectionLost(peer):
                self._losses[peer] = self._losses.get(peer, 0) + 1
                self._tell(event)
            case _:
                self._tell(event)

    def _let_wait(self, event: MessageReceived) -> None:
        losses = self._losses.get(event.peer, 0)
        if self._places[event.peer] < PLACES_OF_A_PEER_MAX and _line_up(self._coming, (event, losses)):
            self._places[event.peer] += 1

    async def _encrypt(self) -> None:
        while True:
            order = await self._leaving.get()
            envelope, body = order.envelope, order.envelope.body
            hosted = self._encryption.hosted(envelope.contract)
            assert hosted is not None, "a contract that is known stays known"
            assert isinstance(body, StateDistribution), "nothing else waits here"
            transitions = await self._encryption.encrypted(hosted, order.peer, body.transitions)
            if states_with_bytes(transitions):
                body = replace(body, transitions=transitions)
                self._peers.send(replace(order, envelope=replace(envelope, body=body)))

    async def _decrypt(self) -> None:
        while True:
            event, losses = await self._coming.get()
            self._places[event.peer] -= 1
            envelope, body = event.envelope, event.envelope.body
            hosted = self._encryption.hosted(envelope.contract)
            assert hosted is not None, "a contract that is known stays known"
            assert isinstance(body, StateDistribution), "nothing else waits here"
            try:
                transitions = await self._encryption.decrypted(hosted, body.transitions)
            except Rejected as flaw:
                logger.warning("states are refused", peer=event.peer, contract=envelope.contract, reason=str(flaw))
                continue
            if losses == self._losses.get(event.peer, 0):
                body = replace(body, transitions=transitions)
                self._tell(replace(event, envelope=replace(envelope, body=body)))


def _line_up(line: asyncio.Queue[T], message: T) -> bool:
    """Whether there was a place; what finds none comes again."""
    if line.full():
        return False
    line.put_nowait(message)
    return True
