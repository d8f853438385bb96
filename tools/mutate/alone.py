"""Try one mutant in a process that imports it; for code that runs while modules are imported, such as tables.

Usage, by `tools.mutate` only: python -m tools.mutate.alone ROOT SITE tests TEST...
                               python -m tools.mutate.alone ROOT SITE seeds SETTINGS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools.mutate.operators import Site
from tools.mutate.swap import import_mutant
from tools.mutate.tracing import PYTEST


def main(arguments: list[str]) -> int:
    """Import the mutant, then run tests until the first one fails, or play seeds until the first alarm."""
    root, described, what, *rest = arguments
    import_mutant(Path(root), Site(**json.loads(described)))
    if what == "tests":
        paths = (str(Path(root) / test) for test in rest)
        return int(pytest.main([*PYTEST, "-x", "-rfE", "--rootdir", root, *paths]))
    # Imported here: it imports the mutated package.
    from tools.mutate.by_seeds import SeedSettings, play_until_alarm

    play_until_alarm(SeedSettings(**json.loads(rest[0])), lambda finding: print(json.dumps(finding), flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
