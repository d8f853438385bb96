"""The two chains that one suite runs on: the embedded one, and Anvil in a process of its own.

Both listen at a port that the kernel chose and come back at the same one after they were killed, as an operator's
node would. Anvil is the one that `rota bench ledger` finds; where there is none, its tests are skipped, and CI forbids
skips.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec

import aiohttp
import pytest

from rota.keys import secp256k1
from rota.ledger.embedded import ChainServer, EmbeddedChain, Settings
from rota.localnet.chains import NO_ANVIL, find_anvil
from tests import bounds

CHAIN_ID = 31_337
START_TIMEOUT_S = bounds.WAIT_S
TEST_TIMEOUT_S = bounds.TEST_TIMEOUT_S

Parameters = ParamSpec("Parameters")


def in_loop(test: Callable[Parameters, Awaitable[None]]) -> Callable[Parameters, None]:
    """Run a test in an event loop of its own; one that hangs fails."""

    @functools.wraps(test)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(TEST_TIMEOUT_S):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


class RpcRejected(Exception):
    """The chain answered a test's own call with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.data = error.get("data")


class Chain(ABC):
    """A chain under test, with a plain way to ask it that is not the client under test."""

    port = 0

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def websocket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def rpc(self, method: str, *parameters: object) -> Any:  # noqa: ANN401
        """What a method answers."""
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": list(parameters)}
        async with aiohttp.ClientSession() as session, session.post(self.url, json=request) as response:
            answer = await response.json()
        if "error" in answer:
            raise RpcRejected(answer["error"])
        return answer["result"]

    async def height(self) -> int:
        return int(await self.rpc("eth_blockNumber"), 16)

    async def mine(self, count: int = 1) -> None:
        await self.rpc("anvil_mine", hex(count))

    async def reorganise(self, depth: int) -> None:
        """The latest blocks go, with their transactions, and as many empty ones come."""
        await self.rpc("anvil_reorg", depth, [])

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def kill(self) -> None: ...

    @abstractmethod
    async def restart(self, *, is_fresh: bool = False) -> None:
        """Come back at the same place, with all blocks or as another chain with the same id."""


class Embedded(Chain):
    """The chain in this process; killed means that nobody listens any more."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__()
        self._settings = Settings(chain_id=CHAIN_ID, **settings)
        self._chain = EmbeddedChain(self._settings, secp256k1)
        self._server = ChainServer(self._chain)

    async def start(self) -> None:
        await self._server.start(port=self.port)
        self.port = self._server.port

    async def kill(self) -> None:
        await self._server.stop()

    async def restart(self, *, is_fresh: bool = False) -> None:
        if is_fresh:
            # Another chain with the same id has another genesis, as any chain that was begun at another time.
            self._chain = EmbeddedChain(Settings(chain_id=CHAIN_ID, clock_s=lambda: 2_000_000_000), secp256k1)
        self._server = ChainServer(self._chain)
        await self.start()


class Anvil(Chain):
    """Anvil; its blocks are in a file, which it writes when it is asked to stop."""

    def __init__(self, home: Path, program: str) -> None:
        super().__init__()
        self._home = home
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._options: tuple[str, ...] = ()

    async def start(self) -> None:
        home = self._home / "home"
        home.mkdir(exist_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            *("--port", str(self.port), "--chain-id", str(CHAIN_ID), "--state", str(self._home / "state.json")),
            *self._options,
            env={**os.environ, "HOME": str(home)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(START_TIMEOUT_S):
            self.port = await self._port_told(self._process)
        self._drain = asyncio.create_task(self._read_on(self._process))

    async def kill(self) -> None:
        assert self._process is not None, "it runs"
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        async with asyncio.timeout(START_TIMEOUT_S):
            await self._process.wait()
            await self._drain

    async def restart(self, *, is_fresh: bool = False) -> None:
        if is_fresh:
            (self._home / "state.json").unlink()
            # Two that are begun in the same second have the same first block.
            self._options = ("--timestamp", "1600000000")
        await self.start()

    async def _port_told(self, process: asyncio.subprocess.Process) -> int:
        assert process.stdout is not None, "it is a pipe"
        told = b""
        while line := await process.stdout.readline():
            told += line
            found = re.search(rb"Listening on \S+:(\d+)", line)
            if found is not None:
                return int(found[1])
        raise AssertionError(f"Anvil ended: {told.decode(errors='replace')}")

    async def _read_on(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None, "it is a pipe"
        while await process.stdout.read(65_536):
            pass


@asynccontextmanager
async def running(kind: str, home: Path, **settings: Any) -> AsyncIterator[Chain]:  # noqa: ANN401
    """A chain of a kind, stopped at the end."""
    if kind == "embedded":
        chain: Chain = Embedded(**settings)
    else:
        program = find_anvil()
        if program is None:
            pytest.skip(f"There is no Anvil: {NO_ANVIL}.")
        chain = Anvil(home, program)
    await chain.start()
    try:
        yield chain
    finally:
        await chain.kill()
