"""Certificates: what they say, that TLS takes them, and how one follows another."""

import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.keys.certificates import (
    BACKDATED_S,
    RENEWAL_S,
    VALIDITY_S,
    Identity,
    make_identity,
    read_certificate,
    read_identity,
)
from rota.keys.files import KeyFileError, NotThere, UnsafePermissions, write_new
from rota.keys.secret import Secret
from rota.keys.transport_files import Registered, Step, TransportFolder, next_step
from rota.model.types import NodeName
from tests import bounds
from tests.keys.kit import NODE, NOW_S

# Taken this way its types are not asked for: the library brings none.
grpc: Any = pytest.importorskip("grpc")
IDENTITY = make_identity(NODE, NOW_S)
REAL_NOW_S = int(datetime.now(UTC).timestamp())


def test_a_certificate_names_its_node_and_is_good_for_a_year() -> None:
    certificate = IDENTITY.certificate
    assert certificate.node == NODE
    assert (certificate.valid_from_s, certificate.valid_until_s) == (NOW_S - BACKDATED_S, NOW_S + VALIDITY_S)
    read = x509.load_der_x509_certificate(certificate.der)
    assert read.subject.rfc4514_string() == f"CN={NODE}"
    assert read.fingerprint(hashes.SHA256()) == certificate.fingerprint
    assert isinstance(read.public_key(), ec.EllipticCurvePublicKey)
    read.verify_directly_issued_by(read)


def test_a_certificate_is_valid_between_its_ends_and_renewed_in_its_last_days() -> None:
    certificate = IDENTITY.certificate
    assert certificate.is_valid_at(certificate.valid_from_s)
    assert certificate.is_valid_at(certificate.valid_until_s)
    assert not certificate.is_valid_at(certificate.valid_from_s - 1)
    assert not certificate.is_valid_at(certificate.valid_until_s + 1)
    assert not certificate.is_due_for_renewal(certificate.valid_until_s - RENEWAL_S)
    assert certificate.is_due_for_renewal(certificate.valid_until_s - RENEWAL_S + 1)


def test_no_two_identities_are_alike() -> None:
    assert make_identity(NODE, NOW_S).certificate.fingerprint != IDENTITY.certificate.fingerprint


def test_an_identity_is_read_as_it_was_written() -> None:
    assert read_identity(IDENTITY.pem) == IDENTITY


@pytest.mark.parametrize("node", ["", "Node1", "a" * 64, "a b", "a/b", "é", "node1\n"])
def test_a_name_that_the_registry_would_not_take_gets_no_certificate(node: str) -> None:
    with pytest.raises(ValueError, match="node: 1 to 63 of a to z"):
        make_identity(NodeName(node), NOW_S)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_no_certificate(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^certificate: "):
        read_certificate(content)
    with pytest.raises(ValueError, match="it must hold a private key without a password"):
        read_identity(Secret(content))


def test_a_certificate_that_is_too_large_is_not_looked_at() -> None:
    with pytest.raises(ValueError, match="at most 8192 bytes, not 8193"):
        read_certificate(bytes(8193))


def certificate_with(*names: x509.GeneralName) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NODE)])
    day = datetime.fromtimestamp(NOW_S, UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    "names",
    [
        (),
        (x509.DNSName("node1"), x509.DNSName("node2")),
        (x509.RFC822Name("a@node1"),),
        (x509.DNSName("*.node1"),),
        (x509.DNSName("NODE1"),),
    ],
)
def test_a_certificate_names_one_node_and_nothing_else(names: tuple[x509.GeneralName, ...]) -> None:
    with pytest.raises(ValueError, match=r"certificate: it (names no node|must name one node)"):
        read_certificate(certificate_with(*names))


def test_the_certificate_of_another_key_is_refused() -> None:
    other = make_identity(NODE, NOW_S)
    mixed = Secret(IDENTITY.private_key.reveal() + other.certificate.pem)
    with pytest.raises(ValueError, match="the certificate is not that of the private key"):
        read_identity(mixed)


