"""`rota init`: the folder of a new node, with its configuration, its keys and its certificate.

Nothing is overwritten, so that an interrupted run is simply run again; existing files must match the request.
All settings are checked before anything is made.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from rota.cli.node_folder import directory_argument, password_file_option, password_for, told_plainly
from rota.cli.parameters import json_option
from rota.directory.consent import ConsentMode
from rota.keys.files import AlreadyThere, make_folder, read_private, write_new
from rota.keys.keystore import ScryptCost
from rota.keys.node_keys import WALLET, MadeKeys, make_node_keys
from rota.keys.secret import Secret
from rota.keys.wallet import Wallet
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import read_quantity
from rota.ports import Unavailable
from rota.server.configuration import (
    CHAIN,
    FILE_NAME,
    SECTIONS,
    Absent,
    ConfigurationRejected,
    NodeConfiguration,
    read_configuration,
    read_text,
    write_configuration,
)
from rota.server.configuring.kinds import is_loopback

LEDGER_DEFAULT: Final = "http://127.0.0.1:8545"
PASSWORD_NAME: Final = "password"
PASSWORD_BYTES: Final = 32
PASSWORD_VARIABLE: Final = "ROTA_NODE_PASSWORD"
CHAIN_ATTEMPTS_MAX: Final = 2
WORDS_PER_LINE: Final = 6
# A network's contracts may come later than its first node: `rota ledger deploy` needs one to sign.
MAY_LACK: Final = ("ledger.registry",)

_KEYS: Final = {key.path: key for section in SECTIONS for key in section.keys}


@dataclass(frozen=True, slots=True)
class MadeNode:
    """A node's folder, as it is now."""

    file: Path
    configuration: NodeConfiguration
    made: MadeKeys
    written: tuple[Path, ...]


@click.command()
@directory_argument
@click.option("--node", "name", required=True, help="The node's name in the network.")
@click.option("--ledger", "ledger_url", help=f"The JSON-RPC of an Ethereum node.  [default: {LEDGER_DEFAULT}]")
@click.option("--chain-id", help="Its chain.  [default: as that node reports]")
@click.option("--factory", help="The address of the network's Factory; `rota ledger deploy` makes one.")
@click.option("--registry", help="The address of the network's Registry; `rota ledger deploy` makes one.")
@click.option("--endpoint", help="Where other nodes reach this one, such as 10.0.0.1:31550.")
@click.option("--store", help="sqlite:FILE, or postgresql://USER@HOST:PORT/DATABASE.")
@click.option(
    "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="Any other key; may be given several times."
)
@password_file_option
@click.option("--generate-password", is_flag=True, help=f"Put a new password into DIRECTORY/{PASSWORD_NAME}, mode 600.")
@click.option(
    "--words-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Restore the wallet from the words in this file of mode 600 instead of making a new one.",
)
@json_option
@click.pass_obj
def command(
    cost: ScryptCost | None,
    /,
    directory: Path,
    password_file: Path | None,
    generate_password: bool,
    words_file: Path | None,
    as_json: bool,
    settings: tuple[str, ...],
    **options: str | None,
) -> None:
    """Make the folder of a node: its configuration, its keys, its certificate.

    The words of a new wallet are shown once: write them down. Run again, this changes nothing that exists, and prints
    what it is.

    \b
    Example:
      rota init node1 --node node1 --endpoint 10.0.0.1:31550 --generate-password

    Exit 0: the folder is as asked for. 1: something is there that is not, or cannot be had. 2: wrong use.
    """
    if password_file is not None and generate_password:
        raise click.UsageError("--password-file and --generate-password contradict each other.")
    given = _given(options, settings)
    with told_plainly():
        node = _make(directory, given, password_file, generate_password, words_file, cost or ScryptCost())
    _print(node, as_json)


# The request.


