"""Leader election: a client of suffrage nodes.

    import suffrage

    election = suffrage.Client().election("billing", ttl=10)
    with election.lead() as leadership:
        while not leadership.should_stop:
            leadership.check()
            bill(fencing_token=leadership.token)

`suffrage.aio` has the same for asyncio.
"""

from . import aio
from ._errors import Cancelled, InUse, Invalid, LeadershipEnded, StaleToken, SuffrageError, Unauthorized, Unavailable
from ._fence import Fence
from ._lease import End
from ._sync import Client, Election, Leadership
from .aio import Leader

__all__ = [
    "Cancelled",
    "Client",
    "Election",
    "End",
    "Fence",
    "InUse",
    "Invalid",
    "Leader",
    "Leadership",
    "LeadershipEnded",
    "StaleToken",
    "SuffrageError",
    "Unauthorized",
    "Unavailable",
    "aio",
]
