"""Answers in a worker process, for domains whose users supply code (`host.answers`).

The process has a mirror of each contract that it gets questions about: the states that the node holds, and the domain's
memory of them. An order brings the changes since the preceding one. A process that was restarted, or that has dropped a
mirror, reports that it does not know the contract, and gets everything again.

An answer has a budget of gas and of processor time. When it is used up, no more code is run: that is `OverBudget`,
a failure of this node and no judgement. Code runs with the gas that its message has, whatever is left of the
budget: its effect must not depend on the node that runs it. If one step takes far too long all the same, the
kernel ends the process.
"""

from __future__ import annotations

import signal
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import process_time
from typing import Final

from rota.domains.available import Shelf
from rota.domains.base import Behind, Lacking, Rejected
from rota.domains.pente import Pente
from rota.domains.pente.evm import EvmVersion, Execution, Message
from rota.evm.private_evm import PrivateEvm
from rota.host import Hosted, learn, shelved
from rota.host.answers import Asked, answering
from rota.host.checking import Checked
from rota.model.types import ContractAddress, NodeName, State, StateId
from rota.ports import Unavailable
from rota.sequencer.effects import CheckRound
from rota.sequencer.events import AssemblyFailed

MIRRORS_MAX: Final = 256


class OverBudget(Unavailable):
    """A request or a peer has used up its budget here: not a fault of the intent, and no judgement."""


class CodeFailed(Exception):
    """A domain failed in a worker process. The text is its traceback there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for one request: of gas and processor time before no more code is run, and before the process is ended."""

    gas: int = 500_000_000
    cpu_s: float = 15.0
    killed_after_cpu_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of a node's states: those that are gone, those that are held; and the domain's new ones."""

    gone: tuple[StateId, ...] = ()
    held: tuple[State, ...] = ()
    learned: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """The changes of a contract since the last order; with `hosted`, the mirror is rebuilt."""

    contract: ContractAddress
    changes: tuple[Change, ...] = ()
    hosted: Hosted | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an answer, or of one transition of a round."""

    cpu_s: float = 0.0
    gas: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, or the error in its place; the states that were not found, and the cost."""

    answer: object
    missed: tuple[StateId, ...]
    cost: Cost
    steps: tuple[Cost, ...] = ()
    rejected: tuple[str, str] | None = None
    lacking: StateId | None = None
    behind: str | None = None
    over_budget: str | None = None
    failed: str | None = None


class Meter:
    """The use of the current request's budget."""

    def __init__(self) -> None:
        self._limits = Limits()
        self._began_s = 0.0
        self.gas = 0
        self.is_used_up = False

    def begin(self, limits: Limits) -> None:
        """Start with a new request."""
        self._limits, self._began_s, self.gas, self.is_used_up = limits, process_time(), 0, False

    @property
    def cost(self) -> Cost:
        """The cost since the request began."""
        return Cost(process_time() - self._began_s, self.gas)

    def require(self) -> None:
        """`OverBudget` when the budget is used up."""
        cost = self.cost
        if cost.gas >= self._limits.gas or cost.cpu_s >= self._limits.cpu_s:
            self.is_used_up = True
            raise OverBudget(f"the request has used {cost.gas} gas and {cost.cpu_s:.1f} s, and more is not run for one")


class MeteredEvm(PrivateEvm):
    """A machine whose use is counted."""

    def __init__(self, version: EvmVersion, chain_id: int) -> None:
        super().__init__(version, chain_id)

    def run(self, message: Message) -> Execution:
        """Run a message, if the budget is not used up."""
        _meter.require()
        execution = super().run(message)
        _meter.gas += execution.gas_used
        return execution


@dataclass(frozen=True, slots=True)
class _Mirror:
    hosted: Hosted
    shelf: Shelf

    def take(self, change: Change, node: NodeName) -> None:
        for gone in change.gone:
            self.shelf.remove(gone)
        for state in change.held:
            self.shelf.put(state)
        learn(self.hosted, change.learned, node)


# The state of the process.

_node = NodeName("")
_meter: Final = Meter()
_mirrors: Final[OrderedDict[ContractAddress, _Mirror]] = OrderedDict()


def begin(node: NodeName) -> None:
    """Set the node that this process works for."""
    global _node
    _node = node


def take(update: Update) -> bool:
    """Update a mirror; False when the process does not know the contract any more."""
    return _updated(update) is not None


def answer(update: Update, asked: Asked, recalled: dict[StateId, State], limits: Limits) -> Answered | None:
    """Update the mirror and answer; None when the process does not know the contract any more."""
    mirror = _updated(update)
    if mirror is None:
        return None
    with _ended_after(limits.killed_after_cpu_s):
        _meter.begin(limits)
        return _answer(mirror, asked, recalled, limits)


