"""The chain side of a node: performs the core's orders, and reports the chain's events to it.

One fetch is in progress at a time. The core repeats an unanswered order, often with another end, since the chain has
grown meanwhile: the fetch in progress continues, or a slow node would never finish. The latest order is kept, and
started when the one in progress yields nothing. Each transaction is sent by one task; further orders to send it
meanwhile have no effect. So whatever the core repeats, there are no more tasks than it has open dispatches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

from rota.chain.effects import FetchBlocks, SeeAccount, SignDispatch, SubmitTransaction
from rota.ledger.client import RpcClient
from rota.ledger.consistency import Patience
from rota.ledger.follower import Follower, FollowerLimits, KeepCommitments, keep_nothing
from rota.ledger.own_nonces import OwnNonces
from rota.ledger.submission import FindMakers, KeyOf, Submission, nobody_makes
from rota.model.blocks import ChainBlock
from rota.model.types import SHARED_ACCOUNT, BlockHash, ContractAddress
from rota.ports import Contracts, LedgerEffect, Signer, Tell, Unavailable


class LedgerDriver:
    """Any Ethereum chain as `ports.Ledger`."""

    def __init__(
        self,
        client: RpcClient,
        *,
        chain_id: int,
        contracts: Contracts,
        signer: Signer,
        key_of: KeyOf,
        index_window_max: int,
        tell: Tell,
        limits: FollowerLimits | None = None,
        patience: Patience | None = None,
        factory: ContractAddress | None = None,
        find_makers: FindMakers = nobody_makes,
        keep_commitments: KeepCommitments = keep_nothing,
    ) -> None:
        self._client: Final = client
        self._tell: Final = tell
        patience = patience or Patience()
        own = OwnNonces(client, index_window_max, patience)
        self._follower: Final = Follower(
            client, chain_id, contracts, own, tell, limits, patience, factory, keep_commitments
        )
        self._submission: Final = Submission(client, chain_id, contracts, signer, key_of, own, find_makers)
        self._account_trouble = ""
        self._fetching: asyncio.Task[None] | None = None
        self._next_fetch: FetchBlocks | None = None
        self._sending: Final[dict[bytes, asyncio.Task[None]]] = {}
        self._signing: Final[set[asyncio.Task[None]]] = set()

    async def run(self) -> None:
        """Report the shared account once, and follow the chain until cancelled; then cancel all tasks."""
        try:
            await self._see_account(SHARED_ACCOUNT)
            await self._follower.run()
        finally:
            await self._stop()

    def perform(self, effect: LedgerEffect) -> None:
        """Start to perform an order."""
        match effect:
            case FetchBlocks():
                self._begin_fetch(effect)
            case SignDispatch():
                self._begin(self._sign(effect))
            case SeeAccount():
                self._begin(self._see(effect))
            case SubmitTransaction():
                self._begin_to_send(effect)

    async def rounds_of(self, contract: ContractAddress, first: int, last: int) -> tuple[ChainBlock, ...]:
        """Return the outcomes of a range of final blocks for one contract.

        `Unavailable` when the chain does not answer.
        """
        return await self._follower.rounds_of(contract, first, last)

    def expect_genesis(self, genesis: BlockHash | None) -> None:
        """Follow no chain with another block 0."""
        self._follower.genesis = genesis

    @property
    def trouble(self) -> str:
        """The error that keeps the chain from being read; empty if there is none."""
        return self._client.trouble or self._account_trouble or self._follower.trouble

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._signing.add(task)
        task.add_done_callback(self._signing.discard)
        task.add_done_callback(_be_loud)

    async def _see_account(self, account: ContractAddress) -> None:
        """Report the account before anything is signed, or a used nonce could be taken; retry until it succeeds."""
        while not await self._has_seen(account):
            await self._follower.pause()

    async def _see(self, order: SeeAccount) -> None:
        """Report the account once; the core repeats an unanswered order."""
        with suppress(Unavailable):
            await self._has_seen(order.account)

    async def _has_seen(self, account: ContractAddress) -> bool:
        try:
            seen = await self._submission.see_account(account)
        except ValueError as error:
            whose = f"the account of {account}" if account else "the submitter"
            self._account_trouble = f"the Ethereum node at {self._client.place} tells of {whose}: {error}"
            return False
        self._account_trouble = ""
        self._tell(seen)
        return True

    def _begin_fetch(self, order: FetchBlocks) -> None:
        if self._fetching is not None:
            self._next_fetch = order
            return
        self._fetching = asyncio.create_task(self._fetch(order))
        self._fetching.add_done_callback(_be_loud)

    def _begin_to_send(self, order: SubmitTransaction) -> None:
        self._submission.note(order)
        key = order.dispatch.hash
        if key in self._sending:
            return
        task = self._sending[key] = asyncio.create_task(self._send(order))
        task.add_done_callback(_be_loud)

    # A task is no longer registered when its result is reported, since the core may give the next order at once.

    async def _fetch(self, order: FetchBlocks) -> None:
        fetched = await self._follower.fetch(order.first, order.last, order.awaited)
        following, self._next_fetch = self._next_fetch, None
        self._fetching = None
        if fetched is not None:
            self._tell(fetched)
        elif following is not None:
            self._begin_fetch(following)

    async def _sign(self, order: SignDispatch) -> None:
        self._tell(await self._submission.sign(order))

    async def _send(self, order: SubmitTransaction) -> None:
        try:
            answer = await self._submission.send(order)
        except Unavailable:
            return
        finally:
            del self._sending[order.dispatch.hash]
        self._tell(answer)

    async def _stop(self) -> None:
        tasks: list[asyncio.Task[None]] = [*self._sending.values(), *self._signing]
        if self._fetching is not None:
            tasks.append(self._fetching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _be_loud(task: asyncio.Task[None]) -> None:
    """Raise an unexpected exception of a task: it is a bug."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
