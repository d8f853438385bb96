"""Files that an operator may change while the node runs: certificates, credentials, the registry, the configuration.

Theory of operation. Every second each file is looked at. What cannot be read changes nothing and is logged once; it
does not keep the other files from being looked at, whatever went wrong. So a token that was taken back is taken back
although a key file cannot be read at that moment.
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

# What an operator can put right.
EXPECTED: Final = (ValueError, OSError, KeyFileError, ConfigurationRejected)


class Watched(Protocol):
    """Something that is looked at every second."""

    def look(self) -> None:
        """Act if it has changed. Whatever it raises is logged, and changes nothing."""
        ...


class FileWatch:
    """Looks at all of them, again and again."""

    def __init__(self, *watched: Watched) -> None:
        self.watched: Final[list[Watched]] = [*watched]
        self._told: Final[dict[int, str]] = {}

    async def run(self, interval_s: float) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            self.look()

    def look(self) -> None:
        """At each of them, once."""
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
    """When another certificate becomes current in the folder, peers are shown that one: no restart is needed."""

    def __init__(self, keys: NodeKeys, peers: GrpcPeers, expiry: CertificateExpiry) -> None:
        self._folder: Final = keys.transport
        self._peers: Final = peers
        self._expiry: Final = expiry
        self._shown = keys.certificate.fingerprint

    def look(self) -> None:
        """Show another one if there is one."""
        certificate = self._folder.current().certificate
        if certificate.fingerprint != self._shown:
            self._peers.use(identity_of(self._folder))
            self._shown = certificate.fingerprint
            catalogue.CERTIFICATE_CHANGED.log(fingerprint=self._shown)
        self._expiry.look(certificate)


class WatchedRegistry:
    """When the file with the nodes changes, the network is the one that it names from now on."""

    def __init__(self, path: Path, registry: StaticRegistry) -> None:
        self._path: Final = path
        self._registry: Final = registry

    def look(self) -> None:
        """Take over what the file says."""
        nodes = read_registry(self._path)
        if nodes != self._registry.registrations():
            self._registry.change(nodes)
            catalogue.FILE_REGISTRY_CHANGED.log(nodes=len(nodes))


class WatchedMaximum:
    """When the maximum deduplication duration changes in the configuration file, it holds from then on."""

    def __init__(self, path: Path, office: CommandOffice) -> None:
        self._path: Final = path
        self._office: Final = office
        self._seen: tuple[int, int] | None = None

    def look(self) -> None:
        """Take over what the file says."""
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
    """When the file with the credentials changes, those are known that it names: a token is taken back at once."""

    def __init__(self, path: Path, entrance: Entrance) -> None:
        self._path: Final = path
        self._entrance: Final = entrance

    def look(self) -> None:
        """Take over what the file says."""
        found = read_credentials(self._path)
        if found != self._entrance.credentials:
            self._entrance.use_credentials(found)
            catalogue.FILE_CREDENTIALS_CHANGED.log(credentials=len(found))


class WatchedTls:
    """When the certificate of the entrance changes, users are shown the new one: no restart is needed."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance: Final = entrance

    def look(self) -> None:
        """Show another one if there is one."""
        if self._entrance.look_for_certificate():
            catalogue.FILE_TLS_CHANGED.log()


def identity_of(folder: TransportFolder) -> Identity:
    """What peers are shown."""
    current = folder.current()
    return Identity(current.certificate.pem, current.private_key.reveal())
