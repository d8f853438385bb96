"""Private states for users: `service.states.interface.States` on this node's archive.

The content of a state is in its bytes, which its domain's schemas decode. A query reads a contract's states page by
page and selects those that match; it stops when it has enough, and is refused when it would have to read too many.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast
from uuid import UUID

from rota.domains.addressed import parties_in, shown_with_addresses, with_addresses
from rota.domains.available import Known, known_in
from rota.domains.base import Rejected as DomainRejected
from rota.domains.base import party_of
from rota.domains.contents import Content, schema_of, seal
from rota.domains.queries import Query, Test
from rota.domains.records import Record, accept
from rota.engine.contracts import KnownContracts
from rota.host import AnyDomain
from rota.host.proving import is_believed
from rota.model.digests import keccak, state_commitment
from rota.model.state_ids import SHOWN_BYTES, shown_state_id, states_shown_as
from rota.model.types import ContractAddress, IntentId, Leaf, NodeName, Party, State, StateId, node_of
from rota.ports import ArchivedState, PartyNames, StateStatus, Store
from rota.rpc import errors
from rota.rpc.formats import Address, HexText, Uuid, timestamp_of, uuid_of, word_of
from rota.rpc.values import JsonValue
from rota.service.asking import COMPARED_AT_ONCE, of_query, read_query
from rota.service.groups.mail import GroupMail
from rota.service.keys.addresses import PartyAddresses
from rota.service.receipts.twins import twins_in
from rota.service.states.interface import PrivateState, Schema, StateConfirmRecord, StateNullifier, StateSpendRecord

PAGE: Final = 500
LOOKED_AT_MAX: Final = 200_000
ROWS_DEFAULT: Final = 1_000
# The cost of decoding a state, in comparisons.
READING: Final = 128
SALT_BYTES: Final = 32
_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{40}")

Found = tuple[ContractAddress, ArchivedState, Known[Record]]


class States:
    """`service.states.interface.States`."""

    def __init__(
        self, node: NodeName, contracts: KnownContracts, store: Store, mail: GroupMail, addresses: PartyAddresses
    ) -> None:
        self._addresses: Final = addresses
        self._node: Final = node
        self._contracts: Final = contracts
        self._store: Final = store
        self._archive: Final = store.archive
        self._mail: Final = mail

    async def schemas(self, domain: str) -> tuple[Schema, ...]:
        """Return the schemas of a domain, with the time at which this node showed them first."""
        known = self._domain(domain).schemas()
        since = await self._archive.schemas_seen([each.id for each in known], _now_ms())
        return tuple(
            Schema(
                word_of(each.id),
                timestamp_of(since[each.id]),
                domain,
                "abi",
                each.signature,
                each.definition(),
                [*each.labels],
            )
            for each in known
        )

    async def query(
        self,
        domain: str,
        contract: ContractAddress | None,
        schema: bytes,
        query: JsonValue,
        qualifier: str,
        parties: tuple[str, ...] | None = None,
    ) -> tuple[PrivateState, ...]:
        """Return the states of one kind that a query matches."""
        return await self._query(domain, contract, schema, query, qualifier, parties, is_nullified=False)

    async def query_nullifiers(
        self,
        domain: str,
        contract: ContractAddress | None,
        schema: bytes,
        query: JsonValue,
        qualifier: str,
        parties: tuple[str, ...] | None = None,
    ) -> tuple[PrivateState, ...]:
        """Return those that a nullifier spends; only a state's owner knows its nullifier."""
        return await self._query(domain, contract, schema, query, qualifier, parties, is_nullified=True)

    async def _query(
        self,
        domain: str,
        contract: ContractAddress | None,
        schema: bytes,
        query: JsonValue,
        qualifier: str,
        parties: tuple[str, ...] | None,
        *,
        is_nullified: bool,
    ) -> tuple[PrivateState, ...]:
        record_type = self._record_type(domain, schema)
        names = PartyNames(parties, self._node) if parties is not None else None
        read_query(query)  # Refuses a query that is too large or too deep to go through.
        query, by_address = _lower_addresses(query)
        wanted, own_sort = _own_sort(read_query(query))
        is_wanted = _test_of(wanted, record_type)
        found: list[Found] = []
        compared = 0
        async for address, archived in self._states(domain, contract, qualifier, is_narrowed=names is not None):
            # Decoding a state first costs as much as several comparisons.
            compared += READING + wanted.size
            if compared >= COMPARED_AT_ONCE:
                compared = 0
                await asyncio.sleep(0)
            if is_nullified and archived.nullifier is None:
                continue
            known = self._read(address, archived.state)
            # Checked before any comparison: the error of a comparison would reveal states of others.
            if known is None or (names is not None and not names.has_any(known.readers)):
                continue
            if not isinstance(known.record, record_type):
                continue
            record = known.record
            if by_address:
                record = with_addresses(record, await self._addresses.of(parties_in(record)))
            if not _is(is_wanted, record):
                continue
            found.append((address, archived, known))
            # Without sorting, the archive's order is used, so reading can stop when there are enough.
            if not wanted.sort and not own_sort and len(found) >= (wanted.limit or ROWS_DEFAULT):
                break
        chosen = _sorted(found, wanted, own_sort)
        addresses = await self._addresses.of(party for _, _, known in chosen for party in parties_in(known.record))
        return tuple(_shown(domain, schema, *each, addresses) for each in chosen)

    async def store(self, domain: str, contract: ContractAddress, schema: bytes, data: JsonValue) -> PrivateState:
        """Store a state that no transaction made; its id is derived from its content, so it is stored once."""
        record_type = self._record_type(domain, schema)
        self._hosted(domain, contract)
        try:
            record = accept(record_type, data, "data")
            salt = _salt(data)
        except DomainRejected as flaw:
            raise errors.invalid(flaw.field or "data", flaw.message) from None
        content = seal(Content(record, (), (), salt))
        identity = StateId(Leaf(keccak(content)), 0)
        state = State(identity, state_commitment(content), (self._node,), content)
        now_ms = _now_ms()
        await self._archive.store_by_hand(contract, state, now_ms)
        archived = ArchivedState(state, now_ms, False, None, False, None)
        addresses = await self._addresses.of(parties_in(record))
        return _shown(domain, schema, contract, archived, Known(identity, record, salt, ()), addresses)

    async def transfer(self, domain: str, state: bytes, recipient: str) -> IntentId:
        """Send it only to a node on the state's own list: its readers were fixed when it was made."""
        self._domain(domain)
        meant = states_shown_as(state)
        if not meant:
            raise errors.invalid("stateId", f"must be the id of a state, {SHOWN_BYTES} bytes as hex")
        try:
            peer = node_of(party_of("recipient", recipient, self._node))
        except DomainRejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        for contract in self._contracts_of(domain):
            for archived in await self._archive.with_leaves(contract, tuple(each.leaf for each in meant)):
                if archived.state.id in meant:
                    self._require_reader(archived.state, peer)
                    return IntentId(await self._mail.transfer(contract, archived.state.id.leaf, peer))
        raise errors.invalid("stateId", f"must be a state that {self._node} has, in the domain {domain}")

    # Looking.

    async def _states(
        self, domain: str, contract: ContractAddress | None, qualifier: str, *, is_narrowed: bool
    ) -> AsyncIterator[tuple[ContractAddress, ArchivedState]]:
        status, transaction = _status(qualifier)
        if is_narrowed and contract is not None and self._contracts.domain_of(contract) != domain:
            # Do not reveal whether other parties of this node have the contract.
            return
        addresses = self._contracts_of(domain) if contract is None else (self._hosted(domain, contract),)
        leaves = await self._archive.made_by(transaction) if transaction is not None else ()
        looked_at = 0
        for address in addresses:
            if transaction is not None:
                for archived in await self._believed(address, await self._archive.with_leaves(address, leaves)):
                    yield address, archived
                continue
            after: StateId | None = None
            while True:
                page = await self._archive.page(address, status, after, PAGE)
                for archived in await self._believed(address, page.states):
                    yield address, archived
                looked_at += len(page.states)
                after = page.next_after
                if after is None:
                    break
                if looked_at >= LOOKED_AT_MAX:
                    text = f"must name one contract, or wants more than the {LOOKED_AT_MAX} states that are looked at"
                    raise errors.invalid("query", text)
            if status in (StateStatus.UNCONFIRMED, StateStatus.ALL):
                for archived in await self._archive.by_hand(address):
                    yield address, archived

    async def _believed(self, contract: ContractAddress, archived: Sequence[ArchivedState]) -> Sequence[ArchivedState]:
        """Leave out states whose contents are not believed, where the ledger has its own commitments to states.

        Of coins that share a nullifier, one counts.
        """
        hosted = self._contracts.hosted(contract)
        if hosted is None or not hosted.domain.ledgers:
            return archived
        leaves = tuple(dict.fromkeys(each.state.id.leaf for each in archived))
        makers = {made.leaf: made for made in await self._store.transitions_of(contract, leaves)}
        nullified = (each.state.id.leaf for each in archived if each.nullifier is not None)
        twins = await twins_in(self._store, hosted, dict.fromkeys(nullified))
        believed = []
        for each in archived:
            if each.state.id not in twins and is_believed(hosted, each.state, makers):
                believed.append(each)
            # Each check takes milliseconds.
            await asyncio.sleep(0)
        return believed

    def _read(self, contract: ContractAddress, state: State) -> Known[Record] | None:
        hosted = self._contracts.hosted(contract)
        return known_in(hosted.known, state.as_seen_by(self._node)) if hosted is not None else None

    # Parameters.

    def _domain(self, name: str) -> AnyDomain:
        domain = self._contracts.domain_named(name)
        if domain is None:
            raise errors.invalid("domain", f"must be one of {', '.join(self._contracts.domain_names)}, not {name!r}")
        return domain

    def _record_type(self, domain: str, schema: bytes) -> type[Record]:
        for record_type in self._domain(domain).states:
            if schema_of(record_type).id == schema:
                return record_type
        raise errors.invalid("schemaRef", f"must be a schema of {domain}, as pstate_listSchemas gives them")

    def _contracts_of(self, domain: str) -> tuple[ContractAddress, ...]:
        return tuple(sorted(each for each in self._contracts.addresses() if self._contracts.domain_of(each) == domain))

    def _hosted(self, domain: str, contract: ContractAddress) -> ContractAddress:
        if self._contracts.domain_of(contract) != domain:
            raise errors.invalid("contractAddress", f"must be a contract of {domain} that {self._node} has")
        return contract

    def _require_reader(self, state: State, peer: NodeName) -> None:
        if peer not in state.distribution:
            allowed = ", ".join(state.distribution)
            raise errors.invalid("recipient", f"must be a party of a node that may see this state: {allowed}")
        if peer == self._node:
            raise errors.invalid("recipient", "must be a party of another node")


