"""Metrics of automation for Prometheus.

`rota_trigger_attempted_total` counts attempts of tasks by outcome; `contention` is true where another node was first.
It is exported as `splice_trigger_attempted_total` as well, its name in CIP 64. `rota_trigger_skipped_total` counts
tasks that were done before this node began them, which are no attempts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from rota.service.interface import Measurements, Spread, TriggerView

OUTCOMES: Final = ("won", "lost", "failed")
CONTENTION: Final = "lost"
ATTEMPTED: Final = "Tasks that were attempted, by how that ended"
SKIPPED: Final = "Tasks that were done before this node began them"
SPLICE: Final = "splice_trigger_attempted"


def trigger_metrics(measured: Measurements, has_splice_names: bool) -> Iterator[Metric]:
    """Yield all metrics of all triggers."""
    triggers = measured.triggers
    yield _attempted("rota_trigger_attempted", triggers)
    if has_splice_names:
        yield _attempted(SPLICE, triggers)
    skipped = CounterMetricFamily("rota_trigger_skipped", SKIPPED, labels=("trigger",))
    for trigger in triggers:
        skipped.add_metric((trigger.name,), trigger.skipped)
    yield skipped
    yield _gauge("rota_trigger_paused", "1 while a trigger is paused", {t.name: int(t.is_paused) for t in triggers})
    yield _gauge("rota_trigger_waiting", "Tasks that wait for their time", {t.name: t.waiting for t in triggers})
    yield _gauge("rota_trigger_at_work", "Attempts that are under way", {t.name: t.at_work for t in triggers})
    yield _gauge(
        "rota_trigger_set_aside",
        "Tasks that were refused too often and are left alone",
        {t.name: len(t.set_aside) for t in triggers},
    )
    yield _gauge(
        "rota_trigger_breaker_open",
        "1 while a trigger rests because it failed as such",
        {t.name: int(t.breaker != "closed") for t in triggers},
    )
    yield _spread(
        "rota_trigger_duration_seconds",
        "How long attempts took, from the order to the ledger's word",
        {t.name: t.durations for t in triggers},
    )
    yield _spread(
        "rota_trigger_wait_seconds",
        "How long attempts waited, from the time a task was ready and seen",
        {t.name: t.waits for t in triggers},
    )
    if measured.ledger_transactions_total and measured.automation_transactions_total is not None:
        yield GaugeMetricFamily(
            "rota_automation_ledger_share",
            "The part of the ledger's transactions since the start that were of this node's triggers",
            value=measured.automation_transactions_total / measured.ledger_transactions_total,
        )


def _attempted(name: str, triggers: tuple[TriggerView, ...]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, ATTEMPTED, labels=("trigger", "outcome", "contention"))
    for trigger in triggers:
        for outcome in OUTCOMES:
            contention = "true" if outcome == CONTENTION else "false"
            family.add_metric((trigger.name, outcome, contention), getattr(trigger, outcome))
    return family


def _gauge(name: str, text: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=("trigger",))
    for trigger, value in values.items():
        family.add_metric((trigger,), value)
    return family


def _spread(name: str, text: str, spreads: dict[str, Spread]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=("trigger",))
    for trigger, spread in spreads.items():
        below, buckets = 0, []
        for bound_s, count in zip((*map(str, spread.bounds_s), "+Inf"), spread.counts, strict=True):
            below += count
            buckets.append((bound_s, below))
        family.add_metric((trigger,), buckets, spread.sum_s)
    return family
