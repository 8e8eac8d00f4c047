"""Text that is checked before anybody sees it, with personal data masked."""

import asyncio
import re

from rxworker import Worker
from rxworker.errors import TextRejectedError
from rxworker.operators import hold_back, mask, text_deltas
from rxworker.testing import ScriptedModel, say

ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.\w+")
checked: list[str] = []


async def is_allowed(text: str) -> bool:
    checked.append(text)
    return "hunter2" not in text


def make_worker(answer: str) -> Worker:
    operators = [mask(ADDRESS, "[address]"), hold_back(is_allowed)]
    return Worker(ScriptedModel([say(answer)]), operators=operators)


async def main() -> None:
    run = make_worker("Write to ada@example.org about the pond.").run("How do I reach Ada?")
    shown: list[str] = []
    run.events.pipe(text_deltas()).subscribe(shown.append)
    result = await run
    print("".join(shown))
    assert "".join(shown) == result.text == "Write to [address] about the pond."
    assert not any("example.org" in text for text in checked)

    bad = make_worker("The password is hunter2.").run("What is the password?")
    seen: list[str] = []
    bad.events.pipe(text_deltas()).subscribe(seen.append, lambda _: None)
    try:
        await bad
    except TextRejectedError as error:
        print("rejected:", error)
    else:
        raise AssertionError("the text was not rejected")
    assert seen == []


if __name__ == "__main__":
    asyncio.run(main())