def _lower_addresses(query: JsonValue) -> tuple[JsonValue, bool]:
    """Return the query with lower-case addresses, and whether it has any: then it compares addresses, not names."""
    match query:
        case str() if _ADDRESS.fullmatch(query):
            return query.lower(), True
        case list():
            read = [_lower_addresses(each) for each in query]
            return [each for each, _ in read], any(has for _, has in read)
        case dict():
            fields = {name: _lower_addresses(each) for name, each in query.items()}
            return {name: each for name, (each, _) in fields.items()}, any(has for _, has in fields.values())
        case _:
            return query, False


def _status(qualifier: str) -> tuple[StateStatus, IntentId | None]:
    """Return the status, and the transaction if one is named; its states may be of any status."""
    try:
        return StateStatus(qualifier), None
    except ValueError:
        pass
    try:
        return StateStatus.ALL, IntentId(UUID(qualifier).bytes)
    except ValueError:
        words = ", ".join(each.value for each in StateStatus)
        raise errors.invalid("qualifier", f"must be one of {words}, or a transaction's id") from None


def _own_sort(query: Query) -> tuple[Query, tuple[tuple[str, bool], ...]]:
    """Split off the sort fields that begin with a dot and exist for every state; the others are the schema's."""
    own = tuple(each for each in query.sort if each[0].startswith("."))
    for name, _ in own:
        if name not in (".id", ".created"):
            raise errors.invalid("query.sort", f"must be a field of the schema, .id or .created, not {name!r}")
    return replace(query, sort=tuple(each for each in query.sort if each not in own)), own


