"""Privacy groups (`ports.Groups`): written with their intent or contract, and queried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rota.domains.pente.groups import DescribedGroup, group_in
from rota.domains.queries import Query
from rota.model.genesis import MalformedGenesis, decode_genesis
from rota.model.types import ContractAddress, Intent, IntentId, KnownContract, Party
from rota.ports import PartyNames, StoredGroup
from rota.store.database import Read, Reading, Statement, Value
from rota.store.queries import Column, Kind, Table, named_by, selection, stored_text


class Groups:
    """`ports.Groups` on a database."""

    def __init__(self, read: Read) -> None:
        self._read: Final = read

    async def with_id(self, domain: str, group: bytes) -> StoredGroup | None:
        """The group with this id; None if there is none."""
        sql = f"SELECT {_SELECTED} FROM groups WHERE domain = ? AND id = ?"
        return await self._one(Statement(sql, (stored_text(domain), group)))

    async def with_contract(self, contract: ContractAddress) -> StoredGroup | None:
        """The group of this contract; None if there is none."""
        return await self._one(Statement(f"SELECT {_SELECTED} FROM groups WHERE contract = ?", (contract,)))

    async def find(
        self, query: Query, member: Party | None = None, among: PartyNames | None = None
    ) -> tuple[StoredGroup, ...]:
        """The groups that match, the oldest first unless the query has another order; with `member`, only those of that
        member, and with `among`, only those of which one of these parties is a member.
        """
        also = [Statement("TRUE")]
        if member is not None:
            also.append(Statement(_HAS_MEMBER, (stored_text(member),)))
        if among is not None:
            also.append(group_of_one_of(among, "groups.domain", "groups.id"))
        found = selection(_TABLE, _SELECTED, query, also=" AND ".join(each.sql for each in also))
        parameters = [value for each in also for value in each.parameters]
        return await self._read(_groups(Statement(found.sql, (*parameters, *found.parameters))))

    async def _one(self, statement: Statement) -> StoredGroup | None:
        found = await self._read(_groups(statement))
        return found[0] if found else None


def group_of_one_of(names: PartyNames, domain: str, group: str) -> Statement:
    """A condition: one of these parties is a member of the group that these columns name."""
    named = named_by(names, "own.member")
    sql = (
        f"EXISTS (SELECT 1 FROM group_members AS own WHERE own.domain = {domain} AND own.id = {group} AND {named.sql})"
    )
    return Statement(sql, named.parameters)


def group_of_deployment(intent: Intent, now_ms: int) -> Iterator[Statement]:
    """Store the group that an intent without a contract is to deploy, if it describes one."""
    yield from _statements(intent.payload, (now_ms, intent.id, None))


def group_of_contract(known: KnownContract, now_ms: int) -> Iterator[Statement]:
    """Store the group of a contract, if it has one."""
    yield from _statements(known.genesis, (now_ms, known.deployment, known.contract.address))


def _statements(genesis: bytes, rest: tuple[Value, ...]) -> Iterator[Statement]:
    described = _described(genesis)
    if described is None:
        return
    domain, group = described
    yield Statement(_ADD, (domain, group.id, stored_text(group.name), *rest, genesis))
    for member in group.members:
        yield Statement(_ADD_MEMBER, (stored_text(member), domain, group.id))


def _described(encoded: bytes) -> tuple[str, DescribedGroup] | None:
    try:
        genesis = decode_genesis(encoded)
    except MalformedGenesis:
        return None
    group = group_in(genesis)
    return (genesis.domain, group) if group is not None else None


def _groups(query: Statement) -> Reading[tuple[StoredGroup, ...]]:
    rows: Any = yield query
    found: list[StoredGroup] = []
    for created_at_ms, deployment, contract, genesis in rows:
        described = _described(genesis)
        assert described is not None, "it was one when it was written"
        domain, group = described
        address = None if contract is None else ContractAddress(contract)
        found.append(StoredGroup(domain, group, created_at_ms, IntentId(deployment), address))
    return tuple(found)


_SELECTED: Final = "created_at_ms, deployment, contract, genesis"

_TABLE: Final = Table(
    "groups",
    {
        "id": Column("id", Kind.BYTES),
        "domain": Column("domain", Kind.TEXT),
        "name": Column("name", Kind.TEXT),
        "created": Column("created_at_ms", Kind.TIME),
        "genesisTransaction": Column("deployment", Kind.UUID),
        "contractAddress": Column("contract", Kind.TEXT),
    },
    "created_at_ms, id",
)

_HAS_MEMBER: Final = """
EXISTS (
    SELECT 1 FROM group_members AS own
    WHERE own.member = ? AND own.domain = groups.domain AND own.id = groups.id)"""

# The first group with an id stays, and gets its contract.
_ADD: Final = """
INSERT INTO groups (domain, id, name, created_at_ms, deployment, contract, genesis) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (domain, id) DO UPDATE SET contract = excluded.contract
WHERE groups.deployment = excluded.deployment AND excluded.contract IS NOT NULL"""

_ADD_MEMBER: Final = """
INSERT INTO group_members (member, domain, id) VALUES (?, ?, ?) ON CONFLICT (member, domain, id) DO NOTHING"""
