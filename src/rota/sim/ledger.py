"""A pure model of the base ledger's contract (ledger): states, intents, rounds, and blocks.

It has the contract's rules and nothing of its own: an intent commits once; an input must be unspent; a condition on
ledger state skips that transition and nothing else; expiry and missing signatures revert the whole round; a state
exists only when the transition that makes it has committed. A reorganisation removes the latest blocks: their effects
are undone, and their transactions return to the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rota.chain.effects import RoundDispatch
from rota.machine.effects import DispatchRound
from rota.model.blocks import ChainBlock, FactoryDeployment, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction
from rota.model.types import BlockHash, Contract, ContractAddress, Digest, IntentId, Leaf, State, StateId, Transition

GENESIS_TIME_S = 1_000_000
BASE_FEE_WEI = 1_000_000_000
# By how much a transaction must outbid the one with its nonce in the pool.
REPLACED_PERCENT = 10
FAILS_ON_CHAIN = b"revert-on-chain"
FAILS_FOR_GOOD = b"revert-on-chain-for-good"


GENESIS = ChainBlock(0, BlockHash(bytes(32)), BlockHash(bytes(32)), GENESIS_TIME_S)


@dataclass(slots=True)
class ContractState:
    """The contract's storage: used intents, unspent states and spent states."""

    used: dict[IntentId, Leaf] = field(default_factory=dict)
    unspent: dict[StateId, State] = field(default_factory=dict)
    spent: dict[StateId, Leaf] = field(default_factory=dict)


