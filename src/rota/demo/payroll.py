"""An exactly-once command: the rent, which must be paid once, submitted twice.

Two instances of an application share only the name of the change. Each submits it under the same command id and learns
that it happened, at the same offset: one submission was accepted, the other was recognised as a duplicate. They
deduplicate by time, as the second one has no journal of the first: a change that was accepted within the bound counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rota.client import Client, Journal, Outcome, Verdict
from rota.client.commands import RawCommands
from rota.demo.programme import Asset, Transfer
from rota.demo.show import CommandTold
from rota.model.types import Party

APPLICATION: Final = "rent"
CHANGE: Final = "the rent of May"
RENT: Final = 1_000
BOUND_MS: Final = 600_000
NO_NUMBER: Final = -1


def rent_of(payer: Party, landlord: Party) -> Transfer:
    """The transfer of the command; it is none of the numbered transfers."""
    return Transfer(NO_NUMBER, Asset.ERC20, payer, landlord, RENT)


class RentUnpaid(Exception):
    """A submission did not return the change's success, or the change happened twice; the text names it."""


@dataclass(frozen=True, slots=True)
class Rent:
    """The command of one party at its node. `folder` is for the journals of its instances."""

    payer: Party
    transaction: Mapping[str, object]
    folder: Path
    change: str = CHANGE

    async def submit(self, client: Client, instance: int) -> Verdict:
        """Submit the command, as one instance of the application."""
        with Journal(self.folder / f"rent-{instance}.journal") as journal:
            commands = client.commands(journal, application_id=APPLICATION, act_as=(self.payer,))
            return await commands.exactly_once_within(BOUND_MS, self.change, self.transaction, command_id=self.change)

    async def told(self, client: Client, verdicts: tuple[Verdict, ...]) -> CommandTold:
        """The common result of the submissions. `RentUnpaid` when they do not have one and the same success."""
        for verdict in verdicts:
            if verdict.outcome is not Outcome.SUCCEEDED:
                reason = verdict.error.message if verdict.error is not None else "nobody says why"
                raise RentUnpaid(f"{self.change}: {verdict.outcome.value}: {reason}")
        offsets = {verdict.completion_offset for verdict in verdicts}
        offset = verdicts[0].completion_offset
        if len(offsets) != 1 or offset is None:
            raise RentUnpaid(f"{self.change} happened at {len(offsets)} places: {sorted(map(str, offsets))}")
        page = await RawCommands(client, APPLICATION, (self.payer,)).completions(offset - 1, 1, 0)
        (completion,) = page["completions"]
        return CommandTold(self.change, self.payer, len(verdicts), offset, str(completion["transactionId"]))
