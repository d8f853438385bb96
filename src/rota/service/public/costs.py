"""What a user's transaction on the base ledger needs of gas and funds, by the chain's word of now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.chain.public_transaction import PublicTransaction, gas_for
from rota.ledger.bindings import explain_any
from rota.ledger.public_chain import ChainLook, PublicChain, Refusal, Reverted
from rota.ports import AbiStore
from rota.service.public.held import Held, content_of, promised_wei


class PublicCosts:
    """Estimates of one node's public transactions."""

    def __init__(self, chain: PublicChain, abis: AbiStore) -> None:
        self._chain: Final = chain
        self._abis: Final = abis

    async def estimate(self, transaction: PublicTransaction) -> int | Reverted | Refusal:
        """The gas that its user names, or that it needs now; or why it does not succeed."""
        return transaction.wish.gas if transaction.wish.gas is not None else await self._chain.estimate(transaction)

    async def gas_of_update(self, held: Held, chain: ChainLook) -> int | None:
        """Estimated anew if the update does something else and names no gas.

        None while the update would fail: then the version from before it stays under way.
        """
        transaction, latest = held.transaction, held.transaction.versions[-1]
        held.update_trouble = ""
        if transaction.wish.gas is not None:
            return transaction.wish.gas
        if content_of(latest) == (transaction.to, transaction.data, transaction.value_wei):
            return latest.gas
        estimate = await self._chain.estimate(transaction)
        if isinstance(estimate, int):
            return gas_for(estimate, chain.gas_limit)
        why = await self.reason(estimate) if isinstance(estimate, Reverted) else estimate.message
        held.update_trouble = f"its update would fail now, and the version before it is under way ({why})"
        return None

    async def reason(self, why: Reverted) -> str:
        """In the contract's own words, as far as an ABI says what they mean."""
        if not why.output:
            return f"PD012216: Transaction reverted: {why.message}"
        known = await self._abis.entries("error", why.output[:4])
        return f"PD012216: Transaction reverted: {explain_any(why.output, known)}"


def can_pay(held: Held, cost_wei: int, on_their_way: Sequence[Held], chain: ChainLook) -> bool:
    """Whether its account has so much beside what others of it may cost; otherwise it waits for that."""
    account = held.transaction.account
    promised = sum(promised_wei(each.transaction) for each in on_their_way if each.mined is None)
    has_wei = chain.accounts[account].balance_wei
    if has_wei - promised >= cost_wei or not cost_wei:
        return True
    held.waits_for = f"funds: send {account} at least {cost_wei + promised - has_wei} wei; it has {has_wei} wei"
    return False
