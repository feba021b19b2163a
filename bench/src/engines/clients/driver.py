"""The loops of the benchmark for a client in Python: SCRIPT SERVERS TTL_MS, with commands on standard input.

`handover ROUNDS`  hands an election over between two clients, and prints `times NANOS..`
`acquire NAMES MILLIS`  acquires and releases NAMES elections at once, each by its own client and thread, and prints `rate R`
`hold COUNT`       leads COUNT elections by one client, prints `held`, and renews them every third of the ttl
`lead NAME`        leads one election, prints `leads`, and renews it

A script defines `Client(servers, ttl)` with `lead(name)`, which waits and returns a lease, `resign(lease)` and
`renew(lease)`, and calls `run(Client)`.
"""

import os
import sys
import threading
import time

# The next client must not wait for the default of 5 ms until the interpreter switches threads.
sys.setswitchinterval(0.0002)
# How long the next candidate waits before the leader resigns.
SETTLE = 0.12


def say(*words):
    print(*words, flush=True)


def handover(connect, rounds):
    clients = [connect(), connect()]
    lease = clients[0].lead("handover")
    times = []
    for number in range(1, rounds + 1):
        leader, waiter = clients[(number + 1) % 2], clients[number % 2]
        led = []

        def wait():
            won = waiter.lead("handover")
            led.append((won, time.perf_counter_ns()))

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(SETTLE)
        if led:
            raise RuntimeError("the next client leads before the leader has resigned")
        start = time.perf_counter_ns()
        leader.resign(lease)
        thread.join()
        lease, at = led[0]
        times.append(at - start)
    clients[rounds % 2].resign(lease)
    say("times", *times)


def acquire(connect, names, millis):
    counts = [0] * names
    ready = threading.Barrier(names + 1)

    def loop(number):
        client = connect()
        client.resign(client.lead(f"acquire-{number}"))
        ready.wait()
        end = time.perf_counter() + millis / 1000
        while time.perf_counter() < end:
            client.resign(client.lead(f"acquire-{number}"))
            counts[number] += 1

    threads = [threading.Thread(target=loop, args=[number]) for number in range(names)]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    say("rate", sum(counts) / (time.perf_counter() - start))


def hold(connect, names, said, ttl):
    client = connect()
    leases = [client.lead(name) for name in names]
    say(said)
    # A third of the ttl after the last renewal of the same lease.
    due = time.perf_counter() + ttl / 3
    # Ends with the benchmark, also if that was killed.
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(max(0, due - time.perf_counter()))
        due += ttl / 3
        for lease in leases:
            client.renew(lease)


def run(Client):
    servers, ttl = sys.argv[1].split(","), int(sys.argv[2]) / 1000
    for line in sys.stdin:
        command, *words = line.split()
        if command == "handover":
            handover(lambda: Client(servers, ttl), int(words[0]))
        elif command == "acquire":
            acquire(lambda: Client(servers, ttl), int(words[0]), int(words[1]))
        elif command == "hold":
            hold(lambda: Client(servers, ttl), [f"held-{n}" for n in range(int(words[0]))], "held", ttl)
        elif command == "lead":
            hold(lambda: Client(servers, ttl), words, "leads", ttl)
