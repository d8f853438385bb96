"""Endorsing: a round's transitions are judged on top of one another, each by its domain.

A transition that lacks a state is not judged; its missing states are listed, and so are failures of the domain. The
`from` party's signature was verified before, and the caller signs the digest if all is right, or its refusals of
leaves.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeVar

from rota.domains.available import Available, Known, known_in
from rota.domains.base import Lacking, NewState, Proposal, Refused, Rejected
from rota.domains.contents import Content, distribution_of, unseal
from rota.domains.records import Record
from rota.host.contracts import NO_BACKGROUND, Background, Held, Hosted, bounded, flaw_of_calls, history_of, shelf_of
from rota.host.locking import makes_of, stated_lock
from rota.host.planning import attesters_of, fewer_than, has_plans
from rota.model.digests import leaf_of_transition, state_commitment
from rota.model.frozen import dataclass
from rota.model.types import NO_ATTESTERS, Attesters, Leaf, NodeName, Party, State, StateId, Transition
from rota.sequencer.attestation import attesters_at
from rota.sequencer.effects import CheckRound
from rota.wire.messages import Refusal

# Between two turns of the event loop: reading a state takes some ten microseconds, and a maker takes more.
STATES_A_STEP: Final = 128
MAKERS_A_STEP: Final = 32

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Checked:
    """An endorser's judgement: refusals with reasons, and the states that are missing to judge the others.

    `judged` are the leaves that are refused whatever round they are in and however they are shown: those refusals are
    to be signed. For the leaves in `failures` the domain failed, which is no judgement.
    """

    refusals: tuple[Refusal, ...] = ()
    missing: tuple[StateId, ...] = ()
    judged: tuple[Leaf, ...] = ()
    failures: tuple[tuple[Leaf, Exception], ...] = ()


def check(
    hosted: Hosted, order: CheckRound, held: Held, node: NodeName, background: Background = NO_BACKGROUND
) -> Checked:
    """Judge a round's transitions on top of one another. One that lacks a state is not judged: do not sign it."""
    return finished(checking(hosted, order, held, node, background))


