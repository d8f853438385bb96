"""The simulator stage: which invariant notices a mutant first, and in which seed.

Seeds are those of `rota simulate`: they draw domain, liars and faults. The first few are compared with the same seeds
of the core without a mutant; if all their traces are the same, no more seeds are played.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rota.cli.simulate import KIT
from rota.sim.fingerprint import Fingerprint
from rota.sim.plan import Settings
from rota.testing.workloads import swarm_of
from tools.mutate.operators import Site
from tools.mutate.pool import Ended, Finding, Tell, allow_cpu_s, run_forked
from tools.mutate.swap import Swapper
from tools.mutate.tracing import TestMap, digest_of

# So much processor time a seed may use for each minute of faults, and at least.
CPU_S_A_MINUTE = 240.0
CPU_LEAST_S = 60.0


@dataclass(frozen=True)
class SeedSettings:
    """How many seeds, for how many minutes each; the traces of the first ones without a mutant; where to go on."""

    seeds: int
    minutes: float
    usual: tuple[str, ...] = ()
    first: int = 0


@dataclass(frozen=True)
class Caught:
    """How the simulator took a mutant."""

    site: Site
    invariant: str
    seed: int | None
    played: int
    differs: bool

    def as_result(self) -> Finding:
        """The fields of a result."""
        return {"simulator": self.invariant, "seed": self.seed, "played": self.played, "differs": self.differs}


@dataclass(frozen=True)
class SeedStage:
    """All that the stage needs."""

    root: Path
    packages: tuple[str, ...]
    covering: TestMap
    jobs: int
    settings: SeedSettings


def usual_digests(root: Path, count: int, minutes: float, jobs: int, cache: Path) -> tuple[str, ...]:
    """Digests of the first seeds without a mutant; kept under a digest of the source."""
    kept = cache / f"digests-{minutes:g}-{digest_of(root, ('src',))}.json"
    digests: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    missing = [seed for seed in range(count) if str(seed) not in digests]

    def play(seed: int, tell: Tell) -> None:
        tell({"digest": _play(seed, minutes)[1]})

    for ended in run_forked(missing, jobs, play):
        if ended.has_failed:
            raise SystemExit(f"seed {ended.task} fails without a mutant: {ended.findings}")
        digests[str(ended.task)] = str(ended.findings[-1]["digest"])
    cache.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(digests))
    return tuple(digests[str(seed)] for seed in range(count))


def catch_all(stage: SeedStage, tasks: list[tuple[Site, int]], take: Callable[[Caught], bool]) -> None:
    """Play every mutant from a seed on; `take` receives the results as they come, and returns false to stop."""
    if not tasks:
        return
    swapper = Swapper(stage.root, stage.packages)
    gc.collect()
    gc.freeze()

    def play(task: tuple[Site, int], tell: Tell) -> None:
        site, first = task
        settings = SeedSettings(stage.settings.seeds, stage.settings.minutes, stage.settings.usual, first)
        if stage.covering.is_imported(site) or not swapper.swap(site):
            _play_alone(stage.root, site, settings, tell)
        else:
            play_until_alarm(settings, tell)

    for ended in run_forked(tasks, stage.jobs, play):
        if not take(_caught(ended)):
            return


def play_until_alarm(settings: SeedSettings, tell: Tell) -> None:
    """Play seeds until the first alarm; report each."""
    differs = settings.first > 0
    for seed in range(settings.first, settings.seeds):
        if seed == len(settings.usual) and not differs:
            return
        tell({"playing": seed})
        allow_cpu_s(max(CPU_LEAST_S, CPU_S_A_MINUTE * settings.minutes))
        invariant, digest = _play(seed, settings.minutes)
        differs = differs or (seed < len(settings.usual) and digest != settings.usual[seed])
        tell({"seed": seed, "invariant": invariant, "differs": differs})
        if invariant:
            return


def _play(seed: int, minutes: float) -> tuple[str, str]:
    """The first alarm of a seed, or nothing, and the digest of its trace."""
    fingerprint = Fingerprint()
    settings = Settings(minutes=minutes, liars=None, domain=None, has_newest_faults=True, has_plans=True)
    report = swarm_of(seed, settings, KIT, fingerprint).play()
    return (report.violations[0].invariant if report.violations else ""), fingerprint.hexdigest()


def _play_alone(root: Path, site: Site, settings: SeedSettings, tell: Tell) -> None:
    arguments = (str(root), json.dumps(asdict(site)), "seeds", json.dumps(asdict(settings)))
    command = [sys.executable, "-m", "tools.mutate.alone", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as playing:
        assert playing.stdout is not None, "a pipe"
        for line in playing.stdout:
            tell(json.loads(line))
    assert not playing.returncode, f"the process that imports {site.name} died"


def _caught(ended: Ended[tuple[Site, int]]) -> Caught:
    site, first = ended.task
    played = [finding for finding in ended.findings if "invariant" in finding]
    begun = [finding for finding in ended.findings if "playing" in finding]
    differs = first > 0 or any(finding["differs"] for finding in played)
    if ended.has_failed:
        # Neither a report nor an exception of the core, which the swarm reports as a violation.
        seed = int(str(begun[-1]["playing"])) if begun else first
        return Caught(site, "out of time" if ended.is_out_of_time else "crashed", seed, seed + 1, differs=True)
    if not played:
        return Caught(site, "", None, first, differs)
    last = played[-1]
    invariant, seed = str(last["invariant"]), int(str(last["seed"]))
    return Caught(site, invariant, seed if invariant else None, seed + 1, differs or bool(invariant))
