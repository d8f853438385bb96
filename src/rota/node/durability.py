"""Whether this node can write: one per node (decision 33).

Theory of operation. A node that cannot write may say nothing that rests on a record, and a coordinator says little
else: it would hold its role and do nothing in it. So one whose writes have failed for `ledger_grace_ms`, none of them
succeeding, counts as one without a ledger (protocol §4.1): it says so in every message, hands its roles over and takes
no new ones, until a write succeeds. One contract's fault is not the store's: from the first failure on the node has a
record of its own written every `request_timeout_ms`, and that succeeds when only the others' are at fault. It is also
how a node that has nothing left to write finds out that it can.
"""

from __future__ import annotations

from rota.model.config import Config


class Durability:
    """What became of the latest writes."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.is_lost = False
        # When to try to write again.
        self.try_at_ms: int | None = None
        self._failing_since_ms: int | None = None

    def take_written(self, now_ms: int, succeeded: bool) -> bool:
        """A write has ended. Whether the node can write again, or cannot, since just now."""
        if succeeded:
            self._failing_since_ms = self.try_at_ms = None
            was_lost, self.is_lost = self.is_lost, False
            return was_lost
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
            self.try_at_ms = now_ms + self.config.request_timeout_ms
        if self.is_lost or now_ms - self._failing_since_ms < self.config.ledger_grace_ms:
            return False
        self.is_lost = True
        return True

    def is_try_due(self, now_ms: int) -> bool:
        """Whether to have a record of our own written; the next one comes later."""
        if self.try_at_ms is None or self.try_at_ms > now_ms:
            return False
        self.try_at_ms = now_ms + self.config.request_timeout_ms
        return True
