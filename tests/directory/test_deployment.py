"""A deployment at the node whose user asked for it: who is asked what, when the factory is called, how it ends."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest

from rota.chain.effects import FetchBlocks
from rota.directory.deployment_events import FactoryCalled, FactoryRefused
from rota.directory.deployments import UNDONE_MAX
from rota.directory.effects import CallFactory, ContractTaken, DeploymentAgreed, JudgeProposal, TakeInContract
from rota.machine.effects import IntentAccepted, IntentFinalised, Persist, ReplyToUser, ReportReceipt, SendMessage
from rota.machine.events import CancelRequested, IntentSubmitted, MessageReceived, ResumeRequested
from rota.model.blocks import FactoryDeployment
from rota.model.config import Config
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import NO_CONTRACT, Intent, IntentId, NodeName, Outcome, Party, Receipt, RequestId
from rota.node.effects import ReportFinalityBroken
from rota.node.events import ForContract
from rota.sequencer.events import LedgerLost
from rota.wire.messages import ContractTakenIn, DeploymentAnswer, DeploymentWithdrawn, Envelope, Startup, Verdict
from tests.directory.deployment_bench import (
    ALONE,
    GENESIS,
    ID,
    MADE,
    SIGNERS,
    STATIC,
    STRANGERS,
    D,
    DeploymentBench,
    deployed,
)
from tests.node.node_bench import OURS
from tests.sequencer.kit import A, B, C, intent_id

AGREED = (SIGNERS[A], SIGNERS[B])
OTHER = intent_id("other")


def receipts(bench: DeploymentBench) -> list[Receipt]:
    return [report.receipt for report in bench.all(ReportReceipt)]


# Accepting.


def test_deployment_is_recorded_answered_and_proposed_in_one_step_with_the_record_first() -> None:
    bench = DeploymentBench()
    wanted = Intent(ID, NO_CONTRACT, Party("a@A"), encode_genesis(GENESIS))
    record, reply, *others = bench.node.step(0, ForContract(NO_CONTRACT, IntentSubmitted("user", wanted)))
    assert (record, reply) == (Persist(NO_CONTRACT, (IntentAccepted(wanted),)), ReplyToUser("user", ID))
    asked = [sent.peer for sent in others if isinstance(sent, SendMessage)]
    assert asked == [B, C]


def test_deployment_that_a_crash_kept_from_the_disk_was_neither_answered_nor_proposed() -> None:
    bench = DeploymentBench(crashes_before=(IntentAccepted,))
    assert (bench.deploy(), bench.asked(B)) == ([], [])
    bench.restart()
    assert bench.state() == "unknown"


def test_key_that_was_used_gets_the_existing_deployment() -> None:
    bench = DeploymentBench()
    bench.deploy(key="once")
    assert bench.deploy(intent=OTHER, key="once") == [ReplyToUser("user", ID)]


def test_deployment_is_never_parked() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.tell(ForContract(NO_CONTRACT, ResumeRequested("user", ID)))
    bench.tell(ForContract(NO_CONTRACT, ResumeRequested("user", OTHER)))
    assert [reply.error for reply in bench.all(ReplyToUser)] == [
        "",
        "a deployment is never parked",
        "it is not under way here",
    ]


# Dependencies.


def test_deployment_waits_for_what_it_depends_on() -> None:
    bench = DeploymentBench()
    bench.deploy(ALONE, OTHER)
    bench.deploy(depends_on=(OTHER,))
    assert bench.state() == "Waiting"
    assert str(UUID(bytes=OTHER)) in bench.node.explain(ID).waits_for
    bench.put_on_chain(deployed(ALONE, OTHER))
    assert bench.state() == "Proposing"


def test_deployment_waits_for_all_that_it_depends_on() -> None:
    bench = DeploymentBench()
    third = intent_id("third")
    bench.deploy(ALONE, OTHER)
    bench.deploy(ALONE, third)
    bench.deploy(depends_on=(OTHER, third, OTHER))
    bench.put_on_chain(deployed(ALONE, OTHER))
    assert bench.state() == "Waiting"
    bench.put_on_chain(deployed(ALONE, third))
    assert bench.state() == "Proposing"


def test_deployment_reverts_with_what_it_depends_on() -> None:
    bench = DeploymentBench()
    bench.deploy(intent=OTHER)
    bench.deploy(depends_on=(OTHER,))
    bench.cancel(OTHER)
    assert [(receipt.intent, receipt.outcome) for receipt in receipts(bench)] == [
        (OTHER, Outcome.REVERTED),
        (ID, Outcome.REVERTED),
    ]
    assert "depends on" in receipts(bench)[1].reason


def test_what_was_confirmed_before_it_was_accepted_is_not_waited_for() -> None:
    bench = DeploymentBench()
    bench.deploy(ALONE, OTHER)
    bench.put_on_chain(deployed(ALONE, OTHER))
    bench.deploy(depends_on=(OTHER,))
    assert bench.state() == "Proposing"


def test_what_ended_before_it_was_accepted_counts() -> None:
    bench = DeploymentBench()
    bench.deploy(intent=OTHER)
    bench.cancel(OTHER)
    bench.deploy(depends_on=(OTHER,))
    assert [receipt.intent for receipt in receipts(bench)] == [OTHER, ID]


def test_intent_of_a_contract_may_depend_on_a_deployment() -> None:
    bench = DeploymentBench(contracts=(OURS,))
    bench.deploy()
    assert bench.submit("A-1", depends_on=(ID,))[0].error == ""
    bench.cancel()
    assert [(each.intent, each.outcome) for each in receipts(bench)] == [
        (ID, Outcome.REVERTED),
        (intent_id("A-1"), Outcome.REVERTED),
    ]


def test_dependency_counts_after_a_restart_too() -> None:
    bench = DeploymentBench()
    bench.deploy(intent=OTHER)
    bench.deploy(depends_on=(OTHER,))
    bench.restart()
    assert bench.state() == "Waiting"
    bench.cancel(OTHER)
    assert [receipt.intent for receipt in receipts(bench)] == [OTHER, ID]


# Proposing.


def test_each_node_of_the_genesis_is_asked_and_ours_by_its_own_keys() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    bench.deploy()
    (order,) = bench.all(JudgeProposal)
    assert (order.peer, order.deployment, order.signers) == (A, ID, ())
    for peer in (B, C):
        (question,) = bench.asked(peer)
        assert (question.deployment, question.genesis, question.signers) == (ID, encode_genesis(GENESIS), ())
    assert bench.asked(D) == []
    assert bench.node.explain(ID).who == (A, B, C)


def test_who_does_not_answer_is_asked_again_and_who_does_is_not() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(B)
    bench.wait(Config().request_timeout_ms)
    assert (len(bench.asked(B)), len(bench.asked(C))) == (1, 2)
    assert bench.asked(C)[0] == bench.asked(C)[1]
    assert bench.node.explain(ID).who == (C,)


def test_own_node_that_could_not_say_is_asked_again() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    bench.deploy()
    bench.tell(bench.judged(bench.all(JudgeProposal)[0], Verdict.BUSY, "no key yet"))
    assert "A says: no key yet" in bench.node.explain(ID).detail
    bench.silent = ()
    bench.wait(Config().request_timeout_ms)
    assert bench.node.explain(ID).who == (B, C)


def test_who_comes_back_is_asked_at_once() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(B)
    bench.lose(C)
    bench.connect(C, B)
    assert (len(bench.asked(B)), len(bench.asked(C))) == (1, 2)


def test_node_that_refuses_ends_it_with_its_reason_and_the_others_forget_it() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(C)
    bench.answer(B, Verdict.REFUSED, "domain: must be one of noto, not 'synthetic'")
    (receipt,) = receipts(bench)
    assert (receipt.outcome, receipt.contract) == (Outcome.REVERTED, None)
    assert receipt.reason == "B does not take the contract: domain: must be one of noto, not 'synthetic'"
    assert bench.said(DeploymentWithdrawn, C) == [DeploymentWithdrawn(ID)]
    assert bench.said(DeploymentWithdrawn, A) == []
    assert bench.calls() == []
    assert bench.state() == "reverted"


def test_refusal_without_a_reason_is_a_refusal() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(B, Verdict.REFUSED)
    assert receipts(bench)[0].reason == "B does not take the contract: no reason"


def test_busy_node_is_asked_again_and_its_reason_shown() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(C)
    bench.answer(B, Verdict.BUSY, "256 proposals of yours wait")
    told = bench.node.explain(ID)
    assert (told.state, told.who, told.detail) == ("Proposing", (B,), "B says: 256 proposals of yours wait")
    bench.wait(Config().request_timeout_ms)
    bench.answer(B)
    assert (bench.state(), bench.node.explain(ID).detail) == ("Agreeing", "")


def test_answers_that_nobody_asked_for_change_nothing() -> None:
    bench = DeploymentBench()
    bench.deploy()
    question = bench.asked(B)[0]
    bench.hear(B, DeploymentAnswer(RequestId(9, 9), ID, Verdict.REFUSED))
    bench.hear(D, DeploymentAnswer(question.request_id, ID, Verdict.REFUSED))
    bench.hear(B, DeploymentAnswer(question.request_id, OTHER, Verdict.REFUSED))
    # An endorser that names no address has not answered.
    bench.hear(B, DeploymentAnswer(question.request_id, ID, Verdict.ACCEPTED))
    assert bench.node.explain(ID).who == (B, C)
    bench.answer(B)
    bench.hear(B, DeploymentAnswer(question.request_id, ID, Verdict.REFUSED))
    assert bench.node.explain(ID).who == (C,)


# Agreeing.


def test_when_all_have_answered_they_are_told_all_signers() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(C)
    bench.answer(B)
    assert bench.state() == "Agreeing"
    for peer in (B, C):
        assert bench.asked(peer)[-1].signers == AGREED
    assert bench.calls() == []


def test_answers_to_the_first_question_do_not_count_for_the_second() -> None:
    bench = DeploymentBench()
    bench.deploy()
    first = bench.asked(B)[0]
    bench.answer(C)
    bench.answer(B)
    bench.hear(B, DeploymentAnswer(first.request_id, ID, Verdict.ACCEPTED, SIGNERS[B]))
    assert bench.node.explain(ID).who == (B, C)


def test_agreement_is_recorded_before_the_factory_is_called_in_one_step() -> None:
    bench = DeploymentBench()
    bench.deploy()
    for peer in (B, C, B):
        bench.answer(peer)
    assert (bench.records(DeploymentAgreed), bench.state()) == ([], "Agreeing")
    question = bench.asked(C)[-1]
    said = DeploymentAnswer(question.request_id, ID, Verdict.ACCEPTED)
    effects = bench.node.step(0, MessageReceived(C, Envelope(NO_CONTRACT, RequestId(1, 99), 1, 0, said)))
    genesis = genesis_hash(encode_genesis(GENESIS))
    assert effects == [
        Persist(NO_CONTRACT, (DeploymentAgreed(ID, AGREED),)),
        CallFactory(ID, genesis, AGREED, GENESIS.threshold),
    ]
    assert bench.state() == "Calling"


def test_agreement_that_a_crash_kept_from_the_disk_is_sought_again_and_nothing_was_called() -> None:
    bench = DeploymentBench(crashes_before=(DeploymentAgreed,))
    bench.agreed()
    assert bench.calls() == []
    bench.restart()
    assert (bench.state(), bench.calls()) == ("Proposing", [])


def test_node_may_refuse_when_it_learns_who_signs() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(B)
    bench.answer(C)
    bench.answer(C, Verdict.REFUSED, "signers: must be 2, not 3")
    assert receipts(bench)[0].reason == "C does not take the contract: signers: must be 2, not 3"


def test_contract_of_one_node_needs_nobody_else() -> None:
    bench = DeploymentBench()
    bench.deploy(ALONE)
    assert len(bench.calls()) == 1
    bench.put_on_chain(deployed(ALONE))
    assert receipts(bench) == [Receipt(ID, Outcome.CONFIRMED, contract=MADE)]


def test_who_has_answered_is_reminded_while_others_are_away() -> None:
    bench = DeploymentBench(config=Config(proposal_ttl_s=48))
    bench.deploy()
    bench.answer(B)
    bench.wait(1_000)
    assert len(bench.asked(B)) == 1
    bench.wait(3_000)
    assert len(bench.asked(B)) > 1


def test_all_are_reminded_while_the_factory_is_called_in_vain() -> None:
    bench = DeploymentBench(config=Config(proposal_ttl_s=48))
    bench.agreed()
    before = len(bench.asked(C))
    bench.wait(4_000)
    assert len(bench.asked(C)) == before + 2
    assert bench.asked(C)[-1].signers == AGREED


# Guests: where any node may act, those that are connected get the contract too.


def test_who_is_connected_is_invited_where_any_node_may_act() -> None:
    bench = DeploymentBench()
    bench.connect(C)
    bench.deploy(STATIC)
    assert len(bench.asked(C)) == 1
    bench.answer(B)
    assert bench.state() == "Proposing"
    bench.answer(C)
    bench.answer(C)
    assert bench.state() == "Agreeing"
    bench.answer(B)
    assert bench.state() == "Calling"


def test_nobody_is_invited_into_a_group() -> None:
    bench = DeploymentBench()
    bench.connect(D)
    bench.deploy()
    assert bench.asked(D) == []


@pytest.mark.parametrize("is_last", [True, False])
def test_guest_that_refuses_is_none(is_last: bool) -> None:
    bench = DeploymentBench()
    bench.connect(C, D)
    bench.deploy(STATIC)
    for peer in (B, D) if is_last else (D,):
        bench.answer(peer)
    bench.answer(C, Verdict.REFUSED, "never")
    if not is_last:
        bench.answer(B)
    assert bench.state() == "Agreeing"
    assert len(bench.asked(C)) == 1


def test_guest_that_does_not_answer_is_not_waited_for_as_long() -> None:
    bench = DeploymentBench()
    bench.connect(C, D)
    bench.deploy(STATIC)
    bench.answer(B)
    bench.answer(D)
    bench.wait(Config().state_timeout_ms)
    assert bench.state() == "Agreeing"
    bench.answer(B)
    bench.wait(Config().state_timeout_ms)
    assert (bench.state(), bench.said(DeploymentWithdrawn, C)) == ("Calling", [])


def test_invitations_end_while_a_node_that_must_have_it_is_away() -> None:
    bench = DeploymentBench()
    bench.connect(C)
    bench.deploy(STATIC)
    bench.wait(Config().state_timeout_ms)
    assert bench.node.explain(ID).who == (B,)


def test_guest_that_is_gone_is_not_waited_for() -> None:
    bench = DeploymentBench()
    bench.connect(C, D)
    bench.deploy(STATIC)
    bench.lose(C)
    bench.answer(B)
    bench.answer(D)
    assert bench.state() == "Agreeing"
    bench.answer(B)
    bench.lose(D)
    assert bench.state() == "Calling"


def test_guest_that_has_answered_may_go() -> None:
    bench = DeploymentBench()
    bench.connect(C, D)
    bench.deploy(STATIC)
    bench.answer(C)
    bench.lose(C)
    bench.answer(B)
    bench.lose(D)
    assert (bench.state(), bench.node.explain(ID).who) == ("Agreeing", (B, C))


# The factory.


def test_index_asks_for_the_id_from_the_beginning_and_takes_the_contract_in() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.block()
    assert bench.all(FetchBlocks)[-1].awaited == (ID,)
    for _ in range(2):
        bench.answer(B)
        bench.answer(C)
    block = bench.put_on_chain(deployed())
    (write,) = [each for each in bench.all(Persist) if any(isinstance(r, ContractTaken) for r in each.records)]
    taken = write.records[-1]
    assert isinstance(taken, ContractTaken)
    assert (taken.known.contract, taken.known.signers) == (GENESIS.contract(MADE), AGREED)
    assert (taken.known.deployed_at, taken.known.taken_in_at) == (block.height, block.height)
    # The endorsers have told us their addresses themselves.
    assert (taken.known.source, taken.known.unconfirmed) == (None, ())
    assert bench.all(TakeInContract) == [TakeInContract(taken.known)]
    bench.block()
    assert bench.all(FetchBlocks)[-1].awaited == ()


def test_factory_is_called_again_until_the_index_has_it() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.tell(FactoryCalled(ID))
    bench.wait(Config().resubmit_ms - 1)
    assert len(bench.calls()) == 1
    bench.wait(1)
    assert len(bench.calls()) == 2


def test_call_that_failed_is_made_again_and_why_is_shown() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.tell(FactoryCalled(ID, "0x01 has too little to pay for it: send it funds"))
    told = bench.node.explain(ID)
    assert (told.waits_for, told.who) == ("the factory to deploy it", (A,))
    assert told.detail == "0x01 has too little to pay for it: send it funds"
    bench.wait(2 * Config().retry_backoff_ms)
    assert len(bench.calls()) == 2


def test_call_of_which_nothing_is_heard_is_made_again() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.wait(Config().state_timeout_ms)
    assert len(bench.calls()) == 2


def test_factory_that_will_never_take_it_ends_it() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.tell(FactoryRefused(ID, "EndorserRepeated()"))
    assert receipts(bench)[0].reason == "the factory does not deploy it: EndorserRepeated()"
    assert bench.said(DeploymentWithdrawn, B) == [DeploymentWithdrawn(ID)]
    bench.tell(FactoryCalled(OTHER))


@pytest.mark.parametrize(
    "changes",
    [{"genesis": bytes(32)}, {"endorsers": (SIGNERS[A], SIGNERS[D])}, {"threshold": 1}],
    ids=["genesis", "signers", "threshold"],
)
def test_what_a_stranger_deploys_under_its_id_is_not_taken_for_it(changes: dict[str, object]) -> None:
    bench = DeploymentBench(config=Config(confirmations=1))
    bench.agreed()
    bench.put_on_chain(replace(deployed(contract=STRANGERS), **changes))  # type: ignore[arg-type]
    assert bench.node.explain(ID).detail == "another contract was deployed under its id"
    assert (bench.state(), bench.taken_in(), receipts(bench)) == ("Calling", [], [])
    bench.block()
    (receipt,) = receipts(bench)
    assert receipt.outcome is Outcome.REVERTED
    assert receipt.reason == f"somebody else has deployed {STRANGERS} under its id; deploy it again"


def test_stranger_that_a_reorganisation_takes_back_does_no_harm() -> None:
    bench = DeploymentBench(config=Config(confirmations=2))
    bench.agreed()
    bench.put_on_chain(deployed(contract=STRANGERS, threshold=1))
    bench.reorganise(1)
    assert bench.node.explain(ID).detail == ""
    bench.put_on_chain(deployed())
    assert bench.state() == "Deployed"


def test_what_is_on_the_chain_before_all_have_agreed_is_a_stranger_s() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.put_on_chain(deployed())
    assert (receipts(bench)[0].outcome, bench.taken_in()) == (Outcome.REVERTED, [])


def test_reorganisation_has_the_factory_called_again_and_keeps_the_contract() -> None:
    bench = DeploymentBench(config=Config(confirmations=2))
    bench.agreed()
    bench.put_on_chain(deployed())
    assert bench.node.explain(ID).waits_for == "its block to become final"
    bench.reorganise(1)
    assert (bench.state(), len(bench.calls()), receipts(bench)) == ("Calling", 2, [])
    bench.put_on_chain(deployed())
    bench.block()
    bench.block()
    assert receipts(bench) == [Receipt(ID, Outcome.CONFIRMED, contract=MADE)]
    assert bench.taken_in() == [MADE, MADE]


def test_final_block_that_is_lost_before_the_user_was_told_has_the_factory_called_again() -> None:
    bench = DeploymentBench()
    bench.connect(B)
    bench.agreed()
    bench.put_on_chain(deployed())
    assert bench.state() == "Spreading"
    bench.reorganise(1)
    assert (bench.state(), len(bench.calls()), receipts(bench)) == ("Calling", 2, [])
    bench.put_on_chain(deployed())
    bench.hear(B, ContractTakenIn(ID))
    assert receipts(bench) == [Receipt(ID, Outcome.CONFIRMED, contract=MADE)]


def test_deployment_that_is_lost_after_its_user_was_told_is_looked_for_on_the_chain() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.put_on_chain(deployed())
    assert receipts(bench) == [Receipt(ID, Outcome.CONFIRMED, contract=MADE)]
    bench.reorganise(1)
    assert bench.all(ReportFinalityBroken)[0].intents == (ID,)
    assert bench.node.deployments.awaited() == (ID,)


def test_lost_deployment_is_looked_for_after_a_restart() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.put_on_chain(deployed())
    bench.reorganise(1)
    bench.restart()
    assert bench.node.deployments.awaited() == (ID,)


def test_lost_deployments_that_are_looked_for_are_bounded() -> None:
    bench = DeploymentBench()
    for number in range(UNDONE_MAX + 5):
        bench.node.deployments.note_undone(IntentId(number.to_bytes(16, "big")))
    assert len(bench.node.deployments.undone) == UNDONE_MAX


# Telling the user.


def test_user_is_told_when_all_that_can_be_reached_have_the_contract() -> None:
    bench = DeploymentBench()
    bench.connect(B, C)
    bench.agreed()
    bench.put_on_chain(deployed())
    assert (bench.node.explain(ID).who, receipts(bench)) == ((B, C), [])
    bench.hear(C, ContractTakenIn(ID))
    bench.hear(D, ContractTakenIn(ID))
    assert bench.node.explain(ID).who == (B,)
    bench.hear(B, ContractTakenIn(ID))
    assert receipts(bench) == [Receipt(ID, Outcome.CONFIRMED, contract=MADE)]


def test_who_has_it_before_our_own_index_counts() -> None:
    bench = DeploymentBench()
    bench.connect(B)
    bench.agreed()
    bench.hear(B, ContractTakenIn(ID))
    bench.put_on_chain(deployed())
    assert len(receipts(bench)) == 1


def test_who_goes_away_is_not_waited_for() -> None:
    bench = DeploymentBench()
    bench.connect(B)
    bench.agreed()
    bench.put_on_chain(deployed())
    bench.lose(B)
    assert len(receipts(bench)) == 1


def test_who_does_not_say_that_it_has_it_is_not_waited_for_long() -> None:
    bench = DeploymentBench()
    bench.connect(B, C)
    bench.agreed()
    bench.put_on_chain(deployed())
    bench.wait(Config().state_timeout_ms)
    assert len(receipts(bench)) == 1


def test_receipt_is_recorded_and_told_in_one_step_with_the_record_first() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.seen.clear()
    bench.put_on_chain(deployed())
    receipt = Receipt(ID, Outcome.CONFIRMED, contract=MADE)
    place = bench.seen.index(Persist(NO_CONTRACT, (IntentFinalised(receipt),)))
    assert bench.seen[place + 1] == ReportReceipt(receipt)
    assert receipts(bench) == [receipt]


def test_withdrawal_of_a_deployment_that_was_given_up_follows_its_receipt() -> None:
    """A deployment that has not ended would be proposed again: the message of the last run must not withdraw it."""
    bench = DeploymentBench()
    bench.deploy()
    bench.crashes_before = (IntentFinalised,)
    assert (bench.cancel(), receipts(bench), bench.said(DeploymentWithdrawn, B)) == ([], [], [])
    bench.restart()
    assert bench.state() == "Proposing"
    effects = bench.node.step(0, ForContract(NO_CONTRACT, CancelRequested("canceller", ID)))
    receipt = Receipt(ID, Outcome.REVERTED, "cancelled")
    assert effects[0] == Persist(NO_CONTRACT, (IntentFinalised(receipt),))
    assert [type(effect) for effect in effects[1:]].count(SendMessage) == 2
    assert ReplyToUser("canceller", ID) in effects
    assert ReportReceipt(receipt) in effects


# Giving up.


def test_user_may_give_it_up_before_all_have_agreed() -> None:
    bench = DeploymentBench()
    bench.deploy()
    assert bench.cancel() == [ReplyToUser("canceller", ID)]
    assert receipts(bench) == [Receipt(ID, Outcome.REVERTED, "cancelled")]
    assert bench.said(DeploymentWithdrawn, B) == [DeploymentWithdrawn(ID)]
    assert bench.cancel()[0].error == "it is not under way here"


def test_user_may_give_it_up_before_anybody_was_asked() -> None:
    bench = DeploymentBench()
    bench.deploy(intent=OTHER)
    bench.deploy(depends_on=(OTHER,))
    bench.cancel()
    assert bench.said(DeploymentWithdrawn, B) == []


def test_nothing_is_given_up_after_the_agreement() -> None:
    bench = DeploymentBench()
    bench.agreed()
    assert bench.cancel()[0].error == "a deployment that is Calling cannot be given up"


# Restarts.


@pytest.mark.parametrize("answers", [(), (B,), (B, C), (B, C, B)])
def test_restart_before_the_agreement_begins_anew(answers: tuple[NodeName, ...]) -> None:
    bench = DeploymentBench()
    bench.deploy()
    for peer in answers:
        bench.answer(peer)
    bench.restart()
    assert (bench.state(), bench.calls()) == ("Proposing", [])
    assert bench.asked(B)[-1].signers == ()


def test_restart_after_the_agreement_calls_with_the_same_signers() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.restart()
    assert bench.state() == "Calling"
    assert bench.calls()[0] == bench.calls()[1]
    bench.put_on_chain(deployed())
    assert receipts(bench) == [Receipt(ID, Outcome.CONFIRMED, contract=MADE)]


@pytest.mark.parametrize("found", [deployed(), deployed(contract=STRANGERS, threshold=1)], ids=["ours", "a stranger's"])
def test_restart_after_the_block_was_final_ends_as_it_would_have(found: FactoryDeployment) -> None:
    bench = DeploymentBench(crashes_before=(IntentFinalised,))
    bench.agreed()
    bench.put_on_chain(found)
    assert receipts(bench) == []
    bench.restart()
    (receipt,) = receipts(bench)
    assert receipt.outcome is (Outcome.CONFIRMED if found == deployed() else Outcome.REVERTED)
    assert bench.state() == receipt.outcome.value


def test_restart_after_the_block_was_indexed_and_not_final_waits_for_it() -> None:
    bench = DeploymentBench(config=Config(confirmations=1))
    bench.agreed()
    bench.put_on_chain(deployed())
    bench.restart()
    assert bench.state() == "Deployed"
    bench.block()
    assert receipts(bench) == [Receipt(ID, Outcome.CONFIRMED, contract=MADE)]


def test_restarted_deployer_does_not_wait_for_what_was_said_to_its_last_life() -> None:
    bench = DeploymentBench()
    bench.agreed()
    bench.restart()
    bench.connect(B, C)
    bench.put_on_chain(deployed())
    assert receipts(bench) == [Receipt(ID, Outcome.CONFIRMED, contract=MADE)]


def test_what_has_ended_is_not_begun_again() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.cancel()
    bench.restart()
    assert (bench.node.deployments.own, bench.state()) == ({}, "unknown")


def test_what_deployments_do_not_know_is_our_own_error() -> None:
    deployments = DeploymentBench().node.deployments
    with pytest.raises(AssertionError, match="do not know LedgerLost"):
        deployments.step(0, LedgerLost())
    envelope = Envelope(NO_CONTRACT, RequestId(1, 1), 1, 0, Startup(RequestId(1, 1)))
    with pytest.raises(AssertionError, match="do not know Startup"):
        deployments.step(0, MessageReceived(B, envelope))


def test_history_tells_the_way() -> None:
    bench = DeploymentBench(config=Config(confirmations=1))
    bench.connect(B)
    bench.agreed()
    bench.put_on_chain(deployed())
    bench.block()
    states = [state for _, state in bench.node.explain(ID).history]
    assert states == ["Waiting", "Proposing", "Agreeing", "Calling", "Deployed", "Spreading"]


def test_own_deployment_is_acquired_with_its_own_genesis_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = DeploymentBench()
    bench.deploy()
    deployments = bench.node.deployments
    monkeypatch.setattr(deployments, "proposals", SimpleNamespace(may_acquire=lambda *_: False))
    payload = deployments.own[ID].intent.payload
    assert deployments.may_acquire(ID, payload)
    assert not deployments.may_acquire(ID, payload + b"!")
