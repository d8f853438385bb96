"""Endorsers run what was run, and sign only what comes to the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.domains.contents import seal, unseal
from rota.domains.pente import Pente
from rota.domains.pente.addresses import deployment_address
from rota.domains.pente.domain import GAS_MAX
from rota.domains.pente.evm import Execution, Message
from rota.domains.pente.records import AccountState, PrivateTransaction
from rota.domains.records import Record
from rota.evm.private_evm import PrivateEvm
from rota.host import Background, UserCall, assemble, check, checking
from rota.model.digests import leaf_of_transition, void_leaf
from rota.model.types import Call, ContractAddress, IntentId, NodeName, Party, State, StateId, Transition
from rota.sequencer.effects import CheckRound
from rota.testing.workloads.pente import call_of
from tests.domains.kit import assembly_order, intent, round_of, transition_of
from tests.domains.pente.members import ALICE, BOB, CAROL, Members, address_of, playground, token, with_content
from tests.domains.pente.test_worlds import deployed_code

KNOWN: dict[str, type[Record]] = {"PenteAccount": AccountState, "PenteTransaction": PrivateTransaction}
NODE1 = NodeName("node1")
STATE, INFO = "state", "info"


@pytest.fixture
def members() -> Members:
    return Members()


def edited(members: Members, transition: Transition, edits: str, changes: dict[str, object]) -> Transition:
    """The transition with other values in the record of its state, or in the info that the state carries."""
    content = transition.outputs[0].content
    assert content is not None
    read = unseal(KNOWN, content)
    (told,) = read.infos
    assert read.record is not None
    if edits == STATE:
        record: Record = replace(read.record, **changes)  # type: ignore[type-var]
        return with_content(members.hosted, transition, 0, seal(replace(read, record=record)))
    info: Record = replace(told.record, **changes)  # type: ignore[type-var]
    return with_content(members.hosted, transition, 0, seal(replace(read, infos=(told._replace(record=info),))))


def leaved(members: Members, transition: Transition) -> Transition:
    """The transition with the leaf that it should have."""
    leaf = leaf_of_transition(members.hosted.separator, transition)
    outputs = tuple(replace(state, id=StateId(leaf, n)) for n, state in enumerate(transition.outputs))
    return replace(transition, leaf=leaf, outputs=outputs)


def mint(members: Members) -> Transition:
    address = members.deployed(ALICE, token(), ["Coin", "C"])
    return members.invoke(ALICE, address, token(), "mint", address_of(BOB), 100)


ELSEWHERE = ContractAddress("0x" + "22" * 20)
OTHER_OUTCOME = "what it makes or tells is not what its message does"


@pytest.mark.parametrize(
    ("edits", "change", "reason"),
    [
        (STATE, {"slots": b""}, OTHER_OUTCOME),
        (STATE, {"nonce": 7}, OTHER_OUTCOME),
        (STATE, {"number": 5}, OTHER_OUTCOME),
        (STATE, {"code": b"\x00"}, OTHER_OUTCOME),
        (STATE, {"predecessor": bytes(33)}, OTHER_OUTCOME),
        (STATE, {"address": ELSEWHERE}, OTHER_OUTCOME),
        (INFO, {"logs": ()}, OTHER_OUTCOME),
        (INFO, {"from_": address_of(BOB)}, "it was not run as the party that sends it"),
        (INFO, {"to": ELSEWHERE}, "the contract that it calls is not listed"),
        (INFO, {"gas": 30_000}, "it does not succeed here: out of gas"),
        (INFO, {"gas": GAS_MAX + 1}, "gas, and 30000000 are the most"),
        (INFO, {"input": b""}, "it does not succeed here: 0x of 0x"),
        (INFO, {"is_deployment": True}, "it does not"),
    ],
)
def test_whoever_writes_another_outcome_is_refused_by_all(
    members: Members, edits: str, change: dict[str, object], reason: str
) -> None:
    refusals = members.refusals(edited(members, mint(members), edits, change), ALICE)
    assert len(refusals) == 3
    assert all(reason in refusal for refusal in refusals)


def test_right_transition_is_signed_by_all(members: Members) -> None:
    assert members.refusals(mint(members), ALICE) == []


def test_transition_of_another_party_is_refused(members: Members) -> None:
    transition = mint(members)
    assert "not run as the party" in members.refusals(transition, BOB)[0]
    outsider = Party("mallory@node1")
    assert "must be a member of the group" in members.refusals(transition, outsider)[0]


def test_call_that_the_message_does_not_make_is_refused(members: Members) -> None:
    transition = mint(members)
    false = leaved(members, replace(transition, calls=(Call(ContractAddress("0x" + "7a" * 20), 1_000),)))
    assert members.refusals(false, ALICE)[0] == "its calls are not those that its message asks for"


def test_call_that_is_left_out_is_refused() -> None:
    members = Members(externalCallsEnabled=True)
    address = members.deployed(ALICE, playground(), [1])
    transition = members.invoke(ALICE, address, playground(), "callOutside", "0x" + "7a" * 20, "0x12", 1)
    assert members.refusals(leaved(members, replace(transition, calls=())), ALICE)[0].startswith("its calls are not")


def test_call_with_more_gas_than_the_group_allows_is_refused() -> None:
    members = Members(externalCallsEnabled=True, externalCallGasMax="30000")
    address = members.deployed(ALICE, playground(), [1])
    transition = members.invoke(ALICE, address, playground(), "callOutside", "0x" + "7a" * 20, "0x12", 1)

    def refusals(gas: int) -> list[str]:
        calls = (replace(transition.calls[0], gas=gas),)
        return members.refusals(leaved(members, replace(transition, calls=calls)), ALICE)

    assert transition.calls[0].gas == 30_000
    assert refusals(29_000) == []
    assert refusals(30_001)[0] == "its call 0 has 30001 gas, and 30000 is the most in this group"


def test_state_that_is_read_instead_of_spent_is_refused(members: Members) -> None:
    transition = mint(members)
    false = leaved(members, replace(transition, inputs=(), reads=transition.inputs))
    assert members.refusals(false, ALICE)[0].startswith("it does not spend the states of exactly the accounts")


def test_state_that_is_spent_without_a_next_one_is_refused(members: Members) -> None:
    other = members.deployed(ALICE, playground(), [1])
    (spare,) = (ref for ref, state in members.unspent.items() if is_account(state, other))
    transition = mint(members)
    false = leaved(members, replace(transition, inputs=(*transition.inputs, spare)))
    assert members.refusals(false, ALICE)[0].startswith("it does not spend the states of exactly the accounts")


def is_account(state: State, address: str) -> bool:
    assert state.content is not None
    record = unseal(KNOWN, state.content).record
    return isinstance(record, AccountState) and record.address == address


def test_info_is_neither_left_out_nor_read(members: Members) -> None:
    transition = mint(members)
    content = unseal(KNOWN, transition.outputs[0].content or b"")
    without = with_content(members.hosted, transition, 0, seal(replace(content, infos=())))
    assert members.refusals(without, ALICE)[0] == "one PenteTransaction is needed, not 0"
    members.commit(transition)
    address = members.deployed(ALICE, playground(), [1])
    # What changes nothing has an output that only carries its info.
    looked = members.done(BOB, address, playground(), "store", 1)
    assert unseal(KNOWN, looked.outputs[0].content or b"").record is None
    reading = leaved(members, replace(mint(members), reads=(looked.outputs[0].id,)))
    assert members.refusals(reading, ALICE)[0] == "it spends or reads what is no state of this domain"


def test_more_may_be_read_than_is_needed(members: Members) -> None:
    other = members.deployed(ALICE, playground(), [1])
    (spare,) = (ref for ref, state in members.unspent.items() if is_account(state, other))
    assert members.refusals(leaved(members, replace(mint(members), reads=(spare,))), ALICE) == []


def test_account_that_is_looked_at_must_be_listed(members: Members) -> None:
    first, second = (members.deployed(ALICE, playground(), [n]) for n in (1, 2))
    right = members.invoke(ALICE, first, playground(), "sizeOf", second)
    # The sender pretends that there is no such account: its size would be 0.
    gone = {ref: state for ref, state in members.unspent.items() if not is_account(state, second)}
    pretending = Members()
    pretending.unspent, pretending.every, pretending.number = gone, members.every, members.number - 1
    false = pretending.invoke(ALICE, first, playground(), "sizeOf", second)
    assert len(right.reads) == 1
    assert false.reads == ()
    assert members.refusals(false, ALICE)[0] == f"it looks at account {second}, which it does not list"


def test_account_that_says_no_in_a_call_that_fails_must_be_listed(members: Members) -> None:
    """A sender that leaves out the register would make the guard's failure look like its success."""
    register = deployed_code(members, "60015f5260205ff3")
    # Fails if the register says 1, and else too, but then with less gas used.
    guard = deployed_code(members, f"60205f5f5f5f73{register[2:]}5af1505f5ffd")
    asking = deployed_code(members, f"5f5f5f5f5f73{guard[2:]}5af160010160005500")
    right = members.assemble(BOB, "invoke", {"to": asking, "input": "0x"})
    (left_out,) = (ref for ref in right.reads if is_account(members.every[ref], register))
    false = leaved(members, replace(right, reads=tuple(ref for ref in right.reads if ref != left_out)))
    assert members.refusals(right, BOB) == []
    assert members.refusals(false, BOB)[0] == "it depends on accounts that it does not list"


