"""States from peers that are not on the chain: their room, and until when it is needed (trust, T4).

Theory of operation. A transition that agrees with itself costs its author nothing, so a peer could fill a disk with
transitions that it never commits. Each peer therefore has a quota for those that no block has: it
always has `LEAST`, and up to `MOST` as long as all peers together take no more than `COMMON` beyond that. Without
room nothing is written or acknowledged, and the peer sends it again later. An acknowledged one is kept
until the chain has it or its bound has passed in final time (`store.listening` deletes it then).

A transition leaves its quota when a block has an outcome of it, which its author pays for, and when it has expired. A
skipped one may be dispatched again with a later bound: it is then written again, so that the store has the bound.

Transitions that this node asked for because the chain has them need no room. The bound of a peer's transition may
lie ahead of the chain by a week, or by `AHEAD_VALIDITIES` times the longest validity of this node's configuration;
another node may have a longer one. A node that is further behind takes states when it has caught up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from rota.model.config import Config
from rota.model.types import ContractAddress, Leaf, NodeName, Transition
from rota.wire.sizes import transition_bytes


class Room(NamedTuple):
    """An amount of room: transitions, and bytes."""

    transitions: int
    size_bytes: int


MEBIBYTE: Final = 1_048_576
LEAST: Final = Room(256, MEBIBYTE)
MOST: Final = Room(32_768, 128 * MEBIBYTE)
COMMON: Final = Room(65_536, 256 * MEBIBYTE)
PEERS_MAX: Final = 1_024
ASKED_MAX: Final = 65_536
# A bound claimed by a peer counts as at least this many of the longest validities, as in the store.
LEAST_VALIDITIES: Final = 2
AHEAD_VALIDITIES: Final = 16
AHEAD_LEAST_S: Final = 604_800
LOOK_EVERY_S: Final = 60

Key = tuple[ContractAddress, Leaf]
# The peer that sent it, its size in bytes, and until when it may be committed, in chain time.
Sent = tuple[NodeName, int, int]


class SentTransition(NamedTuple):
    """A transition from a peer that no block has, as stored."""

    contract: ContractAddress
    leaf: Leaf
    peer: NodeName
    size_bytes: int
    until_s: int


@dataclass(slots=True)
class _Usage:
    count: int = 0
    size_bytes: int = 0
    beyond_count: int = 0
    beyond_bytes: int = 0


class Unconfirmed:
    """The transitions of one node that peers sent and no block has."""

    def __init__(self, config: Config, stored: Iterable[SentTransition] = ()) -> None:
        longest_s = max(config.validity_s, config.prepared_validity_s)
        self.least_s = LEAST_VALIDITIES * longest_s
        self.ahead_s = max(AHEAD_VALIDITIES * longest_s, AHEAD_LEAST_S)
        self.sent: dict[Key, Sent] = {}
        self.usage: dict[NodeName, _Usage] = {}
        # The room that all peers together take beyond each one's minimum.
        self.common_count = 0
        self.common_bytes = 0
        self.asked: dict[Key, None] = {}
        self.refused_count = 0
        self._look_at_s = 0
        for each in stored:
            self.sent[each.contract, each.leaf] = (each.peer, each.size_bytes, each.until_s)
            self._account(each.peer, 1, each.size_bytes)

    # Received transitions.

    def note_asked(self, contract: ContractAddress, leaves: Iterable[Leaf]) -> None:
        """Note leaves that the chain has and whose states this node requests."""
        for leaf in leaves:
            self.asked.pop((contract, leaf), None)
            self.asked[contract, leaf] = None
        while len(self.asked) > ASKED_MAX:
            del self.asked[next(iter(self.asked))]

    def outlives(self, contract: ContractAddress, transition: Transition) -> bool:
        """Whether it is known with an earlier bound, so that the new one has to be written."""
        sent = self.sent.get((contract, transition.leaf))
        return sent is not None and sent[2] < transition.valid_until_s

    def take(
        self, peer: NodeName, contract: ContractAddress, transitions: Iterable[Transition], chain_time_s: int
    ) -> bool:
        """Take room for all of these on the account of this peer, or for none. Known ones keep theirs.

        A later bound or a larger copy is on the account of the peer that sends it: no peer uses another's quota
        with copies, nor takes room with a copy that comes after a small one, also in the same message. There is no
        room for a bound that is later than any of an honest sender, as far as our index knows the time.
        """
        known, asked = self.sent, self.asked
        news: dict[Key, Sent] = {}
        least_s = chain_time_s + self.least_s
        latest_s = chain_time_s + self.ahead_s if chain_time_s else None
        for each in transitions:
            key, until_s = (contract, each.leaf), each.valid_until_s
            if asked and key in asked:
                continue
            if latest_s is not None and until_s > latest_s:
                return False
            until_s, size = max(until_s, least_s), transition_bytes(each)
            sent = news.get(key) or known.get(key)
            if sent is None:
                news[key] = (peer, size, until_s)
            elif sent[2] < until_s or sent[1] < size:
                news[key] = (peer, max(sent[1], size), max(sent[2], until_s))
        if not news:
            return True
        left = [known[key] for key in news if key in known]
        own = [size for before, size, _ in left if before == peer]
        count, size_bytes = len(news) - len(own), sum(sent[1] for sent in news.values()) - sum(own)
        if (count or size_bytes) and not self._has_room(peer, count, size_bytes):
            self.refused_count += 1
            return False
        known.update(news)
        self._account(peer, len(news), sum(sent[1] for sent in news.values()))
        for before, size, _ in left:
            self._account(before, -1, -size)
        return True

    def _has_room(self, peer: NodeName, count: int, size_bytes: int) -> bool:
        usage = self.usage.get(peer)
        is_new, usage = usage is None, usage or _Usage()
        count, size_bytes = usage.count + count, usage.size_bytes + size_bytes
        if count <= LEAST.transitions and size_bytes <= LEAST.size_bytes:
            return not is_new or len(self.usage) < PEERS_MAX
        common_count = self.common_count - usage.beyond_count + max(0, count - LEAST.transitions)
        common_bytes = self.common_bytes - usage.beyond_bytes + max(0, size_bytes - LEAST.size_bytes)
        is_in_common = common_count <= COMMON.transitions and common_bytes <= COMMON.size_bytes
        return is_in_common and count <= MOST.transitions and size_bytes <= MOST.size_bytes

    def _account(self, peer: NodeName, count: int, size_bytes: int) -> None:
        """Add to the room that a peer takes, or subtract."""
        usage = self.usage.get(peer)
        if usage is None:
            usage = self.usage[peer] = _Usage()
        usage.count += count
        usage.size_bytes += size_bytes
        beyond_count = max(0, usage.count - LEAST.transitions)
        beyond_bytes = max(0, usage.size_bytes - LEAST.size_bytes)
        self.common_count += beyond_count - usage.beyond_count
        self.common_bytes += beyond_bytes - usage.beyond_bytes
        usage.beyond_count, usage.beyond_bytes = beyond_count, beyond_bytes
        if not usage.count:
            del self.usage[peer]

    # From the chain.

    def release(self, keys: Iterable[Key]) -> list[Key]:
        """Release the room of these; return those that had some."""
        released: list[Key] = []
        freed: dict[NodeName, int] = {}
        counts: dict[NodeName, int] = {}
        for key in keys:
            sent = self.sent.pop(key, None)
            if sent is not None:
                released.append(key)
                counts[sent[0]] = counts.get(sent[0], 0) + 1
                freed[sent[0]] = freed.get(sent[0], 0) + sent[1]
        for peer, count in counts.items():
            self._account(peer, -count, -freed[peer])
        return released

    def take_expired(self, final_time_s: int) -> list[Key]:
        """Release and return those whose bound has passed in final time. Checked once in a while."""
        if final_time_s < self._look_at_s or not self.sent:
            return []
        self._look_at_s = final_time_s + LOOK_EVERY_S
        return self.release([key for key, sent in self.sent.items() if sent[2] < final_time_s])
