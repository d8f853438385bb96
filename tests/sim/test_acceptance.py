"""S6 by itself: whom an endorser may sign for, by what it has received; L2 where all coordinate for themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.blocks import ChainBlock
from rota.model.config import Config
from rota.model.types import (
    BlockHash,
    Contract,
    ContractAddress,
    HeartbeatNumber,
    Mode,
    NodeName,
    Party,
    RequestId,
    Rotation,
    Tried,
)
from rota.sim.facts import (
    ConnectionChanged,
    ContractReset,
    Declined,
    Endorsed,
    Fact,
    HeightReached,
    PassedOver,
    Received,
    SteppedAside,
    Stopped,
)
from rota.sim.invariants import EVERY, Judge, Terms
from rota.sim.invariants.endings import ranking_of
from rota.sim.services import verify
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, EndorsementRequest, Envelope, Message
from tests.sim.test_invariants import MADE, dispatch

NAMES = tuple(map(NodeName, "ABCD"))
ADDRESS = ContractAddress("0x" + "07" * 20)
STICKY = Contract(ADDRESS, NAMES[:3], NAMES, 2, rotation=Rotation.STICKY, range_size=4)
STRICT = replace(STICKY, rotation=Rotation.STRICT)
FIRST, SECOND, THIRD = ranking_of(STICKY, 0)
D = NodeName("D")
SILENCE_MS = Config().silence_ms
DIGEST = dispatch(0, MADE).round.digest


def says(peer: NodeName, body: Message, at_ms: int = 0, *, height: int = 0, no_ledger: bool = False) -> Received:
    return Received(D, peer, Envelope(ADDRESS, RequestId(1, 1), 1, height, body, no_ledger), at_ms)


def beats(
    peer: NodeName, at_ms: int = 0, *, counter: int = 1, state: CoordinatorState = CoordinatorState.ACTIVE
) -> Received:
    return says(peer, CoordinatorHeartbeat(HeartbeatNumber(1, counter), state), at_ms)


def asks(peer: NodeName, at_ms: int = 0, *tried: NodeName, height: int = 0) -> Received:
    entries = tuple(Tried(each, HeartbeatNumber(1, 9)) for each in tried)
    request = EndorsementRequest(RequestId(1, 1), DIGEST, (MADE,), (Party("user@A"),), 9, entries)
    return says(peer, request, at_ms, height=height)


def signs_for(peer: NodeName, at_ms: int = 0) -> Endorsed:
    return Endorsed(D, ADDRESS, peer, RequestId(1, 1), DIGEST, at_ms)


def is_wrong(contract: Contract, *facts: Fact) -> bool:
    judge = Judge(Terms(NAMES, {ADDRESS: contract}, 3, verify), EVERY)
    for fact in facts:
        judge.tell(fact)
    return "S6" in {violation.invariant for violation in judge.found}


def test_strict_endorser_signs_for_the_first_of_the_ranking() -> None:
    assert not is_wrong(STRICT, asks(FIRST), signs_for(FIRST))
    assert is_wrong(STRICT, asks(SECOND), signs_for(SECOND))


@pytest.mark.parametrize(
    "reason",
    [
        (ConnectionChanged(D, FIRST, is_up=False, local_ms=0), asks(SECOND)),
        (asks(SECOND, 0, FIRST),),
        (beats(FIRST), asks(SECOND, SILENCE_MS)),
        (says(FIRST, CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.IDLE), no_ledger=True), asks(SECOND)),
    ],
    ids=["connection", "tried", "silence", "ledger"],
)
def test_strict_endorser_signs_for_the_second_with_a_reason_to_pass_over_the_first(reason: tuple[Fact, ...]) -> None:
    late_ms = SILENCE_MS if len(reason) == 2 else 0
    assert not is_wrong(STRICT, *reason, signs_for(SECOND, late_ms))
    assert is_wrong(STRICT, *reason, signs_for(THIRD, late_ms))


def test_silence_is_measured_by_the_endorsers_own_clock_and_ends_with_any_message() -> None:
    assert is_wrong(STRICT, beats(FIRST), asks(SECOND, SILENCE_MS - 1), signs_for(SECOND))
    ended = (beats(FIRST), beats(FIRST, SILENCE_MS, counter=2), asks(SECOND, SILENCE_MS))
    assert is_wrong(STRICT, *ended, signs_for(SECOND, SILENCE_MS))


def test_sticky_endorser_keeps_the_one_that_it_follows_until_a_better_one_lives() -> None:
    assert not is_wrong(STICKY, asks(THIRD), signs_for(THIRD))
    followed = (beats(THIRD), asks(THIRD))
    assert not is_wrong(STICKY, *followed, signs_for(THIRD))
    assert is_wrong(STICKY, *followed, beats(SECOND), signs_for(THIRD)), "a better one lives"
    assert not is_wrong(STICKY, *followed, beats(SECOND), asks(SECOND), signs_for(SECOND))
    assert is_wrong(STICKY, beats(SECOND), asks(THIRD), signs_for(THIRD)), "it follows a better one"
    assert not is_wrong(STICKY, beats(SECOND, state=CoordinatorState.CLOSING), asks(THIRD), signs_for(THIRD))


def test_sticky_endorser_may_leave_a_coordinator_whose_heartbeats_are_missing_while_its_requests_arrive() -> None:
    """Seed 80101 among liars: A lost D's heartbeats for 1.8 s, stopped observing D, and signed for B."""
    followed = (beats(SECOND), asks(SECOND, SILENCE_MS - 1))
    assert is_wrong(STICKY, *followed, asks(THIRD, SILENCE_MS - 1), signs_for(THIRD, SILENCE_MS - 1))
    assert not is_wrong(STICKY, *followed, asks(THIRD, SILENCE_MS), signs_for(THIRD, SILENCE_MS))


