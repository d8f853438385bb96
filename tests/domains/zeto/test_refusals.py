"""What the ledgers of both kinds of tokens refuse, with the real verifiers, on the embedded chain and on Anvil.

Everything here is asked and not sent, so that one token serves for all refusals; what is good is sent.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rota.calldata import nullifier_reference
from rota.domains.zeto import domain
from rota.domains.zeto.circuits import CIRCUITS, Circuit
from rota.domains.zeto.coins import VALUE_MAX, Coin
from rota.domains.zeto.domain import ANON, ANON_KYC, ANON_NULLIFIER, ANON_NULLIFIER_KYC
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.identities import Identities, identity_of
from rota.domains.zeto.owners import owner_key_of
from rota.ledger.proofs import PROOF_BYTES, SIGNATURE_BYTES, binding_of
from rota.model.digests import WORD_BYTES, domain_separator
from rota.model.types import ContractAddress, Preparation, Transition
from rota.prover.groth16 import Unprovable
from tests.domains.zeto.on_chain import (
    ALICE,
    BOB,
    ROOTS,
    VALID_UNTIL_S,
    Made,
    RegisteredLedger,
    TokenLedger,
    UnlinkedLedger,
    age_roots,
    asked_of,
    coin,
    intent_key,
    token_ledger,
    words,
)
from tests.domains.zeto.prover import key_of, proved
from tests.ledger.chains import CHAIN_ID, in_loop, running
from tests.ledger.participant import deploy_contract

# `make test` has each token on one chain.
PAIRS = (
    (ANON, "embedded"),
    (ANON_NULLIFIER, "anvil"),
    (ANON_NULLIFIER_KYC, "embedded"),
    pytest.param(ANON, "anvil", marks=pytest.mark.nightly),
    pytest.param(ANON_NULLIFIER, "embedded", marks=pytest.mark.nightly),
    pytest.param(ANON_KYC, "anvil", marks=pytest.mark.nightly),
)
WRONG = "WrongProof(0,)"
DELEGATE = ContractAddress("0x" + "de" * 20)
# In `auth`, behind the length, the validity and the signature of its first intent's key.
ROOT = slice(74, 74 + WORD_BYTES)
# The root of identities stands before the last proof.
IDENTITIES = slice(-PROOF_BYTES - WORD_BYTES, -PROOF_BYTES)
UNSIGNED = "NotIntentKey(0,)"


@pytest.fixture
def token(request: pytest.FixtureRequest) -> str:
    """A kind of token, whose small key is read before anything is timed."""
    name: str = request.param
    key_of(circuits_of(name)[0])
    return name


def circuits_of(token: str) -> list[Circuit]:
    """The small one and the large one."""
    return [circuit for circuit in CIRCUITS if circuit.kind is domain.KINDS[token]]


def with_proof_of(ledger: TokenLedger, transition: Transition, other: Made) -> Transition:
    """Signed by its own intent's key, with the proof of another."""
    return ledger.signed(transition, other.transition.signature[SIGNATURE_BYTES:])


async def refuses_squatted_ids(ledger: TokenLedger, minted: Made, spend: Made) -> None:
    """Who copies an id from the mempool cannot use it up: not empty, not for a coin of its own, not with a mint."""
    pending = spend.transition
    own_signature = pending.signature[:SIGNATURE_BYTES]
    attacker = intent_key(666)
    bobs = ledger.pay(minted.inputs[3:], (coin(5, BOB, salt=9),), BOB, intent=101).transition
    squatting = {"empty": ledger.empty(101), "payment": bobs}
    for kind, wanted in squatting.items():
        assert wanted.intent == pending.intent, kind
        rest = wanted.signature[SIGNATURE_BYTES:]
        forged = attacker.sign_compact(binding_of(wanted.leaf, wanted.valid_until_s))
        for signature in (forged, own_signature, bytes(SIGNATURE_BYTES)):
            assert await ledger.refusal(replace(wanted, signature=signature + rest)) == UNSIGNED, kind
    assert await ledger.refusal(pending) == "", "as it is it would be taken"
    # Its owner may, without a proof.
    assert await ledger.committed(squatting["empty"]) == 1


