"""Fencing: a resource refuses writers that no longer lead."""

from __future__ import annotations

import threading

from ._errors import StaleToken


class Fence:
    """The greatest token that a resource has seen.

    A resource that keeps its state in this process checks each write with it. A resource with a database stores the
    token in the same transaction as the write instead: see the README.
    """

    def __init__(self, greatest: int = 0) -> None:
        self._greatest = greatest
        self._lock = threading.Lock()

    @property
    def greatest(self) -> int:
        """The greatest token seen."""
        with self._lock:
            return self._greatest

    def accepts(self, token: int) -> bool:
        """Tell whether a write with this token is in order, and remember the token if it is."""
        with self._lock:
            if token < self._greatest:
                return False
            self._greatest = token
            return True

    def check(self, token: int) -> None:
        """Raise `StaleToken` if a write with this token is from a former leader."""
        if not self.accepts(token):
            raise StaleToken(f"token {token} is smaller than {self.greatest}, which this resource has seen")
