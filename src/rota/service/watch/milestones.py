"""The milestones of transactions, derived from the events and effects of a core.

Theory of operation. Everything about a transaction that leaves or enters the core passes through an event or an effect;
this module maps these to milestones. It queries nothing in the core, so that following costs the core nothing. A node
sees the milestones of its own roles: the sender's, the coordinator's, an endorser's; all see the ledger's. A node's
messages to itself do not pass here, so that a delegation to its own coordinator is reported when the assembly begins.

An endorser's answer names a round and not its intents; the rounds that are being endorsed are remembered, at most
`ROUNDS_MAX`, the oldest dropped first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Final, NamedTuple

from rota.chain.effects import BlocksIndexed, RoundDispatch
from rota.machine.effects import Effect, IntentAccepted, Persist, Record, ReportReceipt, SendMessage
from rota.machine.events import MessageReceived
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, LedgerStatus
from rota.model.types import ContractAddress, Digest, IntentId, NodeName, Outcome, RequestId, Transition
from rota.node.events import ForContract
from rota.sequencer.effects import AssembleIntents, CheckRound, PermissionGranted
from rota.sequencer.events import AssemblyFinished, EndorsementVerified, RoundChecked
from rota.wire.messages import (
    Answer,
    AssembleResponse,
    AssemblyOutcome,
    DelegationAccepted,
    DispatchConfirmationResponse,
    EndorsementRequest,
    Message,
    TransactionDispatched,
)

ROUNDS_MAX: Final = 4_096


class Milestone(Enum):
    """A stage that a transaction has reached."""

    ACCEPTED = "accepted"
    DELEGATED = "delegated"
    ASSEMBLED = "assembled"
    ENDORSED = "endorsed"
    PERMITTED = "permitted"
    DISPATCHED = "dispatched"
    CONFIRMED = "confirmed"
    SKIPPED = "skipped"
    REPORTED = "reported"

    # Each member exists once, so its address identifies it; Enum would hash its name for every sighting.
    __hash__ = object.__hash__


class Sighting(NamedTuple):
    """Transactions at a milestone, all from one event or effect. `peer` is the other node that caused it, if any.

    A sighting of a round names all transactions in it: one sighting of many costs little more than one of one.
    """

    milestone: Milestone
    intents: Sequence[IntentId]
    contract: ContractAddress
    peer: NodeName | None = None
    detail: str = ""
    has_failed: bool = False


class Milestones:
    """Derive the milestones from events and effects of one node."""

    def __init__(self, node: NodeName) -> None:
        self._node: Final = node
        self._rounds: Final[OrderedDict[Digest, tuple[IntentId, ...]]] = OrderedDict()
        self._checks: Final[OrderedDict[tuple[NodeName, RequestId], Digest]] = OrderedDict()

    def of_event(self, event: Event) -> Iterator[Sighting]:
        """Yield the milestones in an event of the core."""
        match event:
            case MessageReceived(peer, envelope):
                yield from _of_message(envelope.contract, peer, envelope.body)
            case ForContract(contract, AssemblyFinished(intent=intent, outcome=AssemblyOutcome.ASSEMBLED)):
                yield Sighting(Milestone.ASSEMBLED, (intent,), contract)
            case ForContract(contract, RoundChecked(peer, request_id, signature)) if signature:
                digest = self._checks.pop((peer, request_id), None)
                if digest is not None and (intents := self._rounds.get(digest)):
                    yield Sighting(Milestone.ENDORSED, intents, contract)
            case ForContract(contract, EndorsementVerified(peer, digest, is_valid=True)) if peer != self._node:
                if intents := self._rounds.get(digest):
                    yield Sighting(Milestone.ENDORSED, intents, contract, peer)
            case _:
                return

    def of_effect(self, effect: Effect) -> Iterator[Sighting]:
        """Yield the milestones in an effect of the core."""
        match effect:
            case Persist(contract, records=records):
                yield from _of_records(contract, records)
            case SendMessage(peer, envelope):
                self._note_request(envelope.body)
                if isinstance(envelope.body, DelegationAccepted):
                    yield from _of_answers(envelope.contract, peer, envelope.body)
            case AssembleIntents(contract, intents=intents):
                yield Sighting(Milestone.DELEGATED, [each.id for each in intents], contract)
            case CheckRound(peer=peer, request_id=request_id, digest=digest, transitions=transitions):
                self._note_round(digest, transitions)
                self._checks[peer, request_id] = digest
                if len(self._checks) > ROUNDS_MAX:
                    self._checks.popitem(last=False)
            case ReportReceipt(receipt):
                failed = receipt.outcome is Outcome.REVERTED
                text = f"{receipt.outcome.value}: {receipt.reason}" if receipt.reason else receipt.outcome.value
                yield Sighting(Milestone.REPORTED, (receipt.intent,), ContractAddress(""), None, text, failed)
            case _:
                return

    def _note_request(self, body: Message) -> None:
        if isinstance(body, EndorsementRequest):
            self._note_round(body.digest, body.transitions)

    def _note_round(self, digest: Digest, transitions: tuple[Transition, ...]) -> None:
        self._rounds[digest] = tuple(each.intent for each in transitions)
        self._rounds.move_to_end(digest)
        if len(self._rounds) > ROUNDS_MAX:
            self._rounds.popitem(last=False)


# Most events and effects have no milestone: a check of the type is cheaper than matching every pattern.
_TELLING_MESSAGES: Final = frozenset(
    {DelegationAccepted, AssembleResponse, DispatchConfirmationResponse, TransactionDispatched}
)
_TELLING_EVENTS: Final = frozenset({AssemblyFinished, RoundChecked, EndorsementVerified})
_TELLING_EFFECTS: Final = frozenset({Persist, AssembleIntents, CheckRound, ReportReceipt})
_TELLING_SENT: Final = frozenset({DelegationAccepted, EndorsementRequest})


def is_telling_event(event: Event) -> bool:
    """Whether `Milestones.of_event` may find a milestone in it."""
    if isinstance(event, MessageReceived):
        return type(event.envelope.body) in _TELLING_MESSAGES
    return isinstance(event, ForContract) and type(event.event) in _TELLING_EVENTS


def is_telling_effect(effect: Effect) -> bool:
    """Whether `Milestones.of_effect` may find a milestone in it."""
    if isinstance(effect, SendMessage):
        return type(effect.envelope.body) in _TELLING_SENT
    return type(effect) in _TELLING_EFFECTS


def _of_message(contract: ContractAddress, peer: NodeName, body: Message) -> Iterator[Sighting]:
    match body:
        case DelegationAccepted():
            yield from _of_answers(contract, peer, body)
        case AssembleResponse(results=results):
            assembled = [each.intent for each in results if each.outcome is AssemblyOutcome.ASSEMBLED]
            if assembled:
                yield Sighting(Milestone.ASSEMBLED, assembled, contract, peer)
        case DispatchConfirmationResponse(intents=intents) if intents:
            yield Sighting(Milestone.PERMITTED, intents, contract, peer)
        case TransactionDispatched(intents=submitted):
            for (signer, nonce), together in groupby(submitted, lambda each: (each.signer, each.nonce)):
                dispatched = [each.intent for each in together]
                yield Sighting(Milestone.DISPATCHED, dispatched, contract, peer, f"nonce {nonce} of {signer}")
        case _:
            return


def _of_answers(contract: ContractAddress, peer: NodeName, accepted: DelegationAccepted) -> Iterator[Sighting]:
    taken = [each.intent for each in accepted.answers if each.answer is Answer.ACCEPTED]
    if taken:
        yield Sighting(Milestone.DELEGATED, taken, contract, peer)


def _of_records(contract: ContractAddress, records: Sequence[Record]) -> Iterator[Sighting]:
    accepted: list[IntentId] = []
    permitted: dict[NodeName, list[IntentId]] = {}
    for record in records:
        # The first two are frequent, so they are recognised by type and not by pattern.
        if isinstance(record, PermissionGranted):
            permitted.setdefault(record.delegate, []).append(record.intent)
        elif isinstance(record, IntentAccepted):
            accepted.append(record.intent.id)
        elif isinstance(record, RoundDispatch):
            opened = record.round
            dispatched = [transition.intent for transition in opened.transitions]
            detail = f"nonce {record.nonce} of {record.signer}"
            yield Sighting(Milestone.DISPATCHED, dispatched, opened.contract, None, detail)
        elif isinstance(record, BlocksIndexed):
            for block in record.blocks:
                yield from _of_block(block)
    if accepted:
        yield Sighting(Milestone.ACCEPTED, accepted, contract)
    for delegate, intents in permitted.items():
        yield Sighting(Milestone.PERMITTED, intents, contract, delegate)


def _of_block(block: ChainBlock) -> Iterator[Sighting]:
    committed: dict[ContractAddress, list[IntentId]] = {}
    for contract, outcome in block.outcomes:
        if outcome.status is LedgerStatus.COMMITTED:
            committed.setdefault(contract, []).append(outcome.intent)
        else:
            text = f"block {block.height}: {outcome.status.value}: {outcome.reason}"
            yield Sighting(Milestone.SKIPPED, (outcome.intent,), contract, None, text)
    for contract, intents in committed.items():
        yield Sighting(Milestone.CONFIRMED, intents, contract, None, f"block {block.height}")
