"""A peer repeats what costs us work: how often it is done for it."""

from __future__ import annotations

import pytest

from rota.machine import pacing as pacing_module
from rota.machine.effects import FindStates
from rota.machine.pacing import (
    ANSWERED_TIMES_MAX,
    ASSEMBLED_TIMES_MAX,
    HEARTBEATS_TIMES_MAX,
    STATES_ASKED_TIMES_MAX,
    VERIFIED_TIMES_MAX,
    Debts,
    Pacing,
)
from rota.model.types import HeartbeatNumber, Leaf, Mode, NodeName, RequestId, Tried
from rota.node.events import StatesFound
from rota.sequencer import endorser as endorser_module
from rota.sequencer import sender_base as sender_module
from rota.sequencer.effects import AssembleIntents, CheckRound, VerifyEndorsement, VerifyEndorsers, VerifySignature
from rota.sequencer.events import EndorsementVerified, EndorsersVerified
from rota.sequencer.held_intent import State as Held
from rota.sequencer.observer import Observer
from rota.wire.messages import (
    AssembleResponse,
    CoordinatorHeartbeat,
    CoordinatorState,
    DispatchConfirmationRequest,
    DispatchItem,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    EndorserSignature,
    Handover,
    HandoverRequest,
    ListingRequest,
    Refusal,
    Rejection,
    StateRequest,
    TransactionReverted,
)
from rota.wire.sizes import transition_bytes
from tests.node.node_bench import OURS, NodeBench
from tests.sequencer import test_prepared as p
from tests.sequencer.coordinator_bench import active, elect, endorsed_by_others, handed, round_of
from tests.sequencer.kit import (
    ADDRESS,
    FORGED,
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    digest_of,
    intent_id,
    transition,
)
from tests.sequencer.test_endorser import endorser, request
from tests.sequencer.test_sender_transaction import (
    FIRST,
    HEIGHT,
    ID,
    accept,
    ask_assembly,
    assembled,
    delegated,
    machine,
    pending,
)


def test_peer_that_floods_an_endorser_with_rounds_has_only_so_many_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endorser_module, "CHECKS_OF_PEER_MAX", 2)
    bench = endorser()
    for number in range(5):
        bench.hear(A, request(transition("A-1", version=number), request_id=RequestId(1, number)))
    assert len(bench.take(CheckRound)) == 2
    bench.wait(bench.config.unavailable_ttl_ms + 1)
    bench.hear(A, request(transition("A-1", version=5), request_id=RequestId(1, 5)))
    assert len(bench.take(CheckRound)) == 1, "what was never judged holds up nobody for ever"


def test_coordinator_that_floods_a_sender_with_requests_gives_the_domain_few_orders() -> None:
    bench = pending()
    accept(bench)
    for counter in range(10, 100):
        ask_assembly(bench, counter)
    assert len(bench.take(AssembleIntents)) == 1 + ASSEMBLED_TIMES_MAX
    bench.wait(bench.config.request_timeout_ms)
    ask_assembly(bench, 100)
    assert len(bench.take(AssembleIntents)) == 1


def test_sender_that_floods_a_coordinator_with_requests_for_its_list_gets_one_in_each_interval() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.wait(bench.config.heartbeat_ms)
    bench.forget()
    for _ in range(10):
        bench.hear(C, ListingRequest(bench.coordinator.number))
    assert len(bench.said(CoordinatorHeartbeat, C)) == 1
    bench.wait(bench.config.heartbeat_ms)
    bench.forget()
    bench.hear(C, ListingRequest(bench.coordinator.number))
    assert [heartbeat.is_whole for heartbeat in bench.said(CoordinatorHeartbeat, C)] == [True]


def test_coordinator_that_repeats_its_hand_over_has_it_verified_a_few_times() -> None:
    bench = elect()
    bench.verifies = False
    point = handed("A-1")
    asked = bench.said(HandoverRequest, A)[-1]
    handover = Handover(asked.request_id, (point,), (round_of(point, *bench.of.endorsers),))
    for _ in range(10):
        bench.hear(A, handover, height=400)
    assert len(bench.take(VerifyEndorsers)) == VERIFIED_TIMES_MAX


