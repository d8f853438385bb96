"""Privacy groups: `service.interface.Groups` on this node's store, contracts and domain.

A group is a contract of the domain `pente`; creating one is deploying it (decision 61), and its genesis defines the
group, so that every member's node knows it when it has the contract. This node chooses its id, which is its salt.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

import msgspec

from rota.abi import codec
from rota.domains.base import Rejected as DomainRejected
from rota.domains.base import party_of
from rota.domains.pente.groups import DOMAIN, GENESIS_SCHEMA
from rota.engine.contracts import KnownContracts
from rota.host import Hosted, UserCall
from rota.model.genesis import decode_genesis
from rota.model.types import NO_CONTRACT, Contract, ContractAddress, IntentId, NodeName, Party, intent_text, node_of
from rota.ports import Groups as StoredGroups
from rota.ports import PartyNames, Store, StoredGroup, StoredMessage, Unavailable
from rota.rpc import errors
from rota.rpc.credentials import held_parties
from rota.rpc.values import JsonValue
from rota.service import interface
from rota.service.asking import of_query, read_query
from rota.service.groups.interface import GroupCall, GroupView, MessageView, NewGroup, NewMessage
from rota.service.groups.mail import MESSAGE_BYTES_MAX, GroupMail

ID_BYTES: Final = 32

Submit = Callable[[interface.Submission], Awaitable[IntentId]]
CallView = Callable[[Hosted, UserCall], Awaitable[object]]


class Groups:
    """`service.interface.Groups`."""

    def __init__(
        self,
        node: NodeName,
        contracts: KnownContracts,
        store: Store,
        mail: GroupMail,
        submit: Submit,
        call_view: CallView,
    ) -> None:
        self._node: Final = node
        self._contracts: Final = contracts
        self._store: Final = store
        self._stored: Final = store.groups
        self._messages: Final = store.mail
        self._mail: Final = mail
        self._submit: Final = submit
        self._call_view: Final = call_view

    async def create(self, wanted: NewGroup) -> GroupView:
        """Deploy the group; its first member at this node is the sender."""
        _require_domain(wanted.domain)
        group = secrets.token_bytes(ID_BYTES)
        submission = interface.Submission(
            interface.TransactionType.PRIVATE,
            self._creator(wanted),
            wanted.domain,
            data={
                "members": [*wanted.members],
                "name": wanted.name,
                "salt": "0x" + group.hex(),
                "configuration": dict(wanted.configuration),
                "properties": cast(JsonValue, dict(wanted.properties)),
            },
            idempotency_key=wanted.idempotency_key,
            sequencing=wanted.sequencing,
        )
        deployment = await self._submitted(submission, "members")
        try:
            created = await self.with_id(wanted.domain, group)
        except Unavailable:
            # The group is accepted, and cannot be shown.
            about = {"transactionId": intent_text(deployment), "group": f"0x{group.hex()}"}
            raise errors.OutcomeUnknown(about) from None
        assert created is not None, "a group is written with the intent that deploys it"
        return created

    async def with_id(self, domain: str, group: bytes) -> GroupView | None:
        """Return the group with this id."""
        self._require_one(group, "id")
        return await self._shown(await self._stored.with_id(domain, group))

    async def with_address(self, contract: ContractAddress) -> GroupView | None:
        """Return the group whose contract this is."""
        return await self._shown(await self._stored.with_contract(contract))

    async def members_of(self, contract: ContractAddress) -> tuple[Party, ...]:
        """Return the members of the group whose contract this is; empty for other contracts."""
        found = await self.with_address(contract)
        return found.members if found is not None else ()

    async def query(
        self, query: JsonValue, member: str = "", parties: tuple[str, ...] | None = None
    ) -> tuple[GroupView, ...]:
        """Return the groups that a query matches, the oldest first."""
        among = PartyNames(parties, self._node) if parties is not None else None
        try:
            party = party_of("member", member, self._node) if member else None
        except DomainRejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        try:
            found = await self._stored.find(read_query(query), party, among)
        except DomainRejected as flaw:
            raise of_query(flaw) from None
        # An attacker may copy an id and name other members: the group whose genesis came first counts.
        kept = (each for each in found if among is None or among.has_any(each.group.members))
        return tuple([await self._view(each) for each in kept])

    async def _shown(self, stored: StoredGroup | None) -> GroupView | None:
        return await self._view(stored) if stored is not None else None

    async def _view(self, stored: StoredGroup) -> GroupView:
        group = stored.group
        return GroupView(
            group.id,
            stored.domain,
            stored.created_at_ms,
            group.name,
            group.members,
            group.properties,
            group.configuration,
            GENESIS_SCHEMA,
            stored.deployment,
            stored.contract,
            await self._terms_of(stored),
        )

    async def _terms_of(self, stored: StoredGroup) -> Contract | None:
        """Return the terms in its genesis; until it is deployed, the genesis is in this node's own transaction."""
        known = self._contracts.known(stored.contract) if stored.contract is not None else None
        if known is not None:
            return known.contract
        planned = await self._store.transaction(stored.deployment)
        return decode_genesis(planned.intent.payload).contract(NO_CONTRACT) if planned is not None else None

    # Private contracts.

    async def send(self, call: GroupCall) -> IntentId:
        """Submit a transaction that deploys or calls a private contract."""
        contract = await self._contract_of(call.domain, call.group)
        data: dict[str, JsonValue] = {"input": _input_of(call), "gas": call.gas, "value": call.value}
        if call.external_call_gas:
            data["externalCallGas"] = call.external_call_gas
        entry = _entry_of(call)
        if entry is not None:
            data["function"] = cast(JsonValue, entry)
        if call.abi:
            data["errors"] = cast(JsonValue, [dict(each) for each in call.abi])
        if call.to is None:
            data["bytecode"] = "0x" + call.bytecode.hex()
        else:
            data["to"] = call.to
        return await self._submitted(
            interface.Submission(
                interface.TransactionType.PRIVATE,
                call.sender,
                call.domain,
                contract,
                "deploy" if call.to is None else "invoke",
                data,
                idempotency_key=call.idempotency_key,
            )
        )

    async def call(self, call: GroupCall) -> JsonValue:
        """Call a private contract as a member, without a transaction."""
        contract = await self._contract_of(call.domain, call.group)
        if call.to is None:
            raise errors.invalid("to", "is missing: it must be a private contract of the group")
        hosted = self._contracts.hosted(contract)
        if hosted is None:
            raise errors.invalid("domain", self._contracts.unhosted.get(contract, f"{call.domain} is not loaded here"))
        asker = self._asker(call.sender)
        try:
            style = codec.Style.parse(call.data_format, "dataFormat")
            entry = _entry_of(call)
            function = codec.entry_of(entry, "function") if entry is not None else None
            given = _input_of(call)
            arguments: dict[str, JsonValue] = {"to": call.to, "gas": call.gas, "value": call.value, "input": given}
            if function is not None:
                arguments["input"] = "0x" + codec.encode_call(function, given, "input").hex()
            if call.abi:
                arguments["errors"] = cast(JsonValue, [dict(each) for each in call.abi])
            answer = await self._call_view(hosted, UserCall(asker, "call", arguments))
            assert isinstance(answer, str), "without a function the answer is hex"
            if function is None:
                return answer
            output = bytes.fromhex(answer.removeprefix("0x"))
            return cast(JsonValue, codec.decode_values(function.outputs, output, "output", style))
        except DomainRejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None

    # Messages.

    async def send_message(self, message: NewMessage) -> bytes:
        """Send a message to all nodes of the group's members."""
        contract = await self._contract_of(message.domain, message.group)
        content = msgspec.json.encode(message.data)
        if len(content) > MESSAGE_BYTES_MAX:
            raise errors.invalid("data", f"must be at most {MESSAGE_BYTES_MAX} bytes of JSON, not {len(content)}")
        if not message.topic:
            raise errors.invalid("topic", "must be text")
        return await self._mail.post(contract, message.group, message.topic, content, message.correlation_id)

    async def message(self, message: bytes) -> MessageView | None:
        """Return a message by its id."""
        stored = await self._messages.message(message)
        return message_view(stored) if stored is not None else None

    async def messages(self, query: JsonValue, parties: tuple[str, ...] | None = None) -> tuple[MessageView, ...]:
        """Return the messages that a query matches, in this node's order."""
        among = PartyNames(parties, self._node) if parties is not None else None
        try:
            found = await self._messages.messages(read_query(query), among)
        except DomainRejected as flaw:
            raise of_query(flaw) from None
        if among is not None:
            found = await messages_of(self._stored, found, among)
        return tuple(message_view(each) for each in found)

    async def _contract_of(self, domain: str, group: bytes) -> ContractAddress:
        _require_domain(domain)
        self._require_one(group, "group")
        stored = await self._stored.with_id(domain, group)
        if stored is None:
            raise errors.invalid("group", f"must be a group of {self._node}, and 0x{group.hex()} is none")
        if stored.contract is None:
            raise errors.invalid("group", "is not deployed yet: wait for the receipt of its genesisTransaction")
        return stored.contract

    def _require_one(self, group: bytes, field: str) -> None:
        """Raise `errors.Rejected` if several groups have this id: its creator draws it, and an attacker may copy it."""
        contracts = self._contracts.contracts_of_group(group)
        if len(contracts) > 1:
            # A caller that is held to parties may be a member of none of the groups.
            named = "" if held_parties() is not None else f" with the contracts {' and '.join(contracts)}"
            text = f"is ambiguous: groups{named} have this id; name the contract (ptx_sendTransaction)"
            raise errors.invalid(field, text)

    # Parties.

    def _creator(self, wanted: NewGroup) -> str:
        for place, member in enumerate(wanted.members):
            try:
                party = party_of(f"members[{place}]", member, self._node)
            except DomainRejected as flaw:
                raise errors.invalid(flaw.field, flaw.message) from None
            if node_of(party) == self._node:
                return party
        raise errors.invalid("members", f"must have a party of this node among them, such as alice@{self._node}")

    def _asker(self, text: str) -> Party:
        try:
            party = party_of("from", text, self._node)
        except DomainRejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        if node_of(party) != self._node:
            raise errors.invalid("from", f"must be a party of this node, such as alice@{self._node}, not {text!r}")
        return party

    async def _submitted(self, submission: interface.Submission, whole: str = "") -> IntentId:
        """Submit, with error fields renamed for the user, who does not know `data`; `whole` stands for all of it."""
        try:
            return await self._submit(submission)
        except errors.Rejected as flaw:
            field = whole if flaw.field == "data" else flaw.field.removeprefix("data.")
            raise errors.Rejected(flaw.code, field, flaw.message, flaw.details) from None


