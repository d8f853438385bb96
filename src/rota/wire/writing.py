"""Messages to their protobuf twins.

Each function fills a message that its parent has already made: if the parts were built first and handed over,
protobuf would copy every part once per level. All values were made by this node, so that one that does not fit
is our own error and raises. Texts are the exception: they may come from a domain or from the chain, have no meaning in
the protocol, and are cut to the limit of every peer, as their message would otherwise be refused forever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message

import rota.wire.peer_pb2 as pb
from rota.model import types
from rota.wire import enumerations, limits, messages

ADDRESS_PREFIX: Final = "0x"
TEXT_BYTES_MAX: Final = limits.DEFAULT_LIMITS.text_bytes_max


def write_envelope(wire: pb.Envelope, envelope: messages.Envelope) -> None:
    """Write the message with the author's data that every message carries."""
    wire.contract = _address(envelope.contract)
    _write_request_id(wire.message_id, envelope.message_id)
    if envelope.correlation_id is not None:
        _write_request_id(wire.correlation_id, envelope.correlation_id)
    wire.incarnation = envelope.incarnation
    wire.height = envelope.height
    wire.no_ledger = envelope.no_ledger
    kind, write = WRITERS[type(envelope.body)]
    body = getattr(wire, kind)
    body.SetInParent()
    if isinstance(envelope.body, messages.DelegationCommand):
        _assert_own_contract(envelope.contract, envelope.body)
    write(body, envelope.body)


def _assert_own_contract(contract: types.ContractAddress, command: messages.DelegationCommand) -> None:
    """Assert that the intents are of the envelope's contract, as an intent's own contract is not sent."""
    for delegation in command.delegations:
        assert delegation.intent.contract == contract, "an intent travels in an envelope of its own contract"


# Messages, in the order of messages.py.


def _write_delegation_command(wire: pb.DelegationCommand, command: messages.DelegationCommand) -> None:
    _write_request_id(wire.command_id, command.command_id)
    for delegation in command.delegations:
        part = wire.delegations.add()
        _write_intent(part.intent, delegation.intent)
        _write_delegation_number(part.number, delegation.number)
        part.revert_count = delegation.revert_count
        part.is_voiding = delegation.is_voiding
    _write_tried(wire.tried, command.tried)


def _write_delegation_accepted(wire: pb.DelegationAccepted, accepted: messages.DelegationAccepted) -> None:
    _write_request_id(wire.command_id, accepted.command_id)
    for answer in accepted.answers:
        part = wire.answers.add()
        part.intent = answer.intent
        part.answer = enumerations.ANSWERS.numbers[answer.answer]
        part.reason = _text(answer.reason)
    _write_heartbeat_number(wire.heartbeat, accepted.heartbeat)


def _write_delegation_rejected(wire: pb.DelegationRejected, rejected: messages.DelegationRejected) -> None:
    _write_request_id(wire.command_id, rejected.command_id)
    wire.rejection = enumerations.REJECTIONS.numbers[rejected.rejection]
    wire.provided_height = rejected.provided_height
    wire.observed_height = rejected.observed_height
    if rejected.active is not None:
        wire.active = rejected.active
    wire.active_age_ms = rejected.active_age_ms
    _write_heartbeat_number(wire.active_number, rejected.active_number)


def _write_assemble_request(wire: pb.AssembleRequest, request: messages.AssembleRequest) -> None:
    _write_request_id(wire.request_id, request.request_id)
    wire.intents.extend(request.intents)
    _write_state_ids(wire.snapshot.locks, request.snapshot.locks)
    _write_states(wire.snapshot.states, request.snapshot.states)


def _write_assemble_response(wire: pb.AssembleResponse, response: messages.AssembleResponse) -> None:
    _write_request_id(wire.request_id, response.request_id)
    wire.took_ms = response.took_ms
    for result in response.results:
        part = wire.results.add()
        part.intent = result.intent
        part.outcome = enumerations.ASSEMBLY_OUTCOMES.numbers[result.outcome]
        _write_delegation_number(part.number, result.number)
        if result.transition is not None:
            _write_transition(part.transition, result.transition)
        part.reason = _text(result.reason)
        _write_attesters(part, result.attesters)


