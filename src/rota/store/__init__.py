"""The durable state of a node: one store on SQLite, the default, or on PostgreSQL (protocol §8).

group_commit.py  start reading here: the `Store` of ports; syncpoints in, events out
records.py       the changes of each record, as SQL       reading.py    the readings of a store, as SQL
encoding.py      values and their bytes                   schema.py     migrations, which are in migrations/
commands.py      submissions of commands and their completions
database.py      the common part of both databases        sqlite.py, postgres.py
"""

from rota.store.commands import DatabaseCommands
from rota.store.database import Refused
from rota.store.group_commit import DatabaseStore
from rota.store.postgres import PostgresDatabase
from rota.store.sqlite import SqliteDatabase

__all__ = ["DatabaseCommands", "DatabaseStore", "PostgresDatabase", "Refused", "SqliteDatabase"]
