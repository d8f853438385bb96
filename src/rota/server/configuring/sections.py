"""All settings, section by section. The reader, the written file and the reference are generated from this module.

A section is a frozen dataclass. The node's own keys are its fields; those for the timers and limits of another package
are in `borrowed`, and the section holds that package's own value. `SECTIONS` lists all keys in the order in which they
are written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.triggers import NAME as TRIGGER_NAME
from rota.chain.submitters import AccountChoice
from rota.directory.consent import Consent, ConsentMode
from rota.keys.certificates import NODE_NAME
from rota.keys.secret import Secret
from rota.ledger.client import ClientLimits
from rota.ledger.follower import FollowerLimits
from rota.ledger.registry import RegistryLimits
from rota.model.config import Config
from rota.model.types import RANGE_SIZE_MAX, VIRTUAL_NODES_MAX, ContractAddress, NodeName, Rotation
from rota.ports import PLACES_MAX
from rota.server.configuring import borrowed
from rota.server.configuring.borrowed import borrowed_keys
from rota.server.configuring.keys import NOTHING, REQUIRED, Key, key, keys_of
from rota.server.configuring.kinds import (
    PORT_MAX,
    WEB_SCHEMES,
    Address,
    Database,
    Endpoint,
    Flag,
    Hidden,
    Host,
    Name,
    Names,
    OneOf,
    Place,
    PostgresServer,
    RegistrySource,
    SqliteFile,
    WebAddress,
    WebOrigins,
    Whole,
)
from rota.server.settings import Limits as RpcLimits
from rota.transport.settings import TransportSettings

RPC_PORT: Final = 31_548
WEBSOCKET_PORT: Final = 31_549
PEER_PORT: Final = 31_550

NETWORK: Final = re.compile(r"[0-9A-Fa-f.:]+(/[0-9]{1,3})?")
MODULE_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

_PORT: Final = Whole(0, PORT_MAX)


class LogLevel(Enum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Enum):
    """The form of a line: for a person at a terminal, or for a program."""

    CONSOLE = "console"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSection:
    """Who this node is, and where its keys lie."""

    name: NodeName = key(Name(), REQUIRED, "The node's name in the network: its certificate and the registry have it.")
    keys: Path = key(Place(), "keys", "The folder with the wallet and the certificates, as `rota init` makes it.")
    password_file: Path | None = key(
        Place(), NOTHING, "A file of mode 600 whose first line is the password of the keys."
    )
    password: Secret | None = key(
        Hidden(), NOTHING, "The password itself, where no file is wanted.", is_environment_only=True
    )
    stop_timeout_ms: int = key(
        Whole(), 10_000, "How long a node that is asked to stop hands over and drains before it stops anyway.", "ms"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSection:
    """The base ledger: an Ethereum node, and the contracts that the network uses on its chain."""

    url: str = key(WebAddress(), REQUIRED, "The JSON-RPC of one Ethereum node, or of what stands for one.")
    chain_id: int = key(Whole(), REQUIRED, "The chain that it must be on; a node of another one is refused.")
    factory: ContractAddress | None = key(
        Address(), NOTHING, "The network's Factory, through which contracts are deployed and found."
    )
    registry: ContractAddress | None = key(
        Address(), NOTHING, 'The network\'s Registry, needed where transport.registry is "chain".'
    )
    registry_from_height: int = key(Whole(0), 0, "The block from which on the Registry's events are read.", "height")
    registry_poll_ms: int = key(Whole(), 1_000, "Between two looks at the Registry.", "ms")
    registry_range_max: int = key(Whole(), 2_000, "Blocks whose events are asked for at once.", "blocks")
    confirmations: int | None = key(
        Whole(0),
        NOTHING,
        "Blocks on top of one that make it final. Left out, it follows from the chain: 0 where no block can be lost "
        "(IBFT, QBFT, chains for development), 64 for proof of stake, else 12.",
        "blocks",
    )
    accept_lost_blocks: bool = key(
        Flag(), False, "Take 0 confirmations on a chain that can lose blocks: receipts may turn out false."
    )
    accounts: AccountChoice = key(
        OneOf(AccountChoice),
        "auto",
        'Which account pays for rounds: "shared" is the submitter for all contracts, "by contract" an account of '
        'its own for each, so that the payer does not link them. "auto" is "by contract" where gas is free when the '
        'node starts, and "shared" elsewhere. `rota contract account` chooses for one contract.',
    )
    following: FollowerLimits = field(default_factory=FollowerLimits)
    client: ClientLimits = field(default_factory=ClientLimits)

    @property
    def registry_limits(self) -> RegistryLimits:
        """The limits of following the Registry."""
        return RegistryLimits(
            from_height=self.registry_from_height, poll_ms=self.registry_poll_ms, range_max=self.registry_range_max
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSection:
    """What the node remembers across a restart."""

    url: SqliteFile | PostgresServer = key(
        Database(),
        "sqlite:rota.db",
        "`sqlite:FILE`, or `postgresql://USER@HOST:PORT/DATABASE` without a password. A server on another machine must "
        "prove its name by a certificate, unless `?sslmode=` names something less.",
    )
    password_file: Path | None = key(
        Place(), NOTHING, "A file of mode 600 whose first line is the password of the PostgreSQL user."
    )
    password: Secret | None = key(
        Hidden(), NOTHING, "That password itself, where no file is wanted.", is_environment_only=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSection:
    """The other nodes: where this one listens for them, and where it learns who they are."""

    listen: str = key(
        Endpoint(port_least=0), f"0.0.0.0:{PEER_PORT}", "Where to listen; with port 0 the system chooses one."
    )
    endpoint: str | None = key(
        Endpoint(places_max=PLACES_MAX),
        NOTHING,
        "Where other nodes reach this one: what `rota ledger register` puts into the Registry. With a standby both "
        "places, with a comma.",
    )
    registry: Path | Literal["chain"] = key(
        RegistrySource(), "chain", '"chain" for the Registry of the ledger, or a file with the nodes.'
    )
    local_endpoints: bool = key(
        Flag(),
        False,
        "Whether nodes are dialed whose endpoints in the ledger's Registry are on this machine or its link (loopback, "
        "link-local); for networks on one machine.",
    )
    renews_certificate: bool = key(
        Flag(),
        True,
        "Whether the node exchanges its certificate by itself, 30 days before it ends, where `registry` is the "
        "ledger's; the registrar pays.",
    )
    settings: TransportSettings = field(default_factory=TransportSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcSection:
    """The JSON-RPC for users and their applications."""

    host: str = key(Host(), "127.0.0.1", "Where to listen.")
    port: int = key(_PORT, RPC_PORT, "For HTTP; with 0 the system chooses one.")
    websocket_port: int = key(_PORT, WEBSOCKET_PORT, "For WebSockets; with 0 the system chooses one.")
    credentials_file: Path | None = key(
        Place(),
        NOTHING,
        "A file of mode 600 that says who may do what. Without it everybody may do everything, which is refused "
        "unless `host` is a loopback address.",
    )
    origins: tuple[str, ...] = key(
        WebOrigins(), (), "Web pages whose scripts may call from a browser; those of all others are refused."
    )
    certificate_file: Path | None = key(
        Place(),
        NOTHING,
        "A certificate (PEM, with its chain) for TLS on all ports of users and operators; left out, there is no TLS. "
        "Exchanged files are used without a restart.",
    )
    key_file: Path | None = key(Place(), NOTHING, "The key of that certificate: a PEM file of mode 600, not encrypted.")
    client_ca_file: Path | None = key(
        Place(), NOTHING, "Certificates of those who sign the client certificates that `credentials_file` names."
    )
    proxies: tuple[str, ...] = key(
        Names('addresses or networks, such as "10.0.0.0/8"', NETWORK),
        (),
        "Reverse proxies: of their requests the address counts that they name in X-Forwarded-For.",
    )
    limits: RpcLimits = field(default_factory=RpcLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsSection:
    """Metrics and health, for operators and their tools."""

    host: str | None = key(Host(), NOTHING, "Where to listen; left out, it is `rpc.host`.")
    port: int | None = key(_PORT, NOTHING, "Left out, it is `rpc.port`, and one server does both.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsSection:
    """Commands that happen exactly once: how far back duplicates are told, and where gRPC is served."""

    maximum_duration_ms: int = key(
        Whole(),
        604_800_000,
        "The deduplication duration that is always supported, and that holds where a command names no period. "
        "A change holds without a restart.",
        "ms",
    )
    host: str | None = key(Host(), NOTHING, "Where gRPC listens; left out, it is `rpc.host`.")
    port: int | None = key(
        _PORT,
        NOTHING,
        "For gRPC; with 0 the system chooses one. Left out, commands are taken over JSON-RPC alone. Who may call is "
        "said by `rpc.credentials_file`.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractsSection:
    """What contracts that are created through this node get where their creator names nothing else."""

    rotation: Rotation = key(
        OneOf(Rotation), "sticky", "Whether a coordinator stays until it fails or leaves with its range of blocks."
    )
    range_size: int = key(Whole(1, RANGE_SIZE_MAX), 100, "How long a range is.", "blocks")
    virtual_nodes: int = key(Whole(1, VIRTUAL_NODES_MAX), 1_024, "Places of each member on the ring.", "places")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentSection:
    """Whose contracts this node endorses or coordinates in ([consent](security.md#consent)).

    No consent is needed for a contract in which this node's parties only hold or receive something.
    """

    proposals: ConsentMode = key(
        OneOf(ConsentMode),
        "ask",
        'What becomes of a contract that another node proposes: "open" takes all of them, "listed" those of the nodes '
        'in `allow`, and "ask" asks the operator about those of all others (`rota consent`).',
    )
    allow: tuple[NodeName, ...] = key(
        Names("names of nodes", NODE_NAME), (), "Nodes whose proposals are taken without a question."
    )

    @property
    def policy(self) -> Consent:
        """The policy for the core."""
        return Consent(self.proposals, self.allow)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSection:
    """The level and form of the log; [all events](events.md)."""

    level: LogLevel = key(
        OneOf(LogLevel), "info", "The lowest level that is logged; `debug` has the flow of each transaction."
    )
    format: LogFormat = key(OneOf(LogFormat), "console", "Lines for a person, or one JSON object a line.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySection:
    """Traces of transactions across nodes (OpenTelemetry); needs the extra `otel`."""

    endpoint: str | None = key(
        WebAddress(schemes=WEB_SCHEMES, example="http://localhost:4318"),
        NOTHING,
        "Where spans are sent, over OTLP; left out, nowhere.",
    )
    sample_percent: int = key(
        Whole(0, 100), 100, "How many of all transactions are traced; all nodes pick the same ones.", "%"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationSection:
    """Tasks that every member attempts, and that the ledger lets one perform."""

    load: tuple[str, ...] = key(
        Names('names of Python modules, such as "company.triggers"', MODULE_NAME),
        (),
        "Modules whose triggers this node runs beside those of Rota.",
    )
    paused: tuple[str, ...] = key(
        Names("names of triggers", TRIGGER_NAME),
        (),
        "Triggers that are paused at start; one that is resumed while the node runs is paused again after a restart.",
    )
    strategy: Strategy = key(
        OneOf(Strategy),
        "random",
        'How tasks are attempted: after a random delay, or by "rank", if every member says so.',
    )
    expected_task_duration_ms: int = key(Whole(), 5_000, "How long a task is expected to take.", "ms")
    polling_interval_ms: int = key(Whole(), 30_000, "Between two looks for tasks.", "ms")
    parallel_tasks: int = key(Whole(), 4, "Tasks of one trigger that this node performs at a time.", "tasks")
    look_ms: int = key(Whole(), 1_000, "Between two looks at the ledger for events that triggers watch.", "ms")
    splice_metrics: bool = key(
        Flag(), True, "Whether attempts are also counted as splice_trigger_attempted_total, as CIP 64 calls it."
    )

    @property
    def settings(self) -> TriggerSettings:
        """The settings of every trigger that has none of its own."""
        return TriggerSettings(
            expected_task_duration_ms=self.expected_task_duration_ms,
            polling_interval_ms=self.polling_interval_ms,
            parallel_tasks=self.parallel_tasks,
            strategy=self.strategy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvingSection:
    """Proofs of zero-knowledge tokens ([zeto](zeto.md)); needs the extra `zeto`."""

    keys: Path | None = key(
        Place(), NOTHING, "The folder with the proving keys of a ceremony; left out, the keys for development."
    )
    allow_development_keys: bool = key(
        Flag(),
        False,
        "Whether tokens are deployed whose verifiers take proofs by the development keys. Whoever made these keys can "
        "make coins of nothing: only for development.",
    )
    processes: int = key(Whole(1, 64), 1, "How many proofs are made at a time, each on a core of its own.", "processes")
    waiting_max: int = key(
        Whole(), 256, "How many proofs may be made or wait; whoever comes then tries again.", "proofs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfiguration:
    """All settings of a node. `sequencer` has those of `[sequencer]`, and of `[ledger]` what the core needs."""

    node: NodeSection
    ledger: LedgerSection
    store: StoreSection = StoreSection()
    transport: TransportSection = TransportSection()
    rpc: RpcSection = RpcSection()
    operations: OperationsSection = OperationsSection()
    commands: CommandsSection = CommandsSection()
    sequencer: Config = Config()
    contracts: ContractsSection = ContractsSection()
    consent: ConsentSection = ConsentSection()
    log: LogSection = LogSection()
    telemetry: TelemetrySection = TelemetrySection()
    automation: AutomationSection = AutomationSection()
    proving: ProvingSection = ProvingSection()
    triggers: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))
    domains: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def operations_address(self) -> tuple[str, int]:
        """The host and port of metrics and health."""
        host = self.rpc.host if self.operations.host is None else self.operations.host
        return host, self.rpc.port if self.operations.port is None else self.operations.port

    @property
    def commands_address(self) -> tuple[str, int] | None:
        """The host and port of gRPC; None if it is not served."""
        if self.commands.port is None:
            return None
        return self.rpc.host if self.commands.host is None else self.commands.host, self.commands.port


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the file."""

    name: str
    text: str
    keys: tuple[Key, ...]


def _section(name: str, kind: type, *more: tuple[Key, ...]) -> Section:
    text = " ".join((kind.__doc__ or "").split())
    return Section(name, text, sum(more, keys_of(name, kind)))


DOMAINS: Final = Section(
    "domains", "One table `[domains.NAME]` for each domain that is installed and wants settings of its own.", ()
)
TRIGGERS: Final = Section(
    "triggers",
    "One table `[triggers.NAME]` for each trigger that has settings of its own: those of `[automation]` that say how "
    "tasks are attempted, and what the trigger itself asks for.",
    (),
)
# Tables whose keys are defined by domains and triggers.
OPEN_SECTIONS: Final = (DOMAINS, TRIGGERS)
SECTIONS: Final = (
    _section("node", NodeSection),
    _section(
        "ledger",
        LedgerSection,
        borrowed_keys("ledger", Config, borrowed.SEQUENCER_ON_LEDGER),
        borrowed_keys("ledger", FollowerLimits, borrowed.FOLLOWING),
        borrowed_keys("ledger", ClientLimits, borrowed.CLIENT),
    ),
    _section("store", StoreSection),
    _section("transport", TransportSection, borrowed_keys("transport", TransportSettings, borrowed.TRANSPORT)),
    _section("rpc", RpcSection, borrowed_keys("rpc", RpcLimits, borrowed.RPC)),
    _section("operations", OperationsSection),
    _section("commands", CommandsSection),
    Section(
        "sequencer",
        "Timers and limits of the sequencer (protocol §9). Nodes of a network should agree on them.",
        borrowed_keys("sequencer", Config, borrowed.SEQUENCER),
    ),
    _section("contracts", ContractsSection),
    _section("consent", ConsentSection),
    DOMAINS,
    _section("automation", AutomationSection),
    TRIGGERS,
    _section("proving", ProvingSection),
    _section("log", LogSection),
    _section("telemetry", TelemetrySection),
)
