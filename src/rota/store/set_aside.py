"""Contracts that are set aside: the database rejected their records, and no run loads them before they are released."""

from __future__ import annotations

from typing import Final

from rota.model.types import ContractAddress
from rota.ports import ContractSetAside
from rota.store.database import Door, Reading, Statement

REASON_MAX: Final = 1_000


def setting_aside(contract: ContractAddress, reason: str, now_ms: int) -> Statement:
    """The next run does not load this contract; the first reason stays."""
    sql = "INSERT INTO contracts_set_aside (contract, reason, set_aside_at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    return Statement(sql, (contract, "".join(filter(str.isprintable, reason))[:REASON_MAX], now_ms))


class SetAsideContracts:
    """Which contracts are set aside, and their release."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door

    async def list(self) -> tuple[ContractSetAside, ...]:
        """All of them, the earliest first."""
        return await self._door.read(_listing())

    async def release(self, contract: ContractAddress) -> None:
        """The next run loads it again."""
        await self._door.write([Statement("DELETE FROM contracts_set_aside WHERE contract = ?", (contract,))])


def _listing() -> Reading[tuple[ContractSetAside, ...]]:
    rows = yield Statement(
        "SELECT contract, reason, set_aside_at_ms FROM contracts_set_aside ORDER BY set_aside_at_ms, contract"
    )
    return tuple(ContractSetAside(ContractAddress(str(row[0])), str(row[1]), int(str(row[2]))) for row in rows)
