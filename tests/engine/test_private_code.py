"""Domains whose users bring code of their own: answered in other processes, within budgets, in fair turns."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from rota.engine.private_code import LIMITS, STUCK_S, PrivateCode, TookTooLong, _Used
from rota.engine.work_shares import Allowance, Budgets, FairQueue
from rota.evm import worker
from rota.evm.worker import Answered, Change, Limits, OverBudget, Update
from rota.host import Hosted, UserCall
from rota.host.answers import Asked
from rota.host.checking import Checked
from rota.model.types import ContractAddress, NodeName, Party, State, StateId, Transition
from rota.ports import StateChanges, StatePage, Unavailable
from rota.rpc.credentials import CALLER, Caller
from rota.sequencer.effects import CheckRound
from tests import bounds
from tests.domains.kit import ALICE, assembly_order, hosted_by, intent, round_of
from tests.domains.pente.members import ALICE as MEMBER
from tests.domains.pente.members import VERIFIERS, Members
from tests.domains.test_hosting import raised
from tests.ledger.chains import in_loop
from tests.service.elsewhere import GATE, ElsewhereCounting

NODE = NodeName("node1")
PEER = NodeName("node2")
OTHER = NodeName("node3")
# Burns its gas up to the last 50,000, then stores a 1.
BURNER = "600f600c600039600f6000f3" + "5b61c3505a116000576001600055" + "00"
LIGHT_GAS, HEAVY_GAS = 120_000, 4_000_000


class Nowhere:
    """A store that has nothing."""

    async def unspent_states(self, _: ContractAddress) -> StatePage:
        return StatePage(1, ())

    async def state_changes(self, _: ContractAddress, since: int) -> StateChanges:
        return StateChanges(since, (), ())

    async def states_since(self, _: ContractAddress, since: int, *, on_chain: bool) -> tuple[int, tuple[State, ...]]:
        assert on_chain
        return since, ()

    async def states(self, _: ContractAddress, __: tuple[StateId, ...]) -> tuple[State, ...]:
        return ()


def counting() -> Hosted:
    return hosted_by(ElsewhereCounting(), {"keeper": "n@node1"})


def asked_by(hosted: Hosted, *values: int, peer: NodeName = PEER) -> Asked:
    """A round of transitions that each raise a counter to a value."""
    made = tuple(raised(hosted, value)[0] for value in values)
    return Asked(replace(round_of(hosted, made, (ALICE,) * len(made)), peer=peer))


def code_with(
    limits: Limits = LIMITS, clock_s: Callable[[], float] = time.monotonic, stuck_s: float = STUCK_S
) -> PrivateCode:
    return PrivateCode(NODE, cast(Any, Nowhere()), limits, clock_s, stuck_s)


async def judged_in(code: PrivateCode, hosted: Hosted) -> int:
    """The process in which a round is judged."""
    [refusal] = (await code.check(hosted, asked_by(hosted, 1))).refusals
    return int(refusal.reason)


@pytest.mark.slow
@in_loop
async def test_rounds_are_judged_in_another_process_and_a_killed_one_is_replaced() -> None:
    code, hosted = code_with(), counting()
    try:
        first = await judged_in(code, hosted)
        assert first not in (os.getpid(), *code.own.processes.pids)
        assert await judged_in(code, hosted) == first, "the process is kept"
        os.kill(first, signal.SIGKILL)
        assert await judged_in(code, hosted) not in (first, os.getpid())
    finally:
        await code.close()


@pytest.mark.slow
@in_loop
async def test_round_that_takes_too_long_ends_its_process_and_is_not_judged() -> None:
    code, hosted = code_with(limits=Limits(killed_after_cpu_s=0.3)), counting()
    try:
        first = await judged_in(code, hosted)
        asked = asked_by(hosted, 1, 2)
        checked = await code.check(hosted, asked)
        assert (checked.refusals, checked.judged) == ((), ())
        assert isinstance(asked.question, CheckRound)
        assert [leaf for leaf, _ in checked.failures] == [each.leaf for each in asked.question.transitions]
        assert all(isinstance(error, OverBudget) for _, error in checked.failures)
        assert code.ended_count == 1
        assert await judged_in(code, hosted) != first
    finally:
        await code.close()


@pytest.mark.slow
@in_loop
async def test_own_users_do_not_wait_for_what_peers_have_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv(GATE, str(gate))
    code, hosted = code_with(), counting()
    try:
        judging = asyncio.ensure_future(code.check(hosted, asked_by(hosted, 3)))
        slot = assembly_order([intent(hosted, 1, UserCall(ALICE, "raise", [5]))])
        [assembled] = await code.assemble(hosted, Asked(slot))
        assert getattr(assembled, "transition", None) is not None
        assert not judging.done()
        await asyncio.to_thread(gate.write_bytes, b"open")
        assert await judging == Checked()
    finally:
        await code.close()


@pytest.mark.slow
@in_loop
async def test_process_that_is_stuck_is_killed_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv(GATE, str(gate))
    # Whatever waits for longer than no time at all is stuck here.
    code, hosted = code_with(limits=Limits(killed_after_cpu_s=0.0), stuck_s=0.0), counting()
    try:
        code.prepare()
        [stuck] = code.peers.processes.pids
        checked = await code.check(hosted, asked_by(hosted, 3))
        assert [type(error) for _, error in checked.failures] == [TookTooLong]
        assert code.peers.processes.pids == ()
        while Path(f"/proc/{stuck}").exists():
            await asyncio.sleep(0)
    finally:
        await code.close()


# Budgets of a request.


def burning(count: int) -> tuple[Members, list[str]]:
    members = Members()
    made = [
        members.settle(MEMBER, members.assemble(MEMBER, "deploy", {"bytecode": "0x" + BURNER})) for _ in range(count)
    ]
    return members, [members.receipt(each, NODE)["receipt"]["contractAddress"] for each in made]


def judged(
    members: Members, transitions: tuple[Transition, ...], limits: Limits, makers: tuple[Transition, ...] = ()
) -> tuple[Checked, tuple[int, ...]]:
    """What a process says of a round, and the gas that each transition used."""
    worker.begin(NODE)
    states = tuple(members.unspent.values())
    update = Update(members.hosted.contract.address, (Change(held=states, learned=states),), members.hosted.bare())
    order = replace(round_of(members.hosted, transitions, (MEMBER,) * len(transitions)), makers=makers)
    asked = Asked(order, VERIFIERS)
    answered = worker.answer(update, asked, {}, limits)
    assert answered is not None
    assert isinstance(answered.answer, Checked), answered
    return answered.answer, tuple(step.gas for step in answered.steps)


def test_round_over_its_gas_names_the_transitions_that_used_it_and_refuses_none() -> None:
    members, [one, heavy, two] = burning(3)
    gas = {one: LIGHT_GAS, heavy: HEAVY_GAS, two: LIGHT_GAS}
    transitions = tuple(
        members.assemble(MEMBER, "invoke", {"to": to, "input": "0x", "gas": gas[to]}) for to in (one, heavy, two)
    )
    checked, used = judged(members, transitions, Limits())
    assert checked == Checked(), "within its budget every transition is endorsed"
    assert used[0] < LIGHT_GAS < HEAVY_GAS - 50_000 < used[1] <= HEAVY_GAS
    checked, _ = judged(members, transitions, Limits(gas=3_000_000))
    assert [(leaf, type(error)) for leaf, error in checked.failures] == [(transitions[1].leaf, OverBudget)]
    assert checked.refusals == ()
    # Makers that its coordinator shows beside a round take steps too, and are no transitions of it.
    again = judged(members, transitions, Limits(gas=3_000_000), makers=transitions[:1] * 1_000)
    assert [leaf for leaf, _ in again[0].failures] == [transitions[1].leaf]
    assert len(again[1]) == 3


def test_round_whose_makers_use_up_the_time_is_not_taken_for_judged() -> None:
    """A round without refusals and failures is signed."""
    members, [one, two, other] = burning(3)
    made = [members.assemble(MEMBER, "invoke", {"to": to, "input": "0x", "gas": LIGHT_GAS}) for to in (one, two, other)]
    transitions, maker = tuple(made[:2]), made[2]
    checked, used = judged(members, transitions, Limits(cpu_s=0.1), makers=(maker,) * 51_200)
    assert used == (0, 0), "nothing was run"
    assert [(leaf, type(error)) for leaf, error in checked.failures] == [
        (each.leaf, OverBudget) for each in transitions
    ]


def test_transition_runs_with_the_gas_of_its_message_whatever_is_left_of_the_budget() -> None:
    """Otherwise endorsers would judge by how much each of them has left."""
    members, [one] = burning(1)
    transition = members.assemble(MEMBER, "invoke", {"to": one, "input": "0x", "gas": HEAVY_GAS})
    checked, [used] = judged(members, (transition,), Limits(gas=100_000))
    assert checked == Checked()
    assert used > HEAVY_GAS - 50_000


def test_process_that_does_not_know_a_contract_says_so() -> None:
    unknown = ContractAddress("0x" + "77" * 20)
    assert not worker.take(Update(unknown))
    assert worker.answer(Update(unknown), Asked(cast(Any, None)), {}, Limits()) is None


# Budgets of peers.


@in_loop
async def test_peer_over_its_budget_gets_a_system_error_and_the_others_are_judged() -> None:
    now_s = 0.0
    code, hosted = code_with(clock_s=lambda: now_s), counting()
    asked = asked_by(hosted, 1)
    code._charge(cast(CheckRound, asked.question), _used(cpu_s=1_000.0))
    with pytest.raises(OverBudget, match="node2 has used up"):
        await code.check(hosted, asked)
    assert not code.peers.processes.pids, "nothing was run for it"
    assert not code._askers.is_over(NodeName("node3"))
    assert not code._askers.is_over(NODE)
    now_s = 3_600.0
    assert not code._askers.is_over(PEER)


@in_loop
async def test_transitions_of_a_sender_over_its_budget_are_named_and_not_run() -> None:
    code, hosted = code_with(), counting()
    asked = asked_by(hosted, 1, peer=NODE)
    code._charge(cast(CheckRound, asked.question), _used(cpu_s=1_000.0))
    checked = await code.check(hosted, asked)
    assert [leaf for leaf, _ in checked.failures] == [each.leaf for each in cast(Any, asked.question).transitions]
    assert not code.peers.processes.pids


def test_coordinator_that_has_a_senders_transitions_judged_again_and_again_uses_up_its_own_share() -> None:
    """It chooses how often a transition is judged, and the rest of its round; nothing changes for others."""
    code, hosted = code_with(), counting()
    orders = {peer: cast(CheckRound, asked_by(hosted, 1, peer=peer).question) for peer in (PEER, NODE, OTHER)}
    code._charge(orders[PEER], _used(cpu_s=40.0))
    assert code._over(orders[PEER])
    assert not code._over(orders[NODE])
    assert not code._over(orders[OTHER])


def _used(cpu_s: float) -> _Used:
    used = _Used()
    used.cpu_s = cpu_s
    used.steps = [worker.Cost(cpu_s)]
    return used


def test_budget_comes_back_with_time_and_covers_gas_and_processor_time() -> None:
    now_s = 0.0
    budgets = Budgets(Allowance(10.0, 1_000, 0.5, 100), lambda: now_s)
    budgets.charge(PEER, 1.0, 1_200)
    assert budgets.is_over(PEER), "its gas is used up"
    now_s = 3.0
    assert not budgets.is_over(PEER)
    budgets.charge(PEER, 12.0, 0)
    assert budgets.is_over(PEER), "its time is used up"
    now_s = 10.0
    assert not budgets.is_over(PEER)


# Turns.


@in_loop
async def test_caller_has_one_share_under_whatever_names_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    code, hosted = code_with(), counting()
    shares: list[object] = []

    async def ask(who: object, *_: object) -> Answered:
        shares.append(who)
        return Answered(None, (), worker.Cost())

    monkeypatch.setattr(code.own, "ask", ask)
    caller = Caller("backend", frozenset())
    CALLER.set(caller)
    for name in ("a@node1", "b@node1"):
        await code.call(hosted, Asked(UserCall(Party(name), "value", [])))
    assert shares == [caller, caller]


async def order_of_turns(queue: FairQueue, asked: list[tuple[str, float]]) -> list[str]:
    """Who has a turn when, given who asks and how long it takes; all ask while somebody else has the turn."""
    had: list[str] = []

    async def ask(who: str, cpu_s: float) -> None:
        async with queue.turn(who) as turn:
            turn.cpu_s = cpu_s
            had.append(who)

    async with queue.turn("first"):
        tasks = [asyncio.ensure_future(ask(who, cpu_s)) for who, cpu_s in asked]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    return had


@in_loop
async def test_peer_with_many_or_long_requests_keeps_no_other_waiting() -> None:
    asked = [("greedy", 10.0)] * 4 + [("modest", 1.0)] * 3
    had = await order_of_turns(FairQueue(), asked)
    assert had == ["greedy", "modest", "modest", "modest", "greedy", "greedy", "greedy"]


@in_loop
async def test_requests_that_wait_are_bounded_by_who_asks_and_in_all() -> None:
    queue = FairQueue(waiting_max=3, waiting_of_one_max=2)
    async with queue.turn("first"):
        waiting = [asyncio.ensure_future(order_of_turns(queue, [])) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="2 of first"):
            async with queue.turn("first"):
                pass
        last = asyncio.ensure_future(queue._enter("another"))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="3 requests wait"):
            async with queue.turn("a third one"):
                pass
        last.cancel()
    await asyncio.gather(*waiting)


@in_loop
async def test_turn_of_who_hangs_up_goes_to_the_next() -> None:
    queue = FairQueue()
    async with queue.turn("first"):
        gone = asyncio.ensure_future(queue._enter("gone"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    async with asyncio.timeout(bounds.WAIT_S), queue.turn("next"):
        pass


@in_loop
async def test_those_who_had_their_turns_are_forgotten() -> None:
    queue = FairQueue()
    for number in range(100):
        async with queue.turn(number) as turn:
            turn.cpu_s = 1.0
    assert len(queue._lines) <= 2
