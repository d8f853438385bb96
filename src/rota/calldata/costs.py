"""The maximal cost of a commit (ledger).

The gas of a commit is bounded from its contents and never estimated: an estimate before the predecessor is mined is too
low. `gas_bound` explains the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rota.calldata.references import is_nullifier
from rota.calldata.rounds import (
    ADDRESS_BYTES,
    PAGE_BYTES,
    PAYLOAD_BYTES_MAX,
    SIGNATURE_BYTES,
    Entry,
    encode_commit,
    encode_payload,
)
from rota.model.digests import STATES_MAX, WORD_BYTES
from rota.model.types import MAKING_RECORD, Contract, IntentId, Leaf, Transition

COMMIT_GAS_MAX: Final = 16_000_000

# Prices of the chain (EIP-2929, EIP-2200, EIP-3529, EIP-7623).
_TRANSACTION_GAS: Final = 21_000
_ZERO_BYTE_GAS: Final = 4
_BYTE_GAS: Final = 16
_FLOOR_ZERO_BYTE_GAS: Final = 10
_FLOOR_BYTE_GAS: Final = 40
_COLD_LOAD_GAS: Final = 2_100
_CHANGE_GAS: Final = 2_900
_NEW_WORD_GAS: Final = 22_100
_LOG_BYTE_GAS: Final = 8
_WORD_GAS: Final = 3
_MEMORY_SQUARE: Final = 512

# The gas of the contract's computation, measured on the compiled code and rounded up; checked by a property test.
_COMMIT_GAS: Final = 4_500
_SIGNATURE_GAS: Final = 3_600
_ENDORSER_GAS: Final = 200
_BARE_GAS: Final = 340
_FULL_GAS: Final = 850
_SKIP_GAS: Final = 3_100
_PREPARED_GAS: Final = 600
_REFERENCE_GAS: Final = 650
_PAGE_GAS: Final = 500
_CALLS_GAS: Final = 4_500
_CALL_GAS: Final = 4_000
_HASH_WORD_GAS: Final = 6
# A change of a lock is read twice and logged, a new record with another delegate by two events. It has three words.
_LOCK_GAS: Final = 8_000
_LOCK_WORDS: Final = 3

# For proofs: finding them; the shared cost of consecutive ones of one shape, by the larger circuit; and the cost of
# each, with the signature of its intent's key. That a mint may write one more word is included.
_PROOFS_GAS: Final = 5_000
_PROOF_RUN_GAS: Final = 380_000
_PROOF_GAS: Final = 75_000 + _SIGNATURE_GAS
_PROOF_BYTES: Final = 2 + 8 + SIGNATURE_BYTES + WORD_BYTES + 256
# A transition with a call is a deposit or a withdrawal: it shows a signature beside its proof, and its call is judged
# and made in a frame of its own.
_MOVE_GAS: Final = _SIGNATURE_GAS + 6_000
_SMALL_STATES_MAX: Final = 2
_MAKER_BYTES: Final = 1 + STATES_MAX * WORD_BYTES
# For a tree of coins (`Nullified.sol`), whatever its depth: the shared cost of a round's coins, which is two nodes and
# a stored word for each of 16 levels; the cost of each coin; and a nullifier's own word, beside the cost of any input.
_TREE_GAS: Final = 1_450_000
_COIN_GAS: Final = 20_000
_NULLIFIER_GAS: Final = _NEW_WORD_GAS - _COLD_LOAD_GAS - _CHANGE_GAS
_FRAME_NUMERATOR, _FRAME_DENOMINATOR = 64, 63  # A frame gets at most 63/64 of the remaining gas (EIP-150).


# The most that a light transition costs alone, by the same measure; checked by a property test.
LIGHT_LEAVES_MAX: Final = 64
_LIGHT_WORDS_MAX: Final = 6
_LIGHT_GAS_MAX: Final = COMMIT_GAS_MAX // LIGHT_LEAVES_MAX
_LIGHT_BYTES_MAX: Final = PAYLOAD_BYTES_MAX // LIGHT_LEAVES_MAX


@dataclass(frozen=True, slots=True)
class AuthCost:
    """The length of an `auth`, and the gas to check it: of the round, and of each full leaf.

    A leaf with calls costs `caller_*` more.
    """

    size_bytes: int
    gas: int
    leaf_bytes: int = 0
    leaf_gas: int = 0
    input_bytes: int = 0
    run_gas: int = 0
    caller_bytes: int = 0
    caller_gas: int = 0
    tree_gas: int = 0
    coin_gas: int = 0

    @classmethod
    def of(cls, contract: Contract) -> AuthCost:
        """For a contract's rounds. Without a threshold, each transition is proved."""
        if contract.threshold == 0:
            return cls.of_proofs()
        return cls.of_signatures(len(contract.endorsers), contract.threshold)

    @classmethod
    def of_proofs(cls) -> AuthCost:
        """For a proof of each transition, which shows the coins of the maker of each state that it names.

        Consecutive proofs of one shape are verified together (`Proofs.sol`). Where coins are in a tree, those of a
        round are added together.
        """
        return cls(
            0,
            _PROOFS_GAS,
            _PROOF_BYTES,
            _PROOF_GAS,
            _MAKER_BYTES,
            _PROOF_RUN_GAS,
            SIGNATURE_BYTES,
            _MOVE_GAS,
            _TREE_GAS,
            _COIN_GAS,
        )

    @classmethod
    def of_signatures(cls, endorser_count: int, threshold: int) -> AuthCost:
        """For `threshold` signatures; the other endorsers' addresses are given."""
        size_bytes = 4 + threshold * SIGNATURE_BYTES + (endorser_count - threshold) * ADDRESS_BYTES
        return cls(size_bytes, endorser_count * _ENDORSER_GAS + threshold * _SIGNATURE_GAS)


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A transition that does not fit into a transaction, even alone."""

    intent: IntentId
    gas: int
    size_bytes: int


def gas_bound(entries: tuple[Entry, ...], valid_until_s: int, auth: AuthCost, is_body_hashed: bool = False) -> int:
    """The most gas that committing these can take, whatever state the ledger is in by then.

    Each transition is counted as committed and as skipped, with everything it looks at cold. Chains are not counted
    twice: when a transition spends all outputs of an earlier one in the payload, the earlier one keeps a word only if
    the later one does not commit, so of all transitions linked in this way one keeps its word. In the same way at most
    one of them takes its inputs from storage: if two did, the later one would have found its input made by a commit
    that spent the input of the earlier one.
    """
    payload = encode_payload(entries, valid_until_s, is_body_hashed)
    given = [entry for entry in entries if isinstance(entry, Transition)]
    inputs = sum(len(transition.inputs) for transition in given)
    callers = sum(bool(transition.calls) for transition in given)
    auth_bytes = auth.size_bytes + auth.leaf_bytes * len(given) + auth.input_bytes * inputs
    auth_bytes += auth.caller_bytes * callers
    call = encode_commit(payload, b"\xff" * auth_bytes, b"\xff" * WORD_BYTES)
    zeros = call.count(0)
    execution = (
        _COMMIT_GAS
        + auth.gas
        + auth.leaf_gas * len(given)
        + auth.caller_gas * callers
        + auth.run_gas * _run_count(given)
        + _tree_gas(given, auth)
        + _memory_gas(_memory_words(len(payload), entries))
        + _LOG_BYTE_GAS * len(payload)
        + _page_gas(entries)
        + _state_gas(entries)
        + sum(_computing_gas(entry) for entry in entries)
    )
    priced = _ZERO_BYTE_GAS * zeros + _BYTE_GAS * (len(call) - zeros) + execution
    floor = _FLOOR_ZERO_BYTE_GAS * zeros + _FLOOR_BYTE_GAS * (len(call) - zeros)
    return _TRANSACTION_GAS + max(priced, floor)


def _run_count(transitions: Iterable[Transition]) -> int:
    """How often proofs are verified: once for consecutive ones of one shape."""
    shapes = [_is_small(transition) for transition in transitions if _is_verified(transition)]
    return sum(place == 0 or shapes[place - 1] != shape for place, shape in enumerate(shapes))


def _tree_gas(transitions: Sequence[Transition], auth: AuthCost) -> int:
    """The gas of adding coins to a tree, where there may be one."""
    adding = [transition for transition in transitions if _may_add_to_tree(transition)]
    coins = sum(len(transition.outputs) for transition in adding)
    return (auth.tree_gas if adding else 0) + auth.coin_gas * coins


def _may_add_to_tree(transition: Transition) -> bool:
    """Those that spend by nullifiers do, and those that only make coins may: all kinds of token look alike."""
    return bool(transition.outputs) and all(is_nullifier(reference) for reference in transition.inputs)


def _is_verified(transition: Transition) -> bool:
    """Whether a proof is verified: not for coins issued by signature, nor for an empty transition, which is signed."""
    is_issued = bool(transition.outputs) and not transition.inputs and not transition.calls
    return not is_issued and not transition.is_empty


def _is_small(transition: Transition) -> bool:
    return max(len(transition.inputs), len(transition.outputs)) <= _SMALL_STATES_MAX


def is_light(transition: Transition) -> bool:
    """Whether `LIGHT_LEAVES_MAX` transitions of this size fit into a transaction, whatever else they contain."""
    words = len(transition.inputs) + len(transition.reads) + len(transition.outputs) + len(transition.info)
    return not transition.calls and transition.lock is None and words <= _LIGHT_WORDS_MAX


def fitting(transitions: Iterable[Transition], auth: AuthCost) -> int:
    """How many of these, from the first on, fit into one transaction together; at least one.

    A round never costs more than its transitions alone, so these costs are added; except for memory, which grows with
    the square of the total.
    """
    gas = size_bytes = memory_words = count = 0
    previous: tuple[Transition, ...] = ()
    is_tree_counted = False
    is_all_light = True
    for count, transition in enumerate(transitions):
        is_all_light = is_all_light and not auth.leaf_gas and is_light(transition)
        if is_all_light and count < LIGHT_LEAVES_MAX:
            gas += _LIGHT_GAS_MAX
            size_bytes += _LIGHT_BYTES_MAX
            memory_words += _memory_words(_LIGHT_BYTES_MAX, (transition,))
            continue
        own_bytes = len(encode_payload((transition,), 0))
        own_words = _memory_words(own_bytes, (transition,))
        alone = (transition,)
        is_new_run = _run_count((*previous, transition)) > _run_count(previous)
        gas += gas_bound(alone, 0, auth) - _memory_gas(own_words)
        gas -= auth.run_gas * (_run_count(alone) - is_new_run)
        if _may_add_to_tree(transition):
            gas -= auth.tree_gas if is_tree_counted else 0
            is_tree_counted = True
        previous = alone if _is_verified(transition) else previous
        size_bytes += own_bytes
        memory_words += own_words
        if count and (gas + _memory_gas(memory_words) > COMMIT_GAS_MAX or size_bytes > PAYLOAD_BYTES_MAX):
            return count
    return count + 1


def split_round(
    entries: tuple[Entry, ...],
    valid_until_s: int,
    auth: AuthCost,
    is_body_hashed: bool = False,
    gas_max: int = COMMIT_GAS_MAX,
    bytes_max: int = PAYLOAD_BYTES_MAX,
) -> tuple[tuple[Entry, ...], ...] | TooLarge:
    """The round in parts that each fit into a transaction; in a part, the leaves of the others are bare.

    The order of transitions is kept across the parts, so that each finds the earlier ones that it depends on.
    """
    bare = tuple(entry.leaf if isinstance(entry, Transition) else entry for entry in entries)
    full = [position for position, entry in enumerate(entries) if isinstance(entry, Transition)]

    def part_of(start: int, end: int) -> tuple[Entry, ...]:
        chosen = set(full[start:end])
        return tuple(entry if position in chosen else bare[position] for position, entry in enumerate(entries))

    def fits(part: tuple[Entry, ...]) -> bool:
        size_bytes = len(encode_payload(part, valid_until_s, is_body_hashed))
        return size_bytes <= bytes_max and gas_bound(part, valid_until_s, auth, is_body_hashed) <= gas_max

    parts: list[tuple[Entry, ...]] = []
    start = 0
    while start < len(full):
        # A larger part never costs less, so the largest that fits is found by bisection.
        low, high = start, len(full)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(part_of(start, middle)) else (low, middle - 1)
        part = part_of(start, low if low > start else start + 1)
        if low == start:
            transition = entries[full[start]]
            assert isinstance(transition, Transition), "only transitions are in `full`"
            size_bytes = len(encode_payload(part, valid_until_s, is_body_hashed))
            return TooLarge(transition.intent, gas_bound(part, valid_until_s, auth, is_body_hashed), size_bytes)
        parts.append(part)
        start = low
    return tuple(parts)


def _computing_gas(entry: Entry) -> int:
    """The gas of computing a leaf, and of logging it if it is skipped."""
    if not isinstance(entry, Transition):
        return _BARE_GAS
    word_count = len(entry.outputs) + len(entry.info)
    gas = _FULL_GAS + _SKIP_GAS + _HASH_WORD_GAS * word_count
    gas += _REFERENCE_GAS * (len(entry.reads) + len(entry.inputs))
    gas += _PREPARED_GAS if entry.preparation is not None else 0
    if entry.lock is not None:
        is_set = entry.lock.kind in MAKING_RECORD
        gas += _LOCK_GAS + _LOCK_WORDS * (_NEW_WORD_GAS if is_set else _COLD_LOAD_GAS + _CHANGE_GAS)
    if entry.calls:
        stated = sum(call.gas for call in entry.calls)
        # Copied into a frame and out of it, and hashed; no target gets more than the stated gas.
        copied_words = sum(len(call.data) // WORD_BYTES + 3 for call in entry.calls)
        gas += _CALLS_GAS + len(entry.calls) * _CALL_GAS + 4 * (_HASH_WORD_GAS + _WORD_GAS) * copied_words
        gas += 2 * copied_words**2 // _MEMORY_SQUARE
        # The gas that must be left for the last call is reserved twice: in the frame and in the transaction.
        gas += stated + 2 * (max(call.gas for call in entry.calls) // (_FRAME_DENOMINATOR - 1))
    return gas


def _memory_gas(words: int) -> int:
    return 2 * _WORD_GAS * words + words**2 // _MEMORY_SQUARE


def _memory_words(payload_bytes: int, entries: tuple[Entry, ...]) -> int:
    calls_bytes = sum(
        sum(len(call.data) + 4 * WORD_BYTES for call in entry.calls)
        for entry in entries
        if isinstance(entry, Transition)
    )
    return (payload_bytes + 2 * WORD_BYTES * len(entries) + 2 * calls_bytes) // WORD_BYTES + 100


def _page_gas(entries: tuple[Entry, ...]) -> int:
    """The gas of opening every page cold, and of returning to one that is warm."""
    pages = [entry.intent[:PAGE_BYTES] for entry in entries if isinstance(entry, Transition)]
    switches = sum(1 for before, page in zip([None, *pages], pages, strict=False) if page != before)
    return len(set(pages)) * _NEW_WORD_GAS + switches * _PAGE_GAS


def _state_gas(entries: tuple[Entry, ...]) -> int:
    """The gas of storage: a word for each chain, and cold loads of all references."""
    full = [entry for entry in entries if isinstance(entry, Transition)]
    links = _links(full)
    chains: list[int] = []
    gas = 0
    for number, transition in enumerate(full):
        chains.append(chains[links[number]] if number in links else number)
        makers = {state.leaf for state in transition.inputs}
        gas += _COLD_LOAD_GAS * len(makers | {state.leaf for state in transition.reads})
        gas += _CHANGE_GAS * (len(makers) - (1 if number in links else 0))
        gas += _NULLIFIER_GAS * sum(is_nullifier(state) for state in transition.inputs)
    taking = {chains[number] for number in links}
    keeping = {chains[number] for number, transition in enumerate(full) if transition.outputs}
    return gas + _CHANGE_GAS * len(taking) + _NEW_WORD_GAS * len(keeping)


def _links(full: Sequence[Transition]) -> dict[int, int]:
    """For each transition that spends all outputs of an earlier one, the number of that one."""
    number_of: dict[Leaf, int] = {}
    for number, transition in enumerate(full):
        number_of.setdefault(transition.leaf, number)
    links: dict[int, int] = {}
    linked: set[int] = set()
    for number, transition in enumerate(full):
        for leaf in dict.fromkeys(state.leaf for state in transition.inputs):
            maker = number_of.get(leaf, number)
            outputs = {state.output for state in transition.inputs if state.leaf == leaf}
            spends_all = maker < number and outputs.issuperset(range(len(full[maker].outputs)))
            if spends_all and maker not in linked and number not in links:
                links[number] = maker
                linked.add(maker)
    return links
