"""The folder of a node as commands open it: its configuration, its password, its keys.

Errors are printed without a traceback: one of the configuration with its line, one of a key file with the fix, one of
a transaction with the chain's reason.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from rota.keys.files import KeyFileError
from rota.keys.keystore import require_password
from rota.keys.node_keys import NodeKeys, open_node_keys, read_password
from rota.keys.secret import Secret
from rota.ledger.account import TransactionRejected
from rota.ports import Unavailable
from rota.server.configuration import (
    FILE_NAME,
    ConfigurationRejected,
    NodeConfiguration,
    NodeSection,
    password_of,
    read_configuration,
)

NO_PASSWORD: Final = (
    "There is no password. Name a file with --password-file or node.password_file, set ROTA_NODE_PASSWORD, or run this "
    "at a terminal."
)

directory_argument = click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
password_file_option = click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of mode 600 whose first line is the password of the keys.",
)


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """A node's folder, opened."""

    configuration: NodeConfiguration
    keys: NodeKeys


class WrongFolder(click.ClickException):
    """The configuration or a key file has to be changed first."""


@contextmanager
def told_plainly() -> Iterator[None]:
    """An error that the user can fix, in a few lines."""
    try:
        yield
    except (ConfigurationRejected, KeyFileError) as error:
        raise WrongFolder(str(error)) from error
    except (TransactionRejected, Unavailable) as error:
        raise click.ClickException(str(error)) from error


def open_folder(directory: Path, password_file: Path | None, may_lack: Collection[str] = ()) -> NodeFolder:
    """The configuration and the keys of a node."""
    with told_plainly():
        configuration = read_configuration(directory / FILE_NAME, may_lack=may_lack)
        password = password_for(configuration.node, password_file)
        keys = open_node_keys(configuration.node.keys, configuration.node.name, password)
    return NodeFolder(configuration, keys)


def password_for(section: NodeSection | None, password_file: Path | None, *, is_new: bool = False) -> Secret:
    """The password: of the file that is named, of the configuration, or asked for; a new one is asked for twice."""
    if password_file is not None:
        return read_password(password_file)
    found = None if section is None else password_of(section)
    if found is not None:
        return found
    if not sys.stdin.isatty():
        raise click.UsageError(NO_PASSWORD)
    typed = Secret(click.prompt("Password of the keys", hide_input=True, confirmation_prompt=is_new))
    try:
        require_password(typed)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    return typed
