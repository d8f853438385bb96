"""A node as a process: created from its configuration, run with its servers, stopped by signals.

    keys and certificate -> store, chain, peers, domains -> the running node -> its entrance

Each part is opened after those it depends on: nothing listens before there is a node to answer, and parts are closed in
the reverse order, however the run ends. The entrance opens before the store is reached, so that `/readyz` can report
the missing parts.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from rota.chain.public_transaction import PublicTransaction
from rota.domains.base import Prover, Rejected
from rota.engine.commitment_trees import CommitmentTrees
from rota.engine.contracts import KnownContracts
from rota.engine.development_keys import rests_on_development_keys
from rota.engine.encrypted_peers import EncryptedPeers
from rota.engine.encryption import StateEncryption
from rota.engine.held_states import HeldStates
from rota.engine.owner_secrets import OwnerSecrets
from rota.engine.private_code import PrivateCode
from rota.engine.proving import Proving
from rota.engine.rosters import Rosters
from rota.engine.services import Services
from rota.engine.verifiers import Verifiers
from rota.evm.self_test import EvmDiffers, require_known_evm
from rota.host import AnyDomain, ContractDefaults, load_domains
from rota.keys.files import KeyFileError
from rota.keys.names import REGISTRAR, SUBMITTER, account_key
from rota.keys.node_keys import NodeKeys
from rota.keys.signatures import Signatures
from rota.ledger.account import Account
from rota.ledger.bindings import RegisteredNode
from rota.ledger.call_gas import gas_of_call
from rota.ledger.client import RpcClient
from rota.ledger.deployments import FoundDeployment, find_deployment
from rota.ledger.driver import LedgerDriver
from rota.ledger.finality import WrongConfirmations, confirmations_for, kind_of, require_same_chain
from rota.ledger.looking_up import LookingUp
from rota.ledger.public_chain import PublicChain
from rota.ledger.registry import ChainRegistry
from rota.ledger.reserves import reserve_of
from rota.ledger.roots import are_taken, read_roster
from rota.ledger.rounds_on_chain import latest_height
from rota.logs import catalogue
from rota.model.digests import keccak
from rota.model.types import BlockHash, ContractAddress, IntentId, NodeName, Outcome
from rota.node.events import PublicTransactionEnded
from rota.ports import Background, Failed, Registry, StoredChain, Tell, Unavailable
from rota.prover.key_files import DEVELOPMENT_KEYS
from rota.prover.workers import ProverProcesses
from rota.server.configuration import NodeConfiguration, SqliteFile, password_of
from rota.server.credentials_file import read_credentials
from rota.server.dashboard import PATH as DASHBOARD_PATH
from rota.server.dashboard import add_pages
from rota.server.entrance import Entrance
from rota.server.itself import Itself
from rota.server.number_file import NumberFile
from rota.server.observability import CannotTrace, Tracing, TransactionSpans, Watchers, log_readiness, tracing_to
from rota.server.renewal import Renewal
from rota.server.settings import Bind
from rota.server.settings import Settings as EntranceSettings
from rota.server.tls import TlsFiles
from rota.server.watched_files import (
    FileWatch,
    WatchedCertificate,
    WatchedCredentials,
    WatchedMaximum,
    WatchedRegistry,
    WatchedTls,
    identity_of,
)
from rota.service.automation.loading import CannotLoad, LoadedTrigger, load_triggers
from rota.service.automation.wiring import announced, automate
from rota.service.carrying.carrying import CarryingDesk
from rota.service.commands.commands import CommandOffice
from rota.service.commands.prunable import PrunableCompletions
from rota.service.commands.transactions import NodeTransactions
from rota.service.contracts.acquainting import Acquainting, FindDeployment
from rota.service.contracts.deploying import Deploying
from rota.service.facade import NodeFacade, Surroundings
from rota.service.interface import PeerMeasurements
from rota.service.public.transactions import PublicTransactions
from rota.service.registry.expiry import CertificateExpiry
from rota.service.run import Adapters, ChainQuestions, RunningNode, Watcher
from rota.service.submissions.announcing import Announcements
from rota.service.watch.transaction_log import TransactionLog, transaction_log
from rota.store import DatabaseCommands, DatabaseStore, PostgresDatabase, SqliteDatabase
from rota.store.database import Database
from rota.store.group_commit import wall_clock_ms
from rota.transport import Announcement, GrpcPeers, StaticRegistry, read_registry

SALT_KEY_TEXT: Final = b"the salts of this node's private states"
VERIFIER_PATIENCE_MS: Final = 5_000
FILES_LOOK_S: Final = 1.0
CHAIN_KIND_S: Final = 5.0


class CannotStart(Exception):
    """The node cannot start until its operator changes something; the text names the setting, and a valid value."""


class CannotListen(CannotStart):
    """An address is in use, and may be free later."""


class NodeProcess:
    """One node with all its parts. `async with opened(...)` creates it, `run` runs it."""

    def __init__(
        self, running: RunningNode, facade: NodeFacade, entrance: Entrance, peers: GrpcPeers, keys: NodeKeys
    ) -> None:
        self.running: Final = running
        self.facade: Final = facade
        self.entrance: Final = entrance
        self.peers: Final = peers
        self.keys: Final = keys
        self.files: Final = FileWatch(WatchedCertificate(keys, peers, facade.expiry), facade.leaders_seen)

    async def run(self) -> None:
        """Serve until stopped. `CannotListen` when an address cannot be bound."""
        try:
            await self.entrance.start()
        except OSError as error:
            raise CannotListen(f"rpc: cannot listen: {error.strerror or error}") from error
        rpc = self.entrance.http_url
        catalogue.NODE_SERVING.log(rpc=rpc, websocket=self.entrance.websocket_url, dashboard=f"{rpc}{DASHBOARD_PATH}")
        background = Background("process", self.running.fail)
        background.begin(self.files.run(FILES_LOOK_S))
        background.begin(self._serve_when_started())
        try:
            await self.running.run()
        finally:
            await background.close()
            await self.facade.commands.close()
            await self.entrance.stop()
        catalogue.NODE_STOPPED.log()

    async def _serve_when_started(self) -> None:
        """Accept commands and log changes of readiness, once the node has started."""
        await self.running.started.wait()
        await asyncio.gather(self.facade.commands.run(), log_readiness(self.facade.readiness))


def _prover(configuration: NodeConfiguration) -> ProverProcesses:
    """Return the prover, whose processes start when they are first needed."""
    settings = configuration.proving
    keys = DEVELOPMENT_KEYS if settings.keys is None else settings.keys
    return ProverProcesses(keys, settings.processes, settings.waiting_max, _tell_of_proving_key)


def _make_ready(contracts: KnownContracts, proving: Proving, code: PrivateCode, contract: ContractAddress) -> None:
    """Start the processes that a contract of this node needs, before the first request for them."""
    proving.prepare_for(contract)
    hosted = contracts.hosted(contract)
    if hosted is not None and hosted.domain.runs_code:
        code.prepare()


def _tell_of_proving_key(circuit: str, parts: int) -> None:
    catalogue.PROVER_LOADING_KEY.log(circuit=circuit, percent=parts)


def _log_development_keys(domains: Mapping[str, AnyDomain], is_allowed: bool) -> None:
    on_them = [name for name, each in domains.items() if any(map(rests_on_development_keys, each.ledgers))]
    if on_them and is_allowed:
        catalogue.DOMAIN_KEYS_INSECURE.log(domains=on_them)
    elif on_them:
        catalogue.DOMAIN_KEYS_REFUSED.log(domains=on_them)


def _end_loudly(running: RunningNode, error: BaseException) -> None:
    catalogue.STORE_FAILED.log(reason=str(error))
    running.fail(error)


@asynccontextmanager
async def opened(
    configuration: NodeConfiguration,
    keys: NodeKeys,
    watcher: Watcher | None = None,
    prover: Prover | None = None,
    *,
    stands_by: bool = False,
) -> AsyncIterator[NodeProcess]:
    """Create all parts of a node, wired, without running them. `CannotStart` when one cannot be created.

    With `stands_by` it waits while another process of the node has the database. `watcher` sees every event and effect;
    without one, transactions are traced as configured. `prover` makes the proofs of zero-knowledge tokens, in place of
    the one that comes with Rota.
    """
    name, factory = configuration.node.name, configuration.ledger.factory
    salt_key = keccak(await keys.signer.sign(SUBMITTER, keccak(SALT_KEY_TEXT)))
    owners = OwnerSecrets(name, keys.signer)
    chain_id, domains = configuration.ledger.chain_id, _domains(configuration)
    allows_development_keys = configuration.proving.allow_development_keys
    contracts = KnownContracts(name, chain_id, domains, salt_key, factory, owners.find, allows_development_keys)
    _log_development_keys(domains, allows_development_keys)
    client = RpcClient(configuration.ledger.url, configuration.ledger.client)
    registry = _registry(configuration, client)
    entrance_settings = _entrance_settings(configuration)
    database = _database(configuration, stands_by)
    tracing, spans = _tracing(configuration)
    peers: GrpcPeers | None = None
    registrar = Account(client, configuration.ledger.chain_id, keys.signer, REGISTRAR)
    triggers = _triggers(configuration)
    commands: DatabaseCommands | None = None
    own_prover = _prover(configuration)
    code: PrivateCode | None = None

    def connect(tell: Tell) -> GrpcPeers:
        nonlocal peers
        peers = _peers(configuration, keys, registry, tell, announced(triggers, registrar))
        return peers

    def adapters_for(tell: Tell) -> Adapters:
        nonlocal commands, code
        number, nullifier_of = NumberFile(configuration.node.keys), contracts.nullifier_of
        store = DatabaseStore(database, name, configuration.sequencer, tell, nullifier_of=nullifier_of, mark=number)
        store.failed = lambda error: _end_loudly(running, error)
        commands = DatabaseCommands(store)
        verifiers = Verifiers(tell, VERIFIER_PATIENCE_MS)
        announcements = Announcements(store.key_names, store.groups)
        trees = CommitmentTrees(store.commitments, contracts.may_have_tree)
        rosters, taken = Rosters(partial(read_roster, client)), partial(are_taken, client)
        used = prover or own_prover
        proving = Proving(name, contracts, keys.signer, owners, used, store.proofs, trees, rosters, taken)
        code = PrivateCode(name, store)
        contracts.when_hosted = partial(_make_ready, contracts, proving, code)
        encryption = StateEncryption(contracts, owners.of, secrets.token_bytes)
        services = Services(
            name,
            contracts,
            Signatures(name, keys.signer, contracts, contracts),
            store,
            HeldStates(name, store),
            verifiers,
            tell,
            proving,
            partial(reserve_of, client),
            announcements.has,
            code,
            estimate_call=partial(gas_of_call, client),
        )
        ledger = LedgerDriver(
            client,
            chain_id=configuration.ledger.chain_id,
            contracts=contracts,
            signer=keys.signer,
            key_of=account_key,
            index_window_max=configuration.sequencer.index_window_max,
            tell=tell,
            limits=configuration.ledger.following,
            factory=factory,
            find_makers=store.transitions_of,
            keep_commitments=trees.keep,
        )
        chain = ChainQuestions(partial(latest_height, client), ledger.rounds_of, trees.forget)
        deploying = Deploying(name, contracts, keys.signer, registrar, factory, tell)
        acquainting = Acquainting(contracts, keys.signer, _deployments_on(client, configuration), store.contract, tell)
        public_chain = PublicChain(client, configuration.ledger.chain_id, keys.signer)

        def public_ended(transaction: PublicTransaction) -> None:
            """Send its receipt to listeners, and release or end private transactions that depend on it."""
            running.receipts.look_soon()
            assert transaction.ending is not None, "it has ended"
            outcome = Outcome.CONFIRMED if transaction.ending.has_succeeded else Outcome.REVERTED
            tell(PublicTransactionEnded(transaction.id, outcome))

        public = PublicTransactions(
            public_chain,
            store.public,
            store.abis,
            configuration.sequencer.confirmations,
            wall_clock_ms,
            ended=public_ended,
        )
        guarded = EncryptedPeers(connect, encryption, tell)
        return Adapters(
            store,
            ledger,
            guarded,
            services,
            verifiers,
            announcements,
            chain,
            deploying,
            acquainting,
            public_chain,
            public,
            encryption,
        )

    running = RunningNode(
        name,
        configuration.sequencer,
        contracts,
        adapters_for,
        configuration.node.stop_timeout_ms,
        keys.submitter,
        _watcher(watcher or spans, transaction_log(name)),
        factory,
        partial(_chain, configuration, client),
        configuration.consent.policy,
        configuration.ledger.accounts,
    )
    assert peers is not None, "the adapters were made"
    peers.is_behind = running.engine.is_behind
    assert commands is not None, "the adapters were made"
    pruning = PrunableCompletions(lambda: facade.commands, commands)
    look_ms = configuration.automation.look_ms
    automating = automate(running, triggers, client, registrar, registry, peers, look_ms, pruning)
    facade = NodeFacade(
        running,
        keys.signer,
        _deployments_on(client, configuration),
        _measured(peers),
        _defaults(configuration),
        Surroundings(
            LookingUp(client),
            registry,
            peers.status,
            _registered(registry),
            CertificateExpiry(keys.certificate),
            configuration.rpc.limits.predicted_wait_max_ms / 1_000,
        ),
        client,
        automating,
    )
    transactions = NodeTransactions(facade, running, facade.repeats.compared)
    facade.commands = CommandOffice(name, commands, transactions, configuration.commands.maximum_duration_ms)
    facade.commands.failed = running.fail
    running.receipts.when_changed(lambda _: facade.commands.receipts_changed())
    CarryingDesk(running, facade, Signatures(name, keys.signer, contracts, contracts), chain_id, client)
    facade.itself = Itself(running, configuration, wall_clock_ms())
    entrance = _entrance(facade, entrance_settings)
    following = _following(configuration, keys, registry, registrar, running.fail)
    try:
        process = NodeProcess(running, facade, entrance, peers, keys)
        if isinstance(registry, StaticRegistry) and isinstance(configuration.transport.registry, Path):
            process.files.watched.append(WatchedRegistry(configuration.transport.registry, registry))
        if configuration.rpc.certificate_file is not None:
            process.files.watched.append(WatchedTls(entrance))
        if configuration.rpc.credentials_file is not None:
            process.files.watched.append(WatchedCredentials(configuration.rpc.credentials_file, entrance))
        yield process
    finally:
        await following.close()
        await client.close()
        await own_prover.close()
        if code is not None:
            await code.close()
        if tracing is not None and spans is not None:
            spans.close()
            await asyncio.to_thread(tracing.stop)


async def serve(
    configuration: NodeConfiguration,
    keys: NodeKeys,
    on_ready: Callable[[NodeProcess], None] | None = None,
    file: Path | None = None,
    *,
    stands_by: bool = False,
) -> None:
    """Run a node in this process: SIGTERM and SIGINT stop it, a second one at once.

    `file` is the configuration file; settings in it that may change without a restart are read from there again.
    """
    async with opened(configuration, keys, stands_by=stands_by) as process:
        if file is not None:
            process.files.watched.append(WatchedMaximum(file, process.facade.commands))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.running.stop)
        telling = asyncio.create_task(_tell_when_begun(process, on_ready)) if on_ready is not None else None
        try:
            await process.run()
        finally:
            if telling is not None:
                telling.cancel()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


async def _tell_when_begun(process: NodeProcess, on_ready: Callable[[NodeProcess], None]) -> None:
    await process.running.started.wait()
    await process.peers.started.wait()
    on_ready(process)


async def _chain(
    configuration: NodeConfiguration, client: RpcClient, known: StoredChain
) -> tuple[int, BlockHash | None]:
    """Return the confirmations by configuration and chain, and block 0; the stored ones if the chain does not answer.

    `Unavailable` if it is another chain than before, `CannotStart` if blocks could be lost unnoticed.
    """
    ledger = configuration.ledger
    try:
        async with asyncio.timeout(CHAIN_KIND_S):
            kind = await kind_of(client, ledger.chain_id)
    except (Unavailable, TimeoutError) as trouble:
        wanted = ledger.confirmations or known.confirmations
        if wanted is None:
            raise Unavailable(str(trouble) or "it does not answer") from trouble
        catalogue.CHAIN_UNVERIFIED.log(confirmations=wanted, reason=str(trouble) or "no answer")
        return wanted, known.genesis
    require_same_chain(client.place, known.genesis, kind.genesis)
    try:
        used = confirmations_for(kind, ledger.confirmations, ledger.accept_lost_blocks)
        replace(configuration.sequencer, confirmations=used)
    except (WrongConfirmations, ValueError) as flaw:
        raise CannotStart(str(flaw) if isinstance(flaw, WrongConfirmations) else f"ledger.{flaw}") from flaw
    if used < kind.confirmations:
        catalogue.CHAIN_CONFIRMATIONS_LOW.log(confirmations=used, chain=kind.name, usual=kind.confirmations)
    else:
        catalogue.CHAIN_CONFIRMATIONS.log(confirmations=used, chain=kind.name, usual=kind.confirmations)
    return used, kind.genesis or known.genesis


def _domains(configuration: NodeConfiguration) -> Mapping[str, AnyDomain]:
    try:
        require_known_evm()
        return load_domains(configuration.domains)
    except EvmDiffers as difference:
        raise CannotStart(f"pyrevm: {difference}; install the version that this release of Rota names") from difference
    except Rejected as flaw:
        raise CannotStart(f"domains.{flaw}") from flaw


def _database(configuration: NodeConfiguration, stands_by: bool) -> Database:
    store = configuration.store
    if isinstance(store.url, SqliteFile):
        if stands_by:
            raise CannotStart(
                "--standby: needs a PostgreSQL database (store.url) that both processes of the node reach"
            )
        return SqliteDatabase(store.url.path, configuration.node.name)
    try:
        password = password_of(store)
    except KeyFileError as error:
        raise CannotStart(f"store.password_file: {error}") from error
    return PostgresDatabase(store.url.with_password(password), configuration.node.name, stands_by=stands_by)


def _following(
    configuration: NodeConfiguration, keys: NodeKeys, registry: Registry, registrar: Account, failed: Failed
) -> Background:
    """Follow the Registry on the ledger, and renew this node's certificate in it."""
    following = Background("registry", failed)
    if isinstance(registry, ChainRegistry) and configuration.ledger.registry is not None:
        following.begin(registry.run())
        if configuration.transport.renews_certificate:
            overlap_s = FILES_LOOK_S + configuration.transport.settings.certificate_look_max_ms / 1_000
            renewal = Renewal(keys.transport, registrar, configuration.ledger.registry, overlap_s)
            following.begin(renewal.run())
    return following


