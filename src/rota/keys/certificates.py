"""A node's certificate: self-signed, known by its fingerprint.

A node's certificate is signed by its own key and no other. Trust comes from the registry, where the owner of a name has
put the SHA-256 of the certificate; an authority beside it could only contradict. So there is nothing to revoke but the
entry in the registry. The certificate names the node, as its common name and as its only DNS name, because TLS
libraries look there, and serves both ends of a connection. Its key is on P-256: the TLS library of gRPC does not offer
Ed25519 by default, and Python cannot change that.

A certificate is good for a year, from an hour ago so that clocks may differ, and is renewed in its last 30 days.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rota.keys.secret import Secret
from rota.model.types import NodeName

VALIDITY_S: Final = 365 * 86_400
BACKDATED_S: Final = 3_600
RENEWAL_S: Final = 30 * 86_400
NODE_NAME: Final = re.compile("[a-z0-9._-]{1,63}")  # As the registry has it.
CERTIFICATE_BYTES_MAX: Final = 8192

_KEY_HEAD: Final = b"-----BEGIN PRIVATE KEY-----"
_CERTIFICATE_HEAD: Final = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and the fields that Rota uses."""

    node: NodeName
    der: bytes
    valid_from_s: int
    valid_until_s: int

    @property
    def fingerprint(self) -> bytes:
        """The SHA-256 of its bytes, as in the registry."""
        return hashlib.sha256(self.der).digest()

    @property
    def pem(self) -> bytes:
        """In the form of TLS libraries."""
        return x509.load_der_x509_certificate(self.der).public_bytes(serialization.Encoding.PEM)

    def is_valid_at(self, now_s: int) -> bool:
        """Whether peers would accept it at this time."""
        return self.valid_from_s <= now_s <= self.valid_until_s

    def is_due_for_renewal(self, now_s: int) -> bool:
        """Whether the next one should be announced."""
        return now_s > self.valid_until_s - RENEWAL_S


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its private key, the latter in PEM."""

    certificate: Certificate
    private_key: Secret

    @property
    def pem(self) -> Secret:
        """Both in one text, so that one file holds either both or nothing."""
        return Secret(self.private_key.reveal() + self.certificate.pem)


def make_identity(node: NodeName, now_s: int, validity_s: int = VALIDITY_S) -> Identity:
    """A fresh key, and a certificate for it that names the node."""
    require_node_name(node)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now_s - BACKDATED_S, UTC))
        .not_valid_after(datetime.fromtimestamp(now_s + validity_s, UTC))
    )
    for extension, critical in _extensions(node):
        builder = builder.add_extension(extension, critical)
    certificate = builder.sign(key, hashes.SHA256())
    private_key = Secret(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Identity(read_certificate(certificate.public_bytes(serialization.Encoding.DER)), private_key)


def read_certificate(content: bytes) -> Certificate:
    """Read a certificate in DER. A `ValueError` names the error."""
    if len(content) > CERTIFICATE_BYTES_MAX:
        raise ValueError(f"certificate: at most {CERTIFICATE_BYTES_MAX} bytes, not {len(content)}")
    try:
        read = x509.load_der_x509_certificate(content)
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError("certificate: it names no node") from None
    except ValueError:
        raise ValueError("certificate: it is no X.509 certificate in DER") from None
    told = [name.value for name in names]
    if len(told) != 1 or not isinstance(names[0], x509.DNSName) or not NODE_NAME.fullmatch(names[0].value):
        raise ValueError("certificate: it must name one node, as its only DNS name, and nothing else")
    return Certificate(
        NodeName(names[0].value),
        content,
        int(read.not_valid_before_utc.timestamp()),
        int(read.not_valid_after_utc.timestamp()),
    )


def read_identity(pem: Secret) -> Identity:
    """Read a private key and its certificate, as `Identity.pem` writes them.

    A `ValueError` contains no part of the key.
    """
    key_part, certificate_part = (Secret(part) for part in _split(pem))
    try:
        key = serialization.load_pem_private_key(key_part.reveal(), None)
        certificate = x509.load_pem_x509_certificate(certificate_part.reveal())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError(
            "it must hold a private key without a password, and behind it a certificate, both in PEM"
        ) from None
    if key.public_key() != certificate.public_key():
        raise ValueError("the certificate is not that of the private key")
    return Identity(read_certificate(certificate.public_bytes(serialization.Encoding.DER)), key_part)


def require_node_name(node: str) -> None:
    """`ValueError` if the registry would not accept this name."""
    if not NODE_NAME.fullmatch(node):
        raise ValueError(f"node: 1 to 63 of a to z, 0 to 9, hyphen, dot and underscore, not {node!r}")


def _extensions(node: str) -> tuple[tuple[x509.ExtensionType, bool], ...]:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    both_ends = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    return (
        (x509.SubjectAlternativeName([x509.DNSName(node)]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (usage, True),
        (both_ends, False),
    )


def _split(pem: Secret) -> tuple[bytes, bytes]:
    key_part, head, certificate_part = pem.reveal().partition(_CERTIFICATE_HEAD)
    return (key_part if key_part.startswith(_KEY_HEAD) else b""), head + certificate_part
