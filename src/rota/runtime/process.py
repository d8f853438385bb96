"""A node as a process: opened from its configuration, served to its users, stopped by signals.

    keys and certificate -> store, chain, peers, domains -> the running node -> its entrance

The order is that of dependence: nothing listens before there is something to answer with, and what was opened is
closed in the reverse order, however the life ends. The entrance opens before the store is there, so that `/readyz`
can say what is missing.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from rota.api.credentials import Credential
from rota.api.entrance import Entrance
from rota.api.facade import PeerMeasurements
from rota.api.settings import Bind
from rota.api.settings import Settings as EntranceSettings
from rota.digests import keccak
from rota.hosting import load_domains
from rota.keys.names import SUBMITTER
from rota.keys.node_keys import NodeKeys, open_node_keys, read_password
from rota.keys.secret import Secret
from rota.keys.signatures import Signatures
from rota.ledger.bindings import EndorsedDeployment
from rota.ledger.client import RpcClient
from rota.ledger.deployments import find_deployment
from rota.ledger.driver import LedgerDriver
from rota.ports import Registry, Tell, Unavailable
from rota.runtime.configuration import NodeConfiguration, SqliteFile
from rota.runtime.contracts import KnownContracts
from rota.runtime.facade import FindDeployment, NodeFacade
from rota.runtime.held_states import HeldStates
from rota.runtime.node import Adapters, RunningNode, Watcher
from rota.runtime.services import Services
from rota.runtime.verifiers import Verifiers
from rota.store import DatabaseStore, PostgresDatabase, SqliteDatabase
from rota.store.database import Database
from rota.transport import GrpcPeers, Identity, StaticRegistry, read_registry
from rota.types import IntentId

SALT_KEY_TEXT: Final = b"the salts of this node's private states"
VERIFIER_PATIENCE_MS: Final = 5_000

logger = structlog.get_logger("rota.process")


class CannotStart(Exception):
    """The node cannot begin; the text says what is wrong and what would be right."""


class NodeProcess:
    """One node with all that it needs. `async with opened(...)` makes it, `run` is its life."""

    def __init__(
        self, running: RunningNode, facade: NodeFacade, entrance: Entrance, peers: GrpcPeers, keys: NodeKeys
    ) -> None:
        self.running: Final = running
        self.facade: Final = facade
        self.entrance: Final = entrance
        self.peers: Final = peers
        self.keys: Final = keys

    async def run(self) -> None:
        """Serve until it is stopped."""
        try:
            await self.entrance.start()
        except OSError as error:
            raise CannotStart(f"rpc: cannot listen: {error.strerror or error}") from error
        logger.info("serving", rpc=self.entrance.http_url, websocket=self.entrance.websocket_url)
        try:
            await self.running.run()
        finally:
            await self.entrance.stop()


@asynccontextmanager
async def opened(configuration: NodeConfiguration, watcher: Watcher | None = None) -> AsyncIterator[NodeProcess]:
    """All parts of a node, wired; nothing runs yet. `CannotStart` when one of them cannot be had."""
    keys = _open_keys(configuration)
    salt_key = keccak(await keys.signer.sign(SUBMITTER, keccak(SALT_KEY_TEXT)))
    contracts = KnownContracts(configuration.node.name, configuration.ledger.chain_id, load_domains(), salt_key)
    client = RpcClient(configuration.ledger.url, configuration.ledger.client)
    registry = _registry(configuration)
    peers: GrpcPeers | None = None

    def adapters_for(tell: Tell) -> Adapters:
        nonlocal peers
        peers = _peers(configuration, keys, registry, tell)
        store = DatabaseStore(_database(configuration), configuration.node.name, configuration.sequencer, tell)
        verifiers = Verifiers(tell, VERIFIER_PATIENCE_MS)
        signatures = Signatures(configuration.node.name, keys.signer, contracts, contracts)
        held = HeldStates(store)
        services = Services(configuration.node.name, contracts, signatures, held, verifiers, tell)
        ledger = LedgerDriver(
            client,
            chain_id=configuration.ledger.chain_id,
            contracts=contracts,
            signer=keys.signer,
            signer_name=SUBMITTER,
            index_window_max=configuration.sequencer.index_window_max,
            tell=tell,
            limits=configuration.ledger.following,
        )
        return Adapters(store, ledger, peers, services, verifiers)

    running = RunningNode(
        configuration.node.name,
        configuration.sequencer,
        contracts,
        adapters_for,
        configuration.node.stop_timeout_ms,
        keys.submitter,
        watcher,
    )
    assert peers is not None, "the adapters were made"
    facade = NodeFacade(running, keys.signer, _deployments_on(client, configuration), _measured(peers))
    entrance = Entrance(facade, _entrance_settings(configuration), CollectorRegistry())
    try:
        yield NodeProcess(running, facade, entrance, peers, keys)
    finally:
        await client.close()


async def serve(configuration: NodeConfiguration, on_ready: Callable[[NodeProcess], None] | None = None) -> None:
    """A node's life in this process: SIGTERM and SIGINT stop it, a second one at once."""
    async with opened(configuration) as process:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.running.stop)
        telling = asyncio.create_task(_tell_when_ready(process, on_ready)) if on_ready is not None else None
        try:
            await process.run()
        finally:
            if telling is not None:
                telling.cancel()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


