"""PgBouncer for the tests: a real one in front of the tests' server, at a socket in a folder of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.store.servers import POLL_S, START_TIMEOUT_S, PostgresServer, user_for_server

PORT = 6432


def bouncer_programme() -> str | None:
    """Debian puts it where only an administrator looks."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@contextmanager
def bouncer_to(server: PostgresServer, pool_mode: str, **more: str) -> Iterator[str]:
    """The connection string that leads through it."""
    programme, user = bouncer_programme(), user_for_server()
    assert programme is not None, "PgBouncer is not installed here; run tools/install-test-tools"
    folder = Path(tempfile.mkdtemp(prefix="rota-pgbouncer-"))
    settings = {
        "unix_socket_dir": str(folder),
        "listen_port": str(PORT),
        "auth_type": "any",
        "pool_mode": pool_mode,
        "pidfile": str(folder / "pid"),
        **more,
    }
    where = f"host={server.socket.parent} port={server.port} user=rota dbname=postgres"
    lines = [
        "[databases]",
        f"postgres = {where}",
        "[pgbouncer]",
        *(f"{name} = {value}" for name, value in settings.items()),
    ]
    (folder / "settings").write_text("\n".join(lines))
    if user is not None:
        shutil.chown(folder, user)
        shutil.chown(folder / "settings", user)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([programme, str(folder / "settings")], user=user, stdout=log, stderr=log)
    try:
        end = time.monotonic() + START_TIMEOUT_S
        while not _listens(folder / f".s.PGSQL.{PORT}"):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, "PgBouncer did not start in time"
            time.sleep(POLL_S)
        yield f"postgresql:///postgres?host={folder}&port={PORT}&user=rota"
    finally:
        process.kill()
        process.wait(START_TIMEOUT_S)
        shutil.rmtree(folder)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0
