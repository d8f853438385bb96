"""Between a node and its PostgreSQL server: who proves what to whom, and what must not stand between them."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rota.localnet.ports import held_port
from rota.machine.effects import IntentAccepted
from rota.ports import Unavailable
from rota.store import PostgresDatabase, Refused
from rota.store.postgres_sessions import tls_for
from tests.store.bouncers import bouncer_programme, bouncer_to
from tests.store.kit import FIRST, NODE, an_intent, in_loop, new_postgres, opened_on
from tests.store.pooler import pooler_to
from tests.store.servers import PostgresServer, postgres_folder

pytestmark = pytest.mark.slow


# TLS.


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///rota?host=/run/postgresql",
        "postgresql:///rota",
        "postgresql://rota@localhost/rota",
        "postgresql://rota@localhost:5432/rota",
        "postgresql://rota@127.0.0.1:5432/rota",
        "postgresql://rota@127.9.9.9/rota",
        "postgresql://rota@[::1]:5432/rota",
        "postgresql://rota@%2Frun%2Fpostgresql/rota",
        "postgresql://rota@db.example/rota?sslmode=disable",
        "postgresql://rota@db.example/rota?sslmode=require",
    ],
)
def test_a_local_server_or_a_named_mode_is_left_to_the_driver(url: str) -> None:
    assert tls_for(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://rota@db.example/rota",
        "postgresql://rota@db.example:5432/rota?search_path=one",
        "postgresql://rota@10.0.0.1/rota",
        "postgresql://rota@[fd00::1]:5432/rota",
        "postgresql://rota@localhost,db.example/rota",
        "postgresql://rota@localhost.evil.example/rota",
        "postgresql:///rota?host=db.example",
    ],
)
def test_a_server_elsewhere_must_prove_its_name(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = tls_for(url)
    assert isinstance(asked, ssl.SSLContext)
    assert (asked.verify_mode, asked.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert tls_for(url + ("&" if "?" in url else "?") + "sslrootcert=ca.pem") == "verify-full"
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").touch()
    assert tls_for(url) == "verify-full"


@pytest.mark.parametrize("name", ["PGHOST", "PGSERVICE"])
def test_a_server_that_the_environment_names_must_prove_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "db.example")
    assert tls_for("postgresql:///rota") is not None
    assert tls_for("postgresql://localhost/rota") is None
    assert tls_for("postgresql:///rota?sslmode=require") is None
    monkeypatch.setenv(name, "")
    assert tls_for("postgresql:///rota") is None
    assert tls_for("postgresql:///rota?service=main") is not None


def certificate_for(folder: Path, name: str) -> None:
    """Signed by itself, so that it is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@pytest.fixture