def _write_assemble_error(wire: pb.AssembleError, error: messages.AssembleError) -> None:
    _write_request_id(wire.request_id, error.request_id)
    _write_intent_errors(wire.errors, error.errors)


def _write_endorsement_request(wire: pb.EndorsementRequest, request: messages.EndorsementRequest) -> None:
    _write_request_id(wire.request_id, request.request_id)
    wire.digest = request.digest
    for transition, sender, nonce in zip(request.transitions, request.senders, request.nonces, strict=True):
        member = wire.members.add(sender=sender, nonce=nonce)
        _write_transition(member.transition, transition)
    assert len(request.attesters) in (0, len(request.transitions)), "each member has its attesters, or none has"
    for member, attesters in zip(wire.members, request.attesters, strict=False):
        _write_attesters(member, attesters)
    wire.valid_until_s = request.valid_until_s
    _write_tried(wire.tried, request.tried)
    for maker in request.makers:
        _write_transition(wire.makers.add(), maker)
    _write_endorser_signatures(wire.approvals, request.approvals)
    wire.asks_approval = request.asks_approval


def _write_endorsement_response(wire: pb.EndorsementResponse, response: messages.EndorsementResponse) -> None:
    _write_request_id(wire.request_id, response.request_id)
    wire.digest = response.digest
    wire.signature = response.signature
    for refusal in response.refusals:
        part = wire.refusals.add(intent=refusal.intent, reason=_text(refusal.reason))
        part.leaf, part.signature = refusal.leaf, refusal.signature
        _write_kept(part.kept, refusal.kept)


def _write_endorsement_error(wire: pb.EndorsementError, error: messages.EndorsementError) -> None:
    _write_request_id(wire.request_id, error.request_id)
    wire.rejection = enumerations.REJECTIONS.numbers[error.rejection]
    if error.accepted is not None:
        wire.accepted = error.accepted
    _write_heartbeat_number(wire.accepted_number, error.accepted_number)
    wire.missing.extend(error.missing)
    wire.unjudged.extend(error.unjudged)


def _write_dispatch_request(
    wire: pb.DispatchConfirmationRequest, request: messages.DispatchConfirmationRequest
) -> None:
    _write_request_id(wire.request_id, request.request_id)
    wire.digest = request.digest
    for item in request.items:
        part = wire.items.add()
        part.intent = item.intent
        _write_delegation_number(part.number, item.number)
        part.leaf = item.leaf
        part.signature = item.signature
        part.valid_until_s = item.valid_until_s
        if item.transition is not None:
            _write_transition(part.transition, item.transition)


def _write_dispatch_response(
    wire: pb.DispatchConfirmationResponse, response: messages.DispatchConfirmationResponse
) -> None:
    _write_request_id(wire.request_id, response.request_id)
    wire.intents.extend(response.intents)


def _write_dispatch_error(wire: pb.DispatchConfirmationError, error: messages.DispatchConfirmationError) -> None:
    _write_request_id(wire.request_id, error.request_id)
    _write_intent_errors(wire.errors, error.errors)


def _write_coordinator_heartbeat(wire: pb.CoordinatorHeartbeat, heartbeat: messages.CoordinatorHeartbeat) -> None:
    _write_heartbeat_number(wire.number, heartbeat.number)
    wire.state = enumerations.COORDINATOR_STATES.numbers[heartbeat.state]
    for listed in heartbeat.intents:
        wire.intents.add(intent=listed.intent, state=listed.state)
    if heartbeat.successor is not None:
        wire.successor = heartbeat.successor
    if heartbeat.refused is not None:
        wire.refused = heartbeat.refused
    wire.is_whole = heartbeat.is_whole
    wire.gone.extend(heartbeat.gone)
    wire.count = heartbeat.count
    wire.digest = heartbeat.digest
    for lacked in heartbeat.missing:
        wire.missing.add(endorser=lacked.endorser, age_ms=lacked.age_ms, said=lacked.said)


def _write_listing_request(wire: pb.ListingRequest, request: messages.ListingRequest) -> None:
    _write_heartbeat_number(wire.number, request.number)


