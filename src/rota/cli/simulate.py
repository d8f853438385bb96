"""`rota simulate`: whole networks of the real core under random faults, judged by the invariants."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from resource import RUSAGE_SELF, getrusage
from typing import TextIO

import click

from rota.cli.campaign import Campaign
from rota.cli.main import EXIT_INTERRUPTED
from rota.evm.private_evm import PrivateEvm
from rota.ledger.artifacts import load_artifact
from rota.model.types import Mode, Rotation
from rota.sim.breaking import SEEDS_MAX, Outcome, try_canary
from rota.sim.canaries import unguarded
from rota.sim.coverage import Place, counting, every_place, untaken
from rota.sim.diagram import mermaid
from rota.sim.invariants import Count
from rota.sim.liars.canaries import EVERY_CANARY
from rota.sim.liars.mutator import PAIRS
from rota.sim.liars.strategies import NAMES
from rota.sim.liars.throughput import Throughput, measure
from rota.sim.plan import ASKED_FOR, DOMAINS, FAULTS, SHIPPED, SYNTHETIC, Settings
from rota.sim.recorder import Recorder
from rota.sim.shrinking import shrink
from rota.sim.swarm import Report, Swarm
from rota.sim.transcript import Transcript, show
from rota.testing.workloads import PenteKit, swarm_of
from rota.testing.workloads.canaries import workload_canaries

NODES_MAX = 500
CONTRACTS_MAX = 10_000
# A seed draws at least so many nodes.
NODES_DRAWN_MIN = 3
# Further failing seeds are printed, but not made smaller.
SHRUNK_MAX = 3
# A default campaign of so many seeds gives every invariant a chance to fail.
CAMPAIGN_SEEDS_MIN = 200
# What privacy groups need of the adapters.
KIT = PenteKit(PrivateEvm, load_artifact("PrivateToken"))
CANARIES = (*EVERY_CANARY, *workload_canaries(KIT))


class SeedRange(click.ParamType[range]):
    """`7` or `0..200`, the end not included."""

    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """A range of seeds, or an error with a valid example."""
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
        chosen = tuple(dict.fromkeys(str(value).split(",")))
        known = (*FAULTS, *ASKED_FOR)
        unknown = [fault for fault in chosen if fault not in known]
        if unknown:
            self.fail(f"there is no fault {', '.join(unknown)}; there are {', '.join(known)}", param, ctx)
        return chosen


class StrategyList(click.ParamType[tuple[str, ...]]):
    """Strategies of liars separated by commas."""

    name = "revives,mutates,…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The strategies by name, or an error that lists them."""
        if isinstance(value, tuple):
            return value
        chosen = tuple(dict.fromkeys(str(value).split(",")))
        unknown = [name for name in chosen if name not in NAMES]
        if unknown:
            self.fail(f"there is no strategy {', '.join(unknown)}; there are {', '.join(NAMES)}", param, ctx)
        return chosen


