"""The public test kit: run your domain or your trigger in the simulator, under faults, and check the results."""

from rota.host import UserCall
from rota.sim.trigger_world import ModelContract, TriggerWorld, account_of
from rota.testing.simulation import Ended, Scene, SeedReport, Workload, findings, simulate
from rota.testing.triggers import TriggerReport, simulate_trigger, trigger_findings

__all__ = [
    "Ended",
    "ModelContract",
    "Scene",
    "SeedReport",
    "TriggerReport",
    "TriggerWorld",
    "UserCall",
    "Workload",
    "account_of",
    "findings",
    "simulate",
    "simulate_trigger",
    "trigger_findings",
]
