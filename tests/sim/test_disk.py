"""A simulated disk: what a new life finds on it, and what is looked up there."""

from __future__ import annotations

from dataclasses import replace

from rota.chain.effects import RoundDispatch
from rota.chain.submitters import StoredAccount
from rota.exchange.effects import StatesAcknowledged, StatesReceived
from rota.machine.effects import DispatchRound, IntentAccepted, IntentFinalised
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.consistency import Authorised, Consistent
from rota.model.digests import domain_separator, void_leaf
from rota.model.types import (
    SHARED_ACCOUNT,
    BlockHash,
    Contract,
    ContractAddress,
    Digest,
    Intent,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Outcome,
    Party,
    Receipt,
    Rotation,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LookUpIntents, NodeStarted
from rota.node.events import IntentsLookedUp
from rota.sequencer.effects import LeavesSigned
from rota.sim.disk import Disk
from rota.sim.domain import intent_id
from rota.sim.ledger import GENESIS

A, B, C = NodeName("A"), NodeName("B"), NodeName("C")
ADDRESS = ContractAddress("0x" + "00" * 20)
CONTRACT = Contract(ADDRESS, (A, B, C), (A, B), 2, Mode.RING, Rotation.STICKY, 100)
ROUND = Digest(b"r" * 32)


def transition(name: str) -> Authorised:
    leaf = Leaf(name.encode().ljust(32, b"\0"))
    made = State(StateId(leaf, 0), bytes(32), (A, B, C), b"content")
    return Authorised(Consistent(Transition(intent_id(name), leaf, outputs=(made,))))


def block(height: int, *leaves: tuple[IntentId, Leaf]) -> ChainBlock:
    outcomes = tuple((ADDRESS, LedgerOutcome(intent, leaf, ROUND, LedgerStatus.COMMITTED)) for intent, leaf in leaves)
    return ChainBlock(height, BlockHash(bytes([height]) * 32), GENESIS.hash, GENESIS.time_s + height, outcomes)


def accepted(disk: Disk, *names: str) -> None:
    for name in names:
        disk.write(ADDRESS, (IntentAccepted(Intent(intent_id(name), ADDRESS, Party("user@A"), b"mint")),))


def looked_up(disk: Disk, *names: str) -> IntentsLookedUp:
    return disk.look_up(LookUpIntents(1, "", tuple(intent_id(name) for name in names)), (CONTRACT,), 0)


def dispatch(nonce: int, *transitions: Transition) -> RoundDispatch:
    leaves, senders = tuple(each.leaf for each in transitions), (A,) * len(transitions)
    return RoundDispatch(DispatchRound(ADDRESS, ROUND, leaves, transitions, senders, (), 2_000_000), A, nonce)


# What is looked up.


def test_states_of_a_round_that_came_in_parts_are_all_found() -> None:
    disk, first, second = Disk(), transition("first"), transition("second")
    disk.write(ADDRESS, (StatesReceived(ROUND, (first,), 0),))
    disk.write(ADDRESS, (StatesReceived(ROUND, (second,), 1),))
    assert disk.find_states(ADDRESS, (first.leaf, second.leaf)) == ((ROUND, (first, second)),)


def test_only_the_states_that_are_asked_for_are_found() -> None:
    disk, first, second = Disk(), transition("first"), transition("second")
    disk.write(ADDRESS, (StatesReceived(ROUND, (first, second), 0),))
    assert disk.find_states(ADDRESS, (second.leaf,)) == ((ROUND, (second,)),)
    assert disk.find_states(ContractAddress("0x" + "11" * 20), (second.leaf,)) == ()


def test_what_a_sender_permitted_and_somebody_else_dispatched_is_found_whole() -> None:
    disk, made = Disk(), transition("first")
    accepted(disk, "first")
    disk.write(ADDRESS, (StatesReceived(ROUND, (replace(made, outputs=()),), 0),))
    disk.write(ADDRESS, (LeavesSigned((made,)),))
    disk.write(ADDRESS, (StatesReceived(ROUND, (made,), 1),))
    assert disk.find_states(ADDRESS, (made.leaf,)) == ((Digest(made.leaf), (made,)),)


def test_what_became_of_another_nodes_intent_is_not_told() -> None:
    disk, foreign = Disk(), transition("foreign")
    disk.blocks.append(block(1, (foreign.intent, foreign.leaf)))
    answer = looked_up(disk, "foreign")
    assert answer.outcomes == ()
    assert answer.unfinished == ()


def test_own_intents_are_confirmed_by_the_chain_reverted_by_us_or_unfinished() -> None:
    disk, own = Disk(), transition("own")
    accepted(disk, "own", "ended", "open", "voided")
    void = void_leaf(domain_separator(CONTRACT.chain_id, ADDRESS), intent_id("voided"))
    disk.blocks.append(block(1, (own.intent, own.leaf), (intent_id("voided"), void)))
    assert looked_up(disk, "own").outcomes == (), "its party is not known to have signed it"
    disk.write(ADDRESS, (LeavesSigned((own,)),))
    disk.write(ADDRESS, (IntentFinalised(Receipt(intent_id("ended"), Outcome.REVERTED)),))
    answer = looked_up(disk, "own", "ended", "open", "voided")
    assert answer.outcomes == ((own.intent, Outcome.CONFIRMED), (intent_id("ended"), Outcome.REVERTED))
    assert answer.unfinished == (intent_id("open"), intent_id("voided"))


# What a new life finds.


def test_each_restart_finds_what_was_written_since_and_what_was_before() -> None:
    disk = Disk()
    accepted(disk, "first")
    disk.write(ADDRESS, (NodeStarted(1),))
    before = disk.restore(A, (CONTRACT,), 0)
    accepted(disk, "second")
    disk.write(ADDRESS, (NodeStarted(2),))
    after = disk.restore(A, (CONTRACT,), 0)
    assert [known.intent.id for known in before.contracts[ADDRESS].intents] == [intent_id("first")]
    assert [known.intent.id for known in after.contracts[ADDRESS].intents] == [intent_id("first"), intent_id("second")]
    assert (before.incarnation, after.incarnation) == (1, 2)
    assert disk.restore(A, (CONTRACT,), 0) == after


def test_what_was_acknowledged_between_two_restarts_is_owed_no_more() -> None:
    disk, made = Disk(), transition("made")
    disk.write(ADDRESS, (dispatch(0, made),))
    assert disk.restore(A, (CONTRACT,), 0).owed == (B, C)
    disk.write(ADDRESS, (StatesAcknowledged(ROUND, B, 0),))
    assert disk.restore(A, (CONTRACT,), 0).owed == (C,)
    disk.write(ADDRESS, (StatesAcknowledged(ROUND, C, 0),))
    assert disk.restore(A, (CONTRACT,), 0).owed == ()


def test_nonce_that_went_to_another_dispatch_owes_only_the_states_of_that_one() -> None:
    disk, lost, made = Disk(), transition("lost"), transition("made")
    disk.write(ADDRESS, (replace(dispatch(0, lost), round=replace(dispatch(0, lost).round, digest=Digest(b"l" * 32))),))
    disk.restore(A, (CONTRACT,), 0)
    disk.write(ADDRESS, (dispatch(0, made),))
    stored = disk.restore(A, (CONTRACT,), 0)
    assert {delivery.digest for delivery in disk.undelivered(A)} == {ROUND}
    assert stored.accounts == {SHARED_ACCOUNT: StoredAccount(1)}


def test_block_that_was_taken_back_confirms_nothing() -> None:
    disk, own = Disk(), transition("own")
    accepted(disk, "own")
    disk.blocks.append(block(1, (own.intent, own.leaf)))
    (used,) = disk.restore(A, (CONTRACT,), 0).contracts[ADDRESS].intents
    assert used.used_leaf == own.leaf
    disk.write(ADDRESS, (LeavesSigned((own,)),))
    assert disk.restore(A, (CONTRACT,), 0).contracts[ADDRESS].intents == ()
    disk.blocks.pop()
    assert [known.intent.id for known in disk.restore(A, (CONTRACT,), 0).contracts[ADDRESS].intents] == [own.intent]
    # It had ended for a node that was restored in between: a judge does not count it among those that users opened.
    assert disk.over == {own.intent}