def remote(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """A server whose port on this machine counts as one of another machine."""
    monkeypatch.setattr("rota.store.postgres_sessions._is_local", lambda host: host.startswith("/"))
    yield server
    server.stop()
    server.start()


@pytest.fixture
def port() -> Iterator[int]:
    """Held for the server: no other process is given it."""
    with held_port() as held:
        yield held


@pytest.mark.parametrize("name", ["localhost", "db.example", ""])
def test_a_server_that_does_not_prove_its_name_is_not_spoken_to(
    remote: PostgresServer, tmp_path: Path, port: int, name: str
) -> None:
    """One without a certificate is not either; before, the driver took whatever answered."""
    certificate_for(tmp_path, name or "localhost")
    remote.stop()
    remote.start(port, tmp_path if name else None)

    @in_loop
    async def scenario() -> None:
        schema = (await new_postgres(remote))._url.rpartition("=")[2]
        url = f"postgresql://rota@localhost:{port}/postgres?search_path={schema}"
        database = PostgresDatabase(f"{url}&sslrootcert={tmp_path / 'server.crt'}", NODE)
        if name == "localhost":
            await database.open()
        else:
            with pytest.raises(Unavailable, match=r"certificate|SSL"):
                await database.open()
        await database.close()
        named = PostgresDatabase(f"{url}&sslmode={'require' if name else 'disable'}", NODE)
        await named.open()
        await named.close()

    scenario()


# Poolers.


@in_loop
async def test_a_pooler_that_hands_sessions_round_is_refused(server: PostgresServer, tmp_path: Path) -> None:
    """The lock would be somebody else's after the first transaction."""
    schema = (await new_postgres(server))._url.rpartition("=")[2]
    async with pooler_to(server, tmp_path):
        database = PostgresDatabase(server.url(schema, tmp_path), NODE)
        with pytest.raises(Refused, match="transaction pooling"):
            await database.open()
        await database.close()


@in_loop
async def test_a_pooler_with_sessions_to_spare_is_refused_too(server: PostgresServer, tmp_path: Path) -> None:
    """Then the reading session is another one, and so may be the one that is asked for its lock."""
    schema = (await new_postgres(server))._url.rpartition("=")[2]
    async with pooler_to(server, tmp_path) as pooler:
        pooler.is_round_robin = True
        others = [await asyncpg.connect(server.url(schema, tmp_path)) for _ in range(3)]
        begun = [other.transaction() for other in others]
        for transaction in begun:
            await transaction.start()
        for transaction in begun:
            await transaction.rollback()
        while len(pooler.idle) < len(others):
            await asyncio.sleep(0)
        database = PostgresDatabase(server.url(schema, tmp_path), NODE)
        with pytest.raises(Refused, match=r"transaction pooling|another process"):
            await database.open()
        await database.close()
        for other in others:
            other.terminate()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """PgBouncer keeps sessions, and the locks that they have: no other test is to meet these."""
    programmes = postgres_folder()
    if programmes is None or bouncer_programme() is None:
        pytest.skip("PostgreSQL and PgBouncer are not installed here; run tools/install-test-tools")
    running = PostgresServer(programmes)
    try:
        running.start()
        yield running
    finally:
        running.remove()


@pytest.mark.parametrize("round_robin", ["0", "1"])
@in_loop
async def test_pgbouncer_in_transaction_mode_is_refused(own_server: PostgresServer, round_robin: str) -> None:
    with bouncer_to(own_server, "transaction", server_round_robin=round_robin, min_pool_size="3") as url:
        # Three transactions at once: from now on the pool has so many sessions, whenever it fills itself.
        others = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(3)]
        begun = [other.transaction() for other in others]
        for transaction in begun:
            await transaction.start()
        for transaction in begun:
            await transaction.rollback()
        for other in others:
            await other.close()
        database = PostgresDatabase(url, NODE)
        with pytest.raises(Refused, match="transaction pooling"):
            await database.open()
        await database.close()


@in_loop
async def test_pgbouncer_in_statement_mode_does_not_open_the_database(own_server: PostgresServer) -> None:
    with bouncer_to(own_server, "statement") as url:
        database = PostgresDatabase(url, NODE)
        with pytest.raises(Unavailable, match="transaction blocks not allowed in statement pooling mode"):
            await database.open()
        await database.close()


@in_loop
async def test_pgbouncer_in_session_mode_passes_settings_and_the_lock(own_server: PostgresServer) -> None:
    with bouncer_to(own_server, "session") as url:
        async with opened_on(PostgresDatabase(url, NODE)) as opened:
            await opened.write(FIRST, IntentAccepted(an_intent(1)))
            assert (await opened.store.restore((FIRST,))).contracts[FIRST].intents[0].intent == an_intent(1)
            database = opened.store._database
            assert isinstance(database, PostgresDatabase)
            for session, expected in (
                (database._writer, {"synchronous_commit": "on", "jit": "off"}),
                (database._own.session, {"default_transaction_read_only": "on"}),
                (database._callers.session, {"default_transaction_read_only": "on", "statement_timeout": "5s"}),
            ):
                connection = await session.connected()
                for name, value in expected.items():
                    assert await connection.fetchval("SELECT current_setting($1)", name) == value
            with pytest.raises(Refused, match="another process has this database open"):
                await PostgresDatabase(url, NODE).open()
        # The lock went with its session.
        async with opened_on(PostgresDatabase(own_server.url(), NODE)):
            pass


@in_loop
async def test_setting_of_the_connection_string_that_pgbouncer_does_not_know_is_refused(
    own_server: PostgresServer,
) -> None:
    with bouncer_to(own_server, "session") as url:
        database = PostgresDatabase(f"{url}&search_path=public", NODE)
        with pytest.raises(Refused, match=r"unsupported startup parameter: search_path\. .*ALTER ROLE"):
            await database.open()
        await database.close()


@in_loop
async def test_a_session_whose_commits_need_not_be_on_the_disk_is_refused(server: PostgresServer) -> None:
    database = await new_postgres(server)
    database._writer._settings["synchronous_commit"] = "off"
    with pytest.raises(Refused, match="synchronous_commit is off although"):
        await database.open()
    await database.close()
