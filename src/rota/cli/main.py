"""The `rota` command: a group that knows its sub-commands by name and imports one only when it is asked for.

A node pulls in a database, a transport and an EVM; a user who types `rota --help` should not wait for them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import click

EXIT_INTERRUPTED: Final = 130  # as in `rota.__main__`
COMPLETING: Final = "_ROTA_COMPLETE"  # what the scripts of `rota completion` set


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a sub-command is found, and the line that `rota --help` shows of it without going there."""

    target: str  # "module:attribute"
    short_help: str

    def load(self) -> click.Command:
        module_name, attribute = self.target.split(":")
        command = getattr(import_module(module_name), attribute)
        assert isinstance(command, click.Command), f"{self.target} is not a click command"
        return command


COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "init": LazyCommand("rota.cli.init:command", "Make the folder of a node: configuration, keys, certificate."),
    "keys": LazyCommand("rota.cli.keys:command", "Show a node's keys, and exchange its certificate."),
    "credentials": LazyCommand("rota.cli.credentials:command", "Manage the credentials for a node's API."),
    "simulate": LazyCommand("rota.cli.simulate:command", "Run whole networks under faults, and judge them."),
    "demo": LazyCommand("rota.cli.demo:command", "Run a small network on this machine and watch it work."),
    "node": LazyCommand("rota.cli.node:command", "Run one node from its folder."),
    "doctor": LazyCommand("rota.cli.doctor:command", "Check a node and suggest fixes."),
    "tx": LazyCommand("rota.cli.tx:command", "Send transactions, and follow them to their end."),
    "token": LazyCommand("rota.cli.token:command", "Issue private tokens, pay with them, lock them."),
    "group": LazyCommand("rota.cli.group:command", "Create privacy groups, and use private contracts in them."),
    "contract": LazyCommand("rota.cli.contract:command", "Create private contracts, and bring them to nodes."),
    "consent": LazyCommand("rota.cli.consent:command", "Agree to contracts that name a node, or refuse them."),
    "command": LazyCommand("rota.cli.command:command", "Submit commands that happen exactly once."),
    "party": LazyCommand("rota.cli.party:command", "Create parties of a node, so that others can pay them."),
    "trigger": LazyCommand("rota.cli.trigger:command", "See and steer a node's automation."),
    "ledger": LazyCommand("rota.cli.ledger:command", "Run an Ethereum chain; deploy and register on any."),
    "bench": LazyCommand("rota.cli.bench:command", "Measure throughput and latency on this machine."),
    "completion": LazyCommand("rota.cli.completion:command", "Print the script that completes commands in a shell."),
    "docs": LazyCommand("rota.cli.docs:command", "Write the documents that are generated from the code."),
}


class LazyGroup(click.Group):
    """A group over a registry of lazy commands."""

    def __init__(self, *, registry: Mapping[str, LazyCommand] = COMMANDS, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)
        self.registry = registry

    def main(self, *arguments: Any, **settings: Any) -> Any:  # noqa: ANN401
        """A shell that completes is answered without loading what it asks about."""
        if COMPLETING in os.environ:
            completion: ModuleType = import_module("rota.cli.completion")
            return completion.empty_tree().main(*arguments, **{"prog_name": "rota", **settings})
        return super().main(*arguments, **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.registry)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.registry.get(cmd_name)
        return entry.load() if entry is not None else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Click would load every sub-command for its help line; the registry already has it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in self.registry.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Click would turn Ctrl-C into "Aborted!" and 1, which a script cannot tell from a failure."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted: stopped by Ctrl-C.", err=True)
            ctx.exit(EXIT_INTERRUPTED)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rota", prog_name="rota", message="%(prog)s %(version)s")
def main() -> None:
    """Rota puts private transactions in order on an Ethereum ledger.

    The nodes of a network agree, contract by contract, on whose turn it is to assemble, have endorsed and
    submit the next transaction, while its contents stay with its parties.

    \b
    Example:
      rota demo
      rota init ./node1 --node node1 --endpoint 10.0.0.1:31550 --generate-password
      rota doctor ./node1
    """
