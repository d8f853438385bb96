"""The EVM: runs one message on the state, and tells what it did.

The machine is revm, by way of pyrevm, which was made for tests of single calls. What a chain needs beyond that
is made up for here; each line is a fact about pyrevm 0.3.7 that the tests of this package hold it to.

- Its `commit` does not end a transaction: places stay warm and original values stale, and gas would come out too
  low. So each message runs inside a checkpoint, its effects are read, and the checkpoint is reverted, which
  makes the machine forget all that it loaded. The effects are then written to its database from outside.
- Its effects are told only in a debug string (`journal_str`), which `read_effects` parses. Nothing in it is free
  text, so a place cannot be faked by what a contract writes.
- It takes a fee for a creation and none for a call, and counts the nonce of the former only. The chain does both
  for both, so a creation runs at a gas price of 0. It checks that the sender could pay.
- What a transaction touches by being one (the block's maker, the access list) is loaded without a trace in its
  journal and would outlive the revert; it is loaded with one beforehand (`_preload`).
- Output of a reverted message is only in the exception's text.

What cannot be made up for: BASEFEE answers 0, GASPRICE answers 0 in a constructor, BLOCKHASH a made-up hash; while
a message runs its sender still has the fee; and a contract cannot be the sender of a call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyrevm

from rota.ledger.embedded.state import NO_ACCOUNT, Account, AccountChange, Changes, SlotChange, State
from rota.ledger.transaction import AccessEntry

SPECIFICATION: Final = "CANCUN"
NO_ADDRESS: Final = bytes(20)
REVERTED_REASON: Final = "Revert"

_ACCOUNT: Final = re.compile(
    r"0x([0-9a-f]{40}): Account \{ info: AccountInfo \{ "
    r"balance: (\d+), nonce: (\d+), code_hash: 0x([0-9a-f]{64}), code: "
)
_CODE: Final = re.compile(r"Some\(Bytecode \{ bytecode: 0x([0-9a-f]*), state: (?:Raw|Analysed \{ len: (\d+))")
_SLOT: Final = re.compile(r"(\d+): StorageSlot \{ previous_or_original_value: (\d+), present_value: (\d+) \}")
_REVERTED: Final = re.compile(r"Revert \{ gas_used: \d+, output: 0x([0-9a-f]*) \}")
_STATE_START: Final = "state: {"
_STATE_END: Final = "}, transient_storage: {"
_STORAGE_START: Final = ", storage: {"
_STATUS_START: Final = "}, status: AccountStatus("
_DESTROYED: Final = "SelfDestructed"


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
class EventLog:
    """What a contract told the world."""

    address: bytes
    topics: tuple[bytes, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a message."""

    succeeded: bool
    reason: str  # the EVM's word for how it ended
    gas_used: int
    output: bytes
    logs: tuple[EventLog, ...]
    changes: Changes

    @property
    def reverted(self) -> bool:
        """The contract itself took it back, and may have said why; otherwise it broke a rule of the EVM."""
        return self.reason == REVERTED_REASON


class NotRunnable(Exception):
    """The message could not even start; a sender that cannot pay is told before, so this is the caller's."""


