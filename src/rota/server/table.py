"""All methods in one table, and the OpenRPC document that is made of it (`rpc.discover`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Format, encode
from rota.rpc.methods import Method, Parameter, method
from rota.service.abis import methods as types
from rota.service.accounts import methods as accounts
from rota.service.automation import methods as triggers
from rota.service.blocks import methods as blocks
from rota.service.commands import methods as commands
from rota.service.consent import methods as consent
from rota.service.contracts import methods as contracts
from rota.service.explain import methods as sequencer
from rota.service.groups import message_methods
from rota.service.groups import methods as groups
from rota.service.interface import Node
from rota.service.keys import methods as keys
from rota.service.listeners import methods as listen
from rota.service.operations import methods as node
from rota.service.public import aside_methods
from rota.service.receipts import methods as follow
from rota.service.registry import domain_methods, peer_methods
from rota.service.registry import methods as registry
from rota.service.settlement import methods as settlement
from rota.service.states import methods as states
from rota.service.submissions import methods as submit

OPENRPC_VERSION: Final = "1.3.2"
EXAMPLES: Final = "examples"
_REFERENCE: Final = "#/components/schemas/{name}"


@method("rpc.discover", role=Role.READ, answers="document")
async def discover(
    node: Node,  # noqa: ARG001  # every method is given the node
) -> Annotated[dict[str, Any], Meta(description="An OpenRPC document")]:
    """All methods of this node, with their parameters, answers and roles."""
    # It is the same for all callers: encoding it each time would hold the event loop for more than a millisecond.
    return encoded_document()  # type: ignore[return-value]  # as JSON, it is the object that the type describes


def table_of(methods: Sequence[Method]) -> dict[str, Method]:
    """Return the methods by name."""
    table = {each.name: each for each in methods}
    assert len(table) == len(methods), "no two methods have one name"
    return table


TABLE: Final = table_of(
    (
        *submit.METHODS,
        *aside_methods.METHODS,
        *follow.METHODS,
        *listen.METHODS,
        *types.METHODS,
        *settlement.METHODS,
        *sequencer.METHODS,
        *contracts.METHODS,
        *accounts.METHODS,
        *consent.METHODS,
        *groups.METHODS,
        *message_methods.METHODS,
        *states.METHODS,
        *keys.METHODS,
        *commands.METHODS,
        *triggers.METHODS,
        *peer_methods.METHODS,
        *registry.METHODS,
        *domain_methods.METHODS,
        *blocks.METHODS,
        *node.METHODS,
        discover,
    )
)


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded request with its answer. `pushed` is the notification that it causes on the same connection."""

    params: list[Any]
    result: Any | msgspec.UnsetType = msgspec.UNSET
    pushed: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


@cache
def example_of(name: str) -> Example | None:
    """Return the example of a method, as `make examples` recorded it; None for a new method."""
    file = files("rota.server").joinpath(EXAMPLES, f"{name}.json")
    return msgspec.json.decode(file.read_bytes(), type=Example) if file.is_file() else None


@cache
def document() -> dict[str, Any]:
    """Return the OpenRPC document of the table."""
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
            "examples": _paired(each),
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
    """Return the document as JSON."""
    return msgspec.Raw(encode(document()))


def _paired(each: Method) -> list[dict[str, Any]]:
    example = example_of(each.name)
    if example is None:
        return []
    given = [{"name": one.name, "value": value} for one, value in zip(each.parameters, example.params, strict=False)]
    result = None if example.result is msgspec.UNSET else example.result
    return [{"name": each.name, "params": given, "result": {"name": each.result.name, "value": result}}]


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
