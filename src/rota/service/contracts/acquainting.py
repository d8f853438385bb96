"""Contracts that this node learns of from peers, and the contracts that it tells peers of (decision 32).

The core decides which peers to ask and to answer; this module checks a peer's genesis against the chain and adds the
contract as an operator would (`seq_addContract`). A claim that the chain does not confirm is false; a contract that the
chain confirms and this node cannot have, because its domain is not loaded or its own key differs, is only refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from rota.directory.acquaintance_events import AcquisitionEnded, ContractsListed, ContractsSifted, GenesisFound
from rota.directory.effects import AcquireContract, FindGenesis, ListContracts, SiftContracts
from rota.engine.contracts import ContractRefused, KnownContracts
from rota.ledger.deployments import FoundDeployment
from rota.logs import catalogue
from rota.logs.trouble import PeerLines
from rota.model.genesis import genesis_hash
from rota.model.types import ContractAddress, IntentId, KnownContract, NodeName, RequestId
from rota.ports import Background, Signer, Tell, Unavailable
from rota.wire.messages import CONTRACTS_LISTED_MAX, Verdict

FindDeployment = Callable[[IntentId], Awaitable[FoundDeployment | None]]
FindContract = Callable[[ContractAddress], Awaitable[KnownContract | None]]
TakeIn = Callable[[KnownContract], Awaitable[None]]
AcquaintanceEffect = ListContracts | SiftContracts | FindGenesis | AcquireContract

# The core asks for a bounded number at a time; orders that it has given up may still wait for the chain here.
ACQUIRING_MAX: Final = 128
# Each is up to 1 MiB. Further ones are dropped, and asked for again.
GIVING_MAX: Final = 8


class Acquainting:
    """The acquisitions of one node. One contract is looked up at a time, so many contracts of one peer wait in line."""

    def __init__(
        self,
        contracts: KnownContracts,
        signer: Signer,
        find_deployment: FindDeployment,
        find_contract: FindContract,
        tell: Tell,
    ) -> None:
        self._contracts: Final = contracts
        self._signer: Final = signer
        self._find_deployment: Final = find_deployment
        self._find_contract: Final = find_contract
        self._tell: Final = tell
        self._turn: Final = asyncio.Lock()
        self._lines: Final = PeerLines()
        self._tasks: Final = Background("acquisition of contracts")
        self._giving: Final = Background("geneses for peers")

    def perform(self, order: AcquaintanceEffect, take_in: TakeIn) -> None:
        """Perform an order: answer at once from memory; read chain and store in background tasks."""
        match order:
            case ListContracts(peer, request_id, after):
                found = self._contracts.open_to(peer, after, CONTRACTS_LISTED_MAX)
                self._tell(ContractsListed(peer, request_id, found))
            case SiftContracts(peer, contracts):
                lacking = tuple(each for each in contracts if self._contracts.known(each) is None)
                self._tell(ContractsSifted(peer, lacking))
            case FindGenesis(contract, peer, request_id):
                if self._contracts.known(contract) is not None and len(self._giving) < GIVING_MAX:
                    self._giving.begin(self._give(contract, peer, request_id))
            case AcquireContract(contract, peer) if len(self._tasks) >= ACQUIRING_MAX:
                self._tell(AcquisitionEnded(contract, peer, Verdict.BUSY))
            case AcquireContract():
                self._tasks.begin(self._acquire(order, take_in))

    async def close(self) -> None:
        """Cancel open work; it is requested again."""
        await self._tasks.close()
        await self._giving.close()

    async def _give(self, contract: ContractAddress, peer: NodeName, request_id: RequestId) -> None:
        """Send the genesis from the store."""
        with suppress(Unavailable):
            known = await self._find_contract(contract)
            if known is not None:
                self._tell(GenesisFound(peer, request_id, known))

    async def _acquire(self, order: AcquireContract, take_in: TakeIn) -> None:
        verdict, is_false, reason = Verdict.ACCEPTED, False, ""
        unconsented: tuple[IntentId, bytes] | None = None
        try:
            async with self._turn:
                if self._contracts.known(order.contract) is None:
                    verified = await self._verified(order)
                    if order.has_consent:
                        await take_in(verified)
                    else:
                        verdict, reason = Verdict.REFUSED, "it names this node, whose operator has not agreed to it"
                        unconsented = (order.deployment, order.genesis)
        except _False as lie:
            verdict, is_false, reason = Verdict.REFUSED, True, str(lie)
        except ContractRefused as flaw:
            verdict, reason = Verdict.REFUSED, str(flaw)
        except Unavailable as trouble:
            verdict, reason = Verdict.BUSY, str(trouble)
        if reason and self._lines.is_due(order.peer):
            catalogue.CONTRACT_REFUSED.log(contract=order.contract, peer=order.peer, reason=reason)
        self._tell(AcquisitionEnded(order.contract, order.peer, verdict, is_false, *(unconsented or ())))

    async def _verified(self, order: AcquireContract) -> KnownContract:
        """Return the contract as the factory deployed it. `_False` if address or genesis hash differ on the chain."""
        found = await self._find_deployment(order.deployment)
        if found is None or found.deployment.contract != order.contract:
            raise _False(f"deployment: {order.deployment.hex()} has not deployed {order.contract}")
        if genesis_hash(order.genesis) != found.deployment.genesis:
            raise _False(f"genesis: its hash must be 0x{found.deployment.genesis.hex()}, which stands on the chain")
        self._contracts.require_room(order.peer, order.genesis)
        known = self._contracts.judge(order.genesis, found.deployment, self._signer)
        self._contracts.consider(order.genesis, order.deployment, known.signers, self._signer)
        return replace(known, deployed_at=found.height).told_by(order.peer)


class _False(Exception):
    """The chain contradicts the peer."""