@contextmanager
def _ended_after(cpu_s: float) -> Iterator[None]:
    """Have the kernel end this process after so much processor time, also in the middle of foreign code."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _updated(update: Update) -> _Mirror | None:
    if update.hosted is not None:
        hosted = _metered(update.hosted).at_another_node()
        _mirrors[update.contract] = _Mirror(hosted, shelved(hosted, (), _node))
    mirror = _mirrors.get(update.contract)
    if mirror is None:
        return None
    _mirrors.move_to_end(update.contract)
    if len(_mirrors) > MIRRORS_MAX:
        _mirrors.popitem(last=False)
    for change in update.changes:
        mirror.take(change, _node)
    return mirror


def _metered(hosted: Hosted) -> Hosted:
    if isinstance(hosted.domain, Pente):
        return replace(hosted, domain=replace(hosted.domain, make_evm=MeteredEvm))
    return hosted


def _answer(mirror: _Mirror, asked: Asked, recalled: dict[StateId, State], limits: Limits) -> Answered:
    missed: dict[StateId, None] = {}

    def find(state: StateId) -> State | None:
        found = recalled.get(state)
        if found is None:
            missed[state] = None
        return found

    costs: list[Cost] = []
    steps = answering(mirror.hosted, asked, mirror.shelf, _node, find)
    try:
        value = _value(steps, costs)
    except Rejected as flaw:
        return Answered(None, tuple(missed), _meter.cost, rejected=(flaw.field, flaw.message))
    except Lacking as lacking:
        return Answered(None, (*missed, lacking.state), _meter.cost, lacking=lacking.state)
    except Behind as behind:
        return Answered(None, tuple(missed), _meter.cost, behind=str(behind))
    except OverBudget as over:
        return Answered(None, tuple(missed), _meter.cost, over_budget=str(over))
    except Exception:
        return Answered(None, tuple(missed), _meter.cost, failed=traceback.format_exc())
    if not isinstance(asked.question, CheckRound):
        return Answered(_portable(value), tuple(missed), _meter.cost)
    assert isinstance(value, Checked), "a round is checked"
    # The last steps are one for each transition; the steps before them read the makers that its coordinator shows.
    of_transitions = costs[-len(asked.question.transitions) :]
    value = _judged(asked.question, value, of_transitions, limits)
    return Answered(_portable(value), tuple(missed), _meter.cost, tuple(of_transitions))


def _value(steps: Iterator[None], costs: list[Cost]) -> object:
    """The answer; appends the cost of each step."""
    while True:
        before = _meter.cost
        try:
            next(steps)
        except StopIteration as end:
            answer: object = end.value
            return answer
        after = _meter.cost
        costs.append(Cost(after.cpu_s - before.cpu_s, after.gas - before.gas))


def _judged(order: CheckRound, checked: Checked, costs: list[Cost], limits: Limits) -> Checked:
    """If the budget was used up, fail those transitions that used more than an equal part of it, and only those.

    The others can be judged in a round without them. If none did, the makers that the coordinator shows used the rest:
    then all transitions that were not run fail, since a round without failures is signed.
    """
    if not _meter.is_used_up:
        return checked
    parts = len(order.transitions)
    heavy = {
        transition.leaf
        for transition, cost in zip(order.transitions, costs, strict=True)
        if cost.gas * parts >= limits.gas or cost.cpu_s * parts >= limits.cpu_s
    }
    if not heavy:
        return checked
    reason = OverBudget(f"it used more than its part of {limits.gas} gas or {limits.cpu_s:.1f} s for a round")
    others = tuple((leaf, error) for leaf, error in checked.failures if not isinstance(error, OverBudget))
    told = {leaf for leaf, _ in others}
    over = tuple((each.leaf, reason) for each in order.transitions if each.leaf in heavy and each.leaf not in told)
    return replace(checked, failures=(*others, *over))


def _portable(value: object) -> object:
    """The same with errors that another process can unpickle."""
    if isinstance(value, Checked):
        return replace(value, failures=tuple((leaf, _portable_error(error)) for leaf, error in value.failures))
    if isinstance(value, list):
        return [
            replace(each, error=_portable_error(each.error))
            if isinstance(each, AssemblyFailed) and each.error is not None
            else each
            for each in value
        ]
    return value


def _portable_error(error: Exception) -> Exception:
    return error if type(error) is OverBudget else CodeFailed("".join(traceback.format_exception(error)))
