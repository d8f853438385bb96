"""The members of a round, the transitions that rounds depend on, and stuck rounds (protocol §7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import Final, NamedTuple

from rota.calldata import AuthCost, fitting
from rota.model.types import NO_ATTESTERS, Attesters, Leaf, NodeName, Transition
from rota.sequencer.context import Context
from rota.sequencer.coordinator_owner import OwningCoordinator
from rota.sequencer.held_intent import HeldIntent, Phase, Round
from rota.sequencer.makers import Maker
from rota.wire.messages import MissingEndorser, Refusal
from rota.wire.sizes import fitting as fitting_a_message


def endorsers_missing(
    rounds: Iterable[Round], sender: NodeName, now_ms: int, after_ms: int
) -> tuple[MissingEndorser, ...]:
    """Return the endorsers for which rounds with intents of a sender wait longer than this, the longest first."""
    found: dict[NodeName, MissingEndorser] = {}
    for opened in sorted(rounds, key=lambda each: each.opened_at_ms):
        age_ms = now_ms - opened.opened_at_ms
        is_stuck = opened.phase is Phase.ENDORSING and age_ms > after_ms
        if is_stuck and any(member.sender == sender for member in opened.members.values()):
            for node in opened.missing():
                found.setdefault(node, MissingEndorser(node, age_ms, opened.rejections.get(node, "")))
    return tuple(found.values())


class Kind(NamedTuple):
    """The common properties of a round's members: their committer, the limit of their validity, their plan."""

    is_external: bool
    is_prepared: bool
    required: tuple[NodeName, ...] = ()


def kind_of(transaction: HeldIntent) -> Kind:
    return Kind(transaction.is_external, transaction.made.preparation is not None, transaction.attesters.endorsers)


# So many stuck rounds of one sender do not count towards its limit.
STUCK_ROUNDS_MAX: Final = 8


def stuck_rounds(context: Context, rounds: Iterable[Round], sender: NodeName) -> tuple[list[Round], list[Round]]:
    """Return the rounds that an endorser named by a plan does not approve in time: of this sender, and of others."""
    before_ms = context.now_ms - context.config.request_timeout_ms
    stuck = [opened for opened in rounds if opened.is_approving and opened.opened_at_ms <= before_ms]
    return [each for each in stuck if each.apart == sender], [each for each in stuck if each.apart != sender]


def makers_of(coordinator: OwningCoordinator, members: list[HeldIntent]) -> dict[Leaf, Maker]:
    """Return the makers here of states that these members need, besides one another."""
    inside = {member.leaf for member in members}
    makers: dict[Leaf, Maker] = {}
    for member in members:
        for placed in coordinator.graph.dependencies(member.leaf):
            maker = coordinator.transactions.get(placed.intent)
            if maker is not None and placed.point is None and placed.leaf not in inside:
                makers[placed.leaf] = Maker(maker.made, maker.size_bytes, maker.seen_by)
    return makers


def is_short(context: Context, transition: Transition) -> bool:
    """Whether less than half of its validity is left: in a shared round all others would expire with it."""
    config = context.config
    validity_s = config.validity_s if transition.preparation is None else config.prepared_validity_s
    return (transition.valid_until_s - context.chain_time_s) * 2 < validity_s


def attesters_of(opened: Round) -> tuple[Attesters, ...]:
    """Return the attesters that the plans of its members add, for each; empty when there are none."""
    found = tuple(member.attesters for member in opened.members.values())
    return found if any(each != NO_ATTESTERS for each in found) else ()


def leaves_named(transaction: HeldIntent) -> Iterable[Leaf]:
    """Return the leaves that made the states it spends or reads."""
    transition = transaction.made
    return (reference.leaf for reference in (*transition.inputs, *transition.reads))


def without_detours(coordinator: OwningCoordinator, waiting: Iterable[HeldIntent]) -> Iterator[HeldIntent]:
    """Yield those that may share a round: none depends on another round that depends on one of these.

    Of two rounds that depend on one another neither could be dispatched before the other. A transition that waits for a
    round again, because its round was dissolved, may have dependents in other rounds.
    """
    between: set[Leaf] = set()
    for transaction in waiting:
        if not between.isdisjoint(leaves_named(transaction)):
            between.add(transaction.leaf)
            continue
        yield transaction
        if transaction.digest is not None:
            between.update(_in_rounds_on(coordinator, transaction.leaf))


def _in_rounds_on(coordinator: OwningCoordinator, leaf: Leaf) -> dict[Leaf, None]:
    """Return all members of the rounds that depend on this leaf, directly or not: a round is dispatched as a whole."""
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


def members_of_next_round(coordinator: OwningCoordinator, waiting: list[HeldIntent]) -> list[HeldIntent]:
    """Return one that goes alone because its endorsers could not agree on a round, or the next ones of one kind.

    A round is no larger than one base-ledger transaction (ledger), and one message, can hold.
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
    """Return the refusal without its signature, which is not the endorser's own, or is for another leaf."""
    return refusal._replace(signature=b"")
