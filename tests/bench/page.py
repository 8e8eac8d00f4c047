"""What the page costs in Chromium.

Its opening, 20,000 deltas of Markdown, 30 runs at once, 1,000 finished calls at once, a list of 5,000 runs, and the
fleet and a dashboard of 1,000 runs that stream.

``python -m tests.bench.page`` prints a table, ``--live SECONDS`` the last two cases alone. CPU is that of the page's
main thread, so other work on the machine hardly changes it; frames are measured by the clock, so they are those of this
machine at this time. ``--quick`` measures a tenth of everything.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from rxworker import Limits, Worker, tool
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.panels import USAGE
from rxworker.testing import Call, Reply, ScriptedModel, say
from rxworker.ui.web import Settings, WebServer
from tests.ui.browser.conftest import CHROMIUM
from tests.ui.browser.conftest import FRAMES as FRAMES_DRAWN

MAX_CPU = 60
MAX_FRAME = 50
SECTION = """## Part {n}

A paragraph with **strong**, *slanted* and `coded` words, and [a link](https://example.org/{n}). \
It goes on for a while, as answers do.

- one item
- another item with `code`

| name | value |
|---|---:|
| first | {n} |

```python
def part_{n}(value: int) -> int:
    return value + {n}  # a comment
```

"""
FRAMES = """() => {
  globalThis.frames = [];
  globalThis.late = [];
  const ask = globalThis.requestAnimationFrame.bind(globalThis);
  globalThis.requestAnimationFrame = (act) => ask((time) => {
    const begun = performance.now();
    act(time);
    globalThis.frames.push(performance.now() - begun);
  });
  new PerformanceObserver((list) => globalThis.late.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "long-animation-frame", buffered: true });
}"""


@dataclass
class Figures:
    """What one case took."""

    name: str
    cpu: float
    heap: float
    frames: int
    script: float
    late: int
    longest: float
    more: str = ""

    def line(self) -> str:
        """A line of the table."""
        return (
            f"| {self.name} | {self.cpu:.0f} % | {self.heap:.0f} MB | {self.frames:,} | {self.script:.1f} ms "
            f"| {self.late} | {self.longest:.0f} ms | {self.more} |"
        )


HEAD = """| Case | CPU of a core | Heap | Frames | Script of a frame, p95 | Frames over 50 ms | Longest | |
|---|---:|---:|---:|---:|---:|---:|---|"""


class Meter:
    """Measures a page.

    Args:
        page: The page.
    """

    def __init__(self, page: Page) -> None:
        self.page = page

    async def begin(self) -> None:
        """Begin to measure."""
        self._session: Any = await self.page.context.new_cdp_session(self.page)
        await self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._busy, self._clock = await self._metric("TaskDuration"), time.monotonic()

    async def again(self) -> None:
        """Begin anew, when the page has drawn what it knows."""
        await self.page.evaluate(FRAMES_DRAWN)
        await self.page.evaluate("globalThis.frames.length = globalThis.late.length = 0")
        await self.begin()

    async def end(self, name: str, more: str = "") -> Figures:
        """The figures since the begin."""
        busy, clock = await self._metric("TaskDuration"), time.monotonic()
        await self.page.evaluate(FRAMES_DRAWN)  # the last frame is reported after it
        frames: list[float] = sorted(await self.page.evaluate("globalThis.frames.splice(0)"))
        late: list[float] = await self.page.evaluate("globalThis.late.splice(0)")
        await self._session.send("HeapProfiler.collectGarbage")
        heap = await self._metric("JSHeapUsedSize")  # without what is measured
        late = [one for one in late if one > MAX_FRAME]
        share = 100 * (busy - self._busy) / (clock - self._clock)
        p95 = frames[int(len(frames) * 0.95)] if frames else 0.0
        return Figures(name, share, heap / 1e6, len(frames), p95, len(late), max(late, default=0.0), more)

    async def _metric(self, name: str) -> float:
        found: dict[str, list[dict[str, Any]]] = await self._session.send("Performance.getMetrics")
        return next(float(one["value"]) for one in found["metrics"] if one["name"] == name)


GAPS = """() => {
  globalThis.gaps = [];
  let last = performance.now();
  const tick = (time) => {
    globalThis.gaps.push(time - last);
    last = time;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""
"""Notes the time between each two frames."""


@asynccontextmanager
async def opened(browser: Browser, url: str, path: str = "") -> AsyncGenerator[Meter, None]:
    """A window with the page, which is measured from its opening on."""
    context = await browser.new_context(viewport={"width": 1400, "height": 900})
    page = await context.new_page()
    await page.add_init_script(f"({FRAMES})()")
    meter = Meter(page)
    await meter.begin()
    await page.goto(url + path)
    await page.wait_for_selector("main" if path else "#link[data-state=open]")
    yield meter
    await context.close()


async def opening(browser: Browser, times: int) -> Figures:
    """The page without runs is opened so often; the middle one by its longest frame."""
    async with WebServer(lambda: Worker(ScriptedModel([])), port=0) as server:
        found: list[Figures] = []
        for _ in range(times):
            async with opened(browser, server.url) as one:
                await asyncio.sleep(0.5)
                found.append(await one.end("opening", f"the middle of {times}"))
        return sorted(found, key=lambda each: each.longest)[times // 2]


async def finished_calls(browser: Browser, count: int) -> Figures:
    """A run of so many calls in one turn is opened when it has ended."""

    @tool
    async def look(n: int) -> str:
        """Look."""
        return f'[{{"place": "pond {n}", "degrees": {n}}}]'

    calls = tuple(Call("look", f'{{"n": {n}}}') for n in range(count))
    model = ScriptedModel([Reply(tool_calls=calls), say("Done.")])
    async with MemoryLog() as log:
        limits = Limits(max_tool_calls=count)
        run = Worker(model, tools=[look], limits=limits, log=log).run("Look at all")
        await run
        async with WebServer(lambda: Worker(model), port=0, log=log) as server, opened(browser, server.url) as one:
            await asyncio.sleep(0.5)
            await one.again()
            await one.page.evaluate(f"location.hash = '#{run.id}'")
            await one.page.wait_for_selector("#run-status[data-status=finished]")
            return await one.end(f"{count:,} finished calls at once", "")


async def deltas(browser: Browser, count: int, seconds: float) -> Figures:
    """One answer of so many deltas of Markdown, in so many seconds."""
    text = "".join(SECTION.format(n=n) for n in range(count * 4 // len(SECTION) + 1))
    model = ScriptedModel([say(text[: count * 4], chunk=4)], delay=seconds / count)
    async with WebServer(lambda: Worker(model), port=0) as server, opened(browser, server.url) as one:
        run = server.state.runs.start("Go")
        await one.page.evaluate(f"location.hash = '#{run.id}'")
        await one.page.wait_for_selector("#run-status[data-status=finished]", timeout=600_000)
        return await one.end(f"{count:,} deltas of Markdown", f"in {seconds:.0f} s")


async def at_once(browser: Browser, runs: int, seconds: float) -> Figures:
    """So many runs at once, one of which is shown."""
    text = "".join(SECTION.format(n=n) for n in range(12))

    def make() -> Worker:
        return Worker(ScriptedModel([say(text, chunk=4)], delay=seconds * 4 / len(text)))

    settings = Settings(max_runs=runs, max_runs_per_user=runs)
    async with WebServer(make, port=0, settings=settings) as server, opened(browser, server.url) as one:
        begun = [server.state.runs.start(f"Run {n}") for n in range(runs)]
        await one.page.evaluate(f"location.hash = '#{begun[0].id}'")
        await one.page.wait_for_selector("#run-status[data-status=finished]", timeout=600_000)
        return await one.end(f"{runs} runs at once", f"{len(text) // 4:,} deltas each, in {seconds:.0f} s")


async def long_list(browser: Browser, runs: int) -> Figures:
    """A list of so many runs, searched through the palette."""
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteLog(Path(folder) / "runs.db") as log:

            def make() -> Worker:
                return Worker(ScriptedModel([say("Done.")]), log=log)

            for first in range(0, runs, 100):
                some = [make().run(f"Question {n}") for n in range(first, min(runs, first + 100))]
                await asyncio.gather(*some)
            settings = Settings(max_kept=runs)
            async with WebServer(make, port=0, log=log, settings=settings) as server:
                clock = time.monotonic()
                async with opened(browser, server.url) as one:
                    await one.page.wait_for_selector("#run-list li")
                    taken = time.monotonic() - clock
                    await one.page.keyboard.press("Control+k")
                    await one.page.keyboard.type("question 12", delay=60)
                    await one.page.wait_for_selector("#palette-list li")
                    await one.page.keyboard.press("Escape")
                    for _ in range(20):
                        await one.page.mouse.move(120, 400)
                        await one.page.mouse.wheel(0, 600)
                        await asyncio.sleep(0.05)
                    return await one.end(f"a list of {runs:,}", f"shown after {taken:.1f} s")


async def live(browser: Browser, path: str, runs: int, seconds: float) -> Figures:
    """So many runs that stream a delta a second each, on the page of all runs or on that of a dashboard."""

    text = "word " * int(2 * seconds + 60)

    def make() -> Worker:
        return Worker(ScriptedModel([say(text, chunk=5)], delay=1.0), log=log, labels={"tenant": "acme"})

    async with MemoryLog() as log:
        begun = [make().run(f"Run {n}") for n in range(runs)]
        served = WebServer(make, port=0, log=log, dashboards=[USAGE])
        async with served as server, opened(browser, server.url, path) as one:
            await asyncio.sleep(seconds / 10 + 5)
            await one.page.evaluate(GAPS)
            await one.again()
            heap = (await one.end("")).heap
            processed = time.process_time()
            await one.again()
            await asyncio.sleep(seconds)
            server_cpu = (time.process_time() - processed) / seconds
            gaps: list[float] = sorted(await one.page.evaluate("globalThis.gaps.splice(0)"))
            figures = await one.end(f"{runs:,} runs that stream, /{path}")
            p99 = gaps[int(len(gaps) * 0.99)]
            figures.more = (
                f"gap between two frames: p99 {p99:.0f} ms, longest {gaps[-1]:.0f} ms of {len(gaps):,}; heap "
                f"{heap:.1f} to {figures.heap:.1f} MB in {seconds:.0f} s; server {server_cpu:.0%} of a core"
            )
        await asyncio.gather(*(run.cancel() for run in begun))
        return figures


async def main(quick: bool, seconds: float) -> None:
    """Print the table."""
    part = 10 if quick else 1
    if seconds:
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for path in ("fleet", "boards/usage"):
                print((await live(browser, path, 1_000 // part, seconds)).line(), flush=True)
            await browser.close()
        return
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = [
            await opening(browser, 10),
            await finished_calls(browser, 1_000 // part),
            await deltas(browser, 20_000 // part, 40 / part),
            await at_once(browser, 30, 20 / part),
            await long_list(browser, 5_000 // part),
        ]
        print(HEAD, *(one.line() for one in found), sep="\n")
        missed = [one.name for one in found if one.cpu > MAX_CPU]
        print(f"\nLimits: {MAX_CPU} % of a core, {MAX_FRAME} ms a frame. CPU over: {', '.join(missed) or 'none'}.")
        await browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure a tenth")
    parser.add_argument("--live", type=float, default=0.0, metavar="SECONDS", help="only runs that stream, so long")
    given = parser.parse_args()
    asyncio.run(main(given.quick, given.live))
