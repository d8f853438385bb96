"""Questions that the domain of a private contract answers (`domain_invokeRPC`, `pgroup_invokeRPC`).

A domain answers the views that ptx_call and pgroup_call use too. Clients name them with or without the domain's name,
as `noto_balanceOf` or `balanceOf`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from rota.domains.base import party_of
from rota.engine.contracts import KnownContracts
from rota.host import Hosted, UserCall
from rota.model.types import ContractAddress, NodeName, Party, Rejected, node_of
from rota.ports import PartyNames
from rota.rpc import errors
from rota.rpc.credentials import held_parties
from rota.rpc.values import JsonValue
from rota.service.contracts.interface import FROM, parts_of

# The asking party where the contract has no members: it has no effect there.
ASKER: Final = "asker"

MembersOf = Callable[[ContractAddress], Awaitable[Sequence[Party]]]
CallView = Callable[[Hosted, UserCall], Awaitable[object]]


class Questions:
    """`service.contracts.interface.DomainQuestions`."""

    def __init__(self, node: NodeName, contracts: KnownContracts, members_of: MembersOf, call_view: CallView) -> None:
        self._node: Final = node
        self._contracts: Final = contracts
        self._members_of: Final = members_of
        self._call_view: Final = call_view

    async def ask(self, contract: ContractAddress, method: str, params: JsonValue) -> JsonValue:
        """Ask the domain of a contract. `Rejected` lists the methods that it has."""
        hosted = self._contracts.hosted(contract)
        if hosted is None:
            known = self._contracts.unhosted.get(contract)
            raise errors.invalid("contractAddress", known or f"must be a private contract of {self._node}")
        name = method.removeprefix(f"{hosted.domain.name}_")
        if name not in hosted.domain.views:
            answered = ", ".join(f"{hosted.domain.name}_{each}" for each in sorted(hosted.domain.views))
            text = (
                f"must be one of {answered} for {contract}, not {method[:80]!r}; ptx_sendTransaction changes a contract"
            )
            raise errors.invalid("method", text)
        try:
            asker, arguments = parts_of(params)
            call = UserCall(await self._asker(contract, asker), name, arguments)
            return cast(JsonValue, await self._call_view(hosted, call))
        except Rejected as flaw:
            raise errors.invalid(f"params.{flaw.field}" if flaw.field else "params", flaw.message) from None

    async def _asker(self, contract: ContractAddress, named: str | None) -> Party:
        """Return the named party, or the first member of a group at this node for which the caller may ask."""
        if named is not None:
            party = party_of(FROM, named, self._node)
            if node_of(party) != self._node:
                raise Rejected(FROM, f"must be a party of this node, such as alice@{self._node}, not {named[:80]!r}")
            return party
        held = held_parties()
        names = PartyNames(held, self._node) if held is not None else None
        here = [each for each in await self._members_of(contract) if node_of(each) == self._node]
        allowed = [each for each in here if names is None or names.has(each)]
        return allowed[0] if allowed else Party(f"{ASKER}@{self._node}")
