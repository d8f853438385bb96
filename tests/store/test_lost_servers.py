"""A PostgreSQL server that is restarted, ends a session, or falls silent in the middle: the store goes on, and nobody
waits for longer than its patience.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import asyncpg  # type: ignore[import-untyped]
import pytest

from rota.machine.effects import IntentAccepted
from rota.node.effects import LookUpIntents
from rota.node.events import IntentsLookedUp
from rota.ports import Unavailable, WriteInDoubt
from rota.store import PostgresDatabase
from rota.store.database import Database, OutcomeUnknown, Statement
from rota.store.postgres import Patience
from rota.store.write_queue import GROUP_WRITES_MAX
from tests.store.kit import FIRST, NODE, FaultyDatabase, Opened, an_intent, in_loop, intent_id, new_postgres, new_sqlite
from tests.store.proxy import Fault, Proxy, proxy_to
from tests.store.servers import PostgresServer

SHORT = Patience(session_s=1.0, statements_s=1.0)
# Turns of the event loop in which words that are in a socket already are heard for certain.
TURNS = 10
TROUBLES = 150
WRITES_MAX = 4


@pytest.mark.slow
@in_loop
async def test_a_store_goes_on_when_its_server_was_restarted(server: PostgresServer) -> None:
    opened = await Opened(await new_postgres(server)).start()
    await opened.write(FIRST, IntentAccepted(an_intent(1)))
    server.stop()
    try:
        opened.order(FIRST, IntentAccepted(an_intent(2)))
        while not opened.store.trouble:
            await asyncio.sleep(0.01)
    finally:
        server.start()
    await opened.durable_after(1)
    asked = LookUpIntents(7, "", (intent_id(1), intent_id(2)))
    assert await opened.ask(asked) == IntentsLookedUp(7, None, (), (intent_id(1), intent_id(2)))
    await opened.store.close()


@pytest.mark.slow
@in_loop
async def test_a_session_that_was_ended_by_an_operator_is_made_again(server: PostgresServer) -> None:
    opened = await Opened(await new_postgres(server)).start()
    await opened.write(FIRST, IntentAccepted(an_intent(1)))
    await end_sessions(server)
    await opened.write(FIRST, IntentAccepted(an_intent(2)))
    await opened.store.close()


async def end_sessions(server: PostgresServer) -> None:
    connection = await asyncpg.connect(server.url())
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rota node1'"
    )
    await connection.close()


@asynccontextmanager
async def opened_behind_proxy(server: PostgresServer, folder: Path) -> AsyncIterator[tuple[Opened, Proxy]]:
    """A store with one intent in it, whose connections can be meddled with."""
    async with proxy_to(server, folder) as proxy:
        schema = (await new_postgres(server))._url.rpartition("=")[2]
        opened = await Opened(PostgresDatabase(server.url(schema, folder), NODE)).start()
        await opened.write(FIRST, IntentAccepted(an_intent(1)))
        yield opened, proxy
        await opened.store.close()


def be_patient(opened: Opened, patience: Patience) -> None:
    """From the next step on."""
    database = opened.store._database
    assert isinstance(database, PostgresDatabase)
    database._patience = patience


@pytest.mark.slow
@in_loop
async def test_a_session_that_was_told_of_its_end_and_not_closed_yet_is_made_again(
    server: PostgresServer, tmp_path: Path
) -> None:
    """The driver meets a state then that it did not expect. It once stopped the store for good."""
    async with opened_behind_proxy(server, tmp_path) as (opened, proxy):
        proxy.speak_last_words()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        await opened.write(FIRST, IntentAccepted(an_intent(2)))
        proxy.speak_last_words()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        asked = LookUpIntents(1, "", (intent_id(1), intent_id(2)))
        assert await opened.ask(asked) == IntentsLookedUp(1, None, (), (intent_id(1), intent_id(2)))


@pytest.mark.slow
@pytest.mark.parametrize("fault", list(Fault)[1:])
def test_a_commit_without_an_answer_is_looked_into(server: PostgresServer, tmp_path: Path, fault: Fault) -> None:
    """A session that is silent still holds its lock, and perhaps its transaction: it is ended before anything else."""

    @in_loop
    async def scenario() -> None:
        async with opened_behind_proxy(server, tmp_path) as (opened, proxy):
            proxy.fault = fault
            be_patient(opened, SHORT)
            opened.order(FIRST, IntentAccepted(an_intent(2)))
            while proxy.fault is not Fault.NONE:
                await asyncio.sleep(0.01)
            be_patient(opened, Patience())
            await opened.durable_after(1)
            asked = LookUpIntents(1, "", (intent_id(1), intent_id(2)))
            assert await opened.ask(asked) == IntentsLookedUp(1, None, (), (intent_id(1), intent_id(2)))
            await opened.write(FIRST, IntentAccepted(an_intent(3)))

    scenario()


@pytest.mark.slow
@in_loop
async def test_a_server_that_is_silent_holds_writes_until_it_speaks(server: PostgresServer, tmp_path: Path) -> None:
    async with opened_behind_proxy(server, tmp_path) as (opened, proxy):
        proxy.is_silent = True
        be_patient(opened, Patience(session_s=0.1))
        opened.order(FIRST, IntentAccepted(an_intent(2)))
        while not opened.store.trouble:
            await asyncio.sleep(0.01)
        assert opened.store.trouble == "PostgreSQL: no answer within 0.1 s"
        be_patient(opened, Patience())
        proxy.is_silent = False
        await opened.durable_after(1)
        asked = LookUpIntents(1, "", (intent_id(1), intent_id(2)))
        assert await opened.ask(asked) == IntentsLookedUp(1, None, (), (intent_id(1), intent_id(2)))


@pytest.mark.slow
@in_loop
async def test_a_store_is_closed_when_its_server_is_silent(server: PostgresServer, tmp_path: Path) -> None:
    async with opened_behind_proxy(server, tmp_path) as (opened, proxy):
        proxy.is_silent = True
        be_patient(opened, Patience(session_s=0.1))
        for number in range(2, GROUP_WRITES_MAX * 2):
            opened.order(FIRST, IntentAccepted(an_intent(number)))


@pytest.mark.slow
@in_loop
async def test_a_server_that_is_silent_is_not_opened(server: PostgresServer, tmp_path: Path) -> None:
    async with proxy_to(server, tmp_path) as proxy:
        proxy.is_silent = True
        database = PostgresDatabase(server.url("public", tmp_path), NODE, Patience(session_s=0.1))
        with pytest.raises(Unavailable, match=r"no answer within 0.1 s"):
            await database.open()


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_store_goes_on_whatever_happens_to_its_sessions(server: PostgresServer, tmp_path: Path, seed: int) -> None:
    """Every order is written once, whatever happens meanwhile."""
    random = Random(seed)

    async def make_trouble(opened: Opened, proxy: Proxy) -> None:
        match random.choice(["end", "words", "silence", "restart", "fault", "fault"]):
            case "end":
                await end_sessions(server)
            case "words":
                proxy.speak_last_words()
            case "silence":
                proxy.is_silent = True
                be_patient(opened, Patience(session_s=0.1, statements_s=0.1, look_s=0.3))
            case "restart":
                server.stop()
                server.start()
            case _:
                proxy.fault = random.choice(list(Fault))
                be_patient(opened, SHORT)
        for _ in range(random.randrange(TURNS)):
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with opened_behind_proxy(server, tmp_path) as (opened, proxy):
            number = 1
            for _ in range(TROUBLES):
                await make_trouble(opened, proxy)
                count = random.randint(1, WRITES_MAX)
                for _ in range(count):
                    number += 1
                    opened.order(FIRST, IntentAccepted(an_intent(number)))
                await asyncio.sleep(random.choice((0, 0.1, 0.5)))
                proxy.is_silent, proxy.fault = False, Fault.NONE
                be_patient(opened, Patience())
                await opened.durable_after(count)
            every = tuple(intent_id(each) for each in range(1, number + 1))
            answer = await opened.ask(LookUpIntents(1, "", every))
            assert isinstance(answer, IntentsLookedUp)
            assert answer.unfinished == every

    asyncio.run(scenario())


# What holds of any database that is away.


class AwayDatabase(FaultyDatabase):
    """Fails in these ways, one after the other, and counts how often it was asked to write something.

    An empty write asks whether it is back. When it does so depends on the clock.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.problems: list[Exception] = []
        self.asked_count = 0

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        self.asked_count += bool(statements)
        if self.problems:
            raise self.problems.pop(0)
        await super().write(statements, written)


