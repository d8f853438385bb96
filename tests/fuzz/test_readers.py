"""Whatever strangers write, each reader of it answers or refuses; and each function that decodes has a reader."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rota
from tests.fuzz.readers import DECODERS, READERS, Own

SOURCE: Final = Path(rota.__file__).parent
# Demonstrations, tools, tests, and the chain for them: no node serves these.
ELSEWHERE: Final = {"sim", "testing", "demo", "bench", "cli", "doctor", "localnet", "client"}
ELSEWHERE_WITHIN: Final = {"embedded", "configuring"}
# By which calls anything is decoded. Records, envelopes and blocks of the database are typed (`store/encoding.py`).
DECODING: Final = {
    "abi_decode",
    "decode",
    "decode_frame",
    "decode_genesis",
    "json.loads",
    "msgspec.json.decode",
    "read_certificate",
    "read_json",
    "read_part",
    "rlp.decode",
    "told_in",
    "tomllib.loads",
    "unseal",
    "x509.load_der_x509_certificate",
    "x509.load_pem_x509_certificate",
}
CHANGES_AN_EXAMPLE: Final = 8
# No node is registered, one part of five is a greeting, one frame a draft, and the factory has a ledger of its own.
TAKE_ONE_KIND: Final = ("shown certificate", "hello", "opening", "deployment", "proposal of zeto")


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_reader_answers_or_refuses(name: str, seed: int) -> None:
    reader, random = READERS[name], Random(seed)
    corpus = reader.corpus()
    for _ in range(CHANGES_AN_EXAMPLE):
        content = reader.change(random, random.choice(corpus))
        with suppress(*reader.refusals):
            reader.read(content)


@pytest.mark.parametrize("name", READERS)
def test_reader_takes_unchanged_bytes(name: str) -> None:
    reader = READERS[name]
    corpus = reader.corpus()
    assert corpus
    for content in corpus[:4]:
        try:
            reader.read(content)
        except reader.refusals:
            assert name in TAKE_ONE_KIND


def decoders() -> Iterator[str]:
    """Every function that decodes anything, by its module."""
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        if parts[0] not in ELSEWHERE and not ELSEWHERE_WITHIN & {*parts} and not parts[-1].endswith("_pb2"):
            yield from (f"{'.'.join(parts)}:{'.'.join(path)}" for path in _decoding((), ast.parse(file.read_text())))


def _decoding(path: tuple[str, ...], node: ast.AST) -> Iterator[tuple[str, ...]]:
    for child in ast.iter_child_nodes(node):
        inner = path
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*path, child.name)
        if isinstance(child, ast.Call):
            called = ast.unparse(child.func)
            if called in DECODING or called.endswith(".FromString"):
                yield inner
        yield from _decoding(inner, child)


def test_each_function_that_decodes_is_in_the_table_and_no_other() -> None:
    assert set(decoders()) == set(DECODERS)


def test_no_entry_names_a_reader_that_is_not_there() -> None:
    named = {each for each in DECODERS.values() if not isinstance(each, Own)}
    assert named <= set(READERS)


# Two are methods of a connection, whose reader the entry names, and one is asked by the core.
BY_ITS_READER: Final = {
    "directory.proposals:Proposals.may_acquire",
    "service.groups.groups:message_view",
    "transport.certificates:_judged",
    "transport.link:Link._take",
    "transport.link:_timed",
    "wire.codec:_version_flaw",
}


@pytest.mark.parametrize("name", sorted({each for each in DECODERS.values() if not isinstance(each, Own)}))
def test_reader_reaches_the_functions_of_its_entries(name: str) -> None:
    wanted = {function for function, reader in DECODERS.items() if reader == name} - BY_ITS_READER
    reader, random, seen = READERS[name], Random(1), set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:  # noqa: ANN401
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            module = Path(frame.f_code.co_filename).relative_to(SOURCE).with_suffix("").parts
            seen.add(f"{'.'.join(module)}:{frame.f_code.co_qualname}")

    corpus = reader.corpus()
    sys.setprofile(note)
    try:
        for number in range(40):
            content = random.choice(corpus)
            with suppress(*reader.refusals):
                reader.read(content if number < 8 else reader.change(random, content))
    finally:
        sys.setprofile(None)
    assert wanted <= seen
