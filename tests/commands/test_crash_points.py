"""Commands in the simulator: a crash at every moment that the code has, and random networks of faults."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from rota.commands.desk import Desk, Entry
from rota.commands.events import Contradicted
from rota.model.types import Party
from rota.schema.commands import Command, DeduplicationDuration, DeduplicationOffset, Failure, Period
from rota.sim.commands import (
    EPOCH_MS,
    GOES_WELL,
    IS_REFUSED,
    REVERTS,
    CommandWorld,
    Faults,
    LostBlocks,
    Pruning,
    Submitted,
    flaws_of,
)

ALICE = Party("alice@node1")
ROUGH = Faults(
    write_fails=50,
    write_is_unknown=30,
    read_fails=50,
    is_not_taken=50,
    crash=15,
    write_is_slow=50,
    client_hangs_up=200,
    clock_steps_back_ms_max=5_000,
)
SEEDS = 300


def submitted(at_ms: int, command_id: str, number: int, period: Period | None = None, **more: object) -> Submitted:
    command = Command("shop", command_id, (ALICE,), f"submission {number}", period)
    return Submitted(EPOCH_MS + at_ms, command, **more)  # type: ignore[arg-type]


SCRIPT = (
    submitted(0, "pay 1", 1),
    submitted(1, "pay 2", 2, wants_outcome=True),
    submitted(3, "pay 1", 3),
    submitted(4, "pay 3", 4, transaction=REVERTS),
    submitted(5, "pay 4", 5, transaction=IS_REFUSED),
    submitted(600, "pay 1", 6, wants_outcome=True),
    submitted(601, "pay 2", 7, DeduplicationOffset(0)),
    submitted(602, "pay 3", 8, DeduplicationDuration(10_000_000)),
    submitted(1_700, "pay 1", 9),
    Pruning(EPOCH_MS + 3_500, but=1),
    submitted(3_600, "pay 2", 10),
    submitted(3_601, "pay 2", 11, DeduplicationOffset(1)),
)


def test_a_crash_at_every_moment_leaves_each_change_done_once(capsys: pytest.CaptureFixture[str]) -> None:
    calm = CommandWorld(SCRIPT)
    calm.run()
    assert flaws_of(calm) == []
    assert not calm.crashes
    assert len(calm.published) > 3
    assert calm.prunings == 1
    crashed = 0
    for seed in range(3):
        for moment in range(1, calm.moments + 1):
            world = CommandWorld(SCRIPT, seed, crash_at=moment)
            world.run()
            assert flaws_of(world) == [], f"crashed before moment {moment} with seed {seed}"
            crashed += world.crashes
    assert crashed >= calm.moments
    with capsys.disabled():
        print(f"\ncommands in the simulator: crashed at {crashed} moments, {calm.moments} of one run")


@pytest.mark.parametrize("returns", [True, False])
def test_success_whose_block_is_lost_is_withdrawn_and_its_change_happens_once(returns: bool) -> None:
    """While its outcome is open again, the same change is in flight: neither a duplicate nor free to happen twice."""
    script = (
        submitted(0, "pay 1", 1, wants_outcome=True),
        LostBlocks(EPOCH_MS + 500, returns),
        submitted(600, "pay 1", 2),
        submitted(1_200, "pay 1", 3, wants_outcome=True),
    )
    calm = CommandWorld(script)
    calm.run()
    assert flaws_of(calm) == []
    first, withdrawal, again, *more = calm.published.values()
    assert (first.failure, withdrawal.corrects) == (None, first.offset)
    assert withdrawal.failure is not None
    assert (withdrawal.failure.error_id, dict(withdrawal.failure.metadata)) == (
        "FINALITY_BROKEN",
        {"definite_answer": "false"},
    )
    assert (again.submission_id, again.failure is None) == (first.submission_id, returns)
    answers = [answer.error_id for _, answer in calm.answers if isinstance(answer, Failure)]
    assert answers == ["SUBMISSION_ALREADY_IN_FLIGHT", *(["DUPLICATE_COMMAND"] if returns else [])]
    assert [each.failure for each in more] == ([] if returns else [None])
    for seed in range(2):
        for moment in range(1, calm.moments + 1):
            world = CommandWorld(script, seed, crash_at=moment)
            world.run()
            assert flaws_of(world) == [], f"crashed before moment {moment} with seed {seed}"


def test_the_checkers_find_a_desk_that_frees_a_change_whose_block_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary: the change is submitted again while the first transaction may return, and happens twice."""

    correctly = Desk._correct

    def correct(self: Desk, contradicted: Contradicted) -> None:
        correctly(self, contradicted)
        if self._ended and self._ended[-1].reopens:
            self._ended[-1] = replace(self._ended[-1], reopens=False)
            del self.entries[contradicted.submission.change]

    monkeypatch.setattr(Desk, "_correct", correct)
    script = (submitted(0, "pay 1", 1), LostBlocks(EPOCH_MS + 500, returns=True), submitted(600, "pay 1", 2))
    world = CommandWorld(script)
    world.run()
    assert flaws_of(world) != []


def random_script(seed: int) -> list[Submitted | Pruning | LostBlocks]:
    random = Random(f"commands {seed}")
    script: list[Submitted | Pruning | LostBlocks] = [
        Pruning(EPOCH_MS + random.randrange(5_000), random.randrange(4)) for _ in range(random.randrange(4))
    ]
    for number in range(random.randrange(5, 40)):
        period = random.choice(
            (None, DeduplicationDuration(random.randrange(3_000) * 1_000), DeduplicationOffset(random.randrange(5)))
        )
        script.append(
            submitted(
                random.randrange(4_000),
                f"pay {random.randrange(5)}",
                number,
                period,
                transaction=random.choice((GOES_WELL, GOES_WELL, REVERTS, IS_REFUSED)),
                wants_outcome=random.random() < 0.5,
            )
        )
    for _ in range(random.randrange(3)):
        script.append(LostBlocks(EPOCH_MS + random.randrange(5_000), random.random() < 0.5))
    return script


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_changes_happen_once_in_random_worlds_under_faults(first: int) -> None:
    crashes = completions = prunings = hung_up = 0
    for seed in range(first, first + 50):
        world = CommandWorld(random_script(seed), seed, ROUGH)
        world.run()
        assert flaws_of(world) == [], f"seed {seed}"
        crashes += world.crashes
        completions += len(world.published)
        prunings += world.prunings
        hung_up += world.hung_up
    assert crashes > 50
    assert hung_up > 50
    assert completions > 200
    assert prunings > 5


@pytest.mark.slow
def test_the_checkers_find_a_desk_that_answers_before_a_withdrawal_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary: its caller takes the answer for a failure, and after a crash the change happens."""
    withdraw = Desk._withdraw

    def withdraw_and_tell(self: Desk, entry: Entry, farewell: Failure) -> None:
        self._answer_caller(entry, farewell)
        withdraw(self, entry, farewell)

    monkeypatch.setattr(Desk, "_withdraw", withdraw_and_tell)
    flaws = []
    for seed in range(SEEDS):
        world = CommandWorld(random_script(seed), seed, ROUGH)
        world.run()
        flaws += flaws_of(world)
    assert any("was told UNAVAILABLE and has a completion" in flaw for flaw in flaws)


def test_the_checkers_find_a_desk_that_forgets_to_look_for_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary: without the look-up the same change happens twice, and that is found."""
    monkeypatch.setattr("rota.commands.desk.objection_to", lambda *_: None)
    world = CommandWorld(SCRIPT)
    world.run()
    assert any("was accepted although" in flaw for flaw in flaws_of(world))
