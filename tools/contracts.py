"""Compiles contracts/*.sol to the artifacts that Rota ships; `make contracts` runs it.

The compiler is the npm package `solc`, pinned in contracts/package-lock.json and installed into contracts/ on first
use. The artifacts are committed, so that nobody needs a compiler to install Rota. The bytecode holds no hash of its
metadata, so that it is the same wherever it is compiled.

`contracts/compiled.txt` holds a digest of sources, settings, compiler version and artifacts. A quick test compares it
with the tree, so that a change of one without the others fails without a compiler. With --check nothing is written, and
the artifacts are compared with a fresh compile (`make nightly`).

Contracts in contracts/test are for our own tests; their artifacts lie with those and are not shipped.

Usage: python -m tools.contracts [--check]
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = Path("contracts")
SHIPPED: Final = Path("src/rota/ledger/artifacts")
FOR_TESTS: Final = Path("tests/contracts/artifacts")
DIGEST: Final = SOURCES / "compiled.txt"
INSTALL_TIMEOUT_S: Final = 300
COMPILE_TIMEOUT_S: Final = 900

# Hot code pays for every jump, and each contract is deployed once: the optimizer is told to expect many runs.
# Cancun is the first version with transient storage, and the last that every EVM we run on knows.
SETTINGS: Final = {
    "evmVersion": "cancun",
    "viaIR": True,
    "optimizer": {"enabled": True, "runs": 1_000_000},
    "metadata": {"bytecodeHash": "none", "appendCBOR": False},
    "outputSelection": {"*": {"*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"]}},
}
COMPILE_SCRIPT: Final = "process.stdout.write(require('solc').compile(require('fs').readFileSync(0, 'utf8')))"


class CompilerError(Exception):
    """The compiler is not to be had, or it has something to say about the sources."""


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write what is stale, or with --check only tell of it; 1 when something is wrong."""
    is_check = arguments == ["--check"]
    try:
        install_compiler(root / SOURCES)
        compiled = compile_contracts(root / SOURCES)
    except CompilerError as error:
        print(f"contracts: {error}", file=sys.stderr)
        return 1
    stale = {path: text for path, text in compiled.items() if _text_of(root / path) != text}
    left_over = sorted(
        path.relative_to(root)
        for folder in (SHIPPED, FOR_TESTS)
        for path in (root / folder).glob("*.json")
        if path.relative_to(root) not in compiled
    )
    for path in [*stale, *left_over]:
        if is_check:
            print(f"{path} is not what {SOURCES} says: run `make contracts`")
        elif path in stale:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(stale[path], encoding="utf-8")
            print(f"{path}: written")
        else:
            (root / path).unlink()
            print(f"{path}: removed")
    if not is_check:
        (root / DIGEST).write_text(f"{digest(root)}\n", encoding="utf-8")
    return 1 if is_check and (stale or left_over) else 0


def digest(root: Path = ROOT) -> str:
    """A digest of sources, settings, compiler version and artifacts."""
    folder = root / SOURCES
    paths = [*folder.glob("*.sol"), *folder.glob("test/*.sol"), folder / "package-lock.json"]
    paths += [path for artifacts in (SHIPPED, FOR_TESTS) for path in (root / artifacts).glob("*.json")]
    hashed = hashlib.sha256(json.dumps(SETTINGS, sort_keys=True).encode())
    for path in sorted(paths):
        hashed.update(f"\n{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return hashed.hexdigest()


def install_compiler(folder: Path) -> None:
    """Install what the lock file says, unless it is there already."""
    if shutil.which("npm") is None:
        raise CompilerError("npm is not installed here; install Node.js 20 or later")
    installed, lock = folder / "node_modules" / ".package-lock.json", folder / "package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    if result.returncode != 0:
        raise CompilerError(f"{' '.join(command)} failed:\n{result.stderr}")
    installed.touch()


def compile_contracts(folder: Path) -> dict[Path, str]:
    """The artifacts by path. A warning is an error."""
    sources = sorted([*folder.glob("*.sol"), *folder.glob("test/*.sol")])
    request = {
        "language": "Solidity",
        "sources": {str(path.relative_to(folder)): {"content": path.read_text(encoding="utf-8")} for path in sources},
        "settings": SETTINGS,
    }
    result = subprocess.run(
        ["node", "--eval", COMPILE_SCRIPT],
        cwd=folder,
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=COMPILE_TIMEOUT_S,
    )
    if result.returncode != 0:
        raise CompilerError(f"the compiler failed:\n{result.stderr}")
    answer = json.loads(result.stdout)
    if answer.get("errors"):
        raise CompilerError("\n".join(error["formattedMessage"] for error in answer["errors"]))
    return {
        (FOR_TESTS if source.startswith("test/") else SHIPPED) / f"{name}.json": _artifact(name, contract)
        for source, contracts in sorted(answer["contracts"].items())
        for name, contract in sorted(contracts.items())
        if contract["evm"]["bytecode"]["object"]
    }


def _artifact(name: str, contract: dict[str, object]) -> str:
    """One file a contract; interfaces and abstract contracts have no code and so no artifact."""
    evm = contract["evm"]
    assert isinstance(evm, dict)
    artifact = {
        "contractName": name,
        "abi": contract["abi"],
        "bytecode": "0x" + evm["bytecode"]["object"],
        "deployedBytecode": "0x" + evm["deployedBytecode"]["object"],
    }
    return json.dumps(artifact, indent=1) + "\n"


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
