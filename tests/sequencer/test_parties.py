"""Who is who: a party's own node is asked until it answers, and nobody else waits for that (protocol §4.3)."""

from __future__ import annotations

import pytest

from rota.machine.effects import IntentFinalised, LookUpVerifier, Persist, ReportReceipt, ReportVerifier
from rota.machine.events import Tick, VerifierLookedUp, VerifierWanted
from rota.model.types import DelegationNumber, HeartbeatNumber, NodeName, Outcome, Party, Receipt, RequestId
from rota.node.explanation import explain_at_sender
from rota.sequencer import parties as parties_module
from rota.sequencer.effects import EndingDecided
from rota.sequencer.events import OutcomesFinal
from rota.sequencer.parties import VERIFIER_CHARACTERS_MAX, VERIFIERS_KEPT_MAX
from rota.sequencer.sender_transaction import State
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    Delegation,
    DelegationCommand,
    SubmittedIntent,
    SubmitterHeartbeat,
    VerifierRequest,
    VerifierResponse,
)
from tests.sequencer.kit import (
    ADDRESS,
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    D,
    intent,
    intent_id,
    permission_of,
    signed_leaf,
    transition,
)

BOB = Party("bob@B")
CAROL = Party("carol@C")
ALICE = Party("alice@A")


def bench_with(*parties: Party) -> Bench:
    """A sender with one intent, in which these take part."""
    bench = Bench(height=400)
    bench.submit("A-1", parties=parties)
    return bench


def delegations(bench: Bench) -> list[Delegation]:
    """What was delegated so far, with repeats."""
    return [delegation for command in bench.said(DelegationCommand, B) for delegation in command.delegations]


def delegated(bench: Bench) -> list[bytes]:
    """Every intent that was delegated so far, repeats left out."""
    return list(dict.fromkeys(delegation.intent.id for delegation in delegations(bench)))


def answer(bench: Bench, peer: NodeName, party: Party, verifier: str) -> None:
    """A node answers the latest request for that party."""
    request_id = bench.sequencer.sender.parties.resolving[party]
    bench.hear(peer, VerifierResponse(request_id, party, verifier), height=400)


def test_node_of_each_party_is_asked_before_the_intent_is_delegated() -> None:
    bench = bench_with(BOB, CAROL)
    assert [request.party for request in bench.said(VerifierRequest, B)] == [BOB]
    assert [request.party for request in bench.said(VerifierRequest, C)] == [CAROL]
    assert delegated(bench) == []
    answer(bench, B, BOB, "0xb0b")
    assert delegated(bench) == []
    answer(bench, C, CAROL, "0xca401")
    assert delegated(bench) == [intent_id("A-1")]


def test_explanation_names_the_parties_and_whom_it_waits_for() -> None:
    bench = bench_with(BOB, CAROL)
    answer(bench, B, BOB, "0xb0b")
    explanation = explain_at_sender(bench.sequencer, intent_id("A-1"))
    assert explanation is not None
    assert explanation.waits_for == "verifiers of carol@C"
    assert explanation.who == (C,)


def test_other_intents_do_not_wait_for_a_party() -> None:
    bench = bench_with(BOB)
    bench.submit("A-2")
    assert delegated(bench) == [intent_id("A-2")]


def test_request_is_repeated_with_the_same_id_until_it_is_answered() -> None:
    bench = bench_with(BOB)
    bench.wait(999)
    assert len(bench.said(VerifierRequest, B)) == 1
    bench.wait(1)
    bench.wait(1_000)
    first, second, third = bench.said(VerifierRequest, B)
    assert first == second == third
    answer(bench, B, BOB, "0xb0b")
    bench.wait(5_000)
    assert len(bench.said(VerifierRequest, B)) == 3


def test_unreachable_node_lets_the_intent_wait_however_long() -> None:
    bench = bench_with(BOB)
    bench.wait(600_000)
    assert bench.sequencer.sender.transactions[intent_id("A-1")].state is State.PENDING
    answer(bench, B, BOB, "0xb0b")
    assert delegated(bench) == [intent_id("A-1")]


def test_known_party_is_not_asked_for_again() -> None:
    bench = bench_with(BOB)
    answer(bench, B, BOB, "0xb0b")
    bench.forget()
    bench.submit("A-2", parties=(BOB,))
    assert bench.said(VerifierRequest) == []
    assert bench.sequencer.sender.transactions[intent_id("A-2")].unresolved == {}


