"""A transition with its states, for the domain: for a receipt, or to have it carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rota.domains.available import Known, readable
from rota.domains.base import Carrying, Rejected, Settled
from rota.domains.contents import Content
from rota.domains.records import Record
from rota.host.contracts import Held, Hosted, bounded, known_of, told_of
from rota.host.locking import is_permitted_info, settled_lock
from rota.host.proving import as_believed
from rota.model.frozen import dataclass
from rota.model.types import NodeName, Party, State, Transition


@dataclass(frozen=True, slots=True)
class _Seen:
    """The states of a transition as far as this node may see them; `is_whole` when none of those is missing."""

    spent: tuple[Known[Record], ...]
    read: tuple[Known[Record], ...]
    made: tuple[Known[Record], ...]
    told: tuple[Known[Record], ...]
    is_whole: bool


def receipt(
    hosted: Hosted,
    transition: Transition,
    known: Held,
    node: NodeName,
    sender: str = "",
    addresses: Mapping[Party, str] | None = None,
) -> dict[str, object]:
    """The domain's part of a receipt of this node; `known` are states that it touches, spent or not.

    Contents that are not believed are left out. `Rejected` when the domain cannot describe it.
    """
    seen = _seen(hosted, transition, known, node)
    settled = Settled(
        contract=hosted.contract,
        configuration=hosted.configuration,
        intent=transition.intent,
        spent=seen.spent,
        read=seen.read,
        made=seen.made,
        told=seen.told,
        is_whole=seen.is_whole,
        sender=sender,
        addresses=addresses,
        lock=settled_lock(hosted, transition),
    )
    try:
        return hosted.domain.receipt(settled)
    except Rejected:
        raise
    except Exception as error:
        # Where transitions are proved, the sender of a state decides its contents.
        raise Rejected("", bounded(f"the domain failed: {told_of(error)}")) from None


def carrying_of(hosted: Hosted, transition: Transition, known: Held, node: NodeName, call: bytes) -> Carrying[Record]:
    """An endorsed transition that is to be carried out by this call, for its domain."""
    seen = _seen(hosted, transition, known, node)
    return Carrying(
        contract=hosted.contract,
        configuration=hosted.configuration,
        intent=transition.intent,
        spent=seen.spent,
        made=seen.made,
        told=seen.told,
        call=call,
    )


def _seen(hosted: Hosted, transition: Transition, known: Held, node: NodeName) -> _Seen:
    transition = as_believed(hosted, transition)
    referred = {
        reference: known_of(hosted, known.get(reference), node) for reference in (*transition.inputs, *transition.reads)
    }
    seen = [(state, readable(hosted.known, state.as_seen_by(node))) for state in transition.outputs]
    return _Seen(
        tuple(state for state in map(referred.get, transition.inputs) if state is not None),
        tuple(state for state in map(referred.get, transition.reads) if state is not None),
        tuple(read for state in transition.outputs if (read := known_of(hosted, state, node)) is not None),
        tuple(info for info in _infos_in(seen) if not is_permitted_info(info.record)),
        all(content is not None for state, content in seen if node in state.distribution),
    )


def _infos_in(contents: Iterable[tuple[State, Content | None]]) -> tuple[Known[Record], ...]:
    """The infos that these states carry, in the order in which the domain stated them."""
    found = [
        (told.number, Known(state.id, told.record, content.salt, content.readers))
        for state, content in contents
        if content is not None
        for told in content.infos
    ]
    return tuple(info for _, info in sorted(found, key=lambda each: each[0]))
