"""The test kit finds what is wrong with a domain."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import pytest

from rota.domains.base import Assembled, Assembly, Outcome, Proposal
from rota.domains.noto import Noto
from rota.domains.noto.records import Coin, Configuration
from rota.model.types import IntentId, Party
from rota.testing import Ended, Scene, UserCall, Workload, findings, simulate

NOTARY, ALICE = Party("notary@A"), Party("alice@B")


def calls(_: Scene) -> Generator[UserCall, IntentId | None, None]:
    intent = yield UserCall(NOTARY, "mint", [ALICE, 100])
    assert intent is not None
    refused = yield UserCall(ALICE, "mint", [ALICE, 100])
    assert refused is None
    while True:
        yield UserCall(ALICE, "transfer", [NOTARY, 1])


def must_hold(ended: Ended) -> Iterator[str]:
    total = sum(state.record.amount for state in ended.unspent if isinstance(state.record, Coin))
    if total != 100:
        yield f"100 was minted, and {total} is there"


WORKLOAD = Workload(NOTARY, {"notary": NOTARY}, calls, must_hold, node_count=2)


class Careless(Noto):
    """Its holders' nodes make one coin too many, and its notary does not let that pass."""

    def assemble(self, work: Assembly[Configuration]) -> Outcome:
        """One more for the sender."""
        outcome = super().assemble(work)
        if not isinstance(outcome, Assembled) or work.function == "mint":
            return outcome
        more = [replace(made, record=Coin(work.sender, 1)) for made in outcome.makes[:1]]
        return replace(outcome, makes=(*outcome.makes, *more))


class Blind(Careless):
    """And its notary signs whatever it is shown."""

    def endorse(self, proposal: Proposal[Configuration]) -> None:
        """Looks away."""


def test_a_sound_domain_has_no_findings() -> None:
    reports = simulate(Noto(), WORKLOAD, seeds=(1,), minutes=0.05, faults=())
    assert findings(reports) == []
    assert reports[0].refused == 1


def test_money_from_nowhere_is_found() -> None:
    (finding,) = findings(simulate(Blind(), WORKLOAD, seeds=(1,), minutes=0.05, faults=()))
    assert finding.startswith("seed 1: W1: 100 was minted, and 1")


@pytest.mark.slow
def test_what_the_notary_refuses_ends_and_harms_nobody() -> None:
    (report,) = simulate(Careless(), WORKLOAD, seeds=(1,), minutes=0.05, faults=())
    assert report.violations == ()
    assert report.confirmed == 1
    assert report.reverted > 5


@pytest.mark.slow
def test_the_same_seed_plays_the_same_run() -> None:
    first, again = (simulate(Noto(), WORKLOAD, seeds=(3, 4, 5), minutes=0.1) for _ in range(2))
    assert first == again
    assert sum(report.faults for report in first) > 0
