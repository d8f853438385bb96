"""Proving keys as files, and the transcript of the set-up that made them.

    NAME.key          the proving key of a circuit: a line of JSON about it, which wires have points, then all points
    transcript.json   which circuits were set up, from what constraints, with what result, by whom and when

The transcript has the hash of each key and the verifying keys themselves, from which the contracts are generated. A
proving key is read only if it has the hash in its transcript: a changed key gives proofs that no verifier accepts, and
a maliciously changed one gives proofs that reveal secrets.

The development keys (docs/zeto.md) are in two places: their transcript is in this package, as every node recognizes
verifiers that are built from them; their 30 MB of points are in the distribution `rota-zeto-keys`, of the extra `zeto`.
A network that held a ceremony has all files in a folder of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from rota import extras
from rota.domains.zeto.circuits import Circuit, structure
from rota.prover.curve import G1_BYTES, G2_BYTES, read_first, read_second, write_points
from rota.prover.groth16 import ProvingKey, VerifyingKey, domain_size

DEVELOPMENT_KEYS: Final = Path(__file__).with_name("development_keys")
TRANSCRIPT: Final = "transcript.json"
_POINTS: Final = "rota_zeto_keys"

# Points of the two groups that are read in one slice: 10 ms on one core, and 0.2 s where the library checks each.
FIRST_A_SLICE: Final = 2_048
SECOND_A_SLICE: Final = 512

V = TypeVar("V")
Reading: TypeAlias = Generator[int, None, V]

_MAGIC: Final = b"rota groth16 2\n"
_HEADER_BYTES_MAX: Final = 4096


class KeyFileWrong(ValueError):
    """A proving key cannot be used; names the file and the reason."""


@dataclass(frozen=True, slots=True)
class SetUp:
    """The transcript's entry for one circuit. Hashes are SHA-256, in hexadecimal digits.

    `made_at` is empty for a circuit that was set up with the first ones, at the time of the whole transcript.
    """

    circuit: str
    constraint_count: int
    constraints_hash: str
    proving_key_hash: str
    proving_key_bytes: int
    verifying_key: dict[str, Any]
    made_at: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A set-up of several circuits: how it was made, as text, and its results."""

    made_by: str
    made_at: str
    library: str
    circuits: tuple[SetUp, ...]

    def of(self, circuit: Circuit) -> SetUp:
        """Return the entry of this circuit. `KeyFileWrong` if there is none."""
        for entry in self.circuits:
            if entry.circuit == circuit.name:
                return entry
        raise KeyFileWrong(f"the set-up has no keys for the circuit {circuit.name}")


def read_transcript(folder: Path) -> Transcript:
    try:
        content = json.loads((folder / TRANSCRIPT).read_text(encoding="utf-8"))
        circuits = tuple(SetUp(**entry) for entry in content["circuits"])
        return Transcript(content["made_by"], content["made_at"], content["library"], circuits)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise KeyFileWrong(f"{folder / TRANSCRIPT} is not the transcript of a set-up: {error!r}") from error


@cache
def _development_points() -> tuple[bytes, ...]:
    """Return for each development key the constant in a verifier's code, without leading zeros."""
    circuits = read_transcript(DEVELOPMENT_KEYS).circuits
    return tuple(bytes.fromhex(entry.verifying_key["alpha"][0]).lstrip(b"\0") for entry in circuits)


def is_development_verifier(code: bytes) -> bool:
    """Return whether a verifier's code has one of the development keys, whose makers can forge its proofs."""
    return any(point in code for point in _development_points())


def key_path(folder: Path, circuit: Circuit) -> Path:
    """Return the file of a circuit's proving key. `KeyFileWrong` if the development keys are not installed."""
    return (_points_folder() if folder == DEVELOPMENT_KEYS else folder) / f"{circuit.name}.key"


def _points_folder() -> Path:
    found = importlib.util.find_spec(_POINTS)
    if found is None or found.origin is None:
        raise KeyFileWrong(f"the development keys need the extra `zeto`: {extras.command('zeto')}")
    return Path(found.origin).parent


