"""Privacy groups with a machine to run on: the entry point that a node loads."""

from __future__ import annotations

from rota.domains.pente import Pente
from rota.evm.private_evm import PrivateEvm


def pente() -> Pente:
    """The domain, on revm."""
    return Pente(PrivateEvm)
