"""What to try while the demonstration stays up: lines that can be typed as they stand."""

from __future__ import annotations

import json

from rota.demo.programme import Asset
from rota.demo.show import Show
from rota.demo.staging import Staged
from rota.types import node_of


def lines_to_try(rota: str, show: Show, staged: Staged) -> list[tuple[str, str]]:
    """Each with what it is for; `rota` is how this programme is called here."""
    first, *_ = show.programme.names
    url = _url(show, first)
    lines = [
        (show.dashboards[first], "the dashboard of node1, in a browser"),
        (f"{rota} trigger list --node {url}", "the epochs that node1 began, and those that others were faster at"),
    ]
    if show.command is not None:
        where = _url(show, node_of(show.command.payer))
        lines.append((_asked(where, "seq_explain", show.command.transaction), "the rent, step by step"))
    group = staged.contracts[Asset.ERC20]
    return [*lines, (_asked(url, "seq_status", group), "who coordinates the group, and what is under way")]


def _asked(url: str, method: str, parameter: str) -> str:
    """A question in JSON-RPC, for a shell."""
    question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": [parameter]}
    return f"curl -s {url} -d '{json.dumps(question)}'"


def _url(show: Show, name: str) -> str:
    return next(url.removesuffix("/dashboard") for node, url in show.dashboards.items() if node == name)
