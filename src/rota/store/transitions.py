"""The transitions that a node has, as SQL: its own, and copies that peers sent.

Theory of operation. A transition is stored under its leaf and a digest: that of the round with which it came, or the
leaf itself where it stands alone. A peer can send the same transition under any number of digests, with contents left
out, or with false lists, a false bound or a false signature, because no leaf binds them. So copies of peers are bounded
by leaf. What this node signed, dispatched, prepared or has seen as an endorser replaces what a peer sent under the same
name. Whoever asks is given the copy in which there is most for it, and of equals one that this node knows by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rota.exchange.distribution import fullest, states_with_bytes
from rota.model.consistency import is_whole
from rota.model.types import ContractAddress, Digest, Leaf, NodeName, Transition
from rota.store.database import Reading, Statement
from rota.store.encoding import decode_transition, encode
from rota.wire.sizes import transition_bytes

# Of one leaf, as peers sent them.
COPIES_MAX: Final = 8
# Of the transitions that a peer asks for at once.
FOUND_BYTES_MAX: Final = 3_145_728
# Of all copies that one statement reads, unless those of one leaf are more.
READ_AT_ONCE_BYTES_MAX: Final = 1_048_576
LEAVES_AT_ONCE_MAX: Final = 128


def known_transition(
    contract: ContractAddress, digest: Digest, transition: Transition, position: int, is_own: bool
) -> Statement:
    """What this node knows by itself. Its own replaces what a peer sent; what is not whole may be less than that."""
    sql = _OWN_TRANSITION if is_own else _TRANSITION
    values = (contract, transition.leaf, digest, position, encode(transition), int(is_own))
    return Statement(sql, values, transition.leaf)


def known_alone(contract: ContractAddress, transition: Transition, position: int) -> Iterator[Statement]:
    """A transition as a round of its own, which its leaf names: who dispatched it may die before it tells anybody."""
    if states_with_bytes((transition,)):
        yield known_transition(contract, Digest(transition.leaf), transition, position, is_whole(transition))


def sent_transition(contract: ContractAddress, digest: Digest, transition: Transition, position: int) -> Statement:
    """What a peer sent, unless there are many copies of it already."""
    values = (contract, transition.leaf, digest, position, encode(transition), contract, transition.leaf)
    return Statement(_SENT_TRANSITION, values, transition.leaf)


def transitions_found(
    contract: ContractAddress, leaves: tuple[Leaf, ...], peer: NodeName | None, bytes_max: int | None = None
) -> Reading[tuple[tuple[Digest, tuple[Transition, ...]], ...]]:
    """Of each of these leaves the copy in which there is most for this peer, or for this node itself, by round.

    No more are read once those that were found have `bytes_max`, if that is given. A peer is told of as many as
    `FOUND_BYTES_MAX` hold, and of one at least: it asks again for what it still lacks.
    """
    bytes_max = FOUND_BYTES_MAX if peer is not None and bytes_max is None else bytes_max
    best: list[tuple[Digest, Transition]] = []
    size_bytes = 0
    wanted = deque(dict.fromkeys(leaves))
    while wanted and (bytes_max is None or size_bytes < bytes_max):
        some = [wanted.popleft() for _ in range(min(len(wanted), LEAVES_AT_ONCE_MAX))]
        sizes: Any = yield _about(_SIZES, contract, some)
        room_bytes = READ_AT_ONCE_BYTES_MAX if bytes_max is None else bytes_max - size_bytes
        few, others = _within(some, dict(sizes), min(READ_AT_ONCE_BYTES_MAX, room_bytes))
        wanted.extendleft(reversed(others))
        rows: Any = yield _about(_COPIES, contract, few)
        copies = ((Digest(digest), decode_transition(made)) for digest, made in rows)
        for digest, of_round in fullest(copies, tuple(few), peer):
            best += [(digest, transition) for transition in of_round]
            size_bytes += sum(map(transition_bytes, of_round))
    return fullest(best, leaves)


def _about(sql: str, contract: ContractAddress, leaves: Sequence[Leaf]) -> Statement:
    """A question about these leaves. A database keeps few texts: so many leaves are named as the next power of two."""
    count = 1 << (len(leaves) - 1).bit_length()
    named = (*leaves, *(leaves[-1] for _ in range(count - len(leaves))))
    return Statement(sql.format(marks=", ".join("?" * count)), (contract, *named))


def _within(leaves: Sequence[Leaf], sizes: Mapping[bytes, int], room_bytes: int) -> tuple[list[Leaf], list[Leaf]]:
    """Of these leaves the first ones whose copies fit together, at least one; and the others."""
    count, size_bytes = 0, 0
    for leaf in leaves:
        size_bytes += sizes.get(leaf, 0)
        if count and size_bytes > room_bytes:
            break
        count += 1
    return [*leaves[:count]], [*leaves[count:]]


_INSERT: Final = """
INSERT INTO transitions (contract, leaf, digest, position, transition, is_own) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (contract, leaf, digest) DO"""
_TRANSITION: Final = f"{_INSERT} NOTHING"
_OWN_TRANSITION: Final = f"{_INSERT} UPDATE SET transition = excluded.transition, is_own = 1"
_SENT_TRANSITION: Final = f"""
INSERT INTO transitions (contract, leaf, digest, position, transition)
SELECT ?, ?, ?, ?, ? WHERE (SELECT COUNT(*) FROM transitions WHERE contract = ? AND leaf = ?) < {COPIES_MAX}
ON CONFLICT (contract, leaf, digest) DO NOTHING"""
_COPIES: Final = """
SELECT digest, transition FROM transitions WHERE contract = ? AND leaf IN ({marks}) ORDER BY is_own DESC, position"""
_SIZES: Final = """
SELECT leaf, CAST(SUM(LENGTH(transition)) AS BIGINT) FROM transitions
WHERE contract = ? AND leaf IN ({marks}) GROUP BY leaf"""