async def _tell_when_ready(process: NodeProcess, on_ready: Callable[[NodeProcess], None]) -> None:
    await process.running.started.wait()
    await process.peers.started.wait()
    on_ready(process)


def _open_keys(configuration: NodeConfiguration) -> NodeKeys:
    node = configuration.node
    password = node.password if node.password is not None else _password_in(node.password_file)
    if password is None:
        raise CannotStart("node.password_file: must be given, or the password in ROTA_NODE_PASSWORD")
    try:
        return open_node_keys(node.keys, node.name, password)
    except (ValueError, OSError) as error:
        raise CannotStart(f"node.keys: {error}") from error


def _password_in(path: Path | None) -> Secret | None:
    if path is None:
        return None
    try:
        return read_password(path)
    except (ValueError, OSError) as error:
        raise CannotStart(f"password_file: {error}") from error


def _database(configuration: NodeConfiguration) -> Database:
    store = configuration.store
    if isinstance(store.url, SqliteFile):
        return SqliteDatabase(store.url.path, configuration.node.name)
    password = store.password if store.password is not None else _password_in(store.password_file)
    return PostgresDatabase(store.url.with_password(password), configuration.node.name)


def _registry(configuration: NodeConfiguration) -> Registry:
    source = configuration.transport.registry
    if source == "chain":
        raise CannotStart("transport.registry: must be a file with the nodes")
    try:
        return StaticRegistry(read_registry(source))
    except (ValueError, OSError) as error:
        raise CannotStart(f"transport.registry: {error}") from error


def _peers(configuration: NodeConfiguration, keys: NodeKeys, registry: Registry, tell: Tell) -> GrpcPeers:
    own = keys.transport.current()
    if not own.certificate.is_valid_at(int(time.time())):
        raise CannotStart("node.keys: the certificate has expired; `rota keys rotate-certificate` makes a new one")
    identity = Identity(own.certificate.pem, own.private_key.reveal())
    transport = configuration.transport
    return GrpcPeers(
        configuration.node.name, identity, registry, tell, listen=transport.listen, settings=transport.settings
    )


def _deployments_on(client: RpcClient, configuration: NodeConfiguration) -> FindDeployment:
    factory = configuration.ledger.factory

    async def find(intent: IntentId) -> EndorsedDeployment | None:
        if factory is None:
            raise Unavailable("ledger.factory: must be set before contracts can be taken in")
        return await find_deployment(client, factory, intent)

    return find


def _measured(peers: GrpcPeers) -> Callable[[], tuple[PeerMeasurements, ...]]:
    def measure() -> tuple[PeerMeasurements, ...]:
        return tuple(
            PeerMeasurements(
                each.name,
                each.is_connected,
                each.queued_messages,
                each.dropped_full + each.dropped_stale + each.dropped_too_large,
            )
            for each in peers.status()
        )

    return measure


def _entrance_settings(configuration: NodeConfiguration) -> EntranceSettings:
    rpc, operations = configuration.rpc, configuration.operations
    elsewhere = configuration.operations_address
    is_shared = operations.host is None and operations.port is None
    credentials: tuple[Credential, ...] = ()
    try:
        return EntranceSettings(
            Bind(rpc.host, rpc.port),
            Bind(rpc.host, rpc.websocket_port),
            None if is_shared else Bind(*elsewhere),
            credentials,
        )
    except ValueError as error:
        raise CannotStart(f"rpc: {error}") from error
