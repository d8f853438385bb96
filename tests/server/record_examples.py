"""`make examples`: calls every method on three real nodes and records the examples that are missing or do not hold."""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.server.test_every_method import World, call_every_method, prepare
from tests.server.three_nodes import three_nodes


def main() -> None:
    """Record, and print the methods whose examples are new."""
    # Nodes are stopped on the way, and the others would log it.
    logging.disable()
    with TemporaryDirectory() as home, three_nodes(Path(home), prepare) as running:
        world = World(running)
        call_every_method(world)
        written = world.examples.record()
    print("\n".join(written) or "All examples hold.")


if __name__ == "__main__":
    main()
