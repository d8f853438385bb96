"""Observability of a node: structured logs, and spans that follow one transaction over all nodes.

Logs. Lines of the node (`rota.logs.catalogue`) and of libraries go through one list of processors and have one form: a
line for a person, or a JSON object for a program. Libraries log from level info on. Secrets are not logged: a field
with a name like `password` is hidden, passwords are removed from addresses, bytes that are no id are replaced by their
number, and tracebacks have no local variables.

Spans. A transaction's trace id *is* its intent id, which is 16 bytes on every node: so the spans of all nodes join
without a header on the wire. Each node has one span per transaction, with an event per milestone (`milestones`). No
node emits their common root: its span id is derived from the intent id, the same everywhere. Which transactions are
traced follows from the intent id too, so that all nodes sample the same ones. Without an SDK there are no spans and no
cost.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final, TextIO
from uuid import UUID

import structlog
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags, Tracer
from structlog.typing import Processor

from rota import extras
from rota.logs import catalogue
from rota.machine.effects import Effect
from rota.machine.tables import Event
from rota.model.digests import INTENT_BYTES
from rota.model.types import ContractAddress, IntentId, NodeName, intent_text
from rota.server.configuration import LogFormat, LogLevel
from rota.service.run import Watcher
from rota.service.watch.milestones import Milestone, Milestones, Sighting

SPANS_OPEN_MAX: Final = 10_000
EVENTS_PER_SPAN_MAX: Final = 128
HIDDEN: Final = "[hidden]"
DEPTH_MAX: Final = 4
SCOPE: Final = "rota"
TRACES_PATH: Final = "/v1/traces"
# Between two checks of a node's readiness: at most one line is logged for each.
READINESS_LOOK_S: Final = 5.0
STARTING_LOOK_S: Final = 0.1

_SECRET_NAME: Final = re.compile(r"(?i)passw|passphrase|secret|token|mnemonic|words|private|authorization|credential")
_SECRET_IN_TEXT: Final = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):[^\s/]*@|\b(bearer|basic)\s+[\w.~+/=-]+")
_ID_NAMES: Final = ("intent", "transaction", "leaf", "digest", "hash", "contract", "fingerprint")
# Values that the processors pass to one another.
_OF_LOGGING: Final = ("exc_info", "stack_info", "_record", "_from_structlog")


# Logs.


def configure_logging(level: LogLevel, form: LogFormat, stream: TextIO | None = None) -> None:
    """Log all events of this process in this form, to `stream` or else standard error.

    It replaces the previous configuration.
    """
    # Both lists work on the original values; what they render is the text that a reader gets.
    before: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        show_ids_and_hide_secrets,
    ]
    rendering: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        hide_secrets_in_traceback,
        *_renderers(form, stream),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=rendering, foreign_pre_chain=before))
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    # Debug lines are the flow of transactions; those of libraries would bury it.
    root.setLevel((LogLevel.INFO if level is LogLevel.DEBUG else level).value.upper())
    logging.getLogger(SCOPE).setLevel(level.value.upper())


def show_ids_and_hide_secrets(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A processor: format ids for readers and hide secrets."""
    return {name: value if name in _OF_LOGGING else _shown(name, value, DEPTH_MAX) for name, value in event.items()}


