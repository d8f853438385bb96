"""Rounds for tests: write transitions, sign them, commit them on the real contract."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from rota.bench.gas import address_of
from rota.calldata import (
    NO_CONDITION,
    ROUND_TOPIC,
    SKIPPED_TOPIC,
    Entry,
    Malformed,
    RoundLog,
    SkippedLog,
    decode_round_log,
    decode_skipped_log,
    encode_auth,
    encode_commit,
    encode_payload,
)
from rota.domains.zeto.reserve import is_deposit, moved_by
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.proofs import binding_of, coins_in, encode_proofs
from rota.model.digests import Core, core_of, domain_separator, intent_of, leaf_of, round_digest
from rota.model.types import (
    Call,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    LockChange,
    Preparation,
    State,
    StateId,
    Transition,
)
from tests.contracts.evm import ALICE, GAS_LIMIT, TIME_S, Answer, Chain, keccak

VALID_UNTIL_S: Final = TIME_S + 600
PROOF_VALID_UNTIL_S: Final = VALID_UNTIL_S
HALF_ORDER: Final = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
ORDER: Final = 2 * HALF_ORDER + 1
# The order of the field that circuits compute in.
FIELD: Final = 21888242871839275222246405745257275088548364400416034343698204186575808495617


@cache
def key_of(number: int) -> PrivateKey:
    return PrivateKey(keccak(b"key %d" % number))


def intent_id(number: int, page: bytes = b"page") -> IntentId:
    return IntentId(keccak(page + b" %d" % (number // 256))[:15] + bytes((number % 256,)))


# The keys of all one-time ids that were drawn.
INTENT_KEYS: Final[dict[IntentId, PrivateKey]] = {}


@cache
def one_time_id(number: int, page: bytes = b"page") -> IntentId:
    """An id that belongs to a key, as contracts want it whose transitions are proved."""
    key = PrivateKey(keccak(b"one-time %s %d" % (page, number)))
    INTENT_KEYS[intent_of(key.address)] = key
    return intent_of(key.address)


def signed_by_intent(transition: Transition) -> bytes:
    """The signature that shows whose the id is."""
    return INTENT_KEYS[transition.intent].sign_compact(binding_of(transition.leaf, transition.valid_until_s))


def proved_as(transition: Transition, other: Transition) -> Transition:
    """A transition, signed by its own intent, with what another one has behind that signature."""
    return replace(transition, signature=signed_by_intent(transition) + other.signature[64:])


def states_of(leaf: Leaf, commitments: Iterable[bytes]) -> tuple[State, ...]:
    return tuple(State(StateId(leaf, n), commitment, ()) for n, commitment in enumerate(commitments))


def write(
    separator: bytes,
    number: int,
    *,
    inputs: tuple[StateId, ...] = (),
    reads: tuple[StateId, ...] = (),
    outputs: int = 0,
    info: int = 0,
    calls: tuple[Call, ...] = (),
    preparation: Preparation | None = None,
    lock: LockChange | None = None,
    salt: bytes = b"",
    page: bytes = b"page",
    is_proved: bool = False,
) -> Transition:
    """A transition for intent `number`; another salt makes another version of it. Infos of what is proved are coins."""
    intent = one_time_id(number, page) if is_proved else intent_id(number, page)
    commitments = tuple(keccak(b"output %d %d" % (number, n) + salt) for n in range(outputs))
    infos = tuple(keccak(b"info %d %d" % (number, n) + salt) for n in range(info))
    if is_proved:
        infos = tuple((int.from_bytes(each, "big") % FIELD).to_bytes(32, "big") for each in infos)
    core = core_of(
        separator, intent, reads=reads, inputs=inputs, outputs=commitments, info=infos, calls=calls, lock=lock
    )
    leaf = leaf_of(core, preparation)
    states = states_of(leaf, commitments)
    return Transition(intent, leaf, inputs, reads, states, infos, calls=calls, preparation=preparation, lock=lock)


def core_of_transition(separator: bytes, transition: Transition) -> Core:
    return core_of(
        separator,
        transition.intent,
        reads=transition.reads,
        inputs=transition.inputs,
        outputs=tuple(state.commitment for state in transition.outputs),
        info=transition.info,
        calls=transition.calls,
        lock=transition.lock,
    )


def ids(transition: Transition) -> tuple[StateId, ...]:
    """What a transition makes."""
    return tuple(state.id for state in transition.outputs)


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did."""

    mask: int
    prepared_hash: bytes
    round: RoundLog
    skipped: tuple[SkippedLog, ...]
    gas: int