async def refuses_other_statements(ledger: TokenLedger, minted: Made, spend: Made) -> None:
    """Each public input, exchanged for another: inputs, outputs, what comes in, delegate, binding."""
    spent = ledger.references(minted)
    others = {
        "input 0": ledger.written((spent[2], spent[1]), words(spend.coins), intent=101),
        "input 1": ledger.written((spent[0], spent[3]), words(spend.coins), intent=101),
        "no input 1": ledger.written(spent[:1], words(spend.coins), intent=101),
        "output 0": ledger.written(spent[:2], words((coin(8), spend.coins[1])), intent=101),
        "output 1": ledger.written(spent[:2], words((spend.coins[0], coin(8))), intent=101),
        "outputs mixed up": ledger.written(spent[:2], words(spend.coins[::-1]), intent=101),
        "inputs mixed up": ledger.written(spent[1::-1], words(spend.coins), intent=101),
        "binding": ledger.written(spent[:2], words(spend.coins), intent=102),
    }
    for what, other in others.items():
        assert await ledger.refusal(with_proof_of(ledger, other, spend)) == WRONG, what
    # A validity that the proof does not have.
    sooner = replace(spend.transition, valid_until_s=VALID_UNTIL_S - 1)
    assert await ledger.refusal(sooner) == UNSIGNED
    assert await ledger.refusal(with_proof_of(ledger, sooner, spend)) == WRONG
    # Proofs of other statements: more comes out than went in, as a mint or deposit would; and a lock's.
    stated = spend.statement
    assert stated is not None
    richer = replace(
        stated, net=5, outputs=(replace(stated.outputs[0], value=stated.outputs[0].value + 5), *spend.coins[1:])
    )
    made = ledger.written(spent[:2], words(richer.outputs), intent=101)
    assert await ledger.refusal(ledger.proven(made, richer).transition) == WRONG
    # An empty transition has no proof, not even a right one.
    empty = ledger.written((), (), intent=101)
    nothing = replace(stated, scalar=0, inputs=(), outputs=(), root=0, owner_path=(), output_paths=())
    assert await ledger.refusal(ledger.proven(empty, nothing).transition) == "MalformedAuth(0,)"


async def refuses_other_proofs(ledger: TokenLedger, spend: Made) -> None:
    """Each element of a proof, changed by one bit, and zeros."""
    auth = ledger.auth(spend.transition)
    for place in range(31, PROOF_BYTES, 32):
        proof = bytearray(auth[-PROOF_BYTES:])
        proof[place] ^= 1
        changed = auth[:-PROOF_BYTES] + bytes(proof)
        assert await ledger.refusal(spend.transition, auth=changed) == WRONG, place
    zeros = auth[:-PROOF_BYTES] + bytes(PROOF_BYTES)
    assert await ledger.refusal(spend.transition, auth=zeros) == WRONG
    assert await ledger.refusal(spend.transition, auth=auth) == "", "as it is it would be taken"


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
    spent = ledger.references(minted)[:2]
    alias = (int.from_bytes(words(spend.coins)[0], "big") + ORDER).to_bytes(32, "big")
    made = ledger.written(spent, (alias, words(spend.coins)[1]), intent=101)
    # Commitments are looked at before their proof is.
    assert await ledger.refusal(ledger.proven(made, stated).transition) == "Malformed(0, 'coin')"
    zero = ledger.written(spent, (bytes(32), words(spend.coins)[1]), intent=101)
    assert await ledger.refusal(ledger.proven(zero, stated).transition) == "Malformed(0, 'coin')"


async def refuses_somebody_elses_coin(ledger: TokenLedger, minted: Made) -> None:
    """With Alice's secret Bob's coin cannot be proved, and shown as hers it is not the one on the chain."""
    bobs = minted.inputs[3]
    with pytest.raises(Unprovable):
        ledger.pay((bobs,), (coin(5),))
    posing: Coin = replace(bobs[1], owner=minted.coins[0].owner)
    if not isinstance(ledger, UnlinkedLedger):
        made = ledger.pay(((bobs[0], posing),), (coin(5),))
        assert await ledger.refusal(made.transition) == WRONG
        return
    # In a tree of her own it is there: with a root that the ledger does not know, or one that the proof is not for.
    own = type(ledger)(ledger.chain, ledger.address, ledger.separator)
    if isinstance(own, RegisteredLedger) and isinstance(ledger, RegisteredLedger):
        own.identities = ledger.identities
    own.tree.extend([words((posing,))])
    made = own.pay(((bobs[0], posing),), (coin(5),), intent=103)
    ledger.coins |= own.coins
    assert await ledger.committed(made.transition) == 0
    auth = bytearray(ledger.auth(made.transition))
    auth[ROOT] = ledger.tree.root.to_bytes(WORD_BYTES, "big")
    assert await ledger.refusal(made.transition, auth=bytes(auth)) == WRONG


