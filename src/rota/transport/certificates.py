"""The identity of a peer is its certificate; how nodes learn the certificates of others.

The registry has fingerprints and no certificates, and gRPC in Python trusts certificates and no fingerprints. So a
node looks at the certificate that a peer shows at its registered endpoint, by a TLS handshake that trusts nothing, and
stores it only if its SHA-256 is registered for that very peer. gRPC trusts the stored certificates alone, in both
directions: a connection to a peer trusts the one certificate that it was seen with, and TLS itself refuses one from a
peer whose certificate has not been seen or is not registered any more. The look proves nothing by itself, since a
certificate is public; the handshake of each connection proves that its owner holds the key.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from rota.model.types import NodeName
from rota.ports import Registration, Unavailable
from rota.transport.endings import Reason, refused
from rota.transport.host_addresses import HostAddresses

FINGERPRINT_BYTES: Final = 32
CERTIFICATE_BYTES_MAX: Final = 16_384
SHOWN_DIGITS: Final = 16
HANDSHAKE_READS_MAX: Final = 64
HANDSHAKE_READ_BYTES: Final = 16_384

WallClock: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """The time of day, with which validities are compared."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Identity:
    """This node's own certificate and key, both PEM. The key is never shown."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)

    @property
    def certificate(self) -> Certificate:
        """The certificate, parsed."""
        try:
            return read_certificate(x509.load_pem_x509_certificate(self.certificate_pem).public_bytes(Encoding.DER))
        except ValueError as error:
            raise ValueError(f"certificate_pem: must be one PEM certificate that TLS can use: {error}") from error


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and the fields that Rota uses. Its name must be that of the node that it is registered for."""

    fingerprint: bytes
    pem: bytes = field(repr=False)
    name: str
    valid_from: datetime
    valid_until: datetime

    @property
    def shown(self) -> str:
        """The start of the fingerprint, by which operators tell certificates apart."""
        return self.fingerprint.hex()[:SHOWN_DIGITS]

    def flaw(self, now: datetime) -> str:
        """Why it is not valid at this time; empty when it is."""
        if now < self.valid_from:
            return f"its certificate {self.shown} is not valid before {self.valid_from:%Y-%m-%d %H:%M:%S} UTC"
        if now >= self.valid_until:
            return f"its certificate {self.shown} is not valid since {self.valid_until:%Y-%m-%d %H:%M:%S} UTC"
        return ""


def fingerprint_of(certificate_der: bytes) -> bytes:
    """In the form of the registry."""
    return hashlib.sha256(certificate_der).digest()


def der_of(pem: bytes) -> bytes:
    """The bytes of a certificate that a peer has shown; `ValueError` when it is none."""
    try:
        return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    except Exception as error:
        # The library has errors of many types.
        raise ValueError(f"a certificate must be readable: {error}") from error


