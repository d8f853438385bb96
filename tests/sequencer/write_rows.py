"""`python -m tests.sequencer.write_rows`: play the tests of the core, and record a moment for each row."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from rota.sim.coverage import Place, counting, every_place
from tests.sequencer.moments import FOLDERS, TESTS, Witness, row_at, takes, tests_of, write_rows

# The tests that read what is written here take no row.
READER = "test_every_row"


def main() -> None:
    """A row without a moment is printed, and is not recorded: then a test of its own is missing."""
    by_test = _rows_by_test()
    found = {place: _witness(place, by_test) for place in every_place()}
    for place, witness in found.items():
        if witness is None:
            print("no test takes", *place)
    write_rows({place: witness for place, witness in found.items() if witness is not None})


def _rows_by_test() -> dict[Place, list[str]]:
    found: dict[Place, list[str]] = {}
    modules = sorted(path.stem for folder in FOLDERS for path in (TESTS / folder).glob("test_*.py"))
    for module in modules:
        for name, test in tests_of(module) if module != READER else ():
            taken: Counter[Place] = Counter()
            # Without a fixture that its module wants a test may fail: what it took until then counts.
            with counting(taken), suppress(Exception):
                test()
            for place in taken:
                found.setdefault(place, []).append(name)
    return found


def _witness(place: Place, by_test: dict[Place, list[str]]) -> Witness | None:
    """A test that takes it, or else one that takes a row that says the same for another state."""
    table, row = row_at(place)
    candidates = [Witness(test) for test in by_test.get(place, [])]
    for other in table.rows:
        says_the_same = (other.event, other.when, other.do) == (row.event, row.when, row.do)
        if says_the_same and other is not row:
            state = str(other.state.value)
            candidates += [Witness(test, state) for test in by_test.get(place._replace(state=state), [])]
    return next((witness for witness in candidates if _is_good(place, witness)), None)


def _is_good(place: Place, witness: Witness) -> bool:
    try:
        return takes(place, witness)
    except Exception:
        # In this state the machine would hold something else: another test may do.
        return False


if __name__ == "__main__":
    main()