def hash_of_constraints(circuit: Circuit) -> str:
    """Return the hash of a circuit's constraints; keys with another one belong to another circuit."""
    digest = hashlib.sha256()
    written = structure(circuit)
    digest.update(f"{circuit.name} {written.wire_count} {written.public_count}\n".encode())
    for constraint in written.constraints:
        sides = (constraint.left, constraint.right, constraint.result)
        digest.update(json.dumps([sorted(side.items()) for side in sides], separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def write_key(circuit: Circuit, key: ProvingKey) -> bytes:
    """Return the content of a proving key's file."""
    written = structure(circuit)
    verifying = key.verifying
    header = {
        "circuit": circuit.name,
        "domain_size": key.domain_size,
        "wires": written.wire_count,
        "public": written.public_count,
        "left": len(key.left),
        "right": len(key.right),
    }
    parts = [
        _MAGIC,
        json.dumps(header).encode() + b"\n",
        _marks(key.left_wires, written.wire_count),
        _marks(key.right_wires, written.wire_count),
    ]
    parts += [write_points(points) for points in (key.left, key.right, key.rest, key.quotient)]
    parts += [write_points((verifying.alpha, key.beta, key.delta)), write_points(verifying.inputs)]
    parts += [write_points(key.right_second), write_points((verifying.beta, verifying.gamma, verifying.delta))]
    return b"".join(parts)


def load_key(folder: Path, circuit: Circuit, tell: Callable[[int], None] = lambda _: None) -> ProvingKey:
    """Return the proving key of a circuit, read without pauses. `tell` gets the percentage read so far."""
    reading = reading_key(folder, circuit)
    while True:
        try:
            tell(next(reading))
        except StopIteration as done:
            key: ProvingKey = done.value
            return key


def reading_key(folder: Path, circuit: Circuit) -> Reading[ProvingKey]:
    """Read the proving key of a circuit, in slices. `KeyFileWrong` unless its hash is that in its transcript.

    Reading a key takes up to a second, a slice a small part of that. Each slice yields the percentage read so far.
    """
    entry = read_transcript(folder).of(circuit)
    path = key_path(folder, circuit)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KeyFileWrong(f"the proving key {path} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != entry.proving_key_hash:
        raise KeyFileWrong(f"{path} does not have the SHA-256 that {TRANSCRIPT} beside it says")
    try:
        key = yield from _read_key(content, circuit, entry)
    except (KeyError, TypeError, ValueError) as error:
        raise KeyFileWrong(f"{path} is not a proving key: {error}") from error
    if words_of(key.verifying) != entry.verifying_key:
        raise KeyFileWrong(f"{path} does not have the verifying key in {TRANSCRIPT} beside it")
    return key


def words_of(key: VerifyingKey) -> dict[str, Any]:
    """A verifying key as transcripts have it and precompiles take it: in the second group the imaginary part first."""
    seconds = {"beta": key.beta, "gamma": key.gamma, "delta": key.delta}
    words: dict[str, Any] = {"alpha": _hexadecimal(key.alpha.x, key.alpha.y)}
    words |= {name: _hexadecimal(*reversed(point.x), *reversed(point.y)) for name, point in seconds.items()}
    return words | {"inputs": [_hexadecimal(point.x, point.y) for point in key.inputs]}


def _hexadecimal(*numbers: int) -> list[str]:
    return [f"{number:064x}" for number in numbers]


def _read_key(content: bytes, circuit: Circuit, entry: SetUp) -> Reading[ProvingKey]:
    if not content.startswith(_MAGIC):
        raise ValueError(f"it does not begin with {_MAGIC!r}")
    end = content.index(b"\n", len(_MAGIC), len(_MAGIC) + _HEADER_BYTES_MAX) + 1
    header = json.loads(content[len(_MAGIC) : end])
    wires, public, size = header["wires"], header["public"], header["domain_size"]
    if (header["circuit"], public) != (entry.circuit, circuit.public_count):
        raise ValueError(f"it is of the circuit {header['circuit']}, with {public} public wires")
    expected = domain_size(entry.constraint_count, public)
    if size != expected:
        raise ValueError(f"its domain has {size} places, and that of its circuit {expected}")
    rest = _Reader(content, end)
    left_wires, right_wires = rest.marks(wires), rest.marks(wires)
    if (len(left_wires), len(right_wires)) != (header["left"], header["right"]):
        raise ValueError("it does not have as many points as wires that are marked")
    left = yield from rest.first(header["left"])
    right = yield from rest.first(header["right"])
    hidden = yield from rest.first(wires - public - 1)
    quotient = yield from rest.first(size - 1)
    alpha, beta, delta = yield from rest.first(3)
    inputs = yield from rest.first(public + 1)
    right_second = yield from rest.second(header["right"])
    beta_second, gamma_second, delta_second = yield from rest.second(3)
    rest.require_end()
    verifying = VerifyingKey(alpha, beta_second, gamma_second, delta_second, inputs)
    return ProvingKey(
        verifying, beta, delta, size, left_wires, left, right_wires, right, right_second, hidden, quotient
    )


class _Reader:
    """Reads the content of a key from start to end."""

    def __init__(self, content: bytes, start: int) -> None:
        self._content = content
        self._position = start

    def marks(self, count: int) -> tuple[int, ...]:
        taken = self._take(-(-count // 8))
        return tuple(wire for wire in range(count) if taken[wire // 8] >> wire % 8 & 1)

    def first(self, count: int) -> Reading[tuple[Any, ...]]:
        return self._points(read_first, count, G1_BYTES, FIRST_A_SLICE)

    def second(self, count: int) -> Reading[tuple[Any, ...]]:
        return self._points(read_second, count, G2_BYTES, SECOND_A_SLICE)

    def require_end(self) -> None:
        if self._position != len(self._content):
            raise ValueError(f"{len(self._content) - self._position} bytes are left over")

    def _points(
        self, read: Callable[[bytes], Iterator[Any]], count: int, size: int, a_slice: int
    ) -> Reading[tuple[Any, ...]]:
        points: list[Any] = []
        while len(points) < count:
            points += read(self._take(size * min(a_slice, count - len(points))))
            yield 100 * self._position // len(self._content)
        return tuple(points)

    def _take(self, size: int) -> bytes:
        taken = self._content[self._position : self._position + size]
        if len(taken) != size:
            raise ValueError("it ends too early")
        self._position += size
        return taken


def _marks(wires: Sequence[int], count: int) -> bytes:
    marks = bytearray(-(-count // 8))
    for wire in wires:
        marks[wire // 8] |= 1 << wire % 8
    return bytes(marks)
