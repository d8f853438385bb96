"""The nodes' access to the chain: transactions go in, and blocks come out, late or not at all.

The ledger itself, which decides the effects of transactions, is a pure model (`sim/ledger.py`). Here blocks are mined
as time passes; nodes see the latest block and fetch those that they lack, each up to the height that it sees at the
moment; and reorganisations remove the latest blocks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rota.chain.effects import FetchBlocks, RoundDispatch
from rota.chain.events import AccountSeen, BlocksFetched, HeadSeen, Objection, TransactionRefused, TransactionSent
from rota.exchange.distribution import order_of
from rota.machine.effects import TransitionPrepared
from rota.model.blocks import ChainBlock, FactoryDeployment, LedgerStatus
from rota.model.types import Contract, ContractAddress, IntentId, NodeName
from rota.sim.facts import BlockMined, Committed, Deployed, Reorganised, Skipped, Submitted, Undone
from rota.sim.ledger import GENESIS_TIME_S, own_signer
from rota.sim.recorder import OwningWorld
from rota.sim.sim_node import Refusing, SimNode

# The interval at which a node polls the head of the chain, besides notifications of new blocks.
POLL_MS = 1_000
TOO_CHEAP = Refusing(Objection.UNDERPRICED, is_passed_on=False)


class Chain:
    """Mines blocks, and shows each node its view of the chain."""

    def __init__(self, world: OwningWorld, block_ms: int) -> None:
        self.world = world
        self.ledger = world.ledger
        self.block_ms = block_ms
        self.is_mining = True
        self.mining_due = False
        self.ahead_s = 0
        self.highest = 0
        # Contracts that a stranger has deployed under the ids of others.
        self.strange: set[ContractAddress] = set()
        # Whether pools refuse what pays less than the latest block asked for, or keep it until gas is cheaper.
        self.refuses_cheap = False

    @property
    def time_s(self) -> int:
        """The chain's clock."""
        return GENESIS_TIME_S + self.world.now_ms // 1000 + self.ahead_s

    # Blocks.

    def mine(self, is_empty: bool = False) -> None:
        """Mine one block and show it to all nodes with a ledger; an empty one leaves the pool as it is."""
        self.mining_due = self.mining_due and is_empty
        block = self.ledger.mine(self.time_s, is_empty)
        self.highest = max(self.highest, block.height)
        for made in block.deployments:
            is_strange = made.contract in self.strange
            self.world.judge.tell(Deployed(made.intent, made.contract, is_strange=is_strange))
        for contract, outcome in block.outcomes:
            if outcome.status is LedgerStatus.COMMITTED:
                self.world.judge.tell(Committed(contract, block.height, self.world.transitions[outcome.leaf]))
            else:
                self.world.judge.tell(Skipped(outcome.intent, outcome.reason))
        self.world.judge.tell(BlockMined(block.height, block.time_s))
        self.world.recorder.mined(self.world, block)
        self.world.recorder.noted(self.world, f"block {block.height}: {self._show_block(block)}")
        self._show_head_later()

    def let_time_pass(self, seconds: int) -> None:
        """Advance the chain's clock relative to virtual time, and mine a block with the new time."""
        self.ahead_s += seconds
        self.mine()

    def depth_left(self, most: int) -> int:
        """How many blocks may be removed without going more than `most` below the highest height ever."""
        return self.ledger.height - max(0, self.highest - most)

    def reorganise(self, count: int, keeps_transactions: bool = True) -> None:
        """Remove the latest blocks; nodes with a ledger learn of it by the new head."""
        removed = self.ledger.take_back(count, keeps_transactions)
        self.world.judge.tell(Reorganised(self.highest - self.ledger.height))
        for block in removed:
            for contract, outcome in reversed(block.outcomes):
                if outcome.status is LedgerStatus.COMMITTED:
                    self.world.judge.tell(Undone(contract, block.height, self.world.transitions[outcome.leaf]))
            for made in block.deployments:
                self.world.judge.tell(Deployed(made.intent, made.contract, is_undone=True))
        self.world.recorder.removed(self.world, tuple(removed))
        names = ", ".join(str(block.height) for block in removed)
        self.world.recorder.noted(self.world, f"block {names} is gone")
        self._show_head_later()
        if self.ledger.has_work():
            self._mine_soon()

    def _mine_soon(self) -> None:
        if self.is_mining and not self.mining_due:
            self.mining_due = True
            self.world.at(self.world.now_ms + self.block_ms, self._mine_if_due)

    def _mine_if_due(self) -> None:
        if self.mining_due and self.is_mining:
            self.mine()

    def _show_block(self, block: ChainBlock) -> str:
        shown = [f"{self.world.show(outcome.intent)} {outcome.status.value}" for _, outcome in block.outcomes]
        shown += [f"{self.world.show(made.intent)} deployed" for made in block.deployments]
        shown += [
            f"the transaction of {self._show_members(dispatch)} failed"
            for dispatch, failure in self.ledger.mined_in(block)
            if failure
        ]
        return ", ".join(shown) or "empty"

    def _show_members(self, dispatch: RoundDispatch) -> str:
        return ", ".join(self.world.show(transition.intent) for transition in dispatch.round.transitions)

    # Views of nodes.

    def show_account(self, node: SimNode, life: int) -> None:
        """Show a starting node the next nonce of its account: its database may lack dispatches that the chain has."""
        if node.life != life or node.core is None:
            return
        if node.has_ledger and not node.is_hung:
            signer = node.core.submitters.shared.signer
            self.world.tell(node, AccountSeen(self._next_nonce(signer), signer=signer))
        else:
            self.world.at(self.world.now_ms + POLL_MS, partial(self.show_account, node, life))

    def see_account(self, node: SimNode, account: ContractAddress) -> None:
        """Show a node the next nonce of a contract's own account, if the node has a ledger."""
        if node.has_ledger:
            signer = own_signer(node.name, account)
            self.world.tell(node, AccountSeen(self._next_nonce(signer), account, signer))

    def _next_nonce(self, signer: str) -> int:
        nonce = self.ledger.next_nonce.get(signer, 0)
        while (signer, nonce) in self.ledger.pool:
            nonce += 1
        return nonce

    def poll(self, node: SimNode, life: int) -> None:
        """Show a node the latest block periodically, until its run ends."""
        if node.life == life:
            self.show_head(node)
            self.world.at(self.world.now_ms + POLL_MS, partial(self.poll, node, life))

    def show_head(self, node: SimNode) -> None:
        """Show a node the head of the chain, if the node has a ledger."""
        if node.core is not None and not node.is_hung and node.has_ledger:
            shown = self._blocks_shown_to(node)
            height = min(self._height_seen_by(node), len(shown) - 1)
            self.world.tell(node, HeadSeen(height, shown[height].hash, self.ledger.base_fee_wei))

    def answer_fetch(self, node: SimNode, order: FetchBlocks) -> None:
        """Return the requested blocks, up to the height that the node sees."""
        if node.has_ledger:
            shown = self._blocks_shown_to(node)
            seen = shown[order.first : min(order.last, self._height_seen_by(node)) + 1]
            blocks = tuple(_awaited(self._as_seen_by(node, block), order.awaited) for block in seen)
            self.world.tell(node, BlocksFetched(blocks))

    def _as_seen_by(self, node: SimNode, block: ChainBlock) -> ChainBlock:
        if node.fork is not None and block in node.fork.blocks:
            # It has the results for the node from when it was on the chain.
            return block
        return self.ledger.as_seen_by(node.name, block)

    def _blocks_shown_to(self, node: SimNode) -> list[ChainBlock]:
        """The chain, or a fork of it as long as that contradicts no block that is final for the node."""
        fork = node.fork
        if fork is None or fork.random.random() < 0.5:
            return self.ledger.blocks
        common = fork.blocks[0].height - 1
        if self.ledger.height - common > node.config.confirmations:
            return self.ledger.blocks
        return [*self.ledger.blocks[: common + 1], *fork.blocks]

    def _show_head_later(self) -> None:
        for node in self.world.nodes.values():
            delay_ms = self.world.latency_ms if node.index_delay_ms is None else node.index_delay_ms
            self.world.at(self.world.now_ms + delay_ms, partial(self.show_head, node))

    def _height_seen_by(self, node: SimNode) -> int:
        height = self.ledger.height if node.lags_at is None else min(node.lags_at, self.ledger.height)
        return max(0, height - node.blocks_behind)

    # Transactions.

    def submit(self, node: SimNode, dispatch: RoundDispatch) -> None:
        """Send a node's transaction, which may be late or lost, and whose answer may be lost."""
        self.world.judge.tell(Submitted(node.name, dispatch))
        if not node.has_ledger:
            return
        refusing = node.refusing
        if refusing is None and self.refuses_cheap and self.ledger.is_too_cheap(dispatch):
            refusing = TOO_CHEAP
        if refusing is not None:
            self.world.tell(
                node,
                TransactionRefused(dispatch.nonce, refusing.objection, "refused by the simulator", dispatch.account),
            )
            if refusing.is_passed_on:
                self._arrive(dispatch)
            return
        passage = self.world.weather.passage()
        if passage.delay_ms == 0:
            self._arrive(dispatch)
        elif passage.delay_ms is not None:
            self.world.at(self.world.now_ms + passage.delay_ms, partial(self._arrive, dispatch))
        if passage.is_answered:
            self.world.tell(node, TransactionSent(dispatch.nonce, dispatch.account))

    def deploy(self, made: FactoryDeployment, contract: Contract) -> None:
        """Add a call of the factory to the ledger."""
        self.ledger.deploy(made, contract)
        self._mine_soon()

    def send(self, dispatch: RoundDispatch) -> None:
        """Send a transaction that a liar made, which arrives at once."""
        for transition in dispatch.round.transitions:
            self.world.learn(dispatch.round.contract, transition)
        self._arrive(dispatch)

    def _arrive(self, dispatch: RoundDispatch) -> None:
        self.ledger.send(dispatch)
        if self.ledger.has_work():
            self._mine_soon()

    def commit_prepared(self, intent: IntentId) -> None:
        """Commit the prepared transition of an intent for its user, as its committer."""
        contract, prepared = self.world.prepared[intent].contract, self.world.prepared[intent].prepared
        transition = prepared.transition
        signer = transition.preparation.committer if transition.preparation is not None else "somebody"
        pooled = sum(pooled_by == signer for pooled_by, _ in self.ledger.pool)
        order = order_of(contract, TransitionPrepared(NodeName(""), prepared))
        nonce = self.ledger.next_nonce.get(signer, 0) + pooled
        if self.world.liars:
            self.world.learn(contract, transition)
        else:
            self.world.transitions[transition.leaf] = transition
        self.ledger.send(RoundDispatch(replace(order, digest=prepared.digest), signer, nonce))
        self._mine_soon()


def _awaited(block: ChainBlock, awaited: tuple[IntentId, ...]) -> ChainBlock:
    """A block with only those deployments that a node asked for."""
    if not block.deployments:
        return block
    return replace(block, deployments=tuple(made for made in block.deployments if made.intent in awaited))
