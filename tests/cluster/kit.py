"""Clusters of real processes under faults, and how they are judged.

A cluster is a network of `rota.localnet`, with every node on a host of its own, and a steady workload from all
nodes. A fault is held until its effect shows, and the next one comes when the node that was hit serves again: nothing
here waits for a clock. At the end the simulator's own checkers hear what the tests have read from the chain, from the
receipts and from the nodes' databases.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp
import asyncpg  # type: ignore[import-untyped]
import pytest

from rota.client import Unreachable
from rota.engine.held_states import state_pages, unspent_pages
from rota.exchange.effects import StatesReceived
from rota.ledger.rounds_on_chain import latest_height
from rota.localnet import namespaces
from rota.localnet.chains import NO_ANVIL, ChainKind, find_anvil
from rota.localnet.local import LocalNetwork, Plan
from rota.localnet.workload import Request, Workload
from rota.model.config import Config
from rota.model.consistency import Consistent
from rota.model.types import (
    NOTHING_CHOSEN,
    ContractAddress,
    Digest,
    Leaf,
    NodeName,
    Outcome,
    Receipt,
    Rotation,
    SequencingChoice,
    State,
    Transition,
    intent_text,
)
from rota.sim.facts import Committed, FaultsEnded, Indexed, LedgerStood, Promised, Recorded, Reported
from rota.sim.facts import Request as UserRequest
from rota.sim.invariants import (
    EverybodyAgrees,
    EveryIntentEnds,
    Judge,
    NoStateIsSpentTwice,
    OneEffectAndOneOutcome,
    StatesReachTheirParties,
    Terms,
)
from rota.store import DatabaseStore, PostgresDatabase, SqliteDatabase
from tests import bounds
from tests.cluster.own_chain import OwnChain, read_chain
from tests.store.servers import PostgresServer, postgres_folder

ALICE = "alice"
INTERVAL_MS = 150
# In blocks, of which there are several a second.
RANGE_SIZE = 20
LOOK_S = 0.05
EFFECT_TIMEOUT_S = bounds.WAIT_S
END_TIMEOUT_S = bounds.WAIT_S
DISK_BYTES = 16 * 1024 * 1024
JUDGED_AGAIN_MAX = 10
EXPLAINED_MAX = 20
FUNCTIONS = ("spend", "mint", "pay", "spend", "revert")


@dataclass(frozen=True)
class Kind:
    """What a cluster is made of."""

    node_count: int
    chain: ChainKind
    store: str
    rotation: Rotation = Rotation.STICKY

    def __str__(self) -> str:
        strict = "-strict" if self.rotation is Rotation.STRICT else ""
        return f"{self.node_count}-{self.chain.value}-{self.store}{strict}"

    @property
    def sequencing(self) -> SequencingChoice:
        """Under strict rotation ranges are short, so that the coordinator changes again and again."""
        is_strict = self.rotation is Rotation.STRICT
        return SequencingChoice(rotation=Rotation.STRICT, range_size=RANGE_SIZE) if is_strict else NOTHING_CHOSEN

    @property
    def names(self) -> tuple[NodeName, ...]:
        return tuple(NodeName(f"node{number}") for number in range(1, self.node_count + 1))


def require(kind: Kind) -> None:
    """Skip where the machine lacks something; CI forbids skips."""
    if reason := namespaces.missing():
        pytest.skip(reason)
    if kind.chain is ChainKind.ANVIL and find_anvil() is None:
        pytest.skip(f"there is no Anvil: {NO_ANVIL}")
    if kind.store == "postgres" and postgres_folder() is None:
        pytest.skip("PostgreSQL is not installed here; run tools/install-test-tools")


@dataclass
class Cluster:
    """A network at work."""

    kind: Kind
    network: LocalNetwork
    contract: ContractAddress
    workload: Workload
    server: PostgresServer | None
    disks: dict[NodeName, Path]

    # What is going on.

    async def coordinator(self) -> NodeName:
        """Who coordinates, by the word of all who answer."""
        while True:
            told = [await self.status_of(name) for name in self.kind.names]
            active = {each for each in told if each is not None}
            if len(active) == 1:
                return NodeName(active.pop())
            await asyncio.sleep(LOOK_S)

    async def status_of(self, name: NodeName) -> str | None:
        if not self.network.nodes[name].is_running or name in self.workload.absent:
            return None
        try:
            status = await self.network.nodes[name].client.status(self.contract)
        except Unreachable:
            return None
        return status.active_coordinator if status is not None else None

    async def until_confirmed(self, *names: NodeName) -> None:
        """Until something is confirmed that one of these nodes is asked for from now on."""
        since_s = time.monotonic()
        async with asyncio.timeout(EFFECT_TIMEOUT_S):
            while True:
                later = [
                    intent
                    for intent, promise in self.workload.promises.items()
                    if promise.asked_s >= since_s and promise.node in names
                ]
                await self.workload.look(later)
                if any(self.workload.receipts[each].success for each in later if each in self.workload.receipts):
                    return
                await asyncio.sleep(LOOK_S)

    async def until_missing(self, name: NodeName, what: str) -> None:
        """Until a node says that it lacks this."""
        async with asyncio.timeout(EFFECT_TIMEOUT_S):
            while True:
                try:
                    if any(each.startswith(what) for each in await self.network.nodes[name].client.missing()):
                        return
                except Unreachable:
                    pass
                await asyncio.sleep(LOOK_S)

    async def described(self) -> str:
        """Where everything stands, for whoever has to find out why it does not go on."""
        lines = []
        for name, node in self.network.nodes.items():
            lines.append(f"{name}: {await self.status_of(name)}\n{node.child.last_words()}")
            if not node.is_running:
                continue
            async with aiohttp.ClientSession() as session, session.get(f"{node.client.url}/metrics") as answer:
                lines += [line for line in (await answer.text()).splitlines() if line.startswith("rota_")]
        for intent, promise in list(self.workload.open.items())[-EXPLAINED_MAX:]:
            try:
                explained = str(await self.network.nodes[promise.node].client.explain(intent_text(intent)))
            except Unreachable as error:
                explained = str(error)
            lines.append(f"{promise}: {explained}")
        return "\n".join(lines)

    def others(self, name: NodeName) -> tuple[NodeName, ...]:
        return tuple(other for other in self.kind.names if other != name)

    # Faults.

    async def kill(self) -> None:
        """`kill -9` of the active coordinator; the others go on, and it comes back."""
        victim = await self.coordinator()
        await self.network.nodes[victim].kill()
        await self.until_confirmed(*self.others(victim))
        await self.network.start(victim)
        await self.until_confirmed(victim)

    async def hang(self) -> None:
        """SIGSTOP of the active coordinator."""
        victim = await self.coordinator()
        self.workload.absent.add(victim)
        self.network.nodes[victim].hang()
        await self.until_confirmed(*self.others(victim))
        self.network.nodes[victim].wake()
        self.workload.absent.discard(victim)
        await self.until_confirmed(victim)

    async def cut(self) -> None:
        """Nothing gets to the active coordinator or from it; it still has its ledger."""
        await self._cut(lambda victim, other: ((victim, other), (other, victim)))

    async def cut_outward(self) -> None:
        """Nothing that the active coordinator says is heard."""
        await self._cut(lambda victim, other: ((victim, other),))

    async def cut_inward(self) -> None:
        """The active coordinator hears nothing."""
        await self._cut(lambda victim, other: ((other, victim),))

    async def _cut(self, ways_of: Callable[[NodeName, NodeName], tuple[tuple[NodeName, NodeName], ...]]) -> None:
        hosts = self.network.hosts
        assert hosts is not None, "every node has a host of its own"
        victim = await self.coordinator()
        ways = [way for other in self.others(victim) for way in ways_of(victim, other)]
        for sender, receiver in ways:
            hosts.cut_way(sender, receiver)
        await self.until_confirmed(*self.others(victim))
        for sender, receiver in ways:
            hosts.mend_way(sender, receiver)
        await self.until_confirmed(victim)

    async def restart_database(self) -> None:
        """Every node loses its database at once, and it comes back."""
        server = self.server
        assert server is not None, "the stores are in PostgreSQL"
        await asyncio.to_thread(server.stop)
        await self.until_missing(self.kind.names[0], "the store")
        await asyncio.to_thread(server.start)
        await self.until_confirmed(*self.kind.names)

    async def fill_disk(self) -> None:
        """The active coordinator's disk is full; the others go on without it, and then somebody makes room."""
        victim = await self.coordinator()
        filler = self.disks[victim] / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4_096)):
                pass
        await self.until_missing(victim, "the store")
        await self.until_confirmed(*self.others(victim))
        filler.unlink()
        await self.until_confirmed(victim)

    async def lose_database(self) -> None:
        """Another node's database is gone while it is away, and nobody tells the node what it had; its keys are there.

        What it had promised has ended before, and what it had to deliver is delivered: an intent or a state that was in
        no other database is lost with it.
        """
        victim = self.others(await self.coordinator())[0]
        node = self.network.nodes[victim]
        async with asyncio.timeout(EFFECT_TIMEOUT_S):
            await self.workload.rest(victim)
            while await self._figure(victim, "rota_deliveries_open"):
                await asyncio.sleep(LOOK_S)
        await node.stop()
        await self._remove_database(victim)
        await self.network.start(victim)
        async with asyncio.timeout(EFFECT_TIMEOUT_S):
            while await self.status_of(victim) is None:
                await asyncio.sleep(LOOK_S)
        await self._until_nothing_is_in_arrears()
        self.workload.resting.discard(victim)
        await self.until_confirmed(victim)

    async def _remove_database(self, name: NodeName) -> None:
        if self.server is None:
            for file in self.disks[name].glob("rota.db*"):
                file.unlink()
        else:
            connection = await asyncpg.connect(self.server.url())
            await connection.execute(f"DROP SCHEMA {name} CASCADE")
            await connection.execute(f"CREATE SCHEMA {name}")
            await connection.close()

    async def restart_ledger(self) -> None:
        """Anvil is stopped and comes back with its blocks; the embedded chain, which has no file, hangs."""
        chain = self.network.chain
        if self.kind.chain is ChainKind.ANVIL:
            # What it mines while it writes its blocks down would be lost, and nobody waits for confirmations here.
            await self.network.ledger.call("evm_setAutomine", False)
            before = await latest_height(self.network.ledger)
            await chain.stop()
            await chain.start()
            assert await latest_height(self.network.ledger) >= before, "Anvil has lost blocks"
        else:
            chain.hang()
            try:
                await self.until_missing(self.kind.names[0], "the ledger")
            finally:
                chain.wake()
        await self.until_confirmed(*self.kind.names)

    @property
    def faults(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """All that can happen to this kind of cluster."""
        found: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self.kill,
            "hang": self.hang,
            "cut": self.cut,
            "kill again": self.kill,
            "cut outward": self.cut_outward,
            "cut inward": self.cut_inward,
            "restart the ledger": self.restart_ledger,
            "lose a database": self.lose_database,
        }
        if self.server is not None:
            found["restart the database"] = self.restart_database
        if self.disks:
            found["fill the disk"] = self.fill_disk
        return found

    # The end.

    async def judge(self) -> None:
        """Everything that was promised has ended as the chain says, once, and everybody holds what it should."""
        await self.workload.end()
        left = await self.workload.until_final(END_TIMEOUT_S)
        if left:
            described = await self.described()
            await self.network.stop()
            lacking = "\n".join([await self.lacking(name) for name in self.kind.names])
            pytest.fail(f"{len(left)} of {len(self.workload.promises)} did not end:\n{described}\n{lacking}")
        assert self.workload.refusals == [], self.workload.refusals
        chain = await self._until_all_stand_at_the_head()
        codes = await self.network.stop()
        assert set(codes.values()) == {0}, codes
        self._compare_receipts(chain)
        found = await self._violations(chain)
        for _ in range(JUDGED_AGAIN_MAX):
            if not found:
                break
            # What is distributed until it is acknowledged may still have been on its way.
            await self.network.start(*self.kind.names)
            await self._until_all_stand_at_the_head()
            await self._until_nothing_is_in_arrears()
            await self.network.stop()
            found = await self._violations(chain)
        assert found == [], "; ".join(found)

    async def _until_nothing_is_in_arrears(self) -> None:
        """No node makes up for what it has missed of a contract any more."""
        async with asyncio.timeout(EFFECT_TIMEOUT_S):
            while any([await self._figure(name, "rota_contracts_in_arrears") for name in self.kind.names]):
                await asyncio.sleep(LOOK_S)

    async def _figure(self, name: NodeName, metric: str) -> int:
        """What a node says that it has of something; one, too, while it cannot be asked."""
        client = self.network.nodes[name].client
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{client.url}/metrics") as answer:
                lines = (await answer.text()).splitlines()
        except aiohttp.ClientError:
            return 1
        found = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{metric} ")]
        return int(float(found[0])) if found else 1

    async def _until_all_stand_at_the_head(self) -> OwnChain:
        async with asyncio.timeout(EFFECT_TIMEOUT_S):
            while True:
                chain = await read_chain(self.network.ledger.url, self.contract, self.kind.names)
                statuses = [await node.client.status(self.contract) for node in self.network.nodes.values()]
                if all(status is not None and status.height == chain.height for status in statuses):
                    return chain
                await asyncio.sleep(LOOK_S)

    def _compare_receipts(self, chain: OwnChain) -> None:
        """By counting, without any checker of ours: one effect for each success, none for what was reverted."""
        effects = {effect.transition.intent: effect for effect in chain.effects if not effect.transition.is_empty}
        assert len(effects) == sum(not effect.transition.is_empty for effect in chain.effects), "an intent has two"
        assert effects.keys() <= self.workload.promises.keys(), "the chain has what nobody asked for"
        for intent, promise in self.workload.promises.items():
            receipt = self.workload.receipts[intent]
            wanted = promise.request.function != "revert"
            assert receipt.success is wanted, f"{promise}: {receipt}"
            assert (intent in effects) is wanted, f"{promise}: {receipt}"
            if wanted:
                assert receipt.block_number == effects[intent].height, f"{promise}: {receipt}"
                assert receipt.transaction_hash == effects[intent].transaction, f"{promise}: {receipt}"

    async def _violations(self, chain: OwnChain) -> list[str]:
        """As the simulator's checkers find them."""
        judge = Judge(self._terms(), CHECKERS)
        leaves = {(each.transition.intent, each.transaction): each.transition.leaf for each in chain.effects}
        for effect in chain.effects:
            judge.tell(Committed(self.contract, effect.height, effect.transition))
        for intent, promise in self.workload.promises.items():
            judge.tell(Promised(promise.node, UserRequest.SUBMIT, intent))
            told = self.workload.receipts[intent]
            # A receipt names no leaf: it is the one that the transaction that it names has committed.
            leaf = leaves.get((intent, told.transaction_hash or ""), Leaf(b""))
            outcome = Outcome.CONFIRMED if told.success else Outcome.REVERTED
            judge.tell(Reported(promise.node, Receipt(intent, outcome, told.failure_message, leaf)))
        judge.tell(FaultsEnded(0))
        judge.tell(LedgerStood(self.contract, chain.height, chain.unspent))
        for name in self.kind.names:
            held = await self.held_by(name)
            carrier = Transition(next(iter(self.workload.promises)), Leaf(b"held"), outputs=held)
            judge.tell(Recorded(name, self.contract, StatesReceived(Digest(b""), (Consistent(carrier),))))
            unspent = frozenset(state.id for state in held) & chain.unspent
            judge.tell(Indexed(name, self.contract, chain.height, unspent))
        judge.conclude()
        return [str(violation) for violation in judge.found]

    async def lacking(self, name: NodeName) -> str:
        """Which of the chain's unspent states a node does not hold, and who made them."""
        chain = await read_chain(self.network.ledger.url, self.contract, self.kind.names)
        held = {state.id for state in await self.held_by(name)}
        makers = {state.id: effect for effect in chain.effects for state in effect.transition.outputs}
        lacked = [makers[each] for each in sorted(chain.unspent - held)]
        return f"{name} lacks " + (
            "; ".join(
                f"a state of {self.workload.promises[each.transition.intent]} from block {each.height}"
                for each in lacked
            )
            or "nothing"
        )

    async def held_by(self, name: NodeName) -> tuple[State, ...]:
        """All states that are on a node's disk with their bytes, spent or not."""
        url = self.network.plan.store_of(name)
        path = self.network.nodes[name].folder / url.removeprefix("sqlite:")
        database = SqliteDatabase(path, name) if url.startswith("sqlite:") else PostgresDatabase(url, name)
        store = DatabaseStore(database, name, Config(), lambda _: None)
        await store.start()
        try:
            unspent = [state async for page in unspent_pages(store, self.contract) for state in page.states]
            pages = [states async for _, states in state_pages(store, self.contract)]
        finally:
            await store.close()
        every = tuple({state.id: state for states in pages for state in states}.values())
        assert {state.id for state in unspent} == {state.id for state in every} & (
            await read_chain(self.network.ledger.url, self.contract, self.kind.names)
        ).unspent
        return every

    def _terms(self) -> Terms:
        # No checker that is asked here verifies a signature or looks into a contract.
        return Terms(self.kind.names, {self.contract: None}, 0, lambda *_: True)  # type: ignore[dict-item]


