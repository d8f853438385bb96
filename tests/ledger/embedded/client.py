"""A chain that is served, and a client that speaks to it over HTTP and WebSocket, for tests without `await`.

The server runs only while the client waits for something, so a test decides when time passes.
"""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from rota.keys import secp256k1
from rota.ledger.embedded import ChainServer, EmbeddedChain, Settings
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.transaction import DynamicFeeTransaction, Transaction, signing_hash, with_signature
from tests import bounds
from tests.ledger.embedded.contracts import creation

GWEI = 10**9
WAIT_S = bounds.WAIT_S
NOW_S = 1_750_000_000
ALICE, BOB, CAROL = DEVELOPMENT_ACCOUNTS[:3]
ALICE_HEX, BOB_HEX, CAROL_HEX = ("0x" + each.address.hex() for each in (ALICE, BOB, CAROL))


class Refused(Exception):
    """An error that the chain answered."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']} {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: str | None = error.get("data")


class WallClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> int:
        return self.now_s


class Client:
    """Speaks JSON-RPC over HTTP."""

    def __init__(self, runner: asyncio.Runner, server: ChainServer, chain: EmbeddedChain) -> None:
        self.runner = runner
        self.server = server
        self.chain = chain
        self.session = runner.run(self._open())
        self._ids = itertools.count(1)

    async def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession()

    def __call__(self, method: str, *parameters: object) -> Any:  # noqa: ANN401
        """What a method answers, or `Refused`."""
        answer = self.post({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": list(parameters)})
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def refusal(self, method: str, *parameters: object) -> Refused:
        """The error that a method answers."""
        with pytest.raises(Refused) as refused:
            self(method, *parameters)
        return refused.value

    def batch(self, *calls: tuple[str, Sequence[object]]) -> list[Any]:
        """What a batch answers, in its order."""
        answers: list[Any] = self.post(
            [
                {"jsonrpc": "2.0", "id": place, "method": method, "params": list(parameters)}
                for place, (method, parameters) in enumerate(calls)
            ]
        )
        return sorted(answers, key=lambda answer: int(answer["id"]))

    def post(self, body: object) -> Any:  # noqa: ANN401
        async def post() -> Any:  # noqa: ANN401
            async with self.session.post(self.server.url, json=body) as response:
                assert response.status == 200
                return await response.json()

        return self.run(post())

    def post_bytes(self, body: bytes) -> tuple[int, str]:
        """Status and text of the answer to whatever it may be."""

        async def post() -> tuple[int, str]:
            async with self.session.post(self.server.url, data=io.BytesIO(body)) as response:
                return response.status, await response.text()

        status, text = self.run(post())
        return status, text

    def run(self, waited_for: Any) -> Any:  # noqa: ANN401
        return self.runner.run(asyncio.wait_for(waited_for, WAIT_S))

    def send(self, **fields: object) -> str:
        """Send a transaction of Alice's, signed by the chain; its hash."""
        answer = self("eth_sendTransaction", {"from": ALICE_HEX, **fields})
        assert isinstance(answer, str)
        return answer

    def create(self, code: bytes) -> str:
        """Create a contract; its address."""
        receipt = self("eth_getTransactionReceipt", self.send(input="0x" + creation(code).hex()))
        assert receipt["status"] == "0x1"
        address = receipt["contractAddress"]
        assert isinstance(address, str)
        return address

    def websocket(self) -> WebSocket:
        return WebSocket(self)

    def close(self) -> None:
        self.runner.run(self.session.close())


class WebSocket:
    """A WebSocket to the chain."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.socket = client.run(client.session.ws_connect(client.server.url))
        self.told: list[dict[str, Any]] = []
        self._ids = itertools.count(1)

    def __call__(self, method: str, *parameters: object) -> Any:  # noqa: ANN401
        """What a method answers, or `Refused`; notifications that come meanwhile are kept."""
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": list(parameters)}
        self.client.run(self.socket.send_json(request))
        while True:
            message = self.client.run(self.socket.receive_json())
            if "method" in message:
                self.told.append(message)
            elif "error" in message:
                raise Refused(message["error"])
            else:
                return message["result"]

    def notifications(self, subscription: str) -> list[Any]:
        """All that this subscription was told since it was asked for last."""
        self("eth_chainId")  # Whatever was sent before is there when this is answered.
        of_it = [each["params"]["result"] for each in self.told if each["params"]["subscription"] == subscription]
        self.told = [each for each in self.told if each["params"]["subscription"] != subscription]
        return of_it

    def close(self) -> None:
        self.client.run(self.socket.close())


@contextmanager
def served(settings: Settings, **limits: int) -> Iterator[Client]:
    """A chain that is served at a port of the kernel's choice, and a client of it."""
    chain = EmbeddedChain(settings, secp256k1)
    server = ChainServer(chain, **limits)
    with asyncio.Runner() as runner:
        runner.run(server.start())
        client = Client(runner, server, chain)
        try:
            yield client
        finally:
            client.close()
            runner.run(server.stop())


def new_chain(**choices: Any) -> EmbeddedChain:  # noqa: ANN401
    """A chain that nobody serves, at a time that stands still."""
    return EmbeddedChain(Settings(**{"clock_s": WallClock(), **choices}), secp256k1)


def signed(transaction: Transaction, secret: bytes = ALICE.secret) -> bytes:
    """The raw transaction."""
    return with_signature(transaction, secp256k1.private_key(secret).sign(signing_hash(transaction))).raw


def payment(nonce: int, **choices: Any) -> DynamicFeeTransaction:  # noqa: ANN401
    """A transaction that any account can send: one wei to an address that nobody has."""
    fields: dict[str, Any] = {
        "chain_id": 31_337,
        "nonce": nonce,
        "max_priority_fee_per_gas": GWEI,
        "max_fee_per_gas": 10 * GWEI,
        "gas_limit": 21_000,
        "to": b"\xee" * 20,
        "value": 1,
    }
    return DynamicFeeTransaction(**{**fields, **choices})
