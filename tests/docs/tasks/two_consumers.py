"""The text of one run for two consumers: one is slow, and one raises."""

import asyncio

from rxworker import Worker
from rxworker.events import TextDelta, WatcherDetach
from rxworker.operators import only, text_deltas
from rxworker.testing import ScriptedModel, say

STORY = "The pond was silent until a frog jumped in."


async def main() -> None:
    run = Worker(ScriptedModel([say(STORY)])).run("A story, please.")
    slow: list[str] = []

    async def read_slowly() -> None:
        async for record in run.watch(name="slow"):
            if isinstance(record.event, TextDelta):
                slow.append(record.event.text)
                await asyncio.sleep(0.01)

    def broken(text: str) -> None:
        raise OSError(f"no display for {text!r}")

    detached: list[WatcherDetach] = []
    run.events.pipe(text_deltas()).subscribe(broken, lambda _: None)
    run.events.pipe(only(WatcherDetach)).subscribe(detached.append)
    reading = asyncio.create_task(read_slowly())
    result = await run
    await reading
    print(detached[0].watcher, detached[0].error)
    print("".join(slow), len(slow))
    assert result.text == STORY == "".join(slow)
    assert len(detached) == 1
    assert "OSError" in detached[0].error


if __name__ == "__main__":
    asyncio.run(main())
