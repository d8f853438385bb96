"""The self-test of the private EVM at start."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from rota import revm
from rota.evm.self_test import EvmDiffers, require_known_evm
from rota.model.types import NodeName
from rota.server.process import CannotStart
from tests.service.kit import network
from tests.store.kit import in_loop


def test_installed_evm_is_known() -> None:
    require_known_evm()


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("_SLOT", re.compile(r"(\d+): Slot \{ original_value: (\d+), present_value: (\d+) \}")),
        ("_ACCOUNT", re.compile(r"0x([0-9a-f]{40}): Account \{ balance: (\d+), nonce: (\d+), code_hash: (\w+)")),
        ("_CODE", re.compile(r"Some\(Eip7702 (x)(y)")),
        ("_REVERTED_OUTPUT", re.compile(r"Reverted \{ output: 0x([0-9a-f]*) \}")),
        ("_STATE_END", "}, another: {"),
        ("REVERTED", "Reverted"),
    ],
)
def test_another_format_of_the_machine_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, changed: object) -> None:
    """As if pyrevm wrote what it did in another way than is read here."""
    monkeypatch.setattr(revm, name, changed)
    with pytest.raises(EvmDiffers):
        require_known_evm()


@in_loop
async def test_node_with_another_evm_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with network(tmp_path, NodeName("node1")) as nodes:
        monkeypatch.setattr(revm, "REVERTED", "Reverted")
        with pytest.raises(CannotStart, match="pyrevm: a revert"):
            await nodes._live(nodes.names[0], asyncio.Event())
