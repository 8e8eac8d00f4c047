"""An operator of your own: whole lines instead of pieces of text. It composes with ours and with reactivex's.

Needs the environment variable ``ANTHROPIC_API_KEY``.
"""

import asyncio

from reactivex import operators as ops

from rxworker import Worker
from rxworker.operators import Operator, decode, text_deltas
from rxworker.providers import Anthropic


class LineDecoder:
    """Pieces of text in, whole lines out. The pieces are joined once, so a long line costs no more than short ones."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def feed(self, data: str) -> list[str]:
        """Take a piece; return the lines it completes."""
        first, *more = data.split("\n")
        self.pieces.append(first)
        if not more:
            return []
        line, self.pieces = "".join(self.pieces), [more.pop()]
        return [line, *more]

    def finish(self) -> list[str]:
        """Return what was left over."""
        return ["".join(self.pieces)] if any(self.pieces) else []


def lines() -> Operator[str, str]:
    r"""Whole lines, out of the pieces of a text.

    -an o-ld po-nd\na -frog-|
    [ lines() ]
    -----------an old pond--(a frog,|)
    """
    return decode(LineDecoder)


def numbered(line: str, index: int) -> str:
    return f"{index + 1}  {line}"


async def main() -> None:
    run = Worker(Anthropic("claude-sonnet-4-6")).run("A haiku about a pond, nothing else.")
    run.events.pipe(text_deltas(), lines(), ops.map_indexed(numbered)).subscribe(print)
    await run


if __name__ == "__main__":
    asyncio.run(main())
