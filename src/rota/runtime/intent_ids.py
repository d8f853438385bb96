"""The ids of intents: a page and a number on it, so that the chain marks 256 of one sender in one word (ledger).

The page is the first 15 bytes of keccak256(party, contract, page nonce). Each life of a node opens pages of its own
for each party and contract, with nonces that it draws at random: no two lives can give the same id, whatever a
disk has lost.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from rota.digests import keccak
from rota.types import ContractAddress, IntentId, Party, address_bytes

PAGE_BYTES: Final = 15
IDS_A_PAGE: Final = 256
NONCE_BYTES: Final = 16
PAGES_OPEN_MAX: Final = 10_000


class IntentIds:
    """Gives each intent an id that nobody else gives. `draw` makes that many random bytes."""

    def __init__(self, draw: Callable[[int], bytes]) -> None:
        self._draw: Final = draw
        self._open: Final[OrderedDict[tuple[Party, ContractAddress], tuple[bytes, int]]] = OrderedDict()

    def next(self, party: Party, contract: ContractAddress) -> IntentId:
        """The next one of this party in this contract."""
        key = (party, contract)
        page, number = self._open.pop(key, (b"", IDS_A_PAGE))
        if number == IDS_A_PAGE:
            page, number = page_of(party, contract, self._draw(NONCE_BYTES)), 0
        self._open[key] = (page, number + 1)
        if len(self._open) > PAGES_OPEN_MAX:
            self._open.popitem(last=False)
        return IntentId(page + bytes([number]))


def page_of(party: Party, contract: ContractAddress, nonce: bytes) -> bytes:
    """The page of this nonce: nobody finds one for a party that is another party's."""
    assert len(nonce) == NONCE_BYTES, f"a page nonce is {NONCE_BYTES} bytes"
    return keccak(keccak(party.encode()) + address_bytes(contract) + nonce)[:PAGE_BYTES]
