"""Cores that are broken deliberately in the deployment of contracts; see `sim/breaking.py`."""

from __future__ import annotations

from dataclasses import replace

from rota.directory import deployment_base, proposals
from rota.directory import deployment_rules as rules
from rota.directory.deployment import TABLE as DEPLOYMENT
from rota.directory.deployment import Deployment
from rota.directory.deployment_events import DeploymentFinal, DeploymentSeen
from rota.directory.deployment_states import State
from rota.machine.tables import Row
from rota.node.stored import StoredNode
from rota.sim.breaking import MINUTES, Canary, both, reading, replacing, rewriting
from rota.sim.plan import DEPLOYMENTS, Settings


def _under(*kinds: str) -> Settings:
    """Settings of short seeds with deployments and these faults."""
    return Settings(minutes=MINUTES, faults=kinds, domain=DEPLOYMENTS)


def _confirm_what_is_seen(deployment: Deployment, event: DeploymentSeen) -> None:
    rules.confirm(deployment, DeploymentFinal(event.deployed))


def _ends_when_seen(row: Row) -> Row:
    if row.event is DeploymentSeen and row.when is rules.is_ours:
        return replace(row, then=State.FINAL, do=_confirm_what_is_seen)
    return row


def _without_proposals(stored: StoredNode) -> StoredNode:
    return replace(stored, deployments=replace(stored.deployments, proposals=()))


def _agrees_to_anything(*_: object) -> bool:
    return True


DEPLOYMENT_CANARIES: tuple[Canary, ...] = (
    Canary(
        "reports a deployment before it is final",
        "D1",
        rewriting(DEPLOYMENT, _ends_when_seen),
        _under("reorganise", "drop"),
    ),
    Canary("forgets proposals on restart", "D2", reading(_without_proposals), _under("crash", "loss")),
    Canary(
        "takes any contract that is deployed under a known id",
        "D3",
        both(
            replacing(deployment_base, "is_as_agreed", _agrees_to_anything),
            replacing(proposals, "is_as_agreed", _agrees_to_anything),
        ),
        _under("ledger", "drop"),
    ),
)
