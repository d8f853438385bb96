"""The possible effects on this node of each field that a peer sends: the table of claims (trust rule 10).

Theory of operation. The sender of a message may put anything into it. So each field of each message, and of all
types nested in one, has an entry here, and a test requires that the entries are complete and exact:

- `Verified`: nothing is written, permitted, signed or reported by the field without the named check: a
  signature, a hash, the chain, or that this node asked this peer exactly this.
- `Bounded`: the field counts only up to the limit of the named function.
- `Harmless`: with any value, this node's records and promises are as without the message; at worst time is lost, and
  the peer that causes it is noticed (`sequencer/progress.py`, `sequencer/probation.py`).

`Hello` and the frames below the messages are the transport's (`transport/claims.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.directory import deployment_rules
from rota.directory.deployments import Deployments
from rota.directory.proposals import Proposals
from rota.model import types
from rota.model.consistency import consistent, consistent_for
from rota.model.digests import is_id_of
from rota.node.acquaintance import Acquaintance
from rota.node.node import Node
from rota.node.private_states import PrivateStates
from rota.node.verifier_requests import VerifierRequests
from rota.sequencer import coordinator as coordinator_rules
from rota.sequencer import external_issue
from rota.sequencer import sender as sender_rules
from rota.sequencer import sender_transaction as transaction_rules
from rota.sequencer.assembly import Assembly
from rota.sequencer.attestation import flaw_of_attesters, refusals_of_plan
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.demotion import Demotions
from rota.sequencer.endorser import Endorser
from rota.sequencer.handover import claims_of
from rota.sequencer.issuing import Issuing
from rota.sequencer.kept_by_others import believed_of
from rota.sequencer.observer import Observer
from rota.sequencer.parties import Parties
from rota.sequencer.permissions import Permissions
from rota.sequencer.probation import Probation
from rota.sequencer.quotas import Quotas
from rota.sequencer.rounds import Rounds
from rota.sequencer.sender import Sender
from rota.sequencer.slots import Slots
from rota.sequencer.startup import StartupNotices
from rota.wire import messages

Check: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Verified:
    """The field has no effect that this check does not justify."""

    by: Check


@dataclass(frozen=True, slots=True)
class Bounded:
    """The field counts only up to the limit of this function."""

    by: Check


@dataclass(frozen=True, slots=True)
class Harmless:
    """The field may have any value; `because` is the reason why that does not matter."""

    because: str


Claim: TypeAlias = Verified | Bounded | Harmless

_ECHO: Final = Harmless("echoed to its author, or compared with what this node keeps")
_COPY: Final = Harmless("echoed, and the name of a stored copy: a few copies of each transition are kept")
_TEXT: Final = Harmless("shown to users and operators as the peer's words; nothing is decided by it")
_PART: Final = Harmless("judged by the field that holds it")
_OPAQUE: Final = Harmless("kept and passed on as bytes; nothing reads it")

CLAIMS: Final[Mapping[type[Any], Mapping[str, Claim]]] = {
    messages.Envelope: {
        "contract": Verified(Node._take_message),
        "message_id": Harmless("orders the claims of one peer's height among themselves"),
        "incarnation": Harmless("only the peer's own later lives are compared with it"),
        "height": Bounded(Observer.height_bound),
        "body": _PART,
        "no_ledger": Harmless("a peer can only take itself out of use"),
        "correlation_id": _ECHO,
        "protocol_version": Harmless("the codec has refused other versions"),
    },
    types.RequestId: {"incarnation": _ECHO, "counter": _ECHO},
    types.DelegationNumber: {
        "incarnation": Harmless("orders the delegations of the peer's own intents"),
        "counter": Harmless("orders the delegations of the peer's own intents"),
    },
    types.HeartbeatNumber: {
        "incarnation": Harmless("orders the heartbeats of one peer; of others it counts by `Tried`"),
        "sequence": Harmless("orders the heartbeats of one peer; of others it counts by `Tried`"),
    },
    # Delegation.
    messages.DelegationCommand: {
        "command_id": _ECHO,
        "delegations": Bounded(Quotas.has_place),
        "tried": Bounded(Demotions.is_believed_unreached),
    },
    messages.Delegation: {
        "intent": Verified(is_id_of),
        "number": Harmless("orders the delegations of the peer's own intents"),
        "revert_count": Harmless("spaces and counts retries here; the sender judges the end by its own index"),
        "is_voiding": Harmless("the intent is the peer's own, and its party signs what voids it"),
    },
    types.Intent: {
        "id": Verified(is_id_of),
        "contract": Verified(Node._take_message),
        "sender": Verified(coordinator_rules.is_not_allowed),
        "payload": Harmless("no coordinator keeps or reads it"),
        "depends_on": Harmless("no coordinator reads it"),
        "parties": Harmless("no coordinator reads it"),
        "idempotency_key": Harmless("no coordinator reads it"),
        "submit_mode": Harmless("says who commits the peer's own intent"),
        "nonce": Verified(is_id_of),
        "awaits": Harmless("no coordinator reads it"),
    },
    types.AwaitedLeaf: {
        "contract": Harmless("no coordinator reads it"),
        "intent": Harmless("no coordinator reads it"),
        "leaf": Harmless("no coordinator reads it"),
        "valid_until_s": Harmless("no coordinator reads it"),
    },
    types.Tried: {
        "node": Bounded(Demotions.hear),
        "number": Bounded(Observer.is_tried_by),
        "is_demoted": Bounded(Demotions.hear),
    },
    messages.DelegationAccepted: {
        "command_id": Verified(sender_rules.answers_open_command),
        "answers": Verified(sender_rules.take_answers),
        "heartbeat": Harmless("begins a lease; only progress that the sender sees keeps an intent there"),
    },
    messages.IntentAnswer: {
        "intent": Verified(sender_rules.take_answers),
        "answer": Harmless(
            "ends nothing: a rejected intent is delegated again, one said to be dispatched is timed out"
        ),
        "reason": _TEXT,
    },
    messages.DelegationRejected: {
        "command_id": Verified(sender_rules.is_answer),
        "rejection": Harmless("the sender waits or goes elsewhere, and every wait has an end"),
        "provided_height": _TEXT,
        "observed_height": Bounded(Observer.height_bound),
        "active": Verified(sender_rules.redirect_may_be_followed),
        "active_age_ms": _TEXT,
        "active_number": Harmless("told back to nobody but its teller"),
    },
    # Assembly.
    messages.AssembleRequest: {
        "request_id": Verified(Assembly.take_request),
        "intents": Verified(Assembly.take_request),
        "snapshot": Harmless("what reverts or parks on it is assembled again on the sender's own states"),
    },
    messages.Snapshot: {
        "locks": Harmless("contention at worst: what it keeps from being assembled is tried without it"),
        "states": Harmless("endorsers judge what was assembled on them, and the chain refuses what was never made"),
    },
    messages.AssembleResponse: {
        "request_id": Verified(Slots._is_current),
        "results": Verified(Slots._event_of),
        "took_ms": Bounded(Slots._note_pace),
    },
    messages.AssemblyResult: {
        "intent": Verified(Slots._answered),
        "outcome": Harmless("of the peer's own intent"),
        "number": Harmless("orders the delegations of the peer's own intents"),
        "transition": Verified(consistent),
        "reason": _TEXT,
        "attesters": Bounded(flaw_of_attesters),
    },
    messages.AssembleError: {"request_id": Verified(Slots._is_current), "errors": Verified(Slots._answered)},
    messages.IntentError: {
        "intent": Verified(Slots._answered),
        "code": Harmless("takes the peer's own intent away, or asks for its states once"),
        "text": _TEXT,
    },
    # Transitions and states.
    types.Transition: {
        "intent": Verified(consistent),
        "leaf": Verified(consistent),
        "inputs": Verified(consistent),
        "reads": Verified(consistent),
        "outputs": Verified(consistent),
        "info": Verified(consistent),
        "valid_until_s": Bounded(Endorser._flaw_of),
        "signature": Harmless("endorsers, and the party's own node, verify it with leaf and bound"),
        "calls": Verified(consistent),
        "preparation": Verified(consistent),
        "lock": Verified(consistent),
        "unknown": _OPAQUE,
    },
    types.State: {
        "id": Verified(consistent),
        "commitment": Verified(consistent),
        "distribution": Verified(consistent_for),
        "content": Verified(consistent),
        "unknown": _OPAQUE,
    },
    types.StateId: {"leaf": Verified(consistent), "output": Verified(consistent)},
    types.Call: {"to": Verified(consistent), "gas": Verified(consistent), "data": Verified(consistent)},
    types.Preparation: {"committer": Verified(consistent), "condition": Verified(consistent)},
    types.LockChange: {
        "kind": Verified(consistent),
        "lock": Verified(consistent),
        "presumed": Verified(consistent),
        "delegate": Verified(consistent),
        "expires_at_s": Verified(consistent),
        "spends": Verified(consistent),
        "cancels": Verified(consistent),
    },
    types.Attesters: {"signers": Verified(flaw_of_attesters), "endorsers": Verified(flaw_of_attesters)},
    types.PartySignature: {
        "party": Verified(flaw_of_attesters),
        "signature": Harmless("endorsers verify it with leaf and bound, as they do the sender party's"),
    },
    # Endorsement.
    messages.EndorsementRequest: {
        "request_id": Verified(Endorser.rejection_of),
        "digest": Verified(Endorser._check),
        "transitions": Verified(Endorser._flaw_of),
        "senders": Verified(is_id_of),
        "valid_until_s": Bounded(Endorser._flaw_of),
        "tried": Bounded(Demotions.is_believed_unreached),
        "makers": Verified(consistent_for),
        "nonces": Verified(is_id_of),
        "attesters": Verified(refusals_of_plan),
        "approvals": Verified(refusals_of_plan),
        "asks_approval": Verified(refusals_of_plan),
    },
    messages.EndorsementResponse: {
        "request_id": Verified(Rounds._round_asked),
        "digest": Verified(Rounds.take_endorsement),
        "signature": Verified(Rounds.take_verified),
        "refusals": Verified(Rounds.take_refusals_verified),
    },
    messages.Refusal: {
        "intent": Verified(Rounds.take_endorsement),
        "reason": _TEXT,
        "kept": Bounded(believed_of),
        "leaf": Verified(Rounds.take_refusals_verified),
        "signature": Verified(Rounds.take_refusals_verified),
    },
    types.KeptStates: {
        "intent": Bounded(Coordinator.may_be_kept),
        "leaf": Bounded(Coordinator.may_be_kept),
        "inputs": Bounded(believed_of),
        "valid_until_s": Bounded(Coordinator.may_be_kept),
    },
    messages.EndorsementError: {
        "request_id": Verified(Rounds._round_asked),
        "rejection": Harmless("the endorser is asked again, or the others suffice"),
        "accepted": Bounded(coordinator_rules.endorsers_follow_a_silent_one),
        "accepted_number": _TEXT,
        "missing": Bounded(Rounds._note_lack),
        "unjudged": Bounded(Rounds._note_unjudged),
    },
    # Permission.
    messages.DispatchConfirmationRequest: {
        "request_id": _ECHO,
        "digest": Harmless("only leaves are permitted, not rounds"),
        "items": Verified(Sender.take_permission_request),
    },
    messages.DispatchItem: {
        "intent": Verified(Sender.take_permission_request),
        "number": Verified(transaction_rules.asks_for_assembled_leaf),
        "leaf": Verified(transaction_rules.asks_for_assembled_leaf),
        "signature": Verified(transaction_rules.is_held_signature),
        "valid_until_s": Verified(transaction_rules.is_held_signature),
        "transition": Verified(transaction_rules.is_held_signature),
    },
    messages.DispatchConfirmationResponse: {
        "request_id": Verified(Permissions._asked),
        "intents": Verified(Permissions.take),
    },
    messages.DispatchConfirmationError: {
        "request_id": Verified(Permissions._asked),
        "errors": Bounded(Probation.is_too_much),
    },
    # Availability.
    messages.CoordinatorHeartbeat: {
        "number": Verified(Observer.hear_heartbeat),
        "state": Harmless("presence, which keeps nobody: progress does"),
        "intents": Bounded(Observer._take_listing),
        "successor": Verified(Sender._successor_of),
        "refused": Harmless("makes this node yield to one that is live here; demotion leaves it if it does nothing"),
        "is_whole": Bounded(Observer._take_listing),
        "gone": Bounded(Observer._take_listing),
        "count": Harmless("compared with our own list"),
        "digest": Harmless("compared with our own list"),
        "missing": Bounded(Observer._shown_as_missing),
    },
    messages.MissingEndorser: {"endorser": Verified(Observer._shown_as_missing), "age_ms": _TEXT, "said": _TEXT},
    messages.ListedIntent: {"intent": Bounded(Observer._take_listing), "state": _TEXT},
    messages.ListingRequest: {"number": _ECHO},
    messages.SubmitterHeartbeat: {"number": _TEXT, "intents": Verified(Sender.take_dispatched)},
    messages.SubmittedIntent: {
        "intent": Verified(Sender.take_dispatched),
        "leaf": Verified(transaction_rules.is_permitted_leaf),
        "signer": _TEXT,
        "nonce": _TEXT,
        "submission_count": Harmless(
            "holds a permitted intent, at the latest until its bound has passed in final time"
        ),
        "submitted_age_ms": _TEXT,
        "activity": _TEXT,
        "hash": _TEXT,
        "fees": _TEXT,
    },
    types.Fees: {"most_wei": _TEXT, "tip_wei": _TEXT},
    messages.Startup: {"startup_id": _ECHO},
    messages.StartupAcknowledgement: {"startup_id": Verified(StartupNotices.take_acknowledgement)},
    # Hand-over.
    messages.HandoverRequest: {"request_id": _ECHO, "reason": Bounded(coordinator_rules.requester_may_take_over)},
    messages.Handover: {
        "request_id": Verified(coordinator_rules.is_answer),
        "points": Verified(claims_of),
        "rounds": Verified(claims_of),
    },
    messages.HandedOver: {"point": Verified(claims_of), "transition": Verified(claims_of)},
    types.FlushPoint: {"digest": Verified(claims_of), "intent": Verified(claims_of)},
    messages.HandedRound: {
        "leaves": Verified(claims_of),
        "valid_until_s": Verified(claims_of),
        "signatures": Verified(claims_of),
    },
    messages.EndorserSignature: {"endorser": Verified(claims_of), "signature": Verified(claims_of)},
    # Outcomes of an intent.
    messages.TransactionDispatched: {"digest": _TEXT, "intents": Verified(Sender.take_dispatched)},
    messages.TransactionReverted: {
        "intent": Verified(Sender.take_reverted),
        "number": Verified(Sender.take_reverted),
        "leaf": Verified(Sender.take_reverted),
        "reason": _TEXT,
        "refusals": Verified(Sender.take_verified),
    },
    # Private states and prepared transitions.
    messages.StateDistribution: {"digest": _COPY, "transitions": Verified(consistent_for), "part": _COPY},
    messages.StateDistributionAcknowledgement: {
        "digest": Verified(PrivateStates.take),
        "part": Verified(PrivateStates.take),
    },
    messages.StateRequest: {"leaves": Verified(PrivateStates.send_found)},
    messages.PreparedTransaction: {
        "digest": Verified(external_issue.may_be_ours),
        "leaves": Verified(external_issue.may_be_ours),
        "valid_until_s": Verified(external_issue.may_be_ours),
        "signatures": Verified(Sender.take_verified),
        "transition": Verified(external_issue.may_be_ours),
        "unknown": _OPAQUE,
    },
    messages.PreparedTransactionAcknowledgement: {
        "intent": Verified(Issuing.take_acknowledgement),
        "leaf": Verified(Issuing.take_acknowledgement),
    },
    # Parties and contracts.
    messages.VerifierRequest: {
        "request_id": _ECHO,
        "party": Bounded(VerifierRequests.must_look_up),
        "asks_announced": Bounded(VerifierRequests.may_tell_announced),
    },
    messages.VerifierResponse: {
        "request_id": Verified(Parties.take_response),
        "party": Verified(Parties.take_response),
        "verifier": Harmless("of a party of the peer's own"),
        "announced": Harmless("says that a party of the peer's own may be paid without a question"),
    },
    messages.DeploymentProposal: {
        "request_id": _ECHO,
        "deployment": Verified(Proposals._flaw_of),
        "genesis": Verified(Proposals._flaw_of),
        "factory": Verified(Proposals._flaw_of),
        "signers": Verified(types.KnownContract.told_by),
    },
    messages.DeploymentAnswer: {
        "request_id": Verified(Deployments._take_message),
        "deployment": Verified(Deployments._take_message),
        "verdict": Harmless("a member's own consent"),
        "endorser": Harmless("a member's own address: it loses its own signature by a false one"),
        "reason": _TEXT,
        "asked_since_s": Bounded(deployment_rules.asked_since_s),
    },
    messages.DeploymentWithdrawn: {"deployment": Verified(Proposals.take_withdrawn)},
    messages.ContractTakenIn: {"deployment": Verified(Deployments._take_message)},
    messages.ContractsRequest: {"request_id": _ECHO, "after": Harmless("where a page of addresses begins")},
    messages.ContractsResponse: {
        "request_id": Verified(Acquaintance._take_page),
        "contracts": Bounded(Acquaintance._take_page),
    },
    messages.GenesisRequest: {"request_id": _ECHO},
    messages.GenesisResponse: {
        "request_id": Verified(Acquaintance._take_genesis),
        "deployment": Verified(Acquaintance._take_genesis),
        "genesis": Verified(Acquaintance._take_genesis),
    },
    # Messages of privacy groups, which the core does not handle.
    messages.GroupMessage: {
        "id": Harmless("kept under its author's name"),
        "sent_at_ms": _TEXT,
        "topic": _TEXT,
        "content": _TEXT,
        "correlation_id": _TEXT,
    },
    messages.GroupMessageAcknowledgement: {"id": Harmless("ends what this node has to send to the peer itself")},
    # Holders of a transaction's states, which the core does not handle (`service.receipts.holdings`).
    messages.HoldingsRequest: {
        "request_id": _ECHO,
        "height": Harmless("compared with this node's own index, for a bounded time"),
        "block_hash": Harmless("compared with this node's own index"),
        "holdings": _PART,
    },
    messages.Holding: {
        "leaf": Harmless("looked up in this node's store, so many at a time for a peer"),
        "proof": Harmless("compared with a content that this node holds; without a match nothing is answered"),
    },
    messages.HoldingsResponse: {
        "request_id": _ECHO,
        "leaves": Harmless("ends waiting for the peer itself; a false one concerns those who read at that peer"),
    },
}
