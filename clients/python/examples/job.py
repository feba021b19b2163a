"""The job of the examples: only the leader writes, and the store refuses the writes of former leaders.

With `--step` it writes once for each line that it reads, without `leadership.check()`. That stands for a program that
is suspended after the check and before the write: there, only the fence of the store protects.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import suffrage

TTL = 1.5


def run(write: Callable[[int], None]) -> None:
    """Lead, and write with the fencing token until the leadership is over or the store refuses the token."""
    step = "--step" in sys.argv[1:]
    with suffrage.Client() as client, client.election("ledger", ttl=TTL).lead() as leadership:
        token = leadership.token
        print("leading", token, flush=True)
        try:
            while True:
                if step:
                    sys.stdin.readline()
                else:
                    time.sleep(0.05)
                    leadership.check()
                write(token)
                print("wrote", token, flush=True)
        except suffrage.StaleToken:
            print("refused", token, flush=True)
        except suffrage.LeadershipEnded:
            print("ended", token, flush=True)
