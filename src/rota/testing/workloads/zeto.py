"""Users of zero-knowledge tokens: no coin is created or lost, and statements to prove are true. No proof is made."""

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
    """The users' calls, and the amounts minted. Checks one of `looked_at_one_in` statements, the main cost of a run."""

    looked_at_one_in: int = 1
    minted: dict[IntentId, int] = field(default_factory=dict)
    unknown: list[IntentId] = field(default_factory=list)
    proved: int = 0

    def calls(self, scene: Scene) -> Generator[UserCall, IntentId | None, None]:
        """Mint, pay, join and lock coins; some transfers have an unknown payee, some are external."""
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
        """Check that a prover could prove a statement: it breaks no rule of the circuit."""
        assert isinstance(statement, Statement), "what zeto states"
        self.proved += 1
        if self.proved % self.looked_at_one_in == 0:
            broken = trace(statement).broken
            assert not broken, f"no proof can be made, because of {broken}: {statement}"

    def must_hold(self, ended: Ended) -> Iterator[str]:
        """The unspent total is what was minted, no unknown payee was paid, and every coin is at its owner's node."""
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
        """The workload for the simulator."""
        return Workload(ISSUER, {"tokenName": ANON}, self.calls, self.must_hold, node_count=3)
