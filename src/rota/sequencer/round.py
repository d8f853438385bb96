"""One round: transitions that are endorsed together, and how far they are (protocol §7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from rota.calldata import AuthCost, fitting
from rota.model.types import NO_ATTESTERS, Attesters, Contract, Digest, IntentId, Leaf, NodeName, RequestId
from rota.sequencer.context import Context
from rota.sequencer.coordinator_transaction import CoordinatorTransaction
from rota.sequencer.makers import Showing
from rota.wire.messages import EndorserSignature, MissingEndorser, Refusal
from rota.wire.sizes import fitting as fitting_a_message

if TYPE_CHECKING:
    from rota.sequencer.coordinator_base import CoordinatorBase


class Phase(Enum):
    """How far a round is."""

    ENDORSING = "endorsing"
    ENDORSED = "endorsed"
    DISPATCHING = "dispatching"
    DISPATCHED = "dispatched"


class Lack(NamedTuple):
    """What an endorser lacks and we cannot show, and how often in a row it has said that it lacks something."""

    leaves: tuple[Leaf, ...]
    times: int


class Doubted(NamedTuple):
    """The refusals of an endorser whose signatures are being verified, under an id of ours."""

    id: RequestId
    refused: dict[IntentId, Refusal]


@dataclass(slots=True)
class Round:
    """Transitions that are endorsed together, and what they stand on; each endorser is shown what it has not seen.

    One that is `apart` holds transitions of that sender only, and counts against nobody else. The `required` endorsers
    are those that the plan of its transactions names. `wanted` is the digest that endorsers are asked to sign: first
    that of the approval where there are such endorsers.
    """

    number: int
    digest: Digest
    leaves: tuple[Leaf, ...]
    valid_until_s: int
    members: dict[IntentId, CoordinatorTransaction]
    opened_at_ms: int
    showing: Showing
    apart: NodeName | None = None
    phase: Phase = Phase.ENDORSING
    requests: dict[NodeName, RequestId] = field(default_factory=dict)
    signatures: dict[NodeName, bytes] = field(default_factory=dict)
    refusals: dict[NodeName, dict[IntentId, Refusal]] = field(default_factory=dict)
    doubted: dict[NodeName, Doubted] = field(default_factory=dict)
    # Since when an answer of these endorsers is being verified.
    verifying: dict[NodeName, int] = field(default_factory=dict)
    rejections: dict[NodeName, str] = field(default_factory=dict)
    lacking: dict[NodeName, Lack] = field(default_factory=dict)
    ask_count: int = 0
    dispatch_attempts: int = 0
    required: tuple[NodeName, ...] = ()
    approvals: tuple[EndorserSignature, ...] = ()
    wanted: Digest = Digest(b"")

    @property
    def size_bytes(self) -> int:
        """How much of a message its members take."""
        return sum(member.size_bytes for member in self.members.values())

    @property
    def is_approving(self) -> bool:
        """The endorsers that its plan names have not all approved it: no endorser is asked to sign it."""
        return bool(self.required) and not self.approvals

    def needed(self, contract: Contract) -> int:
        """The number of signatures of the wanted digest that it needs."""
        return len(self.required) if self.is_approving else contract.threshold

    def spare(self, contract: Contract) -> int:
        """So many of those that are asked may refuse it: of those that its plan names, none."""
        return 0 if self.is_approving else contract.spare

    def approve(self, now_ms: int) -> None:
        """All that its plan names have approved it: now it is to be signed."""
        self.approvals = tuple(EndorserSignature(*each) for each in self.signatures.items())
        self.wanted, self.opened_at_ms, self.ask_count = self.digest, now_ms, 0
        for answers in (self.signatures, self.doubted, self.verifying, self.rejections, self.lacking):
            answers.clear()

    def missing(self) -> tuple[NodeName, ...]:
        """The endorsers that have neither signed nor refused."""
        return tuple([node for node in self.requests if self.lacks(node)])

    def lacks(self, node: NodeName) -> bool:
        """This endorser was asked and has neither signed nor refused."""
        return node in self.requests and node not in self.signatures and node not in self.refusals


def endorsers_missing(
    rounds: Iterable[Round], sender: NodeName, now_ms: int, after_ms: int
) -> tuple[MissingEndorser, ...]:
    """The endorsers for which rounds with intents of a sender have waited for longer than this, the longest first."""
    found: dict[NodeName, MissingEndorser] = {}
    for opened in sorted(rounds, key=lambda each: each.opened_at_ms):
        age_ms = now_ms - opened.opened_at_ms
        is_stuck = opened.phase is Phase.ENDORSING and age_ms > after_ms
        if is_stuck and any(member.sender == sender for member in opened.members.values()):
            for node in opened.missing():
                found.setdefault(node, MissingEndorser(node, age_ms, opened.rejections.get(node, "")))
    return tuple(found.values())


class Kind(NamedTuple):
    """What the members of one round have in common: who is to commit them, how long they may be valid, their plan."""

    is_external: bool
    is_prepared: bool
    required: tuple[NodeName, ...] = ()


def kind_of(transaction: CoordinatorTransaction) -> Kind:
    return Kind(transaction.is_external, transaction.made.preparation is not None, transaction.attesters.endorsers)


# So many stuck rounds of one sender do not count against the rounds that it may have.
STUCK_ROUNDS_MAX: Final = 8


def stuck_rounds(context: Context, rounds: Iterable[Round], sender: NodeName) -> tuple[list[Round], list[Round]]:
    """The rounds that an endorser named by a plan does not approve in time: of this sender, and of others."""
    before_ms = context.now_ms - context.config.request_timeout_ms
    stuck = [opened for opened in rounds if opened.is_approving and opened.opened_at_ms <= before_ms]
    return [each for each in stuck if each.apart == sender], [each for each in stuck if each.apart != sender]


def attesters_of(opened: Round) -> tuple[Attesters, ...]:
    """Those that the plans of its members add, of each; nothing when there are none."""
    found = tuple(member.attesters for member in opened.members.values())
    return found if any(each != NO_ATTESTERS for each in found) else ()


def leaves_named(transaction: CoordinatorTransaction) -> Iterable[Leaf]:
    """What made the states that it spends or reads."""
    transition = transaction.made
    return (reference.leaf for reference in (*transition.inputs, *transition.reads))


def without_detours(
    coordinator: CoordinatorBase, waiting: Iterable[CoordinatorTransaction]
) -> Iterator[CoordinatorTransaction]:
    """Those that may share a round: none stands on another round that stands on one of these.

    Of two rounds that stand on one another neither could be dispatched before the other. What waits for a round once
    more, because its round was dissolved, may have users in other rounds.
    """
    between: set[Leaf] = set()
    for transaction in waiting:
        if not between.isdisjoint(leaves_named(transaction)):
            between.add(transaction.leaf)
            continue
        yield transaction
        if transaction.digest is not None:
            between.update(_in_rounds_on(coordinator, transaction.leaf))


def _in_rounds_on(coordinator: CoordinatorBase, leaf: Leaf) -> dict[Leaf, None]:
    """All members of the rounds that stand on this leaf, directly or not: a round is dispatched as a whole."""
    found: dict[Leaf, None] = {}
    pending = [leaf]
    while pending:
        for placed in coordinator.graph.dependents_last_first(pending.pop()):
            user = coordinator.transactions.get(placed.intent)
            members = user.round.members.values() if user is not None and user.round is not None else ()
            new = [member.leaf for member in members if member.leaf not in found]
            found.update(dict.fromkeys(new))
            pending += new
    return found


def members_of_next_round(
    coordinator: CoordinatorBase, waiting: list[CoordinatorTransaction]
) -> list[CoordinatorTransaction]:
    """One whose endorsers could not agree on a round goes alone; the others go together with their kind.

    A round is no larger than what one base-ledger transaction holds (ledger), and one message.
    """
    if not waiting or waiting[0].goes_alone:
        return waiting[:1]
    first = waiting[0]
    together = takewhile(lambda transaction: not transaction.goes_alone, waiting)
    alike = (transaction for transaction in together if kind_of(transaction) == kind_of(first))
    config = coordinator.context.config
    some = islice(without_detours(coordinator, alike), config.round_max)
    taken = fitting_a_message(some, lambda transaction: transaction.size_bytes, config.round_bytes_max)
    auth = AuthCost.of(coordinator.context.contract)
    return taken[: fitting((transaction.made for transaction in taken), auth)]


def unsigned(refusal: Refusal) -> Refusal:
    """As good as unsigned: its signature is not the endorser's own, or is of another leaf."""
    return refusal._replace(signature=b"")
