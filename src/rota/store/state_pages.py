"""The states that a node holds of a contract, by pages, as SQL.

A payer can attach up to half a MiB to a coin, and make any number of payments. So a page is bounded in states and in
bytes; the readings read sizes before contents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rota.model.types import ContractAddress, State
from rota.ports import STATES_PAGE_BYTES_MAX, StateChanges, StatePage, StatePlace
from rota.store.database import Reading, Statement
from rota.store.encoding import decode_state


def unspent_page(contract: ContractAddress, after: StatePlace | None, limit: int) -> Reading[StatePage]:
    """The unspent states of a contract on the chain that this node holds, in the order of the chain."""
    changes: Any = yield Statement(_LATEST_CHANGE, (contract,))
    place = after or _BEFORE_ALL
    sizes: Any = yield Statement(_UNSPENT_SIZES, (contract, *place, limit))
    count = _fitting(size for (size,) in sizes)
    rows: Any = yield Statement(_UNSPENT, (contract, *place, count))
    last = StatePlace(*rows[-1][1:]) if rows and (count < len(sizes) or len(sizes) == limit) else None
    return StatePage(changes[0][0] or 0, tuple(decode_state(state) for state, *_ in rows), last)


def changes_page(contract: ContractAddress, since: int, limit: int) -> Reading[StateChanges]:
    """The changes of a contract's unspent states after the record with this position, up to a page."""
    as_of, is_complete = yield from _changes_up_to(contract, since, limit)
    rows: Any = yield Statement(_CHANGED, (contract, since, as_of))
    changed = [(decode_state(state), bool(is_unspent)) for state, is_unspent in rows]
    return StateChanges(
        as_of,
        tuple(state for state, is_unspent in changed if is_unspent),
        tuple(state.id for state, is_unspent in changed if not is_unspent),
        is_complete,
    )


def page_since(
    contract: ContractAddress, since: int, limit: int, on_chain: bool = False
) -> Reading[tuple[int, tuple[State, ...]]]:
    """The states that this node holds and that changed after the record with this position, spent or not."""
    as_of, _ = yield from _changes_up_to(contract, since, limit)
    sql = _COMMITTED_SINCE if on_chain else _HELD_SINCE
    rows: Any = yield Statement(sql, (contract, since, as_of))
    return as_of, tuple(decode_state(state) for (state,) in rows)


def nullified_states(
    contract: ContractAddress, limit: int, skip: int = 0, is_own: bool = False
) -> Reading[tuple[State, ...]]:
    """The unspent states on the chain that a nullifier spends in place of their ids, the oldest first.

    With `is_own`, only those that intents of this node made.
    """
    rows: Any = yield Statement(_NULLIFIED_OF_OWN if is_own else _NULLIFIED, (contract, limit, skip))
    return tuple(decode_state(state) for (state,) in rows)


def _changes_up_to(contract: ContractAddress, since: int, limit: int) -> Reading[tuple[int, bool]]:
    """The last change of the page, and whether it is the latest change: a page has whole changes."""
    rows: Any = yield Statement(_LATEST_CHANGE, (contract,))
    latest = max(since, rows[0][0] or 0)
    rows = yield Statement(_CHANGE_SIZES, (contract, since, limit))
    count = _fitting(size for _, size in rows)
    as_of = rows[count - 1][0] if rows and (count < len(rows) or len(rows) == limit) else latest
    return as_of, as_of == latest


def _fitting(sizes: Iterable[int]) -> int:
    """How many of these fit in a page; at least one, if there is one."""
    count = total = 0
    for size in sizes:
        total += size
        if count and total > STATES_PAGE_BYTES_MAX:
            break
        count += 1
    return count


_NULLIFIED_WHERE: Final = """
SELECT state FROM states
WHERE contract = ? AND nullifier IS NOT NULL AND state IS NOT NULL AND committed_at IS NOT NULL AND spent_at IS NULL"""
_NULLIFIED_IN_ORDER: Final = "ORDER BY committed_at, place, output LIMIT ? OFFSET ?"
_NULLIFIED: Final = f"{_NULLIFIED_WHERE} {_NULLIFIED_IN_ORDER}"
_NULLIFIED_OF_OWN: Final = f"""{_NULLIFIED_WHERE}
    AND EXISTS (
        SELECT 1 FROM outcomes JOIN intents ON intents.id = outcomes.intent AND intents.contract = outcomes.contract
        WHERE outcomes.height = states.committed_at AND outcomes.place = states.place)
{_NULLIFIED_IN_ORDER}"""

_BEFORE_ALL: Final = StatePlace(-1, 0, 0)

_UNSPENT_AFTER: Final = """
FROM states
WHERE contract = ? AND state IS NOT NULL AND committed_at IS NOT NULL AND spent_at IS NULL
    AND (committed_at, place, output) > (?, ?, ?)
ORDER BY committed_at, place, output LIMIT ?"""
_UNSPENT: Final = f"SELECT state, committed_at, place, output {_UNSPENT_AFTER}"
_UNSPENT_SIZES: Final = f"SELECT LENGTH(state) {_UNSPENT_AFTER}"

_LATEST_CHANGE: Final = "SELECT MAX(changed) FROM states WHERE contract = ? AND state IS NOT NULL"

_CHANGE_SIZES: Final = """
SELECT changed, LENGTH(state) FROM states WHERE contract = ? AND state IS NOT NULL AND changed > ?
ORDER BY changed LIMIT ?"""

# States that were never on the chain were never in a page.
_CHANGED: Final = """
SELECT state, CASE WHEN committed_at IS NOT NULL AND spent_at IS NULL THEN 1 ELSE 0 END FROM states
WHERE contract = ? AND state IS NOT NULL AND place IS NOT NULL AND changed > ? AND changed <= ?
ORDER BY changed, committed_at, place, leaf, output"""

_HELD_SINCE: Final = """
SELECT state FROM states WHERE contract = ? AND state IS NOT NULL AND changed > ? AND changed <= ?
ORDER BY changed, CASE WHEN committed_at IS NULL THEN 1 ELSE 0 END, committed_at, place, leaf, output"""

_COMMITTED_SINCE: Final = """
SELECT state FROM states
WHERE contract = ? AND state IS NOT NULL AND changed > ? AND changed <= ? AND committed_at IS NOT NULL
ORDER BY changed, committed_at, place, leaf, output"""
