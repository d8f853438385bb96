"""The ids of intents: a page and a number on it, so that the chain marks 256 of one sender in one word (ledger).

The page follows from party, contract and a page nonce (`digests.page_of`), from which coordinators and endorsers verify
whose an id is. Each run of a node opens pages of its own for each party and contract, with nonces that it draws at
random: no two runs can give the same id, whatever a disk has lost.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from rota.keys.one_time import OneTimeKeys
from rota.model.digests import NONCE_BYTES, page_of
from rota.model.types import ContractAddress, IntentId, Party

IDS_A_PAGE: Final = 256
PAGES_OPEN_MAX: Final = 10_000


class DrawnId(NamedTuple):
    """An id, and the nonce that proves whose it is."""

    id: IntentId
    nonce: bytes


class IntentIds:
    """Gives each intent a unique id. `draw` returns that many random bytes."""

    def __init__(self, draw: Callable[[int], bytes], one_time_keys: OneTimeKeys) -> None:
        self._draw: Final = draw
        self._one_time_keys: Final = one_time_keys
        self._open: Final[OrderedDict[tuple[Party, ContractAddress], tuple[bytes, int]]] = OrderedDict()

    def next(self, party: Party, contract: ContractAddress) -> DrawnId:
        """Return the next id of this party in this contract."""
        key = (party, contract)
        nonce, number = self._open.pop(key, (b"", IDS_A_PAGE))
        if number == IDS_A_PAGE:
            nonce, number = self._draw(NONCE_BYTES), 0
        self._open[key] = (nonce, number + 1)
        if len(self._open) > PAGES_OPEN_MAX:
            self._open.popitem(last=False)
        return DrawnId(IntentId(page_of(party, contract, nonce) + bytes([number])), nonce)

    def one_time(self, party: Party, contract: ContractAddress) -> DrawnId:
        """Return an id for a contract of proved transitions: it belongs to a one-time key, so ids cannot be linked."""
        nonce = self._draw(NONCE_BYTES)
        return DrawnId(self._one_time_keys.id_of(party, contract, nonce), nonce)
