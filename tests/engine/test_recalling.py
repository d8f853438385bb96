"""What a domain has forgotten is fetched from the store: when it assembles as when it endorses."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from rota import host
from rota.domains.base import Lacking
from rota.domains.pente import accounts
from rota.engine import recalling
from rota.engine.held_states import HeldStates
from rota.engine.recalling import RECALLS_MAX, Recalled, ask_in_steps, ask_recalling
from rota.host import Background, UserCall
from rota.model.types import ContractAddress, Leaf, NodeName, Outcome, Party, State, StateId
from rota.testing.workloads.pente import call_of
from tests.domains.pente.members import token
from tests.domains.pente.test_network import Group
from tests.ledger.chains import in_loop
from tests.service.kit import network

CONTRACT = ContractAddress("0x" + "11" * 20)
NODE1 = NodeName("node1")


def state(number: int) -> State:
    return State(StateId(Leaf(number.to_bytes(32, "big")), 0), bytes(32), (NODE1,), b"content")


class Shelves:
    """The two questions of a store that are asked here."""

    def __init__(self, count: int) -> None:
        self.every = {each.id: each for each in map(state, range(count))}
        self.asked = 0
        self.asked_for_all = 0

    async def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> tuple[State, ...]:
        assert contract == CONTRACT
        self.asked += 1
        return tuple(self.every[each] for each in ids if each in self.every)

    async def states_since(
        self, contract: ContractAddress, since: int, *, on_chain: bool
    ) -> tuple[int, tuple[State, ...]]:
        assert (contract, on_chain) == (CONTRACT, False)
        self.asked_for_all += not since
        return 1, () if since else tuple(self.every.values())


def walk_back(recalled: Recalled, first: int) -> int:
    """A domain whose states stand on one another, down to the first."""
    for number in range(first, -1, -1):
        if recalled.find(state(number).id) is None:
            raise Lacking(state(number).id)
    return first


@in_loop
async def test_a_question_in_steps_is_repeated_with_the_missing_states() -> None:
    steps: list[int] = []

    def judging(recalled: Recalled) -> Generator[None, None, int]:
        for number in range(3):
            steps.append(number)
            yield
        return walk_back(recalled, 1)

    assert await ask_in_steps(Shelves(2), CONTRACT, judging) == 1  # type: ignore[arg-type]
    assert steps == [0, 1, 2] * (len(steps) // 3)
    assert len(steps) > 3


@in_loop
async def test_a_domain_that_lacks_nothing_is_asked_once() -> None:
    store = Shelves(0)
    asked: list[Recalled] = []

    def ask(recalled: Recalled) -> int:
        asked.append(recalled)
        return 7

    assert await ask_recalling(store, CONTRACT, ask) == 7  # type: ignore[arg-type]
    assert (len(asked), store.asked, store.asked_for_all) == (1, 0, 0)


@pytest.mark.parametrize(("length", "all_at_once"), [(3, 0), (RECALLS_MAX, 0), (500, 1)])
@in_loop
async def test_a_chain_is_walked_back_step_by_step_and_a_long_one_is_fetched_at_once(
    length: int, all_at_once: int
) -> None:
    store = Shelves(length)
    assert await ask_recalling(store, CONTRACT, lambda recalled: walk_back(recalled, length - 1)) == length - 1  # type: ignore[arg-type]
    assert store.asked == min(length, RECALLS_MAX)
    assert store.asked_for_all == all_at_once


@in_loop
async def test_what_nobody_has_is_still_lacking() -> None:
    store = Shelves(2)
    with pytest.raises(Lacking, match="is not here yet"):
        await ask_recalling(store, CONTRACT, lambda recalled: walk_back(recalled, 5))  # type: ignore[arg-type]
    assert store.asked == 1


@pytest.mark.slow
@in_loop
async def test_private_contracts_that_memory_has_no_room_for_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "ACCOUNTS_KEPT_MAX", 1)
    monkeypatch.setattr(recalling, "RECALLS_MAX", 2)
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        made = await nodes.final(NODE1, await nodes.deploy(NODE1, "pente", {"members": ["alice@node1"]}))
        assert made.contract is not None, made.reason
        group = Group(nodes, made.contract)
        coins = [await group.deploy(NODE1, token(), name, name) for name in ("A", "B")]
        for _ in range(4):
            for each in coins:
                minted = await group.invoke(NODE1, each, token(), "mint", each, 1)
                assert minted.outcome is Outcome.CONFIRMED, minted.reason
        running = nodes.processes[NODE1].running
        hosted = running.contracts.hosted(made.contract)
        assert hosted is not None
        held = await HeldStates(NODE1, running.adapters.store).of(hosted)
        for each in coins:
            asked = UserCall(Party("alice@node1"), "call", call_of(each, token(), "balanceOf", each))
            verifiers = {asked.sender: await group.address(asked.sender)}
            told = await ask_recalling(
                running.adapters.store,
                made.contract,
                lambda recalled, asked=asked, verifiers=verifiers: host.call(  # type: ignore[misc]
                    hosted, asked, held, NODE1, Background(recalled.find, verifiers)
                ),
            )
            assert told == {"balance": "4"}
