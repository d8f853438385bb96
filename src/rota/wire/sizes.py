"""The largest size of a value in a frame, computed without writing it.

Theory of operation. No message may outgrow a frame, and the code that composes one must know when to stop: so each
value has a size that is never less than it takes on the wire. A frame has room for a number of bytes and of
fields; both are one measure here, because every field counts as at least what a frame has in bytes for each of its
fields. Transitions, states and intents are measured, because their content can grow; the ids beside them,
the locks of a snapshot and the envelope have the room that is left between `message_bytes_max` and the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Final, TypeVar

from rota.model.types import NO_ATTESTERS, Attesters, Intent, NodeName, State, Transition
from rota.wire.limits import DEFAULT_LIMITS
from rota.wire.messages import AssemblyResult, HandedOver, HandedRound
from rota.wire.structure import FIELD_BYTES_MIN

# A number with its tag is at most 11 bytes, an id of 16 bytes at most 18: both are within what every field counts.
FIELD_BYTES: Final = DEFAULT_LIMITS.frame_bytes_max // DEFAULT_LIMITS.frame_fields_max
WORD_FIELD_BYTES: Final = 34
STATE_ID_BYTES: Final = 2 * FIELD_BYTES + WORD_FIELD_BYTES
NUMBER_PAIR_BYTES: Final = 3 * FIELD_BYTES
# A leaf is signed after it was measured, so that every transition has room for the longest signature.
SIGNATURE_FIELD_BYTES: Final = FIELD_BYTES + DEFAULT_LIMITS.signature_bytes_max
# Without the parts that can grow: contents, lists, references, info and calls.
STATE_BYTES: Final = FIELD_BYTES + STATE_ID_BYTES + WORD_FIELD_BYTES
TRANSITION_BYTES: Final = 3 * FIELD_BYTES + WORD_FIELD_BYTES + SIGNATURE_FIELD_BYTES
FEW_NAMES: Final = 16
# Unknown data may be fields of two bytes each.
UNKNOWN_FACTOR: Final = FIELD_BYTES // FIELD_BYTES_MIN

Item = TypeVar("Item")


def state_bytes(state: State) -> int:
    """Return the size of a private state for a node that may see it."""
    names = state.distribution
    size = STATE_BYTES + (_few_names_bytes(names) if len(names) <= FEW_NAMES else _texts_bytes(names))
    if state.content is not None:
        size += FIELD_BYTES + len(state.content)
    return size + UNKNOWN_FACTOR * len(state.unknown) if state.unknown else size


def transition_bytes(transition: Transition) -> int:
    """A transition with all its states."""
    size = TRANSITION_BYTES + WORD_FIELD_BYTES * len(transition.info)
    size += STATE_ID_BYTES * (len(transition.inputs) + len(transition.reads))
    for state in transition.outputs:
        size += state_bytes(state)
    for call in transition.calls:
        size += 4 * FIELD_BYTES + len(call.data)
    if transition.preparation is not None:
        size += 2 * FIELD_BYTES + WORD_FIELD_BYTES
    if transition.lock is not None:
        size += 5 * FIELD_BYTES + 3 * WORD_FIELD_BYTES
    return size + UNKNOWN_FACTOR * len(transition.unknown) if transition.unknown else size


def result_bytes(result: AssemblyResult) -> int:
    """One result of a slot."""
    size = 3 * FIELD_BYTES + NUMBER_PAIR_BYTES + _cut_text_bytes(result.reason)
    if result.transition is None:
        return size + _attesters_bytes(result.attesters)
    return size + planned_bytes(result.transition, result.attesters)


def planned_bytes(transition: Transition, attesters: Attesters) -> int:
    """Return the size of a transition with the attesters that the plan of its transaction adds."""
    return transition_bytes(transition) + _attesters_bytes(attesters)


def _attesters_bytes(attesters: Attesters) -> int:
    """Return the size with room for the longest signature of each."""
    if attesters == NO_ATTESTERS:
        return 0
    size = FIELD_BYTES + _texts_bytes(attesters.endorsers) + _texts_bytes([party for party, _ in attesters.signers])
    return size + (FIELD_BYTES + SIGNATURE_FIELD_BYTES) * len(attesters.signers)


def intent_bytes(intent: Intent) -> int:
    """A user's intent."""
    size = 5 * FIELD_BYTES + len(intent.payload) + FIELD_BYTES * len(intent.depends_on)
    size += 4 * FIELD_BYTES * len(intent.awaits)
    return size + _texts_bytes((intent.sender, intent.idempotency_key, *intent.parties))


def delegation_bytes(intent: Intent) -> int:
    """An intent in a delegation command, with its number and its count of reverts."""
    return 3 * FIELD_BYTES + NUMBER_PAIR_BYTES + intent_bytes(intent)


def handed_over_bytes(handed: HandedOver) -> int:
    """A flush point with its transition."""
    return 3 * FIELD_BYTES + WORD_FIELD_BYTES + transition_bytes(handed.transition)


def handed_round_bytes(handed: HandedRound) -> int:
    """A round with its leaves and signatures."""
    size = 2 * FIELD_BYTES + WORD_FIELD_BYTES * len(handed.leaves)
    return size + sum(
        SIGNATURE_FIELD_BYTES + FIELD_BYTES + _texts_bytes((each.endorser,)) for each in handed.signatures
    )


def fitting(items: Iterable[Item], size_of: Callable[[Item], int], bytes_max: int) -> list[Item]:
    """Return as many of the first items as fit together; at least one, if there is one."""
    taken: list[Item] = []
    room = bytes_max
    for item in items:
        room -= size_of(item)
        if room < 0 and taken:
            break
        taken.append(item)
    return taken


def in_parts(items: Iterable[Item], size_of: Callable[[Item], int], bytes_max: int) -> tuple[tuple[Item, ...], ...]:
    """Return all items in as few messages as hold them in their order; one that is larger by itself goes alone."""
    parts: list[list[Item]] = []
    room = 0
    for item in items:
        size = size_of(item)
        if size > room or not parts:
            parts.append([])
            room = bytes_max
        parts[-1].append(item)
        room -= size
    return tuple(tuple(part) for part in parts)


@lru_cache(maxsize=1_024)
def _few_names_bytes(names: tuple[NodeName, ...]) -> int:
    """Return the size of a state's list; cached, as it is measured repeatedly, but not for long ones."""
    return _texts_bytes(names)


def _texts_bytes(texts: Collection[str]) -> int:
    """Texts, each a field of its own."""
    text = "".join(texts)
    return FIELD_BYTES * len(texts) + (len(text) if text.isascii() else len(text.encode("utf-8", "replace")))


def _cut_text_bytes(text: str) -> int:
    """A text for people, which the writer cuts."""
    return FIELD_BYTES + min(4 * len(text), DEFAULT_LIMITS.text_bytes_max)
