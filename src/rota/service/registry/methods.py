"""The registered nodes and their properties."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Choice, HexText
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.registry.interface import HasNetwork, RegistryEntry, RegistryEntryWithProperties, RegistryProperty


class ActiveFilter(Choice):
    """Which entries to return; this node keeps only present registrations, so no entry is inactive."""

    __slots__ = ()
    right = "'active', 'inactive' or 'any'"
    options = ("active", "inactive", "any")


ACTIVE: Final = ActiveFilter("active")

RegistryName = Annotated[str, Meta(description="The name of a registry, as reg_registries gives it")]
Filter = Annotated[ActiveFilter, Meta(description="active, inactive or any")]


@method("reg_registries", role=Role.READ, answers="registryNames")
async def registries(node: HasNetwork) -> Annotated[list[str], Meta(description="Their names")]:
    """List the registries that this node reads."""
    return [*node.registries.names()]


@method("reg_queryEntries", role=Role.READ, answers="entries")
async def query_entries(
    node: HasNetwork, registry_name: RegistryName, query: QueryJson, active_filter: Filter = ACTIVE
) -> Annotated[list[RegistryEntry], Meta(description="In the order of registration, if no other is asked for")]:
    """Query the registered nodes. Fields: id, name, active."""
    return [
        RegistryEntry(
            each.registry,
            each.id,
            each.name,
            each.active,
            each.parent_id,
            each.block_number,
            each.transaction_index,
            each.log_index,
        )
        for each in node.registries.entries(registry_name, query, active_filter)
    ]


@method("reg_queryEntriesWithProps", role=Role.READ, answers="entries")
async def query_entries_with_props(
    node: HasNetwork, registry_name: RegistryName, query: QueryJson, active_filter: Filter = ACTIVE
) -> Annotated[
    list[RegistryEntryWithProperties], Meta(description="In the order of registration, if no other is asked for")
]:
    """Query the registered nodes with their properties. Fields: id, name, active."""
    return [*node.registries.entries(registry_name, query, active_filter)]


@method("reg_getEntryProperties", role=Role.READ, answers="properties")
async def entry_properties(
    node: HasNetwork,
    registry_name: RegistryName,
    entry_id: Annotated[HexText, Meta(description="The id of an entry")],
    active_filter: Filter = ACTIVE,
) -> Annotated[list[RegistryProperty], Meta(description="By their names")]:
    """Return the registered properties of a node."""
    return [*node.registries.properties(registry_name, entry_id.content, active_filter)]


METHODS: Final = (registries, query_entries, query_entries_with_props, entry_properties)
