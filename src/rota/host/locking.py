"""Translates statements about locks (`domains.locking`) to sections and infos of transitions, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from rota.calldata import permitted_payload
from rota.domains.base import Assembled, NewState, Refused, Rejected
from rota.domains.contents import Content, Role, Told, seal, unseal
from rota.domains.locking import Locking, Permit, Permitted, PermittedOutput, SettledLock, permitted_by, permitted_leaf
from rota.domains.records import Record
from rota.host.contracts import Hosted
from rota.model.digests import STATES_MAX, keccak, permitted_intent, state_commitment
from rota.model.types import NO_LEAF, IntentId, LockChange, LockKind, Party, Transition

# The name of a permitted transition in the derivation of salts.
_NAMES: Final = {False: b"spends", True: b"cancels"}
# A salt for the output of this number.
SaltOf: TypeAlias = Callable[[bytes], bytes]
Readers: TypeAlias = tuple[Party, ...]


def contents_of(
    makes: Iterable[NewState], infos: Iterable[NewState], salt_key: bytes, about: bytes
) -> tuple[Content, ...]:
    """The states in order, each with the infos for its readers; then carriers of the remaining infos.

    The first state of its readers carries their infos. Each has a salt of its own, which no other node can compute.
    """
    riders: dict[Readers, list[Told]] = {}
    for number, info in enumerate(infos):
        riders.setdefault(info.readers, []).append(Told(number, info.record))
    drafts = [(new.record, tuple(riders.pop(new.readers, ())), new.readers) for new in makes]
    carried = [(None, tuple(told), readers) for readers, told in riders.items()]
    return tuple(
        Content(record, told, readers, keccak(salt_key + keccak(about + bytes([number & 0xFF]))))
        for number, (record, told, readers) in enumerate((*drafts, *carried))
    )


def makes_of(contents: Sequence[Content]) -> tuple[NewState, ...]:
    """The inverse: the domain's list, the states, then the infos, each in order."""
    states = [NewState(content.record, content.readers) for content in contents if content.record is not None]
    infos = [(told.number, told.record, content.readers) for content in contents for told in content.infos]
    infos.sort(key=lambda info: info[0])
    if [number for number, _, _ in infos] != list(range(len(infos))):
        raise Refused("an info is missing, or there twice")
    return (*states, *(NewState(record, readers, Role.INFO) for _, record, readers in infos))


def with_lock(
    hosted: Hosted, intent: IntentId, outcome: Assembled, about: bytes
) -> tuple[Assembled, LockChange | None]:
    """The change to a lock of an assembled intent, and the same outcome with infos about the permitted transitions."""
    locking = outcome.lock
    if locking is None:
        return outcome, None
    if not hosted.domain.changes_locks:
        raise TypeError(f"{hosted.domain.name} changes a lock, and its changes_locks is not set")
    if locking.kind is not LockKind.SET:
        return outcome, _change(locking, NO_LEAF, NO_LEAF)
    sealed = []
    for is_cancel, permit in ((False, locking.spends), (True, locking.cancels)):
        contents = contents_of(permit.states, permit.infos, hosted.salt_key, about + _NAMES[is_cancel])
        if len(contents) > STATES_MAX:
            raise Rejected("", f"a permitted transition has at most {STATES_MAX} outputs, and this one {len(contents)}")
        sealed.append(tuple(seal(content) for content in contents))
    spends, cancels = sealed
    change = _change(locking, *(permitted_leaf(hosted.separator, intent, _commitments(each)) for each in sealed))
    if change.spends == change.cancels:
        raise Rejected("", "what spends a lock and what cancels it must differ")
    infos = (*_told(hosted, False, spends), *_told(hosted, True, cancels))
    return replace(outcome, info=(*outcome.info, *infos)), change


def stated_lock(
    hosted: Hosted, transition: Transition, makes: tuple[NewState, ...]
) -> tuple[tuple[NewState, ...], Locking | None]:
    """The outputs and the lock that the domain stated, from an endorser's view of a transition.

    `Refused` unless the infos about permitted transitions are exactly those that the leaves in the record require: then
    each output's content goes to all its readers.
    """
    shown = tuple(each for each in makes if isinstance(each.record, Permitted))
    change = transition.lock
    if change is None or change.kind is not LockKind.SET:
        if shown:
            raise Refused("it has infos about permitted transitions, and sets no record of a lock")
        return makes, _locking(change, Permit(), Permit()) if change is not None else None
    # A permitted transition of another form, or with an output that is in no info, is not found.
    spends, cancels = permitted_by(hosted.separator, transition)
    if spends is None or cancels is None or spends.leaf == cancels.leaf:
        raise Refused("the leaves of its lock are not those of the outputs in its infos")
    permits, expected = [], []
    for is_cancel, permitted in ((False, spends), (True, cancels)):
        sealed = tuple(state.content for state in permitted.outputs if state.content is not None)
        if len(sealed) < len(permitted.outputs):
            raise Refused("the content of an output that its lock permits is missing")
        expected += _told(hosted, is_cancel, sealed)
        permits.append(Permit(makes_of([unseal(hosted.known, each) for each in sealed])))
    others = tuple(each for each in makes if not isinstance(each.record, Permitted))
    if makes != (*others, *expected):
        raise Refused("each output that its lock permits must be in an info for its readers, behind all other infos")
    return others, _locking(change, *permits)


def settled_lock(hosted: Hosted, transition: Transition) -> SettledLock | None:
    """The change that a committed transition made to a lock."""
    if transition.lock is None:
        return None
    permitted = permitted_intent(hosted.separator, transition.intent)
    spends, cancels = permitted_by(hosted.separator, transition)
    return SettledLock(
        transition.lock,
        permitted,
        permitted_payload(spends) if spends is not None else None,
        permitted_payload(cancels) if cancels is not None else None,
    )


def _told(hosted: Hosted, is_cancel: bool, sealed: tuple[bytes, ...]) -> list[NewState]:
    """One info for all outputs with the same readers."""
    outputs: dict[Readers, list[PermittedOutput]] = {}
    for number, content in enumerate(sealed):
        outputs.setdefault(unseal(hosted.known, content).readers, []).append(PermittedOutput(number, content))
    commitments = _commitments(sealed)
    return [
        NewState(Permitted(is_cancel, commitments, tuple(each)), readers, Role.INFO)
        for readers, each in outputs.items()
    ]


def _commitments(sealed: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(map(state_commitment, sealed))


def _change(locking: Locking, spends: bytes, cancels: bytes) -> LockChange:
    return LockChange(
        kind=locking.kind,
        lock=locking.lock,
        presumed=locking.presumed,
        delegate=locking.delegate,
        expires_at_s=locking.expires_at_s,
        spends=type(NO_LEAF)(spends),
        cancels=type(NO_LEAF)(cancels),
    )


def _locking(change: LockChange, spends: Permit, cancels: Permit) -> Locking:
    return Locking(
        kind=change.kind,
        lock=change.lock,
        presumed=change.presumed,
        delegate=change.delegate,
        expires_at_s=change.expires_at_s,
        spends=spends,
        cancels=cancels,
    )


def is_permitted_info(record: Record) -> bool:
    """Whether it is an info of the host, which domains do not get."""
    return isinstance(record, Permitted)
