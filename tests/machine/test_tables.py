"""A transition table refuses to be built with a gap, and a machine does what its first matching row says."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pytest

from rota.machine.tables import (
    Event,
    Front,
    Guard,
    Ignored,
    Junction,
    Machine,
    Row,
    Table,
    in_states,
    outside,
    superstate,
)


class Light(Enum):
    RED = "Red"
    GREEN = "Green"


class Weather(Enum):
    RAIN = "Rain"


class Pressed(Event):
    """Raised by a walker at the button."""


class Elapsed(Event):
    """Raised by the clock."""


class Broken(Event):
    """Raised by nobody that these tables know."""


class Crossing(Machine):
    """Tells in `log` what happened, in order, and in which state."""

    def __init__(self, table: Table) -> None:
        self.table = table  # type: ignore[misc]  # each test brings its own
        super().__init__()
        self.log: list[str] = []

    def changed(self, previous: Enum) -> None:
        self.log.append(f"changed {previous.value} to {self.state.value}")


def saying(word: str) -> Callable[[Crossing, Event], None]:
    def action(crossing: Crossing, _: Event) -> None:
        crossing.log.append(f"{word} in {crossing.state.value}")

    return action


def always(*_: object) -> bool:
    return True


def never(*_: object) -> bool:
    return False


def is_red(crossing: Crossing, _: Event) -> bool:
    return crossing.state is Light.RED


def enter(crossing: Crossing) -> None:
    crossing.log.append(f"entered in {crossing.state.value}")


def table_of(*rows: Row, ignored: tuple[Ignored, ...] = ()) -> Table:
    return Table("Light", Light.RED, rows, ignored, {Light.GREEN: enter})


GREEN_IGNORES = Ignored(Pressed, (Light.GREEN,), "it is green")


# Which row decides.


def test_first_matching_row_wins() -> None:
    table = table_of(
        Row(Light.RED, Pressed, when=never, do=saying("first")),
        Row(Light.RED, Pressed, when=always, do=saying("second")),
        Row(Light.RED, Pressed, do=saying("third")),
        ignored=(GREEN_IGNORES,),
    )
    crossing = Crossing(table)
    assert crossing.handle(Pressed()) is table.rows[1]
    assert crossing.log == ["second in Red"]


def test_table_finds_the_row_that_its_machine_takes() -> None:
    guarded, plain = Row(Light.RED, Pressed, never), Row(Light.RED, Pressed)
    table = table_of(guarded, plain, ignored=(GREEN_IGNORES,))
    crossing = Crossing(table)
    assert table.row_for(crossing, Pressed()) is crossing.handle(Pressed()) is plain
    crossing.enter(Light.GREEN)
    assert table.row_for(crossing, Pressed()) is crossing.handle(Pressed()) is None


def test_row_without_guard_always_matches() -> None:
    crossing = Crossing(table_of(Row(Light.RED, Pressed, do=saying("done")), ignored=(GREEN_IGNORES,)))
    crossing.handle(Pressed())
    assert crossing.log == ["done in Red"]


def test_guards_and_actions_see_the_machine_and_the_event() -> None:
    seen: list[tuple[Crossing, Event]] = []

    def guard(crossing: Crossing, event: Event) -> bool:
        seen.append((crossing, event))
        return True

    def action(crossing: Crossing, event: Event) -> None:
        seen.append((crossing, event))

    crossing = Crossing(table_of(Row(Light.RED, Pressed, when=guard, do=action), ignored=(GREEN_IGNORES,)))
    pressed = Pressed()
    crossing.handle(pressed)
    assert seen == [(crossing, pressed), (crossing, pressed)]


def test_nothing_happens_when_no_guard_holds() -> None:
    table = table_of(Row(Light.RED, Pressed, when=never, then=Light.GREEN, do=saying("done")), ignored=(GREEN_IGNORES,))
    crossing = Crossing(table)
    assert crossing.handle(Pressed()) is None
    assert (crossing.state, crossing.log) == (Light.RED, [])


def test_nothing_happens_when_the_pair_is_ignored() -> None:
    red_ignores = Ignored(Pressed, (Light.RED,), "it waits")
    crossing = Crossing(table_of(Row(Light.GREEN, Pressed, do=saying("done")), ignored=(red_ignores,)))
    assert crossing.handle(Pressed()) is None
    assert (crossing.state, crossing.log) == (Light.RED, [])


def test_unknown_event_is_an_assertion() -> None:
    crossing = Crossing(table_of(*in_states(Light, Pressed)))
    with pytest.raises(AssertionError, match="Light does not know Broken"):
        crossing.handle(Broken())


# What a row does.


def test_action_runs_before_the_change_and_entry_action_after_it() -> None:
    crossing = Crossing(
        table_of(Row(Light.RED, Pressed, then=Light.GREEN, do=saying("acted")), ignored=(GREEN_IGNORES,))
    )
    crossing.handle(Pressed())
    assert crossing.state is Light.GREEN
    assert crossing.log == ["acted in Red", "changed Red to Green", "entered in Green"]


def test_state_without_entry_action_is_just_entered() -> None:
    crossing = Crossing(table_of(*in_states(Light, Pressed, then=Light.RED)))
    crossing.enter(Light.GREEN)
    crossing.log.clear()
    crossing.handle(Pressed())
    assert (crossing.state, crossing.log) == (Light.RED, ["changed Green to Red"])


def test_row_that_leads_to_its_own_state_enters_nothing() -> None:
    crossing = Crossing(table_of(*in_states(Light, Pressed, then=Light.GREEN)))
    crossing.enter(Light.GREEN)
    crossing.log.clear()
    crossing.handle(Pressed())
    assert (crossing.state, crossing.log) == (Light.GREEN, [])


def test_row_without_next_state_stays() -> None:
    crossing = Crossing(table_of(*in_states(Light, Pressed, do=saying("acted"))))
    crossing.handle(Pressed())
    assert (crossing.state, crossing.log) == (Light.RED, ["acted in Red"])


def test_machine_that_does_not_care_need_not_say_what_changed() -> None:
    class Plain(Machine):
        table = table_of(*in_states(Light, Pressed, then=Light.RED))

    plain = Plain()
    plain.enter(Light.RED)
    assert plain.state is Light.RED


def test_same_rule_for_several_states_is_one_row_each() -> None:
    done = saying("done")
    assert in_states((Light.RED, Light.GREEN), Pressed, always, Light.RED, done) == (
        Row(Light.RED, Pressed, always, Light.RED, done),
        Row(Light.GREEN, Pressed, always, Light.RED, done),
    )


# Superstates and junctions.


TRAFFIC = superstate("Traffic", *Light)


def test_row_of_a_superstate_holds_for_each_of_its_states() -> None:
    row = Row(TRAFFIC, Pressed, then=Light.GREEN)
    table = table_of(row)
    assert table.written == (row,)
    assert table.rows == tuple(Row(state, Pressed, then=Light.GREEN) for state in Light)
    assert TRAFFIC.value == "Traffic"


def test_superstate_may_be_made_of_others() -> None:
    red = superstate("Stop", Light.RED)
    assert superstate("Both", red, Light.GREEN).states == TRAFFIC.states
    assert outside(red) == (Light.GREEN,)


@pytest.mark.parametrize("guard", [None, always])
def test_narrower_row_overrules_that_of_a_superstate_if_it_always_matches_or_has_its_guard(guard: Guard | None) -> None:
    narrow = Row(Light.RED, Pressed, guard)
    table = table_of(narrow, Row(TRAFFIC, Pressed, always, Light.RED))
    assert table.rows == (narrow, Row(Light.GREEN, Pressed, always, Light.RED))


def test_narrower_row_with_another_guard_goes_first() -> None:
    table = table_of(Row(Light.RED, Pressed, never), Row(TRAFFIC, Pressed, always))
    assert [row.when for row in table.rows_by_pair[Light.RED, Pressed]] == [never, always]


def test_superstate_leaves_out_the_states_that_ignore_the_event() -> None:
    table = table_of(Row(TRAFFIC, Pressed), ignored=(GREEN_IGNORES,))
    assert table.rows_by_pair[Light.GREEN, Pressed] == ()


def test_ignoring_may_name_a_superstate() -> None:
    table = Table("Light", Light.RED, in_states(Light, Pressed), (Ignored(Elapsed, (TRAFFIC,), ""),))
    assert table.ignored[0].states == (Light.RED, Light.GREEN)
    assert table.superstates == (TRAFFIC,)


def test_junction_leads_along_its_first_branch_that_holds_before_the_action() -> None:
    fork = Junction("Fork", ((never, Light.RED), (is_red, Light.GREEN), (None, Light.RED)))
    table = table_of(Row(TRAFFIC, Pressed, always, fork, saying("acted")))
    crossing = Crossing(table)
    crossing.handle(Pressed())
    assert crossing.log == ["acted in Red", "changed Red to Green", "entered in Green"]
    crossing.handle(Pressed())
    assert crossing.state is Light.RED
    assert table.junctions == (fork,)
    first, second, last = table.rows_by_pair[Light.RED, Pressed]
    assert first.when is not None
    assert first.when.__name__ == "always_and_never"
    assert second.when is not None
    assert second.when(crossing, Pressed())
    assert last.when is always


def test_junction_without_a_guard_of_its_row_has_those_of_its_branches() -> None:
    table = table_of(Row(TRAFFIC, Pressed, then=Junction("Fork", ((never, Light.RED), (None, Light.GREEN)))))
    assert [row.when for row in table.rows_by_pair[Light.RED, Pressed]] == [never, None]


def test_row_that_applies_nowhere_is_refused() -> None:
    with pytest.raises(AssertionError, match="Light: the row of Traffic for Pressed applies nowhere"):
        table_of(*in_states(Light, Pressed), Row(TRAFFIC, Pressed))


def test_superstates_that_overlap_are_refused() -> None:
    class Three(Enum):
        ONE, TWO, THREE = "One", "Two", "Three"

    rows = (
        Row(superstate("A", Three.ONE, Three.TWO), Pressed),
        Row(superstate("B", Three.TWO, Three.THREE), Pressed, always),
    )
    with pytest.raises(AssertionError, match="Numbers: superstates overlap"):
        Table("Numbers", Three.ONE, (*rows[1:], *rows[:1]))


# A machine in front of another.


class Guarded(Front):
    """Takes what is pressed while it is red; the clock's events are its own."""

    table = Table(
        "Guard",
        Light.RED,
        (Row(Light.RED, Pressed, then=Light.GREEN), Row(Light.RED, Elapsed, never)),
        (Ignored(Pressed, (Light.GREEN,), "it is green"), Ignored(Elapsed, (Light.GREEN,), "it is green")),
    )
    own = (Elapsed,)