def _write_submitter_heartbeat(wire: pb.SubmitterHeartbeat, heartbeat: messages.SubmitterHeartbeat) -> None:
    _write_heartbeat_number(wire.number, heartbeat.number)
    _write_submitted_intents(wire.intents, heartbeat.intents)


def _write_startup(wire: pb.Startup, startup: messages.Startup) -> None:
    _write_request_id(wire.startup_id, startup.startup_id)


def _write_startup_acknowledgement(
    wire: pb.StartupAcknowledgement, acknowledgement: messages.StartupAcknowledgement
) -> None:
    _write_request_id(wire.startup_id, acknowledgement.startup_id)


def _write_handover_request(wire: pb.HandoverRequest, request: messages.HandoverRequest) -> None:
    _write_request_id(wire.request_id, request.request_id)
    wire.reason = enumerations.HANDOVER_REASONS.numbers[request.reason]


def _write_handover(wire: pb.Handover, handover: messages.Handover) -> None:
    _write_request_id(wire.request_id, handover.request_id)
    for handed in handover.points:
        part = wire.points.add()
        part.point.digest = handed.point.digest
        part.point.intent = handed.point.intent
        _write_transition(part.transition, handed.transition)
    for each in handover.rounds:
        wire_round = wire.rounds.add(leaves=each.leaves, valid_until_s=each.valid_until_s)
        _write_endorser_signatures(wire_round.signatures, each.signatures)


def _write_transaction_dispatched(wire: pb.TransactionDispatched, dispatched: messages.TransactionDispatched) -> None:
    wire.digest = dispatched.digest
    _write_submitted_intents(wire.intents, dispatched.intents)


def _write_transaction_reverted(wire: pb.TransactionReverted, reverted: messages.TransactionReverted) -> None:
    wire.intent = reverted.intent
    _write_delegation_number(wire.number, reverted.number)
    wire.leaf = reverted.leaf
    wire.reason = _text(reverted.reason)
    _write_endorser_signatures(wire.refusals, reverted.refusals)


def _write_state_distribution(wire: pb.StateDistribution, distribution: messages.StateDistribution) -> None:
    wire.digest = distribution.digest
    wire.part = distribution.part
    for transition in distribution.transitions:
        _write_transition(wire.transitions.add(), transition)


def _write_state_distribution_acknowledgement(
    wire: pb.StateDistributionAcknowledgement, acknowledgement: messages.StateDistributionAcknowledgement
) -> None:
    wire.digest = acknowledgement.digest
    wire.part = acknowledgement.part


def _write_state_request(wire: pb.StateRequest, request: messages.StateRequest) -> None:
    wire.leaves.extend(request.leaves)


def _write_prepared_transaction(wire: pb.PreparedTransaction, prepared: messages.PreparedTransaction) -> None:
    wire.digest = prepared.digest
    wire.leaves.extend(prepared.leaves)
    wire.valid_until_s = prepared.valid_until_s
    _write_endorser_signatures(wire.signatures, prepared.signatures)
    _write_transition(wire.transition, prepared.transition)
    _write_unknown(wire, prepared.unknown)


def _write_prepared_transaction_acknowledgement(
    wire: pb.PreparedTransactionAcknowledgement, acknowledgement: messages.PreparedTransactionAcknowledgement
) -> None:
    wire.intent = acknowledgement.intent
    wire.leaf = acknowledgement.leaf


def _write_verifier_request(wire: pb.VerifierRequest, request: messages.VerifierRequest) -> None:
    _write_request_id(wire.request_id, request.request_id)
    wire.party = request.party
    wire.asks_announced = request.asks_announced


def _write_verifier_response(wire: pb.VerifierResponse, response: messages.VerifierResponse) -> None:
    _write_request_id(wire.request_id, response.request_id)
    wire.party = response.party
    wire.verifier = response.verifier
    if response.announced is not None:
        wire.announced = response.announced


def _write_deployment_proposal(wire: pb.DeploymentProposal, proposal: messages.DeploymentProposal) -> None:
    _write_request_id(wire.request_id, proposal.request_id)
    wire.deployment = proposal.deployment
    wire.genesis = proposal.genesis
    wire.factory = _address(proposal.factory)
    wire.signers.extend(map(_address, proposal.signers))


