"""All methods in one table, and the OpenRPC document that is made of it (`rpc.discover`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rota.api.credentials import Role
from rota.api.facade import Node
from rota.api.families import (
    aside,
    blocks,
    commands,
    consent,
    contracts,
    domains,
    follow,
    group_messages,
    groups,
    keys,
    listen,
    node,
    registry,
    sequencer,
    settlement,
    states,
    submit,
    transport,
    triggers,
    types,
)
from rota.api.formats import Format, encode
from rota.api.methods import Method, Parameter, method

OPENRPC_VERSION: Final = "1.3.2"
_REFERENCE: Final = "#/components/schemas/{name}"


@method("rpc.discover", role=Role.READ, answers="document")
async def discover(
    node: Node,  # noqa: ARG001  # every method is given the node
) -> Annotated[dict[str, Any], Meta(description="An OpenRPC document")]:
    """All methods of this node, with their parameters, answers and roles."""
    # It is the same for everybody: encoding it anew would hold the event loop for more than a millisecond each time.
    return encoded_document()  # type: ignore[return-value]  # as JSON, it is the object that the type describes


def table_of(methods: Sequence[Method]) -> dict[str, Method]:
    """Methods by name."""
    table = {each.name: each for each in methods}
    assert len(table) == len(methods), "no two methods have one name"
    return table


TABLE: Final = table_of(
    (
        *submit.METHODS,
        *aside.METHODS,
        *follow.METHODS,
        *listen.METHODS,
        *types.METHODS,
        *settlement.METHODS,
        *sequencer.METHODS,
        *contracts.METHODS,
        *consent.METHODS,
        *groups.METHODS,
        *group_messages.METHODS,
        *states.METHODS,
        *keys.METHODS,
        *commands.METHODS,
        *triggers.METHODS,
        *transport.METHODS,
        *registry.METHODS,
        *domains.METHODS,
        *blocks.METHODS,
        *node.METHODS,
        discover,
    )
)


@cache
def document() -> dict[str, Any]:
    """The OpenRPC document of the table."""
    methods = tuple(TABLE.values())
    types = [parameter.type for each in methods for parameter in each.parameters]
    types += [each.result.type for each in methods]
    schemas, components = msgspec.json.schema_components(types, schema_hook=_format_schema, ref_template=_REFERENCE)
    remaining = iter(schemas)
    parameters = [[_described(parameter, next(remaining)) for parameter in each.parameters] for each in methods]
    described = [
        {
            "name": each.name,
            "summary": each.summary,
            "tags": [{"name": each.family}],
            "paramStructure": "either",
            "params": taken,
            "result": {"name": each.result.name, "summary": each.result.description, "schema": next(remaining)},
            "x-role": each.role.value,
            **({"x-websocket": True} if each.needs_connection else {}),
        }
        for each, taken in zip(methods, parameters, strict=True)
    ]
    return {
        "openrpc": OPENRPC_VERSION,
        "info": {"title": "Rota", "version": version("rota")},
        "methods": described,
        "components": {"schemas": components},
    }


@cache
def encoded_document() -> msgspec.Raw:
    """The same as JSON."""
    return msgspec.Raw(encode(document()))


def _described(parameter: Parameter, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "summary": parameter.description,
        "required": parameter.is_required,
        "schema": schema,
    }


def _format_schema(kind: type) -> dict[str, object]:
    assert issubclass(kind, Format), f"there is no schema for {kind.__name__}"
    return kind.schema()
