"""Users of the shipped domains in the swarm of `rota simulate`, and their final conditions (W1)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from rota.domains.noto import Noto
from rota.domains.pente import Pente
from rota.domains.zeto.domain import Zeto
from rota.sim.plan import SHIPPED, Settings, draw_domain
from rota.sim.recorder import Recorder
from rota.sim.swarm import Swarm
from rota.testing.simulation import HostedSwarm, hosted_swarm
from rota.testing.workloads.noto import TokenUsers
from rota.testing.workloads.pente import GroupMembers, PenteKit
from rota.testing.workloads.zeto import CoinUsers

__all__ = ["PenteKit", "swarm_of"]

# How many of its members must endorse a group's transactions; 0 means all.
GROUP_THRESHOLDS = (0, 2)
STATEMENTS_LOOKED_AT_ONE_IN = 4


def swarm_of(seed: int, settings: Settings, kit: PenteKit, recorder: Recorder | None = None) -> Swarm:
    """The swarm that plays a seed, with the domain that the seed draws or the settings name."""
    domain = draw_domain(seed, settings)
    settings = replace(settings, domain=domain)
    if domain not in SHIPPED:
        return Swarm(seed, settings, recorder)
    return _shipped(domain, seed, settings, kit, recorder)


def _shipped(domain: str, seed: int, settings: Settings, kit: PenteKit, recorder: Recorder | None) -> HostedSwarm:
    match domain:
        case "noto":
            return hosted_swarm(Noto(), TokenUsers().workload(), seed, settings, recorder)
        case "zeto":
            users = CoinUsers(STATEMENTS_LOOKED_AT_ONE_IN)
            return hosted_swarm(Zeto(), users.workload(), seed, settings, recorder, users.prove)
        case _:
            members = GroupMembers(kit, Random(f"{seed}/threshold").choice(GROUP_THRESHOLDS))
            return hosted_swarm(Pente(kit.make_evm), members.workload(), seed, settings, recorder)
