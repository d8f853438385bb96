"""Real processes, one of which lies over the real transport: what honest nodes report stays true (trust.md).

Each attack is played twice: against nodes as they are, and against nodes without the one defence that it is about, to
show that the attack is one and that the test would see it. Nothing waits for a clock: a test waits for a receipt, or
for what the liar notes that it did or heard.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from rota.client import Client, Transaction, TransactionReceipt
from rota.engine.held_states import state_pages
from rota.localnet.children import Child
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.model.config import Config
from rota.model.digests import state_commitment
from rota.model.types import INTENT_ID_USED, ContractAddress, IntentId, NodeName, State
from rota.store import DatabaseStore, SqliteDatabase
from tests import bounds
from tests.cluster.liar import LIE, NOTES, TRUTH
from tests.cluster.own_chain import Effect, read_chain, rpc

pytestmark = pytest.mark.slow

LIAR_PROGRAMME = str(Path(__file__).with_name("liar.py"))
LIAR, COORDINATOR, VICTIM = NodeName("node1"), NodeName("node2"), NodeName("node3")
NAMES = (LIAR, COORDINATOR, VICTIM)
VALIDITY_S = 60
LOOK_S = 0.05
WAIT_MS = bounds.WAIT_S * 1_000
SETTINGS: Mapping[str, int] = {"sequencer.validity_s": VALIDITY_S, "sequencer.id_used_grace_ms": 2_000}


class LyingNetwork(LocalNetwork):
    """A network some of whose nodes have a role of `liar`; the others are ordinary."""

    def __init__(self, plan: Plan, roles: Mapping[NodeName, str]) -> None:
        super().__init__(plan)
        self.roles = roles

    async def launch(self, node: LocalNode) -> tuple[Child, dict[str, object]]:
        if node.name not in self.roles:
            return await super().launch(node)
        command = (sys.executable, LIAR_PROGRAMME, self.roles[node.name], "node", str(node.folder))
        child = await self.children.start(node.name, (*command, "--json"), node.log)
        told: dict[str, object] = json.loads(await child.line_with('"rpc"'))
        return child, told

    def client(self, name: NodeName) -> Client:
        return self.nodes[name].client

    async def shared(self, coordinator: NodeName) -> ContractAddress:
        """A contract of all nodes, two of whom endorse, with this one to coordinate it."""
        members = [f"alice@{name}" for name in sorted(NAMES, key=lambda name: name != coordinator)]
        made = await self.create_contract("synthetic", {"members": members, "threshold": 2, "mode": "static"})
        return made.address

    def notes(self, what: str) -> list[dict[str, Any]]:
        """What the liar has noted of this."""
        file = self.nodes[LIAR].folder / NOTES
        lines = file.read_text().splitlines() if file.exists() else []
        notes = [json.loads(line) for line in lines]
        assert [note for note in notes if note["what"] == "failed"] == []
        return [note for note in notes if note["what"] == what]

    async def noted(self, what: str, count: int = 1) -> list[dict[str, Any]]:
        async with asyncio.timeout(WAIT_MS / 1_000):
            while len(found := self.notes(what)) < count:
                await asyncio.sleep(LOOK_S)
        return found

    async def at_the_head(self, contract: ContractAddress) -> None:
        """Until every node has seen the latest block."""
        async with asyncio.timeout(WAIT_MS / 1_000):
            head = int(await rpc(self.ledger.url, "eth_blockNumber"), 16)
            for name in NAMES:
                while (status := await self.client(name).status(contract)) is None or status.height < head:
                    await asyncio.sleep(LOOK_S)

    async def effects(self, contract: ContractAddress, intent: IntentId) -> list[Effect]:
        """What the chain has under an id."""
        chain = await read_chain(self.ledger.url, contract, NAMES)
        return [effect for effect in chain.effects if effect.transition.intent == intent]

    def lose_record_of(self, name: NodeName) -> None:
        """The database of a node that is down is wound back to before its parties signed anything."""
        with closing(sqlite3.connect(self.nodes[name].folder / "rota.db")) as database, database:
            for table in ("signed_leaves", "transitions", "states", "receipts_due"):
                database.execute(f"DELETE FROM {table}")

    async def held_by(self, name: NodeName, contract: ContractAddress) -> tuple[State, ...]:
        """All states that are on the disk of a node that has stopped."""
        database = SqliteDatabase(self.nodes[name].folder / "rota.db", name)
        store = DatabaseStore(database, name, Config(), lambda _: None)
        await store.start()
        try:
            pages = [states async for _, states in state_pages(store, contract)]
        finally:
            await store.close()
        return tuple(state for states in pages for state in states)


@asynccontextmanager
async def lying_network(home: Path, liar: str, credulous: str | None) -> AsyncIterator[LyingNetwork]:
    """The first node lies; without a defence, where one is named, all others are."""
    others = dict.fromkeys((COORDINATOR, VICTIM), credulous) if credulous is not None else {}
    plan = Plan(home=home / "network", names=NAMES, settings=SETTINGS)
    async with LyingNetwork(plan, {LIAR: liar, **others}) as network:
        await network.start(*NAMES)
        yield network


async def ended(transaction: Transaction) -> TransactionReceipt:
    return await transaction.ended(WAIT_MS)


# A used id.


async def steal_an_id(home: Path, coordinator: NodeName, credulous: str | None) -> bool:
    """A member uses the next id of another; whether the chain took it.

    If it did not, the other pays under that id, and its payment is confirmed by its own leaf and reaches the payee.
    """
    async with lying_network(home, "squatter", credulous) as network:
        contract = await network.shared(coordinator)
        victim = network.client(VICTIM)
        await (await victim.send(contract, "mint", sender="alice"))
        (stolen,) = await network.noted("stolen")
        if coordinator == LIAR:
            await (network.noted("refused", 2) if credulous is None else network.noted("committed"))
        else:
            theft = await network.client(LIAR).send(contract, "mint", sender="mallory")
            assert theft.intent.hex() == stolen["id"]
            await (network.noted("rejected") if credulous is None else theft)
        if await network.effects(contract, IntentId(bytes.fromhex(stolen["id"]))):
            return True
        payment = await victim.send(contract, "pay", {"to": f"bob@{COORDINATOR}"}, sender="alice")
        assert payment.intent.hex() == stolen["id"]
        await payment.confirmed(WAIT_MS)
        (effect,) = await network.effects(contract, payment.intent)
        assert all("not its party's" in note["reason"] for note in network.notes("refused"))
        assert {note["reason"] for note in network.notes("rejected")} <= {"NotAllowed"}
        await network.stop()
        held = {state.id: state for state in await network.held_by(COORDINATOR, contract)}
        coin, change = (held[state.id].content or b"" for state in effect.transition.outputs)
        assert f"bob@{COORDINATOR}".encode() in coin
        assert f"alice@{VICTIM}".encode() in change
        return False


@pytest.mark.parametrize("coordinator", [COORDINATOR, LIAR], ids=["honest coordinator", "lying coordinator"])
def test_another_members_id_cannot_be_used(tmp_path: Path, coordinator: NodeName) -> None:
    assert not asyncio.run(steal_an_id(tmp_path, coordinator, None))


@pytest.mark.nightly
@pytest.mark.parametrize("coordinator", [COORDINATOR, LIAR], ids=["honest coordinator", "lying coordinator"])
def test_without_the_page_nonce_another_members_id_is_used(tmp_path: Path, coordinator: NodeName) -> None:
    assert asyncio.run(steal_an_id(tmp_path, coordinator, "believes-any-id"))


async def usurp_an_id(home: Path, credulous: str | None) -> TransactionReceipt:
    """A notary commits something else under a member's id; what the member is told of its payment."""
    async with lying_network(home, "usurper", credulous) as network:
        made = await network.create_contract("noto", {"notary": f"bank@{LIAR}", "name": "Coin", "symbol": "C"})
        minted = await network.client(LIAR).send(
            made.address, "mint", {"to": f"alice@{VICTIM}", "amount": "100"}, sender="bank"
        )
        await minted
        ours = network.client(VICTIM).tokens.at(made.address)
        async with asyncio.timeout(WAIT_MS / 1_000):
            while (await ours.balance_of(f"alice@{VICTIM}", sender="alice")).total_balance != 100:
                await asyncio.sleep(LOOK_S)
        payment = await ours.transfer(f"bob@{COORDINATOR}", 40, sender="alice")
        (committed,) = await network.noted("committed")
        receipt = await ended(payment)
        (effect,) = await network.effects(made.address, payment.intent)
        assert effect.transition.leaf.hex() == committed["leaf"]
        assert (await ours.balance_of(f"alice@{VICTIM}", sender="alice")).total_balance == 100
        theirs = network.client(COORDINATOR).tokens.at(made.address)
        assert (await theirs.balance_of(f"bob@{COORDINATOR}", sender="bob")).total_balance == 0
        return receipt


