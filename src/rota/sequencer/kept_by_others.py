"""Reservations that endorsers report in refusals, and those that a coordinator believes (protocol §4.2)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from rota.model.types import Contract, IntentId, KeptStates, Leaf, StateId, Transition
from rota.wire.messages import Refusal


def believed_of(
    contract: Contract, may_be_kept: Callable[[KeptStates], bool], transition: Transition, refusals: Iterable[Refusal]
) -> tuple[KeptStates, ...]:
    """Return the possible reservations of states that it uses, each reported by so many that one endorser is honest.

    Endorsers may have signed different versions of an intent, so states are counted per intent.
    """
    liars_max = min(contract.threshold - 1, len(contract.endorsers) - contract.threshold)
    references = frozenset((*transition.inputs, *transition.reads))
    bounds: dict[tuple[IntentId, StateId], list[int]] = {}
    named: Counter[KeptStates] = Counter()
    for refusal in refusals:
        possible = [kept for kept in sorted(refusal.kept) if may_be_kept(kept)]
        named.update({_version_of(kept) for kept in possible})
        latest = {(kept.intent, state): kept.valid_until_s for kept in possible for state in kept.inputs}
        for pair, until_s in latest.items():
            bounds.setdefault(pair, []).append(until_s)
    sure: dict[IntentId, dict[StateId, int]] = {}
    for (intent, state), some in bounds.items():
        if len(some) > liars_max and intent != transition.intent:
            sure.setdefault(intent, {})[state] = sorted(some)[-1 - liars_max]
    return tuple(
        _kept_of(intent, states, {version for version, count in named.items() if count > liars_max})
        for intent, states in sorted(sure.items())
        if not references.isdisjoint(states)
    )


def names_any(believed: Iterable[KeptStates], refusal: Refusal) -> bool:
    """Whether the refusal reports a state as reserved for the same intent as a believed reservation."""
    said = {(kept.intent, state) for kept in refusal.kept for state in kept.inputs}
    return any((kept.intent, state) in said for kept in believed for state in kept.inputs)


def _version_of(kept: KeptStates) -> KeptStates:
    """Return a leaf's reservation without its bound, each state once, in one order."""
    return kept._replace(inputs=tuple(sorted(frozenset(kept.inputs))), valid_until_s=0)


def _kept_of(intent: IntentId, states: dict[StateId, int], believed: Collection[KeptStates]) -> KeptStates:
    """Return a reservation of these states; its leaf is that of a believed version, or else a name made here."""
    until_s, inputs = min(states.values()), tuple(sorted(states))
    leaves = (kept.leaf for kept in sorted(believed) if (kept.intent, kept.inputs) == (intent, inputs))
    spelled = repr((intent, inputs)).encode()
    return KeptStates(intent, next(leaves, Leaf(hashlib.sha256(spelled).digest())), inputs, until_s)
