"""Metrics for Prometheus: counters of the entrance itself, and measurements of the node at each scrape.

The registry is passed in: several nodes in one process, as in a test, do not share metrics. Labels have only values
that are known beforehand: a client cannot create series by inventing names of methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from rota.server.loop_watch import LoopWatch
from rota.server.trigger_metrics import trigger_metrics
from rota.service.interface import Measurements, Node, StateCount

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class EntranceMetrics:
    """The metrics of the entrance."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls: Final = Counter(
            "rota_rpc_calls", "JSON-RPC calls by method and outcome", ("method", "outcome"), registry=registry
        )
        self._seconds: Final = Histogram(
            "rota_rpc_call_seconds",
            "How long JSON-RPC calls took, from the request's decoding to its answer",
            ("method",),
            buckets=SECONDS,
            registry=registry,
        )
        self._refused: Final = Counter(
            "rota_rpc_refused",
            "Requests and connections that were refused before a call was read",
            ("reason",),
            registry=registry,
        )
        self._connections: Final = Gauge(
            "rota_rpc_connections", "Open connections by listener", ("listener",), registry=registry
        )

        self._hold_longest: Final = Gauge(
            "rota_loop_hold_longest_seconds",
            "The longest time for which the event loop was held in the last minute, in processor time",
            registry=registry,
        )
        self._holds: Final = CallbackCounter(
            "rota_loop_holds", "Times that the event loop was held for more than 50 ms of processor time"
        )
        registry.register(self._holds)

    def called(self, method: str, outcome: str, took_s: float) -> None:
        """Count a call that has ended."""
        self._calls.labels(method, outcome).inc()
        self._seconds.labels(method).observe(took_s)

    def refused(self, reason: str) -> None:
        """Count a request or a connection that was refused."""
        self._refused.labels(reason).inc()

    def watch_connections(self, listener: str, count: Callable[[], int]) -> None:
        """Call this for the number of open connections at each scrape."""
        self._connections.labels(listener).set_function(count)

    def watch_loop(self, watch: LoopWatch) -> None:
        """Export the measurements of this watch."""
        self._hold_longest.set_function(lambda: watch.longest_s)
        self._holds.count = lambda: watch.holds_total


class CallbackCounter(Collector):
    """A counter whose value is read at each scrape."""

    def __init__(self, name: str, text: str) -> None:
        self._name: Final = name
        self._text: Final = text
        self.count: Callable[[], int] = lambda: 0

    def collect(self) -> Iterator[Metric]:
        """Yield the current value."""
        yield CounterMetricFamily(self._name, self._text, value=self.count())


class Figure(NamedTuple):
    """One measurement of the node: its metric name, the field, and its description."""

    name: str
    field: str
    text: str


