"""A board for a moderator.

Of each run the sentences that need a look, without the numbers in them, and a limit for how many there are.

Needs the environment variable ``OPENAI_API_KEY``.
"""

import asyncio
import logging
import re

from reactivex import Observable, Subject, compose
from reactivex import operators as ops

from rxworker import Run, Worker
from rxworker.boards import Dashboard, above, board_text, panel
from rxworker.events import Record
from rxworker.operators import events, mask, sentences, text_deltas
from rxworker.panels import run_of
from rxworker.providers import OpenAIChat

SUSPECT = re.compile(r"password|lawyer|refund", re.IGNORECASE)


def suspect(records: Observable[Record]) -> Observable[str]:
    """The suspect sentences. Numbers are masked before the board has them."""
    masked = records.pipe(events(), mask(r"\d{4,}", "[number]"), sentences(), text_deltas())
    return masked.pipe(ops.filter(lambda text: SUSPECT.search(text) is not None))


DESK = Dashboard(
    [
        panel(
            "Findings",
            compose(suspect, ops.map_indexed(lambda _, index: index + 1)),
            group=run_of,
            view="bar",
            alert=above(1),
        ),
        panel("To look at", compose(suspect, ops.scan(str.__add__)), group=run_of, view="text"),
    ],
    title="Moderation",
)


async def main() -> None:
    runs: Subject[Run[object]] = Subject()
    board = DESK.show(runs)
    board.alerts.subscribe(lambda change: print(f"{change.group} needs a look"))
    for letter in ("Who are you?", "My password?", "Good morning."):
        run = Worker(OpenAIChat("gpt-5.4-mini")).run(letter)
        runs.on_next(run)
        await run
    print(board_text(DESK, board.states, width=60))


if __name__ == "__main__":
    # The alert is a warning in the log too, which is not wanted on the console here.
    logging.getLogger("rxworker.boards").setLevel(logging.ERROR)
    asyncio.run(main())
