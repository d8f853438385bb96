"""A node and its base-ledger transactions: signed, recorded, sent, listed, offered for more, mined or taken."""

from __future__ import annotations

from dataclasses import replace

from rota.chain.effects import DispatchRepriced, RoundDispatch, SignDispatch, SubmitTransaction
from rota.chain.events import (
    AccountSeen,
    DispatchNotSigned,
    DispatchSigned,
    Objection,
    TransactionRefused,
    TransactionSent,
)
from rota.machine.effects import Persist, SendMessage
from rota.model.blocks import MinedStatus
from rota.model.types import SHARED_ACCOUNT, DelegationNumber, Fees, HeartbeatNumber, Outcome, RequestId
from rota.node.node import OWN
from rota.sequencer.held_intent import State as CoordinatorSide
from rota.sequencer.sender_transaction import State as SenderSide
from rota.wire.messages import (
    Answer,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    Handover,
    HandoverReason,
    HandoverRequest,
    SubmitterHeartbeat,
)
from tests.node.node_bench import (
    A1,
    B1,
    CONFIG,
    OTHER,
    NodeBench,
    dispatch_of_b,
    intent,
    mined,
    order,
    outcome,
    restarted,
    transition,
)
from tests.sequencer.kit import ADDRESS, A, B, contract

# Nonces and dispatches.


def test_dispatch_is_recorded_sent_and_told_in_one_step_with_the_record_first() -> None:
    bench = NodeBench(silent=(SignDispatch,))
    bench.submit("A-1")
    (asked,) = bench.all(SignDispatch)
    assert bench.sender_state(A1) is SenderSide.PREPARED
    effects = bench.node.step(0, DispatchSigned(asked.nonce, asked.fees, b"raw", b"hash", asked.round.digest))
    dispatch = RoundDispatch(asked.round, asked.signer, 0, asked.fees, b"raw", b"hash")
    assert effects[:2] == [Persist(OWN, (dispatch,)), SubmitTransaction(dispatch)]
    assert bench.sender_state(A1) is SenderSide.SEQUENCED
    assert bench.node.submitters.next_nonces() == {SHARED_ACCOUNT: 1}


def test_dispatch_that_a_crash_kept_from_the_disk_was_not_sent_and_its_nonce_is_used_by_the_next_life() -> None:
    bench = NodeBench(crashes_before=(RoundDispatch,))
    bench.submit("A-1")
    assert bench.nonces_sent() == []
    bench.restart()
    bench.wait(CONFIG.state_timeout_ms)
    assert [record.nonce for record in bench.records(RoundDispatch)] == [0]
    assert bench.nonces_sent()[0] == 0


def test_one_dispatch_of_an_account_is_signed_at_a_time() -> None:
    bench = NodeBench(silent=(SignDispatch,))
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    (asked,) = bench.all(SignDispatch)
    bench.tell(DispatchSigned(asked.nonce, asked.fees, b"", b"", asked.round.digest))
    _, asked = bench.all(SignDispatch)
    bench.tell(DispatchSigned(asked.nonce, asked.fees, b"", b"", asked.round.digest))
    assert [(record.round.contract, record.nonce) for record in bench.records(RoundDispatch)] == [
        (ADDRESS, 0),
        (OTHER, 1),
    ]


def test_nonces_go_on_where_the_last_life_stopped() -> None:
    bench = restarted(next_nonce=12)
    bench.submit("A-1")
    assert bench.nonces_sent() == [12]


# Submitter heartbeats and sending again.


