"""The settings of a node: one TOML file, and variables of the environment that stand before it.

`configuring` is how it is done; this is what the rest of the node uses.
"""

from rota.runtime.configuring.kinds import PostgresServer, SqliteFile
from rota.runtime.configuring.sections import (
    ContractsSection,
    LedgerSection,
    LogFormat,
    LogLevel,
    LogSection,
    NodeConfiguration,
    NodeSection,
    OperationsSection,
    RpcSection,
    StoreSection,
    TelemetrySection,
    TransportSection,
)

__all__ = [
    "ContractsSection",
    "LedgerSection",
    "LogFormat",
    "LogLevel",
    "LogSection",
    "NodeConfiguration",
    "NodeSection",
    "OperationsSection",
    "PostgresServer",
    "RpcSection",
    "SqliteFile",
    "StoreSection",
    "TelemetrySection",
    "TransportSection",
]
