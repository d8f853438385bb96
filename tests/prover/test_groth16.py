"""Groth16: proofs that hold and for whom, and what a key file must be. The contract is tested beside the others."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from rota.domains.zeto.circuits import CIRCUITS, Circuit, Kind, structure, trace
from rota.domains.zeto.constraints import Structure, System, Trace, W
from rota.domains.zeto.field import ORDER
from rota.prover.curve import G2, read_second
from rota.prover.groth16 import ProvingKey, Unprovable, prove, set_up, verify
from rota.prover.key_files import (
    DEVELOPMENT_KEYS,
    TRANSCRIPT,
    KeyFileWrong,
    hash_of_constraints,
    key_path,
    load_key,
    read_transcript,
    write_key,
)
from rota.prover.library_memory import FIELD_MODULUS as P
from tests.domains.zeto.circuits import EACH_CIRCUIT
from tests.domains.zeto.coins import transfer
from tests.domains.zeto.prover import key_of

CIRCUIT = CIRCUITS[0]


def cube(system: System[W], result: int, root: int) -> None:
    """A small circuit: whoever proves knows a cube root of the first public input; the second is not looked at."""
    public = system.public(result)
    system.public(7)
    secret = system.secret(root)
    system.require(system.product(secret, secret), secret, public)


@cache
def cube_key() -> ProvingKey:
    written = Structure()
    cube(written, 0, 0)
    return set_up(written)


def traced(result: int, root: int) -> Trace:
    computed = Trace()
    cube(computed, result, root)
    return computed


def test_a_proof_holds_for_its_public_inputs_and_no_others() -> None:
    key, computed = cube_key(), traced(27, 3)
    proof = prove(key, computed)
    assert verify(key.verifying, (27, 7), proof)
    assert not verify(key.verifying, (28, 7), proof)
    # No rule looks at this one. It is bound by the row of its own that every public input has.
    assert not verify(key.verifying, (27, 8), proof)


def test_proofs_are_of_one_set_up() -> None:
    written = Structure()
    cube(written, 0, 0)
    proof = prove(set_up(written), traced(27, 3))
    assert not verify(cube_key().verifying, (27, 7), proof)


def test_what_is_not_true_is_not_proved_and_its_proof_would_not_hold() -> None:
    key, computed = cube_key(), traced(28, 3)
    with pytest.raises(Unprovable, match="wiring"):
        prove(key, computed)
    computed.broken.clear()
    # Who leaves the check out divides by Z with a remainder: the quotient has too many coefficients.
    with pytest.raises(AssertionError, match="degree"):
        prove(key, computed)


def test_a_proof_is_not_the_same_twice() -> None:
    key, computed = cube_key(), traced(ORDER - 8, ORDER - 2)
    assert prove(key, computed).to_bytes() != prove(key, computed).to_bytes()


# The keys for development.


@pytest.mark.parametrize("circuit", EACH_CIRCUIT)
def test_keys_are_of_the_circuits_that_are_there(circuit: Circuit) -> None:
    entry = read_transcript(DEVELOPMENT_KEYS).of(circuit)
    content = key_path(DEVELOPMENT_KEYS, circuit).read_bytes()
    assert entry.constraints_hash == hash_of_constraints(circuit), "run `python -m tools.zeto_setup keys`"
    assert entry.constraint_count == len(structure(circuit).constraints)
    assert (entry.proving_key_hash, entry.proving_key_bytes) == (hashlib.sha256(content).hexdigest(), len(content))


@pytest.mark.slow
def test_a_key_is_read_as_it_was_written() -> None:
    key = key_of(CIRCUIT)
    assert write_key(CIRCUIT, key) == key_path(DEVELOPMENT_KEYS, CIRCUIT).read_bytes()
    statement = transfer(Kind.ANON)
    assert verify(key.verifying, statement.public_inputs, prove(key, trace(statement)))


@pytest.mark.slow
def test_reading_a_key_tells_how_far_it_is() -> None:
    told: list[int] = []
    load_key(DEVELOPMENT_KEYS, CIRCUIT, told.append)
    assert told == sorted(told)
    assert told[-1] == 100


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for path in (key_path(DEVELOPMENT_KEYS, CIRCUIT), DEVELOPMENT_KEYS / TRANSCRIPT):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_a_development_key_is_not_used_without_the_hash_that_this_package_has(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attacker who replaces the distribution of the keys, and not the node, gives the node no key."""
    with key_path(copied, CIRCUIT).open("ab") as file:
        file.write(b"\0")
    monkeypatch.setattr("rota.prover.key_files._points_folder", lambda: copied)
    with pytest.raises(KeyFileWrong, match=r"anon_\w+\.key does not have the SHA-256"):
        load_key(DEVELOPMENT_KEYS, CIRCUIT)


def test_a_key_that_was_changed_is_not_used(copied: Path) -> None:
    path = key_path(copied, CIRCUIT)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(KeyFileWrong, match=r"anon_2_2\.key does not have the SHA-256"):
        load_key(copied, CIRCUIT)


