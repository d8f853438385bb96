"""A real network on this machine: its coordinator is killed, and the other nodes continue.

    start       a chain and the nodes, each a process of its own, as `rota node` runs it
    stage       a privacy group with an ERC-20 in it, a notary token, epochs that any node may begin (`staging`)
    workload    every node's user transfers both, at a rate, for a time, and many at once at the end; in the middle
                  a command is submitted, and the node that coordinates the group is killed with `kill -9`;
                  another takes over, the same command is submitted again, the killed node comes back
    audit       every accepted request is compared with the chain, every balance with the book (`reckoning`)

The view has the `Show`; `performed` keeps everything running until its caller leaves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from rota.client import ClientError, Verdict
from rota.demo.payroll import Rent, RentUnpaid, rent_of
from rota.demo.programme import Asset, Programme
from rota.demo.reckoning import Reckoning, attempts_of
from rota.demo.serving import connected, ports_from, require_free
from rota.demo.show import BurstTold, Show, TakeOver
from rota.demo.staging import AUTOMATION, EPOCHS, Staged, deploy_epochs, stage, trigger_table
from rota.demo.watching import watch
from rota.ledger.client import place_of
from rota.ledger.hexadecimal import read_quantity
from rota.localnet.chain_book import ChainBook
from rota.localnet.chains import RunningChain
from rota.localnet.local import LocalNetwork, Plan
from rota.localnet.workload import Promise, Request, Workload
from rota.model.types import ContractAddress, IntentId, NodeName
from rota.server.dashboard import PATH as DASHBOARD_PATH

LOOK_S: Final = 0.02
TAKE_OVER_TIMEOUT_S: Final = 90.0
END_TIMEOUT_S: Final = 90.0
TRIGGERS_TIMEOUT_S: Final = 30.0
AUDITS_MAX: Final = 100
AUDIT_PAUSE_S: Final = 0.2
# The kill comes after a third of the time, the restart of the killed node not before two thirds.
THIRDS: Final = 3

Found = TypeVar("Found")


@asynccontextmanager
async def performed(
    home: Path, programme: Programme, show: Show, refresh: Callable[[], None]
) -> AsyncIterator[Reckoning]:
    """Run the whole demonstration; the nodes run until the caller leaves. The audit can be repeated.

    `PortInUse` and `CannotStartProcess` when it cannot begin, `TimeoutError` when nothing is confirmed any more.
    """
    ports = ports_from(programme.first_port, programme.names)
    require_free(ports)
    epochs: list[ContractAddress] = []

    async def tables(network: LocalNetwork) -> str:
        epochs.append(await deploy_epochs(network))
        return trigger_table(epochs[0])

    which = f"on {place_of(programme.chain.url)}" if isinstance(programme.chain, RunningChain) else "and a chain"
    show.happen(f"{programme.node_count} nodes {which} are started")
    plan = Plan(
        home=home, names=programme.names, chain=programme.chain, rpc_ports=ports, settings=AUTOMATION, tables=tables
    )
    began_s = time.monotonic()
    async with LocalNetwork(plan) as network:
        await network.start(*programme.names)
        show.pids = network.pids
        for name, node in network.nodes.items():
            show.dashboards[name] = f"{node.client.url}{DASHBOARD_PATH}"
        for process, pid in show.pids.items():
            dashboard = show.dashboards.get(NodeName(process))
            show.happen(f"{process} is process {pid}" + (f", {dashboard}" if dashboard else ""))
        await connected(network)
        show.phases_s["start"] = round(time.monotonic() - began_s, 2)
        show.phase = "the stage is set"
        with show.timed("stage"):
            staged = await stage(network, programme, show, epochs[0])
        show.contracts = dict(staged.contracts)
        reckoning = await _Play(network, programme, staged, show, refresh).run(home)
        refresh()
        yield reckoning


@dataclass(frozen=True, slots=True)
class _Play:
    """The part from the first transfer to the audit."""

    network: LocalNetwork
    programme: Programme
    staged: Staged
    show: Show
    refresh: Callable[[], None]

    async def run(self, home: Path) -> Reckoning:
        from_height = 1 + read_quantity(await self.network.ledger.call("eth_blockNumber"))
        group = self.staged.contracts[Asset.ERC20]
        workload = Workload(self.network, group, "", self.programme.interval_ms, self._choose)
        reckoning = Reckoning(self.network, self.programme, self.staged, workload, from_height)
        async with workload:
            watching = watch(self.show, self.network, self.staged, workload, from_height, self.refresh)
            await _beside(watching, self._perform(workload, reckoning, home))
        return reckoning

    def _choose(self, number: int, name: NodeName) -> Request:
        return self.staged.request(self.programme.transfer(number, name))

    async def _perform(self, workload: Workload, reckoning: Reckoning, home: Path) -> None:
        show, seconds = self.show, self.programme.seconds
        with show.timed("workload"):
            began_s = time.monotonic()
            show.phase = "everybody at work"
            await self._until_confirmed(workload, self.programme.names)
            await _until_s(began_s + seconds / THIRDS)
            await self._kill_and_return(workload, home, began_s + 2 * seconds / THIRDS)
            show.phase = "everybody at work again"
            await _until_s(began_s + seconds)
        with show.timed("end"):
            show.phase = "the last transfers end"
            await workload.end()
            left = await workload.until_final(END_TIMEOUT_S)
            if self.programme.burst and not left:
                left = await self._burst(workload)
            show.count(workload)
            show.happen(
                f"{len(workload.promises) - len(left)} of {len(workload.promises)} transfers have their receipts"
            )
            await self._rest_triggers()
        with show.timed("audit"):
            show.phase = "everything is held against the chain"
            await self._audit(reckoning)
        if self.programme.stays:
            for node in self.network.nodes.values():
                await node.client.triggers.resume(EPOCHS)

    async def _burst(self, workload: Workload) -> Mapping[IntentId, Promise]:
        """Submit many transfers at once, which share rounds; record their cost for comparison with single ones."""
        show, amount = self.show, self.programme.burst
        show.phase = f"{amount} transfers at once"
        contracts = tuple(self.staged.contracts.values())
        before = show.last_lone_height = read_quantity(await self.network.ledger.call("eth_blockNumber"))
        workload.burst(amount)
        left = await workload.until_final(END_TIMEOUT_S)
        book = ChainBook(self.network.ledger, self.network.chain_id, contracts, before + 1)
        await book.read_on()
        await book.read_gas()
        for asset, contract in self.staged.contracts.items():
            gas = book.gas_per_transaction((contract,))
            rounds = [count for (_, of), count in book.transactions.items() if of == contract]
            if gas is not None:
                show.figures[asset].burst = BurstTold(sum(rounds), len(rounds), gas)
        show.happen(f"{amount} transfers were asked for at once, and took {book.rounds} transactions on the chain")
        return left

    # The kill.

    async def _kill_and_return(self, workload: Workload, home: Path, return_s: float) -> None:
        show = self.show
        victim = await self._coordinator()
        payer = next(name for name in reversed(self.programme.names) if name != victim)
        rent = self._rent(payer, home)
        client = self.network.nodes[payer].client
        first = asyncio.create_task(rent.submit(client, 1))
        try:
            show.happen(f"a command at {payer}, {rent.change!r}, is submitted")
            stood_ms = await self._kill(workload, victim)
            second = await rent.submit(client, 2)
            verdicts = (await first, second)
            await self._told(rent, payer, verdicts)
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        await _until_s(return_s)
        followed = show.coordinators[-1]
        caught_up_ms = await self._return(workload, victim)
        show.take_overs.append(TakeOver(victim, followed if followed != victim else None, stood_ms, caught_up_ms))

    async def _coordinator(self) -> NodeName:
        """The coordinator of the group, as soon as exactly one node reports itself as such."""
        async with asyncio.timeout(TAKE_OVER_TIMEOUT_S):
            while (found := self.show.coordinator_of(Asset.ERC20)) is None:
                await asyncio.sleep(LOOK_S)
        return found

    def _rent(self, payer: NodeName, home: Path) -> Rent:
        party = self.programme.members[payer]
        transfer = rent_of(party, self.staged.landlord)
        transaction = {
            "type": "private",
            "from": party,
            "to": self.staged.contracts[Asset.ERC20],
            "function": "invoke",
            "data": self.staged.invocation(transfer),
        }
        return Rent(party, transaction, home)

    async def _kill(self, workload: Workload, victim: NodeName) -> int:
        show, node = self.show, self.network.nodes[victim]
        show.phase = f"{victim} is gone"
        show.happen(f"kill -9 of {victim}, which coordinates the group (process {node.child.pid})", is_fault=True)
        killed_s = time.monotonic()
        await node.kill()
        show.pids = self.network.pids
        others = tuple(name for name in self.programme.names if name != victim)
        async with asyncio.timeout(TAKE_OVER_TIMEOUT_S):
            await self._until_confirmed(workload, others, killed_s, self.staged.contracts[Asset.ERC20])
        stood_ms = int((time.monotonic() - killed_s) * 1_000)
        show.happen(f"the group goes on, {stood_ms} ms after the kill")
        return stood_ms

    async def _told(self, rent: Rent, payer: NodeName, verdicts: tuple[Verdict, ...]) -> None:
        try:
            told = self.show.command = await rent.told(self.network.nodes[payer].client, verdicts)
        except RentUnpaid as error:
            self.show.happen(str(error), is_fault=True)
            return
        times, offset = told.submissions, told.completion_offset
        self.show.happen(f"{told.change!r} was submitted {times} times and happened once, at offset {offset}")

    async def _return(self, workload: Workload, victim: NodeName) -> int:
        """Start the node again; returns the time until a transfer of its own is confirmed."""
        show, node = self.show, self.network.nodes[victim]
        show.phase = f"{victim} comes back"
        back_s = time.monotonic()
        await self.network.start(victim)
        show.pids = self.network.pids
        show.happen(f"{victim} is back as process {node.child.pid}")
        async with asyncio.timeout(TAKE_OVER_TIMEOUT_S):
            await self._until_confirmed(workload, (victim,), back_s)
        caught_up_ms = int((time.monotonic() - back_s) * 1_000)
        show.happen(f"{victim} has caught up, {caught_up_ms} ms after its start")
        return caught_up_ms

    async def _until_confirmed(
        self,
        workload: Workload,
        names: tuple[NodeName, ...],
        since_s: float = 0.0,
        contract: ContractAddress | None = None,
    ) -> None:
        """Wait until a transfer of one of these nodes, sent since then, is confirmed; of this contract, if given."""
        async with asyncio.timeout(TAKE_OVER_TIMEOUT_S):
            while True:
                later = [
                    intent
                    for intent, promise in workload.promises.items()
                    if promise.asked_s >= since_s
                    and promise.node in names
                    and contract in (None, promise.request.contract)
                ]
                await workload.look(later)
                if any(intent in workload.receipts and workload.receipts[intent].success for intent in later):
                    return
                await asyncio.sleep(LOOK_S)

    # End.

    async def _rest_triggers(self) -> None:
        """Pause the triggers, so that no epoch begins during the count; wait for attempts under way."""
        for name, node in self.network.nodes.items():
            await node.client.triggers.pause(EPOCHS)
            with suppress(TimeoutError):
                async with asyncio.timeout(TRIGGERS_TIMEOUT_S):
                    while (await attempts_of(self.network, name))[1]:
                        await asyncio.sleep(LOOK_S)

    async def _audit(self, reckoning: Reckoning) -> None:
        """Audit until there are no problems: a node may be a block behind for a moment."""
        show = self.show
        for _ in range(AUDITS_MAX):
            with suppress(ClientError):
                for name in self.programme.names:
                    show.attempts[name], _ = await attempts_of(self.network, name)
            show.audited = await reckoning.audit(show)
            if not show.audited.problems:
                break
            await asyncio.sleep(AUDIT_PAUSE_S)


async def _beside(watching: Coroutine[None, None, None], work: Coroutine[None, None, Found]) -> Found:
    """The work's result; the watching is cancelled with it, and must not end earlier."""
    tasks = (asyncio.create_task(watching), asyncio.create_task(work))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[1] not in done:
            tasks[0].result()
        return await tasks[1]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_s(moment_s: float) -> None:
    await asyncio.sleep(max(0.0, moment_s - time.monotonic()))
