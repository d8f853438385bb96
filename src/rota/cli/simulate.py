"""`rota simulate`: whole networks of the real core under random faults, judged by the invariants."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TextIO

import click
from rich.console import Console
from rich.progress import Progress

from rota.sim.diagram import mermaid
from rota.sim.plan import FAULTS, Settings
from rota.sim.swarm import Report, Swarm
from rota.sim.transcript import Transcript, show
from rota.types import Mode, Rotation


class SeedRange(click.ParamType[range]):
    """`7` or `0..200`, the end not included."""

    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """A range of seeds, or an error that says what would be right."""
        if isinstance(value, range):
            return value
        first, separator, end = str(value).partition("..")
        try:
            seeds = range(int(first), int(end)) if separator else range(int(first), int(first) + 1)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor a range such as 0..200", param, ctx)
        if not seeds or seeds.start < 0:
            self.fail(f"{value!r} holds no seed; the end is not included", param, ctx)
        return seeds


class FaultList(click.ParamType[tuple[str, ...]]):
    """`all`, `none`, or faults separated by commas."""

    name = "all|none|loss,crash,…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The faults by name, or an error that lists them."""
        if isinstance(value, tuple):
            return value
        if value in ("all", "none"):
            return FAULTS if value == "all" else ()
        chosen = tuple(str(value).split(","))
        unknown = [fault for fault in chosen if fault not in FAULTS]
        if unknown:
            self.fail(f"there is no fault {', '.join(unknown)}; there are {', '.join(FAULTS)}", param, ctx)
        return chosen


@click.command(name="simulate")
@click.option("--seed", "one", type=click.IntRange(min=0), help="Play one seed.")
@click.option("--seeds", type=SeedRange(), help="Play many seeds; the end is not included.  [default: 0..20]")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes for many seeds.")
@click.option("--nodes", type=click.IntRange(1, 26), help="How many nodes.  [default: the seed draws 3 to 5]")
@click.option("--minutes", type=click.FloatRange(0.05, 600), default=1.0, show_default=True, help="Minutes of faults.")
@click.option("--rotation", type=click.Choice([r.value for r in Rotation]), help="[default: the seed draws]")
@click.option("--mode", type=click.Choice([m.value for m in Mode]), help="[default: the seed draws]")
@click.option("--faults", type=FaultList(), help="Which faults.  [default: the seed draws a mix]")
@click.option("--trace", is_flag=True, help="With --seed: print everything that happened.")
@click.option("--diagram", type=click.File("w"), help="With --seed: write a Mermaid sequence diagram.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    one: int | None,
    seeds: range | None,
    jobs: int,
    nodes: int | None,
    minutes: float,
    rotation: str | None,
    mode: str | None,
    faults: tuple[str, ...] | None,
    trace: bool,
    diagram: TextIO | None,
    as_json: bool,
) -> None:
    """Run whole networks of the real core under faults, then without, and judge them.

    Each seed is a network of its own: nodes crash, hang and lag, disks fail, the network loses, delays and cuts;
    then everything is mended and every intent must end. The same seed plays the same run.

    \b
    Example:
      rota simulate --seeds 0..200 --jobs 2
      rota simulate --seed 7 --trace | less

    Exit 0: clean. 1: an invariant is violated, with the command that replays it. 2: wrong use.
    """
    if one is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    if one is None and (trace or diagram is not None):
        raise click.UsageError("--trace and --diagram go with --seed")
    settings = Settings(
        nodes=nodes,
        minutes=minutes,
        rotation=Rotation(rotation) if rotation else None,
        mode=Mode(mode) if mode else None,
        faults=faults,
    )
    if one is not None:
        reports = [_play_recorded(one, settings, trace, diagram)]
    else:
        reports = list(_play_many(seeds or range(20), settings, jobs, quiet=as_json))
    _print(reports, settings, as_json)
    sys.exit(1 if any(report.violations for report in reports) else 0)


def _play(seed: int, settings: Settings) -> Report:
    return Swarm(seed, settings).play()


def _play_recorded(seed: int, settings: Settings, trace: bool, diagram: TextIO | None) -> Report:
    transcript = Transcript()
    swarm = Swarm(seed, settings, transcript)
    report = swarm.play()
    if trace:
        for happening in transcript.happenings:
            click.echo(show(happening))
    if diagram is not None:
        diagram.write(mermaid(transcript.happenings, tuple(swarm.world.nodes)))
    return report


def _play_many(seeds: range, settings: Settings, jobs: int, quiet: bool) -> Iterator[Report]:
    play = partial(_play, settings=settings)
    with Progress(console=Console(stderr=True), disable=quiet or not sys.stderr.isatty()) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        if jobs == 1:
            for seed in seeds:
                yield play(seed)
                progress.advance(task)
            return
        with ProcessPoolExecutor(jobs) as pool:
            for report in pool.map(play, seeds):
                yield report
                progress.advance(task)


def _print(reports: list[Report], settings: Settings, as_json: bool) -> None:
    violations = [
        {"seed": report.seed, "invariant": str(violation), "replay": _replay(report.seed, settings)}
        for report in reports
        for violation in report.violations
    ]
    summary = {
        "seeds": len(reports),
        "events": sum(report.events for report in reports),
        "simulated_seconds": sum(report.simulated_ms for report in reports) // 1000,
        "faults": sum(report.faults for report in reports),
        "intents": sum(report.intents for report in reports),
        "violations": violations,
    }
    if as_json:
        click.echo(json.dumps(summary))
        return
    click.echo(
        f"{summary['seeds']} seeds: {summary['intents']} intents under {summary['faults']} faults, "
        f"{summary['events']} events in {summary['simulated_seconds']} simulated seconds"
    )
    for violation in violations:
        click.echo(f"seed {violation['seed']}: {violation['invariant']}\n  replay: {violation['replay']}")
    if not violations:
        click.echo("no invariant was violated, and every intent ended")


def _replay(seed: int, settings: Settings) -> str:
    words = ["rota simulate", f"--seed {seed}", f"--minutes {settings.minutes:g}"]
    if settings.nodes is not None:
        words.append(f"--nodes {settings.nodes}")
    if settings.rotation is not None:
        words.append(f"--rotation {settings.rotation.value}")
    if settings.mode is not None:
        words.append(f"--mode {settings.mode.value}")
    if settings.faults is not None:
        words.append(f"--faults {','.join(settings.faults) or 'none'}")
    return " ".join([*words, "--trace"])
