"""Protobuf messages to ours. Every value is checked, because its author may be hostile.

The assertions of the ledger's hashes about a value (`model/digests.py`) are checked here: sizes of ids and hashes,
numbers of states in a transition. The core judges whether a message makes sense.

A submessage that is absent reads as an empty one: numbers in it are zero, and an id in it is refused for its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

import rota.wire.peer_pb2 as pb
from rota.model import types
from rota.model.digests import CALLS_MAX, ROUND_LEAVES_MAX, STATES_MAX
from rota.wire import enumerations, messages
from rota.wire.limits import Limits
from rota.wire.values import (
    bounded,
    call,
    contract_address,
    delegation_number,
    digest,
    heartbeat_number,
    intent_id,
    leaf,
    lock_change,
    member,
    name_flaw,
    nonce,
    number,
    opaque,
    preparation,
    refuse,
    request_id,
    state_id,
    word,
)

VALUES_PER_ITEM: Final = 4

Item = TypeVar("Item")


class Reader:
    """Reads the bodies of the envelopes of one frame, and counts their items."""

    __slots__ = ("contract", "item_count", "limits", "names")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        # Of the envelope that is being read.
        self.contract = types.ContractAddress("")
        self.item_count = 0
        # A frame repeats the names of a few nodes: each name is checked once.
        self.names: set[str] = set()

    # Messages, in the order of messages.py.

    def delegation_command(self, wire: pb.DelegationCommand) -> messages.DelegationCommand:
        return messages.DelegationCommand(
            request_id(wire.command_id),
            tuple(
                messages.Delegation(
                    self.intent(part.intent), delegation_number(part.number), number(part.revert_count), part.is_voiding
                )
                for part in self.items(wire.delegations)
            ),
            self.tried(wire.tried),
        )

    def delegation_accepted(self, wire: pb.DelegationAccepted) -> messages.DelegationAccepted:
        return messages.DelegationAccepted(
            request_id(wire.command_id),
            tuple(
                messages.IntentAnswer(
                    intent_id(part.intent), member(enumerations.ANSWERS, part.answer), self.text(part.reason)
                )
                for part in self.items(wire.answers)
            ),
            heartbeat_number(wire.heartbeat),
        )

    def delegation_rejected(self, wire: pb.DelegationRejected) -> messages.DelegationRejected:
        return messages.DelegationRejected(
            request_id(wire.command_id),
            member(enumerations.REJECTIONS, wire.rejection),
            number(wire.provided_height),
            number(wire.observed_height),
            self.node(wire.active) if wire.HasField("active") else None,
            number(wire.active_age_ms),
            heartbeat_number(wire.active_number),
        )

    def assemble_request(self, wire: pb.AssembleRequest) -> messages.AssembleRequest:
        return messages.AssembleRequest(
            request_id(wire.request_id),
            self.intent_ids(wire.intents),
            messages.Snapshot(self.state_ids(wire.snapshot.locks), self.states(wire.snapshot.states)),
        )

    def assemble_response(self, wire: pb.AssembleResponse) -> messages.AssembleResponse:
        return messages.AssembleResponse(
            request_id(wire.request_id),
            tuple(
                messages.AssemblyResult(
                    intent_id(part.intent),
                    member(enumerations.ASSEMBLY_OUTCOMES, part.outcome),
                    delegation_number(part.number),
                    self.transition(part.transition) if part.HasField("transition") else None,
                    self.text(part.reason),
                    self.attesters(part),
                )
                for part in self.items(wire.results)
            ),
            number(wire.took_ms),
        )

    def assemble_error(self, wire: pb.AssembleError) -> messages.AssembleError:
        return messages.AssembleError(request_id(wire.request_id), self.intent_errors(wire.errors))

    def endorsement_request(self, wire: pb.EndorsementRequest) -> messages.EndorsementRequest:
        members = self.items(wire.members)
        return messages.EndorsementRequest(
            request_id(wire.request_id),
            digest(wire.digest),
            tuple(self.transition(part.transition) for part in members),
            tuple(self.party(part.sender) for part in members),
            number(wire.valid_until_s),
            self.tried(wire.tried),
            tuple(self.transition(part) for part in self.items(wire.makers)),
            tuple(nonce(part.nonce) for part in members),
            tuple(map(self.attesters, members)) if any(part.HasField("attesters") for part in members) else (),
            self.endorser_signatures(wire.approvals, types.REQUIRED_MAX),
            wire.asks_approval,
        )

    def endorsement_response(self, wire: pb.EndorsementResponse) -> messages.EndorsementResponse:
        return messages.EndorsementResponse(
            request_id(wire.request_id),
            digest(wire.digest),
            self.signature(wire.signature),
            tuple(
                messages.Refusal(
                    intent_id(part.intent),
                    self.text(part.reason),
                    self.kept(part.kept, messages.REFUSAL_KEPT_MAX),
                    leaf(part.leaf),
                    self.signature(part.signature),
                )
                for part in self.items(wire.refusals)
            ),
        )

    def endorsement_error(self, wire: pb.EndorsementError) -> messages.EndorsementError:
        return messages.EndorsementError(
            request_id(wire.request_id),
            member(enumerations.REJECTIONS, wire.rejection),
            self.node(wire.accepted) if wire.HasField("accepted") else None,
            heartbeat_number(wire.accepted_number),
            tuple(leaf(part) for part in self.values(wire.missing)),
            tuple(leaf(part) for part in self.values(wire.unjudged, ROUND_LEAVES_MAX)),
        )

    def dispatch_request(self, wire: pb.DispatchConfirmationRequest) -> messages.DispatchConfirmationRequest:
        return messages.DispatchConfirmationRequest(
            request_id(wire.request_id),
            digest(wire.digest),
            tuple(
                messages.DispatchItem(
                    intent_id(part.intent),
                    delegation_number(part.number),
                    leaf(part.leaf),
                    self.signature(part.signature),
                    number(part.valid_until_s),
                    self.transition(part.transition) if part.HasField("transition") else None,
                )
                for part in self.items(wire.items)
            ),
        )

    def dispatch_response(self, wire: pb.DispatchConfirmationResponse) -> messages.DispatchConfirmationResponse:
        return messages.DispatchConfirmationResponse(request_id(wire.request_id), self.intent_ids(wire.intents))

    def dispatch_error(self, wire: pb.DispatchConfirmationError) -> messages.DispatchConfirmationError:
        return messages.DispatchConfirmationError(request_id(wire.request_id), self.intent_errors(wire.errors))

    def coordinator_heartbeat(self, wire: pb.CoordinatorHeartbeat) -> messages.CoordinatorHeartbeat:
        return messages.CoordinatorHeartbeat(
            heartbeat_number(wire.number),
            member(enumerations.COORDINATOR_STATES, wire.state),
            tuple(
                messages.ListedIntent(intent_id(part.intent), self.name(part.state))
                for part in self.items(wire.intents)
            ),
            self.node(wire.successor) if wire.HasField("successor") else None,
            self.node(wire.refused) if wire.HasField("refused") else None,
            wire.is_whole,
            self.intent_ids(wire.gone),
            number(wire.count),
            wire.digest,
            tuple(
                messages.MissingEndorser(self.node(part.endorser), number(part.age_ms), self.text(part.said))
                for part in self.items(wire.missing)
            ),
        )

    def listing_request(self, wire: pb.ListingRequest) -> messages.ListingRequest:
        return messages.ListingRequest(heartbeat_number(wire.number))

    def submitter_heartbeat(self, wire: pb.SubmitterHeartbeat) -> messages.SubmitterHeartbeat:
        return messages.SubmitterHeartbeat(heartbeat_number(wire.number), self.submitted_intents(wire.intents))

    def startup(self, wire: pb.Startup) -> messages.Startup:
        return messages.Startup(request_id(wire.startup_id))

    def startup_acknowledgement(self, wire: pb.StartupAcknowledgement) -> messages.StartupAcknowledgement:
        return messages.StartupAcknowledgement(request_id(wire.startup_id))

    def handover_request(self, wire: pb.HandoverRequest) -> messages.HandoverRequest:
        return messages.HandoverRequest(request_id(wire.request_id), member(enumerations.HANDOVER_REASONS, wire.reason))

    def handover(self, wire: pb.Handover) -> messages.Handover:
        return messages.Handover(
            request_id(wire.request_id),
            tuple(
                messages.HandedOver(
                    types.FlushPoint(digest(part.point.digest), intent_id(part.point.intent)),
                    self.transition(part.transition),
                )
                for part in self.items(wire.points)
            ),
            tuple(
                messages.HandedRound(
                    tuple(leaf(each) for each in self.values(part.leaves, ROUND_LEAVES_MAX)),
                    number(part.valid_until_s),
                    self.endorser_signatures(part.signatures),
                )
                for part in self.items(wire.rounds)
            ),
        )

    def transaction_dispatched(self, wire: pb.TransactionDispatched) -> messages.TransactionDispatched:
        return messages.TransactionDispatched(digest(wire.digest), self.submitted_intents(wire.intents))

    def transaction_reverted(self, wire: pb.TransactionReverted) -> messages.TransactionReverted:
        return messages.TransactionReverted(
            intent_id(wire.intent),
            delegation_number(wire.number),
            leaf(wire.leaf),
            self.text(wire.reason),
            self.endorser_signatures(wire.refusals),
        )

    def state_distribution(self, wire: pb.StateDistribution) -> messages.StateDistribution:
        return messages.StateDistribution(
            digest(wire.digest),
            tuple(self.transition(part) for part in self.items(wire.transitions)),
            number(wire.part),
        )

    def state_distribution_acknowledgement(
        self, wire: pb.StateDistributionAcknowledgement
    ) -> messages.StateDistributionAcknowledgement:
        return messages.StateDistributionAcknowledgement(digest(wire.digest), number(wire.part))

    def state_request(self, wire: pb.StateRequest) -> messages.StateRequest:
        leaves = self.values(wire.leaves, messages.STATE_REQUEST_LEAVES_MAX)
        return messages.StateRequest(tuple(leaf(part) for part in leaves))

    def prepared_transaction(self, wire: pb.PreparedTransaction) -> messages.PreparedTransaction:
        return messages.PreparedTransaction(
            digest(wire.digest),
            tuple(leaf(part) for part in self.values(wire.leaves, ROUND_LEAVES_MAX)),
            number(wire.valid_until_s),
            self.endorser_signatures(wire.signatures),
            self.transition(wire.transition),
            self.unknown(wire),
        )

    def prepared_transaction_acknowledgement(
        self, wire: pb.PreparedTransactionAcknowledgement
    ) -> messages.PreparedTransactionAcknowledgement:
        return messages.PreparedTransactionAcknowledgement(intent_id(wire.intent), leaf(wire.leaf))

    def verifier_request(self, wire: pb.VerifierRequest) -> messages.VerifierRequest:
        return messages.VerifierRequest(request_id(wire.request_id), self.party(wire.party), wire.asks_announced)

    def verifier_response(self, wire: pb.VerifierResponse) -> messages.VerifierResponse:
        return messages.VerifierResponse(
            request_id(wire.request_id),
            self.party(wire.party),
            self.text(wire.verifier),
            wire.announced if wire.HasField("announced") else None,
        )

    def deployment_proposal(self, wire: pb.DeploymentProposal) -> messages.DeploymentProposal:
        return messages.DeploymentProposal(
            request_id(wire.request_id),
            intent_id(wire.deployment),
            opaque(wire.genesis, self.limits.payload_bytes_max, "a genesis"),
            contract_address(wire.factory),
            tuple(contract_address(part) for part in self.values(wire.signers)),
        )

    def deployment_answer(self, wire: pb.DeploymentAnswer) -> messages.DeploymentAnswer:
        return messages.DeploymentAnswer(
            request_id(wire.request_id),
            intent_id(wire.deployment),
            member(enumerations.VERDICTS, wire.verdict),
            contract_address(wire.endorser) if wire.HasField("endorser") else None,
            self.text(wire.reason),
            number(wire.asked_since_s),
        )

    def contract_taken_in(self, wire: pb.ContractTakenIn) -> messages.ContractTakenIn:
        return messages.ContractTakenIn(intent_id(wire.deployment))

    def deployment_withdrawn(self, wire: pb.DeploymentWithdrawn) -> messages.DeploymentWithdrawn:
        return messages.DeploymentWithdrawn(intent_id(wire.deployment))

    def contracts_request(self, wire: pb.ContractsRequest) -> messages.ContractsRequest:
        return messages.ContractsRequest(request_id(wire.request_id), contract_address(wire.after))

    def contracts_response(self, wire: pb.ContractsResponse) -> messages.ContractsResponse:
        found = tuple(contract_address(part) for part in self.values(wire.contracts, messages.CONTRACTS_LISTED_MAX))
        return messages.ContractsResponse(request_id(wire.request_id), found)

    def genesis_request(self, wire: pb.GenesisRequest) -> messages.GenesisRequest:
        return messages.GenesisRequest(request_id(wire.request_id))

    def genesis_response(self, wire: pb.GenesisResponse) -> messages.GenesisResponse:
        return messages.GenesisResponse(
            request_id(wire.request_id),
            intent_id(wire.deployment),
            opaque(wire.genesis, self.limits.payload_bytes_max, "a genesis"),
        )

    def group_message(self, wire: pb.GroupMessage) -> messages.GroupMessage:
        return messages.GroupMessage(
            intent_id(wire.id),
            number(wire.sent_at_ms),
            self.text(wire.topic),
            opaque(wire.content, self.limits.payload_bytes_max, "a group's message"),
            intent_id(wire.correlation_id) if wire.correlation_id else None,
        )

    def group_message_acknowledgement(
        self, wire: pb.GroupMessageAcknowledgement
    ) -> messages.GroupMessageAcknowledgement:
        return messages.GroupMessageAcknowledgement(intent_id(wire.id))

    def holdings_request(self, wire: pb.HoldingsRequest) -> messages.HoldingsRequest:
        return messages.HoldingsRequest(
            request_id(wire.request_id),
            number(wire.height),
            types.BlockHash(word(wire.block_hash, "a block's hash")),
            tuple(
                messages.Holding(leaf(part.leaf), types.Digest(word(part.proof, "a proof of holding")))
                for part in self.items(wire.holdings)
            ),
        )

    def holdings_response(self, wire: pb.HoldingsResponse) -> messages.HoldingsResponse:
        return messages.HoldingsResponse(
            request_id(wire.request_id), tuple(leaf(part) for part in self.values(wire.leaves))
        )

    # Parts that several messages share.

    def intent(self, wire: pb.Intent) -> types.Intent:
        """Read an intent; its contract is the envelope's, so that the two cannot differ."""
        return types.Intent(
            intent_id(wire.id),
            self.contract,
            self.party(wire.sender),
            opaque(wire.payload, self.limits.payload_bytes_max, "a payload"),
            self.intent_ids(wire.depends_on),
            tuple(self.party(party) for party in self.values(wire.parties)),
            self.text(wire.idempotency_key),
            member(enumerations.SUBMIT_MODES, wire.submit_mode),
            nonce(wire.nonce),
            tuple(
                types.AwaitedLeaf(
                    contract_address(part.contract), intent_id(part.intent), leaf(part.leaf), number(part.valid_until_s)
                )
                for part in self.items(wire.awaits)
            ),
        )

    def transition(self, wire: pb.Transition) -> types.Transition:
        """Read a transition, small enough for its leaf to be computed."""
        return types.Transition(
            intent_id(wire.intent),
            leaf(wire.leaf),
            self.state_ids(wire.inputs, STATES_MAX),
            self.state_ids(wire.reads, STATES_MAX),
            self.states(wire.outputs, STATES_MAX),
            tuple([word(info, "an info") for info in self.values(wire.info, STATES_MAX)]),
            number(wire.valid_until_s),
            self.signature(wire.signature),
            tuple([call(part) for part in self.items(wire.calls, CALLS_MAX)]),
            preparation(wire.preparation) if wire.HasField("preparation") else None,
            self.unknown(wire),
            lock_change(wire.lock) if wire.HasField("lock") else None,
        )

    def attesters(self, wire: pb.AssemblyResult | pb.RoundMember) -> types.Attesters:
        """Read the attesters that the plan of a transaction adds, within their limit."""
        if not wire.HasField("attesters"):
            return types.NO_ATTESTERS
        signers = self.items(wire.attesters.signers, types.COSIGNERS_MAX)
        return types.Attesters(
            tuple(types.PartySignature(self.party(part.party), self.signature(part.signature)) for part in signers),
            tuple(self.node(node) for node in self.values(wire.attesters.endorsers, types.REQUIRED_MAX)),
        )

    def states(self, wire: Sequence[pb.State], items_max: int | None = None) -> tuple[types.State, ...]:
        return tuple([self.state(part) for part in self.items(wire, items_max)])

    def state(self, wire: pb.State) -> types.State:
        content_bytes_max = self.limits.content_bytes_max
        return types.State(
            state_id(wire.id),
            word(wire.commitment, "a commitment"),
            tuple([self.node(node) for node in self.values(wire.distribution)]),
            opaque(wire.content, content_bytes_max, "a state's content") if wire.HasField("content") else None,
            self.unknown(wire),
        )

    def state_ids(self, wire: Sequence[pb.StateId], items_max: int | None = None) -> tuple[types.StateId, ...]:
        return tuple([state_id(part) for part in self.items(wire, items_max)])

    def intent_ids(self, wire: Sequence[bytes]) -> tuple[types.IntentId, ...]:
        return tuple(intent_id(part) for part in self.values(wire))

    def endorser_signatures(
        self, wire: Sequence[pb.EndorserSignature], items_max: int | None = None
    ) -> tuple[messages.EndorserSignature, ...]:
        return tuple(
            messages.EndorserSignature(self.node(part.endorser), self.signature(part.signature))
            for part in self.items(wire, items_max)
        )

    def kept(self, wire: Sequence[pb.KeptStates], items_max: int) -> tuple[types.KeptStates, ...]:
        return tuple(
            types.KeptStates(
                intent_id(part.intent),
                leaf(part.leaf),
                self.state_ids(part.inputs, STATES_MAX),
                number(part.valid_until_s),
            )
            for part in self.items(wire, items_max)
        )

    def intent_errors(self, wire: Sequence[pb.IntentError]) -> tuple[messages.IntentError, ...]:
        return tuple(
            messages.IntentError(
                intent_id(part.intent), member(enumerations.ERROR_CODES, part.code), self.text(part.text)
            )
            for part in self.items(wire)
        )

    def submitted_intents(self, wire: Sequence[pb.SubmittedIntent]) -> tuple[messages.SubmittedIntent, ...]:
        return tuple(
            messages.SubmittedIntent(
                intent_id(part.intent),
                leaf(part.leaf),
                self.name(part.signer),
                number(part.nonce),
                number(part.submission_count),
                number(part.submitted_age_ms),
                self.text(part.activity),
                word(part.hash, "a transaction's hash") if part.hash else b"",
                types.Fees(number(part.most_wei), number(part.tip_wei)),
            )
            for part in self.items(wire)
        )

    def tried(self, wire: Sequence[pb.Tried]) -> tuple[types.Tried, ...]:
        return tuple(
            types.Tried(self.node(part.node), heartbeat_number(part.number), part.is_demoted)
            for part in self.items(wire)
        )

    def node(self, name: str) -> types.NodeName:
        return types.NodeName(self.name(name))

    def party(self, name: str) -> types.Party:
        return types.Party(self.name(name))

    # Values whose bounds are the limits'.

    def items(self, wire: Sequence[Item], items_max: int | None = None) -> Sequence[Item]:
        """Return a repeated field of messages, counted before any of them becomes an object of ours.

        It is copied because to iterate over protobuf's own container takes more than twice as long.
        """
        count = len(wire)
        self._require_length(count, items_max)
        self._count(count)
        return wire[:]

    def values(self, wire: Sequence[Item], items_max: int | None = None) -> Sequence[Item]:
        """Return a repeated field of names, ids or hashes, which cost less to read."""
        count = len(wire)
        self._require_length(count, items_max)
        self._count(count // VALUES_PER_ITEM)
        return wire[:]

    def _require_length(self, count: int, items_max: int | None) -> None:
        items_max = self.limits.field_items_max if items_max is None else items_max
        if count > items_max:
            refuse(f"a field has at most {items_max} items, not {count}")

    def _count(self, count: int) -> None:
        self.item_count += count
        if self.item_count > self.limits.frame_items_max:
            refuse(f"a frame has at most {self.limits.frame_items_max} items")

    def name(self, name: str) -> str:
        """Check the name of a node or party: not empty, on one line, of visible characters."""
        if name not in self.names:
            self.names.add(self.new_name(name))
        return name

    def new_name(self, name: str) -> str:
        if flaw := name_flaw(name, self.limits):
            refuse(flaw)
        return name

    def text(self, text: str) -> str:
        """Read a text for users. It may be anything: code that shows it makes it safe."""
        return bounded(text, self.limits.text_bytes_max, "a text")

    def signature(self, signature: bytes) -> bytes:
        return opaque(signature, self.limits.signature_bytes_max, "a signature")

    def unknown(self, wire: Message) -> bytes:
        """Return the fields that only a newer version knows, unchanged: a stored or forwarded value keeps them."""
        if not len(UnknownFieldSet(wire)):
            return b""
        self._count(1)
        rest = type(wire)()
        rest.CopyFrom(wire)
        for field in wire.DESCRIPTOR.fields:
            rest.ClearField(field.name)
        return opaque(rest.SerializeToString(), self.limits.unknown_bytes_max, "what is not known of a value")


READERS: Final[Mapping[str, Callable[[Reader, Any], messages.Message]]] = {
    "delegation_command": Reader.delegation_command,
    "delegation_accepted": Reader.delegation_accepted,
    "delegation_rejected": Reader.delegation_rejected,
    "assemble_request": Reader.assemble_request,
    "assemble_response": Reader.assemble_response,
    "assemble_error": Reader.assemble_error,
    "endorsement_request": Reader.endorsement_request,
    "endorsement_response": Reader.endorsement_response,
    "endorsement_error": Reader.endorsement_error,
    "dispatch_confirmation_request": Reader.dispatch_request,
    "dispatch_confirmation_response": Reader.dispatch_response,
    "dispatch_confirmation_error": Reader.dispatch_error,
    "coordinator_heartbeat": Reader.coordinator_heartbeat,
    "submitter_heartbeat": Reader.submitter_heartbeat,
    "startup": Reader.startup,
    "startup_acknowledgement": Reader.startup_acknowledgement,
    "handover_request": Reader.handover_request,
    "handover": Reader.handover,
    "transaction_dispatched": Reader.transaction_dispatched,
    "transaction_reverted": Reader.transaction_reverted,
    "state_distribution": Reader.state_distribution,
    "state_distribution_acknowledgement": Reader.state_distribution_acknowledgement,
    "state_request": Reader.state_request,
    "prepared_transaction": Reader.prepared_transaction,
    "prepared_transaction_acknowledgement": Reader.prepared_transaction_acknowledgement,
    "verifier_request": Reader.verifier_request,
    "verifier_response": Reader.verifier_response,
    "listing_request": Reader.listing_request,
    "deployment_proposal": Reader.deployment_proposal,
    "deployment_answer": Reader.deployment_answer,
    "contract_taken_in": Reader.contract_taken_in,
    "deployment_withdrawn": Reader.deployment_withdrawn,
    "contracts_request": Reader.contracts_request,
    "contracts_response": Reader.contracts_response,
    "genesis_request": Reader.genesis_request,
    "genesis_response": Reader.genesis_response,
    "group_message": Reader.group_message,
    "group_message_acknowledgement": Reader.group_message_acknowledgement,
    "holdings_request": Reader.holdings_request,
    "holdings_response": Reader.holdings_response,
}
