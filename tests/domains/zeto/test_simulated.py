"""Zero-knowledge tokens in the simulator: no coin is made or lost whoever crashes, and what is to be proved is true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.domains.base import Assembled, Assembly, Outcome
from rota.domains.zeto.domain import Zeto
from rota.domains.zeto.records import Configuration, ZetoCoin
from rota.testing import findings, simulate
from rota.testing.workloads.zeto import CoinUsers


def test_no_coin_is_made_or_lost_in_calm() -> None:
    users = CoinUsers()
    reports = simulate(Zeto(), users.workload(), seeds=(1,), minutes=0.05, faults=(), prove=users.prove)
    assert findings(reports) == []
    assert reports[0].confirmed > 10
    assert users.proved > 5


class Generous(Zeto):
    """Pays a little more than it takes."""

    def assemble(self, work: Assembly[Configuration]) -> Outcome:
        outcome = super().assemble(work)
        if not isinstance(outcome, Assembled) or not outcome.spends:
            return outcome
        first, *others = outcome.makes
        assert isinstance(first.record, ZetoCoin), "the only state of this domain"
        more = replace(first, record=replace(first.record, amount=first.record.amount + 1))
        return replace(outcome, makes=(more, *others))


def test_who_pays_more_than_it_has_could_not_prove_it() -> None:
    users = CoinUsers()
    (finding, *_) = findings(
        simulate(Generous(), users.workload(), seeds=(1,), minutes=0.05, faults=(), prove=users.prove)
    )
    assert "'conservation': 1" in finding


@pytest.mark.slow
def test_no_coin_is_made_or_lost_under_faults() -> None:
    users = CoinUsers()
    reports = simulate(Zeto(), users.workload(), seeds=range(4), minutes=0.2, prove=users.prove)
    assert findings(reports) == []
    assert sum(report.confirmed for report in reports) > 100
    assert sum(report.reverted for report in reports) > 20
    assert users.proved > 50
