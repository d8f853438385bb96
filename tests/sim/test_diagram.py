"""Diagrams of small stories, whole; and what holds for any width."""

from textwrap import dedent

import pytest

from rota.sim.diagram import KILLED, STARTED, Row, columns, grouped, mermaid
from rota.sim.transcript import Happening

ABC = ("A", "B", "C")


# Grouping.


def test_same_message_to_several_at_once_is_one_row() -> None:
    told = [Happening(5, "B", "A", "Hello"), Happening(5, "B", "C", "Hello")]
    assert grouped(told) == [Row(5, ("B",), ("A", "C"), "Hello")]


def test_same_message_from_several_at_once_is_one_row() -> None:
    told = [Happening(5, "A", "B", "Signed"), Happening(5, "C", "B", "Signed")]
    assert grouped(told) == [Row(5, ("A", "C"), ("B",), "Signed")]


def test_copy_of_a_message_is_a_row_of_its_own() -> None:
    told = [Happening(5, "A", "B", "Signed"), Happening(5, "A", "B", "Signed")]
    assert grouped(told) == [Row(5, ("A",), ("B",), "Signed")] * 2


@pytest.mark.parametrize(
    "other", [Happening(6, "B", "C", "Hello"), Happening(5, "B", "C", "Bye"), Happening(5, "B", "C", "Hello  [lost]")]
)
def test_what_differs_in_time_words_or_fate_stays_apart(other: Happening) -> None:
    assert len(grouped([Happening(5, "B", "A", "Hello"), other])) == 2


def test_everybody_greeting_everybody_says_no_more_than_happened() -> None:
    told = [Happening(0, one, other, "Hello") for one in ABC for other in ABC if one != other]
    rows = grouped(told)
    said = sorted((source, target) for row in rows for source in row.sources for target in row.targets)
    assert said == sorted((happening.source, happening.target) for happening in told)


def test_steps_of_one_instant_are_one_row_and_those_of_another_subject_are_not() -> None:
    told = [
        Happening(5, "A", "", "A-1: Pending → Delegated"),
        Happening(5, "A", "", "A-2: Delegated → Assembling"),
        Happening(5, "A", "", "A-1: Delegated → Assembling"),
        Happening(5, "B", "", "A-1: Assembling → Final"),
        Happening(6, "A", "", "A-1: Assembling → Signing"),
    ]
    assert [(row.who, row.text) for row in grouped(told)] == [
        ("A", "A-1: Pending → Delegated → Assembling"),
        ("A", "A-2: Delegated → Assembling"),
        ("B", "A-1: Assembling → Final"),
        ("A", "A-1: Assembling → Signing"),
    ]


# For a terminal.


def test_columns_of_a_small_story() -> None:
    story = [
        Happening(2, "A", "C", "Delegation A-1"),
        Happening(52, "C", "", "coordinator: Idle → Active"),
        Happening(52, "C", "A", "Heartbeat"),
        Happening(52, "C", "B", "Heartbeat"),
        Happening(102, "A", "B", "Hello"),
        Happening(102, "C", "B", "Hello"),
        Happening(202, "", "", "block 1: A-1 committed"),
    ]
    assert columns(story, ABC, 60) == [
        "           A   B   C",
        "  0.002    ●───┼──►│  Delegation A-1",
        "  0.052    │   │   ■  C coordinator: Idle → Active",
        "           │◄──┼◄──●  Heartbeat",
        "  0.102    ●──►│◄──●  Hello",
        "  0.202    ┼┄┄┄┼┄┄┄┼  block 1: A-1 committed",
    ]


def test_lifeline_ends_with_a_kill_and_goes_on_with_a_start() -> None:
    story = [
        Happening(1, "B", "", KILLED),
        Happening(2, "A", "B", "Hello  [lost]"),
        Happening(2, "A", "C", "Bye"),
        Happening(3, "B", "", STARTED),
        Happening(4, "B", "C", "Hello"),
    ]
    assert columns(story, ABC, 60) == [
        "           A   B   C",
        "  0.001    │   †   │  B is killed",
        "  0.002    ●──✗    │  Hello",
        "           ●──────►│  Bye",
        "  0.003    │   ○   │  B is started",
        "  0.004    │   ●──►│  Hello",
    ]


def test_node_that_is_started_first_has_no_lifeline_before() -> None:
    assert columns([Happening(1, "A", "", "x"), Happening(2, "B", "", STARTED)], ("A", "B"), 60) == [
        "            A     B",
        "  0.001     ■         A x",
        "  0.002     │     ○   B is started",
    ]


