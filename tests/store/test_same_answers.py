"""The simulator's disk, SQLite and PostgreSQL give the same answers, whatever is written, fails and restarts.

The simulator runs whole networks on its disk, which holds every record in a list and works its answers out when it
is asked. The databases must say the same from tables, with four differences that the core cannot notice: they say
each thing once, leave out what has expired in a final block, keep the latest blocks only, and tell of outcomes
only those that an unfinished intent depends on.
"""

from __future__ import annotations

import asyncio
import tempfile
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rota.chain.effects import BlocksIndexed, DispatchRepriced, RoundDispatch
from rota.chain.index import ChainIndex, IndexChange
from rota.directory.effects import ContractTaken, DeploymentAgreed, DeploymentProposed, ProposalForgotten
from rota.exchange.distribution import DeliveriesRecalled
from rota.exchange.effects import RecallDeliveries, StatesAcknowledged, StatesReceived
from rota.machine.effects import FindStates, IntentAccepted, IntentFinalised, Record, TransitionPrepared
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction
from rota.model.consistency import Consistent
from rota.model.digests import domain_separator, void_leaf
from rota.model.types import (
    FINALITY_BROKEN,
    NO_CONTRACT,
    BlockHash,
    ContractAddress,
    Digest,
    IntentId,
    KnownContract,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LoadContract, LookUpIntents, NodeStarted
from rota.node.events import ContractLoaded, ContractMissing, IntentsLookedUp, StatesFound
from rota.node.node import OWN
from rota.node.stored import StoredNode
from rota.ports import StatePlace, StoredTransaction, SubmissionKey
from rota.sequencer.effects import (
    EndingDecided,
    IntentParked,
    IntentResumed,
    PreparedAcknowledged,
    PreparedEndorsed,
    TransitionIssued,
)
from rota.sequencer.issuing import kept_for
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.sim.disk import Disk, Fate
from rota.sim.ledger import GENESIS
from rota.store.database import Database
from tests.store.kit import (
    CONFIG,
    CONTRACTS,
    FIRST,
    NODE,
    NOW_MS,
    PEER,
    SECOND,
    STRANGER,
    FaultyDatabase,
    Opened,
    a_deployed,
    a_dispatch,
    a_known,
    a_prepared,
    a_proposal,
    a_transition,
    an_intent,
    dearer,
    digest,
    intent_id,
    known,
    leaf,
    new_postgres,
    new_sqlite,
    permitted,
    signed,
)
from tests.store.model import transactions_on
from tests.store.servers import PostgresServer

Made = TypeVar("Made")

# What a disk does is tested elsewhere; in memory a commit costs nothing.
MEMORY = Path("/dev/shm")
UNKNOWN = ContractAddress("0x" + "ee" * 20)
PROPOSED = 7_000  # Deployments of other nodes are numbered from here.
FOREIGN = 5_000  # Intents of other nodes are numbered from here.
TOO_LARGE = 2**63  # No database of ours has room for this number.
KEYS = ("", "", "key a", "key b", "nul \0 and é")
ADDRESSES = st.sampled_from([FIRST, SECOND])
# An empty transition is committed too.
STATUSES = (LedgerStatus.COMMITTED, *LedgerStatus, "void")
FATES = st.sampled_from([Fate.WORKS] * 6 + [Fate.FAILS, Fate.LIES])
VERSIONS = st.integers(0, 1)
SMALL = st.integers(0, 11)
SPENT = st.lists(st.tuples(SMALL, st.integers(0, 2)), max_size=2, unique=True)
# Some have ended when a block is final, and some have not.
ENDS = st.integers(GENESIS.time_s, GENESIS.time_s + 50)


class Sameness(RuleBasedStateMachine):
    """Records in an order in which a node could write them, to the model and to a store."""

    @abstractmethod
    async def new_database(self) -> Database:
        """An empty one, whose process may end and open it again."""

    @abstractmethod
    def database_again(self) -> Database:
        """The same one, in a new process."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.disk = Disk(blocks=[], latest_chain_time_s=0)
        self.window: list[ChainBlock] = []
        self.numbers = 0
        self.next_nonce = 0
        self.taken_in: dict[ContractAddress, KnownContract] = {}
        self.rounds: list[tuple[ContractAddress, Digest, tuple[Transition, ...]]] = []
        self.alone: list[Leaf] = []
        self.followers: dict[ContractAddress, tuple[int, dict[StateId, State]]] = {FIRST: (0, {}), SECOND: (0, {})}

    def do(self, work: Callable[[], Awaitable[Made]]) -> Made:
        async def done() -> Made:
            return await work()

        return self.runner.run(done())

    def teardown(self) -> None:
        self.do(self.opened.store.close)
        self.runner.close()

    @initialize()
    def begin(self) -> None:
        async def started() -> None:
            self.faulty = FaultyDatabase(await self.new_database())
            self.opened = await Opened(self.faulty).start()

        self.do(started)
        self.index(-1, (GENESIS,), Fate.WORKS)
        for contract in (FIRST, FIRST, SECOND):
            self.accept(contract, "", [], Fate.WORKS)
        self.dispatch([1, 2], 0, Fate.WORKS)

    # Writing.

    def without_words(self, found: StoredTransaction) -> StoredTransaction:
        """Of a receipt that no longer holds, or holds again, only the outcome is compared."""
        receipt = found.receipt
        if receipt is None or receipt.outcome is Outcome.CONFIRMED or found.intent.id not in self.disk.undone:
            return found
        return replace(found, receipt=Receipt(found.intent.id, receipt.outcome))

    def write(self, fate: Fate, contract: ContractAddress, *records: Record) -> None:
        """To both. A database that does not take the first attempt, or does not say so, has the records once."""
        self.faulty.fate, self.faulty.strikes = fate, 1
        self.do(lambda: self.opened.write(contract, *records))
        self.faulty.fate, self.faulty.strikes = Fate.WORKS, None
        self.disk.write(contract, records)

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers

    def intents(self) -> list[tuple[ContractAddress, IntentId]]:
        accepted = [record.intent for _, record in self.disk.records if isinstance(record, IntentAccepted)]
        return [(intent.contract, intent.id) for intent in accepted if intent.contract != NO_CONTRACT]

    def deployments(self) -> list[int]:
        """The numbers of those that users asked for, and one that nobody did."""
        accepted = [record.intent for _, record in self.disk.records if isinstance(record, IntentAccepted)]
        own = [int.from_bytes(intent.id, "big") for intent in accepted if intent.contract == NO_CONTRACT]
        return [*own, PROPOSED]

    def an_intent_of(self, choice: int) -> tuple[ContractAddress, int]:
        """One that is durable, or another node's."""
        known = self.intents()
        if not known or choice % 4 == 0:
            return (FIRST, SECOND)[choice % 2], FOREIGN + choice
        contract, intent = known[choice % len(known)]
        return contract, int.from_bytes(intent, "big")

    @rule(contract=ADDRESSES, key=st.sampled_from(KEYS), others=st.lists(SMALL, max_size=2), fate=FATES)
    def accept(self, contract: ContractAddress, key: str, others: list[int], fate: Fate) -> None:
        known = [int.from_bytes(intent, "big") for _, intent in self.intents()]
        depends_on = tuple(known[other % len(known)] for other in others if known)
        self.write(fate, contract, IntentAccepted(an_intent(self.next_number(), contract, key, depends_on)))

    @rule(
        choice=SMALL,
        kind=st.sampled_from(["deploy", "agree", "finalise"]),
        outcome=st.sampled_from(Outcome),
        fate=FATES,
    )
    def deploy(self, choice: int, kind: str, outcome: Outcome, fate: Fate) -> None:
        own = self.deployments()[:-1]
        if kind == "deploy" or not own:
            record: Record = IntentAccepted(an_intent(self.next_number(), NO_CONTRACT))
        elif kind == "agree":
            record = DeploymentAgreed(intent_id(own[choice % len(own)]), (FIRST, SECOND)[: 1 + choice % 2])
        else:
            ended = intent_id(own[choice % len(own)])
            record = IntentFinalised(
                Receipt(ended, outcome, f"reason {choice}", contract=FIRST if choice % 2 else None)
            )
        self.write(fate, NO_CONTRACT, record)

    @rule(
        number=st.integers(PROPOSED, PROPOSED + 2),
        kind=st.sampled_from(["propose", "agree", "forget", "take in"]),
        peer=st.sampled_from([PEER, STRANGER]),
        fate=FATES,
    )
    def propose(self, number: int, kind: str, peer: NodeName, fate: Fate) -> None:
        records: dict[str, Record] = {
            "propose": DeploymentProposed(a_proposal(number, peer, is_agreed=False)),
            "agree": DeploymentProposed(a_proposal(number, peer)),
            "forget": ProposalForgotten(peer, intent_id(number)),
            "take in": ContractTaken(a_known(number)),
        }
        self.write(fate, NO_CONTRACT, records[kind])
        if kind == "take in":
            self.taken_in[a_known(number).contract.address] = a_known(number)

    @rule(
        choice=SMALL,
        kind=st.sampled_from(["park", "resume", "end", "sign", "sign", "permit", "issue", "finalise"]),
        version=VERSIONS,
        outcome=st.sampled_from(Outcome),
        fate=FATES,
    )
    def change_intent(self, choice: int, kind: str, version: int, outcome: Outcome, fate: Fate) -> None:
        known = self.intents()
        if not known:
            return
        contract, intent = known[choice % len(known)]
        made = a_transition(int.from_bytes(intent, "big"), version)
        records: dict[str, Record] = {
            "park": IntentParked(intent, f"because \0 {choice}"),
            "resume": IntentResumed(intent),
            "end": EndingDecided(intent, f"cancelled {choice}"),
            "sign": signed(replace(made, valid_until_s=choice)),
            "permit": permitted(made, choice),
            "issue": TransitionIssued(a_prepared(made, choice), choice),
            "finalise": IntentFinalised(Receipt(intent, outcome, f"reason {choice}", made.leaf)),
        }
        self.write(fate, contract, records[kind])
        if kind == "sign":
            self.alone.append(made.leaf)

    @rule(choices=st.lists(SMALL, min_size=1, max_size=3, unique=True), version=VERSIONS, fate=FATES)
    def dispatch(self, choices: list[int], version: int, fate: Fate) -> None:
        """A nonce is used by one dispatch."""
        contract, _ = self.an_intent_of(choices[0])
        found = [self.an_intent_of(choice) for choice in choices]
        numbers = dict.fromkeys(number for address, number in found if address == contract)
        transitions = tuple(a_transition(number, version) for number in numbers)
        order = a_dispatch(self.next_number(), self.next_nonce, transitions, contract)
        self.write(fate, OWN, order)
        self.rounds.append((contract, order.round.digest, transitions))
        self.next_nonce += 1

    @precondition(lambda self: any(isinstance(record, RoundDispatch) for _, record in self.disk.records))
    @rule(choice=SMALL, fate=FATES)
    def reprice(self, choice: int, fate: Fate) -> None:
        by_nonce = {record.nonce: record for _, record in self.disk.records if isinstance(record, RoundDispatch)}
        self.write(fate, OWN, DispatchRepriced(dearer(list(by_nonce.values())[choice % len(by_nonce)])))

    @rule(
        choices=st.lists(SMALL, min_size=1, max_size=3, unique=True),
        part=st.integers(0, 1),
        is_seen=st.booleans(),
        fate=FATES,
    )
    def receive(self, choices: list[int], part: int, is_seen: bool, fate: Fate) -> None:
        """Of some only what everybody may see, as if the content came later and in another round."""
        contract, _ = self.an_intent_of(choices[0])
        found = [self.an_intent_of(choice) for choice in choices]
        numbers = dict.fromkeys(number for address, number in found if address == contract)
        transitions = tuple(
            Consistent(a_transition(number, 7).as_seen_by(NODE if is_seen else STRANGER)) for number in numbers
        )
        name = digest(10_000 + choices[0] + 100 * is_seen)
        self.write(fate, contract, StatesReceived(name, transitions, part))
        self.rounds.append((contract, name, transitions))

    def receive_all(self, transitions: tuple[Consistent, ...]) -> None:
        """In a round of their own."""
        self.write(Fate.WORKS, FIRST, StatesReceived(digest(40_000 + self.next_number()), transitions))

    @rule(choice=SMALL, fate=FATES)
    def acknowledge(self, choice: int, fate: Fate) -> None:
        owed = self.disk.undelivered(NODE)
        if owed:
            delivery = owed[choice % len(owed)]
            record = StatesAcknowledged(delivery.digest, delivery.peer, delivery.part)
            self.write(fate, delivery.contract, record)

    @rule(choice=SMALL, version=VERSIONS, valid_until_s=ENDS, fate=FATES)
    def prepare(self, choice: int, version: int, valid_until_s: int, fate: Fate) -> None:
        contract, number = self.an_intent_of(choice)
        # A round's digest binds the end of its validity.
        prepared = replace(a_prepared(a_transition(number, version), valid_until_s), valid_until_s=valid_until_s)
        self.write(fate, contract, TransitionPrepared(PEER, prepared))

    @rule(choice=SMALL, fate=FATES)
    def acknowledge_prepared(self, choice: int, fate: Fate) -> None:
        found = [(contract, record) for contract, record in self.disk.records if isinstance(record, TransitionPrepared)]
        if found:
            contract, record = found[choice % len(found)]
            transition = record.prepared.transition
            self.write(fate, contract, PreparedAcknowledged(transition.intent, transition.leaf))

    @rule(choices=st.lists(SMALL, min_size=1, max_size=2), valid_until_s=ENDS, fate=FATES)
    def endorse(self, choices: list[int], valid_until_s: int, fate: Fate) -> None:
        contract, _ = self.an_intent_of(choices[0])
        found = [self.an_intent_of(choice) for choice in choices]
        kept = tuple(
            kept_for(replace(a_prepared(a_transition(number, 1), 0), valid_until_s=valid_until_s))
            for address, number in found
            if address == contract
        )
        self.write(fate, contract, PreparedEndorsed(kept))

    @rule(numbers=st.lists(st.booleans(), min_size=2, max_size=4))
    def accept_many_at_once(self, numbers: list[bool]) -> None:
        """Orders that share a transaction, some of which issue what they accept."""
        orders: list[tuple[Record, ...]] = []

        async def written() -> None:
            for is_issued in numbers:
                number = self.next_number()
                accepted = IntentAccepted(an_intent(number))
                issued = TransitionIssued(a_prepared(a_transition(number), number), number)
                orders.append((accepted, issued) if is_issued else (accepted,))
                self.opened.order(FIRST, *orders[-1])
            await self.opened.durable_after(len(orders))

        self.do(written)
        for records in orders:
            self.disk.write(FIRST, records)

    # The chain.

    def index(self, parted_at: int, blocks: tuple[ChainBlock, ...], fate: Fate) -> None:
        removed = tuple(block for block in reversed(self.disk.blocks) if block.height > parted_at)
        broken = ChainIndex(CONFIG, 0, tuple(self.disk.blocks)).broken_by(IndexChange(parted_at, removed, blocks))
        records = (BlocksIndexed(parted_at, blocks),) if broken is None else (broken, BlocksIndexed(parted_at, blocks))
        self.write(fate, OWN, *records)
        for chain in (self.disk.blocks, self.window):
            while chain and chain[-1].height > parted_at:
                chain.pop()
            chain.extend(blocks)
        del self.window[: -CONFIG.index_window_max]
        latest = [self.disk.latest_chain_time_s, *(block.time_s for block in blocks)]
        self.disk.latest_chain_time_s = max(latest)

    @rule(
        undone=st.integers(0, 2),
        contents=st.lists(
            st.tuples(
                st.integers(1, 2),
                st.lists(st.tuples(SMALL, VERSIONS, st.sampled_from(STATUSES), SPENT), max_size=3),
                st.lists(st.tuples(st.integers(0, 3), st.sampled_from(MinedStatus)), max_size=2),
                st.lists(SMALL, max_size=1),
            ),
            min_size=1,
            max_size=3,
        ),
        fate=FATES,
    )
    def index_blocks(self, undone: int, contents: Sequence[Any], fate: Fate) -> None:
        """Some go and some come. An intent is committed once on a chain, and a nonce is used once.

        The nonces are the latest, and one that was not given out yet: somebody else may use our address.
        """
        undone = min(undone, len(self.window) - 1)
        standing = self.window[-1 - undone].height
        kept = [block for block in self.disk.blocks if block.height <= standing]
        committed = {
            outcome.intent
            for block in kept
            for _, outcome in block.outcomes
            if outcome.status is LedgerStatus.COMMITTED
        }
        used = {mined.nonce for block in kept for mined in block.mined}
        blocks: list[ChainBlock] = []
        height = standing
        for step, outcomes, nonces, deployed in contents:
            height += step
            latest = [(max(0, self.next_nonce - back), status) for back, status in nonces]
            mined = tuple(MinedTransaction(nonce, status) for nonce, status in latest if nonce not in used)
            mined = tuple({each.nonce: each for each in mined}.values())
            used.update(each.nonce for each in mined)
            found = tuple(
                self.an_outcome(choice, version, status, spent, committed)
                for choice, version, status, spent in outcomes
            )
            name = BlockHash(b"%d of %d" % (height, self.next_number()))
            known = self.deployments()
            made = tuple(a_deployed(known[choice % len(known)], choice % 2) for choice in deployed)
            time_s = GENESIS.time_s + self.numbers % 40
            blocks.append(ChainBlock(height, name, BlockHash(b""), time_s, found, mined, made))
        self.index(standing, tuple(blocks), fate)

    def an_outcome(
        self,
        choice: int,
        version: int,
        status: LedgerStatus | str,
        spent: list[tuple[int, int]],
        committed: set[IntentId],
    ) -> tuple[ContractAddress, LedgerOutcome]:
        """Of a transition of a round that we know, mostly; or of somebody's. It spends what we hold, or not."""
        contract, number = self.an_intent_of(choice)
        made: Transition = a_transition(number, version)
        name = digest(20_000 + choice)
        if self.rounds and choice % 3:
            contract, name, transitions = self.rounds[choice % len(self.rounds)]
            made = transitions[choice % len(transitions)]
        found = made.leaf
        if status == "void":
            found = void_leaf(domain_separator(CONTRACTS[0].chain_id, contract), made.intent)
        result = status if isinstance(status, LedgerStatus) else LedgerStatus.COMMITTED
        if result is LedgerStatus.COMMITTED and made.intent in committed:
            result = LedgerStatus.SKIPPED
        if result is not LedgerStatus.COMMITTED:
            return contract, LedgerOutcome(made.intent, found, name, result, "why")
        committed.add(made.intent)
        inputs = tuple(self.a_state(state, output) for state, output in spent)
        return contract, LedgerOutcome(made.intent, found, name, result, inputs=inputs, transaction=b"hash %d" % choice)

    def a_state(self, choice: int, output: int) -> StateId:
        """Of a transition that we have met, mostly; or of one that we may meet later."""
        if self.rounds and choice % 4:
            _, _, transitions = self.rounds[choice % len(self.rounds)]
            return StateId(transitions[choice % len(transitions)].leaf, output)
        return StateId(a_transition(FOREIGN + choice, 7).leaf, output)

    # Lives.

    @rule()
    def restart(self) -> None:
        async def again() -> None:
            await self.opened.store.close()
            self.faulty = FaultyDatabase(self.database_again())
            self.opened = await Opened(self.faulty).start(())

        self.do(again)
        incarnation = self.expected().incarnation + 1
        self.write(Fate.WORKS, OWN, NodeStarted(incarnation))

    # Asking.

    def expected(self) -> StoredNode:
        return self.disk.restore(NODE, CONTRACTS, CONFIG.confirmations)

    @invariant()
    def a_new_life_finds_the_same(self) -> None:
        if self.window:
            expected = self.expected()
            found = self.do(lambda: self.opened.store.restore(tuple(expected.contracts)))
            final = [block for block in self.disk.blocks if block.height <= self.disk.height - CONFIG.confirmations]
            final_time_s = final[-1].time_s if final else 0
            assert comparable(found, final_time_s) == comparable(
                replace(expected, blocks=tuple(self.window)), final_time_s
            )

    @rule()
    def ask_for_contracts(self) -> None:
        """Those that were added, and those that came through the network."""
        expected = {each.address: known(each) for each in CONTRACTS} | self.taken_in
        assert {each.contract.address: each for each in self.do(self.opened.store.contracts)} == expected
        has_work = NO_CONTRACT in self.do(self.opened.store.contracts_with_work)
        assert has_work == (NO_CONTRACT in self.expected().contracts)

    @invariant()
    def the_same_states_are_held_and_unspent(self) -> None:
        if self.window:
            numbers = (*range(self.numbers + 2), *range(FOREIGN, FOREIGN + 12))
            ids = tuple(
                state.id
                for number in numbers
                for version in (7, 1, 0)
                for state in a_transition(number, version).outputs
            )
            for contract in (FIRST, SECOND):
                unspent = self.unspent(contract, 2)
                assert unspent == self.disk.unspent_states(contract)
                every = {state.id for state in self.everything(contract, 20)} & set(ids)
                assert every == {state.id for state in self.disk.states(contract, ids)}
                assert self.followed(contract) == {state.id: state for state in unspent}
                assert self.do(partial(self.opened.store.states, contract, ids)) == self.disk.states(contract, ids)

    def unspent(self, contract: ContractAddress, limit: int) -> tuple[State, ...]:
        """Page by page."""
        found: list[State] = []
        last: StatePlace | None = None
        while True:
            page = self.do(partial(self.opened.store.unspent_states, contract, last, limit))
            assert len(page.states) <= limit
            found.extend(page.states)
            if page.last is None:
                return tuple(found)
            last = page.last

    def everything(self, contract: ContractAddress, limit: int) -> list[State]:
        """Spent or not, page by page."""
        found: list[State] = []
        since = 0
        while True:
            as_of, states = self.do(partial(self.opened.store.states_since, contract, since, limit))
            assert (as_of > since) is bool(states)
            found.extend(states)
            if as_of == since:
                return found
            since = as_of

    def followed(self, contract: ContractAddress) -> dict[StateId, State]:
        """What somebody holds who has asked for changes from the beginning on, a few at a time."""
        as_of, held = self.followers[contract]
        is_complete = False
        while not is_complete:
            changes = self.do(partial(self.opened.store.state_changes, contract, as_of, 2))
            assert changes.as_of > as_of or (changes.held, changes.gone, changes.is_complete) == ((), (), True)
            held.update({state.id: state for state in changes.held})
            for gone in changes.gone:
                held.pop(gone, None)
            as_of, is_complete = changes.as_of, changes.is_complete
        self.followers[contract] = (as_of, held)
        return held

    @rule(key=st.sampled_from(KEYS), page=st.integers(1, 4))
    def ask_for_transactions(self, key: str, page: int) -> None:
        """One by one, by key, and page by page."""
        store = self.opened.store
        expected = transactions_on(self.disk, CONTRACTS, CONFIG.confirmations)
        found: list[StoredTransaction] = []
        while True:
            after = found[-1].intent.id if found else None
            more = self.do(partial(store.transactions, after, page))
            found.extend(more)
            if len(more) < page:
                break
        assert [each.sequence for each in found] == sorted((each.sequence for each in found), reverse=True)
        assert {each.accepted_at_ms for each in found} == {NOW_MS}
        assert [self.without_words(replace(each, sequence=0, accepted_at_ms=0)) for each in found] == [
            replace(each, sequence=0) for each in expected
        ]
        with_key = [each.intent.id for each in found if each.intent.idempotency_key == key]
        asked = SubmissionKey(key, Party("other@node1"))
        assert self.do(lambda: store.submissions.using(asked)) == (with_key[0] if key and with_key else None)
        for each in found[:3]:
            assert self.do(partial(store.transaction, each.intent.id)) == each
        assert self.do(lambda: store.transaction(intent_id(FOREIGN))) is None
        assert self.do(lambda: store.transactions(intent_id(FOREIGN), page)) == ()
        assert self.do(store.unfinished_count) == sum(each.receipt is None for each in found)

    def unfinished_found(self) -> list[IntentId]:
        stored = self.do(lambda: self.opened.store.restore((FIRST, SECOND)))
        return [restored.intent.id for each in stored.contracts.values() for restored in each.intents]

    @rule(contract=st.sampled_from([FIRST, SECOND, UNKNOWN]))
    def load(self, contract: ContractAddress) -> None:
        event = self.do(lambda: self.opened.ask(LoadContract(contract)))
        if contract is UNKNOWN:
            assert event == ContractMissing(contract)
            return
        found = self.do(lambda: self.opened.store.restore((contract,))).contracts[contract]
        known = next(known for known in CONTRACTS if known.address == contract)
        assert event == ContractLoaded(known, found)

    @rule(key=st.sampled_from(KEYS))
    def look_up(self, key: str) -> None:
        foreign = [intent_id(FOREIGN + choice) for choice in range(12)]
        asked = (*(intent_id(number) for number in range(self.numbers + 2)), *foreign)
        order = LookUpIntents(7, key, asked)
        expected = self.disk.look_up(order, CONTRACTS, CONFIG.confirmations)
        answer = self.do(lambda: self.opened.ask(order))
        assert answer == expected
        self.receipts_say_the_same(expected)

    def receipts_say_the_same(self, looked_up: IntentsLookedUp) -> None:
        for intent, outcome in looked_up.outcomes[:3]:
            receipt = self.do(partial(self.opened.store.receipt_of, intent))
            assert receipt is not None
            assert (receipt.intent, receipt.outcome) == (intent, outcome)
        for intent in looked_up.unfinished[:3]:
            assert self.do(partial(self.opened.store.receipt_of, intent)) is None

    @rule()
    def recall_deliveries(self) -> None:
        for peer in self.expected().owed:
            recall = RecallDeliveries(peer, 1, 10_000, 1 << 40)

            async def asked(recall: RecallDeliveries = recall) -> Event:
                self.opened.store.perform(recall)
                return await self.opened.next_event()

            found, expected = self.do(asked), self.disk.deliveries_to(NODE, recall)
            assert isinstance(found, DeliveriesRecalled)
            assert found.is_all
            assert set(found.deliveries) == set(expected.deliveries)

    @rule(contract=ADDRESSES, choices=st.lists(SMALL, min_size=1, max_size=4, unique=True))
    def find_states(self, contract: ContractAddress, choices: list[int]) -> None:
        known = [*self.alone, *(made.leaf for _, _, transitions in self.rounds for made in transitions)]
        leaves = tuple(dict.fromkeys([leaf(999), *(known[choice % len(known)] for choice in choices if known)]))
        expected = {
            name: {made.leaf: made for made in transitions}
            for name, transitions in self.disk.find_states(contract, leaves, PEER)
        }

        async def asked() -> list[StatesFound]:
            self.opened.store.perform(FindStates(contract, PEER, leaves))
            events = [await self.opened.next_event() for _ in expected]
            return [event for event in events if isinstance(event, StatesFound)]

        found = self.do(asked)
        assert {event.digest: {made.leaf: made for made in event.transitions} for event in found} == expected


def comparable(stored: StoredNode, final_time_s: int) -> object:
    """All of it, without what the core cannot notice."""
    contracts = {address: comparable_contract(each, final_time_s) for address, each in stored.contracts.items()}
    return (
        stored.incarnation,
        contracts,
        sorted(stored.dispatches, key=lambda dispatch: dispatch.nonce),
        sorted(stored.owed),
        {name: each for name, each in stored.accounts.items() if each.next_nonce},
        stored.blocks,
        dict(stored.deployments.agreed),
        list(stored.deployments.deployed),
        sorted(stored.deployments.proposals, key=lambda each: (each.peer, each.deployment)),
    )


def comparable_contract(stored: StoredContract, final_time_s: int) -> StoredContract:
    wanted = {other for restored in stored.intents for other in restored.intent.depends_on}
    outcomes = sorted((intent, outcome.value) for intent, outcome in stored.outcomes if intent in wanted)
    return replace(
        stored,
        outcomes=tuple(outcomes),  # type: ignore[arg-type]
        unacknowledged=once(each for each in stored.unacknowledged if each.prepared.valid_until_s >= final_time_s),
        kept=once(each for each in stored.kept if each.valid_until_s >= final_time_s),
        endorsed=tuple(sorted(once(each for each in stored.endorsed if each.valid_until_s >= final_time_s))),
    )


def once(items: Iterable[Made]) -> tuple[Made, ...]:
    return tuple(dict.fromkeys(items))


def run(machine: type[Sameness], example_count: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=example_count, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


class OnSqlite(Sameness):
    async def new_database(self) -> Database:
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        return self.database_again()

    def database_again(self) -> Database:
        return new_sqlite(Path(self.folder.name))

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


@pytest.mark.slow
def test_sqlite_answers_as_the_simulated_disk_does() -> None:
    run(OnSqlite, 100)


@pytest.mark.slow
def test_postgres_answers_as_the_simulated_disk_does(server: PostgresServer) -> None:
    class OnPostgres(Sameness):
        async def new_database(self) -> Database:
            self.database = await new_postgres(server)
            return self.database

        def database_again(self) -> Database:
            return self.database

    run(OnPostgres, 20)


# What chance alone seldom finds.


@pytest.fixture
def machine() -> Iterator[Sameness]:
    """Has accepted three intents and dispatched a round with nonce 0; its chain has one block."""
    begun = OnSqlite()
    begun.begin()
    yield begun
    begun.a_new_life_finds_the_same()
    begun.the_same_states_are_held_and_unspent()
    begun.look_up("")
    begun.ask_for_transactions("", 2)
    begun.teardown()


def a_block(height: int, *outcomes: tuple[ContractAddress, LedgerOutcome], nonces: tuple[int, ...] = ()) -> ChainBlock:
    mined = tuple(MinedTransaction(nonce, MinedStatus.SUCCEEDED) for nonce in nonces)
    return ChainBlock(height, BlockHash(b"%d" % height), BlockHash(b""), GENESIS.time_s + height, outcomes, mined)


def committed_of(number: int) -> tuple[ContractAddress, LedgerOutcome]:
    made = a_transition(number)
    return FIRST, LedgerOutcome(made.intent, made.leaf, digest(4), LedgerStatus.COMMITTED)


def test_intent_whose_final_block_is_gone_is_marked_and_not_begun_again(machine: Sameness) -> None:
    machine.write(Fate.WORKS, FIRST, signed(a_transition(1)))
    machine.index(0, (a_block(1, committed_of(1)), a_block(2)), Fate.WORKS)
    assert intent_id(1) not in machine.unfinished_found()
    machine.index(0, (a_block(1), a_block(2), a_block(3)), Fate.WORKS)
    assert intent_id(1) not in machine.unfinished_found()
    machine.look_up("")


def spending(number: int, *spent: Transition) -> tuple[ContractAddress, LedgerOutcome]:
    """It spends the first state of each of these."""
    contract, outcome = committed_of(number)
    return contract, replace(outcome, inputs=tuple(made.outputs[0].id for made in spent))


def unspent(machine: Sameness) -> list[StateId]:
    machine.the_same_states_are_held_and_unspent()
    return [state.id for state in machine.unspent(FIRST, 1_000)]


def test_states_are_unspent_from_their_commit_to_their_spending_and_again_when_that_is_gone(machine: Sameness) -> None:
    made, spender = a_transition(1), a_transition(2)
    machine.receive_all((made,))
    assert unspent(machine) == [], "both are held, and neither is on the chain"
    machine.index(0, (a_block(1, committed_of(1)),), Fate.WORKS)
    assert unspent(machine) == [StateId(made.leaf, 0), StateId(made.leaf, 2)], "the one between is a stranger's"
    machine.index(1, (a_block(2, spending(2, made)),), Fate.WORKS)
    assert unspent(machine) == [StateId(made.leaf, 2), StateId(spender.leaf, 0), StateId(spender.leaf, 2)]
    machine.index(1, (a_block(2), a_block(3)), Fate.WORKS)
    assert unspent(machine) == [StateId(made.leaf, 0), StateId(made.leaf, 2)]
    machine.index(0, (a_block(1), a_block(2), a_block(3)), Fate.WORKS)
    assert unspent(machine) == []


def test_content_that_comes_after_commit_and_spending_is_held_and_known_as_what_it_is(machine: Sameness) -> None:
    made = a_transition(FOREIGN)
    machine.index(0, (a_block(1, committed_of(FOREIGN)), a_block(2, spending(1, made))), Fate.WORKS)
    machine.receive_all((Consistent(made.as_seen_by(STRANGER)),))
    assert StateId(made.leaf, 0) not in unspent(machine)
    machine.receive_all((made,))
    assert StateId(made.leaf, 0) not in unspent(machine)
    assert StateId(made.leaf, 2) in unspent(machine)
    held = machine.do(lambda: machine.opened.store.states(FIRST, [StateId(made.leaf, 0), StateId(made.leaf, 1)]))
    assert held == (made.outputs[0],)
    machine.index(1, (a_block(2),), Fate.WORKS)
    assert StateId(made.leaf, 0) in unspent(machine)


def test_the_chains_word_counts_before_what_was_decided(machine: Sameness) -> None:
    machine.write(Fate.WORKS, FIRST, IntentFinalised(Receipt(intent_id(1), Outcome.REVERTED, "cancelled")))
    machine.accept(FIRST, "", [0], Fate.WORKS)
    machine.index(0, (a_block(1, committed_of(1)), a_block(2)), Fate.WORKS)


def test_a_round_that_lost_its_nonce_and_is_dispatched_again_is_owed_again(machine: Sameness) -> None:
    lost, other = (a_dispatch(number, 1, (a_transition(number),)) for number in (50, 51))
    machine.write(Fate.LIES, OWN, lost)
    machine.write(Fate.WORKS, OWN, other)
    machine.write(Fate.WORKS, OWN, replace(lost, nonce=2))
    assert lost.round.digest in {delivery.digest for delivery in machine.disk.undelivered(NODE)}


def test_another_copy_of_an_acknowledged_prepared_transition_is_acknowledged(machine: Sameness) -> None:
    made = a_transition(1)
    for end in (10, 20):
        prepared = replace(a_prepared(made, end), valid_until_s=GENESIS.time_s + end)
        machine.write(Fate.WORKS, FIRST, TransitionPrepared(PEER, prepared))
        if end == 10:
            machine.write(Fate.WORKS, FIRST, PreparedAcknowledged(made.intent, made.leaf))
    machine.index(0, (a_block(1), a_block(2)), Fate.WORKS)
    assert machine.expected().contracts[FIRST].unacknowledged == ()
    assert len(machine.expected().contracts[FIRST].kept) == 2


def test_what_is_kept_ends_with_the_block_that_makes_its_outcome_final(machine: Sameness) -> None:
    prepared = replace(a_prepared(a_transition(1), 1), valid_until_s=GENESIS.time_s + 100)
    machine.write(Fate.WORKS, FIRST, TransitionPrepared(PEER, prepared), PreparedEndorsed((kept_for(prepared),)))
    machine.index(0, (a_block(1, committed_of(1)),), Fate.WORKS)
    machine.a_new_life_finds_the_same()
    assert len(machine.expected().contracts[FIRST].kept) == 1
    machine.index(1, (a_block(2),), Fate.WORKS)
    assert machine.expected().contracts[FIRST].kept == ()


def restored_first(machine: Sameness) -> Restored:
    machine.a_new_life_finds_the_same()
    return machine.expected().contracts[FIRST].intents[0]


def test_another_leaf_under_an_intents_id_does_not_settle_it_and_is_restored(machine: Sameness) -> None:
    machine.write(Fate.WORKS, FIRST, signed(a_transition(1, 1)))
    machine.index(0, (a_block(1, committed_of(1)),), Fate.WORKS)
    assert restored_first(machine).used_leaf is None, "it is not final"
    machine.index(1, (a_block(2),), Fate.WORKS)
    found = restored_first(machine)
    assert found.used_leaf == a_transition(1).leaf
    assert [each.leaf for each in found.versions] == [a_transition(1, 1).leaf]
    assert machine.do(lambda: machine.opened.store.receipt_of(intent_id(1))) is None
    machine.look_up("")
    machine.index(0, (a_block(1), a_block(2), a_block(3)), Fate.WORKS)
    assert restored_first(machine).used_leaf is None, "its block is gone"


def test_leaf_that_is_recognised_later_settles_its_intent(machine: Sameness) -> None:
    machine.index(0, (a_block(1, committed_of(1)), a_block(2)), Fate.WORKS)
    assert restored_first(machine).used_leaf == a_transition(1).leaf
    machine.write(Fate.WORKS, FIRST, signed(a_transition(1)))
    machine.a_new_life_finds_the_same()
    machine.look_up("")
    assert intent_id(1) not in machine.unfinished_found()
    receipt = machine.do(lambda: machine.opened.store.receipt_of(intent_id(1)))
    assert receipt == Receipt(intent_id(1), Outcome.CONFIRMED, leaf=a_transition(1).leaf)
    machine.index(0, (a_block(1), a_block(2), a_block(3)), Fate.WORKS)
    receipt = machine.do(lambda: machine.opened.store.receipt_of(intent_id(1)))
    assert receipt is not None
    assert receipt.code == FINALITY_BROKEN


def test_commit_of_the_same_id_in_another_contract_does_not_count(machine: Sameness) -> None:
    """Before, whoever committed the id in another contract of this node confirmed the intent."""
    machine.write(Fate.WORKS, FIRST, signed(a_transition(1)))
    _, outcome = committed_of(1)
    machine.index(0, (a_block(1, (SECOND, outcome)), a_block(2)), Fate.WORKS)
    found = restored_first(machine)
    assert (found.intent.id, found.used_leaf) == (intent_id(1), None)
    assert machine.do(lambda: machine.opened.store.receipt_of(intent_id(1))) is None
    machine.ask_for_transactions("", 2)


def test_leaf_that_is_signed_again_keeps_its_later_bound(machine: Sameness) -> None:
    made = a_transition(1)
    for until_s in (1_000, 2_000, 1_500):
        machine.write(Fate.WORKS, FIRST, signed(replace(made, valid_until_s=until_s)))
    assert [each.valid_until_s for each in restored_first(machine).versions] == [2_000]


def test_dependency_is_confirmed_only_by_a_leaf_of_its_party(machine: Sameness) -> None:
    machine.accept(FIRST, "", [0], Fate.WORKS)
    dependency = machine.intents()[0][1]
    number = int.from_bytes(dependency, "big")
    machine.index(0, (a_block(1, committed_of(number)), a_block(2)), Fate.WORKS)
    machine.a_new_life_finds_the_same()
    assert machine.expected().contracts[FIRST].outcomes == ()
    machine.write(Fate.WORKS, FIRST, signed(a_transition(number)))
    machine.a_new_life_finds_the_same()
    assert (dependency, Outcome.CONFIRMED) in machine.expected().contracts[FIRST].outcomes


def test_an_intent_whose_voiding_is_gone_is_not_voided(machine: Sameness) -> None:
    separator = domain_separator(CONTRACTS[0].chain_id, FIRST)
    voided = LedgerOutcome(intent_id(1), void_leaf(separator, intent_id(1)), digest(4), LedgerStatus.COMMITTED)
    machine.index(0, (a_block(1, (FIRST, voided)), a_block(2)), Fate.WORKS)
    machine.a_new_life_finds_the_same()
    assert machine.expected().contracts[FIRST].intents[0].was_voided
    machine.index(0, (a_block(1), a_block(2), a_block(3)), Fate.WORKS)
    assert not machine.expected().contracts[FIRST].intents[0].was_voided
