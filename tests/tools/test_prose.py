"""The prose ratchet: which phrases it finds and where, and that no count of this tree differs from the recorded one."""

from __future__ import annotations

import pytest

from tools import prose
from tools.prose import Found, count, phrases_in


def test_tree_is_as_plain_as_recorded() -> None:
    told = prose.RATCHET.check(prose.measure())
    assert not told, "\n".join(told)


@pytest.mark.parametrize(
    "phrase",
    [
        "It writes what is kept.",
        "What was asked for comes later.",
        "whoever asks",
        "Who waits is woken.",
        "the node is told of it",
        "it tells whether there is one",
        "a peer hears of it",
        "the page says so",
        "how to mend it",
        "the submissions of before",
        "somebody has to",
        "for Everybody",
        "a new life of the node",
        "made anew",
    ],
)
def test_phrase_of_the_list_is_found(phrase: str) -> None:
    assert count("docs/page.md", phrase) > 0


@pytest.mark.parametrize(
    "plain",
    [
        "Returns once the transaction is stored durably.",
        "Shows what the node holds, and its lifetime.",
        "A member who signs twice is removed.",
        "Recommended amendments.",
        "Use `what is kept` and `mend`.",
        "```python\nwhat is kept\n```",
    ],
)
def test_plain_text_and_code_are_left_alone(plain: str) -> None:
    assert count("docs/page.md", plain) == 0


def test_python_is_searched_in_docstrings_comments_and_texts_but_not_in_names() -> None:
    source = 'mend = life  # it is told\nraise Error(f"what is {mend}", \'no quote " nobody\')\n\n\n"""He\nhears."""\n'
    assert list(phrases_in("src/rota/one.py", source)) == [
        Found(1, "is told"),
        Found(2, "what is"),
        Found(2, "mend"),
        Found(2, "nobody"),
        Found(6, "hears"),
    ]


def test_phrase_across_the_end_of_a_line_is_found() -> None:
    assert count("src/rota/one.py", '"""The node is\n    told so."""\n') == 1
    assert count("docs/page.md", "The node is\n\ntold so.\n") == 1  # "told so" alone; paragraphs are apart


def test_test_module_is_searched_in_names_docstrings_and_comments() -> None:
    source = 'def test_node_is_told_of_it() -> None:\n    """Nobody."""\n    assert text == "it is told"  # mend\n'
    assert sorted(found.text for found in phrases_in("tests/test_one.py", source)) == ["Nobody", "is told", "mend"]


def test_every_phrase_has_a_remedy_that_show_finds(capsys: pytest.CaptureFixture[str]) -> None:
    prose.show(["docs/protocol.md"])
    for line in capsys.readouterr().out.splitlines():
        assert line.count(": ") >= 2
