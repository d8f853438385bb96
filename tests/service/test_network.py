"""Real nodes in one process: transactions end once, nodes come and go, and everybody holds what is theirs."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
import structlog

from rota.keys import secp256k1
from rota.ledger import follower
from rota.ledger.embedded.chain import EmbeddedChain
from rota.ledger.embedded.server import ChainServer
from rota.ledger.embedded.settings import Settings
from rota.model.config import Config
from rota.model.types import ContractAddress, NodeName, Outcome
from rota.ports import Unavailable
from rota.rpc.errors import ErrorCode, Rejected
from rota.server import observability
from rota.service.interface import Submission, TransactionType
from rota.wire.messages import CoordinatorState
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, CHAIN_ID, Network, network, send

pytestmark = pytest.mark.slow

NOBODY = "0x" + "ab" * 20
NODE1, NODE2, NODE3 = map(NodeName, ("node1", "node2", "node3"))
ALL = (NODE1, NODE2, NODE3)
MEMBERS = tuple(f"{ALICE}@{name}" for name in ALL)


def coordinator(nodes: Network, contract: ContractAddress) -> NodeName | None:
    """Who is active, by its own word."""
    for name in nodes.lives:
        sequencer = nodes.processes[name].running.engine.core.sequencers.loaded.get(contract)
        if sequencer is not None and sequencer.coordinator.state is CoordinatorState.ACTIVE:
            return name
    return None


@in_loop
async def test_transactions_of_all_nodes_on_one_shared_state_are_confirmed(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create(MEMBERS, threshold=2)
        intents = [(name, await nodes.submit(name, contract, "spend")) for _ in range(4) for name in ALL]
        receipts = [await nodes.final(name, intent) for name, intent in intents]
        assert [receipt.outcome for receipt in receipts] == [Outcome.CONFIRMED] * len(intents)
        for name, intent in intents:
            shown = await nodes.processes[name].facade.receipt(intent)
            assert shown is not None
            assert shown.success
            assert shown.block_number is not None
        figures = [nodes.processes[name].facade.measurements() for name in ALL]
        dispatched = sum(each.rounds_dispatched_total or 0 for each in figures)
        assert 1 <= dispatched <= sum(each.submissions_total or 0 for each in figures)
        while any(nodes.processes[name].facade.measurements().deliveries_open for name in ALL):
            await asyncio.sleep(0.01)


@in_loop
async def test_network_goes_on_when_its_coordinator_is_gone_and_when_it_comes_back(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create(MEMBERS, threshold=2)
        await nodes.final(NODE1, await nodes.submit(NODE1, contract, "spend"))
        gone = coordinator(nodes, contract)
        assert gone is not None
        pending = await nodes.submit(gone, contract, "spend")
        await nodes.kill(gone)
        other = next(name for name in ALL if name != gone)
        receipt = await nodes.final(other, await nodes.submit(other, contract, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED
        await nodes.start(gone)
        facade = nodes.processes[gone].facade
        while await facade.receipt(pending) is None:
            await asyncio.sleep(0.01)
        shown = await facade.receipt(pending)
        assert shown is not None
        assert shown.success


@in_loop
async def test_coordinator_that_is_asked_to_stop_hands_over_first(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create(MEMBERS, threshold=2)
        await nodes.final(NODE1, await nodes.submit(NODE1, contract, "spend"))
        leaving = coordinator(nodes, contract)
        assert leaving is not None
        running = nodes.processes[leaving].running
        await nodes.stop(leaving)
        assert not running.engine.outbox
        other = next(name for name in ALL if name != leaving)
        receipt = await nodes.final(other, await nodes.submit(other, contract, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED


@in_loop
async def test_wrong_requests_are_refused_with_the_field_and_what_would_be_right(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create(MEMBERS)
        wrong: list[tuple[str, object, dict[str, object], str]] = [
            ("fly", None, {}, "function"),
            ("spend", {"names": 7}, {}, "data.names"),
            ("spend", None, {"sender": "bob@node9"}, "from"),
            ("spend", None, {"to": ContractAddress("0x" + "99" * 20)}, "to"),
            ("spend", None, {"to": None}, "domain"),
            ("spend", None, {"domain": "noto"}, "domain"),
        ]
        for function, arguments, more, field in wrong:
            with pytest.raises(Rejected) as caught:
                await nodes.submit(NODE1, contract, function, arguments, **more)
            assert caught.value.field == field
        first = await nodes.submit(NODE1, contract, "mint", idempotency_key="once")
        with pytest.raises(Rejected, match="PD012220") as caught:
            await nodes.submit(NODE1, contract, "mint", idempotency_key="once")
        assert caught.value.code is ErrorCode.KEY_USED
        await nodes.final(NODE1, first)


@in_loop
async def test_intent_that_its_domain_reverts_has_a_receipt_with_the_reason(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await nodes.create(MEMBERS)
        receipt = await nodes.final(NODE2, await nodes.submit(NODE2, contract, "revert", {"reason": "no funds"}))
        assert receipt.outcome is Outcome.REVERTED
        assert "no funds" in receipt.reason


@in_loop
async def test_new_node_waits_for_its_chain_and_says_so(tmp_path: Path) -> None:
    """It cannot know yet how many confirmations make a block final."""
    async with network(tmp_path, *ALL) as nodes:
        await nodes.chain.stop()
        life = asyncio.create_task(nodes.start(NODE1))
        await nodes.until(lambda: NODE1 in nodes.processes)
        facade = nodes.processes[NODE1].facade
        await nodes.until(lambda: facade.readiness()[0].startswith("the ledger: "))
        assert not nodes.processes[NODE1].running.started.is_set()
        life.cancel()


@in_loop
async def test_node_whose_chain_is_away_says_so_and_takes_nothing(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(NODE1)
        await nodes.stop(NODE1)
        await nodes.chain.stop()
        before = nodes.processes[NODE1]
        life = asyncio.create_task(nodes.start(NODE1))
        await nodes.until(lambda: nodes.processes[NODE1] is not before)
        await nodes.until(nodes.processes[NODE1].running.started.is_set)
        missing = nodes.processes[NODE1].facade.readiness()
        assert any(each.startswith("the ledger: ") for each in missing)
        with pytest.raises(Unavailable, match="not ready"):
            await nodes.submit(NODE1, ContractAddress("0x" + "11" * 20), "spend")
        life.cancel()


@pytest.mark.slow
@in_loop
async def test_node_whose_disk_is_full_names_the_disk_and_not_the_ledger(tmp_path: Path) -> None:
    place = tmp_path / NODE1
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={16 << 20}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system can only be mounted by root here")
    try:
        async with network(tmp_path, *ALL, config=Config(ledger_grace_ms=300)) as nodes:
            await nodes.start(NODE1)
            contract = await nodes.create(MEMBERS[:1], mode="static")
            question = Submission(TransactionType.PRIVATE, ALICE, to=contract, function="balance")
            filler = place / "filler"
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(1 << 12))
            facade, index = nodes.processes[NODE1].facade, nodes.processes[NODE1].running.engine.core.index

            async def mine() -> None:
                while not (index.is_lost and facade.readiness()):
                    await send(nodes.client, {"to": NOBODY, "value": "0x1"})

            await mine()
            missing = facade.readiness()
            assert any(each.startswith("the store: ") and "full" in each for each in missing), missing
            assert not any(each.startswith("the ledger: ") for each in missing), missing
            # What it holds is of a chain that it no longer follows.
            with pytest.raises(Unavailable, match=r"node1 does not follow the chain: the store: .*full"):
                await facade.following.call(question, "latest", "")
            filler.unlink()
            await nodes.until(lambda: not facade.readiness())
            with pytest.raises(Rejected, match="must be one of value"):
                await facade.following.call(question, "latest", "")
    finally:
        subprocess.run(["umount", str(place)], check=True)


@in_loop
async def test_node_whose_chain_was_replaced_does_not_start_and_names_both(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        known = await nodes.processes[NODE1].running.adapters.store.chain()
        await nodes.stop(NODE1)
        await nodes.chain.stop()
        nodes.chain = ChainServer(EmbeddedChain(Settings(chain_id=CHAIN_ID, clock_s=lambda: 1), secp256k1))
        await nodes.chain.start()
        before = nodes.processes[NODE1]
        life = asyncio.create_task(nodes.start(NODE1))
        await nodes.until(lambda: nodes.processes[NODE1] is not before)
        facade = nodes.processes[NODE1].facade
        await nodes.until(lambda: "is on another chain: its block 0 is" in facade.readiness()[0])
        assert known.genesis is not None
        assert f"that of this node's database is 0x{known.genesis.hex()}" in facade.readiness()[0]
        assert not nodes.processes[NODE1].running.started.is_set()
        life.cancel()
        await nodes.chain.stop()


@pytest.mark.parametrize("blocks", [0, 50], ids=["shorter", "longer"])
@in_loop
async def test_node_whose_chain_is_replaced_while_it_runs_names_both_and_follows_it_no_more(
    tmp_path: Path, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "GENESIS_LOOK_S", 0.0)
    monkeypatch.setattr(observability, "READINESS_LOOK_S", 0.01)
    async with AsyncExitStack() as stack, network(tmp_path, NODE1) as nodes:
        logs = stack.enter_context(structlog.testing.capture_logs())
        await nodes.start(NODE1)
        process = nodes.processes[NODE1]
        store, index = process.running.adapters.store, process.running.engine.core.index
        known, port = await store.chain(), nodes.chain.port
        await nodes.until(lambda: index.height > 0)
        height = index.height
        await nodes.chain.stop()
        other = EmbeddedChain(Settings(chain_id=CHAIN_ID, clock_s=lambda: 1), secp256k1)
        other.mine(blocks)
        nodes.chain = ChainServer(other)
        stack.push_async_callback(nodes.chain.stop)
        await nodes.chain.start(port=port)
        await nodes.until(lambda: "is on another chain: its block 0 is" in "".join(process.facade.readiness()))
        assert known.genesis is not None
        assert f"that of this node's database is 0x{known.genesis.hex()}" in "".join(process.facade.readiness())
        assert index.height == height
        assert not index.is_forked
        await nodes.until(
            lambda: any(
                "is on another chain" in str(each.get("missing")) for each in logs if each["event"] == "node.not_ready"
            )
        )


@in_loop
async def test_node_on_an_old_copy_of_its_database_is_later_than_all_that_peers_have_seen(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2) as nodes:
        await nodes.start(NODE1, NODE2)
        contract = await nodes.create(MEMBERS[:1], mode="static")
        await nodes.stop(NODE1)
        database = nodes.home / NODE1 / "rota.db"
        copy = database.read_bytes()
        lives = []
        for _ in range(3):
            await nodes.start(NODE1)
            await nodes.connected()
            lives.append(nodes.processes[NODE1].running.engine.core.incarnation)
            # It sends a round each time, with a nonce that the copy does not know to be used.
            intent = await nodes.submit(NODE1, contract, "spend")
            assert (await nodes.final(NODE1, intent)).outcome is Outcome.CONFIRMED
            await nodes.stop(NODE1)
            # A database that was stopped in good order is one file.
            assert not database.with_name("rota.db-wal").exists()
            database.write_bytes(copy)
        assert lives == sorted(set(lives))


@in_loop
async def test_party_that_pays_itself_without_end_is_paid_for_up_to_its_gas_of_the_hour(tmp_path: Path) -> None:
    config = Config(sender_gas_max=1)
    async with network(tmp_path, *ALL, config=config) as nodes:
        await nodes.start(*ALL)
        token = {"name": "Coin", "symbol": "COIN", "notary": f"notary@{NODE1}", "notaryMode": "basic"}
        contract = (await nodes.final(NODE1, await nodes.deploy(NODE1, "noto", token))).contract
        assert contract is not None

        def coin(node: NodeName) -> dict[str, object]:
            return {"to": f"{ALICE}@{node}", "amount": 1, "data": "0x"}

        for node in (NODE2, NODE3):
            minted = await nodes.submit(NODE1, contract, "mint", coin(node), sender="notary")
            await nodes.final(NODE1, minted)
            while nodes.processes[node].running.contracts.known(contract) is None:
                await asyncio.sleep(0.01)
        first = await nodes.final(NODE2, await nodes.submit(NODE2, contract, "transfer", coin(NODE2)))
        assert first.outcome is Outcome.CONFIRMED
        second = await nodes.submit(NODE2, contract, "transfer", coin(NODE2))
        other = await nodes.final(NODE3, await nodes.submit(NODE3, contract, "transfer", coin(NODE3)))
        assert other.outcome is Outcome.CONFIRMED, "another sender has gas of its own"
        own = await nodes.submit(NODE1, contract, "mint", coin(NODE1), sender="notary")
        assert (await nodes.final(NODE1, own)).outcome is Outcome.CONFIRMED, "the payer's own are not counted"
        assert await nodes.processes[NODE2].facade.receipt(second) is None
        sequencer = nodes.processes[NODE1].running.engine.core.sequencers.loaded[contract]
        assert sequencer.coordinator.gas.is_used_up(NODE2)
