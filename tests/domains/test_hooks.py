"""Tokens with hooks, without a network: what a deployment asks for, what a hook is given, what endorsers refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rota import host
from rota.abi.codec import entry_of
from rota.domains.base import CarryingCall, Rejected
from rota.domains.noto import Noto
from rota.domains.noto.hooks import HOOKED_OPTIONS_WITHOUT_LOCKS
from rota.domains.noto.records import Attached, BasicOptions, Configuration, Lock, RecordedLock
from rota.host import deploy
from rota.ledger.artifacts import load_artifact
from rota.ledger.proved_ledgers import code_for
from rota.model.digests import Core, leaf_of, leaf_of_transition
from rota.model.types import Party, Preparation, SubmitMode, Transition, node_of
from tests.domains.kit import ADDRESS
from tests.domains.town import Town

NOTARY, ALICE, BOB = Party("bank@node1"), Party("alice@node2"), Party("bob@node3")
GROUP, HOOK, CALL = "0x" + "aa" * 20, "0x" + "bb" * 20, b"carry"
HOOKS = {"publicAddress": GROUP, "privateAddress": HOOK}
TOKEN = {"notary": NOTARY, "notaryMode": "hooks", "options": {"hooks": HOOKS}}
NOTARY_NODE = node_of(NOTARY)
ADDRESSES = {party: "0x" + f"{number:040x}" for number, party in enumerate((NOTARY, ALICE, BOB), 1)}
CARRIED = SubmitMode.CARRIED


def town() -> Town:
    return Town(Noto(), TOKEN, NOTARY)


def asked_of_hook(built: Town, made: Transition) -> CarryingCall:
    work = host.carrying_of(built.hosted, made, built.every, NOTARY_NODE, CALL)
    parties = built.hosted.domain.parties_to_carry(work)
    return built.hosted.domain.carry(replace(work, addresses={party: ADDRESSES[party] for party in parties}))


PREPARED = {"contractAddress": ADDRESS, "encodedCall": "0x" + CALL.hex()}
TUPLE = "(address,bytes)"
OPERATIONS: list[tuple[Party, str, dict[str, Any], str, list[Any]]] = [
    (
        NOTARY,
        "mint",
        {"to": ALICE, "amount": 5, "data": "0x01"},
        f"onMint(address,address,uint256,bytes,{TUPLE})",
        [NOTARY, ALICE, "5", "0x01"],
    ),
    (
        ALICE,
        "transfer",
        {"to": BOB, "amount": 2},
        f"onTransfer(address,address,address,uint256,bytes,{TUPLE})",
        [ALICE, ALICE, BOB, "2", "0x"],
    ),
    (
        NOTARY,
        "transferFrom",
        {"from": ALICE, "to": BOB, "amount": 2},
        f"onTransfer(address,address,address,uint256,bytes,{TUPLE})",
        [NOTARY, ALICE, BOB, "2", "0x"],
    ),
    (ALICE, "burn", {"amount": 2}, f"onBurn(address,address,uint256,bytes,{TUPLE})", [ALICE, ALICE, "2", "0x"]),
    (
        NOTARY,
        "burnFrom",
        {"from": ALICE, "amount": 2},
        f"onBurn(address,address,uint256,bytes,{TUPLE})",
        [NOTARY, ALICE, "2", "0x"],
    ),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=[each[1] for each in OPERATIONS])
def test_hook_gets_sender_parties_amount_data_and_the_call(
    operation: tuple[Party, str, dict[str, Any], str, list[Any]],
) -> None:
    sender, function, arguments, signature, given = operation
    built = town()
    if function != "mint":
        built.commit(built.assemble(NOTARY, "mint", {"to": ALICE, "amount": 5}, CARRIED))
    made = built.assemble(sender, function, arguments, CARRIED)
    assert built.refusal(made, sender) == ""
    asked = asked_of_hook(built, made)
    assert (asked.sender, asked.function, asked.arguments["to"]) == (NOTARY, "invoke", HOOK)
    entry = entry_of(json.loads(str(asked.arguments["function"])), "function")
    assert entry.signature == signature
    expected = [ADDRESSES.get(each, each) for each in given]
    assert json.loads(str(asked.arguments["input"])) == [*expected, PREPARED]


def test_transition_is_prepared_for_its_own_ledger() -> None:
    made = town().assemble(NOTARY, "mint", {"to": ALICE, "amount": 5}, CARRIED)
    assert made.preparation == Preparation(ADDRESS, bytes(32))


@pytest.mark.parametrize("committer", [None, "0x" + "cc" * 20])
def test_endorser_refuses_a_transition_prepared_otherwise(committer: str | None) -> None:
    """The ledger would not commit it; a transition that another account can commit is never endorsed."""
    built = town()
    made = built.assemble(NOTARY, "mint", {"to": ALICE, "amount": 5}, CARRIED)
    preparation = Preparation(committer, bytes(32)) if committer is not None else None  # type: ignore[arg-type]
    core = Core(leaf_of_transition(built.hosted.separator, replace(made, preparation=None)))
    leaf = leaf_of(core, preparation)
    outputs = tuple(replace(state, id=state.id._replace(leaf=leaf)) for state in made.outputs)
    other = replace(made, leaf=leaf, preparation=preparation, outputs=outputs)
    assert "it is not prepared for its own ledger" in built.refusal(other, NOTARY)


def test_hook_decides_who_mints() -> None:
    built = town()
    made = built.assemble(ALICE, "mint", {"to": ALICE, "amount": 5}, CARRIED)
    assert built.refusal(made, ALICE) == ""
    assert json.loads(str(asked_of_hook(built, made).arguments["input"]))[0] == ADDRESSES[ALICE]


def test_hook_gets_the_sender_that_signs() -> None:
    built = town()
    made = built.assemble(ALICE, "mint", {"to": ALICE, "amount": 5}, CARRIED)
    assert built.refusal(made, NOTARY) != ""


TO_BOB = {"recipients": [{"to": BOB, "amount": 2}]}
SHARES = "(address,uint256)[]"
DELEGATE = "0x" + "dd" * 20
# A request, the function of the hook, and its arguments between `lockId` and `data`.
LOCK_OPERATIONS: list[tuple[str, dict[str, Any], str, list[Any]]] = [
    (
        "prepareUnlock",
        {"from": ALICE, **TO_BOB},
        f"onPrepareUnlock(address,bytes32,{SHARES},bytes,{TUPLE})",
        [(BOB, 2)],
    ),
    (
        "prepareBurnUnlock",
        {"from": ALICE, "amount": 3},
        f"onPrepareBurnUnlock(address,bytes32,address,uint256,bytes,{TUPLE})",
        [ALICE, "3"],
    ),
    ("unlock", {"from": ALICE, **TO_BOB}, f"onUnlock(address,bytes32,{SHARES},bytes,{TUPLE})", [(BOB, 2)]),
    ("cancelLock", {}, f"onUnlock(address,bytes32,{SHARES},bytes,{TUPLE})", [(ALICE, 4)]),
]
NEW_LOCKS: list[tuple[Party, str, dict[str, Any], str, list[Any]]] = [
    (ALICE, "lock", {"amount": 4}, f"onLock(address,bytes32,address,uint256,bytes,{TUPLE})", [ALICE, "4"]),
    (ALICE, "createLock", {"amount": 4}, f"onLock(address,bytes32,address,uint256,bytes,{TUPLE})", [ALICE, "4"]),
    (
        NOTARY,
        "createTransferLock",
        {"from": ALICE, **TO_BOB},
        f"onCreateTransferLock(address,bytes32,address,uint256,{SHARES},bytes,{TUPLE})",
        [ALICE, "2", (BOB, 2)],
    ),
    (
        ALICE,
        "createBurnLock",
        {"from": ALICE, "amount": 3},
        f"onCreateBurnLock(address,bytes32,address,uint256,bytes,{TUPLE})",
        [ALICE, "3"],
    ),
    (NOTARY, "createMintLock", TO_BOB, f"onCreateMintLock(address,bytes32,{SHARES},bytes,{TUPLE})", [(BOB, 2)]),
]


def given_to(asked: CarryingCall) -> tuple[str, list[Any]]:
    """The signature of the hook's function, and its arguments, with recipients as pairs."""
    entry = entry_of(json.loads(str(asked.arguments["function"])), "function")
    values = json.loads(str(asked.arguments["input"]))
    parties = {address: party for party, address in ADDRESSES.items()}
    flat: list[Any] = []
    for value in values[:-1]:
        each = [(parties[share["to"]], int(share["amount"])) for share in value] if isinstance(value, list) else [value]
        flat += [parties.get(str(one), one) for one in each]
    assert values[-1] == PREPARED
    return entry.signature, flat


