"""An account that sends single transactions and waits for each: for deploying and registering, not for rounds.

The nonce is the chain's next one, so that only one object of this class may send from an account at a time: a node's
submitter assigns nonces from its own records, and is never used here. Concurrent callers may share one object:
transactions are sent one after the other, and awaited together. Gas is estimated, with a margin, and the price is the
chain's current one, up to a limit. A transaction is sent once, and its receipt is polled until it is mined; for one
that is not mined in time the error has its hash, and it may still be mined. Until it is, the next one takes its nonce
and offers more, so that a price that has become too low blocks nothing permanently.

A transaction that the chain refuses or reverts is `TransactionRejected` with a reason; without an answer,
`Unavailable`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from rota.chain.events import Objection
from rota.ledger.bindings import revert_text
from rota.ledger.client import Call, RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, quantity, read_data, read_quantity
from rota.ledger.objections import AlreadyKnown, objection_of
from rota.ledger.reading import CallReceipt, read_header, read_receipt
from rota.ledger.transaction import DynamicFeeTransaction, SignedTransaction, signing_hash, with_signature
from rota.ledger.transports import RpcFailure
from rota.model.types import ContractAddress, address_bytes
from rota.ports import Signer, Unavailable

ATTEMPTS_MAX: Final = 5
GAS_TO_SPARE_PERCENT: Final = 25
# Nodes require at least a tenth more before they accept a replacement.
REPLACEMENT_PERCENT: Final = 25


class TransactionRejected(Exception):
    """The chain refused a transaction, or reverted it; the text has the reason."""


class CallReverted(TransactionRejected):
    """A contract rejects a call; the text has its own error."""


class TransactionUndone(TransactionRejected):
    """It was mined and reverted: the state had changed since its estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """The highest price of a unit of gas, how often a receipt is polled, and the interval."""

    fee_max_wei: int = 500_000_000_000
    looks_max: int = 600
    look_ms: int = 200

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")


