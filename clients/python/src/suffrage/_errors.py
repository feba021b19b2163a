"""The errors of this package."""

from __future__ import annotations


class SuffrageError(Exception):
    """The base class of all errors of this package."""


class LeadershipEnded(SuffrageError):
    """The leadership is over: stop the work at once."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the leadership has ended: {reason}")
        self.reason = reason
        """`expired`, `resigned`, `lost` or `forked`."""


class InUse(SuffrageError):
    """This client leads this election already, or waits to lead it."""


class Cancelled(SuffrageError):
    """`Election.cancel` or `Client.close` was called while `lead` waited."""


class Unauthorized(SuffrageError):
    """The bearer token is missing or wrong."""


class Invalid(SuffrageError):
    """A setting is wrong, or the node refuses the request for good."""


class Unavailable(SuffrageError):
    """No node has answered a question. `lead` does not raise it: it goes on trying."""


class StaleToken(SuffrageError):
    """A fence has seen a greater token: the writer is a former leader."""
