"""Compiles the schemas in proto/ to *_pb2.py and their types, in src/rota/wire and src/rota/server, for `make wire`.

The compiled code is committed, so that nobody needs a compiler to install Rota. With --check nothing is written:
`make check` asks thus whether what is committed is what the schema says.

Usage: python -m tools.generate_wire [--check]
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SCHEMA_FOLDER: Final = Path("proto")
SCHEMA: Final = Path("rota/v1/peer.proto")
TRANSPORT_SCHEMA: Final = Path("rota/v1/transport.proto")
COMMANDS_SCHEMA: Final = Path("rota/v1/commands.proto")
SCHEMAS: Final = (SCHEMA, TRANSPORT_SCHEMA, COMMANDS_SCHEMA)
TARGET_FOLDER: Final = Path("src/rota/wire")
# What users call is the API's own; what nodes say to each other is not.
API_TARGET_FOLDER: Final = Path("src/rota/server")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write what is stale, or with --check only tell of it; 1 when something is wrong."""
    is_check = arguments == ["--check"]
    if find_spec("grpc_tools") is None:
        print("wire: grpcio-tools is not installed here, so the generated code is not looked at", file=sys.stderr)
        return 0 if is_check and os.environ.get("ROTA_FORBID_SKIPS") != "1" else 1
    compiled = compile_schema(root / SCHEMA_FOLDER)
    if compiled is None:
        return 1
    stale = {path: text for name, text in compiled.items() if _text_of(path := root / target_of(name)) != text}
    for path, text in stale.items():
        if is_check:
            print(f"{path.relative_to(root)} is not what {SCHEMA_FOLDER / _schema_of(path)} says: run `make wire`")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(root)}: written")
    return 1 if is_check and stale else 0


def compile_schema(folder: Path) -> dict[str, str] | None:
    """The compiled modules by file name, or nothing when the compiler has told what is wrong with the schema."""
    protoc = import_module("grpc_tools.protoc")
    with tempfile.TemporaryDirectory() as out:
        # Schemas of others, such as google.rpc, come with the packages that have their compiled code.
        paths = [f"--proto_path={each}" for each in (folder, *_installed())]
        options = [*paths, f"--python_out={out}", f"--pyi_out={out}"]
        if protoc.main(["protoc", *options, *(str(folder / schema) for schema in SCHEMAS)]) != 0:
            return None
        made = sorted((Path(out) / SCHEMA.parent).iterdir())
        return {path.name: path.read_text(encoding="utf-8") for path in made}


def target_of(name: str) -> Path:
    """Where a generated file belongs."""
    is_of_users = name.startswith(COMMANDS_SCHEMA.stem)
    return (API_TARGET_FOLDER if is_of_users else TARGET_FOLDER) / name


def _installed() -> list[Path]:
    """The folders from which installed packages' schemas are imported."""
    files = Path(str(import_module("grpc_tools").__file__)).parent / "_proto"
    google = find_spec("google.rpc.status_pb2")
    return [files, Path(str(google.origin)).parents[2]] if google is not None else [files]


def _schema_of(generated: Path) -> Path:
    """The schema that a generated file is made from."""
    return SCHEMA.with_name(generated.name.partition("_pb2")[0] + SCHEMA.suffix)


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
