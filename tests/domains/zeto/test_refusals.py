"""What the ledger of a token refuses, with the real verifiers, on the embedded chain and on Anvil.

Everything here is asked and not sent, so that one token serves for all refusals; what is good is sent.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rota.digests import domain_separator
from rota.domains.zeto.circuits import Statement
from rota.domains.zeto.coins import VALUE_MAX, Coin
from rota.domains.zeto.field import ORDER
from rota.engines.proving.groth16 import Unprovable
from rota.ledger.proofs import binding_of
from rota.types import ContractAddress, Preparation, Transition
from tests.domains.zeto.on_chain import ALICE, BOB, VALID_UNTIL_S, Made, TokenLedger, coin, token_ledger, words
from tests.domains.zeto.prover import proved
from tests.ledger.chains import CHAIN_ID, in_loop, running
from tests.ledger.participant import deploy_contract

KINDS = ("embedded", "anvil")
WRONG = "WrongProof(0,)"
DELEGATE = ContractAddress("0x" + "de" * 20)


def with_proof_of(transition: Transition, other: Made) -> Transition:
    return replace(transition, signature=other.transition.signature)


async def refuses_other_statements(ledger: TokenLedger, minted: Made, spend: Made) -> None:
    """Each public input, exchanged for another: inputs, outputs, what comes in, delegate, binding."""
    state = minted.ids
    others = {
        "input 0": ledger.written((state[2], state[1]), words(spend.coins), intent=101),
        "input 1": ledger.written((state[0], state[3]), words(spend.coins), intent=101),
        "no input 1": ledger.written(state[:1], words(spend.coins), intent=101),
        "output 0": ledger.written(state[:2], words((coin(8), spend.coins[1])), intent=101),
        "output 1": ledger.written(state[:2], words((spend.coins[0], coin(8))), intent=101),
        "outputs mixed up": ledger.written(state[:2], words(spend.coins[::-1]), intent=101),
        "inputs mixed up": ledger.written(state[1::-1], words(spend.coins), intent=101),
        "binding": ledger.written(state[:2], words(spend.coins), intent=102),
    }
    for what, other in others.items():
        assert await ledger.refusal(with_proof_of(other, spend)) == WRONG, what
    # A validity that the proof does not have.
    assert await ledger.refusal(replace(spend.transition, valid_until_s=VALID_UNTIL_S - 1)) == WRONG
    # Proofs of other statements: more comes out than went in, as a mint or deposit would; and a lock's.
    stated = spend.statement
    assert stated is not None
    richer = replace(
        stated, net=5, outputs=(replace(stated.outputs[0], value=stated.outputs[0].value + 5), *spend.coins[1:])
    )
    made = ledger.written(state[:2], words(richer.outputs), intent=101)
    assert await ledger.refusal(replace(made, signature=proved(bound(richer, made)))) == WRONG
    locked = replace(stated, delegate=7, inputs=())
    empty = ledger.written((), (), intent=101)
    locked = replace(locked, scalar=0, outputs=())
    assert await ledger.refusal(replace(empty, signature=proved(bound(locked, empty)))) == WRONG


def bound(statement: Statement, transition: Transition) -> Statement:
    binding = int.from_bytes(binding_of(transition.leaf, transition.valid_until_s), "big") % ORDER
    return replace(statement, binding=binding)


async def refuses_other_proofs(ledger: TokenLedger, spend: Made) -> None:
    """Each element of a proof, changed by one bit, and zeros."""
    for place in range(31, 256, 32):
        proof = bytearray(spend.transition.signature)
        proof[place] ^= 1
        assert await ledger.refusal(replace(spend.transition, signature=bytes(proof))), place
    assert await ledger.refusal(replace(spend.transition, signature=bytes(256))) == WRONG


async def refuses_values_beyond_their_range(ledger: TokenLedger, minted: Made, spend: Made) -> None:
    """Nobody can prove them, and another form of a number of the field is none."""
    stated = spend.statement
    assert stated is not None
    first, second = stated.outputs
    wraps = replace(stated, outputs=(replace(first, value=ORDER - 1), replace(second, value=13)))
    over = replace(stated, outputs=(replace(first, value=VALUE_MAX + 1), replace(second, value=11 - VALUE_MAX)))
    for outputs in (wraps, over):
        with pytest.raises(Unprovable):
            proved(outputs)
    alias = (int.from_bytes(words(spend.coins)[0], "big") + ORDER).to_bytes(32, "big")
    made = ledger.written(minted.ids[:2], (alias, words(spend.coins)[1]), intent=101)
    assert await ledger.refusal(replace(made, signature=proved(bound(stated, made)))) == WRONG


async def refuses_somebody_elses_coin(ledger: TokenLedger, minted: Made) -> None:
    """With Alice's secret Bob's coin cannot be proved, and shown as hers it is not the one on the chain."""
    with pytest.raises(Unprovable):
        ledger.pay(((minted.ids[3], minted.coins[3]),), (coin(5),))
    posing: Coin = replace(minted.coins[3], owner=minted.coins[0].owner)
    made = ledger.pay(((minted.ids[3], posing),), (coin(5),))
    assert await ledger.refusal(made.transition) == WRONG


async def refuses_proofs_of_elsewhere(ledger: TokenLedger, other: TokenLedger, minted: Made, spend: Made) -> None:
    """What was proved for another contract, or for this one on another chain."""
    twin = other.mint(*minted.coins)
    await other.commit(twin)
    pairs = tuple(zip(twin.ids, twin.coins, strict=True))
    foreign = other.pay(pairs[:2], spend.coins, intent=101)
    assert await ledger.refusal(with_proof_of(spend.transition, foreign)) == WRONG
    there = domain_separator(CHAIN_ID + 1, ledger.address)
    forked = ledger.written(minted.ids[:2], words(spend.coins), intent=101, separator=there)
    stated = spend.statement
    assert stated is not None
    proof = proved(bound(stated, forked))
    assert await ledger.refusal(replace(spend.transition, signature=proof)) == WRONG


async def refuses_who_is_not_the_delegate(ledger: TokenLedger) -> None:
    """A locked coin is spent by what its delegate commits, and by nothing else."""
    locked = ledger.mint(coin(9, delegate=int(DELEGATE, 16)))
    await ledger.commit(locked)
    inputs = ((locked.ids[0], locked.coins[0]),)
    prepared = ledger.pay(inputs, (coin(9),), preparation=Preparation(DELEGATE, bytes(32)))
    assert (await ledger.refusal(prepared.transition)).startswith("WrongCommitter(0,")
    with pytest.raises(Unprovable):
        ledger.pay(inputs, (coin(9),))
    free = ledger.written(locked.ids[:1], words((coin(9),)))
    assert await ledger.refusal(with_proof_of(free, prepared)) == WRONG


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_ledger_refuses_what_is_not_proved(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        factory = await deploy_contract(chain, "Factory")
        ledger = await token_ledger(chain, factory)
        minted = ledger.mint(coin(5), coin(7), coin(5, salt=2), coin(5, BOB))
        await ledger.commit(minted)
        pairs = tuple(zip(minted.ids, minted.coins, strict=True))
        spend = ledger.pay(pairs[:2], (coin(9, BOB), coin(3)), intent=101)
        await refuses_other_statements(ledger, minted, spend)
        await refuses_other_proofs(ledger, spend)
        await refuses_values_beyond_their_range(ledger, minted, spend)
        await refuses_somebody_elses_coin(ledger, minted)
        await refuses_proofs_of_elsewhere(ledger, await token_ledger(chain, factory, 1), minted, spend)
        await refuses_who_is_not_the_delegate(ledger)

        # The one that all of these were not is taken, once.
        again = ledger.pay(pairs[:2], (coin(12, ALICE),))
        assert await ledger.refusal(spend.transition) == ""
        await ledger.commit(spend)
        assert await ledger.committed(spend.transition, again.transition) == 0
