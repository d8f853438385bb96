"""Judging contracts that are proposed to this node, and its calls of the factory.

A proposal is judged by genesis, domain and keys, at once. The account of the registrar calls the factory, one call at a
time: its nonces come from the chain, while the submitter's belong to the core. Whether a call had an effect the core
learns from its own index; this module only reports how the call ended. Before each call it checks at the factory
whether the id is used, so that a repeated call costs nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from rota.directory.deployment_events import FactoryCalled, FactoryRefused, ProposalJudged
from rota.directory.effects import CallFactory, JudgeProposal
from rota.engine.contracts import ContractRefused, KnownContracts
from rota.ledger.account import Account, CallReverted, TransactionRejected
from rota.ledger.bindings import decode_result, deploy_endorsed, deploy_proved, encode_call
from rota.machine.tables import Event
from rota.model.types import ContractAddress, IntentId, NodeName
from rota.ports import Signer, Tell, Unavailable
from rota.wire.messages import Verdict

# The factory's error for a used id: the node's index will show the contract that used it.
USED: Final = "IntentUsed("


class Deploying:
    """The deployments of one node. Without a factory nothing is deployed, and proposals of others have to wait."""

    def __init__(
        self,
        node: NodeName,
        contracts: KnownContracts,
        signer: Signer,
        account: Account,
        factory: ContractAddress | None,
        tell: Tell,
    ) -> None:
        self._node: Final = node
        self._contracts: Final = contracts
        self._signer: Final = signer
        self._account: Final = account
        self._factory: Final = factory
        self._tell: Final = tell
        self._turn: Final = asyncio.Lock()
        self._calls: Final[dict[IntentId, asyncio.Task[None]]] = {}

    def perform(self, order: JudgeProposal | CallFactory) -> None:
        """Judge a proposal, or begin to call the factory; a call that is under way is not made twice."""
        if isinstance(order, JudgeProposal):
            self._tell(self._judged(order))
        elif order.deployment not in self._calls:
            task = self._calls[order.deployment] = asyncio.create_task(self._call(order))
            task.add_done_callback(_be_loud)

    async def close(self) -> None:
        """Cancel open calls; the next run repeats them."""
        tasks = tuple(self._calls.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Proposals.

    def _judged(self, order: JudgeProposal) -> ProposalJudged:
        endorser: ContractAddress | None = None
        verdict, reason = Verdict.ACCEPTED, ""
        try:
            self._require_factory(order.factory)
            if order.peer != self._node:
                self._contracts.require_room(order.peer, order.genesis)
            endorser = self._contracts.consider(
                order.genesis, order.deployment, order.signers, self._signer, proposer=order.peer
            )
        except ContractRefused as flaw:
            verdict, reason = Verdict.REFUSED, str(flaw)
        except Unavailable as trouble:
            verdict, reason = Verdict.BUSY, str(trouble)
        return ProposalJudged(order.peer, order.request_id, order.deployment, verdict, endorser, reason)

    def _require_factory(self, theirs: ContractAddress) -> None:
        if self._factory is None:
            raise Unavailable(f"ledger.factory: must be set at {self._node}")
        if theirs != self._factory:
            raise ContractRefused("factory", f"must be {self._factory}, which {self._node} uses, not {theirs}")

    # The factory.

    async def _call(self, order: CallFactory) -> None:
        async with self._turn:
            event = await self._called(order)
        del self._calls[order.deployment]
        self._tell(event)

    async def _called(self, order: CallFactory) -> Event:
        deployment = order.deployment
        if self._factory is None:
            return FactoryCalled(deployment, f"ledger.factory: must be set at {self._node}")
        try:
            if not await self._is_used(deployment, self._factory):
                await self._account.transact(self._factory, await self._call_data(order, self._factory))
            return FactoryCalled(deployment)
        except CallReverted as reverted:
            reason = str(reverted)
            return FactoryCalled(deployment, reason) if USED in reason else FactoryRefused(deployment, reason)
        except (TransactionRejected, Unavailable) as trouble:
            return FactoryCalled(deployment, str(trouble))
        except ValueError as error:
            return FactoryCalled(deployment, f"there is no Factory at {self._factory}: {error}")

    async def _call_data(self, order: CallFactory, factory: ContractAddress) -> bytes:
        """Return the call data for the factory. Deploys verifiers that a ledger needs first, if they do not exist."""
        if not order.ledger:
            return deploy_endorsed(order.deployment, order.genesis, order.signers, order.threshold)
        code = self._contracts.ledger_for(order.domain, order.configuration)
        if code is None or code.hash != order.ledger:
            raise Unavailable(f"no domain at {self._node} has a ledger 0x{order.ledger.hex()}")
        for verifier in code.verifiers:
            if not await self._account.has_code(verifier.address):
                await self._account.transact(factory, encode_call("Factory", "place", verifier.code))
        (issuer,) = order.signers
        return deploy_proved(order.deployment, order.genesis, issuer, code.code, code.arguments)

    async def _is_used(self, deployment: IntentId, factory: ContractAddress) -> bool:
        answer = await self._account.read(factory, encode_call("Factory", "ledgerOf", deployment))
        (address,) = decode_result("Factory", "ledgerOf", answer)
        return bool(int(address, 16))


def _be_loud(task: asyncio.Task[None]) -> None:
    """Report an unexpected exception as an internal error."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
