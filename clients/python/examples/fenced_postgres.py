"""A fenced table in PostgreSQL: a transaction of a former leader does not commit. Needs psycopg 3.

pip install 'psycopg[binary]'
SUFFRAGE_NODE=http://127.0.0.1:7480 DATABASE_URL=postgresql://... python fenced_postgres.py
"""

from __future__ import annotations

import os

import job
import psycopg

import suffrage

SCHEMA = """
CREATE TABLE IF NOT EXISTS fence (name text PRIMARY KEY, token bigint NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (id bigserial PRIMARY KEY, token bigint NOT NULL);
"""

# No row comes back if a leader with a greater token has written. Otherwise the row stays locked until the transaction
# ends: no transaction of a later leader commits between this statement and the writes after it.
PASS_FENCE = """
INSERT INTO fence VALUES ('ledger', %s)
    ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token
    RETURNING token
"""


def append(connection: psycopg.Connection, token: int) -> None:
    """Append an entry to the ledger, in one transaction with the check of the token."""
    with connection.transaction():
        if connection.execute(PASS_FENCE, (token,)).fetchone() is None:
            raise suffrage.StaleToken(f"a leader with a greater token than {token} has written")
        connection.execute("INSERT INTO ledger (token) VALUES (%s)", (token,))


if __name__ == "__main__":
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as database:
        # A leader that is suspended within a transaction must not block the next one by its lock of the row.
        database.execute(f"SET idle_in_transaction_session_timeout = '{int(job.TTL * 1000)}ms'")
        # Two programs that create one table at the same moment would get in each other's way.
        with database.transaction():
            database.execute("SELECT pg_advisory_xact_lock(7)")
            database.execute(SCHEMA)
        job.run(lambda token: append(database, token))
