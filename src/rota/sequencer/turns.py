"""Turns: limits on reservations of states for prepared transitions, by sender and time (protocol §4.2).

Theory of operation. States reserved for a prepared transition (`kept.py`) are unusable for others. So that no sender
freezes the states of the others:

- States are reserved for an intent until the bound of its first version. Later versions are within it.
- Each sender has a share (`shares.py`) of the intents with reservations and of the reserved states.
- When a reservation ends and the chain has none of its states spent by their intent, because that expired or because a
  version of it was committed that spends none of them (an empty one, for example), the sender rests: it gets none of
  them reserved for as long as they were. In `ring` mode, where members share states, it gets no others either:
  for as long the first time, and twice as long each time that follows, up to eight times. Clean time undoes this step
  by step. The first time is excused, and a sender may leave one state unused for every eight reserved ones that it
  used: a prepared transition without inputs earns nothing, and costs nothing when it is not used.
  In the other modes a node's parties have coins of their own, and one party must not delay the others.

Bounds are chain time. Rests are by the node's own clock: while all senders rest, a chain may stand still. Endorser
and coordinator of a node share this. A restart forgets the rests, and the senders of existing reservations:
those count for no sender.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from rota.machine.bounded import forget_oldest
from rota.machine.context import VALIDITY_MARGIN_S
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import IntentId, KeptStates, Mode, NodeName, StateId
from rota.sequencer.context import Context
from rota.sequencer.kept import SNAPSHOT_LOCKS_MAX
from rota.sequencer.shares import Shares

INTENTS_MAX: Final = 2_048
STATES_MAX: Final = SNAPSHOT_LOCKS_MAX
RESTS_MAX: Final = 8_192
SENDERS_MAX: Final = 1_024
REST_STEPS_MAX: Final = 4
USED_PER_UNUSED: Final = 8
# In reserved states that were used. An unused reservation of one intent costs no more than all of it.
CREDIT_MAX: Final = 64
# A failed settlement may be retried at once: every sender may leave one intent unused.
FIRST_EXCUSES: Final = 1
NOBODY: Final = NodeName("")


def longest_keeping_s(config: Config) -> int:
    """Return the longest time for which states are reserved for one intent."""
    return max(config.validity_s, config.prepared_validity_s) + VALIDITY_MARGIN_S


def longest_rest_s(config: Config) -> int:
    """Return the longest rest of a sender after reserved states that were not used."""
    return longest_keeping_s(config) << (REST_STEPS_MAX - 1)


@dataclass(slots=True)
class Turn:
    """The reservation of an intent, for all its versions, until `until_s`."""

    sender: NodeName
    since_s: int
    until_s: int
    states: dict[StateId, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Standing:
    """A sender's use of reservations. It rests until `until_s`, for `length_s`, unless `step` is 0."""

    excuses: int = field(default_factory=lambda: FIRST_EXCUSES)
    credit: int = 0
    step: int = 0
    until_s: int = 0
    length_s: int = 1


