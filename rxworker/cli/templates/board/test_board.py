"""The panels over recorded runs: a dashboard is a function of records."""

import asyncio

from board import BOARD, make_worker
from reactivex import operators as ops
from rxworker.events import Record
from rxworker.operators import merge_runs


async def record(count: int) -> list[Record]:
    runs = [make_worker().run("What is in the hall?") for _ in range(count)]
    return await merge_runs(runs).pipe(ops.to_list())


def test_the_panels_show_the_sums_of_all_runs() -> None:
    values = [state.value for state in BOARD.at(asyncio.run(record(2)))]
    letters, tokens, _, calls = values
    assert letters == 2 * len("There is nothing in the hall.")
    assert tokens == 60
    assert calls == {"look": 2}
