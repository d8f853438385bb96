"""Which contracts are in memory: the latest used, a busy one always, and never more than there is room for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import RoundDispatch
from rota.chain.submitters import StoredAccount
from rota.exchange.effects import StatesReceived
from rota.machine.context import Ids
from rota.machine.effects import Effect, ReplyToUser, SendMessage
from rota.machine.events import CancelRequested, ConnectionLost, IntentSubmitted, MessageReceived, ResumeRequested, Tick
from rota.model.config import Config
from rota.model.consistency import Consistent
from rota.model.digests import core_of, domain_separator, leaf_of, state_commitment
from rota.model.types import (
    SHARED_ACCOUNT,
    Contract,
    ContractAddress,
    DelegationNumber,
    Digest,
    Mode,
    NodeName,
    Outcome,
    RequestId,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LoadContract
from rota.node.events import ContractLoaded, ContractMissing, ForContract
from rota.node.paging import Sequencers
from rota.node.stored import StoredNode
from rota.sequencer.events import TransitionSigned
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import Sequencer, StoredContract
from rota.wire.messages import (
    Answer,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    Envelope,
    Handover,
    HandoverReason,
    HandoverRequest,
    Startup,
    StartupAcknowledgement,
    StateDistribution,
    StateDistributionAcknowledgement,
)
from tests.node.node_bench import A1, A2, B1, NOWHERE, OTHER, OURS, START, THEIRS, NodeBench, intent, order, outcome
from tests.sequencer.kit import ADDRESS, GENESIS_S, A, B, C, D, intent_id, transition

SMALL = Config(sequencers_max=2, paging_queue_max=3)
MORE = tuple(replace(THEIRS, address=ContractAddress(f"0x{number:040x}")) for number in range(5))
X, Y, Z = (each.address for each in MORE[:3])
FULL = "A has no room for one more contract; try again later"
BACK = Startup(RequestId(1, 1))


def sequencer_of(contract: Contract) -> Sequencer:
    return Sequencer(A, Ids(1), contract, SMALL)


def paging(*contracts: Contract) -> Sequencers:
    made = Sequencers(SMALL)
    for each in contracts:
        made.add(each.address, sequencer_of(each))
    return made


def bench_of(*contracts: Contract, config: Config = SMALL, silent: tuple[type[Effect], ...] = ()) -> NodeBench:
    """A node with these contracts in memory; its store knows more."""
    return NodeBench(contracts=contracts, known=MORE, config=config, silent=silent)


# Who sleeps, and who goes.


def test_contract_that_slept_longest_makes_room() -> None:
    made = paging(*MORE[:3])
    made.make_room(1)
    assert list(made.loaded) == [Z]


def test_contract_that_was_told_something_has_slept_least() -> None:
    made = paging(*MORE[:3])
    made.note_step(X, made.loaded[X])
    made.make_room(0)
    assert list(made.loaded) == [X, Z]


def test_busy_contract_is_never_paged_out() -> None:
    made = paging(*MORE[:3])
    busy = made.loaded[X]
    busy.step(0, IntentSubmitted("user", intent("A-1", X)))
    made.note_step(X, busy)
    made.make_room(1)
    assert list(made.loaded) == [X]


def test_contract_with_open_intents_that_has_not_been_told_to_go_on_yet_stays() -> None:
    made = Sequencers(SMALL)
    left_open = StoredContract((Restored(intent("A-1", X)),))
    made.add(X, Sequencer(A, Ids(1), MORE[0], SMALL, stored=left_open))
    for each in MORE[1:3]:
        made.add(each.address, sequencer_of(each))
    made.make_room(1)
    assert list(made.loaded) == [X]


def test_nobody_goes_while_there_is_room_or_when_all_are_busy() -> None:
    idle = paging(*MORE[:2])
    idle.make_room(0)
    assert list(idle.loaded) == [X, Y]
    made = paging(*MORE[:3])
    for address, each in made.loaded.items():
        each.step(0, IntentSubmitted("user", intent("A-1", address)))
        made.note_step(address, each)
    made.make_room(0)
    assert list(made.loaded) == [X, Y, Z]


def test_contract_that_falls_asleep_can_be_paged_out_again() -> None:
    bench = bench_of(*MORE[:2])
    bench.submit("A-1", X)
    bench.settle(A1, of=X)
    bench.wait(60_000)
    bench.hear(B, BACK, Y)
    bench.hear(B, BACK, Z)
    assert bench.loaded_contracts() == [Y, Z]


# Timers.


def test_only_contracts_whose_time_has_come_are_due_each_once() -> None:
    made = paging(*MORE[:2])
    for address, due_ms in ((X, 50), (Y, 20)):
        each = made.loaded[address]
        each.context.timers.set(each.coordinator, "timer", due_ms, Tick())
        made.note_step(address, each)
        made.note_step(address, each)
    assert made.next_due_ms() == 20
    assert made.take_due(10) is None
    assert [made.take_due(60), made.take_due(60), made.take_due(60)] == [Y, X, None]


def test_timer_that_was_stopped_or_set_anew_is_not_due() -> None:
    made = paging(*MORE[:2])
    each = made.loaded[X]
    each.context.timers.set(each.coordinator, "timer", 50, Tick())
    made.note_step(X, each)
    each.context.timers.set(each.coordinator, "timer", 70, Tick())
    made.note_step(X, each)
    assert made.next_due_ms() == 70
    each.context.timers.cancel(each.coordinator, "timer")
    made.note_step(X, each)
    assert made.next_due_ms() is None
    assert made.take_due(100) is None


# Loading.


def test_contract_is_asked_for_once_in_a_while() -> None:
    made = paging()
    assert made.load(0, X) == LoadContract(X)
    assert made.load(SMALL.request_timeout_ms - 1, X) is None
    assert made.load(SMALL.request_timeout_ms, X) == LoadContract(X)


def test_events_wait_in_order_and_are_handed_out_once() -> None:
    made = paging()
    assert made.await_loading(0, X, Tick()) == LoadContract(X)
    assert made.await_loading(0, X, ConnectionLost(B)) is None
    assert made.take_loaded(X) == (Tick(), ConnectionLost(B))
    assert made.take_loaded(X) == ()


def test_queue_of_waiting_events_is_bounded_for_all_contracts_together() -> None:
    made = paging()
    for address in (X, Y, Y):
        made.await_loading(0, address, Tick())
    assert made.is_full
    made.take_loaded(Y)
    assert not made.is_full


def test_contracts_on_their_way_take_the_room_of_those_who_sleep() -> None:
    made = paging(*MORE[:2])
    made.loaded[X].step(0, IntentSubmitted("user", intent("A-1", X)))
    made.note_step(X, made.loaded[X])
    assert not made.is_overloaded(Z)
    made.await_loading(0, Z, Tick())
    assert not made.is_overloaded(Z), "it is on its way already"
    assert made.is_overloaded(MORE[3].address), "only one slept"


def test_event_that_cannot_wait_is_turned_away_by_whoever_asks() -> None:
    made = paging()
    for _ in range(SMALL.paging_queue_max):
        made.await_loading(0, X, Tick())
    with pytest.raises(AssertionError, match="what cannot wait is turned away"):
        made.await_loading(0, X, Tick())


# In the node.


def test_end_of_a_dependency_means_nothing_for_a_contract_that_has_left_memory() -> None:
    ring = tuple(replace(each, committee=(B,), endorsers=(B,)) for each in MORE[:2])
    bench = bench_of(*ring)
    bench.submit("A-1", X)
    bench.submit("A-2", Y, depends_on=(A1,))
    bench.tell(ForContract(Y, CancelRequested("user", A2)))
    bench.wait(60_000)
    bench.hear(B, BACK, Z)
    assert bench.loaded_contracts() == [X, Z]
    bench.tell(ForContract(X, CancelRequested("user", A1)))
    assert bench.receipts() == [(A2, Outcome.REVERTED), (A1, Outcome.REVERTED)]


def test_message_brings_its_contract_into_memory_and_is_taken_then() -> None:
    bench = bench_of(OURS, silent=(LoadContract,))
    bench.hear(B, HandoverRequest(RequestId(1, 1), HandoverReason.TRIED), X)
    assert bench.all(LoadContract) == [LoadContract(X)]
    bench.tell(ContractLoaded(replace(MORE[0], mode=Mode.RING, committee=(A, B)), StoredContract()))
    assert len(bench.said(Handover, B)) == 1


def test_intent_waits_for_its_contract_and_the_next_waits_behind_it() -> None:
    bench = bench_of(OURS, silent=(LoadContract,))
    bench.submit("A-1", X)
    bench.submit("A-2", X)
    assert bench.accepted() == []
    assert len(bench.all(LoadContract)) == 1
    bench.tell(bench.loaded(X))
    assert bench.accepted() == [A1, A2]


def test_load_that_was_lost_is_asked_for_again_by_the_next_event() -> None:
    bench = bench_of(OURS, silent=(LoadContract,))
    bench.submit("A-1", X)
    bench.wait(SMALL.request_timeout_ms)
    bench.silent = ()
    bench.submit("A-2", X)
    assert len(bench.all(LoadContract)) == 2
    assert bench.accepted() == [A1, A2]


def test_contract_that_is_loaded_twice_is_taken_once() -> None:
    bench = bench_of(OURS)
    bench.submit("A-1", X)
    known = bench.sequencer(X)
    bench.tell(bench.loaded(X))
    assert bench.sequencer(X) is known


def test_new_contract_is_in_memory_from_then_on() -> None:
    bench = bench_of(OURS)
    bench.tell(ContractLoaded(MORE[0], StoredContract()))
    assert bench.loaded_contracts() == [ADDRESS, X]


def test_users_of_a_contract_that_is_missing_are_told_so() -> None:
    bench = bench_of(OURS, silent=(LoadContract,))
    bench.submit("A-1", NOWHERE, key="once")
    bench.tell(ForContract(NOWHERE, CancelRequested("canceller", A2)))
    bench.tell(ForContract(NOWHERE, ResumeRequested("resumer", A2)))
    bench.tell(ContractMissing(NOWHERE))
    error = f"{NOWHERE} is not known to A"
    assert bench.all(ReplyToUser) == [
        ReplyToUser("A-1", A1, error, field="to"),
        ReplyToUser("canceller", A2, error),
        ReplyToUser("resumer", A2, error),
    ]
    bench.silent = ()
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A2)], "the key is free again"


def test_users_are_told_to_come_back_when_all_contracts_are_busy() -> None:
    bench = bench_of(*MORE[:2])
    bench.submit("A-1", X)
    bench.submit("A-2", Y)
    assert bench.submit("A-3", Z, key="once") == [ReplyToUser("A-3", intent_id("A-3"), FULL, is_temporary=True)]
    assert bench.all(LoadContract) == []
    bench.settle(A1, of=X)
    bench.wait(60_000)
    assert bench.submit("A-3", Z, key="once") == [ReplyToUser("A-3", intent_id("A-3"))]


def test_who_cancels_is_heard_though_all_contracts_are_busy() -> None:
    bench = bench_of(*MORE[:2])
    bench.submit("A-1", X)
    bench.submit("A-2", Y)
    bench.tell(ForContract(Z, CancelRequested("canceller", A1)))
    unknown = "there is no such intent under way at this node"
    assert bench.all(ReplyToUser)[-1] == ReplyToUser("canceller", A1, unknown)


def test_message_of_a_peer_is_taken_though_all_contracts_are_busy_as_its_author_may_wait_for_us() -> None:
    bench = bench_of(*MORE[:2])
    bench.submit("A-1", X)
    bench.submit("A-2", Y)
    bench.hear(B, BACK, Z)
    assert bench.loaded_contracts() == [X, Y, Z]
    assert bench.said(StartupAcknowledgement, B) == [StartupAcknowledgement(BACK.startup_id)]


def test_message_of_a_peer_is_dropped_when_too_many_events_wait_as_its_author_repeats_it() -> None:
    bench = bench_of(OURS, silent=(LoadContract,))
    for _ in range(SMALL.paging_queue_max):
        bench.hear(B, BACK, X)
    seen = len(bench.seen)
    bench.hear(B, BACK, Y)
    assert len(bench.seen) == seen


def test_users_are_told_to_come_back_when_too_many_events_wait() -> None:
    bench = bench_of(OURS, silent=(LoadContract,))
    for number in range(SMALL.paging_queue_max):
        assert bench.submit(f"A-{number + 2}", X) == []
    assert bench.submit("A-1", X) == [ReplyToUser("A-1", A1, FULL, is_temporary=True)]
    bench.tell(ForContract(X, CancelRequested("canceller", A1)))
    assert bench.all(ReplyToUser)[-1] == ReplyToUser("canceller", A1, FULL, is_temporary=True)


def made_up(number: int) -> ContractAddress:
    return ContractAddress(f"0x{number + 2**100:040x}")


def test_peers_that_name_contracts_without_end_keep_no_user_and_no_other_peer_away() -> None:
    bench = bench_of(OURS, config=Config(paging_queue_max=64), silent=(LoadContract,))
    for number in range(64):
        bench.hear(C, BACK, made_up(number))
    assert len(bench.all(LoadContract)) == 4
    bench.hear(B, BACK, X)
    assert bench.all(LoadContract)[-1] == LoadContract(X)
    for peer in range(64):
        bench.hear(NodeName(f"liar{peer}"), BACK, made_up(100 + peer))
    assert len(bench.all(LoadContract)) == 32
    assert bench.submit("A-1", Y) == []
    assert bench.all(LoadContract)[-1] == LoadContract(Y)


def large(number: int, size: int) -> StateDistribution:
    return StateDistribution(Digest(number.to_bytes(32, "big")), (replace(transition("B-1"), unknown=bytes(size)),))


def test_peers_that_send_large_messages_of_made_up_contracts_take_bounded_memory() -> None:
    config = Config(paging_queue_max=640, paging_bytes_max=160_000)
    bench = bench_of(OURS, config=config, silent=(LoadContract,))
    for number in range(10):
        bench.hear(C, large(number, 3_000), made_up(number))
    assert len(bench.all(LoadContract)) == 2
    bench.hear(B, large(1, 90_000), made_up(100))
    assert bench.all(LoadContract)[-1] == LoadContract(made_up(100))
    bench.hear(D, large(1, 90_000), made_up(101))
    bench.hear(B, BACK, made_up(102))
    assert len(bench.all(LoadContract)) == 3
    bench.hear(D, BACK, X)
    assert bench.all(LoadContract)[-1] == LoadContract(X)
    bench.submit("A-1", Y)
    assert bench.all(LoadContract)[-1] == LoadContract(Y)


def test_message_that_is_larger_than_all_memory_for_waiting_ones_waits_when_no_other_does() -> None:
    bench = bench_of(OURS, config=Config(paging_bytes_max=1_000), silent=(LoadContract,))
    bench.hear(B, large(1, 3_000), X)
    bench.hear(C, BACK, Y)
    assert bench.all(LoadContract) == [LoadContract(X)]
    bench.tell(bench.loaded(X))
    bench.hear(C, BACK, Y)
    assert bench.all(LoadContract)[-1] == LoadContract(Y)


def test_contracts_whose_loading_was_lost_take_no_room_for_ever() -> None:
    """The store was away, or had too many questions; nobody names a contract that was made up once more."""
    bench = bench_of(OURS, silent=(LoadContract,))
    bench.hear(B, BACK, made_up(1))
    bench.submit("A-1", X)
    bench.hear(B, BACK, Y)
    assert LoadContract(Y) not in bench.all(LoadContract)
    bench.wait(11 * SMALL.request_timeout_ms)
    bench.silent = ()
    bench.hear(B, BACK, Y)
    assert bench.said(StartupAcknowledgement, B) == [StartupAcknowledgement(BACK.startup_id)]
    bench.tell(bench.loaded(X))
    assert [reply.error for reply in bench.all(ReplyToUser)] == [""], "what a user wants is not forgotten"


def test_memory_is_back_within_its_bound_when_those_sleep_that_woke_while_others_were_loaded() -> None:
    bench = bench_of(*MORE[:2], silent=(LoadContract,))
    woken = {A1: Z, A2: MORE[3].address, intent_id("A-3"): X, intent_id("A-4"): Y}
    for number, address in enumerate(woken.values(), 1):
        bench.submit(f"A-{number}", address)
    bench.silent = ()
    bench.tell(bench.loaded(Z))
    bench.tell(bench.loaded(MORE[3].address))
    assert bench.loaded_contracts() == [X, Y, Z, MORE[3].address]
    assert [reply.error for reply in bench.all(ReplyToUser) if reply.error] == [], "nobody is turned away late"
    for of, address in woken.items():
        bench.settle(of, of=address)
    bench.wait(60_000)
    bench.hear(B, BACK, MORE[4].address)
    assert bench.loaded_contracts() == [MORE[3].address, MORE[4].address]


def test_node_that_starts_with_more_contracts_than_there_is_room_for_lets_sleepers_go() -> None:
    bench = bench_of(*MORE)
    assert len(bench.loaded_contracts()) == SMALL.sequencers_max


def test_answer_for_a_contract_that_is_not_in_memory_loads_nothing() -> None:
    bench = bench_of(OURS)
    seen = len(bench.seen)
    bench.tell(ForContract(X, TransitionSigned(RequestId(1, 1), A1, b"")))
    assert len(bench.seen) == seen


def test_chain_loads_a_contract_that_it_names_if_there_is_room() -> None:
    bench = bench_of(OURS)
    bench.block((X, outcome(A1, X)))
    assert bench.loaded_contracts() == [ADDRESS, X]
    bench.block((Y, outcome(A1, Y)))
    assert bench.loaded_contracts() == [ADDRESS, X]
    assert bench.all(LoadContract) == [LoadContract(X)]


def test_chain_asks_for_a_contract_that_is_on_its_way_only_once() -> None:
    bench = bench_of(OURS, silent=(LoadContract,))
    bench.block((X, outcome(A1, X)))
    bench.block((X, outcome(A2, X)))
    assert bench.all(LoadContract) == [LoadContract(X)]


def test_contract_that_comes_into_memory_hears_what_unfinal_blocks_said_of_it() -> None:
    bench = bench_of(OURS, config=replace(SMALL, confirmations=2), silent=(LoadContract,))
    bench.block(time_s=GENESIS_S + 1)
    bench.block((X, outcome(A1, X)), time_s=GENESIS_S + 2)
    bench.block((OTHER, outcome(A2, OTHER)), time_s=GENESIS_S + 3)
    bench.tell(bench.loaded(X))
    loaded = bench.sequencer(X)
    assert loaded.coordinator.outcomes.is_committed(A1)
    assert not loaded.coordinator.outcomes.is_committed(A2)
    assert (loaded.context.height, loaded.context.chain_time_s) == (3, GENESIS_S + 3)


def test_contract_that_comes_back_hears_what_is_final_here_and_not_yet_again_in_the_store() -> None:
    """Seed 122 (L1): the chain had become shorter; the store did not take for final what had been told as such."""
    bench = bench_of(OURS, config=replace(SMALL, confirmations=2), silent=(LoadContract,))
    bench.submit("A-1", X)
    bench.tell(bench.loaded(X))
    bench.block((X, outcome(A1, X)))
    bench.block()
    bench.block()
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]
    bench.wait(60_000)
    bench.hear(B, BACK, Y)
    bench.tell(bench.loaded(Y))
    bench.hear(B, BACK, Z)
    bench.tell(bench.loaded(Z))
    assert X not in bench.loaded_contracts()
    bench.shorten(1)
    bench.hear(B, BACK, X)
    bench.tell(bench.loaded(X))
    assert bench.sequencer(X).sender.transactions == {}


def test_contract_loaded_while_blocks_become_final_reports_their_outcomes() -> None:
    """The store answered with a copy from before those blocks, and nothing repeats them afterwards."""
    bench = bench_of(OURS, config=replace(SMALL, confirmations=2), silent=(LoadContract,))
    bench.submit("A-1", X)
    bench.tell(bench.loaded(X))
    bench.restart()
    bench.hear(B, BACK, X)
    answer = bench.loaded(X)
    bench.block((X, outcome(A1, X)))
    bench.block()
    bench.block()
    assert bench.receipts() == []
    bench.tell(answer)
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]


def test_contract_that_comes_back_knows_our_dispatches_of_it_that_have_no_outcome() -> None:
    dispatch = RoundDispatch(order(B1, of=X, sender=B), "A", 0)
    bench = NodeBench(
        contracts=(OURS,),
        known=MORE,
        stored=StoredNode(1, dispatches=(dispatch,), accounts={SHARED_ACCOUNT: StoredAccount(1)}, blocks=(START,)),
    )
    command = DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1", X), DelegationNumber(1, 1)),))
    bench.hear(B, command, X)
    assert [accepted.answers[0].answer for accepted in bench.said(DelegationAccepted, B)] == [Answer.DISPATCHED]


def test_contract_that_comes_back_makes_up_for_connections_and_ledger() -> None:
    bench = bench_of(OURS)
    bench.tell(ConnectionLost(B))
    bench.has_chain = False
    bench.wait(SMALL.ledger_grace_ms)
    bench.hear(C, BACK, X)
    loaded = bench.sequencer(X)
    assert (loaded.observer.is_silent(B), loaded.context.has_ledger) == (True, False)


def test_contract_that_said_it_has_no_ledger_stays_until_it_has_said_that_it_is_back() -> None:
    bench = bench_of(*(replace(each, committee=(A, B), mode=Mode.RING) for each in MORE[:2]))
    bench.has_chain = False
    bench.wait(SMALL.ledger_grace_ms)
    bench.hear(B, BACK, X)
    bench.hear(B, BACK, Y)
    bench.hear(B, BACK, Z)
    assert bench.loaded_contracts() == [X, Y, Z], "beyond the bound, as none of them may go"
    bench.has_chain = True
    bench.show_head()
    assert bench.node.has_ledger
    last = {sent.envelope.contract: sent.envelope.no_ledger for sent in bench.all(SendMessage)}
    assert (last[X], last[Y]) == (False, False), "of Z nobody but us is a member"
    for sent in bench.all(SendMessage):
        if isinstance(sent.envelope.body, Startup):
            bench.hear(B, StartupAcknowledgement(sent.envelope.body.startup_id), sent.envelope.contract)
    bench.wait(SMALL.request_timeout_ms)
    bench.hear(B, BACK, MORE[3].address)
    assert bench.loaded_contracts() == [Y, MORE[3].address]


def test_states_for_a_contract_that_sleeps_in_the_store_bring_it_back_and_are_acknowledged() -> None:
    made = made_states(X)
    bench = bench_of(OURS)
    bench.hear(B, StateDistribution(order(B1).digest, (made,)), X)
    assert bench.records(StatesReceived) == [StatesReceived(order(B1).digest, (Consistent(made),), peer=B)]
    assert bench.said(StateDistributionAcknowledgement, B) == [StateDistributionAcknowledgement(order(B1).digest)]


def made_states(of: ContractAddress) -> Transition:
    """A transition with a state that is meant for us."""
    separator = domain_separator(OURS.chain_id, of)
    commitment = state_commitment(b"content")
    leaf = leaf_of(core_of(separator, B1, outputs=(commitment,)))
    made = State(StateId(leaf, 0), commitment, (A,), b"content")
    return Transition(B1, leaf, (), (), (made,), (), GENESIS_S + 600, b"signed")


def test_message_does_not_wait_beyond_the_queue_though_its_peer_has_room() -> None:
    made = paging()
    message = MessageReceived(B, Envelope(X, RequestId(1, 1), 1, 0, Startup(RequestId(1, 1))))
    assert made.may_wait(0, message)
    for address in (X, Y, Y):
        made.await_loading(0, address, Tick())
    assert not made.may_wait(0, message)
