"""Privacy groups: creating and finding them, and the private contracts in them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta

from rota.model.types import IntentId
from rota.rpc.credentials import Role, held_parties
from rota.rpc.errors import Rejected, invalid
from rota.rpc.formats import (
    Address,
    BlockName,
    HexText,
    Quantity,
    Timestamp,
    Uuid,
    Word,
    hex_of,
    timestamp_of,
    uuid_of,
    word_of,
)
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.contracts.interface import HasQuestions, QuestionParams
from rota.service.groups.interface import GroupCall, GroupView, HasGroups, MessageView, NewGroup, NewMessage
from rota.service.positions.interface import AtLeast, HasPositions, reach
from rota.service.submissions.formats import (
    Abi,
    SequencingInput,
    SequencingTerms,
    Text,
    require_latest,
    sequencing_of,
    shown_terms,
)

MEMBERS_MAX: Final = 1_024
PROPERTIES_MAX: Final = 256

DomainName = Annotated[str, Meta(description="The domain of the group: pente")]
GroupId = Annotated[HexText, Meta(description="The id of the group")]
Outputs = Annotated[Any, Meta(description="The outputs by name, one without a name by its place; without function hex")]


class GroupReads(HasGroups, HasPositions, Protocol):
    """A node whose groups can be read, at least at a given position."""


class PublicTxOptions(msgspec.Struct, frozen=True, rename="camel"):
    """Gas options for the base-ledger transaction. Prices have no effect: a round carries many users' transactions.

    `gas` bounds each call of a public contract that a private one requests, up to the bound of the group.
    """

    gas: Quantity | None = None
    value: Quantity | None = None
    max_priority_fee_per_gas: Quantity | None = None
    max_fee_per_gas: Quantity | None = None


class PrivacyGroupTXOptions(msgspec.Struct, frozen=True, rename="camel"):
    """Options of the transaction that deploys a group."""

    idempotency_key: Text | None = None
    public_tx_options: PublicTxOptions | None = None


class PrivacyGroupInput(msgspec.Struct, frozen=True, rename="camel"):
    """A group to create. Values of its configuration may be text."""

    domain: Text
    members: Annotated[list[Text], Meta(max_length=MEMBERS_MAX)]
    name: Text | None = None
    properties: Annotated[dict[str, str], Meta(max_length=PROPERTIES_MAX)] | None = None
    configuration: dict[str, Any] | None = None
    transaction_options: PrivacyGroupTXOptions | None = None
    sequencing: SequencingInput | None = None


class PrivacyGroup(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A group. `contractAddress` is set once `genesisTransaction` has deployed it.

    `sequencing` are the terms that its genesis fixes.
    """

    id: HexText
    domain: str
    created: Timestamp
    members: list[str]
    configuration: dict[str, str]
    genesis_salt: Word
    genesis_schema: Word
    genesis_transaction: Uuid
    properties: dict[str, str]
    name: str = ""
    contract_address: Address | None = None
    sequencing: SequencingTerms | None = None


class PrivacyGroupEVMTXInput(msgspec.Struct, frozen=True, rename="camel"):
    """A call of a private contract, or without `to` a deployment.

    `function` is an ABI entry, or a name or signature in `abi`; without it `input` is call data as hex. `input` is a
    list or an object of arguments, or absent. With `abi`, a revert is decoded by the contract's own errors.
    """

    domain: Text
    group: HexText
    sender: Text = msgspec.field(name="from")
    to: Address | None = None
    gas: Quantity | None = None
    value: Quantity | None = None
    input: Any = None
    function: Text | dict[str, Any] | None = None
    abi: Abi | None = None
    bytecode: HexText | None = None
    idempotency_key: Text | None = None
    public_tx_options: PublicTxOptions | None = None


class PrivacyGroupEVMCall(msgspec.Struct, frozen=True, rename="camel"):
    """A call of a private contract without a transaction, on the node's latest states, so `block` is latest.

    With `atLeast`, the position of a receipt, the answer is never older than that.
    """

    domain: Text
    group: HexText
    sender: Text = msgspec.field(name="from")
    to: Address | None = None
    gas: Quantity | None = None
    value: Quantity | None = None
    input: Any = None
    function: Text | dict[str, Any] | None = None
    abi: Abi | None = None
    bytecode: HexText | None = None
    block: BlockName | None = None
    data_format: Text | None = None
    at_least: AtLeast = None