def test_coordinator_that_repeats_a_prepared_transition_has_it_verified_a_few_times() -> None:
    bench = p.assembled()
    bench.verifies = False
    for _ in range(10):
        bench.hear(B, p.prepared(), height=HEIGHT)
    assert len(bench.take(VerifyEndorsers)) == VERIFIED_TIMES_MAX
    bench.wait(bench.config.request_timeout_ms)
    bench.hear(B, p.prepared(), height=HEIGHT)
    assert len(bench.take(VerifyEndorsers)) == 1


def test_stranger_that_sends_prepared_transitions_of_our_intents_has_nothing_verified() -> None:
    bench = p.assembled()
    bench.verifies = False
    bench.hear(D, p.prepared(), height=HEIGHT)
    assert bench.take(VerifyEndorsers) == []


def test_forged_copy_of_a_prepared_transition_does_not_take_the_place_of_the_true_one() -> None:
    bench = p.assembled()
    bench.verifies = False
    bench.hear(B, p.prepared(), height=HEIGHT)
    bench.hear(C, p.prepared(valid_until_s=p.PREPARED_UNTIL_S - 1), height=HEIGHT)
    true, forged = bench.take(VerifyEndorsers)
    bench.tell(EndorsersVerified(forged.request_id, (False,) * 3, ID))
    bench.tell(EndorsersVerified(true.request_id, (True,) * 3, ID))
    bench.write()
    assert machine(bench).issued is not None


def test_delegate_that_repeats_its_refusals_has_them_verified_a_few_times() -> None:
    bench = assembled()
    bench.verifies = False
    made = machine(bench).result
    assert made is not None
    assert made.transition is not None
    refusals = tuple(EndorserSignature(node, b"refused") for node in (A, B, C))
    for _ in range(10):
        bench.hear(B, TransactionReverted(ID, machine(bench).number, made.transition.leaf, "no", refusals))
    assert len(bench.take(VerifyEndorsers)) == VERIFIED_TIMES_MAX


def test_stranger_that_floods_a_node_with_requests_for_states_has_few_looked_for_and_keeps_nobody_away() -> None:
    bench = NodeBench(contracts=(OURS,))
    wanted = StateRequest((transition("B-1").leaf,))
    for _ in range(STATES_ASKED_TIMES_MAX + 10):
        bench.hear(D, wanted)
    assert len(bench.all(FindStates)) == STATES_ASKED_TIMES_MAX
    bench.hear(B, wanted)
    assert len(bench.all(FindStates)) == STATES_ASKED_TIMES_MAX + 1
    bench.wait(bench.node.config.request_timeout_ms)
    bench.hear(D, wanted)
    assert len(bench.all(FindStates)) == STATES_ASKED_TIMES_MAX + 2


def test_memory_of_what_was_done_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing_module, "KEYS_MAX", 2)
    pacing = Pacing(Bench().sequencer.context)
    assert [pacing.is_due(key, 10) for key in (1, 1, 2, 3, 1)] == [True, False, True, True, True]
    assert [pacing.is_due(9, 10, 2) for _ in range(3)] == [True, True, False]


def test_list_that_names_one_member_thousands_of_times_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[NodeName] = []
    is_tried_by = Observer.is_tried_by

    def counted(self: Observer, author: NodeName, tried: tuple[Tried, ...], node: NodeName) -> bool:
        looks.extend(entry.node for entry in tried)
        return is_tried_by(self, author, tried, node)

    monkeypatch.setattr(Observer, "is_tried_by", counted)
    bench = active()
    number = bench.beat(B, CoordinatorState.CLOSING)
    bench.delegate("C-1", tried=(Tried(B, HeartbeatNumber(0, 0)),) * 8_192)
    assert looks == [B]
    assert not bench.sequencer.observer.is_silent(B)
    bench.delegate("C-1", tried=(Tried(B, number), *(Tried(B, HeartbeatNumber(0, 0)),) * 3))
    assert bench.sequencer.observer.is_silent(B), "the latest number that a list has of a member counts"


def test_endorser_that_floods_a_coordinator_with_answers_has_one_of_them_verified_at_a_time() -> None:
    bench = active()
    bench.verifies = False
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("C-1"))
    [(_, request)] = bench.asked(EndorsementRequest, B)
    refusal = Refusal(intent_id("C-1"), "no", (), request.transitions[0].leaf, b"refused")
    for number in range(10):
        bench.hear(B, EndorsementResponse(request.request_id, request.digest, b"%d" % number))
        bench.hear(B, EndorsementResponse(request.request_id, request.digest, b"", (refusal,)))
    assert len(bench.take(VerifyEndorsement)) == 1
    assert bench.take(VerifyEndorsers) == []
    bench.wait(bench.config.request_timeout_ms)
    bench.hear(B, EndorsementResponse(request.request_id, request.digest, b"again"))
    assert len(bench.take(VerifyEndorsement)) == 1, "a verdict that was lost keeps no answer away for ever"


