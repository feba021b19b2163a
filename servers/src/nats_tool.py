"""The official client of NATS as a tool: tool.py SERVERS COMMAND ARGUMENTS"""

import asyncio
import sys

import nats
from nats.js import api

servers, command, *arguments = sys.argv[1:]


async def ready(js):
    """Waits until JetStream serves."""
    while True:
        try:
            await js.account_info()
            return
        except Exception:
            await asyncio.sleep(0.1)


async def leader(js, bucket):
    """The server that leads a bucket."""
    info = await js.stream_info(f"KV_{bucket}")
    print(info.cluster.leader if info.cluster and info.cluster.leader else "")


async def delete(js, bucket, key):
    await (await js.key_value(bucket)).delete(key)


async def put(js, bucket, key, value):
    await (await js.key_value(bucket)).put(key, value.encode())


async def create(js, bucket, seconds, markers):
    """A bucket with this max-age, with limit markers or without."""
    config = api.KeyValueConfig(bucket=bucket, ttl=float(seconds) or None)
    if markers == "markers":
        config.limit_marker_ttl = 60.0
    await js.create_key_value(config)


async def age(js, bucket, seconds):
    """Changes the max-age of a bucket."""
    config = (await js.stream_info(f"KV_{bucket}")).config
    config.max_age = config.duplicate_window = float(seconds)
    await js.update_stream(config)


async def main():
    client = await nats.connect(servers.split(","), connect_timeout=5)
    await globals()[command](client.jetstream(timeout=5), *arguments)
    await client.close()


asyncio.run(main())
