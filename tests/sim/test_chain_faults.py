"""Gas spikes, refused transactions, nonces that a stranger takes, mixed forks, certificates, and the build before."""

from __future__ import annotations

from random import Random

import pytest

from rota.chain.events import Objection
from rota.machine.events import IntentSubmitted
from rota.model.blocks import MinedStatus
from rota.model.config import Config
from rota.model.types import (
    Contract,
    ContractAddress,
    HeartbeatNumber,
    Intent,
    Mode,
    NodeName,
    Outcome,
    Party,
    RequestId,
)
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.faults import BadWeather, apply, mend_all
from rota.sim.frames import as_before
from rota.sim.invariants import violations
from rota.sim.ledger import BASE_FEE_WEI
from rota.sim.plan import Fault
from rota.sim.sim_node import Refusing
from rota.sim.world import World
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, HoldingsResponse, MissingEndorser

A, B = NodeName("A"), NodeName("B")
ADDRESS = ContractAddress("0x" + "01" * 20)
CONTRACT = Contract(ADDRESS, (A,), (A, B), 2, Mode.STATIC)
INTENT = Intent(
    drawn_id("A-1", Party("a@A"), ADDRESS), ADDRESS, Party("a@A"), b"mint", (), (), "", nonce=nonce_of("A-1")
)


class Trouble:
    """A network of two nodes whose coordinator is A, and its weather."""

    def __init__(self, config: Config | None = None) -> None:
        self.weather = BadWeather(Random(1), (A, B), has_echo=False)
        self.world = World((A, B), (CONTRACT,), config or Config(), weather=self.weather)
        for name in self.world.nodes:
            self.world.start(name)
        self.world.run_until(1_000)

    def apply(self, kind: str, draw: int = 1) -> None:
        apply(self.world, self.weather, Fault(1, 0, kind, A, B, 1_000, draw))

    def submit(self) -> None:
        self.world.submit(A, ADDRESS, IntentSubmitted("user", INTENT))

    def ends_within(self, delay_ms: int) -> bool:
        return self.world.run_until(self.world.now_ms + delay_ms, lambda: INTENT.id in self.world.receipts)

    def mend(self) -> None:
        mend_all(self.world, self.weather)


def test_transaction_that_pays_too_little_is_sent_for_more() -> None:
    trouble = Trouble()
    trouble.world.chain.is_mining = False
    trouble.submit()
    trouble.world.run_until(3_000)
    ((key, cheap),) = trouble.world.ledger.pool.items()
    trouble.world.ledger.is_priced, trouble.world.ledger.base_fee_wei = True, 20 * BASE_FEE_WEI
    assert not trouble.world.ledger.has_work()
    trouble.world.chain.is_mining = True
    assert trouble.ends_within(60_000)
    assert cheap.fees.most_wei < 20 * BASE_FEE_WEI
    ledger = trouble.world.ledger
    ((dispatch, failure),) = [each for block in ledger.blocks for each in ledger.mined_in(block)]
    assert ((dispatch.signer, dispatch.nonce), failure) == (key, "")
    assert dispatch.fees.most_wei >= 20 * BASE_FEE_WEI
    assert violations(trouble.world) == []


def test_gas_above_the_limit_delays_transactions_until_it_is_cheaper() -> None:
    trouble = Trouble(Config(fee_max_wei=10 * BASE_FEE_WEI))
    trouble.world.ledger.is_priced, trouble.world.ledger.base_fee_wei = True, 20 * BASE_FEE_WEI
    trouble.submit()
    assert not trouble.ends_within(30_000)
    trouble.mend()
    assert trouble.ends_within(60_000)


@pytest.mark.parametrize("objection", Objection)
def test_transaction_that_is_refused_is_sent_again(objection: Objection) -> None:
    trouble = Trouble()
    trouble.world.nodes[A].refusing = Refusing(objection, is_passed_on=False)
    trouble.submit()
    assert not trouble.ends_within(10_000)
    trouble.mend()
    assert trouble.ends_within(60_000)
    assert trouble.world.receipts[INTENT.id][-1].outcome is Outcome.CONFIRMED
    assert violations(trouble.world) == []


