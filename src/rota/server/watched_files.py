"""Files that an operator may change while the node runs: certificates, credentials, the registry, the configuration.

Theory of operation. Each file is checked every second. One that cannot be read changes nothing and is logged once; it
does not keep the other files from being checked, whatever the error. So a token is revoked even if a key file cannot be
read at that moment.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Protocol

from rota.keys.files import KeyFileError
from rota.keys.node_keys import NodeKeys
from rota.keys.transport_files import TransportFolder
from rota.logs import catalogue
from rota.server.configuration import ConfigurationRejected, read_configuration
from rota.server.credentials_file import read_credentials
from rota.server.entrance import Entrance
from rota.service.commands.commands import CommandOffice
from rota.service.registry.expiry import CertificateExpiry
from rota.transport import GrpcPeers, Identity, StaticRegistry, read_registry

# Errors that an operator can fix.
EXPECTED: Final = (ValueError, OSError, KeyFileError, ConfigurationRejected)


class Watched(Protocol):
    """A file that is checked every second."""

    def look(self) -> None:
        """Act if the file has changed. Any exception is logged, and changes nothing."""
        ...


class FileWatch:
    """Checks all watched files periodically."""

    def __init__(self, *watched: Watched) -> None:
        self.watched: Final[list[Watched]] = [*watched]
        self._told: Final[dict[int, str]] = {}

    async def run(self, interval_s: float) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            self.look()

    def look(self) -> None:
        """Check each of them once."""
        for place, each in enumerate(self.watched):
            try:
                each.look()
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                if self._told.get(place) != text:
                    shown = None if isinstance(error, EXPECTED) else error
                    catalogue.FILE_UNUSABLE.log(file=type(each).__name__, reason=text, error=shown)
                self._told[place] = text
            else:
                self._told.pop(place, None)


class WatchedCertificate:
    """Uses another certificate towards peers when it becomes current in the folder, without a restart."""

    def __init__(self, keys: NodeKeys, peers: GrpcPeers, expiry: CertificateExpiry) -> None:
        self._folder: Final = keys.transport
        self._peers: Final = peers
        self._expiry: Final = expiry
        self._shown = keys.certificate.fingerprint

    def look(self) -> None:
        """Switch to the current certificate if it has changed."""
        certificate = self._folder.current().certificate
        if certificate.fingerprint != self._shown:
            self._peers.use(identity_of(self._folder))
            self._shown = certificate.fingerprint
            catalogue.CERTIFICATE_CHANGED.log(fingerprint=self._shown)
        self._expiry.look(certificate)


class WatchedRegistry:
    """Replaces the network's nodes when their file changes."""

    def __init__(self, path: Path, registry: StaticRegistry) -> None:
        self._path: Final = path
        self._registry: Final = registry

    def look(self) -> None:
        """Load the file; apply it if it has changed."""
        nodes = read_registry(self._path)
        if nodes != self._registry.registrations():
            self._registry.change(nodes)
            catalogue.FILE_REGISTRY_CHANGED.log(nodes=len(nodes))


class WatchedMaximum:
    """Applies a change of the maximum deduplication duration in the configuration file."""

    def __init__(self, path: Path, office: CommandOffice) -> None:
        self._path: Final = path
        self._office: Final = office
        self._seen: tuple[int, int] | None = None

    def look(self) -> None:
        """Load the file if it has changed; apply its maximum."""
        status = self._path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp == self._seen:
            return
        maximum_ms = read_configuration(self._path).commands.maximum_duration_ms
        self._seen = stamp
        if maximum_ms != self._office.configuration().maximum_duration_ms:
            self._office.change_maximum(maximum_ms)
            catalogue.FILE_MAXIMUM_CHANGED.log(maximum_ms=maximum_ms)


class WatchedCredentials:
    """Replaces the credentials when their file changes: a removed token is revoked at once."""

    def __init__(self, path: Path, entrance: Entrance) -> None:
        self._path: Final = path
        self._entrance: Final = entrance

    def look(self) -> None:
        """Load the file; apply it if it has changed."""
        found = read_credentials(self._path)
        if found != self._entrance.credentials:
            self._entrance.use_credentials(found)
            catalogue.FILE_CREDENTIALS_CHANGED.log(credentials=len(found))


class WatchedTls:
    """Uses the new certificate of the entrance when its files change, without a restart."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance: Final = entrance

    def look(self) -> None:
        """Reload the TLS files if they have changed."""
        if self._entrance.look_for_certificate():
            catalogue.FILE_TLS_CHANGED.log()


def identity_of(folder: TransportFolder) -> Identity:
    """Return the certificate and key that peers are shown."""
    current = folder.current()
    return Identity(current.certificate.pem, current.private_key.reveal())
