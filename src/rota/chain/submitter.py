"""Nonces, re-sending and gas price of base-ledger transactions; one for each account of a node.

Theory of operation. A round that is ready gets the next nonce of the account and is signed; round,
nonce and signed transaction are durable before they are reported and before the transaction is sent.
One dispatch is signed and written at a time, so that a write that fails leaves no gap: its nonce goes to
the next. Sent rounds are listed in submitter heartbeats to the senders concerned until every transition
of them has its outcome in our index.

A nonce must be used, or all later ones wait forever: a transaction is sent again until a block uses
its nonce, even when its transitions have their outcomes already, because any account may commit a round. The
one whose nonce is next and that `reprice_blocks` passed by, and any that offers less than a block
requires, is signed again at a higher price, up to `fee_max_wei`; the new version is durable before it is sent, and
either has the same payload. The failure of a transaction as a whole is reported to its coordinator.
Where gas is free an account may be empty: then nothing is offered, and waiting makes no better offer.

The nonces of an account are unique in its submitter; `submitters` chooses the account that pays for a round. Nothing is
signed for an account before its next nonce on the chain is known: an earlier run may have used some that its database
does not have.

A final block that is taken back breaks finality. The submitter has forgotten final dispatches, so it recalls those
of the nonces in question from the store and sends the same signed transactions again. A nonce for
which the store has nothing is free: the next round takes it. For rounds that is safe, since every intent
is committed at most once. Transactions of users on the base ledger itself never get a nonce here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rota.chain.effects import DispatchRepriced, RecallDispatches, RoundDispatch, SeeAccount, SignDispatch
from rota.chain.events import (
    AccountSeen,
    DispatchesRecalled,
    DispatchNotSigned,
    DispatchSigned,
    Objection,
    TransactionRefused,
)
from rota.machine.effects import DispatchRound
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction, Outcomes
from rota.model.config import Config
from rota.model.types import SHARED_ACCOUNT, ContractAddress, Digest, Fees, IntentId, Leaf, NodeName
from rota.wire.messages import SubmittedIntent

NONCE_TAKEN = "another transaction of the signing address took its nonce"
# The most nonces that are recalled at a start because of the chain's report.
RECALLED_MAX = 1_024


@dataclass(slots=True)
class Submission:
    """A dispatched round without an outcome."""

    dispatch: RoundDispatch
    intents: frozenset[IntentId]
    unsettled: dict[IntentId, None]
    unfinal: dict[IntentId, None] = field(default_factory=dict)
    submission_count: int = 0
    submitted_at_ms: int = 0
    submitted_at_height: int = 0
    look_again_at_height: int = 0
    is_mined: bool = False
    is_mined_for_good: bool = False
    is_underpriced: bool = False
    activity: str = ""


@dataclass(slots=True)
class GasPrice:
    """The chain's gas price, for all accounts of a node."""

    base_fee_wei: int = 0
    is_free: bool = False


