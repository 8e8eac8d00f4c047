"""``rxworker demo --web``: the page, with a model that answers from a script, and three watchers of different speeds at each run.

A run begins with the server, and the page is opened on it. Any question plays the script again, and the run waits in the middle until
somebody agrees to a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import webbrowser
from collections.abc import Sequence
from typing import Any

from rxworker.cli.demo_script import QUESTION, SCRIPTED, SYSTEM, WORKER, say_that_it_is_scripted
from rxworker.cli.demo_web_script import PRICES, make_model, make_tools
from rxworker.cli.output import write_line
from rxworker.cli.serve import run_server
from rxworker.errors import RxWorkerError
from rxworker.events import Event
from rxworker.hub import Coalesce, Delivery, DropOldest, Latest
from rxworker.ui.web import Settings, WebServer
from rxworker.worker import Run, Worker
from rxworker.worker.context import TurnScope

PORT = 8080
WATCHERS: tuple[tuple[str, Delivery, float], ...] = (
    ("fast", Coalesce(), 0.0),
    ("slow", DropOldest(limit=40), 0.12),
    ("gauge", Latest(), 0.5),
)
"""What the watchers of the demo are called, how they are given their records, and how many seconds they rest after each."""


def demo_web(*, port: int = PORT, open_page: bool = True, fast: bool = False) -> int:
    """Serve the demo until Ctrl-C.

    Args:
        port: Where to listen; 0 for any port that is free.
        open_page: Whether to open the page in the browser.
        fast: Whether to leave out the pauses.

    Returns:
        0 when the system asked it to end.

    Raises:
        CommandError: The port cannot be had.
        KeyboardInterrupt: Ctrl-C was pressed.
    """

    def ready(server: WebServer) -> None:
        write_line(f"The demo is at {server.url}")
        write_line(SCRIPTED)
        write_line(f"A run has begun: {begin(server, open_page=open_page)}")
        write_line("Ctrl-C ends it.")

    def make() -> Worker:
        return WatchedWorker(fast=fast)

    settings = Settings(title="rxworker demo", prices=PRICES)
    return run_server({WORKER: make}, host="127.0.0.1", port=port, settings=settings, ready=ready)


def begin(server: WebServer, *, open_page: bool) -> str:
    """Begin a run. It waits for a decision in the middle, so it can be opened at any time.

    Args:
        server: The demo's server.
        open_page: Whether to open the page on it in the browser.

    Returns:
        The address of the page on that run.
    """
    url = f"{server.url}#{server.state.runs.start(QUESTION).id}"
    if open_page:
        # Some browsers keep whoever starts them waiting.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    return url


class WatchedWorker(Worker):
    """A worker of the demo: each of its runs is watched by three watchers of different speeds.

    Args:
        fast: Whether to leave out the pauses.
    """

    def __init__(self, *, fast: bool = False) -> None:
        model, tools = make_model(fast=fast), make_tools(fast=fast)
        super().__init__(model, tools=tools, system=SYSTEM, hooks=[say_that_it_is_scripted])
        self._rest = 0.0 if fast else 1.0
        self._watching: set[asyncio.Task[None]] = set()

    def _begin(
        self, first: Sequence[Event], scope: TurnScope, called: Sequence[str] = ()
    ) -> Run[Any]:
        run = super()._begin(first, scope, called)
        for name, delivery, seconds in WATCHERS:
            task = asyncio.create_task(watch(run, name, delivery, seconds * self._rest))
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)
        return run


async def watch(run: Run[Any], name: str, delivery: Delivery, rest: float) -> None:
    """Watch a run to its end, at a pace of one's own.

    Args:
        run: What to watch.
        name: What the watcher is called.
        delivery: How it is given its records.
        rest: Seconds of rest after each of them.
    """
    # How the run ends is for others to tell.
    with contextlib.suppress(RxWorkerError):
        async for _ in run.watch(delivery, name=name):
            await asyncio.sleep(rest)


__all__ = ["PORT", "WATCHERS", "WatchedWorker", "begin", "demo_web", "watch"]
