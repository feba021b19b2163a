"""The client for asyncio.

    client = suffrage.aio.Client()
    async with client.election("billing", ttl=10).lead() as leadership:
        while not leadership.should_stop:
            leadership.check()
            await bill(fencing_token=leadership.token)

Three rules make a leadership safe. Its validity counts from just before the request was sent. At the deadline it ends,
whatever replies come later (`_lease`). A resignation ends it first and then tells the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union
from urllib.parse import quote

from ._clock import now_ns
from ._errors import InUse, Invalid, LeadershipEnded, Unauthorized, Unavailable
from ._http import ERRORS, Connection, Endpoint, NoAnswer, Settings
from ._lease import End, Lease

log = logging.getLogger("suffrage")

LOCAL_SOCKET = "/run/suffrage/suffrage.sock"
"""The usual socket of a node on this machine."""
LOCAL_HTTP = "http://127.0.0.1:7480"
"""The usual HTTP address of a node on this machine."""

_LOOK = 0.5
"""The longest time between two looks at the clock: timers may stop while the machine is suspended."""
_REPLY_TIMEOUT = 3.0
"""The time for an answer, besides the time that the node was asked to wait."""
_CLOSE_TIMEOUT = 10.0
"""The time for the resignations of all elections of a client."""
_PAUSE = 0.1
"""The shortest time between two campaigns at a node that answers at once."""
_FIRST_BACKOFF, _LAST_BACKOFF = 0.05, 1.0
_REFUSED = (400, 404, 405, 413, 415, 421, 422)
"""Statuses that trying again does not change."""
_ONE_SECOND = 1_000_000_000

Endpoints = Union[str, Sequence[str], None]
_T = TypeVar("_T")


def _addresses(endpoints: Endpoints) -> list[str]:
    if isinstance(endpoints, str):
        endpoints = [endpoints]
    if endpoints is not None:
        return list(endpoints)
    local = [f"unix:{LOCAL_SOCKET}"] if os.path.exists(LOCAL_SOCKET) else []
    node = os.environ.get("SUFFRAGE_NODE")
    return local + ([node] if node else []) or [LOCAL_HTTP]


@dataclass(frozen=True)
class Leader:
    """The leader of an election, as a node knows it: for people and load balancers. It may be old."""

    node: int
    """The id of the leader's node."""
    token: int
    """The leader's token."""
    value: Optional[str]
    """What the leader says about itself."""


class Client:
    """A client of a cluster.

    Endpoints are tried in order. Without any, these are the socket of the node on this machine if there is one, and
    `SUFFRAGE_NODE`. `token_file` and `ca_file` default to `SUFFRAGE_TOKEN_FILE` and `SUFFRAGE_CA`.
    """

    def __init__(
        self,
        endpoints: Endpoints = None,
        *,
        token_file: Optional[str] = None,
        ca_file: Optional[str] = None,
        allow_plain: bool = False,
    ) -> None:
        token_file = token_file or os.environ.get("SUFFRAGE_TOKEN_FILE") or None
        ca_file = ca_file or os.environ.get("SUFFRAGE_CA") or None
        settings = Settings(token_file, ca_file, allow_plain)
        self._endpoints = [Endpoint(address, settings) for address in _addresses(endpoints)]
        if not self._endpoints:
            raise Invalid("endpoints: there must be one at least")
        # Elections that this client leads, or waits to lead (None).
        self._claims: dict[str, Optional[Leadership]] = {}
        self._background: set[asyncio.Task[None]] = set()

    def election(
        self,
        name: str,
        *,
        ttl: float = 10.0,
        stop_margin: Optional[float] = None,
        rank: int = 0,
        value: Optional[str] = None,
    ) -> Election:
        """Return an election of this name.

        `ttl` is the length of a lease in seconds: after a crash nobody leads for that long. The work is told to stop
        `stop_margin` seconds before the deadline (default: a quarter of the ttl). `value` is what this program says
        about itself while it leads, such as its address: up to 4096 bytes of UTF-8.
        """
        return Election(self, name, ttl, stop_margin, rank=rank, value=value)

    async def close(self) -> None:
        """Resign everything, and close all connections."""
        for leadership in list(self._claims.values()):
            if leadership is not None:
                leadership._finish("resigned")
        if self._background:
            await asyncio.wait(self._background, timeout=_CLOSE_TIMEOUT)
        for endpoint in self._endpoints:
            endpoint.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def _claim(self, name: str) -> None:
        leadership = self._claims.get(name)
        if leadership is not None:
            # Its deadline may have passed without anybody having looked.
            leadership._look()
        if name in self._claims:
            raise InUse(f"this client leads {name} already, or waits to lead it")
        self._claims[name] = None


