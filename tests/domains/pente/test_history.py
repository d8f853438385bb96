"""Accounts are folded from their states: chained ahead of the chain, gone back, forgotten and built again."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from rota.domains.available import Known
from rota.domains.base import Behind, History, Lacking, Rejected
from rota.domains.contents import is_info, unseal
from rota.domains.pente import accounts
from rota.domains.pente.accounts import Accounts
from rota.domains.pente.changes import pack_predecessor
from rota.domains.pente.evm import EvmVersion
from rota.domains.pente.records import AccountState, PrivateTransaction
from rota.domains.records import Record
from rota.evm.private_evm import PrivateEvm
from rota.host import Background, Hosted, UserCall, assemble, call, learn
from rota.model.types import Leaf, NodeName, Party, State, StateId, Transition, address_bytes
from rota.testing.workloads.pente import call_of
from rota.wire.messages import Snapshot
from tests.domains.kit import assembly_order, intent, transition_of
from tests.domains.pente.members import ALICE, BOB, CAROL, VERIFIERS, Fails, Members, address_of, playground, token

KNOWN: dict[str, type[Record]] = {"PenteAccount": AccountState, "PenteTransaction": PrivateTransaction}
NODE1, NODE2, NODE3 = (NodeName(f"node{n}") for n in (1, 2, 3))


@pytest.fixture
def members() -> Members:
    return Members()


def snapshot_of(*transitions: Transition) -> Snapshot:
    """What is under way: all its states, and which of them are spent."""
    states = tuple(state for transition in transitions for state in transition.outputs)
    return Snapshot(tuple(reference for transition in transitions for reference in transition.inputs), states)


def store(members: Members, address: str, value: int, *under_way: Transition) -> Transition:
    """Bob stores a value, on top of what is under way."""
    asked = call_of(address, playground(), "store", value)
    return members.assemble_on(BOB, "invoke", asked, snapshot_of(*under_way))


def stored(members: Members, address: str, party: Party = CAROL) -> str:
    return str(members.ask(party, address, playground(), "retrieve")["value"])


def test_transactions_of_several_members_chain_without_waiting_for_the_chain(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [0])
    under_way: list[Transition] = []
    for n, party in enumerate((ALICE, BOB, CAROL, BOB, ALICE), 1):
        asked = call_of(address, playground(), "store", n)
        under_way.append(members.assemble_on(party, "invoke", asked, snapshot_of(*under_way)))
    assert [each.inputs[0] for each in under_way[1:]] == [each.outputs[0].id for each in under_way[:-1]]
    senders = (ALICE, BOB, CAROL, BOB, ALICE)
    assert all(members.check(node, tuple(under_way), senders).refusals == () for node in members.nodes)
    for transition in under_way:
        members.commit(transition)
    assert stored(members, address) == "5"


def test_member_whose_latest_state_is_still_on_its_way_waits_and_is_not_reverted(members: Members) -> None:
    """As after a restart: the index says that the state it has is spent, and the next one has not come yet."""
    address = members.deployed(ALICE, playground(), [0])
    members.restart(NODE2)
    learn(members.nodes[NODE2], tuple(members.every.values()), NODE2)
    moved = members.invoke(ALICE, address, playground(), "store", 1)
    members.commit(moved)
    late = {state.id: members.unspent.pop(state.id) for state in moved.outputs if state.id in members.unspent}
    with pytest.raises(Fails, match=f"^the latest state of {address} is not here yet$"):
        store(members, address, 2)
    with pytest.raises(Behind, match="is not here yet"):
        stored(members, address, BOB)
    members.unspent.update(late)
    members.settle(BOB, store(members, address, 2))
    assert stored(members, address) == "2"


def test_member_that_endorsed_needs_no_state_that_was_spent_since(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [0])
    first = members.invoke(ALICE, address, playground(), "store", 1)
    assert members.check(NODE2, (first,), (ALICE,)).refusals == ()
    second = store(members, address, 2, first)
    # The snapshot has only what is unspent, and the node's store nothing of what is under way.
    third = members.assemble_on(
        BOB,
        "invoke",
        call_of(address, playground(), "store", 3),
        Snapshot((*first.inputs, *second.inputs), second.outputs),
    )
    assert third.inputs == (second.outputs[0].id,)


def test_member_that_lacks_a_state_says_which(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [0])
    first = members.invoke(ALICE, address, playground(), "store", 1)
    second = members.assemble_on(ALICE, "invoke", call_of(address, playground(), "store", 2), snapshot_of(first))
    asked = call_of(address, playground(), "store", 3)
    only_the_latest = Snapshot((*first.inputs, *second.inputs), second.outputs)
    with pytest.raises(Fails, match=f"output 0 of 0x{first.leaf.hex()} is not here yet"):
        members.assemble_on(CAROL, "invoke", asked, only_the_latest)
    assert members.check(NODE3, (first, second), (ALICE, ALICE)).missing == ()


def test_endorser_that_lacks_a_state_of_the_past_names_it(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [0])
    for value in (1, 2):
        members.done(ALICE, address, playground(), "store", value)
    third = members.invoke(ALICE, address, playground(), "store", 3)
    lost = members.every.pop(third.inputs[0])
    (before,) = (ref for ref, state in members.every.items() if number_of(state) == 1)
    del members.every[before]
    members.restart(NODE2)
    checked = members.check(NODE2, (third,), (ALICE,))
    assert checked.missing == (before,)
    assert checked.refusals == ()
    members.every[lost.id] = lost


def record_of(state: State) -> AccountState:
    assert state.content is not None
    record = unseal(KNOWN, state.content).record
    assert isinstance(record, AccountState)
    return record


def number_of(state: State) -> int:
    """Which state of its account it is; an info is none."""
    return -1 if state.content is None or is_info(state.content) else record_of(state).number


def test_restarted_member_builds_every_contract_to_the_same_state(members: Members) -> None:
    coins = members.deployed(ALICE, token(), ["Coin", "C"])
    place = members.deployed(BOB, playground(), [1])
    for n in range(12):
        members.done(ALICE, coins, token(), "mint", address_of(BOB), n)
        members.done(CAROL, place, playground(), "fill", n, 2, n)
    for node in members.nodes:
        members.restart(node)
    for party in (ALICE, BOB, CAROL):
        assert members.ask(party, coins, token(), "balanceOf", address_of(BOB)) == {"balance": "66"}
        assert members.ask(party, place, playground(), "filled", 12)["value"] == "11"
    members.done(BOB, coins, token(), "transfer", address_of(CAROL), 6)


def test_member_may_be_told_all_states_at_once_and_then_lacks_none(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [0])
    for value in range(1, 8):
        members.done(ALICE, address, playground(), "store", value)
    fresh = members.hosted.at_another_node()
    without_past = Background(verifiers=VERIFIERS)
    asked = UserCall(BOB, "call", call_of(address, playground(), "retrieve"))
    with pytest.raises(Lacking):
        call(fresh, asked, members.held(NODE2), NODE2, without_past)
    learn(fresh, members.every.values(), NODE2)
    assert call(fresh, asked, members.held(NODE2), NODE2, without_past) == {"value": "7"}


def history_of(members: Members, count: int) -> tuple[str, list[State]]:
    """A contract that was changed so often, and its states in the order in which they were made."""
    address = members.deployed(ALICE, playground(), [0])
    made = [members.done(ALICE, address, playground(), "store", n + 1).outputs[0] for n in range(count)]
    creation = next(state for state in members.every.values() if number_of(state) == 0)
    return address, [creation, *made]


def answer_without_past(members: Members, hosted: Hosted, address: str) -> object:
    """What a node answers that can ask nobody for spent states."""
    asked = UserCall(BOB, "call", call_of(address, playground(), "retrieve"))
    return call(hosted, asked, members.held(NODE2), NODE2, Background(verifiers=VERIFIERS))


@pytest.mark.parametrize("seed", range(4))
def test_states_may_be_told_in_any_order(members: Members, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "STEPS_KEPT_MAX", 4)
    address, states = history_of(members, 20)
    if seed:
        Random(seed).shuffle(states)
    else:
        states.reverse()
    fresh = members.hosted.at_another_node()
    learn(fresh, states, NODE2)
    assert answer_without_past(members, fresh, address) == {"value": "20"}


def test_dead_branch_that_was_told_first_is_changed_for_the_longer_one(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "STEPS_KEPT_MAX", 12)
    monkeypatch.setattr(accounts, "LOOK_EVERY", 2)
    address = members.deployed(ALICE, playground(), [0])
    creation = next(state for state in members.every.values() if number_of(state) == 0)
    dead: list[Transition] = []
    for value in (91, 92, 93):
        dead.append(store(members, address, value, *dead))
    live = [members.done(ALICE, address, playground(), "store", n + 1).outputs[0] for n in range(30)]
    fresh = members.hosted.at_another_node()
    learn(fresh, [creation, *(each.outputs[0] for each in dead), *live], NODE2)
    assert answer_without_past(members, fresh, address) == {"value": "30"}


def test_steps_that_wait_are_bounded(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "WAITING_MAX", 3)
    address, states = history_of(members, 10)
    fresh = members.hosted.at_another_node()
    learn(fresh, states[1:], NODE2)
    memory = fresh.memory
    assert isinstance(memory, Accounts)
    assert len(memory._chain(bytes.fromhex(address[2:])).waiting) == 3
    learn(fresh, states, NODE2)
    assert answer_without_past(members, fresh, address) == {"value": "10"}


def test_states_that_are_told_twice_change_nothing(members: Members) -> None:
    address, states = history_of(members, 5)
    fresh = members.hosted.at_another_node()
    for _ in range(2):
        learn(fresh, states, NODE2)
    assert answer_without_past(members, fresh, address) == {"value": "5"}


def test_outsider_learns_nothing(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [0])
    members.done(ALICE, address, playground(), "store", 1)
    fresh = members.hosted.at_another_node()
    learn(fresh, members.every.values(), NodeName("node9"))
    asked = UserCall(BOB, "call", call_of(address, playground(), "retrieve"))
    with pytest.raises(Lacking):
        call(fresh, asked, members.held(NODE2), NODE2, Background(verifiers=VERIFIERS))


def test_what_never_came_on_the_chain_is_left_behind(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [0])
    lost: list[Transition] = []
    for value in (91, 92, 93):
        lost.append(store(members, address, value, *lost))
    assert all(members.check(node, tuple(lost), (BOB,) * 3).refusals == () for node in members.nodes)
    members.done(ALICE, address, playground(), "store", 1)
    assert stored(members, address) == "1"
    members.done(BOB, address, playground(), "store", 2)
    assert stored(members, address) == "2"


def test_deployment_that_is_assembled_anew_replaces_the_one_before(members: Members) -> None:
    asked = {"bytecode": "0x" + playground().bytecode.hex() + (5).to_bytes(32, "big").hex()}
    first = members.assemble(ALICE, "deploy", asked)
    assert members.refusals(first, ALICE) == []
    members.number -= 1
    members.restart(NODE1)
    members.unspent.clear()
    # Another version of the same intent: another request has other salts, and so another leaf.
    again = intent(members.hosted, members.number + 1, UserCall(ALICE, "deploy", asked))
    (result,) = assemble(members.nodes[NODE1], assembly_order([again], request=99), {}, NODE1, members.background())
    second = transition_of(result)
    assert second.leaf != first.leaf
    members.settle(ALICE, second)
    address = str(members.receipt(second, NODE2)["receipt"]["contractAddress"])
    assert address == members.receipt(first, NODE2)["receipt"]["contractAddress"]
    assert stored(members, address) == "5"


def test_going_back_further_than_is_kept_builds_the_account_again(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "STEPS_KEPT_MAX", 3)
    address = members.deployed(ALICE, playground(), [0])
    first = members.done(ALICE, address, playground(), "store", 1)
    before = dict(members.unspent)
    for value in range(2, 9):
        members.done(ALICE, address, playground(), "store", value)
    later, members.unspent = members.unspent, before
    assert stored(members, address) == "1"
    members.unspent = later
    assert stored(members, address) == "8"
    assert first.outputs[0].id in members.every


def test_accounts_that_are_not_used_are_forgotten_and_built_again(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "ACCOUNTS_KEPT_MAX", 2)
    addresses = [members.deployed(ALICE, playground(), [n]) for n in range(5)]
    assert [stored(members, address) for address in addresses] == [str(n) for n in range(5)]
    memory = members.nodes[NODE3].memory
    assert isinstance(memory, Accounts)
    assert len(memory._chains) <= 2
    members.done(BOB, addresses[0], playground(), "storeIn", addresses[4], 9)
    assert stored(members, addresses[4]) == "9"


def test_slots_that_are_kept_are_bounded(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "SLOTS_KEPT_MAX", 250)
    addresses = [members.deployed(ALICE, playground(), [n]) for n in range(3)]
    for address in addresses:
        members.done(ALICE, address, playground(), "fill", 1, 100, 5)
    for address in addresses:
        assert members.ask(CAROL, address, playground(), "filled", 100) == {"value": "5"}
    memory = members.nodes[NODE3].memory
    assert isinstance(memory, Accounts)
    assert memory._slot_count <= 250


@pytest.mark.parametrize(
    ("number", "stands_on", "reason"),
    [(5, "own", "must be one more"), (1, "other", "of the same account"), (3, "nothing", "must be 0 for the first")],
)
def test_broken_chain_is_refused(members: Members, number: int, stands_on: str, reason: str) -> None:
    own, other = (members.settle(ALICE, members.deploy(ALICE, playground(), [n])).outputs[0] for n in (1, 2))
    predecessor = {"own": own.id, "other": other.id, "nothing": None}[stands_on]
    address = record_of(own).address
    forged = AccountState(address, number, pack_predecessor(predecessor), 1, b"", b"")
    last = StateId(Leaf(b"f" * 32), 0)
    known = {own.id: record_of(own), other.id: record_of(other), last: forged}
    history = History(lambda reference: Known(reference, known[reference], bytes(32), ()))
    with pytest.raises(Rejected, match=reason):
        Accounts(partial(PrivateEvm, EvmVersion.CANCUN, 1)).chain_at(address_bytes(address), history.get(last), history)