def read_answer(answer: Answer, separator: bytes, ledger: ContractAddress) -> Committed:
    """Read a commit's answer and its logs; of these, the ledger's own."""
    events = [event for event in answer.events if event.address == ledger]
    rounds = [decode_round_log(e.topics, e.content, separator) for e in events if e.topics[0] == ROUND_TOPIC]
    assert len(rounds) == 1
    assert not isinstance(rounds[0], Malformed), rounds[0]
    skipped = [decode_skipped_log(e.topics, e.content) for e in events if e.topics[0] == SKIPPED_TOPIC]
    assert all(isinstance(each, SkippedLog) for each in skipped)
    mask, prepared_hash = int.from_bytes(answer.output[:32], "big"), answer.output[32:]
    kept = tuple(each for each in skipped if isinstance(each, SkippedLog))
    return Committed(mask, prepared_hash, rounds[0], kept, answer.gas)


@dataclass(slots=True)
class EndorsedLedger:
    """An `Endorsed` contract, or one that inherits it, and the keys of its endorsers."""

    endorser_count: int = 3
    threshold: int = 2
    chain: Chain = field(default_factory=Chain)
    code: str = "Endorsed"
    address: ContractAddress = field(init=False)
    keys: dict[ContractAddress, PrivateKey] = field(init=False)

    def __post_init__(self) -> None:
        self.keys = {address_of(key_of(number)): key_of(number) for number in range(self.endorser_count)}
        self.address = self.chain.deploy(self.code, list(self.keys), self.threshold)

    @property
    def separator(self) -> bytes:
        return domain_separator(self.chain.chain_id, self.address)

    @property
    def endorsers(self) -> tuple[ContractAddress, ...]:
        return tuple(self.keys)

    def digest(self, entries: tuple[Entry, ...], valid_until_s: int = VALID_UNTIL_S) -> Digest:
        leaves = tuple(entry.leaf if isinstance(entry, Transition) else entry for entry in entries)
        return round_digest(self.separator, leaves, valid_until_s)

    def auth(self, digest: Digest, signers: int | None = None) -> bytes:
        """Signatures of the first endorsers, as many as have to sign or as are asked for."""
        count = self.threshold if signers is None else signers
        signatures = {address: key.sign_compact(digest) for address, key in list(self.keys.items())[:count]}
        return encode_auth(self.endorsers, signatures, count)

    def call(
        self, *entries: Entry, valid_until_s: int = VALID_UNTIL_S, condition: bytes = NO_CONDITION, body: bool = False
    ) -> bytes:
        """The call of a commit, properly signed."""
        payload = encode_payload(entries, valid_until_s, body)
        return encode_commit(payload, self.auth(self.digest(entries, valid_until_s)), condition)

    def commit(
        self,
        *entries: Entry,
        valid_until_s: int = VALID_UNTIL_S,
        condition: bytes = NO_CONDITION,
        sender: ContractAddress = ALICE,
        gas: int = GAS_LIMIT,
        body: bool = False,
    ) -> Committed:
        call = self.call(*entries, valid_until_s=valid_until_s, condition=condition, body=body)
        return read_answer(self.chain.send(self.address, call, sender, gas), self.separator, self.address)

    def commit_bytes(self, payload: bytes, leaves: tuple[Leaf, ...], auth: bytes | None = None) -> Committed:
        """Commit a payload that was written by hand; `leaves` are what it is thought to have."""
        digest = round_digest(self.separator, leaves, int.from_bytes(payload[:8], "big"))
        call = encode_commit(payload, self.auth(digest) if auth is None else auth)
        return read_answer(self.chain.send(self.address, call), self.separator, self.address)

    def write(self, number: int, **what: object) -> Transition:
        return write(self.separator, number, **what)  # type: ignore[arg-type]

    def unspent(self, leaf: Leaf) -> int:
        found: int = self.chain.call("Endorsed", self.address, "unspentOf", leaf)
        return found

    def is_used(self, intent: IntentId) -> bool:
        return bool(self.chain.call("Endorsed", self.address, "isUsed", intent))


ISSUER: Final = 77


