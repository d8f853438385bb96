"""What a node answers, as values.

A node of another version may tell more than we know, which is ignored, and not less. Times are text as the node writes
them: RFC 3339, in UTC.
"""

from __future__ import annotations

from typing import Any

import msgspec


class TransactionReceipt(msgspec.Struct, frozen=True, rename="camel"):
    """How a transaction ended. One that failed has a message and need not be on the chain.

    `sequence` is its place in the order of its node's receipts. That of a deployment has `contract_address`. One whose
    `failure_code` is `INTENT_ID_USED` must not be submitted again before you know which transition used its id. With
    `FINALITY_BROKEN` an earlier receipt holds no longer: the chain took it back, and it may return. So many updates
    of a public transaction came too late (`late_updates`): the block has a version from before them. `position` is
    where it is on the base ledger: the client has later reads of the contract wait for it. The nodes of
    `unacknowledged` have not confirmed yet that they hold their states of it.
    """

    id: str
    sequence: int
    indexed: str = ""
    success: bool = False
    domain: str = ""
    failure_message: str = ""
    failure_code: str = ""
    block_number: int | None = None
    transaction_index: int | None = None
    log_index: int | None = None
    transaction_hash: str | None = None
    source: str | None = None
    revert_data: str | None = None
    contract_address: str | None = None
    late_updates: int = 0
    position: dict[str, Any] | None = None
    unacknowledged: tuple[str, ...] = ()


class FullReceipt(TransactionReceipt, frozen=True, rename="camel"):
    """The same with its private states, its domain's receipt, and its transactions on the base ledger."""

    states: dict[str, Any] | None = None
    domain_receipt: dict[str, Any] | None = None
    domain_receipt_error: str = ""
    public: list[dict[str, Any]] = []  # msgspec copies it


class HistoryLine(msgspec.Struct, frozen=True):
    """One step in the history of a transaction."""

    at: str
    text: str


class OperatorAsked(msgspec.Struct, frozen=True):
    """A node whose operator was asked to agree to a contract, and has not answered."""

    node: str
    since: str


class EndorserMissing(msgspec.Struct, frozen=True, rename="camel"):
    """An endorser that has not signed. `said` is its last answer, as the node `told_by` reports it."""

    node: str
    since: str
    told_by: str
    said: str = ""


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Where a transaction is and what that means, what it waits for since when, and which nodes it waits for.

    `operators` are the nodes whose operators have to agree to a contract that is to be deployed, `missing` the
    endorsers that have not signed.
    """

    id: str
    role: str
    state: str
    waits_for: str = ""
    blocked_by: tuple[str, ...] = ()
    detail: str = ""
    meaning: str = ""
    contract: str | None = None
    since: str | None = None
    history: tuple[HistoryLine, ...] = ()
    operators: tuple[OperatorAsked, ...] = ()
    missing: tuple[EndorserMissing, ...] = ()

    @property
    def text(self) -> str:
        """In one line: where it is, what it waits for, who is in the way, since when."""
        waits = f": {self.waits_for}" if self.waits_for else ""
        blockers = f"; in the way: {', '.join(self.blocked_by)}" if self.blocked_by else ""
        since = f"; since {self.since}" if self.since else ""
        return f"{self.state}{waits}{blockers}{since}"


class ContractStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How a contract stands, as one node sees it."""

    contract: str
    domain: str
    mode: str
    rotation: str
    committee: tuple[str, ...]
    endorsers: tuple[str, ...]
    threshold: int
    height: int
    range: int
    range_size: int
    ranking: tuple[str, ...]
    active_coordinator: str | None
    active_since: str | None
    coordinator_state: str
    coordinator_since: str
    sender_state: str
    sending: dict[str, int]
    coordinating: dict[str, int]
    silent: tuple[str, ...]


class PreparedTransaction(msgspec.Struct, frozen=True, rename="camel"):
    """The call that commits a prepared transaction: add `from` and send it, if you may commit it."""

    id: str
    domain: str
    to: str
    transaction: dict[str, Any]
    metadata: Any
    states: dict[str, Any]


class Balance(msgspec.Struct, frozen=True, rename="camel"):
    """What an account has. `overflow`: it has more coins than were counted.

    With `unknown` the node does not know, and the numbers are of the coins that it happens to see; `known_by` are the
    nodes that do.
    """

    total_balance: int
    total_states: int
    overflow: bool
    unknown: bool = False
    known_by: tuple[str, ...] = ()


class ContractTerms(msgspec.Struct, frozen=True, rename="camel"):
    """Who may coordinate a contract (`mode`), when that changes (`rotation`), and how many blocks a range has."""

    mode: str
    rotation: str
    range_size: int


class GroupRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A privacy group. Its contract is there when `genesis_transaction` has its receipt."""

    id: str
    domain: str
    created: str
    members: tuple[str, ...]
    configuration: dict[str, str]
    genesis_transaction: str
    properties: dict[str, str]
    name: str = ""
    contract_address: str | None = None
    sequencing: ContractTerms | None = None


class GroupMessage(msgspec.Struct, frozen=True, rename="camel"):
    """A message of a group. `local_sequence` is its place in this node's order, `node` the node of its sender."""

    id: str
    local_sequence: int
    sent: str
    received: str
    node: str
    group: str
    topic: str
    data: Any
    correlation_id: str | None = None


class Attempted(msgspec.Struct, frozen=True):
    """Tasks by the outcome of an attempt, since the node started."""

    won: int
    lost: int
    skipped: int
    failed: int


class TaskSetAside(msgspec.Struct, frozen=True):
    """A task that was refused too often."""

    task: str
    reason: str


class TriggerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How a trigger stands at one node. `strategy` is the one that is used."""

    name: str
    paused: bool
    strategy: str
    wanted_strategy: str
    is_member: bool
    members: int
    waiting: int
    at_work: int
    attempted: Attempted
    breaker: str
    set_aside: tuple[TaskSetAside, ...]
    expected_task_duration_ms: int
    polling_interval_ms: int
    parallel_tasks: int
    slot_ms: int
    trouble: str


class TriggerRun(msgspec.Struct, frozen=True):
    """What one run of a trigger came to, and its last failure."""

    won: int
    lost: int
    skipped: int
    failed: int
    trouble: str


class Examined(msgspec.Struct, frozen=True, rename="camel"):
    """The draft of another party as this node verifies it, with its effects as far as this node may see them."""

    ledger: str
    cores: tuple[str, ...]
    domain_receipt: dict[str, Any]


class DraftRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A transaction as it would be now. `openings` are for the readers that were named."""

    id: str
    ledger: str
    cores: tuple[str, ...]
    domain_receipt: dict[str, Any]
    openings: dict[str, str] = {}  # msgspec copies it


class Leg(msgspec.Struct, frozen=True, rename="camel"):
    """A transaction that is endorsed and waits for its committer: what the settlement contract takes."""

    ledger: str
    cores: tuple[str, ...]
    payload: str
    auth: str
    condition: str
    valid_until: str
    call: str
    committer: str | None = None
