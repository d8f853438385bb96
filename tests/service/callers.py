"""Applications of running nodes: they call over HTTP, as any other, and wait for receipts as client libraries do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.service.kit import Network

LOOK_S = 0.01
# How tokens of every domain are asked what somebody has.
BALANCE_OF: dict[str, Any] = {
    "type": "function",
    "name": "balanceOf",
    "inputs": [{"name": "account", "type": "string"}],
    "outputs": [
        {"name": "totalStates", "type": "uint256"},
        {"name": "totalBalance", "type": "uint256"},
        {"name": "overflow", "type": "bool"},
    ],
}


class CallFailed(Exception):
    """The node answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data") or {}


@dataclass
class Caller:
    """An application of one node."""

    session: aiohttp.ClientSession
    url: str

    async def call(self, method: str, *params: object) -> Any:  # noqa: ANN401  # whatever it answers
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self.session.post(self.url, json=body) as response:
            answer = await response.json()
        if "error" in answer:
            raise CallFailed(answer["error"])
        return answer["result"]

    async def receipt(self, transaction: str) -> dict[str, Any]:
        """When it is there; the test's own time limit bounds it."""
        while (found := await self.call("ptx_getTransactionReceipt", transaction)) is None:
            await asyncio.sleep(LOOK_S)
        assert isinstance(found, dict)
        return found

    async def do(self, **transaction: object) -> dict[str, Any]:
        """Send a transaction and wait for its end; `from_` is `from`."""
        asked = {name.rstrip("_"): value for name, value in transaction.items()}
        return await self.receipt(await self.call("ptx_sendTransaction", asked))

    async def succeed(self, **transaction: object) -> dict[str, Any]:
        """The same, and it must go well."""
        receipt = await self.do(**transaction)
        assert receipt.get("success") is True, receipt
        return receipt


def callers(session: aiohttp.ClientSession, nodes: Network) -> tuple[Caller, ...]:
    """One for each node, in their order."""
    return tuple(Caller(session, nodes.processes[name].entrance.http_url) for name in nodes.names)