def signature_for(transition: Transition, depositor: PrivateKey | None) -> bytes:
    """What a deposit shows before its proof; nothing for what is none."""
    if depositor is None or not any(map(is_deposit, transition.calls)):
        return b""
    return depositor.sign_compact(binding_of(transition.leaf, transition.valid_until_s))


def net_in(calls: tuple[Call, ...]) -> int:
    """What a proof has as net of a transition with these calls."""
    comes_in, leaves = moved_by(calls[:1])
    return (comes_in - leaves) % FIELD


def proof_for_tests(public_inputs: bytes) -> bytes:
    """What `TestVerifier` takes for a proof of these."""
    return (int.from_bytes(keccak(public_inputs), "big") >> 1).to_bytes(32, "big") + bytes(224)


class ProvedLedger:
    """A `Proved` contract, and the prover that goes with the verifier for tests."""

    name = "Proved"

    def __init__(self, unbacked_mints: bool = False) -> None:
        self.chain = Chain()
        verifiers = [self.chain.deploy("TestVerifier", size) for size in (7, 21)]
        self.address = self.chain.deploy(self.name, address_of(key_of(ISSUER)), *verifiers, unbacked_mints)
        self.separator = domain_separator(self.chain.chain_id, self.address)
        self.makers: dict[Leaf, Transition] = {}

    def write(
        self, number: int, valid_until_s: int = PROOF_VALID_UNTIL_S, depositor: PrivateKey | None = None, **what: object
    ) -> Transition:
        """A transition with its proof; an info for each output stands for its coin."""
        wanted = {"info": what.get("outputs", 0), "is_proved": True, **what}
        made = write(self.separator, number, **wanted)  # type: ignore[arg-type]
        return self.take(replace(made, valid_until_s=valid_until_s), depositor)

    def take(self, made: Transition, depositor: PrivateKey | None = None) -> Transition:
        """Prove what was written, and remember it as a maker."""
        small = tuple(state._replace(output=state.output % 16) for state in made.inputs)
        proof = signature_for(made, depositor) + self.proof(replace(made, inputs=small))
        proved = replace(made, signature=signed_by_intent(made) + proof)
        self.makers[made.leaf] = proved
        return proved

    def public_inputs(self, transition: Transition) -> list[int]:
        """What the verifier is given for a transition."""
        is_small = len(transition.inputs) <= 2 and len(transition.outputs) <= 2
        spent = [self._coin_of(state) for state in transition.inputs]
        made = list(transition.info[: len(transition.outputs)])
        spent += [bytes(32)] * ((2 if is_small else 10) - len(spent))
        words = [*spent, *made, *[bytes(32)] * ((2 if is_small else 8) - len(made))]
        delegate = int(transition.preparation.committer, 16) if transition.preparation is not None else 0
        binding = int.from_bytes(binding_of(transition.leaf, transition.valid_until_s), "big") % FIELD
        return [*(int.from_bytes(word, "big") for word in words), net_in(transition.calls), delegate, binding]

    def _coin_of(self, state: StateId) -> bytes:
        maker = self.makers.get(state.leaf)
        is_made = maker is not None and state.output < len(maker.outputs)
        return maker.info[state.output] if maker is not None and is_made else bytes(32)

    def proof(self, transition: Transition) -> bytes:
        if transition.is_empty:
            return b""
        if not transition.inputs and transition.outputs and not transition.calls:
            return key_of(ISSUER).sign_compact(binding_of(transition.leaf, transition.valid_until_s))
        packed = b"".join(word.to_bytes(32, "big") for word in self.public_inputs(transition))
        return proof_for_tests(packed)

    def auth(self, *entries: Entry) -> bytes:
        def coins_of(leaf: Leaf) -> bytes:
            # What nobody makes is skipped before anybody looks at its proof.
            return coins_in(self.makers[leaf]) if leaf in self.makers else b""

        return encode_proofs(entries, coins_of)

    def commit(
        self,
        *entries: Entry,
        auth: bytes | None = None,
        body: bool = False,
        condition: bytes = NO_CONDITION,
        sender: ContractAddress = ALICE,
    ) -> Committed:
        payload = encode_payload(entries, VALID_UNTIL_S, body)
        call = encode_commit(payload, self.auth(*entries) if auth is None else auth, condition)
        return read_answer(self.chain.send(self.address, call, sender), self.separator, self.address)

    def unspent(self, leaf: Leaf) -> int:
        found: int = self.chain.call(self.name, self.address, "unspentOf", leaf)
        return found
