"""Acceptance on a real PostgreSQL whose commits are not answered: whoever asks hangs up, and it is there once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rota.chain.public_transaction import PublicTransaction
from rota.engine.accepting import Acceptance, Acceptances, answered, settled
from rota.model.types import ContractAddress, Party, SubmitMode
from rota.ports import ListenerPosition, StoredListener, StoredMessage, StoredSubmission, SubmissionKey
from rota.store.group_commit import DatabaseStore
from rota.store.postgres import Patience
from tests.store.kit import NODE, in_loop, intent_id
from tests.store.proxy import Fault
from tests.store.servers import PostgresServer
from tests.store.test_lost_servers import be_patient, opened_behind_proxy

SHORT = Patience(session_s=0.3, statements_s=0.3, look_s=0.3)
ACCOUNT = ContractAddress("0x" + "aa" * 20)
ALICE = Party("alice@node1")
HANG_UP_S = 0.1
SILENT_S = 1.5

ASKED = StoredSubmission(intent_id(7), 0, True, SubmitMode.AUTO, ALICE, data=b"[]", idempotency_key="order 7")
WANTED = PublicTransaction(0, ASKED.id, ALICE, ACCOUNT, ACCOUNT, b"", 0, 0)
MESSAGE = StoredMessage(bytes(16), 0, "pente", bytes(32), NODE, 1, 1, "topic", b"{}", b"")
LISTENER = StoredListener("receipts", "mine", 1, True, b"{}", ListenerPosition(0))

Write = Callable[[DatabaseStore], Awaitable[None]]
Count = Callable[[DatabaseStore], Awaitable[int]]


async def _public(store: DatabaseStore) -> int:
    return len(await store.public.open())


async def _messages(store: DatabaseStore) -> int:
    return len(await store.mail.messages_after(0, 10))


async def _listeners(store: DatabaseStore) -> int:
    return len(await store.listening.listeners("receipts"))


KINDS: dict[str, tuple[Write, Count]] = {
    "public": (lambda store: store.public.accept(ASKED, WANTED, ()), _public),
    "message": (lambda store: store.mail.add(MESSAGE, ()), _messages),
    "listener": (lambda store: store.listening.add_listener(LISTENER), _listeners),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_away", [False, True], ids=["there again at once", "away for a while"])
@pytest.mark.parametrize("fault", list(Fault)[1:], ids=lambda each: each.name.lower())
@in_loop
async def test_what_is_accepted_without_an_answer_is_there_once_though_its_caller_hangs_up(
    server: PostgresServer, tmp_path: Path, fault: Fault, is_away: bool, kind: str
) -> None:
    write, count = KINDS[kind]
    acceptances, taken = Acceptances(), list[Any]()

    async with opened_behind_proxy(server, tmp_path) as (opened, proxy):
        be_patient(opened, SHORT)
        store = opened.store

        async def work(acceptance: Acceptance) -> None:
            acceptance.begin(ASKED.id)
            await settled(lambda: write(store))
            taken.append(await answered(lambda: count(store)))

        proxy.fault = fault
        asyncio.get_running_loop().call_later(SILENT_S, setattr, proxy, "is_silent", False)
        asking = asyncio.create_task(acceptances.accept(work, SubmissionKey("order 7", ALICE)))
        await asyncio.sleep(HANG_UP_S)
        proxy.is_silent = is_away
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        while len(acceptances):
            await asyncio.sleep(0.02)
        # A definite refusal is one, too, and then nothing is there.
        assert await answered(lambda: count(store)) == len(taken)
        assert taken in ([], [1])
        if not taken:
            await settled(lambda: write(store))
            assert await count(store) == 1
