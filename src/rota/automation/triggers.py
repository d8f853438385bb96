"""What a trigger is: it names tasks, says whether one is done, and how one is performed.

Theory of operation. A trigger is written once and runs at every node. It asks the world by *yielding questions*, and is
sent the answers, so that the same text runs at a node, against a chain, and in the simulator, against a model:

    class AdvanceEpochs(Trigger):
        name = "advance-epochs"

        def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
            due_s = yield Read(self.contract, "dueAt()", returns=("uint256",))
            ...

A call that a contract refuses is raised at the `yield` as `Reverted`; what the world cannot say ends the work, and is
asked again later. A task is known by its id, which has to be the same at every node and is never used for another task.
The ledger decides who was first: a task must be such that it can be performed once only, and by any member in its own
name.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeVar

from rota.automation.settings import TEXT_MAX
from rota.automation.strategies import Member
from rota.model.types import ContractAddress, NodeName

NAME: Final = re.compile("[a-z][a-z0-9-]{0,62}")
TRIGGERS_MAX: Final = 256

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Task:
    """Something that is to be done once.

    `ready_ms` is when it may be done by the ledger's time, in milliseconds of the Unix epoch; it may lie ahead. Tasks
    with one `action_key` are performed together. `arguments` are for the trigger itself.
    """

    id: str
    ready_ms: int = 0
    action_key: str = ""
    arguments: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.id) <= TEXT_MAX or len(self.action_key) > TEXT_MAX:
            raise ValueError(f"id: must have 1 to {TEXT_MAX} characters, and an action key no more")

    @property
    def key(self) -> str:
        """By which it is ranked, and performed together with others."""
        return self.action_key or self.id


@dataclass(frozen=True, slots=True)
class Here:
    """Who asks: the node, the account that it acts with, as which member it is known, and the ledger's time."""

    node: NodeName
    account: ContractAddress
    member: Member
    ledger_ms: int


# Questions, and what may be done.


@dataclass(frozen=True, slots=True)
class Read:
    """What a contract answers now. `function` is a signature such as `dueAt()`, `returns` the types of the answer.

    The answer is a value when there is one type, else a tuple.
    """

    contract: ContractAddress
    function: str
    arguments: tuple[object, ...] = ()
    returns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """What this node itself answers: one of the services that its runtime offers."""

    service: str
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A transaction of this node's own account.

    Its gas is estimated, so that what would be refused is not sent; with a limit it is not. A limit is for what depends
    on the time: the latest block may refuse what the next one takes.
    """

    contract: ContractAddress
    function: str
    arguments: tuple[object, ...] = ()
    gas_limit: int | None = None


Question: TypeAlias = Read | Ask
# A call is a transaction on the ledger, an `Ask` an order to this node alone.
Action: TypeAlias = Call | Ask
Work: TypeAlias = Generator[Question, Any, Answer]


class Reverted(Exception):
    """A contract does not take a call; the text has its own error."""


# What is seen on the ledger.


@dataclass(frozen=True, slots=True)
class Watch:
    """An event of a contract that is told to the trigger: `Advanced(uint256 indexed, address indexed)`."""

    contract: ContractAddress
    event: str


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """One that was seen: its arguments in their order, and the time of its block."""

    contract: ContractAddress
    event: str
    arguments: tuple[Any, ...]
    height: int = 0
    ledger_ms: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """A task that is done, and who did it, if that can be told."""

    task: str
    by: Member | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """What an event means to a trigger: tasks that there are now, tasks that are done, and whether to look at once."""

    tasks: tuple[Task, ...] = ()
    endings: tuple[Ending, ...] = ()
    is_look_wanted: bool = False


class Trigger:
    """What users write: give it a name and override what is needed. One object serves one node.

    `period_ms`  a task of its own for every such period of the ledger's time, beside what `tasks` names
    `watches`    events of the ledger that are told to `seen`
    `is_local`   each node does this for itself: there is nobody to contend with, and no delay
    """

    name: ClassVar[str] = ""
    period_ms: int | None = None
    watches: tuple[Watch, ...] = ()
    is_local: ClassVar[bool] = False

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """Make it with what the configuration has for it beside the settings of all triggers; `ValueError` names the
        option that is wrong."""
        for option in options:
            raise ValueError(f"{option}: is not known; {cls.name} has no options of its own")
        return cls()

    def members(self, here: Here) -> Work[tuple[Member, ...] | None]:
        """Who may perform its tasks now; without it, the nodes that are registered on the ledger."""
        yield from ()
        return None

    def member(self, here: Here) -> Member:
        """As whom this node stands among the members."""
        return here.member

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        """All tasks that are not done, also such as are not ready yet."""
        yield from ()
        return ()

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        """Whether a task is done, or is none any more."""
        yield from ()
        raise NotImplementedError(f"{self.name}: is_stale must say whether a task is done")

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        """How these tasks, which have one action key, are performed together."""
        raise NotImplementedError(f"{self.name}: action must say how tasks are performed")

    def seen(self, event: LedgerEvent, here: Here) -> Sighting:
        """What an event that is watched means."""
        return Sighting()

    def done_in(self, tasks: tuple[Task, ...], events: tuple[LedgerEvent, ...], here: Here) -> tuple[str, ...]:
        """The ids of all tasks that a transaction of ours performed, by the watched events in it."""
        return tuple(task.id for task in tasks)


def require_trigger(kind: type[Trigger]) -> None:
    """A `ValueError` when a class cannot be run as a trigger."""
    if not NAME.fullmatch(kind.name):
        raise ValueError(f"name: must be 1 to 63 of a to z, 0 to 9 and hyphen, and begin with a letter: {kind.name!r}")
