"""Transitions that another private contract decides about and carries out, at the node of their endorser.

Theory of operation. Such a transition is prepared, so that its `TransitionPrepared` is recorded at its coordinator,
which is its endorser's node. This node records it a second time, with a random idempotency key, before its sender can
acknowledge it; a restart finds those that were not acknowledged. Each then goes through these steps, and each step is
durable before the next:

    asked     the domain names the transaction of the carrier commits it (`Domain.carry`), and that is submitted under
              the key, once
    chained   the transaction is on its way. Both are committed by it, or neither
    refused   the transaction has reverted, or cannot be: the endorser signs that it refuses the transition, with the
              reason. The sender then voids its intent, because the call may be known to others. The
              refusal is sent again until the intent has ended
    settled   the intent has ended on the final chain, or this version of it has expired there

A version that expires while it is under way is not refused: its sender has it endorsed again. No carrier is asked for
one that expires soon, nor for those of a sender's node that voids too many (`rests.py`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from rota import host
from rota.domains.base import Rejected as DomainRejected
from rota.engine.contracts import KnownContracts
from rota.keys.signatures import Signatures
from rota.ledger.bindings import encode_call
from rota.ledger.client import RpcClient
from rota.ledger.looking_up import LookingUp
from rota.ledger.settlement import leg_of
from rota.logs import catalogue
from rota.logs.trouble import Trouble
from rota.machine.effects import SendMessage, TransitionPrepared
from rota.model.digests import keccak, refusal_digest, void_leaf
from rota.model.types import (
    NO_LEAF,
    AwaitedLeaf,
    ContractAddress,
    DelegationNumber,
    Digest,
    IntentId,
    Leaf,
    Outcome,
    RequestId,
    node_of,
)
from rota.ports import Background, StoredCarried, Unavailable
from rota.rpc import errors
from rota.service.carrying.ended_locks import EndedLocks
from rota.service.carrying.rests import Rests
from rota.service.interface import Submission, Transactions, TransactionType
from rota.service.run import RunningNode
from rota.wire.messages import EndorserSignature, Envelope, TransactionReverted

# The maximum number under way, in all and of one sender's node; the others wait in the store.
UNDER_WAY_MAX: Final = 1_024
OF_ONE_MAX: Final = 128
LOOK_S: Final = 5.0
PAUSE_S: Final = 0.25
PAUSE_MAX_S: Final = 15.0
REASON_LETTERS_MAX: Final = 1_000
KEY_BYTES: Final = 16
NO_NUMBER: Final = DelegationNumber(0, 0)

_now_s: Final = time.monotonic
T = TypeVar("T")
Key = tuple[ContractAddress, Leaf, Digest]


class CarryingDesk:
    """The transitions of one node that others carry out, while its store is open."""

    def __init__(
        self, running: RunningNode, node: Transactions, signatures: Signatures, chain_id: int, client: RpcClient
    ) -> None:
        self._running: Final = running
        self._node: Final = node
        self._signatures: Final = signatures
        self._chain_id: Final = chain_id
        self._notes: Final = Background("transitions to be carried out", running.fail)
        self._tasks: Final = Background("carried transitions", running.fail)
        self._under_way: Final[set[Key]] = set()
        self._woken: Final = asyncio.Event()
        self._trouble: Final = Trouble()
        self._rests: Final = Rests()
        self._said = 0
        self._ended_locks: Final = EndedLocks(running, node, LookingUp(client), self._patiently)
        running.when_prepared(self.take)
        running.beside.extend((self.run, self._ended_locks.run))
        running.before_closing(self.close)

    def take(self, contract: ContractAddress, record: TransitionPrepared) -> None:
        """Begin with a transition being recorded, or unacknowledged after a restart, if it is to be carried out."""
        hosted = self._contracts.hosted(contract)
        if hosted is not None and hosted.carrier is not None:
            self._notes.begin(self._note(contract, record))

    async def run(self) -> None:
        """Carry out transitions until cancelled."""
        self._woken.set()
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), LOOK_S)
            self._woken.clear()
            for each in await self._patiently(
                lambda: self._running.adapters.store.carried.open(OF_ONE_MAX, UNDER_WAY_MAX)
            ):
                is_new = each.chained is None and each.refusal is None
                if each.key not in self._under_way and not (is_new and self._rests.has(each.record.sender, _now_s())):
                    self._under_way.add(each.key)
                    self._tasks.begin(self._carry_out(each))

    async def close(self) -> None:
        """Stop the work; the next run continues it."""
        await self._notes.close()
        await self._tasks.close()

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat a question until no adapter is unavailable, and return the answer."""
        pause_s = PAUSE_S
        while True:
            try:
                return await ask()
            except (Unavailable, errors.OutcomeUnknown) as trouble:
                # A submission that takes long is found under its key later.
                if self._trouble.is_new(str(trouble)):
                    catalogue.CARRYING_WAITING.log(reason=str(trouble))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    @property
    def _contracts(self) -> KnownContracts:
        return self._running.contracts

    async def _note(self, contract: ContractAddress, record: TransitionPrepared) -> None:
        await self._patiently(lambda: self._ended_locks.note(record.prepared.transition))
        key = f"carried-{secrets.token_hex(KEY_BYTES)}"
        await self._patiently(lambda: self._running.adapters.store.carried.add(contract, record, key))
        self._woken.set()

    async def _carry_out(self, carried: StoredCarried) -> None:
        try:
            if carried.refusal is None:
                carried = await self._decided(carried)
            await self._tell_until_settled(carried)
            await self._patiently(lambda: self._running.adapters.store.carried.settle(carried))
        finally:
            self._under_way.discard(carried.key)

    # The carrier decides.

    async def _decided(self, carried: StoredCarried) -> StoredCarried:
        """Return the carried transition, with the reason for refusal if it is not carried out."""
        book = self._running.adapters.store.carried
        try:
            chained = carried.chained
            if chained is None:
                chained = await self._patiently(lambda: self._submitted(carried))
            if chained is None:
                return carried
            if carried.chained is None:
                await self._patiently(partial(book.note_chained, carried, chained))
            reason = await self._reason_of(carried, chained)
            await self._account_for(carried, has_failed=bool(reason))
        except (errors.Rejected, DomainRejected) as flaw:
            reason = str(flaw)
        if not reason or await self._patiently(lambda: self._end_of(carried)) is not None:
            return carried
        refused = replace(carried, refusal="".join(filter(str.isprintable, reason))[:REASON_LETTERS_MAX])
        await self._patiently(lambda: book.note_refused(refused, refused.refusal or ""))
        return refused

    async def _account_for(self, carried: StoredCarried, *, has_failed: bool) -> None:
        """Record whether it was carried out or voided by its sender meanwhile; the void need not be final."""
        sender = carried.record.sender
        if not has_failed:
            self._rests.note_carried(sender)
            return
        hosted, intent = self._contracts.hosted(carried.contract), carried.record.prepared.transition.intent
        empty = void_leaf(hosted.separator, intent) if hosted is not None else NO_LEAF
        book = self._running.adapters.store.carried
        if await self._patiently(lambda: book.is_on_chain(carried.contract, intent, empty)):
            self._rests.note_voided(sender, _now_s())

    async def _submitted(self, carried: StoredCarried) -> IntentId | None:
        """Return the transaction that carries it out, submitted now or before; None if that would come too late."""
        store = self._running.adapters.store
        known = await store.submissions.with_key(carried.idempotency_key)
        if known is not None:
            return known
        if not self._leaves_time(carried) or await self._end_of(carried) is not None:
            return None
        submission = await self._submission_of(carried)
        with suppress(errors.KeyUsed):
            return await self._node.submit(submission)
        raise Unavailable("its transaction is being accepted")

    def _leaves_time(self, carried: StoredCarried) -> bool:
        """Whether the time that honest senders leave is left: the party sets it, the carrier pays for a failed call."""
        config = self._running.config
        left_s = carried.record.prepared.valid_until_s - self._running.engine.core.chain_time_s
        return 2 * left_s >= min(config.validity_s, config.prepared_validity_s)

    async def _submission_of(self, carried: StoredCarried) -> Submission:
        contract, transition = carried.contract, carried.record.prepared.transition
        hosted = self._contracts.hosted(contract)
        policy = self._contracts.policy_of(contract)
        if hosted is None or policy is None or hosted.carrier is None:
            raise Unavailable(f"the domain of {contract} is not loaded here")
        leg = leg_of(carried.record.prepared, contract, policy, self._chain_id)
        cores = keccak(bytes(len(leg.core)) + leg.core)
        call = encode_call("Carried", "carry", hosted.carrier.decider, leg.payload, leg.auth, cores)
        found = await self._running.adapters.store.states(contract, (*transition.inputs, *transition.reads))
        known = host.shelved(hosted, found, self._running.name)
        work = host.carrying_of(hosted, transition, known, self._running.name, call)
        try:
            parties = hosted.domain.parties_to_carry(work)
            addresses = await self._running.adapters.verifiers.of(contract, parties)
            asked = hosted.domain.carry(replace(work, addresses=addresses))
        except (DomainRejected, Unavailable):
            raise
        except Exception as error:
            # A domain is third-party code: its failure ends this transaction, and not the node.
            catalogue.DOMAIN_FAILED.log(contract=contract, intent=transition.intent, operation="carry", error=error)
            raise DomainRejected("", f"the domain failed: {type(error).__name__}") from None
        return Submission(
            TransactionType.PRIVATE,
            asked.sender,
            to=hosted.carrier.ledger,
            function=asked.function,
            data=dict(asked.arguments),  # type: ignore[arg-type]  # JSON of the domain's
            idempotency_key=carried.idempotency_key,
        )

    async def _reason_of(self, carried: StoredCarried, chained: IntentId) -> str:
        """Wait for the end of the transaction that carries it out; return why it reverted, or "" if it is confirmed.

        If the intent is void meanwhile, or has expired, that transaction can only fail: it is cancelled, if possible.
        """
        pause_s = PAUSE_S
        is_cancelled = False
        while True:
            receipt = await self._patiently(lambda: self._node.receipt(chained))
            if receipt is not None:
                return "" if receipt.success else receipt.failure_message
            if not is_cancelled and await self._patiently(lambda: self._end_of(carried)) is Outcome.REVERTED:
                is_cancelled = True
                with suppress(errors.Rejected, Unavailable):
                    await self._node.cancel(chained)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._running.users.expect_receipt(chained), pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    # Its sender.

    async def _tell_until_settled(self, carried: StoredCarried) -> None:
        pause_s = PAUSE_S
        while await self._patiently(lambda: self._end_of(carried)) is None:
            if carried.refusal is not None:
                await self._refuse(carried, carried.refusal)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _end_of(self, carried: StoredCarried) -> Outcome | None:
        """Return the outcome on the final chain; REVERTED also if this version can no longer be committed there."""
        prepared = carried.record.prepared
        made = prepared.transition
        leaf = AwaitedLeaf(carried.contract, made.intent, made.leaf, prepared.valid_until_s)
        ended = await self._running.adapters.store.public.ended_leaves((leaf,))
        if leaf in ended.outcomes:
            return ended.outcomes[leaf]
        return Outcome.REVERTED if ended.final_time_s > prepared.valid_until_s else None

    async def _refuse(self, carried: StoredCarried, reason: str) -> None:
        """Send the refusal, signed by the endorser. It gains nothing by lying: it could withhold the transition."""
        contract, party, made = carried.contract, carried.record.party, carried.record.prepared.transition
        hosted = self._contracts.hosted(contract)
        if hosted is None or not self._running.started.is_set():
            return
        digest = refusal_digest(hosted.separator, party, made)
        signature = await self._signatures.sign_as_endorser(contract, digest)
        signed = EndorserSignature(self._running.name, signature)
        told = TransactionReverted(made.intent, NO_NUMBER, made.leaf, reason, (signed,))
        core = self._running.engine.core
        self._said += 1
        number = RequestId(core.incarnation, self._said)
        envelope = Envelope(contract, number, core.incarnation, core.height, told)
        self._running.send(SendMessage(node_of(party), envelope))
