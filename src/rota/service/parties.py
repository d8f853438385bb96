"""Limits of a caller whose credential is held to parties.

Theory of operation. A credential can name parties of this node: `alice`, or `treasury.*` for every party whose name
begins with `treasury.`. Its caller acts for these parties only and sees only their data. `RULES` has for each method
the check that is made before the method is called; a method without a rule is refused. So a new method is closed to
such callers until its author has added a rule.

A rule refuses the call, narrows its arguments, or returns a function that narrows the answer. Methods that answer from
all data of the node (`_narrowed`) pass `held_parties()` on to the node, which knows the readers of each state, the
sender of each transaction and the members of each group.

Other parties' activity stays hidden from side channels too: an id of another party and one that does not exist give the
same answer, and numbers of the node's own order (`sequence`, `localSequence`, `localId`), which count the actions of
all parties, are 0 in answers and cannot be compared in queries.

The gRPC services apply the rules of the JSON-RPC methods that do the same (`require_rule`).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from rota.model.types import NodeName, intent_text
from rota.ports import PartyNames
from rota.ports.parties import ANY_BELOW, bounds_of
from rota.rpc.credentials import Caller
from rota.rpc.errors import ErrorCode, Rejected
from rota.rpc.formats import Address, Uuid, uuid_of
from rota.rpc.methods import Method
from rota.service.commands.formats import CommandInput
from rota.service.contracts.interface import parts_of, question_of
from rota.service.groups.interface import GroupView
from rota.service.interface import Node, Transactions, TransactionType
from rota.service.submissions.formats import TransactionCall, TransactionInput

BALANCE: Final = "balanceOf"
# The maximum number of alternatives in one `or` of a query.
ALTERNATIVES_MAX: Final = 64

# Fields that number the actions of all parties of a node, in one order.
NUMBERS: Final = frozenset(("sequence", "localSequence", "localId"))

_TRANSACTION: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Arguments = dict[str, Any]
Narrow = Callable[[Any], object]
Rule = Callable[[Node, Caller, Arguments], Awaitable[Narrow | None]]


class KnowsTransactions(Transactions, Protocol):
    """A node that knows who sent a transaction."""

    @property
    def name(self) -> NodeName:
        """The node's name."""
        ...


def may_act(caller: Caller, party: str, node: NodeName) -> bool:
    """Whether a caller may act for a party, which is written with or without the node's name."""
    return caller.parties is None or PartyNames(caller.parties, node).has(party)


async def require_allowed(method: Method, arguments: Arguments, node: Node, caller: Caller) -> Narrow | None:
    """Raise `Rejected` unless the caller's parties may do this. May narrow the arguments to their data.

    A function that is returned narrows the answer.
    """
    if caller.parties is None:
        return None
    require_rule(method.name, caller)
    return await RULES[method.name](node, caller, arguments)


def require_rule(method: str, caller: Caller) -> None:
    """Raise `Rejected` when the caller is held to parties and the method has no rule for such callers."""
    if caller.parties is not None and method not in RULES:
        text = f"{method} is not for credentials that are held to parties"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "", text)


def require_parties(caller: Caller, parties: Iterable[str], node: NodeName) -> None:
    """Raise `Rejected` unless the caller may act for all of these parties."""
    for party in parties:
        if not may_act(caller, party, node):
            text = f"your credentials are not for the party {party[:80]!r}"
            raise Rejected(ErrorCode.NOT_AUTHORISED, "", text)


def parties_of_command(command: CommandInput) -> tuple[str, ...]:
    """Return all parties that a command names."""
    named = (command.party, command.transaction.sender, *(command.act_as or ()), *(command.read_as or ()))
    return tuple(party for party in named if party)


async def require_own_contents(
    caller: Caller, transactions: Iterable[TransactionInput], node: KnowsTransactions
) -> None:
    """Raise `Rejected` unless these transactions depend on the caller's own and add no other local party to a group.

    The outcome of a transaction reveals the outcomes of its dependencies.
    """
    if caller.parties is None:
        return
    for transaction in transactions:
        require_parties(caller, _members_here(transaction, node.name), node.name)
        for other in transaction.depends_on or ():
            # Invalid texts are refused when the transaction is read.
            if isinstance(other, str) and (text := Uuid.canonical(other)) is not None:
                await _require_own(node, caller, Uuid(text), "dependsOn")


