"""The world that scenarios are played in, and the language that they are written in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import RoundDispatch
from rota.machine.effects import DispatchRound
from rota.model.blocks import LedgerStatus
from rota.model.config import Config
from rota.model.types import (
    Contract,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Rotation,
    State,
    StateId,
    Transition,
)
from rota.sim.domain import intent_id
from rota.sim.ledger import Ledger
from rota.sim.network import ScriptError
from rota.sim.script import Run, Script
from rota.sim.world import World
from rota.wire.messages import CoordinatorState, HandoverReason

ADDRESS = ContractAddress("0x" + "00" * 20)
NODES = (NodeName("A"), NodeName("B"))
CONTRACT = Contract(ADDRESS, NODES, NODES, 2, Mode.RING, Rotation.STICKY, 100)
SIGNATURES = ((NODES[0], b"a"), (NODES[1], b"b"))
MADE = b"m" * 32


def script(commands: str, network: str = "nodes A B C, leaders B", expect: str = "0 rounds dispatched") -> Run:
    """A script whose commands begin at line 3."""
    return Run(Script.parse(f"network: {network}\nexpect: {expect}\n{commands}\n"))


def played(commands: str, network: str = "nodes A B C, leaders B", expect: str = "1 round dispatched") -> Run:
    run = script(commands, network, expect)
    run.play()
    return run


# A script that cannot be run names the line.


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("> start A", "line 3: start A: A is running"),
        ("> run 1 ms\n> explain A-1", "line 4: explain A-1: A-1 was not submitted"),
        ("> cancel A-1", "line 3: cancel A-1: A-1 was not submitted"),
        ("> resume A-1", "line 3: resume A-1: A-1 was not submitted"),
        ("> let A-1 spend", "line 3: let A-1 spend: A-1 was not submitted"),
        ("> submit A-1 at A\n> crash A\n> explain A-1", "line 5: explain A-1: A, the node of A-1, is down"),
        ("> crash A\n> submit A-1 at A", "line 4: submit A-1 at A: A is down"),
        ("> submit A-1 at Z", "line 3: submit A-1 at Z: there is no node Z"),
        ("> submit A-1 at A as", "line 3: submit A-1 at A as: cannot be understood"),
        ("> submit A-1 at A like spend", "line 3: submit A-1 at A like spend: cannot be understood"),
        ("> submit A-12345678901234567 at A", "line 3: .* has at most 16 bytes"),
        ("> until confirmed", "line 3: until confirmed: until what"),
        ("> reorganise 1", "line 3: reorganise 1: there are only 0 blocks"),
        ("> A claims to be King", "line 3: A claims to be King: a coordinator is one of Idle"),
        ("> run 1 ms\n\n> jump", "line 5: jump: unknown command"),
    ],
)
def test_command_that_makes_no_sense_is_refused_by_its_line(commands: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        script(commands).play()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("nodes A B, mode static", "line 1: .*it lacks 'leaders'"),
        ("nodes A B, set hearbeat_ms=5", "line 1: .*there is no setting hearbeat_ms"),
        ("nodes A B, set heartbeat_ms", "line 1: .*heartbeat_ms: nothing is no number"),
        ("nodes A B, set heartbeat_ms=0", "line 1: .*must be a whole number of at least 1"),
        ("nodes A B, leaders", "line 1: .*'leaders' has no value"),
        ("nodes A B, leaders C", "line 1: .*leaders: there is no node C"),
        ("nodes A B, members C", "line 1: .*members: there is no node C"),
        ("nodes A B, mode king", "line 1: .*mode is one of sender, static, ring, not king"),
        ("nodes A B, confirmations few", "line 1: .*confirmations: few is no number"),
        ("nodes A B,", "line 1: .*'nothing' has no value"),
        ("leaders B", "line 1: network: needs nodes"),
        ("nodes A B, kings A", "line 1: network: needs nodes, and knows no kings"),
    ],
)
def test_network_that_cannot_be_built_is_refused_by_its_line(network: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        script("> run 1 ms", network)


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("A-1 was Parked", "line 2: .*it was never Parked"),
        ("B was never Active", "line 2: .*it was Active"),
        ("A-2 ends before A-1", "line 2: .*they ended in this order: A-1"),
        ("A-1 is explained by: rain", "line 2: .*it is explained so: not at all"),
        ("A sends DelegationCommand A-2 to B", "line 2: .*it did not"),
    ],
)
def test_expectation_that_does_not_hold_says_what_did(expect: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        script("> submit A-1 at A\n> until A-1 confirmed", expect=expect).play()


# The network.


def test_members_are_the_committee_and_its_endorsers() -> None:
    contract = script("> run 1 ms", "nodes A B C, members A B").contract
    assert (contract.committee, contract.endorsers, contract.threshold) == (NODES, NODES, 2)


def test_duplicated_message_arrives_twice() -> None:
    run = played("> duplicate DelegationCommand from A to B\n> submit A-1 at A\n> until A-1 confirmed")
    answers = [
        text for kind, source, _, text in run.transcript.sent_kinds if (kind, source) == ("DelegationAccepted", "B")
    ]
    assert answers == ["DelegationAccepted A-1=accepted", "DelegationAccepted A-1=held"]
    assert any(one.text == "DelegationCommand A-1  [twice]" for one in run.transcript.happenings)


def test_forged_messages_bear_the_name_of_their_author() -> None:
    run = script("> run 1 ms")
    run.play()
    run.world.wires.forge_heartbeat(NodeName("C"), CoordinatorState.ACTIVE)
    run.world.wires.forge_request(NodeName("C"), NodeName("B"), HandoverReason.TRIED)
    sent = [(kind, source, target) for kind, source, target, _ in run.transcript.sent_kinds]
    assert sent == [
        ("CoordinatorHeartbeat", "C", "A"),
        ("CoordinatorHeartbeat", "C", "B"),
        ("HandoverRequest", "C", "B"),
    ]


# The ledger.


def dispatch(nonce: int, *transitions: Transition) -> RoundDispatch:
    leaves = tuple(transition.leaf for transition in transitions)
    digest = Digest(bytes([nonce]) * 32)
    order = DispatchRound(ADDRESS, digest, leaves, transitions, NODES[: len(transitions)], SIGNATURES, 2_000_000)
    return RoundDispatch(order, "signer", nonce)


def transition(name: str, *inputs: StateId) -> Transition:
    leaf = Leaf(name.encode().ljust(32, b"."))
    return Transition(intent_id(name), leaf, inputs, (), (State(StateId(leaf, 0), MADE, NODES, b""),))


def statuses(ledger: Ledger, height: int) -> list[LedgerStatus]:
    return [outcome.status for _, outcome in ledger.blocks[height].outcomes]


def test_block_that_is_taken_back_leaves_no_trace_and_is_mined_again() -> None:
    ledger = Ledger((CONTRACT,))
    first = transition("first")
    ledger.send(dispatch(0, first))
    ledger.mine(1_000_001)
    before = dict(ledger.states[ADDRESS].unspent)
    ledger.send(dispatch(1, transition("second", first.outputs[0].id)))
    ledger.mine(1_000_002)
    removed = ledger.take_back(1)
    assert [block.height for block in removed] == [2]
    assert (ledger.height, ledger.states[ADDRESS].unspent, ledger.states[ADDRESS].spent) == (1, before, {})
    assert [intent for _, intent, _ in ledger.commits] == [first.intent]
    ledger.mine(1_000_003)
    assert statuses(ledger, 2) == [LedgerStatus.COMMITTED]


def test_transaction_that_is_lost_with_its_block_leaves_its_nonce_open() -> None:
    ledger = Ledger((CONTRACT,))
    ledger.send(dispatch(0, transition("first")))
    ledger.mine(1_000_001)
    ledger.take_back(1, keeps_transactions=False)
    ledger.send(dispatch(1, transition("second")))
    assert not ledger.has_work()
    ledger.send(dispatch(0, transition("first")))
    ledger.mine(1_000_002)
    assert statuses(ledger, 1) == [LedgerStatus.COMMITTED, LedgerStatus.COMMITTED]


def test_empty_block_leaves_the_pool_as_it_is() -> None:
    ledger = Ledger((CONTRACT,))
    ledger.send(dispatch(0, transition("first")))
    assert ledger.mine(1_000_001, is_empty=True).outcomes == ()
    assert ledger.has_work()


@pytest.mark.parametrize("word", [b"revert-on-chain", b"revert-on-chain-for-good"])
def test_failing_call_skips_its_transition_and_nothing_else(word: bytes) -> None:
    payloads: dict[IntentId, bytes] = {intent_id("first"): word}
    ledger = Ledger((CONTRACT,), payloads)
    ledger.send(dispatch(0, transition("first"), transition("second")))
    (_, first), (_, second) = ledger.mine(1_000_001).outcomes
    assert (first.status, first.is_contention) == (LedgerStatus.SKIPPED, False)
    assert second.status is LedgerStatus.COMMITTED


# Nodes and the chain.


def test_chain_time_runs_ahead_and_every_index_hears_of_it() -> None:
    run = script("> wait 601 s of chain time\n> run 100 ms")
    run.play()
    assert {node.disk.blocks[-1].time_s for node in run.world.nodes.values()} == {1_000_601}


def test_receipts_wait_for_their_confirmations() -> None:
    run = script(
        "> submit A-1 at A\n> until A-1 Confirmed\n> mine\n> run 1 s", "nodes A B C, leaders B, confirmations 2"
    )
    with pytest.raises(ScriptError, match="1 rounds were dispatched"):
        run.play()
    assert run.world.receipts == {}
    run.do("mine")
    run.do("run 1 s")
    assert run.is_reported("A-1", "confirmed")


def test_restarted_node_indexes_again_what_is_not_final() -> None:
    commands = "> submit A-1 at A\n> until A-1 Confirmed\n> crash A\n> start A\n> mine 2\n> until A-1 confirmed"
    run = played(commands, "nodes A B C, leaders B, confirmations 2")
    assert len(run.world.receipts[run.intent("A-1")]) == 1


def test_index_that_lags_goes_back_to_the_common_ancestor() -> None:
    run = script("> mine 2\n> lag A\n> reorganise 2\n> mine 3\n> catch up A\n> run 1 s")
    run.play()
    lagging, follower = (run.world.nodes[name].disk for name in NODES)
    assert lagging.blocks == follower.blocks == run.world.ledger.blocks


def test_node_that_goes_on_indexes_what_it_missed() -> None:
    run = script("> hang A\n> mine 3\n> go on A\n> run 1 s")
    run.play()
    assert run.world.nodes[NODES[0]].disk.height == 3


def test_restarted_submitter_knows_every_nonce_that_is_not_mined() -> None:
    """A dispatch whose intent has an outcome by another round still holds a nonce that the chain waits for."""
    world = World(NODES, (CONTRACT,), Config())
    node = world.nodes[NODES[0]]
    first = transition("first")
    world.transitions[first.leaf] = first
    world.start(NODES[0])
    world.ledger.send(replace(dispatch(0, first), signer=NODES[0]))
    world.chain.mine()
    world.run_until(1_000)
    assert node.disk.height == 1
    world.crash(NODES[0])
    node.disk.records.extend([(ADDRESS, dispatch(0, first)), (ADDRESS, dispatch(1, first))])
    world.start(NODES[0])
    assert node.core is not None
    assert list(node.core.submitters.shared.submissions) == [1]
