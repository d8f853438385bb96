"""A network of processes on this machine: a chain, and nodes that can be killed, hung, cut off and started again.

    async with LocalNetwork(Plan(home, names)) as network:
        await network.start(*names)
        contract = await network.create_contract("synthetic", {...})
        await network.nodes[name].client.send(...)

Every process is the one that an operator runs: `rota ledger` or Anvil, and `rota node` on a folder as `rota init` makes
it. The kernel chooses the ports; those on which nodes listen are held while the network exists, so that a restarted
node has the same address. With `is_apart` each node has a host of its own (`namespaces`). The chain may also be one
that runs already. In any case, no process outlives this one (`children`).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from rota.client import Client, ClientLimits, Unreachable
from rota.directory.consent import ConsentMode
from rota.host import ContractDefaults
from rota.keys.files import make_folder, write_new
from rota.keys.keystore import ScryptCost
from rota.keys.names import REGISTRAR
from rota.keys.node_keys import NodeKeys, make_node_keys
from rota.keys.secp256k1 import PrivateKey
from rota.keys.secret import Secret
from rota.keys.signers import MemorySigner
from rota.ledger.account import Account, AccountLimits
from rota.ledger.client import RpcClient
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.embedded.settings import WEI_PER_ETHER
from rota.ledger.hexadecimal import read_quantity
from rota.ledger.registering import NetworkContracts, deploy_contracts, register
from rota.localnet.chains import ChainKind, ChainProcess, RunningChain
from rota.localnet.children import ROTA, START_TIMEOUT_S, CannotStartProcess, Child, Children
from rota.localnet.creating import CreatedContract, create_contract, genesis_for
from rota.localnet.namespaces import LOOPBACK, Host, Namespaces
from rota.localnet.ports import held_port
from rota.model.types import NOTHING_CHOSEN, ContractAddress, NodeName, Party, SequencingChoice
from rota.ports import Signer
from rota.server.configuration import CHAIN, FILE_NAME, write_configuration

NODES_MAX: Final = 32
PASSWORD_BYTES: Final = 32
PASSWORD_NAME: Final = "password"
REGISTRY_NAME: Final = "nodes.toml"
CHAIN_HOST: Final = "chain"
APART_PEER_PORT: Final = 31_550
FUNDS_ETHER: Final = 100
CHAIN_ATTEMPTS_MAX: Final = 5
DEPLOYER: Final = "deployer"
LOOK_S: Final = 0.02
STOP_TIMEOUT_S: Final = 30.0
# These keys only guard a network that is deleted with its folder.
CHEAP: Final = ScryptCost(n=2**4, r=8, p=1)

Setting = str | int | bool


def _sqlite(_: NodeName) -> str:
    return "sqlite:rota.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parts of a network. `settings` are further keys of every node's configuration, by their paths.

    `store_of` returns the URL of a node's store. `is_apart` gives every node and the chain a host of its own.
    `rpc_ports` are the ports of JSON-RPC and of WebSockets, for nodes whose ports the kernel does not choose. `tables`
    is called once all nodes have their keys, and returns further text of every node's configuration. The nodes in
    `standbys` have a second folder, for a standby process.
    """

    home: Path
    names: tuple[NodeName, ...]
    chain: ChainKind | RunningChain = ChainKind.EMBEDDED
    registry: Literal["chain", "file"] = "chain"
    store_of: Callable[[NodeName], str] = _sqlite
    settings: Mapping[str, Setting] = field(default_factory=dict)
    is_apart: bool = False
    rpc_ports: Mapping[NodeName, tuple[int, int]] = field(default_factory=dict)
    tables: Callable[[LocalNetwork], Awaitable[str]] | None = None
    standbys: tuple[NodeName, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.names)) == len(self.names) <= NODES_MAX:
            raise ValueError(f"names: must be 1 to {NODES_MAX} distinct names")


async def addresses_of(child: Child) -> dict[str, object]:
    """The addresses that a node prints when it listens."""
    told = json.loads(await child.line_with('"rpc"'))
    assert isinstance(told, dict), "a node prints its addresses"
    return told