def context(side: ssl.Purpose, identity: Identity, trusted: Identity, folder: Path) -> ssl.SSLContext:
    path = folder / f"{identity.certificate.fingerprint.hex()}.pem"
    if not path.exists():
        write_new(path, identity.pem)
    made = ssl.create_default_context(side, cadata=trusted.certificate.pem.decode())
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(path)
    return made


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> tuple[bytes | None, bytes | None]:
    """A TLS handshake in memory; the certificate that each side was shown."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0].getpeercert(binary_form=True), ends[1].getpeercert(binary_form=True)


def test_two_nodes_that_know_each_other_s_certificates_shake_hands(tmp_path: Path) -> None:
    one, two = (make_identity(NodeName(name), REAL_NOW_S) for name in ("node_1", "node-2.example"))
    client = context(ssl.Purpose.SERVER_AUTH, one, two, tmp_path)
    server = context(ssl.Purpose.CLIENT_AUTH, two, one, tmp_path)
    assert shake_hands(client, server, "node-2.example") == (two.certificate.der, one.certificate.der)


def test_a_stranger_a_swapped_name_and_an_expired_certificate_do_not(tmp_path: Path) -> None:
    one, two, three = (make_identity(NodeName(name), REAL_NOW_S) for name in ("node1", "node2", "node3"))
    old = make_identity(NodeName("node2"), REAL_NOW_S - VALIDITY_S - 1)
    server = context(ssl.Purpose.CLIENT_AUTH, two, one, tmp_path)
    with pytest.raises(ssl.SSLError, match=r"unable to get issuer|self.signed"):
        shake_hands(context(ssl.Purpose.SERVER_AUTH, one, three, tmp_path), server, "node2")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(context(ssl.Purpose.SERVER_AUTH, one, two, tmp_path), server, "node3")
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(
            context(ssl.Purpose.SERVER_AUTH, one, old, tmp_path),
            context(ssl.Purpose.CLIENT_AUTH, old, one, tmp_path),
            "node2",
        )


@contextmanager
def grpc_server(identity: Identity, trusted: Identity) -> Iterator[int]:
    """A server that answers with the name by which it knows the caller."""
    credentials = grpc.ssl_server_credentials(
        [(identity.private_key.reveal(), identity.certificate.pem)], trusted.certificate.pem, require_client_auth=True
    )

    def answer(_: bytes, caller: Any) -> bytes:  # noqa: ANN401
        shown: list[bytes] = caller.auth_context()["x509_pem_cert"]
        return ssl.PEM_cert_to_DER_cert(shown[0].decode())

    handler = grpc.method_handlers_generic_handler("Test", {"Who": grpc.unary_unary_rpc_method_handler(answer)})
    server = grpc.server(ThreadPoolExecutor(1), handlers=[handler])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def test_grpc_takes_the_certificates_on_both_sides() -> None:
    one, two = (make_identity(NodeName(name), REAL_NOW_S) for name in ("node_1", "node2"))
    credentials = grpc.ssl_channel_credentials(two.certificate.pem, one.private_key.reveal(), one.certificate.pem)
    with grpc_server(two, one) as port:
        options = [("grpc.ssl_target_name_override", "node2")]
        with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
            shown = channel.unary_unary("/Test/Who")(b"", timeout=bounds.WAIT_S)
    assert shown == one.certificate.der


def test_a_folder_makes_an_identity_once(tmp_path: Path) -> None:
    folder = TransportFolder(tmp_path / "transport", NODE)
    made, is_new = folder.ensure_current(NOW_S)
    again, is_new_again = folder.ensure_current(NOW_S + 1)
    assert (is_new, is_new_again) == (True, False)
    assert made == again == folder.current()
    assert folder.next() is None
    assert repr(folder) == f"TransportFolder({tmp_path / 'transport'}, of node1)"


def test_of_many_that_make_an_identity_at_once_all_get_the_same(tmp_path: Path) -> None:
    folder = TransportFolder(tmp_path / "transport", NODE)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(folder.ensure_current, [NOW_S] * 16))
    assert {identity.certificate.fingerprint for identity, _ in made} == {folder.current().certificate.fingerprint}
    assert sum(is_new for _, is_new in made) == 1


def test_a_certificate_is_exchanged_step_by_step_and_every_step_may_be_repeated(tmp_path: Path) -> None:
    folder = TransportFolder(tmp_path / "transport", NODE)
    old = folder.ensure_current(NOW_S)[0].certificate
    due_s = old.valid_until_s - 1
    registered = Registered()
    assert next_step(old, None, registered, NOW_S) is Step.REGISTER
    registered = Registered(old.fingerprint)
    assert next_step(old, None, registered, NOW_S) is Step.NOTHING
    assert next_step(old, None, registered, due_s) is Step.PREPARE

    new = folder.ensure_next(due_s)[0].certificate
    assert folder.ensure_next(due_s + 1)[0].certificate == new
    assert next_step(old, new, registered, due_s) is Step.ANNOUNCE
    registered = Registered(old.fingerprint, new.fingerprint)
    assert next_step(old, new, registered, due_s) is Step.PROMOTE

    assert folder.promote().certificate == new
    assert folder.current().certificate == new
    assert folder.next() is None
    assert next_step(new, None, registered, due_s) is Step.ROTATE
    assert next_step(new, None, Registered(new.fingerprint), due_s) is Step.NOTHING
    with pytest.raises(NotThere):
        folder.promote()


def test_a_next_certificate_that_waits_is_announced_after_the_last_exchange_is_over() -> None:
    first, second = (make_identity(NODE, NOW_S).certificate for _ in range(2))
    assert next_step(first, second, Registered(bytes(32), first.fingerprint), NOW_S) is Step.ROTATE
    assert next_step(first, second, Registered(first.fingerprint), NOW_S) is Step.ANNOUNCE


def test_the_certificate_of_another_node_is_refused(tmp_path: Path) -> None:
    TransportFolder(tmp_path / "transport", NODE).ensure_current(NOW_S)
    with pytest.raises(KeyFileError, match=r"current\.pem: the certificate is that of node1, not of node2"):
        TransportFolder(tmp_path / "transport", NodeName("node2")).ensure_current(NOW_S)


def test_a_file_that_is_damaged_or_that_others_may_read_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = TransportFolder(tmp_path / "transport", NODE)
    folder.ensure_current(NOW_S)
    path = tmp_path / "transport" / "current.pem"
    path.chmod(0o644)
    with pytest.raises(UnsafePermissions):
        folder.ensure_current(NOW_S)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(KeyFileError, match=r"current\.pem: it must hold a private key"):
        folder.ensure_current(NOW_S)