def hide_secrets_in_traceback(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A processor: remove passwords in addresses from an exception's text."""
    if isinstance(event.get("exception"), str):
        event["exception"] = _without_secrets(event["exception"])
    return event


def _renderers(form: LogFormat, stream: TextIO | None) -> tuple[Processor, ...]:
    if form is LogFormat.JSON:
        return (structlog.processors.JSONRenderer(default=repr),)
    is_terminal = (stream or sys.stderr).isatty()
    # The default prints tracebacks with local variables, which may hold secrets.
    renderer = structlog.dev.ConsoleRenderer(colors=is_terminal, exception_formatter=structlog.dev.plain_traceback)
    return (_text_first, renderer)


def _text_first(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A processor for lines that people read: the text of an event first, its code in place of the logger's name."""
    if "message" in event:
        event["logger"], event["event"] = event["event"], event.pop("message")
    return event


def _shown(name: str, value: object, depth: int) -> object:
    is_plain = value is None or isinstance(value, bool | int | float)
    if _SECRET_NAME.search(name) and not (is_plain and "key" not in name):
        return HIDDEN
    match value:
        case str():
            return _without_secrets(value)
        case bytes():
            return _shown_bytes(name, value)
        case dict() if depth:
            return {str(key): _shown(str(key), inner, depth - 1) for key, inner in value.items()}
        case list() | tuple() if depth:
            return [_shown(name, inner, depth - 1) for inner in value]
        case _:
            return value


def _shown_bytes(name: str, value: bytes) -> str:
    if not name.lower().rstrip("s").endswith(_ID_NAMES):
        return f"{len(value)} bytes"
    return str(UUID(bytes=value)) if len(value) == INTENT_BYTES else f"0x{value.hex()}"


def _without_secrets(text: str) -> str:
    return _SECRET_IN_TEXT.sub(lambda found: f"{found[1]}:{HIDDEN}@" if found[1] else f"{found[2]} {HIDDEN}", text)


# Spans.


class CannotTrace(Exception):
    """Spans are configured but cannot be exported; the text names the fix."""


class Tracing:
    """An exporter of spans: a tracer, and its shutdown."""

    def __init__(self, tracer: Tracer, flush_and_stop: Callable[[], None]) -> None:
        self.tracer: Final = tracer
        self._flush_and_stop: Final = flush_and_stop

    def stop(self) -> None:
        """Send the remaining spans. It blocks for the collector, so call it in a thread."""
        self._flush_and_stop()


def tracing_to(endpoint: str | None, node: NodeName) -> Tracing | None:
    """Return an exporter of spans over OTLP (HTTP), or None without an address. `CannotTrace` without the SDK."""
    if endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise CannotTrace(f"telemetry.endpoint: needs the extra otel: `{extras.command('otel')}`") from error
    provider = TracerProvider(resource=Resource.create({"service.name": "rota", "service.instance.id": node}))
    address = endpoint if endpoint.endswith(TRACES_PATH) else endpoint.rstrip("/") + TRACES_PATH
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address)))
    return Tracing(provider.get_tracer(SCOPE), provider.shutdown)


