"""Every transaction ends, and says why: each kind of failure through real nodes, by its exact words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rota.domains.noto.operations import lock_id_of
from rota.domains.pente import Pente
from rota.domains.pente.domain import GAS_MAX
from rota.domains.pente.evm import Execution, Message
from rota.evm.private_evm import PrivateEvm
from rota.host import AnyDomain, load_domains
from rota.keys.node_keys import make_node_keys
from rota.ledger.bindings import separator_of
from rota.model.digests import keccak
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome
from rota.rpc import errors
from rota.server import process
from rota.service.interface import JsonValue
from rota.testing.workloads.pente import call_of
from tests.domains.pente.members import playground, token
from tests.domains.pente.test_network import created
from tests.domains.pente.test_transactions import DESTROYING
from tests.domains.test_noto_network import deployed
from tests.ledger.chains import in_loop
from tests.service.kit import CHAIN_ID, CHEAP, PASSWORD, Network, network

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
NO_LOCK = "0x" + "22" * 32


async def ending(nodes: Network, node: NodeName, intent: IntentId) -> str:
    """Why it failed, as its user reads it; `confirmed` when it did not."""
    receipt = await nodes.final(node, intent)
    told = await nodes.processes[node].facade.receipt(intent)
    assert told is not None
    assert told.success is (receipt.outcome is Outcome.CONFIRMED)
    return told.failure_message or "confirmed"


class Token:
    """A notary token on a network that runs."""

    def __init__(self, nodes: Network, contract: ContractAddress) -> None:
        self.nodes = nodes
        self.contract = contract

    async def send(self, node: NodeName, function: str, given: JsonValue, sender: str = "alice") -> IntentId:
        return await self.nodes.submit(node, self.contract, function, given, sender=sender)

    async def ends(self, node: NodeName, function: str, given: JsonValue, sender: str = "alice") -> str:
        return await ending(self.nodes, node, await self.send(node, function, given, sender))


@pytest.mark.slow
@in_loop
async def test_a_notary_tokens_transactions_end_with_their_reasons(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        token_ = Token(nodes, await deployed(nodes))
        assert await token_.ends(NODE1, "mint", ["alice@node2", 100, "0x"], "notary") == "confirmed"
        poor = "PD200005: Insufficient funds (available=100)"
        assert await token_.ends(NODE2, "transfer", ["bob@node3", 101, "0x"]) == poor
        assert await token_.ends(NODE2, "burn", [2**256 - 1, "0x"]) == poor

        # A lock that is not there, or is not the asker's; of another node's lock nobody here knows.
        missing = "PD200028: Lock ID not found"
        assert await token_.ends(NODE2, "spendLock", {"lockId": NO_LOCK}) == missing
        shares: JsonValue = [{"to": "bob@node3", "amount": 10}]
        made = await token_.send(NODE2, "createTransferLock", ["alice@node2", shares, "0x", "0x"])
        assert await ending(nodes, NODE2, made) == "confirmed"
        lock = "0x" + lock_id_of(separator_of(CHAIN_ID, token_.contract), made).hex()
        assert await token_.ends(NODE3, "spendLock", {"lockId": lock}, "bob") == missing
        assert await token_.ends(NODE2, "cancelLock", {"lockId": lock}, "mallory") == (
            "lockId: PD200031: Only the lock creator can perform unlock: expected=alice@node2 actual=mallory@node2"
        )
        over: JsonValue = {"lockId": lock, "from": "alice@node2", "recipients": [{"to": "bob@node3", "amount": 11}]}
        assert await token_.ends(NODE2, "unlock", over) == "PD200005: Insufficient funds (available=10)"

        # What cannot be is refused before it has an id.
        for function, given, words in (
            ("mint", ["bob@node3", 1, "0x"], "PD200009: Mint can only be initiated by notary: expected=notary@node1"),
            ("transfer", ["bob@node3", 0, "0x"], "data.amount: PD200008: Parameter 'amount' must be greater than 0"),
            ("transfer", ["bob@nowhere", 1, "0x"], "data: must name parties of registered nodes, and bob@nowhere is"),
            ("transfer", ["@", 1, "0x"], "data.to: must be a party such as alice@node1, not '@'"),
            ("transfer", ["bob@node3", 1, "0x" + "00" * 200_000], "data.data: must be 0x and pairs of hex digits"),
        ):
            with pytest.raises(errors.Rejected) as rejected:
                await token_.send(NODE2, function, given)  # type: ignore[arg-type]
            assert words in str(rejected.value)


@pytest.mark.slow
@in_loop
async def test_private_contracts_transactions_end_with_their_reasons(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        group = await created(nodes)
        place = await group.deploy(NODE1, playground(), 42)

        async def ends(function: str, *arguments: object, gas: int = 0) -> str:
            asked = call_of(place, playground(), function, *arguments, gas=gas)
            return await ending(nodes, NODE2, await group.send(NODE2, "invoke", asked))

        for function, arguments, reason in (
            ("failWithText", (), "no, never"),
            ("failWithError", (9,), 'Refused(9, "because")'),
            ("failWithPanic", (0,), "Panic(0x12): division by zero"),
            ("loopForever", (), f"out of gas: it needs more than {GAS_MAX}"),
            ("breakRule", (), "the EVM refuses it: InvalidFEOpcode"),
            ("shout", (256, 10), "it logs more than 255 events, or one of more than 131072 bytes"),
        ):
            assert await ends(function, *arguments) == reason
        assert await ends("store", 1, gas=22_000) == "out of gas: it needs more than 22000"

        # What destroys itself is still there, and the next transaction finds it.
        assert await ends("make", DESTROYING) == "confirmed"
        told = await group.ask(NODE2, place, playground(), "child")
        assert isinstance(told, Mapping)
        for _ in range(2):
            assert await ends("callIt", told["0"]) == "confirmed"

        # As much as an input may be, and more.
        assert await ends("take", "0x" + "01" * 130_000) == "confirmed"
        with pytest.raises(errors.Rejected) as rejected:
            await group.send(NODE2, "invoke", call_of(place, playground(), "take", "0x" + "01" * 131_073))
        assert "data.input: must be at most" in str(rejected.value)

        # A stranger asks, and somebody calls what is not there.
        with pytest.raises(errors.Rejected) as refused:
            await nodes.submit(NODE2, group.contract, "invoke", call_of(place, playground(), "store", 1), sender="bob")
        assert str(refused.value) == "from: must be a member of the group, and bob@node2 is none"
        nobody = "0x" + "ab" * 20
        intent = await group.send(NODE2, "invoke", call_of(nobody, playground(), "store", 1))
        assert await ending(nodes, NODE2, intent) == f"to: must be a contract of this group, and {nobody} is none"


class ContraryEvm(PrivateEvm):
    """Comes to something else than everybody: what is told of a mint is not what it does here."""

    def run(self, message: Message) -> Execution:
        told = super().run(message)
        return replace(told, logs=()) if message.input[:4] == MINT else told


MINT = keccak(b"mint(address,uint256)")[:4]


class ContraryPente(Pente):
    """Runs its code in the node: a worker process would know nothing of its EVM."""

    runs_code = False


@pytest.mark.slow
@in_loop
async def test_what_an_endorser_disagrees_with_ends_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contrary(settings: Mapping[str, Mapping[str, object]]) -> dict[str, AnyDomain]:
        return {**load_domains(settings), "pente": ContraryPente(ContraryEvm)}

    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(NODE1, NODE2)
        with monkeypatch.context() as patched:
            patched.setattr(process, "load_domains", contrary)
            await nodes.start(NODE3)
        group = await created(nodes)
        coins = await group.deploy(NODE1, token(), "Coin", "C")
        intent = await group.send(NODE1, "invoke", call_of(coins, token(), "mint", coins, 1))
        assert await ending(nodes, NODE1, intent) == "what it makes or tells is not what its message does"
        # The group goes on with what all agree on.
        approved = await group.invoke(NODE2, coins, token(), "approve", coins, 1)
        assert approved.outcome is Outcome.CONFIRMED, approved.reason


@pytest.mark.slow
@in_loop
async def test_what_bears_a_bad_signature_ends_with_that_reason(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        token_ = Token(nodes, await deployed(nodes))
        for sender in ("alice", "bob"):
            assert await token_.ends(NODE1, "mint", [f"{sender}@node2", 5, "0x"], "notary") == "confirmed"
        assert await token_.ends(NODE2, "transfer", ["bob@node3", 1, "0x"]) == "confirmed"
        # The node comes back with another wallet: the notary knows alice by the address that she had.
        await nodes.stop(NODE2)
        other = make_node_keys(tmp_path / "other", NODE2, PASSWORD, 0, cost=CHEAP).keys
        nodes.keys[NODE2] = replace(nodes.keys[NODE2], wallet=other.wallet, signer=other.signer)
        await nodes.start(NODE2)
        intent = await token_.send(NODE2, "transfer", ["bob@node3", 1, "0x"])
        reason = "the signature is not that of alice@node2"
        # It cannot be voided either, and ends when nothing that was ever signed is valid any more.
        cannot = f"(it cannot be voided: {reason})"
        while (told := await nodes.processes[NODE2].facade.explain(intent)) is None or cannot not in told.waits_for:
            await asyncio.sleep(0.005)
        assert (told.state, told.detail) == ("Ending", f"ending: {reason}")
        await nodes.client.call("evm_increaseTime", nodes.config.validity_s + 60)
        await nodes.client.call("evm_mine")
        assert await ending(nodes, NODE2, intent) == reason
