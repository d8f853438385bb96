"""Demotion: members passed over although they send messages, by own experience and by reports (protocol §4.1).

Theory of operation. A coordinator that lists our intents and moves none of them is *demoted*: this node's sender,
coordinator and endorser pass it over, and none of its messages ends that. A demotion by own experience ends with time,
later each time, or when every member is demoted. Members report in `tried` whom they have demoted. With f = n - k of n
endorsers of whom k must sign, f + 1 accusers are believed at once, because one of them is honest. A single accuser is
believed about one member in `ACCUSATION_RANGES` ranges; that another member could not be reached, it is believed once
in as many. So a single member cannot depose members of its choice at will. A member whose sender has demoted its own
coordinator is believed about itself: it would reject every delegation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rota.model.types import NodeName, Rotation, Tried
from rota.sequencer.context import Context

ACCUSATION_RANGES = 8
GROWTH_MAX = 16


@dataclass(slots=True)
class Experience:
    """Own experience with a coordinator: until when it is demoted, and how often it was."""

    until_ms: int = 0
    count: int = 0


@dataclass(slots=True)
class Accuser:
    """The reports of one member: its latest list, and the member about which it was believed alone."""

    listed: dict[NodeName, Tried] = field(default_factory=dict)
    heard_ms: int = 0
    is_first_hand: bool = False
    # Its sender has demoted its own coordinator.
    has_stepped_back: bool = False
    target: NodeName | None = None
    target_range: int = 0
    is_spent: bool = False
    deposed_range: int | None = None


class Demotions:
    """The demotions of one contract at one node; the observer owns it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        contract = context.contract
        self.suffices = len(contract.endorsers) - contract.threshold + 1
        self.own: dict[NodeName, Experience] = {}
        self.accusers: dict[NodeName, Accuser] = {}

    def demote(self, node: NodeName) -> None:
        """Demote a node that did nothing for this one in time; longer each time."""
        config = self.context.config
        seen = self.own.setdefault(node, Experience())
        delay_ms = min(config.demotion_ms << min(seen.count, GROWTH_MAX), config.demotion_max_ms)
        seen.until_ms, seen.count = self.context.after(delay_ms), seen.count + 1

    def redeem(self, node: NodeName) -> None:
        """An intent of ours has ended there: forget the experience, so that the next demotion is short again."""
        self.own.pop(node, None)

    def pardon(self) -> bool:
        """No member is left: allow all again, and believe no single accuser about its target any more."""
        was_demoted = any(self.is_demoted(node) for node in self.context.contract.committee)
        for seen in self.own.values():
            seen.until_ms = 0
        for accuser in self.accusers.values():
            accuser.is_spent, accuser.has_stepped_back = True, False
        return was_demoted

    def clear(self, node: NodeName) -> None:
        """It works here: believe no single accuser about it, nor its report about itself, any more."""
        for author, accuser in self.accusers.items():
            if accuser.target == node:
                accuser.is_spent = True
            if author == node:
                accuser.has_stepped_back = False

    def hear(self, author: NodeName, tried: Iterable[Tried], accepted: NodeName | None, is_first_hand: bool) -> None:
        """Take the list of a delegation (first hand) or endorsement request; it replaces the author's last one."""
        members = self.context.contract.committee
        others = (author, self.context.node)
        listed = {entry.node: entry for entry in tried if entry.node in members and entry.node not in others}
        steps_back = is_first_hand and any(entry.node == author and entry.is_demoted for entry in tried)
        if not listed and not steps_back and author not in self.accusers:
            return
        accuser = self.accusers.setdefault(author, Accuser())
        accuser.listed, accuser.heard_ms, accuser.is_first_hand = listed, self.context.now_ms, is_first_hand
        accuser.has_stepped_back = steps_back
        accused = [node for node, entry in listed.items() if entry.is_demoted]
        if accused and (accuser.target is None or self._is_long_ago(accuser.target_range)):
            accuser.target = accepted if accepted in accused else accused[0]
            accuser.target_range, accuser.is_spent = self.context.block_range, False

    def is_own(self, node: NodeName) -> bool:
        """Whether it is demoted by own experience."""
        seen = self.own.get(node)
        return seen is not None and self.context.now_ms < seen.until_ms

    def is_demoted(self, node: NodeName) -> bool:
        """Whether it is demoted by own experience, by itself, by f + 1 accusers, or by one believed about it."""
        return self.is_own(node) or self._is_accused(node, self._standing())

    def first_hand(self, members: Iterable[NodeName]) -> tuple[NodeName, ...]:
        """Return the members demoted by own experience or by senders' reports.

        Only these are passed on, so that hearsay does not spread.
        """
        if not (self.own or self.accusers):
            return ()
        accusers = [accuser for accuser in self._standing() if accuser.is_first_hand]
        return tuple(node for node in members if self.is_own(node) or self._is_accused(node, accusers))

    def is_believed_unreached(self, author: NodeName, node: NodeName) -> bool:
        """Whether f + 1 members list it, or this author may be believed alone now."""
        listing = sum(node in accuser.listed for accuser in self._standing())
        return listing >= self.suffices or self.may_depose(author)

    def may_depose(self, author: NodeName) -> bool:
        """Whether its report alone counts: if one accuser is enough, else once in `ACCUSATION_RANGES` ranges.

        Under strict rotation every request is judged separately; there the report holds for the whole range.
        """
        accuser = self.accusers.get(author)
        if self.suffices == 1 or accuser is None or accuser.deposed_range is None or author == self.context.node:
            return True
        is_strict = self.context.contract.rotation is Rotation.STRICT
        is_same_range = is_strict and accuser.deposed_range == self.context.block_range
        return is_same_range or self._is_long_ago(accuser.deposed_range)

    def note_deposed(self, author: NodeName) -> None:
        """Note that a coordinator that is not silent was left because of this author's report alone."""
        accuser = self.accusers.setdefault(author, Accuser())
        if accuser.deposed_range is None or self._is_long_ago(accuser.deposed_range):
            accuser.deposed_range = self.context.block_range

    def _standing(self) -> list[Accuser]:
        """Return the accusers with a recent report, without those demoted by own experience."""
        since_ms = self.context.now_ms - self.context.config.demotion_ms
        return [
            accuser
            for author, accuser in self.accusers.items()
            if accuser.heard_ms > since_ms and not self.is_own(author)
        ]

    def _is_accused(self, node: NodeName, standing: list[Accuser]) -> bool:
        own = self.accusers.get(node)
        if own is not None and own.has_stepped_back and any(own is each for each in standing):
            return True
        accusing = [accuser for accuser in standing if node in accuser.listed and accuser.listed[node].is_demoted]
        return len(accusing) >= self.suffices or any(
            accuser.target == node and not accuser.is_spent for accuser in accusing
        )

    def _is_long_ago(self, block_range: int) -> bool:
        return self.context.block_range - block_range >= ACCUSATION_RANGES
