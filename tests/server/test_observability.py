"""What comes out of the logs, and how the spans of several nodes join."""

import asyncio
import hashlib
import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from uuid import UUID

import pytest
import structlog
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from structlog.testing import capture_logs

from rota.keys.secret import Secret
from rota.logs import catalogue
from rota.machine.effects import Effect, IntentAccepted, Persist, ReportReceipt
from rota.machine.events import CancelRequested, IntentSubmitted
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.types import NO_CONTRACT, Contract, ContractAddress, Intent, IntentId, NodeName, Outcome, Party, Receipt
from rota.node.node import Node
from rota.server import observability
from rota.server.configuration import LogFormat, LogLevel
from rota.server.observability import (
    CannotTrace,
    TransactionSpans,
    Watchers,
    configure_logging,
    log_readiness,
    root_of,
    tracing_to,
)
from rota.service.run import Watcher
from rota.service.watch.transaction_log import TransactionLog, transaction_log
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.world import World

NODES = (NodeName("node1"), NodeName("node2"), NodeName("node3"))
CONTRACT = Contract(ContractAddress("0x" + "11" * 20), NODES, NODES, 3)
INTENT = IntentId(bytes(range(16)))


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where logs go; afterwards logging is as it was."""
    root = logging.getLogger()
    handlers, level = tuple(root.handlers), root.level
    yield io.StringIO()
    structlog.reset_defaults()
    logging.getLogger("rota").setLevel(logging.NOTSET)
    for handler in tuple(root.handlers):
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


# Logs.


def test_json_line_has_time_level_code_text_and_fields(stream: io.StringIO) -> None:
    configure_logging(LogLevel.INFO, LogFormat.JSON, stream)
    catalogue.TRANSACTION_ID_USED.log(intent=INTENT, leaf=b"\x01" * 32)
    catalogue.TRANSACTION_SUBMITTED.log(contract=CONTRACT.address, intent=INTENT)
    (line,) = lines(stream)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "event": "transaction.id_used",
        "message": "Another transition used the id of a transaction",
        "level": "error",
        "logger": "rota.transaction",
        "intent": str(UUID(bytes=INTENT)),
        "leaf": "0x" + "01" * 32,
    }


def test_what_libraries_log_comes_out_in_the_same_form(stream: io.StringIO) -> None:
    configure_logging(LogLevel.WARNING, LogFormat.JSON, stream)
    logging.getLogger("aiohttp.server").warning("odd request from %s", "somewhere")
    logging.getLogger("aiohttp.server").info("not logged")
    (line,) = lines(stream)
    assert line["event"] == "odd request from somewhere"
    assert (line["logger"], line["level"]) == ("aiohttp.server", "warning")


def test_debug_is_for_transactions_and_not_for_libraries(stream: io.StringIO) -> None:
    configure_logging(LogLevel.DEBUG, LogFormat.JSON, stream)
    logging.getLogger("grpc").debug("loop loaded")
    logging.getLogger("grpc").info("started")
    catalogue.TRANSACTION_SUBMITTED.log(contract=CONTRACT.address, intent=INTENT)
    assert [(line["logger"], line["level"]) for line in lines(stream)] == [
        ("grpc", "info"),
        ("rota.transaction", "debug"),
    ]


def test_line_for_a_person_has_the_text_first_and_the_code_in_brackets(stream: io.StringIO) -> None:
    configure_logging(LogLevel.INFO, LogFormat.CONSOLE, stream)
    catalogue.STORE_WRITE_FAILED.log(reason="disk full")
    logging.getLogger("aiohttp.server").warning("odd request")
    ours, theirs = stream.getvalue().splitlines()
    assert re.search(r"\[warning *\] A write to the store failed; the node retries it \[store\.write_failed\]", ours)
    assert ours.endswith("reason='disk full'")
    assert re.search(r"\[warning *\] odd request +\[aiohttp\.server\]", theirs)


@pytest.mark.parametrize("level", list(LogLevel))
def test_transactions_are_watched_for_the_log_at_level_debug_alone(stream: io.StringIO, level: LogLevel) -> None:
    """So that their flow costs nothing at other levels: no watcher, no call, no text."""
    configure_logging(level, LogFormat.JSON, stream)
    assert (transaction_log(NODES[0]) is not None) == (level is LogLevel.DEBUG)


@pytest.mark.parametrize("form", list(LogFormat))
def test_secrets_do_not_come_out(stream: io.StringIO, form: LogFormat) -> None:
    configure_logging(LogLevel.DEBUG, form, stream)
    log = structlog.get_logger("rota")
    log.info("opening", password="hunter2", url="postgresql://rota:hunter2@localhost/rota", box=Secret("hunter2"))
    log.info("postgresql://rota:hunter2@localhost is away", headers={"Authorization": "Bearer hunter2"})
    log.info("sent Bearer hunter2 there", nested=[{"deep": {"mnemonic": "hunter2 hunter2"}}])
    log.info("state", content=b"hunter2", private_key=0xCAFE)
    logging.getLogger("library").error("cannot reach %s", "http://user:hunter2@host:1/x")
    try:
        hunter = "hunter2"
        raise ValueError(f"cannot reach postgresql://rota:{hunter}@localhost")
    except ValueError:
        log.exception("failed")
    text = stream.getvalue()
    assert "hunter2" not in text
    assert str(0xCAFE) not in text
    for told in ("postgresql://rota:[hidden]@localhost", "7 bytes", "Bearer [hidden]", "ValueError: cannot reach"):
        assert told in text


def test_a_number_under_a_secret_name_is_told(stream: io.StringIO) -> None:
    configure_logging(LogLevel.INFO, LogFormat.JSON, stream)
    structlog.get_logger().info("written", token=7)
    assert lines(stream)[0]["token"] == 7


async def readiness_logged(*looks: tuple[str, ...]) -> list[str]:
    """The events that a node logs whose readiness is this, look by look."""
    left, done = list(looks), asyncio.Event()

    def look() -> tuple[str, ...]:
        if len(left) == 1:
            done.set()
        return left.pop(0) if len(left) > 1 else left[0]

    with capture_logs() as logs:
        logging_ = asyncio.create_task(log_readiness(look))
        await done.wait()
        logging_.cancel()
    return [line["event"] for line in logs]


def test_node_that_becomes_ready_at_its_start_logs_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observability, "STARTING_LOOK_S", 0.0)
    assert asyncio.run(readiness_logged(("the store",), ("the ledger",), ())) == ["node.ready"]


def test_changes_of_readiness_are_logged_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observability, "READINESS_LOOK_S", 0.0)
    ledger = ("the ledger",)
    assert asyncio.run(readiness_logged(ledger, ledger, ledger, ("the store",), (), (), ledger)) == [
        "node.not_ready",
        "node.not_ready",
        "node.ready",
        "node.not_ready",
    ]


# Spans.


class Watched:
    """Nodes of the real core in the simulator, each with its spans."""

    def __init__(self, sample_percent: int = 100) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        tracer = provider.get_tracer("test")
        self.world = World(NODES, (CONTRACT,), Config())
        self.spans = {name: TransactionSpans(name, tracer, sample_percent) for name in NODES}
        for name in NODES:
            self.world.start(name)
            core = self.world.nodes[name].core
            assert core is not None
            watch(core, Watchers(self.spans[name], TransactionLog(name)))

    def submit(self, node: NodeName, name: str) -> IntentId:
        party = Party(f"alice@{node}")
        drawn = drawn_id(name, party, CONTRACT.address)
        intent = Intent(drawn, CONTRACT.address, party, b"mint", nonce=nonce_of(name))
        self.world.submit(node, CONTRACT.address, IntentSubmitted(name, intent))
        return intent.id

    def finish(self, *intents: IntentId) -> None:
        assert self.world.run_until(
            self.world.now_ms + 60_000, lambda: all(each in self.world.receipts for each in intents)
        )
        self.world.run_until(self.world.now_ms + 5_000)

    def ended(self, intent: IntentId) -> dict[str, ReadableSpan]:
        found = [span for span in self.exporter.get_finished_spans() if trace_id(span) == intent]
        by_node = {str((span.attributes or {})["rota.node"]): span for span in found}
        assert len(by_node) == len(found), "one span per transaction and node"
        return by_node


def watch(core: Node, spans: Watcher) -> None:
    """Show a watcher the events and effects of the core, as a running node does."""
    step = core.step

    def seen(now_ms: int, event: Event) -> list[Effect]:
        spans.saw_event(event)
        effects = step(now_ms, event)
        for effect in effects:
            spans.saw_effect(effect)
        return effects

    core.step = seen  # type: ignore[method-assign]  # it does what it did, and is looked at


def trace_id(span: ReadableSpan) -> bytes:
    assert span.context is not None
    number: int = span.context.trace_id
    return number.to_bytes(16, "big")


def events_of(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def test_the_spans_of_all_nodes_join_under_the_intent_id() -> None:
    watched = Watched()
    intents = [watched.submit(node, f"{node}-{number}") for node in NODES for number in range(3)]
    watched.finish(*intents)
    for intent in intents:
        spans = watched.ended(intent)
        assert set(spans) == set(NODES)
        for span in spans.values():
            assert span.parent is not None
            assert span.parent.span_id == root_of(intent).span_id
            assert (span.attributes or {})["rota.contract"] == CONTRACT.address
            assert (span.attributes or {})["rota.transaction"] == str(UUID(bytes=intent))
            assert "endorsed" in events_of(span)
            assert "confirmed" in events_of(span)
        told = {name for span in spans.values() for name in events_of(span)}
        assert told >= {
            "accepted",
            "delegated",
            "assembled",
            "endorsed",
            "permitted",
            "dispatched",
            "confirmed",
            "reported",
        }
    assert all(spans.open_count == 0 for spans in watched.spans.values())


def test_the_senders_span_tells_the_whole_way_in_order() -> None:
    watched = Watched()
    intent = watched.submit(NODES[0], "only")
    watched.finish(intent)
    (sender,) = (span for span in watched.ended(intent).values() if "accepted" in events_of(span))
    way = ["accepted", "delegated", "assembled", "permitted", "dispatched", "confirmed", "reported"]
    told = events_of(sender)
    assert [name for name in dict.fromkeys(told) if name in way] == way
    assert sender.status.status_code is StatusCode.UNSET
    assert (sender.events[-1].attributes or {})["rota.detail"] == "confirmed"


def test_flow_of_a_transaction_is_logged_in_order_with_contract_and_intent() -> None:
    watched = Watched()
    with capture_logs() as logs:
        intent = watched.submit(NODES[0], "only")
        watched.finish(intent)
    assert {line["intent"] for line in logs} == {intent}
    assert {line["log_level"] for line in logs} == {"debug"}
    flow = list(dict.fromkeys(line["event"] for line in logs))
    assert set(flow) == {
        "transaction.submitted",
        "transaction.delegated",
        "transaction.assembled",
        "transaction.endorsed",
        "transaction.permitted",
        "transaction.dispatched",
        "transaction.confirmed",
        "transaction.completed",
    }
    assert (flow[0], flow[-1]) == ("transaction.submitted", "transaction.completed")
    assert {line["contract"] for line in logs} == {CONTRACT.address}
    assert watched.ended(intent), "spans see the same"


def test_log_of_transactions_is_bounded_and_names_no_contract_of_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.service.watch.transaction_log.OPEN_MAX", 2)
    log = TransactionLog(NODES[0])
    intents = [IntentId(number.to_bytes(16, "big")) for number in range(1, 4)]
    with capture_logs() as logs:
        for intent in intents:
            log.saw_effect(accepted(intent))
        for intent in intents:
            log.saw_effect(reported(intent))
        log.saw_effect(Persist(NO_CONTRACT, accepted(INTENT).records))
    reports = [line["contract"] for line in logs if line["event"] == "transaction.completed"]
    assert reports == [None, CONTRACT.address, CONTRACT.address]
    assert logs[-1]["contract"] is None


def test_log_of_a_reverted_transaction_has_no_reason() -> None:
    """A reason may quote private contents."""
    log = TransactionLog(NODES[0])
    with capture_logs() as logs:
        log.saw_effect(ReportReceipt(Receipt(INTENT, Outcome.REVERTED, "alice has 7 coins")))
    assert [line["event"] for line in logs] == ["transaction.reverted"]
    assert "7 coins" not in str(logs)


def test_a_transaction_that_failed_ends_with_an_error_that_says_why() -> None:
    watched = Watched()
    for node in NODES[1:]:
        watched.world.crash(node)
    intent = watched.submit(NODES[0], "given-up")
    watched.world.run_until(watched.world.now_ms + 1_000)
    watched.world.submit(NODES[0], CONTRACT.address, CancelRequested("cancel", intent))
    for node in NODES[1:]:
        watched.world.start(node)
    watched.finish(intent)
    sender = watched.ended(intent)[NODES[0]]
    assert sender.status.status_code is StatusCode.ERROR
    assert sender.status.description is not None
    assert "cancel" in sender.status.description


def test_what_is_repeated_is_told_once() -> None:
    exporter, spans = one_node()
    for _ in range(5):
        spans.saw_effect(accepted(INTENT))
    spans.saw_effect(reported(INTENT))
    spans.saw_effect(reported(INTENT))
    spans.saw_effect(accepted(INTENT))
    spans.close()
    (span,) = exporter.get_finished_spans()
    assert events_of(span) == ["accepted", "reported"]


def test_open_spans_are_bounded_and_the_oldest_is_ended() -> None:
    exporter, spans = one_node(open_max=3)
    intents = [IntentId(number.to_bytes(16, "big")) for number in range(1, 6)]
    for intent in intents:
        spans.saw_effect(accepted(intent))
    assert spans.open_count == 3
    assert [trace_id(span) for span in exporter.get_finished_spans()] == intents[:2]
    spans.close()
    assert len(exporter.get_finished_spans()) == 5


def test_all_nodes_pick_the_same_share_of_transactions() -> None:
    intents = [IntentId(hashlib.sha256(b"%d" % number).digest()[:16]) for number in range(1_000)]
    picked = []
    for name in NODES:
        exporter, spans = one_node(name, sample_percent=30)
        for intent in intents:
            spans.saw_effect(accepted(intent))
        spans.close()
        picked.append({trace_id(span) for span in exporter.get_finished_spans()})
    assert picked[0] == picked[1] == picked[2]
    assert 200 < len(picked[0]) < 400


@pytest.mark.parametrize(("percent", "count"), [(0, 0), (100, 1)])
def test_none_and_all_are_shares_too(percent: int, count: int) -> None:
    exporter, spans = one_node(sample_percent=percent)
    spans.saw_effect(accepted(IntentId(b"\xff" * 16)))
    spans.close()
    assert len(exporter.get_finished_spans()) == count


def test_without_a_tracer_nothing_is_followed() -> None:
    spans = TransactionSpans(NODES[0], None)
    spans.saw_effect(accepted(INTENT))
    assert spans.open_count == 0


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(CannotTrace, match=r"telemetry.endpoint: needs the extra otel: `pip install 'rota\[otel\]'`"):
        tracing_to("http://localhost:4318", NODES[0])
    assert tracing_to(None, NODES[0]) is None


def test_spans_are_sent_to_the_collector() -> None:
    received: list[tuple[str, ExportTraceServiceRequest]] = []

    async def collect(request: web.Request) -> web.Response:
        received.append((request.path, ExportTraceServiceRequest.FromString(await request.read())))
        return web.Response()

    async def run() -> None:
        application = web.Application()
        application.router.add_post("/{path:.*}", collect)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        tracing = tracing_to(f"http://127.0.0.1:{runner.addresses[0][1]}", NODES[0])
        assert tracing is not None
        spans = TransactionSpans(NODES[0], tracing.tracer)
        spans.saw_effect(accepted(INTENT))
        spans.close()
        await asyncio.to_thread(tracing.stop)
        await runner.cleanup()

    asyncio.run(run())
    ((path, request),) = received
    (resource,) = request.resource_spans
    (span,) = resource.scope_spans[0].spans
    assert path == "/v1/traces"
    assert span.trace_id == INTENT
    assert span.name == "transaction at node1"
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (named["service.name"], named["service.instance.id"]) == ("rota", "node1")


def one_node(
    name: NodeName = NODES[0], sample_percent: int = 100, open_max: int = 100
) -> tuple[InMemorySpanExporter, TransactionSpans]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, TransactionSpans(name, provider.get_tracer("test"), sample_percent, open_max)


def accepted(intent: IntentId) -> Persist:
    return Persist(CONTRACT.address, (IntentAccepted(Intent(intent, CONTRACT.address, Party("a@node1"), b"")),))


def reported(intent: IntentId) -> ReportReceipt:
    return ReportReceipt(Receipt(intent, Outcome.CONFIRMED))
