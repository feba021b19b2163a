"""The client for threads: the client for asyncio, on a thread of its own that renews the leases."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar

from . import aio
from ._errors import Cancelled
from ._lease import End

_T = TypeVar("_T")


class Client:
    """A client of a cluster.

    Endpoints are tried in order. Without any, these are the socket of the node on this machine if there is one, and
    `SUFFRAGE_NODE`. `token_file` and `ca_file` default to `SUFFRAGE_TOKEN_FILE` and `SUFFRAGE_CA`.
    """

    def __init__(
        self,
        endpoints: aio.Endpoints = None,
        *,
        token_file: Optional[str] = None,
        ca_file: Optional[str] = None,
        allow_plain: bool = False,
    ) -> None:
        self._client = aio.Client(endpoints, token_file=token_file, ca_file=ca_file, allow_plain=allow_plain)
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._pid = os.getpid()

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
        return Election(self, aio.Election(self._client, name, ttl, stop_margin, rank=rank, value=value))

    def close(self) -> None:
        """Resign everything, cancel what waits to lead, and close all connections."""

        async def close() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()} - self._client._background
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others)
            await self._client.close()

        if self._loop is None or os.getpid() != self._pid:
            return
        self._run(close())
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, work: Coroutine[Any, Any, _T]) -> concurrent.futures.Future[_T]:
        with self._lock:
            if os.getpid() != self._pid:
                work.close()
                raise RuntimeError("this client belongs to the parent process: make one in the child")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="suffrage", daemon=True).start()
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop)

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._wait(self._submit(work))

    def _wait(self, future: concurrent.futures.Future[_T]) -> _T:
        try:
            return future.result()
        except BaseException:
            # An interrupt: the campaign ends, and with it its place in the queue.
            future.cancel()
            raise


class Election:
    """A named election."""

    def __init__(self, client: Client, election: aio.Election) -> None:
        self._client = client
        self._election = election
        self._campaigns: set[concurrent.futures.Future[Leadership]] = set()

    @property
    def name(self) -> str:
        """The name."""
        return self._election.name

    def lead(self, timeout: Optional[float] = None) -> Leadership:
        """Wait to lead: `with election.lead() as leadership:`. After `timeout` seconds, raise TimeoutError."""

        async def lead() -> Leadership:
            campaign = self._election._lead()
            try:
                inner = await (campaign if timeout is None else asyncio.wait_for(campaign, timeout))
            except asyncio.TimeoutError:
                raise TimeoutError(f"cannot lead {self.name} within {timeout} s") from None
            return Leadership(self._client, inner)

        future = self._client._submit(lead())
        self._campaigns.add(future)
        try:
            return self._client._wait(future)
        except concurrent.futures.CancelledError:
            raise Cancelled(f"the campaign for {self.name} was cancelled") from None
        finally:
            self._campaigns.discard(future)

    def leader(self) -> Optional[aio.Leader]:
        """Ask the nodes, in order, who leads. Returns None if nobody does, as far as the node that answers knows.

        Only a `Leadership` proves that this program leads.
        """
        return self._client._run(self._election.leader())

    def cancel(self) -> None:
        """End the wait of a `lead` of this object in another thread, which raises `Cancelled`."""
        for future in list(self._campaigns):
            future.cancel()


class Leadership:
    """A leadership that this program holds. Any thread may use it."""

    def __init__(self, client: Client, inner: aio.Leadership) -> None:
        self._client = client
        self._inner = inner
        self._stop = threading.Event()
        self._ended = threading.Event()
        inner.on_stop(self._stop.set)
        inner.on_end(self._ended.set)

    @property
    def token(self) -> int:
        """The fencing token. It may grow during a leadership."""
        return self._inner.token

    @property
    def is_valid(self) -> bool:
        """Whether this program leads at this moment, by the clock."""
        return self._inner.is_valid

    def check(self) -> None:
        """Raise `LeadershipEnded` if this program does not lead any more."""
        self._inner.check()

    def remaining(self) -> float:
        """Return the time until the deadline in seconds, unless the lease is renewed: 0 if the leadership is over."""
        return self._inner.remaining()

    @property
    def should_stop(self) -> bool:
        """Whether the work should stop: the deadline is near or past, or a hand-over is wanted."""
        return self._inner.should_stop

    @property
    def hand_over_wanted(self) -> bool:
        """Whether the node wants to hand over: stop the work and resign. The leadership is valid until its deadline."""
        return self._inner.hand_over_wanted

    @property
    def end(self) -> Optional[End]:
        """The end of the leadership; None while it is valid."""
        return self._inner.end

    def wait_stop(self, timeout: Optional[float] = None) -> bool:
        """Wait until the work should stop. Returns false if that takes longer than `timeout` seconds."""
        return self._stop.wait(timeout)

    def wait_end(self, timeout: Optional[float] = None) -> bool:
        """Wait until the leadership is over. Returns false if that takes longer than `timeout` seconds."""
        return self._ended.wait(timeout)

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call this once, in a thread of its own, when the work should stop."""
        self._register(self._inner.on_stop, callback)

    def on_hand_over(self, callback: Callable[[], object]) -> None:
        """Call this once, in a thread of its own, when a hand-over is wanted."""
        self._register(self._inner.on_hand_over, callback)

    def on_end(self, callback: Callable[[], object]) -> None:
        """Call this once, in a thread of its own, when the leadership is over."""
        self._register(self._inner.on_end, callback)

    def _register(self, register: Callable[[Callable[[], object]], None], callback: Callable[[], object]) -> None:
        def start() -> None:
            # The callback may block: the thread of the client must not.
            threading.Thread(target=callback, name="suffrage-callback", daemon=True).start()

        async def on_loop() -> None:
            register(start)

        self._client._run(on_loop())

    def set_value(self, value: Optional[str]) -> None:
        """Change what this program says about itself while it leads: up to 4096 bytes of UTF-8, or None for nothing.

        Returns when the node of this leadership has it; other nodes show it soon. Raises `LeadershipEnded` if the
        leadership is over, and `Invalid` if the node refuses the value. Of several calls the last one counts.
        """
        self._client._run(self._inner.set_value(value))

    def resign(self) -> None:
        """Stop leading, and then tell the node."""
        # At once, and not only when the thread of the client gets to it.
        self._inner._lease.finish("resigned")
        self._client._run(self._inner.resign())

    def __enter__(self) -> Leadership:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self.end is None or self.end.reason != "forked":
            self.resign()
