"""Dispatches of a node: rounds that its submitters have signed, written and sent, and the heartbeats that list them.

Each account has a submitter (`chain/submitters.py`). Their orders leave through the node; the results of a round go
to the sequencer of its contract, and every heartbeat repeats orders without an answer of signer or chain.
"""

from __future__ import annotations

from rota.chain.effects import RoundDispatch, SubmitTransaction
from rota.chain.events import (
    AccountSeen,
    DispatchesRecalled,
    DispatchNotSigned,
    DispatchSigned,
    TransactionRefused,
    TransactionSent,
)
from rota.chain.submitter import Submitter
from rota.machine.effects import DispatchRound
from rota.model.types import HeartbeatNumber
from rota.node.owner import Owner
from rota.sequencer.events import RoundDispatched, RoundDispatchFailed, RoundSubmitted
from rota.wire.messages import SUBMITTED_LISTED_MAX, SubmitterHeartbeat

SubmitterEvent = (
    DispatchSigned | DispatchNotSigned | TransactionSent | TransactionRefused | AccountSeen | DispatchesRecalled
)


class Dispatches:
    """The dispatches of one node."""

    def __init__(self, node: Owner) -> None:
        self.node = node
        self.heartbeat_count = 0
        self.next_heartbeat_ms: int | None = None

    def start(self) -> None:
        """Send the dispatches that the last run left, and ask for the nonces of its accounts."""
        for submission in self.node.submitters.submissions():
            self.node.effects.append(SubmitTransaction(submission.dispatch))
            self._start_heartbeats()
        for submitter in self.node.submitters.working():
            see = submitter.to_see(self.node.now_ms)
            self.node.effects.extend([see] if see is not None else [])

    def take_round(self, order: DispatchRound) -> None:
        """Queue a round that a sequencer has ready."""
        self._sign_next(self.node.submitters.take(order))

    def take(self, event: SubmitterEvent) -> None:
        """An answer of the signer, the chain or the store for one of the accounts."""
        node, submitter = self.node, self.node.submitters.of(event.account)
        match event:
            case DispatchSigned():
                self._take_signed(submitter, event)
            case DispatchNotSigned():
                order = submitter.take_unsigned(event)
                if order is not None:
                    node.tell(order.contract, RoundDispatchFailed(order.digest, event.reason))
            case TransactionSent(nonce):
                submission = submitter.take_sent(node.now_ms, node.height, nonce)
                if submission is not None:
                    order = submission.dispatch.round
                    node.tell(order.contract, RoundSubmitted(order.digest, submission.submission_count))
                return
            case TransactionRefused():
                submitter.take_refused(node.now_ms, event)
                return
            case AccountSeen():
                node.submitters.take_account(event)
                self._recall(submitter)
            case _:
                again = submitter.take_recalled(event, node.index.blocks, node.index.final_height)
                node.effects.extend(SubmitTransaction(each) for each in again)
        self._sign_next(submitter)

    def _take_signed(self, submitter: Submitter, event: DispatchSigned) -> None:
        """Record and send it; if the round is new, distribute its states and inform its coordinator."""
        node, record = self.node, submitter.take_signed(self.node.now_ms, event)
        if record is None:
            return
        dispatch = record if isinstance(record, RoundDispatch) else record.dispatch
        node.persist_own(record)
        self._start_heartbeats()
        node.effects.append(SubmitTransaction(dispatch))
        if dispatch is record:
            order = dispatch.round
            node.distribution.take(node.now_ms, order)
            node.deliver_states()
            node.tell(order.contract, RoundDispatched(order.digest, dispatch.signer, dispatch.nonce))

    def recall(self) -> None:
        """Ask the store for dispatches that the chain has lost; a heartbeat asks again."""
        for submitter in self.node.submitters.working():
            self._recall(submitter)

    def beat(self) -> None:
        """List to each sender its dispatched intents; nothing is listed without a ledger (protocol §4.1)."""
        node = self.node
        self.next_heartbeat_ms = None
        working = node.submitters.working()
        if not working:
            return
        self._start_heartbeats()
        for submitter in working:
            self._recall(submitter)
            self._sign_next(submitter)
        if not node.has_ledger:
            return
        for submitter in working:
            node.effects.extend(SubmitTransaction(each) for each in submitter.to_be_sent_again(node.now_ms))
        self.heartbeat_count += 1
        number = HeartbeatNumber(node.incarnation, self.heartbeat_count)
        for submitter in working:
            for (contract, sender), intents in submitter.listed(node.now_ms).items():
                for start in range(0, len(intents), SUBMITTED_LISTED_MAX):
                    part = tuple(intents[start : start + SUBMITTED_LISTED_MAX])
                    node.send(sender, contract, SubmitterHeartbeat(number, part))

    def _recall(self, submitter: Submitter) -> None:
        recall = submitter.to_recall()
        if recall is not None:
            self._start_heartbeats()
            self.node.effects.append(recall)

    def _sign_next(self, submitter: Submitter) -> None:
        order = submitter.to_see(self.node.now_ms) or submitter.next_to_sign(self.node.now_ms, self.node.height)
        if order is not None:
            self._start_heartbeats()
            self.node.effects.append(order)

    def _start_heartbeats(self) -> None:
        if self.next_heartbeat_ms is None:
            interval_ms = self.node.config.heartbeat_ms
            self.next_heartbeat_ms = (self.node.now_ms // interval_ms + 1) * interval_ms