GAUGES: Final = (
    Figure("rota_index_height", "index_height", "The block that this node's own index has reached"),
    Figure("rota_ledger_height", "ledger_height", "The newest block that the ledger has reported"),
    Figure("rota_ledger_lost", "is_ledger_lost", "1 while the index has not reached the ledger for ledger_grace"),
    Figure("rota_contracts", "contracts", "Contracts of this node"),
    Figure(
        "rota_contracts_in_arrears", "contracts_in_arrears", "Contracts of which this node makes up for what it missed"
    ),
    Figure("rota_contracts_loaded", "contracts_loaded", "Contracts whose sequencers are in memory"),
    Figure("rota_coordinators_active", "coordinators_active", "Contracts that this node is the active coordinator of"),
    Figure("rota_intents_open", "intents_open", "Transactions of this node's users that are not final"),
    Figure("rota_rounds_unconfirmed", "rounds_unconfirmed", "Dispatched rounds without an outcome on the ledger"),
    Figure(
        "rota_deliveries_open", "deliveries_open", "Deliveries of private states in memory that are not acknowledged"
    ),
    Figure("rota_states_unconfirmed", "states_unconfirmed", "Transitions that peers sent and that no block has"),
    Figure(
        "rota_certificate_valid_until_seconds",
        "certificate_valid_until_s",
        "When the certificate that peers are shown ends, in seconds since 1970",
    ),
    Figure(
        "rota_receipts_undone",
        "receipts_undone",
        "Receipts that no longer hold, because the chain took back final blocks, and that nobody has acknowledged",
    ),
    Figure("rota_store_writes_open", "writes_open", "Writes that were ordered and are not durable yet"),
    Figure(
        "rota_public_set_aside",
        "public_set_aside",
        "Public transactions that wait for an operator because the database was wound back",
    ),
    Figure(
        "rota_consents_pending",
        "consents_pending",
        "Contracts that name this node as endorser or coordinator and wait for its operator",
    ),
    Figure("rota_accounts_short", "accounts_short", "Submitting accounts that cannot pay for their next round"),
    Figure("rota_commands_in_flight", "commands_in_flight", "Commands whose outcome is not known yet"),
    Figure("rota_completions_end", "completions_end", "The offset of the latest completion"),
)
COUNTERS: Final = (
    Figure("rota_intents_accepted", "intents_accepted_total", "Transactions accepted from users"),
    Figure("rota_receipts_confirmed", "receipts_confirmed_total", "Transactions that ended confirmed"),
    Figure("rota_receipts_reverted", "receipts_reverted_total", "Transactions that ended reverted"),
    Figure(
        "rota_intent_ids_used",
        "intent_ids_used_total",
        "Transactions that ended because another transition used their id on the chain",
    ),
    Figure("rota_finality_broken", "finality_broken_total", "Times that the chain took back blocks that were final"),
    Figure("rota_rounds_dispatched", "rounds_dispatched_total", "Rounds that became base-ledger transactions"),
    Figure("rota_submissions", "submissions_total", "Base-ledger transactions sent, repetitions included"),
    Figure("rota_store_writes_failed", "writes_failed_total", "Writes that failed"),
    Figure(
        "rota_automation_transactions", "automation_transactions_total", "Transactions of this node's triggers, mined"
    ),
    Figure("rota_ledger_transactions", "ledger_transactions_total", "All transactions in the blocks of that time"),
    Figure("rota_core_steps", "steps_total", "Events that the core has handled"),
    Figure("rota_commands_accepted", "commands_accepted_total", "Commands that happened"),
    Figure(
        "rota_commands_rejected", "commands_rejected_total", "Commands that did not happen, duplicates not among them"
    ),
    Figure("rota_commands_duplicate", "commands_duplicate_total", "Submissions refused as duplicates or as in flight"),
    Figure("rota_contracts_learned", "contracts_learned_total", "Contracts that this node has learned of from a peer"),
    Figure("rota_contracts_refused", "contracts_refused_total", "Contracts of peers that this node did not take in"),
    Figure("rota_geneses_asked", "geneses_asked_total", "How often a peer was asked what a contract is"),
    Figure("rota_geneses_given", "geneses_given_total", "How often a peer got the genesis of a contract"),
    Figure(
        "rota_states_refused",
        "states_refused_total",
        "Messages with private states that were not taken because their author's quota was used up",
    ),
    Figure(
        "rota_verifier_requests_dropped",
        "verifier_requests_dropped_total",
        "Requests of peers for verifiers beyond their allowance",
    ),
    Figure(
        "rota_messages_dropped",
        "messages_dropped_total",
        "Messages of peers that were dropped because too many of the same peer, or of all, waited for the core",
    ),
    Figure(
        "rota_code_over_budget",
        "code_over_budget_total",
        "Rounds, and transitions of rounds, that were not judged because private code was over a budget",
    ),
    Figure(
        "rota_code_processes_ended",
        "code_processes_ended_total",
        "Processes that run private code and ended in the middle of a request",
    ),
)
SENDING: Final = Figure("rota_sending", "sending", "Transactions of this node's users, by state")
COORDINATING: Final = Figure("rota_coordinating", "coordinating", "Transactions that this node coordinates, by state")
PEER_CONNECTED: Final = Figure("rota_peer_connected", "peers", "1 while the connection carries both ways")
PEER_QUEUED: Final = Figure("rota_peer_queued_messages", "peers", "Messages that wait to be sent to a peer")
PEER_DROPPED: Final = Figure("rota_peer_dropped_messages", "peers", "Messages dropped because a peer's queue was full")


class NodeCollector(Collector):
    """Collects the node's measurements at each scrape; unknown values are left out."""

    def __init__(self, node: Node, *, has_splice_names: bool = True) -> None:
        self._node: Final = node
        self._has_splice_names: Final = has_splice_names

    def collect(self) -> Iterator[Metric]:
        """Yield all current metrics."""
        return node_metrics(self._node.measurements(), not self._node.readiness(), self._has_splice_names)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Describe nothing: otherwise a registry would collect from a node that has not started."""
        return iter(())


def node_metrics(measured: Measurements, is_ready: bool, has_splice_names: bool) -> Iterator[Metric]:
    """Yield all metrics of a node's measurements."""
    yield GaugeMetricFamily("rota_ready", "1 when nothing that the node needs is missing", value=int(is_ready))
    for figure in GAUGES:
        value = getattr(measured, figure.field)
        if value is not None:
            yield GaugeMetricFamily(figure.name, figure.text, value=int(value))
    for figure in COUNTERS:
        value = getattr(measured, figure.field)
        if value is not None:
            yield CounterMetricFamily(figure.name, figure.text, value=value)
    yield _by_state(SENDING, measured.sending)
    yield _by_state(COORDINATING, measured.coordinating)
    yield from _by_peer(measured)
    yield from trigger_metrics(measured, has_splice_names)


def _by_state(figure: Figure, counts: tuple[StateCount, ...]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(figure.name, figure.text, labels=("state",))
    for each in counts:
        family.add_metric((each.state,), each.count)
    return family


def _by_peer(measured: Measurements) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    connected = GaugeMetricFamily(PEER_CONNECTED.name, PEER_CONNECTED.text, labels=("peer",))
    queued = GaugeMetricFamily(PEER_QUEUED.name, PEER_QUEUED.text, labels=("peer",))
    dropped = CounterMetricFamily(PEER_DROPPED.name, PEER_DROPPED.text, labels=("peer",))
    for peer in measured.peers:
        connected.add_metric((peer.node,), int(peer.is_connected))
        queued.add_metric((peer.node,), peer.queued_messages)
        dropped.add_metric((peer.node,), peer.dropped_messages_total)
    yield from (connected, queued, dropped)
