"""A node whose contracts have submitting accounts of their own."""

from __future__ import annotations

from rota.chain.effects import RecallDispatches, RoundDispatch, SeeAccount, SubmitTransaction
from rota.chain.events import AccountChosen, AccountSeen
from rota.chain.submitters import AccountChoice
from rota.model.types import SHARED_ACCOUNT, ContractAddress, Outcome
from rota.wire.messages import SubmitterHeartbeat
from tests.node.node_bench import A1, A2, B1, CONFIG, OTHER, NodeBench, dispatch_of_b, mined, outcome
from tests.sequencer.kit import ADDRESS, B


def bench_of(accounts: AccountChoice = AccountChoice.BY_CONTRACT) -> NodeBench:
    return NodeBench(accounts=accounts)


def sent(bench: NodeBench) -> list[tuple[ContractAddress, int, str]]:
    return [(each.dispatch.account, each.dispatch.nonce, each.dispatch.signer) for each in bench.all(SubmitTransaction)]


def dispatched() -> NodeBench:
    """Two contracts have a round on its way, each with nonce 0 of its account."""
    bench = bench_of()
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    return bench


def test_contracts_dispatch_with_accounts_of_their_own() -> None:
    bench = dispatched()
    assert sent(bench) == [(ADDRESS, 0, f"A/{ADDRESS}"), (OTHER, 0, f"A/{OTHER}")]
    assert [each.account for each in bench.all(SeeAccount)] == [ADDRESS, OTHER]


def test_account_is_asked_for_again_when_the_answer_is_lost() -> None:
    bench = NodeBench(accounts=AccountChoice.BY_CONTRACT, silent=(SeeAccount,))
    bench.submit("A-1")
    bench.wait(CONFIG.request_timeout_ms + CONFIG.heartbeat_ms)
    assert len(bench.all(SeeAccount)) > 1
    assert sent(bench) == []
    bench.tell(AccountSeen(5, ADDRESS, "address"))
    assert sent(bench) == [(ADDRESS, 5, "address")]


def test_nonces_of_two_accounts_settle_apart() -> None:
    bench = dispatched()
    bench.block((ADDRESS, outcome(A1)), mined=[mined(0, account=ADDRESS)])
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]
    assert [each.dispatch.account for each in bench.node.submitters.submissions()] == [OTHER]
    bench.block((OTHER, outcome(A2, OTHER)), mined=[mined(0, account=OTHER)])
    assert bench.receipts() == [(A1, Outcome.CONFIRMED), (A2, Outcome.CONFIRMED)]
    assert list(bench.node.submitters.submissions()) == []


def test_next_run_sends_what_each_account_has_on_its_way_and_goes_on_with_its_nonces() -> None:
    bench = dispatched()
    bench.restart()
    assert sent(bench)[2:] == [(ADDRESS, 0, f"A/{ADDRESS}"), (OTHER, 0, f"A/{OTHER}")]
    bench.tell(AccountSeen(1, ADDRESS, f"A/{ADDRESS}"))
    bench.submit("A-3")
    assert sent(bench)[-1] == (ADDRESS, 1, f"A/{ADDRESS}")


def test_dispatch_of_an_account_that_a_lost_final_block_had_is_recalled() -> None:
    bench = dispatched()
    bench.block((ADDRESS, outcome(A1)), mined=[mined(0, account=ADDRESS)])
    bench.restart()
    before = len(sent(bench))
    bench.reorganise(1)
    assert [(each.nonces, each.account) for each in bench.all(RecallDispatches)] == [((0,), ADDRESS)]
    assert (ADDRESS, 0, f"A/{ADDRESS}") in sent(bench)[before:]


def test_choice_of_the_operator_concerns_later_rounds() -> None:
    bench = bench_of(AccountChoice.SHARED)
    bench.submit("A-1")
    bench.tell(AccountChosen(ADDRESS, is_own=True))
    bench.submit("A-3")
    assert sent(bench) == [(SHARED_ACCOUNT, 0, "A"), (ADDRESS, 0, f"A/{ADDRESS}")]
    assert [record.account for record in bench.records(RoundDispatch)] == [SHARED_ACCOUNT, ADDRESS]


def test_every_account_lists_its_dispatches_and_sends_them_again() -> None:
    bench = NodeBench(accounts=AccountChoice.BY_CONTRACT)
    dispatch_of_b(bench)
    bench.submit("A-2", OTHER)
    bench.wait(CONFIG.heartbeat_ms)
    (beat,) = bench.said(SubmitterHeartbeat, B)
    assert [(each.intent, each.signer, each.nonce) for each in beat.intents] == [(B1, f"A/{ADDRESS}", 0)]
    assert sent(bench).count((ADDRESS, 0, f"A/{ADDRESS}")) == 2
    assert sent(bench).count((OTHER, 0, f"A/{OTHER}")) == 2
