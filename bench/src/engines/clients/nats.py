"""A key of a KV bucket by nats-py: `create` takes it, `update` renews it, `delete` releases it, and a watch wakes who waits.
A key that expires wakes nobody: so who waits also tries every 200 ms."""

import asyncio

import nats
from driver import run
from nats.js import api
from nats.js.errors import KeyWrongLastSequenceError


class Client:
    def __init__(self, servers, ttl):
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.connect([f"nats://{server}" for server in servers], ttl))

    async def connect(self, servers, ttl):
        client = await nats.connect(servers, connect_timeout=5)
        config = api.KeyValueConfig(bucket=f"theirs-{int(ttl * 1000)}", ttl=ttl, replicas=3 if len(servers) > 1 else 1)
        stream = client.jetstream(timeout=5)
        for attempt in range(20):
            try:
                self.kv = await stream.create_key_value(config)
                # The bucket has a leading server.
                await self.kv.put("ready", b"")
                return
            except Exception:
                # Several clients create it at once, and the servers elect a leader of it.
                if attempt == 19:
                    raise
                await asyncio.sleep(0.2)

    def lead(self, name):
        return self.loop.run_until_complete(self.lead_async(name))

    async def lead_async(self, name):
        watcher = None
        try:
            while True:
                try:
                    return [name, await self.kv.create(name, b"theirs")]
                except KeyWrongLastSequenceError:
                    watcher = watcher or await self.kv.watch(name)
                    try:
                        # The first update is the present value, and the second one says that there are no more.
                        update = await watcher.updates(timeout=0.2)
                        while update is None or update.operation is None:
                            update = await watcher.updates(timeout=0.2)
                    except nats.errors.TimeoutError:
                        pass
        finally:
            if watcher:
                await watcher.stop()

    def renew(self, lease):
        name, revision = lease
        lease[1] = self.loop.run_until_complete(self.kv.update(name, b"theirs", last=revision))

    def resign(self, lease):
        name, revision = lease
        self.loop.run_until_complete(self.kv.delete(name, last=revision))


run(Client)
