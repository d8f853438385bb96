"""A domain for worker processes, which import it by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from rota.domains.base import Proposal, Refused
from tests.domains.kit import Counter, Counting, Settings

GATE: Final = "ROTA_TEST_GATE"


class ElsewhereCounting(Counting):
    """Refuses with the number of its process; a 2 it judges for ever, and a 3 it accepts when a gate opens."""

    name = "elsewhere_counting"
    runs_code = True

    def endorse(self, proposal: Proposal[Settings]) -> None:
        (made,) = proposal.created(Counter)
        while made.value == 2:
            pass
        if made.value != 3:
            raise Refused(str(os.getpid()))
        Path(os.environ[GATE]).read_bytes()
