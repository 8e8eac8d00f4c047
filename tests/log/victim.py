"""Processes that run, die and recover a logged run; started by the tests, and forked for each death.

Reads one JSON line for each request, and answers with one: {"kills": [n, ...], "folder": path, "address": log} forks a
process that begins the run and kills itself at its n-th place, and then processes that recover it until it has
finished; each but the last is killed, too. A place is an emitted record, an append, or a step of a tool.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import reactivex
from reactivex import Observable

from rxworker import Answer, Approve, Finished, Paused, Worker, tool
from rxworker.errors import CommandConflictError, LeaseHeldError
from rxworker.events import Event, ResponseEvent
from rxworker.events.pause import RECOVERY
from rxworker.log import EventLog, open_log
from rxworker.providers import Request
from rxworker.run.run import Run
from rxworker.testing import Reply, call, say
from rxworker.testing.reply import reply_events
from rxworker.tools import ToolContext
from rxworker.turn.journal import Journal
from rxworker.worker import nested

LEASE = 0.1


class ByTurn:
    """A model whose answer depends on the conversation alone, so that a process that recovers asks the same."""

    name = "scripted"
    model = "by-turn"

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = replies

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The reply to a conversation."""
        turn = sum(message.role == "assistant" for message in request.conversation.messages)
        return reactivex.from_iterable(reply_events(self._replies[turn], turn + 1))


class Places:
    """Counts the places where the process may be killed."""

    def __init__(self, kill: int | None) -> None:
        self.count = 0
        self.kill = kill

    def step(self) -> None:
        """A place."""
        self.count += 1
        if self.count == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)


def watch_places(places: Places) -> None:
    """Make places of all records and all appends."""
    emit, append = Journal.emit, EventLog.append

    def emit_and_step(self: Journal, event: Event) -> None:
        emit(self, event)
        places.step()

    async def append_and_step(self: EventLog, *args: Any, **options: Any) -> bool:
        places.step()
        is_watched = await append(self, *args, **options)
        places.step()
        return is_watched

    Journal.emit = emit_and_step
    EventLog.append = append_and_step


def make_worker(folder: Path, places: Places, log: EventLog) -> Worker:
    """The worker: three tools in one turn, a nested worker, and an approval."""
    effects = folder / "effects"

    def note(what: str, context: ToolContext) -> None:
        with effects.open("ab", buffering=0) as file:
            file.write(f"{what} {context.tool} {context.idempotency_key}\n".encode())

    def make(name: str, effect: Any, *, requires_approval: bool = False) -> Any:
        async def run(n: int, context: ToolContext) -> str:
            note("start", context)
            places.step()
            await asyncio.sleep(0)
            note("done", context)
            places.step()
            return f"{name} {n}"

        run.__name__ = name
        return tool(effect=effect, requires_approval=requires_approval, description=name)(run)

    inner_replies = [say("Inner.") + call("pay_inner", n=1), say("Inner done.")]

    def inner() -> Worker:
        return Worker(ByTurn(inner_replies), tools=[make("pay_inner", "write")])

    replies = [
        say("Let me see.") + call("pay", n=1) + call("book", n=2) + call("look", n=3),
        call("delegate", task="Do it."),
        say("And now") + call("order", n=4),
        say("All done."),
    ]
    tools = [
        make("pay", "write"),
        make("book", "idempotent"),
        make("look", "pure"),
        make("order", "write", requires_approval=True),
        nested.worker_tool(inner, name="delegate", description="Delegate."),
    ]
    return Worker(ByTurn(replies), tools=tools, log=log)


async def recovered(worker: Worker, run_id: str) -> Run[object]:
    """Recover a run when the lease of its process is over."""
    while True:
        try:
            return await worker.recover(run_id).started()
        except LeaseHeldError as error:
            await asyncio.sleep(max(error.until - time.time(), 0) + 0.005)


async def resumed(folder: Path, places: Places, log: EventLog, paused: Any) -> Any:
    """Resume a paused run, when the lease of a process that has tried it is over.

    Where a process has stored the decision before it was killed, that one is carried out.
    """
    decisions, is_decided = decide(paused, folder), False
    while True:
        worker = make_worker(folder, places, log)
        try:
            if is_decided:
                return await worker.recover(paused.run_id)
            return await worker.resume(paused, decisions=decisions)
        except LeaseHeldError as error:
            await asyncio.sleep(max(error.until - time.time(), 0) + 0.005)
        except CommandConflictError:
            is_decided = True


async def life(folder: Path, address: str, places: Places, *, is_first: bool) -> str:
    """Run to the end, from wherever the run is; ask about what is not known."""
    async with open_log(address, lease=LEASE) as log:
        worker = make_worker(folder, places, log)
        if is_first:
            run = worker.run("Begin.")
            run.send("Be quick.")
            result: Any = await run
        else:
            infos = [info for info in await log.list() if not info.row.outer and info.last_seq]
            if not infos:
                return "nothing was accepted"
            newest = infos[0]
            if newest.status == "running":
                result = await (await recovered(worker, newest.run_id))
            else:
                result = await worker.load(newest.run_id)
        while isinstance(result, Paused):
            result = await resumed(folder, places, log, result)
        assert isinstance(result, Finished)
        return result.text


def decide(paused: Paused[object], folder: Path) -> dict[str, Any]:
    """What a person would answer: whether a payment was made can be seen in the file."""
    done = [line.split()[1] for line in (folder / "effects").read_text().splitlines() if line.startswith("done")]
    decisions: dict[str, Any] = {}
    for node in paused.pause.tree:
        pending = node.call
        if node.needs_decision and node.hook == RECOVERY:
            with (folder / "asked").open("a") as file:
                file.write(f"{pending.name}\n")
            decisions[node.name] = Answer("it was made") if pending.name in done else Approve()
        elif pending.name == "order":
            decisions[node.name] = Approve()
    return decisions


def forked(folder: Path, address: str, kill: int | None, *, is_first: bool) -> tuple[int, int]:
    """A life in a process of its own. Returns its exit status, and its number of places."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            places = Places(kill)
            watch_places(places)
            asyncio.run(asyncio.wait_for(life(folder, address, places, is_first=is_first), 60))
            os.write(write, b"%d" % places.count)
            status = 0
        except BaseException as error:
            (folder / "error").write_text("".join(traceback.format_exception(error)))
        finally:
            os._exit(status)
    os.close(write)
    _, status = os.waitpid(child, 0)
    text = os.read(read, 100)
    os.close(read)
    return os.waitstatus_to_exitcode(status), int(text or b"0")


def main() -> None:
    """Answer requests."""
    for line in sys.stdin:
        asked = json.loads(line)
        folder, address = Path(asked["folder"]), asked["address"]
        folder.mkdir()
        if address.startswith("nats:"):
            import_module("rxworker.log.nats")  # once, and not after each fork
        (folder / "effects").touch()
        (folder / "asked").touch()
        deaths = list(asked["kills"])
        codes: list[int] = []
        count = 0
        is_first = True
        while True:
            kill = deaths.pop(0) if deaths else None
            code, count = forked(folder, asked["address"], kill, is_first=is_first)
            codes.append(code)
            if code != -signal.SIGKILL:
                break
            is_first = False
        error = folder / "error"
        text = error.read_text() if error.exists() else ""
        answers = Counter((folder / "asked").read_text().split())
        print(json.dumps({"codes": codes, "places": count, "error": text, "asked": answers}), flush=True)


if __name__ == "__main__":
    main()
