"""The prover that comes with Rota: processes that make proofs, so that the event loop is never blocked.

A proof takes seconds of a whole core. It is made in a separate process, one core each, at a lower priority than the
node, whose heartbeats must not wait. Processes are started when the node has a contract that needs proofs (`prepare`):
most nodes have none. Then each process reads the keys of the contract's circuits, up to a second each, so that the
first proof does not wait for it. They are read in slices: a proof that is requested meanwhile waits for its own key and
a slice of another, and not for all keys. A restarted process reads the key of a circuit when it first proves something
of it. `progress` shows how much has been read, and it is logged.

Statements have secrets in them. They go to the processes through a pipe and nowhere else (`workers.processes`).

The number of waiting proofs is bounded. Beyond it a caller gets `Unavailable`, and the core repeats its order. When a
process dies its proof is lost: that is `Unavailable` too, and new processes are started for the next one.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Sequence
from ctypes import Array, c_ubyte
from pathlib import Path
from typing import Final, TypeAlias

from rota.domains.zeto.circuits import CIRCUITS, Circuit, Statement, trace
from rota.ports import Unavailable
from rota.prover.curve import CurveMissing, require_curve
from rota.prover.groth16 import ProvingKey, prove, verify
from rota.prover.key_files import DEVELOPMENT_KEYS, KeyFileWrong, Reading, reading_key
from rota.workers.processes import Processes, WorkerEnded

WAITING_MAX: Final = 256
TELL_EVERY_S: Final = 2.0
WORKERS: Final = 1
ALL_READ: Final = 100

Progress: TypeAlias = "Array[c_ubyte]"


class ProofWrong(Exception):
    """A proof does not verify after it was made: the key or the memory is damaged."""


class ProverProcesses:
    """Makes proofs of `Statement`s; a `Prover` of `domains.base`."""

    def __init__(
        self,
        keys: Path = DEVELOPMENT_KEYS,
        workers: int = WORKERS,
        waiting_max: int = WAITING_MAX,
        tell: Callable[[str, int], None] = lambda _circuit, _parts: None,
    ) -> None:
        self._keys: Final = keys
        self._workers: Final = workers
        self._waiting_max: Final = waiting_max
        self._tell: Final = tell
        self._read: Progress | None = None
        self._told: Final[dict[str, int]] = {}
        self._processes: Final = Processes(workers, _begin, self._made_ready)
        self._waiting = 0

    @property
    def progress(self) -> dict[str, int]:
        """The percentage of each circuit's key that the process started last has read."""
        read = [0] * len(CIRCUITS) if self._read is None else self._read[:]
        return dict(zip((circuit.name for circuit in CIRCUITS), read, strict=True))

    async def prove(self, statement: object) -> bytes:
        """Return a proof in its contract's form. `Unprovable` when the statement is false, `Unavailable` for now."""
        assert isinstance(statement, Statement), f"a {type(statement).__name__} is proved elsewhere"
        try:
            require_curve()
        except CurveMissing as error:
            raise Unavailable(str(error)) from error
        if self._waiting >= self._waiting_max:
            raise Unavailable(f"{self._waiting} proofs are waiting to be made, which is all that may")
        self._waiting += 1
        try:
            return await self._proved(statement)
        except WorkerEnded as error:
            raise Unavailable("the process that made the proof has ended; it is started anew") from error
        except KeyFileWrong as error:
            raise Unavailable(str(error)) from error
        except ProofWrong as error:
            # Another process reads the key again, into other memory.
            self._processes.replace()
            raise Unavailable(str(error)) from error
        finally:
            self._waiting -= 1

    async def prepare(self, circuits: Sequence[object]) -> None:
        """Have the keys of these circuits read, the first one first. `Unavailable` when one cannot be read."""
        try:
            require_curve()
            for circuit in circuits:
                assert isinstance(circuit, Circuit), f"a {type(circuit).__name__} is proved elsewhere"
                await self._read_by_all(circuit)
        except (CurveMissing, KeyFileWrong) as error:
            raise Unavailable(str(error)) from error
        except WorkerEnded as error:
            raise Unavailable("the process that read a proving key has ended") from error

    async def close(self) -> None:
        """End the processes at once, and abandon the proofs in progress."""
        await self._processes.close()

    async def _proved(self, statement: Statement) -> bytes:
        made = self._processes.order(_prove, self._keys, statement)
        try:
            while not made.done():
                self._tell_of_key(statement.circuit.name)
                await asyncio.wait((made,), timeout=TELL_EVERY_S)
            self._tell_of_key(statement.circuit.name)
            return await made
        finally:
            # The caller no longer waits: a proof that was not started is not made.
            made.cancel()

    async def _read_by_all(self, circuit: Circuit) -> None:
        """Order a slice for each process at a time. One that is making a proof reads the rest when it needs it."""
        clock, told_at_s, is_read = asyncio.get_running_loop().time, -TELL_EVERY_S, False
        while not is_read:
            if clock() - told_at_s >= TELL_EVERY_S:
                self._tell_of_key(circuit.name)
                told_at_s = clock()
            reading = [self._processes.order(_read_slice, self._keys, circuit) for _ in range(self._workers)]
            try:
                is_read = all(await asyncio.gather(*reading))
            finally:
                for one in reading:
                    one.cancel()
        self._tell_of_key(circuit.name)

    def _tell_of_key(self, circuit: str) -> None:
        """Report how much of its key is read: at the start, in between, and at the end. Once for all callers."""
        parts = self.progress[circuit]
        if parts != self._told.get(circuit, -1 if parts < ALL_READ else ALL_READ):
            self._told[circuit] = parts
            self._tell(circuit, parts)

    def _made_ready(self) -> tuple[object, ...]:
        self._read = multiprocessing.get_context("spawn").RawArray(c_ubyte, len(CIRCUITS))
        self._told.clear()
        return (self._read,)


# The code below runs in the worker processes.

_progress: Progress | None = None
_reading: Final[dict[tuple[Path, Circuit], Reading[ProvingKey]]] = {}
_read: Final[dict[tuple[Path, Circuit], ProvingKey]] = {}


def _begin(progress: Progress) -> None:
    global _progress
    _progress = progress
    os.environ["RAYON_NUM_THREADS"] = "1"


def _prove(keys: Path, statement: Statement) -> bytes:
    key = _key(keys, statement.circuit)
    proof = prove(key, trace(statement))
    # A damaged key, or memory, must not cost a transaction on the chain.
    if not verify(key.verifying, statement.public_inputs, proof):
        raise ProofWrong(
            f"a proof of {statement.circuit.name} that was made does not verify: the proving key or this machine's "
            "memory is damaged; it is made anew"
        )
    return proof.to_bytes()


def _key(keys: Path, circuit: Circuit) -> ProvingKey:
    while not _read_slice(keys, circuit):
        pass
    return _read[keys, circuit]


def _read_slice(keys: Path, circuit: Circuit) -> bool:
    """Read the next slice of a key; return whether all of it is read."""
    place = keys, circuit
    if place in _read:
        return True
    if place not in _reading:
        _reading[place] = reading_key(keys, circuit)
    try:
        _note(circuit, next(_reading[place]))
    except StopIteration as done:
        _read[place] = done.value
        del _reading[place]
        _note(circuit, ALL_READ)
        return True
    except KeyFileWrong:
        # The file may have changed when it is read again.
        del _reading[place]
        raise
    return False


def _note(circuit: Circuit, parts: int) -> None:
    assert _progress is not None, "the process has begun"
    _progress[CIRCUITS.index(circuit)] = parts