async def refuses_proofs_of_elsewhere(ledger: TokenLedger, other: TokenLedger, minted: Made, spend: Made) -> None:
    """What was proved for another contract, or for this one on another chain."""
    twin = other.mint(*minted.coins)
    await other.commit(twin)
    foreign = other.pay(twin.inputs[:2], spend.coins, intent=101)
    assert await ledger.refusal(with_proof_of(ledger, spend.transition, foreign)) == WRONG
    there = domain_separator(CHAIN_ID + 1, ledger.address)
    spent = ledger.references(minted)[:2]
    forked = ledger.written(spent, words(spend.coins), intent=101, separator=there)
    stated = spend.statement
    assert stated is not None
    assert await ledger.refusal(with_proof_of(ledger, spend.transition, ledger.proven(forked, stated))) == WRONG


async def refuses_who_is_not_the_delegate(ledger: TokenLedger) -> None:
    """A locked coin is spent by what its delegate commits, and by nothing else."""
    locked = ledger.mint(coin(9, delegate=int(DELEGATE, 16)))
    await ledger.commit(locked)
    prepared = ledger.pay(locked.inputs, (coin(9),), preparation=Preparation(DELEGATE, bytes(32)))
    assert (await ledger.refusal(prepared.transition)).startswith("WrongCommitter(0,")
    with pytest.raises(Unprovable):
        ledger.pay(locked.inputs, (coin(9),))
    free = ledger.written(ledger.references(locked), words((coin(9),)))
    assert await ledger.refusal(with_proof_of(ledger, free, prepared)) == WRONG


async def refuses_other_roots(ledger: UnlinkedLedger, other: TokenLedger, spend: Made) -> None:
    """Zero, one that never was, that of another contract, another recent one, and its own when it is too old."""

    async def shown(root: int) -> tuple[str, int]:
        auth = bytearray(ledger.auth(spend.transition))
        auth[ROOT] = root.to_bytes(WORD_BYTES, "big")
        refusal = await ledger.refusal(spend.transition, auth=bytes(auth))
        return refusal, 0 if refusal else await ledger.committed(spend.transition, auth=bytes(auth))

    assert spend.statement is not None
    own = spend.statement.root
    assert await shown(own) == ("", 1)
    recent = ledger.tree.root
    assert recent != own, "coins were made since"
    assert await shown(recent) == (WRONG, 0)
    assert await shown(0) == (WRONG, 0)
    assert await shown(7) == ("", 0)
    assert await shown(own + ORDER) == ("", 0)
    assert isinstance(other, UnlinkedLedger)
    await other.commit(other.mint(coin(1, salt=77)))
    assert await shown(other.tree.root) == ("", 0)
    for later, expected in ((ROOTS - 2, 1), (1, 0)):
        await age_roots(ledger.chain.rpc, ledger.address, later)
        assert await shown(own) == ("", expected), later
    await age_roots(ledger.chain.rpc, ledger.address, 1 - ROOTS)
    assert await shown(own) == ("", 1)


async def takes_nullifiers_once(ledger: UnlinkedLedger, minted: Made, spend: Made) -> None:
    """They are marked by the spend, and another form of one is none."""
    for reference in spend.transition.inputs:
        assert await asked_of(ledger.chain.rpc, ledger.address, "isNullified", reference.leaf) == (1,)
    unspent = ledger.references(minted)[2]
    assert await asked_of(ledger.chain.rpc, ledger.address, "isNullified", unspent.leaf) == (0,)
    alias = nullifier_reference((int.from_bytes(spend.transition.inputs[0].leaf, "big") + ORDER).to_bytes(32, "big"))
    made = ledger.written((alias,), words((coin(5),)), intent=104)
    stated = ledger.pay(minted.inputs[:1], (coin(5),), intent=105).statement
    assert stated is not None
    assert await ledger.refusal(ledger.proven(made, stated).transition) == WRONG
    zero = ledger.written((nullifier_reference(bytes(32)),), words((coin(5),)), intent=104)
    assert await ledger.refusal(ledger.proven(zero, stated).transition) == "Malformed(0, 'nullifier')"


