"""Asking all nodes that may have made states for those that this node lost.

The core asks the members and endorsers of a contract (protocol §6). Where every sender coordinates its own transactions
these have almost none: a state is with the node that made it and with its readers. Any peer may have made some, so
all connected ones are asked; each sends the states that it has and this node may see, and is silent about the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from rota.engine.contracts import KnownContracts
from rota.machine.effects import SendMessage
from rota.model.sharing import holders_of
from rota.model.types import Mode, NodeName, RequestId
from rota.node.events import StatesWanted
from rota.wire.messages import STATE_REQUEST_LEAVES_MAX, Envelope, StateRequest


class Makers:
    """The requests of one node. `connected` are its peers, `author` returns its incarnation and height."""

    def __init__(
        self,
        contracts: KnownContracts,
        send: Callable[[SendMessage], None],
        author: Callable[[], tuple[int, int]],
        connected: Callable[[], Iterable[NodeName]],
    ) -> None:
        self._contracts: Final = contracts
        self._send: Final = send
        self._author: Final = author
        self._connected: Final = connected
        self._said = 0

    def ask(self, wanted: StatesWanted) -> None:
        """Ask all peers that the core does not ask; without retry, as a node that lacks states asks again."""
        known = self._contracts.known(wanted.contract)
        if known is None or known.contract.mode is not Mode.SENDER:
            return
        holders = holders_of(known.contract)
        peers = [peer for peer in self._connected() if peer not in holders]
        incarnation, height = self._author()
        for start in range(0, len(wanted.leaves), STATE_REQUEST_LEAVES_MAX):
            request = StateRequest(wanted.leaves[start : start + STATE_REQUEST_LEAVES_MAX])
            for peer in peers:
                self._said += 1
                number = RequestId(incarnation, self._said)
                self._send(SendMessage(peer, Envelope(wanted.contract, number, incarnation, height, request)))