def _members_here(transaction: TransactionInput, node: NodeName) -> list[str]:
    """The parties of this node that a deployment makes members of a group."""
    is_deployment = transaction.type == TransactionType.PRIVATE.value and transaction.to is None
    if not is_deployment or transaction.data is None:
        return []
    if not isinstance(transaction.data, dict):
        text = "must be an object in a deployment: your credentials are held to parties"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "data", text)
    members = transaction.data.get("members")
    listed = members if isinstance(members, list) else []
    return [each for each in listed if isinstance(each, str) and _is_here(each, node)]


# Rules.


async def _anything(_: Node, __: Caller, ___: Arguments) -> None:
    """Allow the call: the answer is the same for every caller."""


async def _narrowed(_: Node, __: Caller, arguments: Arguments) -> Narrow:
    """The node itself limits its answer to the data of the caller's parties."""
    _require_no_numbers(arguments.get("query"))
    return without_numbers


def _require_no_numbers(query: object) -> None:
    """Refuse comparisons with a number of the node's own order: they would reveal it one bit at a time."""
    if isinstance(query, dict):
        if isinstance(query.get("field"), str) and query["field"] in NUMBERS:
            text = f"must not compare {query['field']!r}: your credentials are held to parties"
            raise Rejected(ErrorCode.NOT_AUTHORISED, "query", text)
        for each in query.values():
            _require_no_numbers(each)
    elif isinstance(query, list):
        for each in query:
            _require_no_numbers(each)


def without_numbers(answer: object) -> object:
    """Return the answer with 0 for the numbers of the node's own order."""
    if isinstance(answer, list):
        return [without_numbers(each) for each in answer]
    if not isinstance(answer, msgspec.Struct):
        return answer
    changed: dict[str, object] = {}
    for name in answer.__struct_fields__:
        if name in ("sequence", "local_sequence", "local_id"):
            changed[name] = 0
        elif name in ("receipt", "public"):
            changed[name] = without_numbers(getattr(answer, name))
    return msgspec.structs.replace(answer, **changed) if changed else answer


async def _sender(node: Node, caller: Caller, arguments: Arguments) -> None:
    transaction: TransactionInput = arguments["transaction"]
    require_parties(caller, (transaction.sender,), node.name)
    await require_own_contents(caller, (transaction,), node)


async def _senders(node: Node, caller: Caller, arguments: Arguments) -> None:
    transactions: list[TransactionInput] = arguments["transactions"]
    require_parties(caller, (each.sender for each in transactions), node.name)
    await require_own_contents(caller, transactions, node)


async def _call(node: Node, caller: Caller, arguments: Arguments) -> None:
    """Allow calls of public contracts, and of one's own balance: other calls are answered from all data of the node."""
    call: TransactionCall = arguments["transaction"]
    if call.type == "public":
        require_parties(caller, (call.sender,) if call.sender else (), node.name)
        return
    account = call.data.get("account") if isinstance(call.data, dict) else None
    if call.function != BALANCE or not isinstance(account, str):
        text = f"credentials that are held to parties may call {BALANCE} alone, with an account"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "transaction.function", text)
    require_parties(caller, (call.sender, account), node.name)


async def _question(node: Node, caller: Caller, arguments: Arguments) -> None:
    """The same for questions to the domain of a contract; members see all of their group's contracts."""
    contract: Address = arguments["contract_address"]
    name, params = question_of(arguments["method"], arguments.get("params"))
    asker, values = parts_of(params)
    require_parties(caller, (asker,) if asker is not None else (), node.name)
    group = await node.groups.with_address(contract.contract)
    if group is not None:
        _require_group(node, caller, group)
        return
    account = values.get("account") if isinstance(values, dict) else None
    if name.rpartition("_")[2] != BALANCE or not isinstance(account, str):
        text = f"credentials that are held to parties may ask for {BALANCE} alone, with an account"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "method", text)
    require_parties(caller, (account,), node.name)


async def _group_question(node: Node, caller: Caller, arguments: Arguments) -> None:
    asker, _ = parts_of(arguments.get("params"))
    require_parties(caller, (asker,) if asker is not None else (), node.name)
    _require_group(node, caller, await node.groups.with_id(arguments["domain_name"], arguments["group_id"].content))


