"""The page of all JSON-RPC methods, generated from the table that serves them."""

from __future__ import annotations

from typing import Final

from rota.rpc.methods import Method
from rota.server.table import TABLE

HEAD: Final = """# All methods

Generated from the code by `rota docs`; a node serves the same as an OpenRPC document with every type (`rpc.discover`).
[The API](api.md) has the rules for all of them. A parameter with ? may be left out.
"""

# In the order in which an application meets them.
FAMILIES: Final = {
    "ptx": "Transactions: submitting, following, types, listeners",
    "pgroup": "Privacy groups, their contracts and messages",
    "pstate": "Private states",
    "keymgr": "Keys",
    "domain": "Domains and their contracts",
    "transport": "This node among the others",
    "reg": "Registered nodes",
    "bidx": "The base ledger",
    "seq": "The sequencer",
    "consent": "Consent: contracts that name this node",
    "node": "The node itself",
    "settle": "Settlements",
    "cmd": "Commands",
    "trigger": "Automation",
    "debug": "For those who look for faults",
    "rpc": "The document",
}


def render_methods() -> str:
    """All families, each with its methods in the order of the table."""
    unknown = {method.family for method in TABLE.values()} - set(FAMILIES)
    assert not unknown, f"families without a heading: {', '.join(sorted(unknown))}"
    parts = [HEAD]
    for family, heading in FAMILIES.items():
        methods = [method for method in TABLE.values() if method.family == family]
        if methods:
            rows = "\n".join(_row(method) for method in methods)
            parts.append(f"## {heading}\n\n| method | role | what it does |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _row(method: Method) -> str:
    parameters = ", ".join(each.name if each.is_required else f"{each.name}?" for each in method.parameters)
    summary = " ".join(method.summary.split()).replace("|", "\\|")
    return f"| `{method.name}({parameters})` | {method.role.value} | {summary} |"