def _registry(configuration: NodeConfiguration, client: RpcClient) -> Registry:
    source, ledger = configuration.transport.registry, configuration.ledger
    if source == "chain":
        if ledger.registry is None:
            raise CannotStart('ledger.registry: must be given where transport.registry is "chain"')
        return ChainRegistry(client, ledger.registry, ledger.chain_id, ledger.registry_limits)
    try:
        return StaticRegistry(read_registry(source))
    except (ValueError, OSError) as error:
        raise CannotStart(f"transport.registry: {error}") from error


def _tracing(configuration: NodeConfiguration) -> tuple[Tracing | None, TransactionSpans | None]:
    """Return the exporter of spans and their source; None for both without an endpoint, at no cost."""
    try:
        tracing = tracing_to(configuration.telemetry.endpoint, configuration.node.name)
    except CannotTrace as error:
        raise CannotStart(str(error)) from error
    if tracing is None:
        return None, None
    percent = configuration.telemetry.sample_percent
    return tracing, TransactionSpans(configuration.node.name, tracing.tracer, percent)


def _watcher(watcher: Watcher | None, log: TransactionLog | None) -> Watcher | None:
    """Return both as one watcher; None if there is neither, so that events and effects cost no call."""
    return Watchers(watcher, log) if watcher is not None and log is not None else watcher or log


