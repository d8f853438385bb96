"""What the simulated world's endorsers see for themselves, as the hosted domains do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from rota.chain.effects import RoundDispatch
from rota.machine.effects import DispatchRound
from rota.model.digests import domain_separator
from rota.model.types import Party, RequestId, State, StateId, SubmitMode, Transition
from rota.node.events import ForContract
from rota.sequencer.effects import AssembleIntents, CheckRound
from rota.sequencer.events import AssemblyFinished, RoundChecked
from rota.sim.contents import Contents
from rota.sim.domain import assemble, readable
from rota.sim.ledger import Ledger
from rota.sim.liars.rules import bound_part
from rota.sim.plan import Settings, draw_plan
from rota.sim.services import Services, sign_leaf
from rota.wire.messages import Snapshot
from tests.sequencer.kit import SEPARATOR, A, B, contract, digest_of, intent, transition

CONTRACT = contract()
SENDER = Party("bob@B")
NOTHING: Mapping[StateId, State] = {}


def judged(made: Transition, *makers: Transition, unspent: Mapping[StateId, State] = NOTHING) -> RoundChecked:
    """A's judgement of a round of one, which B coordinates."""
    services = Services({CONTRACT.address: CONTRACT}, {})
    assert services.separators == {CONTRACT.address: domain_separator(CONTRACT.chain_id, CONTRACT.address)}
    signed = replace(made, signature=sign_leaf(SENDER, made.leaf, made.valid_until_s))
    order = CheckRound(
        CONTRACT.address, B, RequestId(1, 1), digest_of(made.leaf), (signed,), (SENDER,), made.valid_until_s, makers
    )
    [told] = services.answer(A, order, unspent, 1, Contents())
    assert isinstance(told, ForContract)
    assert isinstance(told.event, RoundChecked)
    assert told.event.digest == order.digest
    return told.event


def with_output(**changes: object) -> Transition:
    made = transition("B-1")
    [state] = made.outputs
    return replace(made, outputs=(replace(state, **changes),))  # type: ignore[arg-type]


def test_endorser_signs_what_it_can_see() -> None:
    assert judged(transition("B-1")).signature


@pytest.mark.parametrize(
    "hidden",
    [with_output(content=None), with_output(content=None, distribution=(B,)), with_output(distribution=(A, B))],
)
def test_sender_that_hides_what_it_makes_is_refused_without_a_signature(hidden: Transition) -> None:
    """Seed 18: endorsers signed a shared state that only its sender could read, and nobody could spend it."""
    told = judged(hidden)
    assert not told.signature
    assert [(each.reason, each.signature) for each in told.refusals] == [("a state is hidden from endorsers", b"")]


@pytest.mark.parametrize("is_on_the_chain", [True, False])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"fund of A/1", "a state of another is spent"),
        (b"coin of A/1", "a state of another is spent"),
        (b"fund of B/1", ""),
        (b"coin of B/1", ""),
        (b"shared 1/1", ""),
    ],
)
def test_endorser_refuses_who_spends_what_is_anothers(content: bytes, reason: str, is_on_the_chain: bool) -> None:
    """Seeds 2846 and 2986: a liar spent the fund of an honest user, whose next payment found no funds."""
    maker = transition("A-9")
    spent = replace(maker.outputs[0], content=content)
    made = transition("B-1", spent.id)
    told = (
        judged(made, unspent={spent.id: spent}) if is_on_the_chain else judged(made, replace(maker, outputs=(spent,)))
    )
    assert [each.reason for each in told.refusals] == [reason] * bool(reason)
    assert all(each.signature for each in told.refusals)


def test_among_liars_no_domain_builds_on_a_shared_state_that_it_cannot_read() -> None:
    """Seed 2312: nobody had the contents of a liar's state, and honest nodes built on it for ever."""
    made = transition("B-1").outputs[0]
    shared, fund = replace(made, content=b"shared 1/1"), replace(transition("B-2").outputs[0], content=b"fund of A/1")
    unspent = {each.id: each for each in (shared, fund)}
    assert set(readable(unspent, ())) == {fund.id}
    assert readable(unspent, (shared.id,)) == unspent


def test_contract_knows_states_by_leaf_and_place_whatever_a_liar_calls_them() -> None:
    """Seed 60: a liar committed a round whose transition called its state otherwise, and the model believed it."""
    made = transition("B-1")
    renamed = with_output(id=StateId(made.leaf, 2))
    ledger = Ledger((CONTRACT,))
    order = DispatchRound(CONTRACT.address, digest_of(made.leaf), (made.leaf,), (renamed,), (), (), made.valid_until_s)
    ledger.send(RoundDispatch(replace(order, signatures=tuple((node, b"") for node in CONTRACT.endorsers)), "B", 0))
    ledger.mine(made.valid_until_s)
    assert list(ledger.states[CONTRACT.address].unspent) == [StateId(made.leaf, 0)]
    assert [state.id for state in bound_part(renamed).outputs] == [StateId(made.leaf, 0)]
    ledger.take_back(1)
    assert not ledger.states[CONTRACT.address].unspent


def test_block_is_taken_back_although_a_round_of_it_was_copied() -> None:
    """Seed 531: a copy that was skipped was undone in the place of what was committed, before what stood on that."""
    first = transition("B-1")
    second = transition("B-2", StateId(first.leaf, 0))
    ledger = Ledger((CONTRACT,))
    signatures = tuple((node, b"") for node in CONTRACT.endorsers)
    for nonce, made in enumerate((first, second, first)):
        digest = digest_of(made.leaf)
        order = DispatchRound(CONTRACT.address, digest, (made.leaf,), (made,), (), signatures, made.valid_until_s)
        ledger.send(RoundDispatch(order, "B", nonce))
    block = ledger.mine(first.valid_until_s)
    assert [outcome.status.value for _, outcome in block.outcomes] == ["committed", "committed", "skipped"]
    ledger.take_back(1)
    assert not ledger.states[CONTRACT.address].unspent
    assert not ledger.states[CONTRACT.address].used


def drawn(unspent: tuple[State, ...], locks: tuple[StateId, ...], offered: tuple[State, ...] = ()) -> Transition | str:
    """What `draw:1` makes of these states, or why it makes nothing."""
    order = AssembleIntents(
        CONTRACT.address, RequestId(1, 1), (intent("A-1", b"draw:1"),), Snapshot(locks, offered), 0, 100, 100
    )
    [told] = assemble(CONTRACT, SEPARATOR, order, {state.id: state for state in unspent}, 1, node=A)
    assert isinstance(told, AssemblyFinished)
    return told.transition or told.reason


def test_intent_that_draws_waits_for_a_locked_state_and_makes_no_other() -> None:
    first = drawn((), ())
    assert isinstance(first, Transition)
    assert first.inputs == ()
    [state] = first.outputs
    following = drawn((state,), ())
    assert isinstance(following, Transition)
    assert following.inputs == (state.id,)
    assert drawn((state,), (state.id,)) == "all states are in use"
    on_top = drawn((state,), (state.id,), following.outputs)
    assert isinstance(on_top, Transition)
    assert on_top.inputs == (following.outputs[0].id,)


def test_some_seeds_have_intents_that_draw_and_no_external_one_does() -> None:
    plans = [draw_plan(seed, Settings(minutes=0.5)) for seed in range(40)]
    drawing = [each for plan in plans for each in plan.submissions if each.payload.startswith("draw:")]
    assert drawing
    assert all(each.mode is SubmitMode.AUTO for each in drawing)
    assert sum(any(each.payload.startswith("draw:") for each in plan.submissions) for plan in plans) < 20
