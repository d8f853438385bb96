"""What is said in the simulated network, as the wire's codec writes and reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, NodeName, Party, RequestId
from rota.sim.frames import arrives_whole, frame_of, over_the_wire
from rota.sim.plan import Settings
from rota.sim.swarm import Swarm
from rota.sim.weather import Weather
from rota.sim.wires import MISUSE_PAUSE_MS
from rota.sim.world import World
from rota.wire.messages import Envelope, Message, Startup, VerifierResponse

A, B = NodeName("A"), NodeName("B")

SAID = Envelope(ContractAddress("0x" + "11" * 20), RequestId(1, 7), 1, 40, Startup(RequestId(1, 7)))


def test_message_is_read_as_it_was_written() -> None:
    assert over_the_wire(SAID) == SAID
    assert over_the_wire(SAID) is not SAID


def test_message_of_another_version_says_the_same_otherwise() -> None:
    said = Envelope(SAID.contract, RequestId(2, 8), 2, 41, SAID.body, True, RequestId(3, 9))
    assert said.of_version((2, 1)) == replace(said, protocol_version=(2, 1))


def test_message_of_a_newer_minor_version_is_read_without_what_we_do_not_know() -> None:
    newer = replace(SAID, protocol_version=(2, 1))
    assert over_the_wire(newer) == newer


@pytest.mark.parametrize(
    "body", [Message(), VerifierResponse(RequestId(1, 1), Party("user@A"), "v" * 100_000)], ids=["unknown", "too long"]
)
def test_message_that_the_wire_does_not_carry_is_an_error_of_ours(body: Message) -> None:
    with pytest.raises((AssertionError, KeyError)):
        over_the_wire(replace(SAID, body=body))


@pytest.mark.slow
def test_seed_plays_the_same_run_with_the_codec_and_without() -> None:
    settings = Settings(minutes=1 / 6, faults=("upgrade", "loss"))
    with_codec = Swarm(3, replace(settings, codec=True)).play()
    assert with_codec == Swarm(3, replace(settings, codec=False)).play()
    assert with_codec.violations == []


def test_damaged_frame_does_not_arrive_and_ends_the_connection_for_a_while() -> None:
    class Damaging(Weather):
        """Cuts the last byte off what is said from now on."""

        is_bad = False

        def is_damaged(self) -> bool:
            return self.is_bad

        def damage(self, data: bytes) -> bytes:
            return data[:-1]

    weather = Damaging()
    world = World((A, B), (Contract(SAID.contract, (A, B), (A, B), 2),), Config(), weather=weather)
    for name in (A, B):
        world.start(name)
    world.run_until(1_000)
    weather.is_bad = True
    world.wires.transmit(A, B, SAID)
    weather.is_bad = False
    world.run_until(2_000)
    assert {(A, B), (B, A)} <= world.wires.down
    world.run_until(2_000 + MISUSE_PAUSE_MS)
    assert world.wires.down == set()


def test_frame_that_is_not_changed_arrives_whole_and_one_that_reads_as_another_message_does_not() -> None:
    other = replace(SAID, body=Startup(RequestId(1, 8)))
    assert arrives_whole(SAID, frame_of(SAID))
    assert not arrives_whole(SAID, frame_of(other))
    assert not arrives_whole(SAID, frame_of(SAID)[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_corrupted_frames_harm_nothing(seed: int) -> None:
    report = Swarm(seed, Settings(minutes=1 / 6, faults=("corrupt", "upgrade"))).play()
    assert report.violations == []
    assert report.faults > 0
