"""Tools with state: methods of an object. One of them reports its progress while it works.

Needs the environment variable ``ANTHROPIC_API_KEY``.
"""

import asyncio
from collections.abc import AsyncIterator

from reactivex import operators as ops

from rxworker import Worker, tool
from rxworker.events import ToolProgress
from rxworker.operators import only
from rxworker.providers import Anthropic
from rxworker.tools import Progress


class Bookshelf:
    """The state is the object's; both tools share it."""

    def __init__(self) -> None:
        self.books: list[str] = []

    @tool
    async def add_book(self, title: str) -> str:
        """Put a book on the shelf.

        Args:
            title: Its title.
        """
        self.books.append(title)
        return f"{len(self.books)} on the shelf"

    @tool(effect="pure", timeout=10)
    async def read_all(self) -> AsyncIterator[Progress[str] | str]:
        """Read every book on the shelf and return their subjects."""
        for number, title in enumerate(self.books, start=1):
            yield Progress(f"reads {title}, {number} of {len(self.books)}")
        yield f"{len(self.books)} books about ponds"  # the last value is the result


async def main() -> None:
    shelf = Bookshelf()
    worker = Worker(Anthropic("claude-sonnet-5-5"), tools=[shelf.add_book, shelf.read_all])
    run = worker.run("Shelve Walden and The Pond, then read them all. What are they about?")

    def told(event: ToolProgress) -> str:
        return f"... {event.progress}"

    run.events.pipe(only(ToolProgress), ops.map(told)).subscribe(print)
    result = await run
    print(result.text)
    print(shelf.books)


if __name__ == "__main__":
    asyncio.run(main())
