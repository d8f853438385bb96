"""Several nodes in one process: real keys, certificates, databases, connections, a real chain; nothing is a model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rota import host
from rota.automation.shipped import AdvanceEpochs, ExecuteProposals
from rota.directory.consent import ConsentMode
from rota.domains.base import Prover
from rota.keys import secp256k1
from rota.keys.keystore import ScryptCost
from rota.keys.node_keys import NodeKeys, make_node_keys
from rota.keys.secret import Secret
from rota.ledger.bindings import creation_code, deploy_endorsed
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.embedded import ChainServer, EmbeddedChain, Settings
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.follower import FollowerLimits
from rota.ledger.hexadecimal import data
from rota.ledger.reading import CallReceipt, read_receipt
from rota.localnet.ports import held_port
from rota.model.config import Config
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import ContractAddress, IntentId, NodeName, Party, Receipt
from rota.server.configuration import (
    AutomationSection,
    ConsentSection,
    LedgerSection,
    NodeConfiguration,
    NodeSection,
    PostgresServer,
    ProvingSection,
    RpcSection,
    SqliteFile,
    StoreSection,
    TransportSection,
)
from rota.server.process import NodeProcess, opened
from rota.service.interface import Submission, TransactionType
from rota.service.run import Watcher
from rota.transport.settings import TransportSettings
from tests.ledger.chains import Chain

CHAIN_ID = 31_337
DEPLOYMENT_GAS = 8_000_000
FUNDS_WEI = 100 * 10**18
PASSWORD = Secret(b"correct horse battery")
CHEAP = ScryptCost(n=2**4, r=8, p=1)
ALICE = "alice"
EPOCHS, PROPOSALS = AdvanceEpochs.name, ExecuteProposals.name
QUICK = AutomationSection(expected_task_duration_ms=100, polling_interval_ms=400, look_ms=40)


@dataclass
class Network:
    """A chain, and nodes that can be started and stopped by name."""

    home: Path
    names: tuple[NodeName, ...]
    chain: ChainServer
    client: RpcClient
    factory: ContractAddress
    config: Config = field(default_factory=Config)
    processes: dict[NodeName, NodeProcess] = field(default_factory=dict)
    lives: dict[NodeName, asyncio.Task[None]] = field(default_factory=dict)
    keys: dict[NodeName, NodeKeys] = field(default_factory=dict)
    ports: dict[NodeName, int] = field(default_factory=dict)
    watchers: dict[NodeName, Watcher] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    deployed: tuple[bytes, IntentId] = (b"", IntentId(b""))
    automation: AutomationSection = field(default_factory=AutomationSection)
    triggers: dict[str, dict[str, object]] = field(default_factory=dict)
    domains: dict[str, dict[str, object]] = field(default_factory=dict)
    prover: Prover | None = None
    stores: dict[NodeName, PostgresServer] = field(default_factory=dict)
    # Most tests are about nodes that trust one another: who is not named here takes all proposals.
    consent: dict[NodeName, ConsentMode] = field(default_factory=dict)
    # Of a chain that runs already; then `chain` is not started.
    outside_url: str = ""

    def prepare(self, ports: Sequence[int]) -> None:
        """Keys for each, a port for each, and a file in which all are registered."""
        lines = []
        for name, port in zip(self.names, ports, strict=True):
            self.keys[name] = make_node_keys(
                self.home / name / "keys", name, PASSWORD, int(time.time()), cost=CHEAP
            ).keys
            self.ports[name] = port
            fingerprint = self.keys[name].certificate.fingerprint.hex()
            lines += [f"[nodes.{name}]", f'endpoint = "127.0.0.1:{port}"', f'fingerprint = "{fingerprint}"']
        (self.home / "registry.toml").write_text("\n".join(lines))

    def configuration(self, name: NodeName) -> NodeConfiguration:
        """Ports that the kernel chooses, a database of its own."""
        home = self.home / name
        return NodeConfiguration(
            node=NodeSection(name=name, keys=home / "keys", password=PASSWORD, stop_timeout_ms=5_000),
            ledger=LedgerSection(
                url=(self.outside_url or self.chain.url).replace("http", "ws"),
                chain_id=CHAIN_ID,
                factory=self.factory,
                confirmations=self.config.confirmations,
                following=FollowerLimits(poll_ms=100),
            ),
            store=StoreSection(url=self.stores.get(name, SqliteFile(home / "rota.db"))),
            transport=TransportSection(
                listen=f"127.0.0.1:{self.ports[name]}",
                registry=self.home / "registry.toml",
                settings=TransportSettings.of(self.config),
            ),
            rpc=RpcSection(port=0, websocket_port=0),
            sequencer=self.config,
            consent=ConsentSection(proposals=self.consent.get(name, ConsentMode.OPEN)),
            automation=self.automation,
            triggers=self.triggers,
            domains={"synthetic": {"for_tests": True}, **self.domains},
            **{"proving": ProvingSection(allow_development_keys=True), **self.settings},
        )

    async def start(self, *names: NodeName) -> None:
        """Begin their lives, and wait until they can serve."""
        for name in names:
            begun = asyncio.Event()
            self.lives[name] = asyncio.create_task(self._live(name, begun))
            await self.until(begun.is_set)
        await self.until(lambda: all(not self.processes[name].facade.readiness() for name in names))

    async def _live(self, name: NodeName, begun: asyncio.Event) -> None:
        configuration, watcher = self.configuration(name), self.watchers.get(name)
        async with opened(configuration, self.keys[name], watcher, self.prover) as process:
            self.processes[name] = process
            begun.set()
            await process.run()

    async def connected(self) -> None:
        """Every node that runs is connected to every other."""
        others = len(self.names) - 1
        await self.until(
            lambda: all(
                sum(each.is_connected for each in self.processes[name].peers.status()) == others for name in self.lives
            )
        )

    async def stop(self, name: NodeName) -> None:
        """As an operator stops it."""
        self.processes[name].running.stop()
        await self.lives.pop(name)

    async def kill(self, name: NodeName) -> None:
        """Without a word to anybody; as near to a crash as one process allows."""
        life = self.lives.pop(name)
        # One that refused its configuration never ran.
        if name in self.processes:
            self.processes[name].running.acceptances.stop_s = 0.0
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    async def until(self, holds: object) -> None:
        """The test's own time limit bounds it."""
        assert callable(holds)
        while not holds():
            for life in self.lives.values():
                if life.done():
                    life.result()
            await asyncio.sleep(0.005)

    async def create(self, members: Sequence[str], threshold: int = 0, mode: str = "ring") -> ContractAddress:
        """A contract of the synthetic domain that alice deploys at the first node that runs."""
        name = next(iter(self.lives))
        arguments = {"members": list(members), "threshold": threshold, "mode": mode}
        receipt = await self.final(name, await self.deploy(name, "synthetic", arguments))
        assert receipt.contract is not None, receipt.reason
        known = self.processes[name].running.contracts.known(receipt.contract)
        assert known is not None
        self.deployed = known.genesis, known.deployment
        return receipt.contract

    async def deploy(self, node: NodeName, domain: str, arguments: object, **more: object) -> IntentId:
        """A contract that alice wants at this node."""
        submission = Submission(TransactionType.PRIVATE, ALICE, domain=domain, data=arguments)  # type: ignore[arg-type]
        return await self.processes[node].facade.submit(replace(submission, **more))  # type: ignore[arg-type]

    async def create_by_hand(
        self, members: Sequence[str], threshold: int, taken_in_by: Sequence[NodeName]
    ) -> ContractAddress:
        """A contract of the synthetic domain that an operator deploys, and brings to these nodes."""
        domain = host.load_domains()["synthetic"]
        arguments = {"members": list(members), "threshold": threshold}
        wanted = host.deploy(domain, arguments, Party(f"{ALICE}@{self.names[0]}"))
        genesis = host.genesis_of(domain, wanted, host.ContractDefaults(CHAIN_ID), bytes(32))
        encoded, intent = self.deployed = encode_genesis(genesis), IntentId(b"deployment 1....")
        signers = tuple([await self.processes[node].facade.endorser_address(intent) for node in genesis.endorsers])
        call = deploy_endorsed(intent, genesis_hash(encoded), signers, genesis.threshold)
        await send(self.client, {"to": self.factory, "data": data(call)})
        addresses = [await self.take_in(name) for name in taken_in_by]
        assert len(set(addresses)) == 1
        return addresses[0]

    async def take_in(self, name: NodeName) -> ContractAddress:
        """This node has the latest contract that was created."""
        return await self.processes[name].facade.take_in(*self.deployed)

    async def submit(
        self, node: NodeName, contract: ContractAddress, function: str, arguments: object = None, **more: object
    ) -> IntentId:
        """A private transaction of alice at this node."""
        submission = Submission(TransactionType.PRIVATE, ALICE, to=contract, function=function, data=arguments)  # type: ignore[arg-type]
        return await self.processes[node].facade.submit(replace(submission, **more))  # type: ignore[arg-type]

    async def final(self, node: NodeName, intent: IntentId) -> Receipt:
        """Its receipt, when it is there."""
        return await self.processes[node].facade.final(intent)


