"""`rota demo`: a network of processes at work whose coordinator is killed; or a fail-over as a story.

The story runs the same core on one virtual clock, so that each run is the same and every message can be shown.
"""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TextIO

import click
from click.core import ParameterSource
from rich.console import Console
from rich.text import Text

from rota.cli.contract import key_in
from rota.cli.interruption import Signals, interruptible
from rota.client import ClientError
from rota.demo.language import sections
from rota.demo.ledgers import UnusableLedger, running_chain
from rota.demo.live import performed
from rota.demo.live_view import LiveView, sum_up
from rota.demo.next_lines import lines_to_try
from rota.demo.programme import (
    BURST,
    BURST_MAX,
    NODES_MAX,
    NODES_MIN,
    RATE_MAX_PER_S,
    RATE_MIN_PER_S,
    RATE_PER_S,
    SECONDS,
    SECONDS_MAX,
    SECONDS_MIN,
    SEED,
    SEED_MAX,
    Programme,
)
from rota.demo.scenario import Performance, Scenario, UnreadableScriptError, failover
from rota.demo.serving import FIRST_PORT, Addresses, PortInUse, serve
from rota.demo.show import Show
from rota.demo.stage import Pace, Stage, print_pairs
from rota.keys.files import KeyFileError
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.account import TransactionRejected
from rota.ledger.client import RpcRefused
from rota.localnet.chains import ChainKind, RunningChain
from rota.localnet.children import CannotStartProcess
from rota.model.types import Rotation
from rota.ports import Unavailable
from rota.server.dashboard import PATH as DASHBOARD_PATH
from rota.sim.diagram import mermaid

STDOUT: Final = "-"
# The last node's WebSockets are 801 further on, and ports end at 65,535.
PORT_MAX: Final = 64_000
CHAINS: Final = {kind.value: kind for kind in ChainKind}
SCHEMES: Final = ("http://", "https://", "ws://", "wss://")
LIVE_OPTIONS: Final = {
    "node_count": "--nodes",
    "rate_per_s": "--rate",
    "seconds": "--seconds",
    "burst": "--burst",
    "seed": "--seed",
    "rotation": "--rotation",
    "ledger": "--ledger",
    "key_file": "--key-file",
}


