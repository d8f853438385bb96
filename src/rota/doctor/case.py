"""The facts about the node: checks run one after the other, and later ones use the results of earlier ones.

A check whose input is missing is skipped with the reason. Nothing that a check finds is believed where the setting that
led to it is wrong: `wrong` has those settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rota.keys.certificates import Certificate
from rota.keys.secret import Secret
from rota.ledger.client import RpcClient
from rota.model.types import NodeName
from rota.ports import Signer
from rota.server.configuration import FILE_NAME, Flaw, NodeConfiguration, NodeSection, password_of, salvage

LEDGER_TIMEOUT_MS: Final = 5_000
BLOCK_WAIT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Means:
    """How a look is taken: where the password comes from, the time of day, how long a new block is waited for."""

    password_for: Callable[[NodeSection], Secret | None] = password_of
    now_s: Callable[[], float] = time.time
    block_wait_s: float = BLOCK_WAIT_S


@dataclass(slots=True)
class Case:
    """One node's folder, and the facts about it so far."""

    folder: Path
    configuration: NodeConfiguration
    wrong: frozenset[str]
    means: Means
    signer: Signer | None = None
    certificate: Certificate | None = None
    ledger: RpcClient | None = None
    is_running: bool = False
    registered_endpoint: str | None = None

    @property
    def file(self) -> Path:
        """Its configuration."""
        return self.folder / FILE_NAME

    @property
    def name(self) -> NodeName:
        """What it is called."""
        return self.configuration.node.name

    def new_ledger_client(self) -> RpcClient:
        """One that does not wait for long."""
        limits = self.configuration.ledger.client
        timeout_ms = min(limits.timeout_ms, LEDGER_TIMEOUT_MS)
        return RpcClient(self.configuration.ledger.url, replace(limits, timeout_ms=timeout_ms))


def open_case(folder: Path, means: Means) -> tuple[Case | None, tuple[Flaw, ...]]:
    """The usable parts of a folder, and all errors of its configuration."""
    salvaged = salvage(folder / FILE_NAME)
    if salvaged.configuration is None:
        return None, salvaged.flaws
    return Case(folder, salvaged.configuration, frozenset(flaw.key for flaw in salvaged.flaws), means), salvaged.flaws
