"""`rota demo`: a coordinator is killed and the others carry on, in a simulated network of real nodes."""

import json
import shutil
import sys
import time
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

import click
from rich.console import Console
from rich.text import Text

from rota.demo.language import sections
from rota.demo.scenario import Performance, Scenario, UnreadableScriptError, failover
from rota.demo.stage import Pace, Stage, print_pairs
from rota.sim.diagram import mermaid

STDOUT: Final = "-"


@click.command()
@click.option("--once", is_flag=True, expose_value=False, help="End after one run. It always does, for now.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    metavar="FACTOR",
    help="1 is as fast as it happens in simulated time, 0.1 ten times slower, 0 does not wait. "
    "[default: a reader's pace on a terminal, else 0]",
)
@click.option("--mermaid", "mermaid_file", metavar="FILE", help="Write the sequence diagram for Mermaid; - for stdout.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object, and nothing else.")
@click.option("--script", type=click.File(encoding="utf-8"), metavar="FILE", help="Play this script; - for stdin.")
@click.option("--steps", is_flag=True, help="Show every step of every intent too.")
@click.option("--list-commands", is_flag=True, help="Say what a script is made of.")
def command(
    speed: float | None,
    mermaid_file: str | None,
    as_json: bool,
    script: TextIO | None,
    steps: bool,
    list_commands: bool,
) -> None:
    """Kill a coordinator and watch the others carry on.

    Four nodes run the real core on a simulated network and ledger. The exit status is 0 only if every intent
    was confirmed exactly once and no invariant was violated.
    """
    console = make_console()
    if list_commands:
        show_language(console)
        return
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
        (f"{rota} demo --mermaid FILE", "the diagram, for a document" if mermaid_file is None else "done just now"),
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