def _triggers(configuration: NodeConfiguration) -> tuple[LoadedTrigger, ...]:
    automation = configuration.automation
    try:
        return load_triggers(automation.load, automation.settings, configuration.triggers, automation.paused)
    except CannotLoad as flaw:
        raise CannotStart(str(flaw)) from flaw


def _peers(
    configuration: NodeConfiguration, keys: NodeKeys, registry: Registry, tell: Tell, announcement: Announcement
) -> GrpcPeers:
    if not keys.certificate.is_valid_at(int(time.time())):
        raise CannotStart("node.keys: the certificate is not valid now; `rota keys rotate-certificate` makes another")
    transport = configuration.transport
    return GrpcPeers(
        configuration.node.name,
        identity_of(keys.transport),
        registry,
        tell,
        listen=transport.listen,
        settings=transport.settings,
        announcement=announcement,
        # The operator writes a file of nodes, so local endpoints in it are trusted.
        allows_local=transport.local_endpoints or not isinstance(registry, ChainRegistry),
    )


def _deployments_on(client: RpcClient, configuration: NodeConfiguration) -> FindDeployment:
    factory = configuration.ledger.factory

    async def find(intent: IntentId) -> FoundDeployment | None:
        if factory is None:
            raise Unavailable("ledger.factory: must be set before contracts can be taken in")
        return await find_deployment(client, factory, intent)

    return find


