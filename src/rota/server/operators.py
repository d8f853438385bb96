"""The endpoints of operators and their tools over plain HTTP: liveness, readiness, metrics.

`/livez` and `/readyz` need no credentials, as process managers have none; they return nothing about transactions, and
nothing about the machine's folders. `/metrics` needs the role `read` if the node requires credentials at all, and
refuses credentials that are restricted to parties. Under a host name that a foreign page may have taken (DNS
rebinding), `/readyz` returns only whether the node is ready, and `/metrics` nothing without credentials.
"""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from rota.rpc.credentials import Role
from rota.rpc.errors import Rejected
from rota.rpc.formats import encode, without_folders
from rota.server.doors import Door
from rota.service.interface import Node

JSON: Final = "application/json"
CHALLENGE: Final = 'Bearer realm="rota", Basic realm="rota"'


class Operators:
    """Answers operators."""

    def __init__(self, node: Node, door: Door, registry: CollectorRegistry) -> None:
        self._node: Final = node
        self._door: Final = door
        self._registry: Final = registry

    def add_to(self, application: web.Application) -> None:
        """Add the three endpoints."""
        application.router.add_get("/livez", self._on_livez)
        application.router.add_get("/readyz", self._on_readyz)
        application.router.add_get("/metrics", self._on_metrics)

    async def _on_livez(self, _: web.Request) -> web.Response:
        """Answer 200: any answer means that the process is alive."""
        return _json(web.HTTPOk.status_code, {"node": self._node.name, "live": True})

    async def _on_readyz(self, request: web.Request) -> web.Response:
        missing = list(map(without_folders, self._node.readiness()))
        status = web.HTTPServiceUnavailable.status_code if missing else web.HTTPOk.status_code
        if not self._door.is_known_host(request):
            return _json(status, {"ready": not missing})
        warnings = list(map(without_folders, self._node.warnings()))
        return _json(status, {"node": self._node.name, "ready": not missing, "missing": missing, "warnings": warnings})

    async def _on_metrics(self, request: web.Request) -> web.Response:
        if not self._door.asks_credentials and not self._door.is_known_host(request):
            text = "without credentials this is answered for an address or localhost as the host\n"
            return web.Response(status=web.HTTPForbidden.status_code, text=text)
        try:
            caller = await self._door.admit(request)
        except Rejected as rejected:
            headers = {hdrs.WWW_AUTHENTICATE: CHALLENGE}
            return web.Response(status=web.HTTPUnauthorized.status_code, text=f"{rejected}\n", headers=headers)
        if Role.READ not in caller.roles:
            return web.Response(status=web.HTTPForbidden.status_code, text="the role 'read' is needed\n")
        if caller.parties is not None:
            text = "not for credentials that are held to parties\n"
            return web.Response(status=web.HTTPForbidden.status_code, text=text)
        generate, content_type = choose_encoder(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=generate(self._registry), headers={hdrs.CONTENT_TYPE: content_type})


def _json(status: int, value: object) -> web.Response:
    return web.Response(status=status, body=encode(value), content_type=JSON)
