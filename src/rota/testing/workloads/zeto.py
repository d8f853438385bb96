"""Users of zero-knowledge tokens: no coin is made or lost, and what is to be proved is true. No proof is made."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from rota.domains.zeto.circuits import Statement, trace
from rota.domains.zeto.domain import ANON
from rota.domains.zeto.records import ZetoCoin
from rota.host import UserCall
from rota.model.types import IntentId, Party, SubmitMode, node_of
from rota.testing.simulation import Ended, Scene, Workload

ISSUER = Party("issuer@A")
USERS = tuple(Party(f"user@{node}") for node in "ABC")
DELEGATE = "0x" + "de" * 20


@dataclass(slots=True)
class CoinUsers:
    """What its users do, and what it comes to. Of so many statements one is looked at, which costs most of a run."""

    looked_at_one_in: int = 1
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
        self.proved += 1
        if self.proved % self.looked_at_one_in == 0:
            broken = trace(statement).broken
            assert not broken, f"no proof can be made, because of {broken}: {statement}"

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
