"""A transition table refuses to be built with a gap, and a machine does what its first matching row says."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pytest

from rota.machine.tables import Event, Ignored, Machine, Row, Table, in_states


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


def enter(crossing: Crossing) -> None:
    crossing.log.append(f"entered in {crossing.state.value}")


def table_of(*rows: Row, ignored: tuple[Ignored, ...] = ()) -> Table:
    return Table("Light", Light.RED, (Pressed,), rows, ignored, {Light.GREEN: enter})


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


# What cannot be built.


def test_table_with_every_pair_decided_knows_its_states_in_order() -> None:
    assert table_of(*in_states(Light, Pressed)).states == (Light.RED, Light.GREEN)


def test_undecided_pair_is_refused_with_its_names() -> None:
    with pytest.raises(AssertionError, match=r"Light: undecided: \[\('GREEN', 'Pressed'\)\]"):
        table_of(Row(Light.RED, Pressed))


def test_pair_both_ruled_and_ignored_is_refused() -> None:
    with pytest.raises(AssertionError, match="Light: both ruled and ignored"):
        table_of(*in_states(Light, Pressed), ignored=(GREEN_IGNORES,))


@pytest.mark.parametrize("row", [Row(Light.RED, Elapsed), Row(Weather.RAIN, Pressed)])
def test_row_for_an_unknown_event_or_state_is_refused(row: Row) -> None:
    with pytest.raises(AssertionError, match="Light: a row for an event or state that it does not have"):
        table_of(*in_states(Light, Pressed), row)


@pytest.mark.parametrize("decision", [Ignored(Elapsed, (Light.RED,), ""), Ignored(Pressed, (Weather.RAIN,), "")])
def test_ignoring_an_unknown_event_or_state_is_refused(decision: Ignored) -> None:
    with pytest.raises(AssertionError, match="Light: a row for an event or state that it does not have"):
        table_of(*in_states(Light, Pressed), ignored=(decision,))