def test_account_is_listed_once(members: Members) -> None:
    transition = mint(members)
    false = leaved(members, replace(transition, reads=transition.inputs))
    assert members.refusals(false, ALICE)[0] == "an account is listed twice"


class Contrary(PrivateEvm):
    """A machine with a fault: it says another slot than it should."""

    def run(self, message: Message) -> Execution:
        right = super().run(message)
        wrong = {
            address: replace(change, slots={slot: value + 1 for slot, value in change.slots.items()})
            for address, change in right.changes.items()
        }
        return replace(right, changes=wrong)


def test_endorser_that_comes_to_something_else_refuses_and_the_others_sign(members: Members) -> None:
    transition = mint(members)
    contrary = replace(members.hosted, domain=Pente(Contrary)).at_another_node()
    members.nodes[NodeName("node2")] = contrary
    assert members.refusals(transition, ALICE) == ["what it makes or tells is not what its message does"]


def test_endorser_that_does_not_know_who_the_sender_is_refuses(members: Members) -> None:
    transition = mint(members)
    order: CheckRound = round_of(members.hosted, (transition,), (ALICE,))
    nobody = Background(members.every.get, {})
    (refusal,) = check(members.nodes[NODE1], order, members.held(NODE1), NODE1, nobody).refusals
    assert "must be a party with an address" in refusal.reason


