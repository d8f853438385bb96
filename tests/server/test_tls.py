"""TLS on the entrance: what is shown, how it is exchanged, and who is known by a certificate."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import ipaddress
import ssl
import sys
from pathlib import Path

import aiohttp
import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rota.client import Client, Refused, Unreachable, trusting
from rota.doctor.case import Case, Means
from rota.doctor.process import check_node
from rota.model.types import NodeName
from rota.rpc.credentials import CertificateCredential, Role, token_credential
from rota.server import commands_pb2
from rota.server.configuration import LedgerSection, NodeConfiguration, NodeSection, RpcSection
from rota.server.settings import Limits, Settings
from rota.server.tls import ServerTls, TlsFiles
from tests.server.kit import LOCAL, TRANSFER, UNKNOWN_ID, asynchronous, served

TOKEN = "reader's token"
READER = token_credential("reader", frozenset({Role.READ}), TOKEN)
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def write_certificate(folder: Path, name: str = "door") -> tuple[Path, Path]:
    """A certificate of its own authority for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    key_file.chmod(0o600)
    return certificate, key_file


def settings_with(tls: TlsFiles) -> Settings:
    return Settings(http=LOCAL, websocket=LOCAL, commands=LOCAL, credentials=(READER,), tls=tls)


@asynchronous
async def test_https_and_wss_are_served_and_http_is_not(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    async with served(settings=settings_with(TlsFiles(certificate, key))) as to:
        url = to.entrance.http_url
        assert url.startswith("https://")
        assert to.entrance.websocket_url.startswith("wss://")
        async with Client(url, headers=HEADERS, tls=trusting(certificate)) as client:
            assert await client.name() == "node1"
            socket = await client.connect()
            await socket.send_str('{"id":1,"method":"transport_nodeName"}')
            assert (await socket.receive_json())["result"] == "node1"
        with pytest.raises(Unreachable):
            async with Client(url, headers=HEADERS) as client:
                await client.ask("transport_nodeName")
        with pytest.raises(aiohttp.ClientError):
            await to.session.get(url.replace("https", "http"))


@asynchronous
async def test_connection_without_a_handshake_is_closed_and_counted_no_longer(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    limits = Limits(receive_timeout_ms=50, connections_max=4)
    settings = Settings(http=LOCAL, websocket=LOCAL, tls=TlsFiles(certificate, key), limits=limits)
    async with served(settings=settings) as to:
        port = to.entrance.ports["http"]
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        async with Client(to.entrance.http_url, tls=trusting(certificate)) as client:
            assert await client.name() == "node1"
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()
        while to.entrance.connection_count("http"):
            await asyncio.sleep(0.01)


def shown_certificate(port: int) -> bytes:
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port)))