def _write_deployment_answer(wire: pb.DeploymentAnswer, answer: messages.DeploymentAnswer) -> None:
    _write_request_id(wire.request_id, answer.request_id)
    wire.deployment = answer.deployment
    wire.verdict = enumerations.VERDICTS.numbers[answer.verdict]
    if answer.endorser is not None:
        wire.endorser = _address(answer.endorser)
    wire.reason = _text(answer.reason)
    wire.asked_since_s = answer.asked_since_s


def _write_contract_taken_in(wire: pb.ContractTakenIn, taken_in: messages.ContractTakenIn) -> None:
    wire.deployment = taken_in.deployment


def _write_deployment_withdrawn(wire: pb.DeploymentWithdrawn, withdrawn: messages.DeploymentWithdrawn) -> None:
    wire.deployment = withdrawn.deployment


def _write_contracts_request(wire: pb.ContractsRequest, request: messages.ContractsRequest) -> None:
    _write_request_id(wire.request_id, request.request_id)
    wire.after = _address(request.after)


def _write_contracts_response(wire: pb.ContractsResponse, response: messages.ContractsResponse) -> None:
    _write_request_id(wire.request_id, response.request_id)
    wire.contracts.extend(map(_address, response.contracts))


def _write_genesis_request(wire: pb.GenesisRequest, request: messages.GenesisRequest) -> None:
    _write_request_id(wire.request_id, request.request_id)


def _write_genesis_response(wire: pb.GenesisResponse, response: messages.GenesisResponse) -> None:
    _write_request_id(wire.request_id, response.request_id)
    wire.deployment = response.deployment
    wire.genesis = response.genesis


def _write_group_message(wire: pb.GroupMessage, message: messages.GroupMessage) -> None:
    wire.id = message.id
    wire.sent_at_ms = message.sent_at_ms
    wire.correlation_id = message.correlation_id or b""
    wire.topic = _text(message.topic)
    wire.content = message.content


def _write_group_message_acknowledgement(
    wire: pb.GroupMessageAcknowledgement, acknowledgement: messages.GroupMessageAcknowledgement
) -> None:
    wire.id = acknowledgement.id


def _write_holdings_request(wire: pb.HoldingsRequest, request: messages.HoldingsRequest) -> None:
    _write_request_id(wire.request_id, request.request_id)
    wire.height = request.height
    wire.block_hash = request.block_hash
    for holding in request.holdings:
        part = wire.holdings.add()
        part.leaf = holding.leaf
        part.proof = holding.proof


def _write_holdings_response(wire: pb.HoldingsResponse, response: messages.HoldingsResponse) -> None:
    _write_request_id(wire.request_id, response.request_id)
    wire.leaves.extend(response.leaves)


# Parts that several messages share.


def _write_intent(wire: pb.Intent, intent: types.Intent) -> None:
    wire.id = intent.id
    wire.sender = intent.sender
    wire.payload = intent.payload
    wire.depends_on.extend(intent.depends_on)
    wire.parties.extend(intent.parties)
    wire.idempotency_key = intent.idempotency_key
    wire.submit_mode = enumerations.SUBMIT_MODES.numbers[intent.submit_mode]
    wire.nonce = intent.nonce
    for leaf in intent.awaits:
        awaited = wire.awaits.add()
        awaited.contract = _address(leaf.contract)
        awaited.intent = leaf.intent
        awaited.leaf = leaf.leaf
        awaited.valid_until_s = leaf.valid_until_s


def _write_transition(wire: pb.Transition, transition: types.Transition) -> None:
    wire.intent = transition.intent
    wire.leaf = transition.leaf
    _write_state_ids(wire.inputs, transition.inputs)
    _write_state_ids(wire.reads, transition.reads)
    _write_states(wire.outputs, transition.outputs)
    wire.info.extend(transition.info)
    wire.valid_until_s = transition.valid_until_s
    wire.signature = transition.signature
    for call in transition.calls:
        wire.calls.add(to=_address(call.to), gas=call.gas, data=call.data)
    if transition.preparation is not None:
        wire.preparation.committer = _address(transition.preparation.committer)
        wire.preparation.condition = transition.preparation.condition
    if transition.lock is not None:
        _write_lock(wire.lock, transition.lock)
    _write_unknown(wire, transition.unknown)