class Account:
    """One key on one chain."""

    def __init__(
        self, client: RpcClient, chain_id: int, signer: Signer, signer_name: str, limits: AccountLimits | None = None
    ) -> None:
        self.address: Final = signer.address_of(signer_name)
        self.client: Final = client
        self._chain_id: Final = chain_id
        self._signer: Final = signer
        self._signer_name: Final = signer_name
        self._limits: Final = limits or AccountLimits()
        self._sending: Final = asyncio.Lock()
        # By nonce: transactions that a caller awaits, and those whose callers have given up.
        self._awaited: Final[dict[int, DynamicFeeTransaction]] = {}
        self._given_up: Final[dict[int, DynamicFeeTransaction]] = {}

    async def transact(
        self, to: ContractAddress | None, call: bytes = b"", value_wei: int = 0, gas_limit: int | None = None
    ) -> CallReceipt:
        """Send a transaction, or deploy a contract if `to` is None; return its receipt once it is mined.

        Raises `TransactionRejected`, or `Unavailable` when it is not mined in time. With `gas_limit` the gas is not
        estimated: a call that depends on the time may fail on the latest block and succeed in the next one.
        """
        async with self._sending:
            transaction = await self._priced(to, call, value_wei, gas_limit)
            nonce = transaction.nonce
            signature = await self._signer.sign(self._signer_name, signing_hash(transaction))
            signed = with_signature(transaction, signature)
            self._awaited[nonce] = transaction
            self._given_up.pop(nonce, None)
            try:
                await self._send(signed)
            except TransactionRejected:
                del self._awaited[nonce]
                raise
            except BaseException:
                self._give_up(nonce)
                raise
        try:
            receipt = await self._mined(signed)
        except BaseException:
            self._give_up(nonce)
            raise
        del self._awaited[nonce]
        if not receipt.has_succeeded:
            raise TransactionUndone(f"transaction {data(signed.hash)} was mined and undone")
        return receipt

    def _give_up(self, nonce: int) -> None:
        """Mark the transaction as no longer awaited; until it is mined, the next one may take its nonce."""
        self._given_up[nonce] = self._awaited.pop(nonce)

    async def read(self, to: ContractAddress, call: bytes) -> bytes:
        """Return a contract's current answer to a call."""
        wanted = {"from": self.address, "to": to, "data": data(call)}
        return read_data(await self._call("eth_call", wanted, "latest"))

    async def has_code(self, address: ContractAddress) -> bool:
        """Return whether there is a contract at this address now."""
        return bool(read_data(await self._call("eth_getCode", address, "latest")))

    async def height(self) -> int:
        """Return the number of the latest block."""
        return read_quantity(await self._call("eth_blockNumber"))

    async def _priced(
        self, to: ContractAddress | None, call: bytes, value_wei: int, gas_limit: int | None
    ) -> DynamicFeeTransaction:
        together = await self.client.call_together(
            Call("eth_chainId"),
            Call("eth_getTransactionCount", (self.address, "pending")),
            Call("eth_getTransactionCount", (self.address, "latest")),
            Call("eth_getBlockByNumber", ("latest", False)),
            Call("eth_gasPrice"),
            attempts_max=ATTEMPTS_MAX,
        )
        for answer in together.answers:
            if isinstance(answer, RpcFailure):
                raise TransactionRejected(str(answer))
        chain_id, pending, mined, latest, price = together.answers
        if read_quantity(chain_id) != self._chain_id:
            raise TransactionRejected(f"the node's chain id is {read_quantity(chain_id)}, and ours is {self._chain_id}")
        header = read_header(latest)
        if header is None:
            raise Unavailable("the Ethereum node has no latest block")
        # A chain whose gas is free gets no tip: its accounts may have nothing.
        tip = max(read_quantity(price) - header.base_fee_wei, 0)
        most = 2 * header.base_fee_wei + tip
        # A node may not count yet a transaction that it got a moment ago.
        nonce = max(read_quantity(pending), *(each + 1 for each in self._awaited), 0)
        for old in [each for each in self._given_up if each < read_quantity(mined)]:
            del self._given_up[old]
        before = self._given_up.get(min(self._given_up, default=-1))
        if before is not None:
            nonce = before.nonce
            tip = max(tip, _dearer(before.max_priority_fee_per_gas))
            most = max(most, _dearer(before.max_fee_per_gas))
        return DynamicFeeTransaction(
            chain_id=self._chain_id,
            nonce=nonce,
            max_priority_fee_per_gas=min(tip, self._limits.fee_max_wei),
            max_fee_per_gas=min(most, self._limits.fee_max_wei),
            gas_limit=await self._gas(to, call, value_wei) if gas_limit is None else gas_limit,
            to=None if to is None else address_bytes(to),
            value=value_wei,
            data=call,
        )

    async def _gas(self, to: ContractAddress | None, call: bytes, value_wei: int) -> int:
        wanted: dict[str, object] = {"from": self.address, "data": data(call), "value": quantity(value_wei)}
        if to is not None:
            wanted["to"] = to
        estimate = read_quantity(await self._call("eth_estimateGas", wanted))
        return estimate * (100 + GAS_TO_SPARE_PERCENT) // 100

    async def _call(self, method: str, *parameters: object) -> object:
        try:
            return await self.client.call(method, *parameters, attempts_max=ATTEMPTS_MAX)
        except RpcRefused as refused:
            raise self._rejection(refused.failure) from refused

    async def _send(self, signed: SignedTransaction) -> None:
        """Send it. The client repeats it when the answer is lost; `AlreadyKnown` counts as success."""
        try:
            await self.client.call("eth_sendRawTransaction", data(signed.raw), attempts_max=ATTEMPTS_MAX)
        except RpcRefused as refused:
            if not isinstance(objection_of(refused.failure), AlreadyKnown):
                raise self._rejection(refused.failure) from refused

    async def _mined(self, signed: SignedTransaction) -> CallReceipt:
        for _ in range(self._limits.looks_max):
            told = await self.client.call("eth_getTransactionReceipt", data(signed.hash), attempts_max=ATTEMPTS_MAX)
            receipt = read_receipt(told)
            if receipt is not None:
                return receipt
            await asyncio.sleep(self._limits.look_ms / 1_000)
        waited_s = self._limits.looks_max * self._limits.look_ms // 1_000
        raise Unavailable(f"transaction {data(signed.hash)} is not mined after {waited_s} s, and may still be")

    def _rejection(self, failure: RpcFailure) -> TransactionRejected:
        """Return the error with a contract's own error decoded; for lack of funds, with the address to fund."""
        if isinstance(failure.data, str) and failure.data.startswith("0x") and len(failure.data) > len("0x"):
            try:
                return CallReverted(revert_text(read_data(failure.data)))
            except ValueError:
                pass
        if objection_of(failure) is Objection.NO_FUNDS:
            return TransactionRejected(
                f"{self.address} has too little to pay for it: send it funds ({failure.message})"
            )
        return TransactionRejected(str(failure))


def _dearer(price_wei: int) -> int:
    return price_wei * (100 + REPLACEMENT_PERCENT) // 100 + 1
