"""A PostgreSQL server for the tests: a real one, of their own.

It is `ROTA_POSTGRES` (the folder with `initdb` and `postgres`), or Debian's, or the one on the PATH; where there is
none, its tests are skipped, and CI forbids skips. It listens on a socket in a folder of its own and on no port.
PostgreSQL does not run as root: then it runs as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

from tests import bounds

START_TIMEOUT_S = bounds.WAIT_S
POLL_S = 0.02
OTHER_USERS = ("postgres", "nobody")
DEFAULT_PORT = 5432


def postgres_folder() -> Path | None:
    """Where the programmes of the server are, if it is installed."""
    named = os.environ.get("ROTA_POSTGRES")
    if named:
        return Path(named)
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if packaged:
        return packaged[-1].parent
    found = shutil.which("initdb")
    return Path(found).parent if found else None


class PostgresServer:
    """A server with an empty database, to be started and killed at will."""

    def __init__(self, programmes: Path) -> None:
        self._programmes = programmes
        self._home = Path(tempfile.mkdtemp(prefix="rota-postgres-"))
        self._user = user_for_server()
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = count(1)
        self._port = DEFAULT_PORT
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self._home, account.pw_uid, account.pw_gid)
        options = ["--pgdata", str(self._data), "--username", "rota", "--auth", "trust", "--no-sync", "--no-locale"]
        subprocess.run(
            [str(programmes / "initdb"), *options, "--encoding", "UTF8"],
            check=True, user=self._user, cwd=self._home, stdout=subprocess.DEVNULL, timeout=START_TIMEOUT_S,
        )  # fmt: skip

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def start(self, port: int | None = None, certificate: Path | None = None) -> None:
        """Returns when it takes connections; at a port of this machine too, with the certificate of a folder."""
        settings = {"listen_addresses": "", "unix_socket_directories": str(self._home), "shared_buffers": "16MB"}
        # Processes are killed here and never the machine: what was written survives. A server that comes back would
        # otherwise sync every file that it has first, for minutes where the disk is busy.
        settings["fsync"] = "off"
        if port is not None:
            # The name of the socket has the port in it.
            settings |= {"listen_addresses": "127.0.0.1", "port": str(port)}
        if certificate is not None:
            settings |= {"ssl": "on", "ssl_cert_file": "../server.crt", "ssl_key_file": "../server.key"}
            self._take_certificate(certificate)
        self._port = port or DEFAULT_PORT
        command = [str(self._programmes / "postgres"), "-D", str(self._data)]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(command, user=self._user, cwd=self._home, stdout=log, stderr=log)
        end = time.monotonic() + START_TIMEOUT_S
        while "ready" not in self._status():
            assert self._process.poll() is None, (self._home / "log").read_text()
            assert time.monotonic() < end, "PostgreSQL did not start in time"
            time.sleep(POLL_S)

    def stop(self) -> None:
        """At once, as after a power failure: what was not committed is gone."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(START_TIMEOUT_S)
            self._process = None

    def copy_data(self, name: str) -> None:
        """A copy of what a stopped server has on its disk, as a backup or a late standby has it."""
        self._run_as_server("cp", "-a", str(self._data), str(self._home / name))

    def bring_back(self, name: str) -> None:
        """The copy is what a stopped server has from now on."""
        shutil.rmtree(self._data)
        (self._home / name).rename(self._data)

    def _take_certificate(self, folder: Path) -> None:
        for name in ("server.crt", "server.key"):
            copy = Path(shutil.copy(folder / name, self._home / name))
            copy.chmod(0o600)
            if self._user is not None:
                shutil.chown(copy, self._user)

    def _run_as_server(self, *command: str) -> None:
        subprocess.run(command, check=True, user=self._user, cwd=self._home, timeout=START_TIMEOUT_S)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._home)

    @property
    def port(self) -> int:
        """Part of the name of its socket."""
        return self._port

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self._home / f".s.PGSQL.{self._port}"

    def url(self, schema: str = "public", folder: Path | None = None) -> str:
        """How to reach it, at its own socket or at one in another folder that leads to it."""
        place = f"host={folder or self._home}&port={self._port}"
        return f"postgresql:///postgres?{place}&user=rota&search_path={schema}"

    def new_schema_name(self) -> str:
        return f"test_{next(self._schemas)}"

    def _status(self) -> str:
        """The last line of the file in which a server says how far it is."""
        file = self._data / "postmaster.pid"
        lines = file.read_text().splitlines() if file.exists() else []
        return lines[7] if len(lines) > 7 else ""


def user_for_server() -> str | None:
    """Whom a server runs as that refuses to run as root; nobody else where the tests do not."""
    if os.geteuid() != 0:
        return None
    known = {account.pw_name for account in pwd.getpwall()}
    return next(user for user in OTHER_USERS if user in known)