def test_sender_hears_every_heartbeat_of_its_dispatched_intent_until_it_has_its_outcome() -> None:
    bench = NodeBench()
    dispatch_of_b(bench)
    bench.wait(CONFIG.heartbeat_ms - 1)
    assert bench.said(SubmitterHeartbeat, B) == []
    bench.wait(1)
    (first,) = bench.said(SubmitterHeartbeat, B)
    assert [(each.intent, each.signer, each.nonce) for each in first.intents] == [(B1, "A", 0)]
    bench.wait(CONFIG.heartbeat_ms)
    assert [each.number for each in bench.said(SubmitterHeartbeat, B)] == [HeartbeatNumber(1, 1), HeartbeatNumber(1, 2)]
    bench.settle(B1)
    bench.wait(10 * CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 2
    assert bench.node.dispatches.next_heartbeat_ms is None


def test_submitter_heartbeat_bears_contract_height_and_incarnation() -> None:
    bench = restarted(RoundDispatch(order(B1, sender=B), "A", 0), next_nonce=1)
    bench.block(height=17)
    bench.wait(CONFIG.heartbeat_ms)
    (envelope,) = [
        sent.envelope for sent in bench.all(SendMessage) if isinstance(sent.envelope.body, SubmitterHeartbeat)
    ]
    assert (envelope.contract, envelope.height, envelope.incarnation, envelope.no_ledger) == (ADDRESS, 17, 2, False)


def test_submitter_heartbeats_have_message_ids_of_their_own() -> None:
    bench = NodeBench()
    dispatch_of_b(bench)
    bench.wait(5 * CONFIG.heartbeat_ms)
    ids = [sent.envelope.message_id for sent in bench.all(SendMessage)]
    assert len(set(ids)) == len(ids)


def test_our_own_sender_hears_it_without_a_wire() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    assert bench.sender_state(A1) is SenderSide.SEQUENCED
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.sender_state(A1) is SenderSide.SUBMITTED
    assert bench.said(SubmitterHeartbeat, A) == []


def test_what_the_chain_has_not_taken_is_sent_again_with_every_heartbeat() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.wait(2 * CONFIG.heartbeat_ms)
    assert bench.nonces_sent() == [0, 0, 0]
    assert len({sent.dispatch for sent in bench.all(SubmitTransaction)}) == 1


def test_what_the_chain_has_taken_is_sent_again_only_on_silence() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    bench.wait(CONFIG.resubmit_ms - 1)
    assert bench.nonces_sent() == [0]
    bench.wait(1)
    assert bench.nonces_sent() == [0, 0]


def test_without_a_ledger_nothing_is_listed_and_nothing_sent_until_it_is_back() -> None:
    bench = NodeBench()
    dispatch_of_b(bench)
    bench.has_chain = False
    bench.wait(CONFIG.ledger_grace_ms)
    heard, sent = len(bench.said(SubmitterHeartbeat, B)), bench.nonces_sent()
    bench.wait(4 * CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == heard
    assert bench.nonces_sent() == sent
    bench.has_chain = True
    bench.show_head()
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == heard + 1
    assert bench.nonces_sent() == [*sent, 0]


def test_heartbeats_begin_again_with_the_next_dispatch() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.settle(A1)
    bench.wait(20 * CONFIG.heartbeat_ms)
    dispatch_of_b(bench)
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 1


# Restart with dispatches.


def test_restored_dispatches_are_submitted_and_listed_again() -> None:
    bench = restarted(RoundDispatch(order(B1, sender=B), "A", 4), next_nonce=5)
    assert bench.nonces_sent() == [4]
    bench.wait(CONFIG.heartbeat_ms)
    (heartbeat,) = bench.said(SubmitterHeartbeat, B)
    assert [(each.intent, each.leaf, each.nonce) for each in heartbeat.intents] == [(B1, transition(B1).leaf, 4)]
    assert heartbeat.number == HeartbeatNumber(2, 1)
    bench.settle(B1)
    bench.wait(4 * CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 1


def test_restored_dispatch_is_known_to_its_own_contract_only() -> None:
    bench = restarted(RoundDispatch(order(B1, sender=B), "A", 0), next_nonce=1)
    command = DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1"), DelegationNumber(1, 1)),))
    bench.hear(B, command)
    bench.hear(B, command, OTHER)
    answers = [accepted.answers[0].answer for accepted in bench.said(DelegationAccepted, B)]
    assert answers == [Answer.DISPATCHED, Answer.ACCEPTED]


def test_restored_dispatch_is_handed_over_as_a_flush_point() -> None:
    bench = restarted(RoundDispatch(order(B1, sender=B), "A", 0), next_nonce=1, contracts=(contract(A, B),))
    bench.hear(B, HandoverRequest(RequestId(1, 1), HandoverReason.OUTRANKS))
    (handover,) = bench.said(Handover, B)
    assert [(handed.point.digest, handed.point.intent, handed.transition.leaf) for handed in handover.points] == [
        (order(B1).digest, B1, transition(B1).leaf)
    ]


# Signing.


def test_dispatch_is_signed_first_then_durable_then_sent_then_told() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    steps = [
        type(effect.records[0]) if isinstance(effect, Persist) else type(effect)
        for effect in bench.seen
        if isinstance(effect, SignDispatch | SubmitTransaction | Persist)
    ]
    assert steps[-3:] == [SignDispatch, RoundDispatch, SubmitTransaction]
    (record,) = bench.records(RoundDispatch)
    assert (record.transaction, record.hash) == (b"transaction", b"hash")
    assert bench.all(SubmitTransaction) == [SubmitTransaction(record)]


def test_signer_that_says_nothing_is_asked_again() -> None:
    bench = NodeBench(silent=(SignDispatch,))
    bench.submit("A-1")
    bench.wait(CONFIG.request_timeout_ms - 1)
    assert len(bench.all(SignDispatch)) == 1
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.all(SignDispatch)) == 2
    assert bench.records(RoundDispatch) == []


def test_answer_of_the_signer_that_comes_twice_is_written_once() -> None:
    bench = NodeBench(silent=(SignDispatch,))
    bench.submit("A-1")
    (asked,) = bench.all(SignDispatch)
    for _ in range(2):
        bench.tell(DispatchSigned(asked.nonce, asked.fees, b"", b"", asked.round.digest))
    assert [record.nonce for record in bench.records(RoundDispatch)] == [0]


def test_round_that_cannot_be_signed_goes_back_to_its_coordinator_and_comes_again() -> None:
    bench = NodeBench(silent=(SignDispatch,))
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    (asked,) = bench.all(SignDispatch)
    bench.silent = ()
    bench.tell(DispatchNotSigned(asked.nonce, asked.fees, "the key store is closed", asked.round.digest))
    assert bench.rounds_sent() == [(OTHER, 0)]
    bench.wait(CONFIG.retry_backoff_ms)
    assert bench.rounds_sent() == [(OTHER, 0), (ADDRESS, 1)]


def test_refusal_of_what_is_not_being_signed_changes_nothing() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    assert bench.node.step(0, DispatchNotSigned(0, Fees(1, 1), "late", order(A1).digest)) == []


def test_nonces_that_strangers_to_this_database_used_are_passed_over() -> None:
    bench = NodeBench()
    bench.tell(AccountSeen(7))
    bench.submit("A-1")
    assert bench.nonces_sent() == [7]


# A better offer.


def waiting_for_a_block() -> NodeBench:
    """Nonce 0 was sent at height 0, for the tip alone."""
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    return bench


def offered_for_more() -> tuple[NodeBench, SignDispatch]:
    """Blocks pass the transaction by, and its better offer is being signed."""
    bench = waiting_for_a_block()
    bench.silent = (SignDispatch,)
    for _ in range(CONFIG.reprice_blocks):
        assert len(bench.all(SignDispatch)) == 1
        bench.block()
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.records(DispatchRepriced) == []
    _, asked = bench.all(SignDispatch)
    return bench, asked


def test_transaction_that_blocks_pass_by_is_offered_for_more_which_is_recorded_before_it_is_sent() -> None:
    bench, asked = offered_for_more()
    assert bench.nonces_sent() == [0]
    signed = DispatchSigned(asked.nonce, asked.fees, b"dearer", b"hash", asked.round.digest)
    record, sent = bench.node.step(bench.now_ms, signed)
    first = bench.records(RoundDispatch)[0]
    repriced = replace(first, fees=asked.fees, transaction=b"dearer")
    assert (record, sent) == (Persist(OWN, (DispatchRepriced(repriced),)), SubmitTransaction(repriced))
    assert repriced.fees.most_wei >= first.fees.most_wei * 5 // 4


def test_better_offer_is_not_told_to_the_coordinator_as_a_dispatch() -> None:
    bench = waiting_for_a_block()
    for _ in range(CONFIG.reprice_blocks):
        bench.block()
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.records(DispatchRepriced)) == 1
    assert bench.sequencer().coordinator.transactions[A1].state is CoordinatorSide.SUBMITTED


def test_restarted_node_goes_on_with_the_better_offer() -> None:
    bench = waiting_for_a_block()
    for _ in range(CONFIG.reprice_blocks):
        bench.block()
    bench.wait(CONFIG.heartbeat_ms)
    better = bench.records(DispatchRepriced)[0].dispatch
    bench.restart()
    assert bench.all(SubmitTransaction)[-1].dispatch == better


def test_transaction_that_a_chain_finds_too_cheap_is_offered_for_more() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(TransactionRefused(0, Objection.UNDERPRICED, "replacement transaction underpriced"))
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.records(DispatchRepriced)) == 1


