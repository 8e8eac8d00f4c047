"""``rxworker serve``: runs in the browser, and for programs that watch them; and ``rxworker demo --web``.

The demonstration is the same page with a scripted model, and three watchers of different speeds at each run. A run
starts with the server, and the page is opened on it. Every question plays the script again, and the run waits in the
middle until the user approves a call.
"""

from __future__ import annotations

import asyncio
import threading
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Unpack

from rxworker.boards import Dashboard, Webhook
from rxworker.cli import resolve
from rxworker.cli.demo_script import PRICES, QUESTION, SCRIPTED, WORKER, demo_worker
from rxworker.cli.process import MISUSED, CommandError, open_patiently, run_until_stopped, write_line
from rxworker.cli.tap import Begun, TapLine, read_line, report
from rxworker.cli.tap import begin as begin_tap
from rxworker.errors import RxWorkerError
from rxworker.hub import Coalesce, Delivery, DropOldest, Latest
from rxworker.log import RunInfo
from rxworker.run.run import Run
from rxworker.testing.lab import rerun_stored
from rxworker.tools.cancellation import keep
from rxworker.ui.web import Settings, WebServer, Workers
from rxworker.ui.web.runs.store import OnRun
from rxworker.ui.web.runs.workers import DEFAULT_NAME
from rxworker.ui.web.state import ServerOptions
from rxworker.worker import QueuedWorker


