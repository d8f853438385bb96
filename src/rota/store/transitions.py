"""The transitions that a node has, as SQL: its own, and copies that peers sent.

Theory of operation. A transition is stored under its leaf and a digest: that of the round with which it came, or the
leaf itself where it stands alone. A peer can send the same transition under any number of digests, with contents left
out, or with false lists, a false bound or a false signature, because no leaf binds them. So copies of peers are bounded
by leaf. A copy that this node signed, dispatched, prepared or saw as an endorser replaces a peer's under the same
name. A reader gets the copy with the most contents that it may see, and of equals one that this node knows by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rota.exchange.distribution import fullest, states_with_bytes
from rota.model.consistency import is_whole
from rota.model.types import ContractAddress, Digest, Leaf, NodeName, Transition
from rota.store.database import Reading, Statement, independent
from rota.store.encoding import decode_transition, encode
from rota.wire.sizes import transition_bytes

# Copies of one leaf that are stored from peers.
COPIES_MAX: Final = 8
# Transitions that one answer to a peer has.
FOUND_BYTES_MAX: Final = 3_145_728
# One statement reads the copies of so many leaves, where each copy is small.
SMALL_BYTES_MAX: Final = 4_096
LEAVES_AT_ONCE_MAX: Final = 64


def known_transition(
    contract: ContractAddress, digest: Digest, transition: Transition, position: int, is_own: bool
) -> Statement:
    """Store a transition known to this node itself. Its own (`is_own`) replaces a peer's; another may hold less."""
    sql = _OWN_TRANSITION if is_own else _TRANSITION
    values = (contract, transition.leaf, digest, position, encode(transition), int(is_own))
    return Statement(sql, values, transition.leaf)


def known_alone(contract: ContractAddress, transition: Transition, position: int) -> Iterator[Statement]:
    """Store a transition as a round of its own, named by its leaf: its dispatcher may fail before it sends it."""
    if states_with_bytes((transition,)):
        yield known_transition(contract, Digest(transition.leaf), transition, position, is_whole(transition))


def sent_transition(contract: ContractAddress, digest: Digest, transition: Transition, position: int) -> Statement:
    """Store a transition that a peer sent, unless `COPIES_MAX` copies of it are stored already."""
    values = (contract, transition.leaf, digest, position, encode(transition), contract, transition.leaf)
    return Statement(_SENT_TRANSITION, values, transition.leaf)


def transitions_found(
    contract: ContractAddress, leaves: tuple[Leaf, ...], peer: NodeName | None, bytes_max: int | None = None
) -> Reading[tuple[tuple[Digest, tuple[Transition, ...]], ...]]:
    """For each of these leaves the copy with the most contents for this peer, or for this node itself, by round.

    Reading stops once the found copies have `bytes_max`, if that is given. A peer gets as many as fit in
    `FOUND_BYTES_MAX`, and at least one: it asks again for those that it still lacks.
    """
    bytes_max = FOUND_BYTES_MAX if peer is not None and bytes_max is None else bytes_max
    best: list[tuple[Digest, Transition]] = []
    size_bytes = 0
    wanted = tuple(dict.fromkeys(leaves))
    for at in range(0, len(wanted), LEAVES_AT_ONCE_MAX):
        some = wanted[at : at + LEAVES_AT_ONCE_MAX]
        copies = yield from _small_copies(contract, some)
        for leaf in some:
            found = copies.get(leaf, [])
            if found is None:
                rows: Any = yield Statement(_COPIES, (contract, leaf))
                found = [(Digest(digest), decode_transition(made)) for digest, made in rows]
            for digest, (transition,) in fullest(found, (leaf,), peer):
                best.append((digest, transition))
                size_bytes += transition_bytes(transition)
            if bytes_max is not None and size_bytes >= bytes_max:
                return fullest(best, leaves)
    return fullest(best, leaves)


def _small_copies(
    contract: ContractAddress, leaves: Sequence[Leaf]
) -> Reading[dict[Leaf, list[tuple[Digest, Transition]] | None]]:
    """The copies of these leaves; None for a leaf with a large copy, which is read by itself.

    A database caches the plans of few statements: the number of leaves named is the next power of two.
    """
    count = 1 << (len(leaves) - 1).bit_length()
    named = (*leaves, *(None for _ in range(count - len(leaves))), contract)
    rows: Any = yield Statement(_SMALL_COPIES.format(wanted=" UNION ALL SELECT ?" * count), named)
    copies: dict[Leaf, list[tuple[Digest, Transition]] | None] = {}
    for leaf, digest, made in rows:
        found = copies.setdefault(Leaf(leaf), [])
        if made is None:
            copies[Leaf(leaf)] = None
        elif found is not None:
            found.append((Digest(digest), decode_transition(made)))
    return copies


_INSERT: Final = """
INSERT INTO transitions (contract, leaf, digest, position, transition, is_own) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (contract, leaf, digest) DO"""
_TRANSITION: Final = independent(f"{_INSERT} NOTHING", row=(0, 1, 2))
_OWN_TRANSITION: Final = independent(
    f"{_INSERT} UPDATE SET transition = excluded.transition, is_own = 1", row=(0, 1, 2)
)
_SENT_TRANSITION: Final = independent(
    f"""
INSERT INTO transitions (contract, leaf, digest, position, transition)
SELECT ?, ?, ?, ?, ?
WHERE (SELECT COUNT(*) FROM transitions WHERE contract = ? AND leaf = ?) < {COPIES_MAX}
ON CONFLICT (contract, leaf, digest) DO NOTHING""",
    row=(0, 1),
)
_COPIES: Final = """
SELECT digest, transition FROM transitions WHERE contract = ? AND leaf = ? ORDER BY is_own DESC, position"""
# The leaves are rows, so that no database compares each of them with each transition. The first part sets their type.
_SMALL_COPIES: Final = f"""
WITH wanted (leaf) AS (SELECT leaf FROM transitions WHERE 1 = 0{{wanted}})
SELECT transitions.leaf, digest, CASE WHEN LENGTH(transition) <= {SMALL_BYTES_MAX} THEN transition END
FROM wanted CROSS JOIN transitions WHERE transitions.leaf = wanted.leaf AND contract = ?
ORDER BY is_own DESC, position"""
