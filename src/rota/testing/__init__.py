"""The public test kit: run your domain in the simulator, under faults, and see that it holds."""

from rota.hosting import UserCall
from rota.testing.simulation import Ended, Scene, SeedReport, Workload, findings, simulate

__all__ = ["Ended", "Scene", "SeedReport", "UserCall", "Workload", "findings", "simulate"]
