"""What a user asks for: accepted, refused, or looked up first; and nothing is remembered for longer than needed."""

from __future__ import annotations

import pytest

from rota.machine.effects import ReplyToUser
from rota.machine.events import IntentSubmitted
from rota.model.config import Config
from rota.model.types import IntentId, Outcome
from rota.node.effects import LookUpIntents
from rota.node.events import IntentsLookedUp
from rota.node.intake import OUTCOMES_KEPT_MAX, Intake
from tests.node.node_bench import A1, A2, B1, intent
from tests.sequencer.kit import A, intent_id

CONFIG = Config(intents_open_max=3)


def asked_for(name: str, *, key: str = "", depends_on: tuple[IntentId, ...] = ()) -> IntentSubmitted:
    return IntentSubmitted(f"user of {name}", intent(name, key=key, depends_on=depends_on))


def intake(config: Config = CONFIG) -> Intake:
    return Intake(A, config)


def nothing_known(
    asked: object,
    *,
    existing: IntentId | None = None,
    outcomes: tuple[tuple[IntentId, Outcome], ...] = (),
    unfinished: tuple[IntentId, ...] = (),
) -> IntentsLookedUp:
    """The store's answer; it knows of nothing unless told."""
    assert isinstance(asked, LookUpIntents)
    return IntentsLookedUp(asked.token, existing, outcomes, unfinished)


def accept(made: Intake, name: str, key: str = "") -> None:
    """An intent is accepted by its sequencer."""
    answer = made.take(asked_for(name, key=key))
    if isinstance(answer, LookUpIntents):
        assert isinstance(made.take_answer(nothing_known(answer)), IntentSubmitted)
    made.take_accepted(intent(name, key=key))


# At once.


def test_intent_without_key_or_dependencies_is_accepted_without_asking_the_store() -> None:
    assert intake().take(asked_for("A-1")) == asked_for("A-1")


def test_intent_of_another_nodes_party_is_refused() -> None:
    error = "a@B is not a party of A"
    assert intake().take(asked_for("B-1")) == ReplyToUser("user of B-1", B1, error, field="from")


# The store is asked.


def test_key_and_dependencies_are_looked_up_before_an_intent_is_accepted() -> None:
    made = intake()
    asked = made.take(asked_for("A-1", key="once", depends_on=(A2,)))
    assert asked == LookUpIntents(1, "once", (A2,))
    accepted = made.take_answer(nothing_known(asked, outcomes=((A2, Outcome.CONFIRMED),)))
    known = IntentSubmitted("user of A-1", intent("A-1", key="once", depends_on=(A2,)), ((A2, Outcome.CONFIRMED),))
    assert accepted == known


def test_key_that_the_store_knows_gets_the_existing_id() -> None:
    made = intake()
    asked = made.take(asked_for("A-1", key="once"))
    assert made.take_answer(nothing_known(asked, existing=A2)) == ReplyToUser("user of A-1", A2)


def test_dependency_that_is_under_way_is_waited_for() -> None:
    made = intake()
    asked = made.take(asked_for("A-1", depends_on=(A2,)))
    assert made.take_answer(nothing_known(asked, unfinished=(A2,))) == asked_for("A-1", depends_on=(A2,))


def test_dependency_that_nobody_knows_is_refused() -> None:
    made = intake()
    asked = made.take(asked_for("A-1", depends_on=(A2,)))
    error = f"{A2.hex()} is not an intent of A"
    assert made.take_answer(nothing_known(asked)) == ReplyToUser("user of A-1", A1, error, field="dependsOn")


def test_late_answer_changes_nothing() -> None:
    made = intake()
    asked = made.take(asked_for("A-1", key="once"))
    assert made.take_answer(nothing_known(asked)) is not None
    assert made.take_answer(nothing_known(asked)) is None


# What happens while the store answers.


def test_of_two_with_one_key_that_are_looked_up_together_one_is_accepted() -> None:
    made = intake()
    first = made.take(asked_for("A-1", key="once"))
    second = made.take(asked_for("A-2", key="once"))
    assert isinstance(made.take_answer(nothing_known(second)), IntentSubmitted)
    error = "an intent with this key is being accepted; try again"
    assert made.take_answer(nothing_known(first)) == ReplyToUser(
        "user of A-1", A2, error, is_temporary=True, field="idempotencyKey"
    )


def test_key_that_was_accepted_while_the_store_answered_gets_the_existing_id() -> None:
    made = intake()
    late = made.take(asked_for("A-1", key="once"))
    accept(made, "A-2", key="once")
    assert made.take_answer(nothing_known(late)) == ReplyToUser("user of A-1", A2)


