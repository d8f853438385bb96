"""Random networks under random faults, from a seed: first trouble, then calm, then judgement.

In the safety phase nodes crash, hang, lag, lose their ledger or their disk, and the network loses,
duplicates, delays and cuts. In the liveness phase everything is mended and every intent must end. The
same seed plays the same run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from rota.config import Config
from rota.core.events import CancelRequested, IntentSubmitted
from rota.messages import CoordinatorState
from rota.sim.domain import intent_id
from rota.sim.invariants import undelivered_states, violations
from rota.sim.world import Recorder, SimNode, Weather, World
from rota.types import Contract, ContractAddress, Intent, IntentId, Mode, NodeName, Party, Rotation, SubmitMode

FAULTS = ("crash", "hang", "cut", "one-way", "lag", "ledger", "disk", "loss", "stall")
MODES = (Mode.RING, Mode.RING, Mode.RING, Mode.STATIC, Mode.SENDER)
ROTATIONS = (Rotation.STICKY, Rotation.STRICT)
NODE_NAMES = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
DEPENDENT = 0.1
CANCELLED = 0.05
EXTERNAL = 0.1
COMMITTED = 0.7
PAYLOADS = ("spend", "spend", "spend", "prepare", "mint", "mint", "refuse", "revert")


class BadWeather(Weather):
    """Loses, duplicates and delays, by chance."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.loss = 0.0
        self.duplication = 0.0
        self.jitter_ms = 0

    def delays_ms(self, latency_ms: int) -> tuple[int, ...]:
        """The delay of each copy that arrives."""
        if self.random.random() < self.loss:
            return ()
        copies = 2 if self.random.random() < self.duplication else 1
        return tuple(latency_ms + self.random.randint(0, self.jitter_ms) for _ in range(copies))


@dataclass(frozen=True, slots=True)
class Settings:
    """What is not left to the seed; `None` lets the seed draw."""

    nodes: int | None = None
    minutes: float = 1.0
    rotation: Rotation | None = None
    mode: Mode | None = None
    faults: tuple[str, ...] | None = None


@dataclass(slots=True)
class Report:
    """What a seed did and what it found."""

    seed: int
    intents: int = 0
    faults: int = 0
    events: int = 0
    simulated_ms: int = 0
    violations: list[str] = field(default_factory=list)


DEFAULT_SETTINGS = Settings()


