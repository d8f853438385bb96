"""Cores without one of the defences against liars: each must be caught by a dishonest seed.

A canary of this module says, beside its invariant, which strategy its liars follow: its settings have them.
"""

from __future__ import annotations

from rota.core import endorser as endorser_module
from rota.core.rules import coordinator as coordinator_rules
from rota.sim import services
from rota.sim.canaries import CANARIES, MINUTES, Canary, replacing
from rota.sim.plan import Settings
from rota.sim.services import sign
from rota.types import Contract, ContractAddress, Intent, IntentId, Leaf, Mode, NodeName, Party, node_of


def lying(
    *strategies: str,
    liars: int = 1,
    faults: tuple[str, ...] = (),
    mode: Mode | None = Mode.RING,
    minutes: float = MINUTES,
) -> Settings:
    """Seeds with so many liars that follow these strategies."""
    return Settings(minutes=minutes, faults=faults, mode=mode, liars=liars, strategies=strategies)


def _is_of_the_peer(_contract: Contract, peer: NodeName, intent: Intent) -> bool:
    return node_of(intent.sender) == peer


def _is_anybodys(_intent: IntentId, _party: Party, _contract: ContractAddress, _nonce: bytes) -> bool:
    return True


def _sign_leaf_alone(party: Party, leaf: Leaf, _valid_until_s: int) -> bytes:
    return sign(party, leaf)


CANARIES_AMONG_LIARS: tuple[Canary, ...] = (
    Canary(
        "coordinates any id", "T3", replacing(coordinator_rules, "_is_its_own", _is_of_the_peer), lying("squats-ids")
    ),
    Canary(
        "endorses any id", "R2", replacing(endorser_module, "is_id_of", _is_anybodys), lying("squats-as-coordinator")
    ),
    Canary(
        "a signature that does not say until when",
        "T1",
        replacing(services, "sign_leaf", _sign_leaf_alone),
        lying("revives"),
    ),
)
EVERY_CANARY: tuple[Canary, ...] = (*CANARIES, *CANARIES_AMONG_LIARS)
