"""Nodes that lie, as scripts have them: what is false in a message, and what is not."""

from __future__ import annotations

import pytest

from rota.model.digests import domain_separator, leaf_of_transition, round_digest
from rota.model.types import NodeName
from rota.sim.forgery import INVENTED, Lie, can_be_told
from rota.sim.network import ScriptError
from rota.sim.recorder import OwningWorld
from rota.sim.script import Run, Script
from rota.sim.transcript import Transcript
from rota.sim.weather import Weather
from rota.sim.world import Recorder, SimNode
from rota.wire.messages import AssembleRequest, DispatchConfirmationRequest, EndorsementRequest, Envelope, Message

HEAD = "network: nodes A B C, leaders B\nexpect: A-1 confirmed\n"


class Listener(Recorder):
    """Hears every message of a run, beside its transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.heard: list[tuple[NodeName, NodeName, Message, str]] = []

    def sent(self, world: OwningWorld, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        self.heard.append((source, target, envelope.body, fate))
        self.transcript.sent(world, source, target, envelope, fate)

    def stepped(self, world: OwningWorld, node: SimNode) -> None:
        self.transcript.stepped(world, node)

    def first(self, kind: type[Message], fate: str = "delivered") -> Message:
        return next(body for _, _, body, found in self.heard if isinstance(body, kind) and found == fate)


class Passages(Weather):
    """Good weather that counts who is on the way to whom."""

    def __init__(self) -> None:
        self.ways: list[tuple[NodeName, NodeName]] = []

    def delays_ms(self, source: NodeName, target: NodeName, latency_ms: int) -> tuple[int, ...]:
        self.ways.append((source, target))
        return super().delays_ms(source, target, latency_ms)


def play(*commands: str) -> tuple[Run, Listener]:
    run = Run(Script.parse(HEAD + "".join(f"> {command}\n" for command in commands)))
    listener = Listener(run.transcript)
    run.world.recorder = listener
    run.play()
    return run, listener


def separator_of(run: Run) -> bytes:
    return domain_separator(run.contract.chain_id, run.contract.address)


@pytest.mark.parametrize(
    ("command", "fate"),
    [
        ("alter the next EndorsementRequest from B to C", "altered"),
        ("invent an intent in the next EndorsementRequest from B to C", "invented"),
    ],
)
def test_forged_round_holds_together_but_for_the_signature(command: str, fate: str) -> None:
    run, listener = play(command, "submit A-1 at A", "until A-1 confirmed")
    forged, true = listener.first(EndorsementRequest, fate), listener.first(EndorsementRequest)
    assert isinstance(forged, EndorsementRequest)
    assert isinstance(true, EndorsementRequest)
    (transition,) = forged.transitions
    assert transition.leaf == leaf_of_transition(separator_of(run), transition) != true.transitions[0].leaf
    assert forged.digest == round_digest(separator_of(run), (transition.leaf,), forged.valid_until_s) != true.digest
    assert all(state.id.leaf == transition.leaf for state in transition.outputs)
    assert transition.signature == true.transitions[0].signature


def test_lie_is_told_once_and_on_its_way_alone() -> None:
    command = "alter the next EndorsementRequest from B to C"
    run, listener = play(command, "submit A-1 at A", "until A-1 confirmed")
    lies = [(source, target) for source, target, _, fate in listener.heard if fate == "altered"]
    assert lies == [("B", "C")]
    assert run.world.wires.forgeries == []


def test_invented_intent_takes_the_place_of_the_first_one_asked_for() -> None:
    for kind in (AssembleRequest, DispatchConfirmationRequest):
        command = f"invent an intent in the next {kind.__name__} from B to A"
        _, listener = play(command, "submit A-1 at A", "until A-1 confirmed")
        forged = listener.first(kind, "invented")
        if isinstance(forged, AssembleRequest):
            assert forged.intents == (INVENTED,)
        else:
            assert isinstance(forged, DispatchConfirmationRequest)
            assert [item.intent for item in forged.items] == [INVENTED]


@pytest.mark.parametrize("lie", Lie)
def test_lie_that_cannot_be_told_is_refused_and_names_those_that_can(lie: Lie) -> None:
    assert not can_be_told("Startup", lie)
    command = {Lie.ALTERED: "alter the next", Lie.INVENTED: "invent an intent in the next"}[lie]
    with pytest.raises(ScriptError, match=f"a message that is {lie.value} is one of .*, not Startup"):
        Run(Script.parse(f"{HEAD}> {command} Startup from B to C\n")).play()


# Other words of the language that hurt messages and domains.


def test_release_backwards_and_twice_delivers_the_last_first_and_each_two_times() -> None:
    run, _ = play("submit A-1 at A", "until A-1 confirmed")
    for command in ("hold EndorsementResponse from A to B", "hold EndorsementResponse from C to B"):
        run.do(command)
    run.do("submit A-2 at A")
    run.do("run 500 ms")
    run.world.wires.weather = passages = Passages()
    run.do("release backwards twice")
    assert passages.ways == [("C", "B"), ("C", "B"), ("A", "B"), ("A", "B")]
    assert run.world.wires.holds == []


def test_domain_that_hangs_answers_when_it_goes_on() -> None:
    run, _ = play(
        "the domain of A hangs", "submit A-1 at A", "run 500 ms", "the domain of A goes on", "until A-1 confirmed"
    )
    assert run.world.assemblies[run.intent("A-1")] == 1
    assert run.transcript.happenings[-1].at_ms > 500


def test_restarted_node_does_not_hear_what_its_domain_was_asked_before() -> None:
    run, _ = play(
        "the domain of A hangs",
        "submit A-1 at A",
        "until A-1 Assembling",
        "crash A",
        "start A",
        "the domain of A goes on",
        "until A-1 confirmed",
    )
    assert run.world.assemblies[run.intent("A-1")] == 1


def test_claim_names_a_successor_that_there_is() -> None:
    with pytest.raises(ScriptError, match="there is no node Z"):
        Run(Script.parse(f"{HEAD}> B claims to be Closing, next Z\n")).play()
