"""Rounds for tests: write transitions, sign them, commit them on the real contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from eth_abi.abi import encode

from rota.bench.gas import address_of
from rota.digests import Core, core_of, domain_separator, leaf_of, round_digest
from rota.keys.secp256k1 import PrivateKey
from rota.payload import (
    NO_CONDITION,
    NULLIFIER_OUTPUT,
    ROUND_TOPIC,
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
from rota.types import Call, ContractAddress, Digest, IntentId, Leaf, Preparation, State, StateId, Transition
from tests.contracts.evm import ALICE, GAS_LIMIT, TIME_S, Answer, Chain, keccak

VALID_UNTIL_S: Final = TIME_S + 600
PROOF_VALID_UNTIL_S: Final = VALID_UNTIL_S
HALF_ORDER: Final = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
ORDER: Final = 2 * HALF_ORDER + 1


@cache
def key_of(number: int) -> PrivateKey:
    return PrivateKey(keccak(b"key %d" % number))


def intent_id(number: int, page: bytes = b"page") -> IntentId:
    return IntentId(keccak(page + b" %d" % (number // 256))[:15] + bytes((number % 256,)))


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
    salt: bytes = b"",
    page: bytes = b"page",
) -> Transition:
    """A transition for intent `number`; another salt makes another version of it."""
    intent = intent_id(number, page)
    commitments = tuple(keccak(b"output %d %d" % (number, n) + salt) for n in range(outputs))
    infos = tuple(keccak(b"info %d %d" % (number, n) + salt) for n in range(info))
    core = core_of(separator, intent, reads=reads, inputs=inputs, outputs=commitments, info=infos, calls=calls)
    leaf = leaf_of(core, preparation)
    return Transition(
        intent, leaf, inputs, reads, states_of(leaf, commitments), infos, calls=calls, preparation=preparation
    )


def core_of_transition(separator: bytes, transition: Transition) -> Core:
    return core_of(
        separator,
        transition.intent,
        reads=transition.reads,
        inputs=transition.inputs,
        outputs=tuple(state.commitment for state in transition.outputs),
        info=transition.info,
        calls=transition.calls,
    )


def ids(transition: Transition) -> tuple[StateId, ...]:
    """What a transition makes."""
    return tuple(state.id for state in transition.outputs)


def nullifier(text: str) -> StateId:
    return StateId(Leaf(keccak(text.encode())), NULLIFIER_OUTPUT)


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
    skipped = [decode_skipped_log(e.topics, e.content) for e in events if e.topics[0] != ROUND_TOPIC]
    assert all(isinstance(each, SkippedLog) for each in skipped)
    mask, prepared_hash = int.from_bytes(answer.output[:32], "big"), answer.output[32:]
    kept = tuple(each for each in skipped if isinstance(each, SkippedLog))
    return Committed(mask, prepared_hash, rounds[0], kept, answer.gas)


@dataclass(slots=True)
class EndorsedLedger:
    """An `Endorsed` contract and the keys of its endorsers."""

    endorser_count: int = 3
    threshold: int = 2
    chain: Chain = field(default_factory=Chain)
    address: ContractAddress = field(init=False)
    keys: dict[ContractAddress, PrivateKey] = field(init=False)

    def __post_init__(self) -> None:
        self.keys = {address_of(key_of(number)): key_of(number) for number in range(self.endorser_count)}
        self.address = self.chain.deploy("Endorsed", list(self.keys), self.threshold)

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


Forge = Callable[[bytes], bytes]


class ProvedLedger:
    """A `Proved` contract, and the prover that goes with the verifier for tests."""

    def __init__(self) -> None:
        self.chain = Chain()
        self.address = self.chain.deploy("Proved", self.chain.deploy("TestVerifier"))
        self.separator = domain_separator(self.chain.chain_id, self.address)
        self.makers: dict[Leaf, Transition] = {}

    def write(self, number: int, **what: object) -> Transition:
        made = write(self.separator, number, **what)  # type: ignore[arg-type]
        self.makers[made.leaf] = made
        return made

    def body(self, leaf: Leaf) -> list[bytes]:
        maker = self.makers.get(leaf)
        if maker is None:
            return []  # A read that nobody makes is skipped before anybody looks at its proof.
        return [state.commitment for state in maker.outputs] + list(maker.info)

    def entry(self, transition: Transition, valid_until_s: int = PROOF_VALID_UNTIL_S) -> bytes:
        bodies = [self.body(state.leaf) for state in transition.reads]
        binding = keccak(transition.leaf + valid_until_s.to_bytes(32, "big"))
        members = [(body + [bytes(32)] * 256)[s.output] for body, s in zip(bodies, transition.reads, strict=True)]
        nullifiers = [state.leaf for state in transition.inputs]
        outputs = [state.commitment for state in transition.outputs]
        words = "bytes32[]"
        proof = keccak(encode(["bytes32", words, words, words], [binding, members, nullifiers, outputs]))
        witness = b"".join(bytes((len(body),)) + b"".join(body) for body in bodies)
        return valid_until_s.to_bytes(8, "big") + witness + proof

    def auth(self, *entries: Entry, forge: Forge = lambda entry: entry) -> bytes:
        proofs = [forge(self.entry(each)) for each in entries if isinstance(each, Transition)]
        return b"".join(len(proof).to_bytes(2, "big") + proof for proof in proofs)

    def commit(self, *entries: Entry, auth: bytes | None = None, body: bool = False) -> Committed:
        payload = encode_payload(entries, VALID_UNTIL_S, body)
        call = encode_commit(payload, self.auth(*entries) if auth is None else auth)
        return read_answer(self.chain.send(self.address, call), self.separator, self.address)

    def is_nullified(self, state: StateId) -> bool:
        return bool(self.chain.call("Proved", self.address, "isNullified", state.leaf))
