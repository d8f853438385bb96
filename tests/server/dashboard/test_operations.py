"""Alerts and the Grafana dashboard against what a node really tells, and against the page that says what to do."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from rota.model.types import NodeName
from tests.server.kit import asynchronous
from tests.service.kit import network

ROOT: Final = Path(__file__).parents[3]
ALERTS: Final = (ROOT / "ops" / "prometheus" / "alerts.yaml").read_text()
BOARD: Final = json.loads((ROOT / "ops" / "grafana" / "rota.json").read_text())
PAGE: Final = (ROOT / "docs" / "alerts.md").read_text()
# Prometheus itself tells whether it reached a node.
OF_PROMETHEUS: Final = {"up", "instance", "job"}
WORDS: Final = {"sum", "min", "by", "on", "and", "rate", "increase", "time", "histogram_quantile", "min_over_time"}
ENDINGS: Final = ("_bucket", "_sum", "_count")


def alerts() -> dict[str, str]:
    """Each alert's expression."""
    return dict(re.findall(r"- alert: (\w+)\n +expr: (.+)\n", ALERTS))


def expressions() -> list[str]:
    """All that is asked of the figures."""
    drawn = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    return [*alerts().values(), *drawn]


def names_in(expression: str) -> set[str]:
    """Metrics and labels; what stands in quotes is a value, and a duration is none."""
    bare = re.sub(r'"[^"]*"|\[\w+\]', "", expression)
    return set(re.findall(r"[a-z_]+[a-z_0-9]*", bare)) - WORDS - OF_PROMETHEUS


@asynchronous
async def test_every_figure_in_alerts_and_dashboard_is_one_that_a_node_tells(tmp_path: Path) -> None:
    async with network(tmp_path, "node1", "node2") as nodes:
        await nodes.start(NodeName("node1"))
        url = nodes.processes[NodeName("node1")].entrance.operations_url
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(session.post(url, json={"id": 1, "method": "transport_nodeName"}) for _ in range(2)))
            async with session.get(f"{url}/metrics", headers={"Accept": "text/plain"}) as answer:
                families = list(text_string_to_metric_families(await answer.text()))
    told = {name for family in families for name in (family.name, *(sample.name for sample in family.samples))}
    told |= {f"{family.name}_total" for family in families if family.type == "counter"}
    labels = {label for family in families for sample in family.samples for label in sample.labels}
    # A node without triggers, refusals and transactions has no samples that would show these.
    labels |= {"trigger", "outcome", "reason", "state"}
    for expression in expressions():
        for name in names_in(expression):
            assert name in told | labels, f"{name} in {expression}"


def test_every_alert_has_its_place_on_the_page_that_says_what_to_do() -> None:
    named = alerts()
    assert len(named) == ALERTS.count("- alert:")
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == list(named)
    assert re.findall(r"runbook: docs/alerts.md#(\w+)", ALERTS) == [name.lower() for name in named]


def test_panels_do_not_overlap() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in BOARD["panels"]]
    assert len(set(places)) == len(places)
