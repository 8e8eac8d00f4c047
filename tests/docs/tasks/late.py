"""A consumer that comes late, and one that goes on after a number."""

import asyncio

from rxworker import Worker
from rxworker.events import TextDelta
from rxworker.operators import text_deltas
from rxworker.testing import ScriptedModel, say

STORY = "It rains in Kyoto, and it will rain tomorrow."


async def main() -> None:
    run = Worker(ScriptedModel([say(STORY)])).run("How is the weather?")
    seen, first = 0, ""
    async for record in run:
        if isinstance(record.event, TextDelta):
            seen, first = record.seq, record.event.text
            break
    await run

    late: list[str] = []
    run.events.pipe(text_deltas()).subscribe(late.append)
    print("late:", "".join(late))
    assert "".join(late) == STORY

    rest: list[str] = []
    numbers: list[int] = []
    async for record in run.watch(after=seen):
        numbers += range(record.first, record.seq + 1)
        if isinstance(record.event, TextDelta):
            rest.append(record.event.text)
    print("after", seen, "".join(rest))
    assert first + "".join(rest) == STORY
    assert numbers == list(range(seen + 1, run.last_seq + 1))


if __name__ == "__main__":
    asyncio.run(main())