def test_notary_that_uses_a_members_id_cannot_have_a_payment_reported_that_nobody_got(tmp_path: Path) -> None:
    receipt = asyncio.run(usurp_an_id(tmp_path, None))
    assert not receipt.success
    assert receipt.failure_message.startswith(INTENT_ID_USED)


@pytest.mark.nightly
def test_without_the_look_at_the_leaf_a_payment_is_reported_that_nobody_got(tmp_path: Path) -> None:
    assert asyncio.run(usurp_an_id(tmp_path, "believes-any-commit")).success


# A revived transition.


async def revive_a_transition(home: Path, credulous: str | None) -> int:
    """A coordinator has a cancelled transition endorsed after its bound; how many effects it had."""
    async with lying_network(home, "reviver", credulous) as network:
        contract = await network.shared(LIAR)
        payment = await network.client(VICTIM).send(contract, "pay", {"to": f"bob@{COORDINATOR}"}, sender="alice")
        (withheld,) = await network.noted("withheld")
        assert withheld["intent"] == payment.intent.hex()
        await payment.cancel()
        await rpc(network.ledger.url, "evm_increaseTime", 2 * VALIDITY_S)
        await rpc(network.ledger.url, "evm_mine")
        reported = await ended(payment)
        assert not reported.success
        # A node that has not seen the block may sign until the old bound, and the chain takes no such round.
        await network.at_the_head(contract)
        network.nodes[LIAR].child.signal(signal.SIGUSR1)
        if credulous is None:
            await network.noted("refused", 6)
            reasons = {note["reason"] for note in network.notes("refused")}
            assert f"the signature is not that of alice@{VICTIM}" in reasons
            assert await payment.receipt() == reported
        else:
            await network.noted("committed")
        return len(await network.effects(contract, payment.intent))


