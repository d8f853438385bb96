"""The node as users and operators see it: one protocol per feature, and the values that they exchange.

Theory of operation. `service.facade.NodeFacade` implements `Node` on a running node. The methods of a feature are typed
by the protocol that they need and no more, so that a feature can be added without touching the others.

Rules for all of them:

- An error that the user can fix is raised as `Rejected`. A failure of the environment is raised as
  `rota.ports.Unavailable`. A value that does not exist, or not yet, is `None`.
- Times are milliseconds of the Unix epoch, by this node's clock. They are for reading and never compared across nodes;
  the facade converts the core's own clock, which starts at an arbitrary value.
- A caller may stop waiting: its coroutine is then cancelled. An operation that has begun may complete all the same.
- Submissions are accepted in the order in which they are begun, so that one user's batch keeps its order without
  waiting for the disk between two of them.
"""

from __future__ import annotations

from typing import Protocol

from rota.model.types import NodeName
from rota.rpc.subscriptions import ReceiverLeft
from rota.rpc.values import AbiEntry, JsonValue
from rota.service.abis.interface import AbiView, Decoded, HasTypes, Types
from rota.service.accounts.interface import AccountView, HasAccounts, Paying
from rota.service.automation.interface import HasTriggers, SetAside, Spread, TriggerRun, Triggers, TriggerView
from rota.service.blocks.interface import HasChain
from rota.service.commands.interface import (
    Acknowledgement,
    CommandConfiguration,
    Commands,
    CommandSubmission,
    HasCommands,
)
from rota.service.consent.interface import ConsentQuestion, Consents, HasConsents
from rota.service.contracts.interface import Contracts, HasQuestions
from rota.service.explain.interface import (
    ContractStatus,
    ContractSummary,
    Explanation,
    MissingEndorser,
    SequencerRole,
    Sequencing,
    StateCount,
)
from rota.service.groups.interface import HasGroups
from rota.service.keys.interface import HasKeys
from rota.service.listeners.interface import (
    BATCH_TIMEOUT_MS,
    EVENTS_A_BATCH,
    Batch,
    Definition,
    EventDefinition,
    EventListenerStatus,
    EventSource,
    EventView,
    IncompleteReceipts,
    Item,
    Listener,
    Listeners,
    Listening,
    MessageListening,
    Offered,
    ReceiptDefinition,
    Receiver,
)
from rota.service.operations.interface import Measurements, Operations, PeerMeasurements
from rota.service.operations.self_view import HasItself
from rota.service.positions.interface import HasPositions, PositionView
from rota.service.public.aside_interface import Aside, AsideView, HasAside
from rota.service.receipts.interface import (
    ActivityView,
    AnyReceipt,
    ChainedDispatchView,
    DependenciesView,
    DispatchView,
    Following,
    FullReceipt,
    FullTransaction,
    HasFollowing,
    Moment,
    PreparedView,
    PublicSubmission,
    PublicView,
    StateView,
    TransactionStates,
)
from rota.service.registry.interface import HasNetwork
from rota.service.settlement.interface import DraftView, ExaminedView, LegView, NamedLeg, Settling
from rota.service.states.interface import HasStates
from rota.service.submissions.interface import (
    GasOptions,
    ReceiptView,
    Submission,
    Transactions,
    TransactionType,
    TransactionView,
    WhichPayees,
)
from rota.service.watch.interface import (
    FeedUpdate,
    Heartbeats,
    MilestoneCount,
    RoundChange,
    Step,
    TransactionChange,
    Watching,
)

__all__ = [
    "BATCH_TIMEOUT_MS",
    "EVENTS_A_BATCH",
    "AbiEntry",
    "AbiView",
    "AccountView",
    "Acknowledgement",
    "ActivityView",
    "AnyReceipt",
    "Aside",
    "AsideView",
    "Batch",
    "ChainedDispatchView",
    "CommandConfiguration",
    "CommandSubmission",
    "Commands",
    "ConsentQuestion",
    "Consents",
    "ContractStatus",
    "ContractSummary",
    "Contracts",
    "Decoded",
    "Definition",
    "DependenciesView",
    "DispatchView",
    "DraftView",
    "EventDefinition",
    "EventListenerStatus",
    "EventSource",
    "EventView",
    "ExaminedView",
    "Explanation",
    "FeedUpdate",
    "Following",
    "FullReceipt",
    "FullTransaction",
    "GasOptions",
    "HasAccounts",
    "HasAside",
    "HasCommands",
    "HasConsents",
    "HasFollowing",
    "HasPositions",
    "HasTriggers",
    "HasTypes",
    "Heartbeats",
    "IncompleteReceipts",
    "Item",
    "JsonValue",
    "LegView",
    "Listener",
    "Listeners",
    "Listening",
    "Measurements",
    "MessageListening",
    "MilestoneCount",
    "MissingEndorser",
    "Moment",
    "NamedLeg",
    "Node",
    "Offered",
    "Operations",
    "Paying",
    "PeerMeasurements",
    "PositionView",
    "PreparedView",
    "PublicSubmission",
    "PublicView",
    "ReceiptDefinition",
    "ReceiptView",
    "Receiver",
    "ReceiverLeft",
    "RoundChange",
    "SequencerRole",
    "Sequencing",
    "SetAside",
    "Settling",
    "Spread",
    "StateCount",
    "StateView",
    "Step",
    "Submission",
    "TransactionChange",
    "TransactionStates",
    "TransactionType",
    "TransactionView",
    "Transactions",
    "TriggerRun",
    "TriggerView",
    "Triggers",
    "Types",
    "Watching",
    "WhichPayees",
]


class Node(
    Transactions,
    Listening,
    Settling,
    Sequencing,
    Watching,
    Contracts,
    HasAccounts,
    HasQuestions,
    HasConsents,
    HasTypes,
    HasFollowing,
    HasAside,
    HasKeys,
    HasGroups,
    MessageListening,
    HasStates,
    HasPositions,
    HasNetwork,
    HasChain,
    HasCommands,
    HasTriggers,
    HasItself,
    Operations,
    Protocol,
):
    """The whole node: all protocols together, as the server uses them."""

    @property
    def name(self) -> NodeName:
        """The node's name, which is its transport identity."""
        ...
