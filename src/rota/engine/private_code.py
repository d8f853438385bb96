"""Runs domains whose users bring code of their own in worker processes (`evm.worker`).

Theory of operation. There are two lanes, each with a process of its own: one for this node's own users, which assembles
and answers calls for them, and one to judge the rounds that peers ask this node to endorse. So rounds of peers keep no
user waiting. In a lane, requesters take turns by the processor time they have used (`work_shares`). A process has a
mirror of the states that the node holds; each order brings the changes.

A request has a budget of gas and time, which the process enforces. Each peer has one too, which is enforced here: as a
requester, and as the sender of transactions that are judged for a requester. (A coordinator chooses how often it has a
transaction judged: it must not use up what its sender may have judged for others.) Work over a budget fails with
`OverBudget`, a system error that ends no intent: the peer asks again, and a transaction that needs too much is judged
in a round of its own. A process that takes far too long for a request ends itself or is killed. The next order starts
another one, and a request that was lost through another one's fault is repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Final, TypeVar, cast

from rota.domains.base import Behind, Lacking, Rejected
from rota.engine.held_states import StateFollower
from rota.engine.recalling import Recalled, ask_elsewhere
from rota.engine.work_shares import ASKERS, SENDERS, Budgets, FairQueue
from rota.evm import worker
from rota.evm.worker import Answered, Change, CodeFailed, Cost, Limits, OverBudget, Update
from rota.host import Checked, Hosted, UserCall
from rota.host.answers import Asked, Assembled
from rota.logs import catalogue
from rota.model.types import Leaf, NodeName, State, StateId, node_of
from rota.ports import Store, Unavailable
from rota.rpc.credentials import CALLER
from rota.sequencer.effects import CheckRound
from rota.workers.processes import Processes, WorkerEnded

# A process that is stuck without using the processor is killed after this.
STUCK_S: Final = 300.0
# This many states are sent to a process at a time when it gets all of a contract.
SENT_AT_ONCE: Final = 1_000
ATTEMPTS_MAX: Final = 3
LIMITS: Final = Limits()

V = TypeVar("V")


class TookTooLong(OverBudget):
    """The process was ended in the middle of a request."""


class _Mirror:
    """The changes of a contract that a process has not yet received, in order; a `Holder` of `held_states`."""

    def __init__(self, hosted: Hosted, lane: _Lane) -> None:
        self._contract: Final = hosted.contract.address
        self._hosted: Hosted | None = hosted.bare()
        self._lane: Final = lane
        self._changes: list[Change] = []
        self._count = 0
        self._life = 0
        self.is_lost = False

    @property
    def is_current(self) -> bool:
        """Whether no process has received anything yet, or the one that did still runs and has not evicted it."""
        return not self.is_lost and (self._hosted is not None or self._life == self._lane.processes.life)

    def change(self, gone: tuple[StateId, ...], held: tuple[State, ...]) -> None:
        """Note that `gone` are removed, then `held` are added."""
        self._note(Change(gone, held))

    def learn(self, states: tuple[State, ...]) -> None:
        """Note states for the domain's memory."""
        self._note(Change(learned=states))

    async def settle(self) -> None:
        """Send the changes noted so far if there are many."""
        if self._count > SENT_AT_ONCE:
            await self._lane.bring_up_to_date(self)

    def take(self, life: int) -> Update:
        """Remove and return the changes not yet sent. The caller gives them to the process `life` at once."""
        if self._hosted is not None:
            self._life = life
        update = Update(self._contract, tuple(self._changes), self._hosted)
        self._hosted, self._changes, self._count = None, [], 0
        return update

    def _note(self, change: Change) -> None:
        if change != Change():
            self._changes.append(change)
            self._count += len(change.gone) + len(change.held) + len(change.learned)


