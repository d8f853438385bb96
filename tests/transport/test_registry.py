"""The registry's file, and certificates as they are read."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from rota.ports import Registration
from rota.transport import fingerprint_of, read_registry
from rota.transport.certificates import read_certificate, utc_now
from tests.transport.kit import SIGNS_ONLY, make_identity

FIRST, SECOND = "ab" * 32, "CD" * 32


def test_a_registry_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.toml"
    path.write_text(
        f'[nodes.node1]\nendpoint = "10.0.0.1:9000"\nfingerprint = "{FIRST}"\n'
        f'[nodes."node.2"]\nendpoint = "[::1]:9"\nfingerprint = "{FIRST}"\nnext_fingerprint = "{SECOND}"\n'
    )
    assert read_registry(path) == {
        "node1": Registration("10.0.0.1:9000", bytes.fromhex(FIRST)),
        "node.2": Registration("[::1]:9", bytes.fromhex(FIRST), bytes.fromhex(SECOND)),
    }


def test_endpoint_with_several_places_is_looked_at_place_by_place() -> None:
    registration = Registration("a:1, b:2,a:1,c:3,d:4", bytes.fromhex(FIRST), bytes.fromhex(SECOND))
    assert [place.endpoint for place in registration.places] == ["a:1", "b:2", "c:3"]
    assert {place.fingerprints for place in registration.places} == {registration.fingerprints}
    assert Registration("a:1", b"").places == (Registration("a:1", b""),)


@pytest.mark.parametrize(
    ("content", "flaw"),
    [
        ("nodes = ", "is not TOML"),
        ("", "must have tables"),
        ("[nodes]\n[other]\n", "must have tables"),
        ("[nodes]\nnode1 = 1\n", "nodes.node1: must be a table"),
        ("[nodes.node1]\nport = 1\n", "nodes.node1.port: is not known"),
        (f'[nodes.node1]\nfingerprint = "{FIRST}"\n', "nodes.node1.endpoint: must be a host and a port"),
        (f'[nodes.node1]\nendpoint = "host"\nfingerprint = "{FIRST}"\n', "nodes.node1.endpoint: must be"),
        ('[nodes.node1]\nendpoint = "host:1"\n', "nodes.node1.fingerprint: must be the SHA-256"),
        (f'[nodes.node1]\nendpoint = "host:1,host"\nfingerprint = "{FIRST}"\n', "nodes.node1.endpoint: must be"),
        ('[nodes.node1]\nendpoint = "host:1"\nfingerprint = "zz"\n', "nodes.node1.fingerprint: must be the SHA-256"),
        (
            f'[nodes.node1]\nendpoint = "host:1"\nfingerprint = "{FIRST}"\nnext_fingerprint = ""\n',
            "nodes.node1.next_fingerprint: must be the SHA-256",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_what_would_be_right(content: str, flaw: str, tmp_path: Path) -> None:
    path = tmp_path / "nodes.toml"
    path.write_text(content)
    with pytest.raises(ValueError, match=flaw.replace(".", r"\.")):
        read_registry(path)


def test_a_certificate_tells_its_name_its_validity_and_its_fingerprint() -> None:
    identity = make_identity("node1")
    der = x509.load_pem_x509_certificate(identity.certificate_pem).public_bytes(serialization.Encoding.DER)
    certificate = read_certificate(der)
    assert certificate.name == "node1"
    assert certificate.fingerprint == fingerprint_of(der)
    assert not certificate.flaw(utc_now())
    assert "not valid since" in certificate.flaw(utc_now() + timedelta(days=30))
    assert "not valid before" in certificate.flaw(utc_now() - timedelta(days=30))


def test_an_identity_does_not_show_its_key() -> None:
    identity = make_identity("node1")
    assert "PRIVATE" not in repr(identity)


def shaped(
    *, subject: str = "node1", issuer: str = "node1", hosts: tuple[str, ...] = ("node1",), usage: x509.KeyUsage | None
) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
    builder = x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(utc_now()).not_valid_after(utc_now() + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
    if usage is not None:
        builder = builder.add_extension(usage, critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, True, False, False, False)


def test_a_certificate_that_could_stand_in_for_others_is_refused() -> None:
    assert read_certificate(shaped(usage=SIGNS_ONLY)).name == "node1"
    with pytest.raises(ValueError, match="is self-signed"):
        read_certificate(shaped(usage=SIGNS_ONLY, issuer="node2"))
    with pytest.raises(ValueError, match="has a key usage"):
        read_certificate(shaped(usage=None))
    with pytest.raises(ValueError, match="must not allow it to sign"):
        read_certificate(shaped(usage=signs_certificates()))
    with pytest.raises(ValueError, match="only DNS name"):
        read_certificate(shaped(usage=SIGNS_ONLY, hosts=("node1", "node2")))
    with pytest.raises(ValueError, match="at most"):
        read_certificate(b"\0" * 20_000)


def test_a_key_that_grpc_cannot_use_is_refused() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node1")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(utc_now()).not_valid_after(utc_now() + timedelta(days=1))
    builder = builder.add_extension(SIGNS_ONLY, critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("node1")]), critical=False)
    with pytest.raises(ValueError, match="gRPC has no Ed25519"):
        read_certificate(builder.sign(key, None).public_bytes(serialization.Encoding.DER))
