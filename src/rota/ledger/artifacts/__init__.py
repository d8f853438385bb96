"""The compiled contracts, as `make contracts` writes them: one JSON file each, with its ABI and its bytecode."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled contract. `bytecode` is run once, followed by the constructor's arguments."""

    name: str
    abi: tuple[dict[str, Any], ...]
    bytecode: bytes
    deployed_bytecode: bytes


@cache
def load_artifact(name: str) -> Artifact:
    """Return the artifact of a contract that Rota ships; an unknown name is a bug."""
    return artifact_from_json(files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8"))


def artifact_from_json(text: str) -> Artifact:
    """Read an artifact."""
    found = json.loads(text)
    return Artifact(
        found["contractName"],
        tuple(found["abi"]),
        bytes.fromhex(found["bytecode"].removeprefix("0x")),
        bytes.fromhex(found["deployedBytecode"].removeprefix("0x")),
    )
