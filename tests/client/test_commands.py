"""The client's strategies: every row of the error table, with both services, and crashes of the application."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from rota.client.commands import CommandError, Commands, Outcome, Patience, Verdict
from rota.client.errors import Refused, Unreachable
from rota.client.journal import Journal, JournalDamaged, JournalEntry, JournalTaken
from rota.client.jsonrpc import JsonRpc

QUICK = Patience(timeout_ms=50, attempts_max=6, pause_ms=1, pause_max_ms=1)
TRANSACTION = {"type": "private", "to": "0x" + "11" * 20, "function": "mint"}

Answer = Callable[[tuple[Any, ...]], Any]


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        asyncio.run(test(*args, **kwargs))

    return run


class ScriptedNode(JsonRpc):
    """A node that says what it is told to say to submissions, in order, and shows these completions."""

    def __init__(self, *answers: Any) -> None:  # noqa: ANN401
        super().__init__("http://nowhere.invalid")
        self.answers = list(answers)
        self.submitted: list[dict[str, Any]] = []
        self.completions: list[dict[str, Any]] = []
        self.end = 7
        self.reads: list[int] = []
        self.is_away = False
        self.waits: list[int] = []

    async def ask(self, method: str, *parameters: Any, is_repeatable: bool = False) -> Any:  # noqa: ANN401
        if self.is_away:
            raise Unreachable("nobody answers")
        match method:
            case "cmd_completionEnd":
                return self.end
            case "cmd_completions":
                return self._completions(parameters[1])
            case _:
                self.submitted.append(parameters[0])
                if method == "cmd_submitAndWait":
                    self.waits.append(parameters[1])
                return self._answer(method, parameters[0]["submissionId"])

    def _completions(self, after: int) -> dict[str, Any]:
        self.reads.append(after)
        found = [each for each in self.completions if each["offset"] > after]
        return {"completions": found, "checkpoint": found[-1]["offset"] if found else after}

    def _answer(self, method: str, submission_id: str) -> object:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if method == "cmd_submitAndWait":
            if isinstance(answer, dict):
                raise Refused(-32_002, answer["message"], answer)
            return {"submissionId": submission_id, "completionOffset": 8}
        self.end += 1
        completion = {"offset": self.end, "submissionId": submission_id}
        if isinstance(answer, dict):
            completion["failure"] = answer
        self.completions.append(completion)
        return {"submissionId": submission_id}


def failure(code: str, error_id: str, **metadata: str) -> dict[str, Any]:
    return {"statusCode": code, "errorId": error_id, "message": error_id, "metadata": metadata}


def refusal(code: str, error_id: str, **metadata: str) -> Refused:
    return Refused(-32_002, error_id, failure(code, error_id, **metadata))


WELL = True
DUPLICATE = refusal(
    "ALREADY_EXISTS", "DUPLICATE_COMMAND", completion_offset="5", existing_submission_id="earlier", same="true"
)
DEADLINE = refusal("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")
IN_FLIGHT = refusal("ABORTED", "SUBMISSION_ALREADY_IN_FLIGHT", existing_submission_id="other")
BUSY = refusal("ABORTED", "PARTICIPANT_BACKPRESSURE")
GONE = failure("NOT_FOUND", "CONTRACT_NOT_ACTIVE")

streams = pytest.mark.parametrize("uses_stream", [False, True], ids=["waiting", "streaming"])


class Application:
    """One life of an application with its journal."""

    def __init__(self, folder: Path, node: ScriptedNode, **more: Any) -> None:  # noqa: ANN401
        self.journal = Journal(folder / "journal")
        settings: dict[str, Any] = {"patience": QUICK, "now_ms": lambda: 1_000, **more}
        self.commands = Commands(node, self.journal, application_id="shop", act_as=("alice",), **settings)

    async def pay(self, bound_ms: int | None = None) -> Verdict:
        if bound_ms is None:
            return await self.commands.exactly_once("pay carol", TRANSACTION)
        return await self.commands.exactly_once_within(bound_ms, "pay carol", TRANSACTION)

    def entry(self) -> JournalEntry:
        entry = self.journal.entry("pay carol")
        assert entry is not None
        return entry


async def paid(folder: Path, node: ScriptedNode, bound_ms: int | None = None, **more: Any) -> Verdict:  # noqa: ANN401
    application = Application(folder, node, **more)
    try:
        return await application.pay(bound_ms)
    finally:
        application.journal.close()


@streams
@pytest.mark.parametrize("bound_ms", [None, 60_000])
@in_loop
async def test_a_change_that_goes_well_is_submitted_once(
    tmp_path: Path, uses_stream: bool, bound_ms: int | None
) -> None:
    node = ScriptedNode(WELL)
    verdict = await paid(tmp_path, node, bound_ms, uses_stream=uses_stream)
    assert (verdict.outcome, verdict.completion_offset) == (Outcome.SUCCEEDED, 8)
    (sent,) = node.submitted
    assert sent["applicationId"] == "shop"
    assert sent["transaction"] == {**TRANSACTION, "payees": "known"}
    if bound_ms is None:
        assert (sent["deduplicationOffset"], "deduplicationDuration" in sent) == (7, False)
    else:
        assert (sent["deduplicationDuration"], "deduplicationOffset" in sent) == ("150.000s", False)
    # What has ended is remembered, and not done again.
    assert await paid(tmp_path, node, bound_ms, uses_stream=uses_stream) == verdict
    assert len(node.submitted) == 1


@streams
@in_loop
async def test_a_duplicate_is_a_success(tmp_path: Path, uses_stream: bool) -> None:
    verdict = await paid(tmp_path, ScriptedNode(DUPLICATE), uses_stream=uses_stream)
    assert (verdict.outcome, verdict.completion_offset, verdict.submission_id) == (Outcome.SUCCEEDED, 5, "earlier")
    assert verdict.error is None


@pytest.mark.parametrize("bound_ms", [None, 60_000])
@in_loop
async def test_command_id_that_the_journal_does_not_know_is_checked_against_all_that_the_node_knows(
    tmp_path: Path, bound_ms: int | None
) -> None:
    pruned = refusal(
        "FAILED_PRECONDITION", "PARTICIPANT_PRUNED_DATA_ACCESSED", earliest_offset="4", earliest_at_ms="500"
    )
    before = refusal("ALREADY_EXISTS", "DUPLICATE_COMMAND", completion_offset="5", accepted_at_ms="900", same="true")
    for number, script in enumerate(((before,), (pruned, WELL), (Unreachable("lost"), before))):
        node = ScriptedNode(*script)
        folder = tmp_path / str(number)
        folder.mkdir()
        application = Application(folder, node)
        order = ("pay carol", TRANSACTION)
        if bound_ms is None:
            verdict = await application.commands.exactly_once(*order, command_id="salary 5")
        else:
            verdict = await application.commands.exactly_once_within(bound_ms, *order, command_id="salary 5")
        assert verdict.outcome is Outcome.SUCCEEDED
        assert [sent["deduplicationOffset"] for sent in node.submitted] == [[0], [0, 4], [0, 0]][number]
        # After an attempt of our own the acceptance may be ours.
        assert verdict.done_before_ms == [900, None, None][number]
        # Of what was pruned nobody knows, and the verdict says since when it was not done.
        assert verdict.not_since_ms == [None, 500, None][number]
        again = await application.commands.exactly_once(*order, command_id="salary 5")
        assert (again.done_before_ms, again.not_since_ms) == (verdict.done_before_ms, verdict.not_since_ms)
        application.journal.close()


@in_loop
async def test_command_id_that_was_used_for_another_transaction_is_a_conflict(tmp_path: Path) -> None:
    conflict = refusal("ALREADY_EXISTS", "DUPLICATE_COMMAND", completion_offset="5", accepted_at_ms="900", same="false")
    application = Application(tmp_path, ScriptedNode(conflict))
    order = ("pay carol", TRANSACTION)
    verdict = await application.commands.exactly_once(*order, command_id="salary 5")
    assert (verdict.outcome, verdict.error and verdict.error.error_id) == (Outcome.FAILED, "COMMAND_ID_USED")
    # What the journal knows is compared too, before anything is sent.
    verdict = await application.commands.exactly_once("pay carol", {**TRANSACTION, "function": "burn"})
    assert (verdict.outcome, verdict.error and verdict.error.error_id) == (Outcome.FAILED, "COMMAND_ID_USED")
    application.journal.close()


@pytest.mark.parametrize("about", [{"same": "unknown"}, {}])
@in_loop
async def test_duplicate_that_the_node_cannot_compare_is_a_success_only_of_this_journals_attempt(
    tmp_path: Path, about: dict[str, str]
) -> None:
    answer = refusal("ALREADY_EXISTS", "DUPLICATE_COMMAND", completion_offset="5", existing_submission_id="x", **about)
    verdict = await paid(tmp_path, ScriptedNode(answer))
    assert (verdict.outcome, verdict.error and verdict.error.error_id) == (Outcome.UNKNOWN, "NOT_COMPARED")
    (tmp_path / "own").mkdir()
    application = Application(tmp_path / "own", ScriptedNode(answer))
    own = JournalEntry("pay carol", "id", TRANSACTION, 0, offset=3, attempts=1, open_attempts=("x",))
    application.journal.remember(own)
    verdict = await application.pay()
    application.journal.close()
    assert (verdict.outcome, verdict.completion_offset) == (Outcome.SUCCEEDED, 5)


@pytest.mark.parametrize("same", ["true", "false"])
@in_loop
async def test_duplicate_that_a_completion_reports_is_compared_by_another_submission(tmp_path: Path, same: str) -> None:
    """A node that crashed before it checked for duplicates reports one as a completion, and compares nothing."""
    answer = refusal("ALREADY_EXISTS", "DUPLICATE_COMMAND", completion_offset="5", same=same)
    node = ScriptedNode(failure("ALREADY_EXISTS", "DUPLICATE_COMMAND", completion_offset="5"), answer)
    verdict = await paid(tmp_path, node, uses_stream=True)
    if same == "true":
        assert (verdict.outcome, verdict.completion_offset) == (Outcome.SUCCEEDED, 5)
    else:
        assert (verdict.outcome, verdict.error and verdict.error.error_id) == (Outcome.FAILED, "COMMAND_ID_USED")


@pytest.mark.parametrize("returns", [True, False])
@in_loop
async def test_withdrawn_success_is_not_the_verdict_and_the_next_completion_is(tmp_path: Path, returns: bool) -> None:
    class LosingNode(ScriptedNode):
        """Its chain loses the block before the client has read the completion, and decides later."""

        def _completions(self, after: int) -> dict[str, Any]:
            if not self.reads:
                withdrawal = failure("FAILED_PRECONDITION", "FINALITY_BROKEN", definite_answer="false")
                self.completions.append(
                    {**self.completions[0], "offset": 9, "correctsOffset": 8, "failure": withdrawal}
                )
            elif len(self.reads) == 2:
                reverted = {} if returns else {"failure": failure("FAILED_PRECONDITION", "TRANSACTION_REVERTED")}
                self.completions.append({**self.completions[0], "offset": 10, **reverted})
            return super()._completions(after)

    verdict = await paid(tmp_path, LosingNode(WELL), uses_stream=True)
    if returns:
        assert (verdict.outcome, verdict.completion_offset) == (Outcome.SUCCEEDED, 10)
    else:
        assert verdict.outcome is Outcome.FAILED


@streams
@pytest.mark.parametrize("lost", [DEADLINE, Unreachable("no answer in time")])
@in_loop
async def test_a_lost_submission_is_sent_again_under_the_same_command_id(
    tmp_path: Path, uses_stream: bool, lost: Exception
) -> None:
    node = ScriptedNode(lost, lost, DUPLICATE)
    verdict = await paid(tmp_path, node, uses_stream=uses_stream)
    assert verdict.outcome is Outcome.SUCCEEDED
    assert len({sent["commandId"] for sent in node.submitted}) == 1
    assert len({sent["submissionId"] for sent in node.submitted}) == 3
    # The offset since which it must not have happened is that of the first submission.
    assert {sent["deduplicationOffset"] for sent in node.submitted} == {7}
    if not uses_stream and lost is DEADLINE:
        assert node.waits == [50, 100, 200]


@in_loop
async def test_while_another_is_in_flight_a_waiting_client_submits_again(tmp_path: Path) -> None:
    verdict = await paid(tmp_path, ScriptedNode(IN_FLIGHT, IN_FLIGHT, DUPLICATE))
    assert verdict.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("same", ["true", "false"])
@pytest.mark.parametrize("is_ours", [True, False])
@in_loop
async def test_success_of_another_submission_counts_only_when_it_was_the_same_transaction(
    tmp_path: Path, same: str, is_ours: bool
) -> None:
    """Another journal may use the same command id for another transaction, which is in flight now."""
    other = {"offset": 8, "submissionId": "other"}
    answer = refusal(
        "ALREADY_EXISTS", "DUPLICATE_COMMAND", completion_offset="8", existing_submission_id="other", same=same
    )
    node = ScriptedNode(IN_FLIGHT, answer)
    node.completions.append(other)
    application = Application(tmp_path, node, uses_stream=True)
    attempts = ("other",) if is_ours else ()
    application.journal.remember(
        JournalEntry("pay carol", "id", TRANSACTION, 0, offset=3, attempts=len(attempts), open_attempts=attempts)
    )
    verdict = await application.pay()
    application.journal.close()
    assert node.reads == [7]
    if is_ours or same == "true":
        assert (verdict.outcome, verdict.submission_id) == (Outcome.SUCCEEDED, "other")
        assert len(node.submitted) == (1 if is_ours else 2)
    else:
        assert (verdict.outcome, verdict.error and verdict.error.error_id) == (Outcome.FAILED, "COMMAND_ID_USED")


@in_loop
async def test_change_is_submitted_when_another_submission_in_flight_has_failed(tmp_path: Path) -> None:
    node = ScriptedNode(IN_FLIGHT, WELL)
    node.completions.append({"offset": 8, "submissionId": "other", "failure": GONE})
    verdict = await paid(tmp_path, node, uses_stream=True)
    assert verdict.outcome is Outcome.SUCCEEDED
    assert verdict.submission_id == node.submitted[1]["submissionId"]


@in_loop
async def test_another_submission_that_never_completes_is_not_waited_for_without_an_end(tmp_path: Path) -> None:
    node = ScriptedNode(IN_FLIGHT, WELL)
    assert (await paid(tmp_path, node, uses_stream=True)).outcome is Outcome.SUCCEEDED
    assert len(node.submitted) == 2


@streams
@in_loop
async def test_whatever_else_was_aborted_is_tried_again(tmp_path: Path, uses_stream: bool) -> None:
    node = ScriptedNode(BUSY, BUSY, WELL)
    assert (await paid(tmp_path, node, uses_stream=uses_stream)).outcome is Outcome.SUCCEEDED
    assert len(node.submitted) == 3


@streams
@in_loop
async def test_a_period_that_is_not_supported_ends_it_unless_a_weaker_one_is_accepted(
    tmp_path: Path, uses_stream: bool
) -> None:
    refused = refusal("FAILED_PRECONDITION", "INVALID_DEDUPLICATION_PERIOD", longest_duration="1.500s")
    verdict = await paid(tmp_path, ScriptedNode(refused), 60_000, uses_stream=uses_stream)
    assert (verdict.outcome, verdict.error and verdict.error.error_id) == (
        Outcome.FAILED,
        "INVALID_DEDUPLICATION_PERIOD",
    )
    folder = tmp_path / "weaker"
    folder.mkdir()
    node = ScriptedNode(refused, WELL)
    verdict = await paid(folder, node, 60_000, uses_stream=uses_stream, accept_weaker=True)
    assert verdict.outcome is Outcome.SUCCEEDED
    assert [sent["deduplicationDuration"] for sent in node.submitted] == ["150.000s", "1.500s"]


@streams
@in_loop
async def test_an_offset_that_is_not_supported_is_replaced_by_the_earliest_on_request(
    tmp_path: Path, uses_stream: bool
) -> None:
    refused = refusal("FAILED_PRECONDITION", "INVALID_DEDUPLICATION_PERIOD", earliest_offset="9")
    node = ScriptedNode(Unreachable("lost"), refused, WELL)
    assert (await paid(tmp_path, node, uses_stream=uses_stream, accept_weaker=True)).outcome is Outcome.SUCCEEDED
    assert [sent["deduplicationOffset"] for sent in node.submitted] == [7, 7, 9]


@streams
@in_loop
async def test_pruned_offset_is_replaced_by_the_last_pruned_one_while_nothing_can_have_happened(
    tmp_path: Path, uses_stream: bool
) -> None:
    pruned = refusal("FAILED_PRECONDITION", "PARTICIPANT_PRUNED_DATA_ACCESSED", earliest_offset="9")
    node = ScriptedNode(pruned, WELL)
    application = Application(tmp_path, node, uses_stream=uses_stream)
    application.journal.remember(JournalEntry("pay carol", "id", TRANSACTION, 0, offset=3))
    assert (await application.pay()).outcome is Outcome.SUCCEEDED
    assert [sent["deduplicationOffset"] for sent in node.submitted] == [3, 9]
    application.journal.close()


@streams
@pytest.mark.parametrize("accept_weaker", [False, True])
@in_loop
async def test_after_a_lost_submission_a_pruned_offset_is_moved_only_on_request(
    tmp_path: Path, uses_stream: bool, accept_weaker: bool
) -> None:
    pruned = refusal("FAILED_PRECONDITION", "PARTICIPANT_PRUNED_DATA_ACCESSED", earliest_offset="9")
    node = ScriptedNode(Unreachable("lost"), pruned, WELL)
    verdict = await paid(tmp_path, node, uses_stream=uses_stream, accept_weaker=accept_weaker)
    assert verdict.outcome is (Outcome.SUCCEEDED if accept_weaker else Outcome.UNKNOWN)


@streams
@in_loop
async def test_other_errors_end_in_a_failure_that_is_certain(tmp_path: Path, uses_stream: bool) -> None:
    verdict = await paid(tmp_path, ScriptedNode(GONE), uses_stream=uses_stream)
    assert (verdict.outcome, verdict.error and verdict.error.code) == (Outcome.FAILED, "NOT_FOUND")


@streams
@in_loop
async def test_other_errors_after_a_lost_submission_end_in_the_unknown(tmp_path: Path, uses_stream: bool) -> None:
    verdict = await paid(tmp_path, ScriptedNode(Unreachable("lost"), GONE), uses_stream=uses_stream)
    assert verdict.outcome is Outcome.UNKNOWN
    # It stays open: a later resumption may find out that it happened.
    application = Application(tmp_path, ScriptedNode(DUPLICATE), uses_stream=uses_stream)
    (verdict,) = await application.commands.resume()
    assert verdict.outcome is Outcome.SUCCEEDED
    application.journal.close()


@streams
@in_loop
async def test_the_application_says_what_is_worth_retrying(tmp_path: Path, uses_stream: bool) -> None:
    asked: list[CommandError] = []

    def is_worth_it(error: CommandError) -> bool:
        asked.append(error)
        return error.error_id == "CONTRACT_NOT_ACTIVE"

    node = ScriptedNode(GONE, GONE, failure("FAILED_PRECONDITION", "TRANSACTION_REVERTED"))
    verdict = await paid(tmp_path, node, uses_stream=uses_stream, worth_retrying=is_worth_it)
    assert (verdict.outcome, len(asked), len(node.submitted)) == (Outcome.FAILED, 3, 3)


@streams
@in_loop
async def test_a_limit_ends_in_the_unknown(tmp_path: Path, uses_stream: bool) -> None:
    node = ScriptedNode(*[Unreachable("no answer")] * QUICK.attempts_max)
    verdict = await paid(tmp_path, node, uses_stream=uses_stream)
    assert (verdict.outcome, len(node.submitted)) == (Outcome.UNKNOWN, QUICK.attempts_max)


@in_loop
async def test_a_node_that_is_never_reached_was_never_asked(tmp_path: Path) -> None:
    node = ScriptedNode()
    node.is_away = True
    verdict = await paid(tmp_path, node)
    assert verdict.outcome is Outcome.FAILED
    node = ScriptedNode(WELL)
    assert (await paid(tmp_path, node)).outcome is Outcome.SUCCEEDED


@streams
@in_loop
async def test_nothing_is_sent_when_the_bound_is_over(tmp_path: Path, uses_stream: bool) -> None:
    now_ms = iter(range(0, 100_000, 400))
    node = ScriptedNode(*[Unreachable("no answer")] * 9)
    verdict = await paid(tmp_path, node, 1_000, uses_stream=uses_stream, now_ms=lambda: next(now_ms))
    assert (verdict.outcome, verdict.error and verdict.error.error_id) == (Outcome.UNKNOWN, "BOUND_IS_OVER")
    assert len(node.submitted) == 2


@in_loop
async def test_bound_is_measured_by_a_clock_that_is_not_set_back(tmp_path: Path) -> None:
    calendar_ms, monotonic_ms = iter(range(100_000, 0, -400)), iter(range(0, 100_000, 400))
    node = ScriptedNode(*[Unreachable("no answer")] * 9)
    clocks: dict[str, Any] = {"now_ms": lambda: next(calendar_ms), "monotonic_ms": lambda: next(monotonic_ms)}
    verdict = await paid(tmp_path, node, 1_000, **clocks)
    assert (verdict.outcome, verdict.error and verdict.error.error_id) == (Outcome.UNKNOWN, "BOUND_IS_OVER")
    assert len(node.submitted) == 2
    # After a restart the calendar alone could tell, and it says less than nothing.
    verdict = await paid(tmp_path, ScriptedNode(WELL), 1_000, now_ms=lambda: 1)
    assert (verdict.outcome, verdict.error and verdict.error.error_id) == (Outcome.UNKNOWN, "BOUND_IS_OVER")


# Answers that are not definite.


@streams
@pytest.mark.parametrize("code", ["UNAVAILABLE", "UNKNOWN", "INTERNAL", "DEADLINE_EXCEEDED"])
@in_loop
async def test_an_attempt_whose_answer_is_not_definite_stays_open(tmp_path: Path, uses_stream: bool, code: str) -> None:
    node = ScriptedNode(*[refusal(code, "SOMETHING")] * QUICK.attempts_max)
    assert (await paid(tmp_path, node, uses_stream=uses_stream)).outcome is Outcome.UNKNOWN
    # What the node says to be definite is.
    folder = tmp_path / "definite"
    folder.mkdir()
    node = ScriptedNode(*[refusal("UNAVAILABLE", "SOMETHING", definite_answer="true")] * QUICK.attempts_max)
    assert (await paid(folder, node, uses_stream=uses_stream)).outcome is Outcome.FAILED
    folder = tmp_path / "not definite"
    folder.mkdir()
    node = ScriptedNode(refusal("NOT_FOUND", "SOMETHING", definite_answer="false"))
    assert (await paid(folder, node, uses_stream=uses_stream)).outcome is Outcome.UNKNOWN


# Several runs of one change.


class GatedNode(ScriptedNode):
    """Answers to submissions wait until they are let go, each in its turn."""

    def __init__(self, *answers: Any) -> None:  # noqa: ANN401
        super().__init__(*answers)
        self.gates = [asyncio.Event() for _ in answers]

    async def ask(self, method: str, *parameters: Any, is_repeatable: bool = False) -> Any:  # noqa: ANN401
        await asyncio.sleep(0)
        if method == "cmd_submitAndWait":
            place = len(self.submitted)
            self.submitted.append(parameters[0])
            await self.gates[place].wait()
            answer = self.answers[place]
            if isinstance(answer, Exception):
                raise answer
            return {"submissionId": parameters[0]["submissionId"], "completionOffset": 8}
        return await super().ask(method, *parameters, is_repeatable=is_repeatable)


@in_loop
async def test_two_runs_of_a_change_do_not_overwrite_each_others_attempts(tmp_path: Path) -> None:
    node = GatedNode(Unreachable("lost"), refusal("NOT_FOUND", "CONTRACT_NOT_ACTIVE"))
    application = Application(tmp_path, node, patience=Patience(attempts_max=1))
    first, second = asyncio.create_task(application.pay()), asyncio.create_task(application.pay())
    while len(node.submitted) < 2:
        await asyncio.sleep(0)
    assert len({sent["commandId"] for sent in node.submitted}) == 1
    assert len(application.entry().open_attempts) == 2
    node.gates[1].set()
    # The other attempt may still happen: nobody can say that the change failed.
    assert (await second).outcome is Outcome.UNKNOWN
    node.gates[0].set()
    assert (await first).outcome is Outcome.UNKNOWN
    assert len(application.entry().open_attempts) == 1
    application.journal.close()


@in_loop
async def test_the_run_that_succeeds_first_speaks_for_the_other(tmp_path: Path) -> None:
    node = GatedNode(refusal("NOT_FOUND", "CONTRACT_NOT_ACTIVE"), WELL)
    application = Application(tmp_path, node, patience=Patience(attempts_max=1))
    first, second = asyncio.create_task(application.pay()), asyncio.create_task(application.pay())
    while len(node.submitted) < 2:
        await asyncio.sleep(0)
    node.gates[1].set()
    assert (await second).outcome is Outcome.SUCCEEDED
    node.gates[0].set()
    assert (await first).outcome is Outcome.SUCCEEDED
    application.journal.close()


# Crashes of the application.


class Killed(BaseException):
    """The application is gone."""


class DyingNode(ScriptedNode):
    """The application that calls it dies at one of its calls."""

    crash_at = 0
    calls = 0

    async def ask(self, method: str, *parameters: Any, is_repeatable: bool = False) -> Any:  # noqa: ANN401
        self.calls += 1
        if self.calls == self.crash_at:
            raise Killed
        return await super().ask(method, *parameters, is_repeatable=is_repeatable)


@streams
@pytest.mark.parametrize("bound_ms", [None, 60_000])
@in_loop
async def test_an_application_that_crashes_at_any_call_does_its_change_under_one_id(
    tmp_path: Path, uses_stream: bool, bound_ms: int | None
) -> None:
    for crash_at in range(1, 5):
        folder = tmp_path / f"{crash_at}"
        folder.mkdir()
        node = DyingNode(WELL, DUPLICATE, DUPLICATE)
        node.crash_at = crash_at
        application = Application(folder, node, uses_stream=uses_stream)
        try:
            await application.pay(bound_ms)
        except Killed:
            application.journal.close()
            application = Application(folder, node, uses_stream=uses_stream)
            (verdict,) = await application.commands.resume()
            assert verdict.outcome is Outcome.SUCCEEDED
        application.journal.close()
        assert len({sent["commandId"] for sent in node.submitted}) == 1
        if bound_ms is None:
            assert len({sent["deduplicationOffset"] for sent in node.submitted}) == 1


def test_a_torn_line_is_passed_over_and_the_rest_is_there(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        for number in range(3):
            journal.remember(JournalEntry(f"change {number}", f"id {number}", TRANSACTION, 0))
        journal.remember(JournalEntry("change 1", "id 1", TRANSACTION, 0, offset=5))
    whole = path.read_bytes()
    torn = json.dumps({"change": "change 9"}).encode()
    path.write_bytes(whole + torn)
    with Journal(path) as journal:
        assert {entry.change: entry.offset for entry in journal.unended} == {
            "change 0": None,
            "change 2": None,
            "change 1": 5,
        }
    assert path.read_bytes().count(b"\n") == 3
    assert torn not in path.read_bytes()


class FullDisk:
    """`os.write` on a disk that has room for so many bytes, and perhaps cannot even cut a file off."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, can_cut: bool = True) -> None:
        self.room = room
        self.can_cut = can_cut
        self._write, self._cut = os.write, os.ftruncate
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "ftruncate", self.cut)

    def write(self, file: int, content: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(file, content[: self.room])
        self.room -= written
        return written

    def cut(self, file: int, length: int) -> None:
        if not self.can_cut:
            raise OSError(errno.EIO, "Input/output error")
        self._cut(file, length)


@pytest.mark.parametrize("room", [0, 1, 11, 60])
@pytest.mark.parametrize("can_cut", [True, False])
def test_a_journal_on_a_full_disk_can_be_opened_again_and_used_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, can_cut: bool
) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.remember(JournalEntry("first", "1", TRANSACTION, 0))
        disk = FullDisk(monkeypatch, room, can_cut)
        for _ in range(2):
            with pytest.raises(OSError, match=r"No space|Input/output"):
                journal.remember(JournalEntry("second", "2", TRANSACTION, 0))
        assert journal.entry("second") is None
    # Without room for a new file the old one is used on.
    disk.can_cut = True
    with Journal(path) as journal:
        assert [entry.change for entry in journal.unended] == ["first"]
        disk.room = 1_000_000
        journal.remember(JournalEntry("third", "3", TRANSACTION, 0))
    with Journal(path) as journal:
        assert [entry.change for entry in journal.unended] == ["first", "third"]


