"""Which account pays for a contract's rounds: the one that a node's contracts share, or one of the contract's own.

Theory of operation. A chain shows who pays. One account for all contracts links their traffic; an account of its own
for each contract does not, but has to be funded where gas costs something. So the default is an account by contract
where gas is free and the shared account elsewhere; the operator may choose otherwise for the node, and for each
contract. What the chain asks is looked at once in a run, at its start, so that a contract does not go to and fro.

Each account has a submitter, with nonces of its own. It belongs to the dispatches and not to the contract: when another
account is chosen for a contract, the rounds that its old account was given go on there to their end, and only later
ones get the new account. An account is named by its contract, so that its dispatches are found again at a restart; its
address and its next nonce are asked for (`SeeAccount`) when it first has something to do in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from rota.chain.effects import RoundDispatch
from rota.chain.events import AccountChosen, AccountSeen
from rota.chain.submitter import GasPrice, Submission, Submitter
from rota.machine.effects import DispatchRound
from rota.model.blocks import ChainBlock, Outcomes
from rota.model.config import Config
from rota.model.frozen import dataclass
from rota.model.types import SHARED_ACCOUNT, ContractAddress


class AccountChoice(Enum):
    """Which account pays for the rounds of a contract for which nothing else was chosen."""

    AUTO = "auto"
    SHARED = "shared"
    BY_CONTRACT = "by contract"


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """The next nonce of an account, and the operator's choice for its contract: its own account, or the shared one."""

    next_nonce: int = 0
    is_own: bool | None = None


class Submitters:
    """All accounts of one node. `signer` is the address of the shared one."""

    def __init__(
        self,
        signer: str,
        config: Config,
        choice: AccountChoice,
        stored: Mapping[ContractAddress, StoredAccount],
        dispatches: tuple[RoundDispatch, ...],
    ) -> None:
        self.config = config
        self.choice = choice
        self.gas_price = GasPrice()
        # Whether a contract has an account of its own unless something else was chosen for it.
        self.is_own_usual = choice is AccountChoice.BY_CONTRACT
        self.chosen = {name: each.is_own for name, each in stored.items() if each.is_own is not None}
        self._next_nonces = {name: each.next_nonce for name, each in stored.items()}
        by_account: dict[ContractAddress, list[RoundDispatch]] = {SHARED_ACCOUNT: []}
        for dispatch in dispatches:
            by_account.setdefault(dispatch.account, []).append(dispatch)
        self.by_account = {
            account: self._submitter(account, signer if account == SHARED_ACCOUNT else "", tuple(some))
            for account, some in by_account.items()
        }
        self.shared = self.by_account[SHARED_ACCOUNT]

    def has_own(self, contract: ContractAddress) -> bool:
        """Whether the next rounds of this contract are paid for by an account of its own."""
        return self.chosen.get(contract, self.is_own_usual)

    def take(self, order: DispatchRound) -> Submitter:
        """A round is to be dispatched, by the account that pays for its contract now."""
        submitter = self.of(order.contract if self.has_own(order.contract) else SHARED_ACCOUNT)
        submitter.take(order)
        return submitter

    def take_account(self, event: AccountSeen) -> Submitter:
        """Where an account stands. The shared one comes first, before anything is dispatched."""
        if event.account == SHARED_ACCOUNT:
            self.gas_price.is_free = event.is_gas_free
            self.is_own_usual = self.choice is AccountChoice.BY_CONTRACT or (
                self.choice is AccountChoice.AUTO and event.is_gas_free
            )
        submitter = self.of(event.account)
        submitter.take_account(event)
        return submitter

    def take_chosen(self, event: AccountChosen) -> None:
        """The next rounds of a contract have this account; those that another one was given stay there."""
        if event.is_own is None:
            self.chosen.pop(event.contract, None)
        else:
            self.chosen[event.contract] = event.is_own

    def of(self, account: ContractAddress) -> Submitter:
        """The submitter of an account."""
        found = self.by_account.get(account)
        if found is None:
            found = self.by_account[account] = self._submitter(account, "", ())
        return found

    def working(self) -> list[Submitter]:
        """Those that have something on its way to the chain."""
        return [submitter for submitter in self.by_account.values() if submitter.has_work]

    def submissions(self, contract: ContractAddress | None = None) -> Iterator[Submission]:
        """All dispatches on their way, or those of one contract's accounts."""
        accounts = self.by_account if contract is None else (SHARED_ACCOUNT, contract)
        for account in accounts:
            if account in self.by_account:
                yield from self.by_account[account].submissions.values()

    def next_nonces(self) -> dict[ContractAddress, int]:
        """Of all accounts that this node ever used."""
        used = {account: each.next_nonce for account, each in self.by_account.items()}
        return self._next_nonces | used

    @property
    def trouble(self) -> str:
        """Why a transaction is not on the chain, for an operator."""
        return next((each.trouble for each in self.by_account.values() if each.trouble), "")

    # Blocks.

    def failures_in(self, block: ChainBlock) -> Outcomes:
        """What a block's failed transactions of ours mean for their transitions: only we can know."""
        accounts = dict.fromkeys(mined.account for mined in block.mined)
        found = (self.of(account).failures_in(block) for account in accounts)
        return tuple(outcome for outcomes in found for outcome in outcomes)

    def settle(self, block: ChainBlock, outcomes: Outcomes) -> None:
        """Transitions have their outcomes, and nonces are used."""
        for submitter in self._concerned(block, outcomes):
            submitter.settle(block, outcomes)

    def undo(self, block: ChainBlock, outcomes: Outcomes, was_final: bool) -> None:
        """A reorganisation took a block back."""
        for submitter in self._concerned(block, outcomes):
            submitter.undo(block, outcomes, was_final)

    def finalise(self, block: ChainBlock, outcomes: Outcomes) -> None:
        """The block stands."""
        for submitter in self._concerned(block, outcomes):
            submitter.finalise(block, outcomes)

    def _concerned(self, block: ChainBlock, outcomes: Outcomes) -> list[Submitter]:
        """Those whose nonces a block used, and those that may have dispatched rounds with an outcome in it."""
        used = {mined.account: None for mined in block.mined}
        told = {contract: None for contract, _ in outcomes if contract in self.by_account}
        return [self.shared, *(self.of(account) for account in used | told if account != SHARED_ACCOUNT)]

    def _submitter(self, account: ContractAddress, signer: str, dispatches: tuple[RoundDispatch, ...]) -> Submitter:
        next_nonce = self._next_nonces.get(account, 0)
        return Submitter(signer, self.config, dispatches, next_nonce, account, self.gas_price)
