"""Clusters of three and five processes under every fault, on both chains and both databases.

Four kinds of cluster have every pair of node count, chain and database, and each meets every fault that it can have: so
every pair of properties is covered. Two of the kinds rotate strictly. `make chaos` (`chaos.py`) runs all eight kinds,
with the faults in random order, several times.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota.localnet.chains import ChainKind
from rota.model.types import Rotation
from tests.cluster.chaos import FAULTS, JUDGEMENT, Log, Row, main, play
from tests.cluster.kit import Kind, require

PAIRWISE = (
    Kind(3, ChainKind.EMBEDDED, "sqlite"),
    Kind(3, ChainKind.ANVIL, "postgres", Rotation.STRICT),
    pytest.param(Kind(5, ChainKind.EMBEDDED, "postgres"), marks=pytest.mark.nightly),
    pytest.param(Kind(5, ChainKind.ANVIL, "sqlite", Rotation.STRICT), marks=pytest.mark.nightly),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRWISE, ids=str)
def test_every_acknowledged_intent_ends_once_and_all_agree_with_the_chain(tmp_path: Path, kind: Kind) -> None:
    require(kind)
    log = Log()
    asyncio.run(play(tmp_path, kind, FAULTS, log))
    assert log.rows[-1].fault == JUDGEMENT
    assert not log.has_failures


def test_what_was_played_is_told_in_a_table() -> None:
    log = Log()
    log.add(Row("3-anvil-sqlite", "kill", 12, 3.25, "held"))
    log.add(Row("3-anvil-sqlite", JUDGEMENT, 340, 1.0, "FAILED: TimeoutError"))
    assert log.has_failures
    assert [line.split() for line in log.table().splitlines()] == [
        ["combination", "fault", "intents", "seconds", "result"],
        ["3-anvil-sqlite", "kill", "12", "3.2", "held"],
        ["3-anvil-sqlite", "the", "judgement", "340", "1.0", "FAILED:", "TimeoutError"],
    ]


@pytest.mark.parametrize("arguments", [["--only", "7-nodes"], ["--faults", "kill, flood"]])
def test_combination_or_fault_that_there_is_not_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert f"{arguments[0]}: must be" in capsys.readouterr().err
