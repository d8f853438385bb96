"""Checking that the parties that a transaction names are known, to protect users from payments to misspelt names.

A party is *known* when its node answers that its users have used it (`announcing`), when the contract's genesis names
it, or when it holds a confirmed state that this node has. Its node is asked, for two seconds at most. If it does not
answer and nothing else shows that the party is known, the transaction is refused with that reason. A known party stays
known, so this is cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from rota.domains.base import Rejected as DomainRejected
from rota.engine.verifiers import Verifiers
from rota.host import Hosted, UserCall
from rota.model.genesis import decode_genesis
from rota.model.types import ContractAddress, Intent, NodeName, Party, node_of
from rota.ports import Store, Unavailable
from rota.rpc import errors
from rota.service.submissions.announcing import Announcements

KNOWN_KEPT_MAX: Final = 10_000
BALANCE: Final = "balanceOf"

CallView = Callable[[Hosted, UserCall], Awaitable[object]]


class Payees:
    """The payee checks of one node. `call_view` asks a contract's domain for a party's balance."""

    def __init__(
        self, node: NodeName, store: Store, announcements: Announcements, verifiers: Verifiers, call_view: CallView
    ) -> None:
        self._node: Final = node
        self._store: Final = store
        self._announcements: Final = announcements
        self._verifiers: Final = verifiers
        self._call_view: Final = call_view
        self._known: Final[OrderedDict[tuple[ContractAddress, Party], None]] = OrderedDict()

    async def require_known(self, hosted: Hosted, intent: Intent) -> None:
        """Raise `errors.Rejected` with the first party that is not known, or that cannot be checked now."""
        for party in intent.parties:
            key = (intent.contract, party)
            if party == intent.sender or key in self._known:
                continue
            await self._require(hosted, intent, party)
            self._known[key] = None
            if len(self._known) > KNOWN_KEPT_MAX:
                self._known.popitem(last=False)

    async def _require(self, hosted: Hosted, intent: Intent, party: Party) -> None:
        home = node_of(party)
        announced = await self._is_announced(intent.contract, party)
        if announced or await self._is_named(intent.contract, party) or await self._holds(hosted, intent, party):
            return
        name = party.rpartition("@")[0]
        if announced is None:
            text = f"whether {party} is known cannot be checked now: {home} has not said"
            advice = "try again, or send it with payees any (rota: --new-party)"
            raise errors.unknown_payee(party, f"{text}; {advice}", is_checked=False)
        text = f"{party} is not known: no user of {home} has used it, and it holds nothing that {self._node} has seen"
        advice = (
            f"check the name; to pay a new party, have it created at {home} (rota party create {name}), "
            "or send it with payees any (rota: --new-party)"
        )
        raise errors.unknown_payee(party, f"{text}; {advice}", is_checked=True)

    async def _is_announced(self, contract: ContractAddress, party: Party) -> bool | None:
        if node_of(party) == self._node:
            return await self._announcements.has(party)
        return await self._verifiers.announced(contract, party)

    async def _is_named(self, contract: ContractAddress, party: Party) -> bool:
        known = await self._store.contract(contract)
        return known is not None and bool(known.genesis) and party in decode_genesis(known.genesis).members

    async def _holds(self, hosted: Hosted, intent: Intent, party: Party) -> bool:
        if BALANCE not in hosted.domain.views:
            return False
        try:
            answer = await self._call_view(hosted, UserCall(intent.sender, BALANCE, {"account": party}))
        except (DomainRejected, Unavailable):
            return False
        return isinstance(answer, dict) and answer.get("totalStates", "0") != "0"
