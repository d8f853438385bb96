"""The examples that use the client, run as they are printed, against three real nodes."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client import Client
from rota.demo.serving import FIRST_PORT, ports_from
from rota.model.types import NodeName
from tests import bounds
from tests.ledger.chains import in_loop
from tests.server.three_nodes import ThreeNodes, three_nodes
from tests.service.kit import network, send

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_TIMEOUT_S = bounds.WAIT_S
NODE1 = NodeName("node1")


@pytest.fixture(scope="module")
def to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    home: Path = tmp_path_factory.mktemp("examples")
    with three_nodes(home) as running:
        yield running


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, str(EXAMPLES / script), *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)


def lines_of(to: ThreeNodes, script: str) -> list[str]:
    """What it says at its end, which must be a good one."""
    ended = run(script, *(each.url for each in to.clients))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.slow
def test_a_token_is_issued_and_transferred(to: ThreeNodes) -> None:
    lines = lines_of(to, "token/issue.py")
    assert lines[2:] == [
        "alice@node2 has paid 250 to bob@node3",
        "alice@node2 sees that alice@node2 has 750",
        "bob@node3 sees that bob@node3 has 250",
        "bank@node1 sees that alice@node2 has 750",
        "bank@node1 sees that bob@node3 has 250",
        "bob@node3 does not see what alice@node2 has: node1 and node2 would",
        "bob@node3 cannot pay 251: PD200005: Insufficient funds (available=250)",
    ]
    # Again, with what is there from before.
    assert lines_of(to, "token/issue.py")[2:] == lines[2:]


@pytest.mark.slow
def test_a_private_contract_is_shared_by_the_members_of_a_group(to: ThreeNodes) -> None:
    lines = lines_of(to, "private-erc20/share.py")
    assert lines[2:5] == [
        "alice@node1 has sent 30 to bob@node2; the private contract emitted 1 event",
        "alice@node1 sees alice@node1: 70, bob@node2: 30",
        "bob@node2 sees alice@node1: 70, bob@node2: 30",
    ]
    assert lines[5].startswith("bob@node2 cannot send 31: InsufficientBalance(0x")
    assert lines[6:] == ["node3 does not know the group"]


@pytest.mark.slow
def test_delivery_and_payment_happen_together_or_not_at_all(to: ThreeNodes) -> None:
    lines = lines_of(to, "delivery-versus-payment/settle.py")
    assert lines[:2] == [
        "buyer@node2 has locked 400 for seller@node3",
        "seller@node3 sees 400 coming, buyer@node2 sees the delivery",
    ]
    assert lines[2].startswith("seller@node3 has backed out, and nothing is settled: ")
    assert lines[3:6] == [
        "buyer@node2 has 600 of the money and 0 shares",
        "seller@node3 has 0 of the money and 50 shares",
        "seller@node3 sees 400 coming, buyer@node2 sees the delivery",
    ]
    assert lines[8:] == [
        "buyer@node2 has 600 of the money and 7 shares",
        "seller@node3 has 400 of the money and 43 shares",
    ]
    blocks = [line.rpartition(" ")[2] for line in lines[6:8]]
    assert blocks[0] == blocks[1]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["token/issue.py", "private-erc20/share.py", "delivery-versus-payment/settle.py"])
def test_a_node_that_is_away_is_told_in_one_line(script: str) -> None:
    ended = run(script, *["http://127.0.0.1:1"] * 3)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Unreachable: http://127.0.0.1:1")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("script", ["token/issue.py", "private-erc20/share.py", "delivery-versus-payment/settle.py"])
def test_the_nodes_of_the_demonstration_are_where_an_example_looks_for_them(script: str) -> None:
    urls = ", ".join(f'"http://127.0.0.1:{port}"' for port, _ in ports_from(FIRST_PORT).values())
    assert f"NODES = ({urls})" in (EXAMPLES / script).read_text(encoding="utf-8")


def test_too_few_nodes_are_wrong_use() -> None:
    ended = run("token/issue.py", "http://127.0.0.1:1")
    assert ended.returncode == 2
    assert "nodes: must be 3 URLs, not 1" in ended.stderr


@pytest.mark.slow
@in_loop
async def test_settling_says_at_once_which_address_lacks_ether_and_how_to_pay_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES / "delivery-versus-payment")
    settle = importlib.import_module("settle")
    async with network(tmp_path, "node1") as nodes:
        await nodes.start(NODE1)
        async with Client(nodes.processes[NODE1].entrance.http_url, sender="bank") as bank:
            artifact = settle.SETTLEMENT
            deployed = bank.ledger.deploy(artifact.abi, "0x" + artifact.bytecode.hex())
            waiting = asyncio.create_task(settle.paid_for(bank, "bank@node1", deployed))
            address = await bank.address_of("bank@node1")
            told = ""
            while f"rota ledger fund ./node1 --to {address}" not in told:
                await asyncio.sleep(0.005)
                told += capsys.readouterr().err
                assert not waiting.done()
            assert told.startswith(f"bank@node1 cannot pay for gas: funds: send {address} at least ")
            await send(nodes.client, {"to": address, "value": hex(10**18)})
            assert (await waiting).address.startswith("0x")


@pytest.mark.slow
def test_a_token_is_guarded_by_a_private_contract(to: ThreeNodes) -> None:
    lines = lines_of(to, "token-with-hooks/guard.py")
    assert lines[2:] == [
        "bank@node1 mints 100 for alice@node2: the receiver is not on the list",
        "bank@node1 mints 100 for alice@node2: done",
        "alice@node2 pays 30 to bob@node3: the receiver is not on the list",
        "alice@node2 pays 30 to bob@node3: done",
        "alice@node2 pays 30 again: the payment exceeds the daily limit",
        "alice@node2 pays 30 on the next day: done",
        "alice@node2 has 40",
        "bob@node3 has 60",
    ]