class Turns:
    """The turns of one contract at one node."""

    def __init__(self, context: Context, restored: Iterable[KeptStates] = ()) -> None:
        self.context = context
        self.intents = Shares(context.contract, context.proven, is_endorsers=True)
        self.states = Shares(context.contract, context.proven, is_endorsers=True)
        self.turns: dict[IntentId, Turn] = {}
        self.rests: dict[tuple[NodeName, StateId], int] = {}
        self.standings: dict[NodeName, _Standing] = {}
        for kept in restored:
            self.take(NOBODY, kept)

    def flaw_of(self, sender: NodeName, intent: IntentId, states: Collection[StateId], until_s: int) -> str:
        """Return why these states cannot be reserved for a version of this intent with this bound, or ""."""
        turn = self.turns.get(intent)
        if turn is not None and until_s > turn.until_s:
            return f"states are kept for an earlier version of it until {turn.until_s}, and it is valid longer"
        new = [state for state in dict.fromkeys(states) if turn is None or state not in turn.states]
        if turn is not None and not new:
            return ""
        now_s = self._now_s
        rests_until_s = max((self.rests.get((sender, state), 0) for state in new), default=0)
        standing = self.standings.get(sender)
        if standing is not None and standing.step:
            rests_until_s = max(rests_until_s, standing.until_s)
        if rests_until_s > now_s:
            return f"states were kept for its sender and not used: others have their turn for {rests_until_s - now_s} s"
        has_room = turn is not None or self.intents.has_room(sender, 1, INTENTS_MAX)
        if not has_room or not self.states.has_room(sender, len(new), STATES_MAX):
            return "too many states are kept for its sender already"
        return ""

    def bound_of(self, intent: IntentId, until_s: int) -> int:
        """Return the bound of the intent's reservation, or `until_s` if this version is its first one."""
        turn = self.turns.get(intent)
        return until_s if turn is None else turn.until_s

    def take(self, sender: NodeName, kept: KeptStates) -> None:
        """Count these states as reserved for the intent."""
        turn = self.turns.get(kept.intent)
        if turn is None:
            turn = self.turns[kept.intent] = Turn(sender, self._now_s, kept.valid_until_s)
            self.intents.take(sender, 1)
        new = dict.fromkeys(state for state in kept.inputs if state not in turn.states)
        turn.states.update(new)
        if new:
            self.states.take(turn.sender, len(new))

    def drop(self, intent: IntentId) -> None:
        """End the intent's reservation."""
        turn = self.turns.pop(intent, None)
        if turn is not None:
            self.intents.give_back(turn.sender, 1)
            if turn.states:
                self.states.give_back(turn.sender, len(turn.states))

    # Outcomes from the ledger.

    def take_outcome(self, outcome: LedgerOutcome) -> None:
        """Count the reserved states that the intent's outcome spends as used, in a prepared version or another one.

        If it spends none of them, all were left unused. If it spends some, the others may have been
        reserved for an earlier version on other states, which is no fault.
        """
        turn = self.turns.get(outcome.intent)
        if turn is None or outcome.status is not LedgerStatus.COMMITTED:
            return
        used = [state for state in outcome.inputs if state in turn.states]
        self._note_used(turn, used)
        if not used:
            self._note_unused(turn)

    def outcome_final(self, outcome: LedgerOutcome) -> None:
        """The outcome is final: end the reservation."""
        if outcome.status is LedgerStatus.COMMITTED:
            self.drop(outcome.intent)

    def time_is_final(self, chain_time_s: int) -> None:
        """End reservations past their bound, as unused."""
        for intent, turn in tuple(self.turns.items()) if self.turns else ():
            if turn.until_s < chain_time_s:
                self._note_unused(turn)
                self.drop(intent)

    @property
    def _now_s(self) -> int:
        return self.context.now_ms // 1_000

    def _note_used(self, turn: Turn, states: Collection[StateId]) -> None:
        if turn.sender != NOBODY and states:
            standing = self._standing_of(turn.sender)
            self.context.proven.note(turn.sender)
            standing.credit = min(standing.credit + len(states), CREDIT_MAX)

    def _note_unused(self, turn: Turn) -> None:
        if turn.sender == NOBODY or not turn.states:
            return
        standing = self._standing_of(turn.sender)
        cost = min(USED_PER_UNUSED * len(turn.states), CREDIT_MAX)
        if standing.excuses:
            standing.excuses -= 1
            return
        if standing.credit >= cost:
            standing.credit -= cost
            return
        now_s = self._now_s
        length_s = max(1, min(now_s - turn.since_s, longest_keeping_s(self.context.config)))
        for state in turn.states:
            self.rests.pop((turn.sender, state), None)
            self.rests[turn.sender, state] = now_s + length_s
            forget_oldest(self.rests, RESTS_MAX)
        if self.context.contract.mode is not Mode.RING:
            return
        if turn.since_s >= standing.until_s:
            # A reservation made before the rest began does not count again.
            clean = (turn.since_s - standing.until_s) // standing.length_s
            standing.step = min(max(0, standing.step - clean) + 1, REST_STEPS_MAX)
        standing.length_s = length_s << (standing.step - 1)
        standing.until_s = max(standing.until_s, now_s + standing.length_s)

    def _standing_of(self, sender: NodeName) -> _Standing:
        standing = self.standings.pop(sender, None) or _Standing()
        self.standings[sender] = standing
        forget_oldest(self.standings, SENDERS_MAX)
        return standing