class _Lane:
    """One process, the queue for it, and the mirrors of what it has received."""

    def __init__(self, node: NodeName, store: Store, limits: Limits, stuck_s: float) -> None:
        self.processes: Final = Processes(1, worker.begin, lambda: (node,))
        self.limits: Final = limits
        self.ended_count = 0
        self._store: Final = store
        self._stuck_s: Final = stuck_s
        self._queue: Final = FairQueue()
        self._followed: Final = StateFollower(node, store, lambda hosted: _Mirror(hosted, self))
        self._under_way: Final[set[asyncio.Task[Answered]]] = set()

    async def ask(self, who: Hashable, hosted: Hosted, asked: Asked, used: _Used) -> Answered:
        """Return the answer, with the states that the store can give for it. `Unavailable` when there is none now."""

        async def ask(recalled: Recalled) -> Answered:
            # An order that has begun is finished even if its caller disconnects: the process has received the changes.
            task = asyncio.ensure_future(self._ordered(who, hosted, asked, dict(recalled.known), used))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            answered = await asyncio.shield(task)
            recalled.missed.update(dict.fromkeys(answered.missed))
            return answered

        return await ask_elsewhere(self._store, hosted.contract.address, ask)

    async def bring_up_to_date(self, mirror: _Mirror) -> None:
        """Send the mirror's changes to the process."""
        async with self._queue.turn(mirror) as turn:
            if mirror.is_current:
                began_s = time.monotonic()
                is_known = await self._done(mirror, lambda update: self.processes.order(worker.take, update))
                mirror.is_lost = not is_known
                turn.cpu_s = time.monotonic() - began_s

    async def close(self) -> None:
        """End the process and abandon its work."""
        for task in tuple(self._under_way):
            task.cancel()
        await self.processes.close()

    async def _ordered(
        self, who: Hashable, hosted: Hosted, asked: Asked, recalled: dict[StateId, State], used: _Used
    ) -> Answered:
        """Run one order; repeat it when the process was ended from outside, or has evicted the contract."""
        for _ in range(ATTEMPTS_MAX):
            mirror = await self._followed.of(hosted)
            async with self._queue.turn(who) as turn:
                answered = await self._turn(mirror, asked, recalled) if mirror.is_current else None
                turn.cpu_s = answered.cost.cpu_s if answered is not None else 0.0
            if answered is not None:
                used.add(answered)
                return answered
        raise Unavailable("the process that runs private code has ended again and again")

    async def _turn(self, mirror: _Mirror, asked: Asked, recalled: dict[StateId, State]) -> Answered | None:
        began_s = time.monotonic()
        try:
            answered = await self._done(
                mirror, lambda update: self.processes.order(worker.answer, update, asked, recalled, self.limits)
            )
        except WorkerEnded as ended:
            passed_s = time.monotonic() - began_s
            self.ended_count += 1
            catalogue.PRIVATE_CODE_ENDED.log(after_s=round(passed_s, 1))
            if passed_s < self.limits.killed_after_cpu_s:
                return None
            raise TookTooLong(f"it took more than {self.limits.killed_after_cpu_s} s of the processor") from ended
        mirror.is_lost = answered is None
        return answered

    async def _done(self, mirror: _Mirror, order: Callable[[Update], asyncio.Task[V]]) -> V:
        """Return the process's answer to an order with its update. `WorkerEnded` when it ends or is stuck."""
        try:
            async with asyncio.timeout(self._stuck_s):
                return await order(mirror.take(self.processes.open()))
        except TimeoutError:
            mirror.is_lost = True
            self.processes.replace()
            raise WorkerEnded("the process was stuck") from None
        except WorkerEnded:
            mirror.is_lost = True
            raise