def lock_of(built: Town, made: Transition) -> str:
    (lock,) = {each.lock_id for each in built.records(made, NOTARY_NODE) if isinstance(each, Lock | RecordedLock)}
    return "0x" + lock.hex()


def funded() -> Town:
    built = town()
    built.do(NOTARY, "mint", {"to": ALICE, "amount": 5}, CARRIED)
    return built


@pytest.mark.parametrize("operation", NEW_LOCKS, ids=[each[1] for each in NEW_LOCKS])
def test_hook_decides_about_new_locks(operation: tuple[Party, str, dict[str, Any], str, list[Any]]) -> None:
    sender, function, arguments, signature, given = operation
    built = funded()
    made = built.assemble(sender, function, {**arguments, "data": "0x07"}, CARRIED)
    assert built.refusal(made, sender) == ""
    assert made.preparation == Preparation(ADDRESS, bytes(32))
    told, values = given_to(asked_of_hook(built, made))
    assert told == signature
    assert values == [sender, lock_of(built, made), *given, "0x07"]


@pytest.mark.parametrize("operation", LOCK_OPERATIONS, ids=[each[0] for each in LOCK_OPERATIONS])
def test_hook_decides_about_changes_of_a_lock(operation: tuple[str, dict[str, Any], str, list[Any]]) -> None:
    function, arguments, signature, given = operation
    built = funded()
    lock = lock_of(built, built.do(ALICE, "lock", {"amount": 4}, CARRIED))
    made = built.assemble(ALICE, function, {"lockId": lock, **arguments}, CARRIED)
    assert built.refusal(made, ALICE) == ""
    assert given_to(asked_of_hook(built, made)) == (signature, [ALICE, lock, *given, "0x"])


