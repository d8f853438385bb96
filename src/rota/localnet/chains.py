"""A chain in a process of its own, the embedded one or Anvil; or one that runs already.

Both mine at once and know the development accounts. Gas is free, so that a new account can send transactions. The
embedded chain is in memory: killed, it is lost, so it can only be hung. Anvil writes its blocks to a file when it is
asked to stop, and restarts with them at the same port.

Anvil is `ROTA_ANVIL`, the `anvil` that the shell finds, or in a checkout the one that `tools/install-test-tools`
installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from rota.keys.secp256k1 import PrivateKey
from rota.localnet.children import ROTA, CannotStartProcess, Child, Children

CHAIN_ID: Final = 31_337
STOP_TIMEOUT_S: Final = 20.0
NO_ANVIL: Final = "install it, set ROTA_ANVIL, or run tools/install-test-tools in a checkout"
# By default Anvil keeps the state behind every block in memory, or on disk under the user's home. Gas is free on it,
# too.
ANVIL_OPTIONS: Final = ("--prune-history", "1000", "--block-base-fee-per-gas", "0", "--disable-min-priority-fee")

_INSTALLED: Final = Path(__file__).parents[3] / "tools" / "anvil" / "node_modules"


class ChainKind(Enum):
    """The program that runs the chain."""

    EMBEDDED = "embedded"
    ANVIL = "anvil"


@dataclass(frozen=True, slots=True)
class RunningChain:
    """A chain that runs already: its address, the key that pays, and the funds for each account of a node."""

    url: str
    payer: PrivateKey
    funds_wei: int


def find_anvil() -> str | None:
    """The path of Anvil on this machine, or None."""
    named = os.environ.get("ROTA_ANVIL") or shutil.which("anvil")
    if named:
        return named
    return next((str(path) for path in sorted(_INSTALLED.glob("@foundry-rs/anvil-*/bin/anvil"))), None)


class ChainProcess:
    """One chain. It keeps its port across restarts."""

    def __init__(
        self, kind: ChainKind, home: Path, children: Children, host: str = "127.0.0.1", prefix: Sequence[str] = ()
    ) -> None:
        self.kind: Final = kind
        self.port = 0
        self._home: Final = home
        self._children: Final = children
        self._host: Final = host
        self._prefix: Final = tuple(prefix)
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        """The chain's process."""
        assert self._child is not None, "the chain was started"
        return self._child

    async def start(self) -> None:
        """Start or restart the chain. `CannotStartProcess` when that is not possible."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = self._embedded() if self.kind is ChainKind.EMBEDDED else self._anvil()
        self._child = await self._children.start(
            f"the chain ({self.kind.value})",
            command,
            self._home / "log",
            environment={"HOME": str(self._home)},
            prefix=self._prefix,
        )
        if self.kind is ChainKind.EMBEDDED:
            url = str(json.loads(await self._child.line_with('"url"'))["url"])
            self.port = int(url.rpartition(":")[2])
            return
        told = re.search(r"Listening on \S+:(\d+)", await self._child.line_with("Listening on"))
        assert told is not None, "the line has its address"
        self.port = int(told[1])

    async def stop(self) -> None:
        """Stop the chain cleanly: Anvil writes its blocks."""
        self.child.signal(signal.SIGINT)
        await self.child.stop(STOP_TIMEOUT_S)

    def hang(self) -> None:
        """Suspend the process; it does not answer until it is woken."""
        self.child.signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Resume the process."""
        self.child.signal(signal.SIGCONT)

    def _embedded(self) -> tuple[str, ...]:
        # A new account has no funds, and must be able to send transactions.
        options = ("--host", self._host, "--port", str(self.port), "--chain-id", str(CHAIN_ID), "--free-gas", "--json")
        return (*ROTA, "ledger", *options)

    def _anvil(self) -> tuple[str, ...]:
        programme = find_anvil()
        if programme is None:
            raise CannotStartProcess(f"there is no Anvil: {NO_ANVIL}")
        state = ("--state", str(self._home / "state.json"))
        place = ("--host", self._host, "--port", str(self.port), "--chain-id", str(CHAIN_ID))
        return (programme, *place, *state, *ANVIL_OPTIONS)
