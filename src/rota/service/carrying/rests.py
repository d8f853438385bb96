"""Rests: pauses in which a hook is not asked about operations of a sender's node that spoiled earlier ones.

Theory of operation. A party may void its operation at any time. If the hook's transaction is on its way by then, its
call fails on the chain, and the hook's group pays for that. A few such operations are excused, and more to a node whose
operations are carried out. A node that voids more of them rests: its later operations wait in the store. A rest that
follows another is twice as long; a node that voids none for as long as its last rest begins with the shortest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.model.types import NodeName

EXCUSED: Final = 2
CARRIED_PER_EXCUSED: Final = 4
CARRIED_MAX: Final = 64
REST_S: Final = 60.0
REST_MAX_S: Final = 3_600.0
SENDERS_MAX: Final = 1_024


@dataclass(slots=True)
class _Account:
    carried: int = 0
    voided: int = 0
    rest_s: float = REST_S
    until_s: float = 0.0


class Rests:
    """The rests of the senders at one node, since its start; times are of one clock."""

    def __init__(self) -> None:
        self._accounts: Final[dict[NodeName, _Account]] = {}

    def note_carried(self, sender: NodeName) -> None:
        """Record that an operation of the sender's node was carried out."""
        account = self._accounts.get(sender)
        if account is not None:
            account.carried += 1
            if account.carried >= CARRIED_MAX:
                del self._accounts[sender]

    def note_voided(self, sender: NodeName, now_s: float) -> None:
        """Record that it voided an operation while the transaction that was to carry it out was under way."""
        account = self._accounts.pop(sender, None) or _Account()
        self._accounts[sender] = account
        if len(self._accounts) > SENDERS_MAX:
            del self._accounts[next(iter(self._accounts))]
        account.voided += 1
        if account.voided <= EXCUSED + account.carried // CARRIED_PER_EXCUSED:
            return
        is_soon = account.until_s and now_s < account.until_s + account.rest_s
        account.rest_s = min(2 * account.rest_s, REST_MAX_S) if is_soon else REST_S
        account.until_s = now_s + account.rest_s

    def has(self, sender: NodeName, now_s: float) -> bool:
        """Whether the node rests: none of its operations is begun now."""
        account = self._accounts.get(sender)
        return account is not None and now_s < account.until_s