class Swarm:
    """One seed."""

    def __init__(self, seed: int, settings: Settings = DEFAULT_SETTINGS, recorder: Recorder | None = None) -> None:
        self.random = Random(seed)
        self.report = Report(seed)
        self.trouble_ms = int(settings.minutes * 60_000)
        random = self.random
        drawn_nodes, drawn_mode, drawn_rotation = random.randint(3, 5), random.choice(MODES), random.choice(ROTATIONS)
        names = tuple(NodeName(name) for name in NODE_NAMES[: settings.nodes or drawn_nodes])
        threshold = random.randint(len(names) // 2 + 1, len(names))
        mode = settings.mode or drawn_mode
        self.contract = Contract(
            ContractAddress("0x" + hashlib.sha256(str(seed).encode()).hexdigest()[:40]),
            names[:1] if mode is Mode.STATIC else names,
            names,
            threshold,
            mode,
            settings.rotation or drawn_rotation,
            random.choice((4, 20, 100)),
        )
        self.weather = BadWeather(random)
        self.world = World(
            names,
            (self.contract,),
            Config(prepared_validity_s=700),
            recorder,
            latency_ms=random.choice((5, 50)),
            block_ms=random.choice((100, 1000)),
            weather=self.weather,
        )
        drawn_faults = tuple(random.sample(FAULTS, random.randint(0, len(FAULTS))))
        self.faults = drawn_faults if settings.faults is None else settings.faults
        self.world.on_prepared = self._commit_later
        self.count = 0
        self.latest: dict[NodeName, IntentId] = {}

    def play(self) -> Report:
        """Trouble, calm, judgement."""
        for name in self.world.nodes:
            self.world.start(name)
        self._submit_later()
        for fault in self.faults:
            self._hurt_later(fault)
        self.world.run_until(self.trouble_ms)
        self._mend()
        # Whatever was endorsed before must have become void, which takes its validity in chain time.
        end_ms = self.trouble_ms + 800_000
        self._mine_now_and_then(end_ms)
        self.world.run_until(end_ms, self._is_finished)
        self.report.violations = [*violations(self.world), *self._liveness(), *undelivered_states(self.world)]
        self.report.intents = self.count
        self.report.events = self.world.event_count
        self.report.simulated_ms = self.world.now_ms
        return self.report

    def _submit_later(self) -> None:
        due_ms = self.world.now_ms + self.random.choice((5, 50, 200, 1000))
        if due_ms < self.trouble_ms:
            self.world.at(due_ms, self._submit)

    def _submit(self) -> None:
        node = self.random.choice(list(self.world.nodes.values()))
        self.count += 1
        name = f"{node.name}-{self.count}"
        payload = self.random.choice(PAYLOADS).encode()
        latest = self.latest.get(node.name)
        depends_on = (latest,) if latest is not None and self.random.random() < DEPENDENT else ()
        sender = Party(f"user@{node.name}")
        mode = SubmitMode.EXTERNAL if self.random.random() < EXTERNAL else SubmitMode.AUTO
        intent = Intent(intent_id(name), self.contract.address, sender, payload, depends_on, submit_mode=mode)
        self.latest[node.name] = intent.id
        self.world.payloads[intent.id] = payload
        self.world.submit(node.name, self.contract.address, IntentSubmitted(name, intent))
        if self.random.random() < CANCELLED:
            cancel = CancelRequested(f"cancel {name}", intent.id)
            due_ms = self.world.now_ms + self.random.choice((1, 100, 1000, 5000))
            self.world.at(due_ms, lambda: self.world.submit(node.name, self.contract.address, cancel))
        self._submit_later()

    def _commit_later(self, intent: IntentId) -> None:
        """Most users have their prepared transitions committed; the others' expire."""
        if self.random.random() < COMMITTED:
            due_ms = self.world.now_ms + self.random.choice((1, 1000, 5000, 20_000))
            self.world.at(due_ms, lambda: self.world.commit_prepared(intent))

    def _hurt_later(self, fault: str) -> None:
        due_ms = self.world.now_ms + self.random.randint(500, 8_000)
        if due_ms < self.trouble_ms:
            self.world.at(due_ms, lambda: self._hurt(fault))

    def _hurt(self, fault: str) -> None:
        self.report.faults += 1
        node = self.random.choice(list(self.world.nodes.values()))
        other = self.random.choice([name for name in self.world.nodes if name != node.name])
        mend_ms = self.world.now_ms + self.random.choice((100, 1000, 4000, 10_000))
        mend = self._apply(fault, node, other)
        self.world.recorder.noted(self.world, f"fault: {fault} {node.name} {other}")
        self.world.at(mend_ms, mend)
        self._hurt_later(fault)

    def _apply(self, fault: str, node: SimNode, other: NodeName) -> Callable[[], None]:
        """Do harm, and say how it is mended."""
        world = self.world
        name = node.name
        match fault:
            case "crash":
                if node.core is not None:
                    world.crash(name)
                return lambda: world.start(name) if node.core is None else None
            case "hang":
                world.hang(name, True)
                return lambda: world.hang(name, False)
            case "cut" | "one-way":
                world.cut_way(name, other)
                if fault == "cut":
                    world.cut_way(other, name)
                return world.heal
            case "lag":
                world.lag(name, True)
                return lambda: world.lag(name, False)
            case "ledger":
                world.set_ledger(name, False)
                return lambda: world.set_ledger(name, True)
            case "disk":
                node.disk.is_failing = True
                return lambda: setattr(node.disk, "is_failing", False)
            case "stall":
                world.is_mining = False
                return self._mine_again
            case _:
                self.weather.loss = self.random.uniform(0, 0.3)
                self.weather.duplication = self.random.uniform(0, 0.3)
                self.weather.jitter_ms = self.random.choice((0, 20, 500, 2000))
                return self._calm

    def _mine_again(self) -> None:
        self.world.is_mining = True
        if self.world.ledger.has_work():
            self.world.mine()

    def _calm(self) -> None:
        self.weather.loss = self.weather.duplication = 0.0
        self.weather.jitter_ms = 0

    def _mend(self) -> None:
        world = self.world
        self._calm()
        self._mine_again()
        for node in world.nodes.values():
            node.disk.is_failing = False
            if node.core is None:
                world.start(node.name)
            if node.is_hung:
                world.hang(node.name, False)
            world.lag(node.name, False)
            if not node.has_ledger:
                world.set_ledger(node.name, True)
        world.heal()

    def _mine_now_and_then(self, end_ms: int) -> None:
        """Chain time goes on without transactions too."""
        if self.world.now_ms < end_ms:
            if self.world.now_ms > self.trouble_ms:
                self.world.mine()
            self.world.at(self.world.now_ms + 5_000, lambda: self._mine_now_and_then(end_ms))

    def _open(self) -> list[str]:
        return [
            f"{self.world.show(transaction.intent.id)} {transaction.state.value} at {node.name}"
            for node in self.world.nodes.values()
            for sequencer in (node.core.sequencers.values() if node.core is not None else ())
            for transaction in sequencer.sender.transactions.values()
        ]

    def _is_finished(self) -> bool:
        if self.world.now_ms <= self.trouble_ms + 10_000:
            return False
        return not any(
            sequencer.sender.transactions
            for node in self.world.nodes.values()
            for sequencer in (node.core.sequencers.values() if node.core is not None else ())
        )

    def _liveness(self) -> list[str]:
        """L1: every intent is final. L2: at most one coordinator is active."""
        found = [f"L1: {text} after the faults stopped" for text in self._open()[:5]]
        active = [
            node.name
            for node in self.world.nodes.values()
            for sequencer in (node.core.sequencers.values() if node.core is not None else ())
            if sequencer.coordinator.state is CoordinatorState.ACTIVE
        ]
        if len(active) > 1 and self.contract.mode is not Mode.SENDER:
            found.append(f"L2: {', '.join(active)} are active")
        for node in self.world.nodes.values():
            acknowledged = {
                reply.intent
                for name, replies in self.world.replies.items()
                for reply in replies
                if not reply.error and not name.startswith("cancel")
            }
            for intent in acknowledged:
                if intent not in self.world.receipts and self.world.show(intent).startswith(node.name):
                    found.append(f"L1: {self.world.show(intent)} was acknowledged and never reported")
        return found
