"""Builds what is published, and tries it where nothing of this checkout is: `make package`.

First the source distribution, then the wheel from it alone, so that both are complete. The wheel is installed in an
empty environment outside the checkout, upon the dependencies that are locked for users and no others. In it
`rota demo --once --json` has to end well, and to leave no process and no file behind.

A process is known to be the demo's by a variable of its environment, which children inherit and cannot lose by
changing their parent, session or name. It is looked for in /proc, so that this needs Linux.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
LOCK: Final = ROOT / "requirements" / "run.txt"
MARK: Final = "PACKAGE_TRIAL"
DEMO: Final = ("demo", "--once", "--json")
DEMO_TIMEOUT_S: Final = 300
BUILD_SDIST: Final = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
# What a shell may have set for this checkout, and nobody has elsewhere.
OURS: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class PackageFails(Exception):
    """What is published does not work; the text says what, and how that showed."""


@dataclass(frozen=True, slots=True)
class Built:
    """The two files of a release."""

    sdist: Path
    wheel: Path


def main() -> int:
    try:
        built = build(DIST)
        print(f"Built {built.sdist.name} and {built.wheel.name} in {DIST.relative_to(ROOT)}/")
        with tempfile.TemporaryDirectory(prefix="rota-package-") as folder:
            told = try_out(built.wheel, Path(folder))
    except PackageFails as failure:
        print(failure, file=sys.stderr)
        return 1
    print(f"Installed in an empty environment, `rota {' '.join(DEMO)}` ended well and left nothing behind:")
    print(json.dumps(told, indent=2))
    return 0


def build(out: Path) -> Built:
    """Make both files in this folder, anew."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("rota-*.tar.gz"), *out.glob("rota-*.whl")):
        old.unlink()
    _run([sys.executable, "-c", BUILD_SDIST, str(out)], ROOT)
    (sdist,) = out.glob("rota-*.tar.gz")
    _pip(sys.executable, out, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(sdist))
    (wheel,) = out.glob("rota-*.whl")
    return Built(sdist, wheel)


def try_out(wheel: Path, folder: Path) -> Mapping[str, object]:
    """Install it in a new environment in this folder and run the demonstration there; what that tells."""
    python = folder / "environment" / "bin" / "python"
    venv.create(folder / "environment", with_pip=True)
    _pip(str(python), folder, "install", "--require-hashes", "--requirement", str(LOCK))
    # Nothing more is fetched: a dependency that the wheel names and the lock has not shows here.
    _pip(str(python), folder, "install", "--no-index", str(wheel))
    home, scratch = folder / "home", folder / "scratch"
    home.mkdir()
    scratch.mkdir()
    mark = secrets.token_hex(16)
    environment = {**_outside(), "HOME": str(home), "TMPDIR": str(scratch), MARK: mark}
    try:
        told = _demonstrate(python.parent / "rota", home, environment)
    finally:
        left = processes_with(mark)
    if left:
        raise PackageFails("These processes were left behind:\n" + "\n".join(f"  {p}: {c}" for p, c in left.items()))
    strewn = sorted(str(path.relative_to(folder)) for path in (*home.rglob("*"), *scratch.rglob("*")))
    if strewn:
        raise PackageFails(f"These files were left behind: {', '.join(strewn)}")
    return told


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
