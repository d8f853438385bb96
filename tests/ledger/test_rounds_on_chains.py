"""The core's index and submitter on real chains: rounds committed and indexed, whatever the chain does meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger.chains import in_loop, running
from tests.ledger.participant import Participant, deploy, taking_part

KINDS = ("embedded", pytest.param("anvil", marks=pytest.mark.slow))

pytestmark = pytest.mark.parametrize("kind", KINDS)


@in_loop
async def test_round_is_committed_and_indexed(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = await deploy(chain)
        async with taking_part(Participant(chain.url, contract)) as node:
            intents = [node.submit(f"A-{number}") for number in range(5)]
            await node.confirmed(*intents)
            assert sorted(intent for _, intent in node.committed()) == sorted(intents)
