"""The shared knowledge of liars, from messages and signatures that any of them sent or received."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rota.model.types import (
    Attesters,
    Contract,
    ContractAddress,
    DelegationNumber,
    Digest,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Party,
    Transition,
)
from rota.wire.messages import (
    AssembleResponse,
    DelegationCommand,
    EndorsementRequest,
    EndorsementResponse,
    Envelope,
    PreparedTransaction,
    StateDistribution,
)

MESSAGES_KEPT_MAX = 400
IDS_KEPT_MAX = 200


class KnownRound(NamedTuple):
    """A round whose leaves and transitions liars know; `senders` is empty when they are unknown."""

    contract: ContractAddress
    digest: Digest
    leaves: tuple[Leaf, ...]
    transitions: tuple[Transition, ...]
    senders: tuple[Party, ...]
    valid_until_s: int


class KnownTransition(NamedTuple):
    """A transition with its party's signature."""

    contract: ContractAddress
    transition: Transition
    sender: Party


class Delegated(NamedTuple):
    """An intent that a peer delegated to a liar."""

    contract: ContractAddress
    peer: NodeName
    intent: Intent
    number: DelegationNumber


class Message(NamedTuple):
    """A message that a liar sent or received."""

    source: NodeName
    target: NodeName
    envelope: Envelope


class Notebook:
    """Shared by all liars of a world. Keeps the last `MESSAGES_KEPT_MAX` messages and `IDS_KEPT_MAX` ids."""

    def __init__(self, contracts: Mapping[ContractAddress, Contract], liars: frozenset[NodeName]) -> None:
        self.contracts = contracts
        self.liars = liars
        self.rounds: dict[Digest, KnownRound] = {}
        self.signatures: dict[Digest, dict[NodeName, bytes]] = {}
        self.transitions: dict[Leaf, KnownTransition] = {}
        self.delegated: dict[IntentId, Delegated] = {}
        self.messages: deque[Message] = deque(maxlen=MESSAGES_KEPT_MAX)
        self.intents: deque[IntentId] = deque(maxlen=IDS_KEPT_MAX)
        self.nonces: dict[IntentId, bytes] = {}
        self.attesters: dict[Leaf, Attesters] = {}
        self._parties: dict[IntentId, Party] = {}

    def note(self, source: NodeName, target: NodeName, envelope: Envelope) -> None:
        """Note a message that a liar sent or received."""
        self.messages.append(Message(source, target, envelope))
        contract, body = envelope.contract, envelope.body
        match body:
            case DelegationCommand():
                for delegation in body.delegations:
                    intent = delegation.intent
                    self._parties[intent.id] = intent.sender
                    self.nonces[intent.id] = intent.nonce
                    if source not in self.liars:
                        self.intents.append(intent.id)
                        self.delegated[intent.id] = Delegated(contract, source, intent, delegation.number)
            case AssembleResponse():
                for result in body.results:
                    if result.transition is not None:
                        self._note_transition(contract, result.transition)
                        self.attesters[result.transition.leaf] = result.attesters
            case EndorsementRequest():
                self._note_round(contract, body)
            case EndorsementResponse() if body.signature:
                self.signatures.setdefault(body.digest, {})[source] = body.signature
            case PreparedTransaction():
                self._note_prepared(contract, body)
            case StateDistribution():
                for transition in body.transitions:
                    self._note_transition(contract, transition)
            case _:
                pass

    def note_round(self, known: KnownRound, signatures: Mapping[NodeName, bytes]) -> None:
        """Note a round with signatures, from a liar's own disk or from the pool."""
        self.rounds.setdefault(known.digest, known)
        self.signatures.setdefault(known.digest, {}).update(signatures)

    def complete(self) -> Iterator[tuple[KnownRound, dict[NodeName, bytes]]]:
        """The rounds for which liars hold enough signatures, with these signatures."""
        for digest, known in tuple(self.rounds.items()):
            signatures = self.signatures.get(digest, {})
            contract = self.contracts.get(known.contract)
            if contract is not None and len(signatures) >= contract.threshold:
                yield known, signatures

    def _note_round(self, contract: ContractAddress, body: EndorsementRequest) -> None:
        leaves = tuple(transition.leaf for transition in body.transitions)
        known = KnownRound(contract, body.digest, leaves, body.transitions, body.senders, body.valid_until_s)
        self.rounds.setdefault(body.digest, known)
        for transition, nonce in zip(body.transitions, body.nonces, strict=False):
            self.nonces.setdefault(transition.intent, nonce)
        for transition, attesters in zip(body.transitions, body.attesters, strict=False):
            self.attesters[transition.leaf] = attesters
        for transition, sender in zip(body.transitions, body.senders, strict=False):
            self._parties.setdefault(transition.intent, sender)
            self._note_transition(contract, transition)

    def _note_prepared(self, contract: ContractAddress, body: PreparedTransaction) -> None:
        known = KnownRound(contract, body.digest, body.leaves, (body.transition,), (), body.valid_until_s)
        self.note_round(known, {each.endorser: each.signature for each in body.signatures})

    def _note_transition(self, contract: ContractAddress, transition: Transition) -> None:
        sender = self._parties.get(transition.intent)
        if sender is not None and transition.signature and transition.leaf not in self.transitions:
            self.transitions[transition.leaf] = KnownTransition(contract, transition, sender)
