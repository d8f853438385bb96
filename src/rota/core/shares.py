"""Shares: how a limited resource is divided among senders (protocol §7).

Half of it is divided equally among all who may send: each always gets its share, however much the others hold. The
other half is for whoever comes first, so that a sender that is alone gets nearly everything.
"""

from __future__ import annotations

from typing import Final

from rota.types import Contract, Mode, NodeName

# Where anybody may send, so many senders are reckoned with.
SENDERS_RECKONED: Final = 16


class Shares:
    """What the senders hold of one resource.

    Where each sender coordinates for itself, a coordinator has one sender, and an endorser still many.
    """

    def __init__(self, contract: Contract, is_endorsers: bool = False) -> None:
        self.contract = contract
        self.is_endorsers = is_endorsers
        self.held: dict[NodeName, int] = {}
        self.total = 0

    def has_room(self, sender: NodeName, amount: int, most: int) -> bool:
        """Whether a sender may take so much more: it is in its share, or in what nobody has a share in."""
        if self.total + amount > most:
            return False
        count = self.sender_count
        # Where half is not enough for all, each has a share of one, as far as there are so many.
        share = most // (2 * count) or int(most >= count)
        if self.total + amount <= most // 2 and share * count <= most // 2:
            return True
        after = self.held.get(sender, 0) + amount
        others = sum(max(0, held - share) for each, held in self.held.items() if each != sender)
        return after <= share or others + after - share <= most - share * count

    def take(self, sender: NodeName, amount: int) -> None:
        """The sender holds so much more."""
        self.held[sender] = self.held.get(sender, 0) + amount
        self.total += amount

    def give_back(self, sender: NodeName, amount: int) -> None:
        """The sender holds so much less."""
        self.total -= amount
        self.held[sender] -= amount
        if not self.held[sender]:
            del self.held[sender]

    @property
    def sender_count(self) -> int:
        """How many may send."""
        if self.contract.mode is Mode.RING:
            return len(self.contract.committee)
        is_alone = self.contract.mode is Mode.SENDER and not self.is_endorsers
        return 1 if is_alone else max(SENDERS_RECKONED, len(self.held))
