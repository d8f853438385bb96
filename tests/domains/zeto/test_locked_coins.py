"""Locked coins with the real circuits and verifiers, on the embedded chain and on Anvil; and what each step costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rota.calldata import NO_CONDITION, encode_commit, encode_payload
from rota.domains.zeto.circuits import Spent, Statement
from rota.domains.zeto.coins import Coin
from rota.ledger.bindings import encode_call
from rota.ledger.hexadecimal import data
from rota.ledger.reading import CallReceipt
from rota.model.digests import core_of, keyless_intent, leaf_of
from rota.model.types import NO_LOCK_ID, ContractAddress, LockChange, LockKind, Preparation, State, StateId, Transition
from tests.contracts.evm import decode_error
from tests.domains.zeto.on_chain import ALICE, BOB, VALID_UNTIL_S, Input, Made, TokenLedger, coin, token_ledger, words
from tests.ledger.chains import RpcRejected, in_loop, running
from tests.ledger.participant import DEPLOYER, send

OWNER = ContractAddress(DEPLOYER)
STRANGER = ContractAddress("0x" + "5b" * 20)
NEVER_S = 2**64 - 1
# What each step costs at most as a whole transaction.
GAS_MAX = {"lock": 353_000, "delegate": 29_500, "spend": 344_000, "release": 330_000}


def with_lock(ledger: TokenLedger, made: Transition, lock: LockChange) -> Transition:
    """The same transition with a section."""
    outputs = tuple(state.commitment for state in made.outputs)
    core = core_of(ledger.separator, made.intent, inputs=made.inputs, outputs=outputs, info=made.info, lock=lock)
    leaf = leaf_of(core)
    ledger.coins[leaf] = b"".join(made.info)
    states = tuple(State(StateId(leaf, number), each, ()) for number, each in enumerate(outputs))
    return replace(made, leaf=leaf, outputs=states, lock=lock)


def delegate_of(ledger: TokenLedger) -> int:
    """What a locked coin has as its delegate."""
    return int(ledger.address, 16)


def held(ledger: TokenLedger, spent: Input, amount: int, delegate: ContractAddress, expires_at_s: int) -> Made:
    """Locks a part of a coin."""
    outputs = (
        coin(amount, salt=spent[1].salt + 1, delegate=delegate_of(ledger)),
        coin(spent[1].value - amount, salt=spent[1].salt + 2),
    )
    lock = LockChange(kind=LockKind.HOLD, lock=NO_LOCK_ID, delegate=delegate, expires_at_s=expires_at_s)
    made = with_lock(ledger, ledger.written((ledger.reference(spent),), words(outputs)), lock)
    return ledger.proven(made, Statement(ledger.kind, ALICE, (Spent(spent[1]),), outputs, 0))


def released(ledger: TokenLedger, spent: Input, delegate: int) -> Made:
    """Gives a locked coin back to its owner; with another delegate than it has, the proof is of another coin."""
    outputs = (coin(spent[1].value, salt=spent[1].salt + 7),)
    lock = LockChange(kind=LockKind.RELEASE, lock=words((spent[1],))[0])
    made = with_lock(ledger, ledger.written((ledger.reference(spent),), words(outputs)), lock)
    shown = replace(spent[1], delegate=delegate)
    return ledger.proven(made, Statement(ledger.kind, ALICE, (Spent(shown),), outputs, 0, delegate=delegate))


def spending(ledger: TokenLedger, spent: Input, outputs: tuple[Coin, ...]) -> Made:
    """Pays with a locked coin; its delegate may be named later."""
    nonce = bytes(range(16))
    written = ledger.written((ledger.reference(spent),), words(outputs), Preparation(ledger.address, NO_CONDITION))
    intent = keyless_intent(nonce, words((spent[1],))[0])
    commitments = tuple(state.commitment for state in written.outputs)
    core = core_of(ledger.separator, intent, inputs=written.inputs, outputs=commitments, info=written.info)
    leaf = leaf_of(core, written.preparation)
    ledger.coins[leaf] = b"".join(written.info)
    states = tuple(State(StateId(leaf, number), each, ()) for number, each in enumerate(commitments))
    made = replace(written, intent=intent, leaf=leaf, outputs=states)
    statement = Statement(ledger.kind, ALICE, (Spent(spent[1]),), outputs, 0, delegate=delegate_of(ledger))
    proved = ledger.proven(made_signable(ledger, made), statement)
    signature = nonce + bytes(48) + proved.transition.signature[64:]
    return replace(proved, transition=replace(proved.transition, signature=signature))


def made_signable(ledger: TokenLedger, made: Transition) -> Transition:
    """Its id has no key; the signature of any is replaced afterwards."""
    ledger.keys[made.intent] = next(iter(ledger.keys.values()))
    return made


def transfer_call(ledger: TokenLedger, spent: Input, made: Made) -> bytes:
    payload = encode_payload((made.transition,), VALID_UNTIL_S)
    outputs = [each.commitment for each in made.coins]
    auth = ledger.auth(made.transition)
    return encode_call("ProvedLocks", "transferLocked", [spent[1].commitment], outputs, auth, payload)


async def refusal(ledger: TokenLedger, call: bytes, sender: ContractAddress = OWNER) -> str:
    """Why the contract would not take a call; empty when it would."""
    wanted = {"from": sender, "to": ledger.address, "data": data(call), "gas": hex(2_000_000)}
    try:
        await ledger.chain.rpc("eth_call", wanted, "latest")
    except RpcRejected as rejected:
        return str(decode_error(bytes.fromhex(str(rejected.data).removeprefix("0x"))))
    return ""


async def sent(ledger: TokenLedger, call: bytes) -> CallReceipt:
    return await send(ledger.chain, {"to": ledger.address, "data": data(call), "gas": hex(2_000_000)})


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["embedded", "anvil"])
@in_loop
async def test_locked_coin_is_delegated_spent_and_released_with_real_proofs(chain: str, tmp_path: Path) -> None:
    async with running(chain, tmp_path) as there:
        ledger = await token_ledger(there, contract="ProvedLocks")
        mint = ledger.mint(coin(100, salt=10), coin(50, salt=20))
        await ledger.commit(mint)
        first = held(ledger, mint.inputs[0], 30, OWNER, NEVER_S)
        gas = {"lock": (await ledger.commit(first)).gas_used}
        locked = first.inputs[0]
        pays = spending(ledger, locked, (coin(20, BOB, salt=31), coin(10, salt=32)))
        call = transfer_call(ledger, locked, pays)

        # No commit spends it: neither with the proof for the ledger, nor with one for no delegate.
        plain = encode_commit(
            encode_payload((pays.transition,), VALID_UNTIL_S), ledger.auth(pays.transition), bytes(32)
        )
        assert (await refusal(ledger, plain)).startswith("WrongCommitter")
        free = ledger.proven(
            ledger.written((ledger.reference(locked),), words((coin(30, salt=33),))),
            Statement(ledger.kind, ALICE, (Spent(replace(locked[1], delegate=0)),), (coin(30, salt=33),), 0),
        )
        assert await ledger.refusal(free.transition) == "WrongProof(0,)"

        # A lock goes to the delegate that was not known when the spending was proved.
        assert (await refusal(ledger, call, STRANGER)).startswith("LockUnauthorized")
        to_stranger = encode_call("ProvedLocks", "delegateLock", [locked[1].commitment], STRANGER, b"")
        assert await refusal(ledger, to_stranger) == ""
        again = encode_call("ProvedLocks", "delegateLock", [locked[1].commitment], OWNER, b"why")
        gas["delegate"] = (await sent(ledger, again)).gas_used
        assert (await refusal(ledger, released_call(ledger, locked))) == ""
        assert await ledger.committed(released(ledger, locked, delegate_of(ledger)).transition) == 0
        gas["spend"] = (await sent(ledger, call)).gas_used
        assert (await refusal(ledger, call)).startswith("LockNotActive")

        # The change is free, and an expired lock is its owner's again.
        onward = ledger.pay((pays.inputs[1],), (coin(10, salt=40),))
        assert await ledger.committed(onward.transition) == 1
        second = held(ledger, mint.inputs[1], 50, OWNER, 1)
        await ledger.commit(second)
        wrong = released(ledger, second.inputs[0], 0)
        assert await ledger.refusal(wrong.transition) == "WrongProof(0,)"
        back = released(ledger, second.inputs[0], delegate_of(ledger))
        gas["release"] = (await ledger.commit(back)).gas_used
        assert await ledger.committed(ledger.pay(back.inputs, (coin(50, BOB, salt=60),)).transition) == 1
        print(chain, gas)
        assert all(gas[step] <= most for step, most in GAS_MAX.items()), gas


def released_call(ledger: TokenLedger, locked: Input) -> bytes:
    made = released(ledger, locked, delegate_of(ledger)).transition
    return encode_commit(encode_payload((made,), VALID_UNTIL_S), ledger.auth(made), bytes(32))