def test_party_of_two_intents_is_asked_for_once_and_answers_for_both() -> None:
    bench = bench_with(BOB)
    bench.submit("A-2", parties=(BOB,))
    bench.submit("A-3", parties=(CAROL,))
    assert len(bench.said(VerifierRequest, B)) == 1
    answer(bench, B, BOB, "0xb0b")
    unresolved = [machine.unresolved for machine in bench.sequencer.sender.transactions.values()]
    assert unresolved == [{}, {}, {CAROL: None}]


@pytest.mark.parametrize("peer", [C, D])
def test_word_of_another_node_does_not_count(peer: NodeName) -> None:
    bench = bench_with(BOB)
    answer(bench, peer, BOB, "0xe71")
    answer(bench, peer, BOB, "")
    assert bench.sequencer.sender.parties.verifiers == {}
    assert bench.sequencer.sender.transactions[intent_id("A-1")].state is State.PENDING
    answer(bench, B, BOB, "0xb0b")
    assert bench.sequencer.sender.parties.verifiers == {BOB: "0xb0b"}


def test_answer_to_another_request_does_not_count() -> None:
    bench = bench_with(BOB)
    bench.hear(B, VerifierResponse(RequestId(1, 999), BOB, "0xe71"))
    bench.hear(B, VerifierResponse(RequestId(1, 999), Party("nobody@B"), "0xe71"))
    assert bench.sequencer.sender.parties.verifiers == {}
    assert delegated(bench) == []


def test_second_answer_changes_nothing() -> None:
    bench = bench_with(BOB)
    request_id = bench.sequencer.sender.parties.resolving[BOB]
    answer(bench, B, BOB, "0xb0b")
    bench.hear(B, VerifierResponse(request_id, BOB, "0xe71"))
    assert bench.sequencer.sender.parties.verifiers == {BOB: "0xb0b"}


def test_unknown_party_reverts_the_intent_with_that_reason() -> None:
    bench = bench_with(BOB)
    answer(bench, B, BOB, "")
    receipt = Receipt(intent_id("A-1"), Outcome.REVERTED, "unknown party bob@B")
    (persist,) = [effect for effect in bench.effects if isinstance(effect, Persist)]
    assert persist.records == (IntentFinalised(receipt),)
    assert bench.take(ReportReceipt) == [ReportReceipt(receipt)]
    assert delegated(bench) == []


def test_party_that_was_unknown_is_asked_for_again_by_the_next_intent() -> None:
    bench = bench_with(BOB)
    answer(bench, B, BOB, "")
    bench.forget()
    bench.submit("A-2", parties=(BOB,))
    assert len(bench.said(VerifierRequest, B)) == 1
    answer(bench, B, BOB, "0xb0b")
    assert delegated(bench) == [intent_id("A-2")]


def test_unknown_party_of_a_restarted_sender_reverts_only_when_no_version_can_be_valid() -> None:
    recorded = (signed_leaf(transition("A-1")),)
    stored = StoredContract((Restored(intent("A-1", parties=(BOB,)), versions=recorded),))
    bench = Bench(height=400, stored=stored, incarnation=2)
    bench.tell(Tick())
    assert delegated(bench) == []
    answer(bench, B, BOB, "")
    machine = bench.sequencer.sender.transactions[intent_id("A-1")]
    assert (machine.state, machine.is_voiding) == (State.PENDING, True)
    (persist,) = bench.take(Persist)
    assert persist.records == (EndingDecided(intent_id("A-1"), "unknown party bob@B"),)
    bench.tell(OutcomesFinal(GENESIS_S + 600, ()))
    assert bench.take(Persist) == []
    bench.tell(OutcomesFinal(GENESIS_S + 601, ()))
    (persist,) = bench.take(Persist)
    assert persist.records == (IntentFinalised(Receipt(intent_id("A-1"), Outcome.REVERTED, "unknown party bob@B")),)


def test_parked_intent_learns_of_its_parties_too() -> None:
    stored = StoredContract((Restored(intent("A-1", parties=(BOB,)), parked_reason="not yet"),))
    bench = Bench(height=400, stored=stored, incarnation=2)
    bench.tell(Tick())
    answer(bench, B, BOB, "0xb0b")
    machine = bench.sequencer.sender.transactions[intent_id("A-1")]
    assert machine.state is State.PARKED
    assert machine.unresolved == {}


def test_who_asks_for_a_party_of_ours_gets_what_the_key_store_says() -> None:
    bench = Bench(height=400)
    bench.hear(B, VerifierRequest(RequestId(1, 7), ALICE))
    assert bench.take(LookUpVerifier) == [LookUpVerifier(ADDRESS, B, RequestId(1, 7), ALICE)]
    assert bench.said(VerifierResponse) == []
    bench.tell(VerifierLookedUp(B, RequestId(1, 7), ALICE, "0xa11ce"))
    assert bench.said(VerifierResponse, B) == [VerifierResponse(RequestId(1, 7), ALICE, "0xa11ce")]


