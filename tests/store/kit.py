"""Stores under test: opened, ordered to, closed; and the small values that they are given."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec

import asyncpg  # type: ignore[import-untyped]

from rota.chain.effects import BlocksIndexed, DispatchRepriced, FinalityBroken, RoundDispatch, UndoneCommit
from rota.directory.consent import Decision
from rota.directory.effects import ContractTaken, DeploymentAgreed, DeploymentProposed, Proposal, ProposalForgotten
from rota.exchange.effects import StatesAcknowledged, StatesReceived
from rota.machine.effects import DispatchRound, IntentAccepted, IntentFinalised, Persist, Record, TransitionPrepared
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, FactoryDeployment, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction
from rota.model.config import Config
from rota.model.consistency import Authorised, Consistent
from rota.model.types import (
    NO_CONTRACT,
    BlockHash,
    Contract,
    ContractAddress,
    DelegationNumber,
    Digest,
    Fees,
    Intent,
    IntentId,
    KnownContract,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    RequestId,
    State,
    StateId,
    Transition,
)
from rota.node.effects import NodeStarted
from rota.node.node import OWN
from rota.ports import StoreEffect, Unavailable, Written
from rota.sequencer.effects import (
    EndingDecided,
    IntentParked,
    IntentResumed,
    LeavesSigned,
    PermissionGranted,
    PreparedAcknowledged,
    PreparedEndorsed,
    TransitionIssued,
)
from rota.sequencer.issuing import kept_for
from rota.sim.disk import Fate
from rota.store import DatabaseStore, PostgresDatabase, SqliteDatabase
from rota.store.database import Answer, Database, OutcomeUnknown, Reading, Statement
from rota.store.kept_number import Mark
from rota.store.records import NullifierOf, spent_by_id
from rota.wire.messages import EndorserSignature, PreparedTransaction
from tests import bounds
from tests.store.servers import PostgresServer


def known(contract: Contract) -> KnownContract:
    """A contract as a node takes it in."""
    return KnownContract(contract, IntentId(b"deployment of it"), (contract.address,) * len(contract.endorsers), b"{}")


NODE = NodeName("node1")
PEER = NodeName("node2")
STRANGER = NodeName("node9")
CONFIG = Config(confirmations=1, index_window_max=4)
FIRST = ContractAddress("0x" + "c1" * 20)
SECOND = ContractAddress("0x" + "c2" * 20)
CONTRACTS = tuple(Contract(address, (NODE, PEER), (), 0) for address in (FIRST, SECOND))
ANSWER_TIMEOUT_S = bounds.WAIT_S
NOW_MS = 1_700_000_000_123

Parameters = ParamSpec("Parameters")
# Makes an empty database, of the kind that a test is run with.
Make = Callable[[], Awaitable[Database]]


def in_loop(test: Callable[Parameters, Awaitable[None]]) -> Callable[Parameters, None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


class FaultyDatabase:
    """A database that takes no transactions, or takes one without an answer."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.fate = Fate.WORKS
        # How many more transactions have this fate; those behind them are taken. None: all of them.
        self.strikes: int | None = None
        self.is_unreadable = False
        self.transaction_count = 0

    async def open(self) -> None:
        await self.database.open()

    async def keep(self) -> None:
        await self.database.keep()

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        fate = self._next_fate()
        if fate is Fate.FAILS:
            raise Unavailable("the disk is failing")
        await self.database.write(statements, written)
        self.transaction_count += 1
        if fate is Fate.LIES:
            raise OutcomeUnknown("the answer was lost")

    def _next_fate(self) -> Fate:
        if self.strikes is None:
            return self.fate
        self.strikes -= 1
        return self.fate if self.strikes >= 0 else Fate.WORKS

    async def read(self, reading: Reading[Answer]) -> Answer:
        if self.is_unreadable:
            raise Unavailable("the disk is failing")
        return await self.database.read(reading)

    async def close(self) -> None:
        await self.database.close()


class MemoryMark:
    """What is kept beside the keys, for a test."""

    def __init__(self) -> None:
        self.number = 0
        self.is_broken = False

    def read(self) -> int:
        return self.number

    def write(self, number: int) -> None:
        if self.is_broken:
            raise Unavailable("the folder with the keys cannot be written to")
        self.number = number


