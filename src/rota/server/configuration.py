"""The settings of a node: one TOML file, and variables of the environment that stand before it.

`configuring` is how it is done; this is what the rest of the node uses.
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
    """The password that a section names: that of the environment, else of its file; nothing when it names none.

    A `KeyFileError` when the file is not there or not private.
    """
    if section.password is not None or section.password_file is None:
        return section.password
    return read_password(section.password_file)
