"""The state of the chain: current and earlier accounts and slots.

This is the authoritative copy; the EVM works on another. Every change is kept with its previous value, in a journal, so
that the chain can go back: a position in the journal is a state. An old state is read by searching the journal from
there; going back undoes it entry by entry. Only the latest part of the journal is kept, and earlier positions are gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from rota.model.digests import keccak

EMPTY_CODE_HASH: Final = keccak(b"")


class Account(NamedTuple):
    """The chain's record of an address, without its storage."""

    nonce: int = 0
    balance: int = 0
    code_hash: bytes = EMPTY_CODE_HASH

    @property
    def has_code(self) -> bool:
        return self.code_hash != EMPTY_CODE_HASH


NO_ACCOUNT: Final = Account()


class AccountChange(NamedTuple):
    before: Account
    after: Account


class SlotChange(NamedTuple):
    before: int
    after: int


Slot = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one step to the state, each place once."""

    accounts: Mapping[bytes, AccountChange] = field(default_factory=dict)
    slots: Mapping[Slot, SlotChange] = field(default_factory=dict)

    def reversed(self) -> Changes:
        """Return the inverse step."""
        return Changes(
            {address: AccountChange(after, before) for address, (before, after) in self.accounts.items()},
            {slot: SlotChange(after, before) for slot, (before, after) in self.slots.items()},
        )


class State:
    """Accounts, storage, code, and the journal of their changes."""

    def __init__(self) -> None:
        self._accounts: Final[dict[bytes, Account]] = {}
        self._slots: Final[dict[Slot, int]] = {}
        # Code is kept permanently, by hash: undone code may be deployed again.
        self._codes: Final[dict[bytes, bytes]] = {EMPTY_CODE_HASH: b""}
        self._journal: Final[deque[Changes]] = deque()
        self._dropped = 0  # entries that are no longer kept

    @property
    def position(self) -> int:
        """The end of the journal, which is the current state."""
        return self._dropped + len(self._journal)

    @property
    def oldest_position(self) -> int:
        """The oldest state that can still be read or restored."""
        return self._dropped

    def account(self, address: bytes, position: int | None = None) -> Account:
        """Return an account, now or at a position."""
        if position is not None:
            for changes in self._since(position):
                change = changes.accounts.get(address)
                if change is not None:
                    return change.before
        return self._accounts.get(address, NO_ACCOUNT)

    def slot(self, address: bytes, number: int, position: int | None = None) -> int:
        """Return a slot of an account's storage, now or at a position."""
        if position is not None:
            for changes in self._since(position):
                change = changes.slots.get((address, number))
                if change is not None:
                    return change.before
        return self._slots.get((address, number), 0)

    def code(self, code_hash: bytes) -> bytes:
        """Return the code with this hash."""
        return self._codes[code_hash]

    def add_code(self, code: bytes) -> bytes:
        """Store a code; return its hash."""
        code_hash = keccak(code)
        self._codes[code_hash] = code
        return code_hash

    def knows_code(self, code_hash: bytes) -> bool:
        return code_hash in self._codes

    def apply(self, changes: Changes) -> None:
        """Apply a step, and add it to the journal."""
        self._write(changes)
        self._journal.append(changes)

    def undo(self) -> Changes:
        """Undo the latest step; return the changes of that."""
        changes = self._journal.pop().reversed()
        self._write(changes)
        return changes

    def since(self, position: int) -> tuple[Changes, ...]:
        """Return the steps from a position on, oldest first."""
        return tuple(self._since(position))

    def forget_before(self, position: int) -> None:
        """Drop the journal before `position`; states before it can no longer be restored."""
        while self._dropped < position and self._journal:
            self._journal.popleft()
            self._dropped += 1

    def _since(self, position: int) -> Iterator[Changes]:
        assert position >= self._dropped, f"the state at {position} is no longer kept, only from {self._dropped} on"
        return islice(self._journal, position - self._dropped, None)

    def _write(self, changes: Changes) -> None:
        """Write the values; remove empty accounts and zero slots, so that an undone step leaves no trace."""
        for address, (_, account) in changes.accounts.items():
            if account == NO_ACCOUNT:
                self._accounts.pop(address, None)
            else:
                self._accounts[address] = account
        for slot, (_, value) in changes.slots.items():
            if value == 0:
                self._slots.pop(slot, None)
            else:
                self._slots[slot] = value
