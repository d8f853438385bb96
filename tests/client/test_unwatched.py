"""Transactions that nobody awaits: a failure is logged, and what is open at the end is named."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from rota.client import TransactionReceipt, Unreachable
from rota.client import unwatched as unwatched_module
from rota.client.unwatched import DROPPED_MAX, SENT_MAX, Unwatched
from tests.client.test_client import CONTRACT, ID, RECEIPT, Server, client_of
from tests.ledger.chains import in_loop

FAILED = {"id": ID, "sequence": 1, "failureMessage": "Insufficient funds"}


@in_loop
async def test_transaction_that_is_never_awaited_and_fails_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unwatched_module, "PAUSE_S", 0.0)
    server = Server({"result": ID}, {"result": None}, {"result": FAILED})
    async with client_of(server) as client:
        sent = await client.send(CONTRACT, "transfer", sender="alice")
        del sent
        gc.collect()
        while server.answers:
            await asyncio.sleep(0)
        while not caplog.records:
            await asyncio.sleep(0)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert f"transaction {ID} failed and was never awaited: Insufficient funds" in record.getMessage()


@in_loop
async def test_transaction_that_is_awaited_or_detached_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = Server({"result": ID}, {"result": RECEIPT}, {"result": ID})
    async with client_of(server) as client:
        await (await client.send(CONTRACT, "transfer", sender="alice"))
        (await client.send(CONTRACT, "transfer", sender="alice")).detach()
        gc.collect()
        await asyncio.sleep(0)
    assert caplog.records == []


@in_loop
async def test_transaction_that_nobody_asked_about_is_named_when_the_client_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rota.client")
    async with client_of(Server({"result": ID})) as client:
        sent = await client.send(CONTRACT, "transfer", sender="alice")
    assert [f"these transactions were never awaited: {sent.id}" in caplog.text] == [True]


@in_loop
async def test_transactions_that_are_looked_after_are_bounded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "rota.client")
    monkeypatch.setattr(unwatched_module, "PATIENCE_S", -1.0)
    asked: list[str] = []

    async def away(transaction_id: str) -> TransactionReceipt | None:
        asked.append(transaction_id)
        raise Unreachable("away")

    watched = Unwatched(away, "http://node")
    for number in range(SENT_MAX + 5):
        watched.sent(str(number))
    for number in range(DROPPED_MAX + 50):
        watched.dropped(str(number))
    watched.dropped("never sent")
    while not caplog.records:
        await asyncio.sleep(0)
    assert "5" in caplog.records[0].getMessage()
    assert "has not ended and was never awaited" in caplog.records[0].getMessage()
    assert "0" not in asked[:1], "the oldest were forgotten"
    await watched.close()
    assert caplog.records[-1].getMessage().endswith("more")
