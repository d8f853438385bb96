"""Locks on the ledger, as a domain states them: the record that a transition writes, and the transitions it permits.

A transition that sets a record permits two others, of which the delegate commits one later, without signatures
(`Lockable.sol`). A domain states the outputs of each (`Locking`). Neither has inputs. The host computes their leaves,
and sends the contents of each output to its readers, in an info of the transition that sets the record (`Permitted`).
So readers have the contents before the outputs exist, and endorsers judge both leaves when they sign the record.

An endorser's host compares the infos with the leaves in the record, and gives the domain the resulting `Locking`. The
domain compares that with the one that the request asks for: `proposal.lock == expected`.

The domain makes a state that stands for the record, if it needs one: it names the owner, and the record's end spends it
(`Domain.stands_for`). Such a state has no value of its own: a transition that spends it must also change the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from rota.domains.contents import NewState, Role, told_in
from rota.domains.records import Bytes32, Record, Uint8
from rota.model.digests import STATES_MAX, core_of, ending_word, leaf_of, permitted_intent, state_commitment
from rota.model.types import (
    NO_DELEGATE,
    ContractAddress,
    IntentId,
    Leaf,
    LockChange,
    LockKind,
    NodeName,
    State,
    StateId,
    Transition,
)

WORD_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Permit:
    """The outputs of a permitted transition: its states, then its infos, each in order. It has no inputs."""

    makes: tuple[NewState, ...] = ()

    @property
    def states(self) -> tuple[NewState, ...]:
        """The outputs that can be spent."""
        return tuple(each for each in self.makes if each.role is Role.STATE)

    @property
    def infos(self) -> tuple[NewState, ...]:
        """The outputs that only inform."""
        return tuple(each for each in self.makes if each.role is Role.INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Locking:
    """A transition's change to the record of a lock (`model.types.LockChange`); `SET` alone permits transitions."""

    kind: LockKind
    lock: bytes
    presumed: ContractAddress = NO_DELEGATE
    delegate: ContractAddress = NO_DELEGATE
    expires_at_s: int = 0
    spends: Permit = Permit()
    cancels: Permit = Permit()


@dataclass(frozen=True, slots=True)
class SettledLock:
    """A committed transition's change to a lock, as far as this node may see it.

    For a record that it set, `permitted` is the intent of both permitted transitions, and the arguments are those of
    the ledger's `spendLock` and `cancelLock`; None where this node does not know them.
    """

    change: LockChange
    permitted: IntentId
    spend_args: bytes | None = None
    cancel_args: bytes | None = None


class StandsFor(NamedTuple):
    """The record of a lock: the `ending_word` of the permitted transitions, the lock's id, and the time of expiry."""

    word: bytes
    lock: bytes
    expires_at_s: int


@dataclass(frozen=True, slots=True)
class PermittedOutput(Record):
    """An output of a permitted transition: its number, and its sealed bytes."""

    number: Uint8
    content: bytes


@dataclass(frozen=True, slots=True)
class Permitted(Record):
    """The outputs of one permitted transition that have the same readers, sent to these; all commitments are public."""

    schema_name = "PermittedTransition"

    is_cancel: bool
    commitments: tuple[Bytes32, ...]
    outputs: tuple[PermittedOutput, ...]


def word_of(separator: bytes, intent: IntentId) -> bytes:
    """The `ending_word` of the record that an intent sets."""
    return ending_word(permitted_intent(separator, intent))


def permitted_leaf(separator: bytes, intent: IntentId, commitments: tuple[bytes, ...]) -> Leaf:
    """The leaf of a transition that the record of this intent permits: it makes outputs, and nothing else."""
    return leaf_of(core_of(separator, permitted_intent(separator, intent), outputs=commitments))


def permitted_by(separator: bytes, transition: Transition) -> tuple[Transition | None, Transition | None]:
    """The transitions that spend and cancel the record that this one sets, as far as its outputs here show; else None.

    Each has the leaf that the record names, and each content the commitment that the leaf binds. Others are left out.
    """
    lock = transition.lock
    if lock is None or lock.kind is not LockKind.SET:
        return None, None
    told = [(each, made) for made in transition.outputs if made.content for each in told_in(made.content, Permitted)]
    return (
        _permitted(separator, transition.intent, lock.spends, [pair for pair in told if not pair[0].is_cancel]),
        _permitted(separator, transition.intent, lock.cancels, [pair for pair in told if pair[0].is_cancel]),
    )


def _permitted(
    separator: bytes, intent: IntentId, leaf: Leaf, told: Iterable[tuple[Permitted, State]]
) -> Transition | None:
    """The permitted transition with this leaf. Its outputs take the distribution of the outputs that carry them."""
    contents: dict[int, tuple[bytes, tuple[NodeName, ...]]] = {}
    commitments: tuple[bytes, ...] | None = () if permitted_leaf(separator, intent, ()) == leaf else None
    for each, carrier in told:
        named = each.commitments
        if len(named) <= STATES_MAX and permitted_leaf(separator, intent, named) == leaf:
            commitments = named
            contents.update({output.number: (output.content, carrier.distribution) for output in each.outputs})
    if commitments is None:
        return None
    outputs = []
    for number, commitment in enumerate(commitments):
        content, distribution = contents.get(number, (b"", ()))
        is_bound = state_commitment(content) == commitment
        outputs.append(State(StateId(leaf, number), commitment, distribution, content if is_bound else None))
    return Transition(permitted_intent(separator, intent), leaf, outputs=tuple(outputs))