@method("pgroup_createGroup", role=Role.SUBMIT, answers="group", submits=True)
async def create_group(
    node: HasGroups, spec: Annotated[PrivacyGroupInput, Meta(description="The group")]
) -> Annotated[PrivacyGroup, Meta(description="The group, whose deployment is durable now")]:
    """Create a privacy group. It is usable once `genesisTransaction` has a receipt."""
    options = spec.transaction_options or PrivacyGroupTXOptions()
    wanted = NewGroup(
        spec.domain,
        tuple(spec.members),
        spec.name or "",
        spec.properties or {},
        spec.configuration or {},
        options.idempotency_key or "",
        sequencing=sequencing_of(spec.sequencing),
    )
    try:
        return _shown(await node.groups.create(wanted))
    except Rejected as error:
        raise error.within("spec") from None


@method("pgroup_getGroupById", role=Role.READ, answers="pgroup")
async def get_group_by_id(
    node: HasGroups,
    domain_name: DomainName,
    id: GroupId,  # the name that clients know
) -> Annotated[PrivacyGroup | None, Meta(description="The group; null when this node has none of this id")]:
    """Return a group by its id."""
    return _shown_if_any(await node.groups.with_id(domain_name, id.content))


@method("pgroup_getGroupByAddress", role=Role.READ, answers="pgroup")
async def get_group_by_address(
    node: HasGroups, address: Annotated[Address, Meta(description="The group's contract on the base ledger")]
) -> Annotated[PrivacyGroup | None, Meta(description="The group; null when this node has none at this address")]:
    """Return a group by its contract."""
    return _shown_if_any(await node.groups.with_address(address.contract))


@method("pgroup_queryGroups", role=Role.READ, answers="pgroups")
async def query_groups(
    node: HasGroups, query: QueryJson
) -> Annotated[list[PrivacyGroup], Meta(description="The oldest first, if no other order is asked for")]:
    """Query the groups of this node. Fields: id, domain, name, created, genesisTransaction, contractAddress."""
    return [_shown(each) for each in await node.groups.query(query, parties=held_parties())]


@method("pgroup_queryGroupsWithMember", role=Role.READ, answers="pgroups")
async def query_groups_with_member(
    node: HasGroups, member: Annotated[str, Meta(description="A party, such as alice@node1")], query: QueryJson
) -> Annotated[list[PrivacyGroup], Meta(description="The oldest first, if no other order is asked for")]:
    """Query the groups of this node that have this member. Fields as for `pgroup_queryGroups`."""
    if not member:
        raise invalid("member", "must be a party, such as alice@node1")
    return [_shown(each) for each in await node.groups.query(query, member)]


@method("pgroup_sendTransaction", role=Role.SUBMIT, answers="transactionId", submits=True)
async def send_transaction(
    node: HasGroups, tx: Annotated[PrivacyGroupEVMTXInput, Meta(description="What is to be done, by a member")]
) -> Annotated[Uuid, Meta(description="The id of the transaction, which is durable now")]:
    """Submit a deployment or a call of a private contract in a group."""
    try:
        return uuid_of(await node.groups.send(_call_of(tx)))
    except Rejected as error:
        raise error.within("tx") from None


@method("pgroup_call", role=Role.READ, answers="data")
async def call(
    node: GroupReads, call: Annotated[PrivacyGroupEVMCall, Meta(description="What is asked, by a member")]
) -> Outputs:
    """Call a private contract of a group without a transaction."""
    try:
        require_latest(call.block, "block")
        await reach(node, call.at_least, "atLeast")
        return await node.groups.call(_call_of(call))
    except Rejected as error:
        raise error.within("call") from None


class GroupQuestions(HasGroups, HasQuestions, Protocol):
    """A node whose groups answer the methods of their domains."""


@method("pgroup_invokeRPC", role=Role.READ, answers="result")
async def invoke_rpc(
    node: GroupQuestions,
    domain_name: DomainName,
    group_id: GroupId,
    method: Annotated[str, Meta(description="What the domain is asked, as pente_call")],
    params: QuestionParams = None,
) -> Annotated[Any, Meta(description="As the domain answers")]:  # noqa: ANN401
    """Call a method of a group's domain, as a member. The error for an unknown method lists the methods."""
    group = await node.groups.with_id(domain_name, group_id.content)
    if group is None or group.contract is None:
        raise invalid("groupId", "must be a group that is deployed: pgroup_queryGroups lists those of this node")
    return await node.questions.ask(group.contract, method, params)