def read_certificate(der: bytes) -> Certificate:
    """A certificate from its bytes; `ValueError` when they are none, or when gRPC's TLS cannot use it."""
    if len(der) > CERTIFICATE_BYTES_MAX:
        raise ValueError(f"a certificate has at most {CERTIFICATE_BYTES_MAX} bytes, not {len(der)}")
    try:
        parsed = x509.load_der_x509_certificate(der)
        _require_shape(parsed)
        key = parsed.public_key()
    except ValueError:
        raise
    except Exception as error:
        # A stranger may have registered it. The library raises errors of many types for what it cannot read.
        raise ValueError(f"a certificate must be readable: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise ValueError("a certificate's key is of an elliptic curve such as P-256, or RSA; gRPC has no Ed25519")
    return Certificate(
        fingerprint_of(der),
        parsed.public_bytes(Encoding.PEM),
        str(parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value),
        parsed.not_valid_before_utc,
        parsed.not_valid_after_utc,
    )


def _require_shape(parsed: x509.Certificate) -> None:
    """TLS finds a trusted certificate by the name in it, and takes one that may sign others for their issuer.

    So a node that could choose a subject freely could have the certificates of another node refused.
    """
    if parsed.subject != parsed.issuer or [part.oid for part in parsed.subject] != [NameOID.COMMON_NAME]:
        raise ValueError("a certificate is self-signed, and its subject is a common name and nothing else")
    try:
        may_sign = parsed.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
        hosts = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise ValueError("a certificate has a key usage, and its name as a DNS name too") from error
    if may_sign:
        raise ValueError("a certificate's key usage must not allow it to sign other certificates")
    if [str(parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)] != hosts.get_values_for_type(
        x509.DNSName
    ):
        raise ValueError("a certificate's only DNS name is its common name")


class KnownCertificates:
    """Certificates of registered nodes that this node has seen, while they are registered."""

    def __init__(self) -> None:
        self._known: dict[bytes, Certificate] = {}

    def get(self, fingerprint: bytes) -> Certificate | None:
        """The certificate of that fingerprint, if this node has seen it."""
        return self._known.get(fingerprint)

    def add(self, certificate: Certificate) -> None:
        """Add one that was seen and is registered."""
        self._known[certificate.fingerprint] = certificate

    def keep(self, fingerprints: Iterable[bytes]) -> bool:
        """Remove all others; whether there were any."""
        wanted = set(fingerprints)
        kept = {key: certificate for key, certificate in self._known.items() if key in wanted}
        is_less = len(kept) < len(self._known)
        self._known = kept
        return is_less

    def pem(self) -> bytes:
        """All of them, in the form that gRPC takes."""
        return b"".join(certificate.pem for certificate in self._known.values())


async def look_at_certificate(
    node: NodeName, registration: Registration, now: datetime, timeout_ms: int, hosts: HostAddresses | None = None
) -> Certificate:
    """The certificate shown at the first of a node's endpoints that answers.

    `Refused` if it is not registered or not valid, `Unavailable` if no endpoint answers in time.
    """
    hosts = hosts or HostAddresses()
    *others, last = registration.places
    for place in others:
        with suppress(Unavailable):
            return _judged(node, place, await _shown_at(node, place.endpoint, timeout_ms, hosts), now)
    return _judged(node, last, await _shown_at(node, last.endpoint, timeout_ms, hosts), now)


def _judged(node: NodeName, registration: Registration, der: bytes, now: datetime) -> Certificate:
    if fingerprint_of(der) not in registration.fingerprints:
        shown = fingerprint_of(der).hex()[:SHOWN_DIGITS]
        raise refused(Reason.STRANGER, f"{registration.endpoint} shows certificate {shown}, which is not registered")
    try:
        certificate = read_certificate(der)
    except ValueError as error:
        raise refused(Reason.STRANGER, f"{registration.endpoint} shows a certificate of no use: {error}") from error
    if certificate.name != node:
        raise refused(Reason.SWAPPED_NAME, f"its certificate {certificate.shown} is made out to another name")
    if flaw := certificate.flaw(now):
        raise refused(Reason.EXPIRED, flaw)
    return certificate


async def _shown_at(node: NodeName, endpoint: str, timeout_ms: int, hosts: HostAddresses) -> bytes:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            found = await hosts.addresses_of(node, endpoint)
            family, kind, protocol, _, address = found[0]
            with socket.socket(family, kind, protocol) as plain:
                plain.setblocking(False)
                await loop.sock_connect(plain, address)
                return await _shown_on(plain)
    except TimeoutError as error:
        raise Unavailable(f"nobody answers at {endpoint}") from error
    except (OSError, ValueError) as error:
        raise Unavailable(f"{endpoint} cannot be reached: {error}") from error


async def _shown_on(plain: socket.socket) -> bytes:
    """The part of a handshake that shows the peer's certificate; the handshake is not finished."""
    loop = asyncio.get_running_loop()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    handshake = _looking_only().wrap_bio(incoming, outgoing)
    for _ in range(HANDSHAKE_READS_MAX):
        try:
            handshake.do_handshake()
        except ssl.SSLWantReadError:
            await loop.sock_sendall(plain, outgoing.read())
            received = await loop.sock_recv(plain, HANDSHAKE_READ_BYTES)
            if not received:
                raise OSError("it hung up") from None
            incoming.write(received)
        else:
            return handshake.getpeercert(binary_form=True) or b""
    raise OSError("its handshake has no end")


def _looking_only() -> ssl.SSLContext:
    """Trusts nothing and so checks nothing. TLS 1.3, in which the peer's certificate comes before ours is due."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    return context
