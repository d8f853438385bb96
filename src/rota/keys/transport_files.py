"""The certificates of a node on its disk, and their exchange without an outage.

    current.pem     the key and the certificate that the node shows
    next.pem        those that it will show, from the time at which they are made until they are current

A certificate is exchanged in four steps, each of which may be repeated, and after each of which a crash does no harm:

    1  PREPARE      make next.pem
    2  ANNOUNCE     put its fingerprint into the registry as the next one: peers now take both
    3  PROMOTE      when the registry shows it, next.pem becomes current.pem, and new connections show it
    4  ROTATE       the registry drops the old fingerprint

`next_step` computes from the files and the registry which of them is due. It remembers nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from rota.keys.certificates import Certificate, Identity, make_identity, read_identity, require_node_name
from rota.keys.files import AlreadyThere, KeyFileError, NotThere, make_folder, move, read_private, write_new
from rota.model.types import NodeName

CURRENT: Final = "current.pem"
NEXT: Final = "next.pem"
NO_FINGERPRINT: Final = bytes(32)


class Step(Enum):
    """The next step for a node's certificate."""

    NOTHING = "nothing"
    PREPARE = "prepare"
    ANNOUNCE = "announce"
    PROMOTE = "promote"
    ROTATE = "rotate"
    REGISTER = "register"


@dataclass(frozen=True, slots=True)
class Registered:
    """The fingerprints of a node in the registry; zero where there is none."""

    current: bytes = NO_FINGERPRINT
    next: bytes = NO_FINGERPRINT


class TransportFolder:
    """The folder with a node's certificates."""

    def __init__(self, folder: Path, node: NodeName) -> None:
        require_node_name(node)
        self.folder: Final = folder
        self.node: Final = node

    def ensure_current(self, now_s: int) -> tuple[Identity, bool]:
        """The identity that the node shows, and whether it was made just now."""
        return self._ensure(CURRENT, now_s)

    def ensure_next(self, now_s: int) -> tuple[Identity, bool]:
        """The identity that the node will show, and whether it was made just now."""
        return self._ensure(NEXT, now_s)

    def current(self) -> Identity:
        """The identity that the node shows. A `KeyFileError` when there is none, or not this node's."""
        return self._read(CURRENT)

    def next(self) -> Identity | None:
        """The identity that the node will show, if one is prepared."""
        try:
            return self._read(NEXT)
        except NotThere:
            return None

    def promote(self) -> Identity:
        """Make the next identity the current one, and delete the old one."""
        identity = self._read(NEXT)
        move(self.folder / NEXT, self.folder / CURRENT)
        return identity

    def __repr__(self) -> str:
        return f"TransportFolder({self.folder}, of {self.node})"

    def _ensure(self, name: str, now_s: int) -> tuple[Identity, bool]:
        make_folder(self.folder)
        try:
            return self._read(name), False
        except NotThere:
            identity = make_identity(self.node, now_s)
        try:
            write_new(self.folder / name, identity.pem)
        except AlreadyThere:
            # Another process was faster: its file counts.
            return self._read(name), False
        return identity, True

    def _read(self, name: str) -> Identity:
        path = self.folder / name
        try:
            identity = read_identity(read_private(path))
        except ValueError as error:
            raise KeyFileError(f"{path}: {error}") from None
        if identity.certificate.node != self.node:
            raise KeyFileError(f"{path}: the certificate is that of {identity.certificate.node}, not of {self.node}")
        return identity


def next_step(current: Certificate, following: Certificate | None, registered: Registered, now_s: int) -> Step:
    """The step of an exchange that is due. `REGISTER`: the registry does not have the certificate that we show."""
    shown = current.fingerprint
    if registered.next == shown:
        return Step.ROTATE
    if registered.current != shown:
        return Step.REGISTER
    if following is None:
        return Step.PREPARE if current.is_due_for_renewal(now_s) else Step.NOTHING
    return Step.PROMOTE if registered.next == following.fingerprint else Step.ANNOUNCE
