"""A node exchanges its own certificate before it ends, and carries on with an exchange that was cut short."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog.testing

from rota.keys.transport_files import Step, TransportFolder
from rota.ledger.account import Account
from rota.ledger.registering import look_up, register
from rota.server.renewal import Renewal
from rota.service.registry.expiry import DAY_S
from tests.ledger.chains import in_loop
from tests.ledger.test_registry import ONE, Scene, scene

ALL_STEPS = (Step.PREPARE, Step.ANNOUNCE, Step.PROMOTE, Step.ROTATE)


@dataclass
class Bench:
    """A node whose certificate is registered, on some day of its life."""

    scene: Scene
    folder: TransportFolder
    now_s: float

    def renewal(self, account: Account | None = None) -> Renewal:
        owner = account or self.scene.account()
        return Renewal(self.folder, owner, self.scene.contracts.registry, 0, lambda: self.now_s)

    async def registered(self) -> tuple[bytes, bytes | None]:
        found = await look_up(self.scene.account(), self.scene.contracts.registry, ONE)
        assert found is not None
        return found.current_fingerprint, found.next_fingerprint

    @property
    def shown(self) -> bytes:
        return self.folder.current().certificate.fingerprint


@asynccontextmanager
async def registered_node(home: Path, days_old: int) -> AsyncIterator[Bench]:
    async with scene("embedded", home) as made:
        folder = TransportFolder(home / "transport", ONE)
        identity, _ = folder.ensure_current(int(time.time()))
        await made.register(ONE, identity.certificate.fingerprint)
        yield Bench(made, folder, time.time() + days_old * DAY_S)


@in_loop
async def test_certificate_that_ends_soon_is_exchanged(tmp_path: Path) -> None:
    async with registered_node(tmp_path, days_old=336) as bench:
        old = bench.shown
        assert await bench.renewal().look() == ALL_STEPS
        assert bench.shown != old
        assert await bench.registered() == (bench.shown, None)
        assert await bench.renewal().look() == ()


@in_loop
async def test_certificate_that_is_good_for_long_stays(tmp_path: Path) -> None:
    async with registered_node(tmp_path, days_old=300) as bench:
        old = bench.shown
        assert await bench.renewal().look() == ()
        assert (bench.shown, bench.folder.next()) == (old, None)


@in_loop
async def test_exchange_that_was_cut_short_is_carried_on(tmp_path: Path) -> None:
    async with registered_node(tmp_path, days_old=336) as bench:
        bench.folder.ensure_next(int(bench.now_s))
        assert await bench.renewal().look() == ALL_STEPS[1:]
        following, _ = bench.folder.ensure_next(int(bench.now_s))
        registry = bench.scene.contracts.registry
        await register(bench.scene.account(), registry, ONE, bench.shown, "10.0.0.1:1")
        assert await bench.renewal().look() == ALL_STEPS[1:]
        assert await bench.registered() == (following.certificate.fingerprint, None)


@in_loop
async def test_name_that_is_somebody_elses_is_left_alone_and_told_once(tmp_path: Path) -> None:
    async with registered_node(tmp_path, days_old=336) as bench:
        renewal = bench.renewal(bench.scene.account(1))
        with structlog.testing.capture_logs() as logs:
            assert (await renewal.look(), await renewal.look()) == ((), ())
        assert [each["event"] for each in logs] == ["certificate.renewal_failed"]
        assert bench.folder.next() is None


@in_loop
async def test_node_that_is_not_registered_renews_nothing(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        folder = TransportFolder(tmp_path / "transport", ONE)
        folder.ensure_current(int(time.time()))
        bench = Bench(made, folder, time.time() + 336 * DAY_S)
        assert await bench.renewal().look() == ()
        assert folder.next() is None