def test_transition_that_was_reported_as_reverted_is_never_committed(tmp_path: Path) -> None:
    assert asyncio.run(revive_a_transition(tmp_path, None)) == 0


@pytest.mark.nightly
def test_without_the_bound_in_the_signature_a_reverted_transition_is_committed(tmp_path: Path) -> None:
    assert asyncio.run(revive_a_transition(tmp_path, "believes-any-bound")) == 1


# A planted state.


async def plant_a_state(home: Path, credulous: str | None, has_record: bool = False) -> tuple[str, list[str], bool]:
    """A coordinator plants contents at a sender that restarted, and that has lost its record of what it signed or not.

    What the sender says of the state, what the liar was answered, and whether the chain has all that the sender holds.
    """
    async with lying_network(home, "planter", credulous) as network:
        contract = await network.shared(LIAR)
        wanted = {"data": f"0x{TRUTH.hex()}"}
        change = await network.client(VICTIM).send(contract, "spend", wanted, sender="alice")
        await network.noted("withheld")
        await network.nodes[VICTIM].kill()
        if not has_record:
            network.lose_record_of(VICTIM)
        await network.start(VICTIM)
        client = network.client(VICTIM)
        assert (await ended(client.transaction(change.id))).success
        value = await client.call(contract, "value", {}, sender="alice")
        (effect,) = await network.effects(contract, change.intent)
        answers = [note["answer"] for note in network.notes("answered")]
        await network.stop()
        committed = {state.id: state.commitment for state in effect.transition.outputs}
        held = [state for state in await network.held_by(VICTIM, contract) if state.content is not None]
        is_true = all(committed[state.id] == state_commitment(state.content or b"") for state in held)
        assert held
        return value["data"], answers, is_true


def test_sender_that_has_its_record_needs_nobodys_contents(tmp_path: Path) -> None:
    value, answers, is_true = asyncio.run(plant_a_state(tmp_path, None, has_record=True))
    assert value == f"0x{TRUTH.hex()}"
    assert answers == ["permitted"]
    assert is_true


def test_content_that_is_not_the_leafs_is_not_stored(tmp_path: Path) -> None:
    value, answers, is_true = asyncio.run(plant_a_state(tmp_path, None))
    assert value == f"0x{TRUTH.hex()}"
    assert answers == ["StatesMissing", "StatesMissing"]
    assert is_true


@pytest.mark.nightly
def test_without_the_look_at_the_contents_a_false_state_is_confirmed(tmp_path: Path) -> None:
    value, answers, is_true = asyncio.run(plant_a_state(tmp_path, "believes-any-content"))
    assert value == f"0x{LIE.hex()}"
    assert answers[0] == "permitted"
    assert not is_true
