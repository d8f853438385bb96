"""What a node makes of contracts that are proposed to it, and how its calls of the factory go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rota import host
from rota.directory.deployment_events import FactoryCalled, FactoryRefused, ProposalJudged
from rota.directory.effects import CallFactory, JudgeProposal
from rota.engine import contracts as contracts_module
from rota.engine.contracts import KnownContracts
from rota.keys.mnemonics import new_phrase
from rota.keys.names import endorser_key
from rota.keys.signers import WalletSigner
from rota.keys.wallet import Wallet
from rota.ledger.account import Account, AccountLimits
from rota.ledger.client import ClientLimits, RpcClient
from rota.machine.tables import Event
from rota.model.genesis import Genesis, encode_genesis
from rota.model.types import ContractAddress, NodeName, Party, RequestId
from rota.ports import UnknownKey
from rota.service.contracts.deploying import Deploying
from rota.sim.domain import intent_id
from rota.wire.messages import Verdict
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.participant import ENDORSER, PAYER, OneKey, deploy_contract

NODE, PEER = NodeName("node1"), NodeName("node2")
ID = intent_id("deploy")
OTHER = ContractAddress("0x" + "99" * 20)
SIGNER = WalletSigner(Wallet(new_phrase()))
OURS = SIGNER.address_of(endorser_key(NODE, ID))


class NoKeys:
    """A signer whose keys are away."""

    def address_of(self, signer: str) -> ContractAddress:
        raise UnknownKey(f"{signer} is not here")

    async def sign(self, signer: str, digest: bytes) -> bytes:
        raise UnknownKey(f"{signer} is not here")


@dataclass
class Made:
    """One node's judgement and its calls, and what it has told."""

    deploying: Deploying
    chain: Chain
    told: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)


@asynccontextmanager
async def deploying_on(home: Path, factory: ContractAddress | None = None) -> AsyncIterator[Made]:
    """On a chain of its own; with no factory named, one that is there."""
    async with running("embedded", home) as chain:
        client = RpcClient(chain.url, ClientLimits(backoff_ms=1, backoff_max_ms=5))
        told: asyncio.Queue[Event] = asyncio.Queue()
        account = Account(client, CHAIN_ID, OneKey(), "registrar", AccountLimits(look_ms=1))
        found = factory or await deploy_contract(chain, "Factory")
        made = Deploying(NODE, contracts(), SIGNER, account, found, told.put_nowait)
        try:
            yield Made(made, chain, told)
        finally:
            await made.close()
            await client.close()


def contracts() -> KnownContracts:
    return KnownContracts(NODE, CHAIN_ID, host.load_domains(), bytes(32))


def genesis(*nodes: str, mode: str = "ring") -> Genesis:
    domain = host.load_domains()["synthetic"]
    arguments = {"members": [f"alice@{node}" for node in nodes], "mode": mode}
    wanted = host.deploy(domain, arguments, Party("alice@node2"))
    return host.genesis_of(domain, wanted, host.ContractDefaults(CHAIN_ID), bytes(32))


def judged(
    wanted: Genesis, signers: tuple[ContractAddress, ...] = (), peer: NodeName = PEER, factory: ContractAddress = OTHER
) -> ProposalJudged:
    told: list[Event] = []
    # Nothing is asked of the chain.
    account = Account(RpcClient("http://127.0.0.1:1", ClientLimits()), CHAIN_ID, OneKey(), "registrar")
    deploying = Deploying(NODE, contracts(), SIGNER, account, OTHER, told.append)
    deploying.perform(JudgeProposal(peer, RequestId(1, 1), ID, encode_genesis(wanted), factory, signers))
    (event,) = told
    assert isinstance(event, ProposalJudged)
    return event


# Proposals.


@in_loop
async def test_endorser_says_with_which_address_it_signs_and_others_have_none() -> None:
    assert judged(genesis("node1", "node2")) == ProposalJudged(PEER, RequestId(1, 1), ID, Verdict.ACCEPTED, OURS)
    assert judged(genesis("node2", mode="static")).endorser is None
    # Who deploys a group has it, also when it has no part in it.
    assert judged(genesis("node2"), peer=NODE).verdict is Verdict.ACCEPTED


