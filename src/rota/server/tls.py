"""TLS on the entrance: a certificate with its key, replaceable while the node runs, and client certificates.

Theory of operation. One `SSLContext` serves HTTP, WebSockets and operators. Replaced files are loaded into a new
context, which each later handshake uses: only a key that fits its certificate replaces the current ones, a removed
authority is no longer trusted, and connections stay open. gRPC requests the files at each handshake.

With `client_ca`, clients may show a certificate that an authority in that file has signed. A credential names one by
its SHA-256; a certificate that no credential names gives no access.
"""

from __future__ import annotations

import hashlib
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

FILE_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of the certificate (with the chain to its authority, if any), its key, and clients' authorities."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class ServerTls:
    """The certificate of the entrance. `ValueError` or `OSError` when its files cannot be used."""

    def __init__(self, files: TlsFiles) -> None:
        self._files: Final = files
        self._content = _contents(files)
        self.context: Final = _context(files)
        self._current = self.context
        self.context.sni_callback = self._choose

    def look(self) -> bool:
        """Reload files that have changed; return whether any had. An error leaves the current ones in use."""
        found = _contents(self._files)
        if found == self._content:
            return False
        self._current = _context(self._files)
        self._content = found
        return True

    def _choose(self, session: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        """Use the current context; OpenSSL calls this in each handshake, whether or not the client names a server."""
        session.context = self._current

    def grpc_credentials(self) -> Any:  # noqa: ANN401  # gRPC has no types
        """Return the same for gRPC, which requests the files at each handshake."""
        return grpc.dynamic_ssl_server_credentials(self._grpc_configuration(), self._grpc_configuration)

    def _grpc_configuration(self) -> Any:  # noqa: ANN401
        certificate, key, _ = self._content
        return grpc.ssl_server_certificate_configuration(((key, certificate),))


def certificate_digest(transport: Any) -> bytes | None:  # noqa: ANN401  # asyncio's, or a substitute
    """Return the SHA-256 of the certificate that the other side of a connection has proved to be its own, or None."""
    session = transport.get_extra_info("ssl_object") if transport is not None else None
    shown = session.getpeercert(binary_form=True) if session is not None else None
    return hashlib.sha256(shown).digest() if shown else None


def _contents(files: TlsFiles) -> tuple[bytes, bytes, bytes]:
    """Return the content of the files. `ValueError` if others may read or write the key."""
    if files.key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(f"{files.key}: may be read or written by others; fix it with `chmod 600 {files.key}`")
    return _read(files.certificate), _read(files.key), _read(files.client_ca) if files.client_ca is not None else b""


def _read(path: Path) -> bytes:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise ValueError(f"{path}: must be at most {FILE_BYTES_MAX} bytes")
    return path.read_bytes()


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session would not have its client certificate verified again.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
        if files.client_ca is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(files.client_ca)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{files.certificate}: cannot be used with its key: {error}") from None
    return context


def _no_password() -> str:
    """Refuse an encrypted key, for whose password OpenSSL would prompt at the terminal."""
    raise ValueError("the key is encrypted")
