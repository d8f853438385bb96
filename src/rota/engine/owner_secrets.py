"""The secrets by which this node's parties own coins whose owners nobody sees (decision 130)."""

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
    """Of one node. They are worked out of its keys, and those that were asked for last are kept: that takes a while."""

    def __init__(self, node: NodeName, keys: KeyHolder) -> None:
        self._node: Final = node
        self._keys: Final = keys
        self._kept: Final[OrderedDict[Party, bytes]] = OrderedDict()

    def of(self, party: Party) -> bytes:
        """A party's. `UnknownKey` when it is none of this node's."""
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
        """A party's, if it is one of ours."""
        try:
            return self.of(party)
        except (UnknownKey, ValueError):
            return None
