"""An operator's consent: nobody makes a node endorse or coordinate in a contract that its operator did not agree to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import FetchBlocks
from rota.directory.acquaintance_events import AcquisitionEnded
from rota.directory.consent import (
    OPEN,
    PEER_SHARE,
    QUESTION_BYTES_MIN,
    Consent,
    ConsentMode,
    Decision,
    NoRoom,
    displaced_by,
)
from rota.directory.deployment_events import ProposalDecided
from rota.directory.deployment_rules import OPERATOR_REPEAT_MS
from rota.directory.effects import AcquireContract, DeploymentProposed, JudgeProposal, ProposalForgotten
from rota.machine.effects import Persist, ReplyToUser, ReportReceipt, SendMessage
from rota.model.config import Config
from rota.model.genesis import Genesis, encode_genesis
from rota.model.types import NO_CONTRACT, ContractAddress, IntentId, NodeName, Outcome, Party, RequestId
from rota.wire.messages import DeploymentAnswer, DeploymentWithdrawn, GenesisRequest, GenesisResponse, Startup, Verdict
from tests.directory.deployment_bench import GENESIS, ID, MADE, SIGNERS, STATIC, D, DeploymentBench, deployed
from tests.sequencer.kit import GENESIS_S, A, B, C, intent_id

ASK = Consent()
COORDINATED = replace(GENESIS, endorsers=(B,), threshold=1)
HELD = replace(GENESIS, endorsers=(B,), threshold=1, committee=(B,))
FACTORY = ContractAddress("0x" + "fa" * 20)
OTHER = intent_id("other")
TTL_S = Config().proposal_ttl_s


def asking(**options: object) -> DeploymentBench:
    return DeploymentBench(consent=ASK, **options)  # type: ignore[arg-type]


def decide(
    bench: DeploymentBench, is_given: bool = True, reason: str = "", peer: NodeName = B, deployment: IntentId = ID
) -> list[ReplyToUser]:
    """The operator of A decides; what it was answered at once."""
    known = len(bench.all(ReplyToUser))
    bench.tell(ProposalDecided("operator", peer, deployment, is_given, reason))
    return bench.all(ReplyToUser)[known:]


def asked_about(bench: DeploymentBench) -> list[tuple[NodeName, IntentId]]:
    return [(each.peer, each.deployment) for each in bench.node.questions]


# Policy.


@pytest.mark.parametrize("genesis", [GENESIS, COORDINATED], ids=["endorser", "coordinator"])
def test_node_that_asks_reveals_no_address_before_its_operator_agrees(genesis: Genesis) -> None:
    bench = asking()
    (answer,) = bench.propose(B, genesis)
    assert (answer.verdict, answer.endorser, answer.asked_since_s) == (Verdict.BUSY, None, GENESIS_S)
    assert asked_about(bench) == [(B, ID)]


def test_holder_is_never_asked() -> None:
    for genesis in (HELD, replace(STATIC, members=(Party("b@B"), Party("a@A")))):
        bench = asking()
        (answer,) = bench.propose(B, genesis)
        assert (answer.verdict, asked_about(bench)) == (Verdict.ACCEPTED, [])


def test_open_and_listed_nodes_are_not_asked_about() -> None:
    for consent in (OPEN, Consent(ConsentMode.ASK, (B,)), Consent(ConsentMode.LISTED, (B,))):
        (answer,) = DeploymentBench(consent=consent).propose(B)
        assert (answer.verdict, answer.endorser) == (Verdict.ACCEPTED, SIGNERS[A])


def test_list_refuses_everybody_else() -> None:
    bench = DeploymentBench(consent=Consent(ConsentMode.LISTED, (C,)))
    (answer,) = bench.propose(B)
    assert (answer.verdict, answer.endorser, bench.kept()) == (Verdict.REFUSED, None, [])
    assert answer.reason == "A takes such contracts from nodes on its operator's list, and B is not on it"
    assert bench.propose(B)[0].verdict is Verdict.REFUSED


def test_own_users_deployment_needs_no_consent() -> None:
    bench = asking()
    bench.agreed()
    assert len(bench.calls()) == 1


# The operator.


def test_consent_is_recorded_before_operator_and_proposer_learn_of_it_in_one_step() -> None:
    bench = asking()
    bench.propose(B)
    bench.propose(B, number=2)
    record, reply, sent = bench.node.step(0, ProposalDecided("operator", B, ID, is_given=True))
    (kept,) = bench.kept()
    assert kept.decision is Decision.GIVEN
    assert record == Persist(NO_CONTRACT, (DeploymentProposed(kept),))
    assert reply == ReplyToUser("operator", ID)
    # The latest question is answered, so that the proposer need not ask again.
    assert isinstance(sent, SendMessage)
    answer = DeploymentAnswer(RequestId(7, 2), ID, Verdict.ACCEPTED, SIGNERS[A])
    assert (sent.peer, sent.envelope.body) == (B, answer)
    assert asked_about(bench) == []


def test_decision_that_a_crash_kept_from_the_disk_was_not_sent() -> None:
    bench = asking()
    bench.propose(B)
    known = len(bench.said(DeploymentAnswer, B))
    bench.crashes_before = (DeploymentProposed,)
    assert decide(bench) == []
    assert len(bench.said(DeploymentAnswer, B)) == known
    bench.restart()
    assert asked_about(bench) == [(B, ID)]


def test_contract_that_was_agreed_to_is_taken_in() -> None:
    bench = asking()
    bench.propose(B)
    decide(bench)
    bench.propose(B, is_agreed=True, number=2)
    bench.put_on_chain(deployed())
    assert bench.taken_in() == [MADE]


def test_contract_is_not_taken_in_from_the_chain_while_the_operator_is_asked() -> None:
    bench = asking()
    bench.propose(B, COORDINATED, is_agreed=True)
    bench.put_on_chain(deployed(COORDINATED))
    assert bench.taken_in() == []
    assert all(ID not in fetch.awaited for fetch in bench.all(FetchBlocks))


def test_refusal_reaches_the_proposer_with_its_reason() -> None:
    bench = asking()
    bench.propose(B)
    assert decide(bench, is_given=False, reason="we do not know you") == [ReplyToUser("operator", ID)]
    answer = bench.said(DeploymentAnswer, B)[-1]
    assert (answer.verdict, answer.endorser) == (Verdict.REFUSED, None)
    assert answer.reason == "its operator refuses: we do not know you"
    assert bench.propose(B, number=3)[0].reason == answer.reason
    assert len(bench.all(JudgeProposal)) == 1


def test_refusal_without_a_reason_says_so() -> None:
    bench = asking()
    bench.propose(B)
    decide(bench, is_given=False)
    assert bench.said(DeploymentAnswer, B)[-1].reason == "its operator refuses: no reason given"


def test_question_and_decision_survive_a_restart() -> None:
    bench = asking()
    bench.propose(B)
    bench.restart()
    assert asked_about(bench) == [(B, ID)]
    decide(bench, is_given=False, reason="no")
    bench.restart()
    assert (asked_about(bench), bench.propose(B, number=9)[0].verdict) == ([], Verdict.REFUSED)


def test_question_is_decided_by_the_policy_that_an_operator_sets_later() -> None:
    bench = asking()
    bench.propose(B)
    bench.consent = OPEN
    bench.restart()
    (answer,) = bench.propose(B, number=2)
    assert (answer.verdict, answer.endorser, asked_about(bench)) == (Verdict.ACCEPTED, SIGNERS[A], [])

    bench = asking()
    bench.propose(B)
    bench.consent = Consent(ConsentMode.LISTED)
    bench.restart()
    assert (bench.propose(B, number=2)[0].verdict, bench.kept()) == (Verdict.REFUSED, [])
    assert bench.records(ProposalForgotten) == [ProposalForgotten(B, ID)]


def test_decision_waits_while_another_policy_is_applied() -> None:
    bench = asking()
    bench.propose(B)
    bench.consent = OPEN
    bench.silent = (JudgeProposal,)
    bench.restart()
    bench.propose(B, number=2)
    error = "the operator's policy is being applied to it; try again"
    assert decide(bench, is_given=False) == [ReplyToUser("operator", ID, error, is_temporary=True)]
    bench.tell(bench.judged(bench.all(JudgeProposal)[-1]))
    assert bench.kept()[0].decision is Decision.GIVEN


def test_policy_does_not_overtake_a_decision() -> None:
    bench = asking()
    bench.propose(B)
    bench.consent = OPEN
    bench.restart()
    decide(bench, is_given=False)
    assert bench.said(DeploymentAnswer, B)[-1].verdict is Verdict.REFUSED
    (answer,) = bench.propose(B, number=2)
    assert (bench.kept()[0].decision, answer.verdict) == (Decision.REFUSED, Verdict.REFUSED)


def test_decision_about_nothing_is_refused() -> None:
    bench = asking()
    (reply,) = decide(bench)
    assert reply.error == "deployment: this node's operator is not asked about it"
    bench.propose(B)
    decide(bench)
    assert decide(bench, is_given=False)[0].error == reply.error


def test_second_decision_does_not_replace_the_first() -> None:
    bench = asking()
    bench.propose(B)
    decide(bench)
    assert decide(bench, is_given=False)[0].error == "deployment: this node's operator is not asked about it"
    assert bench.kept()[0].decision is Decision.GIVEN
    assert [record.proposal.decision for record in bench.records(DeploymentProposed)] == [
        Decision.ASKED,
        Decision.GIVEN,
    ]


def test_decision_about_a_withdrawn_proposal_has_no_effect() -> None:
    bench = asking()
    bench.propose(B)
    bench.hear(B, DeploymentWithdrawn(ID))
    assert decide(bench)[0].error == "deployment: this node's operator is not asked about it"
    assert bench.kept() == []


def test_what_the_operator_has_decided_is_forgotten_when_it_is_withdrawn() -> None:
    bench = asking()
    bench.propose(B)
    decide(bench)
    bench.hear(B, DeploymentWithdrawn(ID))
    assert (bench.kept(), bench.records(ProposalForgotten)) == ([], [ProposalForgotten(B, ID)])


def test_question_expires_and_the_proposer_learns_of_it() -> None:
    bench = asking()
    bench.propose(B)
    bench.block(time_s=GENESIS_S + TTL_S // 2)
    bench.propose(B, number=2)
    bench.block(time_s=GENESIS_S + TTL_S + 1)
    answer = bench.said(DeploymentAnswer, B)[-1]
    assert (answer.verdict, answer.reason) == (Verdict.REFUSED, f"the operator of A has not answered for {TTL_S} s")
    assert (bench.kept(), bench.records(ProposalForgotten)) == ([], [ProposalForgotten(B, ID)])


# Bounds.


def test_one_proposer_has_a_share_of_the_questions() -> None:
    bench = asking(config=Config(proposals_bytes_max=4 * PEER_SHARE * 2 * QUESTION_BYTES_MIN))
    for number in range(2):
        bench.propose(B, intent=intent_id(f"B{number}"))
    (answer,) = bench.propose(B)
    assert (answer.verdict, answer.asked_since_s) == (Verdict.BUSY, 0)
    assert answer.reason == "too many proposals of yours wait for the operator of A"
    bench.propose(C)
    assert asked_about(bench)[-1] == (C, ID)


def test_proposer_gets_no_place_in_a_full_list_where_nobody_has_more() -> None:
    bench = asking(config=Config(proposals_bytes_max=4 * 2 * QUESTION_BYTES_MIN, proposals_max=64))
    for number in range(2):
        bench.propose(NodeName(f"S{number}"), intent=intent_id(f"S{number}"))
    (answer,) = bench.propose(B)
    assert answer.reason == "too many proposals of all wait for the operator of A"


def test_room_is_shared_fairly_between_proposers() -> None:
    room, size = PEER_SHARE * 4 * QUESTION_BYTES_MIN, 100
    full = {(NodeName(f"S{of}"), intent_id(f"{of}-{number}")): size for of in range(PEER_SHARE) for number in range(4)}
    first = displaced_by(full, B, size, room)
    assert first == ((NodeName("S0"), intent_id("0-3")),)
    # A large one displaces as much as it needs, and no proposer falls below the newcomer.
    large = displaced_by(full, B, 3 * QUESTION_BYTES_MIN, room)
    assert len({proposer for proposer, _ in large}) == 3
    # One that would have no less than all others gets no place.
    with pytest.raises(NoRoom, match="of all"):
        displaced_by(full, B, 4 * QUESTION_BYTES_MIN, room)
    with pytest.raises(NoRoom, match="of all"):
        displaced_by({}, B, size, QUESTION_BYTES_MIN - 1)
    with pytest.raises(NoRoom, match="of yours"):
        displaced_by({}, B, 5 * QUESTION_BYTES_MIN, room)


def test_displaced_question_is_forgotten() -> None:
    config = Config(proposals_bytes_max=4 * PEER_SHARE * 2 * QUESTION_BYTES_MIN)
    bench = asking(config=config)
    strangers = [NodeName(f"S{number}") for number in range(PEER_SHARE)]
    for stranger in strangers:
        bench.propose(stranger, intent=intent_id(f"{stranger}-0"))
    for stranger in strangers[1:]:
        bench.propose(stranger, intent=intent_id(f"{stranger}-1"))
    bench.propose(strangers[0], intent=OTHER)
    bench.propose(B)
    assert (strangers[0], OTHER) not in asked_about(bench)
    assert bench.records(ProposalForgotten) == [ProposalForgotten(strangers[0], OTHER)]
    assert (B, ID) in asked_about(bench)
    bench.propose(C)
    assert (C, ID) in asked_about(bench)
    assert len(asked_about(bench)) == 2 * PEER_SHARE


def test_question_that_the_operator_has_decided_is_not_displaced() -> None:
    bench = asking(config=Config(proposals_bytes_max=4 * PEER_SHARE * 2 * QUESTION_BYTES_MIN))
    strangers = [NodeName(f"S{number}") for number in range(PEER_SHARE)]
    for number in range(2):
        for stranger in strangers:
            bench.propose(stranger, intent=intent_id(f"{stranger}-{number}"))
    decided = intent_id(f"{strangers[0]}-1")
    bench.tell(ProposalDecided("operator", strangers[0], decided, is_given=True))
    bench.propose(B)
    assert bench.all(ReplyToUser)[-1] == ReplyToUser("operator", decided)
    assert [each.deployment for each in bench.kept() if each.decision is Decision.GIVEN] == [decided]


# The proposer.


def test_proposer_sees_whose_operator_has_not_answered_since_when() -> None:
    bench = DeploymentBench()
    bench.deploy()
    question = bench.asked(B)[-1]
    said = DeploymentAnswer(question.request_id, ID, Verdict.BUSY, None, "please wait", GENESIS_S - 5)
    bench.hear(B, said)
    explained = bench.node.explain(ID)
    assert explained.waits_for == "operators to agree that their nodes take part in the contract"
    assert (explained.operators, explained.detail) == (((B, GENESIS_S - 5),), "")
    # A time that has not come is not believed.
    bench.hear(B, replace(said, asked_since_s=1 << 60))
    assert bench.node.explain(ID).operators == ((B, GENESIS_S),)
    bench.answer(C)
    bench.answer(B)
    assert bench.node.explain(ID).operators == ()


def test_proposer_repeats_the_question_once_a_minute_while_an_operator_is_asked() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(C)
    question = bench.asked(B)[-1]
    bench.hear(B, DeploymentAnswer(question.request_id, ID, Verdict.BUSY, None, "", GENESIS_S))
    known = len(bench.asked(B))
    bench.wait(OPERATOR_REPEAT_MS - 1)
    assert len(bench.asked(B)) == known
    bench.wait(20_000)
    assert len(bench.asked(B)) > known


def test_refused_deployment_ends_with_the_operators_reason() -> None:
    bench = DeploymentBench()
    bench.deploy()
    bench.answer(B, Verdict.REFUSED, "its operator refuses: we do not know you")
    (report,) = bench.all(ReportReceipt)
    assert report.receipt.outcome is Outcome.REVERTED
    assert report.receipt.reason == "B does not take the contract: its operator refuses: we do not know you"


# Contracts that are on the chain already.


def told_of(genesis: Genesis = COORDINATED, consent: Consent = ASK) -> DeploymentBench:
    """A peer speaks of a contract that is on the chain, and tells its genesis."""
    bench = DeploymentBench(consent=consent, factory=FACTORY)
    tell_of(bench, genesis)
    return bench


def tell_of(bench: DeploymentBench, genesis: Genesis = COORDINATED) -> None:
    bench.hear(B, Startup(RequestId(1, 1)), MADE)
    answer_genesis(bench, encode_genesis(genesis))


def answer_genesis(bench: DeploymentBench, genesis: bytes) -> None:
    questions = [sent.envelope.body for sent in bench.all(SendMessage) if sent.envelope.contract == MADE]
    question = next(body for body in reversed(questions) if isinstance(body, GenesisRequest))
    bench.hear(B, GenesisResponse(question.request_id, ID, genesis), MADE)


def acquired(bench: DeploymentBench, genesis: Genesis = COORDINATED) -> None:
    """The chain has it, and the runtime does not take it in without consent."""
    bench.tell(AcquisitionEnded(MADE, B, Verdict.REFUSED, False, ID, encode_genesis(genesis)))


def consents(bench: DeploymentBench) -> list[bool]:
    return [order.has_consent for order in bench.all(AcquireContract)]


def test_contract_on_the_chain_needs_consent_where_it_names_this_node() -> None:
    for genesis, is_free in ((GENESIS, False), (COORDINATED, False), (HELD, True)):
        assert consents(told_of(genesis)) == [is_free]
    assert consents(told_of(COORDINATED, OPEN)) == [True]
    # Who tells of a contract is not who made it: a list does not help.
    assert consents(told_of(COORDINATED, Consent(ConsentMode.LISTED, (B,)))) == [False]


def test_malformed_genesis_has_no_consent() -> None:
    bench = DeploymentBench(consent=ASK, factory=FACTORY)
    bench.hear(B, Startup(RequestId(1, 1)), MADE)
    answer_genesis(bench, b"junk")
    assert consents(bench) == [False]


def test_operator_is_asked_about_a_contract_on_the_chain_and_the_peer_again_after_consent() -> None:
    bench = told_of()
    acquired(bench)
    assert asked_about(bench) == [(B, ID)]
    assert (bench.said(DeploymentAnswer, B), decide(bench)) == ([], [ReplyToUser("operator", ID)])
    answer_genesis(bench, encode_genesis(COORDINATED))
    assert consents(bench) == [False, True]
    bench.tell(AcquisitionEnded(MADE, B, Verdict.ACCEPTED))
    assert (bench.kept(), bench.records(ProposalForgotten)) == ([], [ProposalForgotten(B, ID)])


def test_consent_holds_for_one_genesis_and_no_other() -> None:
    bench = told_of()
    acquired(bench)
    decide(bench)
    answer_genesis(bench, encode_genesis(replace(COORDINATED, salt=b"s" * 32)))
    assert consents(bench) == [False, False]


def test_refused_contract_on_the_chain_is_neither_asked_about_again_nor_withdrawn() -> None:
    bench = told_of()
    acquired(bench)
    assert decide(bench, is_given=False) == [ReplyToUser("operator", ID)]
    bench.hear(B, DeploymentWithdrawn(ID))
    acquired(bench)
    bench.tell(AcquisitionEnded(MADE, C, Verdict.REFUSED, False, ID, encode_genesis(COORDINATED)))
    assert (asked_about(bench), len(bench.kept())) == ([], 1)
    assert bench.said(DeploymentAnswer, B) == []


def test_question_about_a_contract_on_the_chain_expires_silently() -> None:
    bench = told_of()
    acquired(bench)
    bench.propose(B, COORDINATED)
    bench.block(time_s=GENESIS_S + TTL_S + 1)
    assert (bench.kept(), bench.said(DeploymentAnswer, B)) == ([], [])


def test_refused_acquisition_that_needs_no_consent_asks_nobody() -> None:
    bench = told_of(HELD)
    bench.tell(AcquisitionEnded(MADE, B, Verdict.REFUSED))
    assert asked_about(bench) == []


def test_own_users_contract_on_the_chain_needs_no_consent() -> None:
    bench = DeploymentBench(consent=ASK, factory=FACTORY)
    bench.deploy()
    tell_of(bench, GENESIS)
    assert consents(bench) == [True]


def test_second_question_of_a_peer_gets_the_consent_of_the_first() -> None:
    bench = asking(silent=(JudgeProposal,))
    bench.propose(D)
    (order,) = bench.all(JudgeProposal)
    bench.tell(bench.judged(order))
    decide(bench, peer=D)
    bench.propose(D, is_agreed=True, number=2)
    bench.tell(bench.judged(bench.all(JudgeProposal)[-1]))
    assert (bench.kept()[0].decision, bench.kept()[0].signers) == (Decision.GIVEN, (SIGNERS[A], SIGNERS[B]))
