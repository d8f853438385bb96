"""The generated contracts of `zeto`: what they take for a proof, and that they are those that the keys say.

Proofs are made by the library's arithmetic and checked by the chain's: neither can be wrong without the other noticing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.domains.zeto.circuits import CIRCUITS, Circuit, Kind, Statement, trace
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.tree import CHILDREN, node_of
from rota.model.types import ContractAddress
from rota.prover.groth16 import prove, verify
from rota.prover.key_files import DEVELOPMENT_KEYS, load_key, read_transcript
from tests.contracts.evm import Answer, Chain, Reverted, call_data
from tests.domains.zeto.coins import transfer
from tests.domains.zeto.prover import proved
from tools.zeto_contracts import contract_name, generated
from tools.zeto_setup import ROOT, add_keys, main, make_keys

SMALL = Circuit(Kind.ANON, 2, 2)
NAME = contract_name(SMALL)
WORD = 32
# The largest key takes 20 s to read on a core of its own.
KEYS_TIMEOUT_S = 600
MODULUS = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47


@cache
def deployed(name: str) -> tuple[Chain, ContractAddress]:
    chain = Chain()
    return chain, chain.deploy(name)


@cache
def proofs_of(count: int) -> tuple[tuple[Statement, bytes], ...]:
    statements = [replace(transfer(Kind.ANON), binding=1_000 + number) for number in range(count)]
    return tuple((statement, proved(statement)) for statement in statements)


def answered(name: str, inputs: list[int], proofs: bytes) -> Answer:
    chain, address = deployed(name)
    return chain.send(address, call_data(name, "verify", inputs, proofs))


def verified(inputs: list[int], proofs: bytes, name: str = NAME) -> bool:
    return bool(int.from_bytes(answered(name, inputs, proofs).output))


def flat(pairs: tuple[tuple[Statement, bytes], ...]) -> tuple[list[int], bytes]:
    return [value for statement, _ in pairs for value in statement.public_inputs], b"".join(proof for _, proof in pairs)


@pytest.mark.slow
def test_one_proof_and_several_are_taken() -> None:
    for count in (1, 2, 3):
        assert verified(*flat(proofs_of(3)[:count]))


@pytest.mark.slow
@pytest.mark.timeout(KEYS_TIMEOUT_S)
@pytest.mark.parametrize(
    "circuit",
    [
        pytest.param(
            each,
            id=each.name,
            marks=() if each.input_count == 2 and each.kind is not Kind.ANON_KYC else pytest.mark.nightly,
        )
        for each in CIRCUITS
    ],
)
def test_each_circuit_has_its_verifier(circuit: Circuit) -> None:
    count = circuit.input_count
    statement = transfer(circuit.kind, (10,) * count, (3, 10 * count - 3))
    assert statement.circuit == circuit
    name, proof = contract_name(circuit), proved(statement)
    assert verified(list(statement.public_inputs), proof, name)
    others = [one for one in CIRCUITS if one != circuit and one.public_count == circuit.public_count]
    assert not others, "proofs of another circuit do not even have as many public inputs"


@pytest.mark.slow
def test_each_public_input_counts() -> None:
    inputs, proof = flat(proofs_of(1))
    for place in range(len(inputs)):
        changed = list(inputs)
        changed[place] = (changed[place] + 1) % ORDER
        assert not verified(changed, proof), f"public input {place}"


@pytest.mark.slow
def test_a_public_input_has_one_form() -> None:
    inputs, proof = flat(proofs_of(1))
    for place in range(len(inputs)):
        changed = list(inputs)
        changed[place] += ORDER
        assert not verified(changed, proof), f"public input {place}"


def test_each_word_of_a_proof_counts() -> None:
    inputs, proof = flat(proofs_of(1))
    for place in range(len(proof) // WORD):
        for changed in (_with(proof, place, 1), _with(proof, place, MODULUS)):
            assert not verified(inputs, changed), f"word {place}"


@pytest.mark.parametrize("place", range(2))
def test_one_wrong_proof_of_several_is_enough(place: int) -> None:
    pairs = proofs_of(2)
    inputs, proofs = flat(pairs)
    inputs[place * SMALL.public_count] += 1
    assert not verified(inputs, proofs)


def test_proofs_that_make_up_for_one_another_are_refused() -> None:
    """C moved from one proof to the other: their plain product would be right, the one with multipliers is not."""
    inputs, proofs = flat(proofs_of(2))
    first, second = proofs[:256], proofs[256:]
    exchanged = first[:192] + second[192:] + second[:192] + first[192:]
    assert not verified(inputs, exchanged)


def test_what_is_malformed_is_no_proof() -> None:
    inputs, proof = flat(proofs_of(1))
    assert not verified([], b"")
    assert not verified(inputs, proof[:-1])
    assert not verified(inputs, proof + bytes(1))
    assert not verified(inputs[:-1], proof)
    assert not verified([*inputs, 0], proof)
    assert not verified(inputs, bytes(256))


def test_more_proofs_cost_less_each() -> None:
    gas = [answered(NAME, *flat(proofs_of(3)[:count])).gas for count in (1, 2, 3)]
    assert gas[1] - gas[0] < gas[0] / 3
    assert abs((gas[2] - gas[1]) - (gas[1] - gas[0])) < gas[0] / 10


# The hash of the tree's nodes.


@settings(max_examples=20)
@given(st.lists(st.integers(0, ORDER - 1), max_size=12))
def test_nodes_are_hashed_as_in_the_circuits(children: list[int]) -> None:
    children = children[: len(children) // CHILDREN * CHILDREN]
    chain, address = deployed("PoseidonTree")
    nodes = [node_of(children[start : start + CHILDREN]) for start in range(0, len(children), CHILDREN)]
    assert list(chain.call("PoseidonTree", address, "hash", children)) == nodes


def test_children_come_in_fours() -> None:
    chain, address = deployed("PoseidonTree")
    with pytest.raises(Reverted):
        chain.call("PoseidonTree", address, "hash", [1, 2, 3])


# That they are generated from the keys.


def test_contracts_are_those_that_the_keys_say() -> None:
    assert main(["--check"]) == 0
    for path, text in generated(DEVELOPMENT_KEYS).items():
        assert (ROOT / path).read_text(encoding="utf-8") == text


def test_a_contract_that_is_not_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "contracts").mkdir()
    assert main(["--check"], tmp_path) == 1
    assert "VerifierAnon2x2.sol is not what the keys say" in capsys.readouterr().err
    assert main(["contracts", str(DEVELOPMENT_KEYS)], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0


def test_wrong_use_is_told_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key"]) == 2
    assert "python -m tools.zeto_setup keys" in capsys.readouterr().err


@pytest.mark.slow
def test_a_new_set_up_makes_keys_that_prove(tmp_path: Path) -> None:
    """As a network would make keys of its own: another key each time, and proofs of one are not of the other."""
    transcript = make_keys(tmp_path, (SMALL,))
    key, statement = load_key(tmp_path, SMALL), transfer(Kind.ANON)
    proof = prove(key, trace(statement))
    assert verify(key.verifying, statement.public_inputs, proof)
    assert not verified(list(statement.public_inputs), proof.to_bytes())
    assert transcript.of(SMALL).proving_key_hash != read_transcript(DEVELOPMENT_KEYS).of(SMALL).proving_key_hash


@pytest.mark.slow
def test_keys_are_added_for_new_circuits_and_those_of_others_stay(tmp_path: Path) -> None:
    """Contracts that were deployed with the verifiers of the others stay those that nodes know."""
    added = Circuit(Kind.ANON, 1, 1)
    first = make_keys(tmp_path, (SMALL,))
    key = (tmp_path / f"{SMALL.name}.key").read_bytes()
    both = add_keys(tmp_path, (SMALL, added))
    assert both.of(SMALL) == first.of(SMALL)
    assert (tmp_path / f"{SMALL.name}.key").read_bytes() == key
    assert both.of(added).made_at
    assert (both.made_at, both) == (first.made_at, read_transcript(tmp_path))
    assert load_key(tmp_path, added).domain_size
    assert add_keys(tmp_path, (SMALL, added)) == both


def _with(proof: bytes, place: int, more: int) -> bytes:
    """A proof with a larger number in one word."""
    number = int.from_bytes(proof[place * WORD : (place + 1) * WORD]) + more
    return proof[: place * WORD] + (number % 2**256).to_bytes(WORD) + proof[(place + 1) * WORD :]
