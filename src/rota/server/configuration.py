"""The settings of a node: one TOML file, and environment variables that take precedence over it.

`configuring` has the implementation; this module is its interface for the rest of the node.
"""

from __future__ import annotations

from typing import Final

from rota.keys.node_keys import read_password
from rota.keys.secret import Secret
from rota.server.configuring.flaws import ConfigurationRejected, Flaw
from rota.server.configuring.keys import Absent
from rota.server.configuring.kinds import CHAIN, PostgresServer, SqliteFile
from rota.server.configuring.reading import Salvaged, read_configuration, read_text, salvage
from rota.server.configuring.sections import (
    SECTIONS,
    AutomationSection,
    CommandsSection,
    ConsentSection,
    ContractsSection,
    LedgerSection,
    LogFormat,
    LogLevel,
    LogSection,
    NodeConfiguration,
    NodeSection,
    OperationsSection,
    ProvingSection,
    RpcSection,
    StoreSection,
    TelemetrySection,
    TransportSection,
)
from rota.server.configuring.writing import render_reference, with_setting, write_configuration

__all__ = [
    "CHAIN",
    "FILE_NAME",
    "SECTIONS",
    "Absent",
    "AutomationSection",
    "CommandsSection",
    "ConfigurationRejected",
    "ConsentSection",
    "ContractsSection",
    "Flaw",
    "LedgerSection",
    "LogFormat",
    "LogLevel",
    "LogSection",
    "NodeConfiguration",
    "NodeSection",
    "OperationsSection",
    "PostgresServer",
    "ProvingSection",
    "RpcSection",
    "Salvaged",
    "SqliteFile",
    "StoreSection",
    "TelemetrySection",
    "TransportSection",
    "password_of",
    "read_configuration",
    "read_text",
    "render_reference",
    "salvage",
    "with_setting",
    "write_configuration",
]

FILE_NAME: Final = "config.toml"


def password_of(section: NodeSection | StoreSection) -> Secret | None:
    """Return the password of a section: from the environment, else from its file; None when it names neither.

    Raises `KeyFileError` when the file does not exist or is not private.
    """
    if section.password is not None or section.password_file is None:
        return section.password
    return read_password(section.password_file)
