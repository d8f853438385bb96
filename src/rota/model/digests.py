"""The signed hashes, byte for byte: the leaf of a transition and the digest of a round (ledger).

The contract computes the same hashes from the payload, so each line here has its twin in
Solidity: fields are packed without padding, numbers are big-endian, the hash is Keccak-256. Only the round's
digest and the domain separator follow EIP-712, which pads every field to a word, so that any wallet can show
and sign a round.

    core   = keccak(separator 32 | intent 16 | flags u8 | inputs:outputs u8 | reads:info u8
                    | per read, then per input: leaf 32, output u8
                    | keccak(outputs 32* | info 32*)
                    | with calls, a lock, or both: keccak([n u8 | per call: to 20, gas u32, length u16, data] | [lock]))
    lock   = kind u8 | id 32 | presumed delegate 20 | set: delegate 20, expiresAt u64, leaf that spends 32, leaf that
             cancels 32 | delegate: delegate 20
    leaf   = core, or when prepared keccak(core 32 | committer 20 | condition 32)
    digest = keccak(19 01 | separator | keccak(type | keccak(leaves) | validUntil))
    page   = keccak(keccak(party) | contract 20 | nonce 16)[:15]
    intent = page and a counter; where transitions are proved keccak(address of a one-time key)[:16]
    bound  = keccak(leaf 32 | validUntil as a word): what a party signs of its transition

An endorser's approval of a round, where the plan of a transaction asks for it, is an EIP-712 struct of another type,
so that no contract takes it for a signature of the round; so are refusals of leaves.

Why no two transitions share a leaf: the counts and the flags precede all fields of variable length, so a
preimage reads in one way only. A prepared leaf hashes 84 bytes and a core 83 + 33 per reference + 32 with
calls or a lock, which is never 84, so neither can pass for the other. Calls have a count, so that the boundary between
them and a lock is unambiguous too.

A wrong size is our own error, because received values are checked where they are decoded: it is asserted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NewType

from sha3 import keccak_256

from rota.model.types import (
    NO_ATTESTERS,
    Attesters,
    Call,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    LockChange,
    LockKind,
    NodeName,
    Party,
    Preparation,
    StateId,
    Transition,
    address_bytes,
)

Core = NewType("Core", bytes)

INTENT_BYTES: Final = 16
ADDRESS_BYTES: Final = 20
PAGE_BYTES: Final = 15  # An intent's id is its page and a counter of one byte.
NONCE_BYTES: Final = 16
PAGES_KEPT: Final = 4_096  # A page serves 256 intents, and every node checks each of them.
WORD_BYTES: Final = 32
STATES_MAX: Final = 15  # Inputs, reads, outputs and info are each counted in four bits.
CALLS_MAX: Final = 255
ROUND_LEAVES_MAX: Final = 255

# Of a payload's flags (80 full, 1 page, 2 prepared, 4 calls, 8 body, 10 lock) a core binds 80, 4 and 10, and a contract
# masks the others before it hashes. `page` and `body` describe the encoding of this copy: whether the page is
# spelled out, and whether the outputs or only their hash follow. The submitter chooses them after the
# signatures were made, so if they were bound, compression would change a leaf. `calls` and `lock` are content: they
# show whether one more word is hashed. `prepared` is content too, but the second hash binds it: a core is
# by definition the leaf that the transition would have if it were not prepared.
_FLAGS: Final = 0x80
_FLAG_CALLS: Final = 0x04
_FLAG_LOCK: Final = 0x10

_DOMAIN_TYPE: Final = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
_DOMAIN_NAME: Final = b"Rota"
_DOMAIN_VERSION: Final = b"1"
_ROUND_TYPE: Final = b"Round(bytes32[] leaves,uint64 validUntil)"
_APPROVAL_TYPE: Final = b"Approval(bytes32 round)"
_REFUSAL_TYPE: Final = b"Refusal(bytes32 leaf,uint64 validUntil,string party,bytes signature)"
_PLANNED_REFUSAL_TYPE: Final = (
    b"PlannedRefusal(bytes32 leaf,uint64 validUntil,string party,bytes signature,"
    b"string[] signers,bytes[] signatures,string[] endorsers)"
)


def domain_separator(chain_id: int, contract: ContractAddress) -> bytes:
    """Return the EIP-712 domain of a contract on a chain: a signature for one is invalid at another."""
    return keccak(_DOMAIN_HEAD + _unsigned(chain_id, WORD_BYTES) + address_bytes(contract).rjust(WORD_BYTES, b"\0"))


def core_of(
    separator: bytes,
    intent: IntentId,
    *,
    reads: tuple[StateId, ...] = (),
    inputs: tuple[StateId, ...] = (),
    outputs: tuple[bytes, ...] = (),
    info: tuple[bytes, ...] = (),
    calls: tuple[Call, ...] = (),
    lock: LockChange | None = None,
) -> Core:
    """Return the hash of a transition's content; with only an intent, of the empty one that voids it."""
    assert len(intent) == INTENT_BYTES, f"an intent id is {INTENT_BYTES} bytes, not {len(intent)}"
    flags = _FLAGS
    more = b""
    if calls or lock is not None:
        flags |= (_FLAG_CALLS if calls else 0) | (_FLAG_LOCK if lock is not None else 0)
        more = keccak(packed_more(calls, lock))
    head = bytes((flags, _two_counts(len(inputs), len(outputs)), _two_counts(len(reads), len(info))))
    references = b"".join([_reference(state) for state in reads + inputs]) if reads or inputs else b""
    body = keccak(_words(outputs + info))
    return Core(keccak(_word(separator) + intent + head + references + body + more))


