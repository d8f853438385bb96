"""The secrets by which this node's parties own coins that do not show their owners (decision 130)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from rota.keys.names import coins_key
from rota.model.types import NodeName, Party, node_of
from rota.ports import KeyHolder, UnknownKey

OWNER_PURPOSE: Final = b"rota zeto owner"
OWNER_BYTES: Final = 48
KEPT_MAX: Final = 1_024


class OwnerSecrets:
    """The owner secrets of one node, derived from its keys. That is slow, so the latest requested are cached."""

    def __init__(self, node: NodeName, keys: KeyHolder) -> None:
        self._node: Final = node
        self._keys: Final = keys
        self._kept: Final[OrderedDict[Party, bytes]] = OrderedDict()

    def of(self, party: Party) -> bytes:
        """Return the secret of a party. `UnknownKey` when it is not one of this node's."""
        secret = self._kept.get(party)
        if secret is None:
            if node_of(party) != self._node:
                raise UnknownKey(f"the party is not one of {self._node}")
            secret = self._kept[party] = self._keys.derive(coins_key(party), OWNER_PURPOSE, OWNER_BYTES)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(party)
        return secret

    def find(self, party: Party) -> bytes | None:
        """Return the secret of a party, or None if it is not one of this node's."""
        try:
            return self.of(party)
        except (UnknownKey, ValueError):
            return None
