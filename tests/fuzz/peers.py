"""A peer that sends anything: real nodes of a real domain in a simulated network, one of which lies in every message.

Theory of operation. `Stranger` stands between one node and the others. It changes the messages of that node: a field,
by the mutator of the simulator; the content of a state, and then leaf and signature are made to agree, so that nothing
but the domain can tell; or it sends a message of another type. The disks of the other nodes are real databases
(`StoredDisk`): whatever a node writes is written there, and a node that starts begins from there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Final, TypeVar, cast

from rota.chain.effects import BlocksIndexed, RoundDispatch
from rota.engine.contracts import KnownContracts
from rota.machine.effects import Persist
from rota.machine.events import MessageReceived
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.digests import domain_separator, state_commitment
from rota.model.types import (
    Contract,
    ContractAddress,
    Intent,
    IntentId,
    KnownContract,
    NodeName,
    Party,
    RequestId,
    State,
    Transition,
    node_of,
)
from rota.node.node import OWN
from rota.node.stored import StoredNode
from rota.ports import Written
from rota.service.watch.milestones import Milestones
from rota.sim.disk import Disk
from rota.sim.frames import acceptable
from rota.sim.ledger import GENESIS
from rota.sim.liars.conspiracy import Conspiracy
from rota.sim.liars.making import renamed, signed_by
from rota.sim.liars.mutator import Mutator
from rota.sim.liars.notebook import Notebook
from rota.sim.world import World
from rota.store import DatabaseStore
from rota.store.database import Database
from rota.wire.messages import Envelope, Message
from tests import bounds
from tests.fuzz.corruption import corrupted

V = TypeVar("V")
# The same database of a node each time.
MakeDatabase = Callable[[NodeName], Database]

# Of the messages of the stranger, so many are left as they are: otherwise nothing would get anywhere.
HONEST: Final = 0.5
KEPT_MAX: Final = 12
TALKS_EVERY_MS: Final = (5, 20, 80)


class Stranger(Conspiracy):
    """Speaks for one node. `made` is a message of each type, for those that this network does not send."""

    def __init__(self, world: World, name: NodeName, random: Random, made: Iterable[Message]) -> None:
        self.world = world
        self.name = name
        self.names = frozenset({name})
        self.book = Notebook(world.by_address, self.names)
        self.random = random
        self.mutator = Mutator(random, 1.0, tuple(world.nodes), self.book)
        self.said: Counter[type[Message]] = Counter()
        self.is_quiet = False
        self.sighted = 0
        self._milestones: Final = {each: Milestones(each) for each in world.nodes}
        self._made: Final = tuple(made)
        self._heard: Final[dict[type[Message], list[Envelope]]] = {}
        self._own: Final[dict[IntentId, Party]] = {}
        self._number = 0

    def says(self, name: NodeName, peer: NodeName, envelope: Envelope) -> None:
        """Its node speaks: the message leaves as it is, or changed, and others with it."""
        self.book.note(name, peer, envelope)
        self._keep(envelope)
        if self.is_quiet or self.random.random() < HONEST:
            self.world.wires.transmit(name, peer, envelope)
        else:
            self._transmit(peer, self._changed(envelope))
        if not self.is_quiet and self.random.random() < 0.3:
            self._transmit(peer, self._of_another_type())

    def hears(self, source: NodeName, name: NodeName, envelope: Envelope) -> bool:
        """What its node is sent is material."""
        if name == self.name:
            self.book.note(source, name, envelope)
            self._keep(envelope)
        # The log of transactions, the dashboard and the spans read it before the core does.
        self.sighted += len(list(self._milestones[name].of_event(MessageReceived(source, envelope))))
        return True

    def submits(self, name: NodeName, dispatch: RoundDispatch) -> bool:
        return True

    def drain(self) -> int:
        return 0

    def talk(self) -> None:
        """Something to each of the others, again and again."""
        if self.is_quiet:
            return
        for peer in self.world.nodes:
            if peer != self.name and self.world.nodes[self.name].core is not None:
                self._transmit(peer, self._of_another_type())
        self.world.at(self.world.now_ms + self.random.choice(TALKS_EVERY_MS), self.talk)

    def _keep(self, envelope: Envelope) -> None:
        kept = self._heard.setdefault(type(envelope.body), [])
        kept.append(envelope)
        del kept[:-KEPT_MAX]
        walked(envelope.body, self._note_own)

    def _transmit(self, peer: NodeName, envelope: Envelope) -> None:
        accepted = acceptable(envelope)
        if accepted is not None:
            self.said[type(accepted.body)] += 1
            self.world.wires.transmit(self.name, peer, accepted)

    def _changed(self, envelope: Envelope) -> Envelope:
        if self.random.random() < 0.5:
            body, count = self._with_other_contents(envelope)
            if count:
                return replace(envelope, body=body)
        made = envelope
        for _ in range(self.random.choice((1, 1, 2, 4))):
            made = self.mutator.changed(made)
        return made

    def _of_another_type(self) -> Envelope:
        """One of those before, or made up, under the numbers of this run."""
        pool: list[Message] = [each.body for kept in self._heard.values() for each in kept[-2:]]
        body = (
            self.random.choice((*pool, *self._made)) if self.random.random() < 0.5 else self.random.choice(self._made)
        )
        contract = self.random.choice((*self.world.by_address, ContractAddress("0x" + "00" * 20)))
        core = self.world.nodes[self.name].core
        incarnation = core.incarnation if core is not None else 1
        self._number += 1
        number = RequestId(incarnation, 1 << 40 | self._number)
        return self._changed(Envelope(contract, number, incarnation, self.world.ledger.height, body))

    def _with_other_contents(self, envelope: Envelope) -> tuple[Message, int]:
        """The message with another content in a state of each transition, and how many there were."""
        contract = self.world.by_address.get(envelope.contract)
        separator = domain_separator(contract.chain_id, contract.address) if contract is not None else None
        count = 0

        def change(value: object) -> object:
            nonlocal count
            if isinstance(value, Transition) and separator is not None and value.outputs:
                count += 1
                return self._remade(separator, value)
            if isinstance(value, State) and value.content:
                count += 1
                content = corrupted(self.random, value.content)
                return replace(value, content=content, commitment=state_commitment(content))
            return None

        return walked(envelope.body, change), count

    def _remade(self, separator: bytes, transition: Transition) -> Transition:
        outputs = list(transition.outputs)
        for at in range(len(outputs)):
            if outputs[at].content and self.random.random() < 0.7:
                content = corrupted(self.random, outputs[at].content or b"")
                outputs[at] = replace(outputs[at], content=content, commitment=state_commitment(content))
        made = renamed(separator, replace(transition, outputs=tuple(outputs)))
        return signed_by(self.world_party(transition), made)

    def world_party(self, transition: Transition) -> Party:
        """Whose intent it is: only of its own parties can it sign."""
        return self._own.get(transition.intent, Party(f"user@{self.name}"))

    def _note_own(self, value: object) -> None:
        if isinstance(value, Intent) and node_of(value.sender) == self.name:
            self._own[value.id] = value.sender


def walked(value: V, change: Callable[[object], object]) -> V:
    """A value in which every part is another one where `change` makes one; nothing within that is changed."""
    made = change(value)
    if made is not None:
        return cast(V, made)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return cast(V, tuple(walked(each, change) for each in value))
    if isinstance(value, tuple):
        return cast(V, type(value)(*(walked(each, change) for each in value)))
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: walked(getattr(value, field.name), change) for field in fields(value)}
        return cast(V, replace(value, **parts))
    return value


class StoredDisk(Disk):
    """A disk whose records are in a database too; a node begins from these when it starts."""

    def __init__(self, database: MakeDatabase, config: Config, contracts: KnownContracts, known: KnownContract) -> None:
        super().__init__()
        self.database = database
        self.config = config
        self.contracts = contracts
        self.known = known
        self.written_count = 0

    def restore(self, name: NodeName, contracts_known: tuple[Contract, ...], confirmations: int) -> StoredNode:
        """From the database, once there is something in it."""
        stored = super().restore(name, contracts_known, confirmations)
        return asyncio.run(self.stored(name)) if self.records else stored

    async def stored(self, name: NodeName) -> StoredNode:
        """Write the new records, then read everything. A record that the database rejects ends the test."""
        async with self.opened(name) as store:
            return await store.restore((self.known.contract.address,))

    @asynccontextmanager
    async def opened(self, name: NodeName) -> AsyncIterator[DatabaseStore]:
        """A store that has everything so far."""
        nullifier_of = self.contracts.nullifier_of
        written = asyncio.Event()
        events: list[Event] = []

        def tell(event: Event) -> None:
            events.append(event)
            written.set()

        store = DatabaseStore(self.database(name), name, self.config, tell, lambda: 0, nullifier_of)
        await store.start()
        try:
            if not self.written_count:
                await store.add_contract(self.known)
                store.perform(Persist(OWN, (BlocksIndexed(-1, (GENESIS,)),)))
            new = self.records[self.written_count :]
            for contract, record in new:
                store.perform(Persist(contract, (record,)))
            ordered = len(new) + (not self.written_count)
            while sum(event.count for event in events if isinstance(event, Written)) < ordered:
                written.clear()
                await asyncio.wait_for(written.wait(), bounds.WAIT_S)
            self.written_count = len(self.records)
            yield store
        finally:
            await store.close()