class TransactionSpans:
    """One node's spans, one per transaction that it takes part in; sees events and effects as a `Watcher`.

    At most `open_max` are open: beyond that the least recently updated one is ended. As many ended ones are remembered,
    so that a late event does not start another span.
    """

    def __init__(
        self, node: NodeName, tracer: Tracer | None, sample_percent: int = 100, open_max: int = SPANS_OPEN_MAX
    ) -> None:
        self._node: Final = node
        self._tracer: Final = tracer
        self._sampled_below: Final = (sample_percent << 64) // 100
        self._open_max: Final = open_max
        self._open: Final[OrderedDict[IntentId, _OpenSpan]] = OrderedDict()
        self._ended: Final[OrderedDict[IntentId, None]] = OrderedDict()
        self._milestones: Final = Milestones(node)

    def saw_event(self, event: Event) -> None:
        """Record an event that the core received."""
        if self._tracer is not None:
            for sighting in self._milestones.of_event(event):
                self._note_all(self._tracer, sighting)

    def saw_effect(self, effect: Effect) -> None:
        """Record an effect that the core ordered."""
        if self._tracer is not None:
            for sighting in self._milestones.of_effect(effect):
                self._note_all(self._tracer, sighting)

    def close(self) -> None:
        """End all open spans: the node stops."""
        while self._open:
            self._end_oldest()

    @property
    def open_count(self) -> int:
        """How many are open."""
        return len(self._open)

    def _note_all(self, tracer: Tracer, sighting: Sighting) -> None:
        for intent in sighting.intents:
            if int.from_bytes(intent[-8:], "big") < self._sampled_below:
                self._note(tracer, intent, sighting)

    def _note(self, tracer: Tracer, intent: IntentId, sighting: Sighting) -> None:
        opened = self._open.get(intent)
        if opened is None:
            if intent in self._ended or sighting.milestone is Milestone.REPORTED:
                return
            opened = self._open[intent] = _OpenSpan(self._begin(tracer, intent, sighting.contract))
        self._open.move_to_end(intent)
        opened.add(sighting)
        if sighting.milestone is Milestone.REPORTED or (
            sighting.milestone is Milestone.CONFIRMED and not opened.is_sender
        ):
            self._end(intent, sighting)
        elif len(self._open) > self._open_max:
            self._end_oldest()

    def _begin(self, tracer: Tracer, intent: IntentId, contract: ContractAddress) -> Span:
        parent = trace.set_span_in_context(NonRecordingSpan(root_of(intent)))
        attributes = {"rota.node": self._node, "rota.contract": contract, "rota.transaction": intent_text(intent)}
        return tracer.start_span(f"transaction at {self._node}", context=parent, attributes=attributes)

    def _end(self, intent: IntentId, sighting: Sighting) -> None:
        """End the span: the sender's at its receipt, as a block may be taken back; the others' at the confirmation."""
        span = self._open.pop(intent).span
        if sighting.has_failed:
            span.set_status(Status(StatusCode.ERROR, sighting.detail))
        span.end()
        self._remember(intent)

    def _end_oldest(self) -> None:
        intent, opened = self._open.popitem(last=False)
        opened.span.end()
        self._remember(intent)

    def _remember(self, intent: IntentId) -> None:
        self._ended[intent] = None
        if len(self._ended) > self._open_max:
            self._ended.popitem(last=False)


class _OpenSpan:
    """A span, and the events that it has: one that is repeated on the wire is added once."""

    __slots__ = ("_told", "is_sender", "span")

    def __init__(self, span: Span) -> None:
        self.span = span
        self.is_sender = False
        self._told: dict[tuple[Milestone, NodeName | None, str], None] = {}

    def add(self, sighting: Sighting) -> None:
        self.is_sender = self.is_sender or sighting.milestone is Milestone.ACCEPTED
        key = (sighting.milestone, sighting.peer, sighting.detail)
        if key in self._told or len(self._told) >= EVENTS_PER_SPAN_MAX:
            return
        self._told[key] = None
        attributes = {"rota.peer": sighting.peer or "", "rota.detail": sighting.detail}
        self.span.add_event(sighting.milestone.value, {name: text for name, text in attributes.items() if text})


def root_of(intent: IntentId) -> SpanContext:
    """Return the common root of a transaction's spans, whose trace id is the intent id."""
    span_id = int.from_bytes(hashlib.sha256(intent).digest()[:8], "big") or 1
    return SpanContext(
        int.from_bytes(intent, "big"), span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


async def log_readiness(readiness: Callable[[], tuple[str, ...]]) -> None:
    """Log each change of the reasons for which a node is not ready, as in `/readyz`, until cancelled.

    A node that starts has one interval to become ready before the reasons are logged.
    """
    logged: tuple[str, ...] | None = None
    with suppress(TimeoutError):
        async with asyncio.timeout(READINESS_LOOK_S):
            while readiness():
                await asyncio.sleep(STARTING_LOOK_S)
    while True:
        missing = readiness()
        if missing and missing != logged:
            catalogue.NODE_NOT_READY.log(missing=list(missing))
        elif not missing and missing != logged:
            catalogue.NODE_READY.log()
        logged = missing
        await asyncio.sleep(READINESS_LOOK_S)


class Watchers:
    """Several watchers of a node as one."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers: Final = watchers

    def saw_event(self, event: Event) -> None:
        """Show an event of the core to each."""
        for watcher in self._watchers:
            watcher.saw_event(event)

    def saw_effect(self, effect: Effect) -> None:
        """Show an effect of the core to each."""
        for watcher in self._watchers:
            watcher.saw_effect(effect)
