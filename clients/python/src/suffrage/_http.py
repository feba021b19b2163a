"""HTTP/1.1 over TCP, TLS and Unix sockets: what the client of a node needs of it, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from socket import SHUT_RDWR
from typing import Any, Optional
from urllib.parse import urlsplit

from ._clock import now_ns
from ._errors import Invalid, Unauthorized

CONNECT_TIMEOUT = 2.0
"""The time for a connection, in seconds."""
MOST_REQUESTS = 16
"""The most requests at a time to an endpoint, besides campaigns: a client of many elections does not open a connection
for each of them."""
MOST_IDLE = 8
"""The most idle connections of an endpoint."""
IDLE_LIFE = 50.0
"""The age of an idle connection that is not used again: a node closes it after 65 s."""
MOST_BYTES = 1 << 20
"""The longest body."""


class NoAnswer(Exception):
    """An endpoint did not answer, or not in a way that can be understood: try another one."""


class Settings:
    """The endpoints' common settings."""

    def __init__(self, token_file: Optional[str], ca_file: Optional[str], allow_plain: bool) -> None:
        self.token_file = token_file
        self.allow_plain = allow_plain
        self.ca_file = ca_file
        self._tls: Optional[ssl.SSLContext] = None

    def token(self) -> Optional[str]:
        """Read the bearer token. The file is read for each request: tokens are rotated while programs run."""
        if self.token_file is None:
            return None
        try:
            with open(self.token_file, encoding="ascii") as file:
                token = file.read().strip()
        except (OSError, ValueError) as error:
            raise Unauthorized(f"cannot read the token: {self.token_file}: {error}") from error
        if not token or not all("!" <= byte <= "~" for byte in token):
            raise Unauthorized(f"{self.token_file} contains no token")
        return token

    def tls(self) -> ssl.SSLContext:
        """Return the settings of TLS."""
        if self._tls is None:
            try:
                self._tls = ssl.create_default_context(cafile=self.ca_file)
            except (OSError, ValueError) as error:
                raise Invalid(f"cannot read the certificates in {self.ca_file}: {error}") from error
        return self._tls


class Connection:
    """A connection to a node, with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._chunked = False
        self._left = 0
        self.reusable = False
        self.idle_since = 0.0

    def close(self) -> None:
        """Close the connection, without waiting for data that is not sent yet."""
        if (socket := self._writer.get_extra_info("socket")) is not None:
            # Also if a child process has inherited the socket.
            with contextlib.suppress(OSError):
                socket.shutdown(SHUT_RDWR)
        self._writer.transport.abort()

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Close the connection if the block takes longer."""
        timer = asyncio.get_running_loop().call_later(seconds, self.close)
        try:
            yield
        except ERRORS as error:
            if timer.when() <= asyncio.get_running_loop().time():
                raise asyncio.TimeoutError("no answer in time") from error
            raise
        finally:
            timer.cancel()

    def is_stale(self) -> bool:
        """Tell whether the node has closed this idle connection, or soon will."""
        return self._reader.at_eof() or time.monotonic() - self.idle_since > IDLE_LIFE

    async def send(self, host: str, path: str, token: Optional[str], body: Optional[dict[str, Any]]) -> int:
        """Send a POST request, or a GET request if there is no body, and return the moment just before."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {host}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        if token is not None:
            head += f"Authorization: Bearer {token}\r\n"
        sent_ns = now_ns()
        self._writer.write(head.encode() + b"\r\n" + data)
        await self._writer.drain()
        return sent_ns

    async def read_head(self) -> int:
        """Read the head of the response, and return its status."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, status = head[0].split(" ")[:2]
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip().lower()
        self._chunked = "chunked" in headers.get("transfer-encoding", "")
        self._left = int(headers.get("content-length", "0"))
        closes = version != "HTTP/1.1" or headers.get("connection", "") == "close"
        self.reusable = not closes and (self._chunked or "content-length" in headers)
        if self._left > MOST_BYTES:
            raise ValueError("the body of the response is too long")
        return int(status)

    async def read_part(self) -> bytes:
        """Read the next part of the body: empty at its end."""
        if not self._chunked:
            data = await self._reader.readexactly(self._left)
            self._left = 0
            return data
        size = int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if size > MOST_BYTES:
            raise ValueError("a part of the response is too long")
        data = await self._reader.readexactly(size)
        await self._reader.readexactly(2)
        return data

    async def read_object(self) -> dict[str, Any]:
        """Read a body that is a JSON object."""
        body = b""
        while part := await self.read_part():
            body += part
            if len(body) > MOST_BYTES:
                raise ValueError("the body of the response is too long")
        value = json.loads(body) if body else {}
        if not isinstance(value, dict):
            raise ValueError("the body of the response is not a JSON object")
        return value

    async def read_lines(self) -> AsyncIterator[dict[str, Any]]:
        """Read a body of JSON objects, one per line, as they come."""
        rest = b""
        while part := await self.read_part():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