@pytest.mark.parametrize("problem", [Unavailable("away"), OutcomeUnknown("away")])
def test_features_that_wait_are_told_at_once_when_the_database_is_away(tmp_path: Path, problem: Exception) -> None:
    """One attempt is enough for all of them; the core's order is tried again."""

    @in_loop
    async def scenario() -> None:
        away = AwayDatabase(new_sqlite(tmp_path))
        opened = await Opened(away).start()
        away.problems = [problem]
        away.asked_count = 0

        async def order() -> None:
            opened.order(FIRST, IntentAccepted(an_intent(1)))

        deleting = [Statement("DELETE FROM mined")]
        features = [opened.store.write(deleting) for _ in range(GROUP_WRITES_MAX + 1)]
        _, *told = await asyncio.gather(order(), *features, return_exceptions=True)
        assert all(isinstance(each, Unavailable) for each in told)
        in_doubt = sum(isinstance(each, WriteInDoubt) for each in told)
        assert in_doubt == (GROUP_WRITES_MAX - 1 if isinstance(problem, OutcomeUnknown) else 0)
        assert away.asked_count == 1
        await opened.durable_after(1)
        assert away.asked_count == 2
        await opened.store.close()

    scenario()


@in_loop
async def test_an_error_of_our_own_is_loud_and_nobody_orders_in_vain(tmp_path: Path) -> None:
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
    away = AwayDatabase(new_sqlite(tmp_path))
    opened = await Opened(away).start()
    away.problems = [RuntimeError("nobody thought of this")]
    opened.order(FIRST, IntentAccepted(an_intent(1)))
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert heard == ["the store has stopped: RuntimeError('nobody thought of this')"]
    assert opened.store.trouble == heard[0]
    with pytest.raises(RuntimeError, match="nobody thought of this"):
        opened.order(FIRST, IntentAccepted(an_intent(2)))
    with pytest.raises(RuntimeError, match="nobody thought of this"):
        await opened.store.close()
    await away.close()
