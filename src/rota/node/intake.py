"""Checks of a user's request before it becomes an intent with an id; one per node.

Theory of operation. A known idempotency key gets the existing id; a dependency must be an intent of this node,
or names a leaf, which `model/awaited.py` follows. Memory holds only recent keys and outcomes: the store is asked, and
intents that end or are accepted while it answers are remembered until all older questions are answered. An intent that
cannot be accepted is refused before it gets an id, and so is one that comes while `intents_open_max` are under way;
that refusal is temporary.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from rota.machine.effects import ReplyToUser
from rota.machine.events import IntentSubmitted
from rota.model.awaited import with_bounds
from rota.model.config import Config
from rota.model.types import ContractAddress, Intent, IntentId, NodeName, Outcome, Rejected
from rota.node.effects import LookUpIntents
from rota.node.events import IntentsLookedUp
from rota.wire.sizes import intent_bytes

OUTCOMES_KEPT_MAX = 10_000


class Intake:
    """The intents of this node that are on their way to their sequencers, and the latest outcomes."""

    def __init__(self, node: NodeName, config: Config) -> None:
        self.node = node
        self.config = config
        self.outcomes: dict[IntentId, Outcome] = {}
        self.open: dict[IntentId, ContractAddress] = {}
        self._asking: dict[int, IntentSubmitted] = {}
        self._accepting: dict[IntentId, None] = {}
        self._keys: dict[str, IntentId] = {}
        self._accepted_keys: deque[tuple[int, str]] = deque()
        self._noted_at: dict[IntentId, int] = {}
        self._token = 0

    def take(self, event: IntentSubmitted) -> IntentSubmitted | LookUpIntents | ReplyToUser:
        """Refuse it, ask the store about it, or accept it: return it with the known outcomes of its dependencies."""
        intent = event.intent
        flaw = self._flaw_of(intent)
        if flaw is not None:
            return ReplyToUser(event.reply_to, intent.id, flaw.message, field=flaw.field)
        under_way = len(self.open) + len(self._accepting) + len(self._asking)
        if under_way >= self.config.intents_open_max:
            error = f"{under_way} intents are under way at {self.node}; try again later"
            return ReplyToUser(event.reply_to, intent.id, error, is_temporary=True)
        if not intent.idempotency_key and not intent.depends_on:
            return self._accept(event, ())
        question = self.ask(intent.depends_on, intent.idempotency_key)
        self._asking[question.token] = event
        return question

    def bounded(self, event: IntentSubmitted, chain_time_s: int) -> IntentSubmitted:
        """Give each awaited leaf without a bound the default one."""
        if not event.intent.awaits:
            return event
        awaits = with_bounds(event.intent.awaits, chain_time_s + self.config.dependency_wait_s)
        return replace(event, intent=replace(event.intent, awaits=awaits))

    def ask(self, intents: tuple[IntentId, ...], key: str = "") -> LookUpIntents:
        """Return a question to the store, with a token that its answer bears."""
        self._token += 1
        return LookUpIntents(self._token, key, intents)

    def take_answer(self, answer: IntentsLookedUp) -> IntentSubmitted | ReplyToUser | None:
        """Take the store's answer, with the outcomes since the question. A late answer has no effect."""
        event = self._asking.pop(answer.token, None)
        if event is None:
            return None
        intent = event.intent
        existing = answer.existing or self._keys.get(intent.idempotency_key)
        if existing is not None:
            return self._reply_to_repetition(event.reply_to, existing)
        outcomes = dict(answer.outcomes)
        outcomes.update({other: self.outcomes[other] for other in intent.depends_on if other in self.outcomes})
        for other in intent.depends_on:
            if other not in outcomes and other not in answer.unfinished and other not in self.open:
                error = f"{other.hex()} is not an intent of {self.node}"
                return ReplyToUser(event.reply_to, intent.id, error, field="dependsOn")
        known = tuple((other, outcomes[other]) for other in intent.depends_on if other in outcomes)
        return self._accept(event, known)

    def take_accepted(self, intent: Intent) -> None:
        """Note that its sequencer has it: every later answer of the store includes it."""
        self._accepting.pop(intent.id, None)
        self.open[intent.id] = intent.contract
        if self._keys.get(intent.idempotency_key) == intent.id:
            self._accepted_keys.append((self._token, intent.idempotency_key))
        self._forget()

    def take_refused(self, intent: Intent) -> None:
        """Note that it was not accepted after all: its key is free again."""
        self._accepting.pop(intent.id, None)
        if self._keys.get(intent.idempotency_key) == intent.id:
            del self._keys[intent.idempotency_key]

    def note_undone(self, intent: IntentId) -> None:
        """Its receipt no longer holds: later dependents end, as by the store's answer."""
        if intent in self.outcomes:
            self.outcomes[intent] = Outcome.REVERTED

    def note_outcome(self, intent: IntentId, outcome: Outcome) -> None:
        """An intent of this node is final."""
        self.open.pop(intent, None)
        self.outcomes[intent] = outcome
        self._noted_at[intent] = self._token
        self._forget()

    @property
    def remembered_keys(self) -> int:
        """The number of keys kept because a question may be older than they are."""
        return len(self._keys)

    def _accept(self, event: IntentSubmitted, known: tuple[tuple[IntentId, Outcome], ...]) -> IntentSubmitted:
        intent = event.intent
        self._accepting[intent.id] = None
        if intent.idempotency_key:
            self._keys[intent.idempotency_key] = intent.id
        return replace(event, known_outcomes=known) if known else event

    def _flaw_of(self, intent: Intent) -> Rejected | None:
        if not intent.sender.endswith(f"@{self.node}"):
            return Rejected("from", f"{intent.sender} is not a party of {self.node}")
        size_bytes, bytes_max = intent_bytes(intent), self.config.intent_bytes_max
        if size_bytes > bytes_max:
            text = f"is too large: payload and parties take {size_bytes} bytes, and an intent has at most {bytes_max}"
            return Rejected("data", text)
        return None

    def _reply_to_repetition(self, reply_to: str, existing: IntentId) -> ReplyToUser:
        if existing not in self._accepting:
            return ReplyToUser(reply_to, existing)
        error = "an intent with this key is being accepted; try again"
        return ReplyToUser(reply_to, existing, error, is_temporary=True, field="idempotencyKey")

    def _forget(self) -> None:
        """Forget entries older than all open questions, whose answers contain them."""
        oldest = next(iter(self._asking), self._token + 1)
        while self._accepted_keys and self._accepted_keys[0][0] < oldest:
            del self._keys[self._accepted_keys.popleft()[1]]
        while len(self.outcomes) > OUTCOMES_KEPT_MAX:
            intent = next(iter(self.outcomes))
            if self._noted_at[intent] >= oldest:
                return
            del self.outcomes[intent], self._noted_at[intent]
