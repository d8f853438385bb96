"""Recorded examples of methods: each is a valid call, and what differs from run to run is replaced the same way."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from rota.cli import method_pages
from rota.cli.method_pages import NoExampleError, compact, render_methods
from rota.rpc.methods import decode_format
from rota.server.table import TABLE, document, example_of
from tests.server import examples
from tests.server.examples import Examples, differences
from tools.site.markdown import blocks_of

HOME = Path("/home/of/a/test")
PAID = "6f3c1c6e-1f0a-4b52-9d0e-0123456789ab"
COIN = "0x" + "5e" * 20
SINCE = "2027-03-04 05:06:07 UTC"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(examples, "FOLDER", tmp_path)
    return tmp_path


def normalised(params: tuple[object, ...], result: object) -> dict[str, object]:
    taken = Examples(HOME)
    taken.take("ptx_call", params, result)
    return taken.normalised("ptx_call")


# Recorded examples.


@pytest.mark.parametrize("name", TABLE)
def test_an_example_is_a_call_that_its_method_reads_and_an_answer_of_its_type(name: str) -> None:
    example = example_of(name)
    assert example is not None, "run `make examples`"
    TABLE[name].read(msgspec.json.encode(example.params))
    if example.result is not msgspec.UNSET:
        answer = msgspec.json.encode(example.result)
        msgspec.json.decode(answer, type=TABLE[name].result.type, dec_hook=decode_format)
    assert (example.result is msgspec.UNSET) is TABLE[name].is_silent


def test_no_example_has_a_folder_or_a_port_of_the_machine_that_recorded_it() -> None:
    for path in examples.FOLDER.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert not re.search("/tmp|/home|/root|pytest", text), path.name
        assert set(re.findall(r"127\.0\.0\.1:(\d+)", text)) <= {"31550"}, path.name


def test_every_page_has_the_request_and_the_response_as_json(tmp_path: Path) -> None:
    for name, text in render_methods().items():
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        blocks = [json.loads(block.text) for block in blocks_of(page) if block.language == "json"]
        method = TABLE.get(name.removeprefix("methods/").removesuffix(".md"))
        if method is not None:
            assert blocks[0]["method"] == method.name
            assert method.is_silent or "result" in blocks[1]


def test_the_document_has_every_example() -> None:
    for method in document()["methods"]:
        (pair,) = method["examples"]
        assert [each["name"] for each in pair["params"]] == [
            each["name"] for each in method["params"][: len(pair["params"])]
        ]


def test_a_method_without_an_example_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method_pages, "example_of", lambda _: None)
    with pytest.raises(NoExampleError, match=r"ptx_\w+ has no example; .* run `make examples`"):
        render_methods()


def test_json_that_fits_a_line_stands_in_one() -> None:
    assert compact({"a": [1, 2]}) == '{"a": [1, 2]}'
    long = {"a": "x" * 60, "b": ["y" * 40]}
    assert compact(long) == '{\n  "a": "' + "x" * 60 + '",\n  "b": ["' + "y" * 40 + '"]\n}'
    assert json.loads(compact(long)) == long


# Replacing what differs.


def test_equal_values_stay_equal_and_different_ones_different() -> None:
    other = PAID.replace("6f", "7f")
    assert normalised(
        (PAID, COIN), {"id": PAID, "next": other, "at": "2027-03-04T05:06:07.890Z", "text": f"since {SINCE}"}
    ) == {
        "params": ["00000001-0000-4000-8000-000000000001", "0x" + "01" * 20],
        "result": {
            "id": "00000001-0000-4000-8000-000000000001",
            "next": "00000002-0000-4000-8000-000000000002",
            "at": "2026-01-31T12:00:00.000Z",
            "text": "since 2026-01-31 12:00:00 UTC",
        },
    }


def test_answers_are_cut_and_requests_are_not() -> None:
    assert normalised(([1, 2, 3],), [1, 2, 3]) == {"params": [[1, 2, 3]], "result": [1, 2]}
    assert normalised((), "0x" + "ab" * 300)["result"] == "0x" + "ab" * 8


def test_folders_ports_and_certificates_are_replaced() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
    assert normalised((), {"file": f"{HOME}/node1/rota.db", "at": "127.0.0.1:41213", "pem": pem})["result"] == {
        "file": "/var/lib/rota/node1/rota.db",
        "at": "127.0.0.1:31550",
        "pem": "-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----",
    }


# Comparing.


@pytest.mark.parametrize(
    ("fresh", "fault"),
    [
        ({"params": ["mint"], "result": {"id": "1", "n": 2}}, None),
        ({"params": ["burn"], "result": {"id": "1", "n": 2}}, "params[0] is 'burn', and was 'mint'"),
        ({"params": ["mint"], "result": {"id": "1"}}, "result.n is there only before"),
        ({"params": ["mint"], "result": {"id": "1", "n": 2, "m": 3}}, "result.m is there only now"),
        ({"params": ["mint"], "result": {"id": "1", "n": "x"}}, "result.n is text, and was int"),
        ({"params": ["mint"], "result": {"id": "x", "n": 2}}, "result.id is text, and was decimal"),
        ({"params": ["mint"], "result": {"id": "1", "n": None}}, None),
        ({"params": ["mint"]}, "result is there only before"),
        ({"params": ["mint", 1], "result": {"id": "1", "n": 2}}, "params has 2 entries, and had 1"),
    ],
)
def test_another_request_or_another_shape_is_a_fault(fresh: dict[str, object], fault: str | None) -> None:
    recorded = {"params": ["mint"], "result": {"id": "9", "n": 1}}
    assert differences(recorded, fresh) == ([] if fault is None else [fault])


def test_the_names_of_counts_may_differ() -> None:
    counts = {"params": [], "result": {"sending": {}}}
    assert differences(counts, {"params": [], "result": {"sending": {"Assembling": 1}}}) == []
    assert differences(counts, {"params": [], "result": {"sending": {"Assembling": "one"}}}) != []


# Recording.


def test_only_missing_or_changed_examples_are_written(recorded: Path) -> None:
    (recorded / "ptx_gone.json").write_text("{}")
    first = Examples(HOME)
    first.take("ptx_call", (PAID,), {"value": 1})
    first.take_silent("ptx_ack", (PAID,))
    assert first.record() == ["ptx_call", "ptx_ack"]
    assert sorted(path.stem for path in recorded.iterdir()) == ["ptx_ack", "ptx_call"]
    again = Examples(HOME)
    again.take("ptx_call", (PAID.replace("6f", "7f"),), {"value": 2})
    again.take_silent("ptx_ack", (PAID,))
    assert again.record() == []
    changed = Examples(HOME)
    changed.take("ptx_call", (PAID,), {"values": [1]})
    assert changed.record() == ["ptx_call"]


@pytest.mark.usefixtures("recorded")
def test_a_method_that_was_not_called_or_recorded_is_a_fault() -> None:
    taken = Examples(HOME)
    taken.take("ptx_call", (), {"value": 1})
    faults = taken.faults()
    assert "ptx_call: has no example" in faults
    assert "ptx_ack: is not called" in faults


def test_the_first_answer_that_is_not_empty_is_the_example_unless_another_is_shown() -> None:
    taken = Examples(HOME)
    for result in ([], ["first"], ["second"]):
        taken.take("ptx_call", (), result)
    assert taken.calls["ptx_call"].result == ["first"]
    taken.show("ptx_call", (), ["shown"])
    taken.take("ptx_call", (), ["third"])
    assert taken.calls["ptx_call"].result == ["shown"]
