"""The Python client of a node's JSON-RPC."""

from rota.client.commands import CommandError, Commands, Outcome, Patience, Verdict
from rota.client.errors import ClientError, Refused, Unreachable
from rota.client.journal import Journal
from rota.client.jsonrpc import ClientLimits
from rota.client.node import ContractStatus, Explanation, NodeClient, TransactionReceipt

__all__ = [
    "ClientError",
    "ClientLimits",
    "CommandError",
    "Commands",
    "ContractStatus",
    "Explanation",
    "Journal",
    "NodeClient",
    "Outcome",
    "Patience",
    "Refused",
    "TransactionReceipt",
    "Unreachable",
    "Verdict",
]
