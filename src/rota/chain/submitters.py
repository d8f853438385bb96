"""The account that pays for a contract's rounds: a shared one, or one of the contract's own.

Theory of operation. A chain shows the payer. One account for all contracts links their traffic; an account of its own
for each contract does not, but has to be funded where gas has a price. So the default is an account by contract
where gas is free and the shared account elsewhere; the operator may choose otherwise for the node, and for each
contract. The chain's price is read once in a run, at its start, so that a contract does not go back and forth.

Each account has a submitter, with nonces of its own. It belongs to the dispatches and not to the contract: when
another account is chosen for a contract, the rounds of its old account stay there to their end, and only later
ones get the new account. An account is named by its contract, so that its dispatches are found again at a restart; its
address and its next nonce are requested (`SeeAccount`) when it first has work in a run.
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
    """The account that pays for the rounds of a contract without a choice of its own."""

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
        """Queue a round for dispatch, by the account that pays for its contract now."""
        submitter = self.of(order.contract if self.has_own(order.contract) else SHARED_ACCOUNT)
        submitter.take(order)
        return submitter

    def take_account(self, event: AccountSeen) -> Submitter:
        """Take an account's next nonce. The shared account's comes first, before any dispatch."""
        if event.account == SHARED_ACCOUNT:
            self.gas_price.is_free = event.is_gas_free
            self.is_own_usual = self.choice is AccountChoice.BY_CONTRACT or (
                self.choice is AccountChoice.AUTO and event.is_gas_free
            )
        submitter = self.of(event.account)
        submitter.take_account(event)
        return submitter

    def take_chosen(self, event: AccountChosen) -> None:
        """Use this account for the next rounds of a contract; rounds of another account stay there."""
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
        """Return the submitters with a transaction on its way to the chain."""
        return [submitter for submitter in self.by_account.values() if submitter.has_work]

    def submissions(self, contract: ContractAddress | None = None) -> Iterator[Submission]:
        """Return all dispatches without an outcome, or those of one contract's accounts."""
        accounts = self.by_account if contract is None else (SHARED_ACCOUNT, contract)
        for account in accounts:
            if account in self.by_account:
                yield from self.by_account[account].submissions.values()

    def next_nonces(self) -> dict[ContractAddress, int]:
        """Return the next nonces of all accounts that this node ever used."""
        used = {account: each.next_nonce for account, each in self.by_account.items()}
        return self._next_nonces | used

    @property
    def trouble(self) -> str:
        """The reason why a transaction is not on the chain, for an operator."""
        return next((each.trouble for each in self.by_account.values() if each.trouble), "")

    # Blocks.

    def failures_in(self, block: ChainBlock) -> Outcomes:
        """Return the outcomes of transitions in a block's failed transactions of this node, known only here."""
        accounts = dict.fromkeys(mined.account for mined in block.mined)
        found = (self.of(account).failures_in(block) for account in accounts)
        return tuple(outcome for outcomes in found for outcome in outcomes)

    def settle(self, block: ChainBlock, outcomes: Outcomes) -> None:
        """Note outcomes of transitions, and used nonces."""
        for submitter in self._concerned(block, outcomes):
            submitter.settle(block, outcomes)

    def undo(self, block: ChainBlock, outcomes: Outcomes, was_final: bool) -> None:
        """Undo a block that a reorganisation took back."""
        for submitter in self._concerned(block, outcomes):
            submitter.undo(block, outcomes, was_final)

    def finalise(self, block: ChainBlock, outcomes: Outcomes) -> None:
        """Note that the block is final."""
        for submitter in self._concerned(block, outcomes):
            submitter.finalise(block, outcomes)

    def _concerned(self, block: ChainBlock, outcomes: Outcomes) -> list[Submitter]:
        """Return those whose nonces a block used, and those that may have dispatched rounds with an outcome in it."""
        used = {mined.account: None for mined in block.mined}
        told = {contract: None for contract, _ in outcomes if contract in self.by_account}
        return [self.shared, *(self.of(account) for account in used | told if account != SHARED_ACCOUNT)]

    def _submitter(self, account: ContractAddress, signer: str, dispatches: tuple[RoundDispatch, ...]) -> Submitter:
        next_nonce = self._next_nonces.get(account, 0)
        return Submitter(signer, self.config, dispatches, next_nonce, account, self.gas_price)
