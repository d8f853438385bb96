"""Private states that this node has, and their schemas."""

from __future__ import annotations

from typing import Annotated, Any, Final, Protocol

from msgspec import Meta

from rota.rpc.credentials import Role, held_parties
from rota.rpc.formats import Address, HexText, Uuid, Word, uuid_of
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.positions.interface import AtLeast, HasPositions, reach
from rota.service.states.interface import HasStates, PrivateState, Schema

DomainName = Annotated[str, Meta(description="The name of a domain")]
Contract = Annotated[Address, Meta(description="A private contract")]
SchemaRef = Annotated[Word, Meta(description="The id of a schema")]
Qualifier = Annotated[
    str, Meta(description="available, confirmed, unconfirmed, spent, all, or a transaction's id: what that made")
]
Found = Annotated[list[PrivateState], Meta(description="In the order of their ids, if no other is asked for")]
Data = Annotated[Any, Meta(description="What the state holds, by the fields of the schema")]


class StateReads(HasStates, HasPositions, Protocol):
    """A node whose states can be queried, at least at a given position."""


@method("pstate_listSchemas", role=Role.READ, answers="schemas")
async def list_schemas(node: HasStates, domain: DomainName) -> Annotated[list[Schema], Meta(description="All of them")]:
    """List the schemas of a domain's states."""
    return [*await node.states.schemas(domain)]


@method("pstate_getSchemaById", role=Role.READ, answers="schema")
async def get_schema_by_id(
    node: HasStates, domain: DomainName, schema_id: SchemaRef
) -> Annotated[Schema | None, Meta(description="The schema; null when the domain has none of this id")]:
    """Return the schema of one kind of state."""
    return next((each for each in await node.states.schemas(domain) if each.id == schema_id), None)


@method("pstate_queryStates", role=Role.READ, answers="states")
async def query_states(
    node: StateReads,
    domain: DomainName,
    schema_ref: SchemaRef,
    query: QueryJson,
    qualifier: Qualifier,
    at_least: AtLeast = None,
) -> Found:
    """States of all contracts of a domain. Fields: those of the schema; sorted also by .id and .created."""
    await reach(node, at_least, "atLeast")
    return [*await node.states.query(domain, None, schema_ref.content, query, qualifier, held_parties())]


@method("pstate_queryContractStates", role=Role.READ, answers="states")
async def query_contract_states(
    node: StateReads,
    domain: DomainName,
    contract_address: Contract,
    schema_ref: SchemaRef,
    query: QueryJson,
    qualifier: Qualifier,
    at_least: AtLeast = None,
) -> Found:
    """States of a contract. Fields: those of the schema; sorted also by .id and .created."""
    await reach(node, at_least, "atLeast")
    contract, schema = contract_address.contract, schema_ref.content
    return [*await node.states.query(domain, contract, schema, query, qualifier, held_parties())]


@method("pstate_queryNullifiers", role=Role.READ, answers="states")
async def query_nullifiers(
    node: StateReads,
    domain: DomainName,
    schema_ref: SchemaRef,
    query: QueryJson,
    qualifier: Qualifier,
    at_least: AtLeast = None,
) -> Found:
    """States of a domain's contracts that nullifiers spend; only the node of a state's owner knows its nullifier."""
    await reach(node, at_least, "atLeast")
    return [*await node.states.query_nullifiers(domain, None, schema_ref.content, query, qualifier, held_parties())]


@method("pstate_queryContractNullifiers", role=Role.READ, answers="states")
async def query_contract_nullifiers(
    node: StateReads,
    domain: DomainName,
    contract_address: Contract,
    schema_ref: SchemaRef,
    query: QueryJson,
    qualifier: Qualifier,
    at_least: AtLeast = None,
) -> Found:
    """States of a contract that nullifiers spend; only the node of a state's owner knows its nullifier."""
    await reach(node, at_least, "atLeast")
    contract, schema = contract_address.contract, schema_ref.content
    return [*await node.states.query_nullifiers(domain, contract, schema, query, qualifier, held_parties())]


@method("pstate_storeState", role=Role.OPERATE, answers="state")
async def store_state(
    node: HasStates, domain: DomainName, contract_address: Contract, schema_ref: SchemaRef, data: Data
) -> Annotated[PrivateState, Meta(description="The state, which is durable now")]:
    """Store a state that no transaction of this network created. Queries return it; transactions never use it."""
    return await node.states.store(domain, contract_address.contract, schema_ref.content, data)


@method("pstate_transferPrivateState", role=Role.OPERATE, answers="reliableMessageId")
async def transfer_private_state(
    node: HasStates,
    domain: DomainName,
    state_id: Annotated[HexText, Meta(description="The id of a state that this node has")],
    recipient: Annotated[str, Meta(description="A party of another node, which may see the state")],
) -> Annotated[Uuid, Meta(description="The id of what is sent until it is acknowledged")]:
    """Send a state again to a node that may see it, for example after it lost its database."""
    return uuid_of(await node.states.transfer(domain, state_id.content, recipient))


METHODS: Final = (
    list_schemas,
    get_schema_by_id,
    query_states,
    query_contract_states,
    query_nullifiers,
    query_contract_nullifiers,
    store_state,
    transfer_private_state,
)
