"""A backfill that waits for the ledger or the store logs each reason once."""

from __future__ import annotations

import asyncio
from unittest.mock import MagicMock

import pytest
from structlog.testing import capture_logs

from rota.model.blocks import ChainBlock
from rota.model.types import Contract, ContractAddress, KnownContract, NodeName
from rota.ports import Unavailable
from rota.service.contracts import arrears
from tests.store.kit import FIRST, in_loop, intent_id

NODE1 = NodeName("node1")


@in_loop
async def test_postponed_backfill_is_logged_once_for_each_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrears, "RETRY_S", 0)
    answers = [Unavailable("the ledger is away")] * 4 + [Unavailable("timeout"), Unavailable("the ledger is away")]
    done = asyncio.Event()

    async def rounds_of(*_: object) -> tuple[ChainBlock, ...]:
        if answers:
            raise answers.pop()
        done.set()
        return ()

    async def done_at_once(_: ContractAddress) -> None: ...

    known = KnownContract(Contract(FIRST, (NODE1,), (NODE1,), 1), intent_id(1), (FIRST,), deployed_at=1, taken_in_at=2)
    backfill = arrears.Arrears(
        MagicMock(), rounds_of, lambda: 9, lambda _: None, lambda _: True, done_at_once, done_at_once
    )
    with capture_logs() as logs:
        backfill.make_up_for(known)
        await done.wait()
        await backfill.close()
    assert [(line["event"], line["contract"], line["reason"]) for line in logs] == [
        ("contract.backfill_postponed", FIRST, "the ledger is away"),
        ("contract.backfill_postponed", FIRST, "timeout"),
    ]