def outside_of_second_group() -> G2:
    """A point of the second curve of another order: the first whose x is a small number."""
    for x in range(1, 100):
        # y^2 = x^3 + 3 / (9 + u), and the root of a number of the extension by two roots of the field itself.
        real, imaginary = (x**3 + 27 * pow(82, -1, P)) % P, -3 * pow(82, -1, P) % P
        norm = _root(real * real + imaginary * imaginary)
        for sign in (norm, -norm):
            y0 = _root((real + sign) * pow(2, -1, P))
            if not y0:
                continue
            numbers = (x, 0, y0, imaginary * pow(2 * y0, -1, P) % P)
            with suppress(ValueError):
                (point,) = read_second(b"".join(number.to_bytes(32, "little") for number in numbers))
                return point
    raise AssertionError("half of all x have a point")


def _root(square: int) -> int:
    """Or zero."""
    root = pow(square, (P + 1) // 4, P)
    return root if (root * root - square) % P == 0 else 0


def written_over(folder: Path, content: bytes) -> None:
    """Another key file, with its hash in the transcript beside it."""
    key_path(folder, CIRCUIT).write_bytes(content)
    text = json.loads((folder / TRANSCRIPT).read_text())
    text["circuits"][0]["proving_key_hash"] = hashlib.sha256(content).hexdigest()
    (folder / TRANSCRIPT).write_text(json.dumps(text))


def with_header(content: bytes, **changed: object) -> bytes:
    """A key with another header."""
    magic, header, points = content.split(b"\n", 2)
    return b"\n".join((magic, json.dumps(json.loads(header) | changed).encode(), points))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "does not begin with"),
        (b"rota groth16 2\n{}\n", "wires"),
        (b"rota groth16 2\n[]\n", "is not a proving key"),
        (b"rota groth16 2\nno end", "is not a proving key"),
    ],
)
def test_a_file_that_is_no_key_is_told(copied: Path, content: bytes, reason: str) -> None:
    written_over(copied, content)
    with pytest.raises(KeyFileWrong, match=reason):
        load_key(copied, CIRCUIT)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"circuit": "anon_10_8"}, "it is of the circuit anon_10_8"),
        ({"wires": 9}, "is not a proving key"),
        ({"public": 1}, "with 1 public wires"),
        ({"domain_size": 2}, "its domain has 2 places"),
        ({"left": 9}, "as many points as wires that are marked"),
        ({"right": "9"}, "as many points as wires that are marked"),
    ],
)
def test_a_key_of_something_else_than_its_circuit_is_not_used(
    copied: Path, header: dict[str, object], reason: str
) -> None:
    """Also when the transcript was made of mixed up files: no proof is made with it."""
    written_over(copied, with_header(key_path(copied, CIRCUIT).read_bytes(), **header))
    with pytest.raises(KeyFileWrong, match=reason):
        load_key(copied, CIRCUIT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content[:-1], "ends too early"),
        (lambda content: content + b"\0", "1 bytes are left over"),
        # The point at infinity is a point.
        (lambda content: content[:-128] + bytes(128), "does not have the verifying key"),
        (lambda content: content[:-192] + content[-64:-32] + content[-160:], "there is no point"),
        (lambda content: content[:-128] + (b"\xff" * 32) + content[-96:], "a number is too large"),
    ],
    ids=["truncated", "longer", "infinity", "another number", "too large"],
)
def test_a_key_that_is_not_whole_is_not_used(copied: Path, change: Callable[[bytes], bytes], reason: str) -> None:
    """Its hash is right: the transcript has the hash of a wrong file."""
    written_over(copied, change(key_path(copied, CIRCUIT).read_bytes()))
    with pytest.raises(KeyFileWrong, match=reason):
        load_key(copied, CIRCUIT)


@pytest.mark.slow
def test_a_key_of_another_set_up_is_not_used(copied: Path) -> None:
    """Its proofs verify with its own verifying key, and not with the contract's: none of them is made."""
    other = write_key(CIRCUIT, set_up(structure(CIRCUIT)))
    written_over(copied, other)
    with pytest.raises(KeyFileWrong, match=r"anon_2_2\.key does not have the verifying key in transcript\.json"):
        load_key(copied, CIRCUIT)


@pytest.mark.slow
def test_points_of_another_order_are_read_and_give_no_proof_that_verifies(copied: Path) -> None:
    """The second curve has more points than the second group. Only the hash of a key excludes them."""
    key = key_of(CIRCUIT)
    wrong = replace(key, right_second=(outside_of_second_group(), *key.right_second[1:]))
    written_over(copied, write_key(CIRCUIT, wrong))
    read = load_key(copied, CIRCUIT)
    statement = transfer(Kind.ANON)
    assert not verify(read.verifying, statement.public_inputs, prove(read, trace(statement)))


def test_a_circuit_without_keys_is_told(copied: Path) -> None:
    with pytest.raises(KeyFileWrong, match="no keys for the circuit anon_3_2"):
        load_key(copied, replace(CIRCUIT, input_count=3))
