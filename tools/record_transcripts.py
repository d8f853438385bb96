"""Record the walk-throughs anew: what happened is rewritten, the head with its expectations never.

A script whose expectations do not hold is not written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rota.sim.network import ScriptError
from rota.sim.script import Run, Script


def main() -> int:
    """Play every script and write down what happened; 1 when one of them failed."""
    failed = 0
    for path in sorted(Path("tests/transcripts").glob("*.txt")):
        text = path.read_text()
        run = Run(Script.parse(text))
        try:
            run.play()
        except ScriptError as error:
            failed += 1
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        if run.text() != text:
            path.write_text(run.text())
            print(f"{path.name}: recorded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
