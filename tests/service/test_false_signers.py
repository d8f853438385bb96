"""The deployer of a contract names its endorsers, and brings the addresses that the chain takes for theirs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from rota import host
from rota.calldata import encode_auth, encode_commit, encode_payload
from rota.keys.names import endorser_key
from rota.keys.secp256k1 import to_compact
from rota.ledger.bindings import deploy_endorsed, separator_of
from rota.ledger.hexadecimal import data
from rota.model.digests import leaf_of_transition, round_digest, state_commitment
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import ContractAddress, IntentId, Leaf, NodeName, Party, State, StateId, Transition
from rota.ports import Unavailable
from rota.wire.messages import StateDistribution
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, CHAIN_ID, Network, network, send

pytestmark = pytest.mark.slow

VICTIM, BANK, LIAR = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
ID = IntentId(b"deployment 1....")
KEY = endorser_key(LIAR, ID)
VALID_S = 120


async def deployed(
    nodes: Network, arguments: dict[str, object], signers: tuple[ContractAddress, ...]
) -> ContractAddress:
    """A contract with these addresses for its endorsers, of which the liar has told the victim."""
    domain = host.load_domains()["synthetic"]
    wanted = host.deploy(domain, arguments, Party(f"{ALICE}@{BANK}"))
    genesis = host.genesis_of(domain, wanted, host.ContractDefaults(CHAIN_ID), bytes(32))
    encoded = encode_genesis(genesis)
    call = deploy_endorsed(ID, genesis_hash(encoded), signers, genesis.threshold)
    await send(nodes.client, {"to": nodes.factory, "data": data(call)})
    contract = await nodes.processes[LIAR].facade.take_in(encoded, ID)
    running = nodes.processes[VICTIM].running
    running.engine.core.acquaintance.note_unknown(LIAR, contract)
    running.engine.outbox.put(running.engine.core._take_effects())
    await nodes.until(lambda: contract in running.contracts.addresses())
    return contract


async def pay(nodes: Network, contract: ContractAddress) -> None:
    """The liar mints by its own signature, and sends the victim the state."""
    separator, content, later_s = separator_of(CHAIN_ID, contract), b"a coin", int(time.time()) + VALID_S
    state = State(StateId(Leaf(bytes(32)), 0), state_commitment(content), (VICTIM,), content)
    made = Transition(IntentId(bytes(16)), Leaf(bytes(32)), (), (), (state,), valid_until_s=later_s)
    leaf = leaf_of_transition(separator, made)
    made = replace(made, leaf=leaf, outputs=(replace(state, id=StateId(leaf, 0)),))
    digest = round_digest(separator, (leaf,), later_s)
    signer = nodes.keys[LIAR].signer
    address, signature = signer.address_of(KEY), to_compact(await signer.sign(KEY, digest))
    call = encode_commit(encode_payload((made,), later_s), encode_auth((address,), {address: signature}, 1))
    await send(nodes.client, {"to": contract, "data": data(call)})
    running = nodes.processes[LIAR].running
    running.engine.core.send(VICTIM, contract, StateDistribution(digest, (made,)))
    running.engine.outbox.put(running.engine.core._take_effects())


@in_loop
async def test_token_in_the_name_of_a_bank_that_did_not_agree_to_it_is_held_by_no_other_node(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        await nodes.connected()
        token: dict[str, object] = {"members": [f"{ALICE}@{BANK}"], "threshold": 1, "mode": "static"}
        contract = await deployed(nodes, token, (nodes.keys[LIAR].signer.address_of(KEY),))
        await pay(nodes, contract)
        with pytest.raises(Unavailable, match=f"names {BANK} as endorsers, which have not confirmed"):
            await nodes.submit(VICTIM, contract, "spend")
        store = nodes.processes[VICTIM].running.adapters.store
        assert (await store.unspent_states(contract)).states == ()


@in_loop
async def test_member_does_not_act_in_a_group_in_which_a_liar_has_the_address_of_another_member(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        await nodes.connected()
        group: dict[str, object] = {"members": [f"{ALICE}@{name}" for name in ALL], "threshold": 2}
        liar, victim = nodes.keys[LIAR].signer, nodes.keys[VICTIM].signer
        own = victim.address_of(endorser_key(VICTIM, ID))
        signers = (own, liar.address_of(endorser_key(LIAR, IntentId(bytes(16)))), liar.address_of(KEY))
        contract = await deployed(nodes, group, signers)
        with pytest.raises(Unavailable, match=f"names {BANK} as endorsers, which have not confirmed"):
            await nodes.submit(VICTIM, contract, "spend")
        assert contract not in nodes.processes[VICTIM].running.engine.core.sequencers.loaded
