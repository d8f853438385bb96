"""Notary tokens: what holders may do, what the notary lets pass, and who sees what of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rota.domains.addressed import parties_in, shown_with_addresses, with_addresses
from rota.domains.available import Available
from rota.domains.base import NewState, Rejected
from rota.domains.contents import Content, Role, Told, distribution_of, is_info, schema_of, seal, unseal
from rota.domains.noto import Noto
from rota.domains.noto.operations import RECIPIENTS_MAX, lock_id_of
from rota.domains.noto.records import Attached, Coin, Lock, Promised, Requested
from rota.domains.records import Record, parameters
from rota.host import UserCall, assemble, deploy, init, load_domains
from rota.model.digests import state_commitment
from rota.model.types import (
    ContractAddress,
    Mode,
    NodeName,
    Party,
    Preparation,
    State,
    StateId,
    SubmitMode,
    Transition,
    node_of,
)
from rota.sequencer.events import AssemblyFinished
from rota.wire.messages import AssemblyOutcome
from tests.domains.kit import assembly_order, hosted_by
from tests.domains.town import Reverts, Town

NOTARY, ALICE, BOB, CAROL = (Party(name) for name in ("notary@node1", "alice@node2", "bob@node3", "carol@node4"))
NODE1, NODE2, NODE3, NODE4 = (NodeName(f"node{number}") for number in (1, 2, 3, 4))
DELEGATE = ContractAddress("0x" + "d1" * 20)
TOKEN = {"name": "Gold", "symbol": "AU", "notary": "notary@node1", "notaryMode": "basic"}


def town(**options: bool) -> Town:
    return Town(Noto(), {**TOKEN, "options": {"basic": options, "publicLocks": False}}, NOTARY)


@pytest.fixture
def rich() -> Town:
    """Alice has 100."""
    built = town()
    built.do(NOTARY, "mint", {"to": ALICE, "amount": 100})
    return built


def balance(built: Town, account: Party, asker: Party = NOTARY) -> int:
    told = built.ask(asker, "balanceOf", {"account": account})
    assert isinstance(told, dict)
    assert told["overflow"] is False
    return int(told["totalBalance"])


def shares(**amounts: int) -> list[dict[str, object]]:
    names = {"alice": ALICE, "bob": BOB, "carol": CAROL}
    return [{"to": names[name], "amount": amount} for name, amount in amounts.items()]


def locked(built: Town, function: str = "lock", arguments: object = None, sender: Party = ALICE) -> str:
    """Make a lock, and tell its id."""
    made = built.do(sender, function, arguments if arguments is not None else {"amount": 40})
    lock = "0x" + lock_id_of(built.hosted.separator, made.intent).hex()
    assert f'"{lock}"' in str(made.outputs[0].content), "the lock stands first"
    return lock


@pytest.mark.parametrize(
    "payee",
    [
        "0x" + "f3" * 20,
        "0X" + "F3" * 20 + "@node3",
        "ab" * 20,
        "0x" + "ab" * 32,
        "cd" * 32 + "@node3",
        "04" + "ab" * 64,
    ],
)
def test_payee_that_looks_like_an_address_key_or_hash_is_rejected(rich: Town, payee: str) -> None:
    with pytest.raises(Rejected, match="must be a party, not an address, key or hash") as caught:
        init(rich.hosted, UserCall(ALICE, "transfer", {"to": payee, "amount": 1, "data": "0x"}))
    assert caught.value.field == "to"


@pytest.mark.parametrize("payee", ["0xbob", "cafe", "deadbeef@node3", "a" * 39])
def test_payee_with_a_hexadecimal_name_of_another_length_is_taken(rich: Town, payee: str) -> None:
    assert init(rich.hosted, UserCall(ALICE, "transfer", {"to": payee, "amount": 1, "data": "0x"})).payload


# Deploying.


def test_the_notarys_node_coordinates_and_endorses() -> None:
    contract = town().hosted.contract
    assert (contract.mode, contract.committee, contract.endorsers, contract.threshold) == (
        Mode.STATIC,
        (NODE1,),
        (NODE1,),
        1,
    )


def test_a_request_that_was_recorded_from_a_client_deploys() -> None:
    recorded = {
        "notary": "a@node1",
        "notaryMode": "basic",
        "name": "",
        "symbol": "",
        "options": {"basic": {"restrictMint": True, "allowBurn": "true", "allowLock": False}},
        "junk": 1,
    }
    configuration = deploy(Noto(), recorded, ALICE).configuration
    assert configuration.notary == "a@node1"
    assert configuration.options.allow_burn is True
    assert configuration.options.allow_lock is False


def test_wrong_constructors_are_refused_in_clear_words() -> None:
    with pytest.raises(Rejected, match="notaryMode: must be basic or hooks"):
        deploy(Noto(), {**TOKEN, "notaryMode": "anarchy"}, ALICE)
    with pytest.raises(Rejected, match="symbol: must be at most 255 bytes"):
        deploy(Noto(), {**TOKEN, "symbol": "$" * 256}, ALICE)
    with pytest.raises(Rejected, match="notary: is missing"):
        deploy(Noto(), {}, ALICE)


def test_a_genesis_whose_notary_does_not_endorse_is_refused() -> None:
    hosted = hosted_by(Noto(), TOKEN)
    with pytest.raises(Rejected, match=r"configuration\.notary"):
        Noto().configure(hosted.configuration, replace(hosted.contract, endorsers=(NODE2,)))  # type: ignore[arg-type]


def test_nodes_find_it_by_its_entry_point() -> None:
    domains = load_domains()
    assert isinstance(domains["noto"], Noto)
    assert "synthetic" in domains


# Coins.


def test_coins_are_minted_transferred_and_burned() -> None:
    built = town()
    built.do(NOTARY, "mint", {"to": ALICE, "amount": "0x64"})
    built.do(ALICE, "transfer", [BOB, 30, "0x"])
    built.do(BOB, "transfer", {"to": CAROL, "amount": "10"})
    built.do(BOB, "burn", {"amount": 5, "data": "0x"})
    assert [balance(built, party) for party in (ALICE, BOB, CAROL)] == [70, 15, 10]


def test_several_coins_are_spent_at_once() -> None:
    built = town()
    for amount in (5, 6, 7):
        built.do(NOTARY, "mint", {"to": ALICE, "amount": amount})
    spent = built.do(ALICE, "transfer", {"to": BOB, "amount": 18})
    assert len(spent.inputs) == 3
    assert (balance(built, ALICE), balance(built, BOB)) == (0, 18)


def test_what_is_not_there_cannot_be_spent(rich: Town) -> None:
    for function, arguments in (
        ("transfer", {"to": BOB, "amount": 101}),
        ("burn", {"amount": 2**256 - 1}),
        ("lock", {"amount": 101}),
        ("createTransferLock", {"from": ALICE, "recipients": shares(bob=60, carol=60)}),
    ):
        with pytest.raises(Reverts, match=r"PD200005: Insufficient funds \(available=100\)"):
            rich.assemble(ALICE, function, arguments)


def test_more_coins_than_fit_into_a_transition_are_to_be_joined_first() -> None:
    built = town()
    for _ in range(20):
        built.do(NOTARY, "mint", {"to": ALICE, "amount": 1})
    with pytest.raises(Reverts, match="at most 15 coins are spent at once"):
        built.assemble(ALICE, "transfer", {"to": BOB, "amount": 16})
    built.do(ALICE, "transfer", {"to": ALICE, "amount": 15})
    built.do(ALICE, "transfer", {"to": BOB, "amount": 16})
    assert balance(built, BOB) == 16


def test_only_the_notary_mints_unless_the_token_says_otherwise(rich: Town) -> None:
    text = "PD200009: Mint can only be initiated by notary: expected=notary@node1 actual=alice@node2"
    with pytest.raises(Rejected, match=text):
        init(rich.hosted, UserCall(ALICE, "mint", {"to": ALICE, "amount": 1}))
    generous = town(restrictMint=False)
    generous.do(ALICE, "mint", {"to": BOB, "amount": 3})
    assert balance(generous, BOB) == 3


def test_only_the_owner_or_the_notary_transfers_and_burns_from(rich: Town) -> None:
    for function, arguments in (
        ("transferFrom", {"from": ALICE, "to": BOB, "amount": 1}),
        ("burnFrom", {"from": ALICE, "amount": 1}),
        ("createTransferLock", {"from": ALICE, "recipients": shares(bob=1)}),
        ("createBurnLock", {"from": ALICE, "amount": 1}),
    ):
        with pytest.raises(Rejected, match="from: must be the sender unless the notary asks"):
            init(rich.hosted, UserCall(BOB, function, arguments))
        rich.do(NOTARY, function, arguments)
        rich.do(ALICE, function, arguments)
    assert (balance(rich, ALICE), balance(rich, BOB)) == (100 - 8, 2)


def test_what_a_token_does_not_allow_is_refused_before_it_gets_an_id() -> None:
    poor = town(allowBurn=False, allowLock=False)
    for function, arguments, text in (
        ("burn", {"amount": 1}, "PD200025: Burn is not enabled"),
        ("burnFrom", {"from": ALICE, "amount": 1}, "PD200025"),
        ("lock", {"amount": 1}, "PD200030: Lock is not enabled"),
        ("unlock", {"lockId": "0x" + "22" * 32, "from": ALICE, "recipients": shares(bob=1)}, "PD200030"),
        ("transfer", {"to": BOB, "amount": 0}, "PD200008: Parameter 'amount' must be greater than 0"),
        ("transfer", {"to": BOB, "amount": -1}, "amount: must be from 0"),
        ("transfer", {"to": "bob@", "amount": 1}, "to: must be a party"),
        ("transfer", {"amount": 1}, "to: is missing"),
        ("approve", {}, "function: must be one of"),
    ):
        with pytest.raises(Rejected, match=text):
            init(poor.hosted, UserCall(ALICE, function, arguments))
    open_ = town()
    many = [{"to": BOB, "amount": 1}] * (RECIPIENTS_MAX + 1)
    for recipients, text in (([], "PD200007"), (many, "at most 11"), (shares(bob=0), r"recipients\[0\]\.amount")):
        with pytest.raises(Rejected, match=text):
            init(open_.hosted, UserCall(ALICE, "createTransferLock", {"from": ALICE, "recipients": recipients}))


def test_the_parties_of_a_request_are_to_be_resolved(rich: Town) -> None:
    asked = UserCall(ALICE, "createTransferLock", {"from": "alice", "recipients": shares(bob=1, carol=2)})
    assert init(rich.hosted, asked).parties == (NOTARY, ALICE, BOB, CAROL)


def test_a_huge_input_is_reverted_or_fits(rich: Town) -> None:
    rich.do(ALICE, "transfer", {"to": BOB, "amount": 1, "data": "0x" + "ab" * 100_000})
    with pytest.raises(Rejected, match="data: must be 0x and pairs of hex digits, at most 131072"):
        init(rich.hosted, UserCall(ALICE, "burn", {"amount": 1, "data": "0x" + "ab" * 131_073}))
    lock = {
        "from": ALICE,
        "recipients": shares(bob=1),
        "unlockData": "0x" + "ab" * 131_072,
        "data": "0x" + "cd" * 131_072,
    }
    with pytest.raises(Reverts, match="the states of a transition are at most 1048576 bytes"):
        rich.assemble(ALICE, "createTransferLock", lock)


def test_views_tell_what_the_token_is(rich: Town) -> None:
    assert rich.ask(BOB, "name") == {"0": "Gold"}
    assert rich.ask(BOB, "symbol", {}) == {"0": "AU"}
    assert rich.ask(BOB, "decimals") == {"0": "4"}
    assert rich.ask(ALICE, "balanceOf", {"account": "alice"}) == {
        "totalStates": "1",
        "totalBalance": "100",
        "overflow": False,
    }
    # Who may not see the coins sees none.
    assert balance(rich, ALICE, asker=BOB) == 0


# Locks.


def test_a_lock_is_no_longer_in_the_balance_and_pays_whom_its_owner_says(rich: Town) -> None:
    lock = locked(rich)
    assert balance(rich, ALICE) == 60
    rich.do(ALICE, "unlock", {"lockId": lock, "from": ALICE, "recipients": shares(bob=15)})
    rich.do(ALICE, "unlock", {"lockId": lock, "from": ALICE, "recipients": shares(bob=5, alice=20)})
    assert (balance(rich, ALICE), balance(rich, BOB)) == (80, 20)
    with pytest.raises(Reverts, match="PD200028: Lock ID not found"):
        rich.assemble(ALICE, "unlock", {"lockId": lock, "from": ALICE, "recipients": shares(bob=1)})


def test_a_lock_pays_no_more_than_it_holds(rich: Town) -> None:
    lock = locked(rich)
    for function in ("unlock", "prepareUnlock"):
        with pytest.raises(Reverts, match=r"PD200005: Insufficient funds \(available=40\)"):
            rich.assemble(ALICE, function, {"lockId": lock, "from": ALICE, "recipients": shares(bob=41)})
    with pytest.raises(Reverts, match="PD200005"):
        rich.assemble(ALICE, "prepareBurnUnlock", {"lockId": lock, "from": ALICE, "amount": 41})


def test_a_lock_that_is_not_yours_is_not_there(rich: Town) -> None:
    lock = locked(rich)
    for function, arguments in (
        ("unlock", {"lockId": lock, "from": ALICE, "recipients": shares(bob=1)}),
        ("prepareUnlock", {"lockId": lock, "from": ALICE, "recipients": shares(bob=1)}),
        ("delegateLock", {"lockId": lock, "delegate": DELEGATE}),
        ("spendLock", {"lockId": lock}),
        ("cancelLock", {"lockId": lock}),
    ):
        # Bob's node does not see it; a neighbour of Alice's on her node does.
        with pytest.raises(Reverts, match="PD200028: Lock ID not found"):
            rich.assemble(BOB, function, arguments)
        with pytest.raises(Reverts, match="PD200031: Only the lock creator can perform unlock"):
            rich.assemble(Party("mallory@node2"), function, arguments)


def test_a_prepared_lock_does_what_it_was_prepared_for(rich: Town) -> None:
    lock = locked(rich)
    with pytest.raises(Reverts, match="lockId: must be of a lock that was prepared"):
        rich.assemble(ALICE, "spendLock", {"lockId": lock})
    rich.do(ALICE, "prepareUnlock", {"lockId": lock, "from": ALICE, "recipients": shares(bob=30)})
    rich.do(ALICE, "spendLock", {"lockId": lock})
    assert (balance(rich, ALICE), balance(rich, BOB)) == (70, 30)


def test_a_lock_for_a_transfer_a_burn_or_a_mint_is_prepared_from_the_beginning(rich: Town) -> None:
    paying = locked(rich, "createTransferLock", {"from": ALICE, "recipients": shares(bob=10, carol=20)})
    burning = locked(rich, "createBurnLock", {"from": ALICE, "amount": 7})
    minting = locked(rich, "createMintLock", {"recipients": shares(carol=500)}, sender=NOTARY)
    assert balance(rich, ALICE) == 63
    rich.do(ALICE, "spendLock", {"lockId": paying})
    rich.do(ALICE, "spendLock", {"lockId": burning})
    rich.do(NOTARY, "spendLock", {"lockId": minting})
    assert [balance(rich, party) for party in (ALICE, BOB, CAROL)] == [63, 10, 520]


def test_what_is_left_of_a_burn_lock_is_the_owners(rich: Town) -> None:
    lock = locked(rich)
    rich.do(ALICE, "prepareBurnUnlock", {"lockId": lock, "from": ALICE, "amount": 15})
    rich.do(ALICE, "spendLock", {"lockId": lock})
    assert balance(rich, ALICE) == 85


def test_a_cancelled_lock_is_given_back(rich: Town) -> None:
    lock = locked(rich, "createTransferLock", {"from": ALICE, "recipients": shares(bob=40)})
    rich.do(ALICE, "cancelLock", {"lockId": lock})
    assert (balance(rich, ALICE), balance(rich, BOB)) == (100, 0)
    minting = locked(rich, "createMintLock", {"recipients": shares(carol=500)}, sender=NOTARY)
    rich.do(NOTARY, "prepareMintUnlock", {"lockId": minting, "recipients": shares(carol=400)})
    rich.do(NOTARY, "cancelLock", {"lockId": minting})
    assert balance(rich, CAROL) == 0


def test_mint_locks_and_others_are_not_mixed_up(rich: Town) -> None:
    lock = locked(rich)
    minting = locked(rich, "createMintLock", {"recipients": shares(carol=500)}, sender=NOTARY)
    with pytest.raises(Reverts, match="lockId: must be of a mint lock"):
        rich.assemble(NOTARY, "prepareMintUnlock", {"lockId": lock, "recipients": shares(bob=1)})
    for function in ("prepareUnlock", "unlock"):
        with pytest.raises(Reverts, match="lockId: must not be of a mint lock"):
            rich.assemble(NOTARY, function, {"lockId": minting, "from": NOTARY, "recipients": shares(bob=1)})
    with pytest.raises(Reverts, match="from: must be the owner of the lock"):
        rich.assemble(ALICE, "unlock", {"lockId": lock, "from": BOB, "recipients": shares(bob=1)})


def test_a_delegated_lock_is_its_delegates_alone(rich: Town) -> None:
    lock = locked(rich, "createTransferLock", {"from": ALICE, "recipients": shares(bob=40)})
    rich.do(ALICE, "delegateLock", {"lockId": lock, "delegate": DELEGATE})
    for function, arguments in (
        ("unlock", {"lockId": lock, "from": ALICE, "recipients": shares(carol=40)}),
        ("prepareUnlock", {"lockId": lock, "from": ALICE, "recipients": shares(carol=40)}),
        ("delegateLock", {"lockId": lock, "delegate": "0x" + "ee" * 20}),
    ):
        with pytest.raises(Reverts, match="lockId: must be of a lock that was not delegated"):
            rich.assemble(ALICE, function, arguments)
    for function in ("spendLock", "cancelLock"):
        with pytest.raises(Reverts, match=f"must be prepared for {DELEGATE}"):
            rich.assemble(ALICE, function, {"lockId": lock})
    with pytest.raises(Reverts, match="PD200031"):
        rich.assemble(Party("mallory@node2"), "spendLock", {"lockId": lock}, SubmitMode.EXTERNAL)
    condition = "0x" + "cc" * 32
    spent = rich.do(ALICE, "spendLock", {"lockId": lock, "condition": condition}, SubmitMode.EXTERNAL)
    assert spent.preparation == Preparation(DELEGATE, bytes.fromhex("cc" * 32))
    assert balance(rich, BOB) == 40


def test_what_ends_a_delegated_lock_is_endorsed_for_its_delegate_alone(rich: Town) -> None:
    lock = locked(rich, "createTransferLock", {"from": ALICE, "recipients": shares(bob=40)})
    rich.do(ALICE, "delegateLock", {"lockId": lock, "delegate": DELEGATE})
    spent = rich.assemble(ALICE, "cancelLock", {"lockId": lock}, SubmitMode.EXTERNAL)
    assert rich.refusal(spent, ALICE) == ""
    for preparation in (None, Preparation(ContractAddress("0x" + "ee" * 20), bytes(32))):
        assert rich.refusal(replace(spent, preparation=preparation), ALICE)


# What the notary refuses: whatever else a sender's node may make of it.


def forged(built: Town, transition: Transition, *states: NewState, sender: Party = ALICE) -> Transition:
    """The transition with other outputs, well made, as a node that cheats would make them."""
    outputs: list[State] = []
    infos = 0
    for number, new in enumerate(states):
        record, told = (new.record, ()) if new.role is Role.STATE else (None, (Told(infos, new.record),))
        infos += new.role is Role.INFO
        content = seal(Content(record, told, new.readers, bytes([number]) * 32))
        distribution = distribution_of(built.hosted.contract, sender, new.readers)
        outputs.append(State(StateId(transition.leaf, number), state_commitment(content), distribution, content))
    return replace(transition, outputs=tuple(outputs))


def made_by(built: Town, transition: Transition) -> list[NewState]:
    contents = [unseal(built.hosted.known, state.content or b"") for state in transition.outputs]
    states = [NewState(content.record, content.readers) for content in contents if content.record is not None]
    infos = sorted((told.number, content.readers, told.record) for content in contents for told in content.infos)
    return [*states, *(NewState(record, readers, Role.INFO) for _, readers, record in infos)]


def test_outputs_other_than_those_of_the_request_are_refused(rich: Town) -> None:
    honest = rich.assemble(ALICE, "transfer", {"to": BOB, "amount": 30, "data": "0x1234"})
    paid, change, data, request = made_by(rich, honest)
    assert rich.refusal(forged(rich, honest, paid, change, data, request), ALICE) == ""
    more: Record = Coin(ALICE, 71)
    for states in (
        (paid, replace(change, record=more), data, request),
        (replace(paid, record=Coin(BOB, 31)), change, data, request),
        (paid, change, change, data, request),
        (paid, data, request),
        (replace(paid, readers=(NOTARY, ALICE)), change, data, request),
        (paid, replace(change, readers=(NOTARY, ALICE, CAROL)), data, request),
        (paid, change, replace(data, record=Attached(b"other")), request),
        (paid, change, replace(data, role=Role.STATE), request),
        (paid, change, data, request, NewState(Lock(bytes(32), ALICE, 1000, ALICE), (NOTARY, ALICE))),
    ):
        reason = rich.refusal(forged(rich, honest, *states), ALICE)
        assert reason == "what is made is not what transfer makes", states


def test_a_request_that_nobody_may_make_is_refused_by_the_notary_too(rich: Town) -> None:
    honest = rich.assemble(NOTARY, "mint", {"to": ALICE, "amount": 30})
    assert rich.refusal(forged(rich, honest, *made_by(rich, honest), sender=ALICE), ALICE).startswith("from: PD200009")


def test_coins_of_others_are_refused(rich: Town) -> None:
    honest = rich.assemble(ALICE, "transfer", {"to": BOB, "amount": 100})
    (paid, _) = made_by(rich, honest)
    request = NewState(Requested("transfer", '["bob@node3","100","0x"]'), (NOTARY, BOB), Role.INFO)
    reason = rich.refusal(forged(rich, honest, paid, request, sender=BOB), BOB)
    assert reason == "PD200018: State is not owned by 'bob@node3'"


def test_too_little_and_the_wrong_kind_of_input_is_refused(rich: Town) -> None:
    honest = rich.assemble(ALICE, "transfer", {"to": BOB, "amount": 100})
    assert rich.refusal(replace(honest, inputs=()), ALICE).startswith("PD200013: Invalid amount")
    lock = rich.do(ALICE, "lock", {"amount": 40})
    assert rich.refusal(replace(honest, inputs=(lock.outputs[0].id,)), ALICE).startswith("PD200012: Invalid inputs")
    ended = rich.assemble(ALICE, "cancelLock", {"lockId": "0x" + lock_id_of(rich.hosted.separator, lock.intent).hex()})
    assert rich.refusal(replace(ended, inputs=(lock.outputs[1].id,)), ALICE) == "PD200028: Lock ID not found"
    minted = rich.assemble(NOTARY, "mint", {"to": BOB, "amount": 1})
    assert rich.refusal(replace(minted, inputs=(lock.outputs[1].id,)), NOTARY) == "mint spends nothing"
    assert rich.refusal(replace(minted, reads=(lock.outputs[1].id,)), NOTARY) == "nothing is read"


def test_requests_that_cannot_be_read_are_refused(rich: Town) -> None:
    honest = rich.assemble(ALICE, "transfer", {"to": BOB, "amount": 30})
    paid, change, request = made_by(rich, honest)
    for function, arguments in (
        ("fly", "[]"),
        ("transfer", "{"),
        ("transfer", "[" * 5_000),
        ("transfer", '["bob@node3"]'),
        ("transfer", '["bob","30","0x"]'),
        ("transfer", '["bob@node3","030","0x"]'),
    ):
        told = replace(request, record=Requested(function, arguments))
        assert rich.refusal(forged(rich, honest, paid, change, told), ALICE), (function, arguments)
    assert "one NotoRequest is needed, not 0" in rich.refusal(forged(rich, honest, paid, change), ALICE)
    assert "not 2" in rich.refusal(forged(rich, honest, paid, change, request, request), ALICE)


# Who sees what.


def test_a_receiver_sees_its_coin_and_what_was_attached_and_nothing_else(rich: Town) -> None:
    made = rich.do(ALICE, "transfer", {"to": BOB, "amount": 30, "data": "0xfeed"})
    request = Requested("transfer", '["bob@node3","30","0xfeed"]')
    assert rich.records(made, NODE3) == [Coin(BOB, 30), Attached(b"\xfe\xed"), request]
    assert rich.records(made, NODE4) == []
    assert len(rich.records(made, NODE1)) == len(rich.records(made, NODE2)) == 4


def test_what_is_told_rides_on_a_state_of_the_same_readers(rich: Town) -> None:
    """So that a transfer is one input and two outputs on the ledger, and no more."""
    for function, arguments, count in (
        ("transfer", {"to": BOB, "amount": 30, "data": "0xfeed"}, 2),
        ("transfer", {"to": BOB, "amount": 70}, 1),
    ):
        assert len(rich.do(ALICE, function, arguments).outputs) == count
    assert len(rich.do(NOTARY, "mint", {"to": ALICE, "amount": 9}).outputs) == 1
    assert len(rich.do(ALICE, "burn", {"amount": 1}).outputs) == 1
    # Nothing else is made: what is told has an output of its own.
    burned = rich.do(ALICE, "burn", {"amount": 8})
    assert [is_info(output.content or b"") for output in burned.outputs] == [True]
    assert rich.receipt(burned, NODE2)["transfers"] == [{"from": ALICE, "amount": "8"}]


def test_each_recipient_of_a_prepared_lock_is_promised_its_own_share(rich: Town) -> None:
    made = rich.do(ALICE, "createTransferLock", {"from": ALICE, "recipients": shares(bob=10, carol=20)})
    (promise,) = rich.records(made, NODE3)
    assert isinstance(promise, Promised)
    assert (promise.to, promise.amount) == (BOB, 10)
    assert rich.receipt(made, NODE3)["lockInfo"] == {"lockId": "0x" + promise.lock_id.hex()}


def test_receipts_say_who_paid_whom_as_far_as_one_may_see(rich: Town) -> None:
    made = rich.do(ALICE, "transfer", {"to": BOB, "amount": 30, "data": "0xfeed"})
    whole = rich.receipt(made, NODE2)
    assert whole["transfers"] == [{"from": ALICE, "to": BOB, "amount": "30"}]
    assert whole["data"] == "0xfeed"
    states: Any = whole["states"]
    assert [each["data"]["amount"] for each in states["inputs"] + states["outputs"]] == ["100", "30", "70"]
    assert {each["schema"] for each in states["inputs"] + states["outputs"]} == {"0x" + schema_of(Coin).id.hex()}
    assert rich.receipt(made, NODE3)["transfers"] == [{"to": BOB, "amount": "30"}]
    assert rich.receipt(made, NODE4) == {"states": {}}
    burned = rich.do(ALICE, "burn", {"amount": 20})
    assert rich.receipt(burned, NODE2)["transfers"] == [{"from": ALICE, "amount": "20"}]
    lock = locked(rich)
    delegated = rich.do(ALICE, "delegateLock", {"lockId": lock, "delegate": DELEGATE})
    assert rich.receipt(delegated, NODE1)["lockInfo"] == {"lockId": lock, "delegate": DELEGATE}


def test_clients_see_addresses_and_names_beside_them(rich: Town) -> None:
    addresses = {ALICE: "0x" + "a1" * 20, BOB: "0x" + "b0" * 20}
    made = rich.do(ALICE, "transfer", {"to": BOB, "amount": 30})
    told: Any = rich.receipt(made, NODE2, addresses)
    parties = {"from": addresses[ALICE], "fromParty": ALICE, "to": addresses[BOB], "toParty": BOB}
    assert told["transfers"] == [{**parties, "amount": "30"}]
    owners = [(each["data"]["owner"], each["data"]["ownerParty"]) for each in told["states"]["outputs"]]
    assert owners == [(addresses[BOB], BOB), (addresses[ALICE], ALICE)]
    assert {len(bytes.fromhex(each["id"][2:])) for each in told["states"]["outputs"]} == {32}
    burned = rich.do(ALICE, "burn", {"amount": 20})
    burning = {"from": addresses[ALICE], "fromParty": ALICE, "amount": "20"}
    assert rich.receipt(burned, NODE2, addresses)["transfers"] == [burning]
    locking: Any = rich.receipt(rich.do(ALICE, "lock", {"amount": 5}), NODE2, addresses)
    [lock] = locking["states"]["lockedOutputs"]
    assert (lock["data"]["owner"], lock["data"]["ownerParty"]) == (addresses[ALICE], ALICE)


def test_party_without_a_known_address_is_shown_by_its_name(rich: Town) -> None:
    """Without `to` it would be a burn."""
    made = rich.do(ALICE, "transfer", {"to": BOB, "amount": 30})
    told = rich.receipt(made, NODE2, {})
    assert told["transfers"] == [{"from": ALICE, "fromParty": ALICE, "to": BOB, "toParty": BOB, "amount": "30"}]


def test_only_owners_of_coins_and_locks_are_shown_by_address() -> None:
    promise = Promised(bytes(32), BOB, 3)
    coin = Coin(BOB, 3)
    assert parties_in(coin) == (BOB,)
    assert with_addresses(coin, {BOB: "0x01"}) == Coin(Party("0x01"), 3)
    assert with_addresses(coin, {}) == coin
    assert parties_in(promise) == ()
    assert with_addresses(promise, {BOB: "0x01"}) is promise
    assert shown_with_addresses(promise, {BOB: "0x01"})["to"] == BOB


# Names.


def test_functions_and_parameters_are_those_that_clients_know() -> None:
    known = json.loads((Path(__file__).parent / "noto_functions.json").read_text())
    for name, inputs in known.items():
        arguments = {**Noto.functions, **Noto.views}[name]
        assert parameters(arguments)[: len(inputs)] == inputs, name
        ours = parameters(arguments)[len(inputs) :]
        assert {each["name"] for each in ours} <= set(arguments.later), "clients leave these out"
    assert set(Noto.functions) - set(known) == {"spendLock", "cancelLock"}


def test_schemas_are_told_as_the_api_tells_them() -> None:
    schema = Noto.schemas()[0]
    assert schema.signature == "type=NotoCoin(bytes32 salt,string owner,uint256 amount),labels=[owner,amount]"
    assert schema.definition()["components"] == [
        {"name": "salt", "type": "bytes32"},
        {"name": "owner", "type": "string", "indexed": True},
        {"name": "amount", "type": "uint256", "indexed": True},
    ]
    assert len({each.id for each in Noto.schemas()}) == len(Noto.states) == 9


def test_balance_and_shortage_do_not_cost_more_the_more_coins_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    built = town()
    for _ in range(20):
        built.do(NOTARY, "mint", {"to": ALICE, "amount": 5})

    def look_through(*_: object, **__: object) -> NoReturn:
        raise AssertionError("all coins are looked through")

    monkeypatch.setattr(Available, "where", look_through)
    assert balance(built, ALICE) == 100
    with pytest.raises(Reverts, match=r"15 coins are spent at once, which are worth 75 here"):
        built.do(ALICE, "transfer", {"to": BOB, "amount": 80})


# Parking.


def test_transfer_without_funds_is_parked_where_the_node_says_so_and_nothing_else_is() -> None:
    domain = Noto()
    domain.set_up({"park_transfers": True})
    built = Town(domain, TOKEN, NOTARY)
    built.do(NOTARY, "mint", {"to": ALICE, "amount": 3})
    for function, arguments, kind in (
        ("transfer", {"to": BOB, "amount": 5}, AssemblyOutcome.PARKED),
        ("transferFrom", {"from": ALICE, "to": BOB, "amount": 5}, AssemblyOutcome.PARKED),
        ("burn", {"amount": 5}, AssemblyOutcome.REVERTED),
    ):
        built.number += 1
        asked = built.intent(ALICE, function, arguments, SubmitMode.AUTO)
        (result,) = assemble(built.hosted, assembly_order([asked]), built.held(node_of(ALICE)), node_of(ALICE))
        assert isinstance(result, AssemblyFinished)
        assert result.outcome is kind
        assert result.reason.startswith("PD200005: Insufficient funds (available=3)")
    built.do(NOTARY, "mint", {"to": ALICE, "amount": 2})
    built.do(ALICE, "transfer", {"to": BOB, "amount": 5})
    assert balance(built, BOB) == 5


@pytest.mark.parametrize(
    ("settings", "flaw"),
    [({"park_transfers": "yes"}, "must be true or false, not 'yes'"), ({"parks": True}, "must be left out")],
)
def test_settings_that_are_not_right_are_named(settings: dict[str, object], flaw: str) -> None:
    with pytest.raises(Rejected, match=flaw):
        Noto().set_up(settings)
