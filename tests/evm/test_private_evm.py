"""The private EVM runs messages on accounts that it is given, and tells exactly what they did."""

from __future__ import annotations

from pathlib import Path

import pytest
from eth_abi.abi import decode, encode

from rota.domains.pente.evm import Account, Change, Ending, EvmVersion, Execution, Message
from rota.evm.private_evm import PrivateEvm
from rota.ledger.artifacts import Artifact, artifact_from_json, load_artifact
from rota.model.digests import keccak

CHAIN_ID = 1337
GAS = 30_000_000
ALICE, BOB = b"\xa1" * 20, b"\xb0" * 20
TOKEN, OTHER, THIRD = b"\x11" * 20, b"\x22" * 20, b"\x33" * 20
ARTIFACTS = Path(__file__).parents[1] / "contracts" / "artifacts"


def playground() -> Artifact:
    return artifact_from_json((ARTIFACTS / "Playground.json").read_text(encoding="utf-8"))


def input_of(signature: str, *values: object) -> bytes:
    types = signature[signature.index("(") + 1 : -1]
    return keccak(signature.encode())[:4] + encode(types.split(",") if types else [], values)


def balance_slot(holder: bytes) -> int:
    return int.from_bytes(keccak(holder.rjust(32, b"\0") + (4).to_bytes(32, "big")), "big")


def call(evm: PrivateEvm, to: bytes, signature: str, *values: object, gas: int = GAS) -> Execution:
    return evm.run(Message(ALICE, to, input_of(signature, *values), gas))


@pytest.fixture
def evm() -> PrivateEvm:
    evm = PrivateEvm(EvmVersion.CANCUN, CHAIN_ID)
    evm.put(TOKEN, Account(1, load_artifact("PrivateToken").deployed_bytecode, {balance_slot(ALICE): 100}))
    evm.put(OTHER, Account(1, playground().deployed_bytecode))
    return evm


def test_transfer_tells_the_two_slots_that_it_changes_and_what_it_logs(evm: PrivateEvm) -> None:
    done = call(evm, TOKEN, "transfer(address,uint256)", BOB, 30)
    assert done.ending is Ending.DONE
    assert decode(["bool"], done.output) == (True,)
    assert done.changes == {TOKEN: Change(1, None, {balance_slot(ALICE): 70, balance_slot(BOB): 30})}
    assert set(done.touched[TOKEN]) == {balance_slot(ALICE), balance_slot(BOB)}
    assert [log.address for log in done.logs] == [TOKEN]
    assert done.logs[0].topics[1:] == (ALICE.rjust(32, b"\0"), BOB.rjust(32, b"\0"))
    assert 21_000 < done.gas_used < 100_000


def test_message_is_taken_back_and_runs_the_same_again(evm: PrivateEvm) -> None:
    first, again = (call(evm, TOKEN, "transfer(address,uint256)", BOB, 30) for _ in range(2))
    assert first == again


def test_what_is_changed_from_outside_is_what_the_next_message_sees(evm: PrivateEvm) -> None:
    evm.change(TOKEN, 1, {balance_slot(ALICE): 7, balance_slot(BOB): 8})
    assert call(evm, TOKEN, "balanceOf(address)", ALICE).output == (7).to_bytes(32, "big")
    assert call(evm, TOKEN, "balanceOf(address)", BOB).output == (8).to_bytes(32, "big")


def test_account_that_is_put_anew_holds_nothing_of_before(evm: PrivateEvm) -> None:
    evm.put(TOKEN, Account(1, load_artifact("PrivateToken").deployed_bytecode, {balance_slot(BOB): 5}))
    assert call(evm, TOKEN, "balanceOf(address)", ALICE).output == bytes(32)
    assert call(evm, TOKEN, "balanceOf(address)", BOB).output == (5).to_bytes(32, "big")


def test_hidden_account_does_not_exist_until_it_is_shown(evm: PrivateEvm) -> None:
    evm.hide(TOKEN)
    gone = call(evm, OTHER, "sizeOf(address)", TOKEN)
    assert gone.output == bytes(32)
    assert TOKEN in gone.touched
    evm.change(TOKEN, 1, {balance_slot(BOB): 5})
    evm.show(TOKEN)
    assert call(evm, TOKEN, "balanceOf(address)", ALICE).output == (100).to_bytes(32, "big")
    assert call(evm, TOKEN, "balanceOf(address)", BOB).output == (5).to_bytes(32, "big")


def test_dropped_account_is_gone_with_its_slots(evm: PrivateEvm) -> None:
    evm.drop(TOKEN)
    assert call(evm, TOKEN, "balanceOf(address)", ALICE).output == b""
    evm.put(TOKEN, Account(1, load_artifact("PrivateToken").deployed_bytecode))
    assert call(evm, TOKEN, "balanceOf(address)", ALICE).output == bytes(32)


def test_deployment_has_the_address_that_sender_and_nonce_decide_about(evm: PrivateEvm) -> None:
    code = playground().bytecode + encode(["uint256"], [42])
    first, second = (evm.run(Message(ALICE, None, code, GAS, nonce=nonce)) for nonce in (7, 2**64 - 2))
    assert first.created is not None
    assert first.created != second.created
    made = first.changes[first.created]
    assert made.code == playground().deployed_bytecode
    assert made.nonce == 1
    assert (42, int.from_bytes(ALICE, "big")) == (made.slots[0], made.slots[1])
    assert first.changes.keys() == {first.created}


def test_revert_has_its_output_and_changes_nothing(evm: PrivateEvm) -> None:
    failed = call(evm, OTHER, "failWithError(uint256)", 9)
    assert failed.ending is Ending.REVERTED
    assert failed.output[:4] == keccak(b"Refused(uint256,string)")[:4]
    assert (failed.changes, failed.logs) == ({}, ())


