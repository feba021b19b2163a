"""The validity of one leadership: the part on which safety depends.

Threads and tasks share a `Lease`. Each operation first looks at the clock: a lease whose deadline has passed has ended,
whatever comes later.
"""

from __future__ import annotations

import os
import threading
from typing import Callable, NamedTuple, Optional

from ._errors import LeadershipEnded


class End(NamedTuple):
    """The end of a leadership."""

    reason: str
    """`expired`, `resigned`, `lost` or `forked`."""
    at_ns: int
    """The moment from which on `check` fails, on the clock of leases."""


class Lease:
    """A token and a deadline."""

    def __init__(self, token: int, deadline_ns: int, margin_ns: int, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._token = token
        self._deadline_ns = deadline_ns
        self._margin_ns = margin_ns
        self._end: Optional[End] = None

    def _lapse(self) -> int:
        """End the lease if its deadline has passed. Called first at every operation, with the lock."""
        now = self._now_ns()
        if self._end is None and now >= self._deadline_ns:
            self._end = End("expired", self._deadline_ns)
        return now

    @property
    def token(self) -> int:
        """The fencing token."""
        with self._lock:
            return self._token

    def end(self) -> Optional[End]:
        """Return the end of the lease, or None while it is valid."""
        if os.getpid() != self._pid:
            # A child process has a copy of this lease, and nobody renews it there.
            return End("forked", 0)
        with self._lock:
            self._lapse()
            return self._end

    def check(self) -> None:
        """Raise `LeadershipEnded` if the lease has ended."""
        end = self.end()
        if end is not None:
            raise LeadershipEnded(end.reason)

    def remaining_ns(self) -> int:
        """Return the time until the deadline: 0 if the lease has ended."""
        if self.end() is not None:
            return 0
        with self._lock:
            now = self._lapse()
            return self._deadline_ns - now if self._end is None else 0

    def before_stop_ns(self) -> int:
        """Return the time until the work has to stop: 0 if that moment has passed."""
        return max(0, self.remaining_ns() - self._margin_ns)

    def extend(self, token: int, deadline_ns: int) -> bool:
        """Extend the lease, unless it has ended. A reply that was overtaken does not shorten it."""
        with self._lock:
            self._lapse()
            if self._end is not None:
                return False
            self._token = max(self._token, token)
            self._deadline_ns = max(self._deadline_ns, deadline_ns)
            return True

    def finish(self, reason: str) -> End:
        """End the lease now, unless it has ended before."""
        with self._lock:
            now = self._lapse()
            if self._end is None:
                self._end = End(reason, now)
            return self._end