@click.command()
@click.option("--once", is_flag=True, help="End after the audit. Without it everything stays up until Ctrl-C.")
@click.option(
    "--json", "as_json", is_flag=True, help="End after the audit, print the summary as one JSON object alone."
)
@click.option(
    "--nodes",
    "node_count",
    type=click.IntRange(NODES_MIN, NODES_MAX),
    default=NODES_MIN,
    show_default=True,
    help="How many; most of them endorse in the group.",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=click.FloatRange(RATE_MIN_PER_S, RATE_MAX_PER_S),
    default=RATE_PER_S,
    show_default=True,
    help="Transfers a second that all nodes together are asked for.",
)
@click.option(
    "--seconds",
    type=click.IntRange(SECONDS_MIN, SECONDS_MAX),
    default=SECONDS,
    show_default=True,
    help="How long they are asked for them; longer if the take-over is.",
)
@click.option(
    "--burst",
    type=click.IntRange(0, BURST_MAX),
    default=BURST,
    show_default=True,
    help="Transfers that are asked for at once after that, to show what they cost in shared rounds.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, SEED_MAX),
    default=SEED,
    show_default=True,
    help="The transfers: payer, payee, amount and token.",
)
@click.option(
    "--rotation",
    type=click.Choice([each.value for each in Rotation]),
    default=Rotation.STICKY.value,
    show_default=True,
    help="Whether the group's coordinator stays until it fails, or leaves with its range of 50 blocks.",
)
@click.option(
    "--ledger",
    default=ChainKind.EMBEDDED.value,
    show_default=True,
    metavar="embedded|anvil|URL",
    help="The chain: Rota's own, an Anvil of this machine, or one that runs.",
)
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of mode 600 with the private key, in hex, of the account that pays on the chain at a URL.  "
    "[default: on a development chain an account whose key is public]",
)
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    help=f"Where node1 listens, its WebSockets beside, the next node 100 further on. 0: any free port. "
    f"[default: {FIRST_PORT}; with --once or --json any free port]",
)
@click.option(
    "--serve", "is_served", is_flag=True, help="Show nothing: three nodes for your own application, to Ctrl-C."
)
@click.option("--story", is_flag=True, help="Tell a fail-over of four simulated nodes instead, message by message.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    metavar="FACTOR",
    help="Of the story: 1 is as fast as it happens in simulated time, 0.1 ten times slower, 0 does not wait. "
    "[default: a reader's pace on a terminal, else 0]",
)
@click.option("--mermaid", "mermaid_file", metavar="FILE", help="Write the story's diagram for Mermaid; - for stdout.")
@click.option("--script", type=click.File(encoding="utf-8"), metavar="FILE", help="Tell this script; - for stdin.")
@click.option("--steps", is_flag=True, help="Show every step of every intent of the story too.")
@click.option("--list-commands", is_flag=True, help="List the commands of a script.")
def command(
    once: bool,
    as_json: bool,
    node_count: int,
    rate_per_s: float,
    seconds: int,
    burst: int,
    seed: int,
    rotation: str,
    ledger: str,
    key_file: Path | None,
    port: int | None,
    is_served: bool,
    story: bool,
    speed: float | None,
    mermaid_file: str | None,
    script: TextIO | None,
    steps: bool,
    list_commands: bool,
) -> None:
    """See a network at work, in about a minute.

    A chain and three nodes are started as processes of this machine. They share a notary token, and a privacy group,
    two of three endorsing, with an ERC-20 that the chain knows nothing of. Every node's user transfers both; the node
    that coordinates the group is killed with `kill -9`, and another takes over; a command that is submitted twice
    happens once; the nodes begin epochs without a leader; many transfers at once share rounds, and cost a fraction. In
    the end everything is compared with the chain. Then all of it stays up until Ctrl-C, with lines to try next; nothing
    is left running after that.

    With --serve no node is killed and no input is read. With --story, or an option of it, four nodes are simulated.

    \b
    Example:
      rota demo
      rota demo --once --json --seconds 10
      rota demo --ledger http://127.0.0.1:8545

    Exit 0: every intent was confirmed exactly once, and all nodes agree with the chain (of the story: no invariant was
    violated). 1: it was not so, or it could not begin. 2: wrong use. 130: Ctrl-C before the end.
    """
    console = make_console()
    is_story = story or script is not None or mermaid_file is not None or steps or speed is not None
    if list_commands or is_served or is_story:
        refuse_live_options()
    if list_commands:
        show_language(console)
    elif is_served:
        serve_nodes(console, FIRST_PORT if port is None else port, as_json)
    elif is_story:
        tell_story(console, speed, mermaid_file, as_json, script, steps)
    else:
        stays = not once and not as_json
        first_port = port if port is not None else FIRST_PORT if stays else 0
        programme = Programme(node_count=node_count, rate_per_s=rate_per_s, seconds=seconds, burst=burst, seed=seed)
        programme = replace(programme, first_port=first_port, stays=stays, rotation=Rotation(rotation))
        show_live(console, programme, ledger, key_file, as_json)


def refuse_live_options() -> None:
    """What only the live demonstration has is wrong use elsewhere, and not ignored."""
    context = click.get_current_context()
    for name, option in LIVE_OPTIONS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is of the live demonstration: leave it out, or --serve and the story.")


