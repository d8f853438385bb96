"""Zero-knowledge proofs, circuit by circuit, and the encryption of a coin, on one core.

read    seconds to read the proving key, once in each process
traced  seconds to compute all wires of a circuit for one statement
proved  seconds to make the proof of that; a transition costs both
checked seconds to verify the proof here; the chain does so for gas

Every slot of a circuit is used, and the coins of `anon_nullifier` are in a tree of several levels. Seconds are of
processor time, and the least of several proofs, because other work of the machine can only increase them.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import process_time
from typing import Final, TypeVar

from rota.domains.zeto.babyjubjub import SCALAR_BITS, key_of
from rota.domains.zeto.circuits import CIRCUITS, Circuit, Spent, Statement, structure, trace
from rota.domains.zeto.coins import Coin
from rota.domains.zeto.encryption import decrypt, encrypt
from rota.domains.zeto.identities import WORD_BYTES, Identities, identity_of
from rota.domains.zeto.tree import Tree
from rota.prover.curve import require_curve
from rota.prover.groth16 import prove, verify
from rota.prover.key_files import DEVELOPMENT_KEYS, load_key, read_transcript

PROOFS_DEFAULT: Final = 3
OWNER: Final = 1_234_567
OTHERS_IN_TREE: Final = 300
EACH_VALUE: Final = 1_000
BINDING: Final = 7
COIN_BYTES: Final = 330
ENCRYPTIONS: Final = 20

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CircuitFigures:
    """The cost of one circuit."""

    circuit: str
    constraints: int
    public_inputs: int
    key_bytes: int
    read_s: float
    traced_s: float
    proved_s: float
    checked_s: float


@dataclass(frozen=True, slots=True)
class ZetoFigures:
    """The cost of all circuits, the process's peak memory, and the cost of encrypting and decrypting a coin."""

    circuits: tuple[CircuitFigures, ...]
    memory_mib: float
    encrypted_us: float
    decrypted_us: float


def measure_zeto(
    proofs: int = PROOFS_DEFAULT,
    circuits: Sequence[Circuit] = CIRCUITS,
    progress: Callable[[str], None] = lambda _: None,
) -> ZetoFigures:
    """Read keys and make proofs. `CurveMissing` without the extra."""
    require_curve()
    # By default the library has a thread for each core; this must be set before its first work.
    os.environ["RAYON_NUM_THREADS"] = "1"
    figures = []
    for circuit in circuits:
        progress(f"the circuit {circuit.name}")
        figures.append(_measured(circuit, proofs))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux reports KiB, macOS bytes.
    memory_mib = peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return ZetoFigures(tuple(figures), memory_mib, *_encryption_us())


def _encryption_us() -> tuple[float, float]:
    """Microseconds to encrypt a coin to its owner's key, and to decrypt it."""
    # As long as random scalars.
    owner, once = (1 << SCALAR_BITS) // 3, (1 << SCALAR_BITS) // 7
    key, content = key_of(owner), bytes(COIN_BYTES)
    encrypted = encrypt(content, key, once, b"")
    sent = min(_timed(partial(encrypt, content, key, once, b""))[0] for _ in range(ENCRYPTIONS))
    got = min(_timed(partial(decrypt, encrypted, owner, b""))[0] for _ in range(ENCRYPTIONS))
    return sent * 1_000_000, got * 1_000_000


def _measured(circuit: Circuit, proofs: int) -> CircuitFigures:
    statement = _full_statement(circuit)
    read_s, key = _timed(partial(load_key, DEVELOPMENT_KEYS, circuit))
    times = []
    for _ in range(proofs):
        traced_s, computed = _timed(partial(trace, statement))
        proved_s, proof = _timed(partial(prove, key, computed))
        checked_s, is_right = _timed(partial(verify, key.verifying, statement.public_inputs, proof))
        assert is_right, "a proof that was made is right"
        times.append((traced_s, proved_s, checked_s))
    traced, proved, checked = (min(column) for column in zip(*times, strict=True))
    entry = read_transcript(DEVELOPMENT_KEYS).of(circuit)
    return CircuitFigures(
        circuit.name,
        len(structure(circuit).constraints),
        circuit.public_count,
        entry.proving_key_bytes,
        read_s,
        traced,
        proved,
        checked,
    )


def _full_statement(circuit: Circuit) -> Statement:
    owner = key_of(OWNER)
    coins = [Coin(EACH_VALUE, salt, owner) for salt in range(circuit.input_count)]
    whole, others = EACH_VALUE * len(coins), circuit.output_count - 1
    made = tuple(Coin(value, 100 + place, owner) for place, value in enumerate([1] * others + [whole - others]))
    statement = Statement(circuit.kind, OWNER, tuple(Spent(coin) for coin in coins), made, BINDING)
    if circuit.kind.has_nullifiers:
        tree = Tree([*range(1, OTHERS_IN_TREE + 1), *(coin.commitment for coin in coins)])
        spent = tuple(Spent(coin, tree.path(OTHERS_IN_TREE + place)) for place, coin in enumerate(coins))
        statement = replace(statement, inputs=spent, root=tree.root)
    if not circuit.kind.has_identities:
        return statement
    roster = Identities()
    roster.extend([identity_of(owner).to_bytes(WORD_BYTES, "big")])
    path = roster.path_of(owner)
    assert path is not None, "the owner is registered"
    paths = (path,) * len(made)
    return replace(statement, identities=roster.root_number, owner_path=path, output_paths=paths)


def _timed(work: Callable[[], R]) -> tuple[float, R]:
    start = process_time()
    result = work()
    return process_time() - start, result
