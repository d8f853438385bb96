"""The operator's choice of the account that pays for a contract (`ports.AccountBook`); the core assigns nonces."""

from __future__ import annotations

from typing import Final

from rota.model.types import ContractAddress
from rota.store.database import Statement, Write


class AccountChoices:
    """`ports.AccountBook` on a database."""

    def __init__(self, write: Write) -> None:
        self._write: Final = write

    async def choose(self, contract: ContractAddress, is_own: bool | None) -> None:
        """Store the choice, durable on return: the next run uses it too."""
        await self._write(Statement(_CHOOSE, (contract, None if is_own is None else int(is_own))))


_CHOOSE: Final = """
INSERT INTO accounts (contract, next_nonce, is_own) VALUES (?, 0, ?)
ON CONFLICT (contract) DO UPDATE SET is_own = excluded.is_own"""
