"""Transactions of several contracts that happen together or not at all: drafting, examining, binding, retrieving."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rota.model.types import SubmitMode
from rota.rpc.credentials import Role
from rota.rpc.errors import Rejected, invalid
from rota.rpc.formats import Address, HexText, Timestamp, Uuid, Word, hex_of, timestamp_of, uuid_of, word_of
from rota.rpc.methods import method
from rota.service.interface import NamedLeg, Settling
from rota.service.submissions.formats import Text, TransactionInput, submission_of

LEGS_MAX: Final = 32
CORES_MAX: Final = 255
READERS_MAX: Final = 32


class LegName(msgspec.Struct, frozen=True, rename="camel"):
    """The transitions to be committed in one contract: its address, and the core of each transaction."""

    ledger: Address
    cores: Annotated[list[Word], Meta(min_length=1, max_length=CORES_MAX)]


class Drafted(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The effects of a transaction as of now. The other legs are bound to ledger and cores."""

    id: Uuid
    ledger: Address
    cores: list[Word]
    domain_receipt: dict[str, Any]
    openings: dict[str, HexText] = {}


class Examined(msgspec.Struct, frozen=True, rename="camel"):
    """Another party's draft as computed by this node, with those effects that this node may see."""

    ledger: Address
    cores: list[Word]
    domain_receipt: dict[str, Any]


class Leg(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A transaction that is endorsed and waits for its committer.

    Ledger, cores, payload and auth are the settlement contract's arguments for a leg. `call` is the call data that
    commits it alone, where the committer is no settlement.
    """

    ledger: Address
    cores: list[Word]
    payload: HexText
    auth: HexText
    condition: Word
    valid_until: Timestamp
    call: HexText
    committer: Address | None = None


@method("settle_draft", role=Role.SUBMIT, answers="draft")
async def draft(
    node: Settling,
    transaction: Annotated[TransactionInput, Meta(description="What is to be done, by its committer alone")],
    readers: Annotated[
        list[Text] | None,
        Meta(description="Parties that are to examine it: each gets an opening with what its node may see"),
    ] = None,
) -> Annotated[Drafted, Meta(description="What it would do; nothing is submitted, and nothing is kept for it")]:
    """Compute the present effect of a transaction, so that others can be bound to it; settle_bind takes its id."""
    named = tuple(dict.fromkeys(readers or ()))
    if len(named) > READERS_MAX:
        raise invalid("readers", f"must be at most {READERS_MAX}, not {len(named)}")
    try:
        view = await node.draft(submission_of(transaction, SubmitMode.EXTERNAL, "transaction"), named)
    except Rejected as error:
        raise error.within("transaction") from None
    openings = dict(zip(named, map(hex_of, view.openings), strict=True))
    return Drafted(uuid_of(view.id), Address(view.contract), [word_of(view.core)], dict(view.receipt), openings)


@method("settle_examine", role=Role.READ, answers="examined")
async def examine(
    node: Settling, opening: Annotated[HexText, Meta(description="What the sender of a draft has shown")]
) -> Annotated[Examined, Meta(description="Its core, and what its receipt would tell this node")]:
    """Inspect another party's draft before you agree to it. The node computes its core itself."""
    view = await node.examine(opening.content)
    return Examined(Address(view.contract), [word_of(view.core)], dict(view.receipt))


@method("settle_bind", role=Role.SUBMIT, answers="transactionId", submits=True)
async def bind(
    node: Settling,
    draft: Annotated[Uuid, Meta(description="The id of a draft of this node")],
    legs: Annotated[
        list[LegName], Meta(description="All that is to be committed together, in the order of the settlement")
    ],
    idempotency_key: Annotated[Text | None, Meta(description="As of any transaction")] = None,
) -> Annotated[Uuid, Meta(description="The id of the transaction, which is durable now")]:
    """Submit a draft, to be committed only together with all legs. One that would now do something else is reverted."""
    if not 1 <= len(legs) <= LEGS_MAX:
        raise invalid("legs", f"must be from 1 to {LEGS_MAX}, not {len(legs)}")
    named = tuple(NamedLeg(leg.ledger.contract, tuple(core.content for core in leg.cores)) for leg in legs)
    return uuid_of(await node.bind(draft.intent, named, idempotency_key or ""))


@method("settle_leg", role=Role.READ, answers="leg")
async def leg(
    node: Settling, transaction_id: Annotated[Uuid, Meta(description="The id that the transaction was accepted under")]
) -> Annotated[Leg | None, Meta(description="Null as long as it is not endorsed, and once it has ended")]:
    """Return the draft of a prepared transaction, for the party that commits it."""
    view = await node.leg(transaction_id.intent)
    if view is None:
        return None
    return Leg(
        Address(view.contract),
        [word_of(view.core)],
        hex_of(view.payload),
        hex_of(view.auth),
        word_of(view.condition),
        timestamp_of(view.valid_until_s * 1_000),
        hex_of(view.call),
        Address(view.committer) if view.committer is not None else None,
    )


METHODS: Final = (draft, examine, bind, leg)