def finished(steps: Generator[None, None, Answer]) -> Answer:
    """The result of these steps, taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def checking(
    hosted: Hosted, order: CheckRound, held: Held, node: NodeName, background: Background = NO_BACKGROUND
) -> Generator[None, None, Checked]:
    """The same in steps, one for each transition: a sender chooses how long one takes, within the domain's limits.

    A coordinator chooses how many makers it shows, so these are taken in batches.
    """
    if node not in hosted.contract.endorsers:
        reason = f"{node} does not endorse here"
        return Checked(tuple(Refusal(each.intent, reason, (), each.leaf) for each in order.transitions))
    bench = _Bench(hosted, held, node, background)
    for number, maker in enumerate(order.makers, 1):
        bench.take_maker(maker)
        if number % MAKERS_A_STEP == 0:
            yield
    refusals: list[Refusal] = []
    missing: dict[StateId, None] = {}
    judged: list[Leaf] = []
    failures: list[tuple[Leaf, Exception]] = []
    for number, (transition, sender) in enumerate(zip(order.transitions, order.senders, strict=True)):
        shown = attesters_at(order.attesters, number)
        unknown = bench.unknown(transition)
        missing.update(dict.fromkeys(unknown))
        try:
            flaw = None if unknown else bench.flaw_of(transition, sender, shown)
        except Lacking as error:
            missing[error.state] = None
        except Exception as error:
            failures.append((transition.leaf, error))
        else:
            if flaw is not None:
                refusals.append(Refusal(transition.intent, bounded(flaw.reason), (), transition.leaf))
            if flaw is not None and flaw.is_of_leaf and _is_refused_alone(bench, order, transition, sender, shown):
                judged.append(transition.leaf)
        bench.place(transition)
        yield
    return Checked(tuple(refusals), tuple(missing), tuple(judged), tuple(failures))


def _is_refused_alone(
    bench: _Bench, order: CheckRound, transition: Transition, sender: Party, shown: Attesters
) -> bool:
    """Whether it is also refused on top of its own ancestors alone. Its coordinator chose the rest of the round."""
    alone = _Bench(bench.hosted, bench.held, bench.node, bench.background)
    seen = {each.leaf: each for each in (*order.makers, *order.transitions)}
    ground: dict[Leaf, Transition] = {}
    pending = [transition]
    while pending:
        step = pending.pop()
        for reference in (*step.inputs, *step.reads):
            maker = seen.get(reference.leaf)
            if maker is not None and maker.leaf not in ground:
                ground[maker.leaf] = maker
                pending.append(maker)
    for maker in reversed(ground.values()):
        alone.take_maker(maker)
    try:
        flaw = None if alone.unknown(transition) else alone.flaw_of(transition, sender, shown)
    except Exception:
        return False
    return flaw is not None and flaw.is_of_leaf


class _Flaw(NamedTuple):
    """Why an endorser does not sign a transition; `is_of_leaf` unless it is in how the transition was shown to it."""

    reason: str
    is_of_leaf: bool = True


class _Misshown(Refused):
    """A part that no leaf binds is wrong, so any node that passed the transition on may have changed it."""


class _Bench:
    """An endorser's view of a round: the states that it knows, and those that the round has spent so far."""

    def __init__(self, hosted: Hosted, held: Held, node: NodeName, background: Background) -> None:
        self.hosted = hosted
        self.known = hosted.known
        self.held = held
        self.node = node
        self.background = background
        self.recall = background.recall
        self.verifiers = background.verifiers
        self.speculative: dict[StateId, State] = {}
        self.spent: dict[StateId, None] = {}
        self.history = history_of(hosted, node, self.speculative.get, held.get, background.recall)
        self._available: Available | None = None

    def take_maker(self, maker: Transition) -> None:
        """Use a maker only if its leaf binds it: then a state of that leaf can be nothing else."""
        if leaf_of_transition(self.hosted.separator, maker) == maker.leaf:
            self.place(maker)

    def place(self, transition: Transition) -> None:
        """Make its outputs available to the next transitions, and its inputs unavailable."""
        self.spent.update(dict.fromkeys(transition.inputs))
        made = [state for number, state in enumerate(transition.outputs) if self._is_made(transition, number, state)]
        self.speculative.update({state.id: state for state in made})
        if self._available is not None:
            for reference in transition.inputs:
                self._available.remove(reference)
            for state in made:
                self._available.add(state.as_seen_by(self.node))

    def _is_made(self, transition: Transition, number: int, state: State) -> bool:
        """Whether the bytes are here, and match the commitment that the leaf binds."""
        is_bound = state.content is not None and state_commitment(state.content) == state.commitment
        return is_bound and state.id == (transition.leaf, number)

    def available(self) -> Available:
        """The available states on top of the transitions so far; computed when a domain first asks."""
        if self._available is None:
            under_way = (state.as_seen_by(self.node) for state in self.speculative.values())
            self._available = Available(shelf_of(self.hosted, self.held, self.node), self.spent, under_way)
        return self._available

    def unknown(self, transition: Transition) -> tuple[StateId, ...]:
        """The states that it spends or reads and that are not known here."""
        return tuple(ref for ref in (*transition.inputs, *transition.reads) if self._state(ref) is None)

    def flaw_of(self, transition: Transition, sender: Party, shown: Attesters = NO_ATTESTERS) -> _Flaw | None:
        """The reason not to sign it, shown with these attesters; None if there is none.

        Any other exception of a domain is its failure, and no flaw.
        """
        if transition.is_empty:
            # It only uses up its own intent, whose owner its signature shows. The coordinator pays for it.
            may_act = self.hosted.domain.may_act(self.hosted.configuration, sender)
            return None if may_act else _Flaw(f"{sender} may not act here")
        if any(reference in self.spent for reference in (*transition.inputs, *transition.reads)):
            return _Flaw("a state is spent by an earlier transition", is_of_leaf=False)
        if len(set(transition.inputs)) < len(transition.inputs):
            return _Flaw("a state is spent twice")
        if transition.calls and not self.hosted.domain.calls_gas_max:
            # A call without gas still has data, and the committer of the transition pays for its bytes.
            return _Flaw("its domain makes no calls")
        if sum(each.gas for each in transition.calls) > self.hosted.domain.calls_gas_max:
            return _Flaw(f"its calls must take at most {self.hosted.domain.calls_gas_max} gas")
        if flaw := flaw_of_calls(self.hosted, transition.calls):
            return _Flaw(flaw)
        prepared_so = self.hosted.carried_preparation
        if prepared_so is not None and transition.preparation != prepared_so:
            return _Flaw("it is not prepared for its own ledger, as a transition must be that is carried out")
        if transition.lock is not None and not self.hosted.domain.changes_locks:
            # A permitted transition is never signed again: an endorser must have judged it.
            return _Flaw("its domain changes no locks on the ledger")
        try:
            proposal = self._proposal(transition, sender)
            self.hosted.domain.endorse(proposal)
            lacking = ""
            if has_plans(self.hosted.domain):
                lacking = fewer_than(attesters_of(self.hosted, proposal), shown)
        except (Refused, Rejected) as error:
            return _Flaw(str(error) or "the domain refuses it", not isinstance(error, _Misshown))
        # The signature of this refusal binds the attesters with which it was shown.
        return _Flaw(f"its plan must also name {lacking}") if lacking else None

    def _proposal(self, transition: Transition, sender: Party) -> Proposal[Any]:
        hosted = self.hosted
        makes, lock = stated_lock(hosted, transition, self._makes(transition, sender))
        return Proposal(
            hosted.contract,
            hosted.configuration,
            hosted.separator,
            transition.intent,
            sender,
            tuple(self._read(reference) for reference in transition.inputs),
            tuple(self._read(reference) for reference in transition.reads),
            makes,
            transition.calls,
            transition.preparation,
            self.available,
            self.history,
            self.verifiers,
            hosted.memory,
            lock,
        )

    def _state(self, reference: StateId) -> State | None:
        """A state with its bytes, in our index or not: only the ledger decides whether it is unspent."""
        for look in (self.speculative.get, self.held.get, self.recall):
            state = look(reference)
            if state is not None and state.content is not None:
                return state
        return None

    def _read(self, reference: StateId) -> Known[Record]:
        state = self._state(reference)
        assert state is not None, "what is unknown is not judged"
        read = known_in(self.known, state)
        if read is None:
            raise Refused("it spends or reads what is no state of this domain")
        return read

    def _makes(self, transition: Transition, sender: Party) -> tuple[NewState, ...]:
        """The outputs that the sender's domain stated: the states, then the infos, each in order."""
        return makes_of([self._made(transition, sender, number) for number in range(len(transition.outputs))])

    def _made(self, transition: Transition, sender: Party, number: int) -> Content:
        """The content of an output, which must be whole, in its place, and sent to exactly its readers' nodes."""
        state = transition.outputs[number]
        if state.id != (transition.leaf, number):
            raise _Misshown("an output is not in its place")
        if state.content is None:
            raise _Misshown("the bytes of an output are missing")
        content = unseal(self.known, state.content)
        if state.distribution != distribution_of(self.hosted.contract, sender, content.readers):
            raise _Misshown("an output's distribution list is not that of its readers")
        return content