def _test_of(query: Query, record_type: type[Record]) -> Test:
    try:
        return query.test_of(record_type)
    except DomainRejected as flaw:
        raise of_query(flaw) from None


def _is(test: Test, record: Record) -> bool:
    try:
        return test(record)
    except DomainRejected as flaw:
        raise of_query(flaw) from None


def _sorted(found: Sequence[Found], query: Query, own_sort: tuple[tuple[str, bool], ...]) -> Sequence[Found]:
    ordered = list(found)
    for name, is_descending in reversed(own_sort):
        ordered.sort(
            key=lambda each: (each[1].created_at_ms if name == ".created" else 0, each[1].state.id),
            reverse=is_descending,
        )
    try:
        # All of these match already; only order and number are left.
        return Query(sort=query.sort, limit=query.limit or ROWS_DEFAULT).ordered(ordered, lambda each: each[2].record)
    except DomainRejected as flaw:
        raise of_query(flaw) from None


def _shown(
    domain: str,
    schema: bytes,
    contract: ContractAddress,
    archived: ArchivedState,
    known: Known[Record],
    addresses: Mapping[Party, str],
) -> PrivateState:
    spent = StateSpendRecord(_uuid(archived.spent_by)) if archived.is_spent else None
    return PrivateState(
        HexText("0x" + shown_state_id(archived.state.id).hex()),
        timestamp_of(archived.created_at_ms),
        domain,
        word_of(schema),
        Address(contract),
        cast(JsonValue, {"salt": "0x" + known.salt.hex(), **shown_with_addresses(known.record, addresses)}),
        StateConfirmRecord(_uuid(archived.made_by)) if archived.is_committed else None,
        spent,
        StateNullifier(word_of(archived.nullifier), spent) if archived.nullifier is not None else None,
    )


def _uuid(intent: IntentId | None) -> Uuid | None:
    return uuid_of(intent) if intent is not None else None


def _salt(data: JsonValue) -> bytes:
    """Return the given salt, or a new one."""
    given = data.get("salt") if isinstance(data, dict) else None
    if given is None:
        return secrets.token_bytes(SALT_BYTES)
    try:
        salt = bytes.fromhex(str(given).removeprefix("0x"))
    except ValueError:
        salt = b""
    if len(salt) != SALT_BYTES:
        raise DomainRejected("data.salt", f"must be {SALT_BYTES} bytes as hex")
    return salt


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
