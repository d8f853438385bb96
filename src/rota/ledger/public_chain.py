"""The chain's interface for transactions of the node's users.

One read returns all that the decisions need (`chain.public_transaction`), in two exchanges: the chain's height and gas
price, and each account's balance and nonces; then the receipts of transactions that may be mined by now. A refusal is
returned as a value with the chain's own text; a missing answer is `Unavailable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.chain.events import Objection
from rota.chain.public_transaction import Look, Market, Mined, PublicTransaction, Version
from rota.ledger.client import Call, RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, quantity, read_data, read_quantity
from rota.ledger.objections import AlreadyKnown, objection_of
from rota.ledger.own_nonces import revert_data
from rota.ledger.reading import CallReceipt, read_header, read_receipt
from rota.ledger.transaction import DynamicFeeTransaction, signing_hash, with_signature
from rota.ledger.transports import RpcFailure
from rota.model.types import ContractAddress, Fees, address_bytes
from rota.ports import Signer, Unavailable

ATTEMPTS_MAX: Final = 3
RECEIPTS_AT_ONCE_MAX: Final = 512
TRANSFER_GAS: Final = 21_000

Given = str | int


@dataclass(frozen=True, slots=True)
class AccountLook:
    """An account's balance, and its nonces, used and waiting in the pool."""

    balance_wei: int
    used: int
    used_and_waiting: int


@dataclass(frozen=True, slots=True)
class ChainLook:
    """The chain's height, market and gas limit, and each requested account."""

    height: int
    market: Market
    gas_limit: int
    accounts: Mapping[ContractAddress, AccountLook]


