"""The record of a run, line by line: messages with sender and receiver, and changes of state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rota.model.types import IntentId, NodeName
from rota.sim.recorder import OwningWorld, Recorder
from rota.sim.sim_node import SimNode
from rota.wire.messages import (
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    EndorsementRequest,
    Envelope,
    Handover,
    HandoverRequest,
    Message,
    StartupAcknowledgement,
    StateDistributionAcknowledgement,
    SubmitterHeartbeat,
)


class Happening(NamedTuple):
    """A line of the record: time, sender, receiver and text."""

    at_ms: int
    source: str
    target: str
    text: str


@dataclass
class Transcript(Recorder):
    """Records a run, without heartbeats that repeat the previous one."""

    happenings: list[Happening] = field(default_factory=list)
    was_active: dict[NodeName, None] = field(default_factory=dict)
    sent_kinds: list[tuple[str, NodeName, NodeName, str]] = field(default_factory=list)
    _states: dict[tuple[str, ...], str] = field(default_factory=dict)
    _heartbeats: dict[tuple[NodeName, NodeName], tuple[object, ...]] = field(default_factory=dict)

    def sent(self, world: OwningWorld, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """Add one line for a message, with its main values."""
        body = envelope.body
        text = f"{type(body).__name__}{describe(world, body)}"
        self.sent_kinds.append((type(body).__name__, source, target, text))
        if isinstance(body, SubmitterHeartbeat | StartupAcknowledgement | StateDistributionAcknowledgement):
            return
        if isinstance(body, CoordinatorHeartbeat):
            told = (body.state, body.successor, body.refused, fate)
            if self._heartbeats.get((source, target)) == told:
                return
            self._heartbeats[(source, target)] = told
        remark = "" if fate == "delivered" else f"  [{fate}]"
        self.happenings.append(Happening(world.now_ms, source, target, text + remark))

    def stepped(self, world: OwningWorld, node: SimNode) -> None:
        """Add one line for each change of state."""
        assert node.core is not None, "a node that steps runs"
        is_alone = len(node.core.sequencers.loaded) == 1
        for address, sequencer in node.core.sequencers.loaded.items():
            what = "coordinator" if is_alone else f"coordinator of {address[:6]}"
            self._note(world, node, what, sequencer.coordinator.state.value)
            if sequencer.coordinator.state is CoordinatorState.ACTIVE:
                self.was_active[node.name] = None
            for held in tuple(sequencer.coordinator.transactions.values()):
                self._note(world, node, f"coordinates {world.show(held.intent.id)}", held.state.value)
            for own in tuple(sequencer.sender.transactions.values()):
                self._note(world, node, world.show(own.intent.id), own.state.value)

    def noted(self, world: OwningWorld, text: str) -> None:
        """Add a line that belongs to no node."""
        self.happenings.append(Happening(world.now_ms, "", "", text))

    def forget(self, node: NodeName) -> None:
        """Discard the known states of a node that crashed."""
        self._states = {key: value for key, value in self._states.items() if key[0] != node}
        self._heartbeats = {key: value for key, value in self._heartbeats.items() if node not in key}

    def _note(self, world: OwningWorld, node: SimNode, what: str, state: str) -> None:
        key = (node.name, what)
        before = self._states.get(key)
        if before == state:
            return
        self._states[key] = state
        if before is not None or state not in ("Idle", "Initial"):
            self.happenings.append(Happening(world.now_ms, node.name, "", f"{what}: {before or 'new'} → {state}"))


def describe(world: OwningWorld, body: Message) -> str:
    """The values of a message that matter to a reader."""
    match body:
        case DelegationCommand():
            names = " ".join(world.show(delegation.intent.id) for delegation in body.delegations)
            tried = ", ".join(entry.node for entry in body.tried)
            return f" {names}" + (f" (tried {tried})" if tried else "")
        case DelegationAccepted():
            return " " + " ".join(f"{world.show(a.intent)}={a.answer.value}" for a in body.answers)
        case DelegationRejected():
            named = f" ({body.active})" if body.active else f" ({body.provided_height} here {body.observed_height})"
            return f" {body.rejection.value}{named}"
        case CoordinatorHeartbeat():
            successor = f", next {body.successor}" if body.successor else ""
            return f" {body.state.value}{successor}" + (f", refuses {body.refused}" if body.refused else "")
        case EndorsementRequest():
            shown = " ".join(world.show(maker.intent) for maker in body.makers)
            return _names_in(world, body) + (f" (shows {shown})" if shown else "")
        case HandoverRequest():
            return f" ({body.reason.value})"
        case Handover():
            return " " + (" ".join(world.show(handed.point.intent) for handed in body.points) or "nothing to flush")
        case _:
            return _names_in(world, body)


def _names_in(world: OwningWorld, body: Message) -> str:
    """The intents in a message of any other kind, with codes and outcomes where it has them."""
    parts: list[str] = []
    fields = ("intents", "results", "errors", "transitions", "refusals", "items", "transition", "intent", "rejection")
    for field_name in fields:
        value = getattr(body, field_name, ())
        for entry in value if isinstance(value, tuple) else (value,):
            intent = entry if isinstance(entry, bytes) else getattr(entry, "intent", None)
            if intent is not None:
                remark = getattr(entry, "code", None) or getattr(entry, "outcome", None)
                parts.append(world.show(IntentId(intent)) + (f"={remark.value}" if remark is not None else ""))
            elif hasattr(entry, "value"):
                parts.append(str(entry.value))
    signed = " signed" if getattr(body, "signature", b"") else ""
    return signed + (" " + " ".join(parts) if parts else "")


def show(happening: Happening) -> str:
    """The happening as a line of text."""
    time = f"{happening.at_ms / 1000:8.3f}"
    if happening.target:
        return f"{time}  {happening.source} → {happening.target}  {happening.text}"
    if happening.source:
        return f"{time}  {happening.source}  {happening.text}"
    return f"{time}  -- {happening.text}"
