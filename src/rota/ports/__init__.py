"""What the runtime needs of the world, as protocols; adapters are found by their shape.

An adapter is given orders and answers by events, as the core's effects ask for and its events tell. It never
raises at whoever orders: what the world could not do is not answered, and the core asks again by its own rule.
"""

from __future__ import annotations

from rota.ports.beside import CommandStore, StoredAnnouncement, StoredTriggers, TriggerBook
from rota.ports.following import (
    AbiStore,
    Dependencies,
    Dispatched,
    PublicStore,
    StoredAbi,
    StoredSubmission,
    SubmissionStore,
    TraceStore,
)
from rota.ports.groups import (
    Archive,
    ArchivedState,
    ArchivePage,
    Groups,
    KeyNames,
    Mail,
    StateStatus,
    StoredGroup,
    StoredKey,
    StoredMail,
    StoredMessage,
)
from rota.ports.listening import DueReceipt, ListenerPosition, ListeningStore, NumberedReceipt, StoredListener
from rota.ports.store import (
    STATES_A_PAGE,
    TRANSACTIONS_MAX,
    StateChanges,
    StatePage,
    StatePlace,
    Store,
    StoredTransaction,
    StoreEffect,
)
from rota.ports.world import (
    Contracts,
    Deployments,
    Ledger,
    LedgerEffect,
    Peers,
    Policy,
    Registration,
    Registry,
    Signer,
    Tell,
    Unavailable,
    UnknownKey,
)

__all__ = [
    "STATES_A_PAGE",
    "TRANSACTIONS_MAX",
    "AbiStore",
    "Archive",
    "ArchivePage",
    "ArchivedState",
    "CommandStore",
    "Contracts",
    "Dependencies",
    "Deployments",
    "Dispatched",
    "DueReceipt",
    "Groups",
    "KeyNames",
    "Ledger",
    "LedgerEffect",
    "ListenerPosition",
    "ListeningStore",
    "Mail",
    "NumberedReceipt",
    "Peers",
    "Policy",
    "PublicStore",
    "Registration",
    "Registry",
    "Signer",
    "StateChanges",
    "StatePage",
    "StatePlace",
    "StateStatus",
    "Store",
    "StoreEffect",
    "StoredAbi",
    "StoredAnnouncement",
    "StoredGroup",
    "StoredKey",
    "StoredListener",
    "StoredMail",
    "StoredMessage",
    "StoredSubmission",
    "StoredTransaction",
    "StoredTriggers",
    "SubmissionStore",
    "Tell",
    "TraceStore",
    "TriggerBook",
    "Unavailable",
    "UnknownKey",
]
