"""Three demo nodes as an application finds them: processes, a chain without fees, domains noto and pente."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rota.demo.serving import FIRST_PORT, ports_from
from rota.localnet.children import ROTA
from tests import bounds
from tests.server.storage import ABI, BYTECODE
from tests.server.three_nodes import Client

pytestmark = pytest.mark.slow

STOP_TIMEOUT_S = bounds.WAIT_S


@contextmanager
def served() -> Iterator[tuple[subprocess.Popen[str], dict[str, dict[str, str]]]]:
    command = (*ROTA, "demo", "--serve", "--port", "0", "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["nodes"]
        finally:
            process.kill()


def test_an_application_finds_three_nodes_that_know_each_other() -> None:
    with served() as (process, nodes):
        assert list(nodes) == ["node1", "node2", "node3"]
        one, two, _ = (Client(each["rpc"]) for each in nodes.values())
        assert one.ask("transport_nodeName") == "node1"
        assert {"noto", "pente"} <= set(one.ask("domain_listDomains"))
        data = {"name": "Coin", "symbol": "C", "notary": "bank@node2", "notaryMode": "basic"}
        sent = one.ask("ptx_sendTransaction", {"type": "private", "domain": "noto", "from": "a", "data": data})
        token = one.receipt(sent)["contractAddress"]
        mint = {"to": "a@node1", "amount": 5, "data": "0x"}
        base = {"type": "private", "to": token, "from": "bank"}
        two.receipt(two.ask("ptx_sendTransaction", {**base, "function": "mint", "data": mint}))
        balance = {**base, "function": "balanceOf", "data": {"account": "a@node1"}}
        assert two.ask("ptx_call", balance)["totalBalance"] == "5"
        # Anybody's new key may send public transactions.
        public = one.ask("ptx_sendTransaction", {"type": "public", "from": "new", "abi": ABI, "bytecode": BYTECODE})
        assert one.receipt(public)["contractAddress"]
        # Here nodes are registered on the chain, and it is known by whom and by which event.
        entries = one.ask("reg_queryEntriesWithProps", "registry", {}, "active")
        assert [each["name"] for each in entries] == ["node1", "node2", "node3"]
        assert all({"blockNumber", "transactionIndex", "logIndex"} <= set(each) for each in entries)
        assert all(set(each["properties"]) == {"transport.grpc", "$owner"} for each in entries)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0


def test_the_nodes_are_where_clients_look_for_them() -> None:
    assert FIRST_PORT == 31_548
    assert list(ports_from(FIRST_PORT).values()) == [(31_548, 31_549), (31_648, 31_649), (31_748, 31_749)]
    assert ports_from(0) == {}
