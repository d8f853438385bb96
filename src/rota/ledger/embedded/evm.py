"""The EVM: runs one message on the state, and returns its effects.

The machine is that of `rota.revm`. This module adds what a chain needs beyond that; each item is a fact about pyrevm
0.3.7 that the tests of this package check.

- Its `commit` does not end a transaction: places stay warm and original values stale, and the gas would be too
  low. So each message runs inside a checkpoint, its effects are read, and the checkpoint is reverted, which
  makes the machine forget all that it loaded. The effects are then written to its database from outside.
- It takes a fee for a creation and none for a call, and counts the nonce of the former only. The chain does both
  for both, so a creation runs at a gas price of 0. It checks that the sender could pay.
- It loads the block's maker and the access list, which every transaction touches, without a trace in its journal,
  so that they would outlive the revert; `run` loads them with one beforehand.

These differences remain: BASEFEE returns 0, GASPRICE returns 0 in a constructor, BLOCKHASH a made-up hash; while a
message runs its sender still has the fee; and a contract cannot be the sender of a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota import revm
from rota.ledger.embedded.state import NO_ACCOUNT, Account, AccountChange, Changes, SlotChange, State
from rota.ledger.transaction import AccessEntry

SPECIFICATION: Final = "CANCUN"
NO_ADDRESS: Final = bytes(20)


@dataclass(frozen=True, slots=True)
class BlockContext:
    """The properties of its block that a message can read."""

    number: int
    timestamp_s: int
    random: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """A transaction or call, as the EVM sees it."""

    sender: bytes
    to: bytes | None
    data: bytes
    value: int
    gas_limit: int
    gas_price: int
    access_list: tuple[AccessEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a message."""

    succeeded: bool
    reason: str  # the EVM's word for how it ended
    gas_used: int
    output: bytes
    logs: tuple[revm.Emitted, ...]
    changes: Changes

    @property
    def reverted(self) -> bool:
        """Whether the contract reverted it, perhaps with a reason; otherwise it broke a rule of the EVM."""
        return self.reason == revm.REVERTED


class Evm:
    """A machine that holds a copy of the state."""

    def __init__(self, chain_id: int, gas_limit: int, state: State) -> None:
        self._state: Final = state
        self._machine: Final = revm.Revm(chain_id, gas_limit, SPECIFICATION)

    def enter_block(self, block: BlockContext) -> None:
        """Run messages in this block from now on."""
        self._machine.enter_block(block.number, block.timestamp_s, NO_ADDRESS, block.random)

    def run(self, message: Message) -> Outcome:
        """Run a message and revert it; `Outcome.changes` has the changes that it would make.

        `revm.NotRunnable` is a bug of the caller, which must refuse a sender that cannot pay.
        """
        listed = [
            (entry.address, tuple(int.from_bytes(slot, "big") for slot in entry.slots)) for entry in message.access_list
        ]
        self._machine.set_access_list(listed)
        with self._machine.taken_back():
            self._machine.load(NO_ADDRESS)
            for address, slots in listed:
                self._machine.load(address, slots)
            result = self._machine.run(
                message.sender, message.to, message.data, message.gas_limit, message.value, message.gas_price
            )
        changes, output = read_effects(result.journal, self._state), result.output
        if message.to is None and result.succeeded:
            output = self._created_code(output, changes)
        return Outcome(result.succeeded, result.reason, result.gas_used, output, result.logs, changes)

    def write(self, changes: Changes) -> None:
        """Apply changes of the state to the machine's copy."""
        for address, (_, account) in changes.accounts.items():
            self._machine.set_account(address, account.nonce, self._state.code(account.code_hash), account.balance)
        for (address, number), (_, value) in changes.slots.items():
            self._machine.set_slots(address, {number: value})

    def _created_code(self, address: bytes, changes: Changes) -> bytes:
        """Return the code that a creation leaves, which is its output."""
        created = changes.accounts.get(address)
        return b"" if created is None else self._state.code(created.after.code_hash)


def read_effects(journal: str, state: State) -> Changes:
    """Read the changes to `state` from the machine's debug string."""
    accounts: dict[bytes, AccountChange] = {}
    slots: dict[tuple[bytes, int], SlotChange] = {}
    for each in revm.touched(journal):
        before = state.account(each.address)
        if each.is_destroyed:
            # Since Cancun only a contract created in the same transaction can be destroyed: there was nothing before.
            accounts[each.address] = AccountChange(before, NO_ACCOUNT)
            continue
        if not state.knows_code(each.code_hash):
            assert state.add_code(each.code) == each.code_hash
        after = Account(each.nonce, each.balance, each.code_hash)
        if after != before:
            accounts[each.address] = AccountChange(before, after)
        slots |= {(each.address, number): SlotChange(was, now) for number, was, now in each.slots if was != now}
    return Changes(accounts, slots)
