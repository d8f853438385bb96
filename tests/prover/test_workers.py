"""Proofs in processes of their own: what they are, what is refused, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import pytest

from rota.domains.zeto.circuits import CIRCUITS, Kind
from rota.ports import Unavailable
from rota.prover import workers
from rota.prover.groth16 import PROOF_BYTES, Unprovable
from rota.prover.key_files import DEVELOPMENT_KEYS, KeyFileWrong, key_path
from rota.prover.workers import ProofWrong, ProverProcesses
from tests import bounds
from tests.domains.zeto.coins import transfer
from tests.domains.zeto.prover import key_of

STATEMENT = transfer(Kind.ANON)
BOUND_S = bounds.WAIT_S
P = ParamSpec("P")


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own, and not for ever."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(BOUND_S):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


@pytest.mark.slow
@in_loop
async def test_a_proof_is_made_in_another_process_and_false_ones_are_told() -> None:
    told: list[tuple[str, int]] = []
    prover = ProverProcesses(tell=lambda circuit, parts: told.append((circuit, parts)))
    try:
        first, second = await asyncio.gather(prover.prove(STATEMENT), prover.prove(STATEMENT))
        assert len(first) == PROOF_BYTES
        assert first != second, "two proofs of one statement have nothing in common"
        assert prover.progress["anon_2_2"] == 100
        # Whoever looks at the log sees when a key is read, from its beginning to its end, and once for both.
        assert (told[0], told[-1]) == (("anon_2_2", 0), ("anon_2_2", 100))
        assert told == sorted(set(told))
        seen = len(told)
        with pytest.raises(Unprovable, match="conservation") as refused:
            await prover.prove(replace(STATEMENT, net=1))
        assert refused.value.broken == ("conservation",)
        assert len(told) == seen, "what was read is not read again"
    finally:
        await prover.close()


@pytest.mark.slow
@in_loop
async def test_a_process_that_dies_is_followed_by_another() -> None:
    prover = ProverProcesses()
    try:
        await prover.prove(STATEMENT)
        for process in prover._processes.pids:
            os.kill(process, 9)
        with pytest.raises(Unavailable, match="has ended"):
            await prover.prove(STATEMENT)
        assert len(await prover.prove(STATEMENT)) == PROOF_BYTES
    finally:
        await prover.close()


@pytest.mark.slow
@in_loop
async def test_closing_gives_up_what_is_being_made_and_leaves_no_process() -> None:
    prover = ProverProcesses()
    waiting = asyncio.ensure_future(prover.prove(STATEMENT))
    while not prover._processes.pids:
        await asyncio.sleep(0)
    processes = prover._processes.pids
    await prover.close()
    with pytest.raises((Unavailable, asyncio.CancelledError)):
        await waiting
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]


@pytest.mark.slow
@in_loop
async def test_more_than_may_wait_are_sent_away() -> None:
    prover = ProverProcesses(waiting_max=1)
    first = asyncio.ensure_future(prover.prove(STATEMENT))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="1 proofs are waiting"):
        await prover.prove(STATEMENT)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await prover.close()


@pytest.mark.slow
@in_loop
async def test_keys_that_are_not_there_are_told_by_their_file(tmp_path: Path) -> None:
    prover = ProverProcesses(tmp_path)
    try:
        with pytest.raises(Unavailable, match=r"transcript\.json is not the transcript"):
            await prover.prove(STATEMENT)
    finally:
        await prover.close()


@pytest.mark.slow
@in_loop
async def test_keys_are_read_before_the_first_proof_is_wanted() -> None:
    prover = ProverProcesses()
    try:
        await prover.prepare(CIRCUITS[:2])
        assert [prover.progress[circuit.name] for circuit in CIRCUITS] == [100, 100, *[0] * (len(CIRCUITS) - 2)]
        (process,) = prover._processes.pids
        assert len(await prover.prove(STATEMENT)) == PROOF_BYTES
        assert prover._processes.pids == (process,), "the process that read the keys makes the proof"
    finally:
        await prover.close()


@pytest.mark.slow
@in_loop
async def test_proof_waits_for_its_own_key_and_not_for_those_of_other_circuits() -> None:
    prover = ProverProcesses()
    small, large = CIRCUITS[0], max(CIRCUITS, key=lambda circuit: key_path(DEVELOPMENT_KEYS, circuit).stat().st_size)
    preparing = asyncio.ensure_future(prover.prepare((small, large)))
    try:
        while prover.progress[small.name] < 100:
            await asyncio.sleep(0.01)
        assert len(await prover.prove(STATEMENT)) == PROOF_BYTES
        assert prover.progress[large.name] < 100
        await preparing
        assert prover.progress[large.name] == 100
    finally:
        preparing.cancel()
        await prover.close()


@pytest.mark.slow
@in_loop
async def test_prover_that_cannot_read_its_keys_says_so_when_it_is_prepared(tmp_path: Path) -> None:
    prover = ProverProcesses(tmp_path)
    try:
        with pytest.raises(Unavailable, match=r"transcript\.json is not the transcript"):
            await prover.prepare(CIRCUITS[:1])
    finally:
        await prover.close()


@pytest.mark.slow
def test_proof_that_does_not_verify_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is no `assert`, which `python -O` leaves out."""
    key = key_of(STATEMENT.circuit)
    damaged = replace(key, rest=(key.rest[1], key.rest[0], *key.rest[2:]))
    monkeypatch.setattr(workers, "_key", lambda _keys, _circuit: damaged)
    with pytest.raises(ProofWrong, match="does not verify"):
        workers._prove(DEVELOPMENT_KEYS, STATEMENT)


@in_loop
async def test_wrong_proof_is_made_anew_by_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    prover = ProverProcesses()

    async def wrong(_statement: object) -> bytes:
        prover._processes.start()
        raise ProofWrong("a proof does not verify")

    monkeypatch.setattr(prover, "_proved", wrong)
    with pytest.raises(Unavailable, match="does not verify"):
        await prover.prove(STATEMENT)
    assert not prover._processes.pids


@in_loop
async def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.prover.curve.importlib.util.find_spec", lambda _: None)
    with pytest.raises(Unavailable, match=r"pip install 'rota\[zeto\]'"):
        await ProverProcesses().prove(STATEMENT)
    with pytest.raises(Unavailable, match=r"pip install 'rota\[zeto\]'"):
        await ProverProcesses().prepare(CIRCUITS)


def test_without_the_development_keys_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.prover.key_files._POINTS", "rota_absent_keys")
    with pytest.raises(KeyFileWrong, match=r"development keys need the extra `zeto`: pip install 'rota\[zeto\]'"):
        key_path(DEVELOPMENT_KEYS, CIRCUITS[0])


def test_nothing_is_started_before_a_proof_is_wanted() -> None:
    assert not ProverProcesses()._processes.pids
