"""How long the way of one submission is, counted on real nodes: steps, writes, modules, and copies of the request.

One `ptx_sendTransaction` over HTTP, of a private transaction with an idempotency key, for a contract that another node
coordinates. The count begins with the request and ends when the dispatcher has the answer. A profile function sees all
calls and returns in the event loop's thread. The request has a word in its data that nothing else has:

- A *representation* is a class of Rota's with an instance whose fields have this word, besides the body itself: a form
  of the request, or an event, effect or record around one. The context of a step, which collects effects, is none.
- A *module* is on the way if one of its functions gets or returns the body or a representation, alone or in a builtin
  container. Modules of the domain are not counted.

The nodes have timers and messages of their own, so each count is the least of several requests. The lists may only get
shorter; docs/architecture.md has the modules too.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

import rota
from rota.model.config import Config
from rota.rpc.errors import Rejected
from rota.sequencer.context import Context
from rota.server.process import NodeProcess
from rota.store.group_commit import DatabaseStore
from tests.ledger.chains import in_loop
from tests.service.kit import Network, network

ROOT: Final = str(Path(rota.__file__).parent)
PAGE: Final = Path(__file__).parents[2] / "docs" / "architecture.md"
REQUESTS_MIN: Final = 8
REQUESTS_MAX: Final = 40
ITEMS_MAX: Final = 64
STEPS: Final = 1
WRITES: Final = 1
MODULES: Final = (
    "engine.inbox",
    "engine.loop",
    "engine.outbox",
    "host",
    "machine.context",
    "model.types",
    "node.intake",
    "node.node",
    "rpc.methods",
    "rpc.structure",
    "sequencer.sender_base",
    "sequencer.sender_transaction",
    "sequencer.sent_intent",
    "sequencer.sequencer",
    "server.jsonrpc",
    "service.facade",
    "service.parties",
    "service.run",
    "service.submissions.formats",
    "service.submissions.intents",
    "service.submissions.methods",
    "service.submissions.reading",
    "store.group_commit",
    "store.records",
    "store.sqlite",
    "store.submissions",
    "store.write_queue",
    "wire.sizes",
)
REPRESENTATIONS: Final = (
    "host.Initialised",
    "host.UserCall",
    "machine.effects.IntentAccepted",
    "machine.effects.Persist",
    "machine.events.IntentSubmitted",
    "model.types.Intent",
    "node.events.ForContract",
    "ports.following.StoredSubmission",
    "sequencer.sent_intent.Restored",
    "service.submissions.formats.TransactionInput",
    "service.submissions.interface.Submission",
    "service.submissions.reading.Read",
    "store.database.Statement",
    "store.submissions._Written",
    "store.write_queue._Write",
)


class Way:
    """What a request with this word comes through, until it is answered."""

    def __init__(self, word: str, body: bytes, process: NodeProcess) -> None:
        self.modules: set[str] = set()
        self.representations: set[str] = set()
        # Frames, as a coroutine is called again each time that it goes on.
        self._writing: Final[set[FrameType]] = set()
        self.has_ended = False
        self._engine: Final = process.running.engine
        store = process.running.adapters.store
        assert isinstance(store, DatabaseStore)
        self._database: Final = store._database
        self._steps_before: int | None = None
        self._steps_after = 0
        self._marks: Final = (word, word.encode().hex())
        self._body: Final = body
        self._names: Final[dict[CodeType, str | None]] = {}

    def see(self, frame: FrameType, event: str, argument: object) -> None:
        """A profile function."""
        if self.has_ended or event not in ("call", "return"):
            return
        module = self._module_of(frame.f_code)
        if module is None:
            return
        code = frame.f_code
        if event == "call":
            if code.co_qualname == "SqliteDatabase.write" and frame.f_locals["self"] is self._database:
                self._writing.add(frame)
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            values = [frame.f_locals.get(name) for name in names]
        else:
            values = [argument]
        sys.setprofile(None)
        try:
            held = [self._holds(value) for value in values]
            if any(held) and self._steps_before is None:
                self._steps_before = self._engine.steps
            if any(held) and not module.startswith(("domains", "testing")):
                self.modules.add(module)
        finally:
            sys.setprofile(self.see)
        if event == "return" and code.co_qualname == "Dispatcher.answer" and hasattr(argument, "body"):
            self.has_ended = True
            self._steps_after = self._engine.steps

    @property
    def steps(self) -> int:
        """Steps of the core, from the body to the answer."""
        assert self.has_ended
        assert self._steps_before is not None
        return self._steps_after - self._steps_before

    @property
    def writes(self) -> int:
        """Database transactions that wrote."""
        return len(self._writing)

    def _module_of(self, code: CodeType) -> str | None:
        if code not in self._names:
            path = Path(code.co_filename)
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts) if path.is_relative_to(ROOT) else None
            self._names[code] = name.removesuffix(".__init__") if name is not None else None
        return self._names[code]

    def _holds(self, value: object) -> bool:
        if isinstance(value, bytes):
            return value == self._body
        if isinstance(value, dict):
            return self._holds(tuple(value.values()))
        if isinstance(value, list | tuple | set | frozenset) and type(value).__module__ == "builtins":
            held = [self._holds(each) for each in value] if len(value) <= ITEMS_MAX else []
            return any(held)
        kind = type(value)
        if not kind.__module__.startswith("rota.") or kind.__repr__ is object.__repr__:
            return False
        try:
            shown = repr(value)
        except AttributeError:
            return False  # It is being made, and has not all fields yet.
        is_held = kind is not Context and any(mark in shown for mark in self._marks)
        if is_held and not kind.__module__.startswith(("rota.domains", "rota.testing")):
            self.representations.add(f"{kind.__module__.removeprefix('rota.')}.{kind.__qualname__}")
        return is_held


async def followed(net: Network, contract: str, number: int) -> Way:
    """What one request comes through."""
    process = net.processes[net.names[0]]
    word = f"remarkable-{number:04d}"
    asked = {"type": "private", "from": "alice", "to": contract, "function": "mint", "idempotencyKey": f"key {number}"}
    params = [{**asked, "domain": "synthetic", "data": {"data": f"0x{word.encode().hex()}"}}]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ptx_sendTransaction", "params": params}).encode()

    def ask() -> dict[str, Any]:
        request = Request(process.entrance.http_url, body, {"content-type": "application/json"})
        with urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    way = Way(word, body, process)
    sys.setprofile(way.see)
    try:
        answer = await asyncio.to_thread(ask)
    finally:
        sys.setprofile(None)
    await net.final(net.names[0], bytes.fromhex(answer["result"].replace("-", "")))  # type: ignore[arg-type]
    return way


@pytest.mark.slow
@in_loop
async def test_submission_is_one_step_and_one_write_on_the_way_that_is_written_down(tmp_path: Path) -> None:
    async with network(tmp_path, "node1", "node2") as net:
        await net.start(*net.names)
        await net.connected()
        contract = await net.create(["alice@node2"], mode="static")
        ways: list[Way] = []
        for number in range(REQUESTS_MAX):
            ways.append(await followed(net, contract, number))
            # A busy machine lets something else happen during most requests.
            if number >= REQUESTS_MIN and any((way.steps, way.writes) == (STEPS, WRITES) for way in ways):
                break
    assert min(way.steps for way in ways) == STEPS
    assert min(way.writes for way in ways) == WRITES
    assert sorted(set.intersection(*(way.modules for way in ways))) == sorted(MODULES)
    assert sorted(set.intersection(*(way.representations for way in ways))) == sorted(REPRESENTATIONS)


def test_modules_on_the_way_of_a_submission_are_those_of_the_documentation() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("### A submission")[2].partition("\n## ")[0]
    _, _, section = section.partition("| modules |")
    written = {path.replace("/", ".") for path in re.findall(r"`([\w/]+)\.py`", section)}
    assert written == {"host.__init__" if module == "host" else module for module in MODULES}


@pytest.mark.slow
@in_loop
async def test_refusal_by_the_core_names_the_field(tmp_path: Path) -> None:
    async with network(tmp_path, "node1", config=Config(intent_bytes_max=8_192)) as net:
        await net.start(*net.names)
        contract = await net.create(["alice@node1"])
        with pytest.raises(Rejected, match="is too large: payload and parties take") as refused:
            await net.submit(net.names[0], contract, "mint", {"data": f"0x{bytes(net.config.intent_bytes_max).hex()}"})
        assert refused.value.field == "data"