@dataclass(frozen=True, slots=True)
class Reverted:
    """It would not succeed now: the contract's output, and the chain's message."""

    output: bytes
    message: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The chain refuses it, with its own message."""

    objection: Objection
    message: str


class PublicChain:
    """One chain, for any account whose key the signer has."""

    def __init__(self, client: RpcClient, chain_id: int, signer: Signer) -> None:
        self._client: Final = client
        self._chain_id: Final = chain_id
        self._signer: Final = signer

    # Reading.

    async def stand(self, accounts: Sequence[ContractAddress]) -> ChainLook:
        """Return the chain's height and these accounts' balances and nonces. `Unavailable` when it cannot answer."""
        calls = [Call("eth_chainId"), Call("eth_getBlockByNumber", ("latest", False)), Call("eth_gasPrice")]
        for account in accounts:
            calls += [
                Call("eth_getBalance", (account, "latest")),
                Call("eth_getTransactionCount", (account, "latest")),
                Call("eth_getTransactionCount", (account, "pending")),
            ]
        chain_id, latest, price, *rest = await self._together(calls)
        if read_quantity(chain_id) != self._chain_id:
            raise Unavailable(f"the Ethereum node is of chain {read_quantity(chain_id)}, and ours is {self._chain_id}")
        header = read_header(latest)
        if header is None:
            raise Unavailable("the Ethereum node has no latest block")
        limit = latest.get("gasLimit") if isinstance(latest, dict) else None
        looks = {}
        for place, account in enumerate(accounts):
            balance, used, waiting = (read_quantity(each) for each in rest[3 * place : 3 * place + 3])
            looks[account] = AccountLook(balance, used, max(used, waiting))
        market = Market(header.base_fee_wei, read_quantity(price))
        return ChainLook(header.height, market, read_quantity(limit), looks)

    async def receipts(self, hashes: Iterable[bytes]) -> dict[bytes, Mined]:
        """Return those of these transactions that are in blocks."""
        asked = list(hashes)
        found: dict[bytes, Mined] = {}
        for start in range(0, len(asked), RECEIPTS_AT_ONCE_MAX):
            some = asked[start : start + RECEIPTS_AT_ONCE_MAX]
            answers = await self._together([Call("eth_getTransactionReceipt", (data(each),)) for each in some])
            for hash_, answer in zip(some, answers, strict=True):
                mined = _mined(hash_, read_receipt(answer))
                if mined is not None:
                    found[hash_] = mined
        return found

    async def used_at(self, account: ContractAddress, height: int) -> int:
        """Return how many nonces were used up to this block; 0 when the chain no longer has its state."""
        call = Call("eth_getTransactionCount", (account, quantity(max(height, 0))))
        together = await self._client.call_together(call, attempts_max=ATTEMPTS_MAX)
        (answer,) = together.answers
        return 0 if isinstance(answer, RpcFailure) else read_quantity(answer)

    # Sending.

    async def estimate(self, transaction: PublicTransaction) -> int | Reverted | Refusal:
        """Return the gas that it needs now; or why it does not succeed."""
        try:
            return read_quantity(await self._call("eth_estimateGas", _wanted(transaction)))
        except RpcRefused as refused:
            return _judged(refused.failure)

    async def call(
        self, account: ContractAddress | None, to: ContractAddress, call_data: bytes, value_wei: int, block: Given
    ) -> bytes | Reverted | Refusal:
        """Return a contract's answer to a call without a transaction, or why it fails."""
        wanted: dict[str, object] = {"to": to, "data": data(call_data)}
        if account is not None:
            wanted["from"] = account
        if value_wei:
            wanted["value"] = quantity(value_wei)
        try:
            at = quantity(block) if isinstance(block, int) else block
            return read_data(await self._call("eth_call", wanted, at))
        except RpcRefused as refused:
            return _judged(refused.failure)

    async def why_failed(self, transaction: PublicTransaction, mined: Mined) -> Reverted:
        """Find out why by repeating the call on the state after its block, then on that before it."""
        for height in (mined.height, mined.height - 1):
            try:
                await self._call("eth_call", _wanted(transaction), quantity(max(height, 0)))
            except RpcRefused as refused:
                judged = _judged(refused.failure)
                return judged if isinstance(judged, Reverted) else Reverted(b"", judged.message)
        return Reverted(b"", "it failed, and made again it does not")

    async def sign(
        self, transaction: PublicTransaction, key: str, nonce: int, fees: Fees, gas: int, now_ms: int
    ) -> Version:
        """Return a signed version of it. `Unavailable` when the signer does not answer."""
        to = None if transaction.to is None else address_bytes(transaction.to)
        return await self._signed(key, nonce, fees, gas, now_ms, to, transaction.value_wei, transaction.data)

    async def withdraw(self, account: ContractAddress, key: str, nonce: int, fees: Fees, now_ms: int) -> Version:
        """Return a version without effect: the account sends itself nothing."""
        return await self._signed(
            key, nonce, fees, TRANSFER_GAS, now_ms, address_bytes(account), 0, b"", is_withdrawal=True
        )

    async def send(self, version: Version) -> Refusal | None:
        """Send it to the chain's pool, which may have it already; return the refusal, or None."""
        try:
            await self._call("eth_sendRawTransaction", data(version.raw))
        except RpcRefused as refused:
            objection = objection_of(refused.failure)
            if not isinstance(objection, AlreadyKnown):
                return Refusal(objection, refused.failure.message)
        return None

    async def _signed(
        self,
        key: str,
        nonce: int,
        fees: Fees,
        gas: int,
        now_ms: int,
        to: bytes | None,
        value_wei: int,
        call_data: bytes,
        is_withdrawal: bool = False,
    ) -> Version:
        unsigned = DynamicFeeTransaction(
            chain_id=self._chain_id,
            nonce=nonce,
            max_priority_fee_per_gas=fees.tip_wei,
            max_fee_per_gas=fees.most_wei,
            gas_limit=gas,
            to=to,
            value=value_wei,
            data=call_data,
        )
        signed = with_signature(unsigned, await self._signer.sign(key, signing_hash(unsigned)))
        return Version(fees, gas, signed.raw, signed.hash, now_ms, is_withdrawal)

    async def _call(self, method: str, *parameters: object) -> object:
        return await self._client.call(method, *parameters, attempts_max=ATTEMPTS_MAX)

    async def _together(self, calls: Sequence[Call]) -> list[Any]:
        if not calls:
            return []
        together = await self._client.call_together(*calls, attempts_max=ATTEMPTS_MAX)
        for answer in together.answers:
            if isinstance(answer, RpcFailure):
                raise Unavailable(f"the Ethereum node: {answer}")
        return list(together.answers)


def look_of(chain: ChainLook, account: ContractAddress, used_for_good: int, receipts: Mapping[bytes, Mined]) -> Look:
    """Return the data about an account that the decisions need."""
    return Look(chain.height, chain.accounts[account].used, used_for_good, receipts)


def _mined(hash_: bytes, receipt: CallReceipt | None) -> Mined | None:
    if receipt is None:
        return None
    return Mined(hash_, receipt.height, receipt.block_hash, receipt.place, receipt.has_succeeded, receipt.contract)


def _wanted(transaction: PublicTransaction) -> dict[str, object]:
    wanted: dict[str, object] = {"from": transaction.account, "data": data(transaction.data)}
    if transaction.to is not None:
        wanted["to"] = transaction.to
    if transaction.value_wei:
        wanted["value"] = quantity(transaction.value_wei)
    if transaction.wish.gas is not None:
        wanted["gas"] = quantity(transaction.wish.gas)
    return wanted


def _judged(failure: RpcFailure) -> Reverted | Refusal:
    """Classify a failed execution: lack of funds may pass, any other error is final."""
    if objection_of(failure) is Objection.NO_FUNDS:
        return Refusal(Objection.NO_FUNDS, failure.message)
    return Reverted(revert_data(failure.data) or b"", failure.message)
