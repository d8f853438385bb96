"""Quarantined contracts: the database rejected their records, and no run loads them before they are released."""

from __future__ import annotations

from typing import Final

from rota.model.types import ContractAddress
from rota.ports import QuarantinedContract
from rota.store.database import Door, Reading, Statement

REASON_MAX: Final = 1_000


def quarantining(contract: ContractAddress, reason: str, now_ms: int) -> Statement:
    """Keep later runs from loading this contract; the first reason stays."""
    sql = "INSERT INTO contracts_quarantined (contract, reason, quarantined_at_ms) VALUES (?, ?, ?)"
    return Statement(
        f"{sql} ON CONFLICT DO NOTHING", (contract, "".join(filter(str.isprintable, reason))[:REASON_MAX], now_ms)
    )


class Quarantine:
    """The quarantined contracts, and their release."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door

    async def list(self) -> tuple[QuarantinedContract, ...]:
        """All quarantined contracts, the earliest first."""
        return await self._door.read(_listing())

    async def release(self, contract: ContractAddress) -> None:
        """Let the next run load it again."""
        await self._door.write([Statement("DELETE FROM contracts_quarantined WHERE contract = ?", (contract,))])


def _listing() -> Reading[tuple[QuarantinedContract, ...]]:
    rows = yield Statement(
        "SELECT contract, reason, quarantined_at_ms FROM contracts_quarantined ORDER BY quarantined_at_ms, contract"
    )
    return tuple(QuarantinedContract(ContractAddress(str(row[0])), str(row[1]), int(str(row[2]))) for row in rows)