def test_sender_is_told_what_keeps_its_transaction_from_the_chain() -> None:
    bench = NodeBench()
    dispatch_of_b(bench)
    bench.tell(TransactionRefused(0, Objection.NO_FUNDS, "balance 0"))
    bench.wait(CONFIG.heartbeat_ms)
    (listed,) = bench.said(SubmitterHeartbeat, B)[-1].intents
    assert listed.activity == "insufficient funds: balance 0"


# What a block does with our nonces.


def test_transaction_is_sent_until_a_block_uses_its_nonce_though_a_stranger_committed_the_round() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    bench.block((ADDRESS, outcome(A1)))
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]
    bench.wait(CONFIG.resubmit_ms)
    assert bench.nonces_sent() == [0, 0]
    bench.block(mined=[mined(0)])
    assert bench.node.submitters.shared.submissions == {}


def test_transaction_that_fails_as_a_whole_is_told_to_its_coordinator_which_tries_again() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    bench.block(mined=[mined(0, MinedStatus.FAILED, "bad signatures")])
    bench.wait(CONFIG.retry_backoff_max_ms)
    assert set(bench.nonces_sent()) == {0, 1}
    bench.settle(A1)
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]


def test_round_whose_nonce_a_stranger_took_is_dispatched_with_another() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.block(mined=[mined(0, MinedStatus.TAKEN)])
    bench.wait(CONFIG.retry_backoff_max_ms)
    assert set(bench.nonces_sent()) == {0, 1}


