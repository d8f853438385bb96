"""Zero-knowledge tokens: which coins are spent and made, what is proved of it, and who gets to see what."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from rota import host
from rota.domains.addressed import shown_with_addresses
from rota.domains.available import known_in
from rota.domains.base import Claim, Refused, Rejected
from rota.domains.contents import Content, seal
from rota.domains.zeto.circuits import Statement, trace
from rota.domains.zeto.coins import VALUE_MAX
from rota.domains.zeto.domain import Zeto
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.records import Configuration, ZetoMemo
from rota.engine import drafting
from rota.host import Background, Hosted, UserCall
from rota.host.proving import is_believed, reveal
from rota.ledger.proofs import binding_of
from rota.model.digests import leaf_of_transition, state_commitment
from rota.model.state_ids import shown_state_id
from rota.model.types import ContractAddress, NodeName, Party, State, StateId, SubmitMode, Transition, node_of
from rota.sequencer.events import AssemblyFinished
from rota.wire.messages import AssemblyOutcome
from tests.domains.kit import ALICE, BOB, NOTARY, assembly_order, hosted_by, intent, states_after, transition_of

DOMAIN = Zeto()
HOSTED = hosted_by(DOMAIN, {"tokenName": "Zeto_Anon"})
CONFIGURATION = Configuration("Zeto_Anon", NOTARY)
SECRETS = {party: party.encode().ljust(48, b"\1") for party in (NOTARY, ALICE, BOB)}
KEYS = {party: DOMAIN.verifier_of(secret) for party, secret in SECRETS.items()}
BACKGROUND = Background(verifiers=KEYS)
SWAP = ContractAddress("0x" + "5a" * 20)


def pay(party: Party, amount: int, data: str = "0x") -> dict[str, object]:
    return {"to": party, "amount": amount, "data": data}


def mint(*payments: dict[str, object]) -> UserCall:
    return UserCall(NOTARY, "mint", {"mints": list(payments)})


def transfer(sender: Party, *payments: dict[str, object]) -> UserCall:
    return UserCall(sender, "transfer", {"transfers": list(payments)})


class Node:
    """What one node holds, and its slots."""

    def __init__(self, name: str, held: dict[StateId, State] | None = None) -> None:
        self.name = NodeName(name)
        self.held = dict(held or {})
        self.number = 0

    def slot(self, *calls: UserCall, first: int | None = None, request: int = 1) -> list[AssemblyFinished]:
        """Assemble these one after the other; nothing is committed."""
        start = self.number if first is None else first
        self.number = max(self.number, start + len(calls))
        order = assembly_order([intent(HOSTED, start + n, call) for n, call in enumerate(calls)], request=request)
        results = host.assemble(HOSTED, order, self.held, self.name, BACKGROUND)
        self.revealed = reveal(HOSTED, order, results, self.held, self.name, BACKGROUND)
        assert all(isinstance(result, AssemblyFinished) for result in results), results
        return [result for result in results if isinstance(result, AssemblyFinished)]

    def made(self, *calls: UserCall) -> list[Transition]:
        return [transition_of(result) for result in self.slot(*calls)]

    def statement(self, transition: Transition) -> Statement:
        """What is to be proved of a transition of the last slot."""
        found = self.revealed[transition.leaf]
        binding = binding_of(transition.leaf, transition.valid_until_s)
        claim = Claim(CONFIGURATION, found.sender, SECRETS[found.sender], binding, found.spends, found.makes)
        stated = DOMAIN.statement(replace(claim, preparation=found.preparation))
        assert isinstance(stated, Statement)
        return stated


def minted(*payments: dict[str, object]) -> Transition:
    (made,) = Node("node1").made(mint(*payments))
    return made


def words(values: tuple[int, ...]) -> tuple[bytes, ...]:
    return tuple(value.to_bytes(32, "big") for value in values)


def test_issuer_mints_and_nobody_else_does() -> None:
    made = minted(pay(ALICE, 5), pay(BOB, 7))
    assert (len(made.outputs), len(made.info), made.inputs) == (2, 2, ())
    with pytest.raises(Rejected, match="from: must be notary@node1, who issues this token"):
        intent(HOSTED, 1, UserCall(ALICE, "mint", {"mints": [pay(ALICE, 5)]}))


def test_mint_is_signed_by_the_issuer_and_not_proved() -> None:
    node = Node("node1")
    (made,) = node.made(mint(pay(ALICE, 5)))
    found = node.revealed[made.leaf]
    claim = Claim(CONFIGURATION, NOTARY, SECRETS[NOTARY], bytes(32), found.spends, found.makes)
    assert DOMAIN.statement(claim) is None


def test_transfer_pays_and_gives_change_and_what_is_proved_is_what_the_chain_is_shown() -> None:
    coins = minted(pay(ALICE, 5), pay(ALICE, 7))
    node = Node("node2", states_after([coins]))
    (paid,) = node.made(transfer(ALICE, pay(BOB, 9)))
    assert set(paid.inputs) == {state.id for state in coins.outputs}
    stated = node.statement(paid)
    assert not trace(stated).broken
    spent = tuple(coins.info[state.output] for state in paid.inputs)
    binding = int.from_bytes(binding_of(paid.leaf, paid.valid_until_s), "big") % ORDER
    assert words(stated.public_inputs) == (*spent, *paid.info, *words((0, 0, binding)))
    assert sorted(coin.value for coin in stated.outputs) == [3, 9]


def test_change_is_spent_before_it_is_confirmed() -> None:
    coins = minted(pay(ALICE, 100))
    node = Node("node2", states_after([coins]))
    chain = node.made(*(transfer(ALICE, pay(BOB, 10)) for _ in range(4)))
    for before, after in pairwise(chain):
        assert [state.leaf for state in after.inputs] == [before.leaf]
        assert not trace(node.statement(after)).broken


def test_same_intent_on_the_same_coins_is_the_same_leaf_whenever_it_is_asked_for() -> None:
    node = Node("node2", states_after([minted(pay(ALICE, 5))]))
    first, again = (node.slot(transfer(ALICE, pay(BOB, 2)), first=3, request=request)[0] for request in (1, 2))
    assert transition_of(first).leaf == transition_of(again).leaf
    other = Node("node2", states_after([minted(pay(ALICE, 6))])).slot(transfer(ALICE, pay(BOB, 2)), first=3)[0]
    commitments = {*transition_of(first).info, *transition_of(other).info}
    assert len(commitments) == 4


def test_several_are_paid_at_once_and_small_coins_are_joined() -> None:
    coins = minted(*(pay(ALICE, 1) for _ in range(10)))
    node = Node("node2", states_after([coins]))
    (joined,) = node.made(transfer(ALICE, pay(ALICE, 10)))
    assert (len(joined.inputs), len(joined.outputs)) == (10, 1)
    assert not trace(node.statement(joined)).broken


def test_reasons_why_nothing_is_paid() -> None:
    poor = Node("node2", states_after([minted(pay(ALICE, 5))]))
    (short,) = poor.slot(transfer(ALICE, pay(BOB, 6)))
    assert (short.outcome, short.reason) == (AssemblyOutcome.REVERTED, "alice@node2 has 5, and 6 are needed")
    coins = minted(*(pay(ALICE, 1) for _ in range(12)))
    (many,) = Node("node2", states_after([coins])).slot(transfer(ALICE, pay(BOB, 11)))
    assert many.reason.startswith("alice@node2 has 12, but no 10 coins that are worth 11: join some first")


@pytest.mark.parametrize(
    ("call", "flaw"),
    [
        (transfer(ALICE), "transfers: must be 1 to"),
        (transfer(ALICE, pay(BOB, 0)), "transfers[0].amount: must be from 1"),
        (transfer(ALICE, pay(BOB, VALUE_MAX + 1)), "transfers[0].amount: must be from 1"),
        (transfer(ALICE, pay(Party("no body"), 1)), "transfers[0].to: must be a party"),
        (UserCall(ALICE, "lock", {"amount": 0, "delegate": SWAP}), "amount: must be from 1"),
        (UserCall(ALICE, "lock", {"amount": 1, "delegate": "0x" + "00" * 20}), "delegate: must be an address"),
        (
            UserCall(ALICE, "transferLocked", {"lockedInputs": [1], "delegate": "", "transfers": [pay(BOB, 1)]}),
            "submitMode: must be external",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_it_has_an_id(call: UserCall, flaw: str) -> None:
    with pytest.raises(Rejected) as rejected:
        intent(HOSTED, 1, call)
    assert str(rejected.value).startswith(flaw)


def test_coin_goes_to_its_owner_and_to_who_made_it_and_to_nobody_else() -> None:
    node = Node("node2", states_after([minted(pay(ALICE, 5))]))
    (paid,) = node.made(transfer(ALICE, pay(BOB, 2, "0x4a")))
    to_bob, change = paid.outputs
    assert to_bob.distribution == (node_of(ALICE), node_of(BOB))
    assert change.distribution == (node_of(ALICE),)


def test_lock_is_spent_by_its_delegate_alone() -> None:
    node = Node("node2", states_after([minted(pay(ALICE, 5))]))
    (locked,) = node.made(UserCall(ALICE, "lock", {"amount": 3, "delegate": SWAP}))
    assert not trace(node.statement(locked)).broken
    node.held = states_after([locked], node.held)
    arguments = {"lockedInputs": [hex(int.from_bytes(locked.info[0], "big"))], "delegate": "x@node1"}
    call = UserCall(ALICE, "transferLocked", {**arguments, "transfers": [pay(BOB, 3)]}, SubmitMode.EXTERNAL)
    (spent,) = node.made(call)
    assert spent.preparation is not None
    assert spent.preparation.committer == SWAP
    stated = node.statement(spent)
    assert stated.delegate == int(SWAP, 16)
    assert not trace(stated).broken
    # Without the delegate no proof can be made, and no other transfer takes the coin.
    shown = stated.public_inputs
    assert trace(stated, (*shown[:-2], 0, shown[-1])).broken
    (short,) = node.slot(transfer(ALICE, pay(BOB, 3)))
    assert short.reason == "alice@node2 has 2, and 3 are needed"


def test_lock_of_somebody_else_or_of_nobody_is_named() -> None:
    node = Node("node2", states_after([minted(pay(ALICE, 5))]))
    arguments = {"lockedInputs": [77], "delegate": "", "transfers": [pay(BOB, 3)]}
    (refused,) = node.slot(UserCall(ALICE, "transferLocked", arguments, SubmitMode.EXTERNAL))
    meant = "must be the commitment or the state's id of a locked coin of alice@node2, named once"
    assert refused.reason == f"lockedInputs[0]: {meant}"


def test_locked_coin_is_named_by_its_commitment_or_its_state_and_once() -> None:
    node = Node("node2", states_after([minted(pay(ALICE, 5))]))
    (locked,) = node.made(UserCall(ALICE, "lock", {"amount": 3, "delegate": SWAP}))
    node.held = states_after([locked], node.held)
    names = ["0x" + locked.info[0].hex(), "0x" + shown_state_id(locked.outputs[0].id).hex()]

    def spends(*inputs: str) -> UserCall:
        arguments = {"lockedInputs": [*inputs], "delegate": "x@node1", "transfers": [pay(BOB, 3)]}
        return UserCall(ALICE, "transferLocked", arguments, SubmitMode.EXTERNAL)

    for name in names:
        (spent,) = node.made(spends(name))
        assert spent.inputs == (locked.outputs[0].id,)
    for first, second in ((names[0], names[0]), (names[0], names[1])):
        (refused,) = node.slot(spends(first, second))
        assert refused.reason.startswith("lockedInputs[1]: must be the commitment")


def test_clients_see_which_coin_is_locked() -> None:
    node = Node("node2", states_after([minted(pay(ALICE, 5))]))
    (made,) = node.made(UserCall(ALICE, "lock", {"amount": 3, "delegate": SWAP}))
    coins = [known_in(HOSTED.known, state) for state in made.outputs]
    shown = [shown_with_addresses(coin.record, {ALICE: "0x01"}) for coin in coins if coin is not None]
    assert [(each["amount"], each["locked"]) for each in shown] == [("3", True), ("2", False)]


def test_balance_is_what_is_free_of_an_account() -> None:
    node = Node("node2", states_after([minted(pay(ALICE, 5), pay(ALICE, 7), pay(BOB, 1))]))
    asked = UserCall(ALICE, "balanceOf", {"account": "alice"})
    told = host.call(HOSTED, asked, node.held, node.name, BACKGROUND)
    assert told == {"totalStates": "2", "totalBalance": "12", "overflow": False}


def test_coin_that_is_not_what_the_ledger_was_told_is_not_believed() -> None:
    honest, other = minted(pay(ALICE, 5)), minted(pay(ALICE, 6))
    assert is_believed(HOSTED, honest.outputs[0], {honest.leaf: honest})
    lying = replace(honest, info=other.info)
    assert not is_believed(HOSTED, honest.outputs[0], {honest.leaf: lying})
    assert not is_believed(HOSTED, honest.outputs[0], {})


def test_coin_with_the_name_of_an_owner_and_another_key_is_not_counted() -> None:
    other = Background(verifiers={**KEYS, ALICE: KEYS[BOB]})
    order = assembly_order([intent(HOSTED, 0, mint(pay(ALICE, 5)))])
    (made,) = host.assemble(HOSTED, order, {}, NodeName("node1"), other)
    node = Node("node2", states_after([transition_of(made)]))
    asked = UserCall(ALICE, "balanceOf", {"account": "alice"})
    assert host.call(HOSTED, asked, node.held, node.name, BACKGROUND) == {
        "totalStates": "0",
        "totalBalance": "0",
        "overflow": False,
    }
    (short,) = node.slot(transfer(ALICE, pay(BOB, 1)))
    assert short.reason == "alice@node2 has 0, and 1 are needed"


def test_coin_that_is_worth_more_than_any_can_be_is_not_counted() -> None:
    (coin, state), *_ = states_after([minted(pay(ALICE, 5))]).items()
    content = state.content
    assert content is not None
    asked = UserCall(ALICE, "balanceOf", {"account": "alice"})

    def total(amount: int) -> object:
        worth = replace(state, content=content.replace(b"5", str(amount).encode(), 1))
        node = Node("node2", {coin: worth})
        told = host.call(HOSTED, asked, node.held, node.name, BACKGROUND)
        assert isinstance(told, dict)
        return told["totalBalance"]

    assert total(VALUE_MAX) == str(VALUE_MAX)
    assert total(VALUE_MAX + 1) == "0"


def test_coin_whose_key_is_none_is_not_believed() -> None:
    honest = minted(pay(ALICE, 5))
    state = honest.outputs[0]
    assert state.content is not None
    key = KEYS[ALICE].removeprefix("0x").encode()
    odd = replace(state, content=state.content.replace(key, b"ff" * 32))
    assert odd != state
    assert not is_believed(HOSTED, odd, {honest.leaf: honest})


def test_party_without_a_key_is_paid_nothing() -> None:
    order = assembly_order([intent(HOSTED, 0, mint(pay(ALICE, 5)))])
    for verifiers in ({}, {ALICE: "0x" + "00" * 20}, {ALICE: "0x01" + "00" * 31}):
        (result,) = host.assemble(HOSTED, order, {}, NodeName("node1"), Background(verifiers=verifiers))
        assert isinstance(result, AssemblyFinished)
        assert result.outcome is AssemblyOutcome.REVERTED


def test_other_kinds_are_named_and_nobody_endorses() -> None:
    with pytest.raises(
        Rejected, match=r"tokenName: must be Zeto_Anon or .* or Zeto_AnonNullifierKyc, not 'Zeto_Other'"
    ):
        hosted_by(DOMAIN, {"tokenName": "Zeto_Other"})
    with pytest.raises(Refused):
        DOMAIN.endorse(None)  # type: ignore[arg-type]


def test_memo_in_the_place_of_a_coin_is_not_believed() -> None:
    honest = minted(pay(ALICE, 5))
    content = seal(Content(ZetoMemo(b"not a coin"), (), (ALICE,), bytes(32)))
    memo = replace(honest.outputs[0], content=content, commitment=state_commitment(content))
    assert not is_believed(HOSTED, memo, {honest.leaf: honest})


def at_alices_node() -> Hosted:
    """The token where Alice's secret is."""
    return replace(HOSTED, secret_of={ALICE: SECRETS[ALICE]}.get)


