"""rxworker: every reader iterates over the run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import kit

from rxworker import Run, Worker, tool
from rxworker.events import AttemptRetract, Event, TextDelta
from rxworker.log import SQLiteLog
from rxworker.providers import OpenAIChat

PATH = "/v1/chat/completions"


def model() -> OpenAIChat:
    return OpenAIChat("gpt-5.2", api_key="none", base_url=kit.URL)


async def follow(run: Run, reader: kit.Reader) -> None:
    async for record in run:
        event: Event = record.event
        if isinstance(event, TextDelta):
            await reader.read(event.text)
        elif isinstance(event, AttemptRetract):
            reader.text = ""


async def watch(readers: list[kit.Reader], ended: kit.Ended) -> None:
    run = Worker(model()).run("Count.")
    reading = [asyncio.create_task(follow(run, reader)) for reader in readers]
    ended((await run).text)
    await asyncio.gather(*reading, return_exceptions=True)


async def count() -> int:
    run = Worker(model()).run("Count.")
    return sum([len(record.event.text) async for record in run if isinstance(record.event, TextDelta)])


async def late() -> str:
    run = Worker(model()).run("Count.")
    await run
    reader = kit.Reader()
    await follow(run, reader)
    return reader.text


async def reload(ended: kit.Ended) -> str:
    run = Worker(model()).run("Count.")
    seen = 0
    async for record in run:
        seen += isinstance(record.event, TextDelta)
        if seen == kit.HALF:
            break  # the page is closed
    page = kit.Reader()
    await follow(run, page)
    ended((await run).text)
    return page.text


async def work(tools: list[kit.Tool], again: bool) -> str:
    own = [tool(effect="idempotent")(each) for each in tools]
    async with SQLiteLog(kit.FOLDER / "runs.db", lease=0.5) as log:
        worker = Worker(model(), tools=own, log=log)
        if not again:
            return (await worker.run("Work.")).text
        (info,) = await log.list()
        await asyncio.sleep(0.7)  # the lease of the killed process ends
        return (await worker.recover(info.run_id)).text


async def cancel(cancelling: Callable[[], None]) -> None:
    run = Worker(model()).run("Count.")
    async for record in run:
        if isinstance(record.event, TextDelta):
            break
    cancelling()
    await run.cancel()


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