@asynccontextmanager
async def network(
    home: Path,
    *names: str,
    config: Config | None = None,
    is_registrar_funded: bool = True,
    chain_settings: Settings | None = None,
    outside: Chain | None = None,
) -> AsyncIterator[Network]:
    """Nodes that run when asked to; at the end nothing is left. With `outside` on a chain that runs already."""
    async with AsyncExitStack() as stack:
        chain = ChainServer(EmbeddedChain(chain_settings or Settings(chain_id=CHAIN_ID), secp256k1))
        if outside is None:
            await chain.start()
            stack.push_async_callback(chain.stop)
        url = chain.url if outside is None else outside.url
        client = RpcClient(url, ClientLimits(backoff_ms=1, backoff_max_ms=2))
        stack.push_async_callback(client.close)
        factory = (await send(client, {"data": data(creation_code("Factory"))})).contract
        assert factory is not None
        made = Network(home, tuple(map(NodeName, names)), chain, client, factory, config or Config())
        made.outside_url = outside.url if outside is not None else ""
        made.prepare([stack.enter_context(held_port()) for _ in names])
        for keys in made.keys.values():
            await send(client, {"to": keys.submitter, "value": hex(FUNDS_WEI)})
            if is_registrar_funded:
                await send(client, {"to": keys.registrar, "value": hex(FUNDS_WEI)})
        try:
            yield made
        finally:
            for name in tuple(made.lives):
                await made.kill(name)


async def send(client: RpcClient, call: dict[str, object]) -> CallReceipt:
    """A transaction of a development account, mined."""
    wanted = {"from": data(DEVELOPMENT_ACCOUNTS[0].address), "gas": hex(DEPLOYMENT_GAS), **call}
    transaction = await client.call("eth_sendTransaction", wanted)
    while (receipt := read_receipt(await client.call("eth_getTransactionReceipt", transaction))) is None:
        pass
    assert receipt.has_succeeded
    return receipt


async def deploy(net: Network, name: str, *arguments: object) -> ContractAddress:
    """A contract of ours on the base ledger."""
    made = (await send(net.client, {"data": data(creation_code(name, *arguments))})).contract
    assert made is not None
    return made


async def with_epochs(net: Network, members: Sequence[NodeName] | None = None, duration_s: int = 1) -> ContractAddress:
    """Members by the accounts that their nodes act with, and epochs that they may advance."""
    proposals = await deploy(net, "Proposals", [net.keys[name].registrar for name in members or net.names])
    epochs = await deploy(net, "Epochs", proposals, duration_s)
    net.automation = QUICK
    net.triggers = {EPOCHS: {"contract": epochs}, PROPOSALS: {"contract": proposals}}
    return epochs
