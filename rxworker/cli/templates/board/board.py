"""A dashboard over many runs: in the terminal with ``python board.py``, and on a page with ``rxworker serve``.

``rxworker serve --log sqlite:runs.db --dashboard board:BOARD board:make_worker`` shows it over the runs of a log.
"""

import asyncio

from reactivex import Observable
from reactivex import operators as ops
from rxworker import Worker, tool
from rxworker.boards import Dashboard, above, board_text, panel
from rxworker.events import Record, ToolStart
from rxworker.operators import events, text_deltas
from rxworker.panels import cost, count, tokens, tool_of
from rxworker.testing import ScriptedModel, call, say


def letters(records: Observable[Record]) -> Observable[int]:
    """How many letters the models have written: a panel of your own."""
    return records.pipe(events(), text_deltas(), ops.map(len), ops.scan(int.__add__))


BOARD = Dashboard(
    [
        panel("Letters", letters, view="area"),
        panel("Tokens", tokens),
        panel("Spent", cost(), unit="USD", alert=above(1.0)),
        panel("Calls", count(ToolStart), view="bar", group=tool_of),
    ],
    title="Desk",
)


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    await asyncio.sleep(0.1)
    return f"nothing in {where}"


def make_worker() -> Worker:
    """Looks into rooms. Put a provider of ``rxworker.providers`` in the place of the script."""
    answers = [call("look", where="the hall"), say("There is nothing in the hall.")]
    return Worker(ScriptedModel(answers, model="gpt-5.4-mini"), tools=[look])


async def main() -> None:
    runs = [make_worker().run(f"What is in room {number}?") for number in range(20)]
    board = BOARD.show(runs)
    for run in runs:
        await run
    print(board_text(BOARD, board.states, width=60))


if __name__ == "__main__":
    asyncio.run(main())
