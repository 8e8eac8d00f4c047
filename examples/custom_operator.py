"""An operator of your own: numbered lines instead of pieces of text.

It is composed of operators of rxworker and of reactivex.

Needs the environment variable ``ANTHROPIC_API_KEY``.
"""

import asyncio

from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker
from rxworker.events import Event
from rxworker.operators import lines, text_deltas
from rxworker.operators.kernel import Operator
from rxworker.providers import Anthropic


def numbered_lines() -> Operator[Event, str]:
    r"""The lines of the visible text, numbered from 1.

    -a---b---c-e-|               a "an o", b "ld pond\na", c " frog", e BlockStop
    [ numbered_lines() ]
    -----A-----B-|               A "1  an old pond", B "2  a frog"
    """

    def numbered(line: str, index: int) -> str:
        return f"{index + 1}  {line.rstrip()}"

    def apply(source: Observable[Event]) -> Observable[str]:
        return source.pipe(lines(), text_deltas(), ops.map_indexed(numbered))

    return apply


async def main() -> None:
    run = Worker(Anthropic("claude-sonnet-5-5")).run("A haiku about a pond, nothing else.")
    run.events.pipe(numbered_lines()).subscribe(print)
    await run


if __name__ == "__main__":
    asyncio.run(main())
