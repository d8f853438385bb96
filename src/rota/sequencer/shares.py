"""Shares: how a limited resource is divided among senders (protocol §7).

Theory of operation. In `ring` mode the committee sends. Half of the resource is divided equally among its members: each
always gets its share, however much the others hold. The other half goes to those that come first, so that a sender that
is alone gets nearly everything.

Where any registered node may send, names cost nothing, and so strangers are distinguished from *proven* senders: those
whose transition was committed in this contract (`Proven`). A quarter of the resource is divided among the proven
senders, and a quarter among 16 strangers. The rest goes to those that come first, and strangers together get at most
half of it. So any number of strangers leaves a proven sender its share and a quarter of the resource besides.
"""

from __future__ import annotations

from typing import Final

from rota.model.types import Contract, Mode, NodeName

# The number of strangers that have a share where any node may send.
SENDERS_RECKONED: Final = 16
PROVEN_MAX: Final = 256


class Proven:
    """The senders that have made progress in a contract, as far as this node saw it, and this node itself.

    The sender whose progress is the longest ago is forgotten first, and a restart forgets all of them.
    """

    def __init__(self, node: NodeName) -> None:
        self.node = node
        self.senders: dict[NodeName, None] = {node: None}

    def note(self, sender: NodeName) -> None:
        """Note that a transition of this sender is on the chain."""
        if sender != self.node:
            self.senders.pop(sender, None)
            self.senders[sender] = None
            if len(self.senders) > PROVEN_MAX:
                oldest = iter(self.senders)
                next(oldest)
                del self.senders[next(oldest)]


class Shares:
    """The amounts of one resource that the senders hold.

    Where each sender coordinates for itself, a coordinator has one sender, and an endorser still many.
    """

    def __init__(self, contract: Contract, proven: Proven, is_endorsers: bool = False) -> None:
        self.contract = contract
        self.proven = proven
        self.is_open = contract.mode is Mode.STATIC or (contract.mode is Mode.SENDER and is_endorsers)
        self.held: dict[NodeName, int] = {}
        self.total = 0

    def has_room(self, sender: NodeName, amount: int, most: int) -> bool:
        """Whether a sender may take so much more: it is in its share, or in the part without shares."""
        if self.total + amount > most:
            return False
        if self.is_open:
            is_little = self.total + amount <= most // 4
            return is_little or not self.total or self._has_room_among_strangers(sender, amount, most)
        count = self.sender_count
        # Where half is not enough for all, each has a share of one, as far as there are so many.
        share = most // (2 * count) or int(most >= count)
        if self.total + amount <= most // 2 and share * count <= most // 2:
            return True
        after = self.held.get(sender, 0) + amount
        others = sum(max(0, held - share) for each, held in self.held.items() if each != sender)
        return after <= share or others + after - share <= most - share * count

    def _has_room_among_strangers(self, sender: NodeName, amount: int, most: int) -> bool:
        reserved, proven = most // 4, self.proven.senders
        common = most - 2 * reserved
        share = max(1, reserved // max(SENDERS_RECKONED, len(proven)))
        strangers_share = max(1, reserved // SENDERS_RECKONED)
        after = self.held.get(sender, 0) + amount
        over = strangers_over = strangers_total = 0
        # Where the shares are smaller than a sender's first amount, that counts as its share.
        is_share = sender not in self.held and amount > reserved // SENDERS_RECKONED
        counted = self.held if is_share else {**self.held, sender: after}
        for each, held in counted.items():
            if each in proven:
                over += max(0, held - share)
            else:
                strangers_total += held
                strangers_over += max(0, held - strangers_share)
        strangers_over = max(strangers_over, strangers_total - reserved)
        if sender in proven:
            return after <= share or over + strangers_over <= common
        is_in_share = after <= strangers_share and strangers_total <= reserved
        return is_in_share or (over + strangers_over <= common and strangers_over <= (common + 1) // 2)

    def take(self, sender: NodeName, amount: int) -> None:
        """Count so much more for the sender."""
        self.held[sender] = self.held.get(sender, 0) + amount
        self.total += amount

    def give_back(self, sender: NodeName, amount: int) -> None:
        """Count so much less for the sender."""
        self.total -= amount
        self.held[sender] -= amount
        if not self.held[sender]:
            del self.held[sender]

    @property
    def sender_count(self) -> int:
        """The number of nodes that may send."""
        if self.contract.mode is Mode.RING:
            return len(self.contract.committee)
        return max(SENDERS_RECKONED, len(self.held)) if self.is_open else 1