def test_failure_of_our_transaction_means_nothing_for_what_a_stranger_committed() -> None:
    bench = NodeBench(config=replace(CONFIG, confirmations=2))
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    bench.block((ADDRESS, outcome(A1)))
    assert bench.sender_state(A1) is SenderSide.CONFIRMED
    bench.block(mined=[mined(0, MinedStatus.FAILED, "expired")])
    assert bench.sender_state(A1) is SenderSide.CONFIRMED
    bench.block()
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]
    assert bench.nonces_sent() == [0]


def test_failure_that_a_reorganisation_took_is_undone() -> None:
    bench = NodeBench(config=replace(CONFIG, confirmations=2))
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    bench.block(mined=[mined(0, MinedStatus.FAILED, "expired")])
    bench.reorganise(1, ((ADDRESS, outcome(A1)),))
    assert bench.sender_state(A1) is SenderSide.CONFIRMED
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.nonces_sent() == [0, 0]


def test_better_offer_that_is_signed_when_its_nonce_is_used_for_good_is_neither_sent_nor_a_new_dispatch() -> None:
    bench, asked = offered_for_more()
    bench.settle(A1)
    bench.tell(DispatchSigned(asked.nonce, asked.fees, b"dearer", b"hash", asked.round.digest))
    assert (bench.nonces_sent(), bench.records(DispatchRepriced)) == ([0], [])
    bench.silent = ()
    bench.submit("A-2", OTHER)
    assert bench.nonces_sent() == [0, 1]
