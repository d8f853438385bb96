"""Signatures of endorsers that a node has verified."""

from __future__ import annotations

from typing import NamedTuple

from rota.model.types import Digest, NodeName


class Signed(NamedTuple):
    """A digest with the signature of an endorser, to be verified."""

    endorser: NodeName
    digest: Digest
    signature: bytes
