"""How a node's process is put together: what a contract needs is started before it is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rota.model.types import ContractAddress
from rota.server.process import _make_ready

CONTRACT = ContractAddress("0x" + "11" * 20)


@pytest.mark.parametrize(
    ("hosted", "started"),
    [
        (SimpleNamespace(domain=SimpleNamespace(runs_code=True)), ["prover", "private code"]),
        (SimpleNamespace(domain=SimpleNamespace(runs_code=False)), ["prover"]),
        (None, ["prover"]),
    ],
    ids=["private contracts", "a token", "no domain for it here"],
)
def test_processes_for_private_code_start_with_the_first_contract_that_runs_code(
    hosted: SimpleNamespace | None, started: list[str]
) -> None:
    found: list[str] = []
    asked: list[ContractAddress] = []

    def prepare_for(contract: ContractAddress) -> None:
        asked.append(contract)
        found.append("prover")

    def hosted_of(contract: ContractAddress) -> SimpleNamespace | None:
        asked.append(contract)
        return hosted

    contracts: Any = SimpleNamespace(hosted=hosted_of)
    proving: Any = SimpleNamespace(prepare_for=prepare_for)
    code: Any = SimpleNamespace(prepare=lambda: found.append("private code"))
    _make_ready(contracts, proving, code, CONTRACT)
    assert found == started
    assert asked == [CONTRACT, CONTRACT]