def test_endorser_that_signed_falsely_has_nothing_verified_for_a_while_and_its_refusals_count_as_unsigned() -> None:
    """Request ids can be guessed: that each answer needs one of its own would bound nothing."""
    bench = active()
    bench.verifies = False
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("C-1"))
    [(_, request)] = bench.asked(EndorsementRequest, B)
    bench.hear(B, EndorsementResponse(request.request_id, request.digest, FORGED))
    bench.tell(EndorsementVerified(B, request.digest, FORGED, is_valid=False))
    bench.forget()
    [opened] = bench.coordinator.rounds.rounds.values()
    guessed = opened.requests[B]
    bench.hear(B, EndorsementResponse(guessed, request.digest, b"one more"))
    assert bench.take(VerifyEndorsement) == []
    refusal = Refusal(intent_id("C-1"), "no", (), request.transitions[0].leaf, b"refused")
    bench.hear(B, EndorsementResponse(guessed, request.digest, b"", (refusal,)))
    assert bench.take(VerifyEndorsers) == []
    assert bench.transaction("C-1").refused_count == 1


def test_refusal_with_a_false_signature_has_nothing_more_verified_for_a_while() -> None:
    bench = active(of=endorsed_by_others(threshold=1))
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("C-1"), transition("C-2"))
    [(_, request)] = bench.asked(EndorsementRequest, B)
    refusal = Refusal(intent_id("C-1"), "no", (), request.transitions[0].leaf, FORGED)
    bench.hear(B, EndorsementResponse(request.request_id, request.digest, b"", (refusal,)))
    assert not bench.coordinator.rounds.verifications.is_trusted(B)
    bench.wait(bench.config.request_timeout_ms)
    assert bench.coordinator.rounds.verifications.is_trusted(B)


def test_delegate_that_asks_for_many_leaves_of_one_intent_at_once_has_few_signatures_verified() -> None:
    bench = delegated()
    bench.forget()
    leaves = (Leaf(number.to_bytes(32, "big")) for number in range(100))
    items = tuple(DispatchItem(ID, FIRST, leaf, b"signature", GENESIS_S) for leaf in leaves)
    bench.hear(B, DispatchConfirmationRequest(RequestId(1, 50), digest_of(items[0].leaf), items), height=HEIGHT)
    assert len(bench.take(VerifySignature)) == VERIFIED_TIMES_MAX
    bench.wait(bench.config.request_timeout_ms)
    bench.hear(B, DispatchConfirmationRequest(RequestId(1, 51), digest_of(items[0].leaf), items[:1]), height=HEIGHT)
    assert len(bench.take(VerifySignature)) == 1


def test_coordinator_that_asks_about_many_intents_has_an_allowance_for_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender_module, "VERIFIED_OF_PEER_MAX", 3)
    bench = Bench(height=HEIGHT)
    sender = bench.sequencer.sender
    assert [sender.may_have_verified(B, intent_id(f"A-{n}"), "leaf") for n in range(5)] == [True] * 3 + [False] * 2
    assert sender.may_have_verified(C, intent_id("A-0"), "leaf")
    assert not sender.may_have_verified(D, intent_id("A-0"), "leaf"), "a stranger has none"


def test_node_that_does_not_endorse_remembers_nothing_of_the_rounds_that_it_is_shown() -> None:
    """A stranger has any number of contracts, and an endorser remembers 8 MiB of each."""
    bench = Bench(of=contract(B, mode=Mode.STATIC))
    bench.hear(B, request(transition("B-1")))
    assert [error.rejection for error in bench.said(EndorsementError, B)] == [Rejection.NOT_ALLOWED]
    assert bench.take(CheckRound) == []
    assert len(bench.sequencer.endorser.seen) == 0