@in_loop
async def test_what_cannot_be_had_is_refused_with_the_reason() -> None:
    group = genesis("node1", "node2")
    cases = [
        (judged(genesis("node2", "node3")), "genesis: node1 has no part in it"),
        (judged(replace(group, domain="nothing")), "genesis: domain: must be one of"),
        (judged(replace(group, chain_id=7)), f"genesis.chain_id: must be {CHAIN_ID}, not 7"),
        (judged(group, (OURS,)), "signers: must be 2, not 1"),
        (judged(group, (OTHER, OTHER)), f"signers: must have {OURS} for node1"),
        (judged(group, factory=ENDORSER), f"factory: must be {OTHER}, which node1 uses"),
    ]
    for event, reason in cases:
        assert event.verdict is Verdict.REFUSED
        assert event.reason.startswith(reason), event.reason
    assert judged(group, (OURS, OTHER)).verdict is Verdict.ACCEPTED


@in_loop
async def test_what_cannot_be_said_now_may_be_later() -> None:
    order = JudgeProposal(PEER, RequestId(1, 1), ID, encode_genesis(genesis("node1")), OTHER)
    account = Account(RpcClient("http://127.0.0.1:1", ClientLimits()), CHAIN_ID, OneKey(), "registrar")
    for signer, factory, reason in (
        (SIGNER, None, "ledger.factory: must be set at node1"),
        (NoKeys(), OTHER, "is not here"),
    ):
        told: list[Event] = []
        Deploying(NODE, contracts(), signer, account, factory, told.append).perform(order)
        (event,) = told
        assert isinstance(event, ProposalJudged)
        assert event.verdict is Verdict.BUSY
        assert reason in event.reason


@in_loop
async def test_proposal_for_which_there_is_no_room_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts_module, "SMALL_GENESIS_BYTES", 1)
    monkeypatch.setattr(contracts_module, "LARGE_OF_PEER_BYTES_MAX", 1)
    event = judged(genesis("node1", "node2"))
    assert (event.verdict, "takes no more of them" in event.reason) == (Verdict.BUSY, True)
    assert judged(genesis("node2"), peer=NODE).verdict is Verdict.ACCEPTED, "the node's own users need no such room"


# The factory.


@in_loop
async def test_factory_is_called_once_and_asked_before_it_is_called_again(tmp_path: Path) -> None:
    async with deploying_on(tmp_path) as made:
        order = CallFactory(ID, bytes(32), (ENDORSER,), 1)
        made.deploying.perform(order)
        made.deploying.perform(order)
        assert await made.told.get() == FactoryCalled(ID)
        made.deploying.perform(order)
        assert await made.told.get() == FactoryCalled(ID)
        assert int(await made.chain.rpc("eth_getTransactionCount", PAYER, "latest"), 16) == 1


@in_loop
async def test_what_the_factory_never_takes_is_told_as_refused(tmp_path: Path) -> None:
    async with deploying_on(tmp_path) as made:
        made.deploying.perform(CallFactory(ID, bytes(32), (ENDORSER, ENDORSER), 1))
        event = await made.told.get()
        assert isinstance(event, FactoryRefused)
        assert event.deployment == ID


@pytest.mark.parametrize("has_funds", [True, False])
def test_trouble_of_the_world_is_told_and_nothing_is_refused(tmp_path: Path, has_funds: bool) -> None:
    @in_loop
    async def play() -> None:
        async with deploying_on(tmp_path, OTHER if has_funds else None) as made:
            if not has_funds:
                await made.chain.rpc("anvil_setBalance", PAYER, "0x0")
            made.deploying.perform(CallFactory(ID, bytes(32), (ENDORSER,), 1))
            event = await made.told.get()
            assert isinstance(event, FactoryCalled)
            assert ("there is no Factory at" if has_funds else "send it funds") in event.trouble
            assert int(await made.chain.rpc("eth_getTransactionCount", PAYER, "latest"), 16) == 0

    play()
