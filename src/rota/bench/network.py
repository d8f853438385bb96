"""Nodes of the real core with nothing between them, so that only the core itself is measured.

Messages are delivered, writes done, and requests to the domain, the signer or the chain answered in order of arrival:
one queue, first in, first out. Time is virtual and passes only when the queue is empty: then the clock advances by one
block interval, timers expire, and the ledger mines the submitted rounds. The time inside `Node.step` is summed apart
from everything that this module does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import perf_counter_ns

from rota.chain.effects import FetchBlocks, RoundDispatch, SignDispatch, SubmitTransaction
from rota.chain.events import BlocksFetched, DispatchSigned, HeadSeen, TransactionSent
from rota.machine.effects import Effect, Persist, ReplyToUser, ReportReceipt, SendMessage
from rota.machine.events import IntentSubmitted, MessageReceived, Tick
from rota.machine.tables import Event
from rota.model.blocks import LedgerStatus
from rota.model.config import Config
from rota.model.digests import NONCE_BYTES, domain_separator, page_of
from rota.model.types import (
    Contract,
    ContractAddress,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.node.events import ForContract
from rota.node.node import Node
from rota.node.stored import StoredNode
from rota.sequencer.effects import (
    AssembleIntents,
    CheckRound,
    SignTransition,
    VerifyEndorsement,
    VerifyEndorsers,
    VerifyParties,
    VerifySignature,
)
from rota.sequencer.events import (
    EndorsementVerified,
    EndorsersVerified,
    PartiesVerified,
    RoundChecked,
    SignatureVerified,
    TransitionSigned,
)
from rota.sim import domain
from rota.sim.ledger import GENESIS, GENESIS_TIME_S, Ledger
from rota.sim.services import sign, sign_leaf
from rota.wire.codec import encode_frame

BLOCK_MS = 200
BLOCKS_WITHOUT_RECEIPT_MAX = 1_000


class StalledError(Exception):
    """Intents were submitted and no receipt came for very long: a defect in the core or in this driver."""


@dataclass(slots=True)
class Counts:
    """The counts of a run, as visible from outside of a node."""

    core_ns: int = 0
    steps: int = 0
    messages: int = 0
    size_bytes: int = 0
    rounds: int = 0
    dispatched: int = 0
    blocks: int = 0
    confirmed: int = 0
    reverted: int = 0


class Network:
    """Nodes that share one contract; all of them endorse."""

    def __init__(self, contract: Contract, config: Config, counts_bytes: bool = False) -> None:
        self.contract = contract
        self._counts_bytes = counts_bytes
        self.counts = Counts()
        self.now_ms = 0
        self.receipts: list[Receipt] = []
        self._separator = domain_separator(contract.chain_id, contract.address)
        self._ledger = Ledger((contract,))
        self._dispatched: dict[Leaf, Transition] = {}
        self._shared: dict[StateId, State] = {}
        self._queue: deque[tuple[NodeName, Event]] = deque()
        stored = StoredNode(blocks=(GENESIS,))
        self._nodes = {name: Node(name, (contract,), config, 0, stored) for name in contract.committee}
        for name, node in self._nodes.items():
            self._perform(name, node.start())
            self._tell(name, HeadSeen(GENESIS.height, GENESIS.hash))
        self._drain()
        self.counts = Counts()

    def submit(self, name: NodeName, intent: Intent) -> None:
        """Queue a user's intent."""
        self._tell(name, ForContract(self.contract.address, IntentSubmitted("", intent)))

    def run_until_receipts(self, count: int) -> None:
        """Run until there are `count` receipts in all. `StalledError` if no more come."""
        quiet_blocks, seen = 0, len(self.receipts)
        while True:
            self._drain()
            if len(self.receipts) >= count:
                return
            quiet_blocks = quiet_blocks + 1 if len(self.receipts) == seen else 0
            seen = len(self.receipts)
            if quiet_blocks > BLOCKS_WITHOUT_RECEIPT_MAX:
                raise StalledError(f"{seen} of {count} receipts, and no more for {quiet_blocks} blocks")
            self._let_time_pass(self.now_ms + BLOCK_MS)
            self._mine()

    # Time.

    def _drain(self) -> None:
        """Step all queued events, in order. This loop is what the benchmark measures."""
        counts, queue, nodes = self.counts, self._queue, self._nodes
        while queue:
            name, event = queue.popleft()
            step = nodes[name].step
            started_ns = perf_counter_ns()
            effects = step(self.now_ms, event)
            counts.core_ns += perf_counter_ns() - started_ns
            counts.steps += 1
            self._perform(name, effects)

    def _let_time_pass(self, end_ms: int) -> None:
        """Expire timers in order; the consequences of one are handled before the next."""
        while True:
            deadlines = ((node.next_deadline_ms(), name) for name, node in self._nodes.items())
            due = [(due_ms, name) for due_ms, name in deadlines if due_ms is not None and due_ms <= end_ms]
            if not due:
                self.now_ms = end_ms
                return
            due_ms, name = min(due)
            self.now_ms = max(self.now_ms, due_ms)
            self._tell(name, Tick())
            self._drain()

    def _mine(self) -> None:
        """Mine a block if there is work; every node's index has it at once."""
        if not self._ledger.has_work():
            return
        self.counts.blocks += 1
        block = self._ledger.mine(GENESIS_TIME_S + self.now_ms // 1000)
        for _, outcome in block.outcomes:
            transition = self._dispatched.pop(outcome.leaf)
            if outcome.status is LedgerStatus.COMMITTED:
                self._index(transition)
        for name in self._nodes:
            self._tell(name, HeadSeen(block.height, block.hash))

    def _index(self, transition: Transition) -> None:
        """Keep only states that a later assembly may spend: the synthetic domain reads all states that it gets."""
        for reference in transition.inputs:
            self._shared.pop(reference, None)
        for state in transition.outputs:
            if state.content is not None and state.content.startswith(domain.SHARED):
                self._shared[state.id] = state

    # Effects of nodes.

    def _tell(self, name: NodeName, event: Event) -> None:
        self._queue.append((name, event))

    def _perform(self, name: NodeName, effects: list[Effect]) -> None:
        """Execute effects; records are durable at once."""
        for effect in effects:
            match effect:
                case SendMessage(peer, envelope):
                    self.counts.messages += peer != name
                    if self._counts_bytes and peer != name:
                        self.counts.size_bytes += len(encode_frame((envelope,)))
                    self._tell(peer, MessageReceived(name, envelope))
                case Persist():
                    pass
                case ReportReceipt(receipt):
                    self._take_receipt(receipt)
                case SubmitTransaction(dispatch):
                    self._submit_round(name, dispatch)
                case FetchBlocks(first, last):
                    blocks = self._ledger.blocks[first : last + 1]
                    self._tell(name, BlocksFetched(tuple(self._ledger.as_seen_by(name, block) for block in blocks)))
                case ReplyToUser(_, _, error):
                    assert not error, f"an intent was refused: {error}"
                case _:
                    self._compute(name, effect)

    def _take_receipt(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)
        if receipt.outcome is Outcome.CONFIRMED:
            self.counts.confirmed += 1
        else:
            self.counts.reverted += 1

    def _submit_round(self, name: NodeName, dispatch: RoundDispatch) -> None:
        self.counts.rounds += 1
        self.counts.dispatched += len(dispatch.round.transitions)
        self._dispatched.update({transition.leaf: transition for transition in dispatch.round.transitions})
        self._ledger.send(dispatch)
        self._tell(name, TransactionSent(dispatch.nonce, dispatch.account))

    def _compute(self, name: NodeName, effect: Effect) -> None:
        """Answer for domain and signer. No verifiers are looked up, since the intents name no parties."""
        match effect:
            case AssembleIntents():
                for result in domain.assemble(self.contract, self._separator, effect, self._shared, attempt=1):
                    self._answer(name, result)
            case SignTransition(_, request_id, intent, party, leaf, valid_until_s):
                signature = sign_leaf(party, leaf, valid_until_s)
                self._answer(name, TransitionSigned(request_id, intent, signature))
            case VerifySignature(_, request_id, intent, party, leaf, valid_until_s, signature):
                is_ours = signature == sign_leaf(party, leaf, valid_until_s)
                self._answer(name, SignatureVerified(request_id, intent, is_ours))
            case VerifyParties(_, request_id):
                self._answer(name, PartiesVerified(request_id))
            case VerifyEndorsement(_, peer, digest, signature):
                is_valid = signature == sign(Party(peer), Leaf(digest))
                self._answer(name, EndorsementVerified(peer, digest, signature, is_valid))
            case VerifyEndorsers(_, request_id, claimed, intent):
                are_valid = tuple(each.signature == sign(Party(each.endorser), Leaf(each.digest)) for each in claimed)
                self._answer(name, EndorsersVerified(request_id, are_valid, intent))
            case SignDispatch(order, _, nonce, fees):
                self._tell(name, DispatchSigned(nonce, fees, b"", b"", order.digest))
            case CheckRound(_, peer, request_id, digest):
                signature = sign(Party(name), Leaf(digest))
                refusals = domain.check(effect, {})
                self._answer(name, RoundChecked(peer, request_id, signature, refusals, digest=digest))
            case _:
                raise AssertionError(f"the benchmark does not know {type(effect).__name__}")

    def _answer(self, name: NodeName, event: Event) -> None:
        self._tell(name, ForContract(self.contract.address, event))


def numbered_intent(party: Party, contract: ContractAddress, payload: bytes, number: int) -> Intent:
    """An intent with the id that a node draws for the party's intent of that number: 256 of them to a page."""
    page, counter = divmod(number, 256)
    nonce = page.to_bytes(NONCE_BYTES, "big")
    drawn = IntentId(page_of(party, contract, nonce) + bytes([counter]))
    return Intent(drawn, contract, party, payload, nonce=nonce)