def test_message_to_oneself_is_a_mark() -> None:
    assert columns([Happening(1, "A", "A", "Hello")], ("A", "B"), 60) == [
        "            A     B",
        "  0.001     ■     │   Hello",
    ]


def test_long_text_is_cut() -> None:
    assert columns([Happening(1, "A", "B", "x" * 100)], ("A", "B"), 40) == [
        "          A  B",
        "  0.001   ●─►│  xxxxxxxxxxxxxxxxxxxxxxx…",
    ]


def test_wider_terminal_moves_lifelines_apart() -> None:
    assert columns([Happening(1, "A", "B", "Hello")], ("A", "B"), 120) == [
        "               A           B",
        "  0.001        ●──────────►│      Hello",
    ]


def test_long_names_are_cut() -> None:
    assert columns([Happening(1, "organisation-1", "node2", "Hello")], ("organisation-1", "node2"), 60) == [
        "          organis…  node2",
        "  0.001      ●───────►│     Hello",
    ]


def test_too_many_nodes_for_the_width_are_told_in_words() -> None:
    nodes = [f"node{number}" for number in range(30)]
    story = [Happening(1, "node3", "node29", "Hello"), Happening(2, "node3", "node4", "Bye  [lost]")]
    assert columns(story, nodes, 80) == ["  0.001 node3 → node29 Hello", "  0.002 node3 → node4 Bye  [lost]"]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 12, 16, 40])
@pytest.mark.parametrize("width", [20, 40, 79, 80, 120, 200])
def test_no_line_is_wider_than_asked(count: int, width: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    story = [Happening(i, one, other, "Something " * 9) for i, one in enumerate(nodes) for other in (*nodes, "")]
    drawn = columns([*story, Happening(99, "", "", "block " * 30)], nodes, width)
    assert drawn
    assert max(len(line) for line in drawn) <= width


def test_strangers_are_left_out() -> None:
    story = [Happening(1, "A", "Z", "Hello"), Happening(1, "Z", "", "x")]
    assert len(columns(story, ABC, 60)) == 1
    assert mermaid(story, ("A",)) == "sequenceDiagram\n    participant A\n"


def test_nothing_gives_a_heading_and_nobody_gives_nothing() -> None:
    assert len(columns([], ABC, 60)) == 1
    assert columns([Happening(1, "A", "B", "Hello")], (), 60) == []
    assert mermaid([Happening(1, "", "", "block 1")], ()) == "sequenceDiagram\n"


# For Mermaid.


def test_mermaid_of_a_small_story() -> None:
    story = [
        Happening(2, "A", "B", "Delegation A-1"),
        Happening(52, "B", "", "coordinator: Idle → Active"),
        Happening(52, "B", "C", "Heartbeat  [lost]"),
        Happening(60, "C", "A", "Signed  [held]"),
        Happening(202, "", "", "block 1: A-1 committed"),
    ]
    assert mermaid(story, ABC) == dedent(
        """\
        sequenceDiagram
            participant A
            participant B
            participant C
            A->>B: Delegation A-1
            Note over B: coordinator: Idle → Active
            B-xC: Heartbeat
            C-->>A: Signed  [held]
            Note over A,C: block 1: A-1 committed
        """
    )


def test_mermaid_is_given_nothing_that_it_cannot_take() -> None:
    story = [
        Happening(1, "A", "", "a; b # c <d> 100 %"),
        Happening(2, "A", "", "in the end\nit ended"),
        Happening(3, "", "", ""),
    ]
    assert mermaid(story, ("A",)) == dedent(
        """\
        sequenceDiagram
            participant A
            Note over A: a#59; b #35; c #60;d#62; 100 #37;
            Note over A: in the #101;nd<br/>it ended
            Note over A:  
        """  # noqa: W291
    )


@pytest.mark.parametrize("name", ["end", "loop", "Note", "node-2", "2", "two words", "a:b"])
def test_mermaid_knows_nodes_by_number_where_a_name_is_not_one_for_it(name: str) -> None:
    shown = "#101;nd" if name == "end" else name
    assert mermaid([Happening(1, "node2", name, "Hello")], ("node2", name)) == (
        f"sequenceDiagram\n    participant node1 as node2\n    participant node2 as {shown}\n    node1->>node2: Hello\n"
    )
