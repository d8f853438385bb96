"""Tokens whose spends cannot be linked to coins: what spends a coin, what is proved of it, and what counts once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota import host
from rota.calldata import is_nullifier
from rota.domains.base import Behind, Claim, Roots
from rota.domains.zeto.circuits import Statement, trace
from rota.domains.zeto.domain import Zeto
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.membership import Members
from rota.domains.zeto.records import NO_ADDRESS, Configuration
from rota.domains.zeto.tree import Tree, root_of
from rota.host import Background, UserCall
from rota.host.proving import reveal
from rota.ledger.proofs import binding_of
from rota.model.types import ContractAddress, Leaf, NodeName, Party, State, StateId, SubmitMode, Transition, node_of
from rota.sequencer.effects import AssembleIntents
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.wire.messages import AssemblyOutcome, Snapshot
from tests.domains.kit import ALICE, BOB, NOTARY, assembly_order, hosted_by, intent, transition_of

DOMAIN = Zeto()
CONFIGURATION = Configuration("Zeto_AnonNullifier", NOTARY)
SECRETS = {party: party.encode().ljust(48, b"\1") for party in (NOTARY, ALICE, BOB)}
KEYS = {party: DOMAIN.verifier_of(secret) for party, secret in SECRETS.items()}
BACKGROUND = Background(verifiers=KEYS)
SWAP = ContractAddress("0x" + "5a" * 20)
NODE1, NODE2 = NodeName("node1"), NodeName("node2")


def hosted_at(node: NodeName) -> host.Hosted:
    """The token where only this node's parties' secrets are."""
    hosted = hosted_by(DOMAIN, {"tokenName": "Zeto_AnonNullifier"})
    return replace(hosted, secret_of=lambda party: SECRETS.get(party) if node_of(party) == node else None)


def pay(party: Party, amount: int) -> dict[str, object]:
    return {"to": party, "amount": amount, "data": "0x"}


def transfer(sender: Party, *payments: dict[str, object]) -> UserCall:
    return UserCall(sender, "transfer", {"transfers": list(payments)})


class Node:
    """One node with what it holds, the tree as its index is, and what is under way there."""

    def __init__(self, name: NodeName) -> None:
        self.name = name
        self.hosted = hosted_at(name)
        self.held: dict[StateId, State] = {}
        self.tree = Members()
        self.under_way: list[Transition] = []
        self.number = 0

    def order(self, *calls: UserCall) -> AssembleIntents:
        """A slot on top of all that is under way."""
        intents = [intent(self.hosted, self.number + n, call) for n, call in enumerate(calls)]
        self.number += len(calls)
        locks = tuple(reference for made in self.under_way for reference in made.inputs)
        states = tuple(state for made in self.under_way for state in made.outputs)
        return assembly_order(intents, Snapshot(locks, states))

    def slot(self, *calls: UserCall) -> list[AssemblyFinished | AssemblyFailed]:
        order = self.order(*calls)
        results = host.assemble(self.hosted, order, self.held, self.name, BACKGROUND)
        self.revealed = reveal(self.hosted, order, results, self.held, self.name, BACKGROUND)
        self.under_way += [
            each.transition for each in results if isinstance(each, AssemblyFinished) and each.transition
        ]
        return results

    def made(self, *calls: UserCall) -> list[Transition]:
        return [transition_of(result) for result in self.slot(*calls)]

    def commit(self, *transitions: Transition) -> None:
        """They are on the chain, and what this node may see of them is here."""
        for made in transitions:
            for reference in made.inputs:
                self.held = {
                    state.id: state
                    for state in self.held.values()
                    if host.shelved(self.hosted, [state], self.name).reference(state.id) != reference
                }
            self.held |= {state.id: state for state in made.outputs if state.content is not None}
        self.under_way = [made for made in self.under_way if made not in transitions]
        self.tree.extend([made.info for made in transitions])

    def statement(self, transition: Transition) -> Statement:
        """What is to be proved of a transition of the last slot."""
        found = self.revealed[transition.leaf]
        binding = binding_of(transition.leaf, transition.valid_until_s)
        claim = Claim(
            CONFIGURATION,
            found.sender,
            SECRETS[found.sender],
            binding,
            found.spends,
            found.makes,
            found.preparation,
            found.calls,
            found.reads,
            self.tree,
        )
        stated = DOMAIN.statement(claim)
        assert isinstance(stated, Statement)
        return stated

    def balance(self, party: Party) -> object:
        told = host.call(
            self.hosted, UserCall(party, "balanceOf", {"account": party}), self.held, self.name, BACKGROUND
        )
        assert isinstance(told, dict)
        return told["totalBalance"]


def minted(*payments: dict[str, object]) -> Transition:
    (made,) = Node(NODE1).made(UserCall(NOTARY, "mint", {"mints": list(payments)}))
    return made


def alices(*amounts: int) -> Node:
    node = Node(NODE2)
    node.commit(minted(*(pay(ALICE, amount) for amount in amounts)))
    return node


def test_coins_are_spent_by_nullifiers_and_what_is_proved_is_what_the_chain_is_shown() -> None:
    node = alices(5, 7)
    (paid,) = node.made(transfer(ALICE, pay(BOB, 9)))
    assert len(paid.inputs) == 2
    assert all(is_nullifier(reference) for reference in paid.inputs)
    assert not {state.leaf for state in node.held} & {reference.leaf for reference in paid.inputs}
    assert paid.reads == ()
    stated = node.statement(paid)
    assert not trace(stated).broken
    binding = int.from_bytes(binding_of(paid.leaf, paid.valid_until_s), "big") % ORDER
    shown = [int.from_bytes(reference.leaf, "big") for reference in paid.inputs]
    made = [int.from_bytes(word, "big") for word in paid.info]
    assert stated.public_inputs == (*shown, node.tree.root, 0, *made, 0, 0, binding)
    assert DOMAIN.shown_with(stated) == Roots(node.tree.root.to_bytes(32, "big"))


def test_coin_whose_nullifier_is_under_way_is_spent_by_nobody_else() -> None:
    node = alices(5)
    node.made(transfer(ALICE, pay(BOB, 5)))
    (again,) = node.slot(transfer(ALICE, pay(BOB, 5)))
    assert isinstance(again, AssemblyFinished)
    assert (again.outcome, again.reason) == (AssemblyOutcome.REVERTED, "alice@node2 has 0, and 5 are needed")


def test_change_is_spent_before_it_is_confirmed_by_a_read_of_its_state() -> None:
    node = alices(100)
    first, second, third = node.made(*(transfer(ALICE, pay(BOB, 10)) for _ in range(3)))
    assert first.reads == ()
    assert [read.leaf for read in (*second.reads, *third.reads)] == [first.leaf, second.leaf]
    for paid in (first, second, third):
        assert not trace(node.statement(paid)).broken
    stated = node.statement(second)
    assert (stated.root, stated.pending) == (0, int.from_bytes(first.info[second.reads[0].output], "big"))


def test_confirmed_coins_are_spent_before_those_that_show_whose_change_they_are() -> None:
    node = alices(100, 8)
    (first,) = node.made(transfer(ALICE, pay(BOB, 50)))
    confirmed, mixed = node.made(transfer(ALICE, pay(BOB, 8)), transfer(ALICE, pay(BOB, 50)))
    assert (first.reads, confirmed.reads) == ((), ())
    assert [read.leaf for read in mixed.reads] == [first.leaf]


def test_one_coin_at_most_is_read_and_more_are_waited_for() -> None:
    node = alices(10, 10)
    first, second = node.made(transfer(ALICE, pay(BOB, 3)), transfer(ALICE, pay(BOB, 3)))
    (waits,) = node.slot(transfer(ALICE, pay(BOB, 14)))
    assert isinstance(waits, AssemblyFailed), "it is asked again"
    assert "several that are not confirmed yet" in waits.reason
    node.commit(first)
    (paid,) = node.made(transfer(ALICE, pay(BOB, 14)))
    assert (len(paid.inputs), [read.leaf for read in paid.reads]) == (2, [second.leaf])
    stated = node.statement(paid)
    assert stated.root
    assert stated.pending
    assert not trace(stated).broken


def test_coin_that_was_taken_back_from_the_tree_is_waited_for() -> None:
    node = alices(5)
    (paid,) = node.made(transfer(ALICE, pay(BOB, 5)))
    node.tree.cut(0)
    with pytest.raises(Behind, match="not on the chain"):
        node.statement(paid)


def test_coin_made_twice_counts_once_and_one_of_another_delegate_with_it() -> None:
    mint = minted(pay(ALICE, 5))
    (state,) = mint.outputs
    node = Node(NODE2)
    node.commit(mint)
    assert state.content is not None
    locked = state.content.replace(NO_ADDRESS.encode(), SWAP.encode())
    assert locked != state.content
    for number, content in enumerate((state.content, locked)):
        twin = replace(state, id=StateId(Leaf(b"twin".ljust(32)), number), content=content)
        node.held[twin.id] = twin
    assert node.balance(ALICE) == "5"
    (short,) = node.slot(transfer(ALICE, pay(BOB, 6)))
    assert isinstance(short, AssemblyFinished)
    assert short.reason == "alice@node2 has 5, and 6 are needed"
    (paid,) = node.made(transfer(ALICE, pay(BOB, 5)))
    node.commit(paid)
    assert node.balance(ALICE) == "0"
    assert all(state.id.leaf == paid.leaf for state in node.held.values()), "one nullifier has spent all of them"


def test_only_the_node_of_the_owner_knows_a_nullifier() -> None:
    (state,) = minted(pay(ALICE, 5)).outputs
    known = host.shelved(hosted_at(NODE2), [state], NODE2)
    assert known.reference(state.id) is not None
    assert host.shelved(hosted_at(NODE1), [state], NODE2).reference(state.id) is None
    content = state.content
    assert content is not None
    other = replace(state, content=content.replace(KEYS[ALICE][2:].encode(), KEYS[BOB][2:].encode()))
    assert host.shelved(hosted_at(NODE2), [other], NODE2).reference(state.id) is None, "the key is not Alice's"


def test_locked_coin_is_spent_by_its_nullifier_for_its_delegate() -> None:
    node = alices(30)
    (locked,) = node.made(UserCall(ALICE, "lock", {"amount": 20, "delegate": SWAP}))
    node.commit(locked)
    assert node.balance(ALICE) == "10"
    spends = {"lockedInputs": [int.from_bytes(locked.info[0], "big")], "delegate": "x", "transfers": [pay(BOB, 20)]}
    (paid,) = node.made(UserCall(ALICE, "transferLocked", spends, SubmitMode.EXTERNAL))
    assert is_nullifier(paid.inputs[0])
    stated = node.statement(paid)
    assert not trace(stated).broken
    assert stated.delegate == int(SWAP, 16)


def test_five_coins_are_spent_at_once_and_no_more() -> None:
    node = alices(*[1] * 6)
    (short,) = node.slot(transfer(ALICE, pay(BOB, 6)))
    assert isinstance(short, AssemblyFinished)
    assert "no 5 coins that are worth 6: join some first" in short.reason
    (joined,) = node.made(transfer(ALICE, pay(ALICE, 5)))
    assert len(joined.inputs) == 5
    assert not trace(node.statement(joined)).broken


def test_tree_has_ways_to_its_coins_and_forgets_those_that_were_taken_back() -> None:
    def word(number: int) -> bytes:
        return number.to_bytes(32, "big")

    members = Members()
    members.extend([[word(1), word(2)], [word(3)], []])
    assert (len(members), members.root) == (3, Tree([1, 2, 3]).root)
    members.extend([[word(4), word(2)]])
    for coin in range(1, 5):
        path = members.path_to(coin)
        assert path is not None
        assert root_of(coin, path) == members.root == Tree([1, 2, 3, 4, 2]).root
    members.cut(3)
    assert members.root == Tree([1, 2, 3]).root
    assert members.path_to(4) is None
    assert members.path_to(2) is not None, "it was there before"