def intent_of(address: bytes) -> IntentId:
    """Return the id that belongs to the key with this address, where transitions are proved (`Proofs.sol`)."""
    assert len(address) == ADDRESS_BYTES, f"an address is {ADDRESS_BYTES} bytes, not {len(address)}"
    return IntentId(keccak(address)[:INTENT_BYTES])


def keyless_intent(nonce: bytes, coin: bytes) -> IntentId:
    """Return the id of a transition that this coin's delegate commits: it belongs to no key, and no party voids it."""
    assert len(nonce) == NONCE_BYTES, f"a nonce is {NONCE_BYTES} bytes, not {len(nonce)}"
    return IntentId(keccak(nonce + _word(coin))[:INTENT_BYTES])


def leaf_of(core: Core, preparation: Preparation | None = None) -> Leaf:
    """Return the leaf of a transition: its core, bound to a committer and a condition when it is prepared."""
    if preparation is None:
        return Leaf(_word(core))
    return Leaf(keccak(_word(core) + address_bytes(preparation.committer) + preparation.condition))


def void_leaf(separator: bytes, intent: IntentId) -> Leaf:
    """Return the leaf of an intent's empty transition: once it is committed no other version can be (ledger)."""
    return leaf_of(core_of(separator, intent))


def leaf_of_transition(separator: bytes, transition: Transition) -> Leaf:
    """Compute the leaf again from everything that it binds."""
    core = core_of(
        separator,
        transition.intent,
        reads=transition.reads,
        inputs=transition.inputs,
        outputs=tuple([state.commitment for state in transition.outputs]),
        info=transition.info,
        calls=transition.calls,
        lock=transition.lock,
    )
    return leaf_of(core, transition.preparation)


@lru_cache(maxsize=PAGES_KEPT)
def page_of(party: Party, contract: ContractAddress, nonce: bytes) -> bytes:
    """Return the page of intent ids that this nonce opens for a party; no nonce for another's page can be found."""
    return keccak(keccak(party.encode()) + address_bytes(contract) + nonce)[:PAGE_BYTES]


def is_id_of(intent: IntentId, party: Party, contract: ContractAddress, nonce: bytes) -> bool:
    """Whether this id is on a page of this party, so that no other party can have drawn it (trust rule 2)."""
    return len(nonce) == NONCE_BYTES and intent[:PAGE_BYTES] == page_of(party, contract, nonce)


def permitted_intent(separator: bytes, intent: IntentId) -> IntentId:
    """Return the id of the two transitions that a lock's record permits, given the intent that sets the record.

    It is on no party's page (`page_of`). So endorsers sign nothing under it, and no party can use it up.
    """
    return IntentId(keccak(_word(separator) + b"permitted" + intent)[:INTENT_BYTES])


def ending_word(permitted: IntentId) -> bytes:
    """Return the index word for the end of a record: a committed transition that the record permits."""
    return keccak(b"rota.lock.ended" + permitted)


def bound_hash(leaf: Leaf, valid_until_s: int) -> bytes:
    """Return the hash that a party signs: its leaf and its bound, so that both are valid only together."""
    return keccak(_word(leaf) + _unsigned(valid_until_s, WORD_BYTES))


def round_digest(separator: bytes, leaves: tuple[Leaf, ...], valid_until_s: int) -> Digest:
    """Return the digest that an endorser signs: EIP-712, of the leaves, in payload order, and their validity."""
    assert 1 <= len(leaves) <= ROUND_LEAVES_MAX, f"a round has 1 to {ROUND_LEAVES_MAX} leaves, not {len(leaves)}"
    until = _unsigned(valid_until_s, 8).rjust(WORD_BYTES, b"\0")
    return _typed(separator, _ROUND_TYPE_HASH + keccak(b"".join(map(_word, leaves))) + until)


def approval_digest(separator: bytes, digest: Digest) -> Digest:
    """Return the digest by which an endorser named by a plan approves a round; it has no effect on the chain."""
    return _typed(separator, _APPROVAL_TYPE_HASH + _word(digest))


