"""The real prover with the development keys, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
from functools import cache, lru_cache

from rota.domains.zeto.circuits import Circuit, Statement, trace
from rota.engines.proving.groth16 import ProvingKey, prove
from rota.engines.proving.key_files import DEVELOPMENT_KEYS, load_key


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
    """Counts what it was asked to prove."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    async def prove(self, statement: object) -> bytes:
        """One after the other or several at once, as the interpreter likes."""
        assert isinstance(statement, Statement)
        self.statements.append(statement)
        return await asyncio.to_thread(proved, statement)