def test_a_line_behind_one_that_was_torn_in_the_middle_is_read(tmp_path: Path) -> None:
    """As earlier versions left it: a write failed in the middle, and the next one began there."""
    path = tmp_path / "journal"
    with Journal(path) as journal:
        for number in range(2):
            journal.remember(JournalEntry(f"change {number}", f"id {number}", {"note": '{"change":'}, 0))
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first[:40] + first + second[:13] + second[:70] + second)
    with Journal(path) as journal:
        assert [entry.command_id for entry in journal.unended] == ["id 0", "id 1"]
    path.write_bytes(first + b"something else\n" + second)
    with pytest.raises(JournalDamaged, match="line 2"):
        Journal(path)
    assert path.read_bytes() == first + b"something else\n" + second


def test_a_journal_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal"), pytest.raises(JournalTaken, match="another process"):
        Journal(tmp_path / "journal")


def test_what_has_ended_may_be_forgotten(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.remember(JournalEntry("done", "1", TRANSACTION, 0, outcome={"outcome": "succeeded"}))
        journal.remember(JournalEntry("open", "2", TRANSACTION, 0))
    with Journal(tmp_path / "journal", keep_ended=False) as journal:
        assert journal.entry("done") is None
        assert [entry.change for entry in journal.unended] == ["open"]