async def _own_transaction(node: Node, caller: Caller, arguments: Arguments) -> Narrow:
    transaction: Uuid = arguments["transaction_id"]
    await _require_own(node, caller, transaction)
    return without_numbers


async def _own_followed(node: Node, caller: Caller, arguments: Arguments) -> None:
    transactions: list[Uuid] = arguments["transaction_ids"]
    for each in transactions:
        await _require_own(node, caller, each)


async def _own_explanation(node: Node, caller: Caller, arguments: Arguments) -> Narrow:
    """Leave out the id of another party's transaction, whose assembly this one may wait for."""
    await _own_transaction(node, caller, arguments)
    found = await node.transaction(arguments["transaction_id"].intent)
    assert found is not None, "the rule before has found it"
    known = {intent_text(each) for each in (found.id, *found.depends_on, *(leaf.intent for leaf in found.awaits))}

    def shown(text: str) -> str:
        return _TRANSACTION.sub(lambda match: match[0] if match[0] in known else "another transaction", text)

    def narrow(answer: Any) -> object:  # noqa: ANN401  # an explanation, or nothing
        if answer is None:
            return None
        return msgspec.structs.replace(answer, waits_for=shown(answer.waits_for), detail=shown(answer.detail))

    return narrow


async def _require_own(
    node: KnowsTransactions, caller: Caller, transaction: Uuid, field: str = "transactionId"
) -> None:
    found = await node.transaction(transaction.intent)
    if found is None or not may_act(caller, found.sender, node.name):
        text = f"there is no transaction {transaction} of your parties"
        raise Rejected(ErrorCode.NOT_AUTHORISED, field, text)


async def _own_update(node: Node, caller: Caller, arguments: Arguments) -> None:
    await _own_transaction(node, caller, arguments)
    await _sender(node, caller, arguments)


async def _own_key(node: Node, caller: Caller, _: Arguments) -> Narrow:
    """Give the same answer for a key of another party and for an unused key."""

    def narrow(found: Any) -> object:  # noqa: ANN401  # a transaction, or nothing
        return found if found is not None and may_act(caller, found.sender, node.name) else None

    return narrow


async def _own_dependencies(node: Node, caller: Caller, arguments: Arguments) -> Narrow:
    """Of the dependents, show only transactions that the caller's parties sent."""
    await _own_transaction(node, caller, arguments)
    found = await node.following.dependencies(arguments["transaction_id"].intent)
    own: set[str] = set()
    for other in found.prerequisite_of if found is not None else ():
        sent = await node.transaction(other)
        if sent is not None and may_act(caller, sent.sender, node.name):
            own.add(str(uuid_of(other)))

    def narrow(answer: Any) -> object:  # noqa: ANN401  # dependencies, or nothing
        if answer is None:
            return None
        return msgspec.structs.replace(answer, prereq_of=[each for each in answer.prereq_of if str(each) in own])

    return narrow


async def _own_query(node: Node, caller: Caller, arguments: Arguments) -> Narrow:
    """Limit the query to transactions of the caller's parties."""
    return _narrow_query(node, caller, arguments, "from")


async def _own_public_query(node: Node, caller: Caller, arguments: Arguments) -> Narrow:
    """The same for base-ledger transactions: there `from` is an account, and `sender` the party."""
    return _narrow_query(node, caller, arguments, "sender")


def _narrow_query(node: Node, caller: Caller, arguments: Arguments, field: str) -> Narrow:
    query = dict(arguments["query"])
    _require_no_numbers(query)
    if query.get("or"):
        text = "must be left out by credentials that are held to parties"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "query.or", text)
    # Without alternatives the query would find the transactions of all parties.
    wanted = [_is_sent_by(field, pattern, node.name) for pattern in caller.parties or ("",)]
    # A credential may have more parties than one list of alternatives takes.
    query["or"] = [{"or": wanted[at : at + ALTERNATIVES_MAX]} for at in range(0, len(wanted), ALTERNATIVES_MAX)]
    arguments["query"] = query
    return without_numbers


