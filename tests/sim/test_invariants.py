"""Each invariant by itself: told facts that keep it, and facts that do not."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from rota.chain.effects import BlocksIndexed, RoundDispatch
from rota.exchange.effects import StatesReceived
from rota.machine.effects import DispatchRound, IntentAccepted, IntentFinalised, Record, TransitionPrepared
from rota.model.blocks import ChainBlock
from rota.model.config import Config
from rota.model.consistency import Authorised, Consistent
from rota.model.digests import core_of, domain_separator, leaf_of, round_digest, state_commitment, void_leaf
from rota.model.types import (
    SHARED_ACCOUNT,
    BlockHash,
    Contract,
    ContractAddress,
    DelegationNumber,
    HeartbeatNumber,
    Intent,
    IntentId,
    KeptStates,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    RequestId,
    Rotation,
    State,
    StateId,
    Transition,
    Tried,
)
from rota.sequencer.effects import (
    IntentParked,
    LeavesSigned,
    PermissionGranted,
    PreparedAcknowledged,
    PreparedEndorsed,
    TransitionIssued,
)
from rota.sim.facts import (
    Assembled,
    BlockMined,
    Committed,
    Fact,
    FaultsEnded,
    HeartbeatSeen,
    Indexed,
    LedgerStood,
    Measured,
    Promised,
    Recorded,
    Remembered,
    RememberedIntent,
    Reorganised,
    Reported,
    Request,
    Started,
    Stopped,
    Submitted,
    Undone,
)
from rota.sim.invariants import AFTER_LOST_BLOCKS, AMONG_LIARS, EVERY, Count, Judge, Terms
from rota.sim.invariants.endings import (
    GIVES_WAY_WITHIN_MS,
    HEARD_WITHIN_MS,
    LEADERS_KNOWN_AFTER_MS,
    LEADING_HEARTBEATS_MIN,
    SETTLED_AFTER_MS,
    leader_of,
)
from rota.sim.services import sign, verify
from rota.wire.messages import (
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorState,
    Delegation,
    DelegationCommand,
    DispatchConfirmationResponse,
    EndorsementRequest,
    Envelope,
    Message,
    PreparedTransaction,
    StateDistribution,
    StateDistributionAcknowledgement,
)

A, B, C = NodeName("A"), NodeName("B"), NodeName("C")
ADDRESS = ContractAddress("0x" + "07" * 20)
CONTRACT = Contract(ADDRESS, (A, B), (A, B), 2, rotation=Rotation.STRICT, range_size=4)
ID = IntentId(b"A-1".ljust(16, b"\x00"))
INTENT = Intent(ID, ADDRESS, Party("user@A"), b"mint")
NUMBER = DelegationNumber(1, 1)
USED = {SHARED_ACCOUNT: 1}
NOTHING = Remembered(1, {}, {}, frozenset())
LATE_MS = LEADERS_KNOWN_AFTER_MS + 1


def transition(name: bytes = b"A-1", *inputs: StateId, seen_by: tuple[NodeName, ...] = (A, B)) -> Authorised:
    intent = IntentId(name.ljust(16, b"\x00"))
    content = b"/".join((name, *(reference.leaf for reference in inputs)))
    commitment = state_commitment(content)
    separator = domain_separator(CONTRACT.chain_id, ADDRESS)
    leaf = leaf_of(core_of(separator, intent, inputs=inputs, outputs=(commitment,)))
    made = State(StateId(leaf, 0), commitment, seen_by, content)
    return Authorised(Consistent(Transition(intent, leaf, inputs, (), (made,))))


class Said(NamedTuple):
    """A message, and who says it to whom."""

    node: NodeName
    peer: NodeName
    body: Message


MADE = transition()
OTHER = transition(b"A-1", StateId(transition(b"A-0").leaf, 0))
PREPARED = PreparedTransaction(
    round_digest(domain_separator(CONTRACT.chain_id, ADDRESS), (MADE.leaf,), 900), (MADE.leaf,), 900, (), MADE
)
# What a forgetful life remembers, and a mindful one.
LEAVES = (frozenset[Leaf](), frozenset({MADE.leaf}))


def dispatch(nonce: int, *made: Transition, signers: tuple[NodeName, ...] = (A, B)) -> RoundDispatch:
    leaves = tuple(each.leaf for each in made)
    digest = round_digest(domain_separator(CONTRACT.chain_id, ADDRESS), leaves, 9)
    signatures = tuple((node, sign(node, digest)) for node in signers)
    return RoundDispatch(DispatchRound(ADDRESS, digest, leaves, made, (A,) * len(made), signatures, 9), "B", nonce)


def recorded(node: NodeName, record: Record) -> Recorded:
    return Recorded(node, ADDRESS, record)


def granted(made: Authorised = MADE, number: DelegationNumber = NUMBER, to: NodeName = B) -> Recorded:
    return recorded(A, PermissionGranted(made.intent, number, to, made.leaf, made.valid_until_s))


def found(*facts: Fact | Said, concludes: bool = False, depth: int = 3) -> list[str]:
    """The invariants that these facts violate."""
    judge = Judge(Terms((A, B, C), {ADDRESS: CONTRACT}, depth, verify), EVERY)
    for fact in facts:
        if isinstance(fact, Said):
            judge.tell_sent(fact.node, fact.peer, Envelope(ADDRESS, RequestId(1, 1), 0, 0, fact.body))
        else:
            judge.tell(fact)
    if concludes:
        judge.conclude()
    return list(dict.fromkeys(violation.invariant for violation in judge.found))


def heartbeats(node: NodeName, *, height: int = 0, at_ms: int = LATE_MS, count: int = 1) -> list[HeartbeatSeen]:
    return [HeartbeatSeen(node, ADDRESS, CoordinatorState.ACTIVE, height, at_ms) for _ in range(count)]


ACCEPTED = recorded(A, IntentAccepted(INTENT))
DELEGATED = Said(A, B, DelegationCommand(RequestId(1, 1), (Delegation(INTENT, NUMBER),)))
CONFIRMED = Reported(A, Receipt(ID, Outcome.CONFIRMED, leaf=MADE.leaf))
REVERTED = Reported(A, Receipt(ID, Outcome.REVERTED))
FINALISED = recorded(A, IntentFinalised(REVERTED.receipt))
COMMIT = Committed(ADDRESS, 1, MADE)
LEADER = leader_of(CONTRACT, 0)
FOLLOWER = B if LEADER == A else A


@pytest.mark.parametrize(
    ("facts", "violated"),
    [
        ((COMMIT, CONFIRMED), []),
        ((COMMIT, COMMIT), ["S1"]),
        ((FINALISED, REVERTED, COMMIT), ["S1"]),
        ((COMMIT, FINALISED), ["S1"]),
        ((COMMIT, CONFIRMED, FINALISED), ["S1"]),
        ((COMMIT, CONFIRMED, Reorganised(3), Undone(ADDRESS, 1, MADE)), ["S1"]),
        ((COMMIT, CONFIRMED, Reorganised(4), Undone(ADDRESS, 1, MADE)), []),
        ((COMMIT, Reorganised(1), Undone(ADDRESS, 1, MADE), COMMIT, CONFIRMED), []),
    ],
)
def test_outcome_is_one_and_stays(facts: tuple[Fact, ...], violated: list[str]) -> None:
    assert [name for name in found(*facts) if name in ("S1", "S2")] == violated


def test_state_is_spent_once_and_not_before_it_was_made() -> None:
    first, spender, rival = transition(b"A-0"), OTHER, transition(b"A-2", StateId(transition(b"A-0").leaf, 0))
    facts = [Committed(ADDRESS, 1, first), Committed(ADDRESS, 2, spender)]
    assert found(*facts) == []
    assert found(*facts, Committed(ADDRESS, 3, rival)) == ["S2"]
    assert found(Committed(ADDRESS, 1, spender)) == ["S2"]


def test_acknowledged_intent_is_on_the_disk_and_in_the_next_life() -> None:
    promised = Promised(A, Request.SUBMIT, ID)
    assert found(promised) == ["S3"]
    assert found(recorded(A, IntentAccepted(INTENT)), promised) == []
    assert found(recorded(A, IntentAccepted(INTENT)), promised, Stopped(A), Started(A, NOTHING)) == ["S3"]


def test_one_number_permits_one_leaf_to_the_one_it_was_delegated_to() -> None:
    assert found(granted(), granted()) == []
    assert found(granted(), granted(OTHER)) == ["S4"]
    assert found(granted(), granted(OTHER, DelegationNumber(1, 2))) == []
    delegated = Said(A, C, DelegationCommand(RequestId(1, 1), (Delegation(INTENT, NUMBER),)))
    assert found(delegated, granted()) == ["S4"]


def test_round_is_sent_with_permission_for_its_leaves_and_enough_valid_endorsements() -> None:
    order = dispatch(0, MADE)
    known = (ACCEPTED, DELEGATED)
    assert found(*known, granted(), recorded(B, order), Submitted(B, order)) == []
    assert found(*known, recorded(B, order), Submitted(B, order)) == ["S5"]
    assert found(*known, granted(OTHER), recorded(B, order), Submitted(B, order)) == ["S5"]
    thin = dispatch(0, MADE, signers=(A,))
    assert found(*known, granted(), recorded(B, thin), Submitted(B, thin)) == ["S5"]


def test_void_of_a_prepared_intent_is_sent_without_permission_after_the_time_that_its_endorsers_keep_its_states() -> (
    None
):
    def at(time_s: int, *nodes: NodeName) -> tuple[Fact, ...]:
        block = ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), time_s)
        return BlockMined(1, time_s), *(recorded(node, BlocksIndexed(0, (block,))) for node in nodes)

    def signed(*nodes: NodeName) -> tuple[Fact, ...]:
        return tuple(recorded(node, PreparedEndorsed((kept,))) for node in nodes)

    hold_s = Config().prepared_hold_s
    kept = KeptStates(ID, MADE.leaf, (), 900)
    leaf = void_leaf(domain_separator(CONTRACT.chain_id, ADDRESS), ID)
    void = dispatch(0, Transition(ID, leaf))
    both, sent = (*at(1_000, A, B), *signed(A, B)), (recorded(B, void), Submitted(B, void))
    assert found(ACCEPTED, *both, *at(1_001 + hold_s), *sent) == []
    assert found(ACCEPTED, *both, *at(1_000 + hold_s), *sent) == ["S5"], "too early"
    assert found(ACCEPTED, *at(1_000, A, B), *signed(A), *at(1_001 + hold_s), *sent) == ["S5"], "B has no record of it"
    own = dispatch(0, Transition(ID, leaf, signature=b"of its party"))
    assert found(ACCEPTED, *both, *at(1_001 + hold_s), recorded(B, own), Submitted(B, own)) == ["S5"]


def test_permission_counts_on_its_senders_disk_for_its_dispatcher_under_a_number_that_this_was_given() -> None:
    order = dispatch(0, MADE)
    sent = (recorded(B, order), Submitted(B, order))
    record = granted().record
    assert found(ACCEPTED, DELEGATED, recorded(C, record), *sent) == ["S5"], "on another node's disk"
    assert found(ACCEPTED, DELEGATED, granted(to=C), *sent) == ["S4", "S5"], "to another"
    assert found(ACCEPTED, DELEGATED, granted(number=DelegationNumber(1, 2)), *sent) == ["S5"], "a number of nobody"
    assert found(ACCEPTED, granted(), *sent) == ["S5"], "nothing was delegated to the dispatcher"
    own = dispatch(0, MADE)
    assert found(ACCEPTED, granted(to=A), recorded(A, own), Submitted(A, own)) == [], "it coordinates for itself"


def test_nonce_has_one_payload_and_no_gap_before_it() -> None:
    first, second = dispatch(0, MADE), dispatch(0, OTHER)
    second_number = Delegation(INTENT, DelegationNumber(1, 2))
    delegated = Said(A, B, DelegationCommand(RequestId(1, 2), (second_number,)))
    known = (ACCEPTED, DELEGATED, granted(), delegated, granted(OTHER, DelegationNumber(1, 2)))
    assert found(*known, recorded(B, first), recorded(B, second), Submitted(B, second)) == []
    assert found(*known, recorded(B, first), Submitted(B, first), recorded(B, second)) == ["S7"]
    assert found(*known, recorded(B, dispatch(1, MADE))) == ["S7"]
    assert found(*known, Submitted(B, first)) == ["S7"]


def test_bytes_of_a_state_reach_nobody_who_is_not_on_its_list_whatever_the_copy_says() -> None:
    private = transition(seen_by=(A,))
    made = Assembled(A, ADDRESS, private)
    digest = dispatch(0, private).round.digest
    assert found(made, Said(A, B, StateDistribution(digest, (private,)))) == ["S8"]
    assert found(made, Said(A, B, StateDistribution(digest, (private.as_seen_by(B),)))) == []
    assert found(made, recorded(B, StatesReceived(digest, (transition(),)))) == ["S8"]


def test_message_that_binds_its_author_rests_on_a_record() -> None:
    digest = dispatch(0, MADE).round.digest
    sent = Said(B, A, StateDistribution(digest, (MADE,)))
    acknowledged = Said(A, B, StateDistributionAcknowledgement(digest))
    assert found(sent, acknowledged) == ["S9"]
    assert found(sent, recorded(A, StatesReceived(digest, (MADE,))), acknowledged) == []
    assert found(Said(A, B, DispatchConfirmationResponse(RequestId(1, 1), (ID,)))) == ["S9"]
    result = AssemblyResult(ID, AssemblyOutcome.ASSEMBLED, NUMBER, MADE)
    answered = Said(A, B, AssembleResponse(RequestId(1, 1), (result,)))
    signed = LeavesSigned((MADE,))
    assert found(answered) == ["S9"]
    assert found(recorded(A, signed), answered) == []


def test_next_life_goes_on_where_the_last_one_stopped() -> None:
    order = recorded(B, dispatch(0, MADE))
    owed = frozenset({A})
    assert found(order, Started(B, Remembered(1, USED, {}, owed))) == []
    assert found(order, Started(B, Remembered(1, {}, {}, owed))) == ["S9"]
    assert found(order, Started(B, Remembered(0, USED, {}, owed))) == ["S9"]
    private = dispatch(0, transition(seen_by=(A, B, C)))
    assert found(recorded(B, private), Started(B, Remembered(1, USED, {}, frozenset()))) == ["S9"]


def test_next_life_knows_what_was_given_prepared_to_its_user() -> None:
    written = (recorded(A, IntentAccepted(INTENT)), recorded(A, TransitionIssued(PREPARED, 900)))
    for issued, verdict in ((MADE.leaf, []), (None, ["S9"]), (OTHER.leaf, ["S9"])):
        known = {ID: RememberedIntent(None, False, False, issued)}
        assert found(*written, Started(A, Remembered(1, {}, known, frozenset()))) == verdict


def test_next_life_sends_what_is_prepared_until_it_is_acknowledged_or_on_the_chain() -> None:
    written = recorded(B, TransitionPrepared(A, PREPARED))
    forgetful, mindful = (Started(B, Remembered(1, {}, {}, frozenset(), leaves)) for leaves in LEAVES)
    assert found(written, mindful) == []
    assert found(written, forgetful) == ["S9"]
    assert found(written, recorded(B, PreparedAcknowledged(ID, MADE.leaf)), forgetful) == []
    assert "S9" not in found(written, Committed(ADDRESS, 1, MADE), forgetful)


def test_next_life_keeps_what_it_has_signed_prepared_until_that_is_on_the_chain() -> None:
    written = recorded(B, PreparedEndorsed((KeptStates(ID, MADE.leaf, MADE.inputs, 900),)))
    forgetful, mindful = (Started(B, Remembered(1, {}, {}, frozenset(), frozenset(), leaves)) for leaves in LEAVES)
    assert found(written, mindful) == []
    assert found(written, forgetful) == ["S9"]
    assert "S9" not in found(written, Committed(ADDRESS, 1, MADE), forgetful)


def test_prepared_transition_leaves_when_it_is_durable() -> None:
    assert found(Said(B, A, PREPARED)) == ["S9"]
    assert found(recorded(B, TransitionPrepared(A, PREPARED)), Said(B, A, PREPARED)) == []


def test_queue_is_not_longer_than_its_bound() -> None:
    assert found(Measured(A, (("intents", 5, 5), ("rounds", 0, 1)))) == []
    assert found(Measured(A, (("intents", 6, 5), ("rounds", 0, 1)))) == ["S10"]
    assert found(Measured(A, (("intents", 5, 5), ("rounds", 2, 1)))) == ["S10"]


def test_promised_intent_ends_or_waits_for_its_user() -> None:
    begun: list[Fact] = [Started(A, NOTHING), recorded(A, IntentAccepted(INTENT)), Promised(A, Request.SUBMIT, ID)]
    assert found(*begun, concludes=True) == ["L1"]
    assert found(*begun, recorded(A, IntentParked(ID, "later")), concludes=True) == []
    assert found(*begun, FINALISED, REVERTED, concludes=True) == []
    assert found(*begun, FINALISED, concludes=True) == ["L1"]
    assert found(*begun, FINALISED, Started(A, Remembered(2, {}, {}, frozenset())), concludes=True) == []


def test_two_active_coordinators_are_one_too_many_when_the_faults_are_long_over() -> None:
    rivals = [*heartbeats(A, at_ms=SETTLED_AFTER_MS), *heartbeats(B, at_ms=SETTLED_AFTER_MS)]
    late = SETTLED_AFTER_MS + HEARD_WITHIN_MS
    assert found(FaultsEnded(0), *rivals, *heartbeats(B, at_ms=late - 1)) == []
    assert found(FaultsEnded(0), *rivals, *heartbeats(B, at_ms=late)) == ["L2"]
    assert found(FaultsEnded(0), *rivals, Stopped(A), *heartbeats(B, at_ms=late), concludes=True) == []


@pytest.mark.parametrize("speaks", ["delegates", "asks for endorsement"])
def test_two_are_active_for_longer_when_one_of_them_is_demoted(speaks: str) -> None:
    """`rota simulate --seed 10 --minutes 0.5 --liars 0`, with a sender that left its delegate for its pace."""
    begun, late = SETTLED_AFTER_MS + 1, SETTLED_AFTER_MS + 1 + GIVES_WAY_WITHIN_MS

    def said(accused: NodeName, is_demoted: bool) -> Said:
        tried = (Tried(accused, HeartbeatNumber(1, 1), is_demoted),)
        if speaks == "delegates":
            return Said(C, B, DelegationCommand(RequestId(1, 1), (), tried))
        digest = dispatch(0, MADE).round.digest
        return Said(B, A, EndorsementRequest(RequestId(1, 1), digest, (MADE,), (Party("user@A"),), 9, tried))

    def rivals(accused: NodeName, until_ms: int, is_demoted: bool = True) -> list[Fact | Said]:
        both = [*heartbeats(A, at_ms=begun), *heartbeats(B, at_ms=begun)]
        return [FaultsEnded(0), *both, said(accused, is_demoted), *heartbeats(B, at_ms=until_ms)]

    assert found(*rivals(A, late - GIVES_WAY_WITHIN_MS // 2)) == []
    assert found(*rivals(A, late), said(A, True), *heartbeats(B, at_ms=late)) == ["L2"], "it does not give way"
    assert found(*rivals(C, begun + HEARD_WITHIN_MS)) == ["L2"], "another one was demoted"
    assert found(*rivals(A, begun + HEARD_WITHIN_MS, is_demoted=False)) == ["L2"], "it was not reached, not demoted"
    gave_way = HeartbeatSeen(A, ADDRESS, CoordinatorState.CLOSING, 0, begun + 1)
    assert found(*rivals(A, begun), gave_way, *heartbeats(B, at_ms=late), concludes=True) == []


def test_who_leads_a_range_coordinates_it() -> None:
    many = LEADING_HEARTBEATS_MIN
    assert found(FaultsEnded(0), *heartbeats(LEADER, count=many)) == []
    assert found(FaultsEnded(0), *heartbeats(FOLLOWER, count=many - 1)) == []
    assert found(FaultsEnded(0), *heartbeats(FOLLOWER, count=many)) == ["L3"]


def test_everybody_on_its_list_holds_a_state_at_the_end() -> None:
    held = recorded(A, LeavesSigned((MADE,)))
    assert found(COMMIT, held, concludes=True) == ["L4"]
    assert (
        found(COMMIT, held, recorded(B, StatesReceived(dispatch(0, MADE).round.digest, (MADE,))), concludes=True) == []
    )


@pytest.mark.parametrize(("height", "unspent", "violated"), [(1, True, []), (0, True, ["L5"]), (1, False, ["L5"])])
def test_every_index_agrees_with_the_ledger(height: int, unspent: bool, violated: list[str]) -> None:
    states = frozenset({MADE.outputs[0].id})
    view = Indexed(A, ADDRESS, height, states if unspent else frozenset())
    assert found(LedgerStood(ADDRESS, 1, states), view, concludes=True) == violated


def test_every_checker_has_a_name_of_its_own() -> None:
    names = [checker.name for checker in {*EVERY, *AMONG_LIARS, *AFTER_LOST_BLOCKS}]
    assert len(names) == len(set(names))


def counted(name: str, *facts: Fact | Said, concludes: bool = False) -> tuple[int, int]:
    """How often an invariant was judged, and in how many of the cases it could have failed."""
    judge = Judge(Terms((A, B, C), {ADDRESS: CONTRACT}, 3, verify), EVERY)
    for fact in facts:
        if isinstance(fact, Said):
            judge.tell_sent(fact.node, fact.peer, Envelope(ADDRESS, RequestId(1, 1), 0, 0, fact.body))
        else:
            judge.tell(fact)
    if concludes:
        judge.conclude()
    count = judge.counts()[name]
    return count.judged, count.chances


def test_state_sent_to_a_node_on_its_list_is_judged_and_is_no_chance() -> None:
    private = transition(seen_by=(A, B))
    digest = dispatch(0, private).round.digest
    made = Assembled(A, ADDRESS, private)
    assert counted("S8", made, Said(A, B, StateDistribution(digest, (private,)))) == (1, 0)
    assert counted("S8", made, Said(A, C, StateDistribution(digest, (private.as_seen_by(C),)))) == (1, 1)


def test_states_of_makers_in_an_endorsement_request_are_judged() -> None:
    private = transition(seen_by=(A,))
    request = EndorsementRequest(
        RequestId(1, 1), dispatch(0, MADE).round.digest, (MADE,), (Party("user@A"),), 9, makers=(private,)
    )
    assert found(Assembled(A, ADDRESS, private), Said(A, B, request)) == ["S8"]


def test_queue_that_is_not_full_is_no_chance() -> None:
    assert counted("S10", Measured(A, (("intents", 4, 5), ("rounds", 1, 1)))) == (2, 1)


def test_first_permission_of_an_intent_that_never_moved_is_no_chance() -> None:
    assert counted("S4", granted()) == (1, 0)
    assert counted("S4", granted(), granted(OTHER, DelegationNumber(1, 2))) == (2, 1)


def test_counts_of_two_seeds_are_added_by_situation() -> None:
    assert Count(2, 1, {"disk": 1}).plus(Count(3, 0, {"disk": 0, "wire": 4})) == Count(5, 1, {"disk": 1, "wire": 4})
