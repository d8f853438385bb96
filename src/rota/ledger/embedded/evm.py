"""The EVM: runs one message on the state, and tells what it did.

The machine is that of `rota.revm`. What a chain needs beyond that is made up for here; each line is a fact about pyrevm
0.3.7 that the tests of this package hold it to.

- Its `commit` does not end a transaction: places stay warm and original values stale, and gas would come out too
  low. So each message runs inside a checkpoint, its effects are read, and the checkpoint is reverted, which
  makes the machine forget all that it loaded. The effects are then written to its database from outside.
- It takes a fee for a creation and none for a call, and counts the nonce of the former only. The chain does both
  for both, so a creation runs at a gas price of 0. It checks that the sender could pay.
- What a transaction touches by being one (the block's maker, the access list) is loaded without a trace in its
  journal and would outlive the revert; it is loaded with one beforehand (`_preload`).

What cannot be made up for: BASEFEE answers 0, GASPRICE answers 0 in a constructor, BLOCKHASH a made-up hash; while
a message runs its sender still has the fee; and a contract cannot be the sender of a call.
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
    """What a message can learn of the block that it is in."""

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
    """What became of a message."""

    succeeded: bool
    reason: str  # the EVM's word for how it ended
    gas_used: int
    output: bytes
    logs: tuple[revm.Emitted, ...]
    changes: Changes

    @property
    def reverted(self) -> bool:
        """The contract itself took it back, and may have said why; otherwise it broke a rule of the EVM."""
        return self.reason == revm.REVERTED


class Evm:
    """A machine that holds a copy of the state."""

    def __init__(self, chain_id: int, gas_limit: int, state: State) -> None:
        self._state: Final = state
        self._machine: Final = revm.Revm(chain_id, gas_limit, SPECIFICATION)

    def enter_block(self, block: BlockContext) -> None:
        """Messages run in this block from now on."""
        self._machine.enter_block(block.number, block.timestamp_s, NO_ADDRESS, block.random)

    def run(self, message: Message) -> Outcome:
        """Run a message and take it back; `Outcome.changes` is what it would change.

        `revm.NotRunnable` is the caller's error: a sender that cannot pay is refused before.
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
        """Bring the copy up to date with a step that the state has taken."""
        for address, (_, account) in changes.accounts.items():
            self._machine.set_account(address, account.nonce, self._state.code(account.code_hash), account.balance)
        for (address, number), (_, value) in changes.slots.items():
            self._machine.set_slots(address, {number: value})

    def _created_code(self, address: bytes, changes: Changes) -> bytes:
        """The output of a creation is the code that it leaves."""
        created = changes.accounts.get(address)
        return b"" if created is None else self._state.code(created.after.code_hash)


def read_effects(journal: str, state: State) -> Changes:
    """What the machine's debug string says has changed from `state`."""
    accounts: dict[bytes, AccountChange] = {}
    slots: dict[tuple[bytes, int], SlotChange] = {}
    for each in revm.touched(journal):
        before = state.account(each.address)
        if each.is_destroyed:
            # Since Cancun only a contract of the same transaction can be destroyed: there was nothing before.
            accounts[each.address] = AccountChange(before, NO_ACCOUNT)
            continue
        if not state.knows_code(each.code_hash):
            assert state.add_code(each.code) == each.code_hash
        after = Account(each.nonce, each.balance, each.code_hash)
        if after != before:
            accounts[each.address] = AccountChange(before, after)
        slots |= {(each.address, number): SlotChange(was, now) for number, was, now in each.slots if was != now}
    return Changes(accounts, slots)
