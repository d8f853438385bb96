"""`rota node`: one node, from its folder, until a signal stops it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from pathlib import Path

import click

from rota.cli.node_folder import WrongFolder, directory_argument, open_folder, password_file_option
from rota.cli.parameters import json_option
from rota.server.configuration import FILE_NAME
from rota.server.memory import collect_rarely, limit_heaps
from rota.server.observability import configure_logging
from rota.server.process import CannotListen, CannotStart, NodeProcess, serve
from rota.store import Refused


class WrongNode(click.ClickException):
    """The exit code tells a supervisor that starting the node again does not help."""

    exit_code = 2


@click.command(name="node")
@directory_argument
@password_file_option
@click.option(
    "--standby",
    is_flag=True,
    help="Wait while another process of the node has its PostgreSQL database, and take over when that ends or hangs.",
)
@json_option
def command(directory: Path, password_file: Path | None, standby: bool, as_json: bool) -> None:
    """Run the node whose folder `rota init` made, until SIGTERM or Ctrl-C.

    It then hands over what it coordinates and drains, at most as long as `node.stop_timeout_ms`; a second signal stops
    it at once. Nothing is lost either way: its next run continues where this one ended. Logs go to standard error.
    With --json, one object is printed once it listens: its name, process and addresses.

    With --standby, two processes of one node run on two machines, with the same keys and the same PostgreSQL database.
    The first is active. The other listens for users and is not ready; it takes over when the active process ends, or
    has been silent to the database for 3 s. Start both with --standby.

    \b
    Example:
      rota node ./node1
      rota node ./node1 --password-file ./password
      rota node ./node1 --standby

    Exit 0: stopped when asked to. 1: it could not start, or an error of its own ended it. 2: wrong use, or its
    configuration or a key file is wrong: starting it again does not help.
    """
    try:
        folder = open_folder(directory, password_file)
    except WrongFolder as flaw:
        raise WrongNode(flaw.message) from flaw
    configure_logging(folder.configuration.log.level, folder.configuration.log.format)

    def tell(process: NodeProcess) -> None:
        gc.freeze()
        if as_json:
            click.echo(json.dumps(_addresses(process)))

    limit_heaps()
    collect_rarely()
    try:
        asyncio.run(serve(folder.configuration, folder.keys, tell, directory / FILE_NAME, stands_by=standby))
    except (CannotListen, Refused) as error:
        raise click.ClickException(str(error)) from error
    except CannotStart as error:
        raise WrongNode(str(error)) from error


def _addresses(process: NodeProcess) -> dict[str, object]:
    return {
        "node": process.running.name,
        "pid": os.getpid(),
        "rpc": process.entrance.http_url,
        "websocket": process.entrance.websocket_url,
        "operations": process.entrance.operations_url,
        "commands": process.entrance.commands.address if process.entrance.commands is not None else None,
        "peer_port": process.peers.port,
    }