def told_twice(transition: Transition) -> list[Any]:
    """The coins in the receipt of a transition and in the examination of a draft of it, at Alice's node."""
    hosted, node = at_alices_node(), NodeName("node2")
    opening = drafting.Opening(HOSTED.contract.address, transition)
    examined = drafting.examine(hosted, opening, {}, node).told
    return [host.receipt(hosted, transition, {}, node)["coins"], examined["coins"]]


def test_coin_that_the_ledger_was_not_told_of_is_in_no_receipt_and_no_examined_draft() -> None:
    honest, worthless = minted(pay(ALICE, 1_000_000)), minted(pay(ALICE, 1))
    assert [len(coins) for coins in told_twice(honest)] == [1, 1]
    forged = replace(honest, info=worthless.info)
    leaf = leaf_of_transition(HOSTED.separator, forged)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(forged.outputs))
    assert told_twice(replace(forged, leaf=leaf, outputs=outputs)) == [[], []]


def test_coin_with_the_name_of_an_owner_and_another_key_is_in_no_receipt_and_no_examined_draft() -> None:
    order = assembly_order([intent(HOSTED, 0, mint(pay(ALICE, 5)))])
    (made,) = host.assemble(HOSTED, order, {}, NodeName("node1"), Background(verifiers={**KEYS, ALICE: KEYS[BOB]}))
    assert told_twice(transition_of(made)) == [[], []]


def test_coin_whose_key_is_none_is_in_no_receipt() -> None:
    honest = minted(pay(ALICE, 5))
    content = honest.outputs[0].content
    assert content is not None
    odd = replace(honest.outputs[0], content=content.replace(KEYS[ALICE].removeprefix("0x").encode(), b"ff" * 32))
    assert host.receipt(HOSTED, replace(honest, outputs=(odd,)), {}, NodeName("node2"))["coins"] == []
