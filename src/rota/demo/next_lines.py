"""Commands to try while the demonstration stays up, ready to be typed."""

from __future__ import annotations

import json
from typing import Final

from rota.demo.programme import Asset
from rota.demo.show import Show
from rota.demo.staging import Staged
from rota.model.types import NodeName, node_of
from rota.server.dashboard import PATH as DASHBOARD_PATH

AMOUNT: Final = 42


def lines_to_try(rota: str, show: Show, staged: Staged) -> list[tuple[str, str]]:
    """Each command with its purpose; `rota` is the name of this program in the user's shell."""
    first, second, *_ = show.programme.names
    payer, payee = show.programme.members[first], show.programme.members[second]
    token, group = staged.contracts[Asset.TOKEN], staged.contracts[Asset.ERC20]
    url = _url(show, first)
    question = {"jsonrpc": "2.0", "id": 1, "method": "seq_status", "params": [group]}
    lines = [
        (show.dashboards[first], f"the dashboard of {first}, in a browser"),
        (f"{rota} token transfer {token} {payee} {AMOUNT} --from {payer} --node {url}", "pay somebody"),
        (f"{rota} token balance {token} {payee} --node {_url(show, second)}", "what that one has, by its own node"),
        (f"{rota} trigger list --node {url}", f"epochs that {first} won, and those that others were faster at"),
        (f"curl -s {url} -d '{json.dumps(question, separators=(',', ':'))}'", "who leads the group, and its queues"),
    ]
    if show.command is not None:
        where = _url(show, node_of(show.command.payer))
        lines.insert(1, (f"{rota} tx explain {show.command.transaction} --node {where}", "the rent, step by step"))
    return lines


def _url(show: Show, name: NodeName) -> str:
    return show.dashboards[name].removesuffix(DASHBOARD_PATH)