def test_endorser_that_changed_over_signs_no_more_for_the_one_before() -> None:
    changed = (asks(SECOND, 0, FIRST), asks(FIRST))
    assert is_wrong(STRICT, *changed, signs_for(SECOND))
    assert not is_wrong(STRICT, *changed, asks(SECOND, 1, FIRST), signs_for(SECOND))


def test_ranking_is_that_of_the_range_that_the_endorsers_index_is_in() -> None:
    block_range = next(number for number in range(1, 99) if ranking_of(STRICT, number)[0] != FIRST)
    height = 4 * block_range
    block = ChainBlock(height, BlockHash(bytes(32)), BlockHash(bytes(32)), 0)
    indexed = HeightReached(D, block.height)
    leader = ranking_of(STRICT, block_range)[0]
    assert not is_wrong(STRICT, indexed, asks(leader, height=height), signs_for(leader))
    assert is_wrong(STRICT, asks(leader, height=height), signs_for(leader))


def test_new_life_and_a_contract_that_is_read_again_know_nobody() -> None:
    followed = (beats(SECOND), asks(SECOND))
    assert not is_wrong(STICKY, *followed, Stopped(D), asks(THIRD), signs_for(THIRD))
    assert not is_wrong(STICKY, *followed, ContractReset(D, ADDRESS), asks(THIRD), signs_for(THIRD))
    assert is_wrong(STICKY, *followed, asks(THIRD), signs_for(THIRD))


def test_endorser_that_leaves_the_role_of_coordinator_follows_the_successor_that_it_names() -> None:
    """Seed 40 under hang, loss and crash: D heard a live one, and then stepped aside for another."""
    heard = (beats(SECOND), asks(SECOND))
    assert is_wrong(STICKY, *heard, signs_for(THIRD))
    assert not is_wrong(STICKY, *heard, SteppedAside(D, ADDRESS, THIRD), signs_for(THIRD))
    assert not is_wrong(STICKY, SteppedAside(D, ADDRESS, THIRD), signs_for(THIRD))
    assert is_wrong(STICKY, *heard, SteppedAside(FIRST, ADDRESS, THIRD), signs_for(THIRD)), "another one leaves"


