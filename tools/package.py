"""Builds what is published, and tries it in environments without this checkout: `make package`.

Each distribution is built as a source distribution and, from that alone, as a wheel, so that both are complete. Two
environments outside the checkout get the locked dependencies and no others:

1. The client: `pip install rota`. It must be small, and name the extra of a part that is missing.
2. Everything: first `rota[node]`, in which `rota demo` names its extra, then `rota[demo,zeto]`. The client of the first
   environment pays with a token on nodes of the second one. Then `rota demo --once --json` must end well and leave no
   process and no file behind.

Processes of the trial are found by a variable of their environment, which children inherit and cannot lose by changing
their parent, session or name. The search reads /proc, so it needs Linux.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
# The client is built from the root. All have the same version.
CLIENT: Final = "rota"
FOLDERS: Final[Mapping[str, Path]] = {
    CLIENT: ROOT,
    "rota-node": ROOT / "distributions" / "node",
    "rota-demo": ROOT / "distributions" / "demo",
    "rota-zeto-keys": ROOT / "distributions" / "zeto-keys",
}
CLIENT_LOCK: Final = ROOT / "requirements" / "client.txt"
LOCK: Final = ROOT / "requirements" / "run.txt"
CLIENT_BYTES_MAX: Final = 20_000_000
MARK: Final = "PACKAGE_TRIAL"
DEMO: Final = ("demo", "--once", "--json")
SERVE: Final = ("demo", "--serve", "--json", "--port", "0")
DEMO_TIMEOUT_S: Final = 300
STOP_TIMEOUT_S: Final = 60
BUILD_SDIST: Final = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
# Variables that a shell may have set for this checkout.
OURS: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
# One of each kind of call: transactions, a read after a write, a feed over a WebSocket, and the blocking client.
CLIENT_TRIAL: Final = """
import asyncio, sys
from rota.client import Client, SyncClient

async def pay(url):
    async with Client(url, sender="bank") as client:
        await client.create_party("bank")
        token = await client.tokens.deploy(name="Coin", symbol="COIN", notary="bank@node1")
        minted = await (await token.mint("bank@node1", 100))
        assert (await token.balance_of("bank@node1")).total_balance == 100
        async with client.receipts("trial") as receipts:
            async for receipt in receipts:
                if receipt.id == minted.id:
                    return token.address

address = asyncio.run(pay(sys.argv[1]))
with SyncClient(sys.argv[1], sender="bank") as client:
    assert client.tokens.at(address).balance_of("bank@node1").total_balance == 100
"""


class PackageFails(Exception):
    """What is published does not work; the text has the command and its output."""


@dataclass(frozen=True, slots=True)
class Built:
    """The two files of a distribution."""

    sdist: Path
    wheel: Path


def main() -> int:
    try:
        built = build(DIST)
        for each in built.values():
            print(f"Built {each.sdist.name} and {each.wheel.name} in {DIST.relative_to(ROOT)}/")
        with tempfile.TemporaryDirectory(prefix="rota-package-") as folder:
            summary = try_out(built, Path(folder))
    except PackageFails as failure:
        print(failure, file=sys.stderr)
        return 1
    print(json.dumps(summary, indent=2))
    return 0


def build(out: Path) -> dict[str, Built]:
    """Make all files in this folder, anew, by the names of their distributions."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("rota*.tar.gz"), *out.glob("rota*.whl")):
        old.unlink()
    return {name: _built(name, folder, out) for name, folder in FOLDERS.items()}


def _built(name: str, folder: Path, out: Path) -> Built:
    stem = name.replace("-", "_")
    _run([sys.executable, "-c", BUILD_SDIST, str(out)], folder)
    (sdist,) = out.glob(f"{stem}-*.tar.gz")
    _pip(sys.executable, out, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(sdist))
    (wheel,) = out.glob(f"{stem}-*.whl")
    return Built(sdist, wheel)


def try_out(built: Mapping[str, Built], folder: Path) -> dict[str, object]:
    """Install all of it in new environments in this folder and use it there. Returns sizes and the demo's summary."""
    home, scratch = folder / "home", folder / "scratch"
    home.mkdir()
    scratch.mkdir()
    mark = secrets.token_hex(16)
    environment = {**_outside(), "HOME": str(home), "TMPDIR": str(scratch), MARK: mark}
    client, client_bytes = _installed_client(built, folder / "client")
    everything, all_bytes = _installed_everything(built, folder / "everything")
    try:
        with _serving(everything.parent / "rota", home, environment) as url:
            _run([str(client), "-c", CLIENT_TRIAL, url], home, environment, DEMO_TIMEOUT_S)
        summary = _demonstrate(everything.parent / "rota", home, environment)
    finally:
        left = processes_with(mark)
    if left:
        raise PackageFails("These processes were left behind:\n" + "\n".join(f"  {p}: {c}" for p, c in left.items()))
    files = sorted(str(path.relative_to(folder)) for path in (*home.rglob("*"), *scratch.rglob("*")))
    if files:
        raise PackageFails(f"These files were left behind: {', '.join(files)}")
    return {"client_bytes": client_bytes, "everything_bytes": all_bytes, "demo": summary}


