"""The story of the demonstration as a person and as a script meet it, and the excerpt of it in docs/concepts.md."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from rota.cli.main import main
from rota.demo.language import COMMAND_PHRASES, EXPECTATION_PHRASES, Phrase, described
from rota.demo.scenario import Performance, Scenario, UnreadableScriptError, failover
from rota.demo.stage import Pace, Stage
from rota.sim.diagram import KILLED
from rota.sim.script import COMMANDS, EXPECTATIONS

CONCEPTS = Path(__file__).parents[1] / "docs" / "concepts.md"
SMALL = """\
# A small story.
network: nodes A B, leaders B
expect: A-1 confirmed
> submit A-1 at A
> until A-1 confirmed
"""


def run(*arguments: str, text: str | None = None) -> Result:
    """The command on something that is no terminal, 80 columns wide."""
    script = () if text is None else ("--script", "-")
    command = ("demo", "--story", *script, *arguments)
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, command, input=text, prog_name="rota")


@pytest.fixture(scope="module")
def performance() -> Performance:
    return Performance(Scenario.parse(failover()))


# What happens.


def test_every_intent_is_confirmed_exactly_once_and_no_invariant_is_violated(performance: Performance) -> None:
    assert performance.problems == []
    assert len(performance.confirmed) == len(performance.run.intents) == 6


def test_next_of_the_ranking_takes_over_and_keeps_the_turn(performance: Performance) -> None:
    (_, ranking), *_ = performance.rankings
    assert performance.coordinators == list(ranking[:2])
    assert [name for _, name in performance.killed] == [ranking[0]]


def test_coordinator_dies_with_one_intent_dispatched_and_two_in_its_hands(performance: Performance) -> None:
    ((killed_ms, _),) = performance.killed
    before = [one.text for one in performance.happenings if one.at_ms <= killed_ms]
    reported = [text for text in before if text.endswith("reports C-1 confirmed")]
    assert "coordinates C-1: Dispatched → Submitted" in before
    assert reported == []
    assert not any("→ Dispatched" in text for text in before if "D-1" in text or "A-2" in text)
    assert performance.failover_ms is not None


def test_story_of_the_diagram_goes_from_the_kill_to_the_next_dispatch(performance: Performance) -> None:
    first, *others = performance.story
    assert first.text == KILLED
    assert any(one.text.startswith("dispatches ") for one in others)
    assert not any(one.text.startswith("coordinates ") for one in others)


def test_every_scene_has_a_title_and_an_explanation(performance: Performance) -> None:
    assert all(scene.title and scene.explanation for scene, _ in performance.scenes)


# What is shown.


def test_plain_output_fits_80_columns_and_has_no_colour_codes() -> None:
    result = run("--once")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert result.stderr == ""


def test_output_tells_ranking_scenes_diagram_summary_and_what_is_next() -> None:
    output = run().stdout
    headings = ["Rota: ", "Whose turn is it?", "3. B is killed", "The fail-over, ", "Summary", "Try next"]
    places = [output.index(heading) for heading in headings]
    assert places == sorted(places)
    assert re.search(r"range 0:  1\. B   2\. C ", output)
    assert re.search(r"^◆ .* C  .*coordinator: Observing → Active$", output, re.MULTILINE)
    assert "6 submitted, 6 confirmed exactly once" in output


def test_steps_of_intents_are_shown_on_request() -> None:
    assert "Ready_For_Dispatch" not in run().stdout
    assert "Confirming_Dispatch → Ready_For_Dispatch" in run("--steps").stdout


def shown(performance: Performance, speed: float | None, width: int) -> tuple[str, float]:
    """What a terminal shows, and how long that takes."""
    slept: list[float] = []
    console = Console(file=StringIO(), force_terminal=True, width=width, highlight=False, color_system="standard")
    Stage(console, Pace(slept.append, speed), performance).show([("rota demo", "once more")])
    assert isinstance(console.file, StringIO)
    return console.file.getvalue(), sum(slept)


def test_terminal_gets_colours_at_a_pace_to_read(performance: Performance) -> None:
    output, seconds = shown(performance, None, 80)
    assert "\x1b[" in output
    assert 20 <= seconds <= 30


@pytest.mark.parametrize(("speed", "factor"), [(1.0, 1.0), (0.5, 2.0), (0.0, 0.0)])
def test_speed_scales_simulated_time(performance: Performance, speed: float, factor: float) -> None:
    _, seconds = shown(performance, speed, 80)
    simulated_s = performance.run.world.now_ms / 1000
    assert seconds <= simulated_s * factor
    assert seconds >= (simulated_s - 0.2) * factor


@pytest.mark.parametrize("width", [60, 80, 120])
def test_terminal_lines_fit_its_width(performance: Performance, width: int) -> None:
    output, _ = shown(performance, 0, width)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    assert max(len(line) for line in plain.splitlines()) <= width


def test_excerpt_in_the_documents_is_what_the_demonstration_prints() -> None:
    printed = run().stdout
    pattern = r"<!-- excerpt of `rota demo --story` -->\n```text\n(.*?)```"
    (excerpt,) = re.findall(pattern, CONCEPTS.read_text("utf-8"), re.DOTALL)
    assert excerpt in printed, "copy it anew from: .venv/bin/rota demo --story | cat"


# For scripts.


def test_json_is_one_object_and_nothing_else() -> None:
    result = run("--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert list(summary) == [
        "intents",
        "confirmed",
        "dispatches",
        "messages",
        "failover_ms",
        "violations",
        "coordinators",
    ]
    assert (summary["intents"], summary["confirmed"], summary["violations"]) == (6, 6, [])
    assert summary["coordinators"] == ["B", "C"]
    assert result.stdout.count("\n") == 1


def test_mermaid_goes_to_stdout_alone() -> None:
    result = run("--mermaid", "-")
    assert result.exit_code == 0
    assert result.stdout.startswith("sequenceDiagram\n    participant A\n")
    assert "Summary" not in result.stdout


def test_mermaid_goes_to_a_file_beside_the_show(tmp_path: Path) -> None:
    target = tmp_path / "failover.mmd"
    result = run("--mermaid", str(target))
    assert "Summary" in result.stdout
    assert target.read_text("utf-8") == run("--mermaid", "-").stdout


def test_two_runs_are_the_same() -> None:
    assert run("--steps").stdout == run("--steps").stdout


# Scripts of one's own.


def test_script_without_scenes_or_kill_is_shown_whole() -> None:
    result = run(text=SMALL)
    assert result.exit_code == 0
    assert "Rota: A small story." in result.stdout
    assert "Who spoke to whom" in result.stdout
    assert "fail-over" not in result.stdout


def test_script_whose_nodes_coordinate_for_themselves_has_no_ranking() -> None:
    output = run(text=SMALL.replace("leaders B", "mode sender")).stdout
    assert "each node coordinates its own intents" in output


def test_long_story_is_cut_in_the_terminal() -> None:
    many = "".join(f"> submit A-{number} at A\n> until A-{number} confirmed\n" for number in range(2, 9))
    assert "more; --mermaid FILE writes all of them." in run(text=SMALL + many).stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL.replace("> submit", "> sbmit"), "line 4: there is no such command: sbmit A-1 at A"),
        (SMALL.replace("A-1 confirmed\n> s", "A-1 confirmd\n> s"), "line 3: there is no such expectation"),
        (SMALL + "hello\n", "line 6: the head ends where the first command begins"),
        (SMALL.replace("leaders B", "frob 1"), "line 2: network: needs nodes, and knows no frob"),
        (SMALL.replace("leaders B", "threshold many"), "line 2: the network cannot be built"),
        (SMALL.replace("leaders B", "mode static"), "line 2: the network cannot be built: it lacks 'leaders'"),
        ("# Nothing.\n", "a script has a network, expectations and commands"),
    ],
)
def test_script_that_cannot_be_read_is_wrong_use_and_names_the_line(text: str, message: str) -> None:
    result = run("--json", text=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("> until A-1 B-9 confirmed", "line 6: until A-1 B-9 confirmed: "),
        ("> start A", "line 6: start A: A is running"),
        ("> crash Z", "line 6: crash Z: there is no node Z"),
        ("> explain A-7", "line 6: explain A-7: A-7 was not submitted"),
        ("> crash A\n> explain A-1", "line 7: explain A-1: the node of A-1 is down"),
        ("> submit B-1 at B as", "line 6: submit B-1 at B as: cannot be understood"),
        ("> submit a-name-that-is-too-long at B", "line 6: submit a-name-that-is-too-long at B: an intent's name has"),
        ("> submit B-1 at B", "B-1 was not confirmed"),
        ("> submit B-1 at B as revert\n> until B-1 reverted", "B-1 was reverted"),
    ],
)
def test_failure_exits_with_1_and_says_why(commands: str, message: str) -> None:
    result = run("--json", text=SMALL + commands + "\n")
    assert result.exit_code == 1
    assert message in result.stderr
    assert json.loads(result.stdout)["intents"] >= 1


def test_expectation_that_does_not_hold_is_a_failure() -> None:
    result = run(text=SMALL.replace("> submit", "expect: A was active\n> submit", 1))
    assert result.exit_code == 1
    assert "expected 'A was active', but A was never active" in result.stderr


def test_script_that_submits_nothing_is_a_failure() -> None:
    result = run(text="network: nodes A B\nexpect: 0 rounds dispatched\n> run 1 ms\n")
    assert (result.exit_code, result.stderr) == (1, "Error: no intent was submitted\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--speed", "-1"),
        ("--speed", "fast"),
        ("--no-such-option",),
        ("one-more-word",),
        ("--script", "no/such/file.txt"),
        ("--json", "--mermaid", "-"),
        ("--mermaid", "no/such/folder/file.mmd"),
    ],
)
def test_wrong_use_exits_with_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ledger", "chain"), "must be embedded, anvil, or the http or ws address of a chain, not 'chain'"),
        (("--key-file", "key"), "--key-file is for a chain at a URL, and not for --ledger embedded."),
        (("--nodes", "2"), "'--nodes': 2 is not in the range 3<=x<=9"),
        (("--seconds", "1"), "'--seconds': 1 is not in the range 3<=x<=600"),
        (("--rate", "0"), "'--rate': 0.0 is not in the range"),
        (("--serve", "--nodes", "4"), "--nodes is of the live demonstration"),
        (("--story", "--seed", "4"), "--seed is of the live demonstration"),
    ],
)
def test_wrong_use_of_the_live_demonstration_exits_with_2_before_anything_begins(
    arguments: tuple[str, ...], message: str
) -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, ("demo", *arguments), prog_name="rota")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_unreadable_network_is_found_before_anything_runs() -> None:
    with pytest.raises(UnreadableScriptError, match="line 2"):
        Performance(Scenario.parse(SMALL.replace("nodes A B", "nodes A A")))


def test_interrupt_is_one_line_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    result = run("--speed", "1")
    assert result.exit_code == 130
    assert result.stderr == "Interrupted: stopped by Ctrl-C.\n"


# The language.


def test_every_command_and_expectation_is_explained() -> None:
    assert described(COMMAND_PHRASES, COMMANDS) == [(each.usage, each.meaning) for each in COMMAND_PHRASES]
    assert described(EXPECTATION_PHRASES, EXPECTATIONS) == [(each.usage, each.meaning) for each in EXPECTATION_PHRASES]


def test_every_explained_phrase_is_one_of_the_language() -> None:
    for phrases, patterns in ((COMMAND_PHRASES, COMMANDS), (EXPECTATION_PHRASES, EXPECTATIONS)):
        for phrase in phrases:
            assert any(re.fullmatch(pattern, phrase.example) for pattern, _ in patterns), phrase.usage


def test_unexplained_command_is_listed_by_its_pattern() -> None:
    assert described([Phrase("a", "b", "a")], [("a", print), ("c+", print)]) == [("a", "b"), ("c+", "")]


def test_list_of_commands_fits_80_columns() -> None:
    result = run("--list-commands")
    assert result.exit_code == 0
    assert "crash B" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
