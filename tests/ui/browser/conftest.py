"""A browser, a server to look at, and a model whose every word is let through by the test."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    WebSocket,
    async_playwright,
    expect,
)
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker import Run, Worker
from rxworker.boards import Dashboard
from rxworker.events import Record, ResponseEvent, TextDelta
from rxworker.log import EventLog
from rxworker.messages import Text
from rxworker.providers import Request
from rxworker.state import fold_run
from rxworker.testing import Reply
from rxworker.testing.reply import reply_events
from rxworker.tools import Tool
from rxworker.transport import Model
from rxworker.transport.listening import SOON, stop_listening
from rxworker.ui.web import Settings, WebServer, Workers
from rxworker.ui.web.http.request import WebRequest
from rxworker.ui.web.http.responses import Page as PageFiles
from rxworker.ui.web.runs.workers import MakeServedWorker

WAIT = 30_000
"""Milliseconds that something on the page may take, on a slow machine that does other work."""

Site: TypeAlias = Callable[[str, web.Application], AbstractAsyncContextManager[str]]
SETTINGS = Settings(title="Desk")
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first that is there. The shell draws no window, which halves what a test takes."""
TIMERS = """(() => {
  const set = globalThis.setTimeout;
  const quick = (wait) => (wait > 100 && wait < 5_000 ? wait / 10 : wait);
  globalThis.setTimeout = (act, wait, ...rest) => (wait === 1_600 ? 0 : set(act, quick(wait), ...rest));
})()"""
"""What the page shows for a moment (what was found, what was copied) stays.

A test on a slow machine would come too late. What the page does after a rest, such as connecting
again, it does after a tenth of that.
"""
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Waits until the page has drawn what it knows."""
KEEP = """(selector) => {
  const node = document.querySelector(selector);
  const keep = () => {
    const { top, bottom } = node.getBoundingClientRect();
    if (bottom < 0 || top > innerHeight) node.scrollIntoView();
  };
  globalThis.kept?.disconnect();
  globalThis.kept = new MutationObserver(keep);
  globalThis.kept.observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });
}"""
"""Scrolls to a part of the page again when what is drawn above moves it out of view, where it is not received."""
# What Playwright switches off, as far as the shell has it, since the last list counts; and a document of its own for
# each page that a window opens, which takes a seventh of the time of opening it.
OFF = (
    "AvoidCorsURLLoaderRestartOnRedirect,AvoidUnnecessaryBeforeUnloadCheckSync,HttpsFirstBalancedModeAutoEnable,"
    "HttpsUpgrades,MediaRouter,NetworkTimeServiceQuerying,OptimizationHints,PaintHolding,ThirdPartyStoragePartitioning,"
    "RenderDocument"
)
# Fewer processes and no optimised code for pages that live for a second: a test takes an eighth less.
FLAGS = [
    "--no-sandbox",
    "--in-process-gpu",
    "--enable-features=NetworkServiceInProcess2",
    "--js-flags=--no-opt",
    f"--disable-features={OFF}",
]
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what uses the browser in its event loop."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


class GatedModel:
    """A model that says a piece of text only when the test lets it.

    Args:
        replies: Its answers, or a function of the request.
        free: Whether it says everything at once.
    """

    name = "gated"
    model = "gated-1"

    def __init__(self, replies: Sequence[Reply] | Callable[[Request], Reply], *, free: bool = False) -> None:
        self._replies = replies
        self._count = 0
        self._free = free
        self._allowed = asyncio.Semaphore(0)

    def let(self, pieces: int) -> None:
        """Let it say so many more pieces."""
        for _ in range(pieces):
            self._allowed.release()

    def let_all(self) -> None:
        """Let it say everything from now on."""
        self._free = True
        self.let(1)

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The next answer."""

        def subscribe(
            observer: abc.ObserverBase[ResponseEvent], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            replies, self._count = self._replies, self._count + 1
            reply = replies(request) if callable(replies) else replies[self._count - 1]
            events = reply_events(reply, self._count, self.model)
            task = asyncio.get_running_loop().create_task(self._tell(events, observer))

            def leave() -> None:
                task.cancel()

            return Disposable(leave)

        return Observable(subscribe)

    async def _tell(self, events: Iterable[ResponseEvent], observer: abc.ObserverBase[ResponseEvent]) -> None:
        for event in events:
            if isinstance(event, TextDelta) and not self._free:
                await self._allowed.acquire()
            observer.on_next(event)
        observer.on_completed()


class Windows:
    """The windows of the browser that wait for the next test.

    To open the page in a window that has shown it before, from the same address and with its files in the cache, costs
    less than half of what a new window costs, which has a process of its own.

    Attributes:
        browser: The browser.
        waiting: The windows, each of a context of its own, without cookies and stored values.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.waiting: list[Page] = []
        # Below the ports that the system gives to connections.
        self._port = 20_000 + os.getpid() % 10_000

    def port(self) -> int:
        """The port on which servers of this process listen: always the same, or 0 while another program has it."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self._port))
            except OSError:
                return 0
        return self._port

    async def new(self, width: int, **options: Any) -> Page:
        """Open a window."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": 800}, reduced_motion="reduce", **options
        )
        context.set_default_timeout(WAIT)
        await context.add_init_script(TIMERS)
        return await context.new_page()

    async def take(self, width: int) -> Page:
        """Take a window that waits, or open one."""
        if not self.waiting:
            return await self.new(width)
        page = self.waiting.pop()
        await page.set_viewport_size({"width": width, "height": 800})
        return page

    async def give_back(self, page: Page) -> None:
        """Leave nothing in a window of what the test did.

        A test that adds scripts to a context, or routes of it, or more, opens a window with options, which is closed
        for good.
        """
        if page.is_closed():
            await page.context.close()
            return
        await page.unroute_all()
        # Of the page itself, so that the window keeps its process and its origin, whose values are cleared.
        await page.evaluate("location.replace('about:blank')")
        await page.wait_for_url("about:blank")
        await page.evaluate("localStorage.clear(), sessionStorage.clear()")
        await page.emulate_media(reduced_motion="reduce", color_scheme="light", contrast="no-preference")
        await page.mouse.move(0, 0)
        await page.context.clear_cookies()
        await page.context.clear_permissions()
        for other in page.context.pages:
            if other is not page:
                await other.close()
        self.waiting.append(page)


class Recorder:
    """Writes down each run of a worker, also those that are resumed or recovered."""

    def __init__(self, runs: list[Run[object]]) -> None:
        self._runs = runs

    def traceparent(self) -> str:
        return ""

    def __call__(self, run: Run[object], /) -> None:
        self._runs.append(run)


class Desk:
    """A server with its runs, and the pages that look at it.

    Attributes:
        runs: The runs that were begun, in order.
        url: Where the page is.
        problems: What the browser complained of.
    """

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._taken: list[Page] = []
        self._listeners: dict[Page, list[tuple[Any, Callable[[Any], None]]]] = {}
        self.contexts: list[BrowserContext] = []
        self.runs: list[Run[object]] = []
        self.problems: list[str] = []
        self.received: dict[Page, list[Record]] = {}
        self.url = ""

    @property
    def port(self) -> int:
        """Where the server listens."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @asynccontextmanager
    async def serve_workers(
        self, workers: Workers, *, port: int = 0, closes: bool = True, settings: Settings = SETTINGS, **options: Any
    ) -> AsyncGenerator[WebServer, None]:
        """Serve these workers: from the same address as the other tests, whose files the browser has."""
        async with WebServer(workers, port=port or self._windows.port(), settings=settings, **options) as server:
            self.url = server.url
            yield server
            # A browser that connects again to nothing complains of it.
            if closes:
                await self.close()

    def serve(
        self,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        port: int = 0,
        closes: bool = True,
        settings: Settings = SETTINGS,
        log: EventLog | None = None,
        dashboards: Sequence[Dashboard] | None = (),
        **options: Any,
    ) -> AbstractAsyncContextManager[WebServer]:
        """Serve a worker with this model, without dashboards unless they are given: a fifth less for a page to draw."""
        make = self.maker(model, tools, log=log, **options)
        return self.serve_workers(make, port=port, closes=closes, settings=settings, log=log, dashboards=dashboards)

    def maker(self, model: Model, tools: Sequence[Tool] = (), **options: Any) -> MakeServedWorker:
        """A function that makes workers with this model, whose runs are written down."""
        return partial(Worker, model, tools=tools, tracing=Recorder(self.runs), **options)

    async def close(self) -> None:
        """Close all windows, while their server answers."""
        while self._taken:
            page = self._taken[-1]
            for event, listener in self._listeners.pop(page):
                page.remove_listener(event, listener)
            await self._windows.give_back(page)
            self._taken.pop()  # before that it is closed for good if this fails
        await self.leave()

    async def leave(self) -> None:
        """Close all windows for good."""
        for context in (*self.contexts, *(page.context for page in self._taken)):
            await context.close()
        self.contexts.clear()
        self._taken.clear()

    async def window(self, width: int = 1280, *, is_shared: bool = True, **options: Any) -> Page:
        """A window: one that other tests use as well, or one of its own with these options of a browser context.

        A page of another origin needs its own: the browser has kept the files without the header that it asks for.
        """
        if options or not is_shared:
            page = await self._windows.new(width, **options)
            self.contexts.append(page.context)
        else:
            page = await self._windows.take(width)
            self._taken.append(page)
        self.attend(page)
        return page

    async def open(
        self, path: str = "", *, url: str = "", scheme: Literal["light", "dark"] = "light", **options: Any
    ) -> Page:
        """Open the page in a window, of a system with these colours."""
        page = await self.window(**options)
        if scheme == "dark":
            await page.emulate_media(color_scheme=scheme)
        await page.goto((url or self.url) + path)
        await page.wait_for_selector("#link[data-state=open]")
        return page

    @asynccontextmanager
    async def asking(
        self,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        text: str = "Go",
        status: str = "",
        width: int = 1280,
        **options: Any,
    ) -> AsyncGenerator[Page, None]:
        """Serve a worker with this model, open the page, begin a run from it, and wait until the run stands so."""
        async with self.serve(model, tools, **options):
            yield await self.asked(text, status=status, width=width)

    async def asked(self, text: str = "Go", *, status: str = "", width: int = 1280) -> Page:
        """Open the page, begin a run from it, and wait until the run stands so."""
        page = await self.open(width=width)
        await self.ask(page, text, status=status)
        return page

    async def ask(self, page: Page, text: str = "Go", *, status: str = "") -> None:
        """Begin a run from the page, or say something into one; wait until the run stands so."""
        await page.locator("#composer-input").fill(text)
        await page.locator("#composer-send").click()
        await self.status(page, status)

    async def press(self, page: Page, name: str, *, status: str = "") -> None:
        """Press the button of that name, and wait until the run stands so."""
        await page.get_by_role("button", name=name, exact=True).click()
        await self.status(page, status)

    async def status(self, page: Page, word: str) -> None:
        """Wait until the run stands so, if a word is given."""
        if word:
            await page.wait_for_selector(f"#run-status:text-is('{word}')")

    async def answers(self, page: Page, *texts: str) -> None:
        """Wait until the answers are these."""
        blocks = page.locator("#conversation > .block.text:not(.retracted) .text")
        await expect(blocks).to_have_text(list(texts))

    async def view(self, page: Page, selector: str) -> None:
        """Scroll to a part of the page, which is received when it is on the screen, and keep it there."""
        await page.locator(selector).scroll_into_view_if_needed()
        await page.evaluate(KEEP, selector)

    async def usage(self, page: Page, panel: str, at: str = ".board-figure") -> Locator:
        """A part of a panel of the usage, which is folded at first."""
        await page.evaluate("document.querySelector('#usage-panel details').open = true")
        await self.view(page, "#usage-panel")
        return page.locator(f'#usage-panel .board-panel[aria-label="{panel}"] {at}')

    def attend(self, page: Page) -> None:
        """Write down what a page complains of, and the records that it gets."""
        self.received[page] = []

        def on_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                self.problems.append(message.text)

        def on_error(error: Exception) -> None:
            self.problems.append(str(error))

        def on_socket(socket: WebSocket) -> None:
            socket.on("framereceived", lambda data: self._take(page, data))

        self.listen(page, "console", on_console)
        self.listen(page, "pageerror", on_error)
        self.listen(page, "websocket", on_socket)

    def listen(self, page: Page, event: Any, listener: Callable[[Any], None]) -> None:
        """Call a function at each event of a page, until its window is left."""
        self._listeners.setdefault(page, []).append((event, listener))
        page.on(event, listener)

    def _take(self, page: Page, data: str | bytes) -> None:
        message = msgspec.json.decode(data)
        if message["type"] == "records":
            self.received[page] += msgspec.convert(message["records"], list[Record], str_keys=True)

    def records_of(self, page: Page, run: Run[object]) -> list[Record]:
        """What a page got of a run."""
        return [record for record in self.received[page] if record.run_id == run.id]

    def check(self, page: Page, run: Run[object], *, after: int = 0) -> None:
        """The page got every record once, and they come to the run."""
        records = self.records_of(page, run)
        for record in records:
            assert record.first == after + 1
            after = record.seq
        assert after == run.last_seq
        if records and records[0].first == 1:
            assert fold_run(records).conversation == run.state.conversation

    async def split(self, page: Page, run: Run[object]) -> None:
        """Wait until the page has received the records of a run that has ended one by one."""
        every = set(range(1, run.last_seq + 1))
        async with asyncio.timeout(WAIT / 1000):
            while {record.seq for record in self.records_of(page, run)} != every:
                await page.evaluate(FRAMES)
        await page.evaluate(FRAMES)

    async def same(self, page: Page, run: Run[object]) -> None:
        """The page shows what the run has come to, and got every record once."""
        await page.wait_for_selector(f"#conversation[data-seq='{run.last_seq}']")
        self.check(page, run)
        answers = page.locator("#conversation > .block.text:not(.retracted) .text")
        assert await answers.all_text_contents() == said(run)


class Proxy:
    """A wire between the browser and the server that can be cut.

    Attributes:
        url: Where the page is found through it.
        accepted: How many connections came.
        is_cut: Whether new connections are broken at once.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepted = 0
        self.is_cut = False
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Proxy, None]:
        """Carry bytes until it is left."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        try:
            yield self
        finally:
            await stop_listening(server)
            await asyncio.sleep(0)  # what was accepted last begins to be carried
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection, also those that come until `is_cut` is false again."""
        self.is_cut = True
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.is_cut:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._desk.port)
        self._writers.add(far_writer)
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        self._writers -= {writer, far_writer}
        self._tasks.discard(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # it was cut
    finally:
        writer.close()


def said(run: Run[object]) -> list[str]:
    """The answers of a run's conversation."""
    messages = [m for m in run.state.conversation.messages if m.role == "assistant"]
    return [block.text for m in messages for block in m.content if isinstance(block, Text)]


@asynccontextmanager
async def serve_below(prefix: str, app: web.Application) -> AsyncGenerator[str, None]:
    """Serve an application as a part of another one."""
    outer = web.Application()
    outer.add_subapp(prefix, app)
    runner = web.AppRunner(outer, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await asyncio.sleep(SOON)  # see `stop_listening`: a browser connects before it has anything to ask
        await runner.cleanup()


@pytest.fixture
def make_site() -> Site:
    """Serves an application as a part of another one."""
    return serve_below


@pytest.fixture
def make_proxy() -> type[Proxy]:
    """A wire that can be cut."""
    return Proxy


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser, None]:
    """Debian's chromium, through Playwright: one for all tests, each of which has windows of its own."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    expect.set_options(timeout=WAIT)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
def windows(browser: Browser) -> Windows:
    """The windows that tests use one after the other."""
    return Windows(browser)


@pytest_asyncio.fixture(loop_scope="session")
async def desk(windows: Windows, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Desk, None]:
    """A server to look at; afterwards, the browser must have had nothing to complain of."""
    answer = PageFiles.answer

    def cached(files: PageFiles, request: WebRequest, path: str) -> web.Response:
        response = answer(files, request, path)
        if not path.endswith(".html"):
            response.headers["Cache-Control"] = "max-age=3600"  # and not checked at each opening
        return response

    monkeypatch.setattr(PageFiles, "answer", cached)
    desk = Desk(windows)
    yield desk
    await desk.leave()
    assert desk.problems == []
