"""What a user asks for, before it becomes an intent with an id; one per node.

Theory of operation. An idempotency key that is known gets the existing id; a dependency must be an intent
of this node. Neither is kept in memory for ever: the store is asked, and what ends or is accepted while it
answers is remembered until it has. An intent that cannot be accepted is refused before it gets an id, and
so is one that comes while `intents_open_max` are under way: whoever asks too fast is told to come back.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.config import Config
from rota.core.effects import LookUpIntents, ReplyToUser
from rota.core.events import IntentsLookedUp, IntentSubmitted
from rota.types import ContractAddress, Intent, IntentId, NodeName, Outcome

OUTCOMES_KEPT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Accepted:
    """An intent that may be made durable, with what is known of what it depends on."""

    contract: ContractAddress
    event: IntentSubmitted


class Intake:
    """The intents of this node that are not durable yet, and the latest outcomes."""

    def __init__(self, node: NodeName, config: Config) -> None:
        self.node = node
        self.config = config
        self.outcomes: dict[IntentId, Outcome] = {}
        self.open: dict[IntentId, ContractAddress] = {}
        self._asking: dict[int, tuple[ContractAddress, IntentSubmitted]] = {}
        self._writing: dict[IntentId, None] = {}
        self._keys: dict[str, IntentId] = {}
        self._token = 0

    def take(self, contract: ContractAddress, event: IntentSubmitted) -> Accepted | LookUpIntents | ReplyToUser:
        """Accept it, refuse it, or ask the store first."""
        intent = event.intent
        flaw = self._flaw_of(intent)
        if flaw:
            return ReplyToUser(event.reply_to, intent.id, flaw)
        if not intent.idempotency_key and not intent.depends_on:
            return self._accept(contract, event, ())
        self._token += 1
        self._asking[self._token] = (contract, event)
        return LookUpIntents(self._token, intent.idempotency_key, intent.depends_on)

    def take_answer(self, answer: IntentsLookedUp) -> Accepted | ReplyToUser | None:
        """The store has answered; what happened meanwhile counts too. A late answer changes nothing."""
        asked = self._asking.pop(answer.token, None)
        if asked is None:
            return None
        contract, event = asked
        intent = event.intent
        existing = answer.existing or self._keys.get(intent.idempotency_key)
        if existing is not None:
            return ReplyToUser(event.reply_to, existing, self._flaw_of_repetition(existing))
        outcomes = dict(answer.outcomes) | {other: self.outcomes[other] for other in self.outcomes}
        for other in intent.depends_on:
            if other not in outcomes and other not in answer.unfinished:
                error = f"dependsOn: {other.hex()} is not an intent of {self.node}"
                return ReplyToUser(event.reply_to, intent.id, error)
        known = tuple((other, outcomes[other]) for other in intent.depends_on if other in outcomes)
        return self._accept(contract, event, known)

    def turn_away(self, event: IntentSubmitted) -> ReplyToUser:
        """It cannot be taken now: nothing of it is kept."""
        self._drop(event.intent)
        return ReplyToUser(event.reply_to, event.intent.id, self._busy())

    def take_written(self, intent: Intent, succeeded: bool) -> None:
        """It is durable, or it is not and its key is free again."""
        self._writing.pop(intent.id, None)
        if succeeded:
            self.open[intent.id] = intent.contract
        else:
            self._drop(intent)
        self._forget()

    def note_outcome(self, intent: IntentId, outcome: Outcome) -> None:
        """An intent of this node is final."""
        self.open.pop(intent, None)
        self.outcomes[intent] = outcome
        self._forget()

    def _accept(
        self, contract: ContractAddress, event: IntentSubmitted, known: tuple[tuple[IntentId, Outcome], ...]
    ) -> Accepted:
        intent = event.intent
        self._writing[intent.id] = None
        if intent.idempotency_key:
            self._keys[intent.idempotency_key] = intent.id
        return Accepted(contract, IntentSubmitted(event.reply_to, intent, known))

    def _flaw_of(self, intent: Intent) -> str:
        if not intent.sender.endswith(f"@{self.node}"):
            return f"from: {intent.sender} is not a party of {self.node}"
        under_way = len(self.open) + len(self._writing) + len(self._asking)
        return self._busy() if under_way >= self.config.intents_open_max else ""

    def _busy(self) -> str:
        return f"busy: {len(self.open)} intents are under way at {self.node}; try again later"

    def _flaw_of_repetition(self, existing: IntentId) -> str:
        if existing in self._writing:
            return "idempotencyKey: an intent with this key is being accepted; try again"
        return ""

    def _drop(self, intent: Intent) -> None:
        self._writing.pop(intent.id, None)
        if self._keys.get(intent.idempotency_key) == intent.id:
            del self._keys[intent.idempotency_key]

    def _forget(self) -> None:
        """While the store is asked or written to, its answers may be older than what we know: then we keep all."""
        if self._asking or self._writing:
            return
        self._keys.clear()
        for intent in list(self.outcomes)[: max(0, len(self.outcomes) - OUTCOMES_KEPT_MAX)]:
            del self.outcomes[intent]
