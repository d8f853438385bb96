"""What an endorser needs to judge states that are not on the chain, and how it gets what it lacks (protocol §5, §7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.events import ConnectionLost, ConnectionMade
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.consistency import Consistent
from rota.model.types import Leaf, NodeName, RequestId, StateId, Transition
from rota.node.explanation import explain_at_coordinator
from rota.sequencer import seen as seen_module
from rota.sequencer.effects import CheckRound
from rota.sequencer.held_intent import State
from rota.sequencer.seen import Seen
from rota.wire.messages import (
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    Rejection,
    StateDistribution,
    StateRequest,
)
from rota.wire.sizes import transition_bytes
from tests.node.node_bench import NodeBench
from tests.sequencer.coordinator_bench import CoordinatorBench, active, endorsed_by_others, handed, restarted, settled
from tests.sequencer.kit import A, B, Bench, C, contract, digest_of, intent_id, remade, transition
from tests.sequencer.test_endorser import endorser, request, responses
from tests.sequencer.test_message_sizes import fits, sized

MAKER = transition("A-1")
USER = transition("A-2", MAKER.outputs[0].id)
SECOND = RequestId(1, 2)


def hidden_from(node: NodeName, made: Transition) -> Transition:
    """The same, with a state that is not for that node."""
    seen_by = tuple(other for other in made.outputs[0].distribution if other != node)
    return replace(made, outputs=(replace(made.outputs[0], distribution=seen_by),))


def missing(bench: Bench, peer: NodeName = A) -> list[tuple[Leaf, ...]]:
    """The leaves that the endorser said it lacks."""
    return [error.missing for error in bench.said(EndorsementError, peer)]


# The endorser.


def test_domain_is_given_the_makers_that_the_coordinator_shows() -> None:
    bench = endorser()
    bench.hear(A, replace(request(USER), makers=(MAKER,)))
    [check] = bench.take(CheckRound)
    assert (check.transitions, check.makers) == ((USER,), (MAKER,))


def test_domain_is_given_the_makers_that_were_asked_about_before() -> None:
    bench = endorser()
    bench.hear(A, request(MAKER))
    bench.hear(A, request(USER, request_id=SECOND))
    assert [check.makers for check in bench.take(CheckRound)] == [(), (MAKER,)]


def test_what_the_round_makes_itself_needs_no_maker() -> None:
    bench = endorser()
    bench.hear(A, replace(request(MAKER, USER), makers=(MAKER,)))
    [check] = bench.take(CheckRound)
    assert check.makers == ()


def test_maker_that_nobody_needs_is_passed_over() -> None:
    bench = endorser()
    stranger = replace(transition("B-7"), leaf=Leaf(bytes(32)))
    bench.hear(A, replace(request(USER), makers=(stranger, MAKER)))
    [check] = bench.take(CheckRound)
    assert check.makers == (MAKER,)


@pytest.mark.parametrize(
    "false",
    [
        replace(MAKER, inputs=(StateId(transition("A-0").leaf, 0),)),
        replace(MAKER, outputs=(replace(MAKER.outputs[0], content=b"another"),)),
        replace(MAKER, outputs=(replace(MAKER.outputs[0], id=StateId(MAKER.leaf, 1)),)),
        hidden_from(C, MAKER),
    ],
    ids=["another leaf", "another content", "another id", "not for us"],
)
def test_false_maker_is_refused_with_what_stands_on_it(false: Transition) -> None:
    bench = endorser()
    other = transition("A-3")
    bench.hear(A, replace(request(USER, other), makers=(false,)))
    [answer] = responses(bench)
    reason = "what is said to have made a state did not make it"
    assert [(refusal.intent, refusal.reason) for refusal in answer.refusals] == [(USER.intent, reason)]
    assert len(bench.sequencer.endorser.seen) == 0


def test_state_that_is_not_called_after_its_leaf_is_refused() -> None:
    bench = endorser()
    made = replace(MAKER, outputs=(replace(MAKER.outputs[0], id=StateId(USER.leaf, 0)),))
    bench.hear(A, request(made))
    [answer] = responses(bench)
    assert [refusal.reason for refusal in answer.refusals] == ["a state is not called after its leaf"]


def test_lack_of_states_is_told_and_members_are_asked() -> None:
    bench = endorser()
    bench.hear(A, request(USER))
    lacked = (USER.inputs[0], StateId(MAKER.leaf, 3))
    bench.judge(A, RequestId(1, 1), missing=lacked)
    assert missing(bench) == [(MAKER.leaf,)]
    assert bench.said(EndorsementError)[0].rejection is Rejection.MISSING_STATES
    assert responses(bench) == []
    assert [bench.said(StateRequest, peer) for peer in (A, B, C)] == [
        [StateRequest((MAKER.leaf,))],
        [StateRequest((MAKER.leaf,))],
        [],
    ]


def test_coordinator_that_is_no_member_is_asked_too() -> None:
    bench = Bench(node=C, of=contract(B, C, endorsers=(C,)))
    bench.sequencer.endorser._ask_for_states(A, request(USER), USER.inputs)
    assert len(bench.sequencer.context.effects) == 3


def test_request_that_could_not_be_judged_is_judged_when_it_comes_again() -> None:
    bench = endorser()
    bench.hear(A, request(USER))
    bench.judge(A, RequestId(1, 1), missing=USER.inputs)
    bench.hear(A, request(USER))
    assert len(bench.take(CheckRound)) == 2
    bench.judge(A, RequestId(1, 1), b"signature")
    assert [answer.signature for answer in responses(bench)] == [b"signature"]


def test_many_leaves_are_asked_for_in_several_requests() -> None:
    bench = endorser()
    bench.hear(A, request(USER))
    lacked = tuple(StateId(Leaf(number.to_bytes(32, "big")), 0) for number in range(65))
    bench.judge(A, RequestId(1, 1), missing=lacked)
    assert [len(asked.leaves) for asked in bench.said(StateRequest, B)] == [64, 1]
    assert fits(*bench.said(EndorsementError))


# What an endorser remembers.


def test_what_has_no_content_for_us_is_not_remembered() -> None:
    seen = Seen()
    seen.note(Consistent(hidden_from(C, MAKER).as_seen_by(C)), A)
    assert len(seen) == 0
    seen.note(MAKER, A)
    seen.note(MAKER, A)
    assert seen.find((MAKER.leaf, USER.leaf)) == (MAKER,)


def test_oldest_are_forgotten_beyond_their_number_and_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "SEEN_MAX", 2)
    seen = Seen()
    many = [transition(f"A-{number}") for number in range(4)]
    for made in many:
        seen.note(made, A)
    assert seen.find(made.leaf for made in many) == tuple(many[2:])
    monkeypatch.setattr(seen_module, "SEEN_BYTES_MAX", transition_bytes(many[0]))
    seen.note(many[0], A)
    assert seen.find(made.leaf for made in many) == (many[0],)


def remembers(bench: Bench, made: Transition = MAKER) -> bool:
    return bench.sequencer.endorser.seen.find((made.leaf,)) == (made,)


@pytest.mark.parametrize("status", LedgerStatus)
def test_what_others_brought_to_the_chain_is_remembered_until_it_is_stored(status: LedgerStatus) -> None:
    """Who is to distribute it may have died; what was skipped may be committed later."""
    bench = endorser()
    bench.hear(A, request(MAKER))
    bench.block(1, LedgerOutcome(MAKER.intent, MAKER.leaf, digest_of(MAKER.leaf), status))
    assert remembers(bench)
    bench.sequencer.endorser.states_stored((MAKER,))
    assert not remembers(bench)


def test_what_our_own_users_sent_is_in_our_store_when_it_is_on_the_chain() -> None:
    bench = Bench()
    bench.submit("A-1")
    bench.signed(MAKER)
    bench.sequencer.endorser.seen.note(MAKER, A)
    bench.block(1, LedgerOutcome(MAKER.intent, MAKER.leaf, digest_of(MAKER.leaf), LedgerStatus.COMMITTED))
    assert not remembers(bench)


def test_what_we_dispatched_is_in_our_store_when_it_is_on_the_chain() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(State.DISPATCHED, made)
    bench.sequencer.endorser.seen.note(made, A)
    bench.block(1, bench.outcome(made))
    assert not remembers(bench, made)


def test_what_an_earlier_life_dispatched_is_in_our_store_when_it_is_on_the_chain() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.sequencer.endorser.seen.note(transition("B-1"), A)
    bench.block(1, settled(point))
    assert not remembers(bench, transition("B-1"))


def test_what_was_distributed_is_found_in_the_store_from_then_on() -> None:
    bench = NodeBench(contracts=(contract(A, B, C),))
    made = transition("B-1")
    seen = bench.sequencer().endorser.seen
    seen.note(made, A)
    bench.hear(B, StateDistribution(digest_of(made.leaf), (made,)))
    assert len(seen) == 0


# The coordinator.


FIRST, NEXT = transition("B-1"), transition("B-2", transition("B-1").outputs[0].id)


def shown(bench: CoordinatorBench, endorser: NodeName) -> list[tuple[Transition, ...]]:
    """The makers in each request to an endorser since the last look."""
    return [asked.makers for _, asked in bench.asked(EndorsementRequest, endorser)]


def one_after_the_other(bench: CoordinatorBench) -> None:
    """B-1 is endorsed in a round of its own; then B-2, which stands on it, is asked about."""
    bench.bring(State.CONFIRMING_DISPATCH, FIRST)
    bench.bring(State.ENDORSEMENT_GATHERING, NEXT)


def say_missing(bench: CoordinatorBench, endorser: NodeName, *leaves: Leaf) -> EndorsementRequest:
    """An endorser lacks what these leaves made."""
    [(_, asked)] = bench.asked(EndorsementRequest, endorser)
    bench.hear(endorser, EndorsementError(asked.request_id, Rejection.MISSING_STATES, missing=leaves))
    return asked


def test_endorser_that_was_asked_about_the_maker_is_not_shown_it() -> None:
    bench = active()
    one_after_the_other(bench)
    assert (shown(bench, B), shown(bench, C)) == ([()], [()])


def test_endorser_that_could_not_be_reached_is_shown_the_maker() -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    bench.tell(ConnectionLost(C))
    bench.bring(State.CONFIRMING_DISPATCH, FIRST)
    bench.tell(ConnectionMade(C))
    bench.forget()
    bench.bring(State.ENDORSEMENT_GATHERING, NEXT)
    assert (shown(bench, B), shown(bench, C)) == ([()], [(FIRST,)])


@pytest.mark.parametrize("is_refusal", [False, True])
def test_endorser_that_did_not_accept_the_round_or_refused_it_is_shown_the_maker(is_refusal: bool) -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    bench.bring(State.ENDORSEMENT_GATHERING, FIRST)
    if is_refusal:
        bench.refuse(C, "B-1")
    else:
        [(_, asked)] = bench.asked(EndorsementRequest, C)
        bench.hear(C, EndorsementError(asked.request_id, Rejection.NO_LEDGER))
    bench.sign(B)
    bench.bring(State.ENDORSEMENT_GATHERING, NEXT)
    assert (shown(bench, B), shown(bench, C)) == ([()], [(FIRST,)])


def test_maker_is_shown_as_its_receiver_may_see_it() -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    hidden = hidden_from(C, FIRST)
    bench.tell(ConnectionLost(C))
    bench.bring(State.CONFIRMING_DISPATCH, hidden)
    bench.tell(ConnectionMade(C))
    bench.forget()
    bench.bring(State.ENDORSEMENT_GATHERING, NEXT)
    assert shown(bench, C) == [(hidden.as_seen_by(C),)]


def test_endorser_that_lacks_a_maker_is_shown_it_at_once_and_nothing_is_counted() -> None:
    bench = active()
    one_after_the_other(bench)
    asked = say_missing(bench, B, FIRST.leaf)
    [(_, again)] = bench.asked(EndorsementRequest, B)
    assert again.request_id != asked.request_id
    assert replace(again, request_id=asked.request_id) == replace(asked, makers=(FIRST,))
    assert bench.transaction("B-2").refused_count == 0
    bench.hear(B, EndorsementResponse(again.request_id, again.digest, b"by B"))
    bench.sign(C)
    assert bench.state_of("B-2") is State.BLOCKED


def test_endorser_that_lacks_what_it_was_shown_is_asked_again_in_its_time() -> None:
    bench = active()
    one_after_the_other(bench)
    say_missing(bench, B, FIRST.leaf)
    say_missing(bench, B, FIRST.leaf)
    assert shown(bench, B) == []
    bench.wait(bench.config.request_timeout_ms)
    assert shown(bench, B) == [(FIRST,)]
    assert bench.state_of("B-2") is State.ENDORSEMENT_GATHERING


def test_endorser_that_lacks_what_is_on_the_chain_is_asked_again_in_its_time() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1", StateId(MAKER.leaf, 0)))
    say_missing(bench, B, MAKER.leaf)
    assert shown(bench, B) == []
    bench.wait(bench.config.request_timeout_ms)
    assert shown(bench, B) == [()]
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    assert bench.transaction("B-1").refused_count == 0
    explained = explain_at_coordinator(bench.sequencer, intent_id("B-1"))
    assert explained is not None
    assert "B answered MissingStates" in explained.detail


def test_endorser_that_says_again_and_again_that_it_lacks_what_it_was_shown_is_not_flooded() -> None:
    """The attack: by naming now one, now the other it made us send both for each of its answers."""
    bench = active(of=endorsed_by_others(endorsers=(B,)), config=Config(rounds_open_max=9))
    makers = [transition("B-1"), transition("B-2")]
    for made in makers:
        bench.bring(State.CONFIRMING_DISPATCH, made)
    user = transition("B-3", *(made.outputs[0].id for made in makers))
    bench.bring(State.ENDORSEMENT_GATHERING, user)
    for made in makers:
        say_missing(bench, B, made.leaf)
    say_missing(bench, B, makers[0].leaf)
    assert shown(bench, B) == []
    bench.wait(bench.config.request_timeout_ms)
    assert shown(bench, B) == [(makers[0],)]


def test_makers_that_another_coordinator_dispatched_are_not_ours_to_show() -> None:
    point = handed("C-9")
    bench = restarted(point)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1", point.transition.outputs[0].id))
    assert bench.coordinator.graph.foreign()
    assert (shown(bench, B), shown(bench, C)) == ([()], [()])


def test_makers_are_shown_as_far_as_a_message_holds_them_and_first_those_that_are_lacked() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)), config=Config(rounds_open_max=9))
    large = [sized(f"B-{number}", bench.config.transition_bytes_max) for number in range(2)]
    for made in large:
        bench.bring(State.CONFIRMING_DISPATCH, made)
    user = sized("B-9", bench.config.transition_bytes_max - 500, inputs=tuple(made.outputs[0].id for made in large))
    third = transition("B-8")
    bench.bring(State.CONFIRMING_DISPATCH, third)
    bench.bring(State.ENDORSEMENT_GATHERING, remade(user, reads=(third.outputs[0].id,)))
    say_missing(bench, B, *(made.leaf for made in (*large, third)))
    [(_, first)] = bench.asked(EndorsementRequest, B)
    assert first.makers == tuple(large)
    assert fits(first)
    bench.hear(B, EndorsementError(first.request_id, Rejection.MISSING_STATES, missing=(third.leaf,)))
    [(_, second)] = bench.asked(EndorsementRequest, B)
    assert second.makers == (third,)


def test_each_time_that_an_endorser_lacks_a_maker_counts_once() -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    bench.bring(State.ENDORSEMENT_GATHERING, FIRST)
    rounds = bench.coordinator.rounds
    (opened,) = rounds.rounds.values()
    rounds._note_lack(opened, C, ())
    rounds._note_lack(opened, C, ())
    assert opened.lacking[C].times == 2