class BrokenToo(Crossing):
    """Knows one event more than the machine in front of it."""


def test_front_passes_on_events_that_it_does_not_decide() -> None:
    behind = BrokenToo(table_of(*in_states(Light, Pressed), *in_states(Light, Broken, do=saying("broken"))))
    front = Guarded(behind)
    assert front.handle(Pressed()) is front.table.rows[0]
    assert front.handle(Pressed()) is behind.table.rows[0], "ignored in front"
    front.handle(Broken())
    assert behind.log == ["broken in Red"], "unknown in front"


def test_front_keeps_events_of_its_own() -> None:
    front = Guarded(Crossing(table_of(*in_states(Light, Pressed))))
    assert front.handle(Elapsed()) is None
    front.enter(Light.GREEN)
    assert front.handle(Elapsed()) is None


# Tables that cannot be built.


def test_table_with_every_pair_decided_knows_its_states_in_order() -> None:
    assert table_of(*in_states(Light, Pressed)).states == (Light.RED, Light.GREEN)


def test_undecided_pair_is_refused_with_its_names() -> None:
    with pytest.raises(AssertionError, match=r"Light: undecided: \[\('GREEN', 'Pressed'\)\]"):
        table_of(Row(Light.RED, Pressed))


def test_pair_both_ruled_and_ignored_is_refused() -> None:
    with pytest.raises(AssertionError, match="Light: both ruled and ignored"):
        table_of(*in_states(Light, Pressed), ignored=(GREEN_IGNORES,))


def test_row_for_an_unknown_state_is_refused() -> None:
    with pytest.raises(AssertionError, match="Light: a row for a state that it does not have"):
        table_of(*in_states(Light, Pressed), Row(Weather.RAIN, Pressed))


@pytest.mark.parametrize("rest", [(Row(Light.RED, Elapsed),), (GREEN_IGNORES,)])
def test_event_that_one_row_or_decision_names_must_be_decided_for_all_states(rest: tuple[Row | Ignored, ...]) -> None:
    rows = tuple(each for each in rest if isinstance(each, Row))
    ignored = tuple(each for each in rest if isinstance(each, Ignored))
    with pytest.raises(AssertionError, match="Light: undecided: "):
        table_of(*rows, ignored=ignored)


def test_ignoring_in_an_unknown_state_is_refused() -> None:
    with pytest.raises(AssertionError, match="Light: a row for a state that it does not have"):
        table_of(*in_states(Light, Pressed), ignored=(Ignored(Pressed, (Weather.RAIN,), ""),))
