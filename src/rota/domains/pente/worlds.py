"""The accounts that a transaction needs: the world that it runs in.

A transition is valid from what it spends and reads (ledger). So a private transaction is the effect of its message
where only the accounts that it lists exist: that is the same on every node, at any time. It must also be the message's
effect among all accounts of the group, or a sender could leave out an account whose contract would refuse.

The machine reports the accounts that a message looked at, and those are listed. But it forgets those that a reverted
inner call looked at. Only code that calls other code can have such calls; then the message is run among all known
accounts as well. If the result differs, in its gas too, the accounts that cause the difference are found and listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.domains.available import Available
from rota.domains.base import Behind, History, Known, Rejected
from rota.domains.pente.accounts import Accounts, calls_out
from rota.domains.pente.evm import Address, Execution, Message
from rota.domains.pente.records import AccountState
from rota.model.types import ContractAddress, address_bytes

ACCOUNTS_MAX: Final = 15
SEARCH_RUNS_MAX: Final = 512
# The gas of all runs of a search; as many runs of cheap messages as `SEARCH_RUNS_MAX` take little time.
SEARCH_GAS_MAX: Final = 300_000_000


@dataclass(frozen=True, slots=True)
class Ran:
    """The effect of a message, and the accounts that have to be listed for it."""

    execution: Execution
    listed: tuple[Address, ...]


class Latest(Mapping[Address, Known[AccountState]]):
    """The accounts of a group by address, each at its available state; those in `listed` at the listed state.

    The cost of finding one does not depend on their number. An object is for one transaction: it caches what it found.
    An account whose state is withheld is not treated as missing, since a contract might then act differently:
    `Rejected`. An account that `has_been` here still exists: its next state was made while this node was down, and
    comes soon (`Behind`).
    """

    def __init__(
        self,
        states: Callable[[], Available],
        listed: Mapping[Address, Known[AccountState]] | None = None,
        has_been: Callable[[Address], bool] = lambda _: False,
    ) -> None:
        self._states = states
        self._found = dict(listed or {})
        self._has_been = has_been

    def __getitem__(self, address: Address) -> Known[AccountState]:
        known = self._found.get(address)
        if known is None:
            written = ContractAddress("0x" + address.hex())
            available = self._states().where(AccountState, address=written)
            if not available:
                # An ordinary pending transaction offers the states that it makes. Only a prepared one offers none.
                if self._states().is_withheld(AccountState, address=written):
                    words = "has a prepared transaction that waits for its committer; ask again when it has ended"
                    raise Rejected("to", f"{written} {words}")
                if self._has_been(address):
                    raise Behind(f"the latest state of {written} is not here yet")
                raise KeyError(address)
            known = self._found[address] = available[-1]
        return known

    def __iter__(self) -> Iterator[Address]:
        return iter(self._every())

    def __len__(self) -> int:
        return len(self._every())

    def _every(self) -> dict[Address, None]:
        found = (address_bytes(known.record.address) for known in self._states().where(AccountState))
        return dict.fromkeys((*self._found, *found))


@dataclass(frozen=True, slots=True)
class World:
    """All accounts that a node knows of a group, each at its assumed state."""

    accounts: Accounts
    latest: Mapping[Address, Known[AccountState]]
    history: History

    def run(self, message: Message) -> Ran:
        """Run a message, and determine the accounts it needs. `Rejected` when they are too many."""
        listed = [message.to] if message.to is not None and message.to in self.latest else []
        while True:
            execution = self.run_among(message, listed)
            missed = self.missed(execution, listed)
            if not missed and self.is_enough(message, execution, listed):
                return Ran(execution, tuple(sorted(listed)))
            listed += missed or self._search(message, listed)
            if len(listed) > ACCOUNTS_MAX:
                raise Rejected("", f"it needs {len(listed)} accounts, and a transaction has at most {ACCOUNTS_MAX}")

    def run_among(self, message: Message, listed: Sequence[Address]) -> Execution:
        """Run a message where only these accounts exist."""
        return self.accounts.run(message, {address: self.latest[address] for address in listed}, self.history)

    def is_enough(self, message: Message, execution: Execution, listed: Sequence[Address]) -> bool:
        """Whether a message's effect among the listed accounts is its effect among all that are known."""
        # The number of accounts is compared last: counting them costs as much as there are.
        if not self._may_have_looked_further(message, listed) or len(listed) == len(self.latest):
            return True
        return self.accounts.run_among_all(message, dict(self.latest), self.history) == execution

    def missed(self, execution: Execution, listed: Sequence[Address]) -> tuple[Address, ...]:
        """Accounts that exist and were looked at although they are not listed."""
        return tuple(address for address in execution.touched if address in self.latest and address not in listed)

    def _may_have_looked_further(self, message: Message, listed: Sequence[Address]) -> bool:
        if message.to is None and calls_out(message.input):
            return True
        return any(self.accounts.chain_at(each, self.latest[each], self.history).calls_out for each in listed)

    def _search(self, message: Message, listed: Sequence[Address]) -> list[Address]:
        """The accounts without which a message's effect differs from that among all: found by leaving out parts."""
        wanted = self.accounts.run_among_all(message, dict(self.latest), self.history)
        kept = [address for address in sorted(self.latest) if address not in listed]
        size, runs, gas = max(1, len(kept) // 2), 0, wanted.gas_used
        while True:
            for at in reversed(range(0, len(kept), size)):
                rest = kept[:at] + kept[at + size :]
                runs += 1
                if runs > SEARCH_RUNS_MAX or gas > SEARCH_GAS_MAX:
                    raise Rejected("", "it depends on too many accounts in calls that fail")
                tried = self.run_among(message, (*listed, *rest))
                gas += tried.gas_used
                if tried == wanted:
                    kept = rest
            if size == 1:
                return kept
            size //= 2