def _defaults(configuration: NodeConfiguration) -> ContractDefaults:
    """Return the defaults of contracts that are deployed through this node (protocol §2)."""
    contracts = configuration.contracts
    return ContractDefaults(
        configuration.ledger.chain_id, contracts.rotation, contracts.range_size, contracts.virtual_nodes
    )


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


def _registered(registry: Registry) -> Callable[[], Mapping[NodeName, RegisteredNode]]:
    """Return the source of registered nodes' on-chain details; a file has none."""
    return registry.nodes if isinstance(registry, ChainRegistry) else dict


def _entrance_settings(configuration: NodeConfiguration) -> EntranceSettings:
    rpc, operations = configuration.rpc, configuration.operations
    is_shared = operations.host is None and operations.port is None
    try:
        return EntranceSettings(
            Bind(rpc.host, rpc.port),
            Bind(rpc.host, rpc.websocket_port),
            None if is_shared else Bind(*configuration.operations_address),
            Bind(*configuration.commands_address) if configuration.commands_address is not None else None,
            read_credentials(rpc.credentials_file) if rpc.credentials_file is not None else (),
            rpc.origins,
            rpc.proxies,
            _tls_files(configuration),
            rpc.limits,
            configuration.automation.splice_metrics,
        )
    except (ValueError, OSError) as error:
        raise CannotStart(f"rpc: {error}") from error


def _entrance(facade: NodeFacade, settings: EntranceSettings) -> Entrance:
    try:
        return Entrance(facade, settings, CollectorRegistry(), add_pages=add_pages)
    except (ValueError, OSError) as error:
        raise CannotStart(f"rpc.certificate_file: {error}") from error


def _tls_files(configuration: NodeConfiguration) -> TlsFiles | None:
    rpc = configuration.rpc
    if rpc.certificate_file is None or rpc.key_file is None:
        return None
    return TlsFiles(rpc.certificate_file, rpc.key_file, rpc.client_ca_file)
