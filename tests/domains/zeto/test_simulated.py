"""Zero-knowledge tokens in the simulator: no coin is made or lost whoever crashes, and what is to be proved is true."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace

import pytest

from rota.domains.base import Assembled, Assembly, Outcome
from rota.domains.zeto.circuits import Statement, trace
from rota.domains.zeto.domain import ANON, Zeto
from rota.domains.zeto.records import Configuration, ZetoCoin
from rota.hosting import UserCall
from rota.testing import Ended, Scene, Workload, findings, simulate
from rota.types import IntentId, Party, SubmitMode, node_of

ISSUER = Party("issuer@A")
USERS = tuple(Party(f"user@{node}") for node in "ABC")
DELEGATE = "0x" + "de" * 20


@dataclass(slots=True)
class Town:
    """What its users do, and what it comes to."""

    minted: dict[IntentId, int] = field(default_factory=dict)
    unknown: list[IntentId] = field(default_factory=list)
    proved: int = 0

    def calls(self, scene: Scene) -> Generator[UserCall, IntentId | None, None]:
        """Coins are made, paid, joined and locked; some pay nobody, or have them committed by others, or never."""
        random = scene.random
        self.minted, self.unknown = {}, []
        while True:
            user, other, third = random.choice(USERS), random.choice(USERS), random.choice(USERS)
            amount = random.randint(1, 60)
            match random.randint(0, 9):
                case 0 | 1 | 2:
                    made = [{"to": user, "amount": amount}, {"to": other, "amount": amount, "data": "0x01"}]
                    intent = yield UserCall(ISSUER, "mint", {"mints": made})
                    if intent is not None:
                        self.minted[intent] = 2 * amount
                case 3 | 4 | 5 | 6:
                    yield UserCall(user, "transfer", {"transfers": [{"to": other, "amount": amount}]})
                case 7:
                    shares = [{"to": other, "amount": 2}, {"to": third, "amount": 1}, {"to": user, "amount": 3}]
                    mode = random.choice((SubmitMode.AUTO, SubmitMode.EXTERNAL))
                    yield UserCall(user, "transfer", {"transfers": shares}, mode)
                case 8:
                    yield UserCall(user, "lock", {"amount": amount, "delegate": DELEGATE})
                case _:
                    nobody = f"nobody@{random.choice('ABC')}"
                    intent = yield UserCall(user, "transfer", {"transfers": [{"to": nobody, "amount": 1}]})
                    self.unknown += [intent] if intent is not None else []

    def prove(self, statement: object) -> None:
        """A prover could prove it: no rule of the circuit is broken."""
        assert isinstance(statement, Statement), "what zeto states"
        assert trace(statement).broken == {}, statement
        self.proved += 1

    def must_hold(self, ended: Ended) -> Iterator[str]:
        """What was minted is there, nobody unknown was paid, and every coin is with its owner."""
        expected = sum(self.minted.get(intent, 0) for intent in ended.committed)
        coins = [state for state in ended.unspent if isinstance(state.record, ZetoCoin)]
        held = sum(coin.record.amount for coin in coins if isinstance(coin.record, ZetoCoin))
        if held != expected:
            yield f"{expected} was minted, and {held} is there"
        yield from (f"{intent!r} has paid an unknown receiver" for intent in self.unknown if intent in ended.committed)
        for coin in coins:
            for node in {node_of(reader) for reader in coin.readers}:
                if coin.id not in ended.held[node]:
                    yield f"{node} owns {coin.record} and does not hold it"

    def workload(self) -> Workload:
        """For the simulator."""
        return Workload(ISSUER, {"tokenName": ANON}, self.calls, self.must_hold, node_count=3)


def test_no_coin_is_made_or_lost_in_calm() -> None:
    town = Town()
    reports = simulate(Zeto(), town.workload(), seeds=(1,), minutes=0.05, faults=(), prove=town.prove)
    assert findings(reports) == []
    assert reports[0].confirmed > 10
    assert town.proved > 5


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
    town = Town()
    (finding, *_) = findings(
        simulate(Generous(), town.workload(), seeds=(1,), minutes=0.05, faults=(), prove=town.prove)
    )
    assert "'conservation': 1" in finding


@pytest.mark.slow
def test_no_coin_is_made_or_lost_under_faults() -> None:
    town = Town()
    reports = simulate(Zeto(), town.workload(), seeds=range(4), minutes=0.2, prove=town.prove)
    assert findings(reports) == []
    assert sum(report.confirmed for report in reports) > 100
    assert sum(report.reverted for report in reports) > 20
    assert town.proved > 50
