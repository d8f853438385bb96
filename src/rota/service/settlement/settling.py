"""Settlements at one node: drafts that may still be bound, and prepared transitions for their users.

A draft is kept in memory only, and the oldest are dropped: a user who comes too late drafts again. It is removed before
it is submitted, so that no two intents get one id.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from rota import host
from rota.domains.base import Rejected
from rota.engine import drafting
from rota.engine.drafting import Draft
from rota.ledger.settlement import leg_of, makers_of
from rota.model.digests import Core
from rota.model.types import ContractAddress, Intent, IntentId, NodeName, StateId, SubmitMode
from rota.ports import StoredTransaction, Unavailable
from rota.rpc import errors
from rota.service import interface
from rota.service.run import RunningNode
from rota.service.submissions.reading import Read

DRAFTS_KEPT_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft, and its user's request."""

    draft: Draft
    read: Read


class Settlements:
    """The drafts of this node that are not yet bound, and their binding."""

    def __init__(self, running: RunningNode, chain_id: int) -> None:
        self._running: Final = running
        self._chain_id: Final = chain_id
        self._drafts: Final[OrderedDict[IntentId, Drafted]] = OrderedDict()

    async def draft(self, read: Read, intent: Intent, readers: tuple[NodeName, ...]) -> interface.DraftView:
        """Return the effects of an external intent as of now; its id is kept for `bind`."""
        hosted = self._hosted(intent.contract, "to")
        try:
            made = await self._running.adapters.services.draft(hosted, intent)
        except Rejected as flaw:
            raise errors.invalid("data", str(flaw)) from None
        self.put_back(Drafted(made, read))
        known = await self._known(hosted, (*made.transition.inputs, *made.transition.reads))
        told = host.receipt(hosted, made.transition, known, self._running.name)
        openings = tuple([(await self._shown(hosted, made, reader)).opening_for(reader) for reader in readers])
        return interface.DraftView(intent.id, intent.contract, made.core, told, openings)

    async def examine(self, content: bytes) -> interface.ExaminedView:
        """Show the effects of another party's draft."""
        try:
            opening = drafting.read_opening(content)
            hosted = self._hosted(opening.contract, "opening")
            await self._running.confirming.require(opening.contract)
            if hosted.domain.is_encrypted:
                (transition,) = await self._running.adapters.encryption.decrypted(hosted, (opening.transition,))
                opening = replace(opening, transition=transition)
            known = await self._known(hosted, opening.references)
            examined = drafting.examine(hosted, opening, known, self._running.name)
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        return interface.ExaminedView(opening.contract, examined.core, examined.told)

    def take_out(self, draft: IntentId) -> Drafted | None:
        """Remove and return a draft for its submission; None when it is not here (any more)."""
        return self._drafts.pop(draft, None)

    def sender_of(self, draft: IntentId) -> str:
        """Return the sender of a draft, if it is here."""
        drafted = self._drafts.get(draft)
        return drafted.draft.intent.sender if drafted is not None else ""

    def put_back(self, drafted: Drafted) -> None:
        """Keep a draft that is new, or was not submitted after all."""
        self._drafts[drafted.draft.intent.id] = drafted
        if len(self._drafts) > DRAFTS_KEPT_MAX:
            self._drafts.popitem(last=False)

    def bound(self, drafted: Drafted, legs: tuple[interface.NamedLeg, ...]) -> Intent:
        """Return the intent to be submitted. `errors.Rejected` when it is not one of the legs."""
        draft = drafted.draft
        try:
            condition = drafting.condition_of(_named(legs), draft.intent.contract, draft.core)
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        return host.bound(draft.intent, host.Binding(draft.core, condition))

    async def judged(
        self, draft: IntentId, legs: tuple[interface.NamedLeg, ...], used: errors.KeyUsed
    ) -> errors.KeyUsed:
        """Return the error with the result of comparing this draft and its legs with the key's transaction."""
        try:
            stored = await self._running.adapters.store.transaction(used.intent)
        except Unavailable as trouble:
            return used.not_compared(str(trouble))
        if stored is None:
            return used.not_compared("the node does not have that transaction any more")
        # A bound transaction has the id of its draft.
        binding = host.binding_of(stored.intent) if used.intent == draft else None
        if binding is None:
            return used.compared(False, {})
        with suppress(Rejected):
            condition = drafting.condition_of(_named(legs), stored.intent.contract, binding.core)
            return used.compared(condition == binding.condition, {})
        return used.compared(False, {})

    async def leg(self, stored: StoredTransaction) -> interface.LegView | None:
        """Return the prepared transition of an intent while it has no outcome."""
        contract = stored.intent.contract
        policy = self._running.contracts.policy_of(contract)
        is_carried = stored.intent.submit_mode is SubmitMode.CARRIED
        if stored.issued is None or stored.receipt is not None or policy is None or is_carried:
            return None
        wanted = () if policy.threshold else makers_of(stored.issued)
        makers = await self._running.adapters.store.transitions_of(contract, wanted) if wanted else ()
        leg = leg_of(stored.issued, contract, policy, self._chain_id, makers)
        return interface.LegView(
            contract, leg.core, leg.payload, leg.auth, leg.condition, leg.committer, leg.valid_until_s, leg.commit
        )

    async def _shown(self, hosted: host.Hosted, draft: Draft, reader: NodeName) -> Draft:
        """Return a draft as it is disclosed to a reader's node."""
        if not hosted.domain.is_encrypted:
            return draft
        seen = draft.transition.as_seen_by(reader)
        (transition,) = await self._running.adapters.encryption.encrypted(hosted, reader, (seen,))
        return replace(draft, transition=transition)

    def _hosted(self, contract: ContractAddress, field: str) -> host.Hosted:
        hosted = self._running.contracts.hosted(contract)
        if hosted is None:
            raise errors.invalid(field, f"must be of a contract of {self._running.name}, and {contract} is none")
        return hosted

    async def _known(self, hosted: host.Hosted, states: tuple[StateId, ...]) -> host.Held:
        found = await self._running.adapters.store.states(hosted.contract.address, states)
        return host.shelved(hosted, found, self._running.name)


def _named(legs: tuple[interface.NamedLeg, ...]) -> tuple[drafting.NamedLeg, ...]:
    return tuple((leg.contract, tuple(map(Core, leg.cores))) for leg in legs)
