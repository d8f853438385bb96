"""Deliberate defects in the core, and the number of seeds until each is detected.

A canary replaces one function, or one guard or action of a table's rows, while it is active, and restores it
afterwards; the core has no flag for this. It names the invariant that must catch it within `SEEDS_MAX` seeds, and the
faults without which its defect does not show. The same seeds are clean without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType

from rota.chain.submitters import AccountChoice
from rota.machine.tables import Event, Machine, Row, Table
from rota.model.config import Config
from rota.model.frozen import dataclass
from rota.model.types import Contract, ContractAddress, Mode, NodeName, Rotation
from rota.node.node import Node
from rota.node.stored import StoredNode
from rota.sim.plan import Settings
from rota.sim.swarm import MakeSwarm, Swarm

SEEDS_MAX = 500
MINUTES = 0.5

Patch = Callable[[ExitStack], None]


@dataclass(frozen=True, slots=True)
class Canary:
    """A defect, the invariant that must catch it, and the settings in which it shows."""

    name: str
    invariant: str
    patch: Patch
    settings: Settings
    make: MakeSwarm = Swarm


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a canary was caught, and after how many seeds."""

    name: str
    invariant: str
    caught: bool
    seeds: int
    others: tuple[str, ...] = ()
    is_clean_without: bool = True


def try_canary(canary: Canary, seeds_max: int = SEEDS_MAX) -> Outcome:
    """Play seeds with the broken core until its invariant catches it; the same seeds must be clean without it."""
    others: dict[str, None] = {}
    for seed in range(seeds_max):
        with broken(canary):
            found = {violation.invariant for violation in canary.make(seed, canary.settings).play().violations}
        if found and canary.make(seed, canary.settings).play().violations:
            return Outcome(canary.name, canary.invariant, False, seed + 1, tuple(others), is_clean_without=False)
        if canary.invariant in found:
            return Outcome(canary.name, canary.invariant, True, seed + 1, tuple(others))
        others.update(dict.fromkeys(sorted(found)))
    return Outcome(canary.name, canary.invariant, False, seeds_max, tuple(others))


@contextmanager
def broken(canary: Canary) -> Iterator[None]:
    """Activate a canary's defect within the context."""
    with ExitStack() as stack:
        canary.patch(stack)
        yield


def replacing(owner: type | ModuleType, name: str, function: Callable[..., object] | property) -> Patch:
    """Replace a function or a property of a class or module."""

    def patch(stack: ExitStack) -> None:
        original = getattr(owner, name)
        stack.callback(setattr, owner, name, original)
        setattr(owner, name, function)

    return patch


def reading(change: Callable[[StoredNode], StoredNode]) -> Patch:
    """Change the stored state that a node reads at its start."""
    original = Node.__init__

    def begin(
        node: Node,
        name: NodeName,
        contracts: tuple[Contract, ...],
        config: Config,
        now_ms: int,
        stored: StoredNode,
        *,
        factory: ContractAddress,
        accounts: AccountChoice,
    ) -> None:
        original(node, name, contracts, config, now_ms, change(stored), factory=factory, accounts=accounts)

    return replacing(Node, "__init__", begin)


def without_guard(table: Table, guard: Callable[..., bool], verdict: bool) -> Patch:
    """Make this guard always true, or always false, in every row of a table that has it."""

    joined = f"{guard.__name__}_and_"

    def judge(_machine: Machine, _event: Event) -> bool:
        return verdict

    def judged(row: Row) -> Row:
        is_meant = row.when is guard or (row.when is not None and row.when.__name__.startswith(joined))
        return replace(row, when=judge) if is_meant else row

    return rewriting(table, judged)


def with_action(table: Table, action: Callable[..., None], other: Callable[..., None]) -> Patch:
    """Replace an action in every row of a table that has it."""
    return rewriting(table, lambda row: replace(row, do=other) if row.do is action else row)


def rewriting(table: Table, rewritten: Callable[[Row], Row]) -> Patch:
    """Replace rows of a table."""

    def patch(stack: ExitStack) -> None:
        for pair, rows in tuple(table.rows_by_pair.items()):
            changed = tuple(rewritten(row) for row in rows)
            if any(new is not old for new, old in zip(changed, rows, strict=True)):
                stack.callback(table.rows_by_pair.__setitem__, pair, rows)
                table.rows_by_pair[pair] = changed

    return patch


def both(*patches: Patch) -> Patch:
    """Apply several patches together."""

    def patch(stack: ExitStack) -> None:
        for each in patches:
            each(stack)

    return patch


def under(*kinds: str, mode: Mode | None = None, rotation: Rotation | None = None) -> Settings:
    """Settings of short seeds with these faults."""
    return Settings(minutes=MINUTES, faults=kinds, mode=mode, rotation=rotation)