def test_transitions_of_a_round_stand_on_one_another(members: Members) -> None:
    address = members.deployed(ALICE, token(), ["Coin", "C"])
    hosted = members.nodes[NODE1]
    calls = [call_of(address, token(), "mint", address_of(party), 5) for party in (ALICE, BOB, CAROL)] + [
        call_of(address, token(), "transfer", address_of(BOB), 2)
    ]
    intents = [intent(hosted, 100 + n, UserCall(ALICE, "invoke", each)) for n, each in enumerate(calls)]
    results = assemble(hosted, assembly_order(intents), members.held(NODE1), NODE1, members.background())
    transitions = tuple(transition_of(result) for result in results)
    assert [each.inputs[0] for each in transitions[1:]] == [each.outputs[0].id for each in transitions[:-1]]
    for node in members.nodes:
        assert members.check(node, transitions, (ALICE,) * 4).refusals == ()
    order = round_of(members.hosted, transitions, (ALICE,) * 4)
    steps = checking(members.nodes[NODE1], order, members.held(NODE1), NODE1, members.background())
    assert len(list(steps)) == 4, "whoever runs it has a pause after each"
    for transition in transitions:
        members.commit(transition)
    assert members.ask(BOB, address, token(), "balanceOf", address_of(BOB)) == {"balance": "7"}


def test_deployment_has_an_address_of_its_own_for_each_intent(members: Members) -> None:
    first, second = (members.deploy(ALICE, playground(), [1]) for _ in range(2))
    members.settle(ALICE, first)
    members.settle(ALICE, second)
    addresses = [members.receipt(each, NODE1)["receipt"]["contractAddress"] for each in (first, second)]
    sender = bytes.fromhex(address_of(ALICE)[2:])
    separator = members.hosted.separator
    assert addresses == ["0x" + deployment_address(separator, each.intent, sender).hex() for each in (first, second)]
    assert len(set(addresses)) == 2


def test_only_members_void_their_intents_at_the_cost_of_the_group(members: Members) -> None:
    voided = IntentId(b"\x07" * 16)
    empty = Transition(voided, void_leaf(members.hosted.separator, voided), valid_until_s=1_000)
    assert members.refusals(empty, ALICE) == []
    stranger = Party("stranger@node1")
    assert members.refusals(empty, stranger) == ["stranger@node1 may not act here"] * len(members.nodes)
