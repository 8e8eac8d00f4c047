"""Try the rules of a stream on a peer's own events: ``python rules.py PEER CASE``, in the environment of the peer.

It prints what it has found of each rule that the case is about. A case is what the server answers.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import kit

from rxworker.events import Custom, Record, RunStop, TextDelta
from rxworker.testing.conformance import DELIVERY, Row, Rule, check, check_records

CASES: dict[str, tuple[Rule, ...]] = {
    "tools": (Rule.BLOCKS_END, Rule.NOTHING_AFTER_END, Rule.USAGE_ONCE, Rule.CALLS_END, Rule.NUMBERS_WITHOUT_GAPS),
    "cut": (Rule.CUT_IS_NOT_SUCCESS,),
    "again": (Rule.RETRACTED_IS_MARKED,),
    "failed": (Rule.ERRORS_ARE_SEEN,),
    "nested": (Rule.NESTED_BY_PATH,),
    "watched": tuple(DELIVERY),
}
"""The rules that each case is about."""
INNER = "inner words"
"""What the model of the run inside answers."""


def text_of(records: list[Record]) -> str:
    """The text of the run that was begun."""
    return "".join([record.event.text for record in records if isinstance(record.event, TextDelta) and not record.path])


async def tried(name: str, case: str) -> list[Row]:
    """What was found of the rules of a case."""
    program: Any = importlib.import_module(f"rules_{name}")
    if case == "watched":
        return list((await check(program.watched, rules=CASES[case], seconds=kit.LIMIT / 2)).rows)
    numbers: list[int] = []
    records, error = await read(program.events, case, numbers)
    by_number = [Record(number, "run", 0, 0, 0.0, Custom("event")) for number in numbers]
    found = {row.rule: row for row in check_records(records, error=error).rows}
    found[Rule.NUMBERS_WITHOUT_GAPS] = check_records(by_number).rows[[*Rule].index(Rule.NUMBERS_WITHOUT_GAPS)]
    return [seen_of(found[rule], case, records, error) for rule in CASES[case]]


def seen_of(row: Row, case: str, records: list[Record], error: Exception | None) -> Row:
    """The row, with what is known of the case, and not of the stream alone."""
    succeeds = error is None and any(isinstance(record.event, RunStop) and not record.path for record in records)
    match case, row.outcome:
        case "tools", "not tried" if row.rule is Rule.NUMBERS_WITHOUT_GAPS:
            return Row(row.rule, "broken", "the events of a run have no numbers")
        case "cut", "kept" if succeeds:
            return Row(row.rule, "broken", "a response without its last frames counts as a whole one")
        case "again", _ if error is not None:
            return Row(row.rule, "not tried", f"the request is not sent again: {type(error).__name__}")
        case "failed", "not tried":
            return Row(row.rule, "broken", "the stream ends without the error")
        case "nested", _ if INNER in text_of(records):
            return Row(row.rule, "broken", "the text of the run inside has no path")
        case "nested", "not tried":
            return Row(row.rule, "not tried", "an agent in a tool adds nothing to the stream of the run")
        case _:
            return row


async def read(
    events: Callable[[str, list[int]], AsyncIterator[Record]], case: str, numbers: list[int]
) -> tuple[list[Record], Exception | None]:
    """The records of a run, and the error that its stream ends with."""
    records: list[Record] = []
    try:
        async with asyncio.timeout(kit.LIMIT):
            async for record in events(case, numbers):
                records.append(record)
    except Exception as error:
        return records, error
    return records, None


def main() -> None:
    """Print a list of JSON."""
    rows = asyncio.run(tried(*sys.argv[1:3]))
    print(json.dumps([[row.rule, row.outcome, row.reason] for row in rows]), flush=True)
    os._exit(0)  # nothing that a peer left open holds the process


if __name__ == "__main__":
    main()