class NumberList(click.ParamType[tuple[int, ...]]):
    """Numbers separated by commas, or `none`."""

    name = "3,7,9"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The numbers, or an error with a valid example."""
        if isinstance(value, tuple):
            return value
        if value == "none":
            return ()
        words = str(value).split(",")
        if not all(word.isdecimal() for word in words):
            self.fail(f"{value!r} is not a list of numbers such as 3,7,9, nor none", param, ctx)
        return tuple(int(word) for word in words)


@click.command(name="simulate")
@click.option("--seed", "one", type=click.IntRange(min=0), help="Play one seed.")
@click.option("--seeds", type=SeedRange(), help="Play many seeds; the end is not included.  [default: 0..20]")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes for many seeds.")
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), help="How many nodes.  [default: the seed draws 3 to 5]")
@click.option(
    "--contracts", type=click.IntRange(1, CONTRACTS_MAX), help="How many contracts.  [default: the seed draws]"
)
@click.option("--committee", type=click.IntRange(1, NODES_MAX), help="Members of each.  [default: the seed draws]")
@click.option("--minutes", type=click.FloatRange(0.05, 600), default=2.0, show_default=True, help="Minutes of faults.")
@click.option("--rotation", type=click.Choice([r.value for r in Rotation]), help="[default: the seed draws]")
@click.option("--mode", type=click.Choice([m.value for m in Mode]), help="[default: the seed draws]")
@click.option("--faults", type=FaultList(), help="Which faults.  [default: the seed draws a mix]")
@click.option("--only-faults", type=NumberList(), help="Of the planned faults only these, by number.")
@click.option("--intents", type=click.IntRange(min=0), help="Only the first so many of the planned intents.")
@click.option(
    "--domain",
    type=click.Choice(DOMAINS),
    help="The world: the simulator's own domain, the same with deployments, or a shipped domain.  "
    "[default: the seed draws; about one in four is not synthetic]",
)
@click.option(
    "--liars",
    type=click.IntRange(0, NODES_MAX),
    help="How many nodes lie.  [default: the seed draws, half of them none]",
)
@click.option("--strategies", type=StrategyList(), help="How they lie.  [default: the seed draws]")
@click.option("--codec/--no-codec", default=None, help="Messages pass the wire's codec.  [default: in one seed of ten]")
@click.option("--shrink/--no-shrink", "shrinks", default=True, show_default=True, help="Make failing seeds smaller.")
@click.option("--trace", is_flag=True, help="With --seed: print everything that happened.")
@click.option("--diagram", type=click.File("w"), help="With --seed: write a Mermaid sequence diagram.")
@click.option("--coverage", is_flag=True, help="List the rows of the tables that no seed has taken.")
@click.option("--canaries", is_flag=True, help="Break the core on purpose, and see that each defect is caught.")
@click.option("--throughput", is_flag=True, help="Measure what honest members get done beside each strategy.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    one: int | None,
    seeds: range | None,
    jobs: int,
    nodes: int | None,
    contracts: int | None,
    committee: int | None,
    minutes: float,
    rotation: str | None,
    mode: str | None,
    faults: tuple[str, ...] | None,
    only_faults: tuple[int, ...] | None,
    intents: int | None,
    domain: str | None,
    liars: int | None,
    strategies: tuple[str, ...] | None,
    codec: bool | None,
    shrinks: bool,
    trace: bool,
    diagram: TextIO | None,
    coverage: bool,
    canaries: bool,
    throughput: bool,
    as_json: bool,
) -> None:
    """Run whole networks of the real core under faults, then without, and judge them.

    Each seed is a network of its own: nodes crash, hang and lag, disks fail and lie, clocks jump, the network loses,
    delays and cuts, the chain drops, stalls and reorganises; then everything is repaired and every intent must end. The
    invariants of the protocol are judged after every step. Some nodes may lie, on the wire and on the chain; then
    the others are judged. The same seed plays the same run.

    Most seeds play a domain of the simulator's own. In some, users also deploy contracts and then use them; in some,
    they use notary tokens, privacy groups or zero-knowledge tokens (without proofs), and their rules are judged
    too (W1). --domain chooses. Liars play in the simulator's own domain alone.

    \b
    Example:
      rota simulate --seeds 0..200 --jobs 2
      rota simulate --seed 7 --trace | less
      rota simulate --seeds 0..50 --domain noto
      rota simulate --canaries --jobs 2
      rota simulate --throughput --strategies never-assembles --rotation strict

    The report counts for each invariant how often it was judged, and how often a wrong core would have been seen
    (chances). In a campaign of 200 seeds or more that leaves everything to the seeds, no invariant may be without a
    chance.

    A violation is printed on standard error as soon as its seed ends. Ctrl-C or SIGTERM ends a campaign after the seeds
    under way, with the report of the seeds that were played; a second Ctrl-C ends it at once, without a report.

    Exit 0: clean. 1: an invariant is violated, with the command that replays it; or one had no chance to fail, a canary
    is not caught, or throughput is too low. 2: wrong use. 130: ended by Ctrl-C or SIGTERM.
    """
    if one is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    if one is None and (trace or diagram is not None):
        raise click.UsageError("--trace and --diagram go with --seed")
    if coverage and as_json:
        raise click.UsageError("--coverage and --json exclude each other")
    if (canaries or throughput) and (one is not None or seeds is not None or coverage):
        flag = "--canaries" if canaries else "--throughput"
        raise click.UsageError(f"{flag} has seeds of its own: it goes without --seed, --seeds and --coverage")
    if canaries and throughput:
        raise click.UsageError("--canaries and --throughput exclude each other")
    if committee is not None and committee > (nodes or NODES_DRAWN_MIN):
        raise click.UsageError(f"--committee: {committee} members need --nodes of at least {committee}")
    _require_playable(domain, liars, strategies, faults, (nodes, contracts, committee, mode, rotation))
    if canaries:
        sys.exit(_try_canaries(jobs, as_json))
    if throughput:
        sys.exit(_measure_all(strategies or NAMES, Rotation(rotation) if rotation else None, jobs, as_json))
    settings = Settings(
        nodes=nodes,
        contracts=contracts,
        committee=committee,
        minutes=minutes,
        rotation=Rotation(rotation) if rotation else None,
        mode=Mode(mode) if mode else None,
        faults=faults,
        intents=intents,
        only_faults=only_faults,
        codec=codec,
        liars=liars,
        strategies=strategies,
        domain=domain,
        has_newest_faults=True,
        has_plans=True,
    )
    taken: Counter[Place] = Counter()
    was_stopped = False
    if one is not None and not coverage:
        reports = [_play_recorded(one, settings, trace, diagram)]
    else:
        chosen = seeds or (range(one, one + 1) if one is not None else range(20))
        play = partial(_play, settings=settings, counts=coverage)
        reports = []
        campaign = Campaign[int, tuple[Report, Counter[Place]]](chosen, jobs, "seeds", quiet=as_json)
        for report, rows in campaign.play(play, lambda played: _violations_of(played[0])):
            reports.append(report)
            taken.update(rows)
        was_stopped = campaign.was_stopped
    is_well = _print(reports, settings, as_json, shrinks and not was_stopped)
    if coverage:
        _print_coverage(taken)
    sys.exit(EXIT_INTERRUPTED if was_stopped else 0 if is_well else 1)


def _require_playable(
    domain: str | None,
    liars: int | None,
    strategies: tuple[str, ...] | None,
    faults: tuple[str, ...] | None,
    network: tuple[object, ...],
) -> None:
    """Whether such a network is played with this domain, or a usage error."""
    if domain in (None, SYNTHETIC):
        return
    if liars or strategies is not None:
        raise click.UsageError(f"--liars and --strategies go with --domain {SYNTHETIC}")
    if any(fault in ASKED_FOR for fault in faults or ()):
        raise click.UsageError(f"--faults: {' and '.join(ASKED_FOR)} go with --domain {SYNTHETIC}")
    if domain in SHIPPED and any(each is not None for each in network):
        words = "--nodes, --contracts, --committee, --mode and --rotation"
        raise click.UsageError(f"{words} cannot be chosen with --domain {domain}")


# Seeds.


def _make(seed: int, settings: Settings, recorder: Recorder | None = None) -> Swarm:
    return swarm_of(seed, settings, KIT, recorder)


def _play(seed: int, settings: Settings, counts: bool) -> tuple[Report, Counter[Place]]:
    taken: Counter[Place] = Counter()
    if not counts:
        return _make(seed, settings).play(), taken
    with counting(taken):
        return _make(seed, settings).play(), taken


def _play_recorded(seed: int, settings: Settings, trace: bool, diagram: TextIO | None) -> Report:
    if not trace and diagram is None:
        return _make(seed, settings).play()
    transcript = Transcript()
    swarm = _make(seed, settings, transcript)
    report = swarm.play()
    if trace:
        for happening in transcript.happenings:
            click.echo(show(happening))
    if diagram is not None:
        diagram.write(mermaid(transcript.happenings, tuple(swarm.world.nodes)))
    return report


def _violations_of(report: Report) -> str:
    return "\n".join(f"seed {report.seed}: {violation}" for violation in report.violations)


def _print(reports: list[Report], settings: Settings, as_json: bool, shrinks: bool) -> bool:
    """Whether everything is well."""
    failing = [report for report in reports if report.violations]
    counts = _counts(reports)
    # Kinds of work that were not done are printed as 0.
    kinds = sorted({kind for report in reports for kind in report.work})
    work = {kind: sum(report.work.get(kind, 0) for report in reports) for kind in kinds}
    domains = {name: sum(report.domain == name for report in reports) for name in DOMAINS}
    without_chances = _without_chances(counts, settings, len(reports))
    replays = {
        report.seed: _replay(report.seed, _smaller(report, settings, shrinks and number < SHRUNK_MAX, as_json))
        for number, report in enumerate(failing)
    }
    summary = {
        "seeds": len(reports),
        "events": sum(report.events for report in reports),
        "simulated_seconds": sum(report.simulated_ms for report in reports) // 1000,
        "faults": sum(report.faults for report in reports),
        "faults_by_kind": dict(sorted(_faults_by_kind(reports).items())),
        "intents": sum(report.intents for report in reports),
        "domains": domains,
        "liars": sum(len(report.liars) for report in reports),
        "lies": sum(report.lies for report in reports),
        "mutated_fields": _mutated(reports),
        "invariants": {name: _as_json(count) for name, count in counts.items()},
        "without_chances": without_chances,
        "work": work,
        "violations": [
            {
                "seed": report.seed,
                "invariant": invariant,
                "replay": replays[report.seed],
                **({"liars": {name: list(how) for name, how in report.liars.items()}} if report.liars else {}),
            }
            for report in failing
            for invariant in dict.fromkeys(violation.invariant for violation in report.violations)
        ],
    }
    if as_json:
        click.echo(json.dumps(summary))
        return not failing and not without_chances
    click.echo(
        f"{summary['seeds']} seeds: {summary['intents']} intents under {summary['faults']} faults, "
        f"{summary['events']} events in {summary['simulated_seconds']} simulated seconds"
    )
    if domains[SYNTHETIC] < len(reports):
        click.echo(", ".join(f"{count} of {name}" for name, count in domains.items() if count))
    if summary["liars"]:
        click.echo(f"{summary['liars']} nodes lied {summary['lies']} times")
    if any(report.mutated for report in reports):
        mutated = _mutated(reports)
        click.echo(f"{mutated['reached']} of {mutated['all']} fields that peers send were changed and received")
    node_seconds = sum(report.nodes * report.simulated_ms for report in reports) / 1000
    messages, changes = sum(r.messages for r in reports), sum(r.coordinator_changes for r in reports)
    click.echo(
        f"{messages / node_seconds:.2f} messages a node and simulated second, {changes} changes of a coordinator, "
        f"{getrusage(RUSAGE_SELF).ru_maxrss // 1024} MiB of memory"
    )
    for report in failing:
        for violation in report.violations:
            click.echo(f"seed {report.seed}: {violation}")
        for name, how in report.liars.items():
            click.echo(f"  {name} lies: {', '.join(how)}")
        click.echo(f"  replay: {replays[report.seed]}")
    if work.get("commits"):
        costs = ", ".join(f"{count / work['commits']:.2f} {kind}" for kind, count in work.items() if kind != "commits")
        click.echo(f"for each of {work['commits']} commits: {costs}")
    _print_counts(counts)
    for invariant in without_chances:
        click.echo(f"{invariant} had no chance to fail: what it is to see never happened in this campaign")
    if not failing:
        click.echo("no invariant was violated, and every intent ended")
    return not failing and not without_chances


def _counts(reports: list[Report]) -> dict[str, Count]:
    """How often each invariant was judged, over all seeds."""
    counts: dict[str, Count] = {}
    for report in reports:
        for name, count in report.invariants.items():
            counts[name] = counts[name].plus(count) if name in counts else count
    return dict(sorted(counts.items(), key=lambda item: (item[0][0], int(item[0][1:]))))


def _faults_by_kind(reports: list[Report]) -> Counter[str]:
    faults: Counter[str] = Counter()
    for report in reports:
        faults.update(report.faults_by_kind)
    return faults


def _as_json(count: Count) -> dict[str, int | dict[str, int]]:
    by = {"by": dict(count.by)} if count.by else {}
    return {"judged": count.judged, "chances": count.chances, **by}


def _without_chances(counts: dict[str, Count], settings: Settings, seeds: int) -> list[str]:
    """A campaign that is large and leaves everything to the seeds gives every invariant a chance to fail."""
    is_default = settings == Settings(
        minutes=settings.minutes, liars=None, domain=None, has_newest_faults=True, has_plans=True
    )
    if not is_default or seeds < CAMPAIGN_SEEDS_MIN:
        return []
    return [name for name, count in counts.items() if not count.chances]


def _print_counts(counts: dict[str, Count]) -> None:
    click.echo("invariant  judged  chances to fail")
    for name, count in counts.items():
        by = ", ".join(f"{key} {number}" for key, number in count.by.items())
        click.echo(f"  {name:<4} {count.judged:>11} {count.chances:>11}{f'  ({by})' if by else ''}")


def _mutated(reports: list[Report]) -> dict[str, int | list[str]]:
    """Which fields of the table of claims liars changed in messages that honest nodes received."""
    reached = frozenset(pair for report in reports for pair in report.mutated)
    missed = [f"{pair.record}.{pair.field}" for pair in sorted(PAIRS - reached)]
    return {"reached": len(reached), "all": len(PAIRS), "missed": missed if reached else []}


def _smaller(report: Report, settings: Settings, shrinks: bool, quiet: bool) -> Settings:
    """The settings under which a failing seed still fails, with as little as can be found."""
    settings = replace(settings, domain=report.domain)
    if not shrinks:
        return settings
    if not quiet:
        click.echo(f"making seed {report.seed} smaller …", err=True)
    return shrink(report.seed, settings, report.violations[0].invariant, make=_make)


def _replay(seed: int, settings: Settings) -> str:
    words = ["rota simulate", f"--seed {seed}", f"--minutes {settings.minutes:g}", f"--domain {settings.domain}"]
    if settings.nodes is not None:
        words.append(f"--nodes {settings.nodes}")
    if settings.contracts is not None:
        words.append(f"--contracts {settings.contracts}")
    if settings.committee is not None:
        words.append(f"--committee {settings.committee}")
    if settings.rotation is not None:
        words.append(f"--rotation {settings.rotation.value}")
    if settings.mode is not None:
        words.append(f"--mode {settings.mode.value}")
    if settings.faults is not None:
        names = "all" if settings.faults == FAULTS else ",".join(settings.faults) or "none"
        words.append(f"--faults {names}")
    if settings.only_faults is not None:
        words.append(f"--only-faults {','.join(map(str, settings.only_faults)) or 'none'}")
    if settings.liars is not None and settings.domain == SYNTHETIC:
        words.append(f"--liars {settings.liars}")
    if settings.strategies is not None:
        words.append(f"--strategies {','.join(settings.strategies)}")
    if settings.codec is not None:
        words.append("--codec" if settings.codec else "--no-codec")
    if settings.intents is not None:
        words.append(f"--intents {settings.intents}")
    return " ".join([*words, "--no-shrink", "--trace"])


def _print_coverage(taken: Counter[Place]) -> None:
    places = every_place()
    missing = untaken(taken)
    click.echo(f"{len(places) - len(missing)} of {len(places)} rows were taken; these were not:")
    for place in missing:
        guard = f" when {place.guard}" if place.guard else ""
        click.echo(f"  {place.machine}: {place.state}, {place.event}{guard}")


# Canaries.


def _try_canaries(jobs: int, as_json: bool) -> int:
    """Each must be caught by the invariant that it names; an invariant that none names is not known to work."""
    outcomes: list[Outcome] = []
    campaign = Campaign[int, Outcome](range(len(CANARIES)), jobs, "canaries", quiet=as_json)
    for outcome in campaign.play(_try_one):
        outcomes.append(outcome)
        if not as_json:
            click.echo(_verdict(outcome))
    if as_json:
        told = [{"name": o.name, "invariant": o.invariant, "caught": o.caught, "seeds": o.seeds} for o in outcomes]
        click.echo(json.dumps({"canaries": told}))
    missing = unguarded()
    for name in missing:
        click.echo(f"{name} has no canary: nothing shows that it can fail", err=True)
    if campaign.was_stopped:
        return EXIT_INTERRUPTED
    return 0 if all(outcome.caught for outcome in outcomes) and not missing else 1


def _try_one(number: int) -> Outcome:
    return try_canary(CANARIES[number], SEEDS_MAX)


# Throughput.


def _measure_all(strategies: tuple[str, ...], rotation: Rotation | None, jobs: int, as_json: bool) -> int:
    """Each strategy must leave honest members their share of what they get done without lies, less the allowance."""
    rotations = (rotation,) if rotation is not None else tuple(Rotation)
    items = [(name, each) for each in rotations for name in strategies]
    measured: list[Throughput] = []
    campaign = Campaign[tuple[str, Rotation], Throughput](items, jobs, "strategies", quiet=as_json)
    for found in campaign.play(_measure_one):
        measured.append(found)
        if not as_json:
            word = "enough " if found.is_enough else "TOO LOW"
            click.echo(
                f"{word} {found.ratio:.2f} of {found.confirmed_without} ({found.least:.2f} is enough), "
                f"{found.longest_gap_ms / 1000:.0f} s without any: {found.strategy}, {found.rotation.value}"
            )
    if as_json:
        told = [
            {
                "strategy": found.strategy,
                "rotation": found.rotation.value,
                "confirmed": found.confirmed,
                "confirmed_without": found.confirmed_without,
                "longest_gap_ms": found.longest_gap_ms,
                "is_enough": found.is_enough,
            }
            for found in measured
        ]
        click.echo(json.dumps({"throughput": told}))
    if campaign.was_stopped:
        return EXIT_INTERRUPTED
    return 0 if all(found.is_enough for found in measured) else 1


def _measure_one(item: tuple[str, Rotation]) -> Throughput:
    strategy, rotation = item
    return measure(strategy, rotation=rotation)


def _verdict(outcome: Outcome) -> str:
    if not outcome.is_clean_without:
        return f"DIRTY   {outcome.invariant:4} {outcome.name}: seed {outcome.seeds - 1} fails without it too"
    if outcome.caught:
        return f"caught  {outcome.invariant:4} {outcome.name}: after {outcome.seeds} seeds"
    others = f"; others saw {', '.join(outcome.others)}" if outcome.others else ""
    return f"MISSED  {outcome.invariant:4} {outcome.name}: not in {outcome.seeds} seeds{others}"
