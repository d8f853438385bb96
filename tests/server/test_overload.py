"""An overloaded node pushes back, and its clients come again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from rota.client import Client, ClientLimits
from rota.client import Overloaded as ClientOverloaded
from rota.model.types import IntentId
from rota.rpc.errors import Overloaded
from tests.server.kit import TRANSFER, asynchronous, served
from tests.server.memory_node import MemoryNode


@dataclass(slots=True)
class Overwhelmed(MemoryNode):
    """Refuses so many submissions before it takes one."""

    refusals: int = 0

    async def submit(self, submission: Any) -> IntentId:  # noqa: ANN401
        if self.refusals:
            self.refusals -= 1
            raise Overloaded(45.0, 30.0, 15)
        return await MemoryNode.submit(self, submission)


@asynchronous
async def test_refusal_has_a_status_a_code_and_a_time_to_come_again() -> None:
    async with served(Overwhelmed(refusals=3)) as to:
        for method, params in (("ptx_sendTransaction", [TRANSFER]), ("ptx_sendTransactions", [[TRANSFER] * 2])):
            call = json.dumps({"id": 1, "method": method, "params": params}).encode()
            async with to.session.post(to.entrance.http_url, data=call) as answer:
                assert answer.status == 503
                assert answer.headers["Retry-After"] == "15"
                error = (await answer.json())["error"]
            assert error["code"] == -32_004
            assert error["data"] == {"definite": True, "retryAfterS": 15}
            assert error["message"] == (
                "the node is overloaded: a transaction would wait for about 45 s, and at most 30 s are allowed; "
                "try again in 15 s"
            )
        assert to.node.kept == {}


@asynchronous
async def test_client_repeats_what_an_overloaded_node_refused() -> None:
    limits = ClientLimits(attempts_max=3, retry_after_max_ms=1)
    async with served(Overwhelmed(refusals=2)) as to, Client(to.entrance.http_url, limits) as client:
        assert isinstance(await client.ask("ptx_sendTransaction", TRANSFER), str)
    async with served(Overwhelmed(refusals=3)) as to, Client(to.entrance.http_url, limits) as client:
        with pytest.raises(ClientOverloaded, match="the node is overloaded") as refused:
            await client.ask("ptx_sendTransaction", TRANSFER)
        assert refused.value.retry_after_s == 15