def test_key_of_an_intent_that_was_refused_is_free_again() -> None:
    made = intake()
    late = made.take(asked_for("A-1", key="once"))
    other = made.take(asked_for("A-2", key="once"))
    made.take_answer(nothing_known(other))
    made.take_refused(intent("A-2", key="once"))
    assert isinstance(made.take_answer(nothing_known(late)), IntentSubmitted)


def test_intent_that_was_refused_frees_no_key_of_another() -> None:
    made = intake()
    late = made.take(asked_for("A-3", key="once"))
    accept(made, "A-1", key="once")
    made.take_refused(intent("A-2", key="once"))
    assert made.take_answer(nothing_known(late)) == ReplyToUser("user of A-3", A1)


def test_dependency_that_was_accepted_while_the_store_answered_is_known() -> None:
    made = intake()
    late = made.take(asked_for("A-2", depends_on=(A1,)))
    accept(made, "A-1")
    assert isinstance(made.take_answer(nothing_known(late)), IntentSubmitted)


def test_dependency_that_ended_while_the_store_answered_is_known_with_its_outcome() -> None:
    made = intake()
    accept(made, "A-1")
    late = made.take(asked_for("A-2", depends_on=(A1,)))
    made.note_outcome(A1, Outcome.REVERTED)
    accepted = made.take_answer(nothing_known(late, unfinished=(A1,)))
    assert isinstance(accepted, IntentSubmitted)
    assert accepted.known_outcomes == ((A1, Outcome.REVERTED),)


# Not more than there is room for.


@pytest.mark.parametrize("stage", ["asking", "accepting", "open"])
def test_intent_is_refused_while_too_many_are_under_way(stage: str) -> None:
    made = intake()
    for number in range(CONFIG.intents_open_max):
        name = f"A-{number}"
        answer = made.take(asked_for(name, key=name))
        if stage != "asking":
            made.take_answer(nothing_known(answer))
        if stage == "open":
            made.take_accepted(intent(name, key=name))
    refused = made.take(asked_for("A-9"))
    count = CONFIG.intents_open_max
    error = f"{count} intents are under way at A; try again later"
    assert refused == ReplyToUser("user of A-9", intent_id("A-9"), error, is_temporary=True)


def test_intent_that_ends_makes_room() -> None:
    made = intake()
    for name in ("A-1", "A-2", "A-3"):
        accept(made, name)
    made.note_outcome(A1, Outcome.CONFIRMED)
    assert isinstance(made.take(asked_for("A-4")), IntentSubmitted)


def test_intent_that_was_refused_makes_room() -> None:
    made = intake()
    for name in ("A-1", "A-2", "A-3"):
        made.take(asked_for(name))
    made.take_refused(intent("A-1"))
    assert isinstance(made.take(asked_for("A-4")), IntentSubmitted)


# What is remembered.


def test_keys_are_forgotten_when_the_store_knows_them() -> None:
    made = intake()
    accept(made, "A-1", key="once")
    asked = made.take(asked_for("A-2", key="once"))
    assert made.take_answer(nothing_known(asked, existing=A1)) == ReplyToUser("user of A-2", A1)
    assert made.remembered_keys == 0


def test_latest_outcomes_are_kept_and_the_others_are_in_the_store() -> None:
    made = intake()
    for number in range(OUTCOMES_KEPT_MAX + 5):
        made.note_outcome(intent_id(f"A-{number}"), Outcome.CONFIRMED)
    assert len(made.outcomes) == OUTCOMES_KEPT_MAX
    assert intent_id("A-4") not in made.outcomes
    assert intent_id("A-5") in made.outcomes


def test_what_a_look_up_may_not_have_seen_is_kept_until_it_is_answered() -> None:
    made = intake()
    late = made.take(asked_for("A-x", depends_on=(intent_id("A-0"),)))
    for number in range(OUTCOMES_KEPT_MAX + 5):
        made.note_outcome(intent_id(f"A-{number}"), Outcome.CONFIRMED)
    assert isinstance(made.take_answer(nothing_known(late)), IntentSubmitted)
    made.note_outcome(intent_id("A-y"), Outcome.CONFIRMED)
    assert len(made.outcomes) == OUTCOMES_KEPT_MAX


def test_memory_is_bounded_though_some_look_up_is_always_under_way() -> None:
    made = intake(Config())
    asked = made.take(asked_for("A-first", key="first"))
    for number in range(OUTCOMES_KEPT_MAX + 500):
        name = f"A-{number}"
        following = made.take(asked_for(name, key=name))
        assert isinstance(made.take_answer(nothing_known(asked)), IntentSubmitted)
        previous = "first" if number == 0 else f"A-{number - 1}"
        made.take_accepted(intent("A-first" if number == 0 else previous, key=previous))
        made.note_outcome(intent_id(name), Outcome.CONFIRMED)
        asked = following
    assert made.remembered_keys <= 2
    assert len(made.outcomes) <= OUTCOMES_KEPT_MAX + 2
