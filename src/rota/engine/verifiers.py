"""The verifier of each party, as reported by its own node; requested through the core, and cached (protocol §4.3)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from rota.machine.effects import ReportVerifier
from rota.machine.events import VerifierWanted
from rota.model.types import ContractAddress, Party
from rota.node.events import ForContract
from rota.ports import Tell, Unavailable

KEPT_MAX: Final = 100_000
# How long a submission waits to learn whether its payee is known.
ANNOUNCED_S: Final = 2.0

Key = tuple[ContractAddress, Party]


class Verifiers:
    """Returns verifiers from the cache, or requests them and waits at most `patience_ms`."""

    def __init__(self, tell: Tell, patience_ms: int) -> None:
        self._tell: Final = tell
        self._patience_s: Final = patience_ms / 1_000
        self._kept: Final[OrderedDict[Key, str]] = OrderedDict()
        self._awaited: Final[dict[Key, asyncio.Future[str]]] = {}
        self._announced: Final[dict[Key, list[asyncio.Future[bool]]]] = {}

    def take(self, report: ReportVerifier) -> None:
        """Take the report of a party's node. An unknown party is not cached, as it may exist tomorrow."""
        key = (report.contract, report.party)
        if report.verifier:
            self._kept[key] = report.verifier
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        if report.announced is not None:
            for waiting in self._announced.pop(key, []):
                if not waiting.done():
                    waiting.set_result(report.announced)
        awaited = self._awaited.pop(key, None)
        if awaited is not None and not awaited.done():
            awaited.set_result(report.verifier)

    def known(self, contract: ContractAddress, party: Party) -> str | None:
        """Return a party's verifier from the cache, or None."""
        return self._kept.get((contract, party))

    async def of(self, contract: ContractAddress, parties: Iterable[Party]) -> dict[Party, str]:
        """Return the verifier of each, empty for an unknown party. `Unavailable` when a node does not answer."""
        found: dict[Party, str] = {}
        for party in dict.fromkeys(parties):
            known = self._kept.get((contract, party))
            found[party] = known if known is not None else await self._ask(contract, party)
        return found

    async def announced(self, contract: ContractAddress, party: Party) -> bool | None:
        """Whether the users of a party's node have used it; None when that node does not answer in time."""
        key = (contract, party)
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._announced.setdefault(key, []).append(waiting)
        self._tell(ForContract(contract, VerifierWanted(party, asks_announced=True)))
        try:
            async with asyncio.timeout(ANNOUNCED_S):
                return await waiting
        except TimeoutError:
            return None
        finally:
            waiters = self._announced.get(key, [])
            if waiting in waiters:
                waiters.remove(waiting)
                if not waiters:
                    del self._announced[key]

    async def _ask(self, contract: ContractAddress, party: Party) -> str:
        key = (contract, party)
        awaited = self._awaited.get(key)
        if awaited is None:
            awaited = self._awaited[key] = asyncio.get_running_loop().create_future()
            self._tell(ForContract(contract, VerifierWanted(party)))
        try:
            async with asyncio.timeout(self._patience_s):
                return await asyncio.shield(awaited)
        except TimeoutError:
            # The core keeps requesting it; the next caller waits for the same answer.
            if self._awaited.get(key) is awaited:
                del self._awaited[key]
            raise Unavailable(f"the node of {party} has not said which verifier it has") from None
