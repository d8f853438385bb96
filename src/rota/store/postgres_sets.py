"""Many executions of one statement as one, for PostgreSQL.

Theory of operation. Most of the cost of a short statement to a server is the beginning and the end of its execution. So
the rows of a run go to the server as arrays, one for each parameter, and one statement takes them from `unnest`. That
is the same as one execution after the other only where no execution depends on an earlier one of its run. A statement
is declared to be so (`database.independent`) with the parameters that identify the row it writes: two executions for
one row are not combined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from rota.store.database import Value, row_of

# The rows of one combined statement, so that a message to the server stays small; fewer than `ROWS_MIN` do not pay off.
ROWS_MAX: Final = 512
BYTES_MAX: Final = 1_048_576
ROWS_MIN: Final = 3

_VALUES: Final = "VALUES ("
_WHERE: Final = "\nWHERE "


def sets_of(sql: str, run: Sequence[tuple[Value, ...]]) -> Iterator[Sequence[tuple[Value, ...]]]:
    """The run in parts, each of which can be one statement; nothing when its executions must follow one another."""
    key = row_of(sql)
    if key is None or len(run) < ROWS_MIN:
        return
    if key and len({tuple(values[number] for number in key) for values in run}) < len(run):
        return
    part: list[tuple[Value, ...]] = []
    size_bytes = 0
    for values in run:
        part.append(values)
        size_bytes += sum(len(value) for value in values if isinstance(value, (bytes, str)))
        if len(part) >= ROWS_MAX or size_bytes >= BYTES_MAX:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


@cache
def as_set(sql: str, types: tuple[str, ...]) -> str:
    """The statement with arrays of these types as parameters, one element for each row."""
    head, *others = sql.split("?")
    named = head + "".join(f"one.p{number}{part}" for number, part in enumerate(others, 1))
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(types, 1))
    rows = f"unnest({arrays}) AS one({', '.join(f'p{number}' for number in range(1, len(types) + 1))})"
    if named.lstrip().startswith("UPDATE"):
        changed, where, condition = named.rpartition(_WHERE)
        assert where, f"an independent UPDATE has its condition on a line of its own: {sql}"
        return f"{changed}\nFROM {rows}{where}{condition}"
    if named.lstrip().startswith("DELETE"):
        deleted, where, condition = named.rpartition(_WHERE)
        assert where, f"an independent DELETE has its condition on a line of its own: {sql}"
        return f"{deleted}\nUSING {rows}{where}{condition}"
    if _VALUES in named:
        columns, _, rest = named.partition(_VALUES)
        end = _closing(rest)
        return f"{columns}SELECT {rest[:end]}\nFROM {rows}{rest[end + 1 :]}"
    selected, where, condition = named.partition(_WHERE)
    assert where, f"an independent INSERT has VALUES, or its condition on a line of its own: {sql}"
    return f"{selected}\nFROM {rows}{where}{condition}"


def _closing(text: str) -> int:
    """The position of the bracket that closes the open one. No text of ours has a bracket in quotation marks."""
    open_count = 1
    for place, character in enumerate(text):
        open_count += (character == "(") - (character == ")")
        if not open_count:
            return place
    raise AssertionError("every bracket is closed")
