"""Random rounds of the kind that make a ledger sweat: chained, conflicting, repeated, partly left out, and worse.

One seed, one sequence. The writer is told which states are there, and names others on purpose now and then.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from rota.calldata import NO_CONDITION, Entry
from rota.model.types import (
    NO_DELEGATE,
    Call,
    ContractAddress,
    Leaf,
    LockChange,
    LockKind,
    Preparation,
    StateId,
    Transition,
)
from tests.contracts.evm import ALICE, BOB, TIME_S, call_data, keccak
from tests.contracts.kit import VALID_UNTIL_S, ids, write

CONDITION: Final = keccak(b"condition")
ROUND_MAX: Final = 9
KNOWN_MAX: Final = 30
CALL_GAS: Final = 60_000
LOCKS: Final = tuple(keccak(b"lock %d" % number) for number in range(3))
# Those of `Lockable`; it reverts a round with another one.
LOCKABLE: Final = (LockKind.SET, LockKind.DELEGATE, LockKind.SPENT, LockKind.CANCELLED)
DELEGATES: Final = (NO_DELEGATE, ALICE, BOB, BOB)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A round, or a part of it, and how it is submitted."""

    entries: tuple[Entry, ...]
    time_s: int
    valid_until_s: int
    signers: int
    sender: ContractAddress
    condition: bytes
    is_target_broken: bool


@dataclass(slots=True)
class RandomRounds:
    """Writes one attempt after the other."""

    chance: random.Random
    separator: bytes
    target: ContractAddress
    threshold: int
    is_proved: bool = False
    has_locks: bool = False
    intents: int = 0
    known: list[StateId] = field(default_factory=list)
    available: list[StateId] = field(default_factory=list)
    rounds: list[tuple[Transition, ...]] = field(default_factory=list)
    permitted: list[Transition] = field(default_factory=list)
    delegates: dict[bytes, ContractAddress] = field(default_factory=dict)

    def attempt(self) -> Attempt:
        """A new round or an old one, whole or in part, mostly submitted as it should be."""
        chance = self.chance
        if self.rounds and chance.random() < 0.25:
            round_ = chance.choice(self.rounds[-5:])
        else:
            round_ = self._round()
            self.rounds.append(round_)
        is_whole = chance.random() < 0.7
        entries: tuple[Entry, ...] = tuple(t if is_whole or chance.random() < 0.7 else t.leaf for t in round_)
        is_expired = chance.random() < 0.04
        return Attempt(
            entries,
            VALID_UNTIL_S + 1 if is_expired else chance.randint(TIME_S, VALID_UNTIL_S),
            VALID_UNTIL_S,
            max(0, self.threshold - 1) if chance.random() < 0.04 else self.threshold,
            BOB if chance.random() < 0.85 else ALICE,
            CONDITION if chance.random() < 0.9 else NO_CONDITION,
            chance.random() < 0.3,
        )

    def _round(self) -> tuple[Transition, ...]:
        made: list[Transition] = []
        for _ in range(self.chance.randint(1, ROUND_MAX)):
            made.append(self._transition(made))
        for transition in made:
            self.known += ids(transition)
        return tuple(made)

    def _transition(self, made: list[Transition]) -> Transition:
        chance = self.chance
        if self.intents and chance.random() < 0.1:
            number = chance.randrange(max(0, self.intents - KNOWN_MAX), self.intents)
        else:
            number = self.intents
            self.intents += 1
        inputs = self._states(made, 0.25)
        outputs = chance.choice((0, 1, 1, 2, 2, 3, 15))
        info = chance.choice((0, 0, 1))
        if self.is_proved:
            # What a circuit has room for: coins beside outputs, few of them unless they are minted, and no calls.
            inputs = inputs[:10]
            info = outputs = min(outputs, 8) if inputs else outputs
        return write(
            self.separator,
            number,
            inputs=inputs,
            reads=self._states(made, 0.7),
            outputs=outputs,
            info=info,
            calls=() if self.is_proved else self._calls(),
            preparation=Preparation(BOB, CONDITION) if chance.random() < 0.06 else None,
            lock=self._lock() if self.has_locks else None,
            salt=b"%d" % chance.randrange(1 << 30),
            page=chance.choice((b"alice", b"alice", b"bob")),
            is_proved=self.is_proved,
        )

    def _states(self, made: list[Transition], none: float) -> tuple[StateId, ...]:
        """Some of what this round or an earlier one makes; seldom one that nobody makes, or one of them twice."""
        chance = self.chance
        if chance.random() < none:
            return ()
        if made and made[-1].outputs and chance.random() < 0.4:
            return ids(made[-1])
        near = [state for transition in made[-3:] for state in ids(transition)]
        pool = chance.choice((near or self.available, near or self.available, self.available, self.available))
        if chance.random() < 0.08:
            pool = self.known[-KNOWN_MAX:]
        chosen = chance.sample(pool, min(len(pool), chance.choice((1, 1, 2, 3))))
        if chosen and chance.random() < 0.05:
            chosen.append(chosen[0])
        if chance.random() < 0.05:
            chosen.append(StateId(Leaf(keccak(b"%d" % chance.randrange(1 << 30))), chance.choice((0, 14, 15, 255))))
        if chosen and chance.random() < 0.03:
            chosen.append(StateId(chosen[0].leaf, chance.choice((15, 16, 240, 255))))
        return tuple(chosen)

    def _lock(self) -> LockChange | None:
        """A change of one of a few locks, which mostly presumes what another one left."""
        chance = self.chance
        if chance.random() < 0.75:
            return None
        lock, presumed, delegate = chance.choice(LOCKS), chance.choice(DELEGATES), chance.choice(DELEGATES)
        if chance.random() < 0.7:
            presumed = self.delegates.get(lock, NO_DELEGATE)
        kind = chance.choice((LockKind.SET,) * 3 + LOCKABLE)
        if kind is LockKind.DELEGATE:
            return LockChange(kind=kind, lock=lock, presumed=presumed, delegate=delegate)
        if kind is not LockKind.SET:
            return LockChange(kind=kind, lock=lock, presumed=presumed)
        number = self.intents
        self.intents += 1
        inputs = self._states([], 0.7)
        spends, cancels = (
            write(self.separator, number, inputs=inputs, outputs=2, salt=salt) for salt in (b"spend", b"cancel")
        )
        self.permitted = [*self.permitted, spends, cancels][-KNOWN_MAX:]
        return LockChange(
            kind=kind,
            lock=lock,
            presumed=presumed,
            delegate=delegate,
            expires_at_s=chance.choice((TIME_S + 100, VALID_UNTIL_S, 2**64 - 1)),
            spends=spends.leaf,
            cancels=cancels.leaf,
        )

    def _calls(self) -> tuple[Call, ...]:
        chance = self.chance
        if chance.random() < 0.75:
            return ()
        kinds = [Call(self.target, CALL_GAS, call_data("Target", "touch"))] * 4
        kinds += [Call(self.target, CALL_GAS, call_data("Target", "fail"))]
        kinds += [Call(self.target, 5_000, call_data("Target", "burn"))]
        kinds += [Call(ContractAddress("0x" + "77" * 20), CALL_GAS, b"nobody")]
        return tuple(chance.choice(kinds) for _ in range(chance.choice((1, 1, 2, 3))))


def runs_well(transition: Transition, is_target_broken: bool) -> bool:
    """What the calls that are written here do: whether all of a transition's succeed."""
    good = call_data("Target", "touch")
    return not is_target_broken and all(call.data == good for call in transition.calls)