@pytest.mark.parametrize(("bound", "judged"), [("CHECKS_BYTES_OF_PEER_MAX", [B, B, C]), ("CHECKS_BYTES_MAX", [B, B])])
def test_rounds_that_are_being_judged_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, bound: str, judged: list[NodeName]
) -> None:
    bench = Bench(of=contract(A, B, C, mode=Mode.SENDER))
    monkeypatch.setattr(endorser_module, bound, 2 * transition_bytes(transition("B-1")) + 1)
    for number in range(4):
        bench.hear(B, request(transition("B-1", version=number), request_id=RequestId(1, number)))
    bench.hear(C, request(transition("C-1"), request_id=RequestId(1, 9)))
    assert [check.peer for check in bench.take(CheckRound)] == judged
    bench.judge(B, RequestId(1, 0), b"signed")
    bench.hear(B, request(transition("B-1", version=4), request_id=RequestId(1, 4)))
    assert len(bench.take(CheckRound)) == 1, "what was judged makes room"


def test_round_is_judged_whatever_its_size_when_it_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endorser_module, "CHECKS_BYTES_OF_PEER_MAX", 1)
    bench = endorser()
    bench.hear(A, request(transition("A-1")))
    assert len(bench.take(CheckRound)) == 1


def test_member_that_floods_a_coordinator_with_requests_to_hand_over_gets_a_few_answers() -> None:
    """Each answer goes through all intents, or tells all that was dispatched."""
    bench = active()
    bench.delegate("C-1")
    bench.forget()
    for number in range(100):
        bench.ask_to_yield(B, number=number)
    assert len(bench.said(CoordinatorHeartbeat, B)) == ANSWERED_TIMES_MAX
    bench.forget()
    bench.wait(bench.config.request_timeout_ms)
    bench.forget()
    bench.ask_to_yield(B, number=200)
    assert len(bench.said(CoordinatorHeartbeat, B)) == 1


def test_coordinator_that_repeats_its_request_gets_the_results_of_a_slot_a_few_times() -> None:
    bench = assembled()
    bench.write()
    bench.forget()
    for _ in range(100):
        ask_assembly(bench, 10)
    assert len(bench.said(AssembleResponse, B)) == ANSWERED_TIMES_MAX
    bench.wait(bench.config.request_timeout_ms)
    bench.forget()
    ask_assembly(bench, 10)
    assert len(bench.said(AssembleResponse, B)) == 1


def test_member_that_floods_a_node_with_heartbeats_has_it_act_on_a_bounded_number_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the latest says is known all the same: after a pause of ours those of a long time come at once."""
    bench = Bench(height=HEIGHT)
    acted: list[NodeName] = []
    monkeypatch.setattr(bench.sequencer.sender, "heard", acted.append)
    for sequence in range(1, 1_001):
        bench.hear(B, CoordinatorHeartbeat(HeartbeatNumber(1, sequence), CoordinatorState.CLOSING))
    assert HEARTBEATS_TIMES_MAX <= len(acted) < 2 * HEARTBEATS_TIMES_MAX
    assert bench.sequencer.observer.peer(B).number.sequence == 1_000
    acted.clear()
    bench.wait(bench.config.request_timeout_ms)
    bench.hear(B, CoordinatorHeartbeat(HeartbeatNumber(1, 2_000), CoordinatorState.CLOSING))
    assert acted == [B]


def test_peer_that_asks_for_large_states_again_and_again_has_bounded_bytes_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether it may see them or not: they are read all the same."""
    bench = NodeBench(contracts=(OURS,))
    made = transition("B-1")
    size_bytes = transition_bytes(made)
    monkeypatch.setattr(bench.node.states.found, "most", 65_536 + size_bytes)
    wanted = StateRequest((made.leaf,))
    bench.hear(D, wanted)
    bench.tell(StatesFound(ADDRESS, D, digest_of(made.leaf), (made,)))
    bench.hear(D, wanted)
    assert len(bench.all(FindStates)) == 1
    bench.hear(B, wanted)
    assert len(bench.all(FindStates)) == 2, "others have theirs"
    bench.wait(bench.node.config.request_timeout_ms)
    bench.hear(D, wanted)
    assert len(bench.all(FindStates)) == 3


def test_memory_of_what_peers_owe_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing_module, "KEYS_MAX", 2)
    debts = Debts(Bench(), 10, 1_000)
    for key in "abc":
        debts.charge(key, 10)
    assert [debts.is_clear(key) for key in "abc"] == [True, False, False]
