"""Contracts that name this node as endorser or coordinator: its operator agrees or refuses."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.model.types import NodeName
from rota.rpc.credentials import Role
from rota.rpc.formats import Address, Timestamp, Uuid, Word, timestamp_of, uuid_of, word_of
from rota.rpc.methods import method
from rota.service.interface import ConsentQuestion, HasConsents
from rota.service.submissions.formats import SequencingTerms, shown_terms

REASON_LETTERS_MAX: Final = 500
NAME_LETTERS_MAX: Final = 63

Proposer = Annotated[str, Meta(max_length=NAME_LETTERS_MAX, description="The node that proposed it, as listed")]
DeploymentId = Annotated[Uuid, Meta(description="The id of its deployment, as listed")]
Reason = Annotated[str, Meta(max_length=REASON_LETTERS_MAX, description="Why, for the proposer and its users")]


class PendingConsent(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A contract that names this node and waits for its operator's decision.

    `parts` has `endorse`, `coordinate` or both. Of members and endorsers the first 16 are shown, and their number; a
    name is cut after 200 characters, and unprintable characters are shown as question marks. `contract` is set when the
    contract is on the chain already and a peer has reported it to this node. After `expires` it counts as refused.
    """

    proposer: str
    deployment: Uuid
    domain: str
    parts: list[str]
    members: list[str]
    member_count: int
    endorsers: list[str]
    endorser_count: int
    threshold: int
    genesis_hash: Word
    asked: Timestamp
    expires: Timestamp
    contract: Address | None = None
    sequencing: SequencingTerms | None = None


@method("consent_list", role=Role.READ, answers="pending")
async def list_consents(
    node: HasConsents,
) -> Annotated[list[PendingConsent], Meta(description="What the operator has to decide, the oldest first")]:
    """List the proposed contracts that name this node as endorser or coordinator and wait for its operator."""
    return [_shown(each) for each in await node.consents.list()]


@method("consent_accept", role=Role.OPERATE, answers="success")
async def accept(
    node: HasConsents, proposer: Proposer, deployment: DeploymentId
) -> Annotated[bool, Meta(description="True: the decision is durable, and the proposer is notified")]:
    """Accept a proposed contract: this node endorses or coordinates, and pays gas where it coordinates."""
    await node.consents.accept(NodeName(proposer), deployment.intent)
    return True


@method("consent_refuse", role=Role.OPERATE, answers="success")
async def refuse(
    node: HasConsents, proposer: Proposer, deployment: DeploymentId, reason: Reason = ""
) -> Annotated[bool, Meta(description="True: the decision is durable, and the proposer is notified")]:
    """Refuse a proposed contract. The proposer's deployment ends with the reason."""
    await node.consents.refuse(NodeName(proposer), deployment.intent, reason)
    return True


def _shown(found: ConsentQuestion) -> PendingConsent:
    parts = (("endorse", found.is_endorser), ("coordinate", found.is_coordinator))
    return PendingConsent(
        proposer=found.proposer,
        deployment=uuid_of(found.deployment),
        domain=found.domain,
        parts=[name for name, has_part in parts if has_part],
        members=[*found.members],
        member_count=found.member_count,
        endorsers=[*found.endorsers],
        endorser_count=found.endorser_count,
        threshold=found.threshold,
        genesis_hash=word_of(found.genesis_hash),
        asked=timestamp_of(found.asked_at_s * 1_000),
        expires=timestamp_of(found.expires_at_s * 1_000),
        contract=Address(found.contract) if found.contract is not None else None,
        sequencing=shown_terms(found.terms),
    )


METHODS: Final = (list_consents, accept, refuse)
