"""Empty transitions: how many a coordinator pays for on behalf of other nodes (protocol §4.3, trust rule 10).

Theory of operation. An empty transition uses up its intent and does nothing else. It needs its party's signature, which
endorsers verify, but no state, so that it costs its sender nothing, and the coordinator pays about 25,000 gas for it.
Where any registered node may send and another one pays (`static` mode), empty transitions are therefore allowed to a
sender as it earns them: one for each of its other transitions that was committed. Besides, each sender has
`FREE_OF_SENDER` in an hour, and all senders together `FREE_OF_ALL`. One beyond that waits: it is assembled again later,
and its intent ends at the latest when the bounds that its party signed have passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.machine.bounded import forget_oldest
from rota.model.types import Mode, NodeName
from rota.sequencer.context import Context

WINDOW_MS: Final = 3_600_000
FREE_OF_SENDER: Final = 16
FREE_OF_ALL: Final = 64
EARNED_MAX: Final = 64
SENDERS_MAX: Final = 1_024


@dataclass(slots=True)
class _Account:
    earned: int = 0
    since_ms: int = 0
    used: int = 0


class Empties:
    """The empty transitions that one coordinator pays for, by sender."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.accounts: dict[NodeName, _Account] = {}
        self.all = _Account(since_ms=context.now_ms)

    def may_take(self, sender: NodeName) -> bool:
        """Whether one more of this sender is paid for now."""
        if self._pays_itself(sender):
            return True
        account = self.accounts.get(sender) or _Account(since_ms=self.context.now_ms)
        is_free = self._used(account) < FREE_OF_SENDER and self._used(self.all) < FREE_OF_ALL
        return account.earned > 0 or is_free

    def take(self, sender: NodeName) -> None:
        """Count one of this sender that goes to the next round."""
        if self._pays_itself(sender):
            return
        account = self._account(sender)
        if account.earned:
            account.earned -= 1
        else:
            for each in (account, self.all):
                each.used = self._used(each) + 1

    def earn(self, sender: NodeName) -> None:
        """Note that a transition of this sender that was not empty is on the chain."""
        if not self._pays_itself(sender):
            account = self._account(sender)
            account.earned = min(account.earned + 1, EARNED_MAX)

    def _pays_itself(self, sender: NodeName) -> bool:
        return self.context.contract.mode is not Mode.STATIC or sender == self.context.node

    def _account(self, sender: NodeName) -> _Account:
        account = self.accounts.pop(sender, None) or _Account(since_ms=self.context.now_ms)
        self.accounts[sender] = account
        forget_oldest(self.accounts, SENDERS_MAX)
        return account

    def _used(self, account: _Account) -> int:
        """Return the number used in the present hour."""
        if self.context.now_ms - account.since_ms >= WINDOW_MS:
            account.since_ms, account.used = self.context.now_ms, 0
        return account.used
