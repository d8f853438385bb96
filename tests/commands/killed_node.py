"""A node that kills itself with SIGKILL just before the n-th thing that its office does or is told; 0 is never.

    python killed_node.py FOLDER N COUNT_FILE

Otherwise it is `rota node FOLDER --json`. How many there were is in COUNT_FILE.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from rota.cli.main import main
from rota.commands.effects import DeskEffect
from rota.commands.events import DeskEvent
from rota.service.commands.commands import CommandOffice

FOLDER, LAST, COUNT_FILE = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])

_count = 0
_perform, _tell = CommandOffice.perform, CommandOffice.tell


def _moment() -> None:
    global _count
    _count += 1
    COUNT_FILE.write_text(str(_count))
    if _count == LAST:
        os.kill(os.getpid(), signal.SIGKILL)


def perform(self: CommandOffice, effect: DeskEffect) -> None:
    _moment()
    _perform(self, effect)


def tell(self: CommandOffice, event: DeskEvent) -> None:
    _moment()
    _tell(self, event)


CommandOffice.perform = perform  # type: ignore[method-assign]
CommandOffice.tell = tell  # type: ignore[method-assign]
main(["node", FOLDER, "--json"])