def _is_sent_by(field: str, pattern: str, node: NodeName) -> dict[str, object]:
    if not pattern.endswith(ANY_BELOW):
        return {"eq": [{"field": field, "value": f"{pattern}@{node}"}]}
    least, behind = bounds_of(pattern, node)
    return {"gte": [{"field": field, "value": least}], "lt": [{"field": field, "value": behind}]}


async def _own_key_name(node: Node, caller: Caller, arguments: Arguments) -> None:
    require_parties(caller, (arguments["key_identifier"],), node.name)


async def _command(node: Node, caller: Caller, arguments: Arguments) -> None:
    command: CommandInput = arguments["command"]
    require_parties(caller, parties_of_command(command), node.name)
    await require_own_contents(caller, (command.transaction,), node)


async def _completions(node: Node, caller: Caller, arguments: Arguments) -> None:
    require_parties(caller, arguments["parties"], node.name)


async def _group_sender(node: Node, caller: Caller, arguments: Arguments) -> None:
    asked = arguments["tx"]
    require_parties(caller, (asked.sender,), node.name)
    _require_group(node, caller, await node.groups.with_id(asked.domain, asked.group.content))


async def _group_caller(node: Node, caller: Caller, arguments: Arguments) -> None:
    """Require a group of the caller's parties; the domain answers only a member, and members see the whole group."""
    asked = arguments["call"]
    require_parties(caller, (asked.sender,), node.name)
    _require_group(node, caller, await node.groups.with_id(asked.domain, asked.group.content))


async def _group_creator(node: Node, caller: Caller, arguments: Arguments) -> None:
    """Require that all members at this node are the caller's: no other local party is added to a group."""
    members: list[str] = arguments["spec"].members
    require_parties(caller, (each for each in members if _is_here(each, node.name)), node.name)


def _is_here(party: str, node: NodeName) -> bool:
    _, separator, home = party.rpartition("@")
    return not separator or home == node


async def _group_with_id(node: Node, caller: Caller, arguments: Arguments) -> None:
    _require_group(node, caller, await node.groups.with_id(arguments["domain_name"], arguments["id"].content))


async def _group_at(node: Node, caller: Caller, arguments: Arguments) -> None:
    _require_group(node, caller, await node.groups.with_address(arguments["address"].contract))


async def _group_told(node: Node, caller: Caller, arguments: Arguments) -> None:
    message = arguments["msg"]
    _require_group(node, caller, await node.groups.with_id(message.domain, message.group.content))


async def _message(node: Node, caller: Caller, arguments: Arguments) -> Narrow:
    found = await node.groups.message(arguments["id"].intent)
    group = await node.groups.with_id(found.domain, found.group) if found is not None else None
    _require_group(node, caller, group)
    return without_numbers


def _require_group(node: Node, caller: Caller, group: GroupView | None) -> None:
    """Require a group of one of the caller's parties. The error does not reveal whether any other group exists."""
    if group is None or not any(may_act(caller, member, node.name) for member in group.members):
        raise Rejected(ErrorCode.NOT_AUTHORISED, "", "there is no such group of your parties")


async def _member(node: Node, caller: Caller, arguments: Arguments) -> None:
    require_parties(caller, (arguments["member"],), node.name)


