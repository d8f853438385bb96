"""Contracts that came from a peer: confirmation by each node that they name as endorser.

Theory of operation. A genesis names endorsers, and the factory has an address for each. The node that deploys a
contract can put an address of its own in the place of any of them, and then signs in that node's name. Only the named
node knows that the address is its own, and it takes in a contract only if it is (`KnownContracts.judge`). So before
this node acts in a contract that came from a peer, it asks every other endorser for the contract's genesis; an endorser
answers if it has the contract. The peer itself has answered by showing the contract, and a node that deploys has asked
all endorsers.

Until all have answered, the node follows the contract on the chain and does nothing else in it: it drops messages of
the contract, except for requests for its genesis, and refuses users. Peers repeat their messages. An operator who adds
a contract (`seq_addContract`) answers for its endorsers. The node asks about a bounded number of contracts at a time,
and about each of them more and more rarely: about few contracts of one peer, so that this peer cannot make all nodes
ask an endorser of its choice. The others wait for their turn, the latest first, until a user names one, or an endorser
sends a message of it; that endorser is then asked.

An endorser may never answer, and a peer lists all contracts that it has, also those that another node deployed. So a
contract yields its place to the next after some seconds, and is asked about rarely from then on: the more such
contracts came from its peer, the more rarely.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Final

from rota.logs import catalogue
from rota.machine.effects import SendMessage
from rota.machine.events import MessageReceived
from rota.machine.tables import Event
from rota.model.genesis import genesis_hash
from rota.model.types import ContractAddress, IntentId, KnownContract, NodeName, RequestId
from rota.ports import Background, Store, Unavailable
from rota.wire.messages import Envelope, GenesisRequest, GenesisResponse

LOOK_S: Final = 0.02
FIRST_PAUSE_S: Final = 0.05
PAUSE_MAX_S: Final = 60.0
CONTRACTS_A_LOOK: Final = 4
BEGUN_OF_PEER_MAX: Final = 8
# A contract keeps its place for eight questions, in six seconds; most are confirmed by the first.
PLACE_PAUSE_MAX_S: Final = 6.4
HEARD_S: Final = 1.0
# How long a user's request waits for a contract that has just been deployed.
WAIT_S: Final = 5.0


@dataclass(slots=True)
class _Unconfirmed:
    """A contract, the endorsers that have not answered, and the time of the next question."""

    deployment: IntentId
    genesis_hash: bytes
    missing: set[NodeName]
    source: NodeName | None
    is_begun: bool = False
    is_late: bool = False
    pause_s: float = FIRST_PAUSE_S
    heard_s: float = -PAUSE_MAX_S
    confirmed: asyncio.Event = field(default_factory=asyncio.Event)


class Confirming:
    """The unconfirmed contracts of one node."""

    def __init__(
        self,
        node: NodeName,
        store: Store,
        send: Callable[[SendMessage], None],
        author: Callable[[], tuple[int, int]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node: Final = node
        self._store: Final = store
        self._send: Final = send
        self._author: Final = author
        self._now_s: Final = now_s
        self._open: Final[dict[ContractAddress, _Unconfirmed]] = {}
        self._due: Final[list[tuple[float, ContractAddress]]] = []
        self._begun_of: Final[Counter[NodeName | None]] = Counter()
        self._late_of: Final[Counter[NodeName | None]] = Counter()
        self._waiting: Final[defaultdict[NodeName | None, dict[ContractAddress, None]]] = defaultdict(dict)
        self._said = 0
        self._woken: Final = asyncio.Event()
        self._writing: Final = Background("confirmations of contracts")
        # A contract is read, changed and written under this lock, so that no other write comes in between.
        self.turn: Final = asyncio.Lock()

    def add(self, known: KnownContract) -> None:
        """Begin to ask the endorsers of a contract that have not confirmed it, if any."""
        address = known.contract.address
        missing = set(known.unconfirmed) - {self._node}
        if not missing:
            self._close(address)
        elif address not in self._open:
            found = _Unconfirmed(known.deployment, genesis_hash(known.genesis), missing, known.source)
            self._open[address] = found
            self._waiting[known.source][address] = None
            self._begin_next(known.source)

    def has(self, contract: ContractAddress) -> bool:
        """Whether some endorser has not confirmed the contract."""
        return contract in self._open

    async def run(self) -> None:
        """Ask until cancelled. Sleeps while nothing is due."""
        while True:
            self.ask_due()
            wait_s = max(LOOK_S, self._due[0][0] - self._now_s()) if self._due else None
            self._woken.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), wait_s)

    def ask_due(self) -> None:
        """Ask the endorsers of some contracts whose time has come."""
        for _ in range(CONTRACTS_A_LOOK):
            if not self._due or self._due[0][0] > self._now_s():
                return
            _, address = heappop(self._due)
            unconfirmed = self._open.get(address)
            if unconfirmed is None:
                continue
            for endorser in sorted(unconfirmed.missing):
                self._ask(endorser, address)
            heappush(self._due, (self._now_s() + unconfirmed.pause_s, address))
            self._pause_longer(unconfirmed)

    def _pause_longer(self, unconfirmed: _Unconfirmed) -> None:
        source = unconfirmed.source
        unconfirmed.pause_s = min(2 * unconfirmed.pause_s, PAUSE_MAX_S)
        if unconfirmed.pause_s == PAUSE_MAX_S:
            # As many questions in total as about contracts that have a place.
            unconfirmed.pause_s *= max(1, self._late_of[source] / BEGUN_OF_PEER_MAX)
        if unconfirmed.pause_s > PLACE_PAUSE_MAX_S and not unconfirmed.is_late:
            unconfirmed.is_late = True
            self._late_of[source] += 1
            self._begun_of[source] -= 1
            self._begin_next(source)

    def _begin_next(self, source: NodeName | None) -> None:
        waiting = self._waiting[source]
        while waiting and self._begun_of[source] < BEGUN_OF_PEER_MAX:
            self._begin(next(reversed(waiting)))

    def _begin(self, address: ContractAddress) -> None:
        unconfirmed = self._open[address]
        if not unconfirmed.is_begun:
            unconfirmed.is_begun = True
            self._begun_of[unconfirmed.source] += 1
            del self._waiting[unconfirmed.source][address]
            heappush(self._due, (self._now_s(), address))
            self._woken.set()

    def _ask(self, endorser: NodeName, address: ContractAddress) -> None:
        self._said += 1
        incarnation, height = self._author()
        number = RequestId(incarnation, self._said)
        self._send(SendMessage(endorser, Envelope(address, number, incarnation, height, GenesisRequest(number))))

    def take(self, event: Event) -> bool:
        """Return True for an event to drop: an answer to this node, or a message of an unconfirmed contract."""
        if not isinstance(event, MessageReceived) or event.envelope.contract not in self._open:
            return False
        contract, body = event.envelope.contract, event.envelope.body
        if isinstance(body, GenesisResponse):
            self._take_answer(event.peer, contract, body)
        else:
            self._note_heard(event.peer, contract)
        return not isinstance(body, GenesisRequest)

    def _note_heard(self, peer: NodeName, contract: ContractAddress) -> None:
        """Ask an endorser that has not answered and now sent a message of the contract; at most every `HEARD_S`."""
        unconfirmed = self._open[contract]
        if peer in unconfirmed.missing and self._may_ask_again(unconfirmed):
            self._ask(peer, contract)

    def _may_ask_again(self, unconfirmed: _Unconfirmed) -> bool:
        """Whether an extra question is allowed now: at most one every `HEARD_S`."""
        is_due = self._now_s() - unconfirmed.heard_s >= HEARD_S
        if is_due:
            unconfirmed.heard_s = self._now_s()
        return is_due

    def _take_answer(self, peer: NodeName, contract: ContractAddress, answer: GenesisResponse) -> None:
        unconfirmed = self._open[contract]
        if peer not in unconfirmed.missing or answer.deployment != unconfirmed.deployment:
            return
        if genesis_hash(answer.genesis) == unconfirmed.genesis_hash:
            unconfirmed.missing.discard(peer)
            if not unconfirmed.missing:
                self._writing.begin(self._confirm(contract))

    async def _confirm(self, contract: ContractAddress) -> None:
        """Store the confirmation, then apply it; after a failed write the next run asks the endorsers again."""
        with suppress(Unavailable):
            async with self.turn:
                known = await self._store.contract(contract)
                if known is not None:
                    await self._store.add_contract(replace(known, unconfirmed=()))
        self._close(contract)
        catalogue.CONTRACT_CONFIRMED.log(contract=contract)

    async def confirmed(self, contract: ContractAddress) -> None:
        """Return when all endorsers have confirmed the contract."""
        unconfirmed = self._open.get(contract)
        if unconfirmed is not None:
            await unconfirmed.confirmed.wait()

    async def require(self, contract: ContractAddress) -> None:
        """Raise `Unavailable` unless all confirm within a time in which a new contract usually is confirmed."""
        unconfirmed = self._open.get(contract)
        if unconfirmed is None:
            return
        self._begin(contract)
        if unconfirmed.is_late and self._may_ask_again(unconfirmed):
            for endorser in sorted(unconfirmed.missing):
                self._ask(endorser, contract)
        try:
            await asyncio.wait_for(unconfirmed.confirmed.wait(), WAIT_S)
        except TimeoutError:
            names = ", ".join(sorted(unconfirmed.missing))
            raise Unavailable(
                f"{contract} names {names} as endorsers, which have not confirmed that they are"
            ) from None

    async def close(self) -> None:
        """Cancel open writes."""
        await self._writing.close()

    def _close(self, contract: ContractAddress) -> None:
        unconfirmed = self._open.pop(contract, None)
        if unconfirmed is not None:
            unconfirmed.confirmed.set()
            self._waiting[unconfirmed.source].pop(contract, None)
            self._late_of[unconfirmed.source] -= unconfirmed.is_late
            self._begun_of[unconfirmed.source] -= unconfirmed.is_begun and not unconfirmed.is_late
            self._begin_next(unconfirmed.source)
