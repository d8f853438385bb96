"""The hello of a connection, and which peers are refused.

The dialing side has seen the peer's certificate before it dials, and trusts no other. The dialed side gets from TLS the
certificate that was shown, and finds the peer that it is registered for. It then compares the names in the hello with
that peer, so that a node that is configured with another's name gets an error and does not act in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from rota.model.types import NodeName
from rota.ports import Registration
from rota.transport.certificates import SHOWN_DIGITS, Certificate, der_of, fingerprint_of, read_certificate
from rota.transport.endings import Reason, Refused, harmless, refused
from rota.transport.parts import ACCOUNT_BYTES, LIFE_BYTES, Announcement, Goodbye, Hello, read_part
from rota.wire.messages import PROTOCOL_VERSION


def identify(
    shown_pem: bytes, registrations: Mapping[NodeName, Registration], now: datetime
) -> tuple[NodeName, Certificate]:
    """The peer whose certificate this is; `Refused` when it belongs to none, or is not valid now.

    It must be the peer named in the certificate: another node may have registered a copy of its fingerprint.
    """
    try:
        certificate = read_certificate(der_of(shown_pem))
    except ValueError as error:
        raise refused(Reason.STRANGER, f"a certificate of no use was shown: {error}") from error
    name = NodeName(certificate.name)
    registration = registrations.get(name)
    if registration is not None and certificate.fingerprint in registration.fingerprints:
        if flaw := certificate.flaw(now):
            raise refused(Reason.EXPIRED, flaw)
        return name, certificate
    if any(certificate.fingerprint in each.fingerprints for each in registrations.values()):
        raise refused(Reason.SWAPPED_NAME, f"certificate {certificate.shown} is made out to another name")
    raise refused(Reason.STRANGER, f"certificate {certificate.shown} is not registered for any node")


def registration_flaw(certificate: Certificate, registration: Registration | None, now: datetime) -> Refused | None:
    """Why a connection under this certificate may not continue; `None` when it may."""
    if registration is None or certificate.fingerprint not in registration.fingerprints:
        return refused(Reason.STRANGER, f"its certificate {certificate.shown} is registered no longer")
    if flaw := certificate.flaw(now):
        return refused(Reason.EXPIRED, flaw)
    return None


def read_hello(data: bytes | None, us: NodeName, peer: NodeName) -> Hello:
    """The first part of a connection with this peer; `Refused` when the connection cannot continue from it."""
    if data is None:
        raise refused(Reason.CUT_OFF, "the connection ended before it said hello")
    match read_part(data):
        case Hello() as hello:
            _require_version(hello.version)
            _require_names(hello, us, peer)
            require_announcement(hello.announcement)
            return hello
        case Goodbye(ending):
            raise Refused(ending)
        case _:
            raise refused(Reason.MALFORMED, "a connection begins with a hello")


def _require_version(version: tuple[int, int]) -> None:
    """A newer minor version only adds fields, which are skipped; another major version is refused (protocol §6)."""
    if version[0] != PROTOCOL_VERSION[0]:
        theirs, ours = (".".join(map(str, numbers)) for numbers in (version, PROTOCOL_VERSION))
        raise refused(Reason.VERSION, f"protocol version {theirs} cannot be spoken with a node of version {ours}")


def require_announcement(announcement: Announcement) -> None:
    """A node takes part in automation with an address, or not at all; the reader bounds names of triggers."""
    if len(announcement.account) not in (0, ACCOUNT_BYTES):
        raise refused(
            Reason.MALFORMED, f"automation account: must have {ACCOUNT_BYTES} bytes, not {len(announcement.account)}"
        )


def _require_names(hello: Hello, us: NodeName, peer: NodeName) -> None:
    if hello.node != peer:
        claimed = harmless(hello.node)
        raise refused(Reason.SWAPPED_NAME, f"it calls itself {claimed!r}, and its certificate is that of {peer!r}")
    if hello.peer != us:
        raise refused(Reason.SWAPPED_NAME, f"it means to speak to {harmless(hello.peer)!r}, and this is {us!r}")
    if len(hello.life) != LIFE_BYTES:
        raise refused(Reason.MALFORMED, f"life: must have {LIFE_BYTES} bytes, not {len(hello.life)}")


def shown_fingerprint(shown_pem: bytes) -> str:
    """The fingerprint for the log, of a peer that is refused before its name is known."""
    try:
        return f"certificate {fingerprint_of(der_of(shown_pem)).hex()[:SHOWN_DIGITS]}"
    except ValueError:
        return "a stranger"
