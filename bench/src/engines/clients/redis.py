"""Redlock with one server, by redlock-ng: who waits tries again after 100 to 300 ms, the default of the library."""

from driver import run
from redlock import Redlock, RedlockConfig


class Client:
    def __init__(self, servers, ttl):
        url = f"redis://{servers[0]}/2"
        self.redlock = Redlock(RedlockConfig(masters=[url], socket_timeout=5, socket_connect_timeout=5))
        self.ttl = int(ttl * 1000)

    def lead(self, name):
        return self.redlock.acquire(name, self.ttl, blocking=True)

    def renew(self, lease):
        if not self.redlock.extend(lease, self.ttl):
            raise RuntimeError(f"{lease.resource} is lost")

    def resign(self, lease):
        self.redlock.release(lease)


run(Client)
