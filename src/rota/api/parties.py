"""What a caller may do whose credential is held to parties.

Theory of operation. A credential can name parties of this node: `alice`, or `treasury.*` for every party whose name
begins with `treasury.`. Its caller acts for these alone and sees what these may see. `RULES` says for each method how
that is checked before the method is called; a method that has no rule is refused. So a new method is closed to such
callers until somebody has thought of them.

An answer that a method gives from all that the node holds (states, listeners, feeds, queries over receipts) has no
rule: the node does not know which of its parties may see which part. A transaction of another party and one that does
not exist are refused with the same words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from rota.api.commands import CommandInput
from rota.api.credentials import Caller
from rota.api.errors import ErrorCode, Rejected
from rota.api.facade import Node
from rota.api.formats import Uuid
from rota.api.methods import Method
from rota.api.privacy_groups import GroupView
from rota.api.transactions import TransactionCall, TransactionInput
from rota.types import NodeName

ANY_BELOW: Final = ".*"
# The character behind the dot: what begins with `treasury.` is less than `treasury/`.
BEHIND_DOT: Final = "/"
BALANCE: Final = "balanceOf"
# The most that a query takes in one `or`.
ALTERNATIVES_MAX: Final = 64

Arguments = dict[str, Any]
Rule = Callable[[Node, Caller, Arguments], Awaitable[None]]


def may_act(caller: Caller, party: str, node: NodeName) -> bool:
    """Whether a caller may act for a party, which is written with or without the node's name."""
    if caller.parties is None:
        return True
    name, separator, home = party.rpartition("@")
    own = name if separator else party
    if not own or "@" in own or (separator and home != node):
        return False
    return any(_matches(pattern, own) for pattern in caller.parties)


async def require_allowed(method: Method, arguments: Arguments, node: Node, caller: Caller) -> None:
    """`Rejected` unless the caller's parties may do this. It may narrow the arguments to what they may see."""
    if caller.parties is None:
        return
    rule = RULES.get(method.name)
    if rule is None:
        text = f"{method.name} is not for credentials that are held to parties"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "", text)
    await rule(node, caller, arguments)


def require_parties(caller: Caller, parties: Iterable[str], node: NodeName) -> None:
    """`Rejected` unless the caller may act for all of them."""
    for party in parties:
        if not may_act(caller, party, node):
            text = f"your credentials are not for the party {party[:80]!r}"
            raise Rejected(ErrorCode.NOT_AUTHORISED, "", text)


def parties_of_command(command: CommandInput) -> tuple[str, ...]:
    """All parties that a command names."""
    named = (command.party, command.transaction.sender, *(command.act_as or ()), *(command.read_as or ()))
    return tuple(party for party in named if party)


def _matches(pattern: str, name: str) -> bool:
    if pattern.endswith(ANY_BELOW):
        return name.startswith(pattern[:-1]) and name != pattern[:-1]
    return name == pattern


# Rules.


async def _anything(_: Node, __: Caller, ___: Arguments) -> None:
    """What it answers is the same for everybody."""


async def _sender(node: Node, caller: Caller, arguments: Arguments) -> None:
    transaction: TransactionInput = arguments["transaction"]
    require_parties(caller, (transaction.sender,), node.name)


async def _senders(node: Node, caller: Caller, arguments: Arguments) -> None:
    transactions: list[TransactionInput] = arguments["transactions"]
    require_parties(caller, (each.sender for each in transactions), node.name)


async def _call(node: Node, caller: Caller, arguments: Arguments) -> None:
    """Public contracts, and one's own balance: other calls are answered from all that the node holds."""
    call: TransactionCall = arguments["transaction"]
    if call.type == "public":
        require_parties(caller, (call.sender,) if call.sender else (), node.name)
        return
    account = call.data.get("account") if isinstance(call.data, dict) else None
    if call.function != BALANCE or not isinstance(account, str):
        text = f"credentials that are held to parties may call {BALANCE} alone, with an account"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "transaction.function", text)
    require_parties(caller, (call.sender, account), node.name)


async def _own_transaction(node: Node, caller: Caller, arguments: Arguments) -> None:
    transaction: Uuid = arguments["transaction_id"]
    found = await node.transaction(transaction.intent)
    if found is None or not may_act(caller, found.sender, node.name):
        text = f"there is no transaction {transaction} of your parties"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "transactionId", text)


