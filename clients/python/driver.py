"""The driver of the suite (clients/suite/README.md), for the client for threads and for that for asyncio."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Union

import suffrage
from suffrage._clock import now_ns

Command = dict[str, Any]
AnyLeadership = Union[suffrage.Leadership, suffrage.aio.Leadership]

_printing = threading.Lock()


def tell(event: str, **members: object) -> None:
    """Print an event."""
    with _printing:
        sys.stdout.write(json.dumps({"event": event, **members}) + "\n")
        sys.stdout.flush()


def error_of(error: suffrage.SuffrageError) -> str:
    """Return the kind of an error."""
    kinds = {suffrage.InUse: "in_use", suffrage.Unauthorized: "unauthorized", suffrage.Invalid: "invalid"}
    return kinds.get(type(error), "other")


def check(number: int, leadership: AnyLeadership | None) -> None:
    """Print whether the leadership is valid."""
    at_ns, valid = now_ns(), False
    if leadership is not None:
        try:
            leadership.check()
            valid = True
        except suffrage.LeadershipEnded:
            pass
    tell("checked", id=number, valid=valid, at_ns=at_ns)


def report(number: int, leadership: AnyLeadership) -> None:
    """Print the events of a leadership."""

    def ended() -> None:
        end = leadership.end
        assert end is not None
        # Callbacks have threads of their own: `ended` is the last event.
        stopped.wait(5)
        tell("ended", id=number, reason=end.reason, at_ns=end.at_ns)

    def stop() -> None:
        tell("stop", id=number, at_ns=now_ns())
        stopped.set()

    stopped = threading.Event()
    tell("leading", id=number, token=leadership.token, at_ns=now_ns())
    leadership.on_hand_over(lambda: tell("hand_over_wanted", id=number))
    leadership.on_stop(stop)
    leadership.on_end(ended)


class Common:
    """What the drivers have in common."""

    def __init__(self) -> None:
        self.fences: dict[str, suffrage.Fence] = {}
        self.leaderships: dict[int, AnyLeadership] = {}

    def handle(self, command: Command) -> bool:
        """Handle a command that needs no client. Returns false for the others."""
        if command["op"] == "check":
            check(command["id"], self.leaderships.get(command["id"]))
        elif command["op"] == "fence":
            name, token = command["fence"], command["token"]
            accepted = self.fences.setdefault(name, suffrage.Fence()).accepts(token)
            tell("fenced", fence=name, token=token, accepted=accepted)
        else:
            return False
        return True


def settings(command: Command) -> tuple[str, dict[str, Any]]:
    """Return the settings of a client, and a text that is equal for equal settings."""
    members = {key: command.get(key) for key in ("endpoints", "token_file", "ca_file")}
    return json.dumps(members), members


def options(command: Command) -> dict[str, Any]:
    """Return the settings of an election."""
    margin = command.get("stop_margin_ms")
    stop_margin = None if margin is None else margin / 1000
    return {"ttl": command["ttl_ms"] / 1000, "stop_margin": stop_margin, "value": command.get("value")}


def tell_leader(election: str, leader: suffrage.Leader | None) -> None:
    """Print the leader of an election."""
    if leader is None:
        tell("leader", election=election)
    else:
        tell("leader", election=election, node=leader.node, token=leader.token, value=leader.value)


def set_value(command: Command, common: Common) -> None:
    """Change the value of a leadership."""
    try:
        leadership = common.leaderships[command["id"]]
        assert isinstance(leadership, suffrage.Leadership)
        leadership.set_value(command["value"])
        tell("value_set", id=command["id"])
    except suffrage.SuffrageError as error:
        tell("value_refused", id=command["id"], message=str(error))


async def set_value_aio(command: Command, common: Common) -> None:
    """Change the value of a leadership, with asyncio."""
    try:
        leadership = common.leaderships[command["id"]]
        assert isinstance(leadership, suffrage.aio.Leadership)
        await leadership.set_value(command["value"])
        tell("value_set", id=command["id"])
    except suffrage.SuffrageError as error:
        tell("value_refused", id=command["id"], message=str(error))


def ask_leader(command: Command, client: suffrage.Client) -> None:
    """Print the leader of an election."""
    try:
        tell_leader(command["election"], client.election(command["election"]).leader())
    except suffrage.SuffrageError as error:
        tell("leader_unknown", election=command["election"], message=str(error))


async def ask_leader_aio(command: Command, client: suffrage.aio.Client) -> None:
    """Print the leader of an election, with asyncio."""
    try:
        tell_leader(command["election"], await client.election(command["election"]).leader())
    except suffrage.SuffrageError as error:
        tell("leader_unknown", election=command["election"], message=str(error))


def guarded(number: int, work: Callable[[], None]) -> None:
    """Run the work, and print its error."""
    try:
        work()
    except suffrage.Cancelled:
        tell("ended", id=number, reason="cancelled", at_ns=now_ns())
    except suffrage.SuffrageError as error:
        tell("error", id=number, kind=error_of(error), message=str(error))


def threads() -> None:
    """Drive the client for threads."""
    # A thread of this driver for each `lead` that waits.
    threading.stack_size(256 * 1024)
    common = Common()
    clients: dict[str, suffrage.Client] = {}
    elections: dict[int, suffrage.Election] = {}
    waiting: set[int] = set()

    def lead(command: Command) -> None:
        number = command["id"]
        try:
            leadership = elections[number].lead()
        finally:
            waiting.discard(number)
        common.leaderships[number] = leadership
        report(number, leadership)

    def client_of(command: Command) -> suffrage.Client:
        key, members = settings(command)
        if key not in clients:
            clients[key] = suffrage.Client(**members)
        return clients[key]

    def start(command: Command) -> None:
        number = command["id"]
        elections[number] = client_of(command).election(command["election"], **options(command))
        waiting.add(number)
        threading.Thread(target=guarded, args=(number, lambda: lead(command)), daemon=True).start()
        # Campaigns begin in the order of the commands.
        while number in waiting and not elections[number]._campaigns:
            time.sleep(0.0002)

    def resign(number: int) -> None:
        leadership = common.leaderships.get(number)
        if isinstance(leadership, suffrage.Leadership):
            threading.Thread(target=leadership.resign, daemon=True).start()
        elif number in elections:
            # `lead` may not have begun yet in its thread.
            while number in waiting:
                elections[number].cancel()
                time.sleep(0.01)

    tell("ready", clock="boottime")
    for line in sys.stdin:
        command = json.loads(line)
        if common.handle(command):
            continue
        if command["op"] == "lead":
            guarded(command["id"], lambda command=command: start(command))  # type: ignore[misc]
        elif command["op"] == "resign":
            resign(command["id"])
        elif command["op"] == "value":
            threading.Thread(target=set_value, args=(command, common), daemon=True).start()
        elif command["op"] == "leader":
            threading.Thread(target=ask_leader, args=(command, client_of(command)), daemon=True).start()
        elif command["op"] == "exit":
            break
    for client in clients.values():
        client.close()


async def tasks() -> None:
    """Drive the client for asyncio."""
    common = Common()
    clients: dict[str, suffrage.aio.Client] = {}
    campaigns: dict[int, asyncio.Task[None]] = {}

    def client_of(command: Command) -> suffrage.aio.Client:
        key, members = settings(command)
        if key not in clients:
            clients[key] = suffrage.aio.Client(**members)
        return clients[key]

    async def lead(command: Command) -> None:
        number = command["id"]
        try:
            leadership = await client_of(command).election(command["election"], **options(command)).lead()
            common.leaderships[number] = leadership
            report(number, leadership)
        except asyncio.CancelledError:
            tell("ended", id=number, reason="cancelled", at_ns=now_ns())
        except suffrage.SuffrageError as error:
            tell("error", id=number, kind=error_of(error), message=str(error))

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    others: set[asyncio.Task[None]] = set()
    tell("ready", clock="boottime")
    while line := await reader.readline():
        command = json.loads(line)
        if common.handle(command):
            continue
        number = command.get("id")
        if command["op"] == "lead":
            campaigns[number] = loop.create_task(lead(command))
            # It begins before the next command, which may cancel it.
            await asyncio.sleep(0)
        elif command["op"] == "resign":
            leadership = common.leaderships.get(number)
            if isinstance(leadership, suffrage.aio.Leadership):
                others.add(loop.create_task(leadership.resign()))
            elif number in campaigns:
                campaigns[number].cancel()
        elif command["op"] == "value":
            others.add(loop.create_task(set_value_aio(command, common)))
        elif command["op"] == "leader":
            others.add(loop.create_task(ask_leader_aio(command, client_of(command))))
        elif command["op"] == "exit":
            break
    for campaign in campaigns.values():
        campaign.cancel()
    for client in clients.values():
        await client.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--asyncio"]:
        asyncio.run(tasks())
    else:
        threads()
