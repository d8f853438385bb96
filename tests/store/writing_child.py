"""A process that writes until it is killed: `python -m tests.store.writing_child sqlite PATH | postgres URL`.

Each write is an intent with what its party signed and the permission that it was given, and is named on standard
output when it is durable.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rota.machine.effects import IntentAccepted, Persist
from rota.machine.tables import Event
from rota.ports import Written
from rota.store import DatabaseStore, PostgresDatabase, SqliteDatabase
from tests.store.kit import CONFIG, CONTRACTS, FIRST, NODE, a_transition, an_intent, known, permitted, signed

# So many are under way at a time.
OPEN_MAX = 20


async def write_on(kind: str, place: str) -> None:
    told: asyncio.Queue[Event] = asyncio.Queue()
    database = SqliteDatabase(Path(place), NODE) if kind == "sqlite" else PostgresDatabase(place, NODE)
    store = DatabaseStore(database, NODE, CONFIG, told.put_nowait)
    await store.start()
    await store.add_contract(known(CONTRACTS[0]))
    intents = (await store.restore((FIRST,))).contracts[FIRST].intents
    number = max((int.from_bytes(restored.intent.id, "big") for restored in intents), default=0)
    durable = number
    for _ in range(OPEN_MAX):
        number += 1
        order(store, number)
    while True:
        event = await told.get()
        assert isinstance(event, Written)
        for _ in range(event.count):
            durable += 1
            print(durable, flush=True)
            number += 1
            order(store, number)


def order(store: DatabaseStore, number: int) -> None:
    made = a_transition(number)
    store.perform(Persist(FIRST, (IntentAccepted(an_intent(number)), signed(made), permitted(made, number))))


if __name__ == "__main__":
    asyncio.run(write_on(sys.argv[1], sys.argv[2]))