class Opened:
    """A store that is open, with what it has told."""

    def __init__(
        self,
        database: Database,
        config: Config = CONFIG,
        nullifier_of: NullifierOf = spent_by_id,
        mark: Mark | None = None,
    ) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.store = DatabaseStore(database, NODE, config, self.events.put_nowait, lambda: NOW_MS, nullifier_of, mark)
        self.durable = 0

    async def start(self, contracts: tuple[Contract, ...] = CONTRACTS) -> Opened:
        await self.store.start()
        for contract in contracts:
            await self.store.add_contract(known(contract))
        return self

    def order(self, contract: ContractAddress, *records: Record) -> None:
        self.store.perform(Persist(contract, records))

    async def durable_after(self, count: int) -> None:
        """Wait until so many more writes are durable."""
        while self.durable < count:
            event = await self.next_event()
            assert isinstance(event, Written)
            self.durable += event.count
        self.durable -= count

    async def write(self, contract: ContractAddress, *records: Record) -> None:
        self.order(contract, *records)
        await self.durable_after(1)

    async def ask(self, effect: StoreEffect) -> Event:
        self.store.perform(effect)
        return await self.next_event()

    async def next_event(self) -> Event:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await self.events.get()


@asynccontextmanager
async def opened_on(
    database: Database,
    config: Config = CONFIG,
    nullifier_of: NullifierOf = spent_by_id,
    contracts: tuple[Contract, ...] = CONTRACTS,
) -> AsyncIterator[Opened]:
    """A store that has these contracts, closed at the end."""
    opened = await Opened(database, config, nullifier_of).start(contracts)
    try:
        yield opened
    finally:
        await opened.store.close()


def again(database: Database, node: NodeName = NODE) -> Database:
    """The same database for another process, perhaps of another node."""
    if isinstance(database, SqliteDatabase):
        return SqliteDatabase(database._path, node)
    assert isinstance(database, PostgresDatabase)
    return PostgresDatabase(database._url, node)


async def new_postgres(server: PostgresServer) -> PostgresDatabase:
    """A database in a schema of its own."""
    schema = server.new_schema_name()
    connection = await asyncpg.connect(server.url())
    await connection.execute(f"CREATE SCHEMA {schema}")
    await connection.close()
    return PostgresDatabase(server.url(schema), NODE)


def new_sqlite(folder: Path) -> SqliteDatabase:
    return SqliteDatabase(folder / "node.db", NODE)


# Values.


def intent_id(number: int) -> IntentId:
    return IntentId(number.to_bytes(16, "big"))


def leaf(number: int) -> Leaf:
    return Leaf(b"leaf" + number.to_bytes(28, "big"))


def digest(number: int) -> Digest:
    return Digest(b"digest" + number.to_bytes(26, "big"))


def an_intent(
    number: int,
    contract: ContractAddress = FIRST,
    key: str = "",
    depends_on: tuple[int, ...] = (),
    payload: bytes = b"payload",
) -> Intent:
    others = tuple(intent_id(other) for other in depends_on)
    return Intent(intent_id(number), contract, Party("alice@node1"), payload, others, idempotency_key=key)


def a_transition(intent: int, version: int = 0) -> Authorised:
    """A version of an intent: two states that this node and a peer may see, and between them one of strangers."""
    name = leaf(intent * 100 + version)
    outputs = (
        State(StateId(name, 0), b"\1" * 32, (NODE, PEER), b"content %d" % intent),
        State(StateId(name, 1), b"\2" * 32, (STRANGER,)),
        State(StateId(name, 2), b"\3" * 32, (NODE, PEER), b""),
    )
    made = Transition(intent_id(intent), name, (StateId(leaf(0), intent),), outputs=outputs, valid_until_s=1_000)
    return Authorised(Consistent(made))


def signed(*transitions: Transition) -> LeavesSigned:
    """The parties of these intents signed these."""
    return LeavesSigned(tuple(Authorised(Consistent(made)) for made in transitions))


def permitted(made: Transition, number: int = 1) -> PermissionGranted:
    """Its sender permitted it to a peer."""
    return PermissionGranted(made.intent, DelegationNumber(1, number), PEER, made.leaf, made.valid_until_s)


