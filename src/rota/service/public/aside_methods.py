"""Public transactions that were set aside because the database was wound back: operators decide about each."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Address, Timestamp, Uuid, timestamp_of, uuid_of
from rota.rpc.methods import method
from rota.service.interface import HasAside
from rota.service.submissions.methods import Id


class AsideTransaction(msgspec.Struct, frozen=True, rename="camel"):
    """A public transaction that may or may not have been sent."""

    id: Uuid
    sender: str = msgspec.field(name="from")
    account: Address
    to: Address | None
    value: str
    created: Timestamp
    nonce: int | None
    reason: str


@method("ptx_querySetAside", role=Role.READ, answers="transactions")
async def query_set_aside(
    node: HasAside,
) -> Annotated[list[AsideTransaction], Meta(description="Those that an operator has to decide about, oldest first")]:
    """List public transactions that are set aside. They may already be on the chain."""
    return [
        AsideTransaction(
            uuid_of(each.id),
            each.sender,
            Address(each.account),
            Address(each.to) if each.to is not None else None,
            str(each.value_wei),
            timestamp_of(each.created_at_ms),
            each.nonce,
            each.reason,
        )
        for each in node.aside.list()
    ]


@method("ptx_releaseSetAside", role=Role.OPERATE, answers="success")
async def release_set_aside(
    node: HasAside, transaction_id: Id
) -> Annotated[bool, Meta(description="True: it goes on, and is sent")]:
    """Send a public transaction that is set aside. Check the chain first: a mined one would be sent again."""
    await node.aside.release(transaction_id.intent)
    return True


@method("ptx_dropSetAside", role=Role.OPERATE, answers="success")
async def drop_set_aside(
    node: HasAside, transaction_id: Id
) -> Annotated[bool, Meta(description="True: it ends; its receipt says that it was dropped")]:
    """Discard a public transaction that is set aside. If it has a nonce, an empty transaction uses that nonce."""
    await node.aside.drop(transaction_id.intent)
    return True


METHODS: Final = (query_set_aside, release_set_aside, drop_set_aside)
