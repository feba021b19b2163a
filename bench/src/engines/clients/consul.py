"""The lock of Consul's Go client and of `consul lock`, by py-consul: a session with a ttl for each lock, a blocking query
for the key, and an acquisition. The lock-delay is the ttl."""

import time

import consul
from driver import run

FLAGS = 0x2DDCCBC058A50C18


class Client:
    def __init__(self, servers, ttl):
        host, port = servers[0].rsplit(":", 1)
        self.consul, self.ttl = consul.Consul(host=host, port=int(port)), int(ttl)

    def lead(self, name):
        key = f"theirs/{name}/.lock"
        session = self.consul.session.create(name="theirs", ttl=self.ttl, lock_delay=self.ttl)
        index, entry = self.consul.kv.get(key)
        renewed = time.monotonic()
        while True:
            if entry is None or "Session" not in entry:
                if self.consul.kv.put(key, "theirs", acquire=session, flags=FLAGS):
                    return key, session
                # The lock-delay, or somebody was faster.
                time.sleep(1)
                index, entry = self.consul.kv.get(key)
            else:
                index, entry = self.consul.kv.get(key, index=index, wait="2s")
            if time.monotonic() > renewed + self.ttl / 3:
                self.consul.session.renew(session)
                renewed = time.monotonic()

    def renew(self, lease):
        self.consul.session.renew(lease[1])

    def resign(self, lease):
        key, session = lease
        self.consul.kv.put(key, "", release=session, flags=FLAGS)
        self.consul.session.destroy(session)


run(Client)
