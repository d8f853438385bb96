"""Which answers of endorsers a coordinator has verified (protocol §7, trust rule 10).

Theory of operation. An endorser can send any number of answers to one request, and each may bear as many signatures as
the round has members. Of each endorser one answer for a round is verified at a time. After a false signature nothing of
that endorser is verified for `request_timeout`: a signature of it counts for nothing, and a refusal counts as one that
is not signed.
"""

from __future__ import annotations

from rota.model.types import NodeName
from rota.sequencer.context import Context
from rota.sequencer.held_intent import Round


class Verifications:
    """The endorsers of one coordinator whose answers are verified, and those that signed falsely."""

    def __init__(self, context: Context) -> None:
        self.context = context
        # Until when nothing of these endorsers is verified.
        self.distrusted: dict[NodeName, int] = {}

    def is_trusted(self, peer: NodeName) -> bool:
        """It has not signed falsely lately."""
        return self.distrusted.get(peer, 0) <= self.context.now_ms

    def begin(self, opened: Round, peer: NodeName) -> bool:
        """Whether this answer is to be verified; one whose verdict was lost keeps no other away for long."""
        now_ms, interval_ms = self.context.now_ms, self.context.config.request_timeout_ms
        since_ms = opened.verifying.get(peer)
        if since_ms is not None and now_ms - since_ms < interval_ms:
            return False
        opened.verifying[peer] = now_ms
        return True

    def note_false(self, opened: Round, peer: NodeName) -> None:
        """A signature is not its own."""
        opened.verifying.pop(peer, None)
        self.distrusted[peer] = self.context.after(self.context.config.request_timeout_ms)