def _installed_client(built: Mapping[str, Built], folder: Path) -> tuple[Path, int]:
    """The Python of an environment that has the client alone, and the bytes that were installed."""
    python = _environment(folder)
    size_before = _bytes_in(folder)
    _pip(str(python), folder, "install", "--require-hashes", "--requirement", str(CLIENT_LOCK))
    # Nothing more is fetched: a dependency that the wheel names and the lock lacks shows here.
    _pip(str(python), folder, "install", "--no-index", str(built[CLIENT].wheel))
    size = _bytes_in(folder) - size_before
    if size > CLIENT_BYTES_MAX:
        raise PackageFails(f"The client takes {size:,} bytes; at most {CLIENT_BYTES_MAX:,} are allowed.")
    _run([str(python), "-c", "from rota.client import *"], folder)
    _require_hint([str(python.parent / "rota"), "--help"], folder, "node")
    _require_hint([str(python), "-c", "import rota.server.process"], folder, "node")
    _require_hint([str(python), "-c", "import rota.testing"], folder, "demo")
    return python, size


def _installed_everything(built: Mapping[str, Built], folder: Path) -> tuple[Path, int]:
    python = _environment(folder)
    size_before = _bytes_in(folder)
    _pip(str(python), folder, "install", "--require-hashes", "--requirement", str(LOCK))
    install = ("install", "--no-index", "--find-links", str(built[CLIENT].wheel.parent))
    # An address of a file, as the version is a development version, which a name alone does not choose.
    client = f"{CLIENT}[{{}}] @ {built[CLIENT].wheel.as_uri()}"
    _pip(str(python), folder, *install, client.format("node"))
    _run([str(python.parent / "rota"), "--help"], folder)
    _require_hint([str(python.parent / "rota"), "demo"], folder, "demo")
    _pip(str(python), folder, *install, client.format("demo,zeto"))
    return python, _bytes_in(folder) - size_before


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _require_hint(command: Sequence[str], where: Path, extra: str) -> None:
    """The command must fail, and its last line must name the command that installs the extra."""
    done = subprocess.run(
        command, cwd=where, env=_outside(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    hint = f"pip install 'rota[{extra}]'"
    if done.returncode != 1 or not done.stderr.rstrip().endswith(hint):
        raise PackageFails(f"{' '.join(command)} ended with {done.returncode} and no hint at {hint}:\n{done.stderr}")


@contextmanager
def _serving(rota: Path, home: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Three nodes; the address of the first one."""
    with subprocess.Popen(
        [str(rota), *SERVE], cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None, "its standard output is a pipe"
            line = process.stdout.readline()
            if not line:
                raise PackageFails(f"`rota {' '.join(SERVE)}` started no nodes")
            yield json.loads(line)["nodes"]["node1"]["rpc"]
        finally:
            # As a service manager does. A shell that starts this in the background has it ignore SIGINT.
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise PackageFails(f"`rota {' '.join(SERVE)}` did not stop within {STOP_TIMEOUT_S} s") from None


def processes_with(mark: str) -> dict[int, str]:
    """The command lines of the processes whose environment has this mark, by their ids; not our own."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                found[int(folder.name)] = b" ".join(words).decode(errors="replace")
        except OSError:
            continue  # It has ended meanwhile, or is somebody else's.
    return found


def _demonstrate(rota: Path, home: Path, environment: Mapping[str, str]) -> Mapping[str, object]:
    told = _run([str(rota), *DEMO], home, environment, DEMO_TIMEOUT_S)
    try:
        summary = json.loads(told)
    except ValueError as error:
        raise PackageFails(f"`rota {' '.join(DEMO)}` printed no JSON: {error}\n{told}") from error
    if not isinstance(summary, dict):
        raise PackageFails(f"`rota {' '.join(DEMO)}` printed no object: {told}")
    return summary


def _pip(python: str, where: Path, *arguments: str) -> None:
    _run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments], where)


def _run(
    command: Sequence[str], where: Path, environment: Mapping[str, str] | None = None, timeout_s: int | None = None
) -> str:
    """Its standard output. `PackageFails` with all that it said when it ends badly or not in time."""
    try:
        done = subprocess.run(
            command,
            cwd=where,
            env=_outside() if environment is None else environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise PackageFails(f"{' '.join(command)} took longer than {timeout_s} s") from error
    if done.returncode:
        raise PackageFails(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _outside() -> dict[str, str]:
    """The environment of somebody who has no checkout."""
    return {name: value for name, value in os.environ.items() if name not in OURS}


if __name__ == "__main__":
    sys.exit(main())