def test_hook_decides_about_the_delegate_of_a_lock_and_about_its_owners_ending() -> None:
    built = funded()
    lock = lock_of(built, built.do(ALICE, "createTransferLock", {"from": ALICE, **TO_BOB}, CARRIED))
    spent = built.assemble(ALICE, "spendLock", {"lockId": lock}, CARRIED)
    signature = f"onUnlock(address,bytes32,{SHARES},bytes,{TUPLE})"
    assert given_to(asked_of_hook(built, spent)) == (signature, [ALICE, lock, (BOB, 2), "0x"])
    made = built.assemble(ALICE, "delegateLock", {"lockId": lock, "delegate": DELEGATE}, CARRIED)
    assert built.refusal(made, ALICE) == ""
    signature = f"onDelegateLock(address,bytes32,address,{TUPLE})"
    assert given_to(asked_of_hook(built, made)) == (signature, [ALICE, lock, DELEGATE])


@pytest.mark.parametrize(("given", "told"), [("0x", "0x05"), ("0x06", "0x06")])
def test_hook_gets_the_data_that_recipients_of_a_spent_lock_get(given: str, told: str) -> None:
    built = funded()
    asked = {"from": ALICE, **TO_BOB, "unlockData": "0x05"}
    lock = lock_of(built, built.do(ALICE, "createTransferLock", asked, CARRIED))
    spent = built.assemble(ALICE, "spendLock", {"lockId": lock, "data": given}, CARRIED)
    (attached,) = {each.data for each in built.records(spent, NOTARY_NODE) if isinstance(each, Attached)}
    assert given_to(asked_of_hook(built, spent))[1][-1] == told == "0x" + attached.hex()


def test_token_of_an_earlier_version_has_no_locks() -> None:
    built = town()
    earlier = replace(built.hosted.configuration, public_locks=False, options=HOOKED_OPTIONS_WITHOUT_LOCKS)  # type: ignore[type-var]
    built.hosted = replace(built.hosted, configuration=earlier)
    built.hosted.domain.configure(earlier, built.hosted.contract)
    with pytest.raises(
        Rejected, match=r"must be one of mint, transfer, transferFrom, burn, burnFrom in a token with h"
    ):
        built.assemble(ALICE, "lock", {"amount": 1}, CARRIED)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"options": {}}, "options.hooks.publicAddress"),
        ({"options": {"hooks": {"publicAddress": GROUP}}}, "options.hooks.privateAddress"),
        ({"options": {"hooks": {**HOOKS, "privateGroup": {"members": ["x@y"]}}}}, "options.hooks.privateGroup.members"),
        ({"notaryMode": "basic"}, "options.hooks"),
    ],
)
def test_wrong_hooks_are_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(Rejected) as caught:
        deploy(Noto(), {**TOKEN, **changed}, NOTARY)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("arguments", "contract"),
    [
        ({"notary": NOTARY}, "NotaryLedger"),
        ({"notary": NOTARY, "options": {"publicLocks": False}}, None),
        (TOKEN, "Carried"),
        ({**TOKEN, "options": {"hooks": HOOKS, "publicLocks": True}}, "Carried"),
    ],
)
def test_ledger_follows_from_locks_and_hooks(arguments: dict[str, Any], contract: str | None) -> None:
    """Without a contract of its own, a token has `Endorsed`, whose code is the factory's."""
    configuration = deploy(Noto(), arguments, NOTARY).configuration
    code = code_for(Noto(), configuration, ADDRESS)
    assert (code.code if code is not None else None) == (load_artifact(contract).bytecode if contract else None)


def test_genesis_with_hooks_and_other_options_is_refused() -> None:
    hosted = town().hosted
    assert isinstance(hosted.configuration, Configuration), "noto's"
    other = replace(hosted.configuration, options=BasicOptions(allow_lock=False))
    with pytest.raises(Rejected, match=r"configuration\.options: must be those of a token with hooks"):
        hosted.domain.configure(other, hosted.contract)


def test_token_without_hooks_is_written_as_before() -> None:
    """Its genesis has the same hash as in earlier versions."""
    built = Town(Noto(), {"notary": NOTARY}, NOTARY)
    assert built.hosted.carrier is None
    made = built.assemble(NOTARY, "mint", {"to": ALICE, "amount": 5})
    assert made.preparation is None