class Election:
    """A named election."""

    def __init__(
        self, client: Client, name: str, ttl: float, stop_margin: Optional[float], *, rank: int, value: Optional[str]
    ) -> None:
        margin = ttl / 4 if stop_margin is None else stop_margin
        if not 0 <= margin <= ttl / 2:
            raise Invalid(f"stop_margin: {margin} s must be between 0 and half of the ttl of {ttl} s")
        self._client = client
        self.name = name
        self._ttl = ttl
        self._margin_ns = int(margin * _ONE_SECOND)
        self._request: dict[str, Any] = {"ttl": f"{int(ttl * 1000)}ms", "rank": rank}
        if value is not None:
            self._request["value"] = value

    def lead(self) -> _Lead:
        """Wait to lead: `leadership = await election.lead()`, or `async with election.lead() as leadership:`."""
        return _Lead(self)

    async def run(self, work: Callable[[Leadership], Awaitable[_T]]) -> _T:
        """Lead, and run the work as a task that is cancelled when it has to stop: then `LeadershipEnded` is raised."""
        async with self.lead() as leadership:
            task = asyncio.ensure_future(work(leadership))
            leadership.on_stop(task.cancel)
            try:
                return await task
            except asyncio.CancelledError:
                if not leadership.should_stop:
                    raise
            raise LeadershipEnded("the work had to stop")

    async def leader(self) -> Optional[Leader]:
        """Ask the nodes, in order, who leads. Returns None if nobody does, as far as the node that answers knows.

        Only a `Leadership` proves that this program leads.
        """
        failed: Exception = NoAnswer("there is no endpoint")
        for endpoint in self._client._endpoints:
            try:
                answer = await endpoint.get(f"/elections/{quote(self.name, safe='')}", _REPLY_TIMEOUT)
                if answer.status != 200:
                    raise _failure(answer.status, answer.error, endpoint)
                if answer.body.get("leader") is None:
                    return None
                value = answer.body.get("value")
                told = value if isinstance(value, str) else None
                return Leader(_number(answer.body, "leader"), _number(answer.body, "token"), told)
            except (NoAnswer, Unauthorized) as error:
                failed = error
        raise failed if isinstance(failed, Unauthorized) else Unavailable(str(failed))

    async def _lead(self) -> Leadership:
        client = self._client
        client._claim(self.name)
        try:
            leadership = await self._campaign()
        except BaseException:
            del client._claims[self.name]
            raise
        client._claims[self.name] = leadership
        return leadership

    async def _campaign(self) -> Leadership:
        backoff = _FIRST_BACKOFF
        while True:
            refused: Optional[Unauthorized] = None
            for endpoint in self._client._endpoints:
                try:
                    return await (self._hold(endpoint) if endpoint.socket else self._campaign_at(endpoint))
                except NoAnswer as error:
                    log.warning("cannot lead %s: %s", self.name, error)
                except Unauthorized as error:
                    # Another node may have another token, while tokens are rotated.
                    refused = error
            if refused is not None:
                raise refused
            await asyncio.sleep(backoff * (0.5 + random.random() / 2))
            backoff = min(backoff * 2, _LAST_BACKOFF)

    def _path(self, action: str) -> str:
        return f"/elections/{quote(self.name, safe='')}/{action}"

    async def _campaign_at(self, endpoint: Endpoint) -> Leadership:
        """Campaign at this endpoint until it leads, and keep the place in the queue of the node."""
        wait = min(max(self._ttl, 1.0), 10.0)
        body: dict[str, Any] = {**self._request, "wait": f"{int(wait * 1000)}ms"}
        session: Optional[str] = None
        try:
            while True:
                request = body if session is None else {**body, "session": session}
                answer = await endpoint.post(
                    self._path("campaign"), request, wait + _REPLY_TIMEOUT, fresh=session is None
                )
                if answer.status == 200:
                    session = _text(answer.body, "session")
                    lease = self._lease(_number(answer.body, "token"), _deadline(answer.body, answer.sent_ns))
                    if lease.end() is None:
                        remote = _Remote(self, endpoint, session)
                        session = None
                        return Leadership(self, lease, remote)
                    # The reply took too long. The session leads, so that a campaign with it is a renewal.
                    continue
                if answer.status == 202:
                    session = _text(answer.body, "session")
                    if answer.body.get("your_turn") is True:
                        # The lease begins with the next request, which does not wait.
                        continue
                elif answer.status == 409:
                    if answer.reason == "revoked" and session is not None:
                        self._client._spawn(self._give_up(endpoint, session))
                    session = session if answer.reason == "superseded" else None
                else:
                    raise _failure(answer.status, answer.error, endpoint)
                pause = _PAUSE - (now_ns() - answer.sent_ns) / _ONE_SECOND
                await asyncio.sleep(max(0.0, pause))
        finally:
            if session is not None:
                self._client._spawn(self._give_up(endpoint, session))

    async def _hold(self, endpoint: Endpoint) -> Leadership:
        """Lead for as long as a connection to the node of this machine is open."""
        body = {**self._request, "hold": "connection"}
        status, connection = await endpoint.open_stream(self._path("campaign"), body, _REPLY_TIMEOUT)
        leads = False
        try:
            if status != 200:
                told = str((await connection.read_object()).get("error", f"status {status}"))
                raise _failure(status, told, endpoint)
            events = connection.read_lines()
            async for event in events:
                if event.get("event") == "leading":
                    lease = self._lease(_number(event, "token"), _absolute_deadline(event))
                    if lease.end() is not None:
                        break
                    leads = True
                    local = _Local(connection, events, endpoint, _text(event, "session"))
                    return Leadership(self, lease, local)
                if event.get("event") != "waiting":
                    raise NoAnswer(f"{endpoint.address}: {event.get('reason', 'no lease')}")
            raise NoAnswer(f"{endpoint.address}: the node has closed the connection")
        except ERRORS as error:
            raise NoAnswer(f"{endpoint.address}: {error or type(error).__name__}") from error
        finally:
            if not leads:
                connection.close()

    def _lease(self, token: int, deadline_ns: int) -> Lease:
        return Lease(token, deadline_ns, self._margin_ns, now_ns)

    async def _give_up(self, endpoint: Endpoint, session: str) -> None:
        """Resign a session, so that nobody waits for its ttl. After the ttl the node has forgotten it anyway."""
        give_up_ns = now_ns() + int(self._ttl * _ONE_SECOND)
        pause = _FIRST_BACKOFF
        while now_ns() < give_up_ns:
            with contextlib.suppress(NoAnswer, Unauthorized):
                answer = await endpoint.post(self._path("resign"), {"session": session}, _REPLY_TIMEOUT)
                if answer.status < 500:
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_BACKOFF)


