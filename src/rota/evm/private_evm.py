"""The EVM of privacy groups: revm, by way of pyrevm, with accounts that its owner puts there.

What a message did is read off the machine's debug string, as the embedded chain does; a checkpoint around each message
takes it back. What the tests of this package hold pyrevm 0.3.7 to:

- What is written to its database from outside stays when a checkpoint is reverted, but a slot's account must not stay
  loaded from one write to the next, or the write is dropped with it.
- An account without code and nonce does not exist for a contract. Its slots stay in the database, so that hiding an
  account costs two calls and not a copy of its storage.
- What an inner call loaded is gone from the debug string once that call was taken back.
- A creation's address follows from the sender's nonce, which is free to be chosen; a call does not look at it.
- SELFDESTRUCT ends only what the same message made (EIP-6780), whatever the version: its journal knows no other rule.
- Fees: BASEFEE and GASPRICE answer 0, and nobody has ether. BLOCKHASH answers a hash of the number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyrevm

from rota.domains.pente.evm import Account, Address, Change, Ending, EvmVersion, Execution, Log, Message

BLOCK_GAS_LIMIT: Final = 2**63 - 1

_SPECIFICATIONS: Final = {
    EvmVersion.LONDON: "LONDON",
    EvmVersion.PARIS: "MERGE",
    EvmVersion.SHANGHAI: "SHANGHAI",
    EvmVersion.CANCUN: "CANCUN",
}
_NOBODY: Final = bytes(20)
_REVERT: Final = "Revert"

_ACCOUNT: Final = re.compile(
    r"0x([0-9a-f]{40}): Account \{ info: AccountInfo \{ "
    r"balance: \d+, nonce: (\d+), code_hash: 0x([0-9a-f]{64}), code: "
)
_CODE: Final = re.compile(r"Some\(Bytecode \{ bytecode: 0x([0-9a-f]*), state: (?:Raw|Analysed \{ len: (\d+))")
_SLOT: Final = re.compile(r"(\d+): StorageSlot \{ previous_or_original_value: (\d+), present_value: (\d+) \}")
_REVERTED: Final = re.compile(r"Revert \{ gas_used: \d+, output: 0x([0-9a-f]*) \}")
_STATE_START: Final = "state: {"
_STATE_END: Final = "}, transient_storage: {"
_STORAGE_START: Final = ", storage: {"
_STATUS_START: Final = "}, status: AccountStatus("
_DESTROYED: Final = "SelfDestructed"
_NO_CODE_HASH: Final = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


class PrivateEvm:
    """`Evm` of one group. What it holds of an account is kept here too, as far as the machine does not tell it."""

    def __init__(self, version: EvmVersion, chain_id: int) -> None:
        self._machine: Final = pyrevm.EVM(
            pyrevm.Env(cfg=pyrevm.CfgEnv(chain_id=chain_id)),
            gas_limit=BLOCK_GAS_LIMIT,
            spec_id=_SPECIFICATIONS[version],
        )
        self._accounts: Final[dict[Address, Account]] = {}
        # The slots that were ever written of an account, so that they can be cleared.
        self._written: Final[dict[Address, dict[int, None]]] = {}
        self._hidden: Final[dict[Address, None]] = {}
        self._block: tuple[int, int] | None = None

    # `Evm`.

    def put(self, address: Address, account: Account) -> None:
        """From now on there is this account, and it holds this."""
        self.drop(address)
        self._accounts[address] = Account(account.nonce, account.code)
        self._tell(address, account.nonce, account.code)
        self._write(address, account.slots)

    def change(self, address: Address, nonce: int, slots: Mapping[int, int]) -> None:
        """An account that is there gets this nonce and these slots."""
        known = self._accounts[address]
        if nonce != known.nonce:
            self._accounts[address] = Account(nonce, known.code)
            if address not in self._hidden:
                self._tell(address, nonce, known.code)
        self._write(address, slots)

    def hide(self, address: Address) -> None:
        """The account does not exist until it is shown."""
        if address in self._accounts and address not in self._hidden:
            self._hidden[address] = None
            self._tell(address, 0, b"")

    def show(self, address: Address) -> None:
        """A hidden account exists again."""
        if address in self._hidden:
            del self._hidden[address]
            known = self._accounts[address]
            self._tell(address, known.nonce, known.code)

    def drop(self, address: Address) -> None:
        """The account is gone with all that it holds."""
        if self._accounts.pop(address, None) is not None:
            self._hidden.pop(address, None)
            self._write(address, dict.fromkeys(self._written.pop(address, {}), 0))
            self._written.pop(address, None)
            self._tell(address, 0, b"")

    def run(self, message: Message) -> Execution:
        """Run a message, and take it back."""
        machine = self._machine
        self._enter(message)
        checkpoint = machine.snapshot()
        try:
            # The block's maker is loaded without a trace, and would outlive the checkpoint.
            machine.basic(_hex(_NOBODY))
            output, created = self._execute(message)
            result = machine.result
            if result is None:
                return Execution(Ending.HALTED, output.decode(), b"", 0, (), None, {}, {})
            changes, touched = self._effects(machine.journal_str, message.sender)
            if not result.is_success:
                ending = Ending.REVERTED if result.reason == _REVERT else Ending.HALTED
                return Execution(ending, result.reason, output, result.gas_used, (), None, {}, touched)
            logs = tuple(_log(log) for log in result.logs)
            return Execution(Ending.DONE, result.reason, output, result.gas_used, logs, created, changes, touched)
        finally:
            machine.revert(checkpoint)

    # The machine.

    def _enter(self, message: Message) -> None:
        block = (message.number, message.timestamp_s)
        if block != self._block:
            self._block = block
            self._machine.set_block_env(
                pyrevm.BlockEnv(
                    number=message.number,
                    timestamp=message.timestamp_s,
                    coinbase=_hex(_NOBODY),
                    prevrandao=bytes(32),
                    gas_limit=BLOCK_GAS_LIMIT,
                )
            )
        if message.to is None:
            # An account at the address of a party can only be made up: it does not exist, or who lists it fails.
            is_shown = message.sender in self._accounts and message.sender not in self._hidden
            assert not is_shown, "a contract sends nothing by itself"
            self._tell(message.sender, message.nonce, b"")

    def _execute(self, message: Message) -> tuple[bytes, Address | None]:
        """The output and what was created; of a message that could not start, the reason why."""
        sender = _hex(message.sender)
        try:
            if message.to is None:
                address = self._machine.deploy(sender, message.input, 0, message.gas)
                return b"", bytes.fromhex(address[2:])
            to = _hex(message.to)
            return self._machine.message_call(sender, to, calldata=message.input, gas=message.gas, gas_price=0), None
        except RuntimeError as error:
            text = str(error)
            if self._machine.result is None:
                return text.encode(), None
            reverted = _REVERTED.search(text)
            return (bytes.fromhex(reverted[1]) if reverted else b""), None

    def _tell(self, address: Address, nonce: int, code: bytes) -> None:
        self._machine.insert_account_info(_hex(address), pyrevm.AccountInfo(nonce=nonce, code=code or None))

    def _write(self, address: Address, slots: Mapping[int, int]) -> None:
        machine, written, name = self._machine, self._written.setdefault(address, {}), _hex(address)
        for number, value in slots.items():
            checkpoint = machine.snapshot()
            machine.insert_account_storage(name, number, value)
            machine.revert(checkpoint)
            written[number] = None

    def _effects(self, journal: str, sender: Address) -> tuple[dict[Address, Change], dict[Address, tuple[int, ...]]]:
        """What has changed and what was looked at, as the debug string says. Nothing in it is free text."""
        changes: dict[Address, Change] = {}
        touched: dict[Address, tuple[int, ...]] = {}
        at, end = journal.index(_STATE_START), journal.index(_STATE_END)
        while found := _ACCOUNT.search(journal, at, end):
            storage_at = journal.index(_STORAGE_START, found.end())
            status_at = journal.index(_STATUS_START, storage_at)
            at = journal.index(")", status_at)
            address = bytes.fromhex(found[1])
            # The block's maker is loaded by ourselves, and is nobody.
            if address in (sender, _NOBODY):
                continue
            slots = sorted(
                (int(n), int(was), int(now)) for n, was, now in _SLOT.findall(journal, storage_at, status_at)
            )
            touched[address] = tuple(number for number, _, _ in slots)
            known = self._present(address)
            if _DESTROYED in journal[status_at:at]:
                assert known is None, "only what was made by the same message is destroyed"
                continue
            changed = {number: now for number, was, now in slots if was != now}
            change = _change(known, int(found[2]), found[3], journal, found.end(), changed)
            if change is not None:
                changes[address] = change
        return dict(sorted(changes.items())), dict(sorted(touched.items()))

    def _present(self, address: Address) -> Account | None:
        return None if address in self._hidden else self._accounts.get(address)


def _change(
    known: Account | None, nonce: int, code_hash: str, journal: str, code_at: int, slots: dict[int, int]
) -> Change | None:
    """What became of an account; nothing when it is as it was. Code comes once, with the account."""
    if known is None:
        if nonce == 0 and code_hash == _NO_CODE_HASH:
            return None
        return Change(nonce, _code_at(journal, code_at), slots)
    return Change(nonce, None, slots) if slots or nonce != known.nonce else None


def _code_at(journal: str, at: int) -> bytes:
    """Code that was analysed is followed by padding, and its true length stands behind it."""
    found = _CODE.match(journal, at)
    assert found is not None, "the EVM told of a contract without its code"
    code = bytes.fromhex(found[1])
    return code if found[2] is None else code[: int(found[2])]


def _log(log: pyrevm.Log) -> Log:
    topics, content = log.data
    return Log(bytes.fromhex(log.address[2:]), tuple(bytes(topic) for topic in topics), bytes(content))


def _hex(address: Address) -> str:
    return "0x" + address.hex()