def _given(options: Mapping[str, str | None], settings: tuple[str, ...]) -> dict[str, object]:
    """The keys that the command line sets, raw."""
    paths = {
        "name": "node.name",
        "ledger_url": "ledger.url",
        "chain_id": "ledger.chain_id",
        "factory": "ledger.factory",
        "registry": "ledger.registry",
        "endpoint": "transport.endpoint",
        "store": "store.url",
    }
    texts = {paths[option]: text for option, text in options.items() if text is not None}
    for setting in settings:
        path, equals, text = setting.partition("=")
        key = _KEYS.get(path)
        if not equals or key is None or key.is_environment_only:
            raise click.UsageError(f"--set {path}: must be SECTION.KEY=VALUE with a key of the configuration.")
        if path in texts:
            raise click.UsageError(f"--set {path}: is set twice.")
        texts[path] = text
    return {path: _KEYS[path].kind.from_text(text) for path, text in texts.items()}


def _make(
    directory: Path,
    given: dict[str, object],
    password_file: Path | None,
    is_password_generated: bool,
    words_file: Path | None,
    cost: ScryptCost,
) -> MadeNode:
    file = directory / FILE_NAME
    is_new = not file.exists()
    if is_password_generated:
        password_file = directory / PASSWORD_NAME
    if is_new:
        text = write_configuration(_completed(directory, given, password_file))
        configuration = _checked(file, text)
    else:
        configuration = read_configuration(file, may_lack=MAY_LACK)
        _require_same(file, given)
        text = ""
    wallet = None if words_file is None else _wallet_of(words_file)
    make_folder(directory)
    written = _generate_password(directory / PASSWORD_NAME) if is_password_generated else []
    is_wallet_new = not (configuration.node.keys / WALLET).exists()
    password = password_for(configuration.node, password_file, is_new=is_wallet_new)
    made = make_node_keys(configuration.node.keys, configuration.node.name, password, int(time.time()), wallet, cost)
    written += made.written
    if is_new:
        write_new(file, Secret(text))
        written.append(file)
    return MadeNode(file, configuration, made, tuple(written))


def _completed(directory: Path, given: Mapping[str, object], password_file: Path | None) -> dict[str, object]:
    """The request with its defaults: the ledger, its chain, and the place of the password."""
    completed = {"ledger.url": LEDGER_DEFAULT, **given}
    if password_file is not None:
        inside = password_file.absolute().is_relative_to(directory.absolute())
        shown = password_file.absolute().relative_to(directory.absolute()) if inside else password_file.absolute()
        completed["node.password_file"] = str(shown)
    endpoint = completed.get("transport.endpoint")
    if isinstance(endpoint, str) and any(
        is_loopback(place.rpartition(":")[0].strip("[] ")) for place in endpoint.split(",")
    ):
        # The others of its network are on this machine too.
        completed.setdefault("transport.local_endpoints", True)
    # The reader of the file sees that other nodes' proposals wait for the operator.
    completed.setdefault("consent.proposals", ConsentMode.ASK.value)
    if "ledger.chain_id" not in completed:
        completed["ledger.chain_id"] = asyncio.run(_chain_id_of(str(completed["ledger.url"])))
    return completed


async def _chain_id_of(url: str) -> int:
    try:
        client = RpcClient(url)
    except ValueError:
        raise click.ClickException(f"ledger.url: must be {_KEYS['ledger.url'].kind.right}, not {url!r}") from None
    try:
        return read_quantity(await client.call("eth_chainId", attempts_max=CHAIN_ATTEMPTS_MAX))
    except (RpcRefused, Unavailable, ValueError) as error:
        raise click.ClickException(
            f"The Ethereum node at {url} does not report its chain: {error}. Start it, correct --ledger, or give "
            "--chain-id."
        ) from error
    finally:
        await client.close()


def _checked(file: Path, text: str) -> NodeConfiguration:
    """The settings of a file that does not exist yet: an error has no line number."""
    password = {name: value for name, value in os.environ.items() if name == PASSWORD_VARIABLE}
    try:
        return read_text(file, text, password, may_lack=MAY_LACK)
    except ConfigurationRejected as rejected:
        told = "\n".join(f"{flaw.key}: {flaw.text}" for flaw in rejected.flaws)
        raise click.ClickException(told) from rejected


