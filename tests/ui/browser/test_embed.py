"""The custom elements ``<rx-run>`` and ``<rx-panel>``.

Runs and dashboards in a page of one's own, which another server serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import Page, WebSocket, expect

from rxworker import Paused, tool
from rxworker.providers import Request
from rxworker.testing import Reply, call, say
from rxworker.tools import Tool
from rxworker.ui.web import Settings, WebServer
from tests.ui.browser.conftest import Desk, GatedModel

CSP = "default-src 'none'; script-src 'nonce-own' {url}; style-src 'nonce-own'; connect-src {url} ws:; img-src data:"
"""The policy of the page: what an element needs, and what its own styles and script need."""

HTML = """<!doctype html><html lang="en"><title>Own</title><link rel="icon" href="data:,">
<style nonce="own">body {{ font: 40px serif; color: red; text-transform: uppercase }} \
p, div, button {{ color: red; padding: 99px }} \
rx-run {{ padding: 0; height: 300px; --accent: rgb(1, 2, 3) }}</style>
<script nonce="own">const seen = []; for (const name of ["error", "status"]) \
addEventListener(name, ({{ detail }}) => seen.push(detail.code ?? detail.status), true);</script>
<script type="module" src="{url}static/embed.js"></script><script type="module" src="{url}static/panel.js"></script>
<h2 class="text">mine</h2>{body}</html>"""


class OwnSite:
    """A server with a page that shows runs of the desk.

    Attributes:
        origin: Its origin.
        page: The page, opened.
        sockets: The WebSockets that the page has opened.
    """

    page: Page

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._html = ""
        self.origin = ""
        self.sockets: list[WebSocket] = []

    async def get(self, _request: web.Request) -> web.Response:
        """The page."""
        headers = {"Content-Security-Policy": CSP.format(url=self._desk.url)}
        return web.Response(text=self._html, content_type="text/html", headers=headers)

    def served(
        self, model: GatedModel, tools: Sequence[Tool] = (), **options: Any
    ) -> AbstractAsyncContextManager[WebServer]:
        """The desk, which allows this origin."""
        settings = Settings(allowed_origins=(self.origin,), **options)
        return self._desk.serve(model, tools, closes=False, settings=settings)

    async def start(self, text: str, **headers: str) -> str:
        """Begin a run; its id."""
        request = self.page.context.request
        answer = await request.post(self._desk.url + "api/runs", data={"input": text}, headers=headers)
        summary: dict[str, str] = await answer.json()
        return summary["id"]

    async def show(self, body: str) -> None:
        """Open the page with these elements."""
        self._html = HTML.format(url=self._desk.url, body=body)
        await self.page.goto(self.origin)

    async def window(self) -> None:
        """Open a window."""
        self.page = await self._desk.window(1000, is_shared=False)
        await self.page.set_viewport_size({"width": 1000, "height": 900})
        self._desk.listen(self.page, "websocket", lambda socket: self.sockets.append(socket))


OpenSite: TypeAlias = Callable[[], AbstractAsyncContextManager[OwnSite]]


@pytest.fixture
def own_site(desk: Desk) -> OpenSite:
    """A site of its own, as a context manager."""

    @asynccontextmanager
    async def serve() -> AsyncGenerator[OwnSite, None]:
        site, app = OwnSite(desk), web.Application()
        app.router.add_get("/", site.get)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            site.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
            await site.window()
            yield site
        finally:
            await desk.close()
            await runner.cleanup()

    return serve


@tool(requires_approval=True)
def book(seat: str) -> str:
    """Book a seat."""
    return f"{seat} is booked"


def reply(request: Request) -> Reply:
    """The answer to "Count", or a call that waits for its approval and then an answer."""
    last = request.conversation.messages[-1]
    if last.text == "Count":
        return say("One <b>and</b> two.")
    return say("Booked.") if last.tool_results else call("book", seat="12A")


async def closed(socket: WebSocket) -> None:
    """Wait until the socket is closed."""
    if not socket.is_closed():
        await socket.wait_for_event("close")


async def test_two_elements_show_two_runs_of_a_server_as_they_happen(desk: Desk, own_site: OpenSite) -> None:
    model = GatedModel(reply)
    async with own_site() as site, site.served(model, [book]):
        page = site.page
        first, second = await site.start("Count"), await site.start("Book")
        await site.show(
            f'<rx-run src="{desk.url}api/runs/{first}"></rx-run>'
            f'<rx-run view="trace" src="{desk.url}#{second}"></rx-run>'
        )
        talk, trace = page.locator("rx-run").first, page.locator("rx-run").last
        await expect(talk.locator(".message.user .text")).to_have_text("Count")
        await expect(talk.get_by_role("button", name="Edit")).to_have_count(0)
        answer = talk.locator(".block.text .text")
        model.let(1)
        await expect(answer).to_contain_text("One")
        await expect(answer).not_to_contain_text("two")
        # The run that continues a paused one is shown with it.
        await expect(trace.locator(".lane[data-state=paused]")).to_have_count(1)
        paused = await desk.runs[1]
        assert isinstance(paused, Paused)
        [waiting] = paused.pending
        decisions = {waiting.id: {"type": "approve"}}
        resume = f"{desk.url}api/runs/{second}/resume"
        await page.context.request.post(resume, data={"decisions": decisions})
        await expect(trace.locator(".turn .lane-name")).to_have_count(2)
        await expect(trace.locator(".lane-break")).to_have_count(1)
        await trace.get_by_role("button", name="book").click()
        await expect(trace.locator(".inspector")).to_contain_text("12A is booked")
        await page.keyboard.press("Escape")
        await expect(trace.locator(".inspector")).to_be_hidden()
        model.let_all()
        model.let(1)
        await expect(answer).to_have_text("One <b>and</b> two.")
        # What is over needs no connection.
        for socket in site.sockets:
            await closed(socket)
        seen: list[str] = await page.evaluate("seen")
        ends = [one for one in seen if one != "running"]
        assert sorted(ends) == ["finished", "finished", "paused"]


async def test_an_element_keeps_the_styles_of_the_page_out_and_its_own_in(desk: Desk, own_site: OpenSite) -> None:
    async with own_site() as site, site.served(GatedModel([say("Hi")])):
        page, run = site.page, await site.start("Go")
        await site.show(f'<rx-run src="{desk.url}api/runs/{run}"></rx-run>')
        element = page.locator("rx-run")
        said = element.locator(".message.user .text")
        for name, value in (("font-size", "15px"), ("padding", "0px"), ("text-transform", "none")):
            await expect(said).to_have_css(name, value)
        await expect(said).to_have_css("color", "rgb(28, 33, 36)")
        await expect(page.locator("h2.text")).to_have_css("white-space", "normal")
        await expect(page.locator("h2.text")).to_have_css("font-size", "60px")
        # A token of the theme is set from outside, the colours are those of the page, and the element has its height.
        await expect(element.locator(".block .speaker")).to_have_css("color", "rgb(11, 110, 105)")
        token = "(e) => getComputedStyle(e.shadowRoot.firstChild).getPropertyValue('--accent')"
        assert await element.evaluate(token) == "rgb(1, 2, 3)"
        await page.evaluate("document.documentElement.style.colorScheme = 'dark'")
        await expect(said).to_have_css("color", "rgb(231, 234, 235)")
        await element.evaluate("(e) => e.setAttribute('theme', 'light')")
        await expect(said).to_have_css("color", "rgb(28, 33, 36)")
        assert await element.evaluate("(e) => e.offsetHeight") == 300
        # A narrow element is laid out as a narrow window is.
        await element.evaluate("(e) => (e.style.width = '641px')")
        await expect(element.locator(".conversation")).to_have_css("padding-left", "28px")
        await element.evaluate("(e) => (e.style.width = '400px')")
        await expect(element.locator(".conversation")).to_have_css("padding-left", "16px")
        # One that is only moved keeps its connection, one that is removed closes it.
        await page.evaluate("document.body.prepend(document.querySelector('rx-run'))")
        await expect(said).to_have_text("Go")
        [socket] = site.sockets
        assert not socket.is_closed()
        await element.evaluate("(e) => e.remove()")
        await closed(socket)


async def test_a_run_that_ends_with_its_server_is_over(desk: Desk, own_site: OpenSite) -> None:
    async with own_site() as site:
        async with site.served(GatedModel([say("Hi")])):
            run = await site.start("Go")
            await site.show(f'<rx-run src="{desk.url}api/runs/{run}"></rx-run>')
            element = site.page.locator("rx-run")
            await expect(element.locator(".message.user .text")).to_have_text("Go")
        await expect(element.locator(".note")).to_contain_text("Cancelled")
        await expect(element.locator(".banner")).to_be_hidden()
        assert await site.page.evaluate("seen") == ["running", "aborted"]


async def test_a_run_that_is_over_is_shown_at_its_end(desk: Desk, own_site: OpenSite) -> None:
    """Also when its parts, which are seen for the first time, replace their estimated heights."""
    part = (
        "Some text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n```python\nx = 1\n\ny = 2\n\nz = 3\n```\n\n1. "
        "one\n2. two"
    )
    async with own_site() as site, site.served(GatedModel([say(part)], free=True)):
        page, run = site.page, await site.start("Go")
        await desk.runs[0]
        await site.show(f'<rx-run src="{desk.url}api/runs/{run}"></rx-run>')
        pane = page.locator("rx-run .conversation")
        await expect(pane.locator("li").last).to_be_in_viewport(ratio=1)


@pytest.mark.slow
async def test_an_element_shows_why_there_is_no_run(desk: Desk, own_site: OpenSite) -> None:
    token = "a long secret"
    async with own_site() as site:
        page = site.page
        async with site.served(GatedModel(reply), [book], token=token):
            run = await site.start("Book", Authorization=f"Bearer {token}")
            await desk.runs[0]
            address = f"{desk.url}api/runs/{run}"
            await site.show(f'<rx-run src="{address}"></rx-run><rx-run></rx-run>')
            element, note = page.locator("rx-run").first, page.locator("rx-run .banner")
            await expect(note.last).to_contain_text("This element has no run")
            await expect(note.first).to_contain_text("needs to know who you are")
            # With the cookie of a page that was opened with the token, the element is told to begin again.
            other = await page.context.new_page()
            await other.goto(f"{desk.url}?token={token}")
            set_src = "(e, src) => e.setAttribute('src', src)"
            await element.evaluate(set_src, f"{desk.url}#nothing")
            await expect(note.first).to_have_text("The server does not know this run.")
            await element.evaluate(set_src, address)
            await expect(element.locator(".message.user .text")).to_have_text("Book")
            await expect(note.first).to_be_hidden()
            await other.close()
        # A server that has stopped is tried again, and what was shown stays.
        await expect(note.first).to_contain_text("The connection was lost")
        await expect(element.locator(".message.user .text")).to_have_text("Book")
        seen: list[str] = await page.evaluate("seen")
        assert seen == ["source", "login", "unknown", "paused", "lost"]
        await desk.close()
        # The browser reports what was refused.
        assert desk.problems
        desk.problems.clear()


NOTE = """(element, { types, token }) => {
  window.noted = Object.fromEntries(types.map((type) => [type, []]));
  for (const type of types) element.addEventListener(type, ({ detail }) => noted[type].push(detail));
  window.until = (type, isWanted) => new Promise((done) => {
    const look = () => noted[type].some(isWanted) && done();
    look();
    element.addEventListener(type, look);
  });
  element.token = token;
}"""
"""Notes the events of an element, and defines what waits for one."""


async def test_a_page_starts_and_steers_runs_with_its_own_input(desk: Desk, own_site: OpenSite) -> None:
    """The token is a property: of the element, and not of the document."""
    token = "a long secret"
    model = GatedModel(reply)
    async with own_site() as site, site.served(model, [book], token=token):
        page = site.page
        await site.show(
            f'<rx-run src="{desk.url}"><h3 slot="header">Desk</h3><p slot="empty">Nothing yet</p>'
            '<button slot="input">Book</button><small slot="footer">By us</small></rx-run>'
        )
        element = page.locator("rx-run")
        for name in ("Desk", "Nothing yet", "Book", "By us"):
            await expect(page.get_by_text(name, exact=True)).to_be_visible()
        await expect(element.locator(".embed")).to_be_hidden()
        types = ["status", "question", "record", "error"]
        await element.evaluate(NOTE, {"types": types, "token": token})
        await page.evaluate(
            "void (document.querySelector('button').onclick = () => document.querySelector('rx-run').send('Book'))"
        )
        await page.get_by_role("button", name="Book").click()
        await expect(element.locator(".call-name")).to_have_text("book")
        await expect(page.get_by_text("Nothing yet")).to_be_hidden()
        await page.evaluate("until('question', () => true)")
        [question] = await page.evaluate("noted.question")
        [waiting] = question["pause"]["calls"]
        assert (waiting["call"]["name"], waiting["call"]["input"]) == ("book", {"seat": "12A"})
        refused = "(e) => e.approve('other').catch(({ status, code }) => [status, code])"
        assert await element.evaluate(refused) == [400, "bad_decision"]
        approve = "(e, call) => e.approve(call, { input: { seat: '12B' } })"
        resumed = await element.evaluate(approve, waiting["call"]["id"])
        assert resumed["resumes"] == question["run"]
        # What is sent after the end goes into the conversation; then the run is cancelled.
        await expect(element.locator(".call .outcome")).to_contain_text("12B is booked")
        model.let(2)
        await page.evaluate("until('status', ({ status }) => status === 'finished')")
        begun = await element.evaluate("(e) => e.send('Count')")
        assert begun["conversation"] == resumed["conversation"]
        await expect(element.locator(".message.user .text")).to_have_text(["Book", "Count"])
        assert (await element.evaluate("(e) => e.send('Faster')"))["id"] == begun["id"]
        assert (await element.evaluate("(e) => e.cancel()"))["status"] == "aborted"
        await page.evaluate("until('status', ({ status }) => status === 'aborted')")
        noted: dict[str, Any] = await page.evaluate("noted")
        runs = [question["run"], resumed["id"], begun["id"]]
        assert list(dict.fromkeys(one["run"] for one in noted["status"])) == runs
        for run in runs:
            records = [one for one in noted["record"] if one["run"] == run]
            firsts = [one["seq"] - one.get("covers", 1) for one in records]
            assert firsts == [0, *(one["seq"] for one in records)][:-1]
        assert noted["error"] == []
        assert token not in await page.content()
        # The browser reports what was refused.
        assert len(desk.problems) == 1
        desk.problems.clear()


@pytest.mark.slow
async def test_an_element_shows_a_moment_of_the_past(desk: Desk, own_site: OpenSite) -> None:
    async with own_site() as site, site.served(GatedModel(reply, free=True)):
        page, run = site.page, await site.start("Count")
        await desk.runs[0]
        address = f"{desk.url}api/runs/{run}"
        await site.show(f'<rx-run src="{address}"></rx-run><rx-run view="trace" src="{address}"></rx-run>')
        talk, trace = page.locator("rx-run").first, page.locator("rx-run").last
        await talk.evaluate(NOTE, {"types": ["record"], "token": None})
        answer = talk.locator(".block.text .text")
        await expect(answer).to_have_text("One <b>and</b> two.")
        # From now on the records come one by one.
        await page.evaluate("noted.record.length = 0; document.querySelector('rx-run').at = 1")
        await page.evaluate("until('record', ({ event }) => event.type === 'run_stop')")
        await expect(answer).to_have_count(0)
        records: list[dict[str, Any]] = await page.evaluate("noted.record")
        texts = [one for one in records if one["event"]["type"] == "text_delta"]
        for one in (texts[0], texts[-1], texts[1]):
            moment = one["time"]
            shown = "".join(each["event"]["text"] for each in texts if each["time"] <= moment)
            await talk.evaluate("(e, moment) => (e.at = moment)", moment)
            await expect(answer).to_have_text(shown)
        await talk.evaluate("(e) => (e.at = null)")
        await expect(answer).to_have_text("One <b>and</b> two.")
        # A link names the record.
        link = f"{desk.url}#{run}@{texts[0]['seq']}"
        await talk.evaluate("(e, link) => (e.src = link)", link)
        await expect(answer).to_have_text(texts[0]["event"]["text"])
        await expect(trace.locator(".turn .lane-name")).to_have_count(1)
        await trace.evaluate("(e) => (e.at = 1)")
        await expect(trace.locator(".lane")).to_have_count(0)
        # Before its server: an element that has just begun again connects, and the browser complains of a server that
        # is gone.
        await desk.close()


@pytest.mark.slow
async def test_elements_that_are_removed_leave_nothing_and_begin_again(desk: Desk, own_site: OpenSite) -> None:
    async with own_site() as site, site.served(GatedModel(reply)) as server:
        page, run = site.page, await site.start("Count")
        panel = f"{desk.url}api/boards/usage?run={run}"
        await site.show(
            f'<main><rx-run src="{desk.url}api/runs/{run}"></rx-run>'
            f'<rx-panel src="{panel}" panel="tokens"><p slot="empty">No figures</p></rx-panel>'
            f'<rx-panel src="{panel}"></rx-panel><rx-panel src="{panel}" panel="none"></rx-panel></main>'
        )
        tokens = page.locator("rx-panel .board-panel[aria-label='Tokens']")
        taken: list[int] = []
        for _ in range(2):
            await expect(page.locator("rx-run .message.user .text")).to_have_text("Count")
            await expect(tokens.locator(".board-value > *")).to_have_count(2)
            await expect(page.locator("rx-panel .board-error").last).to_contain_text("no panel none")
            taken.append(server.state.streams.taken)
            await page.evaluate("window.main = document.querySelector('main'), main.remove()")
            for socket in site.sockets:
                await closed(socket)
            async with asyncio.timeout(30):
                while server.state.streams.taken:
                    await page.evaluate("new Promise(requestAnimationFrame)")
            await page.evaluate("document.body.append(main)")
        # The run, its socket, and the connection that both panels share.
        assert taken == [3, 3]
        await expect(tokens.locator(".board-value > *")).to_have_count(2)
        seen: list[str] = await page.evaluate("seen")
        assert sorted(seen)[:2] == ["no_panel"] * 2
        await page.evaluate("main.remove()")


async def test_the_token_of_a_read_only_link_may_stand_in_a_page(desk: Desk, own_site: OpenSite) -> None:
    model = GatedModel(reply)
    async with own_site() as site, site.served(model, token="a long secret") as server:
        page, run = site.page, server.state.runs.start("Count").id
        link = await server.state.share(run=run)
        await site.show(
            f'<rx-run src="{desk.url}api/runs/{run}" token="{link.token}"></rx-run>'
            f'<rx-panel src="{desk.url}api/boards/usage?run={run}" panel="tokens" token="{link.token}"></rx-panel>'
        )
        answer = page.locator("rx-run .block.text .text")
        model.let(1)
        await expect(answer).to_have_text("One")
        model.let_all()
        model.let(1)
        await expect(answer).to_have_text("One <b>and</b> two.")
        await expect(page.locator("rx-panel .board-figure")).to_have_count(1)
        refused = "(e) => e.send('More').catch(({ code }) => code)"
        assert await page.locator("rx-run").evaluate(refused) == "not_shared"
        assert await page.evaluate("seen") == ["running", "finished"]
        assert site.sockets == []
        await page.locator("rx-panel").evaluate("(e) => e.remove()")
        desk.problems.clear()  # the browser reports the refusal


ATTACKS = """async (url) => {
  const read = {}, run = JSON.stringify({ input: "Count" });
  const loads = (node, end) => new Promise((done) => {
    node.onload = () => done(true);
    node.onerror = () => done(false);
    document.body.append(node);
    end?.(node);
  });
  const asked = (path, options) => fetch(url + path, { credentials: "include", ...options })
    .then((response) => response.type !== "opaque", () => false);
  read.list = await asked("api/runs");
  read.headers = await asked("api/runs", { headers: { "X-Any": "1" } });
  read.json = await asked("api/runs", { method: "POST", body: run, headers: { "Content-Type": "application/json" } });
  read.plain = await asked("api/runs", { method: "POST", body: run, mode: "no-cors" });
  read.blob = await asked("api/runs", { method: "POST", body: new Blob([run]), mode: "no-cors" });
  read.script = await loads(Object.assign(document.createElement("script"), { src: `${url}api/runs` }));
  read.module = await import(`${url}static/embed.js`).then(() => true, () => false);
  read.image = await loads(Object.assign(document.createElement("img"), { src: `${url}static/icon.svg` }));
  read.socket = await new Promise((done) => Object.assign(
    new WebSocket(`${url.replace("http", "ws")}api/ws`), { onopen: () => done(true), onerror: () => done(false) },
  ));
  const frame = Object.assign(document.createElement("iframe"), { name: "form" });
  await loads(frame);
  const forms = [
    ["text/plain", '{"input":"Count","x":"', '"}'],
    ["application/x-www-form-urlencoded", "input", "Count"],
    ["multipart/form-data", "input", "Count"],
  ];
  for (const [type, name, value] of forms) {
    const wanted = { action: `${url}api/runs`, method: "post", enctype: type, target: "form" };
    const form = Object.assign(document.createElement("form"), wanted);
    form.append(Object.assign(document.createElement("input"), { name, value }));
    document.body.append(form);
    await new Promise((done) => { frame.onload = done; form.submit(); });
  }
  read.beacon = navigator.sendBeacon(`${url}api/runs`, run) && false;
  await new Promise((done) => { frame.onload = done; frame.src = url; });
  return read;
}"""
"""What a page can do to a server at which its visitor is logged in; whether it could read the answer."""


async def test_a_page_of_another_origin_reads_and_begins_nothing_with_the_cookies_of_its_visitor(desk: Desk) -> None:
    """It is on another port of the same host, so that the browser sends the cookie."""

    async def get(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><body>", content_type="text/html")

    app, token = web.Application(), "a long secret"
    app.router.add_get("/", get)
    async with (
        TestServer(app, host="127.0.0.1") as foreign,
        desk.serve(GatedModel(reply, free=True), settings=Settings(token=token)),
    ):
        page = await desk.open(f"?token={token}")
        url = page.url
        await page.goto(str(foreign.make_url("/")))
        read: dict[str, bool] = await page.evaluate(ATTACKS, desk.url)
        assert read == dict.fromkeys(read, False)
        assert len(read) == 10
        assert page.frames[1].url.startswith("chrome-error:"), "the page is in no frame"
        listed = await page.context.request.get(f"{desk.url}api/runs")
        assert (await listed.json())["runs"] == []
        await page.goto(url)
        desk.problems.clear()  # the browser reports what it refused
