"""A trigger: it names tasks, recognises done ones, and performs them.

Theory of operation. A trigger is written once and runs at every node. It *yields questions* to the world and receives
the answers, so that the same code runs at a node, against a chain, and in the simulator, against a model:

    class AdvanceEpochs(Trigger):
        name = "advance-epochs"

        def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
            due_s = yield Read(self.contract, "dueAt()", returns=("uint256",))
            ...

A call that a contract refuses is raised at the `yield` as `Reverted`; a question that the world cannot answer now ends
the work, which is repeated later. A task is known by its id, which has to be the same at every node and is never used
for another task. The ledger decides which member is first: a task must be such that it can be performed once only, and
by any member with its own account.
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
    """A piece of work to be done once.

    `ready_ms` is when it may be done by the ledger's time, in milliseconds of the Unix epoch; it may be in the future.
    Tasks with one `action_key` are performed together. `arguments` are for the trigger itself.
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
        """The key by which it is ranked, and performed together with others."""
        return self.action_key or self.id


@dataclass(frozen=True, slots=True)
class Here:
    """The present node: its name, its account, its member name, and the ledger's time."""

    node: NodeName
    account: ContractAddress
    member: Member
    ledger_ms: int


# Questions and actions.


@dataclass(frozen=True, slots=True)
class Read:
    """A contract's present answer. `function` is a signature such as `dueAt()`, `returns` the types of the answer.

    The answer is a value when there is one type, else a tuple.
    """

    contract: ContractAddress
    function: str
    arguments: tuple[object, ...] = ()
    returns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """An answer of this node itself, by one of the services that it offers."""

    service: str
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A transaction of this node's own account.

    Its gas is estimated, so that a call that would be refused is not sent; with a limit it is not estimated. A limit is
    for calls that depend on the time: the latest block may refuse one that the next block takes.
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
    """A contract refused a call; the text has its own error."""


# Events of the ledger.


@dataclass(frozen=True, slots=True)
class Watch:
    """An event of a contract that the trigger receives: `Advanced(uint256 indexed, address indexed)`."""

    contract: ContractAddress
    event: str


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """A received event: its arguments in order, and the time of its block."""

    contract: ContractAddress
    event: str
    arguments: tuple[Any, ...]
    height: int = 0
    ledger_ms: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """A task that is done, and by whom, if that is known."""

    task: str
    by: Member | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """The meaning of an event for a trigger: present tasks, done tasks, and whether to list tasks at once."""

    tasks: tuple[Task, ...] = ()
    endings: tuple[Ending, ...] = ()
    is_look_wanted: bool = False


class Trigger:
    """The base class for authors: give it a name and override the methods needed. One object serves one node.

    `period_ms`  one task for every such period of the ledger's time, beside those of `tasks`
    `watches`    events of the ledger that `seen` receives
    `is_local`   each node does this for itself: without contention and delay
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
        """The members that may perform its tasks now; by default the nodes that are registered on the ledger."""
        yield from ()
        return None

    def member(self, here: Here) -> Member:
        """The name of this node among the members."""
        return here.member

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        """All tasks that are not done, also those that are not ready yet."""
        yield from ()
        return ()

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        """Whether a task is done, or no longer exists."""
        yield from ()
        raise NotImplementedError(f"{self.name}: is_stale must say whether a task is done")

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        """The action that performs these tasks together; they have one action key."""
        raise NotImplementedError(f"{self.name}: action must say how tasks are performed")

    def seen(self, event: LedgerEvent, here: Here) -> Sighting:
        """The meaning of a watched event."""
        return Sighting()

    def done_in(self, tasks: tuple[Task, ...], events: tuple[LedgerEvent, ...], here: Here) -> tuple[str, ...]:
        """The ids of all tasks that a transaction of ours performed, by the watched events in it."""
        return tuple(task.id for task in tasks)


def require_trigger(kind: type[Trigger]) -> None:
    """`ValueError` when a class cannot be run as a trigger."""
    if not NAME.fullmatch(kind.name):
        raise ValueError(f"name: must be 1 to 63 of a to z, 0 to 9 and hyphen, and begin with a letter: {kind.name!r}")
