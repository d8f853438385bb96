"""revm, by way of pyrevm: the one module that reads what its machine did.

pyrevm was made for tests of single calls. The facts below are of the version that `distributions/node/pyproject.toml`
pins; `evm.self_test` checks at the start of a node that messages are read as they are known to be.

- Effects are only in a debug string (`journal_str`), which `touched` parses. Nothing in it is free text, so that a
  contract cannot fake a place in it by what it writes. Each message runs inside a checkpoint that its caller reverts
  (`taken_back`): `commit` does not end a transaction.
- What an inner call loaded is gone from the string once that call was reverted.
- Writes from outside survive when a checkpoint is reverted. But a slot's account must not stay loaded from one
  write to the next, or the write is dropped with it: each slot is written inside a checkpoint of its own.
- The output of a reverted message is only in the exception's text.
- A message that could not start has no result, and the exception's text has the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyrevm

REVERTED: Final = "Revert"

_ACCOUNT: Final = re.compile(
    r"0x([0-9a-f]{40}): Account \{ info: AccountInfo \{ "
    r"balance: (\d+), nonce: (\d+), code_hash: 0x([0-9a-f]{64}), code: "
)
_CODE: Final = re.compile(r"Some\(Bytecode \{ bytecode: 0x([0-9a-f]*), state: (?:Raw|Analysed \{ len: (\d+))")
_SLOT: Final = re.compile(r"(\d+): StorageSlot \{ previous_or_original_value: (\d+), present_value: (\d+) \}")
_REVERTED_OUTPUT: Final = re.compile(r"Revert \{ gas_used: \d+, output: 0x([0-9a-f]*) \}")
_STATE_START: Final = "state: {"
_STATE_END: Final = "}, transient_storage: {"
_STORAGE_START: Final = ", storage: {"
_STATUS_START: Final = "}, status: AccountStatus("
_DESTROYED: Final = "SelfDestructed"


@dataclass(frozen=True, slots=True)
class Touched:
    """An account that a message loaded, as the message leaves it. A slot is its number, its value before and after."""

    address: bytes
    balance: int
    nonce: int
    code_hash: bytes
    slots: tuple[tuple[int, int, int], ...]
    is_destroyed: bool
    _journal: str
    _code_at: int

    @property
    def code(self) -> bytes:
        """Code that was analysed is followed by padding, and its true length stands behind it."""
        found = _CODE.match(self._journal, self._code_at)
        assert found is not None, "the journal has the code of each contract"
        code = bytes.fromhex(found[1])
        return code if found[2] is None else code[: int(found[2])]


@dataclass(frozen=True, slots=True)
class Emitted:
    """A log."""

    address: bytes
    topics: tuple[bytes, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class MessageRun:
    """How a message ended, in the machine's own words. `output` is the address of what a creation made."""

    succeeded: bool
    reason: str
    gas_used: int
    output: bytes
    logs: tuple[Emitted, ...]
    journal: str


class NotRunnable(Exception):
    """A message could not start; the text is the machine's reason."""


class Revm:
    """One machine with a database of its own."""

    def __init__(self, chain_id: int, gas_limit: int, specification: str) -> None:
        self._machine: Final = pyrevm.EVM(
            pyrevm.Env(cfg=pyrevm.CfgEnv(chain_id=chain_id)), gas_limit=gas_limit, spec_id=specification
        )

    def enter_block(
        self, number: int, timestamp_s: int, maker: bytes, random: bytes, gas_limit: int | None = None
    ) -> None:
        """Messages run in this block from now on."""
        self._machine.set_block_env(
            pyrevm.BlockEnv(
                number=number, timestamp=timestamp_s, coinbase=_hex(maker), prevrandao=random, gas_limit=gas_limit
            )
        )

    def set_access_list(self, entries: Sequence[tuple[bytes, tuple[int, ...]]]) -> None:
        """The next messages have this access list."""
        self._machine.set_tx_env(pyrevm.TxEnv(access_list=[(_hex(address), list(slots)) for address, slots in entries]))

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Messages and writes inside the block are reverted at its end."""
        checkpoint = self._machine.snapshot()
        try:
            yield
        finally:
            self._machine.revert(checkpoint)

    def load(self, address: bytes, slots: tuple[int, ...] = ()) -> None:
        """Load an account and some of its slots with a trace in the journal, so that a checkpoint forgets them."""
        self._machine.basic(_hex(address))
        for number in slots:
            self._machine.storage(_hex(address), number)

    def run(
        self, sender: bytes, to: bytes | None, data: bytes, gas: int, value: int = 0, gas_price: int = 0
    ) -> MessageRun:
        """Run a message, or a creation when `to` is None. `NotRunnable` if it cannot start."""
        machine = self._machine
        try:
            if to is None:
                output = bytes.fromhex(machine.deploy(_hex(sender), data, value, gas)[2:])
            else:
                output = machine.message_call(
                    _hex(sender), _hex(to), calldata=data, value=value, gas=gas, gas_price=gas_price
                )
        except RuntimeError as error:
            if machine.result is None:
                raise NotRunnable(str(error)) from None
            reverted = _REVERTED_OUTPUT.search(str(error))
            output = bytes.fromhex(reverted[1]) if reverted else b""
        result = machine.result
        assert result is not None, "it was run"
        logs = tuple(_emitted(log) for log in result.logs)
        return MessageRun(result.is_success, result.reason, result.gas_used, output, logs, machine.journal_str)

    def set_account(self, address: bytes, nonce: int, code: bytes, balance: int = 0) -> None:
        """Write an account from outside; its slots stay."""
        info = pyrevm.AccountInfo(nonce=nonce, balance=balance, code=code or None)  # type: ignore[call-arg]
        self._machine.insert_account_info(_hex(address), info)

    def set_slots(self, address: bytes, slots: Mapping[int, int]) -> None:
        """Write slots from outside."""
        for number, value in slots.items():
            with self.taken_back():
                self._machine.insert_account_storage(_hex(address), number, value)


def touched(journal: str) -> Iterator[Touched]:
    """The accounts that the last message loaded, as the debug string has them."""
    at, end = journal.index(_STATE_START), journal.index(_STATE_END)
    while found := _ACCOUNT.search(journal, at, end):
        storage_at = journal.index(_STORAGE_START, found.end())
        status_at = journal.index(_STATUS_START, storage_at)
        at = journal.index(")", status_at)
        yield Touched(
            address=bytes.fromhex(found[1]),
            balance=int(found[2]),
            nonce=int(found[3]),
            code_hash=bytes.fromhex(found[4]),
            slots=tuple((int(n), int(was), int(now)) for n, was, now in _SLOT.findall(journal, storage_at, status_at)),
            is_destroyed=_DESTROYED in journal[status_at:at],
            _journal=journal,
            _code_at=found.end(),
        )


def _emitted(log: pyrevm.Log) -> Emitted:
    topics, data = log.data
    return Emitted(bytes.fromhex(log.address[2:]), tuple(bytes(topic) for topic in topics), bytes(data))


def _hex(address: bytes) -> str:
    return "0x" + address.hex()
