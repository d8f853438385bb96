"""A sender has its transitions paid for up to a gas limit an hour, where the operator of the coordinator sets one."""

from __future__ import annotations

import pytest

from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, Mode, Preparation, SubmitMode
from rota.sequencer import gas_allowances
from rota.sequencer.gas_allowances import WINDOW_MS
from rota.sequencer.held_intent import State as Held
from rota.wire.messages import AssembleRequest
from tests.sequencer.coordinator_bench import CoordinatorBench, active
from tests.sequencer.kit import ADDRESS, GENESIS_S, A, B, C, contract, transition

NO_CONDITION = bytes(32)
STATIC = contract(A, mode=Mode.STATIC, endorsers=(B, C))


def paying(most: int, of: Contract = STATIC) -> CoordinatorBench:
    """A coordinator that pays so much gas for one sender, and has dispatched a transition of B."""
    bench = active(of=of, config=Config(sender_gas_max=most))
    bench.bring(Held.DISPATCHED, transition("B-1"))
    return bench


def is_assembled(bench: CoordinatorBench, name: str) -> bool:
    bench.delegate(name)
    return bool(bench.asked(AssembleRequest))


def test_sender_that_has_used_its_gas_up_is_not_asked_to_assemble_until_the_hour_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gas_allowances, "WINDOW_MS", 2_000)
    bench = paying(1)
    assert not is_assembled(bench, "B-2")
    assert is_assembled(bench, "C-1"), "another sender has gas of its own"
    gas = bench.coordinator.gas.used[B].gas
    assert 30_000 < gas < 200_000, "what it takes to commit the transition alone"
    bench.wait(2_000)
    assert [peer for peer, _ in bench.asked(AssembleRequest) if peer == B] == [B]


def test_sender_that_is_within_its_gas_goes_on() -> None:
    bench = paying(10_000_000)
    assert is_assembled(bench, "B-2")
    assert bench.coordinator.gas.used[B].gas > 0


def test_gas_of_a_new_hour_is_counted_anew() -> None:
    bench = paying(10_000_000)
    before = bench.coordinator.gas.used[B].gas
    bench.coordinator.gas.charge(B, transition("B-2"))
    assert bench.coordinator.gas.used[B].gas > before
    bench.now_ms = bench.sequencer.context.now_ms = bench.now_ms + WINDOW_MS
    bench.coordinator.gas.charge(B, transition("B-3"))
    assert bench.coordinator.gas.used[B].gas < 2 * before


@pytest.mark.parametrize("is_carried", [True, False])
def test_transition_that_another_contract_carries_out_counts_and_one_that_its_sender_commits_does_not(
    is_carried: bool,
) -> None:
    """The carrier pays for the first, and the endorser's node has it do that."""
    committer = ADDRESS if is_carried else ContractAddress("0x" + "5e" * 20)
    made = transition("B-1", valid_until_s=GENESIS_S + 900, preparation=Preparation(committer, NO_CONDITION))
    bench = active(of=STATIC, config=Config(sender_gas_max=1))
    bench.delegate("B-1", submit_mode=SubmitMode.CARRIED if is_carried else SubmitMode.EXTERNAL)
    bench.assemble(made)
    bench.sign()
    assert bench.state_of("B-1") is Held.PREPARED
    assert is_assembled(bench, "B-2") is not is_carried


def test_nothing_is_counted_without_a_limit_for_ourselves_and_among_members() -> None:
    assert paying(0).coordinator.gas.used == {}
    assert paying(1, contract(A, B, C)).coordinator.gas.used == {}
    bench = paying(1)
    bench.coordinator.gas.charge(A, transition("A-1"))
    assert list(bench.coordinator.gas.used) == [B]


def test_senders_that_are_counted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gas_allowances, "SENDERS_MAX", 1)
    bench = paying(10_000_000)
    bench.coordinator.gas.charge(C, transition("C-1"))
    assert list(bench.coordinator.gas.used) == [C]
