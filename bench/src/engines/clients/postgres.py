"""A lease row by psycopg, as applications write it: one upsert takes it, an update renews it, NOTIFY wakes who waits."""

import os

import psycopg
from driver import run

TABLE = """CREATE TABLE IF NOT EXISTS lease
    (name text PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL, expires timestamptz NOT NULL)"""
ACQUIRE = """INSERT INTO lease VALUES (%(name)s, %(holder)s, 1, clock_timestamp() + %(ttl)s * interval '1 s')
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = lease.token + 1, expires = excluded.expires
    WHERE lease.expires < clock_timestamp() RETURNING token"""
LEFT = "SELECT extract(epoch FROM expires - clock_timestamp())::float8 FROM lease WHERE name = %s"
RENEW = """UPDATE lease SET expires = clock_timestamp() + %(ttl)s * interval '1 s'
    WHERE name = %(name)s AND holder = %(holder)s AND expires > clock_timestamp()"""
RELEASE = """WITH released AS (UPDATE lease SET expires = '-infinity' WHERE name = %s AND holder = %s RETURNING name)
    SELECT pg_notify('lease', name) FROM released"""


class Client:
    def __init__(self, servers, ttl):
        host, port = servers[0].rsplit(":", 1)
        self.connection = psycopg.connect(
            f"host={host} port={port} user=postgres dbname=postgres", autocommit=True, prepare_threshold=1
        )
        self.connection.execute(TABLE)
        self.ttl, self.holder, self.listens = ttl, os.urandom(8).hex(), False

    def lead(self, name):
        words = {"name": name, "holder": self.holder, "ttl": self.ttl}
        while self.connection.execute(ACQUIRE, words).fetchone() is None:
            if not self.listens:
                self.connection.execute("LISTEN lease")
                self.listens = True
                continue
            left = self.connection.execute(LEFT, [name]).fetchone()[0]
            if left > 0:
                for _ in self.connection.notifies(timeout=left, stop_after=1):
                    pass
        return name

    def renew(self, name):
        words = {"name": name, "holder": self.holder, "ttl": self.ttl}
        if self.connection.execute(RENEW, words).rowcount != 1:
            raise RuntimeError(f"{name} is lost")

    def resign(self, name):
        self.connection.execute(RELEASE, [name, self.holder])


run(Client)
