"""The trigger in the simulator: many members, a model of the contract, nodes that come and go."""

from __future__ import annotations

from functools import partial

from auctions import CLOSED, OPENED, CloseAuctions

from rota.automation import Reverted, Strategy
from rota.model.types import ContractAddress
from rota.testing import ModelContract, TriggerWorld, account_of, simulate_trigger, trigger_findings

AUCTIONS = ContractAddress("0x" + "ac" * 20)
NODES = 5
BIDDER = account_of("bidder")


class Auctions(ModelContract):
    """What the contract does, in Python: functions are methods, and what it refuses it raises."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.count = 0

    def members(self) -> list[ContractAddress]:
        return [account_of(f"node{number}") for number in range(NODES)]

    def openAuctions(self) -> list[int]:
        return list(self.ends)

    def endsAt(self, auction: int) -> int:
        if auction not in self.ends:
            raise Reverted("NotOpen")
        return self.ends[auction]

    def open(self, lasts_s: int) -> None:
        self.count += 1
        self.ends[self.count] = self.time_s + lasts_s
        self.emit(OPENED, self.count, self.ends[self.count])

    def close(self, auction: int) -> None:
        if self.sender not in self.members():
            raise Reverted("NotMember")
        if self.endsAt(auction) > self.time_s:
            raise Reverted("TooEarly")
        del self.ends[auction]
        self.emit(CLOSED, auction, self.sender)


def open_some(world: TriggerWorld) -> None:
    """Every 20 s somebody opens an auction of a minute."""
    for number in range(20):
        world.at(world.now_ms + number * 20_000, partial(world.ledger_call, AUCTIONS, BIDDER, "open", 60))


def test_every_auction_is_closed_once_whoever_is_down() -> None:
    for strategy in Strategy:
        reports = simulate_trigger(
            lambda: CloseAuctions(AUCTIONS),
            {AUCTIONS: Auctions()},
            seeds=range(5),
            nodes=NODES,
            strategy=strategy,
            act=open_some,
        )
        assert not trigger_findings(reports)
        assert all(len(report.performed) == 20 for report in reports)


def test_members_seldom_get_in_one_anothers_way() -> None:
    (report,) = simulate_trigger(
        lambda: CloseAuctions(AUCTIONS),
        {AUCTIONS: Auctions()},
        seeds=[1],
        nodes=NODES,
        strategy=Strategy.RANK,
        act=open_some,
        has_faults=False,
    )
    assert report.lost <= 2
    assert report.failed == 0
