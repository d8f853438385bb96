"""`rota keys`: shows what a node signs with and how it shows who it is, and exchanges its certificate.

An exchange goes by the steps of `keys.transport_files`, one after the other as far as it can: where the nodes are in a
file, an operator has to edit that file; and the old certificate is dropped only when the node, if it runs, shows the
new one, since its peers would part from it otherwise. So the command prints where it stopped and is run again. It
keeps no state: the files and the registry show which step is due.

A node that runs finds its new certificate by itself and renews its connections. Its peers find it within
`certificate_look_max_ms`, and so long the old one is kept after the new one was seen.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from rota.cli.node_folder import NodeFolder, directory_argument, open_folder, password_file_option, told_plainly
from rota.cli.parameters import json_option
from rota.cli.registering import Network, opened_network
from rota.keys.certificates import Certificate
from rota.keys.node_keys import NodeKeys
from rota.keys.transport_files import NO_FINGERPRINT, Registered, Step, next_step
from rota.ledger.registering import announce, look_up, require_owner, rotate
from rota.ports import Registration, Unavailable
from rota.transport import read_registry
from rota.transport.certificates import look_at_certificate
from rota.transport.endings import Refused

STEPS_MAX: Final = 4
LOOK_TIMEOUT_MS: Final = 2_000
LOOK_PAUSE_MS: Final = 250
WAIT_S: Final = 15
WAIT_S_MAX: Final = 3_600


@click.group()
def command() -> None:
    """Show a node's keys, and exchange its certificate.

    \b
    Example:
      rota keys show ./node1
    """


@command.command()
@directory_argument
@password_file_option
@click.option("--words", "with_words", is_flag=True, help="Show the words of the wallet too: they are all its keys.")
@json_option
def show(directory: Path, password_file: Path | None, with_words: bool, as_json: bool) -> None:
    """Show a node's addresses and certificates.

    \b
    Example:
      rota keys show ./node1
      rota keys show ./node1 --words --password-file ./password

    Exit 0: shown. 1: a file is missing or wrong. 2: wrong use.
    """
    keys = open_folder(directory, password_file, may_lack=("ledger.registry",)).keys
    with told_plainly():
        following = _following(keys)
    certificates = {"certificate": keys.certificate, "next_certificate": following}
    words = keys.wallet.phrase.reveal().decode() if with_words else None
    if as_json:
        shown = {name: None if each is None else _described(each) for name, each in certificates.items()}
        told = {"node": keys.node, "submitter": keys.submitter, "registrar": keys.registrar, **shown}
        click.echo(json.dumps(told | ({"words": words} if with_words else {})))
        return
    click.echo(f"Node         {keys.node}")
    click.echo(f"Submitter    {keys.submitter}")
    click.echo(f"Registrar    {keys.registrar}")
    for name, each in (("Certificate", keys.certificate), ("Next", following)):
        if each is not None:
            click.echo(f"{name:<12} {each.fingerprint.hex()}, valid until {_date(each.valid_until_s)}")
    if words is not None:
        click.echo(f"Words        {words}")


def _following(keys: NodeKeys) -> Certificate | None:
    """The certificate that the node will show, if one is prepared."""
    identity = keys.transport.next()
    return None if identity is None else identity.certificate


def _described(certificate: Certificate) -> dict[str, object]:
    return {
        "fingerprint": certificate.fingerprint.hex(),
        "valid_from_s": certificate.valid_from_s,
        "valid_until_s": certificate.valid_until_s,
    }


def _date(time_s: int) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M} UTC"


@command.command("rotate-certificate")
@directory_argument
@password_file_option
@click.option(
    "--wait-s",
    type=click.IntRange(0, WAIT_S_MAX),
    default=WAIT_S,
    show_default=True,
    help="How long to wait for a running node to show it.",
)
@json_option
def rotate_certificate(directory: Path, password_file: Path | None, wait_s: int, as_json: bool) -> None:
    """Exchange a node's certificate for a new one, without an outage.

    Carries on with an exchange that is under way, and begins one otherwise. The node may run meanwhile.

    \b
    Example:
      rota keys rotate-certificate ./node1

    Exit 0: the exchange is done, or waits for the printed step. 1: it cannot go on. 2: wrong use.
    """
    folder = open_folder(directory, password_file)
    with told_plainly():
        exchange = asyncio.run(_exchange(folder, directory, wait_s))
    if as_json:
        told = {"steps": [step.value for step in exchange.done], "is_done": not exchange.waits_for}
        click.echo(json.dumps({**told, "waits_for": exchange.waits_for, "fingerprint": exchange.fingerprint.hex()}))
        return
    for step in exchange.done:
        click.echo(_SAID[step])
    click.echo(exchange.waits_for or f"Done. The certificate is {exchange.fingerprint.hex()}.")


_SAID: Final = {
    Step.PREPARE: "A new certificate is made.",
    Step.ANNOUNCE: "It is announced: other nodes take both.",
    Step.PROMOTE: "It is the current one: whatever connects from now on is shown it.",
    Step.ROTATE: "The old one is dropped.",
}


@dataclass(slots=True)
class _Exchange:
    """How far it came."""

    fingerprint: bytes = b""
    done: list[Step] = field(default_factory=list)
    waits_for: str = ""


async def _exchange(folder: NodeFolder, directory: Path, wait_s: int) -> _Exchange:
    """At most once around; it ends where something has to be waited for."""
    exchange = _Exchange()
    async with opened_network(folder) as network:
        for _ in range(STEPS_MAX):
            step = await _due(folder, network, is_begun=bool(exchange.done))
            if step is Step.NOTHING:
                break
            exchange.waits_for = await _take(step, folder, network, directory, wait_s)
            if exchange.waits_for:
                break
            exchange.done.append(step)
            if step is Step.ROTATE:
                break
    exchange.fingerprint = (_following(folder.keys) or folder.keys.transport.current().certificate).fingerprint
    return exchange


async def _due(folder: NodeFolder, network: Network | None, is_begun: bool) -> Step:
    """The step that is due; the age of the certificate does not begin a new exchange, the operator does."""
    transport = folder.keys.transport
    registered = await _registered(folder, network)
    step = next_step(transport.current().certificate, _following(folder.keys), registered, int(time.time()))
    return Step.PREPARE if step is Step.NOTHING and not is_begun else step


async def _registered(folder: NodeFolder, network: Network | None) -> Registered:
    name = folder.keys.node
    if network is not None:
        found = await look_up(network.account, network.registry, name)
        if found is None:
            return Registered()
        require_owner(network.account, name, found)
        return Registered(found.current_fingerprint, found.next_fingerprint or NO_FINGERPRINT)
    source = folder.configuration.transport.registry
    assert isinstance(source, Path), "without a network the nodes are in a file"
    try:
        entry = read_registry(source).get(name)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{source}: {error}") from error
    return Registered() if entry is None else Registered(entry.fingerprint, entry.next_fingerprint or NO_FINGERPRINT)


async def _take(step: Step, folder: NodeFolder, network: Network | None, directory: Path, wait_s: int) -> str:
    """Take a step, or print the step that must come first."""
    keys = folder.keys
    if step is Step.REGISTER:
        advice = f"`rota ledger register {directory}` tells it." if network else "Correct the file."
        raise click.ClickException(f"The registry does not know the certificate that this node shows. {advice}")
    if step is Step.PREPARE:
        keys.transport.ensure_next(int(time.time()))
    elif step is Step.PROMOTE:
        keys.transport.promote()
    elif step is Step.ANNOUNCE:
        following = _following(keys)
        assert following is not None, "the announced certificate exists"
        fingerprint = following.fingerprint
        if network is None:
            return f'Put next_fingerprint = "{fingerprint.hex()}" of {keys.node} into the registry file of every node.'
        await announce(network.account, network.registry, keys.node, fingerprint)
    else:
        if waits_for := await _not_shown(folder, wait_s):
            return waits_for
        if network is None:
            shown = keys.transport.current().certificate.fingerprint.hex()
            return (
                f'Make "{shown}" the fingerprint of {keys.node} in the registry file of every node, and take its '
                "next_fingerprint out."
            )
        await rotate(network.account, network.registry, keys.node)
    return ""


async def _not_shown(folder: NodeFolder, wait_s: int) -> str:
    """The problem of a running node that still shows its old certificate after this time; else nothing."""
    transport = folder.configuration.transport
    endpoint = transport.endpoint or transport.listen
    wanted = Registration(endpoint, folder.keys.transport.current().certificate.fingerprint)
    for look in range(wait_s * 1_000 // LOOK_PAUSE_MS + 1):
        if look:
            await asyncio.sleep(LOOK_PAUSE_MS / 1_000)
        try:
            await look_at_certificate(folder.keys.node, wanted, datetime.now(UTC), LOOK_TIMEOUT_MS)
        except Unavailable:
            return ""
        except Refused:
            continue
        await asyncio.sleep(transport.settings.certificate_look_max_ms / 1_000)
        return ""
    return f"The node at {endpoint} still shows its old certificate. Run this again when it shows the new one."