class LocalNode:
    """One node: its folder, its process while it runs, and its client."""

    def __init__(self, name: NodeName, folder: Path, keys: NodeKeys, peer_port: int, network: LocalNetwork) -> None:
        self.name: Final = name
        self.folder: Final = folder
        self.keys: Final = keys
        self.peer_port: Final = peer_port
        self.starts = 0
        # Its addresses since its latest start, as it reports them.
        self.addresses: Mapping[str, str] = {}
        self._network: Final = network
        self._child: Child | None = None
        self._client: Client | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process exists; it may hang."""
        return self._child is not None and self._child.is_running

    @property
    def child(self) -> Child:
        """The process of its latest start."""
        assert self._child is not None, f"{self.name} was started"
        return self._child

    @property
    def client(self) -> Client:
        """The client of its latest start."""
        assert self._client is not None, f"{self.name} was started"
        return self._client

    @property
    def log(self) -> Path:
        """The log of all its runs."""
        return self.folder / "log"

    async def start(self) -> None:
        """Start it, and wait until it listens. `CannotStartProcess` with the end of its log if it does not."""
        assert not self.is_running, f"{self.name} runs already"
        self._child, told = await self._network.launch(self)
        await self._take_addresses(told)

    async def stand_by(self) -> None:
        """Start its process without waiting for it."""
        assert not self.is_running, f"{self.name} runs already"
        self._child = await self._network.begin(self)

    async def until_active(self) -> None:
        """Wait until the standby process has taken over."""
        await self._take_addresses(await addresses_of(self.child))

    async def _take_addresses(self, told: Mapping[str, object]) -> None:
        self.addresses = {key: str(told[key]) for key in ("rpc", "websocket")}
        await self._forget_client()
        self._client = Client(await self._network.reachable(self.name, str(told["rpc"])), CLIENT_LIMITS, payees="any")
        self.starts += 1

    async def until_ready(self) -> None:
        """Wait until it is ready. `CannotStartProcess` when it ends, or is not ready in time."""
        missing: tuple[str, ...] = ()
        for _ in range(int(START_TIMEOUT_S / LOOK_S)):
            if not self.is_running:
                raise CannotStartProcess(f"{self.name} ended. Its log says at its end:\n{self.child.last_words()}")
            try:
                missing = await self.client.missing()
            except Unreachable as error:
                missing = (str(error),)
            if not missing:
                return
            await asyncio.sleep(LOOK_S)
        raise CannotStartProcess(f"{self.name} is not ready: {missing[0]}")

    async def kill(self) -> None:
        """`kill -9`."""
        await self.child.kill()

    def hang(self) -> None:
        """SIGSTOP: it holds its connections and sends nothing."""
        self.child.signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        self.child.signal(signal.SIGCONT)

    async def stop(self) -> int:
        """Stop it as an operator does; returns its exit code."""
        return await self.child.stop(STOP_TIMEOUT_S)

    async def close(self) -> None:
        """Close its client."""
        await self._forget_client()

    async def _forget_client(self) -> None:
        if self._client is not None:
            await self._client.close()


# These networks are for tests and figures, and have the domain that is meant for them.
FOR_TESTS: Final = "\n[domains.synthetic]\nfor_tests = true\n"
CLIENT_LIMITS: Final = ClientLimits(timeout_ms=10_000, attempts_max=2)


class LocalNetwork:
    """One network; `async with` creates its chain and its folders, and ends all processes."""

    def __init__(self, plan: Plan) -> None:
        self.plan: Final = plan
        self.children: Final = Children()
        self.nodes: Final[dict[NodeName, LocalNode]] = {}
        self.standbys: Final[dict[NodeName, LocalNode]] = {}
        self.hosts: Namespaces | None = None
        self._stack: Final = AsyncExitStack()
        self._chain: ChainProcess | None = None
        self._client: RpcClient | None = None
        self._chain_id = 0
        self._deployer: Account | None = None
        self._contracts: NetworkContracts | None = None

    # Parts.

    @property
    def chain(self) -> ChainProcess:
        """The base ledger, if it is a process of this network."""
        assert self._chain is not None, "the network is open, and its chain was started with it"
        return self._chain

    @property
    def chain_id(self) -> int:
        """The chain id that the base ledger reports."""
        assert self._chain_id, "the network is open"
        return self._chain_id

    @property
    def ledger(self) -> RpcClient:
        """The client of the chain."""
        assert self._client is not None, "the network is open"
        return self._client

    @property
    def factory(self) -> ContractAddress:
        """The factory, through which contracts are deployed."""
        return self._deployed.factory

    @property
    def registry(self) -> ContractAddress:
        """The registry of nodes."""
        return self._deployed.registry

    @property
    def deployer(self) -> Account:
        """An account with funds: a development account on the network's own chain."""
        assert self._deployer is not None, "the network is open"
        return self._deployer

    @property
    def from_height(self) -> int:
        """The block below which there is nothing of this network."""
        return self._deployed.registry_from_height

    @property
    def pids(self) -> dict[str, int]:
        """The ids of running processes, by name."""
        return {child.name: child.pid for child in self.children.running}

    @property
    def _deployed(self) -> NetworkContracts:
        assert self._contracts is not None, "the network is open"
        return self._contracts

    # Start and end.

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        plan = self.plan
        make_folder(plan.home)
        if plan.is_apart:
            self.hosts = Namespaces((CHAIN_HOST, *plan.names))
            self._stack.push_async_callback(self.hosts.close)
        await self._stack.enter_async_context(self.children)
        chain = plan.chain
        self._client = RpcClient(chain.url if isinstance(chain, RunningChain) else await self._start_chain(chain))
        self._stack.push_async_callback(self._client.close)
        self._chain_id = read_quantity(await self._client.call("eth_chainId", attempts_max=CHAIN_ATTEMPTS_MAX))
        key = chain.payer if isinstance(chain, RunningChain) else PrivateKey(DEVELOPMENT_ACCOUNTS[0].secret)
        self._deployer = self._account(MemorySigner({DEPLOYER: key}), DEPLOYER)
        self._contracts = await deploy_contracts(self._deployer)
        for name in plan.names:
            self._add(name)
        await self._fund_and_register()
        tables = await plan.tables(self) if plan.tables is not None else ""
        for node in (*self.nodes.values(), *self.standbys.values()):
            text = write_configuration(self._settings_of(node)) + FOR_TESTS
            write_new(node.folder / FILE_NAME, Secret(f"{text}\n{tables}" if tables else text))
        if plan.registry == "file":
            self._write_registry()

    async def _start_chain(self, kind: ChainKind) -> str:
        """Start the network's own chain; returns its URL."""
        host = self._host_of(CHAIN_HOST)
        listen = "0.0.0.0" if host is not None else LOOPBACK
        prefix = () if host is None else host.prefix
        self._chain = ChainProcess(kind, self.plan.home / CHAIN_HOST, self.children, listen, prefix)
        await self._chain.start()
        return await self.reachable(CHAIN_HOST, f"http://{LOOPBACK}:{self._chain.port}")

    async def start(self, *names: NodeName) -> None:
        """Start these nodes, all at once, and wait until they are ready."""
        await asyncio.gather(*(self.nodes[name].start() for name in names))
        await asyncio.gather(*(self.nodes[name].until_ready() for name in names))

    async def stop(self) -> dict[NodeName, int]:
        """Stop all running nodes, as an operator does; returns their exit codes."""
        running = [node for node in self.nodes.values() if node.is_running]
        codes = await asyncio.gather(*(node.stop() for node in running))
        return {node.name: code for node, code in zip(running, codes, strict=True)}

    async def create_contract(
        self, domain: str, constructor: object, sequencing: SequencingChoice = NOTHING_CHOSEN
    ) -> CreatedContract:
        """Create a contract that all running nodes take in."""
        sender = Party(f"{DEPLOYER}@{self.plan.names[0]}")
        genesis = genesis_for(domain, constructor, sender, ContractDefaults(self.chain_id), self.factory, sequencing)
        clients = {name: node.client for name, node in self.nodes.items() if node.is_running}
        return await create_contract(genesis, clients, self.factory, self.deployer)

    # Nodes.

    async def launch(self, node: LocalNode) -> tuple[Child, dict[str, object]]:
        """Start a process of this node; returns it and its addresses once it listens."""
        child = await self.begin(node)
        return child, await addresses_of(child)

    async def begin(self, node: LocalNode) -> Child:
        """Start a process of this node."""
        host = self._host_of(node.name)
        options = ("--json", "--standby") if node.name in self.standbys else ("--json",)
        command = (*ROTA, "node", str(node.folder), *options)
        return await self.children.start(node.name, command, node.log, prefix=() if host is None else host.prefix)

    async def reachable(self, name: str, url: str) -> str:
        """The URL by which this process reaches a loopback URL of a host."""
        if self.hosts is None:
            return url
        return f"http://{LOOPBACK}:{await self.hosts.relay(name, int(url.rpartition(':')[2]))}"

    def _add(self, name: NodeName) -> None:
        """Make a folder with keys, as `rota init` does; its configuration is written later."""
        folder = self.plan.home / name
        make_folder(folder)
        password = Secret(secrets.token_urlsafe(PASSWORD_BYTES))
        write_new(folder / PASSWORD_NAME, password)
        keys = make_node_keys(folder / "keys", name, password, int(time.time()), cost=CHEAP).keys
        port = APART_PEER_PORT if self.hosts is not None else self._held_port()
        node = self.nodes[name] = LocalNode(name, folder, keys, port, self)
        self._stack.push_async_callback(node.close)
        if name in self.plan.standbys:
            assert self.hosts is None, "both processes of a node are at one host of this machine"
            second = self.plan.home / f"{name}-standby"
            shutil.copytree(folder, second)
            standby = self.standbys[name] = LocalNode(name, second, keys, self._held_port(), self)
            self._stack.push_async_callback(standby.close)

    async def _fund_and_register(self) -> None:
        """Fund the nodes' accounts, and register the nodes; all at once, as a block may take a while."""
        chain = self.plan.chain
        funds_wei = chain.funds_wei if isinstance(chain, RunningChain) else FUNDS_ETHER * WEI_PER_ETHER
        payees = [address for node in self.nodes.values() for address in (node.keys.submitter, node.keys.registrar)]
        if funds_wei:
            await asyncio.gather(*(self.deployer.transact(address, value_wei=funds_wei) for address in payees))
        if self.plan.registry == CHAIN:
            await asyncio.gather(*map(self._register, self.nodes.values()))

    async def _register(self, node: LocalNode) -> None:
        account = self._account(node.keys.signer, REGISTRAR)
        fingerprint = node.keys.certificate.fingerprint
        await register(account, self._deployed.registry, node.name, fingerprint, self.endpoint_of(node))

    def _settings_of(self, node: LocalNode) -> dict[str, Setting]:
        host = self._host_of(node.name)
        rpc_port, websocket_port = self.plan.rpc_ports.get(node.name) or self._rpc_ports()
        is_on_chain = self.plan.registry == CHAIN
        return {
            "node.name": node.name,
            "node.password_file": PASSWORD_NAME,
            "ledger.url": self._ledger_url(),
            "ledger.chain_id": self.chain_id,
            "ledger.factory": self._deployed.factory,
            "ledger.registry": self._deployed.registry,
            "ledger.registry_from_height": self._deployed.registry_from_height,
            "store.url": self.plan.store_of(node.name),
            "transport.listen": f"{LOOPBACK if host is None else host.address}:{node.peer_port}",
            "transport.endpoint": self.endpoint_of(node),
            "transport.local_endpoints": True,
            # One operator runs all nodes.
            "consent.proposals": ConsentMode.OPEN.value,
            "proving.allow_development_keys": True,
            "transport.registry": CHAIN if is_on_chain else str(self.plan.home.absolute() / REGISTRY_NAME),
            "rpc.port": rpc_port,
            "rpc.websocket_port": websocket_port,
            "log.format": "json",
            **self.plan.settings,
        }

    def _ledger_url(self) -> str:
        """The chain's URL for nodes. New blocks are pushed over a WebSocket, and polled over HTTP."""
        if isinstance(self.plan.chain, RunningChain):
            return self.plan.chain.url
        host = self._host_of(CHAIN_HOST)
        return f"ws://{LOOPBACK if host is None else host.address}:{self.chain.port}"

    def _rpc_ports(self) -> tuple[int, int]:
        """The ports of JSON-RPC and of WebSockets; a node on a host of its own needs no held ports."""
        return (0, 0) if self.hosts is not None else (self._held_port(), self._held_port())

    def _write_registry(self) -> None:
        lines: list[str] = []
        for node in self.nodes.values():
            fingerprint = node.keys.certificate.fingerprint.hex()
            lines += [f"[nodes.{node.name}]", f'endpoint = "{self.endpoint_of(node)}"']
            lines += [f'fingerprint = "{fingerprint}"', ""]
        (self.plan.home / REGISTRY_NAME).write_text("\n".join(lines))

    def endpoint_of(self, node: LocalNode) -> str:
        """The address at which other nodes reach it."""
        host = self._host_of(node.name)
        processes = [each[node.name] for each in (self.nodes, self.standbys) if node.name in each]
        return ",".join(f"{LOOPBACK if host is None else host.address}:{each.peer_port}" for each in processes)

    def _host_of(self, name: str) -> Host | None:
        return None if self.hosts is None else self.hosts[name]

    def _held_port(self) -> int:
        """A port that no other process gets while the network exists."""
        return self._stack.enter_context(held_port())

    def _account(self, signer: Signer, name: str) -> Account:
        return Account(self.ledger, self.chain_id, signer, name, AccountLimits(look_ms=20, looks_max=3_000))