class Ledger:
    """One chain: a pool of transactions ordered by nonce, and blocks.

    `payloads` determines which intents have a call that fails on the ledger.
    """

    def __init__(self, contracts: tuple[Contract, ...], payloads: Mapping[IntentId, bytes] | None = None) -> None:
        self.contracts = {contract.address: contract for contract in contracts}
        self.states = {contract.address: ContractState() for contract in contracts}
        self.blocks: list[ChainBlock] = [GENESIS]
        self.block_count = 0
        self.pool: dict[tuple[str, int], RoundDispatch] = {}
        self.next_nonce: dict[str, int] = {}
        self.commits: list[tuple[int, IntentId, Leaf]] = []
        self.waiting: dict[IntentId, FactoryDeployment] = {}
        self.deployed: dict[IntentId, FactoryDeployment] = {}
        # Contracts that exist only while the factory's deployment of them is on the chain.
        self._factory_made: dict[ContractAddress, IntentId] = {}
        self._payloads = payloads if payloads is not None else {}
        self._mined: list[list[tuple[RoundDispatch, str]]] = [[]]
        # The commits of each block, in order: the same leaf may be in a block twice and be skipped once.
        self._committed: list[list[tuple[ContractAddress, Transition]]] = [[]]
        self._made: dict[StateId, State] = {}
        # The gas price of a block. Prices count only after the first gas spike.
        self.base_fee_wei = BASE_FEE_WEI
        self.is_priced = False
        # Nonces used by a stranger who has an account's key, by block.
        self._taken: list[list[tuple[str, int]]] = [[]]
        self._strange: dict[str, None] = {}
        # Without liars, submitted rounds are consistent: only their signatures are counted.
        self.flaw_of: Callable[[DispatchRound], str] | None = None

    @property
    def height(self) -> int:
        """The height of the latest block."""
        return self.blocks[-1].height

    def send(self, dispatch: RoundDispatch) -> None:
        """Add a transaction to the pool, unless it is known or its nonce is used."""
        if dispatch.nonce >= self.next_nonce.get(dispatch.signer, 0):
            key = (dispatch.signer, dispatch.nonce)
            if key not in self.pool or self._is_replaced(self.pool[key], dispatch):
                self.pool[key] = dispatch

    def _is_replaced(self, pooled: RoundDispatch, dispatch: RoundDispatch) -> bool:
        raised = pooled.fees.most_wei * (100 + REPLACED_PERCENT)
        return self.is_priced and dispatch.fees.most_wei * 100 >= raised

    def is_too_cheap(self, dispatch: RoundDispatch) -> bool:
        """Whether the price is below that of a block; a transaction without a price pays any."""
        return self.is_priced and 0 < dispatch.fees.most_wei < self.base_fee_wei

    def take_nonce(self, signer: str) -> bool:
        """Have a stranger use an account's next nonce in the next block, if the account's transaction for it is pooled.

        Uses the first such account of a node; returns whether there is one.
        """
        for each, nonce in sorted(self.pool):
            if account_of(signer, each) is not None and nonce == self.next_nonce.get(each, 0):
                self._strange[each] = None
                return True
        return False

    def deploy(self, made: FactoryDeployment, contract: Contract) -> None:
        """Add a call of the factory to the pool, unless the id is used or pending."""
        self.contracts[contract.address] = contract
        self.states.setdefault(contract.address, ContractState())
        self._factory_made[contract.address] = made.intent
        if made.intent not in self.deployed:
            self.waiting.setdefault(made.intent, made)

    def mine(self, time_s: int, is_empty: bool = False) -> ChainBlock:
        """Mine a block with all pooled transactions whose nonce is next, or an empty one."""
        outcomes: list[tuple[ContractAddress, LedgerOutcome]] = []
        self._mined.append([])
        self._committed.append([])
        self._taken.append([])
        if not is_empty:
            self._mine_strange()
        made = () if is_empty else tuple(self.waiting.values())
        for deployed in made:
            self.deployed[deployed.intent] = self.waiting.pop(deployed.intent)
        while not is_empty and (dispatch := self._next_in_pool()) is not None:
            self.next_nonce[dispatch.signer] = dispatch.nonce + 1
            contract = dispatch.round.contract
            failure = self._failure_of(dispatch, time_s)
            self._mined[-1].append((dispatch, failure))
            if not failure:
                outcomes.extend((contract, outcome) for outcome in self._commit(dispatch))
        self.block_count += 1
        parent = self.blocks[-1]
        block_hash = BlockHash(self.block_count.to_bytes(32, "big"))
        block = ChainBlock(parent.height + 1, block_hash, parent.hash, time_s, tuple(outcomes), (), made)
        self.blocks.append(block)
        return block

    def _mine_strange(self) -> None:
        """Mine strangers' transactions with nonces of others first, because they pay more."""
        for signer in self._strange:
            nonce = self.next_nonce.get(signer, 0)
            self.pool.pop((signer, nonce), None)
            self.next_nonce[signer] = nonce + 1
            self._taken[-1].append((signer, nonce))
        self._strange.clear()

    def mined_in(self, block: ChainBlock) -> tuple[tuple[RoundDispatch, str], ...]:
        """The transactions of a block, each with the reason why it failed as a whole, or an empty text."""
        return tuple(self._mined[block.height])

    def as_seen_by(self, signer: str, block: ChainBlock) -> ChainBlock:
        """A block with the results for the nonces of one node, of its shared account and of its contracts' own."""
        mined = tuple(
            MinedTransaction(
                dispatch.nonce,
                MinedStatus.FAILED if failure else MinedStatus.SUCCEEDED,
                failure,
                account=dispatch.account,
            )
            for dispatch, failure in self.mined_in(block)
            if dispatch.signer == own_signer(signer, dispatch.account)
        )
        taken = self._taken[block.height]
        for other, nonce in taken:
            account = account_of(signer, other)
            mined += (MinedTransaction(nonce, MinedStatus.TAKEN, account=account),) if account is not None else ()
        return replace(block, mined=mined) if mined else block

    def take_back(self, count: int, keeps_transactions: bool = True) -> tuple[ChainBlock, ...]:
        """Remove the latest blocks; returns them, latest first. Their transactions return to the pool, if kept."""
        removed: list[ChainBlock] = []
        for _ in range(min(count, self.height)):
            block = self.blocks.pop()
            removed.append(block)
            for made in block.deployments:
                del self.deployed[made.intent]
                if keeps_transactions:
                    self.waiting[made.intent] = made
            for contract, transition in reversed(self._committed.pop()):
                self._undo(contract, transition)
            for dispatch, _ in reversed(self._mined.pop()):
                self.next_nonce[dispatch.signer] = dispatch.nonce
                if keeps_transactions:
                    self.pool[(dispatch.signer, dispatch.nonce)] = dispatch
            # The block's first transactions were strangers', which are lost.
            for signer, nonce in reversed(self._taken.pop()):
                self.next_nonce[signer] = nonce
        self.commits = [commit for commit in self.commits if commit[0] <= self.height]
        return tuple(removed)

    def _undo(self, contract: ContractAddress, transition: Transition) -> None:
        state = self.states[contract]
        del state.used[transition.intent]
        for made in _made_by(transition):
            del state.unspent[made]
        for reference in transition.inputs:
            del state.spent[reference]
            state.unspent[reference] = self._made[reference]

    def has_work(self) -> bool:
        """Whether a transaction could be mined."""
        return bool(self.waiting) or any(self._is_next(*key) for key in self.pool)

    def _is_next(self, signer: str, nonce: int) -> bool:
        return nonce == self.next_nonce.get(signer, 0) and not self.is_too_cheap(self.pool[(signer, nonce)])

    def _next_in_pool(self) -> RoundDispatch | None:
        for signer, nonce in sorted(self.pool):
            if self._is_next(signer, nonce):
                return self.pool.pop((signer, nonce))
        return None

    def _failure_of(self, dispatch: RoundDispatch, time_s: int) -> str:
        """Why the whole transaction fails without an effect; an empty text if it does not."""
        order = dispatch.round
        if not self._is_there(order.contract):
            return "no contract"
        if time_s > order.valid_until_s:
            return "expired"
        if any(t.preparation is not None and t.preparation.committer != dispatch.signer for t in order.transitions):
            return "wrong committer"
        if len(order.signatures) < self.contracts[order.contract].threshold:
            return "bad signatures"
        return self.flaw_of(order) if self.flaw_of is not None else ""

    def _is_there(self, contract: ContractAddress) -> bool:
        """Whether the contract exists: a reorganisation may have undone its deployment."""
        deployment = self._factory_made.get(contract)
        deployed = self.deployed.get(deployment) if deployment is not None else None
        return deployment is None or (deployed is not None and deployed.contract == contract)

    def _commit(self, dispatch: RoundDispatch) -> list[LedgerOutcome]:
        order = dispatch.round
        outcomes = [self._commit_one(order.contract, order.digest, transition) for transition in order.transitions]
        return [replace(outcome, transaction=dispatch.hash) for outcome in outcomes]

    def _commit_one(self, contract: ContractAddress, digest: Digest, transition: Transition) -> LedgerOutcome:
        state = self.states[contract]
        if transition.intent in state.used:
            return _skipped(digest, transition, "intent used", is_contention=True)
        for reference in (*transition.reads, *transition.inputs):
            if reference not in state.unspent:
                return _skipped(digest, transition, "state not available", is_contention=True)
        word = self._payloads.get(transition.intent, b"")
        if word in (FAILS_ON_CHAIN, FAILS_FOR_GOOD) and not transition.is_empty:
            return _skipped(digest, transition, "a call failed")
        for reference in transition.inputs:
            del state.unspent[reference]
            state.spent[reference] = transition.leaf
        state.used[transition.intent] = transition.leaf
        made = _made_by(transition)
        state.unspent.update(made)
        self._made.update(made)
        self._committed[-1].append((contract, transition))
        self.commits.append((self.height + 1, transition.intent, transition.leaf))
        committed = LedgerStatus.COMMITTED
        return LedgerOutcome(transition.intent, transition.leaf, digest, committed, inputs=transition.inputs)


def own_signer(node: str, account: ContractAddress) -> str:
    """The signing address of a contract's own account at a node."""
    return f"{node}/{account}" if account else node


def account_of(node: str, signer: str) -> ContractAddress | None:
    """The account of a node with this signing address; None if it is another node's."""
    owner, _, account = signer.partition("/")
    return ContractAddress(account) if owner == node else None


def _made_by(transition: Transition) -> dict[StateId, State]:
    """The states of a transition as the contract identifies them, by leaf and position."""
    return {StateId(transition.leaf, number): state for number, state in enumerate(transition.outputs)}


def _skipped(digest: Digest, transition: Transition, reason: str, is_contention: bool = False) -> LedgerOutcome:
    return LedgerOutcome(transition.intent, transition.leaf, digest, LedgerStatus.SKIPPED, reason, is_contention)
