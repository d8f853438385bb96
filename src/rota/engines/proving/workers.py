"""The prover that comes with Rota: processes that make proofs, so that the event loop is never held up.

A proof is seconds of one core's whole work. It is made in a process of its own, one core each, and with less right to
the processor than the node, whose heartbeats must not wait. Processes are started when the node has a contract that
needs proofs (`prepare`): most nodes have none. Then each process reads the keys of the contract's circuits, which takes
up to half a minute, so that the first proof does not wait for it. A process that is started anew reads the key of a
circuit when it first proves something of it. How far that is can be seen in `progress`, and is told while somebody
waits.

Statements have secrets in them. They go to the processes by a pipe and nowhere else; processes are spawned, not forked,
so that they share nothing with the node, and end when the node does, however it ends.

How many may wait is bounded. Whoever comes then is told `Unavailable`, and comes again by the core's own rule. A
process that dies takes its proof with it: that is `Unavailable` too, and new processes are started for the next one.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from ctypes import Array, c_ubyte
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final, TypeAlias

from rota.domains.zeto.circuits import CIRCUITS, Circuit, Statement, trace
from rota.engines.proving.curve import CurveMissing, require_curve
from rota.engines.proving.groth16 import ProvingKey, prove, verify
from rota.engines.proving.key_files import DEVELOPMENT_KEYS, KeyFileWrong, load_key
from rota.ports import Unavailable

WAITING_MAX: Final = 256
TELL_EVERY_S: Final = 2.0
WORKERS: Final = 1
# A proof may take longer; a heartbeat may not.
NICENESS: Final = 5
ALL_READ: Final = 100

Progress: TypeAlias = "Array[c_ubyte]"


class ProofWrong(Exception):
    """A proof that was made does not verify: the key or the memory is damaged."""


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
        self._context: Final = multiprocessing.get_context("spawn")
        self._read: Progress | None = None
        self._told: Final[dict[str, int]] = {}
        self._pool: ProcessPoolExecutor | None = None
        # Processes end when nobody holds this end of their pipe any more: we close it, or are no more ourselves.
        self._leash: Connection | None = None
        self._waiting = 0

    @property
    def progress(self) -> dict[str, int]:
        """How many of a hundred parts of each circuit's key were read, by the process that began last."""
        read = [0] * len(CIRCUITS) if self._read is None else self._read[:]
        return dict(zip((circuit.name for circuit in CIRCUITS), read, strict=True))

    async def prove(self, statement: object) -> bytes:
        """A proof, as its contract takes it. `Unprovable` when the statement is not true, `Unavailable` for now."""
        assert isinstance(statement, Statement), f"a {type(statement).__name__} is proved elsewhere"
        try:
            require_curve()
        except CurveMissing as error:
            raise Unavailable(str(error)) from error
        if self._waiting >= self._waiting_max:
            raise Unavailable(f"{self._waiting} proofs are waiting to be made, which is all that may")
        self._waiting += 1
        pool = self._running()
        try:
            return await self._proved(pool, statement)
        except BrokenProcessPool as error:
            if pool is self._pool:
                # The first who hears of it lets go; the others must not end what was started since.
                self._let_go()
            pool.shutdown(wait=False, cancel_futures=True)
            raise Unavailable("the process that made the proof has ended; it is started anew") from error
        except KeyFileWrong as error:
            raise Unavailable(str(error)) from error
        except ProofWrong as error:
            # Another process reads the key anew, in other memory.
            if pool is self._pool:
                self._let_go()
            pool.shutdown(wait=False, cancel_futures=True)
            raise Unavailable(str(error)) from error
        finally:
            self._waiting -= 1

    async def prepare(self, circuits: Sequence[object]) -> None:
        """Have the keys of these circuits read, the first one first. `Unavailable` when one cannot be."""
        try:
            require_curve()
            for circuit in circuits:
                assert isinstance(circuit, Circuit), f"a {type(circuit).__name__} is proved elsewhere"
                await self._read_by_all(self._running(), circuit)
        except (CurveMissing, KeyFileWrong) as error:
            raise Unavailable(str(error)) from error
        except BrokenProcessPool as error:
            raise Unavailable("the process that read a proving key has ended") from error

    async def close(self) -> None:
        """End the processes, at once. Proofs that are being made are given up."""
        pool = self._pool
        if pool is not None:
            self._let_go()
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)

    async def _proved(self, pool: ProcessPoolExecutor, statement: Statement) -> bytes:
        made = asyncio.wrap_future(pool.submit(_prove, self._keys, statement))
        try:
            while not made.done():
                self._tell_of_key(statement.circuit.name)
                await asyncio.wait((made,), timeout=TELL_EVERY_S)
            self._tell_of_key(statement.circuit.name)
            return await made
        finally:
            # Nobody waits any more: a proof that was not begun is not made.
            made.cancel()

    async def _read_by_all(self, pool: ProcessPoolExecutor, circuit: Circuit) -> None:
        """One order for each process: reading takes so long that no process takes two."""
        reading = [asyncio.wrap_future(pool.submit(_read, self._keys, circuit)) for _ in range(self._workers)]
        try:
            while not all(one.done() for one in reading):
                self._tell_of_key(circuit.name)
                await asyncio.wait(reading, timeout=TELL_EVERY_S)
            self._tell_of_key(circuit.name)
            await asyncio.gather(*reading)
        finally:
            for one in reading:
                one.cancel()

    def _tell_of_key(self, circuit: str) -> None:
        """How far its key is read: when that begins, on the way, and when it is done. Once for all who wait."""
        parts = self.progress[circuit]
        if parts != self._told.get(circuit, -1 if parts < ALL_READ else ALL_READ):
            self._told[circuit] = parts
            self._tell(circuit, parts)

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._read = self._context.RawArray(c_ubyte, len(CIRCUITS))
            self._told.clear()
            theirs, self._leash = self._context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                self._workers, mp_context=self._context, initializer=_begin, initargs=(self._read, theirs)
            )
        return self._pool

    def _let_go(self) -> None:
        """The processes end. Whoever waits for one of them is told so."""
        assert self._leash is not None, "there are processes"
        self._leash.close()
        self._pool = self._leash = None


# What follows runs in the processes.

_progress: Progress | None = None


def _begin(progress: Progress, leash: Connection) -> None:
    global _progress
    _progress = progress
    # A node that is interrupted stops in its own order, and ends its processes when it has no more use for them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.nice(NICENESS)
    threading.Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Connection) -> None:
    wait([leash])
    os._exit(0)


def _prove(keys: Path, statement: Statement) -> bytes:
    key = _key(keys, statement.circuit)
    proof = prove(key, trace(statement))
    # A key that is damaged, or memory that is, must not cost a transaction on the chain.
    if not verify(key.verifying, statement.public_inputs, proof):
        raise ProofWrong(
            f"a proof of {statement.circuit.name} that was made does not verify: the proving key or this machine's "
            "memory is damaged; it is made anew"
        )
    return proof.to_bytes()


def _read(keys: Path, circuit: Circuit) -> None:
    _key(keys, circuit)


@cache
def _key(keys: Path, circuit: Circuit) -> ProvingKey:
    place = CIRCUITS.index(circuit)

    def tell(parts: int) -> None:
        assert _progress is not None, "the process has begun"
        _progress[place] = parts

    tell(0)
    key = load_key(keys, circuit, tell)
    tell(ALL_READ)
    return key
