"""Shipped domains that are broken deliberately, to show that the conditions of their workloads detect defects (W1)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rota.domains.base import Assembled, Assembly, Outcome
from rota.domains.noto.domain import Noto
from rota.domains.noto.records import Coin
from rota.domains.pente import domain as pente
from rota.domains.pente.changes import pack_slots
from rota.domains.pente.evm import Address, Execution
from rota.domains.pente.records import AccountState
from rota.domains.pente.worlds import Latest
from rota.domains.records import Record
from rota.domains.zeto.domain import Zeto
from rota.domains.zeto.records import ZetoCoin
from rota.sim.breaking import MINUTES, Canary, both, replacing
from rota.sim.plan import Settings
from rota.testing.workloads import PenteKit, swarm_of
from rota.testing.workloads.zeto import CoinUsers


def workload_canaries(kit: PenteKit) -> tuple[Canary, ...]:
    """One canary for each domain."""
    make = partial(swarm_of, kit=kit)
    return (
        Canary(
            "a notary that looks at nothing, and senders who pay themselves more",
            "W1",
            both(replacing(Noto, "assemble", _generous_with_coins), replacing(Noto, "endorse", _look_at_nothing)),
            _calm("noto"),
            make,
        ),
        Canary(
            "a machine that forgets the last slot that a message writes",
            "W1",
            replacing(pente, "_next_state", _next_state_without_a_slot),
            _calm("pente"),
            make,
        ),
        Canary(
            "a circuit that does not compare what is paid with what is spent",
            "W1",
            both(
                replacing(Zeto, "assemble", _generous_with_zeto_coins), replacing(CoinUsers, "prove", _look_at_nothing)
            ),
            _calm("zeto"),
            make,
        ),
    )


def _calm(domain: str) -> Settings:
    return Settings(minutes=MINUTES, faults=(), domain=domain)


def _look_at_nothing(*_: object) -> None:
    return None


def _generous_with_coins(domain: Noto, work: Assembly) -> Outcome:  # type: ignore[type-arg]
    return _with_more(_assemble_tokens(domain, work))


def _generous_with_zeto_coins(domain: Zeto, work: Assembly) -> Outcome:  # type: ignore[type-arg]
    return _with_more(_assemble_coins(domain, work))


def _with_more(outcome: Outcome) -> Outcome:
    """Add one to the amount of the first coin that is made from others."""
    if not isinstance(outcome, Assembled) or not outcome.spends or not outcome.makes:
        return outcome
    first, *others = outcome.makes
    record: Record = first.record
    if isinstance(record, Coin | ZetoCoin):
        record = replace(record, amount=record.amount + 1)
    return replace(outcome, makes=(replace(first, record=record), *others))


def _next_state_without_a_slot(address: Address, execution: Execution, latest: Latest) -> AccountState:
    """Omit one written slot, except in a deployment, which writes all of them."""
    state, slots = _next_state(address, execution, latest), dict(execution.changes[address].slots)
    if state.number and len(slots) > 1:
        slots.popitem()
    return replace(state, slots=pack_slots(slots))


_assemble_tokens = Noto.assemble
_assemble_coins = Zeto.assemble
_next_state = pente._next_state
