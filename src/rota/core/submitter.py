"""Nonces and submission: one per node, for all its contracts.

Theory of operation. A round that is ready gets the next nonce of the node's signer; round and nonce are
durable before anybody hears of them and before the transaction is sent. One dispatch is written at a
time, so that a write that fails leaves no gap: its nonce goes to the next. What was sent is listed in
submitter heartbeats to the senders concerned until every transition of it has its outcome on our index.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.config import Config
from rota.core.effects import DispatchRound, RoundDispatch
from rota.core.events import LedgerOutcome
from rota.messages import SubmittedIntent
from rota.types import ContractAddress, IntentId, NodeName


@dataclass(slots=True)
class Submission:
    """A dispatched round on its way to its outcome."""

    dispatch: RoundDispatch
    unsettled: dict[IntentId, None]
    unfinal: dict[IntentId, None] = field(default_factory=dict)
    submission_count: int = 0
    submitted_at_ms: int = 0


class Submitter:
    """The dispatches of one node, in the order of their nonces."""

    def __init__(self, signer: str, config: Config, dispatches: tuple[RoundDispatch, ...], next_nonce: int) -> None:
        self.signer = signer
        self.config = config
        self.next_nonce = next_nonce
        self.waiting: list[DispatchRound] = []
        self.writing: RoundDispatch | None = None
        self.submissions: dict[int, Submission] = {}
        for dispatch in dispatches:
            self._watch(dispatch)

    def take(self, order: DispatchRound) -> None:
        """A round is to be dispatched."""
        self.waiting.append(order)

    def next_to_write(self) -> RoundDispatch | None:
        """The next dispatch to be made durable, unless one is being written."""
        if self.writing is not None or not self.waiting:
            return None
        self.writing = RoundDispatch(self.waiting.pop(0), self.signer, self.next_nonce)
        return self.writing

    def written(self) -> RoundDispatch:
        """It is durable: the nonce is used."""
        dispatch = self._take_written()
        self.next_nonce += 1
        self._watch(dispatch)
        return dispatch

    def not_written(self) -> RoundDispatch:
        """It is not durable: the nonce is free again, and the coordinator tries again."""
        return self._take_written()

    def sent(self, now_ms: int, nonce: int) -> Submission | None:
        """The chain has taken the transaction into its pool."""
        submission = self.submissions.get(nonce)
        if submission is not None:
            submission.submission_count += 1
            submission.submitted_at_ms = now_ms
        return submission

    def unanswered(self, now_ms: int) -> tuple[RoundDispatch, ...]:
        """What the chain has not taken, or has been silent about for long: it is sent again, which changes nothing."""
        return tuple(
            submission.dispatch
            for submission in self.submissions.values()
            if submission.unsettled
            and (not submission.submission_count or now_ms - submission.submitted_at_ms >= self.config.resubmit_ms)
        )

    def settle(self, contract: ContractAddress, outcome: LedgerOutcome) -> None:
        """A transition has its outcome: it is no longer listed, but kept until the outcome is final."""
        for _, submission in self._of_round(contract, outcome):
            submission.unsettled.pop(outcome.intent, None)
            submission.unfinal[outcome.intent] = None

    def undo(self, contract: ContractAddress, outcome: LedgerOutcome) -> None:
        """A reorganisation took the outcome back: the same transaction, with its nonce, is sent again."""
        for _, submission in self._of_round(contract, outcome):
            submission.unsettled[outcome.intent] = None
            submission.submission_count = 0

    def finalise(self, contract: ContractAddress, outcome: LedgerOutcome) -> None:
        """The outcome stands; a submission without open ones is done."""
        for nonce, submission in self._of_round(contract, outcome):
            submission.unsettled.pop(outcome.intent, None)
            submission.unfinal.pop(outcome.intent, None)
            if not submission.unsettled and not submission.unfinal:
                del self.submissions[nonce]

    def _of_round(self, contract: ContractAddress, outcome: LedgerOutcome) -> list[tuple[int, Submission]]:
        return [
            (nonce, submission)
            for nonce, submission in self.submissions.items()
            if submission.dispatch.round.contract == contract and submission.dispatch.round.digest == outcome.digest
        ]

    def listed(self, now_ms: int) -> dict[tuple[ContractAddress, NodeName], list[SubmittedIntent]]:
        """What each sender is told of its dispatched intents."""
        told: dict[tuple[ContractAddress, NodeName], list[SubmittedIntent]] = {}
        for nonce, submission in self.submissions.items():
            order = submission.dispatch.round
            for transition, sender in zip(order.transitions, order.senders, strict=True):
                if transition.intent in submission.unsettled:
                    listed = SubmittedIntent(
                        transition.intent,
                        transition.leaf,
                        self.signer,
                        nonce,
                        submission.submission_count,
                        now_ms - submission.submitted_at_ms if submission.submission_count else 0,
                    )
                    told.setdefault((order.contract, sender), []).append(listed)
        return told

    def _watch(self, dispatch: RoundDispatch) -> None:
        intents = dict.fromkeys(transition.intent for transition in dispatch.round.transitions)
        self.submissions[dispatch.nonce] = Submission(dispatch, intents)

    def _take_written(self) -> RoundDispatch:
        dispatch, self.writing = self.writing, None
        assert dispatch is not None, "one dispatch is written at a time"
        return dispatch
