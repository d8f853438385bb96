"""A registry in memory, or read from a file: for networks without the contract, and for tests.

The file is TOML, a table for each node:

    [nodes.node1]
    endpoint = "10.0.0.1:9000"     # with a standby "10.0.0.1:9000,10.0.0.2:9000"
    fingerprint = "3f…"            # SHA-256 of the certificate, 64 hex digits
    next_fingerprint = "a0…"       # only while the certificate is being exchanged
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rota.model.types import NodeName
from rota.ports import Registration
from rota.transport.certificates import FINGERPRINT_BYTES

_FIELDS: Final = frozenset({"endpoint", "fingerprint", "next_fingerprint"})


class StaticRegistry:
    """`ports.Registry` with fixed registrations, until `change`."""

    def __init__(self, nodes: Mapping[NodeName, Registration]) -> None:
        self._nodes: Mapping[NodeName, Registration] = MappingProxyType(dict(nodes))

    def registrations(self) -> Mapping[NodeName, Registration]:
        """All registered nodes."""
        return self._nodes

    def change(self, nodes: Mapping[NodeName, Registration]) -> None:
        """Replace all registrations."""
        self._nodes = MappingProxyType(dict(nodes))


def read_registry(path: Path) -> dict[NodeName, Registration]:
    """The nodes of a file; `ValueError` names each error and the right form."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: is not TOML: {error}") from error
    nodes = content.get("nodes")
    if not isinstance(nodes, dict) or content.keys() != {"nodes"}:
        raise ValueError(f"{path.name}: must have tables [nodes.NAME] and nothing else")
    return {NodeName(name): _registration(f"nodes.{name}", fields) for name, fields in nodes.items()}


def _registration(where: str, fields: object) -> Registration:
    if not isinstance(fields, dict):
        raise ValueError(f"{where}: must be a table")
    if unknown := sorted(fields.keys() - _FIELDS):
        raise ValueError(f"{where}.{unknown[0]}: is not known; there are {', '.join(sorted(_FIELDS))}")
    endpoint = fields.get("endpoint")
    if not isinstance(endpoint, str) or not all(map(_is_place, endpoint.split(","))):
        right = 'a host and a port, such as "10.0.0.1:9000", or several with commas between them'
        raise ValueError(f"{where}.endpoint: must be {right}")
    following = (
        _fingerprint(f"{where}.next_fingerprint", fields["next_fingerprint"]) if "next_fingerprint" in fields else b""
    )
    return Registration(endpoint, _fingerprint(f"{where}.fingerprint", fields.get("fingerprint")), following)


def _is_place(text: str) -> bool:
    host, _, port = text.strip().rpartition(":")
    return bool(host) and port.isdecimal()


def _fingerprint(where: str, text: object) -> bytes:
    try:
        found = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        found = b""
    if len(found) != FINGERPRINT_BYTES:
        raise ValueError(f"{where}: must be the SHA-256 of a certificate, {2 * FINGERPRINT_BYTES} hex digits")
    return found
