"""One credential does not take every place of a node for open transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.model.types import IntentId, NodeName, SubmitMode
from rota.ports import Unavailable
from rota.rpc.credentials import ANYBODY, CALLER, EVERY_ROLE, Caller
from rota.service.submissions.caller_shares import CallerShares
from tests.ledger.chains import in_loop
from tests.service.kit import network

NODE1 = NodeName("node1")
GREEDY, MODEST = (Caller(name, EVERY_ROLE) for name in ("greedy", "modest"))


class Office:
    """Transactions that are open, and a clock."""

    def __init__(self, most: int) -> None:
        self.open: set[IntentId] = set()
        self.now_s = 0.0
        self.looked = 0
        self.shares = CallerShares(most, self._open, lambda: self.now_s)

    def submit(self, caller: Caller, count: int) -> None:
        for _ in range(count):
            self.shares.require_room(caller)
            intent = IntentId(len(self.open).to_bytes(16, "big"))
            self.open.add(intent)
            self.shares.note(caller, intent)

    def _open(self) -> set[IntentId]:
        self.looked += 1
        return self.open


def test_caller_has_half_of_the_places_and_leaves_the_others_theirs() -> None:
    office = Office(10)
    office.submit(GREEDY, 5)
    with pytest.raises(Unavailable, match="5 transactions of greedy are under way, and a caller may have 5 of 10"):
        office.submit(GREEDY, 1)
    office.submit(MODEST, 5)


def test_places_of_transactions_that_ended_are_free_again() -> None:
    office = Office(10)
    office.submit(GREEDY, 5)
    office.open.clear()
    office.submit(GREEDY, 5)


def test_caller_that_has_its_share_is_looked_at_once_a_second() -> None:
    office = Office(10)
    office.submit(GREEDY, 5)
    for _ in range(100):
        with pytest.raises(Unavailable):
            office.submit(GREEDY, 1)
    assert office.looked == 1
    office.open.clear()
    office.now_s = 1.0
    office.submit(GREEDY, 1)


def test_without_credentials_everybody_is_one_caller_with_every_place() -> None:
    office = Office(10)
    office.submit(ANYBODY, 10)


def test_equal_part_is_divided_among_the_callers_that_have_open_transactions() -> None:
    office = Office(100)
    office.submit(GREEDY, 10)
    assert not office.shares.is_below_equal_part(GREEDY, room=10)
    assert office.shares.is_below_equal_part(MODEST, room=10)
    office.submit(MODEST, 5)
    assert not office.shares.is_below_equal_part(MODEST, room=10)
    office.open.clear()
    office.now_s = 1.0
    assert office.shares.is_below_equal_part(GREEDY, room=10)


@in_loop
async def test_node_refuses_a_caller_that_has_its_share_and_takes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        contract = await nodes.create([f"alice@{NODE1}"])
        monkeypatch.setattr(nodes.processes[NODE1].facade._shares, "_most", 2)
        CALLER.set(GREEDY)
        # It waits for its user to commit it, and so it is open.
        await nodes.submit(NODE1, contract, "mint", submit_mode=SubmitMode.EXTERNAL)
        with pytest.raises(Unavailable, match="of greedy are under way"):
            await nodes.submit(NODE1, contract, "mint")
        CALLER.set(MODEST)
        await nodes.submit(NODE1, contract, "mint")
