"""The node itself: if it runs, its own status; if not, whether its ports are free."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

import aiohttp

from rota.client import trusting
from rota.doctor.case import Case
from rota.doctor.findings import Finding, failed, ok, skipped, warning
from rota.server.configuration import NodeConfiguration

NODE: Final = "node"
TIMEOUT_S: Final = 3.0
# A socket that listens everywhere listens here too.
LOCAL_OF: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1"}


async def check_node(case: Case) -> list[Finding]:
    """It runs and is ready; or it does not run."""
    host, port = case.configuration.operations_address
    if port == 0:
        return [skipped(NODE, "the system chooses its ports (rpc.port is 0), so that it cannot be asked")]
    alive = await _asked(case.configuration, "livez")
    if alive is None or alive.get("live") is not True:
        return [ok(NODE, f"it does not run: nothing of ours answers at {_shown(host, port)}")]
    if alive.get("node") != case.name:
        mend = "Give this node another rpc.port (or operations.port), or stop the other one."
        return [failed(NODE, f"{_shown(host, port)} is taken by {alive.get('node')}, another node", mend)]
    case.is_running = True
    ready = await _asked(case.configuration, "readyz") or {}
    missing, warnings = _texts(ready.get("missing")), _texts(ready.get("warnings"))
    if ready.get("ready") is not True:
        found = "it runs and is not ready: " + ("; ".join(missing) or "it does not say why")
        return [failed(NODE, found, "See to what it lacks; the rest of this list and its log say more.")]
    if warnings:
        return [warning(NODE, f"it runs, and warns: {'; '.join(warnings)}", "See to what it warns of.")]
    return [ok(NODE, f"it runs and is ready, at {_shown(host, port)}")]


def _texts(told: object) -> list[str]:
    return [str(each) for each in told] if isinstance(told, list) else []


async def _asked(configuration: NodeConfiguration, path: str) -> dict[str, Any] | None:
    """The answer with any status; nothing when no node of ours answers."""
    host, port = configuration.operations_address
    try:
        scheme, tls = _tls_of(configuration)
        url = f"{scheme}://{_shown(host, port)}/{path}"
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session,
            session.get(url, ssl=tls) as answer,
        ):
            told = await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def _tls_of(configuration: NodeConfiguration) -> tuple[str, ssl.SSLContext | bool]:
    """The node's own certificate is trusted, and no other; which names it has does not matter here."""
    certificate = configuration.rpc.certificate_file
    if certificate is None:
        return "http", True
    context = trusting(certificate)
    context.check_hostname = False
    return "https", context


async def check_ports(case: Case) -> list[Finding]:
    """The ports of the node are free."""
    if case.is_running:
        return [skipped("ports", "the node runs: they are its own")]
    return [_port(setting, *door) for setting, door in _doors(case.configuration).items() if setting not in case.wrong]


def _doors(configuration: NodeConfiguration) -> dict[str, tuple[str, int]]:
    rpc, (host, _, port) = configuration.rpc, configuration.transport.listen.rpartition(":")
    doors = {
        "rpc.port": (rpc.host, rpc.port),
        "rpc.websocket_port": (rpc.host, rpc.websocket_port),
        "transport.listen": (host.strip("[]"), int(port)),
    }
    if configuration.operations_address != doors["rpc.port"]:
        doors["operations.port"] = configuration.operations_address
    if configuration.commands_address is not None:
        doors["commands.port"] = configuration.commands_address
    return doors


def _port(setting: str, host: str, port: int) -> Finding:
    if port == 0:
        return ok(setting, "the system chooses one")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen(1)
    except OSError as error:
        mend = f"Stop what listens there (ss -ltnp 'sport = :{port}' shows it), or change {setting}."
        return failed(setting, f"cannot listen on {_shown(host, port)}: {error.strerror or error}", mend)
    return ok(setting, f"{_shown(host, port)} is free")


def _shown(host: str, port: int) -> str:
    host = LOCAL_OF.get(host, host).strip("[]")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
