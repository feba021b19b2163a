"""The clock of leases, in nanoseconds.

CLOCK_BOOTTIME of Linux counts while the machine is suspended, and nobody sets it. A node states the deadlines of local
leaderships on this clock. Elsewhere this is the monotonic clock of Python.
"""

from __future__ import annotations

import sys
import time

if sys.platform == "linux":

    def now_ns() -> int:
        """Return the current moment."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

else:

    def now_ns() -> int:
        """Return the current moment."""
        return time.monotonic_ns()
