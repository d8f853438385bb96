"""The EVM of privacy groups: `rota.revm` with accounts that its owner puts there. Each message is reverted.

Properties of pyrevm 0.3.7 that the tests of this package check, beyond those in `rota.revm`:

- An account without code and nonce does not exist for a contract. Its slots stay in the database, so that hiding an
  account costs two calls and not a copy of its storage.
- A creation's address follows from the sender's nonce, which can be chosen freely; a call ignores it.
- SELFDESTRUCT ends only what the same message made (EIP-6780), whatever the version: its journal knows no other rule.
- Fees: BASEFEE and GASPRICE answer 0, and no account has ether. BLOCKHASH answers a hash of the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rota import revm
from rota.domains.pente.evm import Account, Address, Change, Ending, EvmVersion, Execution, Log, Message

BLOCK_GAS_LIMIT: Final = 2**63 - 1

_SPECIFICATIONS: Final = {
    EvmVersion.LONDON: "LONDON",
    EvmVersion.PARIS: "MERGE",
    EvmVersion.SHANGHAI: "SHANGHAI",
    EvmVersion.CANCUN: "CANCUN",
}
_NOBODY: Final = bytes(20)
_NO_CODE_HASH: Final = bytes.fromhex("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")


class PrivateEvm:
    """`Evm` of one group. It also keeps the parts of accounts that the machine does not return."""

    def __init__(self, version: EvmVersion, chain_id: int) -> None:
        self._machine: Final = revm.Revm(chain_id, BLOCK_GAS_LIMIT, _SPECIFICATIONS[version])
        self._accounts: Final[dict[Address, Account]] = {}
        # The slots that were ever written of an account, so that they can be cleared.
        self._written: Final[dict[Address, dict[int, None]]] = {}
        self._hidden: Final[dict[Address, None]] = {}
        self._block: tuple[int, int] | None = None

    # `Evm`.

    def put(self, address: Address, account: Account) -> None:
        """Add or replace an account."""
        self.drop(address)
        self._accounts[address] = Account(account.nonce, account.code)
        self._tell(address, account.nonce, account.code)
        self._write(address, account.slots)

    def change(self, address: Address, nonce: int, slots: Mapping[int, int]) -> None:
        """Give an existing account this nonce and these slots."""
        known = self._accounts[address]
        if nonce != known.nonce:
            self._accounts[address] = Account(nonce, known.code)
            if address not in self._hidden:
                self._tell(address, nonce, known.code)
        self._write(address, slots)

    def hide(self, address: Address) -> None:
        """Make the account not exist until it is shown; its contents stay."""
        if address in self._accounts and address not in self._hidden:
            self._hidden[address] = None
            self._tell(address, 0, b"")

    def show(self, address: Address) -> None:
        """Make a hidden account exist again."""
        if address in self._hidden:
            del self._hidden[address]
            known = self._accounts[address]
            self._tell(address, known.nonce, known.code)

    def drop(self, address: Address) -> None:
        """Remove the account and its contents."""
        if self._accounts.pop(address, None) is not None:
            self._hidden.pop(address, None)
            self._write(address, dict.fromkeys(self._written.pop(address, {}), 0))
            self._written.pop(address, None)
            self._tell(address, 0, b"")

    def run(self, message: Message) -> Execution:
        """Run a message, and revert it. Returns its effect."""
        self._enter(message)
        with self._machine.taken_back():
            # The block's coinbase is loaded without a trace, and would outlive the checkpoint.
            self._machine.load(_NOBODY)
            try:
                result = self._machine.run(message.sender, message.to, message.input, message.gas)
            except revm.NotRunnable as reason:
                return Execution(Ending.HALTED, str(reason), b"", 0, (), None, {}, {})
        changes, touched = self._effects(result.journal, message.sender)
        if not result.succeeded:
            ending = Ending.REVERTED if result.reason == revm.REVERTED else Ending.HALTED
            return Execution(ending, result.reason, result.output, result.gas_used, (), None, {}, touched)
        output, created = (result.output, None) if message.to is not None else (b"", result.output)
        logs = tuple(Log(each.address, each.topics, each.data) for each in result.logs)
        return Execution(Ending.DONE, result.reason, output, result.gas_used, logs, created, changes, touched)

    # The machine.

    def _enter(self, message: Message) -> None:
        block = (message.number, message.timestamp_s)
        if block != self._block:
            self._block = block
            self._machine.enter_block(message.number, message.timestamp_s, _NOBODY, bytes(32), BLOCK_GAS_LIMIT)
        if message.to is None:
            # An account at the address of a party can only be made up: it does not exist, or a message that lists it
            # fails.
            is_shown = message.sender in self._accounts and message.sender not in self._hidden
            assert not is_shown, "a contract sends nothing by itself"
            self._tell(message.sender, message.nonce, b"")

    def _tell(self, address: Address, nonce: int, code: bytes) -> None:
        self._machine.set_account(address, nonce, code)

    def _write(self, address: Address, slots: Mapping[int, int]) -> None:
        self._machine.set_slots(address, slots)
        self._written.setdefault(address, {}).update(dict.fromkeys(slots))

    def _effects(self, journal: str, sender: Address) -> tuple[dict[Address, Change], dict[Address, tuple[int, ...]]]:
        """The changes, and the accounts and slots that were looked at."""
        changes: dict[Address, Change] = {}
        touched: dict[Address, tuple[int, ...]] = {}
        for each in revm.touched(journal):
            address = Address(each.address)
            # The block's coinbase is loaded by this class, and is no account of the group.
            if address in (sender, _NOBODY):
                continue
            touched[address] = tuple(sorted(number for number, _, _ in each.slots))
            known = self._present(address)
            if each.is_destroyed:
                assert known is None, "only what was made by the same message is destroyed"
                continue
            change = _change(known, each)
            if change is not None:
                changes[address] = change
        return dict(sorted(changes.items())), dict(sorted(touched.items()))

    def _present(self, address: Address) -> Account | None:
        return None if address in self._hidden else self._accounts.get(address)


def _change(known: Account | None, now: revm.Touched) -> Change | None:
    """The changes to an account; None when there are none. Code comes once, with the account."""
    slots = {number: after for number, before, after in sorted(now.slots) if before != after}
    if known is None:
        if now.nonce == 0 and now.code_hash == _NO_CODE_HASH:
            return None
        return Change(now.nonce, now.code, slots)
    return Change(now.nonce, None, slots) if slots or now.nonce != known.nonce else None
