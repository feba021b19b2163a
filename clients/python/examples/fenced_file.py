"""A fenced file: a former leader does not append to it.

    SUFFRAGE_NODE=http://127.0.0.1:7480 LEDGER=ledger.txt python fenced_file.py

The greatest token stands in a file beside it. A writer holds an advisory lock while it compares the token and writes.
All writers must do so: the lock does not bind programs that do not ask for it. The file system must be local, or one
whose locks hold between machines. A leader that is suspended while it holds the lock blocks the next one: that is safe,
and lasts until it continues or is killed.
"""

from __future__ import annotations

import fcntl
import os

import job

import suffrage


def append(path: str, token: int) -> None:
    """Append an entry to the ledger, if no leader with a greater token has written."""
    # A file of its own: the file with the token is replaced, and a lock belongs to the file that was opened.
    with open(f"{path}.lock", "w", encoding="ascii") as lock:
        # Held until the file is closed, or the process has ended.
        fcntl.flock(lock, fcntl.LOCK_EX)
        greatest = read_token(f"{path}.token")
        if greatest > token:
            raise suffrage.StaleToken(f"a leader with token {greatest} has written, and this one has {token}")
        if greatest < token:
            # On the disk before the first write of its leader.
            write_token(f"{path}.token", token)
        with open(path, "a", encoding="ascii") as ledger:
            ledger.write(f"{token}\n")
            ledger.flush()
            os.fsync(ledger.fileno())


def read_token(path: str) -> int:
    """Read the greatest token that has written."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def write_token(path: str, token: int) -> None:
    """Replace the token. A rename is all or nothing, and durable with its folder."""
    with open(f"{path}.new", "w", encoding="ascii") as file:
        file.write(str(token))
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


if __name__ == "__main__":
    job.run(lambda token: append(os.environ["LEDGER"], token))
