"""A judge hears facts and holds each invariant against them as they come.

An invariant is a class of its own with its protocol sentence as docstring. It names the facts that it wants to hear;
a message is one fact for each kind of its body, so that heartbeats, which are most of them, cost nobody anything. What
can only be judged when a run is over is judged by `conclude`.
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
    """How often an invariant was judged, and in how many of these cases a wrong core would have been seen.

    `by` splits the chances by situation, where an invariant covers several that are independent of one another.
    """

    judged: int
    chances: int
    by: Mapping[str, int]

    def plus(self, other: Count) -> Count:
        """Both together."""
        by = {key: self.by.get(key, 0) + other.by.get(key, 0) for key in (*self.by, *other.by)}
        return Count(self.judged + other.judged, self.chances + other.chances, by)


class Violation(NamedTuple):
    """An invariant that does not hold, and what shows it."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


@dataclass(frozen=True, slots=True)
class Terms:
    """What must be known of a network to judge it; `verify` is its signature scheme for endorsers."""

    nodes: tuple[NodeName, ...]
    contracts: Mapping[ContractAddress, Contract]
    confirmations: int
    verify: Verify
    names: Mapping[IntentId, str] = field(default_factory=dict)
    liars: frozenset[NodeName] = frozenset()
    # How long a node waits, by its own clock, until one that coordinates is silent for it.
    # The configuration of a node.
    config_of: Callable[[NodeName], Config] = lambda _: Config()

    def separator(self, contract: ContractAddress) -> bytes:
        """The domain separator of a contract's digests."""
        return domain_separator(self.contracts[contract].chain_id, contract)


class Invariant:
    """One sentence of protocol §10. `name` is its number there, and no other checker has it.

    A checker counts what it judges, and each *chance*: a case in which a wrong core would have been seen. A private
    state in a message to a node that may see it is judged, but it is no chance of S8.
    """

    name: ClassVar[str]
    # Nobody is judged by what liars do; these facts and messages of theirs are told all the same.
    hears_of_liars: ClassVar[tuple[type[Any], ...]] = ()

    def __init__(self, terms: Terms, accuse: Callable[[str, str], None]) -> None:
        self.terms = terms
        self._accuse = accuse
        self.judged = 0
        self.chances = 0
        self.by: dict[str, int] = {}
        self.work: dict[str, int] = {}

    def hears(self) -> Mapping[type[Any], Handler]:
        """The kinds of facts, and of messages, that it wants to be told."""
        raise NotImplementedError

    def conclude(self) -> None:
        """The run is over: judge what could not be judged before."""

    def show(self, intent: IntentId) -> str:
        """An intent's name."""
        return show(intent, self.terms.names)

    def accuse(self, text: str) -> None:
        """It does not hold, and this shows it."""
        self._accuse(self.name, text)


class Judge:
    """Tells each fact to those invariants that want to hear it, and keeps what they find."""

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
        """What these invariants find does not count."""
        self.left_out = names

    def tell(self, fact: Fact) -> None:
        """Something happened."""
        for handler in self._handlers.get(type(fact), ()):
            handler(fact)

    def tell_sent(self, node: NodeName, peer: NodeName, envelope: Envelope) -> None:
        """A message left a node: told by the kind of its body. One of a liar about no contract concerns nobody."""
        if node in self.terms.liars and envelope.contract not in self.terms.contracts:
            return
        handlers = self._handlers.get(type(envelope.body))
        if handlers is not None:
            fact = Sent(node, peer, envelope)
            for handler in handlers:
                handler(fact)

    def conclude(self) -> None:
        """The run is over."""
        for invariant in self.invariants:
            invariant.conclude()

    def counts(self) -> dict[str, Count]:
        """How often each invariant was judged, by name."""
        return {each.name: Count(each.judged, each.chances, dict(each.by)) for each in self.invariants}

    def work(self) -> dict[str, int]:
        """What was done, wasted or not, as the invariants counted it."""
        return {kind: count for each in self.invariants for kind, count in sorted(each.work.items())}

    def _note(self, name: str, text: str) -> None:
        if len(self.found) < FOUND_MAX and name not in self.left_out:
            self.found.append(Violation(name, text))


def _of_honest(liars: frozenset[NodeName], handler: Handler) -> Handler:
    """A handler that hears nothing of liars; what has no author is for everybody."""

    def handle(fact: object) -> None:
        if getattr(fact, "node", None) not in liars:
            handler(fact)

    return handle


def show(intent: IntentId, names: Mapping[IntentId, str]) -> str:
    """An intent's name, where somebody gave it one; a deployment's id is its name."""
    text = intent.rstrip(b"\x00")
    return names.get(intent) or (text.decode() if text.isascii() and text.decode().isprintable() else intent.hex())
