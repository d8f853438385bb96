"""Tables on standard output: as wide as the terminal, and whole where there is none."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console

# Wider than any row: output that is piped into another program is never cut or wrapped.
WIDE: Final = 1_000


def table_console() -> Console:
    """Where a table is printed to."""
    return Console(width=None if sys.stdout.isatty() else WIDE)
