"""What a node remembers across a restart: one store on SQLite, the default, or on PostgreSQL (protocol §8).

group_commit.py  start reading here: the `Store` of ports; syncpoints in, events out
records.py       what each record changes, as SQL         reading.py    what is asked of a store, as SQL
encoding.py      values and their bytes                   schema.py     migrations, which are in migrations/
commands.py      what commands need remembered
database.py      what both databases have in common       sqlite.py, postgres.py
"""

from rota.store.commands import DatabaseCommands
from rota.store.database import Refused
from rota.store.group_commit import DatabaseStore
from rota.store.postgres import PostgresDatabase
from rota.store.sqlite import SqliteDatabase

__all__ = ["DatabaseCommands", "DatabaseStore", "PostgresDatabase", "Refused", "SqliteDatabase"]
