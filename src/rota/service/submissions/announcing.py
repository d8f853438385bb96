"""Which parties of this node are announced: those that its own users have used.

Every name has a key (`keys.names`), so a payment to a misspelt name would be confirmed, and its coins would belong to
a party that does not exist. A party is announced when a user of this node sends as it, resolves or creates it
(`store.key_names`), or when this node takes part in a group that has it as a member. Requests and payments by peers
never announce a party.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from rota.domains.queries import Query
from rota.model.types import Party
from rota.ports import Groups, KeyNames

ANNOUNCED_KEPT_MAX: Final = 10_000
GROUPS_MAX: Final = 16


class Announcements:
    """The announced parties of one node. An announced party stays announced, so positive answers are cached."""

    def __init__(self, names: KeyNames, groups: Groups) -> None:
        self._names: Final = names
        self._groups: Final = groups
        self._known: Final[OrderedDict[Party, None]] = OrderedDict()

    async def has(self, party: Party) -> bool:
        """Whether this party of this node is announced. `Unavailable` when the store is away."""
        if party in self._known:
            return True
        found = await self._names.at([party.rpartition("@")[0]])
        is_used = any(key.address is not None for key in found)
        if not is_used:
            groups = await self._groups.find(Query(limit=GROUPS_MAX), party)
            is_used = any(group.contract is not None for group in groups)
        if is_used:
            self._known[party] = None
            if len(self._known) > ANNOUNCED_KEPT_MAX:
                self._known.popitem(last=False)
        return is_used