async def refuses_unregistered_owners(ledger: RegisteredLedger, minted: Made) -> None:
    """No prover proves a payment to a stranger, or of a stranger's coin; a roster of one's own is not the ledger's."""
    stranger = 99
    with pytest.raises(Unprovable):
        ledger.pay(minted.inputs[2:3], (coin(5, stranger),))
    theirs = ledger.mint(coin(5, stranger))
    await ledger.commit(theirs)
    with pytest.raises(Unprovable):
        ledger.pay(theirs.inputs, (coin(5),), stranger)
    own = replace(ledger, identities=Identities())
    for scalar in (ALICE, stranger):
        own.identities.extend([identity_of(owner_key_of(scalar)).to_bytes(WORD_BYTES, "big")])
    paid = own.pay(minted.inputs[2:3], (coin(5, stranger),), intent=106)
    assert await ledger.committed(paid.transition) == 0
    auth = bytearray(ledger.auth(paid.transition))
    auth[IDENTITIES] = ledger.identities.root
    assert await ledger.refusal(paid.transition, auth=bytes(auth)) == WRONG
    auth[IDENTITIES] = bytes(WORD_BYTES)
    assert await ledger.refusal(paid.transition, auth=bytes(auth)) == "NoIdentitiesRoot(0,)"


@pytest.mark.slow
@pytest.mark.parametrize(("token", "kind"), PAIRS, indirect=["token"])
@in_loop
async def test_ledger_refuses_what_is_not_proved(token: str, kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        factory = await deploy_contract(chain, "Factory")
        ledger, other = [await token_ledger(chain, factory, number, token) for number in range(2)]
        minted = ledger.mint(coin(5), coin(7), coin(5, salt=2), coin(5, BOB, salt=3))
        await ledger.commit(minted)
        spend = ledger.pay(minted.inputs[:2], (coin(9, BOB), coin(3)), intent=101)
        await refuses_squatted_ids(ledger, minted, spend)
        await refuses_other_statements(ledger, minted, spend)
        await refuses_other_proofs(ledger, spend)
        await refuses_values_beyond_their_range(ledger, minted, spend)
        await refuses_somebody_elses_coin(ledger, minted)
        await refuses_proofs_of_elsewhere(ledger, other, minted, spend)
        await refuses_who_is_not_the_delegate(ledger)
        if isinstance(ledger, UnlinkedLedger):
            await refuses_other_roots(ledger, other, spend)
        if isinstance(ledger, RegisteredLedger):
            await refuses_unregistered_owners(ledger, minted)

        # The one that all of these were not is taken, once.
        again = ledger.pay(minted.inputs[:2], (coin(12, ALICE),))
        assert await ledger.refusal(spend.transition) == ""
        await ledger.commit(spend)
        assert await ledger.committed(spend.transition, again.transition) == 0
        if isinstance(ledger, UnlinkedLedger):
            await takes_nullifiers_once(ledger, minted, spend)


@pytest.mark.slow
@pytest.mark.parametrize("token", [ANON, ANON_NULLIFIER])
def test_both_shapes_go_in_one_round_on_top_of_one_another(token: str, tmp_path: Path) -> None:
    """As many coins as may be become as many, and one of these is spent at once; where it must be, it is named."""
    small, large = circuits_of(token)
    for circuit in (small, large):
        key_of(circuit)

    @in_loop
    async def commit() -> None:
        async with running("embedded", tmp_path) as chain:
            ledger = await token_ledger(chain, token=token)
            minted = ledger.mint(*(coin(4, salt=number) for number in range(large.input_count)))
            await ledger.commit(minted)
            parts = tuple(coin(1, salt=100 + number) for number in range(large.output_count - 1))
            rest = coin(4 * large.input_count - len(parts), salt=99)
            joined = ledger.pay(minted.inputs, (*parts, rest))
            pending = joined.inputs[-1] if isinstance(ledger, UnlinkedLedger) else None
            paid = ledger.pay(joined.inputs[-1:], (coin(rest.value, BOB),), pending=pending)
            assert [each.statement.circuit for each in (joined, paid) if each.statement] == [large, small]
            assert await ledger.committed(joined.transition, paid.transition) == 0b11
            await ledger.commit(joined, paid)

    commit()