def test_reverted_constructor_has_its_output_too(evm: PrivateEvm) -> None:
    code = playground().bytecode + encode(["uint256"], [666])
    failed = evm.run(Message(ALICE, None, code, GAS))
    assert failed.ending is Ending.REVERTED
    assert failed.created is None
    assert failed.output[:4] == keccak(b"Refused(uint256,string)")[:4]


def test_endless_loop_ends_when_its_gas_is_used(evm: PrivateEvm) -> None:
    ended = call(evm, OTHER, "loopForever()")
    assert ended.ending is Ending.HALTED
    assert ended.reason == "OutOfGas(Basic)"
    assert ended.gas_used == GAS
    assert ended.changes == {}


def test_broken_rule_of_the_evm_halts(evm: PrivateEvm) -> None:
    ended = call(evm, OTHER, "breakRule()")
    assert (ended.ending, ended.changes) == (Ending.HALTED, {})


def test_too_little_gas_to_begin_with_halts_and_the_next_message_runs(evm: PrivateEvm) -> None:
    ended = call(evm, OTHER, "store(uint256)", 1, gas=20_000)
    assert ended.ending is Ending.HALTED
    assert "gas" in ended.reason.lower()
    assert call(evm, OTHER, "store(uint256)", 1).ending is Ending.DONE


def test_huge_input_runs_or_lacks_gas(evm: PrivateEvm) -> None:
    done = call(evm, OTHER, "take(bytes)", b"\x01" * 131_072)
    assert done.changes[OTHER].slots == {0: 131_072}
    assert call(evm, OTHER, "take(bytes)", b"\x01" * 3_000_000).ending is Ending.HALTED


def test_init_code_over_the_limit_halts() -> None:
    evm = PrivateEvm(EvmVersion.SHANGHAI, CHAIN_ID)
    assert evm.run(Message(ALICE, None, b"\x00" * 49_153, GAS)).ending is Ending.HALTED


def test_precompiled_contracts_answer(evm: PrivateEvm) -> None:
    done = call(evm, OTHER, "hashes(bytes)", b"abc")
    hashed = decode(["bytes32", "bytes20", "address"], done.output)
    assert hashed[0].hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hashed[1].hex() == "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"


def test_nobody_has_ether(evm: PrivateEvm) -> None:
    assert call(evm, OTHER, "pay(address)", BOB).ending is Ending.REVERTED


def test_block_is_what_the_message_says(evm: PrivateEvm) -> None:
    asked = input_of("whoAndWhen()")
    told = [evm.run(Message(ALICE, OTHER, asked, GAS, number, time)).output for number, time in ((5, 6), (7, 8))]
    types = ["address", "uint256", "uint256", "uint256"]
    sender = "0x" + ALICE.hex()
    assert [decode(types, each) for each in told] == [(sender, 5, 6, CHAIN_ID), (sender, 7, 8, CHAIN_ID)]


# CALLER SELFDESTRUCT
DESTROYS = bytes.fromhex("33ff")
# Returns `DESTROYS` as the code of what it makes.
MAKES_DESTROYING = bytes.fromhex("6133ff5f526002601ef3")


@pytest.mark.parametrize("version", list(EvmVersion))
def test_self_destruct_leaves_an_account_that_was_there_before(version: EvmVersion) -> None:
    evm = PrivateEvm(version, CHAIN_ID)
    evm.put(THIRD, Account(1, DESTROYS, {1: 2}))
    done = evm.run(Message(ALICE, THIRD, b"", GAS))
    assert (done.ending, done.changes) == (Ending.DONE, {})


def test_account_that_is_made_and_destroyed_leaves_only_its_makers_nonce(evm: PrivateEvm) -> None:
    done = call(evm, OTHER, "makeAndCall(bytes)", MAKES_DESTROYING)
    assert done.ending is Ending.DONE
    assert done.changes.keys() == {OTHER}
    assert done.changes[OTHER].nonce == 2
    assert done.changes[OTHER].slots[0] == 3


def test_creations_tell_code_and_nonces(evm: PrivateEvm) -> None:
    done = call(evm, OTHER, "makeAt(bytes32,bytes)", bytes(32), MAKES_DESTROYING)
    (made,) = decode(["address"], done.output)
    assert done.changes[bytes.fromhex(made[2:])] == Change(1, DESTROYS, {})
    assert done.changes[OTHER].nonce == 2


def test_what_a_taken_back_call_looked_at_is_not_told() -> None:
    """The reason why worlds are compared; when this fails the engine tells more, and they need not be."""
    evm = PrivateEvm(EvmVersion.SHANGHAI, CHAIN_ID)
    looks_and_reverts = bytes.fromhex("73" + THIRD.hex() + "3b505f5ffd")
    calls = bytes.fromhex("5f5f5f5f5f73" + OTHER.hex() + "5af100")
    evm.put(TOKEN, Account(1, calls))
    evm.put(OTHER, Account(1, looks_and_reverts))
    evm.put(THIRD, Account(1, b"\0"))
    done = evm.run(Message(ALICE, TOKEN, b"", GAS))
    assert done.ending is Ending.DONE
    assert OTHER in done.touched
    assert THIRD not in done.touched


def test_transient_storage_ends_with_its_message() -> None:
    evm = PrivateEvm(EvmVersion.CANCUN, CHAIN_ID)
    # Return what is in transient slot 0, after adding 1 to it.
    evm.put(THIRD, Account(1, bytes.fromhex("5f5c600101805f5d5f5260205ff3")))
    told = [evm.run(Message(ALICE, THIRD, b"", GAS)).output for _ in range(2)]
    assert told == [(1).to_bytes(32, "big")] * 2
