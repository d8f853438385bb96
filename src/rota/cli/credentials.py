"""`rota credentials`: who may call a node's API, and what.

The file that the node's configuration names is written whole, under another name first: a node that runs finds it
within a second, and a reader never sees half of it. A token is made here and shown once; of a password its hash
is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

from rota.cli.node_folder import directory_argument, told_plainly
from rota.cli.parameters import json_option
from rota.keys.files import move, write_new
from rota.keys.node_keys import read_password
from rota.keys.secret import Secret
from rota.rpc.credentials import (
    CertificateCredential,
    Credential,
    PasswordCredential,
    Role,
    TokenCredential,
    make_token,
    password_credential,
)
from rota.server.configuration import FILE_NAME, read_configuration
from rota.server.credentials_file import CREDENTIALS_MAX, PARTY, CredentialsFileWrong, entry_of, read_credentials
from rota.server.table import TABLE

DEFAULT_NAME: Final = "credentials.toml"
PASSWORD_CHARACTERS_MIN: Final = 12
FAMILIES: Final = tuple(dict.fromkeys(method.family for method in TABLE.values()))


@click.group()
def command() -> None:
    """Manage the credentials for a node's API.

    Each credential has a name and roles: read, submit, operate. None contains another. A node that runs takes over
    changes, and closes the connections of removed credentials.

    \b
    Example:
      rota credentials add ./node1 anna --role read --role submit
    """


@command.command()
@directory_argument
@click.argument("name")
@click.option(
    "--role",
    "roles",
    type=click.Choice([role.value for role in Role]),
    multiple=True,
    required=True,
    help="What it may do; may be given several times.",
)
@click.option(
    "--family",
    "families",
    type=click.Choice(FAMILIES),
    multiple=True,
    help="Methods of this family only; may be given several times. Without it, of all.",
)
@click.option(
    "--party",
    "parties",
    metavar="PARTY",
    multiple=True,
    help="Act for this party only, such as alice, or treasury.* for all below it; may be given several times. "
    "Without it, for all.",
)
@click.option("--password", "has_password", is_flag=True, help="A user name and a password, instead of a token.")
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of mode 600 whose first line is that password; without it, it is asked for.",
)
@json_option
def add(
    directory: Path,
    name: str,
    roles: tuple[str, ...],
    families: tuple[str, ...],
    parties: tuple[str, ...],
    has_password: bool,
    password_file: Path | None,
    as_json: bool,
) -> None:
    """Add a credential: a new token, which is shown once, or a password.

    \b
    Example:
      rota credentials add ./node1 anna --role read --role submit
      rota credentials add ./node1 prometheus --role read --family node
      rota credentials add ./node1 carol --role operate --password
      rota credentials add ./node1 shop --role read --role submit --party alice --party 'treasury.*'

    Exit 0: done. 1: a file is missing or wrong, or the name is taken. 2: wrong use.
    """
    path, is_named, kept = _opened(directory)
    if any(each.name == name for each in kept):
        raise click.ClickException(f"{path}: there is a credential {name!r} already; remove it first")
    if not name or ":" in name:
        raise click.UsageError("NAME must not be empty, and must have no colon in it")
    if len(kept) >= CREDENTIALS_MAX:
        raise click.ClickException(f"{path}: there are {CREDENTIALS_MAX} credentials, and there is no room for more")
    allowed = frozenset(Role(role) for role in roles)
    only, held = frozenset(families) or None, tuple(sorted(set(parties))) or None
    for party in parties:
        if not PARTY.fullmatch(party) or not party.isprintable():
            raise click.UsageError(f"--party must be a party of this node, such as alice or treasury.*, not {party!r}")
    token: str | None = None
    made: Credential
    if has_password or password_file is not None:
        made = password_credential(name, allowed, _password(password_file), only, held)
    else:
        token, made = make_token(name, allowed, only, held)
    _write(path, (*kept, made))
    if as_json:
        click.echo(json.dumps({**_described(made), "token": token, "file": str(path), "is_used": is_named}))
        return
    click.echo(f"{name} may {', '.join(roles)}{' in ' + ', '.join(families) if families else ''}.")
    if token is not None:
        click.echo(f"Token, which is shown this once:\n{token}")
    if not is_named:
        click.echo(f'The node does not use {path} yet: set credentials_file = "{path.name}" in [rpc], and restart it.')


@command.command("list")
@directory_argument
@json_option
def list_(directory: Path, as_json: bool) -> None:
    """Show who is let in, and for what; there is no secret in that.

    \b
    Example:
      rota credentials list ./node1

    Exit 0: shown. 1: a file is missing or wrong. 2: wrong use.
    """
    path, is_named, kept = _opened(directory)
    if as_json:
        told = {"file": str(path), "is_used": is_named, "credentials": [_described(each) for each in kept]}
        click.echo(json.dumps(told))
        return
    for each in kept:
        only = f", only {', '.join(sorted(each.families))}" if each.families is not None else ""
        held = f", for {', '.join(each.parties)}" if each.parties is not None else ""
        click.echo(f"{each.name:<24} {_kind_of(each):<9} {', '.join(_roles_of(each))}{only}{held}")
    if not kept:
        click.echo("None: the node listens on loopback addresses alone, and every caller there may do everything.")


@command.command()
@directory_argument
@click.argument("name")
@json_option
def remove(directory: Path, name: str, as_json: bool) -> None:
    """Remove a credential.

    The last credential is not removed: without any, every caller would have access. Take credentials_file out of the
    configuration for that.

    \b
    Example:
      rota credentials remove ./node1 anna

    Exit 0: done. 1: there is none of this name, or it is the last. 2: wrong use.
    """
    path, _, kept = _opened(directory)
    rest = tuple(each for each in kept if each.name != name)
    if len(rest) == len(kept):
        raise click.ClickException(f"{path}: there is no credential {name!r}")
    if not rest:
        raise click.ClickException(f"{path}: {name!r} is the last one; without any, every caller would have access")
    _write(path, rest)
    click.echo(json.dumps({"removed": name, "left": len(rest)}) if as_json else f"{name} is let in no more.")


def _opened(directory: Path) -> tuple[Path, bool, tuple[Credential, ...]]:
    """The file, whether the configuration names it, and its content."""
    with told_plainly():
        named = read_configuration(directory / FILE_NAME, may_lack=("ledger.registry",)).rpc.credentials_file
    path = named if named is not None else directory / DEFAULT_NAME
    if not path.exists():
        return path, named is not None, ()
    try:
        return path, named is not None, read_credentials(path)
    except (CredentialsFileWrong, OSError) as error:
        raise click.ClickException(str(error)) from None


def _write(path: Path, credentials: tuple[Credential, ...]) -> None:
    content = "\n".join(entry_of(each) for each in credentials)
    fresh = path.with_name(f".{path.name}.new")
    with told_plainly():
        fresh.unlink(missing_ok=True)
        write_new(fresh, Secret(content.encode()))
        move(fresh, path)


def _password(password_file: Path | None) -> str:
    if password_file is not None:
        with told_plainly():
            password = read_password(password_file).reveal().decode()
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        raise click.UsageError("There is no password. Name a file with --password-file, or run this at a terminal.")
    if len(password) < PASSWORD_CHARACTERS_MIN:
        raise click.ClickException(f"the password must have at least {PASSWORD_CHARACTERS_MIN} characters")
    return password


def _described(credential: Credential) -> dict[str, object]:
    return {
        "name": credential.name,
        "kind": _kind_of(credential),
        "roles": _roles_of(credential),
        "families": sorted(credential.families) if credential.families is not None else None,
        "parties": list(credential.parties) if credential.parties is not None else None,
    }


def _kind_of(credential: Credential) -> str:
    kinds = {PasswordCredential: "password", TokenCredential: "token", CertificateCredential: "certificate"}
    return kinds[type(credential)]


def _roles_of(credential: Credential) -> list[str]:
    return [role.value for role in Role if role in credential.roles]
