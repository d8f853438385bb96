"""`rota demo`: a coordinator is killed and the others carry on; as processes of this machine, or told as a story.

The story runs the same core on one virtual clock, so that each run is the same and every message can be shown.
"""

import asyncio
import json
import shutil
import signal
import sys
import time
from collections.abc import Awaitable
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TextIO

import click
from rich.console import Console
from rich.text import Text

from rota.dashboard import PATH as DASHBOARD_PATH
from rota.demo.language import sections
from rota.demo.live import perform
from rota.demo.live_view import LiveView
from rota.demo.scenario import Performance, Scenario, UnreadableScriptError, failover
from rota.demo.serving import FIRST_PORT, Addresses, serve
from rota.demo.stage import Pace, Stage, print_pairs
from rota.network.children import CannotStartProcess
from rota.sim.diagram import mermaid

STDOUT: Final = "-"


@click.command()
@click.option(
    "--once", is_flag=True, help="One kill, one return, the audit, and the end. Without it, on and on to Ctrl-C."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object, and nothing else.")
@click.option(
    "--serve", "is_served", is_flag=True, help="Kill nobody: three nodes for your own application, to Ctrl-C."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_000),
    help=f"Where node1 listens, its WebSockets beside, the next node 100 further on. 0: what is free. "
    f"[default: {FIRST_PORT}; with --once or --json what is free]",
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
@click.option("--list-commands", is_flag=True, help="Say what a script is made of.")
def command(
    once: bool,
    as_json: bool,
    is_served: bool,
    port: int | None,
    story: bool,
    speed: float | None,
    mermaid_file: str | None,
    script: TextIO | None,
    steps: bool,
    list_commands: bool,
) -> None:
    """Kill a coordinator and watch the others carry on.

    A chain and three nodes are started as processes of this machine, all three are asked for transactions, and the one
    that coordinates is killed with `kill -9`. The nodes listen where applications look for them; nothing is left
    running. With --serve nobody is killed. With --story, or an option of it, four nodes are simulated instead.

    Exit 0: every intent was confirmed exactly once, and all nodes agree with the chain (of the story: no invariant was
    violated). 1: it was not so. 130: Ctrl-C.
    """
    console = make_console()
    if list_commands:
        show_language(console)
    elif is_served:
        serve_nodes(console, FIRST_PORT if port is None else port, as_json)
    elif story or script is not None or mermaid_file is not None or steps or speed is not None:
        tell_story(console, speed, mermaid_file, as_json, script, steps)
    else:
        first_port = port if port is not None else 0 if once or as_json else FIRST_PORT
        show_live(Console(file=sys.stderr, quiet=True) if as_json else console, once, as_json, first_port)


def show_live(console: Console, once: bool, as_json: bool, first_port: int) -> None:
    """The network of processes. Without a terminal, a happening is a line."""
    view = LiveView(console)
    with TemporaryDirectory(prefix="rota-demo-") as folder:
        try:
            with view.entered():
                asyncio.run(_live(view, Path(folder) / "network", 1 if once or as_json else None, first_port))
        except CannotStartProcess as error:
            raise click.ClickException(str(error)) from error
        except TimeoutError as error:
            raise click.ClickException("nothing was confirmed any more; the nodes are stopped") from error
    if as_json:
        click.echo(json.dumps(view.show.summary()))
    else:
        view.sum_up()
    problems = view.show.audited.problems if view.show.audited is not None else ("it did not come to its end",)
    for problem in problems:
        click.echo(f"Error: {problem}", err=True)
    click.get_current_context().exit(1 if problems else 0)


async def _live(view: LiveView, home: Path, kills: int | None, first_port: int) -> None:
    drawing = asyncio.create_task(view.keep_fresh())
    try:
        await _until_terminated(perform(home, view.show, view.refresh, kills, first_port))
    finally:
        drawing.cancel()


async def _until_terminated(show: Awaitable[None]) -> None:
    """SIGTERM ends it as Ctrl-C does: in good order."""
    task = asyncio.current_task()
    assert task is not None, "it runs in a task"
    is_terminated = False

    def terminate() -> None:
        nonlocal is_terminated
        is_terminated = True
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    try:
        await show
    except asyncio.CancelledError:
        if is_terminated:
            raise KeyboardInterrupt from None
        raise


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

    with TemporaryDirectory(prefix="rota-demo-") as folder:
        try:
            asyncio.run(_until_terminated(serve(Path(folder) / "network", port, tell)))
        except KeyboardInterrupt:
            return
        except CannotStartProcess as error:
            raise click.ClickException(str(error)) from error
        except TimeoutError as error:
            raise click.ClickException("the nodes do not reach each other; they are stopped") from error


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
    rota = programme()
    return [
        (f"{rota} demo --script FILE", "another, such as one of tests/transcripts"),
        (f"{rota} demo --list-commands", "how to write one of your own"),
        (
            f"{rota} demo --story --mermaid FILE",
            "the diagram, for a document" if mermaid_file is None else "done just now",
        ),
    ]


def programme() -> str:
    """How this programme was called: by its name where the shell finds it by that, else by its path."""
    called = sys.argv[0]
    found = shutil.which("rota")
    is_on_path = found is not None and Path(found).resolve() == Path(called).resolve()
    return "rota" if is_on_path or Path(called).name != "rota" else called


def show_language(console: Console) -> None:
    for number, (heading, pairs) in enumerate(sections()):
        console.print(Text(f"\n{heading}" if number else heading, "bold"))
        print_pairs(console, pairs)
