"""A board for one run: tokens, cost with a limit, the calls of each tool and the last sentence.

In a terminal it is drawn again whenever it changes.

Needs the environment variable ``ANTHROPIC_API_KEY``.
"""

import asyncio
import sys

from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, tool
from rxworker.boards import Dashboard, above, board_text, panel
from rxworker.events import Record, ToolStart
from rxworker.operators import events, sentences, text_deltas
from rxworker.panels import cost, count, status, tokens, tool_of
from rxworker.providers import Anthropic


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"{city}: 17 °C, clear"


def last_sentence(records: Observable[Record]) -> Observable[str]:
    return records.pipe(events(), sentences(), text_deltas(), ops.map(str.strip))


BOARD = Dashboard(
    [
        panel("Status", status, view="state"),
        panel("Tokens", tokens),
        panel("Cost", cost(), unit="USD", alert=above(0.05)),
        panel("Calls", count(ToolStart), view="bar", group=tool_of),
        panel("Last sentence", last_sentence, view="text"),
    ],
    title="One run",
)


CLEAR = "\033[2J\033[H"


async def main() -> None:
    run = Worker(Anthropic("claude-sonnet-5-5"), tools=[get_weather]).run("What is the weather in Kyoto and in Oslo?")
    board = BOARD.show(run)
    if sys.stdout.isatty():
        board.changes.subscribe(lambda _: print(CLEAR, board_text(BOARD, board.states)))
    await run
    print(board_text(BOARD, board.states, width=60))


if __name__ == "__main__":
    asyncio.run(main())
