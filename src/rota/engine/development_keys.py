"""Whether a ledger with proved transitions accepts proofs by the development keys, which can be forged.

The prover's keys come from a set-up (docs/zeto.md). A party that knew its secrets could prove false statements, and so
make coins of nothing. The verifiers that come with Rota are built from the development keys, whose set-up one machine
made; a network that held a ceremony builds verifiers of its own. The check reads the verifier's code, whatever the
configuration names.
"""

from __future__ import annotations

from functools import cache

from rota.domains.base import ProvedLedger
from rota.ledger.artifacts import load_artifact
from rota.prover.key_files import is_development_verifier


@cache
def rests_on_development_keys(ledger: ProvedLedger) -> bool:
    """Return whether at least one of the ledger's verifiers is a development verifier."""
    return any(is_development_verifier(load_artifact(name).bytecode) for name in ledger.verifiers)
