"""A small kit for tests of one sequencer: a contract, a node's sequencer, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from rota.machine.context import Ids
from rota.machine.effects import Effect, Persist, SendMessage
from rota.machine.events import IntentSubmitted, MessageReceived, Tick
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.consistency import Authorised, Consistent
from rota.model.digests import (
    NONCE_BYTES,
    core_of,
    domain_separator,
    leaf_of,
    leaf_of_transition,
    page_of,
    round_digest,
    state_commitment,
    void_leaf,
)
from rota.model.types import (
    Contract,
    ContractAddress,
    DelegationNumber,
    Digest,
    Intent,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Party,
    Preparation,
    RequestId,
    Rotation,
    SignedLeaf,
    State,
    StateId,
    Transition,
)
from rota.sequencer.effects import (
    AssembleIntents,
    LeavesSigned,
    PermissionGranted,
    SignTransition,
    VerifyEndorsement,
    VerifyEndorsers,
    VerifyParties,
)
from rota.sequencer.events import (
    AssemblyFailed,
    AssemblyFinished,
    BlockIndexed,
    EndorsementVerified,
    EndorsersVerified,
    PartiesVerified,
    RoundChecked,
    TransitionSigned,
)
from rota.sequencer.sent_intent import Permission
from rota.sequencer.sequencer import Sequencer, StoredContract
from rota.wire.messages import Envelope, Message

A, B, C, D = (NodeName(name) for name in "ABCD")
ADDRESS = ContractAddress("0x" + "11" * 20)
GENESIS_S = 1_000
FORGED = b"forged"
PREPARATION = Preparation(ContractAddress("0x" + "5e" * 20), b"\x01" * 32)
NAMES: dict[IntentId, str] = {}
SEPARATOR = domain_separator(Contract(ADDRESS, (A,), (A,), 1).chain_id, ADDRESS)

EffectType = TypeVar("EffectType", bound=Effect)
MessageType = TypeVar("MessageType", bound=Message)


def contract(
    *committee: NodeName,
    mode: Mode = Mode.RING,
    rotation: Rotation = Rotation.STICKY,
    threshold: int | None = None,
    range_size: int = 100,
    endorsers: tuple[NodeName, ...] | None = None,
) -> Contract:
    """A contract of these nodes; all endorse unless told otherwise."""
    nodes = committee or (A, B, C)
    signers = endorsers if endorsers is not None else nodes
    return Contract(
        ADDRESS, nodes, signers, len(signers) if threshold is None else threshold, mode, rotation, range_size
    )


def intent(name: str, payload: bytes = b"spend", **options: object) -> Intent:
    """An intent whose nonce reads as its name; `A-1` is sent by a@A."""
    options.setdefault("nonce", nonce_of(name))
    return Intent(intent_id(name), ADDRESS, sender_of(name), payload, **options)  # type: ignore[arg-type]


def sender_of(name: str) -> Party:
    """The party of the intent of this name."""
    return Party(f"a@{name.partition('-')[0]}")


def nonce_of(name: str) -> bytes:
    """The nonce that reads as this name."""
    return name.encode().ljust(NONCE_BYTES, b"\x00")


def intent_id(name: str) -> IntentId:
    """The id that the party of this intent draws for it."""
    drawn = IntentId(page_of(sender_of(name), ADDRESS, nonce_of(name)) + b"\x00")
    NAMES[drawn] = name
    return drawn


def name_of(intent: IntentId) -> str:
    """The name of an intent that a test has named."""
    return NAMES[intent]


def transition(
    name: str,
    *inputs: StateId,
    version: int = 0,
    valid_until_s: int = GENESIS_S + 600,
    signature: bytes = b"signed",
    preparation: Preparation | None = None,
) -> Authorised:
    """A transition of an intent that spends these states and makes one; its leaf is right."""
    content = f"{name}/{version}".encode()
    commitment = state_commitment(content)
    leaf = leaf_of(core_of(SEPARATOR, intent_id(name), inputs=inputs, outputs=(commitment,)), preparation)
    made = State(StateId(leaf, 0), commitment, (A, B, C, D), content)
    whole = Transition(
        intent_id(name), leaf, inputs, (), (made,), (), valid_until_s, signature, preparation=preparation
    )
    return Authorised(Consistent(whole))


def signed_leaf(made: Transition) -> SignedLeaf:
    """What a sender records of a transition that its party signed."""
    return SignedLeaf(made.intent, made.leaf, made.valid_until_s)


def permission_of(number: DelegationNumber, delegate: NodeName, made: Transition) -> Permission:
    """The permission of a transition."""
    return Permission(number, delegate, made.leaf, made.valid_until_s)


def grant_of(number: DelegationNumber, delegate: NodeName, made: Transition) -> PermissionGranted:
    """What a sender records when it permits a transition."""
    return PermissionGranted(made.intent, *permission_of(number, delegate, made))


def remade(made: Transition, **changes: object) -> Transition:
    """Another transition of the same intent, changed so; its leaf is right."""
    changed = replace(made, **changes)  # type: ignore[arg-type]
    leaf = leaf_of_transition(SEPARATOR, changed)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(changed.outputs))
    return replace(changed, leaf=leaf, outputs=outputs)


def prepared_transition(name: str, *inputs: StateId, version: int = 0, signature: bytes = b"signed") -> Authorised:
    """A transition that a settlement contract commits, valid for `prepared_validity`."""
    valid_until_s = GENESIS_S + 900
    return transition(
        name, *inputs, version=version, valid_until_s=valid_until_s, signature=signature, preparation=PREPARATION
    )


def void_transition(name: str, signature: bytes = b"signed", valid_until_s: int = GENESIS_S + 600) -> Transition:
    """The empty transition of an intent."""
    leaf = void_leaf(SEPARATOR, intent_id(name))
    return Transition(intent_id(name), leaf, valid_until_s=valid_until_s, signature=signature)


def digest_of(*leaves: Leaf, valid_until_s: int = GENESIS_S + 600) -> Digest:
    """The digest of a round of these leaves."""
    return round_digest(SEPARATOR, leaves, valid_until_s)


@dataclass
class Bench:
    """One node's sequencer on a test bench: tell it things, read what it asks for.

    Every endorsement is its endorser's own unless it is forged; `verifies` is whether that is answered at once,
    and `verifies_parties` whether questions for the signatures of parties are.
    """

    node: NodeName = A
    of: Contract = field(default_factory=contract)
    config: Config = field(default_factory=Config)
    stored: StoredContract | None = None
    incarnation: int = 1
    now_ms: int = 0
    height: int = 0
    effects: list[Effect] = field(default_factory=list)
    verifies: bool = True
    verifies_parties: bool = True

    def __post_init__(self) -> None:
        self.sequencer = Sequencer(
            self.node, Ids(self.incarnation), self.of, self.config, 0, self.height, GENESIS_S, self.stored
        )
        self.message_count = 0
        # Our latest order to domain or signer, by the coordinator's request that it serves and the intent.
        self.orders: dict[tuple[RequestId | None, IntentId], RequestId] = {}

    def tell(self, event: Event) -> list[Effect]:
        """One step; its effects are returned and kept.

        Tests name what domain and signer answer by the coordinator's request, which stands for our latest order.
        """
        if isinstance(event, AssemblyFinished | AssemblyFailed | TransitionSigned):
            order = self.orders.get((event.request_id, event.intent), event.request_id)
            event = replace(event, request_id=order)
        found = self.sequencer.step(self.now_ms, event)
        self._note_orders(found)
        self.effects.extend(found)
        if self.verifies_parties:
            self.verify_parties()
        if self.verifies:
            self.verify()
        return found

    def _note_orders(self, effects: list[Effect]) -> None:
        transactions = self.sequencer.sender.transactions
        for effect in effects:
            if isinstance(effect, AssembleIntents):
                intents = tuple(each.id for each in effect.intents)
            elif isinstance(effect, SignTransition):
                intents = (effect.intent,)
            else:
                continue
            for each in intents:
                self.orders[transactions[each].request_id, each] = effect.request_id

    def judge(self, peer: NodeName, request_id: RequestId, signature: bytes = b"", **options: object) -> None:
        """The domain's verdict on the round that is being checked for that request."""
        check = self.sequencer.endorser.checking.get((peer, request_id))
        digest = check.request.digest if check is not None else digest_of(Leaf(b"-" * 32))
        self.tell(RoundChecked(peer, request_id, signature, digest=digest, **options))  # type: ignore[arg-type]

    def verify_parties(self) -> None:
        """Which transitions bear the signature of their party? Each one unless it is forged."""
        for order in self.take(VerifyParties):
            false = tuple(each.leaf for each in order.transitions if each.signature == FORGED)
            self.tell(PartiesVerified(order.request_id, false))

    def verify(self) -> None:
        """Whose signatures are these? The keys of the endorsers are known."""
        for asked in self.take(VerifyEndorsement):
            is_valid = asked.signature != FORGED
            self.tell(EndorsementVerified(asked.peer, asked.digest, asked.signature, is_valid))
        for order in self.take(VerifyEndorsers):
            are_valid = tuple(each.signature != FORGED for each in order.signed)
            self.tell(EndorsersVerified(order.request_id, are_valid, order.intent))

    def hear(self, peer: NodeName, body: Message, *, height: int = 0, no_ledger: bool = False, life: int = 1) -> None:
        """A message of a peer."""
        self.message_count += 1
        envelope = Envelope(ADDRESS, RequestId(life, self.message_count), life, height, body, no_ledger)
        self.tell(MessageReceived(peer, envelope))

    def wait(self, ms: int) -> None:
        """Let time pass; timers run when they are due."""
        end_ms = self.now_ms + ms
        while (due_ms := self.sequencer.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tell(Tick())
        self.now_ms = end_ms

    def block(self, height: int, *outcomes: object, time_s: int = GENESIS_S) -> None:
        """Our index reaches a height, with these outcomes."""
        self.tell(BlockIndexed(height, time_s, outcomes))  # type: ignore[arg-type]

    def submit(self, name: str, payload: bytes = b"spend", **options: object) -> None:
        """A user's intent; that it was recorded is forgotten."""
        self.tell(IntentSubmitted(name, intent(name, payload, **options)))
        self.take(Persist)

    def write(self) -> None:
        """Forget what was written so far."""
        self.take(Persist)

    def write_leaves(self) -> None:
        """Forget the records of leaves that were signed, and nothing else."""
        for persist in [each for each in self.effects if isinstance(each, Persist)]:
            if all(isinstance(record, LeavesSigned) for record in persist.records):
                self.effects.remove(persist)

    def signed(self, *transitions: Transition) -> None:
        """The parties of these intents of ours signed these, for whatever coordinator."""
        for made in transitions:
            self.sequencer.sender.transactions[made.intent].note_version(made.leaf, made.valid_until_s)

    def take(self, kind: type[EffectType]) -> list[EffectType]:
        """The effects of a kind so far; they are then forgotten."""
        found = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found

    def said(self, kind: type[MessageType], to: NodeName | None = None) -> list[MessageType]:
        """The messages of a kind so far, to anybody or to one node; they stay."""
        return [
            effect.envelope.body
            for effect in self.effects
            if isinstance(effect, SendMessage) and isinstance(effect.envelope.body, kind) and to in (None, effect.peer)
        ]

    def forget(self) -> None:
        """Begin to listen anew."""
        self.effects.clear()
