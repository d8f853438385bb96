"""Gas and funds that a user's transaction on the base ledger needs, by the chain's present answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.abi.codec import SELECTOR_BYTES, Entry
from rota.chain.public_transaction import PublicTransaction, gas_for
from rota.ledger.bindings import explain_any
from rota.ledger.lock_errors import advice_for
from rota.ledger.public_chain import ChainLook, PublicChain, Refusal, Reverted
from rota.model.types import ContractAddress
from rota.ports import AbiStore
from rota.service.public.held import Held, content_of, promised_wei

# The answers of Ethereum nodes where a contract gave no reason.
BARE: Final = ("execution reverted", "")
UNKNOWN_ERROR: Final = "reverted with 0x"


class PublicCosts:
    """Estimates of one node's public transactions."""

    def __init__(self, chain: PublicChain, abis: AbiStore) -> None:
        self._chain: Final = chain
        self._abis: Final = abis

    async def estimate(self, transaction: PublicTransaction) -> int | Reverted | Refusal:
        """Return the gas that its user set, or else an estimate; or the reason why it does not succeed."""
        return transaction.wish.gas if transaction.wish.gas is not None else await self._chain.estimate(transaction)

    async def gas_of_update(self, held: Held, chain: ChainLook) -> int | None:
        """Return the gas for an update: estimated if the update changes the call and sets no gas.

        None while the update would fail: then the previous version stays under way.
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
        why = await self.why(transaction, estimate) if isinstance(estimate, Reverted) else estimate.message
        held.update_trouble = f"its update would fail now, and the version before it is under way ({why})"
        return None

    async def why(self, transaction: PublicTransaction, reverted: Reverted) -> str:
        """Return the reason, decoded with a stored ABI if possible."""
        return (
            f"PD012216: Transaction reverted: {await explained(self._abis, transaction.to, transaction.data, reverted)}"
        )


async def explained(
    abis: AbiStore, to: ContractAddress | None, data: bytes, why: Reverted, function: Entry | None = None
) -> str:
    """Return the reason and the reverted call; for an unknown reason, with advice on how to find out more."""
    selector = data[:SELECTOR_BYTES]
    known = [function] if function is not None else await abis.entries("function", selector) if selector else ()
    called = known[0].signature if known else f"0x{selector.hex()}" if selector else "a call without data"
    place = f"{called} of {to}" if to is not None else "the constructor"
    if not why.output:
        told = "" if why.message.lower() in BARE else f" ({why.message})"
        hint = "it may have no such function, or a check without a text" if to is not None else "a check without a text"
        return f"{place} gave no reason{told}: {hint}; compare address, ABI and values"
    text = explain_any(why.output, await abis.entries("error", why.output[:SELECTOR_BYTES]))
    if UNKNOWN_ERROR in text:
        return f"{text} ({place}; store the contract's ABI to read it)"
    advice = advice_for(why.output)
    return f"{text} ({place}): {advice}" if advice else f"{text} ({place})"


def can_pay(held: Held, cost_wei: int, on_their_way: Sequence[Held], chain: ChainLook) -> bool:
    """Whether the account can pay beside the cost of its other transactions under way; sets `waits_for` if not."""
    account = held.transaction.account
    promised = sum(promised_wei(each.transaction) for each in on_their_way if each.mined is None)
    has_wei = chain.accounts[account].balance_wei
    if has_wei - promised >= cost_wei or not cost_wei:
        return True
    held.waits_for = f"funds: send {account} at least {cost_wei + promised - has_wei} wei; it has {has_wei} wei"
    return False
