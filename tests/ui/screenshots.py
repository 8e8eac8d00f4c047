"""Screenshots of the page: its states, in four sizes, light and dark.

``python -m tests.ui.screenshots FOLDER`` makes all of them, and ``--docs`` only those that the documentation shows,
into ``docs``. ``--only past,list`` chooses states.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright
from reactivex import Observable

from rxworker import Run, Worker, tool
from rxworker.errors import RxWorkerError
from rxworker.events import ResponseEvent, Usage
from rxworker.log import SQLiteLog
from rxworker.messages import Prices
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, fail, say, think
from rxworker.ui.web import Settings, WebServer
from tests.ui.browser.conftest import CHROMIUM, GatedModel

SETTLE = """() => {
  for (const id of ["side", "lanes"]) document.getElementById(id).scrollTop = 0;
}"""
"""The beginning of the trace."""
DRAWN = """() => [...document.querySelectorAll(".board")].every((board) => {
  const { top, width } = (board.closest("section") ?? board).getBoundingClientRect();
  const panels = [...board.querySelectorAll(".board-panel")], isOut = width === 0 || top > innerHeight;
  const isDrawn = (panel) => panel.querySelector(".board-value > *, .u-over, tbody tr") !== null;
  return isOut || !board.checkVisibility() || (panels.length > 0 && panels.every(isDrawn));
})"""
"""Whether the dashboards that are seen have their values. They go on: the network is never idle."""
UNMARK = "document.querySelector('.found')?.classList.remove('found')"
"""Nothing is marked."""
ARGS = ["--no-sandbox", "--disable-features=LocalNetworkAccessChecks"]
"""Of the browser. A page that Playwright serves may open a WebSocket to this machine."""
DOCS = Path(__file__).parents[2] / "docs"
SIZES = [(1400, 900), (820, 1180), (390, 844), (844, 390)]
THEMES = ["light", "dark"]
IN_DOCS = {
    "page.png": ("finished", (1280, 800), "light"),
    "pictures/streaming.png": ("streaming", (1280, 800), "dark"),
    "pictures/approval.png": ("approval", (1280, 800), "light"),
    "pictures/inspector.png": ("inspector", (1280, 800), "dark"),
    "pictures/past.png": ("past", (1280, 800), "light"),
    "pictures/embed.png": ("embed", (1280, 720), "light"),
    "pictures/compare.png": ("compare", (1280, 800), "light"),
    "pictures/phone.png": ("finished", (390, 844), "light"),
    "pictures/phone-timeline.png": ("timeline", (390, 844), "dark"),
}
OWN_PAGE = """<!doctype html><html lang="en"><title>Incident 4711</title><link rel="icon" href="data:,">
<style>
  body {{ margin: 32px auto; max-width: 1160px; font: 17px/1.5 Georgia, serif; background: white }}
  div {{ display: grid; grid-template-columns: 1fr 1fr; gap: 20px }}
  rx-run {{ height: 520px; border: 1px solid #ddd; border-radius: 12px; overflow: hidden; --bg: white }}
</style>
<script type="module" src="static/embed.js"></script>
<h1>Incident 4711</h1><p>What the assistant of the operations team has found:</p>
<div><rx-run src="api/runs/{run}"></rx-run><rx-run src="api/runs/{run}" view="trace"></rx-run></div></html>"""
"""A page that is not that of the server."""

STATES = (
    *("welcome", "streaming", "approval", "finished", "inspector", "past"),
    *("result", "error", "runs", "fleet", "palette", "shortcuts"),
)
MODEL = "demo-model"
QUESTION = "Which of last night's deploys raised the error rate, and what should we do?"
AGAIN = f"{QUESTION} Be brief."
BREAKS = "Check the invoices of March"
LIVE = "Explain how the retries of the payment client work"
ROLL_BACK = "Roll back the checkout service"
OTHERS = [
    "Summarise the incident of Tuesday in three sentences",
    "Draft a note to the customers about the maintenance on Sunday",
    "Find the slowest queries of the reporting database",
    "Translate the error pages to Portuguese",
    "What changed between release 4.11 and 4.12?",
]
ANSWER = """The rise comes from **checkout 4.12**: its error rate went from 0.2 % to 3.9 % within ten minutes of the \
deploy. The other two services did not change.

| service | release | before | after |
|---|---|---:|---:|
| checkout | 4.12 | 0.2 % | **3.9 %** |
| search | 2.7 | 0.4 % | 0.4 % |
| accounts | 8.3 | 0.1 % | 0.1 % |

The new client has a time-out that is shorter than the provider's slowest responses:

```python
client = PaymentClient(
    timeout=2.0,  # was 10.0 in 4.11
    retries=0,
)
```

1. Roll **checkout** back to 4.11 now.
2. Set the time-out to 10 seconds and the retries to 2, then deploy again.
"""
BRIEF = """The rise comes from **checkout 4.12**: its error rate went from 0.2 % to 3.9 % within five minutes of the \
deploy. The other two services did not change.

Roll **checkout** back to 4.11 now, and set the time-out to 10 seconds.
"""
RETRIES = """## How the payment client retries

A request is sent at most **three** times. Between two attempts the client waits, \
and each wait is twice as long as the one before:

- `429` and `503`: the time that the server asks for
- a time-out: one second, then two
- anything else is an error at once

```python
async def send(request: Request) -> Response:
    for attempt in range(3):
        response = await transport.send(request)
        if response.status not in RETRYABLE:
            return response
        await sleep(delay_of(response, attempt))
```

Each attempt has an idempotency key, so that the provider"""


@tool(effect="idempotent")
async def error_rates(service: str, hours: int) -> list[dict[str, Any]]:
    """The error rates of a service.

    Args:
        service: The service.
        hours: How many hours.
    """
    await asyncio.sleep(0.9 if service == "checkout" else 0.5)
    base = {"checkout": 0.2, "search": 0.4, "accounts": 0.1}[service]
    rates = [base, base, 3.9 if service == "checkout" else base]
    return [{"time": f"0{n + 1}:00", "rate": rate} for n, rate in enumerate(rates)][-hours:]


@tool(effect="idempotent")
async def diff(service: str, release: str) -> str:
    """What a release changed."""
    await asyncio.sleep(0.4)
    return (
        f"--- {service}/payment.py\n+++ {service}/payment.py\n@@ -14,4 +14,4 @@ release {release}\n"
        " client = PaymentClient(\n-    timeout=10.0,\n-    retries=2,\n+    timeout=2.0,\n+    retries=0,\n )\n"
    )


@tool(requires_approval=True)
async def roll_back(service: str, release: str, notify: str = "on-call") -> str:
    """Roll a service back to a release.

    Args:
        service: The service.
        release: The release that runs afterwards.
        notify: Who is informed.
    """
    return f"{service} runs {release} again; {notify} is informed"


def answer(request: Request) -> Reply:
    """The answer of the scripted model."""
    messages = request.conversation.messages
    asked = "".join(m.text for m in messages if m.role == "user" and m.text)
    names = {result.name for message in messages for result in message.tool_results}
    if asked.startswith(BREAKS):
        return fail("the account has no access to this model", "permission", retryable=False)
    if asked.startswith(ROLL_BACK):
        why = think("Release 4.11 is the last one without errors. A person has to agree.")
        text = say("The last release without errors is 4.11. May I roll back to it?")
        return why + text + call("roll_back", service="checkout", release="4.11") + used(1_204, 88)
    if not asked.startswith(QUESTION):
        return say("Done: the summary is in the channel of the team.") + used(220, 41)
    if not names:
        rates = [
            call("error_rates", service=name, hours=6 if asked == AGAIN else 3)
            for name in ("checkout", "search", "accounts")
        ]
        why = think("Three services were deployed. I compare their error rates first.")
        return (
            why
            + say("I compare the error rates of the three services.")
            + rates[0]
            + rates[1]
            + rates[2]
            + used(1_180, 164)
        )
    if "diff" not in names:
        why = think("Only checkout rose. What did its release change?")
        return why + call("diff", service="checkout", release="4.12") + used(1_690, 97)
    if asked == AGAIN:
        return say(BRIEF) + used(1_980, 96, 1_640)
    return say(ANSWER) + used(2_110, 312, 1_640)


def used(read: int, written: int, cached: int = 0) -> Reply:
    """The usage of a response."""
    return Reply(usage=Usage(input_tokens=read, output_tokens=written, cache_read_tokens=cached or None))


class StagedModel:
    """A scripted model, of which one answer stops in the middle."""

    name = "staged"
    model = MODEL

    def __init__(self) -> None:
        self.held = GatedModel(lambda _: think("From the code, in order.") + say(RETRIES))
        self.held.model = MODEL
        self._paced = ScriptedModel(answer, delay=0.012, name="staged", model=MODEL)

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The next answer."""
        text = request.conversation.messages[-1].text or ""
        return (self.held if text.startswith(LIVE) else self._paced).stream(request)


class Stage:
    """A server with runs in each state.

    Args:
        url: Where the server is.
        make: Makes its workers.
        model: Their model.
    """

    def __init__(self, url: str, make: Callable[[], Worker], model: StagedModel) -> None:
        self.url = url
        self._make = make
        self._model = model
        self.runs_of: dict[str, Run[object]] = {}

    async def prepare(self) -> None:
        """Begin the runs, and wait until each has reached its state."""
        for text in [*OTHERS, BREAKS, ROLL_BACK, QUESTION]:
            run = self.runs_of[text] = self._make().run(text)
            with contextlib.suppress(RxWorkerError):
                async for _ in run.watch():
                    pass
        self.runs_of[LIVE] = self._make().run(LIVE)
        for _ in range(110):
            self._model.held.let(1)
            await asyncio.sleep(0.02)

    async def show(self, page: Page, text: str, status: str) -> None:
        """Show a run."""
        await page.goto(f"{self.url}#{self.runs_of[text].id}")
        await page.wait_for_selector(f"#run-status[data-status={status}]")

    async def welcome(self, page: Page) -> None:
        """No run is selected."""
        await page.goto(self.url)

    async def streaming(self, page: Page) -> None:
        """An answer is being written."""
        await self.show(page, LIVE, "running")

    async def approval(self, page: Page) -> None:
        """A call waits for a decision."""
        await self.show(page, ROLL_BACK, "paused")

    async def finished(self, page: Page) -> None:
        """A run with its answer."""
        await self.show(page, QUESTION, "finished")
        await page.wait_for_selector("#lanes .lane", state="attached")
        await page.evaluate(SETTLE)

    async def inspector(self, page: Page) -> None:
        """A row of the trace is inspected."""
        await self.finished(page)
        await narrow(page, "timeline")
        await page.locator("#lanes .row .lane-name", has_text="error_rates").first.click()
        await page.evaluate(UNMARK)

    async def timeline(self, page: Page) -> None:
        """The trace, also where there is room for only one view."""
        await self.finished(page)
        await narrow(page, "timeline")

    async def past(self, page: Page) -> None:
        """A run as it was before its end."""
        run = self.runs_of[QUESTION]
        await page.goto(f"{self.url}#{run.id}@{run.last_seq * 2 // 3}")
        await page.wait_for_selector("#time-bar[data-past=true]")

    async def result(self, page: Page) -> None:
        """The result of a tool as a table."""
        await self.finished(page)
        await page.locator("#conversation .call summary").first.click()
        await page.locator("#conversation .call").first.scroll_into_view_if_needed()

    async def error(self, page: Page) -> None:
        """A run that failed."""
        await self.show(page, BREAKS, "aborted")

    async def runs(self, page: Page) -> None:
        """The list of runs."""
        await self.finished(page)
        if await page.locator("#menu").is_visible():
            await page.locator("#menu").click()

    async def fleet(self, page: Page) -> None:
        """The runs of all processes."""
        await page.goto(f"{self.url}fleet")
        await page.wait_for_selector("#fleet-rows tr")

    async def embed(self, page: Page) -> None:
        """The conversation and the trace in a page of one's own."""
        html = OWN_PAGE.format(run=self.runs_of[QUESTION].id)
        await page.route("**/own", lambda route: route.fulfill(body=html, content_type="text/html"))
        await page.goto(f"{self.url}own")
        await page.locator("rx-run .lane-label", has_text="answer").last.wait_for()

    async def compare(self, page: Page) -> None:
        """Two runs side by side."""
        if AGAIN not in self.runs_of:
            run = self.runs_of[AGAIN] = self._make().run(AGAIN)
            async for _ in run.watch():
                pass
        await page.goto(f"{self.url}#{self.runs_of[QUESTION].id}~{self.runs_of[AGAIN].id}")
        await page.wait_for_selector(".compare-row")

    async def palette(self, page: Page) -> None:
        """The command palette."""
        await self.finished(page)
        await page.keyboard.press("Control+k")
        await page.keyboard.type("re")

    async def shortcuts(self, page: Page) -> None:
        """The sheet of shortcuts."""
        await self.finished(page)
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("?")

    async def reach(self, page: Page, state: str) -> None:
        """Show a state by its name."""
        reach: Callable[[Page], Awaitable[None]] = getattr(self, state)
        await reach(page)


async def narrow(page: Page, view: str) -> None:
    """Choose a view, where there is room for only one."""
    button = page.locator(f"#views button[data-view={view}]")
    if await button.is_visible():
        await button.click()


async def shoot(browser: Browser, stage: Stage, state: str, size: tuple[int, int], theme: str, path: Path) -> None:
    """Make one screenshot."""
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
        has_touch=width < 500,
    )
    page = await context.new_page()
    page.on("pageerror", lambda error: print(f"{state}: {error}"))
    await stage.reach(page, state)
    await page.wait_for_function(DRAWN)
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    path.parent.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=path)
    await context.close()