class _Lead:
    """A campaign: awaitable, and a context manager."""

    def __init__(self, election: Election) -> None:
        self._election = election
        self._leadership: Optional[Leadership] = None

    def __await__(self) -> Generator[Any, None, Leadership]:
        return self._election._lead().__await__()

    async def __aenter__(self) -> Leadership:
        self._leadership = await self._election._lead()
        return self._leadership

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._leadership is not None:
            await self._leadership.resign()


class Leadership:
    """A leadership that this program holds. Any thread may call `check`, `is_valid`, `remaining` and `should_stop`."""

    def __init__(self, election: Election, lease: Lease, held: Union[_Remote, _Local]) -> None:
        self._election = election
        self._lease = lease
        self._held = held
        self._end: Optional[End] = None
        self._values = 0
        self._hand_over_wanted = False
        self._stop_told = False
        self._stop = asyncio.Event()
        self._ended = asyncio.Event()
        self._on_stop: list[Callable[[], object]] = []
        self._on_hand_over: list[Callable[[], object]] = []
        self._on_end: list[Callable[[], object]] = []
        self._timer: Optional[asyncio.TimerHandle] = None
        self._releasing: Optional[asyncio.Task[None]] = None
        self._keeper = election._client._spawn(held.keep(self, lease))
        self._look()

    @property
    def token(self) -> int:
        """The fencing token. It may grow during a leadership."""
        return self._lease.token

    @property
    def is_valid(self) -> bool:
        """Whether this program leads at this moment, by the clock."""
        return self._lease.end() is None

    def check(self) -> None:
        """Raise `LeadershipEnded` if this program does not lead any more."""
        self._lease.check()

    def remaining(self) -> float:
        """Return the time until the deadline in seconds, unless the lease is renewed: 0 if the leadership is over."""
        return self._lease.remaining_ns() / _ONE_SECOND

    @property
    def should_stop(self) -> bool:
        """Whether the work should stop: the deadline is near or past, or a hand-over is wanted."""
        return self._hand_over_wanted or self._stop_told or self._lease.before_stop_ns() == 0

    @property
    def hand_over_wanted(self) -> bool:
        """Whether the node wants to hand over: stop the work and resign. The leadership is valid until its deadline."""
        return self._hand_over_wanted

    @property
    def end(self) -> Optional[End]:
        """The end of the leadership; None while it is valid."""
        return self._lease.end()

    async def wait_stop(self) -> None:
        """Wait until the work should stop."""
        await self._stop.wait()

    async def wait_end(self) -> End:
        """Wait until the leadership is over."""
        await self._ended.wait()
        assert self._end is not None
        return self._end

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call this once, when the work should stop."""
        self._register(self._on_stop, self._stop.is_set(), callback)

    def on_hand_over(self, callback: Callable[[], object]) -> None:
        """Call this once, when a hand-over is wanted."""
        self._register(self._on_hand_over, self._hand_over_wanted, callback)

    def on_end(self, callback: Callable[[], object]) -> None:
        """Call this once, when the leadership is over."""
        self._register(self._on_end, self._ended.is_set(), callback)

    async def set_value(self, value: Optional[str]) -> None:
        """Change what this program says about itself while it leads: up to 4096 bytes of UTF-8, or None for nothing.

        Returns when the node of this leadership has it; other nodes show it soon. Raises `LeadershipEnded` if the
        leadership is over, and `Invalid` if the node refuses the value. Of several calls the last one counts.
        """
        self._values += 1
        body = {"session": self._held.session, "value": value or "", "order": self._values}
        endpoint, path = self._held.endpoint, self._election._path("value")
        pause = _FIRST_BACKOFF
        while True:
            self.check()
            try:
                answer = await endpoint.post(path, body, _REPLY_TIMEOUT)
                if answer.status == 200:
                    return
                if answer.status == 409:
                    raise LeadershipEnded("lost")
                error = _failure(answer.status, answer.error, endpoint)
            except NoAnswer as no_answer:
                error = no_answer
            if not isinstance(error, NoAnswer):
                raise error
            log.warning("cannot set the value: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_BACKOFF)

    async def resign(self) -> None:
        """Stop leading, and then tell the node."""
        self._finish("resigned")
        if self._releasing is not None:
            # If the node does not answer, the attempts go on in the background.
            await asyncio.wait({self._releasing}, timeout=_REPLY_TIMEOUT)

    def _register(self, callbacks: list[Callable[[], object]], now: bool, callback: Callable[[], object]) -> None:
        if now:
            asyncio.get_running_loop().call_soon(callback)
        else:
            callbacks.append(callback)

    def _call(self, callbacks: list[Callable[[], object]]) -> None:
        for callback in callbacks:
            asyncio.get_running_loop().call_soon(callback)
        callbacks.clear()

    def _look(self) -> None:
        """Look at the clock, and say what is due."""
        if self._end is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._lease.end() is not None:
            self._finish("expired")
            return
        before_stop = self._lease.before_stop_ns()
        if before_stop == 0:
            self._tell_stop()
        due = (before_stop or self._lease.remaining_ns()) / _ONE_SECOND
        self._timer = asyncio.get_running_loop().call_later(min(due, _LOOK), self._look)

    def _tell_stop(self) -> None:
        if not self._stop.is_set():
            self._stop_told = True
            self._stop.set()
            self._call(self._on_stop)

    def _want_hand_over(self) -> None:
        if not self._hand_over_wanted:
            self._hand_over_wanted = True
            self._call(self._on_hand_over)
            self._tell_stop()

    def _finish(self, reason: str) -> None:
        """End the leadership first, and then tell the node."""
        end = self._lease.finish(reason)
        if self._end is not None:
            return
        self._end = end
        if self._timer is not None:
            self._timer.cancel()
        claims = self._election._client._claims
        if claims.get(self._election.name) is self:
            del claims[self._election.name]
        self._keeper.cancel()
        self._tell_stop()
        self._ended.set()
        self._call(self._on_end)
        if end.reason != "lost":
            self._releasing = self._election._client._spawn(self._held.release(self._election))


class _Remote:
    """A session that is renewed by requests, at the node that gave it."""

    def __init__(self, election: Election, endpoint: Endpoint, session: str) -> None:
        self._path = election._path("renew")
        self.endpoint = endpoint
        self.session = session

    async def keep(self, leadership: Leadership, lease: Lease) -> None:
        """Renew until the leadership is over."""
        failures = 0
        wait = _spread(lease.remaining_ns() / 3)
        while not leadership._hand_over_wanted:
            await _sleep_until(now_ns() + int(wait))
            remaining = lease.remaining_ns()
            if remaining == 0:
                return
            timeout = max(remaining / 3 / _ONE_SECOND, 0.1)
            try:
                answer = await self.endpoint.post(self._path, {"session": self.session}, timeout)
                if answer.status == 200:
                    lease.extend(_number(answer.body, "token"), _deadline(answer.body, answer.sent_ns))
                    failures = 0
                    left = lease.remaining_ns()
                    took = now_ns() - answer.sent_ns
                    wait = max(0, min(_spread(left / 3), left - 2 * took))
                    continue
                if answer.status == 409 and answer.reason == "revoked":
                    leadership._want_hand_over()
                    return
                if answer.status == 409 and answer.reason != "superseded":
                    leadership._finish("lost")
                    return
                problem = f"{self.endpoint.address}: {answer.error}"
            except (NoAnswer, Unauthorized) as error:
                problem = str(error)
            log.warning("cannot renew the lease: %s", problem)
            failures += 1
            wait = min(_FIRST_BACKOFF * _ONE_SECOND * 2 ** min(failures, 6), lease.remaining_ns() / 4)

    async def release(self, election: Election) -> None:
        """Tell the node that the session is over."""
        await election._give_up(self.endpoint, self.session)


class _Local:
    """A session that lasts as long as its connection to the node of this machine. The node renews it."""

    def __init__(
        self, connection: Connection, events: AsyncIterator[dict[str, Any]], endpoint: Endpoint, session: str
    ) -> None:
        self._connection = connection
        self._events = events
        self.endpoint = endpoint
        self.session = session

    async def keep(self, leadership: Leadership, lease: Lease) -> None:
        """Follow the events of the node until the leadership is over."""
        try:
            async for event in self._events:
                kind = event.get("event")
                if kind in ("renewed", "leading", "hand_over_wanted"):
                    # An event that is read after the deadline revives nothing.
                    if not lease.extend(_number(event, "token"), _absolute_deadline(event)):
                        break
                    if kind == "hand_over_wanted":
                        leadership._want_hand_over()
                elif kind == "lost":
                    break
        except (NoAnswer, *ERRORS) as error:
            log.warning("the connection to the node is broken: %s", error or type(error).__name__)
        leadership._finish("lost")
        self._connection.close()

    async def release(self, election: Election) -> None:
        """Close the connection: the node then releases the lease."""
        self._connection.close()


def _spread(span: float) -> float:
    """Return up to a fifth less, so that the renewals of many elections do not come all at once."""
    return span * (1 - random.random() / 5)


async def _sleep_until(moment_ns: int) -> None:
    """Sleep until this moment of the clock of leases."""
    while (left := moment_ns - now_ns()) > 0:
        await asyncio.sleep(min(left / _ONE_SECOND, _LOOK))


def _failure(status: int, told: str, endpoint: Endpoint) -> Exception:
    """Return the error for a status that is no answer to a campaign."""
    if status == 401:
        return Unauthorized(f"{endpoint.address}: the bearer token is missing or wrong: {told}")
    if status in _REFUSED:
        return Invalid(f"{endpoint.address}: {told}")
    return NoAnswer(f"{endpoint.address}: {told}")


def _number(body: dict[str, Any], key: str) -> int:
    value = body.get(key)
    if type(value) is not int:
        raise NoAnswer(f"the node has sent no number `{key}`")
    return value


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise NoAnswer(f"the node has sent no text `{key}`")
    return value


def _deadline(body: dict[str, Any], sent_ns: int) -> int:
    """Return the deadline of a reply: it counts from just before the request was sent."""
    return sent_ns + _number(body, "valid_for_ms") * 1_000_000


def _absolute_deadline(event: dict[str, Any]) -> int:
    """Return the deadline of an event of the node of this machine, which has the same clock."""
    if _number(event, "now_ns") > now_ns():
        raise NoAnswer(
            "the clock of this process is behind that of the node (a container with a time namespace?); use an "
            "endpoint of http:// or https://"
        )
    return _number(event, "deadline_ns")
