"""Nodes connected to one another: gRPC streams, mutual TLS, frames, a bounded queue per peer (protocol §4.1, §6).

peers.py         start here: `GrpcPeers`, which implements `ports.Peers`: connections, dialing, events for the core
link.py          one connection from hello to goodbye: reads, writes, pings
handshake.py     the hello, and which peers are refused
certificates.py  identities, fingerprints, and the certificates of peers that a node has seen
outbox.py        the queue of messages for one peer, and which of them are dropped when it is full
allowance.py     rate limits of a peer
endings.py       why connections end: counters and log lines
parts.py         the pieces of a stream, to bytes and back
dialing.py, serving.py   the only two modules that use gRPC
registry.py      a registry in memory or in a file            settings.py   every timer and limit
"""

import os

# gRPC writes a line to standard error for every handshake that fails: a stranger could fill the disk with them. It
# reads this once, when it is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from rota.transport.certificates import Identity, fingerprint_of
from rota.transport.endings import Reason
from rota.transport.parts import Announcement
from rota.transport.peers import GrpcPeers
from rota.transport.registry import StaticRegistry, read_registry
from rota.transport.settings import TransportSettings

__all__ = [
    "Announcement",
    "GrpcPeers",
    "Identity",
    "Reason",
    "StaticRegistry",
    "TransportSettings",
    "fingerprint_of",
    "read_registry",
]