def _require_same(file: Path, given: Mapping[str, object]) -> None:
    """Refuse existing files that differ from the request; nothing is overwritten."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    for path, raw in given.items():
        section, _, name = path.partition(".")
        found = document.get(section, {}).get(name, _KEYS[path].default)
        if found != raw:
            there = "has none" if isinstance(found, Absent) else f"has {found!r}"
            raise click.ClickException(
                f"{file}: {path}: {raw!r} was asked for, and the file {there}. It is not overwritten: edit it, or "
                "choose another directory."
            )


def _wallet_of(words_file: Path) -> Wallet:
    try:
        return Wallet(read_private(words_file))
    except ValueError as error:
        raise click.ClickException(f"{words_file}: {error}") from None


def _generate_password(path: Path) -> list[Path]:
    try:
        write_new(path, Secret(secrets.token_urlsafe(PASSWORD_BYTES) + "\n"))
    except AlreadyThere:
        return []
    return [path]


# The result.


def _print(node: MadeNode, as_json: bool) -> None:
    keys = node.made.keys
    words = None if node.made.new_words is None else node.made.new_words.reveal().decode()
    if as_json:
        click.echo(
            json.dumps(
                {
                    "node": keys.node,
                    "configuration": str(node.file),
                    "submitter": keys.submitter,
                    "registrar": keys.registrar,
                    "fingerprint": keys.certificate.fingerprint.hex(),
                    "words": words,
                    "written": [str(path) for path in node.written],
                }
            )
        )
        return
    click.echo(f"{keys.node} is in {node.file.parent}." if node.written else f"{keys.node} was there already.")
    for path in node.written:
        click.echo(f"  made {path}")
    if words is not None:
        _print_words(words.split())
    click.echo(f"\nSubmitter    {keys.submitter}   pays for rounds: send it funds")
    click.echo(f"Registrar    {keys.registrar}   pays for the registration: send it funds")
    click.echo(f"Fingerprint  {keys.certificate.fingerprint.hex()}")
    click.echo(f"Final        {_finality(node.configuration)}")
    click.echo(f"Consent      {_consent(node.configuration)}")
    for step in _next_steps(node):
        click.echo(f"\n{step}")


def _finality(configuration: NodeConfiguration) -> str:
    confirmations = configuration.ledger.confirmations
    if confirmations is None:
        return "as many confirmations as the chain needs: `rota doctor` shows how many"
    return f"{confirmations} confirmations, as set"


def _consent(configuration: NodeConfiguration) -> str:
    consent = configuration.consent
    listed = f" except {', '.join(consent.allow)}" if consent.allow else ""
    match consent.proposals:
        case ConsentMode.OPEN:
            return "open: every node's proposals to endorse or coordinate are taken"
        case ConsentMode.LISTED:
            return f"listed: proposals to endorse or coordinate are taken from {', '.join(consent.allow) or 'no node'}"
        case _:
            return f"ask: proposals of other nodes{listed} wait for you; see `rota consent`"


def _print_words(words: list[str]) -> None:
    click.echo(
        "\nThe words of its wallet, shown this once. Write them down and keep them safe: they are all its keys.\n"
    )
    for at in range(0, len(words), WORDS_PER_LINE):
        numbered = enumerate(words[at : at + WORDS_PER_LINE], at + 1)
        click.echo("  " + "".join(f"{f'{number} {word}':<14}" for number, word in numbered).rstrip())


def _next_steps(node: MadeNode) -> list[str]:
    directory = node.file.parent
    ledger, transport = node.configuration.ledger, node.configuration.transport
    steps = []
    if transport.registry != CHAIN:
        steps.append(f"Put its endpoint and fingerprint into {transport.registry}.")
        return steps
    if ledger.registry is None:
        steps.append(
            "Set factory and registry in [ledger] to the network's; for a new network, "
            f"`rota ledger deploy {directory} --save` makes them."
        )
    if transport.endpoint is None:
        steps.append("Set endpoint in [transport]: where other nodes reach this one.")
    return [*steps, f"Then `rota ledger register {directory}` tells the network of it."]