def _write_lock(wire: pb.LockChange, change: types.LockChange) -> None:
    wire.kind = change.kind
    wire.lock = change.lock
    wire.presumed = _address(change.presumed)
    if change.kind in types.NAMING_DELEGATE:
        wire.delegate = _address(change.delegate)
    wire.expires_at_s = change.expires_at_s
    wire.spends = change.spends
    wire.cancels = change.cancels


def _write_attesters(wire: pb.AssemblyResult | pb.RoundMember, attesters: types.Attesters) -> None:
    """Most transactions have none, and then nothing is written."""
    for party, signature in attesters.signers:
        wire.attesters.signers.add(party=party, signature=signature)
    if attesters.endorsers:
        wire.attesters.endorsers.extend(attesters.endorsers)


def _write_states(wire: RepeatedCompositeFieldContainer[pb.State], states: Iterable[types.State]) -> None:
    for state in states:
        part = wire.add()
        part.id.leaf, part.id.output = state.id
        part.commitment = state.commitment
        part.distribution.extend(state.distribution)
        if state.content is not None:
            part.content = state.content
        _write_unknown(part, state.unknown)


def _write_unknown(wire: Message, unknown: bytes) -> None:
    """Write the unknown fields of a newer version unchanged (protocol §6)."""
    if unknown:
        wire.MergeFromString(unknown)


def _write_state_ids(wire: RepeatedCompositeFieldContainer[pb.StateId], ids: Iterable[types.StateId]) -> None:
    for leaf, output in ids:
        wire.add(leaf=leaf, output=output)


def _write_endorser_signatures(
    wire: RepeatedCompositeFieldContainer[pb.EndorserSignature], some: Iterable[messages.EndorserSignature]
) -> None:
    for endorser, signature in some:
        wire.add(endorser=endorser, signature=signature)


def _write_kept(wire: RepeatedCompositeFieldContainer[pb.KeptStates], some: Iterable[types.KeptStates]) -> None:
    for kept in some:
        part = wire.add(intent=kept.intent, leaf=kept.leaf, valid_until_s=kept.valid_until_s)
        _write_state_ids(part.inputs, kept.inputs)


def _write_intent_errors(
    wire: RepeatedCompositeFieldContainer[pb.IntentError], errors: Iterable[messages.IntentError]
) -> None:
    for error in errors:
        wire.add(intent=error.intent, code=enumerations.ERROR_CODES.numbers[error.code], text=_text(error.text))


def _write_submitted_intents(
    wire: RepeatedCompositeFieldContainer[pb.SubmittedIntent], intents: Iterable[messages.SubmittedIntent]
) -> None:
    for submitted in intents:
        wire.add(
            intent=submitted.intent,
            leaf=submitted.leaf,
            signer=submitted.signer,
            nonce=submitted.nonce,
            submission_count=submitted.submission_count,
            submitted_age_ms=submitted.submitted_age_ms,
            activity=_text(submitted.activity),
            hash=submitted.hash,
            most_wei=submitted.fees.most_wei,
            tip_wei=submitted.fees.tip_wei,
        )


def _write_tried(wire: RepeatedCompositeFieldContainer[pb.Tried], tried: Iterable[types.Tried]) -> None:
    for entry in tried:
        part = wire.add()
        part.node = entry.node
        _write_heartbeat_number(part.number, entry.number)
        part.is_demoted = entry.is_demoted


def _write_request_id(wire: pb.RequestId, request_id: types.RequestId) -> None:
    wire.incarnation, wire.counter = request_id


def _write_heartbeat_number(wire: pb.HeartbeatNumber, number: types.HeartbeatNumber) -> None:
    wire.incarnation, wire.sequence = number


def _write_delegation_number(wire: pb.DelegationNumber, number: types.DelegationNumber) -> None:
    wire.incarnation, wire.counter = number


