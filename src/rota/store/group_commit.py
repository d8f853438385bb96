"""The `Store` of ports: syncpoints in, events out; the same for both databases.

Theory of operation. An order of the core is turned into SQL when it is given, and waits with the writes of all features
in one queue (`write_queue.py`), which repeats it until it is done. Nothing is read while it is in doubt whether a
commit has happened. An error that ends the run is passed to `failed`.

Beside the database, `mark` keeps the number of an acknowledged transaction. If a start finds a smaller number in the
database, that is an old copy: public transactions that have not ended there are set aside, in the first transaction
of the new run.

Another task answers questions, all waiting ones in one go, from everything that was durable when they were asked. A
question about intents is kept until it can be answered. The others are dropped, and their callers ask again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from rota.chain.effects import RecallDispatches
from rota.chain.events import DispatchesRecalled
from rota.directory.effects import ContractTaken
from rota.exchange.effects import RecallDeliveries
from rota.machine.effects import FindStates, Persist
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock
from rota.model.config import Config
from rota.model.digests import domain_separator
from rota.model.types import (
    BlockHash,
    Contract,
    ContractAddress,
    IntentId,
    KnownContract,
    Leaf,
    NodeName,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LoadContract, LookUpIntents
from rota.node.events import ContractLoaded, ContractMissing, StatesFound
from rota.node.stored import StoredNode
from rota.ports import (
    STATES_A_PAGE,
    TRANSACTIONS_MAX,
    StateChanges,
    StatePage,
    StatePlace,
    StoredChain,
    StoredTransaction,
    StoreEffect,
    Tell,
    Unanswerable,
    Unavailable,
    Written,
)
from rota.store.abis import Abis
from rota.store.accounts import AccountChoices
from rota.store.archive import Archive
from rota.store.carried import CarriedTransitions
from rota.store.commitments import Commitments
from rota.store.database import Answer, Database, Reading, ReadingTooSlow, Refused, Statement, known_chain, last_written
from rota.store.findings import Findings
from rota.store.groups import Groups, group_of_contract
from rota.store.kept_number import KeptNumber, Mark
from rota.store.key_names import KeyNames
from rota.store.listening import Listening
from rota.store.mail import Mail
from rota.store.proofs import ProofBook
from rota.store.public_transactions import PublicTransactions, saving
from rota.store.quarantine import Quarantine
from rota.store.reading import Asking
from rota.store.records import Clock, NullifierOf, Writing, add_contract, spent_by_id
from rota.store.submissions import Submissions
from rota.store.traces import Traces
from rota.store.triggers import TriggerBook
from rota.store.write_queue import WriteQueue

LOOK_S: Final = 1.0
QUESTIONS_WAITING_MAX: Final = 65_536
GROUP_QUESTIONS_MAX: Final = 256
RETRY_S: Final = 0.25

Question = LookUpIntents | LoadContract | FindStates | RecallDeliveries | RecallDispatches


def wall_clock_ms() -> int:
    """The time of acceptance that users see; nothing is decided by it."""
    return time.time_ns() // 1_000_000


class DatabaseStore:
    """The stored state of one node, in one database."""

    def __init__(
        self,
        database: Database,
        node: NodeName,
        config: Config,
        tell: Tell,
        clock: Clock = wall_clock_ms,
        nullifier_of: NullifierOf = spent_by_id,
        mark: Mark | None = None,
    ) -> None:
        self._database = database
        self._kept: Final = KeptNumber(mark)
        self._tell = tell
        self._separators: dict[ContractAddress, bytes] = {}
        self._asking = Asking(node, config.confirmations)
        self.final_height: Final = self._asking.final_height
        self.submissions: Final = Submissions(self, self._asking.final_height, clock)
        accompanied = self.submissions.accompanied
        self._writing = Writing(node, self._separators, config, clock, nullifier_of, accompanied)
        self.listening: Final = Listening(self, self._asking.final_height, self._asking.final_time_s, clock)
        self._writes: Final = WriteQueue(database, self._kept, clock, lambda count: tell(Written(count)))
        self._writes.in_trouble = self._keep_looking
        self._writes.ended = self._end
        self._questions: deque[Question] = deque()
        self._findings = Findings(node)
        self._has_questions = asyncio.Event()
        self._adding = asyncio.Lock()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._keeping: asyncio.Task[None] | None = None
        self._is_closing = False
        self._broken: Refused | None = None
        # Called with an error that ends the store, and with it the process.
        self.failed: Callable[[BaseException], None] = lambda _: None
        self._wound_back = ""
        self._end_trouble = ""
        self._reading_trouble = ""
        self._looking: asyncio.Task[None] | None = None
        self.abis: Final = Abis(self, clock)
        self.traces: Final = Traces(self)
        self.public: Final = PublicTransactions(self, self._asking, self.submissions, clock, self._kept.keep)
        self.key_names = KeyNames(self._read, self._write_alone)
        self.accounts: Final = AccountChoices(self._write_alone)
        self.archive = Archive(self._read, self._write_alone)
        self.groups = Groups(self._read)
        self.mail = Mail(self._read, self._write_alone)
        self.proofs: Final = ProofBook(self)
        self.triggers: Final = TriggerBook(self._read, self._write_alone)
        self.commitments: Final = Commitments(self)
        self.carried: Final = CarriedTransitions(self, clock)
        self.quarantine: Final = Quarantine(self)

    # Start and end.

    async def start(self) -> None:
        """Open the database. `Refused` when it does not belong to this node, `Unavailable` when it does not respond."""
        kept = await self._kept.read()
        await self._database.open()
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._database.keep())
            self._keeping.add_done_callback(self._tell_of_end)
        found = await self._database.read(last_written())
        self._writes.number = max(found, kept)
        if found < kept:
            self._wound_back = (
                f"the database was wound back: its write number is {found}, and {kept} was acknowledged before"
            )
            open_ = await self._database.read(self.public.opened())
            aside = [saving(replace(each, set_aside=each.set_aside or self._wound_back)) for each in open_]
            await self._database.write(aside, self._writes.next_number())
        self._kept.acknowledged = self._writes.number
        await self._kept.keep()
        for known in await self.contracts():
            self._note(known.contract)
        self._tasks = (asyncio.create_task(self._writes.run()), asyncio.create_task(self._answer_on()))
        for task in self._tasks:
            task.add_done_callback(self._tell_of_end)

    async def close(self) -> None:
        """Write the pending orders and close the database; open questions stay unanswered."""
        self._is_closing = True
        self._writes.close()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._tasks:
            writer, reader = self._tasks
            reader.cancel()
            with suppress(asyncio.CancelledError, Refused):
                await reader
            with suppress(Refused):
                await writer
        await self._kept.close()
        await self._database.close()

    @property
    def wound_back(self) -> str:
        """Why the database found at the start counts as an older copy; empty when it does not."""
        return self._wound_back

    @property
    def trouble(self) -> str:
        """The reason why the latest write or answer fails, for an operator; empty when none does."""
        return self._end_trouble or self._writes.trouble or self._reading_trouble or self._kept.trouble

    @property
    def writes_failed(self) -> int:
        """How many attempts to write have failed."""
        return self._writes.failed_count

    # The chain.

    async def chain(self) -> StoredChain:
        """The chain that earlier runs of this node used."""
        return await self._read(known_chain())

    async def use_chain(self, confirmations: int, genesis: BlockHash | None) -> None:
        """Set the number of confirmations that make a block final; the next run finds both values."""
        update = Statement("UPDATE node SET confirmations = ?, chain_genesis = ?", (confirmations, genesis))
        await self._write_alone(update)
        self._asking.confirmations = self._writing.confirmations = confirmations

    # Contracts, and the state that a node starts with.

    async def add_contract(self, known: KnownContract) -> None:
        """Add this contract to the node; the same one may be added again."""
        async with self._adding:
            await self._write_alone(add_contract(known), *group_of_contract(known, self._writing.clock()))
            self._note(known.contract)

    async def _write_alone(self, *statements: Statement) -> None:
        await self.write(statements)

    async def contracts(self) -> tuple[KnownContract, ...]:
        """All contracts of this node."""
        return await self._read(self._asking.contracts())

    async def contract(self, address: ContractAddress) -> KnownContract | None:
        """The contract with this address, with its genesis; None if the node does not have it."""
        return await self._read(self._asking.contract(address))

    async def contracts_with_work(self) -> tuple[ContractAddress, ...]:
        """The contracts with unfinished work: a node starts with them and loads the others on demand."""
        return await self._read(self._asking.contracts_with_work())

    async def restore(self, contracts: Sequence[ContractAddress]) -> StoredNode:
        """The state that a new run of the node starts with, including that of these contracts."""
        return await self._read(self._asking.node_of(contracts))

    async def receipt_of(self, intent: IntentId) -> Receipt | None:
        """The final outcome of an intent of this node, if it has one."""
        return await self._read(self._asking.receipt_of(intent))

    async def states_since(
        self, contract: ContractAddress, since: int, limit: int = STATES_A_PAGE, *, on_chain: bool = False
    ) -> tuple[int, tuple[State, ...]]:
        """States with their bytes that changed after `since`, spent or not, and the number of the last change."""
        return await self._read(self._asking.states_since(contract, since, limit, on_chain))

    async def heights_with_outcomes(self, contract: ContractAddress, first: int, last: int) -> frozenset[int]:
        """The heights of this range, both ends included, in which the index has an outcome of the contract."""
        return await self._read(self._asking.heights_with_outcomes(contract, first, last))

    async def make_up(self, blocks: Sequence[ChainBlock]) -> None:
        """Write the outcomes of a contract in final blocks that the index passed before it had the contract."""
        free = await self._read(self._asking.free_places([block.height for block in blocks]))
        await self.write(tuple(self._writing.made_up(blocks, free, self._writes.next_number())))

    async def standing_states(
        self, contract: ContractAddress, limit: int, skip: int = 0, is_own: bool = False
    ) -> tuple[State, ...]:
        """The unspent states on the chain that the end of a lock's record spends, the oldest first."""
        return await self._read(self._asking.standing_states(contract, limit, skip, is_own))

    async def leaves_without_states(
        self, contract: ContractAddress, last: int, limit: int, skip: int = 0
    ) -> tuple[Leaf, ...]:
        """The leaves committed up to height `last` of which this node holds no state, the earliest first."""
        return await self._read(self._asking.leaves_without_states(contract, last, limit, skip))

    async def unspent_states(
        self, contract: ContractAddress, after: StatePlace | None = None, limit: int = STATES_A_PAGE
    ) -> StatePage:
        """A page of the states of this contract that are on the chain, unspent and held by this node."""
        return await self._read(self._asking.unspent_states(contract, after, limit))

    async def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> tuple[State, ...]:
        """Those of these states that this node holds, including spent ones and ones that are not on the chain."""
        return await self._read(self._asking.states(contract, ids))

    async def transitions_of(
        self, contract: ContractAddress, leaves: Sequence[Leaf], bytes_max: int | None = None
    ) -> tuple[Transition, ...]:
        """The transitions of these leaves that this node dispatched, signed, prepared or was sent."""
        rounds = await self._read(self._asking.states_of(contract, tuple(leaves), bytes_max=bytes_max))
        return tuple(transition for _, of_round in rounds for transition in of_round)

    async def state_changes(self, contract: ContractAddress, since: int, limit: int = STATES_A_PAGE) -> StateChanges:
        """The states that became unspent and held since change `since`, and those that are so no longer."""
        return await self._read(self._asking.state_changes(contract, since, limit))

    # Requests of users.

    async def transaction(self, intent: IntentId) -> StoredTransaction | None:
        """An intent of this node and its outcome."""
        return await self._read(self._asking.transaction(intent))

    async def transactions(self, after: IntentId | None, limit: int) -> tuple[StoredTransaction, ...]:
        """The intents of this node, latest first, starting behind `after` in that order."""
        assert 0 < limit <= TRANSACTIONS_MAX, f"limit: must be 1 to {TRANSACTIONS_MAX}, not {limit}"
        return await self._read(self._asking.transactions(after, limit))

    async def unfinished_count(self) -> int:
        """How many intents of this node have no final outcome."""
        return await self._read(self._asking.unfinished_count())

    # Tables that the core does not use: each has a module of its own, which defines its statements and readings.

    async def write(self, statements: Sequence[Statement]) -> None:
        """Write the statements, durable on return, in one transaction with all other waiting writes.

        `Unavailable` when nothing was written, `WriteInDoubt` when that is not known.
        """
        self._assert_at_work()
        await self._writes.write(statements)

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer, all from one moment of the database. `Unavailable` when it does not respond."""
        return await self._read(reading)

    # Orders.

    def perform(self, effect: StoreEffect) -> None:
        """Begin this effect; its result follows as an event."""
        self._assert_at_work()
        match effect:
            case Persist():
                self._order_write(effect)
            case LookUpIntents():
                assert len(self._questions) < QUESTIONS_WAITING_MAX, "intents under way are bounded by the core"
                self._order_answer(effect)
            case LoadContract() | RecallDeliveries() | RecallDispatches():
                if len(self._questions) < QUESTIONS_WAITING_MAX // 2:
                    self._order_answer(effect)
            case FindStates():
                self._findings.put(effect)
                self._has_questions.set()

    def _tell_of_end(self, task: asyncio.Task[None]) -> None:
        """Report a failed task of the store at once: an error of our own, and callers may be waiting for the task."""
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            if isinstance(problem, Refused):
                self._end(problem)
                return
            self._end_trouble = f"the store has stopped: {problem!r}"
            context = {"message": self._end_trouble, "exception": problem, "task": task}
            asyncio.get_running_loop().call_exception_handler(context)
            self.failed(problem)

    def _end(self, problem: Refused) -> None:
        """Stop writing and answering, and end the process."""
        if self._broken is None:
            self._broken = problem
            self._end_trouble = f"the store has stopped: {problem}"
            self.failed(problem)

    def _assert_at_work(self) -> None:
        """Raise the error of a task that has ended, so that no caller waits in vain."""
        assert self._tasks, "a store is started before it is used"
        if self._broken is not None:
            raise self._broken
        for task in self._tasks:
            if task.done():
                task.result()

    def _order_write(self, order: Persist) -> None:
        # Blocks of the same write may have rounds of a contract that the write adds.
        for taken in (each for each in order.records if isinstance(each, ContractTaken)):
            self._note(taken.known.contract)
        write, contract = self._writing.statements, order.contract
        try:
            statements = tuple(
                each for record in order.records for each in write(contract, record, self._writes.next_number())
            )
        except (ValueError, OverflowError, TypeError) as problem:
            self._writes.order(contract, (), f"cannot be stored: {problem}")
        else:
            self._writes.order(contract, statements)

    def _order_answer(self, question: Question) -> None:
        self._questions.append(question)
        self._has_questions.set()

    # Answering.

    async def _answer_on(self) -> None:
        while True:
            await self._findings.wait(self._has_questions)
            self._has_questions.clear()
            while question := self._questions.popleft() if self._questions else self._findings.take():
                look_ups = self._look_ups_with(question)
                try:
                    if look_ups:
                        events: Sequence[Event] = await self._read(self._asking.look_up_all(look_ups))
                    else:
                        events = await self._answer(question)
                except Unavailable:
                    self._questions.extendleft(reversed(look_ups))
                    await asyncio.sleep(RETRY_S)
                    continue
                for event in events:
                    self._tell(event)

    def _look_ups_with(self, question: Question) -> list[LookUpIntents]:
        """This question and those right behind it, if it is about intents: one reading answers them all."""
        found: list[LookUpIntents] = []
        if isinstance(question, LookUpIntents):
            found.append(question)
            while self._questions and len(found) < GROUP_QUESTIONS_MAX:
                following = self._questions[0]
                if not isinstance(following, LookUpIntents):
                    break
                found.append(following)
                self._questions.popleft()
        return found

    async def _answer(self, question: Question) -> Sequence[Event]:
        match question:
            case LookUpIntents():
                raise AssertionError("those are answered together")
            case LoadContract(address):
                found = await self._read(self._asking.contract_of(address))
                return (ContractMissing(address) if found is None else ContractLoaded(*found),)
            case RecallDeliveries():
                return (await self._read(self._asking.deliveries_to(question)),)
            case RecallDispatches(nonces, account):
                recalled = await self._read(self._asking.dispatches_with(question))
                return (DispatchesRecalled(nonces, recalled, account),)
            case FindStates(contract, peer, leaves):
                rounds = await self._read(self._asking.states_of(contract, leaves, peer))
                self._findings.charge(question, rounds)
                return [StatesFound(contract, peer, digest, transitions) for digest, transitions in rounds]

    async def _read(self, reading: Reading[Answer]) -> Answer:
        """Read, and note trouble: a node that only reads must also notice that its database does not respond."""
        try:
            answer = await self._database.read(reading)
        except (ReadingTooSlow, Unanswerable):
            self._reading_trouble = ""
            raise
        except Refused as problem:
            self._end(problem)
            raise
        except Unavailable as problem:
            self._reading_trouble = str(problem)
            self._keep_looking()
            raise
        self._reading_trouble = ""
        return answer

    def _keep_looking(self) -> None:
        if not self._is_closing and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_until_it_answers())

    async def _look_until_it_answers(self) -> None:
        """Retry until the database responds: without requests nothing else would notice that it is back.

        An empty transaction shows whether the database takes writes.
        """
        while (self._writes.trouble or self._reading_trouble) and not self._is_closing:
            await asyncio.sleep(LOOK_S)
            if self._broken is not None or any(task.done() for task in self._tasks):
                return
            with suppress(Unavailable, Refused):
                await (self.write(()) if self._writes.trouble else self._read(last_written()))

    def _note(self, contract: Contract) -> None:
        self._separators[contract.address] = domain_separator(contract.chain_id, contract.address)
