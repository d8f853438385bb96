"""A pure model of the base ledger's contract (ledger): states, intents, rounds, and blocks.

It has the contract's rules and nothing of its own: an intent commits once; an input must be unspent; what
depends on ledger state skips that transition and nothing else; expiry and missing signatures revert the
whole round; a state exists only when the transition that makes it has committed. A chain may also take
its latest blocks back: what they did is undone, and their transactions are in the pool again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.core.effects import RoundDispatch
from rota.core.events import LedgerOutcome, LedgerStatus
from rota.types import Contract, ContractAddress, Digest, IntentId, Leaf, State, StateId, Transition

GENESIS_TIME_S = 1_000_000
FAILS_ON_CHAIN = b"revert-on-chain"
FAILS_FOR_GOOD = b"revert-on-chain-for-good"


@dataclass(frozen=True, slots=True)
class Block:
    """A mined block with what it did to each contract."""

    height: int
    time_s: int
    outcomes: tuple[tuple[ContractAddress, LedgerOutcome], ...]


@dataclass(slots=True)
class ContractState:
    """What the contract keeps: which intents are used and which states are unspent."""

    used: dict[IntentId, Leaf] = field(default_factory=dict)
    unspent: dict[StateId, State] = field(default_factory=dict)
    spent: dict[StateId, Leaf] = field(default_factory=dict)


class Ledger:
    """One chain: a pool of transactions in the order of their nonces, and blocks.

    `payloads` says which intents have a call that fails on the ledger.
    """

    def __init__(self, contracts: tuple[Contract, ...], payloads: Mapping[IntentId, bytes] | None = None) -> None:
        self.contracts = {contract.address: contract for contract in contracts}
        self.states = {contract.address: ContractState() for contract in contracts}
        self.blocks: list[Block] = [Block(0, GENESIS_TIME_S, ())]
        self.pool: dict[tuple[str, int], RoundDispatch] = {}
        self.next_nonce: dict[str, int] = {}
        self.commits: list[tuple[int, IntentId, Leaf]] = []
        self._payloads = payloads if payloads is not None else {}
        self._mined: list[list[RoundDispatch]] = [[]]

    @property
    def height(self) -> int:
        """The height of the latest block."""
        return self.blocks[-1].height

    def send(self, dispatch: RoundDispatch) -> None:
        """Take a transaction into the pool; a known or mined one changes nothing."""
        if dispatch.nonce >= self.next_nonce.get(dispatch.signer, 0):
            self.pool.setdefault((dispatch.signer, dispatch.nonce), dispatch)

    def mine(self, time_s: int, is_empty: bool = False) -> Block:
        """A block with everything in the pool whose nonce has come, or with nothing."""
        outcomes: list[tuple[ContractAddress, LedgerOutcome]] = []
        self._mined.append([])
        while not is_empty and (dispatch := self._next_in_pool()) is not None:
            self.next_nonce[dispatch.signer] = dispatch.nonce + 1
            self._mined[-1].append(dispatch)
            contract = dispatch.round.contract
            outcomes.extend((contract, outcome) for outcome in self._commit(dispatch, time_s))
        block = Block(self.height + 1, time_s, tuple(outcomes))
        self.blocks.append(block)
        return block

    def take_back(self, count: int, keeps_transactions: bool = True) -> tuple[Block, ...]:
        """A reorganisation: the latest blocks are gone, latest first; their transactions are to be mined again."""
        removed: list[Block] = []
        for _ in range(min(count, self.height)):
            block = self.blocks.pop()
            removed.append(block)
            committed = {outcome.leaf for _, outcome in block.outcomes if outcome.status is LedgerStatus.COMMITTED}
            for dispatch in reversed(self._mined.pop()):
                self.next_nonce[dispatch.signer] = dispatch.nonce
                if keeps_transactions:
                    self.pool[(dispatch.signer, dispatch.nonce)] = dispatch
                for transition in reversed(dispatch.round.transitions):
                    if transition.leaf in committed:
                        self._undo(dispatch.round.contract, transition)
        self.commits = [commit for commit in self.commits if commit[0] <= self.height]
        return tuple(removed)

    def _undo(self, contract: ContractAddress, transition: Transition) -> None:
        state = self.states[contract]
        del state.used[transition.intent]
        for made in transition.outputs:
            del state.unspent[made.id]
        for reference in transition.inputs:
            del state.spent[reference]
            state.unspent[reference] = self._maker_of(reference)

    def _maker_of(self, reference: StateId) -> State:
        """The state itself, from the transition that made it."""
        return next(
            made
            for dispatches in self._mined
            for dispatch in dispatches
            for transition in dispatch.round.transitions
            for made in transition.outputs
            if made.id == reference
        )

    def has_work(self) -> bool:
        """A transaction could be mined."""
        return any(nonce == self.next_nonce.get(signer, 0) for signer, nonce in self.pool)

    def _next_in_pool(self) -> RoundDispatch | None:
        for signer, nonce in sorted(self.pool):
            if nonce == self.next_nonce.get(signer, 0):
                return self.pool.pop((signer, nonce))
        return None

    def _commit(self, dispatch: RoundDispatch, time_s: int) -> list[LedgerOutcome]:
        order = dispatch.round
        threshold = self.contracts[order.contract].threshold
        if len(order.signatures) < threshold or time_s > order.valid_until_s:
            reason = "expired" if time_s > order.valid_until_s else "bad signatures"
            return [_failed(order.digest, t, LedgerStatus.REVERTED, reason) for t in order.transitions]
        if any(t.preparation is not None and t.preparation.committer != dispatch.signer for t in order.transitions):
            return [_failed(order.digest, t, LedgerStatus.REVERTED, "wrong committer") for t in order.transitions]
        return [self._commit_one(order.contract, order.digest, transition) for transition in order.transitions]

    def _commit_one(self, contract: ContractAddress, digest: Digest, transition: Transition) -> LedgerOutcome:
        state = self.states[contract]
        if transition.intent in state.used:
            return _failed(digest, transition, LedgerStatus.SKIPPED, "intent used", is_contention=True)
        for reference in (*transition.reads, *transition.inputs):
            if reference not in state.unspent:
                return _failed(digest, transition, LedgerStatus.SKIPPED, "state not available", is_contention=True)
        word = self._payloads.get(transition.intent, b"")
        if word in (FAILS_ON_CHAIN, FAILS_FOR_GOOD) and not transition.is_empty:
            is_retryable = word == FAILS_ON_CHAIN
            return _failed(digest, transition, LedgerStatus.SKIPPED, "a call failed", is_retryable=is_retryable)
        for reference in transition.inputs:
            del state.unspent[reference]
            state.spent[reference] = transition.leaf
        state.used[transition.intent] = transition.leaf
        state.unspent.update({made.id: made for made in transition.outputs})
        self.commits.append((self.height + 1, transition.intent, transition.leaf))
        return LedgerOutcome(transition.intent, transition.leaf, digest, LedgerStatus.COMMITTED)


def _failed(
    digest: Digest,
    transition: Transition,
    status: LedgerStatus,
    reason: str,
    is_contention: bool = False,
    is_retryable: bool = True,
) -> LedgerOutcome:
    return LedgerOutcome(transition.intent, transition.leaf, digest, status, reason, is_contention, is_retryable)
