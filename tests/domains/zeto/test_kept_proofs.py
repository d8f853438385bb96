"""A proof that was made is used by the next life of its node, and forgotten when its intent has ended."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import aiohttp
import pytest

from rota.domains.zeto.domain import LEDGERS
from rota.model.types import NodeName
from rota.node.events import ForContract
from rota.sequencer.events import TransitionSigned
from tests.domains.zeto.kit import LOOK_S, NODE1, NODE2, begun, pay, registered, token, until_balance
from tests.ledger.chains import in_loop
from tests.service.callers import callers
from tests.service.kit import Network, network
from tests.service.test_public_flow import FREE


class Proofs:
    """Those that the core of a node is told of."""

    def __init__(self) -> None:
        self.made: list[bytes] = []

    def saw_event(self, event: object) -> None:
        if isinstance(event, ForContract) and isinstance(event.event, TransitionSigned):
            self.made.append(event.event.signature)

    def saw_effect(self, effect: object) -> None:
        """Nothing of it is wanted."""


class StopsWhenProved(Proofs):
    """Ends the core's life in the moment in which it would be told of a proof: no round is ever written."""

    def __init__(self, net: Network, node: NodeName) -> None:
        super().__init__()
        self.net = net
        self.node = node

    def saw_event(self, event: object) -> None:
        super().saw_event(event)
        if self.made:
            self.net.processes[self.node].running.engine.stop()


def proofs_in_store(net: Network, node: NodeName) -> int:
    with sqlite3.connect(f"file:{net.home / node / 'rota.db'}?mode=ro", uri=True) as database:
        (count,) = database.execute("SELECT COUNT(*) FROM proofs").fetchone()
    assert isinstance(count, int)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEDGERS)
@in_loop
async def test_node_that_dies_between_proof_and_round_does_not_prove_again(tmp_path: Path, kind: str) -> None:
    async with network(tmp_path, NODE1, NODE2, chain_settings=FREE) as net, aiohttp.ClientSession() as session:
        dying = net.watchers[NODE2] = StopsWhenProved(net, NODE2)
        prover = await begun(net)
        one, two = callers(session, net)
        contract = await token(one, kind)
        await registered(one, contract, kind, a_node1=one, b_node2=two)
        of_token = {"type": "private", "to": contract}
        await one.succeed(**of_token, from_="a@node1", function="mint", data={"mints": [pay("b@node2", 100)]})
        await until_balance(two, contract, "b@node2", 100)
        wanted = {**of_token, "from": "b@node2", "function": "transfer", "data": {"transfers": [pay("a@node1", 10)]}}
        sent = await two.call("ptx_sendTransaction", wanted)
        await net.until(lambda: dying.made)
        assert proofs_in_store(net, NODE2) == 1
        await net.kill(NODE2)
        assert len(prover.statements) == 1

        living = net.watchers[NODE2] = Proofs()
        await net.start(NODE2)
        two = callers(session, net)[1]
        assert (await two.receipt(sent))["success"]
        await until_balance(one, contract, "a@node1", 10)
        assert living.made[0] == dying.made[0]
        assert len(prover.statements) == 1, "what was proved is not proved again"
        while proofs_in_store(net, NODE2):
            await asyncio.sleep(LOOK_S)
