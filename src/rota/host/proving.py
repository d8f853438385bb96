"""The contents of transitions assembled here, for their prover; and whether states match their commitments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rota.domains.available import Known, known_in
from rota.domains.records import Record
from rota.host.contracts import NO_BACKGROUND, Background, Held, Hosted, history_of, shelf_of, shelved
from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import Call, Leaf, NodeName, Party, Preparation, State, StateId, Transition
from rota.sequencer.effects import AssembleIntents
from rota.sequencer.events import AssemblyFinished


@dataclass(frozen=True, slots=True)
class Revealed:
    """A transition with the records of all states that it spends and makes, and its other references."""

    sender: Party
    spends: tuple[Known[Record], ...]
    makes: tuple[Known[Record], ...]
    preparation: Preparation | None
    calls: tuple[Call, ...] = ()
    reads: tuple[StateId, ...] = ()


def reveal(
    hosted: Hosted,
    order: AssembleIntents,
    events: Iterable[Event],
    held: Held,
    node: NodeName,
    background: Background = NO_BACKGROUND,
) -> dict[Leaf, Revealed]:
    """The contents of each transition in a slot's answer, by leaf."""
    new = shelved(hosted, order.snapshot.states, node)
    history = history_of(hosted, node, new.get, shelf_of(hosted, held, node).get, background.recall)
    senders = {intent.id: intent.sender for intent in order.intents}
    revealed: dict[Leaf, Revealed] = {}
    for event in events:
        transition = event.transition if isinstance(event, AssemblyFinished) else None
        if transition is None:
            continue
        for state in transition.outputs:
            new.put(state)
        revealed[transition.leaf] = Revealed(
            senders[transition.intent],
            tuple(history.get(state) for state in transition.inputs),
            tuple(read for state in transition.outputs if (read := known_in(hosted.known, state)) is not None),
            transition.preparation,
            transition.calls,
            transition.reads,
        )
    return revealed


def is_believed(hosted: Hosted, state: State, makers: Mapping[Leaf, Transition]) -> bool:
    """Whether the ledger's commitment to this state matches its record, and its owner can spend it.

    Such a transition has no endorser: its sender may commit to one coin and send another, or write the name of a party
    beside another key. Such a state is neither held nor shown to users.
    """
    maker = makers.get(state.id.leaf)
    read = known_in(hosted.known, state)
    if maker is None or read is None:
        return False
    committed = maker.info[state.id.output : state.id.output + 1]
    return bool(committed) and hosted.is_committed_as(read, committed[0]) and hosted.is_owned(read)


def as_believed(hosted: Hosted, transition: Transition) -> Transition:
    """The same without the contents that are not believed, where the ledger has commitments of its own to them."""
    if not hosted.domain.ledgers:
        return transition
    makers = {transition.leaf: transition}
    outputs = tuple(
        state if state.content is None or is_believed(hosted, state, makers) else replace(state, content=None)
        for state in transition.outputs
    )
    return replace(transition, outputs=outputs)
