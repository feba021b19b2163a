"""An advisory lock by psycopg: the server keeps it as long as the connection, without a ttl and without a token."""

import psycopg
from driver import run


class Client:
    def __init__(self, servers, ttl):
        host, port = servers[0].rsplit(":", 1)
        self.connection = psycopg.connect(
            f"host={host} port={port} user=postgres dbname=postgres", autocommit=True, prepare_threshold=1
        )

    def lead(self, name):
        self.connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
        return name

    def renew(self, name):
        pass

    def resign(self, name):
        self.connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", [name])


run(Client)
