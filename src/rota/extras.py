"""Which parts of Rota come with which extra, and the error when one of them is not installed.

`pip install rota` installs the client. The other packages are in distributions that the extras bring. Python asks the
last finder in `sys.meta_path` only for modules that no other finder has, so this one is asked for absent parts alone.
`rota` imports this module first, so it imports no other.
"""

import sys

# The packages of each distribution but the client's; `distributions/*/pyproject.toml` builds them.
PACKAGES = {
    "demo": ("bench", "demo", "sim", "testing"),
    "node": (
        *("abi", "automation", "calldata", "chain", "cli", "commands", "directory", "doctor", "domains", "engine"),
        *("evm", "exchange", "host", "keys", "ledger", "localnet", "logs", "machine", "node", "ports"),
        *("prover", "revm", "rpc", "schema", "sequencer", "server", "service", "store", "transport", "wire"),
        "workers",
    ),
}


class NotInstalled(ModuleNotFoundError):
    """A part of Rota is not installed. The text names the command that installs it."""


def command(extra: str) -> str:
    """What a user types to install an extra."""
    return f"pip install 'rota[{extra}]'"


class _Absent:
    """Raises `NotInstalled` for packages that an extra brings."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004 - the protocol's
        for extra, packages in PACKAGES.items():
            if name in {f"rota.{package}" for package in packages}:
                # With the attribute `name`, `from rota import ...` would replace this text by its own.
                raise NotInstalled(f"{name} needs the extra `{extra}`: {command(extra)}")


def install() -> None:
    """Let an import of an absent part name its extra."""
    if _Absent not in sys.meta_path:
        sys.meta_path.append(_Absent)
