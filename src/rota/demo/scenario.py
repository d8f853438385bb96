"""A script, scene by scene: its text, its commands, and their results.

The script's language is that of `rota.sim.script`. The demonstration adds scenes: an indented comment above commands,
whose first line is the scene's title and whose other lines explain it. To the transcript an indented line is a record,
and no part of the script, so that one file serves both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

from rota.model.types import IntentId, NodeName, Outcome
from rota.sequencer.selection import ranking
from rota.sim.diagram import KILLED, STARTED
from rota.sim.invariants import violations
from rota.sim.network import ScriptError
from rota.sim.recorder import OwningWorld
from rota.sim.script import COMMANDS, EXPECTATIONS, Run, Script
from rota.sim.transcript import Happening, Transcript
from rota.sim.world import SimNode

RANGES_SHOWN_MAX: Final = 4
NAME_BYTES_MAX: Final = 16  # in a script, an intent's name is its id


class UnreadableScriptError(Exception):
    """An invalid script; the message names the line."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and its line in the script."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Some commands, with a title and an explanation for readers."""

    title: str
    explanation: str
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script and its scenes."""

    script: Script
    headline: tuple[str, ...]
    scenes: tuple[Scene, ...]
    network_line: int

    @classmethod
    def parse(cls, text: str) -> Scenario:
        """Parse a script; raises `UnreadableScriptError` for a wrong line before anything runs."""
        try:
            script = Script.parse(text)
        except ScriptError as error:
            raise UnreadableScriptError(str(error)) from error
        lines = list(enumerate(text.splitlines(), 1))
        for number, line in lines:
            if line.startswith("> "):
                _require_known(number, line[2:].strip(), "command", COMMANDS)
            elif line.startswith("expect:"):
                _require_known(number, line.partition(":")[2].strip(), "expectation", EXPECTATIONS)
        headline = tuple(line.lstrip("# ").rstrip() for line in script.head if line.startswith("#"))
        network_line = next(number for number, line in lines if line.startswith("network:"))
        return cls(script, headline, tuple(_scenes(lines)), network_line)


def failover() -> str:
    """The script of the demonstration."""
    return files("rota.demo").joinpath("failover.txt").read_text(encoding="utf-8")


def _require_known(number: int, text: str, what: str, known: Iterable[tuple[str, Callable[..., object]]]) -> None:
    if not any(re.fullmatch(pattern, text) for pattern, _ in known):
        raise UnreadableScriptError(f"line {number}: there is no such {what}: {text}")


def _scenes(lines: Iterable[tuple[int, str]]) -> list[Scene]:
    """Scenes of commands with their comment. Without comments, all commands are one scene."""
    scenes: list[Scene] = []
    comments: list[str] = []
    commands: list[Command] = []
    for number, line in lines:
        is_comment = line.startswith((" ", "\t")) and line.lstrip().startswith("#")
        if is_comment and commands:
            scenes.append(_scene(comments, commands))
            comments, commands = [], []
        if is_comment:
            comments.append(line.strip().lstrip("#").strip())
        elif line.startswith("> "):
            commands.append(Command(number, line[2:].strip()))
    return [*scenes, _scene(comments, commands)] if commands else scenes


def _scene(comments: list[str], commands: list[Command]) -> Scene:
    title, *explanation = comments or [""]
    return Scene(title, " ".join(explanation), tuple(commands))


# Playing.


@dataclass(frozen=True, slots=True)
class Played:
    """A command that ran, its time, and its effects."""

    command: Command
    at_ms: int
    happenings: tuple[Happening, ...]


@dataclass
class Watch(Transcript):
    """A transcript that also notes when rounds were dispatched."""

    dispatched_ms: list[int] = field(default_factory=list)

    def stepped(self, world: OwningWorld, node: SimNode) -> None:
        """Note new dispatches: a dispatch is durable before the node learns it, at the same instant."""
        super().stepped(world, node)
        missing = len(world.dispatches) - len(self.dispatched_ms)
        self.dispatched_ms.extend([world.now_ms] * missing)


