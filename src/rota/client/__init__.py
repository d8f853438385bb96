"""The Python client of a node's JSON-RPC."""

from rota.client.errors import ClientError, Refused, Unreachable
from rota.client.jsonrpc import ClientLimits
from rota.client.node import ContractStatus, Explanation, NodeClient, TransactionReceipt

__all__ = [
    "ClientError",
    "ClientLimits",
    "ContractStatus",
    "Explanation",
    "NodeClient",
    "Refused",
    "TransactionReceipt",
    "Unreachable",
]