def _address(address: types.ContractAddress) -> bytes:
    """The bytes of an address; only its lower-case form reads back as what it was."""
    content = bytes.fromhex(address.removeprefix(ADDRESS_PREFIX))
    assert address == ADDRESS_PREFIX + content.hex(), f"an address is 0x and lower-case hex digits, not {address!r}"
    return content


def _text(text: str) -> str:
    """The text, cut between two characters where it is too long; half a surrogate pair becomes a question mark."""
    if len(text) <= TEXT_BYTES_MAX and text.isascii():
        return text
    return text.encode("utf-8", "replace")[:TEXT_BYTES_MAX].decode("utf-8", "ignore")


WRITERS: Final[Mapping[type[messages.Message], tuple[str, Callable[[Any, Any], None]]]] = {
    messages.DelegationCommand: ("delegation_command", _write_delegation_command),
    messages.DelegationAccepted: ("delegation_accepted", _write_delegation_accepted),
    messages.DelegationRejected: ("delegation_rejected", _write_delegation_rejected),
    messages.AssembleRequest: ("assemble_request", _write_assemble_request),
    messages.AssembleResponse: ("assemble_response", _write_assemble_response),
    messages.AssembleError: ("assemble_error", _write_assemble_error),
    messages.EndorsementRequest: ("endorsement_request", _write_endorsement_request),
    messages.EndorsementResponse: ("endorsement_response", _write_endorsement_response),
    messages.EndorsementError: ("endorsement_error", _write_endorsement_error),
    messages.DispatchConfirmationRequest: ("dispatch_confirmation_request", _write_dispatch_request),
    messages.DispatchConfirmationResponse: ("dispatch_confirmation_response", _write_dispatch_response),
    messages.DispatchConfirmationError: ("dispatch_confirmation_error", _write_dispatch_error),
    messages.CoordinatorHeartbeat: ("coordinator_heartbeat", _write_coordinator_heartbeat),
    messages.SubmitterHeartbeat: ("submitter_heartbeat", _write_submitter_heartbeat),
    messages.Startup: ("startup", _write_startup),
    messages.StartupAcknowledgement: ("startup_acknowledgement", _write_startup_acknowledgement),
    messages.HandoverRequest: ("handover_request", _write_handover_request),
    messages.Handover: ("handover", _write_handover),
    messages.TransactionDispatched: ("transaction_dispatched", _write_transaction_dispatched),
    messages.TransactionReverted: ("transaction_reverted", _write_transaction_reverted),
    messages.StateDistribution: ("state_distribution", _write_state_distribution),
    messages.StateDistributionAcknowledgement: (
        "state_distribution_acknowledgement",
        _write_state_distribution_acknowledgement,
    ),
    messages.StateRequest: ("state_request", _write_state_request),
    messages.PreparedTransaction: ("prepared_transaction", _write_prepared_transaction),
    messages.PreparedTransactionAcknowledgement: (
        "prepared_transaction_acknowledgement",
        _write_prepared_transaction_acknowledgement,
    ),
    messages.VerifierRequest: ("verifier_request", _write_verifier_request),
    messages.VerifierResponse: ("verifier_response", _write_verifier_response),
    messages.ListingRequest: ("listing_request", _write_listing_request),
    messages.DeploymentProposal: ("deployment_proposal", _write_deployment_proposal),
    messages.DeploymentAnswer: ("deployment_answer", _write_deployment_answer),
    messages.ContractTakenIn: ("contract_taken_in", _write_contract_taken_in),
    messages.DeploymentWithdrawn: ("deployment_withdrawn", _write_deployment_withdrawn),
    messages.ContractsRequest: ("contracts_request", _write_contracts_request),
    messages.ContractsResponse: ("contracts_response", _write_contracts_response),
    messages.GenesisRequest: ("genesis_request", _write_genesis_request),
    messages.GenesisResponse: ("genesis_response", _write_genesis_response),
    messages.GroupMessage: ("group_message", _write_group_message),
    messages.GroupMessageAcknowledgement: ("group_message_acknowledgement", _write_group_message_acknowledgement),
    messages.HoldingsRequest: ("holdings_request", _write_holdings_request),
    messages.HoldingsResponse: ("holdings_response", _write_holdings_response),
}
