"""Endorsers' answers that a coordinator verifies (protocol §7, trust rule 10).

Theory of operation. An endorser can send any number of answers to one request, and each may bear as many signatures as
the round has members. One answer of each endorser for a round is verified at a time. After a false signature no answer
of that endorser is verified for `request_timeout`: a signature of it does not count, and a refusal counts as unsigned.
"""

from __future__ import annotations

from rota.model.types import NodeName
from rota.sequencer.context import Context
from rota.sequencer.held_intent import Round


class Verifications:
    """The endorsers of one coordinator whose answers are being verified, and those that signed falsely."""

    def __init__(self, context: Context) -> None:
        self.context = context
        # Until when no answer of these endorsers is verified.
        self.distrusted: dict[NodeName, int] = {}

    def is_trusted(self, peer: NodeName) -> bool:
        """Whether it has not signed falsely lately."""
        return self.distrusted.get(peer, 0) <= self.context.now_ms

    def begin(self, opened: Round, peer: NodeName) -> bool:
        """Whether this answer is to be verified; a lost verdict blocks further answers only for a while."""
        now_ms, interval_ms = self.context.now_ms, self.context.config.request_timeout_ms
        since_ms = opened.verifying.get(peer)
        if since_ms is not None and now_ms - since_ms < interval_ms:
            return False
        opened.verifying[peer] = now_ms
        return True

    def note_false(self, opened: Round, peer: NodeName) -> None:
        """Note that a signature is not the endorser's own."""
        opened.verifying.pop(peer, None)
        self.distrusted[peer] = self.context.after(self.context.config.request_timeout_ms)