CHECKERS = (OneEffectAndOneOutcome, NoStateIsSpentTwice, EveryIntentEnds, StatesReachTheirParties, EverybodyAgrees)


def chosen(names: tuple[NodeName, ...]) -> Callable[[int, NodeName], Request]:
    """Transactions that stand on each other, on nothing, and on private states, and now and then one that fails."""

    def choose(number: int, _: NodeName) -> Request:
        # As many functions as nodes would give each node always the same one.
        function = FUNCTIONS[(number + number // len(names)) % len(FUNCTIONS)]
        payee = names[number % len(names)]
        return Request(number, function, {"to": f"{ALICE}@{payee}"} if function == "pay" else None)

    return choose


@asynccontextmanager
async def cluster(home: Path, kind: Kind) -> AsyncIterator[Cluster]:
    """A cluster with a contract and a workload; a majority endorses."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(postgres()) if kind.store == "postgres" else None
        disks = (
            {} if server is not None else {name: stack.enter_context(small_disk(home / name)) for name in kind.names}
        )
        stores = {name: f"sqlite:{disk}/rota.db" for name, disk in disks.items()}
        if server is not None:
            stores = {name: await schema(server, name) for name in kind.names}
        plan = Plan(
            home=home / "network",
            names=kind.names,
            chain=kind.chain,
            registry="chain" if kind.node_count == 3 else "file",
            store_of=stores.__getitem__,
            is_apart=True,
        )
        network = await stack.enter_async_context(LocalNetwork(plan))
        await network.start(*kind.names)
        print(f"{kind}: {network.pids}", file=sys.stderr)
        members = [f"{ALICE}@{name}" for name in kind.names]
        made = await network.create_contract(
            "synthetic", {"members": members, "threshold": kind.node_count // 2 + 1}, kind.sequencing
        )
        workload = Workload(network, made.address, ALICE, INTERVAL_MS, chosen(kind.names))
        await stack.enter_async_context(workload)
        yield Cluster(kind, network, made.address, workload, server, disks)


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    programmes = postgres_folder()
    assert programmes is not None, "it was looked for"
    server = PostgresServer(programmes)
    try:
        server.start()
        yield server
    finally:
        server.remove()


async def schema(server: PostgresServer, name: NodeName) -> str:
    """A schema of its own for each node; the address leads to the server's socket."""
    connection = await asyncpg.connect(server.url())
    await connection.execute(f"CREATE SCHEMA {name}")
    await connection.close()
    return f"postgresql://rota@{quote(str(server.socket.parent), safe='')}/postgres?search_path={name}"


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system that is soon full."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
