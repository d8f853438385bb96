"""A node of one, on a real chain: the whole core, a disk in memory, a simple domain, and the ledger driver.

The contract is static, with this node as its only coordinator and endorser. Its timers are short, so that what the
core repeats it repeats soon; a test waits for what it wants to see and for no length of time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rota.chain.effects import BlocksIndexed, FetchBlocks, RoundDispatch, SignDispatch, SubmitTransaction
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.bindings import creation_code, deploy_endorsed, read_deployment
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.consistency import Patience
from rota.ledger.driver import LedgerDriver
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.follower import FollowerLimits
from rota.ledger.hexadecimal import data
from rota.ledger.reading import CallReceipt, read_receipt
from rota.machine.effects import Effect, Persist, ReplyToUser, ReportReceipt, SendMessage
from rota.machine.events import IntentSubmitted, MessageReceived, Tick
from rota.machine.tables import Event
from rota.model.blocks import LedgerStatus
from rota.model.config import Config
from rota.model.digests import domain_separator
from rota.model.types import (
    Contract,
    ContractAddress,
    Intent,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Outcome,
    Party,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LookUpIntents
from rota.node.events import ForContract
from rota.node.node import Node
from rota.node.stored import StoredNode
from rota.ports import Policy
from rota.sequencer.effects import AssembleIntents, CheckRound, SignTransition, VerifySignature
from rota.sequencer.events import RoundChecked, SignatureVerified, TransitionSigned
from rota.sim import domain
from rota.sim.disk import Disk
from tests import bounds
from tests.ledger.chains import CHAIN_ID, Chain

EventType = TypeVar("EventType", bound=Event)

ALONE = NodeName("alone")
PARTY = Party("alice@alone")
DEPLOYER, PAYER = ("0x" + account.address.hex() for account in DEVELOPMENT_ACCOUNTS[:2])
PAYER_KEY = PrivateKey(DEVELOPMENT_ACCOUNTS[1].secret)
ENDORSER_KEY = PrivateKey(bytes(31) + b"\x07")
ENDORSER = ContractAddress("0x" + ENDORSER_KEY.address.hex())
CONFIG = Config(
    heartbeat_ms=50,
    request_timeout_ms=200,
    resubmit_ms=200,
    stale_head_ms=200,
    ledger_grace_ms=1_000,
    retry_backoff_ms=10,
    retry_backoff_max_ms=50,
    delegation_repeat_ms=50,
)
LIMITS = ClientLimits(timeout_ms=2_000, backoff_ms=5, backoff_max_ms=40)
DEPLOYMENT_GAS = 8_000_000


class ChainDisk(Disk):
    """A disk whose index begins with nothing."""

    def index(self, record: BlocksIndexed) -> None:
        while self.blocks and self.blocks[-1].height > record.parted_at:
            self.blocks.pop()
        self.blocks.extend(record.blocks)


@dataclass
class OneContract:
    """The contract that this node knows, and perhaps others that nothing happens to."""

    contract: Contract
    more: tuple[ContractAddress, ...] = ()

    def addresses(self) -> tuple[ContractAddress, ...]:
        return (self.contract.address, *self.more)

    def policy_of(self, contract: ContractAddress) -> Policy | None:
        return Policy(((ALONE, ENDORSER),), 1) if contract == self.contract.address else None


class OneKey:
    """A signer that holds the key of one account."""

    def address_of(self, signer: str) -> ContractAddress:
        return ContractAddress(PAYER)

    async def sign(self, signer: str, digest: bytes) -> bytes:
        return PAYER_KEY.sign(digest)


@dataclass
class Participant:
    """The node, and all that became of it."""

    url: str
    contract: Contract
    disk: ChainDisk = field(default_factory=lambda: ChainDisk(blocks=[]))
    config: Config = CONFIG
    limits: FollowerLimits = field(default_factory=lambda: FollowerLimits(poll_ms=20))
    receipts: dict[IntentId, Receipt] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    transitions: dict[Leaf, Transition] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._inbox: deque[Event] = deque()
        self._is_stepping = False
        self._changed = asyncio.Event()
        self._tick: asyncio.TimerHandle | None = None
        self.client = RpcClient(self.url, LIMITS)
        contracts = OneContract(self.contract)
        self.driver = LedgerDriver(
            self.client,
            chain_id=CHAIN_ID,
            contracts=contracts,
            signer=OneKey(),
            key_of=lambda _: ALONE,
            index_window_max=self.config.index_window_max,
            tell=self.tell,
            limits=self.limits,
            patience=Patience(pause_ms=1),
        )
        has_lived = bool(self.disk.blocks)
        stored = self.disk.restore(ALONE, (self.contract,), self.config.confirmations) if has_lived else StoredNode()
        self.core = Node(ALONE, (self.contract,), self.config, self.now_ms, stored)

    @property
    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    # What a test does.

    def submit(self, name: str, payload: bytes = b"mint") -> IntentId:
        """A user's intent."""
        intent = domain.drawn_id(name, PARTY, self.contract.address)
        wanted = Intent(intent, self.contract.address, PARTY, payload, nonce=domain.nonce_of(name))
        self.tell(ForContract(self.contract.address, IntentSubmitted(name, wanted)))
        return intent

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is so; the test's own time limit bounds it."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    async def confirmed(self, *intents: IntentId) -> None:
        """All of these are reported as confirmed; if they are not, the failure shows where the node stands."""
        try:
            async with asyncio.timeout(bounds.WAIT_S):
                await self.until(lambda: all(intent in self.receipts for intent in intents))
        except TimeoutError:
            raise AssertionError(self._standing()) from None
        assert {intent: self.receipts[intent].outcome for intent in intents} == dict.fromkeys(
            intents, Outcome.CONFIRMED
        )

    def _standing(self) -> str:
        sequencer, submitter = self.core.sequencers.loaded[self.contract.address], self.core.submitters.shared
        return (
            f"height {self.core.height}, ledger {self.core.has_ledger} ({self.client.failure}), "
            f"refused {self.refusals}, nonces {list(submitter.submissions)}, trouble {submitter.trouble!r}, "
            f"senders' {[each.state.name for each in sequencer.sender.transactions.values()]}, "
            f"{sequencer.coordinator.state.name} with "
            f"{[each.state.name for each in sequencer.coordinator.transactions.values()]}, "
            f"latest events {[type(each).__name__ for each in self.events[-20:]]}"
        )

    def committed(self) -> list[tuple[int, IntentId]]:
        """What the index has as committed, with the height."""
        return [
            (block.height, outcome.intent)
            for block in self.disk.blocks
            for _, outcome in block.outcomes
            if outcome.status is LedgerStatus.COMMITTED
        ]

    def saw(self, kind: type[EventType]) -> list[EventType]:
        return [event for event in self.events if isinstance(event, kind)]

    # What a runtime does.

    def begin(self) -> None:
        self._is_stepping = True
        for effect in self.core.start():
            self._perform(effect)
        self._is_stepping = False
        self._step_all()

    def end(self) -> None:
        if self._tick is not None:
            self._tick.cancel()

    def tell(self, event: Event) -> None:
        self.events.append(event)
        self._inbox.append(event)
        self._step_all()

    def _step_all(self) -> None:
        if self._is_stepping:
            return
        self._is_stepping = True
        while self._inbox:
            for effect in self.core.step(self.now_ms, self._inbox.popleft()):
                self._perform(effect)
        self._is_stepping = False
        self._schedule_tick()
        self._changed.set()

    def _schedule_tick(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        due_ms = self.core.next_deadline_ms()
        if due_ms is not None:
            loop = asyncio.get_running_loop()
            # A millisecond is the least that passes: a timer that is due again and again must not spin.
            self._tick = loop.call_later(max(due_ms - self.now_ms, 1) / 1_000, self.tell, Tick())

    def _perform(self, effect: Effect) -> None:
        self.effects.append(effect)
        match effect:
            case Persist(contract, records):
                self.disk.write(contract, records)
                for record in records:
                    if isinstance(record, BlocksIndexed):
                        self.disk.index(record)
                    elif isinstance(record, RoundDispatch):
                        self.transitions.update({each.leaf: each for each in record.round.transitions})
            case FetchBlocks() | SignDispatch() | SubmitTransaction():
                self.driver.perform(effect)
            case ReportReceipt(receipt):
                self.receipts[receipt.intent] = receipt
            case ReplyToUser(_, _, error):
                self.refusals += [error] if error else []
            case SendMessage(peer, envelope):
                self._inbox.append(MessageReceived(peer, envelope))
            case LookUpIntents():
                self._inbox.append(self.disk.look_up(effect, (self.contract,), self.config.confirmations))
            case _:
                self._inbox.extend(ForContract(self.contract.address, event) for event in self._compute(effect))

    def _compute(self, effect: Effect) -> list[Event]:
        """What domain and keys do."""
        match effect:
            case AssembleIntents():
                separator = domain_separator(CHAIN_ID, self.contract.address)
                return list(domain.assemble(self.contract, separator, effect, self._unspent(), self.core.incarnation))
            case SignTransition(_, request_id, intent):
                return [TransitionSigned(request_id, intent, b"signed")]
            case VerifySignature(_, request_id, intent, signature=signature):
                return [SignatureVerified(request_id, intent, signature == b"signed")]
            case CheckRound(_, peer, request_id, digest):
                return [RoundChecked(peer, request_id, ENDORSER_KEY.sign_compact(digest), digest=digest)]
            case _:
                raise AssertionError(f"a node alone does not know {type(effect).__name__}")

    def _unspent(self) -> dict[StateId, State]:
        """The states of the contract by our own index."""
        unspent: dict[StateId, State] = {}
        leaves = [o.leaf for b in self.disk.blocks for _, o in b.outcomes if o.status is LedgerStatus.COMMITTED]
        for transition in (self.transitions[leaf] for leaf in leaves if leaf in self.transitions):
            for spent in transition.inputs:
                unspent.pop(spent, None)
            unspent.update({made.id: made for made in transition.outputs})
        return unspent


@asynccontextmanager
async def taking_part(participant: Participant, is_reached: bool = True) -> AsyncIterator[Participant]:
    """Run it from its first block on, since before that it knows no chain time; at the end nothing is left."""
    following = asyncio.create_task(participant.driver.run())
    participant.begin()
    try:
        if is_reached:
            await participant.until(lambda: bool(participant.disk.blocks))
        yield participant
    finally:
        participant.end()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        participant.end()
        await participant.client.close()


async def deploy(chain: Chain, name: str = "genesis") -> Contract:
    """A contract of this node's own, through a factory, and blocks as soon as there are transactions."""
    factory = await deploy_contract(chain, "Factory")
    call = deploy_endorsed(domain.intent_id(name), bytes(32), (ENDORSER,), 1)
    receipt = await send(chain, {"to": factory, "data": data(call)})
    deployment = read_deployment(receipt.logs[0])
    return Contract(deployment.contract, (ALONE,), (ALONE,), 1, Mode.STATIC, chain_id=CHAIN_ID)


async def deploy_contract(chain: Chain, name: str) -> ContractAddress:
    """A contract of its own."""
    made = (await send(chain, {"data": data(creation_code(name))})).contract
    assert made is not None, f"{name} was not deployed"
    return made


async def send(chain: Chain, call: dict[str, object]) -> CallReceipt:
    """A transaction of the deployer, mined."""
    wanted = {"from": DEPLOYER, "gas": hex(DEPLOYMENT_GAS), **call}
    transaction = await chain.rpc("eth_sendTransaction", wanted)
    # Anvil answers before it has mined; the test's own time limit bounds the asking.
    while (receipt := read_receipt(await chain.rpc("eth_getTransactionReceipt", transaction))) is None:
        pass
    assert receipt.has_succeeded, f"{call} failed"
    return receipt
