"""Privacy groups (domain `pente`): creating and finding them, the private contracts in them, and their messages.

    group = await client.groups.create(members=["alice@node1", "bob@node2"], name="desk")
    token = await group.deploy(abi, bytecode, ["Shares", "S"], sender="alice")
    await (await token.send("mint", [address, 50], sender="alice"))
    answer = await token.call("balanceOf", [address], sender="alice")

A contract's functions are named as its ABI names them; the ABI also decodes reverts. Arguments are a list, or
an object by name; numbers may be plain or decimal text. An answer is an object: outputs by their names, one without a
name by its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from rota.client.answers import GroupMessage, GroupRecord
from rota.client.errors import Refused, Unreachable, Unsettled
from rota.client.jsonrpc import read, read_if_any
from rota.client.transactions import Transaction, TransactionClient

DOMAIN: Final = "pente"
ADDRESS_CHARACTERS: Final = 42
MESSAGES_MAX: Final = 1_000
GROUPS_MAX: Final = 1_000

Abi = Sequence[Mapping[str, Any]]
Arguments = Sequence[object] | Mapping[str, object]


class Groups:
    """The privacy groups of a node."""

    def __init__(self, client: TransactionClient) -> None:
        self._client: Final = client

    async def create(
        self,
        *,
        members: Sequence[str],
        name: str = "",
        configuration: Mapping[str, object] | None = None,
        properties: Mapping[str, str] | None = None,
        key: str = "",
        sequencing: Mapping[str, object] | None = None,
    ) -> Group:
        """A new group, when its members' nodes have it. One member at least is of this node.

        `sequencing` are terms that do not follow the node's configuration: `{"rotation": "strict", "rangeSize": 20}`.
        """
        spec: dict[str, object] = {
            "domain": DOMAIN,
            "members": list(members),
            "name": name,
            "configuration": dict(configuration or {}),
            "properties": dict(properties or {}),
            "transactionOptions": {"idempotencyKey": key or str(uuid4())},
        }
        if sequencing:
            spec["sequencing"] = dict(sequencing)
        try:
            record = read(await self._client.ask("pgroup_createGroup", spec, is_repeatable=True), GroupRecord)
        except Refused as refused:
            existing = refused.same_transaction if key else refused.keyed_transaction
            if existing is None and refused.is_not_compared:
                raise Unsettled(str(refused), refused.details) from None
            if existing is None:
                raise
            record = await self._made_by(existing)
        await self._client.transaction(record.genesis_transaction)
        return Group(self._client, await self._deployed(record.id))

    async def get(self, group: str) -> Group | None:
        """A group by its id, or by the address of its contract; nothing when this node does not have it."""
        if len(group) == ADDRESS_CHARACTERS:
            answer = await self._client.ask("pgroup_getGroupByAddress", group, is_repeatable=True)
        else:
            answer = await self._client.ask("pgroup_getGroupById", DOMAIN, group, is_repeatable=True)
        record = read_if_any(answer, GroupRecord)
        return Group(self._client, record) if record is not None else None

    async def find(self, *, name: str = "", member: str = "", limit: int = GROUPS_MAX) -> tuple[Group, ...]:
        """The groups of this node, the oldest first; of this name, or with this member, if that is wanted."""
        query: dict[str, object] = {"limit": limit}
        if name:
            query["eq"] = [{"field": "name", "value": name}]
        if member:
            answer = await self._client.ask("pgroup_queryGroupsWithMember", member, query, is_repeatable=True)
        else:
            answer = await self._client.ask("pgroup_queryGroups", query, is_repeatable=True)
        return tuple(Group(self._client, each) for each in read(answer, list[GroupRecord]))

    async def _made_by(self, genesis: str) -> GroupRecord:
        """The group whose creation was asked for before, and whose answer was lost."""
        query = {"eq": [{"field": "genesisTransaction", "value": genesis}], "limit": 1}
        found = read(await self._client.ask("pgroup_queryGroups", query, is_repeatable=True), list[GroupRecord])
        if not found:
            raise Unreachable(f"this node has no group that {genesis} creates")
        return found[0]

    async def _deployed(self, group_id: str) -> GroupRecord:
        return read(await self._client.ask("pgroup_getGroupById", DOMAIN, group_id, is_repeatable=True), GroupRecord)


class Group:
    """One privacy group. `address` is that of its contract on the base ledger, which is there when it is deployed."""

    def __init__(self, client: TransactionClient, record: GroupRecord) -> None:
        self._client: Final = client
        self.record: Final = record

    def __repr__(self) -> str:
        return f"Group({self.id!r}, name={self.name!r})"

    @property
    def id(self) -> str:
        """Under which its members know it."""
        return self.record.id

    @property
    def address(self) -> str | None:
        """Its contract on the base ledger."""
        return self.record.contract_address

    @property
    def name(self) -> str:
        """What its members call it."""
        return self.record.name

    @property
    def members(self) -> tuple[str, ...]:
        """Its members."""
        return self.record.members

    async def deploy(
        self,
        abi: Abi,
        bytecode: str,
        arguments: Arguments = (),
        *,
        sender: str = "",
        key: str = "",
        gas: int | None = None,
    ) -> GroupContract:
        """A new private contract in the group, when it can be used. `bytecode` is hex, as compilers write it."""
        constructor = next((each for each in abi if each.get("type") == "constructor"), None)
        wanted = {
            **_addressed(self._client, self.id, sender),
            "bytecode": bytecode,
            "function": constructor or {"type": "constructor", "inputs": []},
            "input": arguments,
            "abi": list(abi),
            "gas": gas,
        }
        transaction = await self._client.submit("pgroup_sendTransaction", wanted, key)
        full = await transaction.full_receipt()
        receipt = (full.domain_receipt or {}).get("receipt")
        address = receipt.get("contractAddress") if isinstance(receipt, dict) else None
        return self.contract(read(address, str), abi)

    def contract(self, address: str, abi: Abi) -> GroupContract:
        """A private contract of the group by its address."""
        return GroupContract(self._client, self.id, address, abi, self.address or "")

    # Messages: among the members' nodes, and never on the chain.

    async def send_message(self, topic: str, data: object, *, correlation_id: str = "") -> str:
        """Tell the nodes of all members; its id, when this node will not forget it.

        It is asked for once: a message has no idempotency key. When no answer comes it may have been sent.
        """
        message = {"domain": DOMAIN, "group": self.id, "topic": topic, "data": data}
        if correlation_id:
            message["correlationId"] = correlation_id
        return read(await self._client.ask("pgroup_sendMessage", message), str)

    async def messages(
        self, *, topic: str = "", after: int | None = None, limit: int = MESSAGES_MAX
    ) -> tuple[GroupMessage, ...]:
        """Messages that this node has, in its own order; of this topic, behind this `local_sequence`."""
        equal = [{"field": "group", "value": self.id}]
        if topic:
            equal.append({"field": "topic", "value": topic})
        query: dict[str, object] = {"eq": equal, "sort": ["localSequence"], "limit": limit}
        if after is not None:
            query["gt"] = [{"field": "localSequence", "value": after}]
        answer = await self._client.ask("pgroup_queryMessages", query, is_repeatable=True)
        return tuple(read(answer, list[GroupMessage]))


class GroupContract:
    """A private contract in a group."""

    def __init__(
        self, client: TransactionClient, group_id: str, address: str, abi: Abi, group_address: str = ""
    ) -> None:
        self.address: Final = address
        self.abi: Final = tuple(dict(each) for each in abi)
        self._client: Final = client
        self._group_id: Final = group_id
        self._group_address: Final = group_address

    def __repr__(self) -> str:
        return f"GroupContract({self.address!r})"

    async def send(
        self, function: str, arguments: Arguments = (), *, sender: str = "", key: str = "", gas: int | None = None
    ) -> Transaction:
        """Have a function called by a transaction; `function` is a name, or a signature where a name has several."""
        return await self._client.submit(
            "pgroup_sendTransaction", {**self._question(function, arguments, sender), "gas": gas}, key
        )

    async def call(self, function: str, arguments: Arguments = (), *, sender: str = "") -> Any:  # noqa: ANN401
        """What a function answers now, by what this node holds and without a transaction."""
        question = self._question(function, arguments, sender)
        return await self._client.ask_at_least("pgroup_call", question, self._group_address)

    def invocation(self, function: str, arguments: Arguments = (), *, committer: str = "") -> dict[str, object]:
        """The arguments with which the group's own contract is asked to `invoke` this: for a draft, or `prepare`.

        `committer` is the address that alone may commit it.
        """
        entries = [each for each in self.abi if each.get("type") == "function" and each.get("name") == function]
        if len(entries) != 1:
            raise ValueError(
                f"function: must be the name of one function of the ABI, and {len(entries)} are {function!r}"
            )
        wanted = {"to": self.address, "function": entries[0], "input": arguments, "errors": list(self.abi)}
        return {**wanted, "committer": committer} if committer else dict(wanted)

    def _question(self, function: str, arguments: Arguments, sender: str) -> dict[str, object]:
        wanted = {"to": self.address, "function": function, "input": arguments, "abi": list(self.abi)}
        return {**_addressed(self._client, self._group_id, sender), **wanted}


def _addressed(client: TransactionClient, group_id: str, sender: str) -> dict[str, object]:
    return {"domain": DOMAIN, "group": group_id, "from": sender or client.sender}