class PrivacyGroupMessageInput(msgspec.Struct, frozen=True, rename="camel"):
    """A message for a group's members, under a topic of their choice."""

    domain: Text
    group: HexText
    topic: Text
    data: Any
    correlation_id: Uuid | None = None


class PrivacyGroupMessage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A message of a group. `localSequence` is this node's own order, `node` the node of its author."""

    id: Uuid
    local_sequence: int
    sent: Timestamp
    received: Timestamp
    node: str
    domain: str
    group: HexText
    topic: str
    data: Any
    correlation_id: Uuid | None = None


@method("pgroup_sendMessage", role=Role.SUBMIT, answers="msgId")
async def send_message(
    node: HasGroups, msg: Annotated[PrivacyGroupMessageInput, Meta(description="The message")]
) -> Annotated[Uuid, Meta(description="Its id: it is durable now, and all members' nodes will get it")]:
    """Send a message to the nodes of all members of a group. It is not a transaction and does not reach the chain."""
    about = msg.correlation_id.intent if msg.correlation_id is not None else b""
    try:
        sent = await node.groups.send_message(NewMessage(msg.domain, msg.group.content, msg.topic, msg.data, about))
    except Rejected as error:
        raise error.within("msg") from None
    return uuid_of(IntentId(sent))


@method("pgroup_getMessageById", role=Role.READ, answers="msg")
async def get_message(
    node: HasGroups, id: Annotated[Uuid, Meta(description="The id of a message")]
) -> Annotated[PrivacyGroupMessage | None, Meta(description="The message; null when this node does not have it")]:
    """Return a message of a group."""
    view = await node.groups.message(id.intent)
    return shown_message(view) if view is not None else None


@method("pgroup_queryMessages", role=Role.READ, answers="msgs")
async def query_messages(
    node: HasGroups, query: QueryJson
) -> Annotated[list[PrivacyGroupMessage], Meta(description="In this node's order, if no other is asked for")]:
    """Query group messages. Fields: id, localSequence, sent, received, node, correlationId, domain, group, topic."""
    return [shown_message(each) for each in await node.groups.messages(query, held_parties())]


def shown_message(view: MessageView) -> PrivacyGroupMessage:
    """Return a message as clients read it."""
    return PrivacyGroupMessage(
        uuid_of(IntentId(view.id)),
        view.sequence,
        timestamp_of(view.sent_at_ms),
        timestamp_of(view.received_at_ms),
        view.node,
        view.domain,
        hex_of(view.group),
        view.topic,
        view.data,
        uuid_of(IntentId(view.correlation_id)) if view.correlation_id else None,
    )


def _call_of(given: PrivacyGroupEVMTXInput | PrivacyGroupEVMCall) -> GroupCall:
    if not given.sender:
        raise invalid("from", "must be a party of this node, such as 'alice'")
    return GroupCall(
        given.domain,
        given.group.content,
        given.sender,
        given.to.contract if given.to is not None else None,
        given.function or None,
        given.input,
        tuple(given.abi or ()),
        given.bytecode.content if given.bytecode is not None else b"",
        given.gas.number if given.gas is not None else 0,
        given.value.number if given.value is not None else 0,
        (given.idempotency_key or "") if isinstance(given, PrivacyGroupEVMTXInput) else "",
        (given.data_format or "") if isinstance(given, PrivacyGroupEVMCall) else "",
        _external_call_gas(given.public_tx_options) if isinstance(given, PrivacyGroupEVMTXInput) else 0,
    )


def _external_call_gas(options: PublicTxOptions | None) -> int:
    return min(options.gas.number, 2**64 - 1) if options is not None and options.gas is not None else 0


def _shown_if_any(view: GroupView | None) -> PrivacyGroup | None:
    return _shown(view) if view is not None else None


def _shown(view: GroupView) -> PrivacyGroup:
    return PrivacyGroup(
        hex_of(view.id),
        view.domain,
        timestamp_of(view.created_at_ms),
        [*view.members],
        dict(view.configuration),
        word_of(view.id),
        word_of(view.schema),
        uuid_of(view.deployment),
        dict(view.properties),
        view.name,
        Address(view.contract) if view.contract is not None else None,
        shown_terms(view.terms) if view.terms is not None else None,
    )


METHODS: Final = (
    create_group,
    get_group_by_id,
    get_group_by_address,
    query_groups,
    query_groups_with_member,
    send_transaction,
    call,
    invoke_rpc,
    send_message,
    get_message,
    query_messages,
)
