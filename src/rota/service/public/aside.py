"""Public transactions that were set aside, for an operator to list and decide about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rota.engine.accepting import Acceptance, Acceptances
from rota.model.types import IntentId, intent_text
from rota.rpc import errors
from rota.service.interface import AsideView
from rota.service.public.held import Held
from rota.service.public.transactions import PublicTransactions


class Aside:
    """`service.interface.Aside`."""

    def __init__(self, transactions: PublicTransactions, acceptances: Acceptances) -> None:
        self._transactions: Final = transactions
        self._acceptances: Final = acceptances

    def list(self) -> tuple[AsideView, ...]:
        """Return all of them, in the order of their acceptance."""
        every = sorted((held.transaction for held in self._all()), key=lambda each: each.number)
        return tuple(
            AsideView(
                each.id,
                each.sender,
                each.account,
                each.to,
                each.value_wei,
                each.created_at_ms,
                each.nonce,
                each.set_aside,
            )
            for each in every
        )

    async def release(self, intent: IntentId) -> None:
        """Continue with a transaction that has not happened."""
        await self._decided(self._transactions.release, intent)

    async def drop(self, intent: IntentId) -> None:
        """End the transaction."""
        await self._decided(self._transactions.drop, intent)

    async def _decided(self, decide: Callable[[IntentId], Awaitable[bool]], intent: IntentId) -> None:
        """Apply a decision; it is completed even if the operator disconnects or the answer is late."""

        async def work(acceptance: Acceptance) -> bool:
            acceptance.begin(intent)
            return await decide(intent)

        if not await self._acceptances.accept(work):
            raise _not_aside(intent)

    def warnings(self, wound_back: str) -> tuple[str, ...]:
        """Return the warnings shown beside readiness."""
        told = [f"the store: {wound_back}"] if wound_back else []
        if count := len(self._all()):
            told.append(f"{count} public transactions are set aside: `rota tx aside` shows them")
        return tuple(told)

    def _all(self) -> Sequence[Held]:
        """Return the transactions that an operator has to decide about."""
        return [each for each in self._transactions.open() if each.is_aside]


def _not_aside(intent: IntentId) -> errors.Rejected:
    return errors.invalid("transactionId", f"{intent_text(intent)} is not set aside")