def refusal_digest(
    separator: bytes, party: Party, transition: Transition, attesters: Attesters = NO_ATTESTERS
) -> Digest:
    """Return the digest by which an endorser refuses a leaf of this party: EIP-712 as a round's, but of another type.

    It binds all facts of the judgement: the party, which no leaf shows, the party's signature with its bound, and the
    attesters of the plan. If a coordinator shows others, the refusal is of a transition that the party's node did not
    make.
    """
    until = _unsigned(transition.valid_until_s, 8).rjust(WORD_BYTES, b"\0")
    judged = _word(transition.leaf) + until + keccak(party.encode()) + keccak(transition.signature)
    if attesters == NO_ATTESTERS:
        return _typed(separator, _REFUSAL_TYPE_HASH + judged)
    signers = _hashes(each.party.encode() for each in attesters.signers)
    signatures = _hashes(each.signature for each in attesters.signers)
    endorsers = _hashes(node.encode() for node in attesters.endorsers)
    return _typed(separator, _PLANNED_REFUSAL_TYPE_HASH + judged + signers + signatures + endorsers)


def holding_proof(asker: NodeName, asked: NodeName, leaf: Leaf, content: bytes) -> Digest:
    """Return the proof to the asked node that the asker has this content of the leaf; public data do not suffice."""
    names = b"".join(len(name.encode()).to_bytes(2, "big") + name.encode() for name in (asker, asked))
    return Digest(keccak(b"rota.holding.v1" + names + leaf + content))


def keccak(content: bytes) -> bytes:
    """Return the Keccak-256 hash, as everywhere on an Ethereum ledger: 32 bytes."""
    digest: bytes = keccak_256(content).digest()
    return digest


def state_commitment(content: bytes) -> bytes:
    """Return the commitment of 32 bytes that an output has for a private state's content."""
    return keccak(content)


def packed_calls(calls: tuple[Call, ...]) -> bytes:
    """Return the calls exactly as the payload has them, so that the contract hashes one slice of it."""
    assert len(calls) <= CALLS_MAX, f"a transition has at most {CALLS_MAX} calls, not {len(calls)}"
    return _unsigned(len(calls), 1) + b"".join(
        address_bytes(call.to) + _unsigned(call.gas, 4) + _unsigned(len(call.data), 2) + call.data for call in calls
    )


def packed_lock(change: LockChange) -> bytes:
    """Return the change of a lock exactly as the payload has it."""
    head = _unsigned(change.kind, 1) + _word(change.lock) + address_bytes(change.presumed)
    match change.kind:
        case LockKind.SET:
            expiry = _unsigned(change.expires_at_s, 8)
            return head + address_bytes(change.delegate) + expiry + _word(change.spends) + _word(change.cancels)
        case LockKind.HOLD:
            return head + address_bytes(change.delegate) + _unsigned(change.expires_at_s, 8)
        case LockKind.DELEGATE:
            return head + address_bytes(change.delegate)
        case LockKind.SPENT | LockKind.CANCELLED | LockKind.RELEASE:
            return head


def packed_more(calls: tuple[Call, ...], lock: LockChange | None) -> bytes:
    """Return the end of a transition, after its body: its calls, if it has any, then its lock."""
    return (packed_calls(calls) if calls else b"") + (packed_lock(lock) if lock is not None else b"")


def _two_counts(high: int, low: int) -> int:
    assert high <= STATES_MAX >= low, f"a count is at most {STATES_MAX}, not {max(high, low)}"
    return high << 4 | low


def _reference(state: StateId) -> bytes:
    """Return an expanded reference: the hash does not depend on whether the maker is in the same payload."""
    return _word(state.leaf) + _unsigned(state.output, 1)


def _words(words: tuple[bytes, ...]) -> bytes:
    assert {WORD_BYTES}.issuperset(map(len, words)), f"a word is {WORD_BYTES} bytes, not {[*map(len, words)]}"
    return b"".join(words)


def _hashes(some: Iterable[bytes]) -> bytes:
    """Return the EIP-712 hash of an array of texts or bytes."""
    return keccak(b"".join(map(keccak, some)))


def _typed(separator: bytes, struct: bytes) -> Digest:
    """Return the EIP-712 digest of a struct, given its type's hash and its fields."""
    return Digest(keccak(b"\x19\x01" + _word(separator) + keccak(struct)))


def _word(word: bytes) -> bytes:
    assert len(word) == WORD_BYTES, f"a word is {WORD_BYTES} bytes, not {len(word)}"
    return word


def _unsigned(number: int, size_bytes: int) -> bytes:
    assert 0 <= number < 1 << 8 * size_bytes, f"{number} does not fit in {size_bytes} unsigned bytes"
    return number.to_bytes(size_bytes, "big")


# The beginning of every domain separator and every round's digest.
_DOMAIN_HEAD: Final = keccak(_DOMAIN_TYPE) + keccak(_DOMAIN_NAME) + keccak(_DOMAIN_VERSION)
_ROUND_TYPE_HASH: Final = keccak(_ROUND_TYPE)
_APPROVAL_TYPE_HASH: Final = keccak(_APPROVAL_TYPE)
_REFUSAL_TYPE_HASH: Final = keccak(_REFUSAL_TYPE)
_PLANNED_REFUSAL_TYPE_HASH: Final = keccak(_PLANNED_REFUSAL_TYPE)
