"""What is said in the simulated network, as the wire's codec writes and reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.messages import Envelope, Message, Startup, VerifierResponse
from rota.sim.frames import over_the_wire
from rota.sim.plan import Settings
from rota.sim.swarm import Swarm
from rota.types import ContractAddress, Party, RequestId

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


def test_seed_plays_the_same_run_with_the_codec_and_without() -> None:
    settings = Settings(minutes=1 / 6, faults=("upgrade", "loss"))
    with_codec = Swarm(3, replace(settings, codec=True)).play()
    assert with_codec == Swarm(3, replace(settings, codec=False)).play()
    assert with_codec.violations == []
