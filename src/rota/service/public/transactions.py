"""Users' transactions on the base ledger: performs the decisions of `chain.public_transaction`.

Theory of operation. All open transactions are in memory, as the store has them; each change is written before it takes
effect. One task runs in rounds while transactions are open: it reads the chain, ends those that are final, assigns
nonces to those that can be sent, writes that, sends them, and resends lost ones. A round that fails because store or
chain is away is repeated. After a restart the rounds continue from the store.

If the database was wound back, the store may lack transactions that were sent. Then the store has set aside the open
ones, or the chain knows nonces of an account that the store does not, and this module sets its transactions aside:
nothing is signed or sent for them, and later ones of the account wait, until an operator has decided about each.

The chain may take back final blocks (`blocks_lost`). Transactions that had ended in them, or with nonces that the chain
no longer has, are open again. They are resent with the nonces that they have; one whose nonce another transaction
has used since is set aside.

Transactions of one account get their nonces in the order of their acceptance; several are under way at a time. One
that would revert now waits while earlier ones of its account are not in a block: it may depend on their effects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from rota.abi.codec import Entry
from rota.chain.events import Objection
from rota.chain.public_transaction import (
    CANCELLED,
    DROPPED,
    DROPPED_LOST,
    NONCE_FORGOTTEN,
    NONCE_GONE,
    NONCE_LOST,
    NONCE_TAKEN,
    UPDATE_LATE,
    Ending,
    Mined,
    PublicTransaction,
    State,
    Verdict,
    cost_max_wei,
    ending_of,
    failed_dependency,
    fees_for,
    gas_for,
    is_repricing_due,
    is_taken_for_good,
    is_update_unsigned,
    next_nonce,
    verdict_of,
    version_to_send,
)
from rota.engine.accepting import RETRY_S, answered, settled
from rota.keys.names import party_key
from rota.ledger.public_chain import ChainLook, PublicChain, Refusal, Reverted, look_of
from rota.logs import catalogue
from rota.model.awaited import dependency_name
from rota.model.types import ContractAddress, Fees, IntentId
from rota.ports import AbiStore, Ask, PublicStore, StoredSubmission, Unavailable
from rota.service.public.costs import PublicCosts, can_pay
from rota.service.public.held import Activity, Held, PublicLimits, as_in, as_mined

OPEN_MAX: Final = 10_000
IN_FLIGHT_PER_ACCOUNT_MAX: Final = 64
# The number of refusals after which a transaction that the chain never accepted is given up.
REFUSALS_MAX: Final = 20
BEGIN_TIMEOUT_S: Final = 5.0
ACCOUNTS_A_LOOK: Final = 50


class PublicTransactions:
    """The public transactions of one node. `ended` is called with each one that has ended, once that is durable."""

    def __init__(
        self,
        chain: PublicChain,
        store: PublicStore,
        abis: AbiStore,
        confirmations: int,
        clock: Callable[[], int],
        limits: PublicLimits | None = None,
        ended: Callable[[PublicTransaction], None] = lambda _: None,
    ) -> None:
        self._chain: Final = chain
        self._store: Final = store
        self._costs: Final = PublicCosts(chain, abis)
        self.confirmations = confirmations
        self._clock: Final = clock
        self._limits: Final = limits or PublicLimits()
        self._ended: Final = ended
        self._held: Final[dict[IntentId, Held]] = {}
        # The open transactions of the previous run by account, until they were compared with the chain.
        self._uncompared: Final[dict[ContractAddress, set[IntentId]]] = {}
        self._begun: Final = asyncio.Event()
        self._wake: Final = asyncio.Event()
        self._changed_at_ms = 0
        self._accepting: Final[set[IntentId]] = set()
        self._has_lost_blocks = False
        self.trouble = ""

    # Users.

    async def accept(
        self, submission: StoredSubmission, transaction: PublicTransaction, abi: Sequence[Entry]
    ) -> PublicTransaction:
        """Store and hold a transaction. `Unavailable` if it was not accepted; the caller must be a task of its own."""
        await self._until_begun()
        if len(self._held) + len(self._accepting) >= OPEN_MAX:
            raise Unavailable(f"{OPEN_MAX} public transactions are under way; try again later")
        self._accepting.add(transaction.id)
        try:
            await settled(lambda: self._store.accept(submission, transaction, abi))
            accepted = await answered(lambda: self._store.get(transaction.id))
            assert accepted is not None, "it was just written"
        finally:
            self._accepting.discard(transaction.id)
        self._hold(accepted)
        self._hurry()
        return accepted

    async def _until_begun(self) -> None:
        """Wait until the previous run's transactions are read: a new one read with them would be held twice."""
        try:
            async with asyncio.timeout(BEGIN_TIMEOUT_S):
                await self._begun.wait()
        except TimeoutError:
            raise Unavailable("earlier public transactions are not loaded yet; try again") from None

    def blocks_lost(self) -> None:
        """The chain took back final blocks, as the store knows: reopen the transactions that ended in them."""
        self._has_lost_blocks = True
        self._hurry()

    def held(self, intent: IntentId) -> Held | None:
        """Return an open transaction, or None."""
        return self._held.get(intent)

    async def give_up(self, intent: IntentId) -> bool:
        """Cancel a transaction durably; returns False when it is not under way."""
        return await self._change(intent, lambda each: replace(each, given_up=each.given_up or CANCELLED))

    async def update(self, changed: PublicTransaction, asked: StoredSubmission, abi: Sequence[Entry] = ()) -> str:
        """Replace its request, under the same nonce if it has one; returns the reason if that is impossible.

        An earlier version may be mined first: then that one counts, and the update was too late (`late_updates`). The
        request and the transaction to be sent are one write.
        """
        held = self._held.get(changed.id)
        if held is None:
            return "it has ended"
        async with held.updating:
            before = await self._store.submission(changed.id)
            assert before is not None, "both were written together"
            if flaw := held.unchangeable:
                return flaw
            now = held.transaction
            held.transaction = replace(
                now,
                to=changed.to,
                data=changed.data,
                value_wei=changed.value_wei,
                wish=changed.wish,
                updates=now.updates + 1,
                asked=now.updates + 1,
            )
            held.ask = Ask(before.changed(asked, self._clock()), tuple(abi))
            await self._until_saved(held)
        return ""

    async def _change(self, intent: IntentId, change: Callable[[PublicTransaction], PublicTransaction]) -> bool:
        held = self._held.get(intent)
        if held is None or held.transaction.ending is not None:
            return False
        held.transaction = change(held.transaction)
        await self._until_saved(held)
        return True

    async def _until_saved(self, held: Held) -> None:
        """Write a change until it is durable: it is in effect in memory already and cannot be refused any more."""
        held.is_saved = False
        self._hurry()
        while not held.is_saved:
            try:
                await self._save((held,))
            except Unavailable as trouble:
                self._note_trouble(str(trouble))
                await asyncio.sleep(RETRY_S)
        self._hurry()

    # Operators.

    def open(self) -> tuple[Held, ...]:
        """Return the open transactions, from memory."""
        return tuple(self._held.values())

    async def release(self, intent: IntentId) -> bool:
        """Continue with one that has not happened, as an operator decided. False when it is not set aside."""
        return await self._decide(intent, "released by an operator", "")

    async def drop(self, intent: IntentId) -> bool:
        """End one; if it has a nonce, an empty transaction uses it. False when it is not set aside."""
        return await self._decide(intent, "dropped by an operator", DROPPED)

    async def _decide(self, intent: IntentId, text: str, given_up: str) -> bool:
        held = self._held.get(intent)
        if held is None or not held.is_aside:
            return False
        if held.transaction.set_aside in NONCE_GONE and not await self._is_in_a_block(held):
            return await self._decide_without_nonce(held, text, is_dropped=bool(given_up))
        self._turn(held, State.SIGNED if held.has_nonce else State.WAITING, text)
        held.waits_for = ""
        return await self._change(intent, lambda each: replace(each, set_aside="", given_up=each.given_up or given_up))

    async def _is_in_a_block(self, held: Held) -> bool:
        """Whether a block has one of its versions again. `Unavailable` when that cannot be read."""
        return bool(await self._chain.receipts([each.hash for each in held.transaction.versions]))

    async def _decide_without_nonce(self, held: Held, text: str, *, is_dropped: bool) -> bool:
        """Decide about one of which no version can be mined any more: end it, or sign it again with the next nonce.

        Returns False when another operator was faster.
        """
        if held.transaction.set_aside not in NONCE_GONE or held.transaction.ending is not None:
            return False
        if is_dropped:
            was_lost = held.transaction.set_aside == NONCE_LOST
            self._end(held, Ending(False, self._clock(), DROPPED_LOST if was_lost else DROPPED))
        else:
            self._turn(held, State.WAITING, text)
            held.transaction = replace(held.transaction, set_aside="", nonce=None, versions=())
            # The chain now knows one nonce more than the store, and this transaction was decided about.
            self._uncompared.get(held.transaction.account, set()).discard(held.transaction.id)
        held.waits_for = ""
        await self._until_saved(held)
        return True

    # The run.

    async def run(self) -> None:
        """Run until cancelled."""
        while not await self._restored():
            await asyncio.sleep(self._limits.look_later_ms / 1_000)
        while True:
            try:
                await self._round()
                self.trouble = ""
            except (Unavailable, ValueError) as trouble:
                self._note_trouble(str(trouble))
            await self._pause()

    async def _restored(self) -> bool:
        try:
            stored = await self._store.open()
        except Unavailable as trouble:
            self._note_trouble(str(trouble))
            return False
        for transaction in stored:
            self._hold(transaction)
            self._held[transaction.id].is_restored = True
            self._uncompared.setdefault(transaction.account, set()).add(transaction.id)
            # The previous run may have ended before it had recalled all.
            self._has_lost_blocks |= transaction.was_final
        self._tell_of_those_set_aside()
        self._begun.set()
        return True

    def _tell_of_those_set_aside(self) -> None:
        if aside := [each for each in self._held.values() if each.is_aside]:
            catalogue.PUBLIC_SET_ASIDE.log(transactions=len(aside), reason=aside[-1].transaction.set_aside)

    def _note_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            catalogue.PUBLIC_POSTPONED.log(reason=trouble)
        self.trouble = trouble

    async def _pause(self) -> None:
        """Wait until the next round is due; without end while nothing is open."""
        is_hurried = self._clock() - self._changed_at_ms < self._limits.hurry_ms
        pause_ms = self._limits.look_ms if is_hurried else self._limits.look_later_ms
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_ms / 1_000 if self._held or self._has_lost_blocks else None):
                await self._wake.wait()
        self._wake.clear()

    def _hurry(self) -> None:
        self._changed_at_ms = self._clock()
        self._wake.set()

    def _hold(self, transaction: PublicTransaction) -> None:
        state = State.WAITING if transaction.nonce is None else State.SIGNED
        held = Held(transaction, State.SET_ASIDE if transaction.set_aside else state, self._clock())
        held.history.append(Activity(transaction.created_at_ms, "accepted"))
        for version in transaction.versions:
            held.history.append(Activity(version.signed_at_ms, f"signed with nonce {transaction.nonce}"))
        assert transaction.id not in self._held, "one transaction is held once, or it is sent twice"
        self._held[transaction.id] = held

    # A round.

    async def _recall(self) -> None:
        """Reopen transactions that have not ended after all: the store finds them by the blocks and nonces lost."""
        accounts = await self._store.accounts()
        for first in range(0, len(accounts), ACCOUNTS_A_LOOK):
            chain = await self._chain.stand(accounts[first : first + ACCOUNTS_A_LOOK])
            for account, look in chain.accounts.items():
                if await self._store.next_nonce(account) > look.used:
                    await self._store.reopen(account, look.used)
        for transaction in await self._store.open():
            # One that is being accepted is held by `accept` itself.
            if transaction.id not in self._held and transaction.id not in self._accepting:
                self._hold(transaction)
                catalogue.PUBLIC_SENT_AGAIN.log(transaction=transaction.id)
        self._has_lost_blocks = False

    async def _round(self) -> None:
        if self._has_lost_blocks:
            await self._recall()
        every = sorted(self._held.values(), key=lambda each: each.transaction.number)
        if not every:
            return
        accounts = tuple(dict.fromkeys(each.transaction.account for each in every))
        chain = await self._chain.stand(accounts)
        for account in accounts:
            own = [each for each in every if each.transaction.account == account]
            await self._compare(account, own, chain)
            await self._judge(account, [each for each in own if each.has_nonce], chain)
            await self._begin(account, own, chain)
            for held in own:
                await self._sign_anew(held, chain)
        await self._save([each for each in every if not each.is_saved])
        self._let_go(every)
        due = [each for each in every if self._is_sending_due(each)]
        await asyncio.gather(*(self._send(each) for each in due))
        if due:
            # A chain that mines at once has them by now.
            self._wake.set()

    async def _compare(self, account: ContractAddress, own: Sequence[Held], chain: ChainLook) -> None:
        """Set restored ones aside if the chain has more nonces than the store: they may have been sent."""
        restored = self._uncompared.get(account)
        if restored is None:
            return
        book, used = await self._store.next_nonce(account), chain.accounts[account].used_and_waiting
        if used > book:
            reason = f"the chain has {used} transactions of {account}, and the database of this node knows of {book}"
            doubtful = [each for each in own if each.transaction.id in restored and not each.is_aside]
            for held in doubtful:
                held.transaction = replace(held.transaction, set_aside=reason)
                self._turn(held, State.SET_ASIDE, f"set aside: {reason}")
            await self._save(doubtful)
            self._tell_of_those_set_aside()
        del self._uncompared[account]

    async def _judge(self, account: ContractAddress, sent: Sequence[Held], chain: ChainLook) -> None:
        """Judge sent transactions by the chain's blocks."""
        used = chain.accounts[account].used
        passed = [each for each in sent if each.transaction.nonce is not None and each.transaction.nonce < used]
        if not passed:
            for held in sent:
                self._unseen(held)
            return
        hashes = [version.hash for held in passed for version in held.transaction.versions]
        receipts = await self._chain.receipts(hashes)
        for_good = used
        if self.confirmations:
            for_good = await self._chain.used_at(account, chain.height - self.confirmations)
        look = look_of(chain, account, for_good, receipts)
        # An operator may have released one meanwhile, which then has no nonce.
        for held in (each for each in sent if each.has_nonce):
            verdict, mined = verdict_of(held.transaction, look, self.confirmations)
            await self._take_verdict(held, verdict, mined)

    async def _take_verdict(self, held: Held, verdict: Verdict, mined: Mined | None) -> None:
        held.taken_looks = held.taken_looks + 1 if verdict is Verdict.TAKEN else 0
        if held.taken_looks == 1:
            held.taken_since_ms = self._clock()
        if mined is None:
            self._unseen(held)
        elif held.mined != mined:
            held.mined = mined
            self._turn(held, State.MINED, f"in block {mined.height}")
            held.waits_for = f"{self.confirmations} blocks on top of block {mined.height}"
        if verdict is Verdict.FINAL and mined is not None:
            await self._end_mined(held, mined)
        elif not held.is_aside and is_taken_for_good(
            held.taken_looks, held.taken_since_ms, self._clock(), self._limits.taken_ms
        ):
            self._end_taken(held)

    def _end_taken(self, held: Held) -> None:
        """Handle a nonce that is taken: end the transaction, or leave it to an operator if it may have happened."""
        if not held.transaction.was_final and not held.is_restored:
            self._end(held, Ending(False, self._clock(), NONCE_TAKEN))
            return
        reason = NONCE_LOST if held.transaction.was_final else NONCE_FORGOTTEN
        held.transaction = replace(held.transaction, set_aside=reason)
        held.is_saved = False
        self._turn(held, State.SET_ASIDE, f"set aside: {reason}")
        self._tell_of_those_set_aside()

    def _unseen(self, held: Held) -> None:
        if held.mined is not None:
            state = State.SET_ASIDE if held.is_aside else State.SIGNED
            self._turn(held, state, "its block is gone; it is sent again")
            held.mined = None

    async def _end_mined(self, held: Held, mined: Mined) -> None:
        reason, output = "", b""
        if not mined.has_succeeded:
            why = await self._chain.why_failed(as_mined(held.transaction, mined), mined)
            reason, output = await self._costs.why(held.transaction, why), why.output
        async with held.updating:  # An update from before the block was seen may be on its way to the store.
            asked = await self._store.submission(held.transaction.id) if held.transaction.updates else None
        held.transaction = as_mined(held.transaction, mined)
        if asked is not None and (late := held.transaction.updates - held.transaction.asked):
            unwritten = held.ask or Ask(asked)
            held.ask = replace(unwritten, submission=unwritten.submission.with_late(late))
            self._turn(held, State.MINED, UPDATE_LATE)
        self._end(held, ending_of(held.transaction, mined, self._clock(), reason, output))

    def _end(self, held: Held, ending: Ending) -> None:
        held.transaction = replace(held.transaction, ending=ending)
        held.is_saved = False
        self._turn(held, State.ENDED, ending.reason or "done")

    def _let_go(self, every: Iterable[Held]) -> None:
        for held in every:
            if held.transaction.ending is not None and held.is_saved:
                self._held.pop(held.transaction.id, None)
                self._ended(held.transaction)

    # Those that have no nonce.

    async def _begin(self, account: ContractAddress, own: Sequence[Held], chain: ChainLook) -> None:
        is_open = [each for each in own if not each.has_nonce and each.transaction.ending is None]
        waiting = [each for each in is_open if not each.is_aside]
        for held in waiting:
            if held.transaction.given_up:
                self._end(held, Ending(False, self._clock(), held.transaction.given_up))
        if aside := sum(each.is_aside for each in own):
            for held in waiting:
                held.waits_for = f"an operator to decide about {aside} earlier transactions that were set aside"
            return
        ready = [each for each in waiting if each.transaction.ending is None and await self._has_dependencies(each)]
        room = IN_FLIGHT_PER_ACCOUNT_MAX - sum(each.has_nonce and each.transaction.ending is None for each in own)
        batch = ready[: max(room, 0)]
        asked = [each.transaction for each in batch]
        estimates = await asyncio.gather(*map(self._costs.estimate, asked))
        for held, transaction, estimate in zip(batch, asked, estimates, strict=True):
            # One that was updated meanwhile has to be estimated again.
            if held.transaction is not transaction or not await self._begin_one(account, held, estimate, own, chain):
                break

    async def _has_dependencies(self, held: Held) -> bool:
        transaction = held.transaction
        if not transaction.dependencies:
            return True
        own = await self._store.outcomes(transaction.depends_on)
        leaves = await self._store.ended_leaves(transaction.awaits)
        failed, missing = failed_dependency(transaction, own, leaves.outcomes, leaves.final_time_s)
        if failed is not None:
            self._end(held, Ending(False, self._clock(), f"dependsOn: {dependency_name(failed)} did not succeed"))
        elif missing:
            held.waits_for = f"transactions {', '.join(map(dependency_name, missing))} to succeed"
        return failed is None and not missing

    async def _begin_one(
        self,
        account: ContractAddress,
        held: Held,
        estimate: int | Reverted | Refusal,
        own: Sequence[Held],
        chain: ChainLook,
    ) -> bool:
        """Assign a nonce, or end it; returns False when it has to wait, and those behind it with it."""
        transaction = held.transaction
        on_their_way = [each for each in own if each.has_nonce and each.transaction.ending is None]
        if isinstance(estimate, Reverted):
            if any(each.mined is None for each in on_their_way):
                held.waits_for = "earlier transactions of its account to be mined: it would revert now"
                return False
            self._end(held, Ending(False, self._clock(), await self._costs.why(transaction, estimate), estimate.output))
            return True
        if isinstance(estimate, Refusal):
            held.waits_for = f"funds: {account} has {chain.accounts[account].balance_wei} wei ({estimate.message})"
            return False
        fees = fees_for(chain.market, transaction.wish, None, self._limits.fee_max_wei)
        gas = estimate if transaction.wish.gas is not None else gas_for(estimate, chain.gas_limit)
        if not can_pay(held, cost_max_wei(gas, fees, transaction.value_wei), on_their_way, chain):
            return False
        nonce = next_nonce(chain.accounts[account].used_and_waiting, (each.transaction for each in own))
        return await self._sign(held, nonce, fees, gas)

    async def _sign(self, held: Held, nonce: int, fees: Fees, gas: int, does: PublicTransaction | None = None) -> bool:
        """Sign it; returns False when its user changed or cancelled it meanwhile: that version is then dropped."""
        transaction = held.transaction
        does = does or transaction
        version = await self._chain.sign(does, party_key(transaction.sender), nonce, fees, gas, self._clock())
        if held.transaction is not transaction:
            return False
        version = replace(version, asked=does.asked)
        held.transaction = replace(held.transaction, nonce=nonce, versions=(*held.transaction.versions, version))
        held.is_saved = False
        held.waits_for = ""
        self._turn(held, State.SIGNED, f"signed with nonce {nonce} for {fees.most_wei} wei a unit of gas")
        return True

    # Those that have one.

    async def _sign_anew(self, held: Held, chain: ChainLook) -> None:
        """Sign a version with a higher fee or an update, or an empty one when it was given up."""
        transaction = held.transaction
        if transaction.nonce is None or transaction.ending is not None or held.mined is not None or not held.is_saved:
            return
        if held.is_aside:
            return
        latest, limit = transaction.versions[-1], self._limits.fee_max_wei
        if transaction.given_up and not any(each.is_withdrawal for each in transaction.versions):
            fees = fees_for(chain.market, replace(transaction.wish, fee_max_wei=None), latest.fees, limit)
            key = party_key(transaction.sender)
            version = await self._chain.withdraw(transaction.account, key, transaction.nonce, fees, self._clock())
            held.transaction = replace(held.transaction, versions=(*held.transaction.versions, version))
            held.is_saved = False
            self._turn(held, State.SIGNED, f"withdrawn: {transaction.given_up}")
        elif is_update_unsigned(transaction) and (gas := await self._costs.gas_of_update(held, chain)) is not None:
            if held.transaction is transaction:
                fees = fees_for(chain.market, transaction.wish, latest.fees, limit)
                await self._sign(held, transaction.nonce, fees, gas)
        elif held.is_underpriced or is_repricing_due(transaction, chain.market, limit, self._clock()):
            held.is_underpriced = False
            if held.transaction is transaction and not latest.is_withdrawal:
                # While an update would fail, the previous version is under way.
                does = as_in(transaction, latest) if is_update_unsigned(transaction) else transaction
                fees = fees_for(chain.market, does.wish, latest.fees, limit)
                await self._sign(held, transaction.nonce, fees, does.wish.gas or version_to_send(does).gas, does)

    def _is_sending_due(self, held: Held) -> bool:
        if not held.has_nonce or held.transaction.ending is not None or held.mined is not None or not held.is_saved:
            return False
        if held.is_aside:
            return False
        return held.state is State.SIGNED or self._clock() - held.sent_at_ms >= self._limits.resend_ms

    async def _send(self, held: Held) -> None:
        held.sent_at_ms = self._clock()
        refusal = await self._chain.send(version_to_send(held.transaction))
        if refusal is None or refusal.objection is Objection.NONCE_TOO_LOW:
            held.trouble = ""
            held.refusals = 0
            held.waits_for = "a block to take it"
            if held.state is not State.SENT:
                self._turn(held, State.SENT, "the chain has it")
            return
        held.trouble = refusal.message
        match refusal.objection:
            case Objection.NO_FUNDS:
                held.waits_for = f"funds: send {held.transaction.account} some ({refusal.message})"
            case Objection.UNDERPRICED:
                held.is_underpriced = held.transaction.wish.fee_max_wei is None
                held.waits_for = f"a price that the chain takes ({refusal.message})"
            case _:
                held.waits_for = f"the chain to take it ({refusal.message})"
                self._count_refusal(held, refusal)

    def _count_refusal(self, held: Held, refusal: Refusal) -> None:
        """Count a refusal: an unused nonce blocks all that follow, so after some an empty transaction uses it."""
        held.refusals += 1
        if held.refusals >= REFUSALS_MAX and not held.transaction.given_up:
            reason = f"the chain does not take it: {refusal.message}"
            held.transaction = replace(held.transaction, given_up=reason)
            held.is_saved = False
            self._turn(held, State.SIGNED, reason)

    # Writing.

    async def _save(self, changed: Sequence[Held]) -> None:
        """Write the transactions as they are now; those changed meanwhile remain unsaved."""
        if not changed:
            return
        as_written = [(each, each.transaction, each.ask) for each in changed]
        for held in changed:
            held.is_saved = False
        asks = [ask for _, _, ask in as_written if ask is not None]
        await self._store.save([transaction for _, transaction, _ in as_written], asks)
        for held, transaction, ask in as_written:
            held.ask = None if held.ask is ask else held.ask
            held.is_saved = held.transaction == transaction and held.ask is None

    def _turn(self, held: Held, state: State, text: str) -> None:
        held.state = state
        held.since_ms = self._changed_at_ms = self._clock()
        held.history.append(Activity(held.since_ms, text))
