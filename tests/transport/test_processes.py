"""Nodes in processes of their own: one is killed, one hangs, a stranger knocks."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from rota.model.types import NodeName
from rota.ports import Registration
from rota.transport import Identity, StaticRegistry
from tests.transport.kit import WAIT_S, Network, assert_told_in_order, make_identity, play, register
from tools.generate_wire import ROOT

pytestmark = pytest.mark.slow


async def start(name: str, identity: Identity, folder: Path) -> tuple[Process, int]:
    (folder / f"{name}.pem").write_bytes(identity.certificate_pem)
    (folder / f"{name}.key").write_bytes(identity.key_pem)
    arguments = ["-m", "tests.transport.node_process", name, str(folder)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=ROOT
    )
    return process, int((await line_with(process, "port")).split()[1])


async def line_with(process: Process, text: str) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        while True:
            line = (await process.stdout.readline()).decode()
            assert line, "the process ended"
            if text in line:
                return line


def tell_registry(process: Process, path: Path) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{path}\n".encode())


def write_registry(path: Path, nodes: dict[NodeName, Registration]) -> None:
    path.write_text(
        "".join(
            f'[nodes.{name}]\nendpoint = "{found.endpoint}"\nfingerprint = "{found.fingerprint.hex()}"\n'
            for name, found in nodes.items()
        )
    )


async def end(process: Process) -> str:
    """By its pid; what it wrote to standard error."""
    if process.returncode is None:
        process.kill()
    _, errors = await process.communicate()
    return errors.decode()


def test_processes_that_are_killed_or_hang_are_lost_and_a_stranger_leaves_no_trace(tmp_path: Path) -> None:
    async def story() -> None:
        made = Network()
        one = await made.start("node1")
        identities = {name: make_identity(name) for name in ("node2", "node3")}
        started = {name: await start(name, identity, tmp_path) for name, identity in identities.items()}
        try:
            ports = {name: port for name, (_, port) in started.items()}
            made.put({NodeName(name): register(identities[name], port) for name, port in ports.items()})
            made.add(one)
            write_registry(tmp_path / "nodes.toml", dict(made.registry.registrations()))
            for process, _ in started.values():
                tell_registry(process, tmp_path / "nodes.toml")
            await one.until_connected("node2", "node3")
            await asyncio.gather(
                line_with(started["node2"][0], "made node3"), line_with(started["node3"][0], "made node2")
            )

            for number in range(200):
                one.send("node2", number)
                one.send("node3", number)
            await one.until_heard("node2", list(range(200)))
            await one.until_heard("node3", list(range(200)))

            stranger = await made.start("node9", registry=StaticRegistry(made.registry.registrations()))
            async with asyncio.timeout(WAIT_S):
                while len(stranger.peers.endings.counts) == 0:
                    await asyncio.sleep(0)

            started["node2"][0].send_signal(signal.SIGSTOP)
            await one.until_lost("node2")
            assert one.is_connected("node3")
            started["node2"][0].send_signal(signal.SIGCONT)
            await one.until_connected("node2")

            started["node3"][0].kill()
            await one.until_lost("node3")
            await line_with(started["node2"][0], "lost node3")
            assert one.is_connected("node2")
            assert_told_in_order(one)
        finally:
            errors = [await end(process) for process, _ in started.values()]
            await made.stop()
        # gRPC's own lines about handshakes that failed would be here, one for each try of a stranger.
        assert not any("ssl" in each for each in errors), errors

    play(story)
