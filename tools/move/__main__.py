"""python -m tools.move PLAN.toml [--check] [--root FOLDER]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.move import __doc__ as about
from tools.move.plan import PlanError, read_plan
from tools.move.tree import apply, changes_of, tidy_up


def main(arguments: list[str]) -> int:
    """Carry a plan out, or list the changes."""
    parser = argparse.ArgumentParser(prog="python -m tools.move", description=(about or "").partition("\n")[0])
    parser.add_argument("plan", type=Path, help="a TOML file; tools/move/plan.py describes it")
    parser.add_argument("--check", action="store_true", help="list the changes without making them")
    parser.add_argument("--root", type=Path, default=Path(), help="the tree; default: the current folder")
    options = parser.parse_args(arguments)
    try:
        changes = changes_of(options.root, read_plan(options.plan))
    except PlanError as error:
        print(error, file=sys.stderr)
        return 2
    for line in changes.told():
        print(line)
    print(f"{len(changes.moved)} files move, {len(changes.written)} are rewritten")
    if not options.check:
        apply(options.root, changes)
        tidy_up(options.root, changes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