class Answer:
    """The response of a node."""

    def __init__(self, status: int, body: dict[str, Any], sent_ns: int) -> None:
        self.status = status
        self.body = body
        self.sent_ns = sent_ns
        """The moment just before the request was sent."""

    @property
    def reason(self) -> str:
        """A code for programs."""
        return str(self.body.get("reason", ""))

    @property
    def error(self) -> str:
        """A sentence for people."""
        return str(self.body.get("error", f"status {self.status}"))


ERRORS = (OSError, EOFError, ValueError, asyncio.TimeoutError, asyncio.LimitOverrunError)
"""What a broken connection and a malformed response raise."""


class Endpoint:
    """The address of a node: `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`."""

    def __init__(self, address: str, settings: Settings) -> None:
        self.address = address
        self._settings = settings
        self._idle: list[Connection] = []
        self._slots: Optional[asyncio.Semaphore] = None
        self.socket: Optional[str] = None
        self._host, self._port, self._encrypted = "localhost", 0, False
        if address.startswith("unix:"):
            self.socket = address[len("unix:") :]
            if not self.socket.startswith("/"):
                raise Invalid(f"endpoint {address}: a socket is like unix:/run/suffrage/suffrage.sock")
            self._authority = "localhost"
            return
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise Invalid(f"endpoint {address}: {error}") from error
        if parts.scheme not in ("http", "https") or not host or parts.path not in ("", "/"):
            raise Invalid(f"endpoint {address}: an endpoint is like https://10.0.0.1:7480")
        self._encrypted = parts.scheme == "https"
        self._host = host
        self._port = port or (443 if self._encrypted else 80)
        self._authority = parts.netloc.rpartition("@")[2]
        exposed = not self._encrypted and not _is_loopback(host)
        if exposed and settings.token_file is not None and not settings.allow_plain:
            raise Invalid(
                f"endpoint {address}: the token would leave this machine without encryption; use https://, or "
                "set allow_plain=True if a proxy or the network encrypts"
            )

    async def connect(self) -> Connection:
        """Open a connection."""
        if self.socket is not None:
            opening = asyncio.open_unix_connection(self.socket)
        elif self._encrypted:
            opening = asyncio.open_connection(
                self._host, self._port, ssl=self._settings.tls(), server_hostname=self._host
            )
        else:
            opening = asyncio.open_connection(self._host, self._port)
        # Not `wait_for`, which loses a cancellation at the moment of success before Python 3.12.
        task = asyncio.ensure_future(opening)
        try:
            done, _ = await asyncio.wait({task}, timeout=CONNECT_TIMEOUT)
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(_close_opened)
            raise
        if not done:
            task.cancel()
            task.add_done_callback(_close_opened)
            raise asyncio.TimeoutError("no connection in time")
        return Connection(*task.result())

    async def post(self, path: str, body: dict[str, Any], timeout: float, *, fresh: bool = False) -> Answer:
        """Send a request and wait for its answer, on a new connection if `fresh`.

        The connection is closed if nobody waits for the answer any more, so that the node knows.
        """
        if fresh:
            return await self._exchange(path, body, timeout, None)
        if self._slots is None:
            # Not before: it belongs to the running loop.
            self._slots = asyncio.Semaphore(MOST_REQUESTS)
        async with self._slots:
            return await self._exchange(path, body, timeout, self._take_idle())

    async def get(self, path: str, timeout: float) -> Answer:
        """Send a GET request on a new connection, and wait for its answer."""
        return await self._exchange(path, None, timeout, None)

    async def _exchange(
        self, path: str, body: Optional[dict[str, Any]], timeout: float, connection: Optional[Connection]
    ) -> Answer:
        done = False
        try:
            token = self._settings.token()
            connection = connection or await self.connect()
            with connection.limited(timeout):
                sent_ns = await connection.send(self._authority, path, token, body)
                status = await connection.read_head()
                answer = Answer(status, await connection.read_object(), sent_ns)
            done = connection.reusable
            return answer
        except ERRORS as error:
            raise NoAnswer(f"{self.address}: {error or type(error).__name__}") from error
        finally:
            if connection is not None and done and len(self._idle) < MOST_IDLE:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            elif connection is not None:
                connection.close()

    def _take_idle(self) -> Optional[Connection]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            connection.close()
        return None

    async def open_stream(self, path: str, body: dict[str, Any], timeout: float) -> tuple[int, Connection]:
        """Send a request whose answer is a stream, and return its status."""
        token = self._settings.token()
        connection: Optional[Connection] = None
        try:
            connection = await self.connect()
            with connection.limited(timeout):
                await connection.send(self._authority, path, token, body)
                return await connection.read_head(), connection
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, ERRORS):
                raise NoAnswer(f"{self.address}: {error or type(error).__name__}") from error
            raise

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


def _close_opened(opening: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """Close a connection that nobody waits for any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].close()


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
