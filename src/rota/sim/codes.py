"""Stable codes for the effects, records and messages of a core, and for blocks of the chain.

A digest of a run must not change when a class, an enumeration's member, a field or a text for people is renamed: it
compares behaviour, not source code. So each kind of effect and record has a number here, with its relevant values,
field by field; enumerations have numbers; messages count as their bytes in the wire schema, with the texts for people
blanked. A number is never reused and never changed. `tests/sim/test_codes.py` fails for a kind of effect, record or
text field that has no entry.

Values are plain: numbers, bytes, strings that are data (node names, addresses, parties), `None`, and tuples of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from rota.chain.effects import (
    BlocksIndexed,
    DispatchRepriced,
    FetchBlocks,
    FinalityBroken,
    RecallDispatches,
    RoundDispatch,
    SeeAccount,
    SignDispatch,
    SubmitTransaction,
)
from rota.directory.consent import Decision
from rota.directory.effects import (
    AcquireContract,
    CallFactory,
    ContractTaken,
    ContractWanted,
    DeploymentAgreed,
    DeploymentProposed,
    FindGenesis,
    JudgeProposal,
    ListContracts,
    Proposal,
    ProposalForgotten,
    SiftContracts,
    TakeInContract,
)
from rota.exchange.effects import RecallDeliveries, StatesAcknowledged, StatesReceived
from rota.machine.effects import (
    DispatchRound,
    Effect,
    FindStates,
    IntentAccepted,
    IntentFinalised,
    LookUpVerifier,
    Persist,
    Record,
    ReplyToUser,
    ReportReceipt,
    ReportVerifier,
    SendMessage,
    TransitionPrepared,
)
from rota.model.blocks import ChainBlock, FactoryDeployment, LedgerOutcome, LedgerStatus, MinedStatus
from rota.model.types import (
    Attesters,
    AwaitedLeaf,
    CallFailure,
    CallVerdict,
    ContractAddress,
    DelegationNumber,
    Fees,
    Intent,
    KeptStates,
    KnownContract,
    Outcome,
    Receipt,
    RequestId,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LoadContract, LookUpIntents, NodeStarted, ReportFinalityBroken
from rota.sequencer.effects import (
    AssembleIntents,
    CheckRound,
    DistributeStates,
    EndingDecided,
    IntentParked,
    IntentResumed,
    JudgeFailure,
    LeavesSigned,
    PermissionGranted,
    PreparedAcknowledged,
    PreparedEndorsed,
    ReportPrepared,
    SignTransition,
    StoreStates,
    TransitionIssued,
    VerifyEndorsement,
    VerifyEndorsers,
    VerifyParties,
    VerifySignature,
)
from rota.sim.disk import Fate
from rota.sim.forgery import Lie
from rota.wire import peer_pb2 as pb
from rota.wire.enumerations import SUBMIT_MODES
from rota.wire.messages import Envelope, PreparedTransaction, Snapshot
from rota.wire.writing import write_envelope

Plain: TypeAlias = int | bytes | str | tuple["Plain", ...] | None

OUTCOMES: Final = {Outcome.CONFIRMED: 1, Outcome.REVERTED: 2}
LEDGER_STATUSES: Final = {LedgerStatus.COMMITTED: 1, LedgerStatus.SKIPPED: 2, LedgerStatus.REVERTED: 3}
MINED_STATUSES: Final = {MinedStatus.SUCCEEDED: 1, MinedStatus.FAILED: 2, MinedStatus.TAKEN: 3}
DECISIONS: Final = {Decision.GIVEN: 1, Decision.ASKED: 2, Decision.REFUSED: 3}
DISK_FATES: Final = {Fate.WORKS: 1, Fate.FAILS: 2, Fate.LIES: 3}
CALL_VERDICTS: Final = {
    CallVerdict.UNKNOWN: 1,
    CallVerdict.SUCCEEDS: 2,
    CallVerdict.REFUSED: 3,
    CallVerdict.NO_CONTRACT: 4,
}
ENUMERATIONS: Final[tuple[dict[Any, int], ...]] = (
    OUTCOMES,
    LEDGER_STATUSES,
    MINED_STATUSES,
    DECISIONS,
    DISK_FATES,
    CALL_VERDICTS,
)
# The fate of a message, as `Recorder.sent` gets it.
MESSAGE_FATES: Final = {
    "delivered": 1,
    "lost": 2,
    "held": 3,
    "damaged": 4,
    "twice": 5,
    Lie.ALTERED.value: 6,
    Lie.INVENTED.value: 7,
}

# String fields of messages that only people read, by message and field number.
PROSE_FIELDS: Final = frozenset(
    {
        ("IntentAnswer", 3),
        ("AssemblyResult", 5),
        ("IntentError", 3),
        ("Refusal", 2),
        ("SubmittedIntent", 7),
        ("TransactionReverted", 4),
        ("DeploymentAnswer", 5),
        ("MissingEndorser", 3),
    }
)
# String fields that are data: names of nodes and parties, addresses, keys, and the states listed in a heartbeat, which
# its digest covers.
# its digest covers.
DATA_FIELDS: Final = frozenset(
    {
        ("Tried", 1),
        ("Intent", 2),
        ("Intent", 5),
        ("Intent", 6),
        ("State", 3),
        ("DelegationRejected", 5),
        ("RoundMember", 2),
        ("EndorsementError", 3),
        ("ListedIntent", 2),
        ("CoordinatorHeartbeat", 4),
        ("CoordinatorHeartbeat", 5),
        ("SubmittedIntent", 3),
        ("Attesters", 2),
        ("EndorserSignature", 1),
        ("PartySignature", 1),
        ("VerifierRequest", 2),
        ("VerifierResponse", 2),
        ("VerifierResponse", 3),
        ("GroupMessage", 4),
        ("MissingEndorser", 1),
    }
)
# Replaces any text for people: its presence is behaviour, its wording is not.
SOME_TEXT: Final = "-"


# Messages.


def message_bytes(envelope: Envelope) -> bytes:
    """A message in the wire schema, with texts for people blanked."""
    wire = pb.Envelope()
    write_envelope(wire, envelope)
    _blank(wire)
    return wire.SerializeToString(deterministic=True)


def _blank(message: Message) -> None:
    texts, parts = _where_texts_are(message.DESCRIPTOR)
    for name in texts:
        if getattr(message, name):
            setattr(message, name, SOME_TEXT)
    for name, is_repeated in parts:
        if is_repeated:
            for part in getattr(message, name):
                _blank(part)
        elif message.HasField(name):
            _blank(getattr(message, name))


@cache
def _where_texts_are(kind: Descriptor) -> tuple[tuple[str, ...], tuple[tuple[str, bool], ...]]:
    """The fields of a message that are texts for people, and those whose messages have such fields."""
    texts = tuple(field.name for field in kind.fields if (kind.name, field.number) in PROSE_FIELDS)
    parts = tuple(
        (field.name, field.is_repeated)
        for field in kind.fields
        if field.type == FieldDescriptor.TYPE_MESSAGE and any(_where_texts_are(field.message_type))
    )
    return texts, parts


# Values.


def _request(number: RequestId) -> Plain:
    return (number.incarnation, number.counter)


def _delegation(number: DelegationNumber) -> Plain:
    return (number.incarnation, number.counter)


def _fees(fees: Fees) -> Plain:
    return (fees.most_wei, fees.tip_wei)


def _account(account: ContractAddress) -> tuple[Plain, ...]:
    """No code for the shared account: digests date from before there were other accounts."""
    return (account,) if account else ()


def _ids(ids: Iterable[StateId]) -> Plain:
    return tuple((each.leaf, each.output) for each in ids)


def _intent(intent: Intent) -> Plain:
    return (
        intent.id,
        intent.contract,
        intent.sender,
        intent.payload,
        intent.depends_on,
        intent.parties,
        intent.idempotency_key,
        SUBMIT_MODES.numbers[intent.submit_mode],
        intent.nonce,
        *((_awaited(intent.awaits),) if intent.awaits else ()),
    )


def _awaited(leaves: Iterable[AwaitedLeaf]) -> Plain:
    return tuple((each.contract, each.intent, each.leaf, each.valid_until_s) for each in leaves)


def _state(state: State) -> Plain:
    return (_ids((state.id,)), state.commitment, state.distribution, state.content, state.unknown)


def _states(states: Iterable[State]) -> Plain:
    return tuple(_state(state) for state in states)


def _transition(made: Transition) -> Plain:
    """Without calls and preparation, which the leaf binds."""
    return (
        made.intent,
        made.leaf,
        _ids(made.inputs),
        _ids(made.reads),
        _states(made.outputs),
        made.info,
        made.valid_until_s,
        made.signature,
        made.unknown,
    )


def _transitions(some: Iterable[Transition]) -> Plain:
    return tuple(_transition(made) for made in some)


def _attesters(some: tuple[Attesters, ...]) -> tuple[Plain, ...]:
    """Empty where no plan adds attesters."""
    return (tuple((tuple(each.signers), each.endorsers) for each in some),) if some else ()


def _snapshot(snapshot: Snapshot) -> Plain:
    return (_ids(snapshot.locks), _states(snapshot.states))


def _prepared(prepared: PreparedTransaction) -> Plain:
    signatures = tuple((each.endorser, each.signature) for each in prepared.signatures)
    return (
        prepared.digest,
        prepared.leaves,
        prepared.valid_until_s,
        signatures,
        _transition(prepared.transition),
        prepared.unknown,
    )


def _kept(some: Iterable[KeptStates]) -> Plain:
    return tuple((each.intent, each.leaf, _ids(each.inputs), each.valid_until_s) for each in some)


def _receipt(receipt: Receipt) -> Plain:
    """With `code`, which is part of the API; the reason only by its presence."""
    has_reason = bool(receipt.reason)
    return (receipt.intent, OUTCOMES[receipt.outcome], has_reason, receipt.leaf, receipt.contract, receipt.code)


def _known(known: KnownContract) -> Plain:
    return (
        known.contract.address,
        known.deployment,
        known.signers,
        known.genesis,
        known.deployed_at,
        known.taken_in_at,
        known.source,
    )


def _round(order: DispatchRound) -> Plain:
    signatures = tuple((endorser, signature) for endorser, signature in order.signatures)
    return (
        order.contract,
        order.digest,
        order.leaves,
        _transitions(order.transitions),
        order.senders,
        signatures,
        order.valid_until_s,
    )


def _dispatch(dispatch: RoundDispatch) -> Plain:
    return (
        _round(dispatch.round),
        dispatch.signer,
        dispatch.nonce,
        _fees(dispatch.fees),
        dispatch.transaction,
        dispatch.hash,
    )


def _proposal(proposal: Proposal) -> Plain:
    return (
        proposal.peer,
        proposal.deployment,
        proposal.genesis,
        _request(proposal.request_id),
        proposal.received_at_s,
        proposal.endorser,
        proposal.signers,
        DECISIONS[proposal.decision],
        proposal.asked_at_s,
        bool(proposal.reason),
        proposal.contract,
    )


def _failure(failure: CallFailure | None) -> Plain:
    return None if failure is None else (failure.number, failure.to, CALL_VERDICTS[failure.verdict], failure.revert)


def _outcome(outcome: LedgerOutcome) -> Plain:
    return (
        outcome.intent,
        outcome.leaf,
        outcome.digest,
        LEDGER_STATUSES[outcome.status],
        bool(outcome.reason),
        outcome.is_contention,
        _failure(outcome.failure),
        _ids(outcome.inputs),
        outcome.transaction,
    )


def _deployed(made: FactoryDeployment) -> Plain:
    return (made.intent, made.contract, made.genesis, made.endorsers, made.threshold, made.ledger)


def block_values(block: ChainBlock) -> Plain:
    """A block: its height and hashes, and its results."""
    return (
        block.height,
        block.hash,
        block.parent,
        block.time_s,
        tuple((contract, _outcome(outcome)) for contract, outcome in block.outcomes),
        tuple(
            (mined.nonce, MINED_STATUSES[mined.status], bool(mined.reason), *_account(mined.account))
            for mined in block.mined
        ),
        tuple(_deployed(made) for made in block.deployments),
    )


# Effects. A message counts in full when it is sent, a record when it is written: here both count as issued only.

Values = Callable[[Any], Plain]

EFFECTS: Final[dict[type[Effect], tuple[int, Values]]] = {
    SendMessage: (1, lambda e: (e.peer,)),
    Persist: (2, lambda e: (e.contract, len(e.records))),
    ReplyToUser: (3, lambda e: (e.intent, bool(e.error))),
    ReportReceipt: (4, lambda e: _receipt(e.receipt)),
    ReportFinalityBroken: (5, lambda e: (e.parted_at, e.final_height, e.intents)),
    ReportPrepared: (6, lambda e: (e.contract, _prepared(e.prepared))),
    ReportVerifier: (7, lambda e: (e.contract, e.party, e.verifier)),
    AssembleIntents: (
        8,
        lambda e: (
            e.contract,
            _request(e.request_id),
            tuple(intent.id for intent in e.intents),
            _snapshot(e.snapshot),
            e.height,
            e.valid_until_s,
            e.prepared_valid_until_s,
        ),
    ),
    SignTransition: (
        9,
        lambda e: (
            e.contract,
            _request(e.request_id),
            e.intent,
            e.party,
            e.leaf,
            e.valid_until_s,
            e.nonce,
            *((e.cosigners,) if e.cosigners else ()),
        ),
    ),
    VerifySignature: (
        10,
        lambda e: (e.contract, _request(e.request_id), e.intent, e.party, e.leaf, e.valid_until_s, e.signature),
    ),
    VerifyParties: (
        11,
        lambda e: (
            e.contract,
            _request(e.request_id),
            tuple(made.leaf for made in e.transitions),
            e.senders,
            *_attesters(e.attesters),
        ),
    ),
    CheckRound: (
        12,
        lambda e: (
            e.contract,
            e.peer,
            _request(e.request_id),
            e.digest,
            tuple(made.leaf for made in e.transitions),
            e.senders,
            e.valid_until_s,
            tuple(made.leaf for made in e.makers),
            *_attesters(e.attesters),
            *((e.asks_approval, tuple(e.approvals)) if e.attesters else ()),
        ),
    ),
    VerifyEndorsement: (13, lambda e: (e.contract, e.peer, e.digest, e.signature)),
    VerifyEndorsers: (
        14,
        lambda e: (
            e.contract,
            _request(e.request_id),
            tuple((each.endorser, each.digest, each.signature) for each in e.signed),
            e.intent,
        ),
    ),
    FindStates: (15, lambda e: (e.contract, e.peer, e.leaves)),
    DistributeStates: (16, lambda e: (e.contract, e.leaf)),
    StoreStates: (17, lambda e: (e.contract, _transition(e.transition))),
    LookUpVerifier: (18, lambda e: (e.contract, e.peer, _request(e.request_id), e.party)),
    DispatchRound: (19, _round),
    LookUpIntents: (20, lambda e: (e.key, e.intents, *((_awaited(e.leaves),) if e.leaves else ()))),
    LoadContract: (21, lambda e: (e.contract,)),
    FetchBlocks: (22, lambda e: (e.first, e.last, e.awaited)),
    SignDispatch: (23, lambda e: (_round(e.round), e.signer, e.nonce, _fees(e.fees))),
    RecallDeliveries: (24, lambda e: (e.peer, e.number, e.count_max, e.bytes_max)),
    RecallDispatches: (25, lambda e: (e.nonces, *_account(e.account))),
    SubmitTransaction: (26, lambda e: _dispatch(e.dispatch)),
    JudgeProposal: (27, lambda e: (e.peer, _request(e.request_id), e.deployment, e.genesis, e.factory, e.signers)),
    CallFactory: (28, lambda e: (e.deployment, e.genesis, e.signers, e.threshold, e.ledger)),
    ListContracts: (29, lambda e: (e.peer, _request(e.request_id), e.after)),
    SiftContracts: (30, lambda e: (e.peer, e.contracts)),
    FindGenesis: (31, lambda e: (e.contract, e.peer, _request(e.request_id))),
    AcquireContract: (32, lambda e: (e.contract, e.peer, e.deployment, e.genesis, e.has_consent)),
    ContractWanted: (33, lambda e: (e.contract, e.peer)),
    TakeInContract: (34, lambda e: _known(e.known)),
    SeeAccount: (36, lambda e: (e.account,)),
    JudgeFailure: (35, lambda e: (e.contract, _intent(e.intent), e.leaf, _failure(e.failure))),
}

RECORDS: Final[dict[type[Record], tuple[int, Values]]] = {
    NodeStarted: (1, lambda r: (r.incarnation,)),
    RoundDispatch: (3, _dispatch),
    DispatchRepriced: (4, lambda r: _dispatch(r.dispatch)),
    BlocksIndexed: (5, lambda r: (r.parted_at, tuple(block_values(block) for block in r.blocks))),
    FinalityBroken: (
        6,
        lambda r: (
            r.parted_at,
            r.final_height,
            tuple((each.height, each.contract, each.intent, each.leaf) for each in r.undone),
        ),
    ),
    StatesReceived: (7, lambda r: (r.digest, _transitions(r.transitions), r.part, r.peer)),
    StatesAcknowledged: (8, lambda r: (r.digest, r.peer, r.part)),
    IntentAccepted: (9, lambda r: _intent(r.intent)),
    IntentParked: (10, lambda r: (r.intent, bool(r.reason))),
    IntentResumed: (11, lambda r: (r.intent,)),
    EndingDecided: (12, lambda r: (r.intent, bool(r.reason))),
    LeavesSigned: (13, lambda r: _transitions(r.transitions)),
    PermissionGranted: (14, lambda r: (r.intent, _delegation(r.number), r.delegate, r.leaf, r.valid_until_s)),
    TransitionPrepared: (15, lambda r: (r.sender, _prepared(r.prepared))),
    PreparedAcknowledged: (16, lambda r: (r.intent, r.leaf)),
    TransitionIssued: (17, lambda r: (_prepared(r.prepared), r.void_after_s)),
    PreparedEndorsed: (18, lambda r: _kept(r.kept)),
    IntentFinalised: (19, lambda r: _receipt(r.receipt)),
    DeploymentAgreed: (20, lambda r: (r.deployment, r.signers)),
    DeploymentProposed: (21, lambda r: _proposal(r.proposal)),
    ProposalForgotten: (22, lambda r: (r.peer, r.deployment)),
    ContractTaken: (23, lambda r: _known(r.known)),
}


def effect_values(effect: Effect) -> Plain:
    """An effect: its number and its values."""
    code, values = EFFECTS[type(effect)]
    return (code, values(effect))


def record_values(record: Record) -> Plain:
    """A record: its number and its values."""
    code, values = RECORDS[type(record)]
    return (code, values(record))
