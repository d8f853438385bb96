"""A judge receives facts and checks each invariant against them as they occur.

An invariant is a class with its protocol sentence as docstring. It declares the kinds of facts that it handles. A
message is dispatched by the kind of its body, so that heartbeats, which are most messages, cost nothing to invariants
that do not handle them. `conclude` judges at the end of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

from rota.model.config import Config
from rota.model.digests import domain_separator
from rota.model.frozen import dataclass
from rota.model.types import Contract, ContractAddress, IntentId, NodeName
from rota.sim.facts import Fact, Sent
from rota.wire.messages import Envelope

FOUND_MAX = 20

Handler = Callable[[Any], None]
Verify = Callable[[NodeName, bytes, bytes], bool]


class Count(NamedTuple):
    """How often an invariant was judged, and in how many of these cases a wrong core would have been detected.

    `by` splits the chances by situation, where an invariant covers several that are independent of one another.
    """

    judged: int
    chances: int
    by: Mapping[str, int]

    def plus(self, other: Count) -> Count:
        """The sum of both."""
        by = {key: self.by.get(key, 0) + other.by.get(key, 0) for key in (*self.by, *other.by)}
        return Count(self.judged + other.judged, self.chances + other.chances, by)


class Violation(NamedTuple):
    """A violated invariant, with the evidence."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


@dataclass(frozen=True, slots=True)
class Terms:
    """The facts about a network that judging needs; `verify` checks endorsers' signatures."""

    nodes: tuple[NodeName, ...]
    contracts: Mapping[ContractAddress, Contract]
    confirmations: int
    verify: Verify
    names: Mapping[IntentId, str] = field(default_factory=dict)
    liars: frozenset[NodeName] = frozenset()
    # The configuration of a node.
    config_of: Callable[[NodeName], Config] = lambda _: Config()

    def separator(self, contract: ContractAddress) -> bytes:
        """The domain separator of a contract's digests."""
        return domain_separator(self.contracts[contract].chain_id, contract)


class Invariant:
    """One sentence of protocol §10. `name` is its number there, and no other checker has it.

    A checker counts its judgements, and each *chance*: a case in which a wrong core would have been detected. A private
    state in a message to a node that may see it is judged, but it is not a chance of S8.
    """

    name: ClassVar[str]
    # Liars are not judged, so their facts and messages are withheld from handlers, except for these kinds.
    hears_of_liars: ClassVar[tuple[type[Any], ...]] = ()

    def __init__(self, terms: Terms, accuse: Callable[[str, str], None]) -> None:
        self.terms = terms
        self._accuse = accuse
        self.judged = 0
        self.chances = 0
        self.by: dict[str, int] = {}
        self.work: dict[str, int] = {}

    def hears(self) -> Mapping[type[Any], Handler]:
        """The handler for each kind of fact and of message body that the invariant needs."""
        raise NotImplementedError

    def conclude(self) -> None:
        """Called at the end of the run, for judgements that were not possible before."""

    def show(self, intent: IntentId) -> str:
        """The name of an intent, for messages."""
        return show(intent, self.terms.names)

    def accuse(self, text: str) -> None:
        """Report a violation with its evidence."""
        self._accuse(self.name, text)


class Judge:
    """Passes each fact to the invariants that handle its kind, and collects violations."""

    def __init__(self, terms: Terms, invariants: tuple[type[Invariant], ...]) -> None:
        self.terms = terms
        self.found: list[Violation] = []
        self.left_out: tuple[str, ...] = ()
        self.invariants = tuple(invariant(terms, self._note) for invariant in invariants)
        self._handlers: dict[type[Any], tuple[Handler, ...]] = {}
        for invariant in self.invariants:
            for kind, handler in invariant.hears().items():
                if terms.liars and kind not in invariant.hears_of_liars:
                    handler = _of_honest(terms.liars, handler)
                self._handlers[kind] = (*self._handlers.get(kind, ()), handler)

    def leave_out(self, names: tuple[str, ...]) -> None:
        """Ignore violations of these invariants."""
        self.left_out = names

    def tell(self, fact: Fact) -> None:
        """Pass a fact to its handlers."""
        for handler in self._handlers.get(type(fact), ()):
            handler(fact)

    def tell_sent(self, node: NodeName, peer: NodeName, envelope: Envelope) -> None:
        """Pass a sent message to the handlers of its body's kind.

        A liar's message about an unknown contract is ignored.
        """
        if node in self.terms.liars and envelope.contract not in self.terms.contracts:
            return
        handlers = self._handlers.get(type(envelope.body))
        if handlers is not None:
            fact = Sent(node, peer, envelope)
            for handler in handlers:
                handler(fact)

    def conclude(self) -> None:
        """Conclude each invariant at the end of the run."""
        for invariant in self.invariants:
            invariant.conclude()

    def counts(self) -> dict[str, Count]:
        """How often each invariant was judged, by name."""
        return {each.name: Count(each.judged, each.chances, dict(each.by)) for each in self.invariants}

    def work(self) -> dict[str, int]:
        """The work that the invariants counted, useful or wasted, by kind."""
        return {kind: count for each in self.invariants for kind, count in sorted(each.work.items())}

    def _note(self, name: str, text: str) -> None:
        if len(self.found) < FOUND_MAX and name not in self.left_out:
            self.found.append(Violation(name, text))


def _of_honest(liars: frozenset[NodeName], handler: Handler) -> Handler:
    """A handler that ignores facts of liars; facts without an author pass."""

    def handle(fact: object) -> None:
        if getattr(fact, "node", None) not in liars:
            handler(fact)

    return handle


def show(intent: IntentId, names: Mapping[IntentId, str]) -> str:
    """The name of an intent if it has one; a deployment's id is its name."""
    text = intent.rstrip(b"\x00")
    return names.get(intent) or (text.decode() if text.isascii() and text.decode().isprintable() else intent.hex())
