"""Whether a ledger that has transitions proved takes proofs by the development keys, which can be forged.

The keys of the prover come from a set-up (docs/zeto.md). Whoever knew its secrets can prove what is not true, and so
make coins of nothing. The verifiers that come with Rota are made from the development keys, whose set-up one machine
made; a network that had a ceremony builds verifiers of its own. What counts is in the verifier's code, whatever the
configuration names.
"""

from __future__ import annotations

from functools import cache

from rota.domains.base import ProvedLedger
from rota.ledger.artifacts import load_artifact
from rota.prover.key_files import is_development_verifier


@cache
def rests_on_development_keys(ledger: ProvedLedger) -> bool:
    """Whether one of its verifiers does."""
    return any(is_development_verifier(load_artifact(name).bytecode) for name in ledger.verifiers)