def show_live(console: Console, programme: Programme, ledger: str, key_file: Path | None, as_json: bool) -> None:
    """The network of processes. Without a terminal, a happening is a line."""
    payer = payer_of(ledger, key_file)
    shown = Console(file=sys.stderr, quiet=True) if as_json else console

    async def live(signals: Signals) -> Show:
        ready = replace(programme, chain=await _chain_of(ledger, payer, programme))
        return await _live(shown, ready, signals)

    with told_plainly():
        show = asyncio.run(interruptible(live))
    if as_json:
        click.echo(json.dumps(show.summary()))
        for problem in show.problems:
            click.echo(f"Error: {problem}", err=True)
    click.get_current_context().exit(1 if show.problems else 0)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Print an error of the demo as text, without a traceback."""
    try:
        yield
    except TimeoutError as error:
        raise click.ClickException("nothing goes on any more; the nodes are stopped") from error
    except (
        PortInUse,
        CannotStartProcess,
        UnusableLedger,
        TransactionRejected,
        Unavailable,
        RpcRefused,
        ClientError,
        KeyFileError,
    ) as error:
        raise click.ClickException(str(error)) from error


def payer_of(ledger: str, key_file: Path | None) -> PrivateKey | None:
    """The account that pays on a chain at a URL, if one is named. Wrong use is an error before anything starts."""
    if ledger in CHAINS and key_file is not None:
        raise click.UsageError(f"--key-file is for a chain at a URL, and not for --ledger {ledger}.")
    if ledger not in CHAINS and not ledger.startswith(SCHEMES):
        words = f"must be {', '.join(CHAINS)}, or the http or ws address of a chain, not {ledger!r}"
        raise click.BadParameter(words, param_hint="--ledger")
    with told_plainly():
        return key_in(key_file) if key_file is not None else None


async def _chain_of(ledger: str, payer: PrivateKey | None, programme: Programme) -> ChainKind | RunningChain:
    return CHAINS[ledger] if ledger in CHAINS else await running_chain(ledger, payer, programme)


async def _live(console: Console, programme: Programme, signals: Signals) -> Show:
    view = LiveView(console)
    show = Show(programme, view.tell)
    drawing = asyncio.create_task(view.keep_fresh())
    with TemporaryDirectory(prefix="rota-demo-", ignore_cleanup_errors=True) as folder, ExitStack() as screen:
        screen.enter_context(view.entered(show))
        try:
            async with performed(Path(folder) / "network", programme, show, view.refresh) as reckoning:
                screen.close()
                sum_up(console, show)
                if programme.stays:
                    console.print(Text("\nTry next, while everything stays up until Ctrl-C", "bold"))
                    print_pairs(console, lines_to_try(programme_name(), show, reckoning.staged))
                    await signals.wait()
        finally:
            drawing.cancel()
    if programme.stays:
        console.print("\nStopped; nothing is left running.")
    return show


def serve_nodes(console: Console, port: int, as_json: bool) -> None:
    """The network of processes, for applications. It ends by Ctrl-C, which is no failure here."""

    def tell(addresses: Addresses) -> None:
        if as_json:
            click.echo(json.dumps({"nodes": {name: dict(each) for name, each in addresses.items()}}))
            sys.stdout.flush()
            return
        console.print(Text("Three nodes are ready; Ctrl-C ends them.", "bold"))
        print_pairs(console, [(name, f"{each['rpc']}   {each['websocket']}") for name, each in addresses.items()])
        console.print(Text(f"Each serves its dashboard at {DASHBOARD_PATH} of its first address."))

    async def served(_: Signals) -> None:
        with TemporaryDirectory(prefix="rota-demo-", ignore_cleanup_errors=True) as folder:
            await serve(Path(folder) / "network", port, tell)

    with told_plainly(), suppress(KeyboardInterrupt):
        asyncio.run(interruptible(served))


def tell_story(
    console: Console, speed: float | None, mermaid_file: str | None, as_json: bool, script: TextIO | None, steps: bool
) -> None:
    """The simulated network."""
    if as_json and mermaid_file == STDOUT:
        raise click.UsageError("--json and --mermaid - both want stdout; give --mermaid a file.")
    performance = play(script)
    if mermaid_file is not None:
        write_mermaid(mermaid_file, mermaid(performance.story, performance.nodes))
    if as_json:
        click.echo(json.dumps(performance.summary()))
    elif mermaid_file != STDOUT:
        default = None if console.is_terminal else 0.0
        pace = Pace(time.sleep, speed if speed is not None else default)
        Stage(console, pace, performance, steps).show(next_steps(mermaid_file))
    for problem in performance.problems:
        click.echo(f"Error: {problem}", err=True)
    click.get_current_context().exit(1 if performance.problems else 0)


def make_console() -> Console:
    """Standard output, in which a character that it cannot show is a question mark and no failure."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return Console(highlight=False, markup=False, emoji=False)


def play(script: TextIO | None) -> Performance:
    """The given script, or that of the demonstration; one that cannot be read is wrong use."""
    name = script.name if script is not None else "failover.txt"
    try:
        return Performance(Scenario.parse(script.read() if script is not None else failover()))
    except (UnreadableScriptError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{name}: {error}", param_hint="--script") from error


def write_mermaid(target: str, diagram: str) -> None:
    if target == STDOUT:
        click.echo(diagram, nl=False)
        return
    try:
        Path(target).write_text(diagram, encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"{target}: {error.strerror}", param_hint="--mermaid") from error


def next_steps(mermaid_file: str | None) -> list[tuple[str, str]]:
    """Three things to do, spelt so that they can be typed where this was."""
    rota = programme_name()
    return [
        (f"{rota} demo --script FILE", "another, such as one of tests/transcripts"),
        (f"{rota} demo --list-commands", "how to write one of your own"),
        (
            f"{rota} demo --story --mermaid FILE",
            "the diagram, for a document" if mermaid_file is None else "done just now",
        ),
    ]


def programme_name() -> str:
    """How this programme was called: by its name where the shell finds it by that, else by its path."""
    called = sys.argv[0]
    found = shutil.which("rota")
    is_on_path = found is not None and Path(found).resolve() == Path(called).resolve()
    return "rota" if is_on_path or Path(called).name != "rota" else called


def show_language(console: Console) -> None:
    for number, (heading, pairs) in enumerate(sections()):
        console.print(Text(f"\n{heading}" if number else heading, "bold"))
        print_pairs(console, pairs)
