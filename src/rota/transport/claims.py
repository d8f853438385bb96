"""The claim of each field of a peer's greeting; `node/claims.py` has those of messages (trust rule 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rota.node.claims import Bounded, Claim, Harmless, Verified
from rota.transport.handshake import read_hello, require_announcement
from rota.transport.parts import Announcement, Hello

HELLO_CLAIMS: Final[Mapping[type[Any], Mapping[str, Claim]]] = {
    Hello: {
        "node": Verified(read_hello),
        "peer": Verified(read_hello),
        "life": Bounded(read_hello),
        "is_renewal": Harmless("says which of two connections of the same peer goes on"),
        "version": Verified(read_hello),
        "shown_fingerprint": Harmless("logged, so that an operator sees which certificate the peer was shown"),
        "announcement": Bounded(require_announcement),
    },
    Announcement: {"account": Bounded(require_announcement), "ranked_triggers": Bounded(require_announcement)},
}