@asynchronous
async def test_certificate_is_exchanged_while_it_runs(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    first = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    async with served(settings=settings_with(TlsFiles(certificate, key))) as to:
        port = to.entrance.ports["http"]
        assert await asyncio.to_thread(shown_certificate, port) == first
        assert not to.entrance.look_for_certificate()
        # Half of an exchange is not taken over: the key does not fit.
        other, other_key = write_certificate(tmp_path, "other")
        certificate.write_bytes(other.read_bytes())
        with pytest.raises(ValueError, match="cannot be used with its key"):
            to.entrance.look_for_certificate()
        assert await asyncio.to_thread(shown_certificate, port) == first
        key.write_bytes(other_key.read_bytes())
        assert to.entrance.look_for_certificate()
        second = ssl.PEM_cert_to_DER_cert(other.read_text())
        assert await asyncio.to_thread(shown_certificate, port) == second
        assert to.entrance.commands is not None
        assert await asyncio.to_thread(shown_certificate, to.entrance.commands.port) == second


@asynchronous
async def test_grpc_is_served_over_tls_alone(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    async with served(settings=settings_with(TlsFiles(certificate, key))) as to:
        assert to.entrance.commands is not None
        address = to.entrance.commands.address
        path = "/rota.v1.CommandCompletionService/CompletionEnd"
        request = commands_pb2.CompletionEndRequest().SerializeToString()
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        async with grpc.aio.secure_channel(address, trusted) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await channel.unary_unary(path)(request, metadata=metadata)
            # It came to an office that is closed.
            assert "no commands are taken here" in (error.value.details() or "")
        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await channel.unary_unary(path)(request, metadata=metadata)
            assert "no commands are taken here" not in (error.value.details() or "")


@asynchronous
async def test_client_certificate_is_a_credential(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    mine, my_key = write_certificate(tmp_path, "shop")
    unnamed, unnamed_key = write_certificate(tmp_path, "unnamed")
    authorities = tmp_path / "clients.pem"
    authorities.write_bytes(mine.read_bytes() + unnamed.read_bytes())
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(mine.read_text())).digest()
    shop = CertificateCredential("shop", frozenset({Role.READ}), digest)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=(shop,), tls=TlsFiles(certificate, key, authorities))
    async with served(settings=settings) as to:
        url = to.entrance.http_url
        async with Client(url, tls=trusting(certificate, mine, my_key)) as client:
            assert await client.name() == "node1"
            with pytest.raises(Refused, match="ptx_cancelTransaction needs the role 'submit'"):
                await client.ask("ptx_cancelTransaction", UNKNOWN_ID)
        for tls in (trusting(certificate), trusting(certificate, unnamed, unnamed_key)):
            async with Client(url, tls=tls) as client:
                with pytest.raises(Refused, match="credentials are needed"):
                    await client.name()


@asynchronous
async def test_authority_of_clients_that_was_removed_is_trusted_no_more(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    (mine, my_key), (other, other_key) = (write_certificate(tmp_path, name) for name in ("shop", "other"))
    authorities = tmp_path / "clients.pem"
    authorities.write_bytes(mine.read_bytes())
    digests = [hashlib.sha256(ssl.PEM_cert_to_DER_cert(each.read_text())).digest() for each in (mine, other)]
    known = tuple(
        CertificateCredential(name, frozenset({Role.READ}), digest)
        for name, digest in zip(("shop", "other"), digests, strict=True)
    )
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=known, tls=TlsFiles(certificate, key, authorities))
    async with served(settings=settings) as to:
        url = to.entrance.http_url
        async with Client(url, tls=trusting(certificate, mine, my_key)) as client:
            assert await client.name() == "node1"
        authorities.write_bytes(other.read_bytes())
        assert to.entrance.look_for_certificate()
        async with Client(url, tls=trusting(certificate, other, other_key)) as client:
            assert await client.name() == "node1"
        async with Client(url, tls=trusting(certificate, mine, my_key)) as client:
            with pytest.raises(Unreachable):
                await client.name()


def test_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    key.chmod(0o644)
    with pytest.raises(ValueError, match=r"door\.key"):
        ServerTls(TlsFiles(certificate, key))


def test_encrypted_key_is_refused_and_no_password_is_asked_for(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    key.write_bytes(loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    with pytest.raises(ValueError, match="cannot be used with its key"):
        ServerTls(TlsFiles(certificate, key))


async def run_rota(*arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rota", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


@pytest.mark.slow
@asynchronous
async def test_commands_trust_the_file_that_is_named(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    settings = Settings(http=LOCAL, websocket=LOCAL, tls=TlsFiles(certificate, key))
    async with served(settings=settings) as to:
        async with Client(to.entrance.http_url, tls=trusting(certificate)) as client:
            sent = str(await client.ask("ptx_sendTransaction", TRANSFER))
        asked = ("tx", "show", sent, "--node", to.entrance.http_url)
        code, output = await run_rota(*asked, "--ca", str(certificate))
        assert (code, sent in output) == (0, True), output
        code, output = await run_rota(*asked)
        assert code == 1
        assert "the certificate is not trusted: self-signed certificate" in output
        code, output = await run_rota(*asked, "--ca", str(key))
        assert (code, "--ca" in output) == (1, True), output


@asynchronous
async def test_doctor_asks_a_node_over_tls(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    async with served(settings=Settings(http=LOCAL, websocket=LOCAL, tls=TlsFiles(certificate, key))) as to:
        configuration = NodeConfiguration(
            node=NodeSection(name=NodeName("node1")),
            ledger=LedgerSection(url="http://127.0.0.1:1", chain_id=1),
            rpc=RpcSection(port=to.entrance.ports["http"], certificate_file=certificate, key_file=key),
        )
        (found,) = await check_node(Case(tmp_path, configuration, frozenset(), Means()))
        assert found.found == f"it runs and is ready, at 127.0.0.1:{to.entrance.ports['http']}"
