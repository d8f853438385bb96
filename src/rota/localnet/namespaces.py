"""Separate hosts for nodes, as Linux network namespaces that can be cut from one another.

Each host has a loopback device and one card; the cards are connected by a switch, which is a bridge in one more
namespace. The machine's own network is not involved. A file descriptor of this process holds each namespace, so that
nothing is left behind however the process ends.

Each host knows the card addresses of all others beforehand. To cut a direction, the sender gets the address of a card
that does not exist: its packets disappear silently, in that direction alone, as in a broken network.

Programs outside reach a port of a host's loopback through a relay.

Linux, root, and the commands `ip` and `nsenter` are required; `missing` names the missing ones.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

SWITCH: Final = "switch"
HOSTS_MAX: Final = 200
COMMAND_TIMEOUT_S: Final = 30
RELAY_BYTES: Final = 65_536
LOOPBACK: Final = "127.0.0.1"

_CLONE_NEWNET: Final = 0x4000_0000
# A range reserved for tests of networks (RFC 2544); it is not routed anywhere.
_NETWORK: Final = "198.18.0"
_NOBODY: Final = "02:00:00:00:ff:ff"


def missing() -> str:
    """The reasons why this machine cannot have namespaces; empty if it can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    for command in ("ip", "nsenter"):
        if shutil.which(command) is None:
            return f"network namespaces need the command {command}"
    try:
        os.close(_new_namespace())
    except OSError as error:
        return f"no network namespace can be made here: {error.strerror}"
    return ""


@dataclass(frozen=True, slots=True)
class Host:
    """One namespace: a file descriptor that holds it, and its place on the network."""

    name: str
    descriptor: int
    number: int

    @property
    def address(self) -> str:
        """The IP address at which other hosts reach it."""
        return f"{_NETWORK}.{self.number}"

    @property
    def card(self) -> str:
        """The hardware address of its card."""
        return f"02:00:00:00:00:{self.number:02x}"

    @property
    def path(self) -> str:
        """The namespace as a file, for other programs."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    @property
    def prefix(self) -> tuple[str, ...]:
        """The prefix of a command that runs on this host."""
        return ("nsenter", f"--net={self.path}")


class Namespaces:
    """Hosts and the network between them. `close` releases all of them."""

    def __init__(self, names: Sequence[str]) -> None:
        assert len(names) <= HOSTS_MAX, f"a network has at most {HOSTS_MAX} hosts"
        self._switch: Final = Host(SWITCH, _new_namespace(), 0)
        self._hosts: Final[dict[str, Host]] = {}
        self._relays: Final[list[asyncio.Server]] = []
        self._relaying: Final[set[asyncio.Task[None]]] = set()
        try:
            _run(self._switch, "link", "add", SWITCH, "type", "bridge")
            _run(self._switch, "link", "set", SWITCH, "up")
            for number, name in enumerate(names, 1):
                self._hosts[name] = self._plugged(Host(name, _new_namespace(), number))
            for host in self._hosts.values():
                for other in self._hosts.values():
                    self._direct(host, other, other.card)
        except BaseException:
            self._close_descriptors()
            raise

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def _plugged(self, host: Host) -> Host:
        """Connect a host's card to the switch."""
        plug = f"plug{host.number}"
        peer = ("peer", "name", "eth0", "address", host.card, "netns", host.path)
        _run(self._switch, "link", "add", plug, "type", "veth", *peer)
        _run(self._switch, "link", "set", plug, "master", SWITCH, "up")
        _run(host, "link", "set", "lo", "up")
        _run(host, "address", "add", f"{host.address}/24", "dev", "eth0")
        _run(host, "link", "set", "eth0", "up")
        return host

    # Cutting.

    def cut_way(self, sender: str, receiver: str) -> None:
        """Drop all packets from the sender to the receiver; the other direction is unchanged."""
        self._direct(self._hosts[sender], self._hosts[receiver], _NOBODY)

    def mend_way(self, sender: str, receiver: str) -> None:
        """End a cut."""
        self._direct(self._hosts[sender], self._hosts[receiver], self._hosts[receiver].card)

    def _direct(self, sender: Host, receiver: Host, card: str) -> None:
        if sender is not receiver:
            entry = (receiver.address, "lladdr", card, "dev", "eth0", "nud", "permanent")
            _run(sender, "neighbour", "replace", *entry)

    # Relays.

    async def relay(self, name: str, port: int) -> int:
        """Open a port on this machine's loopback that leads to one of the host's loopback, until `close`."""
        host = self._hosts[name]

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None, "a connection is served in a task"
            self._relaying.add(task)
            task.add_done_callback(self._relaying.discard)
            with suppress(OSError, asyncio.CancelledError):
                await _relay(host, port, reader, writer)
            writer.close()

        server = await asyncio.start_server(serve, LOOPBACK, 0)
        self._relays.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Close all relays and descriptors; each host disappears when the last process on it has ended."""
        for server in self._relays:
            server.close()
        for task in tuple(self._relaying):
            task.cancel()
        await asyncio.gather(*self._relaying, return_exceptions=True)
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        for host in (self._switch, *self._hosts.values()):
            os.close(host.descriptor)
        self._hosts.clear()


async def _relay(host: Host, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with _within(host.descriptor):
        there = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    there.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(there, (LOOPBACK, port))
    except BaseException:
        there.close()
        raise
    far_reader, far_writer = await asyncio.open_connection(sock=there)
    try:
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
    finally:
        far_writer.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(RELAY_BYTES):
        target.write(chunk)
        await target.drain()
    if target.can_write_eof():
        with suppress(OSError):
            target.write_eof()


def _run(host: Host, *arguments: str) -> None:
    command = [*host.prefix, "ip", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def _new_namespace() -> int:
    """A namespace that only the descriptor holds."""
    with _within(None):
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def _within(descriptor: int | None) -> Iterator[None]:
    """Run this thread in that namespace, or in a new one, within the context; its sockets stay there."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        entered = libc.unshare(_CLONE_NEWNET) if descriptor is None else libc.setns(descriptor, _CLONE_NEWNET)
        _require(entered)
        try:
            yield
        finally:
            _require(libc.setns(home, _CLONE_NEWNET))
    finally:
        os.close(home)


def _require(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
