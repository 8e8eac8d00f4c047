"""A dashboard with a panel of its own, grouped by run, now and at a moment of the past."""

import asyncio

from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker
from rxworker.boards import Dashboard, board_text, panel
from rxworker.events import Record
from rxworker.operators import events, merge_runs, rate, text_deltas
from rxworker.panels import run_of
from rxworker.testing import ScriptedModel, say


def letters_a_second(records: Observable[Record]) -> Observable[float]:
    return records.pipe(events(), text_deltas(), ops.map(len), rate(1.0))


BOARD = Dashboard([panel("Letters", letters_a_second, view="line", unit="letters/s", group=run_of)], title="Writers")


async def record_runs() -> list[Record]:
    texts = ["A pond.", "An old and silent pond."]
    runs = [Worker(ScriptedModel([say(text)])).run("A haiku!") for text in texts]
    records = await merge_runs(runs).pipe(ops.to_list())
    return [replace(record, time=record.seq / 10) for record in records]


def main() -> None:
    records = sorted(asyncio.run(record_runs()), key=lambda record: record.time)
    end = records[-1].time
    for moment in (0.5, 0.8, end, end + 5):
        [state] = BOARD.at(records, moment)
        print(f"{moment:.1f}", state.value)
    [now] = BOARD.at(records, end)
    [past] = BOARD.at(records, 0.8)
    [later] = BOARD.at(records, end + 5)
    print(board_text(BOARD, [now]))
    assert isinstance(now.value, dict)
    assert isinstance(past.value, dict)
    assert len(now.value) == 2
    assert now.value != past.value
    assert isinstance(later.value, dict)
    assert set(later.value.values()) == {0.0}
    assert now.error == ""


if __name__ == "__main__":
    main()