class Submitter:
    """The dispatches of one account, in the order of their nonces. Without a signer its address is not known yet."""

    def __init__(
        self,
        signer: str,
        config: Config,
        dispatches: tuple[RoundDispatch, ...],
        next_nonce: int,
        account: ContractAddress = SHARED_ACCOUNT,
        gas_price: GasPrice | None = None,
    ) -> None:
        self.signer = signer
        self.account = account
        self.gas_price = gas_price or GasPrice()
        self.config = config
        self.next_nonce = next_nonce
        # Whether this run has assigned a nonce: from then on its own count is right.
        self.has_given = False
        self.waiting: list[DispatchRound] = []
        self.signing: SignDispatch | None = None
        self.asked_at_ms = 0
        self.asked_at_height = 0
        self.looked_at_ms: int | None = None
        self.submissions: dict[int, Submission] = {}
        # Nonces that the chain no longer has used: those whose dispatch is requested from the store, and those without
        # one.
        self.recalling: dict[int, None] = {}
        self.free: list[int] = []
        self._nonces: dict[tuple[ContractAddress, Digest], list[int]] = {}
        for dispatch in dispatches:
            self._watch(dispatch)

    # Nonces.

    def take(self, order: DispatchRound) -> None:
        """Queue a round for dispatch."""
        self.waiting.append(order)

    def to_see(self, now_ms: int) -> SeeAccount | None:
        """Return a request for an account that is not known yet, repeated when the answer is lost; else None."""
        is_asked = self.looked_at_ms is not None and now_ms - self.looked_at_ms < self.config.request_timeout_ms
        if self.signer or is_asked:
            return None
        self.looked_at_ms = now_ms
        return SeeAccount(self.account)

    def take_account(self, event: AccountSeen) -> None:
        """Take the chain's report: skip nonces that other programs used.

        Nonces of this node that the chain has not used, and that are not under way, are recalled.
        """
        self.signer, next_nonce = event.signer or self.signer, event.next_nonce
        if not self.has_given and self.signing is None:
            self.next_nonce = max(self.next_nonce, next_nonce)
        unused = range(max(next_nonce, self.next_nonce - RECALLED_MAX), self.next_nonce)
        self.recalling.update(dict.fromkeys(nonce for nonce in unused if nonce not in self.submissions))

    def to_recall(self) -> RecallDispatches | None:
        """Return the request to the store, repeated until it has answered; else None."""
        return RecallDispatches(tuple(sorted(self.recalling)), self.account) if self.recalling else None

    def take_recalled(
        self, event: DispatchesRecalled, blocks: Sequence[ChainBlock], final_height: int
    ) -> tuple[RoundDispatch, ...]:
        """Send these again, as far as the index does not have them; a nonce without a dispatch is free."""
        asked = {nonce: self.recalling.pop(nonce) for nonce in event.nonces if nonce in self.recalling}
        found = {each.nonce: each for each in event.dispatches if each.nonce in asked}
        used = {mined.nonce for block in blocks for mined in self._own_in(block)}
        missing = (nonce for nonce in asked if nonce not in found and nonce not in used)
        self.free = sorted({*self.free, *missing})
        for dispatch in found.values():
            self._watch(dispatch)
        # The index may have them again by now, and other transactions with the same rounds.
        for block in blocks if found else ():
            self.settle(block, block.outcomes)
        for block in blocks if found else ():
            if block.height <= final_height:
                self.finalise(block, block.outcomes)
        return tuple(each for nonce, each in found.items() if self._is_open(nonce))

    def _is_open(self, nonce: int) -> bool:
        return nonce in self.submissions and not self.submissions[nonce].is_mined

    def next_to_sign(self, now_ms: int, height: int) -> SignDispatch | None:
        """Return the next order to the signer, better offers first; one at a time, repeated when it is lost."""
        if not self.signer:
            return None
        if self.signing is not None:
            if now_ms - self.asked_at_ms < self.config.request_timeout_ms:
                return None
        else:
            self.signing = self._better_offer(height) or self._next_round()
        self.asked_at_ms, self.asked_at_height = now_ms, height
        return self.signing

    def take_signed(self, now_ms: int, event: DispatchSigned) -> RoundDispatch | DispatchRepriced | None:
        """Return the record of the signed transaction, or None for a late answer and for one mined since.

        The nonce of a new round is used from now on.
        """
        signing = self._take_answered(event.nonce, event.fees, event.digest)
        if signing is None or not (self._is_new(signing.nonce) or signing.nonce in self.submissions):
            return None
        is_new = self._is_new(signing.nonce)
        dispatch = RoundDispatch(
            signing.round,
            self.signer,
            signing.nonce,
            signing.fees,
            transaction=event.transaction,
            hash=event.hash,
            account=self.account,
        )
        if is_new:
            self.has_given = True
            self.next_nonce = max(self.next_nonce, dispatch.nonce + 1)
            self._use(dispatch.nonce)
            self._watch(dispatch)
        submission = self.submissions[dispatch.nonce]
        submission.dispatch = dispatch
        submission.is_underpriced = False
        submission.submission_count = 0
        submission.submitted_at_ms = now_ms
        return dispatch if is_new else DispatchRepriced(dispatch)

    def take_unsigned(self, event: DispatchNotSigned) -> DispatchRound | None:
        """The signer failed: return a new round for its coordinator; make a better offer at a later block."""
        signing = self._take_answered(event.nonce, event.fees, event.digest)
        if signing is None:
            return None
        if self._is_new(signing.nonce):
            return signing.round
        self._offer_later(signing.nonce)
        return None

    def _take_answered(self, nonce: int, fees: Fees, digest: Digest) -> SignDispatch | None:
        """Return the order that this answers, or None."""
        signing = self.signing
        if signing is None or (signing.nonce, signing.fees, signing.round.digest) != (nonce, fees, digest):
            return None
        self.signing = None
        return signing

    def _is_new(self, nonce: int) -> bool:
        """Whether it is a round's first version; a better offer has an earlier nonce, and may be mined by now."""
        return nonce == self.next_nonce or nonce in self.free

    def _use(self, nonce: int) -> None:
        """Mark the nonce as used; a round that was about to get it gets another."""
        if nonce not in self.free:
            return
        self.free.remove(nonce)
        if self.signing is not None and self.signing.nonce == nonce:
            self.waiting.insert(0, self.signing.round)
            self.signing = None

    def _offer_later(self, nonce: int) -> None:
        """A better offer failed: make it again at the next block."""
        if nonce in self.submissions:
            self.submissions[nonce].look_again_at_height = self.asked_at_height + 1

    def _next_round(self) -> SignDispatch | None:
        if not self.waiting:
            return None
        nonce = self.free[0] if self.free else self.next_nonce
        return SignDispatch(self.waiting.pop(0), self.signer, nonce, self.usual_fees(), self.account)

    def _better_offer(self, height: int) -> SignDispatch | None:
        """Return a better offer for the first transaction in line, or for one below the price of blocks, else None."""
        is_free = not self.usual_fees().most_wei
        open_ = [submission for submission in self.submissions.values() if not submission.is_mined]
        for position, submission in enumerate(open_):
            if height < submission.look_again_at_height:
                continue
            dispatch = submission.dispatch
            has_waited = (
                position == 0
                and not is_free
                and submission.submission_count > 0
                and height - submission.submitted_at_height >= self.config.reprice_blocks
            )
            is_too_cheap = dispatch.fees.most_wei < self.gas_price.base_fee_wei
            if has_waited or is_too_cheap or submission.is_underpriced:
                fees = self._raised(dispatch.fees)
                if fees is not None:
                    return SignDispatch(dispatch.round, self.signer, dispatch.nonce, fees, self.account)
                submission.activity = f"the limit of {self.config.fee_max_wei} wei for a unit of gas is reached"
                submission.look_again_at_height = height + self.config.reprice_blocks
        return None

    def usual_fees(self) -> Fees:
        """Return twice the latest block's price, so that more expensive blocks do not matter; 0 where gas is free."""
        if self.gas_price.is_free and not self.gas_price.base_fee_wei:
            return Fees(0, 0)
        tip_wei = min(self.config.tip_wei, self.config.fee_max_wei)
        return Fees(min(2 * self.gas_price.base_fee_wei + tip_wei, self.config.fee_max_wei), tip_wei)

    def _raised(self, fees: Fees) -> Fees | None:
        """Return a price that a chain accepts as a replacement, at least the usual; None when the limit is reached."""
        usual = self.usual_fees()
        percent = 100 + self.config.reprice_percent
        most_wei = min(max(fees.most_wei * percent // 100 + 1, usual.most_wei), self.config.fee_max_wei)
        tip_wei = min(max(fees.tip_wei * percent // 100 + 1, usual.tip_wei), most_wei)
        return Fees(most_wei, tip_wei) if most_wei > fees.most_wei else None

    # Sending.

    def take_sent(self, now_ms: int, height: int, nonce: int) -> Submission | None:
        """Note that the chain has accepted the transaction into its pool."""
        submission = self.submissions.get(nonce)
        if submission is not None:
            if not submission.submission_count:
                submission.submitted_at_height = height
            submission.submission_count += 1
            submission.submitted_at_ms = now_ms
            submission.activity = ""
        return submission

    def take_refused(self, now_ms: int, event: TransactionRefused) -> None:
        """The chain refused it: send it again, at a higher price if that is the reason; an operator sees why."""
        submission = self.submissions.get(event.nonce)
        if submission is None:
            return
        submission.submitted_at_ms = now_ms
        if event.objection is Objection.UNDERPRICED:
            submission.is_underpriced = True
            self.gas_price.is_free = False
        if event.objection is not Objection.NONCE_TOO_LOW:
            submission.activity = f"{event.objection.value}: {event.reason}"

    def to_be_sent_again(self, now_ms: int) -> tuple[RoundDispatch, ...]:
        """Return the dispatches to send again, without effect: not accepted, or accepted long ago and in no block."""
        return tuple(
            submission.dispatch
            for submission in self.submissions.values()
            if not submission.is_mined and now_ms - submission.submitted_at_ms >= self._patience_ms(submission)
        )

    def _patience_ms(self, submission: Submission) -> int:
        has_answer = submission.submission_count or submission.activity
        return self.config.resubmit_ms if has_answer else self.config.heartbeat_ms

    @property
    def has_work(self) -> bool:
        """Whether a transaction is on its way to the chain."""
        is_under_way = bool(self.submissions) or self.signing is not None or bool(self.waiting)
        return is_under_way or bool(self.recalling)

    @property
    def trouble(self) -> str:
        """The reason why the first transaction in line is not on the chain, for an operator."""
        return next((s.activity for s in self.submissions.values() if not s.is_mined and s.activity), "")

    # Outcomes.

    def failures_in(self, block: ChainBlock) -> Outcomes:
        """Return the outcomes of transitions in a block's failed transactions of this node, known only here."""
        failed = [mined for mined in self._own_in(block) if mined.status is not MinedStatus.SUCCEEDED]
        return tuple(outcome for mined in failed for outcome in self._failure(mined))

    def _failure(self, mined: MinedTransaction) -> Outcomes:
        submission = self.submissions.get(mined.nonce)
        if submission is None:
            return ()
        order = submission.dispatch.round
        reason = NONCE_TAKEN if mined.status is MinedStatus.TAKEN else mined.reason
        is_contention = mined.status is MinedStatus.TAKEN
        return tuple(
            (
                order.contract,
                LedgerOutcome(each.intent, each.leaf, order.digest, LedgerStatus.REVERTED, reason, is_contention),
            )
            for each in order.transitions
        )

    def settle(self, block: ChainBlock, outcomes: Outcomes) -> None:
        """Note outcomes and used nonces; settled transitions are no longer listed, but kept until they are final."""
        for mined in self._own_in(block):
            self._use(mined.nonce)
            if mined.nonce in self.submissions:
                self.submissions[mined.nonce].is_mined = True
        for contract, outcome in outcomes:
            for submission in self._of_round(contract, outcome):
                submission.unsettled.pop(outcome.intent, None)
                submission.unfinal[outcome.intent] = None

    def undo(self, block: ChainBlock, outcomes: Outcomes, was_final: bool = False) -> None:
        """Send the transactions of a reorganised block again, with their nonces.

        Final ones are not in memory any more, and are recalled.
        """
        for mined in self._own_in(block):
            submission = self.submissions.get(mined.nonce)
            if submission is not None:
                submission.is_mined = submission.is_mined_for_good = False
                submission.submission_count = submission.submitted_at_ms = 0
            elif was_final:
                self.recalling[mined.nonce] = None
        for contract, outcome in outcomes:
            for submission in self._of_round(contract, outcome):
                submission.unsettled[outcome.intent] = None

    def finalise(self, block: ChainBlock, outcomes: Outcomes) -> None:
        """Remove submissions whose nonce is used and whose outcomes are final."""
        touched = {mined.nonce: None for mined in self._own_in(block) if mined.nonce in self.submissions}
        for nonce in touched:
            self.submissions[nonce].is_mined_for_good = True
        for contract, outcome in outcomes:
            for submission in self._of_round(contract, outcome):
                submission.unsettled.pop(outcome.intent, None)
                submission.unfinal.pop(outcome.intent, None)
                touched[submission.dispatch.nonce] = None
        for nonce in touched:
            submission = self.submissions[nonce]
            if submission.is_mined_for_good and not submission.unsettled and not submission.unfinal:
                self._forget(submission.dispatch)

    def listed(self, now_ms: int) -> dict[tuple[ContractAddress, NodeName], list[SubmittedIntent]]:
        """Return the dispatched intents to list to each sender."""
        told: dict[tuple[ContractAddress, NodeName], list[SubmittedIntent]] = {}
        for submission in self.submissions.values():
            order = submission.dispatch.round
            for transition, sender in zip(order.transitions, order.senders, strict=True):
                if transition.intent in submission.unsettled:
                    listed = _listed(submission, transition.intent, transition.leaf, now_ms)
                    told.setdefault((order.contract, sender), []).append(listed)
        return told

    def _own_in(self, block: ChainBlock) -> list[MinedTransaction]:
        return [mined for mined in block.mined if mined.account == self.account]

    def _of_round(self, contract: ContractAddress, outcome: LedgerOutcome) -> list[Submission]:
        nonces = self._nonces.get((contract, outcome.digest), ())
        return [self.submissions[nonce] for nonce in nonces if outcome.intent in self.submissions[nonce].intents]

    def _watch(self, dispatch: RoundDispatch) -> Submission:
        intents = dict.fromkeys(transition.intent for transition in dispatch.round.transitions)
        self._nonces.setdefault((dispatch.round.contract, dispatch.round.digest), []).append(dispatch.nonce)
        submission = self.submissions[dispatch.nonce] = Submission(dispatch, frozenset(intents), intents)
        return submission

    def _forget(self, dispatch: RoundDispatch) -> None:
        del self.submissions[dispatch.nonce]
        key = (dispatch.round.contract, dispatch.round.digest)
        self._nonces[key].remove(dispatch.nonce)
        if not self._nonces[key]:
            del self._nonces[key]


def _listed(submission: Submission, intent: IntentId, leaf: Leaf, now_ms: int) -> SubmittedIntent:
    dispatch, count = submission.dispatch, submission.submission_count
    age_ms = now_ms - submission.submitted_at_ms if count else 0
    return SubmittedIntent(
        intent, leaf, dispatch.signer, dispatch.nonce, count, age_ms, submission.activity, dispatch.hash, dispatch.fees
    )
