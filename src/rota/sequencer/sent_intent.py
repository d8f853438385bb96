"""An intent of this node at its sender, in every state.

It holds the versions, the permission, the dependencies and the reason of the end. `sender_transaction.py` has the
states and rules.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from rota.machine.tables import Machine
from rota.model.blocks import LedgerOutcome
from rota.model.consistency import Consistent, consistent, is_whole
from rota.model.digests import void_leaf
from rota.model.frozen import dataclass
from rota.model.types import (
    INTENT_ID_USED,
    NO_ATTESTERS,
    NO_LEAF,
    Attesters,
    DelegationNumber,
    Dependency,
    HeartbeatNumber,
    Intent,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    RequestId,
    SignedLeaf,
    SubmitMode,
    Transition,
)
from rota.sequencer.context import Context
from rota.sequencer.effects import VerifySignature
from rota.sequencer.external_issue import HeldPrepared
from rota.sequencer.sender_transaction_events import (
    DependencyConfirmed,
    DependencyReverted,
    DispatchConfirmationRequestReceived,
    RetryDue,
    SubmitterSilent,
)
from rota.wire.messages import AssemblyResult, DispatchItem, PreparedTransaction, TransactionReverted

# Stages that an intent reaches with one delegate; a sender counts them as progress (protocol §4.3).
ASKED_TO_ASSEMBLE = 1
ASKED_FOR_PERMISSION = 2


class Permission(NamedTuple):
    """A permission: one leaf, for one delegate, under one delegation number."""

    number: DelegationNumber
    delegate: NodeName
    leaf: Leaf
    valid_until_s: int


class HeldRequest(NamedTuple):
    """A permission request that waits until our delegation is accepted, or its signature is verified.

    A verdict is matched by an id drawn here: two requests may have the same coordinator's id.
    """

    peer: NodeName
    request_id: RequestId
    item: DispatchItem
    verified_as: RequestId | None = None


class HeldRefusals(NamedTuple):
    """A delegate's report that it gave the intent up, while the endorsers' refusals are verified."""

    peer: NodeName
    request_id: RequestId
    reverted: TransactionReverted
    endorsers: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """The stored facts about an intent, for a restart of its sender."""

    intent: Intent
    parked_reason: str | None = None
    permission: Permission | None = None
    ending_reason: str | None = None
    was_voided: bool = False
    issued: PreparedTransaction | None = None
    void_after_s: int = 0
    versions: tuple[SignedLeaf, ...] = ()
    used_leaf: Leaf | None = None
    ending_code: str = ""


class SentIntent(Machine):
    """The known facts about one intent of this node."""

    def __init__(self, context: Context, restored: Restored, is_new: bool, latest_chain_time_s: int) -> None:
        super().__init__()
        self.context = context
        self.intent = restored.intent
        self.parked_reason = restored.parked_reason
        # The reason of its end, once decided; `reason` below is the cause of its wait or of the last failure.
        self.ending_reason = restored.ending_reason
        self.is_ending_recorded = restored.ending_reason is not None
        self.is_voiding = False
        self.was_voided = restored.was_voided
        self.issued = restored.issued
        self.versions = {signed.leaf: signed.valid_until_s for signed in restored.versions}
        # By peer: a copy from one takes no place of another's.
        self.doubted_prepared: dict[NodeName, HeldPrepared] = {}
        self.permission = restored.permission
        self.number = DelegationNumber(self.context.incarnation, 0)
        self.delegate: NodeName | None = None
        self.delegate_incarnation = 0
        self.accepted_at = HeartbeatNumber(0, 0)
        self.lease_ms: int | None = None
        self.stage = 0
        # The coordinator's request id, to echo; and ours of the latest order to domain or signer, to match.
        self.request_id: RequestId | None = None
        self.order: RequestId | None = None
        self.transition: Transition | None = None
        self.attesters = NO_ATTESTERS
        self.result: AssemblyResult | None = None
        self.held: HeldRequest | None = None
        self.held_refusals: HeldRefusals | None = None
        self.revert_count = 0
        self.failure_count = 0
        self.dropped_count = 0
        # Whether the latest version, or the next one, is assembled on the own index alone.
        self.is_on_own_states = self.needs_own_states = False
        # The transition that it would be if its states were not reserved for a prepared transition of another intent.
        self.kept_from: Transition | None = None
        self.not_before_ms = 0
        # It waits until `not_before_ms` because of its delegate.
        self.is_put_off = False
        self.skipped_leaf: Leaf | None = None
        self.skipped_reason = ""
        self.left_leaf: Leaf | None = None
        self.confirmed_leaf = restored.used_leaf
        self.ending_code = restored.ending_code
        self.reason = ""
        self.signer_and_nonce: tuple[str, int] | None = None
        self.since_ms = self.context.now_ms
        self.history: list[tuple[int, Enum]] = []
        self.void_after_s = 0 if is_new else max(restored.void_after_s, self._latest_bound_s(latest_chain_time_s))
        self.unmet: dict[Dependency, None] = {}
        self.unresolved: dict[Party, None] = {}
        self.reverted_dependency: DependencyReverted | None = None
        # An assembly read none of `unmet`: the intent is delegated only after one of these is confirmed.
        self.awaits_confirmation = False
        # Another intent of this contract may be assembled on it before it is confirmed.
        self.has_dependents = False
        self.unknown_party: Party | None = None

    @property
    def is_external(self) -> bool:
        """Whether its user commits it, or another contract carries it out."""
        return self.intent.is_external

    @property
    def to_be_carried(self) -> Transition | None:
        """The transition that another contract, at the endorser's node, decides about and carries out."""
        is_carried = self.intent.submit_mode is SubmitMode.CARRIED
        return self.issued.transition if self.issued is not None and is_carried else None

    def dependency_ended(self, event: DependencyConfirmed | DependencyReverted) -> None:
        """Note that a dependency ended. In any state the intent may have to wait for its other dependencies again."""
        if isinstance(event, DependencyConfirmed):
            del self.unmet[event.dependency]
            self.awaits_confirmation = False
        else:
            self.reverted_dependency = event
        self.handle(event)

    def begin_assembly(self) -> None:
        """Reset for a new assembly: earlier answers of domain and signer do not count."""
        self.order, self.result, self.attesters = None, None, NO_ATTESTERS

    @property
    def open_dependencies(self) -> tuple[Dependency, ...]:
        """The dependencies that have not ended."""
        reverted = self.reverted_dependency
        return tuple(other for other in self.unmet if reverted is None or other != reverted.dependency)

    def note_party(self, party: Party, verifier: str) -> None:
        """Note in any state that a party is resolved, or unknown if `verifier` is empty."""
        if verifier:
            del self.unresolved[party]
        else:
            self.unknown_party = party

    def note_version(self, leaf: Leaf, until_s: int) -> None:
        """Note that our party signed this leaf; the same leaf may be signed again with a later bound."""
        self.versions[leaf] = max(until_s, self.versions.get(leaf, 0))

    @property
    def first_bound_s(self) -> int | None:
        """The first bound of the versions that the chain may commit, if states are reserved for them."""
        return min(self.versions.values(), default=None) if self.is_external else None

    def _latest_bound_s(self, latest_chain_time_s: int) -> int:
        """Return until when a version that our party signed before the restart may be committed.

        For an intent that an older release accepted without recording leaves, assume that one was signed last.
        """
        if self.intent.nonce or not self.context.contract.endorsers:
            return max(self.versions.values(), default=0)
        config = self.context.config
        longest_s = max(config.validity_s, config.prepared_validity_s) if self.is_external else config.validity_s
        return latest_chain_time_s + longest_s

    @property
    def answered_attesters(self) -> Attesters:
        """The attesters that the plan adds for the version in the last answer to the delegate."""
        return self.result.attesters if self.result is not None else NO_ATTESTERS

    @property
    def is_ending(self) -> bool:
        """Whether its end is decided; a version committed before the end takes effect may overrule it."""
        return self.ending_reason is not None

    def is_void(self, leaf: Leaf) -> bool:
        """Whether this is the leaf of its empty transition, which excludes every other version once committed."""
        # No recorded version is empty, so this test saves a hash.
        return leaf not in self.versions and leaf == void_leaf(self.context.separator, self.intent.id)

    @property
    def assembled(self) -> Transition | None:
        """The transition assembled last."""
        return self.result.transition if self.result is not None else None

    def has_no_retry_left(self, outcome: LedgerOutcome) -> bool:
        """Whether a call of the permitted leaf failed and `revert_retry_max` retries are used up (protocol §4.2)."""
        is_used_up = self.revert_count >= self.context.config.revert_retry_max
        return is_used_up and outcome.is_counted and self.is_permitted(outcome.leaf)

    def is_permitted(self, leaf: Leaf) -> bool:
        """Whether this leaf was permitted last."""
        return self.permission is not None and self.permission.leaf == leaf

    def verify(self, leaf: Leaf, valid_until_s: int, signature: bytes) -> RequestId:
        """Order the verification of its party's signature, from before a restart or for another coordinator."""
        request_id, intent = self.context.next_id(), self.intent
        self.context.effects.append(
            VerifySignature(
                intent.contract,
                request_id,
                intent.id,
                intent.sender,
                leaf,
                valid_until_s=valid_until_s,
                signature=signature,
            )
        )
        return request_id

    def is_recorded(self) -> bool:
        """Whether the contents of the leaf to permit were stored before the leaf left; the empty one has none."""
        assert self.held is not None, "who asks has looked"
        item = self.held.item
        is_empty = self.is_ending and self.is_void(item.leaf)
        return is_empty or self.versions.get(item.leaf, -1) >= item.valid_until_s

    def shown_by_held(self) -> Consistent | None:
        """Return the transition in the request if it is the signed one, complete for this node, else None."""
        assert self.held is not None, "who asks has looked"
        item = self.held.item
        sent = item.transition
        if sent is None or (sent.intent, sent.leaf) != (self.intent.id, item.leaf):
            return None
        if (sent.valid_until_s, sent.signature) != (item.valid_until_s, item.signature):
            return None
        return consistent(self.context.separator, sent) if is_whole(sent) else None

    def is_current(self, event: DispatchConfirmationRequestReceived) -> bool:
        """One permission per number (S4); a lower number counts only if it is from before our restart."""
        permission = self.permission
        if permission is not None and permission.number == self.number:
            return event.peer == self.delegate and permission.leaf == event.item.leaf
        is_old = event.item.number < self.number
        from_before_restart = event.item.number.incarnation < self.context.incarnation
        return event.peer == self.delegate and (not is_old or from_before_restart)

    def was_not_let_go(self, leaf: Leaf) -> bool:
        """Whether it was neither permitted nor issued: a node that commits it may send no states."""
        permission, issued = self.permission, self.issued
        is_permitted = permission is not None and permission.leaf == leaf
        is_issued = issued is not None and issued.transition.leaf == leaf
        return not (is_permitted or is_issued or self.is_void(leaf))

    def receipt(self) -> Receipt:
        """Return the receipt of an intent that was reverted."""
        assert self.ending_reason is not None, "what was reverted has a reason"
        leaf = self.confirmed_leaf if self.ending_code == INTENT_ID_USED else None
        return Receipt(self.intent.id, Outcome.REVERTED, self.ending_reason, leaf or NO_LEAF, code=self.ending_code)

    def wait_for_nobody(self) -> None:
        """Continue without its dependencies and parties."""
        self.unmet.clear()
        self.unresolved.clear()

    def start_hold(self) -> None:
        """Wait for the submitter to list it."""
        due_ms = self.context.after(self.context.config.submitter_grace_ms)
        self.context.timers.set(self, "hold", due_ms, SubmitterSilent())

    def stop_hold(self) -> None:
        """Stop waiting for the submitter."""
        self.context.timers.cancel(self, "hold")

    def retry_later(self) -> int:
        """Set the timer of a growing backoff; return when it ends."""
        due_ms = self.back_off(self.failure_count)
        self.failure_count += 1
        return due_ms

    def back_off(self, attempt: int) -> int:
        """Set the timer of this attempt's backoff; return when it ends."""
        return self.look_after(self.context.retry_delay_ms(attempt))

    def look_after(self, delay_ms: int) -> int:
        """Set the timer of a backoff of this length; return when it ends."""
        context = self.context
        due_ms = context.after(delay_ms)
        context.timers.set(self, "retry", due_ms, RetryDue())
        return due_ms
