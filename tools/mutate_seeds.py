"""Play seeds until the first alarm, for `tools.mutate`: prints one JSON object after each seed, the last one counts."""

from __future__ import annotations

import json
import sys

from rota.sim.fingerprint import Fingerprint
from rota.sim.plan import Settings
from rota.sim.swarm import Swarm

FINGERPRINTS = 2


def main(arguments: list[str]) -> None:
    """How many seeds, and for how many minutes each."""
    seeds, minutes = int(arguments[0]), float(arguments[1])
    digests: list[str] = []
    for seed in range(seeds):
        fingerprint = Fingerprint()
        settings = Settings(minutes=minutes, liars=0)
        report = Swarm(seed, settings, fingerprint if seed < FINGERPRINTS else None).play()
        if seed < FINGERPRINTS:
            digests.append(fingerprint.hexdigest())
        invariant = report.violations[0].invariant if report.violations else None
        told = {"seed": seed, "played": seed + 1, "invariant": invariant, "digests": digests}
        print(json.dumps(told), flush=True)
        if invariant is not None:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