def serve(
    options: resolve.WorkerOptions,
    *,
    makers: Sequence[str] = (),
    host: str = "127.0.0.1",
    port: int = 8080,
    token_env: str | None = None,
    allowed_hosts: Sequence[str] = (),
    demo: bool = False,
    log: str | None = None,
    queue: Sequence[str] = (),
    dashboards: Sequence[str] | None = None,
    taps: Sequence[str] = (),
    close_delay: float = 0.0,
    on_alert: str | None = None,
    alert_secret_env: str | None = None,
) -> int:
    """Serve until Ctrl-C.

    Its arguments are the options of the command; see ``rxworker serve --help``.

    Returns:
        0 if it ended after SIGTERM.

    Raises:
        CommandError: An option is wrong, or the port is in use.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    gate = options.input_gate()
    settings = resolve.settings_of(f"--host {host}", host, token_env, allowed_hosts, close_delay, gate=gate)
    if queue and log is None:
        raise CommandError("--queue needs --log, through which other processes take the runs", MISUSED)
    served = [_import_maker(given) for given in makers]
    served += [(kind, partial(QueuedWorker, kind)) for kind in queue]
    if make := options.maker():
        served.append((DEFAULT_NAME, make))
    if demo:
        served.append((WORKER, demo_worker))
    lines = [read_line(each) for each in taps]
    if lines and log is None:
        raise CommandError("--tap needs --log, which stores what is recorded", MISUSED)
    needed = "serve needs the function that makes a worker, --provider and --model, --queue, --demo, or --tap"
    workers = {} if lines and not served else resolve.by_name(served, needed)

    shown = None if dashboards is None else [resolve.dashboard_of(given) for given in dashboards]

    def print_address(server: WebServer) -> None:
        write_line(f"rxworker serves {server.url}")
        if token_env is not None:
            write_line(f"Open {server.url}?token= with the token of {token_env} after it, once.")
        if shown:
            write_line(f"The dashboards are at {server.url}boards/{shown[0].name}")
        write_line("Ctrl-C ends it.")

    return run_server(
        workers,
        ready=print_address,
        host=host,
        port=port,
        address=log,
        taps=lines,
        webhook=_webhook(shown or (), on_alert, alert_secret_env),
        settings=settings,
        dashboards=shown,
        rerun=rerun_stored,
    )


def _import_maker(given: str) -> tuple[str, Callable[..., Any]]:
    name, make = resolve.import_named(given)
    if any(one.annotation in (RunInfo, "RunInfo") for one in resolve.parameters_of(make)):
        # It would be given the request of a client in place of a stored run.
        raise CommandError(
            f"{given}: its parameter is a RunInfo, which rxworker work gives it: serve its runs with --queue KIND, "
            "or name a function without it",
            MISUSED,
        )
    return name, make


def _webhook(dashboards: Sequence[Dashboard], url: str | None, secret_env: str | None) -> Webhook | None:
    secret = resolve.read_variable("--alert-secret-env", secret_env)
    if url is None and secret is None:
        return None
    if url is None or secret is None:
        raise CommandError("--on-alert URL and --alert-secret-env NAME belong together: alerts are signed", MISUSED)
    if not any(panel.alert for dashboard in dashboards for panel in dashboard.panels):
        raise CommandError(
            "--on-alert needs a --dashboard with a panel that has alert=: the ready ones have none", MISUSED
        )
    with resolve.misuse("--on-alert: "):
        return Webhook(url, secret=secret.split())


def run_server(
    workers: Workers,
    *,
    ready: Callable[[WebServer], object],
    host: str = "127.0.0.1",
    port: int,
    address: str | None = None,
    taps: Sequence[TapLine] = (),
    webhook: Webhook | None = None,
    **options: Unpack[ServerOptions],
) -> int:
    """Serve until Ctrl-C or SIGTERM, and shut down cleanly.

    Args:
        workers: Make the workers.
        ready: Called when the server listens.
        host: The address to listen on.
        port: The port.
        address: The address of the log in which runs are stored.
        taps: Record the runs of other programs in that log.
        webhook: Sends the alerts of the dashboards.
        options: See `ServerOptions`.

    Returns:
        0 if it ended after SIGTERM.

    Raises:
        CommandError: The address is not available.
        KeyboardInterrupt: Ctrl-C was pressed.
    """

    async def run() -> None:
        async with AsyncExitStack() as opened:
            begun: list[tuple[TapLine, Begun]] = []
            if address is not None:
                log = options["log"] = await opened.enter_async_context(await open_patiently(address))
                begun = [(line, await begin_tap(line, log, opened)) for line in taps]
            if webhook is not None:
                await opened.enter_async_context(webhook)
                options["on_alert"] = webhook.send
            serving = WebServer(workers, host=host, port=port, **options)
            ready(await opened.enter_async_context(serving))
            for line, tapped in begun:
                write_line(f"It {tapped.text}")
                opened.callback(report(line, tapped).cancel)
            await asyncio.Event().wait()

    return run_until_stopped(run)


PORT = 8080
WATCHERS: tuple[tuple[str, Delivery, float], ...] = (
    ("fast", Coalesce(), 0.0),
    ("slow", DropOldest(limit=40), 0.12),
    ("gauge", Latest(), 0.5),
)
"""The watchers of the demo: the name, the delivery, and the seconds that it waits after each record."""


def demo_web(*, port: int = PORT, open_page: bool = True, fast: bool = False) -> int:
    """Serve the demo until Ctrl-C.

    Its arguments are the options of the command; see ``rxworker demo --help``.

    Returns:
        0 if it ended after SIGTERM.

    Raises:
        CommandError: The port is not available.
        KeyboardInterrupt: Ctrl-C was pressed.
    """

    def ready(server: WebServer) -> None:
        write_line(f"The demo is at {server.url}")
        write_line(SCRIPTED)
        write_line(f"A run has begun: {begin(server, open_page=open_page)}")
        write_line("Ctrl-C ends it.")

    settings = Settings(title="rxworker demo", prices=PRICES)
    workers = {WORKER: partial(demo_worker, fast=fast, always_books=True)}
    return run_server(workers, ready=ready, port=port, settings=settings, on_run=watch_each(fast=fast))


def begin(server: WebServer, *, open_page: bool) -> str:
    """Start a run. It waits for a decision in the middle, so it can be opened at any time.

    Args:
        server: The demo's server.
        open_page: Whether to open the page on it in the browser.

    Returns:
        The address of the page on that run.
    """
    url = f"{server.url}#{server.state.runs.start(QUESTION).id}"
    if open_page:
        # Some browsers block the process that starts them.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    return url


def watch_each(*, fast: bool = False) -> OnRun:
    """A callback of the server that has each run watched by three watchers of different speeds.

    Args:
        fast: Whether to leave out the pauses.
    """
    rest = 0.0 if fast else 1.0
    watching: set[asyncio.Task[None]] = set()

    def on_run(run: Run[object]) -> None:
        for name, delivery, seconds in WATCHERS:
            keep(watch(run, name, delivery, seconds * rest), watching)

    return on_run


async def watch(run: Run[object], name: str, delivery: Delivery, rest: float) -> None:
    """Watch a run to its end, with a pause after each record.

    Args:
        run: The run.
        name: The name of the watcher.
        delivery: Its delivery.
        rest: Seconds to wait after each record.
    """
    # Other watchers report how the run ends.
    with suppress(RxWorkerError):
        async for _ in run.watch(delivery, name=name):
            await asyncio.sleep(rest)