class Evm:
    """A machine that holds a copy of the state."""

    def __init__(self, chain_id: int, gas_limit: int, state: State) -> None:
        self._state: Final = state
        self._machine: Final = pyrevm.EVM(
            pyrevm.Env(cfg=pyrevm.CfgEnv(chain_id=chain_id)), gas_limit=gas_limit, spec_id=SPECIFICATION
        )

    def enter_block(self, block: BlockContext) -> None:
        """Messages run in this block from now on."""
        self._machine.set_block_env(
            pyrevm.BlockEnv(
                number=block.number, coinbase=_written(NO_ADDRESS), timestamp=block.timestamp_s, prevrandao=block.random
            )
        )

    def run(self, message: Message) -> Outcome:
        """Run a message and take it back; `Outcome.changes` is what it would change."""
        machine = self._machine
        machine.set_tx_env(
            pyrevm.TxEnv(
                access_list=[
                    (_written(entry.address), [int.from_bytes(slot, "big") for slot in entry.slots])
                    for entry in message.access_list
                ]
            )
        )
        checkpoint = machine.snapshot()
        try:
            self._preload(message.access_list)
            output = self._execute(message)
            result = machine.result
            if result is None:
                raise NotRunnable(output.decode())
            logs = tuple(_event_log(log) for log in result.logs)
            changes = read_effects(machine.journal_str, self._state)
            if message.to is None and result.is_success:
                output = self._created_code(output, changes)
            return Outcome(result.is_success, result.reason, result.gas_used, output, logs, changes)
        finally:
            machine.revert(checkpoint)

    def write(self, changes: Changes) -> None:
        """Bring the copy up to date with a step that the state has taken."""
        machine, state = self._machine, self._state
        for address, (_, account) in changes.accounts.items():
            code = state.code(account.code_hash)
            machine.insert_account_info(
                _written(address),
                pyrevm.AccountInfo(nonce=account.nonce, balance=account.balance, code=code or None),  # type: ignore[call-arg]
            )
        for (address, number), (_, value) in changes.slots.items():
            # Writing a slot loads its account, and a second slot of a loaded account would be written where the
            # first reversion drops it: it must not stay loaded from one to the next.
            checkpoint = machine.snapshot()
            machine.insert_account_storage(_written(address), number, value)
            machine.revert(checkpoint)

    def _preload(self, access_list: tuple[AccessEntry, ...]) -> None:
        self._machine.basic(_written(NO_ADDRESS))
        for entry in access_list:
            address = _written(entry.address)
            self._machine.basic(address)
            for slot in entry.slots:
                self._machine.storage(address, int.from_bytes(slot, "big"))

    def _execute(self, message: Message) -> bytes:
        """The output, of a creation the address; without a result, the reason why the message could not start."""
        sender = _written(message.sender)
        try:
            if message.to is None:
                address = self._machine.deploy(sender, message.data, message.value, message.gas_limit)
                return bytes.fromhex(address[2:])
            return self._machine.message_call(
                sender,
                _written(message.to),
                calldata=message.data,
                value=message.value,
                gas=message.gas_limit,
                gas_price=message.gas_price,
            )
        except RuntimeError as error:
            text = str(error)
            if self._machine.result is None:
                return text.encode()
            reverted = _REVERTED.search(text)
            return bytes.fromhex(reverted[1]) if reverted else b""

    def _created_code(self, address: bytes, changes: Changes) -> bytes:
        """The output of a creation is the code that it leaves."""
        created = changes.accounts.get(address)
        return b"" if created is None else self._state.code(created.after.code_hash)


def read_effects(journal: str, state: State) -> Changes:
    """What the machine's debug string says has changed from `state`."""
    accounts: dict[bytes, AccountChange] = {}
    slots: dict[tuple[bytes, int], SlotChange] = {}
    at, end = journal.index(_STATE_START), journal.index(_STATE_END)
    while found := _ACCOUNT.search(journal, at, end):
        storage_at = journal.index(_STORAGE_START, found.end())
        status_at = journal.index(_STATUS_START, storage_at)
        at = journal.index(")", status_at)
        address = bytes.fromhex(found[1])
        before = state.account(address)
        if _DESTROYED in journal[status_at:at]:
            # Since Cancun only a contract of the same transaction can be destroyed: there was nothing before.
            accounts[address] = AccountChange(before, NO_ACCOUNT)
            continue
        code_hash = bytes.fromhex(found[4])
        if not state.knows_code(code_hash):
            assert state.add_code(_code_at(journal, found.end())) == code_hash
        after = Account(int(found[3]), int(found[2]), code_hash)
        if after != before:
            accounts[address] = AccountChange(before, after)
        for number, original, present in _SLOT.findall(journal, storage_at, status_at):
            if original != present:
                slots[address, int(number)] = SlotChange(int(original), int(present))
    return Changes(accounts, slots)


def _code_at(journal: str, at: int) -> bytes:
    """Code that was analysed is followed by padding, and its true length stands behind it."""
    found = _CODE.match(journal, at)
    assert found is not None, "the EVM told of a contract without its code"
    code = bytes.fromhex(found[1])
    return code if found[2] is None else code[: int(found[2])]


def _event_log(log: pyrevm.Log) -> EventLog:
    topics, data = log.data
    return EventLog(bytes.fromhex(log.address[2:]), tuple(bytes(topic) for topic in topics), bytes(data))


def _written(address: bytes) -> str:
    return "0x" + address.hex()