def a_dispatch(
    round_number: int, nonce: int, transitions: tuple[Transition, ...], contract: ContractAddress = FIRST
) -> RoundDispatch:
    order = DispatchRound(
        contract,
        digest(round_number),
        tuple(each.leaf for each in transitions),
        transitions,
        (NodeName("node3"),) * len(transitions),
        ((PEER, b"signature"),),
        1_000,
    )
    return RoundDispatch(order, "node1", nonce, Fees(20, 1), b"signed", b"hash")


def dearer(dispatch: RoundDispatch) -> RoundDispatch:
    return replace(dispatch, fees=Fees(dispatch.fees.most_wei * 2, 2), transaction=b"signed again")


def a_prepared(transition: Transition, number: int) -> PreparedTransaction:
    signatures = (EndorserSignature(PEER, b"signature"),)
    return PreparedTransaction(digest(30_000 + number), (transition.leaf,), 1_000, signatures, transition)


def a_deployed(number: int, version: int = 0) -> FactoryDeployment:
    """What the factory deployed under an id; another version is somebody else's."""
    contract = ContractAddress(f"0x{number:038x}{version:02x}")
    return FactoryDeployment(intent_id(number), contract, bytes([version]) * 32, (FIRST,), 1)


def a_proposal(number: int, peer: NodeName = PEER, is_agreed: bool = True) -> Proposal:
    """What a peer wants us to have; before it is agreed on, our operator is asked."""
    signers = (FIRST,) if is_agreed else ()
    proposal = Proposal(peer, intent_id(number), b"genesis %d" % number, RequestId(1, 2), 1_000, FIRST, signers)
    return proposal if is_agreed else replace(proposal, decision=Decision.ASKED, asked_at_s=900, reason="why")


def a_known(number: int) -> KnownContract:
    """A contract that came through the network."""
    deployed = a_deployed(number)
    contract = Contract(deployed.contract, (NODE,), (NODE,), 1)
    return KnownContract(contract, deployed.intent, deployed.endorsers, b"genesis %d" % number, 1, 1)


def one_of_each() -> tuple[tuple[ContractAddress, Record], ...]:
    """A record of every kind, in an order in which a node could write them, with the contract that it is of."""
    made = a_transition(1)
    prepared = a_prepared(made, 1)
    dispatch = a_dispatch(1, 0, (made,))
    outcome = LedgerOutcome(made.intent, made.leaf, dispatch.round.digest, LedgerStatus.SKIPPED, "too late", True)
    mined = MinedTransaction(0, MinedStatus.SUCCEEDED)
    return (
        (OWN, NodeStarted(1)),
        (FIRST, IntentAccepted(an_intent(1, key="key"))),
        (FIRST, IntentParked(made.intent, "parked")),
        (FIRST, IntentResumed(made.intent)),
        (FIRST, EndingDecided(made.intent, "cancelled")),
        (FIRST, signed(made)),
        (FIRST, permitted(made, 2)),
        (FIRST, TransitionIssued(prepared, 900)),
        (FIRST, IntentFinalised(Receipt(made.intent, Outcome.REVERTED, "cancelled", made.leaf))),
        (OWN, dispatch),
        (OWN, DispatchRepriced(dearer(dispatch))),
        (FIRST, StatesReceived(digest(2), (a_transition(2),))),
        (FIRST, StatesAcknowledged(dispatch.round.digest, PEER)),
        (FIRST, TransitionPrepared(PEER, prepared)),
        (FIRST, PreparedAcknowledged(made.intent, made.leaf)),
        (FIRST, PreparedEndorsed((kept_for(prepared),))),
        (NO_CONTRACT, DeploymentAgreed(intent_id(3), (FIRST, SECOND))),
        (NO_CONTRACT, DeploymentProposed(a_proposal(4))),
        (NO_CONTRACT, ProposalForgotten(PEER, intent_id(4))),
        (OWN, ContractTaken(a_known(5))),
        (OWN, FinalityBroken(0, 1, (UndoneCommit(1, FIRST, made.intent, made.leaf),))),
        (OWN, BlocksIndexed(0, (ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, ((FIRST, outcome),), (mined,)),))),
    )
