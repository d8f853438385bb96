"""What others want a node to have: recorded and answered, bounded, and taken in when the chain has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import FetchBlocks
from rota.directory.deployment_events import ProposalJudged
from rota.directory.effects import ContractTaken, DeploymentProposed, JudgeProposal, ProposalForgotten, TakeInContract
from rota.directory.proposals import JUDGED_OF_PEER_MAX, JUDGING_MAX, LARGE_BYTES, LARGE_JUDGED_MAX
from rota.machine.effects import Persist, SendMessage
from rota.model.config import Config
from rota.model.genesis import Genesis, encode_genesis
from rota.model.types import NO_CONTRACT, NodeName, RequestId
from rota.wire.messages import ContractTakenIn, DeploymentAnswer, DeploymentWithdrawn, Startup, Verdict
from tests.directory.deployment_bench import GENESIS, ID, MADE, SIGNERS, STRANGERS, D, DeploymentBench, deployed
from tests.sequencer.kit import GENESIS_S, A, B, C, intent_id

OTHER = intent_id("other")
OTHER_GENESIS = replace(GENESIS, salt=b"s" * 32)
TTL_S = Config().proposal_ttl_s


def verdicts(answers: list[DeploymentAnswer]) -> list[Verdict]:
    return [answer.verdict for answer in answers]


# Answering.


def test_proposal_is_judged_then_recorded_and_answered_in_one_step_with_the_record_first() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    assert bench.propose(B) == []
    (order,) = bench.all(JudgeProposal)
    assert (order.peer, order.deployment, order.genesis) == (B, ID, encode_genesis(GENESIS))
    record, sent = bench.node.step(0, bench.judged(order))
    (kept,) = bench.kept()
    assert record == Persist(NO_CONTRACT, (DeploymentProposed(kept),))
    assert isinstance(sent, SendMessage)
    answer = DeploymentAnswer(RequestId(7, 1), ID, Verdict.ACCEPTED, SIGNERS[A])
    assert (sent.peer, sent.envelope.body) == (B, answer)


def test_proposal_that_a_crash_kept_from_the_disk_was_not_answered_and_comes_again() -> None:
    bench = DeploymentBench(crashes_before=(DeploymentProposed,))
    assert bench.propose(B) == []
    bench.restart()
    assert bench.kept() == []
    assert verdicts(bench.propose(B)) == [Verdict.ACCEPTED]


def test_every_copy_is_answered_and_judged_once() -> None:
    bench = DeploymentBench()
    assert bench.propose(B) == bench.propose(B)
    assert (len(bench.all(JudgeProposal)), len(bench.kept())) == (1, 1)


def test_copy_that_comes_while_it_is_judged_waits_for_that() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    bench.propose(B)
    assert bench.propose(B) == []
    (order,) = bench.all(JudgeProposal)
    bench.tell(bench.judged(order))
    assert len(bench.said(DeploymentAnswer, B)) == 1


def test_proposal_that_is_refused_is_not_kept() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    bench.propose(B)
    (order,) = bench.all(JudgeProposal)
    bench.tell(bench.judged(order, Verdict.REFUSED, "we do not have that domain"))
    (answer,) = bench.said(DeploymentAnswer, B)
    assert (answer.verdict, answer.endorser, answer.reason) == (Verdict.REFUSED, None, "we do not have that domain")
    assert bench.kept() == []
    # Asked again, it is judged again.
    bench.propose(B)
    assert len(bench.all(JudgeProposal)) == 2


def test_judgement_that_nobody_waits_for_changes_nothing() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    bench.propose(B)
    bench.tell(ProposalJudged(C, RequestId(7, 1), ID, Verdict.ACCEPTED))
    bench.tell(ProposalJudged(B, RequestId(9, 9), ID, Verdict.ACCEPTED))
    assert (bench.kept(), bench.said(DeploymentAnswer, B)) == ([], [])


def test_signers_are_recorded_with_the_second_answer() -> None:
    bench = DeploymentBench()
    bench.propose(B)
    bench.propose(B, is_agreed=True, number=2)
    assert [record.proposal.signers for record in bench.records(DeploymentProposed)] == [(), (SIGNERS[A], SIGNERS[B])]
    assert [answer.request_id for answer in bench.said(DeploymentAnswer, B)] == [RequestId(7, 1), RequestId(7, 2)]


def test_late_copy_of_the_first_question_does_not_undo_the_second() -> None:
    bench = DeploymentBench()
    bench.propose(B, number=1)
    bench.propose(B, is_agreed=True, number=2)
    (answer,) = bench.propose(B, number=1)
    assert (answer.verdict, answer.request_id) == (Verdict.ACCEPTED, RequestId(7, 1))
    bench.put_on_chain(deployed())
    assert bench.taken_in() == [MADE]


def test_peer_proposes_one_genesis_under_an_id() -> None:
    bench = DeploymentBench()
    bench.propose(B)
    (answer,) = bench.propose(B, OTHER_GENESIS)
    assert (answer.verdict, answer.reason) == (Verdict.REFUSED, "another genesis was proposed under this id")


def test_another_peer_cannot_take_an_id_from_its_proposer() -> None:
    bench = DeploymentBench()
    bench.propose(C, OTHER_GENESIS, is_agreed=True)
    assert verdicts(bench.propose(B, is_agreed=True)) == [Verdict.ACCEPTED]
    bench.put_on_chain(deployed())
    assert bench.taken_in() == [MADE]
    assert (bench.said(ContractTakenIn, B), bench.said(ContractTakenIn, C)) == ([ContractTakenIn(ID)], [])


def test_other_messages_about_no_contract_mean_nothing() -> None:
    bench = DeploymentBench()
    before = len(bench.seen)
    bench.hear(B, Startup(RequestId(1, 1)), NO_CONTRACT)
    assert len(bench.seen) == before


# The chain.


def test_contract_is_taken_in_with_the_block_that_has_it() -> None:
    bench = DeploymentBench()
    bench.propose(B)
    bench.block()
    assert bench.all(FetchBlocks)[-1].awaited == ()
    bench.propose(B, is_agreed=True)
    block = bench.put_on_chain(deployed())
    assert bench.all(FetchBlocks)[-1].awaited == (ID,)
    (taken,) = bench.records(ContractTaken)
    assert (taken.known.contract, taken.known.deployed_at) == (GENESIS.contract(MADE), block.height)
    assert (taken.known.genesis, taken.known.deployment) == (encode_genesis(GENESIS), ID)
    assert bench.all(TakeInContract) == [TakeInContract(taken.known)]
    assert bench.said(ContractTakenIn, B) == [ContractTakenIn(ID)]
    assert bench.kept() == []


@pytest.mark.parametrize(("proposer", "unconfirmed"), [(B, (A,)), (C, (A, B))])
def test_proposer_is_believed_about_its_own_address_alone(
    proposer: NodeName, unconfirmed: tuple[NodeName, ...]
) -> None:
    bench = DeploymentBench()
    bench.propose(proposer, is_agreed=True)
    bench.put_on_chain(deployed())
    (taken,) = bench.records(ContractTaken)
    assert (taken.known.source, taken.known.unconfirmed) == (proposer, unconfirmed)


def test_contract_with_other_signers_is_not_the_one_that_was_proposed() -> None:
    bench = DeploymentBench()
    bench.propose(B, is_agreed=True)
    bench.put_on_chain(deployed(contract=STRANGERS, endorsers=(SIGNERS[A], SIGNERS[C])))
    assert (bench.taken_in(), len(bench.kept())) == ([], 1)


def test_nothing_is_taken_in_before_the_signers_are_known() -> None:
    bench = DeploymentBench()
    bench.propose(B)
    bench.put_on_chain(deployed())
    assert bench.taken_in() == []


def test_block_that_is_not_fetched_takes_nothing_in_until_it_is() -> None:
    bench = DeploymentBench()
    bench.propose(B, is_agreed=True)
    bench.has_chain = False
    bench.put_on_chain(deployed())
    assert bench.taken_in() == []
    bench.has_chain = True
    bench.show_head()
    assert bench.taken_in() == [MADE]


def test_restart_between_the_answer_and_the_deployment_forgets_nothing() -> None:
    bench = DeploymentBench()
    bench.propose(B, is_agreed=True)
    bench.restart()
    assert verdicts(bench.propose(B, is_agreed=True)) == [Verdict.ACCEPTED]
    bench.put_on_chain(deployed())
    assert bench.taken_in() == [MADE]
    bench.restart()
    assert bench.kept() == []


# Withdrawing.


def test_proposal_that_is_withdrawn_is_forgotten() -> None:
    bench = DeploymentBench()
    bench.propose(B, is_agreed=True)
    bench.hear(C, DeploymentWithdrawn(ID))
    assert len(bench.kept()) == 1
    bench.hear(B, DeploymentWithdrawn(ID))
    assert bench.records(ProposalForgotten) == [ProposalForgotten(B, ID)]
    bench.restart()
    assert bench.kept() == []


def test_proposal_that_is_withdrawn_while_it_is_judged_is_not_kept() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    bench.propose(B)
    bench.hear(B, DeploymentWithdrawn(ID))
    bench.tell(bench.judged(bench.all(JudgeProposal)[0]))
    assert (bench.kept(), bench.said(DeploymentAnswer, B)) == ([], [])


def test_proposal_that_comes_again_after_it_was_withdrawn_waits_for_the_judgement_of_the_first() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    bench.propose(B)
    bench.hear(B, DeploymentWithdrawn(ID))
    bench.propose(B, OTHER_GENESIS)
    (order,) = bench.all(JudgeProposal)
    # The verdict is one on the first genesis, and nothing is written for the second.
    bench.tell(bench.judged(order))
    assert (bench.records(DeploymentProposed), bench.said(DeploymentAnswer, B)) == ([], [])
    bench.propose(B, OTHER_GENESIS)
    _, order = bench.all(JudgeProposal)
    assert order.genesis == encode_genesis(OTHER_GENESIS)
    bench.tell(bench.judged(order))
    assert [each.genesis for each in bench.kept()] == [encode_genesis(OTHER_GENESIS)]


# Bounds.


def test_proposal_is_forgotten_when_nobody_has_spoken_of_it_for_long() -> None:
    bench = DeploymentBench()
    bench.propose(B)
    bench.block(time_s=GENESIS_S + TTL_S)
    assert len(bench.kept()) == 1
    bench.block(time_s=GENESIS_S + TTL_S + 1)
    assert (bench.kept(), bench.records(ProposalForgotten)) == ([], [ProposalForgotten(B, ID)])


def test_reminder_makes_a_proposal_new() -> None:
    bench = DeploymentBench()
    bench.propose(B)
    bench.block(time_s=GENESIS_S + TTL_S // 2)
    assert verdicts(bench.propose(B)) == [Verdict.ACCEPTED]
    bench.block(time_s=GENESIS_S + TTL_S + 1)
    assert len(bench.kept()) == 1


def test_one_peer_has_a_share_of_the_room_and_the_others_theirs() -> None:
    bench = DeploymentBench(config=Config(proposals_max=8))
    for number in range(2):
        assert verdicts(bench.propose(B, intent=intent_id(f"B{number}"))) == [Verdict.ACCEPTED]
    (answer,) = bench.propose(B, intent=OTHER)
    assert (answer.verdict, answer.reason) == (Verdict.BUSY, "2 proposals of yours wait to be deployed")
    assert verdicts(bench.propose(C, intent=OTHER)) == [Verdict.ACCEPTED]
    # What replaces one takes no more room.
    assert verdicts(bench.propose(B, intent=intent_id("B1"), is_agreed=True)) == [Verdict.ACCEPTED]


def test_all_together_have_no_more_than_there_is() -> None:
    bench = DeploymentBench(config=Config(proposals_max=2))
    for peer in (B, C):
        bench.propose(peer)
    (answer,) = bench.propose(D)
    assert (answer.verdict, answer.reason) == (Verdict.BUSY, "2 proposals of all wait to be deployed")


def test_bytes_are_bounded_too() -> None:
    size = len(encode_genesis(GENESIS))
    bench = DeploymentBench(config=Config(proposals_bytes_max=4 * size))
    bench.propose(B)
    (answer,) = bench.propose(B, intent=OTHER)
    assert answer.reason == "the proposals of yours that wait to be deployed are too large together"


def test_no_more_is_judged_at_a_time_than_is_named() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    for number in range(JUDGING_MAX):
        bench.propose(B, intent=intent_id(f"B{number}"))
    (answer,) = bench.propose(C)
    assert (answer.verdict, answer.reason) == (Verdict.BUSY, "it judges as many contracts as it can at a time")


def refused_count(bench: DeploymentBench, peer: NodeName, numbers: range, genesis: Genesis = GENESIS) -> int:
    """A peer proposes so many contracts that are refused; how many of them were judged."""
    before = len(bench.all(JudgeProposal))
    for number in numbers:
        bench.propose(peer, genesis, intent_id(f"{peer}{number}"))
        order = bench.all(JudgeProposal)[-1]
        bench.tell(bench.judged(order, Verdict.REFUSED, "not that"))
    return len(bench.all(JudgeProposal)) - before


def test_peer_whose_proposals_are_refused_has_a_bounded_number_judged_and_the_others_theirs() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    assert refused_count(bench, B, range(200)) == JUDGED_OF_PEER_MAX
    assert refused_count(bench, C, range(200)) == JUDGED_OF_PEER_MAX
    assert refused_count(bench, D, range(4)) == 4, "whoever else floods"
    bench.wait(bench.node.config.request_timeout_ms)
    assert refused_count(bench, B, range(200, 202)) == 2


def test_large_proposals_of_a_peer_are_judged_a_few_at_a_time() -> None:
    bench = DeploymentBench(silent=(JudgeProposal,))
    large = replace(GENESIS, configuration=bytes(LARGE_BYTES))
    assert refused_count(bench, B, range(9), large) == LARGE_JUDGED_MAX
    assert refused_count(bench, B, range(9, 11)) == 2
