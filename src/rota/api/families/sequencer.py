"""What the sequencer does and why it waits: who leads, what is under way, and who is in the way."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.api.credentials import Role
from rota.api.facade import ContractStatus, ContractSummary, Explanation, Sequencing, StateCount
from rota.api.formats import Address, Timestamp, Uuid, timestamp_of, uuid_of
from rota.api.methods import method

CONTRACTS_DEFAULT: Final = 100
CONTRACTS_MAX: Final = 1_000


class HistoryLine(msgspec.Struct, frozen=True):
    """What happened, and when."""

    at: Timestamp
    text: str


class Explained(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a transaction is. `blockedBy` are the nodes that it waits for; empty when it waits for none."""

    id: Uuid
    role: str
    state: str
    waits_for: str
    blocked_by: list[str]
    history: list[HistoryLine]
    contract: Address | None = None
    since: Timestamp | None = None
    detail: str = ""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """How a contract stands, as this node sees it.

    `ranking` is who may coordinate in this range, most preferred first. `sending` and `coordinating` count this
    node's transactions by state, as their sender and as their coordinator. `silent` are members of which nothing can
    be expected at present.
    """

    contract: Address
    domain: str
    mode: str
    rotation: str
    committee: list[str]
    endorsers: list[str]
    threshold: int
    height: int
    range: int
    range_size: int
    ranking: list[str]
    active_coordinator: str | None
    active_since: Timestamp | None
    coordinator_state: str
    coordinator_since: Timestamp
    sender_state: str
    sending: dict[str, int]
    coordinating: dict[str, int]
    silent: list[str]


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """One contract of this node. One that sleeps (`loaded` is false) has no states."""

    contract: Address
    domain: str
    mode: str
    loaded: bool
    coordinator_state: str
    sender_state: str
    active_coordinator: str | None
    sending: int
    coordinating: int


@method("seq_status", role=Role.READ, answers="status")
async def status(
    node: Sequencing, contract: Annotated[Address, Meta(description="The address of a private contract")]
) -> Annotated[Status | None, Meta(description="How it stands; null when this node does not have it")]:
    """Who coordinates a contract and since when, in which range, and what this node has under way for it."""
    found = await node.status(contract.contract)
    return _shown_status(found) if found is not None else None


@method("seq_explain", role=Role.READ, answers="explanation")
async def explain(
    node: Sequencing, transaction_id: Annotated[Uuid, Meta(description="The id of a transaction")]
) -> Annotated[Explained | None, Meta(description="Where it is; null when this node does not know it")]:
    """Where a transaction is, what it waits for since when, who is blocking it, and its history."""
    found = await node.explain(transaction_id.intent)
    return _shown_explanation(found) if found is not None else None


@method("seq_list", role=Role.READ, answers="contracts")
async def contracts(
    node: Sequencing,
    limit: Annotated[int, Meta(ge=1, le=CONTRACTS_MAX, description="How many at most")] = CONTRACTS_DEFAULT,
    after: Annotated[
        Address | None, Meta(description="Begin behind this address, the last of the answer before")
    ] = None,
) -> Annotated[list[Summary], Meta(description="Contracts of this node, by address")]:
    """The contracts of this node, and who leads each."""
    found = await node.contracts(after.contract if after is not None else None, limit)
    return [_shown_summary(each) for each in found]


def _shown_explanation(found: Explanation) -> Explained:
    return Explained(
        id=uuid_of(found.id),
        role=found.role.value,
        state=found.state,
        waits_for=found.waits_for,
        blocked_by=list(found.blocked_by),
        history=[HistoryLine(timestamp_of(moment.at_ms), moment.text) for moment in found.history],
        contract=Address(found.contract) if found.contract is not None else None,
        since=_time(found.since_ms),
        detail=found.detail,
    )


def _shown_status(found: ContractStatus) -> Status:
    return Status(
        contract=Address(found.contract),
        domain=found.domain,
        mode=found.mode.value,
        rotation=found.rotation.value,
        committee=list(found.committee),
        endorsers=list(found.endorsers),
        threshold=found.threshold,
        height=found.height,
        range=found.block_range,
        range_size=found.range_size,
        ranking=list(found.ranking),
        active_coordinator=found.active_coordinator,
        active_since=_time(found.active_since_ms),
        coordinator_state=found.coordinator_state,
        coordinator_since=timestamp_of(found.coordinator_since_ms),
        sender_state=found.sender_state,
        sending=_counts(found.sending),
        coordinating=_counts(found.coordinating),
        silent=list(found.silent),
    )


def _shown_summary(found: ContractSummary) -> Summary:
    return Summary(
        contract=Address(found.contract),
        domain=found.domain,
        mode=found.mode.value,
        loaded=found.is_loaded,
        coordinator_state=found.coordinator_state,
        sender_state=found.sender_state,
        active_coordinator=found.active_coordinator,
        sending=found.sending_count,
        coordinating=found.coordinating_count,
    )


def _time(unix_ms: int | None) -> Timestamp | None:
    return timestamp_of(unix_ms) if unix_ms is not None else None


def _counts(counts: tuple[StateCount, ...]) -> dict[str, int]:
    return {each.state: each.count for each in counts}


METHODS: Final = (status, explain, contracts)
