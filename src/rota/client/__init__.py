"""The Python client of a node ([its page](docs/client.md)).

from rota.client import Client
"""

from rota.client.answers import (
    Balance,
    ContractStatus,
    EndorserMissing,
    Examined,
    Explanation,
    FullReceipt,
    GroupMessage,
    Leg,
    OperatorAsked,
    PreparedTransaction,
    TransactionReceipt,
    TriggerRun,
    TriggerStatus,
)
from rota.client.client import Client
from rota.client.commands import CommandError, Commands, Outcome, Patience, Verdict
from rota.client.dependencies import LeafDependency
from rota.client.errors import (
    BalanceUnknown,
    Behind,
    ClientError,
    Closed,
    Failed,
    Overloaded,
    Pending,
    Refused,
    Unreachable,
    Unsettled,
)
from rota.client.feeds import Feed
from rota.client.groups import Group, GroupContract, Groups
from rota.client.journal import Journal
from rota.client.jsonrpc import ClientLimits, Payees, bearer, trusting
from rota.client.ledger import Ledger, PublicContract
from rota.client.positions import Positions
from rota.client.settlements import Draft, Settlements
from rota.client.sync import SyncClient
from rota.client.tokens import Token, Tokens
from rota.client.transactions import Transaction
from rota.client.triggers import Triggers

__all__ = [
    "Balance",
    "BalanceUnknown",
    "Behind",
    "Client",
    "ClientError",
    "ClientLimits",
    "Closed",
    "CommandError",
    "Commands",
    "ContractStatus",
    "Draft",
    "EndorserMissing",
    "Examined",
    "Explanation",
    "Failed",
    "Feed",
    "FullReceipt",
    "Group",
    "GroupContract",
    "GroupMessage",
    "Groups",
    "Journal",
    "LeafDependency",
    "Ledger",
    "Leg",
    "OperatorAsked",
    "Outcome",
    "Overloaded",
    "Patience",
    "Payees",
    "Pending",
    "Positions",
    "PreparedTransaction",
    "PublicContract",
    "Refused",
    "Settlements",
    "SyncClient",
    "Token",
    "Tokens",
    "Transaction",
    "TransactionReceipt",
    "TriggerRun",
    "TriggerStatus",
    "Triggers",
    "Unreachable",
    "Unsettled",
    "Verdict",
    "bearer",
    "trusting",
]
