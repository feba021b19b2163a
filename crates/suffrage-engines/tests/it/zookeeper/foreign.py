"""A candidate by kazoo: foreign.py SERVERS PATH IDENTITY SESSION_MS

Prints `leads`, `lost` and, when asked by `leader`, `leader IDENTITY`. Resigns when told `resign`.
"""

import os
import sys
import threading

from kazoo.client import KazooClient

servers, path, identity, session = sys.argv[1:]
client = KazooClient(hosts=servers, timeout=int(session) / 1000)
client.start(timeout=60)
election = client.Election(path, identity)
resign = threading.Event()


def lead():
    print("leads", flush=True)
    resign.wait()


def run():
    election.run(lead)
    print("lost", flush=True)


threading.Thread(target=run, daemon=True).start()
for line in sys.stdin:
    if line.strip() == "leader":
        print("leader", election.contenders()[0], flush=True)
    if line.strip() == "resign":
        resign.set()
os._exit(0)