def shrink(paths: list[Path]) -> None:
    """Reduce the colours of the files that the repository keeps.

    A third of the size, and no difference that is seen.
    """
    program = shutil.which("pngquant")
    if program is None:
        sys.exit("pngquant is not installed: the files are larger than the repository should keep")
    subprocess.run([program, "--force", "--ext", ".png", "--skip-if-larger", "128", *paths], check=True)


async def main(arguments: argparse.Namespace) -> None:
    """Make the screenshots."""
    folder: Path = DOCS if arguments.docs else arguments.folder
    if arguments.docs:
        wanted = [(*what, folder / name) for name, what in IN_DOCS.items()]
    else:
        wanted = [
            (state, size, theme, folder / f"{state}-{size[0]}x{size[1]}-{theme}.png")
            for state in (arguments.only.split(",") if arguments.only else STATES)
            for size in SIZES
            for theme in THEMES
        ]
    model, temporary = StagedModel(), Path(tempfile.mkdtemp())
    prices = {MODEL: Prices(input=3.0, output=15.0, cache_read=0.3)}
    tools = [error_rates, diff, roll_back]
    async with SQLiteLog(temporary / "runs.db") as log, async_playwright() as driver:

        def make() -> Worker:
            return Worker(model, tools=tools, name="operations", log=log)

        settings = Settings(title="Operations", prices=prices)
        async with WebServer({"operations": make}, port=0, log=log, settings=settings) as server:
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
            stage = Stage(server.url, make, model)
            await stage.prepare()
            for state, size, theme, path in wanted:
                await shoot(browser, stage, state, size, theme, path)
            await browser.close()
            stage.runs_of[LIVE].cancel()
    if arguments.docs:
        shrink([path for *_, path in wanted])
    shutil.rmtree(temporary)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("screenshots"))
    parser.add_argument("--docs", action="store_true", help="those that the documentation shows")
    parser.add_argument("--only", default="", help="states, with commas between them")
    asyncio.run(main(parser.parse_args()))