class _Used:
    """The cost of all orders of a request, and of each transition of its round."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.gas = 0
        self.steps: list[Cost] = []

    def add(self, answered: Answered) -> None:
        self.cpu_s += answered.cost.cpu_s
        self.gas += answered.cost.gas
        self.steps.extend(answered.steps)


class PrivateCode:
    """`host.answers.Elsewhere` of one node."""

    def __init__(
        self,
        node: NodeName,
        store: Store,
        limits: Limits = LIMITS,
        clock_s: Callable[[], float] = time.monotonic,
        stuck_s: float = STUCK_S,
    ) -> None:
        self._node: Final = node
        self.own: Final = _Lane(node, store, limits, stuck_s)
        self.peers: Final = _Lane(node, store, limits, stuck_s)
        self._askers: Final = Budgets(ASKERS, clock_s)
        self._senders: Final = Budgets(SENDERS, clock_s)

    @property
    def ended_count(self) -> int:
        """How many processes ended in the middle of an answer."""
        return self.own.ended_count + self.peers.ended_count

    def prepare(self) -> None:
        """Start the process for peers: there is a contract with code, and peers wait only for their timeouts.

        The process for own users is started by their first request: many nodes have none in such a contract.
        """
        self.peers.processes.start()

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(self.own.close(), self.peers.close())

    async def assemble(self, hosted: Hosted, asked: Asked) -> Assembled:
        """Assemble a slot of this node's own parties."""
        contract = hosted.contract.address
        return cast(Assembled, _value(await self.own.ask(contract, hosted, asked, _Used())))

    async def call(self, hosted: Hosted, asked: Asked) -> object:
        """Answer a call of this node's own users. `Rejected` names the field.

        Turns are shared by caller and not by party: a caller that used ever new party names would always be next.
        """
        assert isinstance(asked.question, UserCall), "a question"
        return _value(await self.own.ask(CALLER.get(), hosted, asked, _Used()))

    async def check(self, hosted: Hosted, asked: Asked) -> Checked:
        """Judge a round that a peer asks to endorse. Transitions over a budget are among the failures.

        `OverBudget` when the peer has used up its own budget.
        """
        order = asked.question
        assert isinstance(order, CheckRound), "a round"
        if order.peer != self._node and self._askers.is_over(order.peer):
            raise OverBudget(f"{order.peer} has used up what it may have judged for now")
        over = self._over(order)
        if over:
            return Checked(failures=over)
        used = _Used()
        try:
            return cast(Checked, _value(await self.peers.ask(order.peer, hosted, asked, used)))
        except TookTooLong as error:
            limit_s = self.peers.limits.killed_after_cpu_s
            used.cpu_s += limit_s
            used.steps += [Cost(limit_s / len(order.transitions))] * len(order.transitions)
            # Which of them it was is unknown: each is judged in a round of its own.
            return Checked(failures=tuple((each.leaf, error) for each in order.transitions))
        finally:
            self._charge(order, used)

    def _over(self, order: CheckRound) -> tuple[tuple[Leaf, OverBudget], ...]:
        """Return the transitions whose senders have used up their part of this peer's budget."""
        pairs = zip(order.transitions, map(node_of, order.senders), strict=True)
        return tuple(
            (transition.leaf, OverBudget(f"{sender} has used up what it may have run for now"))
            for transition, sender in pairs
            if sender != self._node and self._senders.is_over((order.peer, sender))
        )

    def _charge(self, order: CheckRound, used: _Used) -> None:
        """Charge the requesting peer for the whole cost, and each sender for its transitions' part of that budget."""
        if order.peer != self._node:
            self._askers.charge(order.peer, used.cpu_s, used.gas)
        # A round that is judged again, with states that it lacked, has its steps again.
        for number, cost in enumerate(used.steps):
            sender = node_of(order.senders[number % len(order.senders)])
            if sender != self._node:
                self._senders.charge((order.peer, sender), cost.cpu_s, cost.gas)


def _value(answered: Answered) -> object:
    """Return the answer, or raise the error that the process reported in its place."""
    if answered.rejected is not None:
        raise Rejected(*answered.rejected)
    if answered.lacking is not None:
        raise Lacking(answered.lacking)
    if answered.behind is not None:
        raise Behind(answered.behind)
    if answered.over_budget is not None:
        raise OverBudget(answered.over_budget)
    if answered.failed is not None:
        raise CodeFailed(answered.failed)
    return answered.answer
