"""A registered node shows another one a contract of its own long after it was deployed: what that costs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota import host
from rota.calldata import encode_auth, encode_commit, encode_payload
from rota.keys.names import endorser_key
from rota.keys.secp256k1 import to_compact
from rota.ledger.bindings import deploy_endorsed, separator_of
from rota.ledger.hexadecimal import data
from rota.model.blocks import ChainBlock
from rota.model.digests import round_digest
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import AwaitedLeaf, ContractAddress, IntentId, Leaf, NodeName, Outcome, Party
from rota.ports import Unavailable
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, CHAIN_ID, Network, network, send

pytestmark = pytest.mark.slow

VICTIM, LIAR = NodeName("node1"), NodeName("node2")
LATER_S = 2**40


async def kept_back(nodes: Network, number: int) -> ContractAddress:
    """A token of the liar alone, deployed by hand and shown to no other node."""
    domain = host.load_domains()["synthetic"]
    arguments = {"members": [f"{ALICE}@{LIAR}"], "threshold": 1, "mode": "static"}
    wanted = host.deploy(domain, arguments, Party(f"{ALICE}@{LIAR}"))
    genesis = host.genesis_of(domain, wanted, host.ContractDefaults(CHAIN_ID), number.to_bytes(32, "big"))
    encoded, intent = encode_genesis(genesis), IntentId(number.to_bytes(16, "big"))
    signers = (await nodes.processes[LIAR].facade.endorser_address(intent),)
    call = deploy_endorsed(intent, genesis_hash(encoded), signers, 1)
    await send(nodes.client, {"to": nodes.factory, "data": data(call)})
    return await nodes.processes[LIAR].facade.take_in(encoded, intent)


async def commit_nothing(nodes: Network, contract: ContractAddress, number: int) -> None:
    """A round of a leaf that is not shown: the chain takes it, and it does nothing."""
    intent, leaves = IntentId(number.to_bytes(16, "big")), (Leaf(bytes(32)),)
    digest = round_digest(separator_of(CHAIN_ID, contract), leaves, LATER_S)
    key = endorser_key(LIAR, intent)
    signer = nodes.keys[LIAR].signer
    signature = to_compact(await signer.sign(key, digest))
    address = signer.address_of(key)
    auth = encode_auth((address,), {address: signature}, 1)
    await send(nodes.client, {"to": contract, "data": data(encode_commit(encode_payload(leaves, LATER_S), auth))})


def tell_of(nodes: Network, contract: ContractAddress) -> None:
    """A message of the liar names its contract: the victim asks it for the genesis."""
    running = nodes.processes[VICTIM].running
    running.engine.core.acquaintance.note_unknown(LIAR, contract)
    running.engine.outbox.put(running.engine.core._take_effects())


async def until_made_up(nodes: Network, contract: ContractAddress) -> None:
    """The victim has the contract, and has looked at its rounds on the chain."""
    running = nodes.processes[VICTIM].running
    await nodes.until(lambda: contract in running.contracts.addresses() and not running.arrears.is_behind(contract))


@in_loop
async def test_contract_whose_rounds_do_nothing_does_not_stop_a_node_that_learns_of_it(tmp_path: Path) -> None:
    async with network(tmp_path, VICTIM, LIAR) as nodes:
        await nodes.start(VICTIM, LIAR)
        await nodes.connected()
        contract = await kept_back(nodes, 1)
        await commit_nothing(nodes, contract, 1)
        running = nodes.processes[VICTIM].running
        tell_of(nodes, contract)
        await until_made_up(nodes, contract)
        assert running is nodes.processes[VICTIM].running
        own = await nodes.create((f"{ALICE}@{VICTIM}",), threshold=1)
        receipt = await nodes.final(VICTIM, await nodes.submit(VICTIM, own, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED


@in_loop
async def test_contract_that_a_peer_shows_late_neither_restarts_a_node_nor_winds_its_index_back(tmp_path: Path) -> None:
    async with network(tmp_path, VICTIM, LIAR) as nodes:
        await nodes.start(VICTIM, LIAR)
        await nodes.connected()
        contract = await kept_back(nodes, 1)
        receipt = await nodes.final(LIAR, await nodes.submit(LIAR, contract, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED
        own = await nodes.create((f"{ALICE}@{VICTIM}",), threshold=1)
        for _ in range(3):
            receipt = await nodes.final(VICTIM, await nodes.submit(VICTIM, own, "spend"))
            assert receipt.outcome is Outcome.CONFIRMED
        running = nodes.processes[VICTIM].running
        blocks = running.engine.core.index.above(-1)
        tell_of(nodes, contract)
        await until_made_up(nodes, contract)
        assert running is nodes.processes[VICTIM].running
        assert running.engine.core.index.above(-1)[: len(blocks)] == blocks
        ours, theirs = (nodes.processes[name].running.adapters.store for name in (VICTIM, LIAR))
        rounds = await theirs.heights_with_outcomes(contract, 0, blocks[-1].height)
        assert await ours.heights_with_outcomes(contract, 0, blocks[-1].height) == rounds != frozenset()


@in_loop
async def test_nothing_depends_on_a_leaf_of_a_contract_whose_earlier_rounds_are_not_there_yet(tmp_path: Path) -> None:
    """A leaf that is on the chain would be taken for one that was not committed in time."""
    async with network(tmp_path, VICTIM, LIAR) as nodes:
        await nodes.start(VICTIM, LIAR)
        await nodes.connected()
        contract = await kept_back(nodes, 1)
        intent = await nodes.submit(LIAR, contract, "spend")
        assert (await nodes.final(LIAR, intent)).outcome is Outcome.CONFIRMED
        outcomes = [
            each for block in nodes.processes[LIAR].running.engine.core.index.above(-1) for each in block.outcomes
        ]
        (leaf,) = (outcome.leaf for place, outcome in outcomes if (place, outcome.intent) == (contract, intent))
        own = await nodes.create((f"{ALICE}@{VICTIM}",), threshold=1)
        running, may_look = nodes.processes[VICTIM].running, asyncio.Event()
        look = running.arrears._rounds_of

        async def rounds_of(asked: ContractAddress, first: int, last: int) -> tuple[ChainBlock, ...]:
            await may_look.wait()
            return await look(asked, first, last)

        running.arrears._rounds_of = rounds_of  # type: ignore[misc]
        tell_of(nodes, contract)
        await nodes.until(lambda: contract in running.contracts.addresses())
        awaits = (AwaitedLeaf(contract, intent, leaf, valid_until_s=1),)
        with pytest.raises(Unavailable, match="has not looked through the earlier rounds"):
            await nodes.submit(VICTIM, own, "spend", awaits=awaits)
        may_look.set()
        await until_made_up(nodes, contract)
        dependent = await nodes.submit(VICTIM, own, "spend", awaits=awaits)
        assert (await nodes.final(VICTIM, dependent)).outcome is Outcome.CONFIRMED
