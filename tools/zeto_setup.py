"""Makes the proving keys of `zeto`, and generates from them the contracts that verify its proofs.

    python -m tools.zeto_setup keys [FOLDER]        draw secrets, write keys for every circuit and a transcript
    python -m tools.zeto_setup add [FOLDER]         the same for the circuits that the transcript lacks, and no others
    python -m tools.zeto_setup contracts [FOLDER]   write contracts/Verifier*.sol and contracts/PoseidonTree.sol
    python -m tools.zeto_setup --check              tell whether the contracts are those that the keys say

A set-up draws secrets from the system and forgets them when it ends: nothing of them is written. Whoever runs it can
keep them all the same, and with them forge proofs, so that keys of one maker are for development (docs/zeto.md). Run
`keys` when a circuit has changed, and then `contracts` and `make contracts`: each run makes other keys, and all
contracts that were deployed with the old ones keep those.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rota.domains.zeto.circuits import CIRCUITS, Circuit, structure
from rota.prover.groth16 import set_up
from rota.prover.key_files import (
    DEVELOPMENT_KEYS,
    TRANSCRIPT,
    SetUp,
    Transcript,
    hash_of_constraints,
    key_path,
    read_transcript,
    words_of,
    write_key,
)
from tools.zeto_contracts import generated

ROOT: Final = Path(__file__).parent.parent
MADE_BY: Final = "one run of tools.zeto_setup, secrets from the system's randomness, never written: for development"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    match list(arguments):
        case ["keys"]:
            make_keys(DEVELOPMENT_KEYS)
        case ["keys", folder]:
            make_keys(Path(folder))
        case ["add"]:
            add_keys(DEVELOPMENT_KEYS)
        case ["add", folder]:
            add_keys(Path(folder))
        case ["contracts"]:
            write_contracts(DEVELOPMENT_KEYS, root)
        case ["contracts", folder]:
            write_contracts(Path(folder), root)
        case ["--check"]:
            return _tell_stale(root)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def write_contracts(keys: Path, root: Path) -> None:
    """Write the contracts that belong to the keys of a folder."""
    for path, text in generated(keys).items():
        (root / path).write_text(text, encoding="utf-8")


def make_keys(folder: Path, circuits: Sequence[Circuit] = CIRCUITS) -> Transcript:
    """Draw secrets and write proving keys and the transcript; what was there is overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = tuple(_made_key(folder, circuit) for circuit in circuits)
    return _written(folder, Transcript(MADE_BY, _now(), f"zksnake {version('zksnake')}", entries))


def add_keys(folder: Path, circuits: Sequence[Circuit] = CIRCUITS) -> Transcript:
    """Draw secrets for the circuits that the transcript lacks. Contracts of the others keep their verifiers."""
    transcript = read_transcript(folder)
    known = {entry.circuit for entry in transcript.circuits}
    new = [replace(_made_key(folder, circuit), made_at=_now()) for circuit in circuits if circuit.name not in known]
    return _written(folder, replace(transcript, circuits=(*transcript.circuits, *new)))


def _made_key(folder: Path, circuit: Circuit) -> SetUp:
    constraint_count = len(structure(circuit).constraints)
    print(f"{circuit.name}: {constraint_count} constraints ...", flush=True)
    key = set_up(structure(circuit))
    content = write_key(circuit, key)
    key_path(folder, circuit).write_bytes(content)
    return SetUp(
        circuit.name,
        constraint_count,
        hash_of_constraints(circuit),
        hashlib.sha256(content).hexdigest(),
        len(content),
        words_of(key.verifying),
    )


def _written(folder: Path, transcript: Transcript) -> Transcript:
    (folder / TRANSCRIPT).write_text(json.dumps(asdict(transcript), indent=1) + "\n", encoding="utf-8")
    return transcript


def _now() -> str:
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def _tell_stale(root: Path) -> int:
    stale = [path for path, text in generated(DEVELOPMENT_KEYS).items() if _text_of(root / path) != text]
    for path in stale:
        print(f"{path} is not what the keys say: run `python -m tools.zeto_setup contracts`", file=sys.stderr)
    return 1 if stale else 0


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
