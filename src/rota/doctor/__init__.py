"""Checks of a node, with fixes: `rota doctor`.

Theory of operation. The configuration is read as far as it can be: a wrong setting is a finding, and the checks
that rely on it are skipped. Then one check follows the other, from the node's own files to its neighbours; each adds to
the case what the later ones need. A check never ends the look: what it did not foresee is a finding too, and whatever
takes too long is cut short. Nothing is changed, locked or migrated, and the node may run meanwhile.

findings.py    start reading here: the result of a check      case.py         the results so far
own_files.py   keys, certificate, credentials, plug-ins       database.py     the database and its disk
base_ledger.py the ledger: chain, contracts, blocks, clock, funds
neighbours.py  the registry, and the other nodes              process.py      the node if it runs, its ports if not
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rota.doctor.base_ledger import (
    check_blocks,
    check_clock,
    check_confirmations,
    check_contracts,
    check_funds,
    check_ledger,
)
from rota.doctor.case import Case, Means, open_case
from rota.doctor.database import check_database, check_disk
from rota.doctor.findings import Finding, Report, Status, failed, ok, skipped
from rota.doctor.neighbours import check_endpoint, check_peers, check_registration
from rota.doctor.own_files import check_certificate, check_credentials, check_keys, check_plug_ins
from rota.doctor.process import check_node, check_ports
from rota.ledger.client import RpcRefused
from rota.ports import Unavailable
from rota.server.configuration import FILE_NAME, Flaw

__all__ = ["Finding", "Means", "Report", "Status", "examine"]

CONFIGURATION: Final = "configuration"
CHECK_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Check:
    """One look, and the settings without which it makes no sense."""

    name: str
    look: Callable[[Case], Awaitable[list[Finding]]]
    needs: tuple[str, ...] = ()


_LEDGER: Final = ("ledger.url", "ledger.chain_id")
CHECKS: Final = (
    Check("certificate", check_certificate, ("node.name", "node.keys")),
    Check("keys", check_keys, ("node.name", "node.keys", "node.password_file")),
    Check("credentials", check_credentials, ("rpc.credentials_file",)),
    Check("plug-ins", check_plug_ins),
    Check("database", check_database, ("node.name", "store.url", "store.password_file")),
    Check("disk", check_disk),
    Check("ledger", check_ledger, _LEDGER),
    Check("confirmations", check_confirmations, ("ledger.confirmations",)),
    Check("contracts", check_contracts),
    Check("blocks", check_blocks),
    Check("clock", check_clock),
    Check("funds", check_funds),
    Check("registration", check_registration, ("node.name", "transport.registry")),
    Check("node", check_node, ("node.name", "rpc.host", "rpc.port", "operations.host", "operations.port")),
    Check("endpoint", check_endpoint, ("node.name", "transport.endpoint")),
    Check("peers", check_peers, ("transport.registry",)),
    Check("ports", check_ports),
)


async def examine(folder: Path, means: Means | None = None, told: Callable[[str], None] = lambda _: None) -> Report:
    """Check the node of a folder. `told` receives the name of each check."""
    told(CONFIGURATION)
    case, flaws = open_case(folder, means or Means())
    findings = [_configuration(flaws, case is not None)]
    try:
        for check in CHECKS:
            told(check.name)
            findings += await _looked(check, case)
    finally:
        if case is not None and case.ledger is not None:
            await case.ledger.close()
    return Report(tuple(findings))


def _configuration(flaws: tuple[Flaw, ...], is_read: bool) -> Finding:
    if not flaws:
        return ok(CONFIGURATION, f"{FILE_NAME}: every setting is right")
    found = "\n".join(map(str, flaws))
    if not is_read:
        return failed(CONFIGURATION, found, "Correct the file; `rota init` makes a folder with one.")
    return failed(CONFIGURATION, found, "Correct these lines or variables; docs/configuration.md has every setting.")


async def _looked(check: Check, case: Case | None) -> list[Finding]:
    """Run a check. An exception in it is a finding, so that the others run."""
    if case is None:
        return [skipped(check.name, "the configuration cannot be read (see configuration)")]
    if wrong := [setting for setting in check.needs if setting in case.wrong]:
        return [skipped(check.name, f"{wrong[0]} is wrong (see configuration)")]
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            return await check.look(case)
    except TimeoutError:
        mend = "Run this again; what takes so long does not serve a node either."
        return [failed(check.name, f"no answer within {CHECK_TIMEOUT_S:.0f} s", mend)]
    except (Unavailable, RpcRefused, OSError, ValueError) as error:
        return [failed(check.name, str(error) or type(error).__name__, "See to what it names, and run this again.")]
    except Exception as error:
        mend = "This look itself went wrong, which is a defect of Rota: please report it."
        return [failed(check.name, f"{type(error).__name__}: {error}", mend)]