async def messages_of(
    groups: StoredGroups, messages: Sequence[StoredMessage], names: PartyNames
) -> tuple[StoredMessage, ...]:
    """Return the messages of groups of which one of these parties is a member."""
    kinds = dict.fromkeys((each.domain, each.group) for each in messages)
    found = {each: await groups.with_id(*each) for each in kinds}
    own = {each for each, group in found.items() if group is not None and names.has_any(group.group.members)}
    return tuple(each for each in messages if (each.domain, each.group) in own)


def message_view(stored: StoredMessage) -> MessageView:
    """Return a message as users see it."""
    return MessageView(
        stored.id,
        stored.sequence,
        stored.sent_at_ms,
        stored.received_at_ms,
        stored.node,
        stored.domain,
        stored.group,
        stored.topic,
        msgspec.json.decode(stored.content),
        stored.correlation_id,
    )


def _require_domain(domain: str) -> None:
    if domain != DOMAIN:
        raise errors.invalid("domain", f"must be {DOMAIN}: {domain!r} has no groups")


def _entry_of(call: GroupCall) -> dict[str, object] | None:
    """Return the function as one ABI entry; a name or a signature is looked up in the call's ABI."""
    if not isinstance(call.function, str):
        return dict(call.function) if call.function else None
    if not call.function:
        return None
    try:
        entries = codec.entries_of([dict(each) for each in call.abi], "abi")
        return codec.definition_of(codec.find_function(entries, call.function, "function"))
    except DomainRejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None


def _input_of(call: GroupCall) -> JsonValue:
    """Return the input, or by default an empty one: call data without a function, no arguments with one."""
    if call.input is not None:
        return call.input
    return [] if call.function else "0x"