def test_endorser_may_have_left_a_coordinator_whose_connection_was_lost_and_made_again() -> None:
    """Seed 203171: B's timer stopped observing C while C restarted; then A's heartbeat came, which C outranks."""
    heard = (beats(FIRST), asks(FIRST))
    lost, made = (ConnectionChanged(D, FIRST, is_up=is_up, local_ms=at_ms) for is_up, at_ms in ((False, 1), (True, 2)))
    assert is_wrong(STICKY, *heard, beats(SECOND), asks(SECOND), signs_for(SECOND))
    assert not is_wrong(STICKY, *heard, lost, made, beats(SECOND), asks(SECOND), signs_for(SECOND))
    another = lost._replace(peer=THIRD)
    assert is_wrong(STICKY, *heard, another, beats(SECOND), asks(SECOND), signs_for(SECOND)), "another was lost"


def test_endorser_may_have_left_a_coordinator_that_was_silent_until_its_connection_was_made_again() -> None:
    heard = (beats(FIRST), asks(FIRST))
    made = ConnectionChanged(D, FIRST, is_up=True, local_ms=SILENCE_MS)
    assert not is_wrong(STICKY, *heard, made, beats(SECOND, SILENCE_MS), signs_for(SECOND, SILENCE_MS))
    early = made._replace(local_ms=SILENCE_MS - 1)
    assert is_wrong(STICKY, *heard, early, beats(SECOND, SILENCE_MS - 1), signs_for(SECOND, SILENCE_MS - 1))


def test_endorser_that_has_no_ledger_when_another_asks_signs_on_for_the_one_that_it_follows() -> None:
    """Seed 203839: C was checking a round of D, lost its ledger and D, and rejected A with NoLedger."""
    lost = ConnectionChanged(D, SECOND, is_up=False, local_ms=0)
    asked = (beats(SECOND), asks(SECOND), lost, beats(FIRST), asks(FIRST))
    assert is_wrong(STICKY, *asked, signs_for(SECOND))
    before = (beats(SECOND), asks(SECOND), lost, asks(FIRST))
    assert is_wrong(STICKY, *before, signs_for(SECOND))
    assert not is_wrong(STICKY, *before, Declined(D, ADDRESS, FIRST), signs_for(SECOND))
    assert is_wrong(STICKY, *asked, Declined(D, ADDRESS, FIRST), signs_for(SECOND)), "a better one lives"


def test_endorser_may_pass_over_members_that_it_lists_as_unreached_itself() -> None:
    """Seed 1252: D, started again, delegated to the first in vain, then to itself, and signed for the second."""
    unreached = (Tried(FIRST, HeartbeatNumber(0, 0)),)
    asked = (asks(SECOND), signs_for(SECOND))
    assert is_wrong(STRICT, *asked)
    assert not is_wrong(STRICT, PassedOver(D, ADDRESS, unreached), *asked)
    assert is_wrong(STRICT, PassedOver(THIRD, ADDRESS, unreached), *asked), "another node's experience"


def test_static_contract_has_one_coordinator() -> None:
    static = replace(STICKY, mode=Mode.STATIC, committee=(FIRST,))
    assert not is_wrong(static, asks(FIRST), signs_for(FIRST))
    assert is_wrong(static, asks(SECOND), signs_for(SECOND))


def test_everybody_coordinates_for_itself_in_sender_mode() -> None:
    contract = replace(STICKY, mode=Mode.SENDER)

    def violated(sender: str) -> set[str]:
        judge = Judge(Terms(NAMES, {ADDRESS: contract}, 3, verify), EVERY)
        request = EndorsementRequest(RequestId(1, 1), DIGEST, (), (Party(sender),), 9)
        judge.tell_sent(NAMES[0], NAMES[1], Envelope(ADDRESS, RequestId(1, 1), 0, 0, request))
        assert judge.counts()["L2"].by["sender"] == 1
        return {violation.invariant for violation in judge.found}

    assert violated("user@A") == set()
    assert violated("user@B") == {"L2"}
