"""The dashboard: the state of a node, in a browser.

Theory of operation. The page consists of static files in `pages/`: one HTML document, style sheets, ES modules. They
are read once, are the same for all users and have no data of the node; access is checked where the page makes requests,
over JSON-RPC at `/` and one WebSocket at `/live` of the same origin, with the credentials that its user entered.

The content security policy lets the page load scripts and styles from this origin only, no inline ones, and connect to
this origin only. No page may frame it. A browser asks each time whether a file has changed, and the digest answers it,
so that an upgraded node is never shown with an earlier version of the page.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from aiohttp import hdrs, web

PATH: Final = "/dashboard"
START: Final = "index.html"
CONTENT_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; connect-src 'self'"
)
PLACE: Final = re.compile(r"[A-Za-z0-9.\-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    hdrs.CACHE_CONTROL: "no-cache",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A file as it is served."""

    content: bytes
    content_type: str
    digest: str


def policy_for(host: str) -> str:
    """Return the policy with the host's WebSocket addresses, which not every browser counts as the same origin."""
    return f"{POLICY} ws://{host} wss://{host}" if PLACE.fullmatch(host) else POLICY


def read_pages() -> Mapping[str, Page]:
    """Return all files, by name."""
    found: dict[str, Page] = {}
    for file in files(__name__).joinpath("pages").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in CONTENT_TYPES:
            content = file.read_bytes()
            digest = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[file.name] = Page(content, CONTENT_TYPES[ending], digest)
    assert START in found, "the package holds its pages"
    return found


def add_pages(application: web.Application) -> None:
    """Serve the dashboard at `PATH`."""
    pages = read_pages()

    async def on_start(_: web.Request) -> web.Response:
        # Relative addresses in the document begin at its folder.
        return web.Response(status=web.HTTPFound.status_code, headers={hdrs.LOCATION: f"{PATH}/"})

    async def on_page(request: web.Request) -> web.Response:
        page = pages.get(request.match_info["name"] or START)
        if page is None:
            return web.Response(status=web.HTTPNotFound.status_code, text="there is no such page\n", headers=HEADERS)
        policy = policy_for(request.headers.get(hdrs.HOST, ""))
        headers = {**HEADERS, hdrs.CONTENT_SECURITY_POLICY: policy, hdrs.ETAG: page.digest}
        if request.headers.get(hdrs.IF_NONE_MATCH) == page.digest:
            return web.Response(status=web.HTTPNotModified.status_code, headers=headers)
        return web.Response(body=page.content, headers={**headers, hdrs.CONTENT_TYPE: page.content_type})

    application.router.add_get(PATH, on_start)
    application.router.add_get(PATH + "/{name:[a-z_]*(?:[.][a-z]+)?}", on_page)