def test_party_of_our_own_node_is_looked_up_here() -> None:
    bench = bench_with(ALICE)
    (look_up,) = bench.take(LookUpVerifier)
    assert (look_up.peer, look_up.party) == (A, ALICE)
    assert bench.said(VerifierRequest) == []
    bench.tell(VerifierLookedUp(A, look_up.request_id, ALICE, "0xa11ce"))
    assert delegated(bench) == [intent_id("A-1")]


@pytest.mark.parametrize("verifier", ["0xb0b", ""])
def test_party_that_was_resolved_while_an_earlier_dispatch_was_watched_after_a_restart_is_known_afterwards(
    verifier: str,
) -> None:
    """The submitter lists it before the party's node answers, and then falls silent."""
    permission = permission_of(DelegationNumber(1, 1), C, transition("A-1"))
    recorded = (signed_leaf(transition("A-1")),)
    stored = StoredContract((Restored(intent("A-1", parties=(BOB,)), permission=permission, versions=recorded),))
    bench = Bench(height=400, stored=stored, incarnation=2)
    bench.tell(Tick())
    listed = SubmittedIntent(intent_id("A-1"), transition("A-1").leaf, "C", 7, 1)
    bench.hear(C, SubmitterHeartbeat(HeartbeatNumber(1, 1), (listed,)), height=400)
    assert bench.sequencer.sender.transactions[intent_id("A-1")].state is State.SUBMITTED
    answer(bench, B, BOB, verifier)
    assert delegated(bench) == []
    bench.wait(4_000)
    if not verifier:
        answer(bench, B, BOB, verifier)
    machine = bench.sequencer.sender.transactions[intent_id("A-1")]
    assert machine.state is State.PENDING
    assert (machine.is_voiding, machine.ending_reason) == ((False, None) if verifier else (True, "unknown party bob@B"))
    assert intent_id("A-1") in delegated(bench)
    assert all(each.is_voiding is not bool(verifier) for each in delegations(bench))


def test_verifiers_that_were_learnt_first_are_forgotten_first_and_asked_for_again() -> None:
    bench = bench_with(BOB)
    answer(bench, B, BOB, "0xb0b")
    parties = bench.sequencer.sender.parties
    for number in range(VERIFIERS_KEPT_MAX):
        other = Party(f"party {number}@B")
        parties.resolving[other] = RequestId(1, number)
        parties.take_response(B, VerifierResponse(RequestId(1, number), other, "0x1"))
    assert len(parties.verifiers) == VERIFIERS_KEPT_MAX
    assert BOB not in parties.verifiers
    bench.forget()
    bench.submit("A-2", parties=(BOB,))
    assert [request.party for request in bench.said(VerifierRequest, B)] == [BOB]
    waiting = bench.sequencer.sender.transactions[intent_id("A-2")]
    assert list(waiting.unresolved) == [BOB]
    answer(bench, B, BOB, "0xb0b")
    assert list(waiting.unresolved) == []


def test_whoever_wants_a_verifier_is_told_when_its_node_has_answered() -> None:
    bench = Bench(height=400)
    bench.tell(VerifierWanted(CAROL))
    assert [request.party for request in bench.said(VerifierRequest, C)] == [CAROL]
    answer(bench, C, CAROL, "0xca401")
    assert bench.take(ReportVerifier) == [ReportVerifier(ADDRESS, CAROL, "0xca401")]


def test_whoever_wants_a_verifier_that_is_known_is_told_at_once() -> None:
    bench = bench_with(BOB)
    answer(bench, B, BOB, "0xb0b")
    bench.tell(VerifierWanted(BOB))
    assert bench.take(ReportVerifier) == [ReportVerifier(ADDRESS, BOB, "0xb0b")]


def test_whoever_wants_the_verifier_of_a_stranger_is_told_that_there_is_none() -> None:
    bench = Bench(height=400)
    bench.tell(VerifierWanted(CAROL))
    answer(bench, C, CAROL, "")
    assert bench.take(ReportVerifier) == [ReportVerifier(ADDRESS, CAROL, "")]


def test_node_whose_parties_are_wanted_has_a_bounded_number_of_them_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parties_module, "WANTED_OF_NODE_MAX", 2)
    bench = Bench(height=400)
    for number in range(3):
        bench.tell(VerifierWanted(Party(f"p{number}@C")))
    bench.tell(VerifierWanted(Party("p0@C")))
    assert [request.party for request in bench.said(VerifierRequest, C)] == ["p0@C", "p1@C"]
    answer(bench, C, Party("p0@C"), "0xca401")
    bench.tell(VerifierWanted(Party("p2@C")))
    assert bench.said(VerifierRequest, C)[-1].party == "p2@C"


