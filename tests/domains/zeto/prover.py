"""The real prover with the development keys, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache, lru_cache

from rota.domains.zeto.circuits import Circuit, Statement, trace
from rota.prover.groth16 import ProvingKey, prove
from rota.prover.key_files import DEVELOPMENT_KEYS, load_key


@cache
def key_of(circuit: Circuit) -> ProvingKey:
    """A development key, read once."""
    return load_key(DEVELOPMENT_KEYS, circuit)


@lru_cache(maxsize=256)
def proved(statement: object) -> bytes:
    """A proof of a true statement, made once: the same is proved on several chains."""
    assert isinstance(statement, Statement)
    return prove(key_of(statement.circuit), trace(statement)).to_bytes()


class ThreadProver:
    """Counts what it was asked to prove, and notes what it was made ready for; keys are read when they are needed."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self.prepared: list[object] = []

    async def prepare(self, circuits: Sequence[object]) -> None:
        self.prepared += circuits

    async def prove(self, statement: object) -> bytes:
        """One after the other or several at once, as the interpreter likes."""
        assert isinstance(statement, Statement)
        self.statements.append(statement)
        return await asyncio.to_thread(proved, statement)
