"""The type of the answer belongs to the run: it is stored with it, and no other run of the worker has it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, assert_type

import pytest
from msgspec import Struct

from rxworker import Finished, Paused, Run, Worker, tool
from rxworker.decisions import Decided
from rxworker.errors import LogError
from rxworker.events import HookVerdict, RunRecover, RunResume, RunStart
from rxworker.log import EventLog, MemoryLog, fork_run
from rxworker.messages import OutputFormat
from rxworker.resume.paused import decide_command
from rxworker.testing import ScriptedModel, call
from rxworker.turn.result import Output
from rxworker.worker import load_paused, save_paused, submit, work
from tests.log.processes import stored
from tests.log.test_permissions_of_runs import cut
from tests.pauses import pause_of


class Forecast(Struct):
    city: str
    days: list[int]


GOOD = '{"city": "Kyoto", "days": [17]}'
VALUE = {"city": "Kyoto", "days": [17]}
FORMAT = Output(Forecast).format


@tool(requires_approval=True)
async def look() -> str:
    """Look."""
    return "17"


def worker(log: EventLog | None, *replies: str | Any) -> tuple[Worker, ScriptedModel]:
    model = ScriptedModel(replies)
    return Worker(model, tools=[look], log=log), model


def formats(model: ScriptedModel) -> list[OutputFormat | None]:
    return [request.options.output for request in model.requests]


async def paused_run(log: EventLog, output: type[Any] | None = None) -> Paused[object]:
    first, _ = worker(log, call("look"))
    run = first.run("weather?") if output is None else first.run("weather?", output=output)
    return await pause_of(run)


async def recovered(log: MemoryLog, run_id: str, by: Worker) -> Run[object]:
    return await by.recover(run_id).started()


async def decided(log: MemoryLog, run_id: str, by: Worker) -> Run[object]:
    return await by.decide(run_id).started()


async def taken(log: MemoryLog, run_id: str, by: Worker) -> Run[object]:
    waiting = await pause_of(by.load(run_id))
    await log.send(run_id, decide_command(waiting, Decided(None)))
    return await by.recover(run_id).started()


async def loaded(log: MemoryLog, run_id: str, by: Worker) -> Run[object]:
    waiting = await pause_of(by.load(run_id))
    return by.resume(load_paused(save_paused(waiting)))


async def forked(log: MemoryLog, run_id: str, by: Worker) -> Run[object]:
    return await by.recover(await fork_run(log, run_id, 1)).started()


Continue = Callable[[MemoryLog, str, Worker], Awaitable[Run[object]]]
PAUSED: Sequence[Continue] = (decided, taken, loaded)


@pytest.mark.parametrize("go_on", PAUSED)
@pytest.mark.parametrize("output", [Forecast, None])
async def test_a_paused_run_keeps_its_format_and_takes_none_from_its_worker(
    go_on: Continue, output: type[Any] | None, log: MemoryLog
) -> None:
    paused = await paused_run(log, output)
    by, model = worker(log, GOOD if output is None else '{"value": [1]}', "Warm.", GOOD)
    # A run of the other sort comes before.
    if output is None:
        await by.run("weather?", output=Forecast)
    else:
        await by.run("numbers?", output=list[int])
    run = await go_on(log, paused.run_id, by)
    result = await run
    assert isinstance(result, Finished)
    if output is None:
        assert (result.text, result.output, formats(model)[1:]) == ("Warm.", None, [None])
    else:
        assert (result.output, formats(model)[1:]) == (VALUE, [FORMAT, FORMAT])
        verdicts = [r.event for r in [x async for x in run] if isinstance(r.event, HookVerdict)]
        assert [each.hook for each in verdicts] == ["output"]


@pytest.mark.parametrize("go_on", [recovered, forked])
async def test_a_run_that_was_cut_off_keeps_its_format_and_its_worker_gets_none(
    go_on: Continue, log: MemoryLog
) -> None:
    first, _ = worker(log, GOOD)
    run = first.run("weather?", output=Forecast)
    assert (await run).output == Forecast("Kyoto", [17])
    by, model = worker(log, "Warm.", GOOD, "In words.")
    name = await cut(log, run.id, "run_start")
    result = await (await go_on(log, name, by))
    assert (result.output, formats(model)) == (VALUE, [FORMAT, FORMAT])
    assert (await by.run("And in words?")).text == "In words."
    assert formats(model)[2:] == [None]


async def test_a_plain_run_that_was_cut_off_is_not_forced_into_a_type(log: MemoryLog) -> None:
    first, _ = worker(log, "Warm.")
    run = first.run("weather?")
    await run
    by, model = worker(log, GOOD, "Warm.")
    await by.run("weather?", output=Forecast)
    result = await by.recover(await cut(log, run.id, "run_start"))
    assert (result.text, result.output, formats(model)[1:]) == ("Warm.", None, [None])


async def test_the_type_may_be_given_again(log: MemoryLog) -> None:
    first, _ = worker(log, GOOD)
    plain, typed = first.run("weather?"), None
    await plain
    typed = await cut(log, plain.id, "run_start")
    by, model = worker(log, "Warm.", GOOD)
    run = await by.recover(typed, output=Forecast).started()
    assert_type(run, Run[Forecast])
    assert (await run).output == Forecast("Kyoto", [17])
    assert formats(model) == [FORMAT, FORMAT]
    events = [record.event for record in await stored(log, typed)]
    assert [e.output_format for e in events if isinstance(e, RunRecover)] == [FORMAT]
    paused = await paused_run(log)
    by, model = worker(log, GOOD)
    decided = await by.decide(paused.run_id, output=Forecast).started()
    assert_type(decided, Run[Forecast])
    assert (await decided).output == Forecast("Kyoto", [17])


async def test_a_worker_resumes_its_own_run_with_the_type_and_another_with_the_format() -> None:
    for is_own in (True, False):
        by, model = worker(None, call("look"), GOOD)
        paused = await pause_of(by.run("weather?", output=Forecast))
        assert paused.output_format == FORMAT
        if not is_own:
            by, model = worker(None, GOOD)
        result = await by.resume(paused)
        assert result.output == (Forecast("Kyoto", [17]) if is_own else VALUE)
        assert formats(model)[-1] == FORMAT


async def test_a_submitted_run_has_the_type(log: MemoryLog) -> None:
    run = await submit(log, "weather?", output=Forecast)
    by, model = worker(None, "Warm.", GOOD)
    done = asyncio.get_running_loop().create_future()

    def begun(run: Run[object]) -> None:
        asyncio.ensure_future(run).add_done_callback(lambda each: done.set_result(each.result()))

    async with asyncio.timeout(60):
        working = asyncio.create_task(work(log, lambda _: by, on_run=begun))
        result = await done
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert (result.run_id, result.output, formats(model)) == (run, VALUE, [FORMAT, FORMAT])


async def test_the_format_is_in_the_records(log: MemoryLog) -> None:
    paused = await paused_run(log, Forecast)
    (begin,) = [r.event for r in await stored(log, paused.run_id) if isinstance(r.event, RunStart)]
    assert begin.output_format == FORMAT
    by, _ = worker(log, GOOD)
    run = await by.decide(paused.run_id).started()
    await run
    resume = (await stored(log, run.id))[0].event
    assert isinstance(resume, RunResume)
    assert resume.output_format == FORMAT


NUMBERS = Output(list[int]).format


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (FORMAT, GOOD, VALUE),
        (FORMAT, f"```json\n{GOOD}\n```", VALUE),
        (NUMBERS, '{"value": [1, 2]}', [1, 2]),
        (FORMAT, "Warm.", "malformed"),
        (FORMAT, "[1]", r"expected `object`, got `array` - at `\$`"),
        (FORMAT, '{"city": "Kyoto"}', "missing required field `days`"),
        (FORMAT, '{"city": 1, "days": []}', r"expected `string`, got `int` - at `\$.city`"),
        (FORMAT, '{"city": "x", "days": [true]}', r"expected `integer`, got `bool`"),
        (NUMBERS, '{"value": [1], "more": 2}', [1]),
        (NUMBERS, '{"value": [1.5]}', r"expected `integer`, got `float` - at `\$.value\[0\]`"),
        (NUMBERS, '{"value": [1.0]}', [1.0]),
    ],
)
def test_a_stored_format_reads_json_that_fits_its_schema(form: OutputFormat, text: str, value: Any) -> None:
    output = Output.from_format(form)
    if isinstance(value, str):
        complaint = output.complaint(text)
        assert complaint is not None
        with pytest.raises(Exception, match=value):
            output.decode(text)
    else:
        assert output.complaint(text) is None
        assert output.decode(text) == value
    assert output.format == form


async def test_a_run_is_submitted_once_with_one_type(log: MemoryLog) -> None:
    for _ in range(2):
        assert await submit(log, "weather?", run_id="one", output=Forecast) == "one"
    for other in (None, list[int]):
        with pytest.raises(LogError, match="another type"):
            await submit(log, "weather?", run_id="one", output=other)
