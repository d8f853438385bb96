"""The contracts as Python sees them: deployments, the registry, rounds in logs, and why a call was reverted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from eth_abi.abi import encode

from rota.calldata import encode_auth, encode_commit, encode_payload
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.bindings import (
    RegisteredNode,
    deploy_endorsed,
    encode_call,
    look_up_node,
    outcomes_of,
    read_deployment,
    read_node,
    revert_text,
)
from rota.ledger.hexadecimal import data, read_data
from rota.ledger.reading import Log, read_log, read_receipt
from rota.model.blocks import LedgerOutcome, LedgerStatus, Outcomes
from rota.model.digests import core_of, domain_separator, leaf_of, round_digest, state_commitment
from rota.model.types import BlockHash, ContractAddress, Leaf, NodeName, State, StateId, Transition
from rota.sim.domain import intent_id
from tests.ledger.chains import CHAIN_ID, Chain, RpcRejected, in_loop, running
from tests.ledger.participant import DEPLOYER, ENDORSER, ENDORSER_KEY, deploy, deploy_contract, send

KINDS = ("embedded", pytest.param("anvil", marks=pytest.mark.slow))
VALID_UNTIL_S = 4_000_000_000


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_deployment_is_told_with_its_policy_and_its_id_is_used_once(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        factory = await deploy_contract(chain, "Factory")
        other = ContractAddress("0x" + PrivateKey(bytes(31) + b"\x09").address.hex())
        genesis = b"\x07" * 32
        call = deploy_endorsed(intent_id("new"), genesis, (ENDORSER, other), 2)
        deployment = read_deployment((await send(chain, {"to": factory, "data": data(call)})).logs[0])
        assert (deployment.intent, deployment.genesis) == (intent_id("new"), genesis)
        assert (deployment.endorsers, deployment.threshold) == ((ENDORSER, other), 2)
        assert await chain.rpc("eth_getCode", deployment.contract, "latest") != "0x"
        with pytest.raises(RpcRejected):
            await chain.rpc("eth_call", {"from": DEPLOYER, "to": factory, "data": data(call)}, "latest")


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_registry_tells_of_a_node_that_is_registered(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        registry = await deploy_contract(chain, "Registry")
        assert read_node(await ask(chain, registry, look_up_node("node1"))) is None
        current, following = b"\x01" * 32, b"\x02" * 32
        for call in (
            encode_call("Registry", "register", "node1", current, "node1.example:7000"),
            encode_call("Registry", "announce", "node1", following),
        ):
            await send(chain, {"to": registry, "data": data(call)})
        owner = ContractAddress(DEPLOYER)
        assert read_node(await ask(chain, registry, look_up_node("node1"))) == RegisteredNode(
            owner, current, following, "node1.example:7000"
        )


async def ask(chain: Chain, contract: ContractAddress, call: bytes) -> bytes:
    return read_data(await chain.rpc("eth_call", {"to": contract, "data": data(call)}, "latest"))


@pytest.mark.parametrize("answer", [b"", b"\x01", bytes(31), bytes(32), b"\xff" * 200])
def test_answer_that_is_no_node_is_refused(answer: bytes) -> None:
    with pytest.raises(ValueError, match=r"Registry\.nodeOf: the answer is not"):
        read_node(answer)


def transition(contract: ContractAddress, name: str, *inputs: StateId) -> Transition:
    commitment = state_commitment(name.encode())
    separator = domain_separator(CHAIN_ID, contract)
    leaf = leaf_of(core_of(separator, intent_id(name), inputs=inputs, outputs=(commitment,)))
    made = State(StateId(leaf, 0), commitment, (NodeName("alone"),), b"")
    return Transition(intent_id(name), leaf, inputs, outputs=(made,), valid_until_s=VALID_UNTIL_S)


def commit(contract: ContractAddress, *transitions: Transition) -> bytes:
    leaves = tuple(each.leaf for each in transitions)
    digest = round_digest(domain_separator(CHAIN_ID, contract), leaves, VALID_UNTIL_S)
    auth = encode_auth((ENDORSER,), {ENDORSER: ENDORSER_KEY.sign_compact(digest)}, 1)
    return encode_commit(encode_payload(transitions, VALID_UNTIL_S), auth)


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_skip_is_told_with_its_reason_and_what_is_committed_beside_it(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = (await deploy(chain)).address
        missing = StateId(Leaf(b"\x05" * 32), 0)
        good, lost = transition(contract, "good"), transition(contract, "lost", missing)
        spender = transition(contract, "spender", StateId(good.leaf, 0))
        leaves = tuple(each.leaf for each in (good, lost, spender))
        digest = round_digest(domain_separator(CHAIN_ID, contract), leaves, VALID_UNTIL_S)
        first = await send(chain, {"to": contract, "data": data(commit(contract, good, lost, spender))})
        again = await send(chain, {"to": contract, "data": data(commit(contract, good, lost, spender))})
        absent = LedgerOutcome(
            lost.intent, lost.leaf, digest, LedgerStatus.SKIPPED, "an input is not available", is_contention=True
        )
        found = outcomes_of(first.logs, CHAIN_ID).outcomes
        assert {outcome.transaction for _, outcome in found} == {first.logs[0].transaction_hash}
        assert without_transaction(found) == (
            (contract, LedgerOutcome(good.intent, good.leaf, digest, LedgerStatus.COMMITTED)),
            (contract, absent),
            (
                contract,
                LedgerOutcome(spender.intent, spender.leaf, digest, LedgerStatus.COMMITTED, inputs=spender.inputs),
            ),
        )
        assert without_transaction(outcomes_of(again.logs, CHAIN_ID).outcomes) == (
            (
                contract,
                LedgerOutcome(good.intent, good.leaf, digest, LedgerStatus.SKIPPED, "intent used", is_contention=True),
            ),
            (contract, absent),
            (
                contract,
                LedgerOutcome(
                    spender.intent, spender.leaf, digest, LedgerStatus.SKIPPED, "intent used", is_contention=True
                ),
            ),
        )


def without_transaction(outcomes: Outcomes) -> Outcomes:
    return tuple((contract, replace(outcome, transaction=b"")) for contract, outcome in outcomes)


@in_loop
async def test_log_that_no_ledger_of_ours_wrote_is_unreadable_and_other_logs_are_left_out(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain:
        contract = (await deploy(chain)).address
        receipt = await send(chain, {"to": contract, "data": data(commit(contract, transition(contract, "good")))})
        (log,) = receipt.logs
        spoilt = replace(log, data=log.data[:-32])
        assert outcomes_of((spoilt,), CHAIN_ID).outcomes == ()
        ((contract, reason),) = outcomes_of((spoilt,), CHAIN_ID).unreadable
        assert contract == spoilt.address
        assert reason.startswith(f"log 0 of block {log.height}, {contract}: payload: ends after")
        assert outcomes_of((replace(log, topics=()), replace(log, topics=(bytes(32),))), CHAIN_ID).outcomes == ()


def test_log_of_another_event_is_no_deployment() -> None:
    log = Log(ENDORSER, (bytes(32),), b"", 1, BlockHash(bytes(32)), bytes(32), 0)
    with pytest.raises(ValueError, match="topics: not those of an EndorsedDeployed"):
        read_deployment(log)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (bytes.fromhex("08c379a0") + encode(["string"], ["no"]), "no"),
        (bytes.fromhex("4e487b71") + encode(["uint256"], [0x11]), "panic 0x11"),
        (b"", "no reason given"),
        (bytes.fromhex("01020304"), "0x01020304"),
        (bytes.fromhex("08c379a0"), "0x08c379a0"),
    ],
)
def test_reason_of_a_revert_is_shown(output: bytes, text: str) -> None:
    assert revert_text(output) == text


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_error_of_a_contract_is_shown_by_name_with_its_arguments(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = (await deploy(chain)).address
        payload = encode_payload((transition(contract, "good"),), 1)
        wanted = {"from": DEPLOYER, "to": contract, "data": data(encode_commit(payload, bytes(4)))}
        with pytest.raises(RpcRejected) as rejected:
            await chain.rpc("eth_call", wanted, "latest")
        assert revert_text(read_data(rejected.value.data)).startswith("Expired(validUntil 1, ")


LOG = {
    "address": "0x" + "11" * 20,
    "topics": ["0x" + "22" * 32],
    "data": "0x",
    "blockNumber": "0x1",
    "blockHash": "0x" + "33" * 32,
    "transactionHash": "0x" + "44" * 32,
    "logIndex": "0x0",
}


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"address": "0x11"}, "address: expected 20 bytes, not 1"),
        ({"address": None}, "address: expected 20 bytes as a string"),
        ({"topics": None}, "topics: must be a list of at most 4"),
        ({"topics": ["0x" + "22" * 32] * 5}, "topics: must be a list of at most 4"),
        ({"data": "0x1"}, "data: expected bytes"),
        ({"blockNumber": None}, "blockNumber: expected a quantity"),
        ({"blockHash": "0x"}, "blockHash: expected 32 bytes, not 0"),
        ({"logIndex": "0x01"}, "logIndex: expected 0x and hex digits without leading zeros"),
        ({"removed": True}, "removed: a reorganisation took the log back"),
    ],
)
def test_log_that_is_not_as_it_should_be_is_refused_by_field(change: dict[str, object], flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw):
        read_log(LOG | change)


def test_what_a_node_does_not_have_is_read_as_nothing() -> None:
    assert read_receipt(None) is None
