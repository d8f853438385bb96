"""Which accounts a transaction lists: those that it changes, those that it looks at, and those that it hides."""

from __future__ import annotations

import pytest

from rota.domains.contents import unseal
from rota.domains.pente import worlds
from rota.domains.pente.accounts import calls_out
from rota.domains.pente.records import AccountState, PrivateTransaction
from rota.model.types import State, Transition
from tests.domains.pente.members import ALICE, BOB, CAROL, Members, Reverts, playground, token

DESTROYING = "0x6133ff5f526002601ef3"
# Returns nothing as code: an account with a nonce alone.
EMPTY = "0x5f5ff3"


@pytest.fixture
def members() -> Members:
    return Members()


def address_in(state: State) -> str:
    """The address of the account whose state it is."""
    assert state.content is not None
    content = unseal({"PenteAccount": AccountState, "PenteTransaction": PrivateTransaction}, state.content)
    assert isinstance(content.record, AccountState)
    return content.record.address


def made_by(transition: Transition) -> list[str]:
    """The addresses of the accounts that get a new state."""
    return [address_in(state) for state in transition.outputs]


def deployed_code(members: Members, runtime: str) -> str:
    """A contract with this code, by a constructor that returns it."""
    size = len(runtime) // 2
    code = f"0x61{size:04x}600c5f3961{size:04x}5ff3{runtime}"
    transition = members.settle(ALICE, members.assemble(ALICE, "deploy", {"bytecode": code}))
    return str(members.receipt(transition, members.hosted.contract.committee[0])["receipt"]["contractAddress"])


def test_account_that_is_changed_is_spent_and_one_that_is_looked_at_is_read(members: Members) -> None:
    first, second = (members.deployed(ALICE, playground(), [n]) for n in (1, 2))
    heads = {known.id for known in members.unspent.values()}
    transition = members.done(BOB, first, playground(), "readFrom", second)
    assert made_by(transition) == [first]
    assert len(transition.inputs) == len(transition.reads) == 1
    assert {*transition.inputs, *transition.reads} <= heads
    assert members.ask(CAROL, first, playground(), "retrieve") == {"value": "2"}


def test_both_accounts_of_a_call_that_changes_both_are_spent(members: Members) -> None:
    first, second = (members.deployed(ALICE, playground(), [n]) for n in (1, 2))
    transition = members.done(BOB, first, playground(), "storeIn", second, 9)
    assert made_by(transition) == [second]
    assert len(transition.reads) == 1
    assert members.ask(CAROL, second, playground(), "retrieve") == {"value": "9"}


def test_call_that_looks_only_reads_and_makes_no_state(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [1])
    transition = members.done(BOB, address, playground(), "store", 1)
    assert (transition.inputs, len(transition.reads), len(transition.outputs)) == ((), 1, 1)


def test_contracts_that_a_contract_makes_get_accounts(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [1])
    transition = members.done(BOB, address, playground(), "make", "0x" + playground().bytecode.hex() + "07".zfill(64))
    child = members.ask(ALICE, address, playground(), "child")["0"]
    assert sorted(made_by(transition)) == sorted((address, child))
    assert members.ask(CAROL, child, playground(), "retrieve") == {"value": "7"}
    members.done(BOB, address, playground(), "make", EMPTY)
    assert members.ask(ALICE, address, playground(), "child")["0"] != child


def test_place_that_is_taken_cannot_be_taken_again(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [1])
    salt = "0x" + "5a" * 32
    members.done(BOB, address, playground(), "makeAt", salt, DESTROYING)
    child = members.ask(ALICE, address, playground(), "child")["0"]
    members.done(BOB, address, playground(), "makeAt", salt, DESTROYING)
    assert members.ask(ALICE, address, playground(), "child") == {"0": "0x" + "00" * 20}
    assert child != "0x" + "00" * 20


def test_contracts_that_one_transaction_makes_are_bounded(members: Members) -> None:
    address = members.deployed(ALICE, playground(), [1])
    members.done(ALICE, address, playground(), "makeMany", 14, EMPTY)
    with pytest.raises(Reverts, match="at most 15 outputs, and this one needs 16"):
        members.invoke(ALICE, address, playground(), "makeMany", 15, EMPTY)


def test_accounts_that_one_transaction_needs_are_bounded(members: Members) -> None:
    others = [members.deployed(ALICE, playground(), [n]) for n in range(16)]
    # EXTCODESIZE of each.
    some, all_ = (deployed_code(members, "".join(f"73{other[2:]}3b50" for other in others[:n])) for n in (14, 16))
    assert len(members.assemble(ALICE, "invoke", {"to": some, "input": "0x"}).reads) == 15
    with pytest.raises(Reverts, match="it needs 17 accounts, and a transaction has at most 15"):
        members.assemble(ALICE, "invoke", {"to": all_, "input": "0x"})


# What an inner call looked at before it was taken back.


def test_account_that_a_failed_call_looked_at_is_listed(members: Members) -> None:
    # The guard reads the register and always fails, so the machine forgets that it looked.
    register = deployed_code(members, "60015f5260205ff3")
    guard = deployed_code(members, f"60205f5f5f5f73{register[2:]}5af1505f5ffd")
    asking = deployed_code(members, f"5f5f5f5f5f73{guard[2:]}5af160010160005500")
    transition = members.settle(BOB, members.assemble(BOB, "invoke", {"to": asking, "input": "0x"}))
    assert made_by(transition) == [asking]
    assert {address_in(members.every[reference]) for reference in transition.reads} == {guard, register}


def test_search_for_hidden_accounts_is_bounded(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    register = deployed_code(members, "60015f5260205ff3")
    guard = deployed_code(members, f"60205f5f5f5f73{register[2:]}5af1505f5ffd")
    asking = deployed_code(members, f"5f5f5f5f5f73{guard[2:]}5af160010160005500")
    monkeypatch.setattr(worlds, "SEARCH_RUNS_MAX", 0)
    with pytest.raises(Reverts, match="too many accounts in calls that fail"):
        members.assemble(BOB, "invoke", {"to": asking, "input": "0x"})


def test_what_a_call_that_fails_wrote_is_not_written(members: Members) -> None:
    first, second = (members.deployed(ALICE, playground(), [n]) for n in (1, 2))
    transition = members.done(BOB, first, playground(), "tryStoreIn", second, 5)
    assert made_by(transition) == [first]
    assert members.ask(BOB, first, playground(), "retrieve") == {"value": "2"}
    assert members.ask(BOB, second, playground(), "retrieve") == {"value": "2"}


def test_code_without_calls_is_known_as_such() -> None:
    assert not calls_out(token().deployed_bytecode)
    assert calls_out(playground().deployed_bytecode)
    assert not calls_out(bytes.fromhex("60f161f1f100"))
    assert calls_out(bytes.fromhex("60f1f1"))
