"""Gas allowances: how much a coordinator pays in an hour for the transitions of one sender (trust rule 10).

Theory of operation. Where any registered node may send and another one pays (`static` mode), the operator of the
coordinator may limit what it pays for one sender (`sender_gas_max`; 0 is no limit). Each dispatched transition counts
with what it would take to commit it alone, and so does each that another contract carries out, when it is prepared.
When a sender has used its allowance up, it is not asked to assemble until the hour ends; what it has on its way is
dispatched, and its intents wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rota.calldata import AuthCost, gas_bound
from rota.machine.bounded import forget_oldest
from rota.model.types import Mode, NodeName, Transition
from rota.sequencer.context import Context

WINDOW_MS: Final = 3_600_000
SENDERS_MAX: Final = 1_024


@dataclass(slots=True)
class _Used:
    until_ms: int
    gas: int = 0


class GasAllowances:
    """The gas that one coordinator has paid for each sender in the present hour."""

    def __init__(self, context: Context, look_again_at: Callable[[int], None]) -> None:
        self.context = context
        self._look_again_at = look_again_at
        self.most = self.context.config.sender_gas_max if self.context.contract.mode is Mode.STATIC else 0
        self.used: dict[NodeName, _Used] = {}

    @cached_property
    def _auth(self) -> AuthCost:
        return AuthCost.of(self.context.contract)

    def is_used_up(self, sender: NodeName) -> bool:
        """Whether nothing more is assembled for this sender in the present hour."""
        used = self.used.get(sender) if self.used else None
        return used is not None and used.gas >= self.most and used.until_ms > self.context.now_ms

    def charge(self, sender: NodeName, transition: Transition) -> None:
        """Charge a transition of this sender that is dispatched, or is to be carried out."""
        if not self.most or sender == self.context.node:
            return
        used = self.used.pop(sender, None)
        if used is None or used.until_ms <= self.context.now_ms:
            used = _Used(self.context.after(WINDOW_MS))
        self.used[sender] = used
        forget_oldest(self.used, SENDERS_MAX)
        used.gas += gas_bound((transition,), transition.valid_until_s, self._auth)
        if used.gas >= self.most:
            self._look_again_at(used.until_ms)
