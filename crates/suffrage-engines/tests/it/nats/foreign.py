"""A candidate by nats-py: foreign.py SERVERS BUCKET KEY IDENTITY TTL_MS

Creates the key, updates it every third of the ttl, and deletes it when told `resign`. Prints `waits` once, `leads`, `lost`
and, when asked by `leader`, `leader IDENTITY`.
"""

import asyncio
import sys

import nats
from nats.js.errors import KeyWrongLastSequenceError

servers, bucket, key, identity, ttl = sys.argv[1:]
ttl = int(ttl) / 1000


def say(line):
    print(line, flush=True)


async def main():
    client = await nats.connect(servers.split(","), connect_timeout=5, max_reconnect_attempts=-1)
    kv = await client.jetstream(timeout=5).key_value(bucket)
    resign = asyncio.Event()

    async def commands():
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            if line.strip() == b"leader":
                say(f"leader {(await kv.get(key)).value.decode()}")
            if line.strip() == b"resign":
                resign.set()
        sys.exit(0)

    task = asyncio.create_task(commands())
    waits = False
    watcher = await kv.watch(key)
    while True:
        try:
            revision = await kv.create(key, identity.encode())
            break
        except KeyWrongLastSequenceError:
            if not waits:
                waits = True
                say("waits")
            try:
                # A deletion wakes it. An entry that expires tells nothing.
                await watcher.updates(timeout=0.2)
            except Exception:
                pass
    say("leads")
    try:
        while True:
            try:
                await asyncio.wait_for(resign.wait(), ttl / 3)
                await kv.delete(key, last=revision)
                break
            except asyncio.TimeoutError:
                revision = await kv.update(key, identity.encode(), last=revision)
    finally:
        say("lost")
    await task


asyncio.run(main())