class Performance:
    """A scenario that was played to its end, or to the command that failed."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        try:
            self.run = Run(scenario.script)
        except ScriptError as error:
            raise UnreadableScriptError(f"line {scenario.network_line}: {error}") from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            # A network line is free text until the world is built from it.
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            message = f"line {scenario.network_line}: the network cannot be built: {reason}"
            raise UnreadableScriptError(message) from error
        self.watch = Watch()
        self.run.transcript = self.watch
        self.run.world.recorder = self.watch
        self.scenes: list[tuple[Scene, list[Played]]] = []
        self.killed: list[tuple[int, NodeName]] = []
        self.failures: list[str] = []
        self._play()

    def _play(self) -> None:
        for name in self.run.world.nodes:
            self.run.world.start(name)
        for scene in self.scenario.scenes:
            played: list[Played] = []
            self.scenes.append((scene, played))
            for command in scene.commands:
                if not self._do(command, played):
                    return
        for expectation in self.scenario.script.expectations:
            try:
                self.run.hold(expectation)
            except ScriptError as error:
                self.failures.append(_first_line(error))

    def _do(self, command: Command, played: list[Played]) -> bool:
        at_ms = self.run.world.now_ms
        start = len(self.watch.happenings)
        try:
            _require_sense(self.run, command.text)
            self._note_lives(command.text)
            self.run.do(command.text)
        except ScriptError as error:
            self.failures.append(f"line {command.line}: {command.text}: {_first_line(error)}")
        except ValueError:
            self.failures.append(f"line {command.line}: {command.text}: cannot be understood")
        played.append(Played(command, at_ms, tuple(self.watch.happenings[start:])))
        return not self.failures

    def _note_lives(self, command: str) -> None:
        """Add a line for a node's crash or start, which the transcript lacks and the diagram needs."""
        verb, _, name = command.partition(" ")
        if verb not in ("crash", "start") or name not in self.run.world.nodes:
            return
        at_ms = self.run.world.now_ms
        if verb == "crash":
            self.killed.append((at_ms, NodeName(name)))
        self.watch.happenings.append(Happening(at_ms, name, "", KILLED if verb == "crash" else STARTED))

    # The result.

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """All nodes, in the order of the script."""
        return tuple(self.run.world.nodes)

    @property
    def rankings(self) -> list[tuple[int, tuple[NodeName, ...]]]:
        """The first few ranges that the chain passed through, with the ranking in each."""
        contract = self.run.contract
        last = contract.range_at(self.run.world.ledger.height)
        shown = range(min(last + 1, RANGES_SHOWN_MAX))
        return [(number, ranking(contract, number, self.nodes[0])) for number in shown]

    @property
    def happenings(self) -> list[Happening]:
        """All happenings, in order."""
        return [one for _, played in self.scenes for step in played for one in step.happenings]

    @property
    def story(self) -> list[Happening]:
        """The happenings of the diagram: of a fail-over, from the kill to the next dispatch; else all of them."""
        start_ms = self.killed[0][0] if self.killed else 0
        end_ms = start_ms + self.failover_ms if self.failover_ms is not None else self.run.world.now_ms
        within = [one for one in abridged(self.happenings) if start_ms <= one.at_ms <= end_ms]
        first = next((place for place, one in enumerate(within) if one.text == KILLED), 0)
        return [one for one in within[first:] if one.source or one.text.startswith("block ")]

    @property
    def failover_ms(self) -> int | None:
        """The time from the first kill to the next dispatch; None without either."""
        if not self.killed:
            return None
        killed_ms, _ = self.killed[0]
        return next((at_ms - killed_ms for at_ms in self.watch.dispatched_ms if at_ms >= killed_ms), None)

    @property
    def coordinators(self) -> list[str]:
        """The nodes that became the coordinator, in order."""
        return [one.source for one in self.happenings if re.match(r"coordinator: .* → Active$", one.text)]

    @property
    def confirmed(self) -> list[str]:
        """The intents that were reported confirmed and are on the ledger once."""
        return [name for name in self.run.intents if self._flaw_of(name) is None]

    @property
    def violations(self) -> list[str]:
        """The invariants that do not hold (protocol §10)."""
        return violations(self.run.world)

    @property
    def problems(self) -> list[str]:
        """The reasons why the performance failed; empty if it succeeded."""
        flaws = [f"{name} {flaw}" for name in self.run.intents if (flaw := self._flaw_of(name)) is not None]
        nothing = [] if self.run.intents or self.failures else ["no intent was submitted"]
        return [*self.failures, *(f"invariant violated: {each}" for each in self.violations), *flaws, *nothing]

    def summary(self) -> dict[str, object]:
        """The figures, as `--json` prints them."""
        return {
            "intents": len(self.run.intents),
            "confirmed": len(self.confirmed),
            "dispatches": len(self.run.world.dispatches),
            "messages": self.run.world.wires.message_count,
            "failover_ms": self.failover_ms,
            "violations": self.violations,
            "coordinators": self.coordinators,
        }

    def _flaw_of(self, name: str) -> str | None:
        """The reason why an intent is not confirmed exactly once."""
        intent: IntentId = self.run.intent(name)
        count = sum(committed == intent for _, committed, _ in self.run.world.ledger.commits)
        receipts = self.run.world.receipts.get(intent, [])
        reverted = [receipt.reason for receipt in receipts if receipt.outcome is not Outcome.CONFIRMED]
        if reverted:
            return f"was reverted: {reverted[0]}" if reverted[0] else "was reverted"
        if not receipts:
            state = self.run.sender_state(name)
            return "was not confirmed" + (f": it is {state}" if state != "unknown" else "")
        return None if count == 1 else f"is on the ledger {count} times"


def _require_sense(run: Run, command: str) -> None:
    """Refuse a valid command that the world cannot execute, such as a second start or cancelling an unknown intent."""
    started = re.fullmatch(r"start (\S+)", command)
    node = run.world.nodes.get(NodeName(started[1])) if started is not None else None
    if node is not None and node.core is not None:
        raise ScriptError(f"{node.name} is running")
    submitted = re.match(r"submit (\S+)", command)
    if submitted is not None and len(submitted[1].encode()) > NAME_BYTES_MAX:
        raise ScriptError(f"an intent's name has at most {NAME_BYTES_MAX} bytes")
    named = re.fullmatch(r"(?:cancel|resume|explain) (\S+)", command)
    if named is not None:
        if named[1] not in run.intents:
            raise ScriptError(f"{named[1]} was not submitted")
        if run.world.nodes[run.intents[named[1]][0]].core is None:
            raise ScriptError(f"the node of {named[1]} is down")


def abridged(happenings: Iterable[Happening]) -> list[Happening]:
    """The happenings without the steps of each intent, except its dispatch: the messages show them already."""
    kept: list[Happening] = []
    for happening in happenings:
        dispatch = re.fullmatch(r"coordinates (\S+): \S+ → Dispatched", happening.text)
        if happening.target or not happening.source or happening.text in (KILLED, STARTED):
            kept.append(happening)
        elif dispatch is not None:
            kept.append(happening._replace(text=f"dispatches {dispatch[1]}"))
        elif happening.text.startswith("coordinator: "):
            kept.append(happening)
    return kept


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
