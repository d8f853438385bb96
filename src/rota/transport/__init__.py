"""Nodes connected to one another: gRPC streams, mutual TLS, frames, a bounded queue per peer (protocol §4.1, §6).

peers.py         start reading here: `GrpcPeers`, which is `ports.Peers`; who is connected, who dials, what is told
link.py          one connection from hello to goodbye: reads, writes, pings
handshake.py     what is said first, and who is refused
certificates.py  a peer is its certificate: identities, fingerprints, what is known and how it is learned
outbox.py        what waits for one peer, and what goes when it is full
allowance.py     how much a peer may say before it is a flood
endings.py       why connections end, counted, and logged once
parts.py         the pieces of a stream, to bytes and back
dialing.py, serving.py   the only two modules that know gRPC
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
