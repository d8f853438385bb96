"""This node and its peers."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from rota.model.types import NodeName
from rota.rpc.credentials import Role
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.interface import JsonValue, Node
from rota.service.registry.interface import HasNetwork, PeerInfo, ReliableMessage, ReliableMessageAck

PeerName = Annotated[str, Meta(description="The name of another node")]
Peer = Annotated[PeerInfo | None, Meta(description="The node; null when none of this name is registered")]


@method("transport_nodeName", role=Role.READ, answers="nodeName")
async def node_name(
    node: Node,
) -> Annotated[str, Meta(description="The name, which stands behind the @ of its parties")]:
    """Return the name of this node."""
    return node.name


@method("transport_localTransports", role=Role.READ, answers="transportNames")
async def local_transports(node: HasNetwork) -> Annotated[list[str], Meta(description="Their names")]:
    """List the transports of this node."""
    return [*node.neighbours.transports()]


@method("transport_localTransportDetails", role=Role.READ, answers="transportDetailsStr")
async def local_transport_details(
    node: HasNetwork, transport_name: Annotated[str, Meta(description="grpc")]
) -> Annotated[str, Meta(description="JSON as text: endpoint, and fingerprint of the certificate")]:
    """Return the details that other nodes need to reach this node."""
    return node.neighbours.transport_details(transport_name)


@method("transport_peers", role=Role.READ, answers="peers")
async def peers(node: HasNetwork) -> Annotated[list[PeerInfo], Meta(description="In the order of registration")]:
    """List the other nodes."""
    return [*node.neighbours.peers()]


@method("transport_peerInfo", role=Role.READ, answers="peer")
async def peer_info(node: HasNetwork, node_name: PeerName) -> Peer:
    """Return one of the other nodes."""
    return node.neighbours.peer(NodeName(node_name))


@method("transport_getPeer", role=Role.READ, answers="peer")
async def get_peer(node: HasNetwork, node_name: PeerName) -> Peer:
    """Return one of the other nodes; the same as `transport_peerInfo`."""
    return node.neighbours.peer(NodeName(node_name))


@method("transport_queryPeers", role=Role.READ, answers="peers")
async def query_peers(
    node: HasNetwork, query: QueryJson
) -> Annotated[list[PeerInfo], Meta(description="In the order of registration, if no other is asked for")]:
    """Query the other nodes. Fields: name, outboundTransport, outboundError."""
    return [*node.neighbours.peers(query)]


@method("transport_queryReliableMessages", role=Role.READ, answers="reliableMessages")
async def query_reliable_messages(
    node: HasNetwork, query: QueryJson
) -> Annotated[list[ReliableMessage], Meta(description="The oldest first, if no other order is asked for")]:
    """Query messages that this node sends until they are acknowledged: private states, and messages of groups.

    Fields: sequence, id, created, node, messageType, acknowledged (a time).
    """
    return [*await node.neighbours.reliable_messages(query)]


@method("transport_queryReliableMessageAcks", role=Role.READ, answers="reliableMessageAcks")
async def query_reliable_message_acks(
    node: HasNetwork, query: QueryJson
) -> Annotated[list[ReliableMessageAck], Meta(description="The oldest message first, if no other order is asked for")]:
    """Query the acknowledgements of such messages. Fields: messageId, time, node, messageType."""
    found = await node.neighbours.reliable_messages(_of_acknowledgements(query))
    return [ReliableMessageAck(each.id, each.ack.time, each.ack.error) for each in found if each.ack is not None]


_OTHER_NAMES: Final = {"messageId": "id", "time": "acknowledged"}


def _of_acknowledgements(query: dict[str, Any]) -> dict[str, JsonValue]:
    """Translate a query over acknowledgements to one over acknowledged messages."""
    translated = {key: _translated(value) for key, value in query.items()}
    absent = translated.get("null")
    unacknowledged: JsonValue = {"field": "acknowledged", "not": True}
    return {**translated, "null": [*(absent if isinstance(absent, list) else []), unacknowledged]}


def _translated(value: JsonValue) -> JsonValue:
    match value:
        case list():
            return [_translated(each) for each in value]
        case dict():
            return {
                key: _OTHER_NAMES.get(str(inner), str(inner)) if key == "field" else _of_entry(key, inner)
                for key, inner in value.items()
            }
        case str():
            name = value.split()[0].removeprefix("-") if value.split() else value
            return value.replace(name, _OTHER_NAMES.get(name, name), 1)
        case _:
            return value


def _of_entry(key: str, value: JsonValue) -> JsonValue:
    """Translate an entry of the query; values stay unchanged."""
    return value if key in ("value", "values") else _translated(value)


METHODS: Final = (
    node_name,
    local_transports,
    local_transport_details,
    peers,
    peer_info,
    get_peer,
    query_peers,
    query_reliable_messages,
    query_reliable_message_acks,
)
