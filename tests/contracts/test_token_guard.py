"""The hook of the documentation's example: which payments it counts, and when."""

from __future__ import annotations

import pytest

from rota.model.types import ContractAddress
from tests.contracts.evm import ALICE, BOB, Chain, Reverted, call_data, keccak

NOTARY = ContractAddress("0x" + "0b" * 20)
TOKEN, OTHER_TOKEN = ContractAddress("0x" + "70" * 20), ContractAddress("0x" + "71" * 20)
LIMIT = 100
LOCK = keccak(b"lock")
PREPARED = (TOKEN, b"carry")


class Guard:
    """A hook of this token, with both parties on its list."""

    def __init__(self) -> None:
        self.chain = Chain()
        self.address = self.chain.deploy("TokenGuard", NOTARY, LIMIT)
        self.call("setToken", TOKEN)
        for account in (ALICE, BOB):
            self.call("list", account, True)

    def call(self, name: str, *arguments: object, sender: ContractAddress = NOTARY) -> None:
        self.chain.send(self.address, call_data("TokenGuard", name, *arguments), sender)

    def paid(self) -> object:
        return self.chain.call("TokenGuard", self.address, "paidOn", 0, ALICE)


def for_bob(amount: int) -> list[tuple[ContractAddress, int]]:
    return [(BOB, amount)]


@pytest.mark.parametrize("is_new", [True, False], ids=["createTransferLock", "prepareUnlock"])
def test_payment_from_a_lock_counts_once_when_it_is_prepared(is_new: bool) -> None:
    """Its owner ends it: the same payment passes, however much of the limit is used by then."""
    guard = Guard()
    if is_new:
        guard.call("onCreateTransferLock", ALICE, LOCK, ALICE, 60, for_bob(60), b"", PREPARED)
    else:
        guard.call("onLock", ALICE, LOCK, ALICE, 60, b"", PREPARED)
        assert guard.paid() == 0
        guard.call("onPrepareUnlock", ALICE, LOCK, for_bob(60), b"", PREPARED)
    assert guard.paid() == 60
    guard.call("onUnlock", ALICE, LOCK, for_bob(60), b"", PREPARED)
    assert guard.paid() == 60


def test_payments_from_a_lock_that_is_not_prepared_count_when_they_are_made() -> None:
    guard = Guard()
    guard.call("onLock", ALICE, LOCK, ALICE, 200, b"", PREPARED)
    guard.call("onUnlock", ALICE, LOCK, for_bob(60), b"", PREPARED)
    with pytest.raises(Reverted):
        guard.call("onUnlock", ALICE, LOCK, for_bob(60), b"", PREPARED)
    guard.call("onUnlock", ALICE, LOCK, [(ALICE, 140)], b"", PREPARED)
    assert guard.paid() == 60


def test_nothing_is_decided_for_another_token_or_by_another_caller() -> None:
    guard = Guard()
    operations: list[tuple[str, tuple[object, ...]]] = [
        ("onMint", (NOTARY, BOB, 1, b"")),
        ("onTransfer", (ALICE, ALICE, BOB, 1, b"")),
        ("onBurn", (ALICE, ALICE, 1, b"")),
        ("onLock", (ALICE, LOCK, ALICE, 1, b"")),
        ("onCreateTransferLock", (ALICE, LOCK, ALICE, 1, for_bob(1), b"")),
        ("onPrepareUnlock", (ALICE, LOCK, for_bob(0), b"")),
        ("onDelegateLock", (ALICE, LOCK, BOB)),
        ("onUnlock", (ALICE, LOCK, [], b"")),
    ]
    for name, arguments in operations:
        with pytest.raises(Reverted):
            guard.call(name, *arguments, (OTHER_TOKEN, b"carry"))
        with pytest.raises(Reverted):
            guard.call(name, *arguments, PREPARED, sender=ALICE)
    with pytest.raises(Reverted):
        guard.call("handleDelegateUnlock", BOB, LOCK, for_bob(1), b"", sender=ALICE)
    assert guard.paid() == 0
