"""The page of all figures for Prometheus, generated from the code.

A figure shows its labels only when it has a value, so a node is thought up in which everything is there once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from rota.model.types import NodeName
from rota.server.metrics import EntranceMetrics, node_metrics
from rota.service.interface import Measurements, PeerMeasurements, Spread, StateCount, TriggerView

HEAD: Final = """# All metrics

This file is generated from the code by `make docs`; change the code, not the file.

A node serves them at `/metrics` for Prometheus ([who may ask](api.md#operators)). Counters begin at 0 with each start
of the process. What a node does not know at the moment, as the ledger's height while the ledger is away, is not shown.
`automation.splice_metrics = false` leaves those out whose names begin with `splice_`.
[`rota.json`](../ops/grafana/rota.json) draws them in Grafana, [`alerts.yaml`](../ops/prometheus/alerts.yaml) watches
them, and [what to do when](alerts.md) an alert comes has a section for each.
"""
# The first of these with which a name begins has it; the last has all the others.
GROUPS: Final = {
    "rota_rpc_": "The entrance for users",
    "rota_peer_": "Other nodes",
    "rota_trigger_": "Automation",
    "rota_automation_": "Automation",
    "splice_": "Automation",
    "rota_commands_": "Commands",
    "rota_completions_": "Commands",
    "rota_": "The node",
}
ORDER: Final = ("The node", "Other nodes", "The entrance for users", "Commands", "Automation")
# A histogram is three series, one of which has the bound as a label besides.
BOUND: Final = "le"


def render_metrics() -> str:
    """All figures, in groups, each in the order of `/metrics`."""
    rows: dict[str, list[str]] = {group: [] for group in ORDER}
    for metric in _all_metrics():
        rows[next(group for prefix, group in GROUPS.items() if metric.name.startswith(prefix))].append(_row(metric))
    parts = [HEAD]
    for group, lines in rows.items():
        head = "| metric | kind | labels | what it is |\n|---|---|---|---|"
        parts.append(f"## {group}\n\n{head}\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = ", ".join(f"`{label}`" for label in _labels(metric))
    return f"| `{name}` | {metric.type} | {labels} | {metric.documentation} |"


def _labels(metric: Metric) -> Iterable[str]:
    assert metric.samples, f"{metric.name} has a value"
    return [label for label in metric.samples[0].labels if label != BOUND]


def _all_metrics() -> list[Metric]:
    registry = CollectorRegistry()
    entrance = EntranceMetrics(registry)
    entrance.called("ptx_sendTransaction", "success", 0)
    entrance.refused("busy")
    entrance.watch_connections("http", lambda: 0)
    return [*node_metrics(_measured(), True, True), *registry.collect()]


def _measured() -> Measurements:
    """Figures of a node that knows all of them."""
    once = StateCount("Pooled", 1)
    spread = Spread((1.0,), (0, 0), 0)
    trigger = TriggerView(
        name="advance-epochs",
        strategy="random",
        wanted_strategy="random",
        is_paused=False,
        is_member=True,
        members=1,
        waiting=0,
        at_work=0,
        won=0,
        lost=0,
        skipped=0,
        failed=0,
        breaker="closed",
        breaker_opened_total=0,
        expected_task_duration_ms=1,
        polling_interval_ms=1,
        parallel_tasks=1,
        slot_ms=1,
        durations=spread,
        waits=spread,
    )
    lists = {
        "sending": (once,),
        "coordinating": (once,),
        "peers": (PeerMeasurements(NodeName("node2"), True, 0, 0),),
        "triggers": (trigger,),
    }
    return Measurements(**{field.name: lists.get(field.name, 1) for field in fields(Measurements)})  # type: ignore[arg-type]
