"""This node among the others."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from rota.api.credentials import Role
from rota.api.facade import Node
from rota.api.methods import method


@method("transport_nodeName", role=Role.READ, answers="nodeName")
async def node_name(
    node: Node,
) -> Annotated[str, Meta(description="The name, which stands behind the @ of its parties")]:
    """The name of this node."""
    return node.name


METHODS: Final = (node_name,)
