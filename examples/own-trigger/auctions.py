"""A trigger of one's own: auctions that any member may close when their time is over.

The contract has `openAuctions()`, `endsAt(uint256)` and `close(uint256)`; it takes `close` once, from a member, and not
before the end, and then logs `Closed(uint256 indexed, address indexed)` and, for a new auction, `Opened`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from rota.automation import (
    Action,
    Call,
    Ending,
    Here,
    LedgerEvent,
    Member,
    Read,
    Reverted,
    Sighting,
    Task,
    Trigger,
    Watch,
    Work,
)
from rota.model.types import ContractAddress

OPENED = "Opened(uint256 indexed, uint256)"
CLOSED = "Closed(uint256 indexed, address indexed)"


class CloseAuctions(Trigger):
    """Every auction is a task that is ready at its end."""

    name: ClassVar[str] = "close-auctions"

    def __init__(self, contract: ContractAddress) -> None:
        self.contract = contract
        self.watches = (Watch(contract, OPENED), Watch(contract, CLOSED))

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """The node's configuration has the address, in `[triggers.close-auctions]`."""
        contract = options.get("contract")
        if not isinstance(contract, str):
            raise ValueError("contract: must be the address of the auctions")
        return cls(ContractAddress(contract.lower()))

    def members(self, here: Here) -> Work[tuple[Member, ...] | None]:
        """Who may close: the contract says so, by address. Left out, it would be the nodes of the Registry."""
        found = yield Read(self.contract, "members()", returns=("address[]",))
        return tuple(Member(each) for each in found)

    def member(self, here: Here) -> Member:
        """As whom this node stands among them."""
        return Member(here.account)

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        """All that are open, also those whose time is not over yet."""
        found = []
        for auction in (yield Read(self.contract, "openAuctions()", returns=("uint256[]",))):
            ends_s = yield Read(self.contract, "endsAt(uint256)", (auction,), ("uint256",))
            found.append(_task(auction, ends_s))
        return tuple(found)

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        """It is closed: the contract knows it no longer."""
        try:
            yield Read(self.contract, "endsAt(uint256)", task.arguments, ("uint256",))
        except Reverted:
            return True
        return False

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        """One transaction closes one auction. The limit of gas is there because the time of the next block counts."""
        return Call(self.contract, "close(uint256)", tasks[0].arguments, gas_limit=200_000)

    def seen(self, event: LedgerEvent, here: Here) -> Sighting:
        """Events make it quick; without them tasks would be found by polling."""
        if event.event == OPENED:
            return Sighting(tasks=(_task(*event.arguments),))
        auction, member = event.arguments
        return Sighting(endings=(Ending(_id(auction), Member(member)),))

    def done_in(self, tasks: tuple[Task, ...], events: tuple[LedgerEvent, ...], here: Here) -> tuple[str, ...]:
        """What our transaction closed, by the ledger's word."""
        return tuple(_id(event.arguments[0]) for event in events if event.event == CLOSED)


def _task(auction: int, ends_s: int) -> Task:
    return Task(_id(auction), ends_s * 1_000, arguments=(auction,))


def _id(auction: int) -> str:
    return f"auction/{auction}"