@pytest.mark.parametrize("objection", Objection)
def test_transaction_that_is_refused_and_passed_on_has_its_effect_once(objection: Objection) -> None:
    trouble = Trouble()
    trouble.world.nodes[A].refusing = Refusing(objection, is_passed_on=True)
    trouble.submit()
    assert trouble.ends_within(60_000)
    assert violations(trouble.world) == []


def test_round_whose_nonce_a_stranger_took_is_dispatched_under_another() -> None:
    trouble = Trouble()
    trouble.world.chain.is_mining = False
    trouble.apply("stranger")
    trouble.submit()
    trouble.world.run_until(3_000)
    assert list(trouble.world.ledger.pool) == [(A, 0)]
    trouble.apply("stranger")
    trouble.world.chain.is_mining = True
    trouble.world.chain.mine()
    taken = trouble.world.ledger.as_seen_by(A, trouble.world.ledger.blocks[1]).mined
    assert [(each.nonce, each.status) for each in taken] == [(0, MinedStatus.TAKEN)]
    assert trouble.ends_within(60_000)
    assert trouble.world.receipts[INTENT.id][-1].outcome is Outcome.CONFIRMED
    assert violations(trouble.world) == []


def test_nonce_that_a_stranger_took_is_free_again_after_a_reorganisation() -> None:
    trouble = Trouble(Config(confirmations=3))
    trouble.world.chain.is_mining = False
    trouble.submit()
    trouble.world.run_until(3_000)
    trouble.apply("stranger")
    trouble.world.chain.mine()
    assert trouble.world.ledger.next_nonce[A] == 1
    trouble.world.chain.reorganise(1)
    assert trouble.world.ledger.next_nonce[A] == 0


def test_node_that_is_shown_two_forks_follows_the_one_that_grows() -> None:
    trouble = Trouble(Config(confirmations=3))
    trouble.submit()
    trouble.world.run_until(3_000)
    assert trouble.world.ledger.height > 0
    trouble.apply("forks")
    fork = trouble.world.nodes[A].fork
    assert fork is not None
    shown = {tuple(trouble.world.chain._blocks_shown_to(trouble.world.nodes[A])) for _ in range(20)}
    assert {blocks[-1].hash for blocks in shown} == {fork.blocks[-1].hash, trouble.world.ledger.blocks[-1].hash}
    for _ in range(8):
        trouble.world.run_until(trouble.world.now_ms + 2_000)
        trouble.world.chain.mine()
    # Final blocks are not contradicted.
    shown = {tuple(trouble.world.chain._blocks_shown_to(trouble.world.nodes[A])) for _ in range(20)}
    assert shown == {tuple(trouble.world.ledger.blocks)}
    assert trouble.ends_within(60_000)
    assert violations(trouble.world) == []


def test_node_with_a_new_certificate_is_reached_again() -> None:
    trouble = Trouble()
    trouble.apply("certificate", draw=3)
    trouble.submit()
    trouble.world.run_until(20_000)
    trouble.mend()
    assert trouble.ends_within(60_000)
    assert violations(trouble.world) == []


def test_node_of_the_build_before_neither_sends_nor_reads_the_newest_fields() -> None:
    missing = (MissingEndorser(B, 1, ""),)
    heartbeat = CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.ACTIVE, missing=missing)
    assert as_before(heartbeat) == CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.ACTIVE)
    assert as_before(HoldingsResponse(RequestId(1, 1), ())) is None
    trouble = Trouble()
    trouble.apply("older")
    assert trouble.world.wires.older == {A}
    trouble.submit()
    assert trouble.ends_within(60_000)
    # The network is judged while it still runs two builds.
    trouble.mend()
    assert trouble.world.wires.older == {A}
    assert violations(trouble.world) == []