async def _own_update(node: Node, caller: Caller, arguments: Arguments) -> None:
    await _own_transaction(node, caller, arguments)
    await _sender(node, caller, arguments)


async def _own_key(node: Node, caller: Caller, arguments: Arguments) -> None:
    found = await node.following.with_key(arguments["idempotency_key"])
    if found is not None and not may_act(caller, found.sender, node.name):
        raise Rejected(ErrorCode.NOT_AUTHORISED, "idempotencyKey", "there is no transaction of your parties")


async def _own_query(node: Node, caller: Caller, arguments: Arguments) -> None:
    """Of the transactions that are looked for, those of the caller's parties."""
    query = dict(arguments["query"])
    if query.get("or"):
        text = "must be left out by credentials that are held to parties"
        raise Rejected(ErrorCode.NOT_AUTHORISED, "query.or", text)
    wanted = [_is_sent_by(pattern, node.name) for pattern in caller.parties or ()]
    # A credential may have more parties than one list of alternatives may hold.
    query["or"] = [{"or": wanted[at : at + ALTERNATIVES_MAX]} for at in range(0, len(wanted), ALTERNATIVES_MAX)]
    arguments["query"] = query


def _is_sent_by(pattern: str, node: NodeName) -> dict[str, object]:
    if not pattern.endswith(ANY_BELOW):
        return {"eq": [{"field": "from", "value": f"{pattern}@{node}"}]}
    least = pattern[:-1]
    return {"gte": [{"field": "from", "value": least}], "lt": [{"field": "from", "value": least[:-1] + BEHIND_DOT}]}


async def _own_key_name(node: Node, caller: Caller, arguments: Arguments) -> None:
    require_parties(caller, (arguments["key_identifier"],), node.name)


async def _command(node: Node, caller: Caller, arguments: Arguments) -> None:
    require_parties(caller, parties_of_command(arguments["command"]), node.name)


async def _completions(node: Node, caller: Caller, arguments: Arguments) -> None:
    require_parties(caller, arguments["parties"], node.name)


async def _group_sender(node: Node, caller: Caller, arguments: Arguments) -> None:
    require_parties(caller, (arguments["tx"].sender,), node.name)


async def _group_caller(node: Node, caller: Caller, arguments: Arguments) -> None:
    """Only a member is answered, which its domain sees to; members see all of their group's contracts."""
    require_parties(caller, (arguments["call"].sender,), node.name)


async def _group_with_id(node: Node, caller: Caller, arguments: Arguments) -> None:
    _require_group(node, caller, await node.groups.with_id(arguments["domain_name"], arguments["id"].content))


async def _group_at(node: Node, caller: Caller, arguments: Arguments) -> None:
    _require_group(node, caller, await node.groups.with_address(arguments["address"].contract))


async def _group_told(node: Node, caller: Caller, arguments: Arguments) -> None:
    message = arguments["msg"]
    _require_group(node, caller, await node.groups.with_id(message.domain, message.group.content))


async def _message(node: Node, caller: Caller, arguments: Arguments) -> None:
    found = await node.groups.message(arguments["id"].intent)
    group = await node.groups.with_id(found.domain, found.group) if found is not None else None
    _require_group(node, caller, group)


def _require_group(node: Node, caller: Caller, group: GroupView | None) -> None:
    """A group of one of the caller's parties. Of any other nobody learns whether there is one."""
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
    "ptx_getTransactionDependencies": _own_transaction,
    "ptx_getTransactionReceipt": _own_transaction,
    "ptx_getTransactionReceiptFull": _own_transaction,
    "ptx_getStateReceipt": _own_transaction,
    "ptx_getDomainReceipt": _own_transaction,
    "ptx_getPreparedTransaction": _own_transaction,
    "ptx_queryTransactions": _own_query,
    "ptx_queryTransactionsFull": _own_query,
    "ptx_queryPendingTransactions": _own_query,
    "ptx_resolveVerifier": _anything,
    "ptx_storeABI": _anything,
    "seq_explain": _own_transaction,
    "keymgr_resolveKey": _own_key_name,
    "keymgr_resolveEthAddress": _own_key_name,
    "keymgr_sign": _own_key_name,
    "pgroup_sendTransaction": _group_sender,
    "pgroup_queryGroupsWithMember": _member,
    "pgroup_call": _group_caller,
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