RULES: Final[Mapping[str, Rule]] = {
    "ptx_sendTransaction": _sender,
    "ptx_sendTransactions": _senders,
    "ptx_prepareTransaction": _sender,
    "ptx_prepareTransactions": _senders,
    "ptx_call": _call,
    "ptx_updateTransaction": _own_update,
    "ptx_resumeTransaction": _own_transaction,
    "ptx_cancelTransaction": _own_transaction,
    "ptx_getTransaction": _own_transaction,
    "ptx_getTransactionFull": _own_transaction,
    "ptx_getTransactionByIdempotencyKey": _own_key,
    "ptx_getTransactionDependencies": _own_dependencies,
    "ptx_getTransactionReceipt": _own_transaction,
    "ptx_getTransactionReceiptFull": _own_transaction,
    "ptx_getStateReceipt": _own_transaction,
    "ptx_getDomainReceipt": _own_transaction,
    "ptx_getPreparedTransaction": _own_transaction,
    "ptx_queryTransactionReceipts": _own_query,
    "ptx_queryPreparedTransactions": _own_query,
    "ptx_queryTransactions": _own_query,
    "ptx_queryTransactionsFull": _own_query,
    "ptx_queryPendingTransactions": _own_query,
    "ptx_queryPublicTransactions": _own_public_query,
    "ptx_queryPendingPublicTransactions": _own_public_query,
    "ptx_getPublicTransactionByNonce": _narrowed,
    "ptx_getPublicTransactionByHash": _narrowed,
    "ptx_resolveVerifier": _anything,
    "ptx_storeABI": _anything,
    "ptx_createReceiptListener": _narrowed,
    "ptx_getReceiptListener": _narrowed,
    "ptx_queryReceiptListeners": _narrowed,
    "ptx_startReceiptListener": _narrowed,
    "ptx_stopReceiptListener": _narrowed,
    "ptx_deleteReceiptListener": _narrowed,
    "ptx_createBlockchainEventListener": _narrowed,
    "ptx_getBlockchainEventListener": _narrowed,
    "ptx_queryBlockchainEventListeners": _narrowed,
    "ptx_startBlockchainEventListener": _narrowed,
    "ptx_stopBlockchainEventListener": _narrowed,
    "ptx_deleteBlockchainEventListener": _narrowed,
    "ptx_getBlockchainEventListenerStatus": _narrowed,
    "ptx_subscribe": _narrowed,
    "ptx_ack": _anything,
    "ptx_nack": _anything,
    "ptx_unsubscribe": _anything,
    "settle_leg": _own_transaction,
    "debug_getTransactionStatus": _own_transaction,
    "seq_explain": _own_explanation,
    "seq_subscribe": _narrowed,
    "seq_follow": _own_followed,
    "seq_unsubscribe": _anything,
    "pstate_listSchemas": _anything,
    "pstate_getSchemaById": _anything,
    "pstate_queryStates": _narrowed,
    "pstate_queryContractStates": _narrowed,
    "pstate_queryNullifiers": _narrowed,
    "pstate_queryContractNullifiers": _narrowed,
    "keymgr_resolveKey": _own_key_name,
    "keymgr_resolveEthAddress": _own_key_name,
    "keymgr_sign": _own_key_name,
    "pgroup_sendTransaction": _group_sender,
    "pgroup_createGroup": _group_creator,
    "pgroup_queryGroups": _narrowed,
    "pgroup_queryGroupsWithMember": _member,
    "pgroup_queryMessages": _narrowed,
    "pgroup_createMessageListener": _narrowed,
    "pgroup_getMessageListener": _narrowed,
    "pgroup_queryMessageListeners": _narrowed,
    "pgroup_startMessageListener": _narrowed,
    "pgroup_stopMessageListener": _narrowed,
    "pgroup_deleteMessageListener": _narrowed,
    "pgroup_subscribe": _narrowed,
    "pgroup_ack": _anything,
    "pgroup_nack": _anything,
    "pgroup_unsubscribe": _anything,
    "pgroup_call": _group_caller,
    "pgroup_invokeRPC": _group_question,
    "pgroup_getGroupById": _group_with_id,
    "pgroup_getGroupByAddress": _group_at,
    "pgroup_sendMessage": _group_told,
    "pgroup_getMessageById": _message,
    "cmd_submit": _command,
    "cmd_submitAndWait": _command,
    "cmd_completions": _completions,
    "cmd_completionEnd": _anything,
    "cmd_configuration": _anything,
    "transport_nodeName": _anything,
    "reg_registries": _anything,
    "reg_queryEntries": _anything,
    "reg_queryEntriesWithProps": _anything,
    "reg_getEntryProperties": _anything,
    "domain_listDomains": _anything,
    "domain_getDomain": _anything,
    "domain_invokeRPC": _question,
    "bidx_getConfirmedBlockHeight": _anything,
    "bidx_getBlockByNumber": _anything,
    "bidx_getBlockTransactionsByNumber": _anything,
    "bidx_getTransactionByHash": _anything,
    "bidx_getTransactionByNonce": _anything,
    "bidx_getTransactionEventsByHash": _anything,
    "bidx_decodeTransactionEvents": _anything,
    "bidx_queryIndexedBlocks": _anything,
    "bidx_queryIndexedTransactions": _anything,
    "bidx_queryIndexedEvents": _anything,
    "rpc.discover": _anything,
}