def test_parties_whose_nodes_never_answer_keep_no_other_party_from_being_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parties_module, "VERIFIERS_WANTED_MAX", 3)
    bench = Bench(height=400)
    for number in range(3):
        bench.tell(VerifierWanted(Party(f"p{number}@D")))
    bench.tell(VerifierWanted(CAROL))
    assert [request.party for request in bench.said(VerifierRequest, C)] == [CAROL]
    parties = bench.sequencer.sender.parties
    assert list(parties.resolving) == ["p1@D", "p2@D", CAROL], "the node with the most makes room"
    assert parties.wanted_count == 3


def test_party_that_is_wanted_in_vain_is_asked_for_during_a_bounded_time() -> None:
    bench = Bench(height=400)
    bench.tell(VerifierWanted(CAROL))
    bench.wait(bench.config.unavailable_ttl_ms)
    parties = bench.sequencer.sender.parties
    assert not parties.resolving
    assert not parties.wanted
    bench.forget()
    bench.wait(10 * bench.config.unavailable_ttl_ms)
    assert bench.said(VerifierRequest) == []
    bench.tell(VerifierWanted(CAROL))
    assert [request.party for request in bench.said(VerifierRequest, C)] == [CAROL], "it is asked for anew"


def test_party_that_is_wanted_in_vain_and_that_an_intent_needs_is_asked_for_however_long() -> None:
    bench = bench_with(CAROL)
    bench.tell(VerifierWanted(CAROL))
    bench.wait(2 * bench.config.unavailable_ttl_ms)
    assert not bench.sequencer.sender.parties.wanted
    answer(bench, C, CAROL, "0xca401")
    assert delegated(bench) == [intent_id("A-1")]


def test_verifier_that_is_longer_than_any_key_is_not_kept() -> None:
    bench = Bench(height=400)
    bench.tell(VerifierWanted(CAROL))
    answer(bench, C, CAROL, "0" * (VERIFIER_CHARACTERS_MAX + 1))
    assert bench.take(ReportVerifier) == []
    answer(bench, C, CAROL, "0" * VERIFIER_CHARACTERS_MAX)
    assert len(bench.take(ReportVerifier)) == 1


def test_node_of_a_party_is_asked_whether_it_is_announced_also_when_its_verifier_is_known() -> None:
    bench = bench_with(BOB)
    answer(bench, B, BOB, "0xb0b")
    bench.take(ReportVerifier)
    bench.tell(VerifierWanted(BOB))
    assert bench.take(ReportVerifier) == [ReportVerifier(ADDRESS, BOB, "0xb0b")]
    bench.tell(VerifierWanted(BOB, asks_announced=True))
    asked = bench.said(VerifierRequest, B)[-1]
    assert asked.asks_announced
    # Whoever wants the same meanwhile waits for the same answer.
    bench.tell(VerifierWanted(BOB, asks_announced=True))
    assert bench.said(VerifierRequest, B)[-1] == asked
    bench.hear(B, VerifierResponse(asked.request_id, BOB, "0xb0b", announced=False))
    assert bench.take(ReportVerifier) == [ReportVerifier(ADDRESS, BOB, "0xb0b", announced=False)]


def test_answer_to_an_earlier_request_does_not_say_whether_a_party_is_announced() -> None:
    bench = Bench(height=400)
    bench.tell(VerifierWanted(BOB))
    (plain,) = bench.said(VerifierRequest, B)
    bench.tell(VerifierWanted(BOB, asks_announced=True))
    asked = bench.said(VerifierRequest, B)[-1]
    assert (plain.asks_announced, asked.asks_announced) == (False, True)
    bench.hear(B, VerifierResponse(plain.request_id, BOB, "0xb0b"))
    assert bench.take(ReportVerifier) == []
    bench.hear(B, VerifierResponse(asked.request_id, BOB, "0xb0b", announced=True))
    assert bench.take(ReportVerifier) == [ReportVerifier(ADDRESS, BOB, "0xb0b", announced=True)]


def test_party_that_is_being_asked_for_is_not_asked_for_twice() -> None:
    bench = bench_with(BOB)
    asked = bench.sequencer.sender.parties.resolving[BOB]
    bench.sequencer.sender.parties.want(BOB)
    assert bench.sequencer.sender.parties.resolving[BOB] == asked
    bench.sequencer.sender.parties.want(BOB, asks_announced=True)
    assert bench.sequencer.sender.parties.resolving[BOB] != asked
