"""Disks that are slow or stuck, and signers that hang: what waits is done when they go on, and nothing is lost."""

from __future__ import annotations

from rota.machine.events import IntentSubmitted
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, Intent, Mode, NodeName, Outcome, Party
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.invariants import violations
from rota.sim.world import World

A, B = NodeName("A"), NodeName("B")
ADDRESS = ContractAddress("0x" + "01" * 20)
CONTRACT = Contract(ADDRESS, (A,), (A, B), 2, Mode.STATIC)
INTENT = Intent(
    drawn_id("A-1", Party("a@A"), ADDRESS), ADDRESS, Party("a@A"), b"mint", (), (), "", nonce=nonce_of("A-1")
)


def started() -> World:
    world = World((A, B), (CONTRACT,), Config())
    for name in world.nodes:
        world.start(name)
    world.run_until(1_000)
    return world


def submit(world: World) -> None:
    world.submit(A, ADDRESS, IntentSubmitted("user", INTENT))


def ended(world: World) -> bool:
    return INTENT.id in world.receipts


def test_stuck_disk_answers_nobody_and_goes_on_with_what_waited() -> None:
    world = started()
    world.set_disk_delay(A, None)
    submit(world)
    assert not world.run_until(60_000, lambda: "user" in world.replies)
    world.set_disk_delay(A, 0)
    world.set_disk_delay(A, 0)
    assert world.run_until(120_000, lambda: ended(world))
    assert world.receipts[INTENT.id][-1].outcome is Outcome.CONFIRMED
    assert violations(world) == []


def test_slow_disk_is_late() -> None:
    world = started()
    world.set_disk_delay(A, 300)
    submit(world)
    world.run_until(world.now_ms + 300)
    assert "user" not in world.replies
    assert world.run_until(world.now_ms + 100, lambda: "user" in world.replies)


def test_signer_that_hangs_signs_what_waited_when_it_goes_on() -> None:
    world = started()
    world.hang_signer(A, True)
    submit(world)
    assert not world.run_until(20_000, lambda: ended(world))
    world.hang_signer(A, False)
    assert world.run_until(60_000, lambda: ended(world))
    assert violations(world) == []
