"""The state of the live demonstration for a view, and its result for a program."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from rota.client import ContractStatus
from rota.demo.programme import Asset, Programme
from rota.localnet.audit import Audit
from rota.localnet.workload import Workload
from rota.model.types import ContractAddress, NodeName, Party, node_of

RATE_OVER_S: Final = 3.0
HAPPENINGS_KEPT: Final = 12
UNENDED: Final = "it did not come to its end"

# The states of an intent at its coordinator, by the work that is done there.
STAGES: Final = {
    "wait": ("Pooled", "PreAssembly_Blocked"),
    "assemble": ("Assembling",),
    "endorse": ("Endorsement_Gathering", "Blocked"),
    "permit": ("Confirming_Dispatch",),
    "dispatch": ("Ready_For_Dispatch", "Dispatched", "Submitted"),
}


@dataclass(frozen=True, slots=True)
class Happening:
    """An event for the view, with its time in seconds since the start."""

    at_s: float
    text: str
    is_fault: bool = False


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The killed node, the next coordinator, and the time without a confirmed request.

    `caught_up_ms` is from its next start until a transfer of its own was confirmed.
    """

    killed: NodeName
    successor: NodeName | None
    stood_ms: int
    caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Attempts:
    """The outcomes of a node's attempts at shared tasks, since its latest start."""

    won: int = 0
    lost: int = 0
    skipped: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class CommandTold:
    """A command with the number of its submissions, and the completion that all of them received."""

    change: str
    payer: Party
    submissions: int
    completion_offset: int
    transaction: str


@dataclass(frozen=True, slots=True)
class BurstTold:
    """Transfers of one contract that were submitted at once: their number, their rounds, and the gas of each."""

    transfers: int
    rounds: int
    gas_per_transaction: float


@dataclass(slots=True)
class Figures:
    """The figures of one contract: recently confirmed transfers, and their gas."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)
    gas_per_transaction: float | None = None
    burst: BurstTold | None = None

    def count(self, confirmed: int) -> None:
        """Add the total up to now."""
        self.seen.append((time.monotonic(), confirmed))
        while self.seen[-1][0] - self.seen[0][0] > RATE_OVER_S:
            self.seen.popleft()

    @property
    def confirmed_per_s(self) -> float:
        """The rate over the last few seconds."""
        (first_s, first), (last_s, last) = (self.seen[0], self.seen[-1]) if self.seen else ((0.0, 0), (0.0, 0))
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


@dataclass(slots=True)
class Show:
    """The state of the demonstration. `tell` is called with every happening."""

    programme: Programme
    tell: Callable[[Happening], None]
    began_s: float = field(default_factory=time.monotonic)
    phase: str = "starting"
    phases_s: dict[str, float] = field(default_factory=dict)
    happenings: deque[Happening] = field(default_factory=lambda: deque(maxlen=HAPPENINGS_KEPT))
    pids: dict[str, int] = field(default_factory=dict)
    dashboards: dict[NodeName, str] = field(default_factory=dict)
    contracts: dict[Asset, ContractAddress] = field(default_factory=dict)
    statuses: dict[tuple[Asset, NodeName], ContractStatus | None] = field(default_factory=dict)
    sent: Counter[NodeName] = field(default_factory=Counter)
    confirmed: Counter[NodeName] = field(default_factory=Counter)
    figures: dict[Asset, Figures] = field(default_factory=lambda: {asset: Figures() for asset in Asset})
    # The block before the burst, once it is known: up to it, transfers were submitted one by one.
    last_lone_height: int | None = None
    attempts: dict[NodeName, Attempts] = field(default_factory=dict)
    epochs: int = 0
    # How many epochs each node began, by the chain: a node's own count restarts with its process.
    epochs_by_node: dict[NodeName, int] = field(default_factory=dict)
    coordinators: list[NodeName] = field(default_factory=list)
    take_overs: list[TakeOver] = field(default_factory=list)
    command: CommandTold | None = None
    audited: Audit | None = None

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began_s

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems; an unfinished demonstration is one."""
        return self.audited.problems if self.audited is not None else (UNENDED,)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Record the duration of a phase."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.phases_s[phase] = round(time.monotonic() - began_s, 2)

    def count(self, workload: Workload) -> None:
        """Update the totals of requests and confirmations."""
        promises = workload.promises
        self.sent = Counter(promise.node for promise in promises.values())
        ended = [promises[intent] for intent, receipt in workload.receipts.items() if receipt.success]
        self.confirmed = Counter(promise.node for promise in ended)
        if self.command is not None:
            self.sent[node_of(self.command.payer)] += 1
            self.confirmed[node_of(self.command.payer)] += 1
        for asset, contract in self.contracts.items():
            self.figures[asset].count(sum(promise.request.contract == contract for promise in ended))

    def coordinator_of(self, asset: Asset) -> NodeName | None:
        """The one node that reports itself as coordinator; None if no node does, or two do."""
        active = [
            name
            for (about, name), status in self.statuses.items()
            if about is asset and status is not None and status.coordinator_state == "Active"
        ]
        return active[0] if len(active) == 1 else None

    def stages_of(self, asset: Asset) -> dict[str, int]:
        """How many intents are at each stage at the coordinators of a contract."""
        counted: Counter[str] = Counter()
        for (about, _), status in self.statuses.items():
            if about is asset and status is not None:
                counted.update(status.coordinating)
        return {stage: sum(counted[state] for state in states) for stage, states in STAGES.items()}

    def happen(self, text: str, *, is_fault: bool = False) -> None:
        """Record an event."""
        happening = Happening(self.now_s, text, is_fault)
        self.happenings.append(happening)
        self.tell(happening)

    def summary(self) -> dict[str, object]:
        """The result as JSON values."""
        audited, programme, command = self.audited, self.programme, self.command
        return {
            "intents": sum(self.sent.values()),
            "confirmed": audited.confirmed if audited is not None else 0,
            "rounds": audited.rounds if audited is not None else 0,
            "coordinators": list(self.coordinators),
            "take_overs_ms": [each.stood_ms for each in self.take_overs],
            "problems": list(self.problems),
            "nodes": list(programme.names),
            "seed": programme.seed,
            "seconds": programme.seconds,
            "rate_per_s": programme.rate_per_s,
            "contracts": {asset.value: address for asset, address in self.contracts.items()},
            "gas_per_transaction": {asset.value: _rounded(self.figures[asset].gas_per_transaction) for asset in Asset},
            "burst": {asset.value: _told_of(self.figures[asset].burst) for asset in Asset},
            "take_overs": [
                {"killed": each.killed, "successor": each.successor, "stood_ms": each.stood_ms}
                | {"caught_up_ms": each.caught_up_ms}
                for each in self.take_overs
            ],
            "epochs": self.epochs,
            "triggers": {
                name: {"won": each.won, "lost": each.lost, "skipped": each.skipped, "failed": each.failed}
                for name, each in self.attempts.items()
            },
            "command": None
            if command is None
            else {
                "change": command.change,
                "payer": command.payer,
                "submissions": command.submissions,
                "completion_offset": command.completion_offset,
                "transaction": command.transaction,
            },
            "phases_s": dict(self.phases_s),
        }


def _told_of(burst: BurstTold | None) -> dict[str, object] | None:
    if burst is None:
        return None
    gas = _rounded(burst.gas_per_transaction)
    return {"transfers": burst.transfers, "rounds": burst.rounds, "gas_per_transaction": gas}


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
